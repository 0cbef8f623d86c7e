"""The API server: configuration, credentials, discovery, lists and watches; the only module that knows `kubernetes`.

The client library finds the configuration and makes the connection pool; requests go through that pool, since its own
watch loses and repeats events (kubernetes.md 4.5). Every answer is a typed value; what it means is decided elsewhere.
Safe for use from many threads.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

import orjson
import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client import rest
from kubernetes.config import incluster_config
from urllib3 import exceptions
from urllib3.exceptions import HTTPError

from kubecdc import errors
from producer import frames
from producer.selection import Discovery, ResourceInfo, parse_core, parse_groups, parse_resources
from producer.settings import ClusterSettings
from producer.signals import Unreachable

POOL_CONNECTIONS = 256
CONNECT_S = 10.0
LIST_READ_S = 60.0
TOKEN_AGE_S = 60.0
WATCH_TIMEOUT_S = (300, 600)  # as client-go asks for; spread, so that streams do not end all at once
CHUNK_BYTES = 256 * 1024
# Errors that come before an answer does. `BadStatusLine` and its like quote what they could not read.
_UNANSWERED = (OSError, exceptions.TimeoutError, exceptions.SSLError, exceptions.ProxyError)
DEFAULT_NAME = "default"  # of a cluster that no context names
_HEADERS = {"Accept": "application/json", "User-Agent": "kubecdc"}


class StreamBroken(Exception):  # noqa: N818 - named by what happened
    """An open stream was torn, or silent for longer than it may be; the text says which."""


class Stream:
    """An accepted watch. `read` belongs to one thread, `close` may be called from any."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def read(self) -> bytes:
        """Return the next bytes, as few as there are; empty at the regular end. Raises StreamBroken."""
        try:
            return self._response.read1(CHUNK_BYTES) or b""
        except (HTTPError, OSError, ValueError) as error:
            raise StreamBroken(_describe(error)) from error

    def interrupt(self) -> None:
        """Make a `read` that waits in another thread return at once."""
        with contextlib.suppress(Exception):  # it may have ended by itself in the meantime
            self._response.shutdown()

    def close(self) -> None:
        """Give up the connection; an unread stream cannot go back to the pool."""
        with contextlib.suppress(Exception):
            self._response.close()


class Cluster:
    """One API server, as `settings` find it. Raises Misconfigured when there is no usable configuration."""

    def __init__(self, settings: ClusterSettings, inactivity_s: float = 150.0, connect_s: float = CONNECT_S) -> None:
        self._settings = settings
        self._inactivity_s = inactivity_s
        self._connect_s = connect_s
        self._lock = threading.Lock()
        found = self._load()
        self.name = (settings.name or found).replace("/", "_")

    @property
    def host(self) -> str:
        """Address of the API server."""
        return str(self._configuration.host)

    def version(self) -> tuple[int, int]:
        """Major and minor version; (0, 0) where the server does not tell. Raises Unreachable or Misconfigured."""
        answer = self._document("/version")
        if isinstance(answer, Unreachable):
            raise errors.Unreachable(
                f"API server {self.host} does not answer: {answer.why}; check address, network and certificate"
            )
        if isinstance(answer, frames.ServerError):
            self._check_credentials(answer)
            return 0, 0
        digits = ["".join(filter(str.isdigit, str(answer.get(part, "")))) for part in ("major", "minor")]
        return int(digits[0] or 0), int(digits[1] or 0)

    def discover(self) -> Discovery:
        """Read what the server serves. Raises Unreachable or Misconfigured when even the groups cannot be read."""
        core, grouped = self._needed("/api"), self._needed("/apis")
        groups = (*parse_core(core), *parse_groups(grouped))
        resources: list[ResourceInfo] = []
        unreadable = set()
        for group in groups:
            for version in group.versions:
                name = f"{group.group}/{version}" if group.group else version
                document = self._document(f"/apis/{name}" if group.group else f"/api/{name}")
                if isinstance(document, dict):
                    resources += parse_resources(name, document)
                else:
                    unreadable.add(name)
        return Discovery(groups, tuple(resources), frozenset(unreadable))

    def list_page(
        self, kind: ResourceInfo, namespace: str, limit: int, token: str
    ) -> frames.Page | frames.Broken | frames.ServerError | Unreachable:
        """One page of a consistent list; only `limit` and `continue` are ever sent."""
        params = {"limit": str(limit)}
        if token:
            params["continue"] = token
        try:
            response = self._get(kind.path(namespace), params, max(self._inactivity_s, LIST_READ_S), stream=False)
            if response.status != 200:
                return self._refusal(response)
            return frames.page(response.data)
        except (HTTPError, OSError) as error:
            return Unreachable(_describe(error))

    def watch(self, kind: ResourceInfo, namespace: str, rv: str) -> Stream | frames.ServerError | Unreachable:
        """Watch everything after `rv`, with bookmarks."""
        return self._stream(kind.path(namespace), {"resourceVersion": rv})

    def watch_list(self, kind: ResourceInfo, namespace: str) -> Stream | frames.ServerError | Unreachable:
        """Watch with the present state first (KEP-3157), as a consistent read."""
        return self._stream(kind.path(namespace), {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float
    ) -> dict[str, Any] | frames.ServerError | Unreachable:
        """One request about a single object; only the lease of an election is ever written (`producer.elector`)."""
        try:
            response = self._pool.request(
                method,
                self.host.rstrip("/") + path,
                body=None if body is None else orjson.dumps(body),
                headers=_HEADERS | {"Content-Type": "application/json"} | self._authorization(),
                timeout=urllib3.Timeout(total=timeout_s),
                retries=False,
            )
            if response.status not in (200, 201):
                return self._refusal(response)
            answer = orjson.loads(response.data)
        except orjson.JSONDecodeError:
            return Unreachable(f"{path} is not JSON, so this is no API server")
        except (HTTPError, OSError) as error:
            return Unreachable(_describe(error))
        return answer if isinstance(answer, dict) else Unreachable(f"{path} is not a JSON object")

    def _stream(self, path: str, params: dict[str, str]) -> Stream | frames.ServerError | Unreachable:
        params |= {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*WATCH_TIMEOUT_S)),  # noqa: S311 - a spread, no secret
        }
        try:
            response = self._get(path, params, self._inactivity_s, stream=True)
            if response.status != 200:
                with contextlib.closing(response):
                    return self._refusal(response)
        except (HTTPError, OSError) as error:
            return Unreachable(_describe(error))
        return Stream(response)

    def _needed(self, path: str) -> dict[str, Any]:
        answer = self._document(path)
        if isinstance(answer, frames.ServerError):
            self._check_credentials(answer)
            raise errors.Unreachable(f"API server {self.host} refuses discovery at {path}: {answer.label()}")
        if isinstance(answer, Unreachable):
            raise errors.Unreachable(f"API server {self.host} does not answer {path}: {answer.why}")
        return answer

    def _check_credentials(self, answer: frames.ServerError) -> None:
        if answer.code == 401:
            raise errors.Misconfigured(
                f"API server {self.host} does not accept the credentials (401): check the token or certificate of the"
                " kubeconfig context, or --token-file"
            )

    def _document(self, path: str) -> dict[str, Any] | frames.ServerError | Unreachable:
        try:
            response = self._get(path, {}, LIST_READ_S, stream=False)
            if response.status != 200:
                return self._refusal(response)
            document = orjson.loads(response.data)
        except orjson.JSONDecodeError:
            return Unreachable(f"{path} is not JSON, so this is no API server")
        except (HTTPError, OSError) as error:
            return Unreachable(_describe(error))
        return document if isinstance(document, dict) else Unreachable(f"{path} is not a JSON object")

    def _get(self, path: str, params: dict[str, str], read_s: float, *, stream: bool) -> urllib3.BaseHTTPResponse:
        return self._pool.request(
            "GET",
            self.host.rstrip("/") + path,
            fields=params,
            headers=_HEADERS | self._authorization(),
            timeout=urllib3.Timeout(connect=self._connect_s, read=read_s),
            retries=False,
            preload_content=not stream,
        )

    def _refusal(self, response: urllib3.BaseHTTPResponse) -> frames.ServerError:
        if response.status == 401:
            self._renew()
        status: object = None
        with contextlib.suppress(orjson.JSONDecodeError, HTTPError):
            status = orjson.loads(response.data)
        return frames.server_error(status, response.status, _seconds(response.headers.get("Retry-After")))

    # --- configuration and credentials ---------------------------------------------------------------------------

    def _load(self) -> str:
        """Set up, and return what the configuration calls the cluster."""
        configuration, name = _configuration(self._settings)
        configuration.connection_pool_maxsize = POOL_CONNECTIONS
        configuration.socket_options = _socket_options()
        self._configuration = configuration
        self._pool = rest.RESTClientObject(configuration).pool_manager
        self._loaded = time.monotonic()
        return name

    def _authorization(self) -> dict[str, str]:
        token_file = self._settings.token_file
        if token_file is not None:
            try:
                token = token_file.read_text().strip()
            except (OSError, UnicodeError) as error:
                raise OSError(f"token file {token_file} cannot be read: {type(error).__name__}") from error
            return _bearer(f"Bearer {token}")
        if time.monotonic() - self._loaded > TOKEN_AGE_S and self._configuration.api_key:
            self._renew()
        try:
            with self._lock:
                bearer = self._configuration.auth_settings().get("BearerToken", {}).get("value")
        except Exception as error:  # its hook reads the pod's token file again, and raises whatever it likes
            raise OSError(f"credentials cannot be read: {type(error).__name__}") from error
        return _bearer(str(bearer)) if bearer else {}

    def _renew(self) -> None:
        """Read the configuration again: tokens rotate, and exec plugins hand out new ones."""
        with self._lock:
            if time.monotonic() - self._loaded < 1.0:
                return
            self._loaded = time.monotonic()
            with contextlib.suppress(errors.Misconfigured):  # keep what there was; the 401s go on and are counted
                fresh, _ = _configuration(self._settings)
                self._configuration.api_key = fresh.api_key
                self._configuration.refresh_api_key_hook = fresh.refresh_api_key_hook


def _bearer(value: str) -> dict[str, str]:
    if not (value.isascii() and value.isprintable()):
        raise OSError("credentials cannot be read: a token holds characters that no token has")
    return {"Authorization": value}


def _configuration(settings: ClusterSettings) -> tuple[client.Configuration, str]:
    """The configuration, and the name of the context that it is of."""
    configuration, name = client.Configuration(), DEFAULT_NAME
    if settings.server is not None:
        configuration.host = settings.server
    else:
        try:
            name = _load_found(settings, configuration)
        except (config.ConfigException, OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
            raise errors.Misconfigured(_unusable(settings, error)) from error
    if settings.ca_file is not None:
        configuration.ssl_ca_cert = str(settings.ca_file)
    return configuration, name


def _load_found(settings: ClusterSettings, configuration: client.Configuration) -> str:
    """Use the kubeconfig that was named; without one the pod's own account, then the usual kubeconfig.

    Returns the context's name, which a pod has none of.
    """
    named = settings.kubeconfig is not None or settings.context is not None
    if not named:
        try:
            incluster_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # upstream has no types
        except config.ConfigException:
            pass
        else:
            return DEFAULT_NAME
    file = str(settings.kubeconfig) if settings.kubeconfig is not None else None
    config.load_kube_config(  # type: ignore[no-untyped-call]  # the client ships partial types
        config_file=file, context=settings.context, client_configuration=configuration
    )
    if settings.context is not None:
        return settings.context
    _, current = config.list_kube_config_contexts(config_file=file)  # type: ignore[no-untyped-call]  # as above
    return str(current["name"])


def _unusable(settings: ClusterSettings, error: Exception) -> str:
    where = f"kubeconfig {settings.kubeconfig}" if settings.kubeconfig else "kubeconfig"
    if settings.kubeconfig is not None and not settings.kubeconfig.exists():
        return f"{where} does not exist: give the right --kubeconfig"
    if settings.kubeconfig is None and settings.context is None:
        return (
            f"no API server is configured ({error}): give --kubeconfig or --server, set KUBECONFIG, or run in a pod"
            " with a service account"
        )
    return f"{where} cannot be used: {error}; check --kubeconfig and --context"


def _socket_options() -> list[tuple[int, int, int]]:
    """Notice a peer that vanished (kubernetes/kubernetes#87615); names differ between systems."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _describe(error: Exception) -> str:
    """Kind of a transport error, and its words where they cannot quote an answer: that may hold a Secret."""
    if isinstance(error, _UNANSWERED) and not isinstance(error, HTTPException):
        return f"{type(error).__name__}: {error}"[:200]
    inner = next((arg for arg in error.args if isinstance(arg, Exception)), None)
    return type(error).__name__ if inner is None else f"{type(error).__name__}: {type(inner).__name__}"
