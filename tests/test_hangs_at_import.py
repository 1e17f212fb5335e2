"""A file whose import does not end: waited for twice and no more, and never given up because it was slow once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.check import Check, Setting
from lockstep.exercise import CheckSpec, Exercise, load_exercise
from lockstep.sandbox.outcome import CodeFrame, Outcome, RankOutcome, Standing
from lockstep.sandbox.spec import RunSpec
from lockstep.submission import open_submission
from lockstep.verdict import Hung
from tests.made_up import MadeUp
from tests.sandboxed import ROOT

IMPORTING = ({"kind": "phase", "name": "importing scaling.py"},)
BUSY = RankOutcome(
    complete=False, events=IMPORTING, standing=Standing("", CodeFrame("scaling.py", 3, "<module>"))
)
FINE = RankOutcome(complete=True, values={"come": "back"})


def hung(*ranks: RankOutcome) -> Outcome:
    return Outcome(ranks, elapsed=5.0, timed_out=True)


def checked(*answers: Outcome, patient: float = 0.0) -> tuple[Check, list[RunSpec]]:
    """A check of an exercise whose most patient check waits for so long, in a sandbox that answers so; its runs."""
    exercise: Exercise = load_exercise(ROOT / "graders" / "scaling")
    if patient:
        exercise = replace(exercise, checks=(*exercise.checks, CheckSpec("patient", 1.0, (), patient)))
    runs: list[RunSpec] = []

    def answer(spec: RunSpec) -> Outcome:
        runs.append(spec)
        return answers[len(runs) - 1]

    box = MadeUp(answer)
    submission = open_submission(ROOT / "reference")
    setting = Setting(box, submission, seed=0, world_sizes=(2,), self_check=False)  # type: ignore[arg-type]
    return Check(setting, exercise, exercise.checks[0]), runs


def test_what_was_slow_once_is_judged_by_what_it_gave_when_it_had_more_time() -> None:
    check, runs = checked(hung(BUSY), Outcome((FINE,), elapsed=6.0))
    assert check.run("calls").ranks == (FINE,)
    assert [run.limits.seconds for run in runs] == [5.0, 10.0]


@pytest.mark.parametrize(("patient", "seconds"), [(0.0, 10.0), (8.0, 10.0), (60.0, 60.0)])
def test_it_is_waited_for_as_long_as_any_check_would(patient: float, seconds: float) -> None:
    check, runs = checked(hung(BUSY), hung(BUSY), patient=patient)
    with pytest.raises(Hung) as ended:
        check.run("calls")
    assert runs[-1].limits.seconds == seconds
    assert ended.value.spoils
    assert f"No answer within {seconds:.0f} s while importing scaling.py" in ended.value.feedback.message
    assert "left margin" in ended.value.feedback.hint


CALLING = replace(BUSY, events=(*IMPORTING, {"kind": "phase", "name": "speedup(1, 2)"}))
# The probe's own wait behind an import has no phase of its own, but no line of theirs either.
BEHIND = replace(BUSY, standing=Standing("barrier", None))


@pytest.mark.parametrize(
    "ranks", [(CALLING,), (BEHIND,), (BUSY, CALLING)], ids=["called", "behind", "one of two"]
)
def test_any_other_hang_is_told_at_once_and_stops_nothing_else(ranks: tuple[RankOutcome, ...]) -> None:
    check, runs = checked(hung(*ranks))
    with pytest.raises(Hung) as ended:
        check.run("calls", ranks=len(ranks))
    assert len(runs) == 1
    assert not ended.value.spoils


def test_who_looks_at_what_came_back_is_given_it_as_it_came() -> None:
    check, runs = checked(hung(BUSY))
    assert check.run("calls", expect=False).timed_out
    assert len(runs) == 1
