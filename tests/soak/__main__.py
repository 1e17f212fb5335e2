"""Grade twenty submissions again and again: `python -m tests.soak --gradings 1000`.

Every finding is printed when it is made, with what replays it; at the end there is a table for docs/soak.md. The exit
status is 1 where there was a finding.
"""

from __future__ import annotations

import argparse
import math
import secrets
import statistics
import sys
import time

from lockstep.stopping import end_with
from tests.soak.grading import GROWTH, Soak, soak
from tests.soak.machines import MACHINES, NoMemoryGroup
from tests.soak.works import WORKS


def main() -> int:
    """Soak as the command line says, and tell what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "--gradings", type=int, default=1000, metavar="N", help="how many in all (default 1000)"
    )
    parser.add_argument(
        "--seed", type=int, default=secrets.randbits(32), help="replays orders and hidden data"
    )
    parser.add_argument(
        "--machine", choices=tuple(MACHINES), action="append", help="only this one (repeatable)"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no round after so many")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    machines = options.machine or list(MACHINES)
    rounds = math.ceil(options.gradings / len(WORKS))
    try:
        done = soak(rounds, options.seed, machines, _say, time.monotonic() + 60 * options.minutes)
    except NoMemoryGroup as problem:
        sys.exit(f"{problem}; leave it out with --machine idle --machine loaded")
    print(table(done))
    return 1 if done.problems() else 0


def table(done: Soak) -> str:
    """What was graded, by machine, and everything that was wrong, as Markdown."""
    lines = [
        "| machine | load average | gradings | seconds each, median / longest | gradings with findings |",
        "|---|---|---|---|---|",
    ]
    for machine in MACHINES:
        of = [grading for grading in done.gradings if grading.machine == machine]
        if of:
            taken = [grading.seconds for grading in of]
            wrong = sum(bool(grading.findings) for grading in of)
            times = f"{statistics.median(taken):.1f} / {max(taken):.1f}"
            loads = [grading.load for grading in of]
            lines.append(
                f"| {machine} | {min(loads):.0f} to {max(loads):.0f} | {len(of)} | {times} | {wrong} |"
            )
    if len(done.gradings) >= 4:
        lines += ["", f"Memory of the process that grades: {done.growth():+.1f} MiB (at most {GROWTH:g})."]
    return "\n".join([*lines, "", *(f"- {problem}" for problem in done.problems())]).rstrip()


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    end_with(main, "soak: stopped")
