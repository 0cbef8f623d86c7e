"""The redaction key of a machine whose user gave none: made once, kept in a file of the user's own.

A key that changed with each start would make the same secret look different at the same version. It decides nothing
about redaction, and never shows the key.
"""

from __future__ import annotations

import logging
import os
import secrets
from hashlib import blake2b
from pathlib import Path

from producer.redact import KEY_BYTES_MIN

log = logging.getLogger(__name__)

KEY_BYTES = 32


def default_folder() -> Path:
    """Where programs keep what must outlive them: XDG_STATE_HOME, or ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "kubecdc"


def kept_key(cluster: str, folder: Path | None = None) -> bytes | None:
    """Return the cluster's key, made now if there is none; None where nothing can be kept, with a warning."""
    name = blake2b(cluster.encode(), digest_size=8).hexdigest()
    try:
        folder = folder or default_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"redaction-key-{name}"
        _create(path)
        key = path.read_bytes()
    except (OSError, RuntimeError) as error:
        key = b""
        log.debug("no kept key", exc_info=error)
    if len(key) < KEY_BYTES_MIN:
        log.warning(
            "no redaction key: this process uses a random one, so after a restart unchanged secrets look changed;"
            " give --redaction-key-file or KUBECDC_REDACTION_KEY"
        )
        return None
    log.info("redaction key kept in %s; give --redaction-key-file to share one between machines", path)
    return key


def _create(path: Path) -> None:
    """Write a new key, whole or not at all, unless one is there; two starts at once agree on one."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
