"""The judges judged: what they see of a right solution is changed in one place, and it no longer passes.

The worked solution is graded once, and every run of every check recorded. Each check is then made again, without a
sandbox, on recordings of which one thing is changed (tests/mutations.py). What a judge reads it has to judge, or
tests/unjudged.py says why it need not; what none reads, the probe need not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from fixtures import build
from lockstep.exercise import find_exercises
from lockstep.sandbox.box import Box
from lockstep.submission import open_submission
from tests.mutations import mutants, with_more
from tests.observed import Judge, Reading, Run, is_read, of_any_run
from tests.sandboxed import ROOT
from tests.unjudged import UNJUDGED, UNREAD

EXERCISES = {exercise.id: exercise for exercise in find_exercises(ROOT / "graders")}
REFERENCE = build.ROOT / "reference"
# Recorded and judged within seconds.
QUICK = ("scaling",)
# Read for every check, of every run.
OF_THE_ENGINE = (" ended", " ranks")
# Counted for every run, whoever asks for it.
OF_THE_RUN = (" elapsed", " loopback_bytes", " left_running", " output")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many small trainings on a busy machine: threads would mostly wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "exercise", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in EXERCISES]
)
def test_what_a_judge_reads_it_judges(exercise: str, box: Box) -> None:
    passing, unread, read = set(), set(), set()
    for check in EXERCISES[exercise].checks:
        judge = Judge(EXERCISES[exercise], check.id, open_submission(REFERENCE))
        runs = judge.record(box)
        assert judge.verdict(runs) == ""
        assert judge.verdict(with_more(runs)) == "", f"{check.id} minds what nobody asked for"
        keys = what_is_read(judge, runs)
        for mutant in mutants(runs):
            if not mutant.key.endswith(OF_THE_ENGINE) and not is_read(mutant.key, keys):
                unread |= {of_any_run(mutant.key)} if not mutant.key.endswith(OF_THE_RUN) else set()
            elif not judge.verdict(mutant.runs):
                passing.add((check.id, mutant.key, mutant.change))
        read |= set(map(of_any_run, keys))
    passing |= {("", key, UNREAD) for key in unread if not is_read(key, read)}
    rows = UNJUDGED.get(exercise, ())
    assert sorted(one for one in passing if not any(row.excuses(*one) for row in rows)) == []
    needless = [row for row in rows if not any(row.excuses(*one) for one in passing)]
    assert needless == [], "no longer needed"


def what_is_read(judge: Judge, runs: Sequence[Run]) -> set[str]:
    """The keys that the judge reads of runs that it passes."""
    reading = Reading()
    judge.verdict(reading.runs(runs))
    return reading.keys
