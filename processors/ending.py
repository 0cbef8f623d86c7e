"""How a worker that cannot go on ends its process: at once, with the reason and a status.

A thread that hangs would keep an orderly end from coming, and no guarantee depends on one: the next worker begins with
the fence.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import sys
import threading
from collections.abc import Iterable

from kubecdc.errors import KubecdcError, Misconfigured

END_S = 30.0  # Kubernetes gives no more
TASK_LINES = 6


def end_within(seconds: float) -> None:
    """End the process if it still runs then: with status 1, since an orderly end would have come before."""
    reason = f"the orderly end hung for {seconds:g} s; what is committed is safe, the next worker goes on from there"
    timer = threading.Timer(seconds, end_process, (reason,))
    timer.daemon = True
    timer.start()


def end_stuck(reason: object, loops: Iterable[asyncio.AbstractEventLoop] = ()) -> None:
    """End the process as `end_process` does, and tell before where its threads and the tasks of these loops stand."""
    stderr = sys.__stderr__ or sys.stderr
    with contextlib.suppress(Exception):  # telling must not keep the end from coming
        faulthandler.dump_traceback(stderr)
        for loop in loops:
            for task in asyncio.all_tasks(loop):
                task.print_stack(limit=TASK_LINES, file=stderr)
    end_process(reason)


def end_process(reason: object) -> None:
    """Write the reason to standard error and exit: status 2 for what the user can mend (`KubecdcError`), else 1."""
    stderr = sys.__stderr__ or sys.stderr  # Faust turns sys.stderr into log lines
    for line in reason.problems if isinstance(reason, Misconfigured) else (reason,):
        stderr.write(f"error: {line}\n")
    stderr.flush()
    os._exit(2 if isinstance(reason, KubecdcError) else 1)
