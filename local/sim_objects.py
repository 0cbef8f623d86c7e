"""What a write makes of an object: the rules between a request and what is stored.

Decides: names, generation, status, finalizers, graceful deletion, optimistic concurrency, as
functions from the stored and the sent object to the object to store (registry/rest/create.go,
update.go, delete.go and the strategies of each kind). Deliberately does not know revisions, time
or storage: stamps come in as arguments. No schema is checked.
"""

from __future__ import annotations

import copy
import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

from local import sim_status
from local.sim_fields import Writer, owned
from local.sim_kinds import CRDS, NAMESPACES, Json, Kind, crd_problem, kind_of_crd

CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "namespace",
    "name",
    "generateName",
    "managedFields",
    "resourceVersion",
)
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the server adds to a write: the time (RFC 3339, seconds) and a fresh uid."""

    time: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Grace in seconds (None: the kind's default) and preconditions ("" : none)."""

    grace: int | None = None
    uid: str = ""
    version: str = ""


def created(kind: Kind, sent: Json, writer: Writer, stamp: Stamp) -> Json:
    """Return the object to store for a create; its namespace is already in its metadata.

    Raises Refused (422, 500) for names, finalizers and versions the server would not take.
    """
    meta = _sent_metadata(sent)
    if meta.pop("resourceVersion", ""):
        raise sim_status.server_error("resourceVersion should not be set on objects to be created")
    obj = _content(sent)
    for ours in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"):
        meta.pop(ours, None)
    _check_name(kind, meta)
    _check_finalizers(kind, meta)
    obj["metadata"] = meta | {"uid": stamp.uid, "creationTimestamp": stamp.time}
    if kind.generation != "never":
        obj["metadata"]["generation"] = 1
    if kind.has_status:
        obj.pop("status", None)
    if kind is NAMESPACES:
        _keep_namespace(obj, {"finalizers": ["kubernetes"]})
    if kind is CRDS:
        _check_crd(obj)
    # What the server itself fills in belongs to nobody (rest.ResetFieldsStrategy).
    own = {key: value for key, value in obj.items() if kind is not NAMESPACES or key != "spec"}
    obj["metadata"] = _with_owners(None, own, writer, stamp)["metadata"]
    if kind.has_status and kind.initial_status is not None:
        obj["status"] = copy.deepcopy(kind.initial_status)
    if kind is CRDS:
        obj["status"]["storedVersions"] = [v["name"] for v in obj["spec"]["versions"] if v.get("storage")]
    return obj


def updated(kind: Kind, old: Json, sent: Json, writer: Writer, stamp: Stamp) -> Json:
    """Return the object that an update makes of `old`; equal to `old` when nothing changes.

    Raises Refused: 409 for a stale version, 422 for changes of what is immutable.
    """
    new = _content(sent)
    new["metadata"] = _updated_metadata(kind, old, sent)
    through_status = writer.subresource == "status"
    if kind.has_status:
        _merge_status(kind, old, new, through_status=through_status)
    if kind is NAMESPACES:
        _keep_namespace(new, old.get("spec", {}))
    _check_finalizers(kind, new["metadata"])
    if _terminating(old):
        _check_no_new_finalizers(kind, new, old)
    generation = old["metadata"].get("generation", 0)
    if kind.generation != "never" and not through_status and _spec_changed(kind, old, new):
        generation += 1
    new["metadata"].pop("generation", None)
    if generation:
        new["metadata"]["generation"] = generation
    if _comparable(new) == _comparable(old):
        return old
    return _with_owners(old, new, writer, stamp)


def deleted_by_update(new: Json) -> bool:
    """Say whether an update is in truth the end: terminating, no grace and no finalizer left."""
    meta = new["metadata"]
    grace = meta.get("deletionGracePeriodSeconds", 0)
    return _terminating(new) and not _finalizers(new) and grace == 0


def marked(kind: Kind, old: Json, options: DeleteOptions, now_s: float) -> tuple[Json, bool]:
    """Return (object after the delete request, whether it goes for good).

    The object is `old` itself when the request changes nothing. A graceful kind is marked even
    when it goes at once: the real server commits that mark as a version of its own.
    Raises Refused (409) when a precondition fails.
    """
    _check_preconditions(kind, old, options)
    if kind is CRDS:
        return (old if _terminating(old) else _mark_crd(old, now_s)), True
    if _terminating(old):
        return _shortened(old, options.grace) if kind.graceful else (old, False)
    if not kind.graceful and not _finalizers(old):
        return old, True
    grace = _grace(old, options.grace) if kind.graceful else 0
    new = _with_metadata(
        old,
        deletionTimestamp=rfc3339(now_s + grace),
        deletionGracePeriodSeconds=grace,
        **_raised_generation(old),
    )
    return new, grace == 0 and not _finalizers(old)


def terminating(namespace: Json, now_s: float) -> Json:
    """Return a namespace as it is while its content goes."""
    return _with_metadata(namespace, deletionTimestamp=rfc3339(now_s)) | {"status": {"phase": "Terminating"}}


def established(crd: Json, now: str) -> Json:
    """Return a CustomResourceDefinition with the status of one that is served, since `now`."""
    kind = kind_of_crd(crd)
    names = {"plural": kind.plural, "singular": kind.singular, "kind": kind.kind}
    names |= {"listKind": kind.list_kind}
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]
    return crd | {"status": crd["status"] | {"conditions": conditions, "acceptedNames": names}}


def rfc3339(seconds: float) -> str:
    """Return a point in time, in seconds since 1970, as the API writes it."""
    moment = dt.datetime.fromtimestamp(int(seconds), tz=dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """Return the seconds since 1970 of an RFC 3339 time in UTC."""
    return dt.datetime.fromisoformat(text).timestamp()


def _content(sent: Json) -> Json:
    drop = ("metadata", "kind", "apiVersion")
    return {key: copy.deepcopy(value) for key, value in sent.items() if key not in drop}


def _finalizers(obj: Json) -> tuple[str, ...]:
    return tuple(obj["metadata"].get("finalizers") or ())


def _terminating(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _with_metadata(obj: Json, **fields: Any) -> Json:
    return obj | {"metadata": obj["metadata"] | fields}


def _raised_generation(obj: Json) -> dict[str, int]:
    generation = obj["metadata"].get("generation", 0)
    return {"generation": generation + 1} if generation else {}


def _with_owners(old: Json | None, new: Json, writer: Writer, stamp: Stamp) -> Json:
    entries = owned(old, new, writer, stamp.time)
    new["metadata"].pop("managedFields", None)
    if entries:
        new["metadata"]["managedFields"] = entries
    return new


def _sent_metadata(sent: Json) -> Json:
    """Without what is empty: an emptied map or list is stored as an absent one."""
    found = sent.get("metadata", {}).items()
    return {key: value for key, value in found if value is not None and (value or not isinstance(value, dict | list))}


def _keep_namespace(namespace: Json, spec: Json) -> None:
    """What no client can change: the label of the name, by defaulting, and the finalizers of the content."""
    meta = namespace["metadata"]
    meta["labels"] = (meta.get("labels") or {}) | {"kubernetes.io/metadata.name": meta["name"]}
    namespace["spec"] = copy.deepcopy(spec)


def _check_crd(crd: Json) -> None:
    if problem := crd_problem(crd):
        field, message = problem
        reason = "Required" if message.startswith("Required") else "Invalid"
        raise sim_status.invalid(CRDS, crd["metadata"]["name"], [(f"FieldValue{reason}", field, message)])


def _check_name(kind: Kind, meta: Json) -> None:
    name = meta.get("name", "")
    if not name:
        cause = "Required value: name or generateName is required"
        raise sim_status.invalid(kind, "", [("FieldValueRequired", "metadata.name", cause)])
    problems, longest = [], 253
    if kind is NAMESPACES and "." in name:
        problems.append("must not contain dots")
    elif not _NAME.fullmatch(name):
        problems.append(_LABEL_RULE if kind is NAMESPACES else _NAME_RULE)
    if kind is NAMESPACES:
        longest = 63
    if len(name) > longest:
        problems.insert(0, f"must be no more than {longest} characters")
    if problems:
        causes = [("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {text}') for text in problems]
        raise sim_status.invalid(kind, name, causes)


def _check_finalizers(kind: Kind, meta: Json) -> None:
    if kind.custom:
        return
    causes = []
    for index, name in enumerate(meta.get("finalizers") or ()):
        if "/" not in name and name not in _STANDARD_FINALIZERS and name != CRD_FINALIZER:
            text = f'Invalid value: "{name}": name is neither a standard finalizer name nor is it fully qualified'
            causes.append(("FieldValueInvalid", f"metadata.finalizers[{index}]", text))
    if causes:
        raise sim_status.invalid(kind, meta["name"], causes)


def _check_no_new_finalizers(kind: Kind, new: Json, old: Json) -> None:
    added = sorted(set(_finalizers(new)) - set(_finalizers(old)))
    if added:
        listed = ", ".join(f'"{name}"' for name in added)
        text = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found "
            f"new finalizers []string{{{listed}}}"
        )
        # Both the generic and the kind's own validation say it.
        causes = [("FieldValueForbidden", "metadata.finalizers", text)] * 2
        raise sim_status.invalid(kind, new["metadata"]["name"], causes)


def _updated_metadata(kind: Kind, old: Json, sent: Json) -> Json:
    was = old["metadata"]
    meta = _sent_metadata(sent)
    name = was["name"]
    version = meta.pop("resourceVersion", "")
    if not version and kind.needs_version_on_update:
        raise sim_status.version_missing(kind, name)
    if version and version != was["resourceVersion"]:
        raise sim_status.modified(kind, name)
    if _terminating(old):
        meta.pop("deletionTimestamp", None)  # it can neither be taken back nor moved, and trying is no error
    for field in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in meta and meta[field] != was.get(field):
            shown = meta[field] if isinstance(meta[field], int) else f'"{meta[field]}"'
            text = f"Invalid value: {shown}: field is immutable"
            causes = [("FieldValueInvalid", f"metadata.{field}", text)] * 2
            raise sim_status.invalid(kind, name, causes)
    for field in _SERVER_OWNED:
        meta.pop(field, None)
        if field in was:
            meta[field] = was[field]
    return copy.deepcopy(meta)


def _merge_status(kind: Kind, old: Json, new: Json, *, through_status: bool) -> None:
    if not through_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
        return
    for key in (new.keys() | old.keys()) - {"metadata", "status"}:
        new.pop(key, None)
        if key in old:
            new[key] = old[key]
    for field in kind.status_keeps:
        new["metadata"].pop(field, None)
        if field in old["metadata"]:
            new["metadata"][field] = old["metadata"][field]


def _spec_changed(kind: Kind, old: Json, new: Json) -> bool:
    if kind.generation == "content":
        apart = {"metadata", "status"} if kind.has_status else {"metadata"}
        keys = (old.keys() | new.keys()) - apart
        return any(old.get(key) != new.get(key) for key in keys)
    if kind.generation == "spec+annotations":
        was, now = (obj["metadata"].get("annotations") for obj in (old, new))
        if was != now:
            return True
    return bool(old.get("spec") != new.get("spec"))


def _comparable(obj: Json) -> Json:
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return obj | {"metadata": meta}


def _check_preconditions(kind: Kind, old: Json, options: DeleteOptions) -> None:
    meta = old["metadata"]
    if options.uid and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise sim_status.conflict(kind, meta["name"], why, as_kind=True)
    if options.version and options.version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been "
            "modified"
        )
        raise sim_status.conflict(kind, meta["name"], why, as_kind=True)


def _grace(pod: Json, asked: int | None) -> int:
    # Nothing runs of a pod that has no node yet, or that has ended: it need not be waited for.
    phase = pod.get("status", {}).get("phase")
    if not pod.get("spec", {}).get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    if asked is None:
        asked = int(pod["spec"].get("terminationGracePeriodSeconds", 30))
    return asked if asked >= 0 else 1


def _shortened(pod: Json, asked: int | None) -> tuple[Json, bool]:
    meta = pod["metadata"]
    had = meta.get("deletionGracePeriodSeconds", 0)
    grace = had if asked is None else asked if asked >= 0 else 1
    if grace >= had:
        return pod, False
    began = seconds_of(meta["deletionTimestamp"]) - had
    new = _with_metadata(pod, deletionTimestamp=rfc3339(began + grace), deletionGracePeriodSeconds=grace)
    return new, grace == 0 and not _finalizers(pod)


def _mark_crd(crd: Json, now_s: float) -> Json:
    finalizers = [*_finalizers(crd), CRD_FINALIZER]
    return _with_metadata(crd, deletionTimestamp=rfc3339(now_s), finalizers=finalizers)


def _condition(name: str, reason: str, message: str, now: str) -> Json:
    return {
        "type": name,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
