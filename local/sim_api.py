"""The Kubernetes API of the simulated server: from a request to an answer or a stream.

Decides: which path means what, which method it takes, and how a body is read and merged.
Deliberately not simulated: server-side apply, strategic merge (taken as merge patch, so lists are
replaced), JSON patch beyond add, replace and remove, dry run, propagation policies (accepted, no
dependents are collected), subresources other than status, Table and protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from local import sim_discovery, sim_patch, sim_status
from local.sim_fields import Writer
from local.sim_kinds import NAMESPACES, Json
from local.sim_objects import DeleteOptions
from local.sim_reads import (
    ReadOptions,
    Scope,
    Watch,
    list_page,
    read_options,
    start_watch,
    validate,
    whole_number,
    with_defaults,
)
from local.sim_status import NoSuchPath, bad_request
from local.sim_store import SimStore
from local.sim_wire import decoded, shown, stored

_PROBES = ("/readyz", "/healthz", "/livez")
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class Request:
    """A request without its connection; header names in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer: JSON, or text when `body` is a string."""

    code: int
    body: Json | str


@dataclass(frozen=True, slots=True)
class Target:
    """What a resource path points at; `name` is empty for a collection."""

    scope: Scope
    name: str = ""
    subresource: str = ""
    collection_is_namespaced: bool = False

    def verb(self, request: Request) -> str:
        """Return the verb as RBAC names it."""
        if request.method == "GET" and not self.name:
            return "watch" if request.query.get("watch", "0") not in ("0", "false") else "list"
        one = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
        many = "delete" if self.name else "deletecollection"
        return one.get(request.method, many)


class SimApi:
    """The API over a store. `wait_s`: how long a version from the future is waited for."""

    def __init__(self, store: SimStore, *, watchlist: bool, wait_s: float, address: str = "") -> None:
        self._store = store
        self._watchlist = watchlist
        self._wait_s = wait_s
        self._address = address

    def target(self, request: Request) -> Target | None:
        """Return what the path points at, None for paths that are no resource.

        Raises Refused (404) for resources that are not served and NoSuchPath.
        """
        parts = [part for part in request.path.split("/") if part]
        if len(parts) < (3 if parts[:1] == ["api"] else 4) or parts[0] not in ("api", "apis"):
            return None
        group, version, *rest = parts[1:] if parts[0] == "apis" else ["", *parts[1:]]
        if sim_discovery.resource_list(group, version, self._store.kinds()) is None:
            known = any(kind.group == group and not kind.custom for kind in self._store.kinds())
            raise sim_status.unknown_resource() if known else NoSuchPath
        return self._resource(group, version, rest)

    def handle(self, request: Request, target: Target | None) -> Answer | Watch:
        """Answer a request. Raises Refused and NoSuchPath."""
        _check_accept(request)
        if target is None:
            return self._document(request)
        if target.name:
            return self._object(request, target)
        if request.method == "GET":
            return self._read(request, target)
        if request.method == "POST":
            return self._create(request, target)
        if request.method == "DELETE":
            return self._delete_collection(request, target)
        raise sim_status.method_not_allowed()

    def _resource(self, group: str, version: str, rest: list[str]) -> Target:
        namespace, in_namespace = "", False
        # /namespaces/<name> and /namespaces/<name>/status are the namespace itself.
        if rest[0] == "namespaces" and len(rest) > 2 and (group or rest[2] != "status"):
            namespace, rest, in_namespace = rest[1], rest[2:], True
        kinds = self._store.kinds()
        kind = next((k for k in kinds if (k.group, k.plural) == (group, rest[0])), None)
        served = kind is not None and version in kind.versions
        if kind is None or not served or len(rest) > 3 or (in_namespace and not kind.namespaced):
            custom = any(k.group == group and k.custom for k in kinds)
            raise NoSuchPath if custom else sim_status.unknown_resource()
        name, subresource = (*rest[1:], "", "")[:2]
        known = subresource == "" or (subresource == "status" and kind.has_status)
        if not known or (name and kind.namespaced and not in_namespace):
            raise sim_status.unknown_resource()
        return Target(Scope(kind, version, namespace), name, subresource, in_namespace)

    def _document(self, request: Request) -> Answer:
        if request.method != "GET":
            raise NoSuchPath
        path = request.path.rstrip("/")
        kinds = self._store.kinds()
        parts = path.split("/")[1:]
        document: Json | None = None
        if path in _PROBES:
            return Answer(200, "ok")
        if path == "/version":
            document = sim_discovery.VERSION
        elif path == "/api":
            document = sim_discovery.api_versions(self._address)
        elif path == "/apis":
            document = sim_discovery.group_list(kinds)
        elif parts[0] == "apis" and len(parts) == 2:
            document = sim_discovery.group(parts[1], kinds)
        elif parts[0] in ("api", "apis") and len(parts) in (2, 3):
            group, version = parts[1:] if parts[0] == "apis" else ("", parts[1])
            document = sim_discovery.resource_list(group, version, kinds)
            if document is None and any(k.group == group and not k.custom for k in kinds):
                raise sim_status.unknown_resource()
        if document is None:
            raise NoSuchPath
        return Answer(200, document)

    def _read(self, request: Request, target: Target) -> Answer | Watch:
        options: ReadOptions = read_options(request.query, target.scope)
        options = with_defaults(options, watchlist=self._watchlist)
        validate(options, watchlist=self._watchlist)
        if options.watch:
            return start_watch(self._store, target.scope, options, self._wait_s)
        return Answer(200, list_page(self._store, target.scope, options, self._wait_s))

    def _create(self, request: Request, target: Target) -> Answer:
        scope = target.scope
        if scope.kind.namespaced and not target.collection_is_namespaced:
            raise sim_status.method_not_allowed()
        obj = _sent_object(request, scope)
        made = self._store.create(
            scope.kind,
            stored(scope.kind, obj),
            namespace=scope.namespace,
            writer=_writer(request, scope),
        )
        return Answer(201, shown(scope.kind, scope.version, made))

    def _object(self, request: Request, target: Target) -> Answer:
        scope = target.scope
        where = (scope.kind, scope.namespace, target.name)
        if request.method == "GET":
            found = self._store.get(*where)
        elif request.method == "PUT":
            return self._replace(request, target)
        elif request.method == "PATCH":
            found = self._patch(request, target)
        elif request.method == "DELETE" and not target.subresource:
            return self._delete(request, target)
        else:
            raise sim_status.method_not_allowed()
        return Answer(200, shown(scope.kind, scope.version, found))

    def _replace(self, request: Request, target: Target) -> Answer:
        scope, kind = target.scope, target.scope.kind
        obj = _sent_object(request, scope)
        name = obj["metadata"].get("name")
        if not name:
            raise bad_request(
                f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
            )
        _same_name(name, target.name)
        writer = _writer(request, scope, target.subresource)
        space = scope.namespace
        body = stored(kind, obj)
        try:
            found = self._store.update(kind, body, namespace=space, writer=writer)
        except sim_status.Refused as refused:
            if refused.code != 404 or not kind.creates_on_update or target.subresource:
                raise
            made = self._store.create(kind, body, namespace=space, writer=writer)
            return Answer(201, shown(kind, scope.version, made))
        return Answer(200, shown(kind, scope.version, found))

    def _patch(self, request: Request, target: Target) -> Json:
        scope, kind = target.scope, target.scope.kind
        apply = sim_patch.patcher(kind, request.headers.get("content-type", ""), request.body)

        def change(old: Json) -> Json:
            new = apply(shown(kind, scope.version, old))
            _same_name((new.get("metadata") or {}).get("name", ""), target.name)
            return stored(kind, new)

        writer = _writer(request, scope, target.subresource)
        return self._store.modify(kind, scope.namespace, target.name, change, writer=writer)

    def _delete(self, request: Request, target: Target) -> Answer:
        scope, kind = target.scope, target.scope.kind
        options = _delete_options(request)
        obj, gone = self._store.delete(kind, scope.namespace, target.name, options)
        if gone and not kind.returns_deleted and kind.plural != "customresourcedefinitions":
            if kind is NAMESPACES:
                return Answer(200, shown(kind, scope.version, obj))
            details = {"name": target.name, "group": kind.group, "kind": kind.plural}
            details = {key: value for key, value in details.items() if value}
            done: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
            details["uid"] = obj["metadata"]["uid"]
            return Answer(200, done | {"status": "Success", "details": details})
        return Answer(200, shown(kind, scope.version, obj))

    def _delete_collection(self, request: Request, target: Target) -> Answer:
        scope = target.scope
        if (scope.kind.namespaced and not scope.namespace) or scope.kind is NAMESPACES:
            raise sim_status.method_not_allowed()
        options = read_options({**request.query, "watch": "0"}, scope)
        page = list_page(self._store, scope, options, self._wait_s)
        for item in page["items"]:
            name = item["metadata"]["name"]
            self._store.delete(scope.kind, scope.namespace, name, _delete_options(request))
        return Answer(200, page)


def _check_accept(request: Request) -> None:
    accept = request.headers.get("accept", "")
    for choice in accept.split(","):
        media, _, parameters = choice.partition(";")
        plain = media.strip() in ("", "application/json", "*/*", "application/*")
        if plain and "as=" not in parameters:
            return
    raise sim_status.not_acceptable()


def _writer(request: Request, scope: Scope, subresource: str = "") -> Writer:
    agent = request.headers.get("user-agent", "").split("/")[0]
    manager = request.query.get("fieldManager") or agent or "unknown"
    return Writer(manager, subresource, scope.kind.api_version(scope.version))


def _sent_object(request: Request, scope: Scope) -> Json:
    kind = scope.kind
    try:
        obj = decoded(request.body)
    except ValueError as error:
        start = request.body[:30].decode(errors="replace")
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get "
            f"version/kind; json parse error: {error} ({start})"
        ) from None
    if not isinstance(obj, dict) or not isinstance(obj.setdefault("metadata", {}), dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind})")
    if kind.custom and not obj.get("kind"):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing"
        )
    wanted = {"kind": kind.kind, "apiVersion": kind.api_version(scope.version)}
    for key, value in wanted.items():
        if obj.get(key, value) != value:
            raise bad_request(
                f'{obj.get("kind", kind.kind)} in version "{obj.get("apiVersion", "")}" cannot be '
                f"handled as a {kind.kind}"
            )
    if obj["metadata"].get("namespace", scope.namespace) != scope.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return obj


def _same_name(name: str, wanted: str) -> None:
    if name != wanted:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({wanted})")


def _delete_options(request: Request) -> DeleteOptions:
    sent: dict[str, Any] = {}
    if request.body:
        try:
            sent = decoded(request.body)
        except ValueError as error:
            raise bad_request(f"the delete options are not JSON: {error}") from None
        if not isinstance(sent, dict):
            raise bad_request("the delete options must be an object")
    grace = sent.get("gracePeriodSeconds", whole_number(request.query, "gracePeriodSeconds"))
    policy = sent.get("propagationPolicy") or request.query.get("propagationPolicy")
    if policy and policy not in _POLICIES:
        text = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", '
        cause = ("FieldValueNotSupported", "propagationPolicy", text + '"Orphan", "nil"')
        raise sim_status.invalid_options("DeleteOptions", [cause])
    conditions = sent.get("preconditions") or {}
    return DeleteOptions(grace, conditions.get("uid") or "", conditions.get("resourceVersion") or "")
