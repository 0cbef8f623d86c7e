"""`python -m tests.chaos`: kill what can be killed for some minutes, and prove that nothing was lost.

Exit status 0 only when everything holds.
"""

from __future__ import annotations

import argparse
import faulthandler
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos import schedule
from tests.chaos.reporting import ChaosReport
from tests.chaos.run import Plan, Stage, run
from tests.chaos.schedule import Fault
from tests.chaos.storm import Storm
from tests.servers import HOW_TO_GET_IT, find_envtest


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options().parse_args(arguments)
    binaries = find_envtest()
    if binaries is None:
        print(f"no API server to start: {HOW_TO_GET_IT}", file=sys.stderr)
        return 2
    command = "python -m tests.chaos " + shlex.join(sys.argv[1:] if arguments is None else arguments)
    with tempfile.TemporaryDirectory(prefix="kubecdc-chaos-") as temporary:
        folder = options.keep or Path(temporary)
        report = chaos(replace(plan_of(options), command=command), folder, binaries)
    text = report.markdown()
    print(text)
    for words in report.words:
        print(f"  {words}")
    if options.report is not None:
        options.report.write_text(text, encoding="utf-8")
    return 0 if report.ok else 1


def chaos(plan: Plan, folder: Path, binaries: Path) -> ChaosReport:
    """Run a plan in a folder; whatever happens, all that was started is ended."""
    stage = Stage(plan, folder, binaries, _say)
    try:
        stage.start()
        storm = Storm(stage.kafkas, stage.world, stage.crew, _say)
        storm.more = {
            Fault.CHURN_CRD: stage.customs.churn,
            Fault.REVOKE_ALL: stage.customs.revoke,
            Fault.REVOKE_ONE: stage.customs.revoke,
        }
        return run(stage, storm)
    finally:
        stage.close()


def plan_of(options: argparse.Namespace) -> Plan:
    """What the command line asks for. Faults on three brokers are those of leaders; a full disk is for one."""
    plan = Plan(options.minutes * 60, options.seed, options.runtime, options.brokers)
    if options.hostile:
        return replace(plan, hostile=True, producers=1, workers=1, families=schedule.HOSTILE, large={})
    large = dict(schedule.LARGE if plan.seconds >= schedule.LONG_S else schedule.SHORT)
    if options.compact_log:
        large |= schedule.COMPACTIONS
    if options.brokers >= 3:
        large = {fault: shares for fault, shares in large.items() if fault is not Fault.FULL_DISK}
        return replace(plan, families=(*plan.families, schedule.LEADERS), large=large)
    return replace(plan, large=large)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runtime", choices=("plain", "faust"), default="plain")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--hostile", action="store_true", help="spare the processes, torment the API server's client")
    parser.add_argument("--compact-log", action="store_true", help="compact events away before a worker has read them")
    parser.add_argument("--report", type=Path, help="file for the report")
    parser.add_argument("--keep", type=Path, help="folder for data and logs, kept; must be new")
    return parser


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # tells where a run that seems to hang is
    sys.exit(main())
