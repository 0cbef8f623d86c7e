"""LIST and WATCH parameters: what is asked for, and what a page or a stream then consists of.

Decides: validation (apimachinery `internalversion/validation`), resourceVersion semantics, continue
tokens, the start of a watch. Deliberately does not know connections, and no selectors but
`metadata.name` and `metadata.namespace`: others are refused with 400, never ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
import posixpath
import re
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from local import sim_status
from local.sim_kinds import NODES, Json, Kind
from local.sim_status import Cause, Refused, bad_request, invalid_options
from local.sim_store import SimStore
from local.sim_wire import shown

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - a format, no secret
_FIELDS = ("metadata.name", "metadata.namespace")
_TERM = re.compile(r"([^=!]*)(!=|==|=)(.*)")
_INT64_DIGITS = 20  # with its sign
_MATCH = "resourceVersionMatch"
_EVENTS = "sendInitialEvents"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parameters of a LIST or WATCH, parsed but not validated."""

    watch: bool
    limit: int
    token: str
    version: str
    match: str
    initial_events: bool | None
    bookmarks: bool
    timeout_s: int
    terms: tuple[tuple[str, bool, str], ...]

    def selects(self, obj: Json) -> bool:
        """Say whether the field selector lets the object through."""
        meta = obj["metadata"]
        return all((meta.get(key, "") == value) is equal for key, equal, value in self.terms)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a request is about: a kind in a served version, all of it or one namespace."""

    kind: Kind
    version: str
    namespace: str = ""

    @property
    def prefix(self) -> str:
        """What keys in this scope begin with."""
        return f"{self.namespace}/" if self.namespace else ""


@dataclass(frozen=True, slots=True)
class Watch:
    """A stream to serve: `initial` as ADDED, then the events after `start`.

    `refusal` is sent as an ERROR frame that ends the stream. `ends_initial`: the bookmark that
    closes a WatchList is due after `initial`.
    """

    scope: Scope
    options: ReadOptions
    start: int = 0
    epoch: int = 0
    initial: tuple[Json, ...] = ()
    ends_initial: bool = False
    refusal: Json | None = field(default=None)


def read_options(query: Mapping[str, str], scope: Scope) -> ReadOptions:
    """Parse the parameters of a LIST or WATCH. Raises Refused (400)."""
    if query.get("labelSelector"):
        raise bad_request("the simulated API server knows no label selectors: leave it out")
    return ReadOptions(
        watch=_flag(query, "watch") or False,
        limit=whole_number(query, "limit") or 0,
        token=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get(_MATCH, ""),
        initial_events=_flag(query, _EVENTS),
        bookmarks=_flag(query, "allowWatchBookmarks") or False,
        timeout_s=whole_number(query, "timeoutSeconds") or 0,
        terms=_terms(query.get("fieldSelector", ""), scope),
    )


def validate(options: ReadOptions, *, watchlist: bool) -> None:
    """Raise Refused (422) with every parameter that contradicts another."""
    causes = _watch_causes(options, watchlist) if options.watch else _list_causes(options)
    if causes:
        raise invalid_options("ListOptions", causes)


def with_defaults(options: ReadOptions, *, watchlist: bool) -> ReadOptions:
    """Return the options as the server takes them.

    Where WatchList is served, a watch from no version or from "0" is one (SetListOptionsDefaults of
    apimachinery), so that it too gets the bookmark that ends the initial events.
    """
    unset = options.initial_events is None and not options.match
    if options.watch and watchlist and unset and options.version in ("", "0"):
        return replace(options, initial_events=True, match="NotOlderThan")
    return options


def list_page(store: SimStore, scope: Scope, options: ReadOptions, wait_s: float) -> Json:
    """Return the list, or one page of it. Raises Refused (400, 410, 504)."""
    wanted, start = _list_position(store, options, wait_s)
    try:
        pairs, revision = store.read(scope.kind, wanted)
    except ValueError:
        if wanted is not None and wanted > store.revision:
            raise sim_status.version_too_large(wanted, store.revision) from None
        token = _token(-1, start.removeprefix("/")) if options.token else ""
        text = "The resourceVersion for the provided list is too old."
        raise sim_status.expired(text, token) from None
    prefix, single = _stretch(scope, options)
    # Keys are sorted, so that a namespace is one stretch of them: "0" is what follows the slash.
    first = bisect_left(pairs, prefix + start.removeprefix("/"), key=itemgetter(0))
    last = bisect_left(pairs, prefix[:-1] + "0", key=itemgetter(0)) if prefix else len(pairs)
    found = pairs[first:last]
    selected = [(key, obj) for key, obj in found if options.selects(obj)] if options.terms else found
    limit = max(options.limit, 0)
    if options.version == "0" and scope.kind.cached and not options.token:
        # Served from the watch cache, which does not page.
        limit = 0
    page = selected[:limit] if limit else selected
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if scope.kind.custom:
        meta["continue"] = ""
    # A full page goes on while there are objects, though the selector may let none of them through.
    if page and len(page) == limit and page[-1][0] != found[-1][0] and not single:
        meta["continue"] = _token(revision, f"/{page[-1][0].removeprefix(prefix)}\0")
        if not options.terms:
            meta["remainingItemCount"] = len(found) - len(page)
    kind = scope.kind
    return {
        "kind": kind.list_kind or kind.kind + "List",
        "apiVersion": kind.api_version(scope.version),
        "metadata": meta,
        "items": [shown(kind, scope.version, obj, listed=True) for _, obj in page],
    }


def start_watch(store: SimStore, scope: Scope, options: ReadOptions, wait_s: float) -> Watch:
    """Return the stream that a watch request gets. Raises Refused (500) for a bad version."""
    try:
        asked = _version(options.version)
    except ValueError as error:
        raise sim_status.server_error(str(error)) from None
    epoch = store.epoch
    if options.initial_events or (not asked and options.initial_events is None):
        try:
            _reach(store, asked, wait_s if options.initial_events else 0)
        except Refused as refused:
            return Watch(scope, options, refusal=refused.status)
        pairs, revision = store.read(scope.kind)
        initial = tuple(o for k, o in pairs if k.startswith(scope.prefix) and options.selects(o))
        ends = bool(options.initial_events) and options.bookmarks
        return Watch(scope, options, revision, epoch, initial, ends)
    if not asked:
        return Watch(scope, options, store.revision, epoch)
    if asked < store.compacted:
        text = f"too old resource version: {asked} ({store.compacted + 1})"
        if not scope.kind.cached:
            text = "The resourceVersion for the provided watch is too old."
        return Watch(scope, options, refusal=sim_status.expired(text).status)
    return Watch(scope, options, asked, epoch)


def _stretch(scope: Scope, options: ReadOptions) -> tuple[str, bool]:
    """Return what all keys of a list begin with, and whether one name is asked for (registry's ListPredicate)."""
    wanted = {key: value for key, equal, value in options.terms if equal}
    prefix = scope.prefix
    if scope.kind.namespaced and not prefix and wanted.get("namespace"):
        prefix = f"{wanted['namespace']}/"
    return prefix, "name" in wanted and (bool(prefix) or not scope.kind.namespaced)


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """Return a parameter as a number, None when absent. Raises Refused (400)."""
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > _INT64_DIGITS or not -(2**63) <= int(text) < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def _flag(query: Mapping[str, str], name: str) -> bool | None:
    # Go's conversion of query parameters: only these two are false.
    return None if name not in query else query[name] not in ("false", "0")


def _terms(selector: str, scope: Scope) -> tuple[tuple[str, bool, str], ...]:
    terms = []
    for part in filter(None, selector.split(",")):
        found = _TERM.fullmatch(part)
        if not found:
            raise bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
        if found[1] not in _FIELDS or (found[1] == _FIELDS[1] and scope.kind is NODES):
            known = 'only "metadata.name", "metadata.namespace"'
            message = f'"{found[1]}" is not a known field selector: {known}'
            by_kind = scope.kind.custom or scope.kind is NODES
            raise bad_request(f"field label not supported: {found[1]}" if by_kind else message)
        terms.append((found[1].removeprefix("metadata."), found[2] != "!=", found[3]))
    return tuple(terms)


def _list_causes(options: ReadOptions) -> list[Cause]:
    causes: list[Cause] = []
    if options.match:
        if not options.version:
            causes.append(_no(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"))
        if options.token:
            causes.append(_no(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            causes.append(_unsupported(options.match, '"Exact", "NotOlderThan", ""'))
        if options.match == "Exact" and options.version == "0":
            text = f'{_MATCH} "exact" is forbidden for resourceVersion "0"'
            causes.append(_no(_MATCH, text))
    if options.initial_events is not None:
        causes.append(_no(_EVENTS, f"{_EVENTS} is forbidden for list"))
    return causes


def _watch_causes(options: ReadOptions, watchlist: bool) -> list[Cause]:
    causes: list[Cause] = []
    asked = options.initial_events is not None
    if asked and options.match != "NotOlderThan":
        text = f"{_EVENTS} requires setting {_MATCH} to NotOlderThan"
        causes.append(_no(_MATCH, text))
    if asked and not watchlist:
        text = f"{_EVENTS} is forbidden for watch unless the WatchList feature gate is enabled"
        causes.append(_no(_EVENTS, text))
    if options.match:
        if not asked:
            text = f"{_MATCH} is forbidden for watch unless {_EVENTS} is provided"
            causes.append(_no(_MATCH, text))
        if options.match != "NotOlderThan":
            causes.append(_unsupported(options.match, '"NotOlderThan"'))
    if options.token:
        causes.append(_no(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    return causes


def _no(field_name: str, text: str) -> Cause:
    return ("FieldValueForbidden", field_name, f"Forbidden: {text}")


def _unsupported(value: str, values: str) -> Cause:
    text = f'Unsupported value: "{value}": supported values: {values}'
    return ("FieldValueNotSupported", _MATCH, text)


def _list_position(store: SimStore, options: ReadOptions, wait_s: float) -> tuple[int | None, str]:
    """Return (the exact version to read, None for the latest; the first key of the page)."""
    if options.token:
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, start = _parse_token(options.token)
        return (None if revision < 0 else revision), start
    try:
        asked = _version(options.version)
    except ValueError as error:
        raise bad_request(f"invalid resource version: {error}") from None
    _reach(store, asked, wait_s)
    exact = options.match == "Exact" or (options.limit > 0 and not options.match)
    return (asked if exact and asked else None), ""


def _version(text: str) -> int:
    if text and not re.fullmatch("[0-9]+", text):
        cause = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise ValueError(f'resourceVersion: Invalid value: "{text}": {cause}')
    if len(text) > _INT64_DIGITS or int(text or "0") >= 2**64:
        cause = f'strconv.ParseUint: parsing "{text}": value out of range'
        raise ValueError(f'resourceVersion: Invalid value: "{text}": {cause}')
    return int(text or "0")


def _reach(store: SimStore, version: int, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    ticks = store.pulse.wait(-1, 0)
    while version > store.revision:
        left = deadline - time.monotonic()
        if left <= 0:
            raise sim_status.version_too_large(version, store.revision)
        ticks = store.pulse.wait(ticks, left)


def _token(revision: int, start: str) -> str:
    text = json.dumps({"v": _TOKEN_VERSION, "rv": revision, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parse_token(token: str) -> tuple[int, str]:
    """Return (version, first key) of a continue token, as DecodeContinue of apiserver `pkg/storage` reads it."""
    try:
        padded = token + "=" * (-len(token) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        fault = _token_fault(found)
    except (ValueError, binascii.Error) as error:
        fault = str(error)
    if fault:
        raise bad_request(f"invalid continue token: continue key is not valid: {fault}")
    return found["rv"], found["start"]


def _token_fault(found: Any) -> str:
    if not isinstance(found, dict):
        return "json: cannot unmarshal it into Go value of type storage.continueToken"
    version, revision, start = found.get("v", ""), found.get("rv", 0), found.get("start", "")
    if version != _TOKEN_VERSION:
        return f"server does not recognize this encoded version {version}"
    if type(revision) is not int or not isinstance(start, str):
        return "json: cannot unmarshal a field into Go value of type storage.continueToken"
    if revision == 0:
        return f"incorrect encoded start resourceVersion (version {_TOKEN_VERSION})"
    if not start:
        return f"encoded start key empty (version {_TOKEN_VERSION})"
    rooted = start if start.startswith("/") else f"/{start}"
    return start if "//" in rooted or posixpath.normpath(rooted) != rooted else ""
