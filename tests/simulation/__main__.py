"""`python -m tests.simulation --seeds 1000`: run seeds, report events, faults by kind and verdicts.

`--nightly` is a size for a night: 20 times as many. Exit status 1 when any guarantee fails in any seed; each such seed
is shrunk and printed with the commit, and `--from SEED --seeds 1` runs it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation.judge import Total, explain, run_seeds

NIGHTLY = 20_000
EXPLAINED_MAX = 3


def main() -> int:
    """Parse flags, run, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run (default 200)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--nightly", action="store_true", help=f"run {NIGHTLY} seeds")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    parser.add_argument("--no-shrink", action="store_true", help="name failing seeds only")
    given = parser.parse_args()
    count = NIGHTLY if given.nightly else given.seeds
    began, total = time.monotonic(), Total()
    for report in run_seeds(range(given.first, given.first + count), min(given.processes, count)):
        total.add(report)
        for name in report.failed:
            print(f"seed {report.seed}: {name} fails: {report.verdicts[name].findings[0][:300]}", flush=True)
        if total.seeds % 100 == 0:
            print(f"{total.seeds} seeds, {total.events:,} events, {time.monotonic() - began:.0f} s", file=sys.stderr)
    print("\n".join(total.lines()))
    print(f"{time.monotonic() - began:.0f} s")
    if not given.no_shrink:
        for seed, failed in sorted(total.failed.items())[:EXPLAINED_MAX]:
            print("\n".join(explain(seed, failed)))
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
