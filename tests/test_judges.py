"""The judges judged: what they see of a right solution is changed in one place, and it no longer passes.

The worked solution is graded once, and every run of every check recorded. Each check is then made again, without a
sandbox, on recordings of which one thing is changed (tests/mutations.py). What a judge reads it has to judge, or
tests/unjudged.py says why it need not; what none reads, the probe need not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from fixtures import build
from lockstep.exercise import find_exercises
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.submission import open_submission
from tests.mutations import Mutant, mutants, with_more
from tests.observed import Judge, Reading, Run, is_read, of_any_run
from tests.sandboxed import ROOT
from tests.unjudged import UNJUDGED, UNREAD, Tally

EXERCISES = {exercise.id: exercise for exercise in find_exercises(ROOT / "graders")}
REFERENCE = build.ROOT / "reference"
# Read for every check, of every run.
OF_THE_ENGINE = (" ended", " ranks")
# Counted for every run, whoever asks for it.
OF_THE_RUN = (" elapsed", " began_at", " loopback_bytes", " left_running", " output")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many small trainings on a busy machine: threads would mostly wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_what_a_judge_reads_it_judges(exercise: str, box: Box) -> None:
    tally = Tally(UNJUDGED.get(exercise, ()))
    unread, read = set(), set()
    for check in EXERCISES[exercise].checks:
        judge = Judge(EXERCISES[exercise], check.id, open_submission(REFERENCE))
        runs = judge.record(box)
        assert judge.verdict(runs) == ""
        assert judge.verdict(with_more(runs)) == "", f"{check.id} minds what nobody asked for"
        keys = what_is_read(judge, runs)
        for mutant in mutants(runs):
            one = (check.id, mutant.key, mutant.change)
            if not mutant.key.endswith(OF_THE_ENGINE) and not is_read(mutant.key, keys):
                unread |= {of_any_run(mutant.key)} if not mutant.key.endswith(OF_THE_RUN) else set()
            elif (
                tally.has_to_learn(*one)
                and not judge.verdict(mutant.runs)
                and (tally.is_excused(*one) or is_unnoticed_again(judge, box, mutant))
            ):
                tally.unnoticed(*one)
        read |= set(map(of_any_run, keys))
    for key in unread:
        if not is_read(key, read):
            tally.unnoticed("", key, UNREAD)
    tally.assert_clean()


def is_unnoticed_again(judge: Judge, box: Box, mutant: Mutant) -> bool:
    """Whether it also goes unnoticed in another recording: on a busy machine other times may fit by chance."""
    same = (one for one in mutants(judge.record(box)) if (one.key, one.change) == (mutant.key, mutant.change))
    return any(not judge.verdict(one.runs) for one in same)


def what_is_read(judge: Judge, runs: Sequence[Run]) -> set[str]:
    """The keys that the judge reads of runs that it passes."""
    reading = Reading()
    judge.verdict(reading.runs(runs))
    return reading.keys


def made_up() -> Run:
    rank = RankOutcome(
        complete=True,
        values={"count": 3, "parts": [{"size": 1.5}, {"size": 2.0}], "report": '{"runs": [7]}'},
        arrays={"state/weight": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), "labels": np.array([4, 5])},
    )
    return Run("train", "train", Outcome((rank, replace(rank, values={"count": 4})), elapsed=1.0))


def test_one_thing_is_changed_at_a_time() -> None:
    run = made_up()
    found = {(mutant.key, mutant.change): mutant.runs[0].outcome for mutant in mutants([run])}
    assert found["train values.parts.#.size", "slightly more"].ranks[0].values["count"] == 3
    assert found["train values.report:.runs.#", "one more"].ranks[0].values["report"] == '{"runs": [8]}'
    assert found["train ranks", "swapped"].ranks[0].values == {"count": 4}
    assert {change for key, change in found if key == "train arrays.state/*"} == {
        "missing", "last row missing", "turned", "other type", "scaled slightly", "scaled by half",
        "one value slightly more", "not a number",
    }  # fmt: skip
    assert run.outcome.ranks[0].arrays["state/weight"][0, 0] == 1.0


def test_what_is_read_is_noted() -> None:
    reading = Reading()
    (run,) = reading.runs([made_up()])
    values = run.outcome.ranks[0].values
    assert values.get("count") == 3
    assert [part["size"] for part in values["parts"]] == [1.5, 2.0]
    assert reading.keys == {"train values.count", "train values.parts", "train values.parts.#.size"}
    assert is_read("train values.parts.#", reading.keys)
    assert not is_read("train values.report:.runs.#", reading.keys)
    assert not is_read("train arrays.labels", reading.keys)
