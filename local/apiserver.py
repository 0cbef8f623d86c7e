"""A real etcd and a real kube-apiserver on this machine, without kubelets or controllers.

For trying and testing against the server's own behaviour: history is kept until `compact` is
called, built-in objects are stored as JSON so that `local.history` can read them, and users are
static tokens. It knows nothing of what the objects mean.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from local import children, etcd, ports
from local.errors import BinariesMissing, LocalError
from local.etcd_server import EtcdServer

if TYPE_CHECKING:
    from collections.abc import Sequence

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"  # the convention of controller-runtime's envtest
_BINARIES = ("kube-apiserver", "etcd")
_READY_SECONDS = 90.0
_STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class User:
    """A user known by a bearer token. Without `system:masters`, RBAC decides what it may do."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


class ApiServer:
    """etcd and kube-apiserver whose data live in `folder`; ports and tokens survive restarts.

    `binaries` is the folder of the two programs, else `KUBEBUILDER_ASSETS` names it. `flags` are
    added to kube-apiserver's command line, where the last one of a name wins. All methods raise
    `LocalError` only, but `request` also OSError when the server is away.
    """

    def __init__(
        self,
        folder: Path,
        *,
        binaries: Path | None = None,
        port: int | None = None,
        users: Sequence[User] = (),
        flags: Sequence[str] = (),
    ) -> None:
        self._folder = folder.resolve()
        self._binaries = _binaries(binaries)
        self._port = port or ports.free_port()
        self._etcd = EtcdServer(self._folder, self._binaries / "etcd")
        self._flags = list(flags)
        self._admin = User("admin", secrets.token_hex(16), ("system:masters",))
        self._users = [self._admin, *users]
        self._server: children.Child | None = None

    @property
    def url(self) -> str:
        """The server's base URL (https, its certificate signed by `ca_file`)."""
        return f"https://{ports.HOST}:{self._port}"

    @property
    def etcd_url(self) -> str:
        """The base URL of etcd's JSON gateway (plain http)."""
        return self._etcd.url

    @property
    def ca_file(self) -> Path:
        """The certificates that verify the server; exists once it is ready."""
        return self._folder / "certificates" / "apiserver.crt"

    @property
    def admin_token(self) -> str:
        """The token of the administrator."""
        return self._admin.token

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file of the administrator; exists once the server is ready."""
        return self._folder / "kubeconfig"

    @property
    def log(self) -> Path:
        """kube-apiserver's log file; it grows over restarts."""
        return self._folder / "kube-apiserver.log"

    @property
    def alive(self) -> bool:
        """Whether kube-apiserver runs, ready or not."""
        return self._server is not None and self._server.alive

    @property
    def pid(self) -> int:
        """kube-apiserver's process id; `LocalError` when it was never started."""
        return self._running().pid

    def start(self) -> Self:
        """Start both and return when requests are served and namespace `default` exists.

        Raises `FolderUnusable`, `PortTaken`, `ServerDied`, `NotReady`.
        """
        if self.alive:
            raise LocalError(f"kube-apiserver on {self.url} runs already")
        children.prepare_folder(self._folder)
        try:
            if not self._etcd.alive:
                self._etcd.start()
            self.start_apiserver()
        except BaseException:  # Ctrl-C while it starts, too
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop both in order; nothing happens when they are down."""
        self.stop_apiserver()
        self._etcd.stop()

    def start_apiserver(self) -> None:
        """Start kube-apiserver on the etcd that runs, with the ports, users and data as before."""
        if self.alive:
            raise LocalError(f"kube-apiserver on {self.url} runs already")
        ports.check_port(self._port, "kube-apiserver")
        argv = [str(self._binaries / "kube-apiserver"), *self._arguments(), *self._flags]
        self._server = children.spawn(argv, log=self.log)
        children.wait_ready(self._server, "kube-apiserver", self._serves, _READY_SECONDS)
        self.write_kubeconfig(self.kubeconfig, self._admin)

    def stop_apiserver(self) -> None:
        """Stop kube-apiserver in order (SIGTERM); etcd goes on."""
        if self._server is not None:
            self._server.stop(_STOP_SECONDS)

    def kill_apiserver(self) -> None:
        """End kube-apiserver at once, as a crash does (SIGKILL); etcd goes on."""
        if self._server is not None:
            self._server.kill()

    def restart_apiserver(self) -> None:
        """Stop and start kube-apiserver: its watch cache then begins at the newest revision."""
        self.stop_apiserver()
        self.start_apiserver()

    def freeze_apiserver(self) -> None:
        """Stop kube-apiserver without ending it: connections stay open and silent."""
        self._running().freeze()

    def thaw_apiserver(self) -> None:
        """Let a frozen kube-apiserver go on."""
        self._running().thaw()

    def revision(self) -> int:
        """Return the newest revision that etcd has committed."""
        return etcd.revision(self.etcd_url)

    def compact(self, revision: int) -> None:
        """Make etcd forget all history before `revision`.

        A running kube-apiserver serves what its watch cache holds until it is restarted.
        """
        etcd.compact(self.etcd_url, revision)

    def snapshot(self, folder: Path) -> None:
        """Copy etcd's data to `folder` while it stands still, as a snapshot of its volume does."""
        self._etcd.snapshot(folder)

    def restore(self, folder: Path) -> None:
        """Go back to a snapshot, revisions included; etcd runs afterwards, kube-apiserver does not."""
        self.stop_apiserver()
        self._etcd.restore(folder)

    def write_kubeconfig(self, path: Path, user: User) -> None:
        """Write a kubeconfig file with which `user` talks to this server."""
        config = _kubeconfig(self.url, self.ca_file.read_bytes(), user)
        _write_private(path, json.dumps(config, indent=2))  # JSON is YAML

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        token: str | None = None,
    ) -> tuple[int, Any]:
        """Send one request, as the administrator unless `token` says else; no watches.

        Returns the HTTP status and the parsed JSON, or the text when it is none. OSError when the
        server is away.
        """
        context = ssl.create_default_context(cafile=str(self.ca_file))
        address = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            address.hostname or ports.HOST, address.port, timeout=30, context=context
        )
        headers = {"Authorization": f"Bearer {token or self.admin_token}"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            response = connection.getresponse()
            text = response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.url} broke off an answer: {error!r}") from error
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text.decode(errors="replace")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _running(self) -> children.Child:
        if self._server is None:
            raise LocalError("kube-apiserver was never started: call start()")
        return self._server

    def _arguments(self) -> list[str]:
        tokens = self._folder / "tokens.csv"
        _write_private(tokens, "".join(map(_token_line, self._users)))
        key = self._folder / "service-accounts.pem"
        if not key.exists():
            _write_private(key, _new_ec_key())
        return [
            f"--etcd-servers={self.etcd_url}",
            "--etcd-compaction-interval=0",
            "--storage-media-type=application/json",
            f"--bind-address={ports.HOST}",
            f"--advertise-address={ports.HOST}",
            f"--secure-port={self._port}",
            f"--cert-dir={self.ca_file.parent}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",  # a loopback address is no endpoint
            # No controller makes the service accounts that this plug-in asks for in each Pod.
            "--disable-admission-plugins=ServiceAccount",
        ]

    def _serves(self) -> bool:
        if not self.ca_file.exists():
            return False
        try:
            ready, _ = self.request("GET", "/readyz")
            namespace, _ = self.request("GET", "/api/v1/namespaces/default")
        except OSError:  # ssl.SSLError is one: the certificate may be half written
            return False
        return ready == namespace == 200


def _binaries(folder: Path | None) -> Path:
    named = os.environ.get(ASSETS_VARIABLE)
    folder = folder or (Path(named) if named else None)
    if folder is None:
        raise BinariesMissing(
            f"no API server to start: set {ASSETS_VARIABLE} to a folder that holds "
            "kube-apiserver and etcd (setup-envtest of controller-runtime fetches one)"
        )
    missing = [name for name in _BINARIES if not os.access(folder / name, os.X_OK)]
    if missing:
        raise BinariesMissing(
            f"{folder} holds no program named {' and none named '.join(missing)}: set "
            f"{ASSETS_VARIABLE} to a folder that holds kube-apiserver and etcd"
        )
    return folder.resolve()


def _token_line(user: User) -> str:
    groups = ",".join(user.groups)
    return f'{user.token},{user.name},{user.name},"{groups}"\n'


def _kubeconfig(url: str, certificates: bytes, user: User) -> dict[str, Any]:
    authority = base64.b64encode(certificates).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [{"name": "local", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user.name}}],
        "users": [{"name": user.name, "user": {"token": user.token}}],
    }


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _new_ec_key() -> str:
    """Make a P-256 private key as SEC 1 PEM (RFC 5915), to sign service-account tokens.

    The public point is optional in that format and any number below the group's order is a key, so
    no cryptographic library is needed.
    """
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    scalar = (secrets.randbelow(order - 1) + 1).to_bytes(32, "big")
    prime256v1 = bytes.fromhex("a00a06082a8648ce3d030107")
    fields = bytes.fromhex("0201010420") + scalar + prime256v1
    encoded = base64.b64encode(bytes([0x30, len(fields)]) + fields).decode()
    lines = [encoded[at : at + 64] for at in range(0, len(encoded), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])
