"""A whole self-check of the worked solution, in a process of its own, with the moments that matter."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from fixtures.works import REFERENCE

FIRST_CHECK = """
import json, sys, time
from dataclasses import replace
from pathlib import Path
from lockstep.grading import Options, Silent, grade
from lockstep.sandbox.box import Box
from lockstep.sandbox.connection import Connection
run, marks = Connection.run, []
def noted(self, *args):
    marks.append(time.time())
    return run(self, *args)
Connection.run = noted
if sys.argv[2] == "together":
    run_spec = Box.run
    Box.run = lambda box, spec: run_spec(box, replace(spec, shared_files=True))
result = grade(Options(Path(sys.argv[1]), exercises=tuple(sys.argv[3:]), self_check=True), Silent())
assert result.points == result.max_points, result
print(json.dumps([marks[0], {e.id: sum(c.seconds for c in e.checks) for e in result.exercises}]))
"""


def whole_reference(*exercises: str, apart: bool = True) -> tuple[float, float, dict[str, float]]:
    """Wall seconds of a whole self-check of the reference, those until its first run, and those of each exercise.

    With `apart=False` the ranks of a run share their files and processes, as all did once.
    """
    started = time.time()
    command = [
        sys.executable,
        "-c",
        FIRST_CHECK,
        str(REFERENCE),
        "apart" if apart else "together",
        *exercises,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    wall = time.time() - started
    if done.returncode != 0:
        raise SystemExit(f"the reference did not pass: {done.stderr[-2000:]}")
    first, seconds = json.loads(done.stdout.splitlines()[-1])
    return wall, first - started, seconds
