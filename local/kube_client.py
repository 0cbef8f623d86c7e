"""Plain requests to a Kubernetes API server, for those who write to it: the workload and the demo.

Decides how a kubeconfig file becomes a connection. Deliberately knows no watches and no credential plug-ins: kubecdc
itself only reads clusters, in `producer`, with a client of its own.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import urllib3
import yaml

from local.errors import LocalError

_TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class Away(LocalError):  # noqa: N818 - named by what the server is
    """The server did not answer; what was asked may or may not have been done."""


class KubeClient:
    """Sends one request at a time to `server`; safe to use from several threads.

    `ca_file` verifies the server, a `cert_file` with its `key_file` or a `token` names the user.
    """

    def __init__(
        self,
        server: str,
        *,
        token: str | None = None,
        ca_file: Path | None = None,
        cert: tuple[Path, Path] | None = None,
        verify: bool = True,
    ) -> None:
        self.server = server.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._files = ExitStack()
        self._pool = urllib3.PoolManager(
            timeout=_TIMEOUT,
            retries=False,
            maxsize=4,
            ca_certs=str(ca_file) if ca_file else None,
            cert_file=str(cert[0]) if cert else None,
            key_file=str(cert[1]) if cert else None,
            cert_reqs="CERT_REQUIRED" if verify else "CERT_NONE",
        )

    @classmethod
    def from_kubeconfig(cls, path: Path, context: str | None = None) -> Self:
        """Read the server and the user of a context, the current one by default.

        Raises `LocalError` for a file that cannot be used, and for users that need a plug-in.
        """
        config = _load(path)
        chosen = _named(config, "contexts", context or config.get("current-context", ""), path)["context"]
        cluster = _named(config, "clusters", chosen.get("cluster", ""), path)["cluster"]
        user = _named(config, "users", chosen.get("user", ""), path)["user"]
        if "exec" in user or "auth-provider" in user:
            raise LocalError(
                f"{path}: user {chosen['user']} needs a credential plug-in, which the workload cannot run: give it a"
                " context with a token or a client certificate"
            )
        files = ExitStack()
        try:
            material = _Material(files, path.parent)
            cert = material.file(user, "client-certificate"), material.file(user, "client-key")
            client = cls(
                cluster["server"],
                token=_token(user, path.parent),
                ca_file=material.file(cluster, "certificate-authority"),
                cert=(cert[0], cert[1]) if cert[0] and cert[1] else None,
                verify=not cluster.get("insecure-skip-tls-verify", False),
            )
        except (KeyError, OSError, ValueError) as error:
            files.close()
            raise LocalError(f"{path} cannot be used: {error}") from error
        client._files = files
        return client

    def close(self) -> None:
        """Close all connections, and remove the files made of inline certificates."""
        self._pool.clear()
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = JSON) -> tuple[int, Any]:
        """Return the status and the parsed JSON (text where it is none). Raises `Away`."""
        headers = self._headers | ({"Content-Type": content_type} if body is not None else {})
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._pool.request(method, self.server + path, body=data, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise Away(f"{self.server} does not answer: {error}") from error
        try:
            return answer.status, json.loads(answer.data)
        except ValueError:
            return answer.status, answer.data.decode(errors="replace")


def _load(path: Path) -> Mapping[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise LocalError(f"kubeconfig {path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise LocalError(f"kubeconfig {path} is no mapping")
    return config


def _named(config: Mapping[str, Any], section: str, name: str, path: Path) -> Mapping[str, Any]:
    entries = config.get(section)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(section[:-1]), dict):
            return entry
    raise LocalError(f"kubeconfig {path} has no {section[:-1]} named {name!r}")


def _token(user: Mapping[str, Any], folder: Path) -> str | None:
    if "tokenFile" in user:
        return (folder / str(user["tokenFile"])).read_text(encoding="utf-8").strip()
    token = user.get("token")
    return str(token) if token else None


class _Material:
    """Certificates and keys of a kubeconfig as files, as TLS wants them; inline ones last as long as `files`."""

    def __init__(self, files: ExitStack, folder: Path) -> None:
        self._files = files
        self._folder = folder

    def file(self, owner: Mapping[str, Any], name: str) -> Path | None:
        if owner.get(name):
            return self._folder / str(owner[name])
        inline = owner.get(f"{name}-data")
        if not inline:
            return None
        private = self._files.enter_context(tempfile.TemporaryDirectory(prefix="kubecdc-"))
        path = Path(private) / name
        path.write_bytes(base64.b64decode(inline, validate=True))
        return path
