"""A check whose runs never were: what a sandbox would have seen is made up from what it would have been given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from lockstep.check import Check, Setting
from lockstep.exercise import load_exercise
from lockstep.sandbox.outcome import Outcome
from lockstep.sandbox.spec import RunSpec
from lockstep.submission import open_submission
from lockstep.verdict import CheckEnded
from tests.observed import judge_of
from tests.sandboxed import ROOT


@dataclass(frozen=True)
class MadeUp:
    """Stands in for a sandbox."""

    answer: Callable[[RunSpec], Outcome]
    isolated: ClassVar[bool] = True

    def run(self, spec: RunSpec) -> Outcome:
        return self.answer(spec)


def check_of(exercise_id: str, check_id: str, answer: Callable[[RunSpec], Outcome]) -> Check:
    """A check of the reference, whose runs are made up by `answer`."""
    exercise = load_exercise(ROOT / "graders" / exercise_id)
    submission = open_submission(ROOT / "reference")
    setting = Setting(MadeUp(answer), submission, seed=0, world_sizes=(2,), self_check=False)  # type: ignore[arg-type]
    return Check(setting, exercise, exercise.check(check_id))


def end_of(exercise_id: str, check_id: str, answer: Callable[[RunSpec], Outcome]) -> CheckEnded | None:
    """How the judge ends such a check; None when it passes."""
    check = check_of(exercise_id, check_id, answer)
    try:
        judge_of(load_exercise(ROOT / "graders" / exercise_id), check_id)(check)
    except CheckEnded as ended:
        return ended
    return None
