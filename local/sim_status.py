"""The refusals of the simulated API server: Status objects in the shapes that the real one sends.

Decides: code, reason, details and causes of each refusal (apimachinery `pkg/api/errors`; the texts
were read off a kube-apiserver 1.36). Deliberately does not know when a refusal is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.sim_kinds import Json, Kind

Cause = tuple[str, str, str]

_TOO_OLD_LIST = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Refused(Exception):  # noqa: N818 - named for what the caller does: send it as the answer
    """A request that is answered by a Status. `headers` go with it."""

    def __init__(self, status: Json, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status["message"])
        self.status = status
        self.code: int = status["code"]
        self.headers = dict(headers or {})


class NoSuchPath(Exception):  # noqa: N818 - as above
    """A path that no API handles: the real server answers 404 in plain text."""


def _status(code: int, reason: str, message: str, details: Json | None = None) -> Json:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    return body | {"code": code}


def _of(kind: Kind, name: str, *, as_kind: bool = False) -> Json:
    details = {"name": name, "group": kind.group, "kind": kind.kind if as_kind else kind.plural}
    return {key: value for key, value in details.items() if value}


def bad_request(message: str) -> Refused:
    """400: the request cannot be read."""
    return Refused(_status(400, "BadRequest", message))


def unauthorized() -> Refused:
    """401: the token is not known."""
    return Refused(_status(401, "Unauthorized", "Unauthorized"))


def forbidden(kind: Kind | None, verb: str, namespace: str, user: str, path: str) -> Refused:
    """403, in the words of RBAC."""
    if kind is None:
        message = f'forbidden: User "{user}" cannot {verb} path "{path}"'
        return Refused(_status(403, "Forbidden", message, {}))
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    group = f'in API group "{kind.group}" {where}'
    message = f'{kind.qualified} is forbidden: User "{user}" cannot {verb} resource'
    message = f'{message} "{kind.plural}" {group}'
    return Refused(_status(403, "Forbidden", message, _of(kind, "")))


def not_found(kind: Kind, name: str) -> Refused:
    """404: the object does not exist."""
    message = f'{kind.qualified} "{name}" not found'
    return Refused(_status(404, "NotFound", message, _of(kind, name)))


def unknown_resource() -> Refused:
    """404: the group or version has no such resource."""
    message = "the server could not find the requested resource"
    return Refused(_status(404, "NotFound", message, {}))


def method_not_allowed() -> Refused:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return Refused(_status(405, "MethodNotAllowed", message, {}))


def not_acceptable() -> Refused:
    """406: the client accepts nothing that is spoken here."""
    message = "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch"
    return Refused(_status(406, "NotAcceptable", message, {}))


def already_exists(kind: Kind, name: str) -> Refused:
    """409 on create."""
    message = f'{kind.qualified} "{name}" already exists'
    return Refused(_status(409, "AlreadyExists", message, _of(kind, name)))


def modified(kind: Kind, name: str) -> Refused:
    """409: the resourceVersion sent is not the stored one."""
    return conflict(
        kind,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def conflict(kind: Kind, name: str, why: str, *, as_kind: bool = False) -> Refused:
    """409. Preconditions of a delete name the kind, all others the resource."""
    called = kind.qualified
    if as_kind:
        called = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    message = f'Operation cannot be fulfilled on {called} "{name}": {why}'
    return Refused(_status(409, "Conflict", message, _of(kind, name, as_kind=as_kind)))


def expired(message: str, inconsistent_token: str = "") -> Refused:
    """410. With the token that continues a list inconsistently, where there is one."""
    status = _status(410, "Expired", message)
    if inconsistent_token:
        status["message"] = _TOO_OLD_LIST
        status["metadata"] = {"continue": inconsistent_token}
    return Refused(status)


def unsupported_media_type(kind: Kind) -> Refused:
    """415: a patch in a format that the kind does not take."""
    if kind.custom:
        message = (
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml"
        )
        return Refused(_status(415, "UnsupportedMediaType", message))
    message = "415: Unsupported Media Type"
    return Refused(_status(415, "UnsupportedMediaType", message, {}))


def invalid(kind: Kind, name: str, causes: list[Cause]) -> Refused:
    """422 for an object; a cause is (reason, field, message)."""
    return _invalid(kind.group, kind.kind, name, causes)


def version_missing(kind: Kind, name: str) -> Refused:
    """422 for an update without resourceVersion, of a kind that needs it. Alone of its code it names the resource."""
    cause = ("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
    return _invalid(kind.group, kind.plural, name, [cause])


def invalid_options(options: str, causes: list[Cause]) -> Refused:
    """422 for request parameters (`ListOptions`, `DeleteOptions`)."""
    return _invalid("meta.k8s.io", options, "", causes)


def _invalid(group: str, called: str, name: str, causes: list[Cause]) -> Refused:
    # One cause stands alone in the message, several come in brackets, repeats are shown once
    # (field.ErrorList.ToAggregate), while details list every one.
    lines = list(dict.fromkeys(f"{field}: {message}" for _, field, message in causes))
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    qualified = f"{called}.{group}" if group else called
    details = {"name": name, "group": group, "kind": called}
    shown: Json = {key: value for key, value in details.items() if value}
    shown["causes"] = [{"reason": reason, "message": message, "field": field} for reason, field, message in causes]
    return Refused(_status(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', shown))


def throttled(retry_after_s: int) -> Refused:
    """429 with Retry-After in seconds."""
    message = "too many requests, please try again later."
    details = {"retryAfterSeconds": retry_after_s}
    status = _status(429, "TooManyRequests", message, details)
    return Refused(status, {"Retry-After": str(retry_after_s)})


def server_error(message: str, reason: str = "") -> Refused:
    """500. The real server gives plain errors no reason."""
    return Refused(_status(500, reason, message))


def version_too_large(version: int, current: int) -> Refused:
    """504: the version asked for has not been reached yet."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return Refused(_status(504, "Timeout", message, details), {"Retry-After": "1"})
