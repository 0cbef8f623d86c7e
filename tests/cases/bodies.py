"""The bytes that the scripted server sends: objects, pages, frames and discovery documents (cases/README.md 2 to 4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

KINDS = {
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "events": "Event",
    "deployments": "Deployment",
    "widgets": "Widget",
}
CUSTOM = {"widgets"}
VERBS = ["get", "list", "watch"]
TYPES = {"A": "ADDED", "M": "MODIFIED", "D": "DELETED"}
END_MARK = "k8s.io/initial-events-end"
_METADATA = {"labels", "annotations", "finalizers", "deletionTimestamp"}


def compact(value: Any) -> bytes:
    """Compact UTF-8 JSON, characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def split(resource: str) -> tuple[str, str, str]:
    """Group, version and plural of `v1/configmaps` or `group/version/plural`."""
    *group, version, plural = resource.split("/")
    return "".join(group), version, plural


def same_kind(resource: str) -> tuple[str, str]:
    """Group and plural: what stays the same over the versions of a resource."""
    group, _, plural = split(resource)
    return group, plural


def api_version(resource: str) -> str:
    """`v1` or `group/version`."""
    return resource.rpartition("/")[0]


def kind(resource: str) -> str:
    """The kind of the objects of a resource."""
    return KINDS[split(resource)[2]]


def thing(obj: Mapping[str, Any], resource: str, *, in_list: bool = False) -> dict[str, Any]:
    """An object as the server shows it; items of a list of a built-in kind carry no kind."""
    metadata: dict[str, Any] = {
        "name": obj.get("name", obj["uid"]),
        "namespace": obj.get("ns", "default"),
        "uid": obj["uid"],
        "resourceVersion": obj["rv"],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if "gen" in obj:
        metadata["generation"] = obj["gen"]
    metadata |= {key: obj[key] for key in sorted(_METADATA & set(obj))}
    if "managers" in obj:
        metadata["managedFields"] = [
            {"apiVersion": api_version(resource), "fieldsType": "FieldsV1", "fieldsV1": {}, **entry}
            for entry in obj["managers"]
        ]
    bare = in_list and split(resource)[2] not in CUSTOM
    whole: dict[str, Any] = {} if bare else {"kind": kind(resource), "apiVersion": api_version(resource)}
    whole["metadata"] = metadata
    special = {"uid", "name", "ns", "rv", "gen", "managers", "fill", *_METADATA}
    whole |= {key: value for key, value in obj.items() if key not in special}
    if "fill" in obj:
        _fill(whole, **obj["fill"])
    return whole


def _fill(whole: dict[str, Any], path: str, bytes: int, char: str) -> None:  # noqa: A002 - the case's own word
    *parents, last = path.strip("/").split("/")
    at = whole
    for name in parents:
        at[name] = dict(at.get(name, {}))
        at = at[name]
    at[last] = char * bytes


def page(body: Mapping[str, Any], resource: str) -> bytes:
    """One page of a list."""
    metadata = {"resourceVersion": body["rv"]}
    if "continue" in body:
        metadata["continue"] = body["continue"]
    return compact(
        {
            "kind": f"{kind(resource)}List",
            "apiVersion": api_version(resource),
            "metadata": metadata,
            "items": [thing(item, resource, in_list=True) for item in body["items"]],
        }
    )


def status(answer: Mapping[str, Any], code: int) -> dict[str, Any]:
    """A Status, from the keys of a step or of an ERROR frame."""
    reason = answer.get("reason") or {401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}.get(code, "")
    details: dict[str, Any] = {}
    if "cause" in answer:
        details["causes"] = [{"reason": answer["cause"], "message": answer["cause"]}]
    if "retry_after" in answer:
        details["retryAfterSeconds"] = answer["retry_after"]
    metadata = {"continue": answer["continue"]} if "continue" in answer else {}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": metadata,
        "status": "Failure",
        "message": f"{reason or 'refused'} by the script",
        "reason": reason,
        **({"details": details} if details else {}),
        "code": code,
    }


def frame(step: Mapping[str, Any], resource: str) -> bytes:
    """The bytes of one frame of a stream, shortened where the script says so."""
    if "raw" in step:
        return step["raw"] if isinstance(step["raw"], bytes) else str(step["raw"]).encode()
    for short, name in TYPES.items():
        if short in step:
            line = compact({"type": name, "object": thing(step[short], resource)}) + b"\n"
            if step.get("newline") is False:
                line = line[:-1]
            return line[: step["bytes"]] if "bytes" in step else line
    if "E" in step:
        return compact({"type": "ERROR", "object": status(step["E"], step["E"]["code"])}) + b"\n"
    metadata: dict[str, Any] = {"resourceVersion": version(step), "creationTimestamp": None}
    if "BEND" in step:
        value = step["BEND"].get("value", "true") if isinstance(step["BEND"], Mapping) else "true"
        metadata["annotations"] = {END_MARK: value}
    bookmark = {"kind": kind(resource), "apiVersion": api_version(resource), "metadata": metadata}
    return compact({"type": "BOOKMARK", "object": bookmark}) + b"\n"


def version(step: Mapping[str, Any]) -> str | None:
    """The version that a frame shows, None where it shows none."""
    for short in ("A", "M", "D", "B", "BEND"):
        if short in step:
            body = step[short]
            return str(body["rv"] if isinstance(body, Mapping) else body)
    return None


def discovery(path: str, served: tuple[str, ...]) -> bytes | None:
    """The discovery document at `path`, None where there is none. The first version named of a group is preferred."""
    versions: dict[str, list[str]] = {}
    for resource in served:
        group, number, _ = split(resource)
        if number not in versions.setdefault(group, []):
            versions[group].append(number)
    if path == "/api":
        return compact({"kind": "APIVersions", "versions": versions.get("", ["v1"]), "serverAddressByClientCIDRs": []})
    if path == "/apis":
        groups = []
        for group, numbers in versions.items():
            if group:
                entries = [{"groupVersion": f"{group}/{number}", "version": number} for number in numbers]
                groups.append({"name": group, "versions": entries, "preferredVersion": entries[0]})
        return compact({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    group_version = path.removeprefix("/apis/") if path.startswith("/apis/") else path.removeprefix("/api/")
    here = [resource for resource in served if api_version(resource) == group_version]
    if not here and group_version != "v1":
        return None
    return compact(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": [
                {
                    "name": split(resource)[2],
                    "singularName": kind(resource).lower(),
                    "namespaced": True,
                    "kind": kind(resource),
                    "verbs": VERBS,
                }
                for resource in here
            ],
        }
    )


def documents(served: tuple[str, ...]) -> set[str]:
    """The paths that a reader of discovery has to read."""
    paths = {"/api", "/apis", "/api/v1"}
    return paths | {f"/apis/{api_version(resource)}" for resource in served if split(resource)[0]}
