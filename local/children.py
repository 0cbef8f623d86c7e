"""Child processes that never outlive this one, not even when it is killed with SIGKILL.

On Linux the kernel sends the child SIGKILL when the *thread* that forked it ends, so all children
are forked by one thread that lives as long as the process. The child asks for that signal itself,
in a tiny Python program that then becomes the server: code between fork and exec in a process with
threads can deadlock. On other systems children end only when they are stopped.
"""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

from local.errors import FolderUnusable, NotReady, ServerDied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_LEAVING_SECONDS = 3.0  # a server that was just killed may still be closing its files

_BECOME = """
import ctypes, os, signal, sys
parent = int(sys.argv[1])
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG survives exec
if os.getppid() != parent:
    os._exit(0)  # the parent ended before the kernel was asked
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Child:
    """A server process, its log file, and the ways to end it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, log_start: int) -> None:
        self._process = process
        self._log_start = log_start
        self.log = log

    @property
    def pid(self) -> int:
        """The process id; of the server itself, not of a wrapper."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        return self._process.poll()

    def stop(self, grace_seconds: float = 20.0) -> None:
        """Ask the process to end (SIGTERM), and kill it when it has not after `grace_seconds`."""
        self._process.terminate()
        self.thaw()  # a frozen process cannot do what it was asked
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process at once (SIGKILL); returns when it is gone."""
        self._process.kill()
        self._process.wait()

    def abort(self) -> None:
        """End the process with SIGABRT; Python with PYTHONFAULTHANDLER writes first where its threads stand."""
        self._process.send_signal(signal.SIGABRT)

    def freeze(self) -> None:
        """Stop the process without ending it (SIGSTOP): its sockets stay open and silent."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)

    def tail(self, lines: int = 15) -> str:
        """Return the last lines that this process wrote to its log."""
        with self.log.open("rb") as stream:
            stream.seek(self._log_start)
            text = stream.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])


def spawn(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, keep: Sequence[int] = ()) -> Child:
    """Start a process with both outputs appended to `log`; OSError when it cannot be started.

    It gets a session of its own, so that Ctrl-C reaches us and we end it in the right order. The file descriptors
    `keep` are its own, too.
    """
    command = [str(part) for part in argv]
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command]
    log.parent.mkdir(parents=True, exist_ok=True)

    def fork() -> Child:
        with log.open("ab") as stream:
            start = stream.tell()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                start_new_session=True,
                pass_fds=tuple(keep),
            )
        return Child(process, log, start)

    return _spawner.run(fork)


def wait_ready(child: Child, name: str, ready: Callable[[], bool], timeout_seconds: float) -> None:
    """Return when `ready` holds; `ServerDied` when the child ends before, or `NotReady`, both with its log."""
    answered = poll(lambda: not child.alive or ready(), timeout_seconds, every_seconds=0.05)
    if not child.alive:
        raise ServerDied(
            f"{name} ended at its start (exit code {child.exit_code}). The end of {child.log}:\n{child.tail()}"
        )
    if not answered:
        raise NotReady(f"{name} did not answer within {timeout_seconds:.0f} s. The end of {child.log}:\n{child.tail()}")


def prepare_folder(folder: Path) -> None:
    """Make `folder` if it is missing; `FolderUnusable` when a file cannot be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FolderUnusable(f"cannot write in {folder} ({error}): choose another folder") from error


@contextmanager
def claimed(folder: Path) -> Iterator[int]:
    """A lock on `folder` as a file descriptor; `FolderUnusable` when another server has it.

    A child that keeps the descriptor holds the lock until it ends, however it does and whoever of us still lives.
    """
    refused = f"{folder} cannot be locked (%s): choose another folder"
    try:
        stream = (folder / "lock").open("ab")
    except OSError as error:
        raise FolderUnusable(refused % error) from error
    with stream:

        def free() -> bool:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                raise FolderUnusable(refused % error) from error
            return True

        if not poll(free, _LEAVING_SECONDS, every_seconds=0.05):
            raise FolderUnusable(f"another server runs on {folder}: use that one, end it, or choose another folder")
        yield stream.fileno()


def poll(condition: Callable[[], bool], timeout_seconds: float, every_seconds: float) -> bool:
    """Ask `condition` until it holds or time is up; returns its last answer."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every_seconds)
    return True


class _Spawner:
    """The one thread that forks; a daemon, so that it ends with the process and not before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[tuple[Callable[[], Child], Future[Child]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, fork: Callable[[], Child]) -> Child:
        """Run `fork` in the spawning thread; raises what it raises."""
        answer: Future[Child] = Future()
        with self._lock:
            # A process made by os.fork() inherits this object, but not the thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._loop, name="spawner", daemon=True)
                self._thread.start()
        self._orders.put((fork, answer))
        return answer.result()

    def _loop(self) -> None:
        while True:
            fork, answer = self._orders.get()
            try:
                answer.set_result(fork())
            except BaseException as error:  # noqa: BLE001 - it is raised again in the caller
                answer.set_exception(error)


_spawner = _Spawner()
