"""The trials that a search for the batch size returns in exercise 6, and those that it was seen to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from graders.amp.probe.searching import _listed
from graders.amp.search_report import problem_of_trials
from lockstep.sandbox.box import Box
from lockstep.wire import Json
from tests.amp_scripts import result

TRIED: Json = [[2, True, True], [8, True, True], [16, False, False], [12, True, True], [14, False, False]]
TOLD: list[Json] = [[2, True], [8, True], [16, False], [12, True], [14, False]]
RETURN = "    return good, trials\n"


def listed(trials: Json, size: Json = 12, tried: Json = TRIED) -> Json:
    return {"size": size, "trials": trials, "tried": tried}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (listed(TOLD), None),
        (listed(TOLD[::-1]), None),
        (listed([*TOLD, *TOLD]), None),
        (listed(TOLD, 11), None),  # with a margin
        (listed([[12, True], [13, False]]), None),
        (listed([], 12), "and returned no trials: (12, [])"),
        (listed([[2, True], [4, False]]), "the largest that is ok has 2"),
        (listed([[16, False]]), "the largest that is ok has 0"),
        (listed([[2, True], [13, True], [16, False]]), "one that is ok has 13"),
        (listed([[2, True], [12, True]]), "all of the trials that it returned are ok"),
        # Nothing was searched, as on a CPU; all fitted; in another process.
        (listed([], tried=[]), None),
        (listed([], tried=[[2, True, True]]), None),
        (listed([[2, True], [12, True]], tried=[[16, False, False]]), None),
        # Of another form.
        (listed([[2, "yes"], [16, "no"]]), None),
        (listed([[None, True]]), None),
        (listed([None]), None),
        (listed({}), None),
        (listed([], None), None),
        (listed([], tried=[[2, True]]), None),
        (listed([], tried=None), None),
        (None, None),
        ([], None),
    ],
)
def test_trials_are_those_that_were_made(found: Json, words: str | None) -> None:
    problem = problem_of_trials(found)
    assert (problem is None) if words is None else (problem is not None and words in problem.message)


@pytest.mark.parametrize(
    "result",
    [None, 12, (12,), (12, None), (12, {2: True}), (12, "2, 8"), {"best": 12}, (12, [], 3)],
)
def test_results_of_another_form_are_not_read(result: object) -> None:
    assert _listed(result, []) is None


def test_more_fields_of_a_trial_are_not_read() -> None:
    trials = [{"batch_size": 2, "ok": True, "seconds": 0.1}, (2, True), {"size": 2}]
    told = [[2, True], None, [None, None]]
    assert _listed((2, trials), []) == {"size": 2, "trials": told, "tried": []}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (RETURN, "    return good, sorted(trials, key=lambda trial: -trial['batch_size'])\n"),
        (RETURN, "    return good, trials[-4:]\n"),
        (RETURN, "    return good, tuple({**trial, 'seconds': 0.1} for trial in trials)\n"),
    ],
    ids=["sorted", "the last few", "with more fields"],
)
def test_trials_may_be_returned_otherwise(old: str, new: str, tmp_path: Path, box: Box) -> None:
    found = result(tmp_path, box, "find_batch", old, new)
    assert found.points == found.max_points, found.message
