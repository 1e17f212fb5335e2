"""The judges judged, where they judge what is handed in instead of a run: the reports, and the written answers.

One thing is changed in a report of the worked solution (tests/mutations.py) or in one of its answers, and a check must
fail, or tests/unjudged.py says why none need. Launch files are changed one thing at a time by `make mutants`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from fixtures import build
from graders.answers.rubric import questions
from graders.answers.substance import SAME_ANSWERS
from graders.reports.handed_in import FOLDER, WANTED
from lockstep.exercise import find_exercises
from lockstep.sandbox.box import Box
from lockstep.submission import Submission, open_submission
from tests.mutations import Place, of_figure, of_object
from tests.observed import Judge, Run
from tests.sandboxed import ROOT
from tests.unjudged import UNJUDGED_OF_REPORTS, Tally

EXERCISES = {exercise.id: exercise for exercise in find_exercises(ROOT / "graders")}
REFERENCE = build.ROOT / "reference"
ANSWERS = "answers.md"
# How many places of one key are changed in one way.
PLACES = 8
# What a rerun has to show is tried rule by rule in tests/test_reports_rerun.py.
OF_A_RERUN = "spot_rerun"

Recording = dict[str, list[Run]]
"""The runs of each check of an exercise."""


@pytest.mark.parametrize("name", [wanted.name for wanted in WANTED])
def test_what_a_report_says_is_judged(name: str, box: Box) -> None:
    submission, path = open_submission(REFERENCE), f"{FOLDER}/{name}"
    recording = recorded("reports", submission, box)
    content = json.loads(submission.files[path])
    tally = Tally(row for row in UNJUDGED_OF_REPORTS if row.is_about(name))
    for place in chosen(of_object(content, "", of_figure)):
        one = (name, place.key, place.change)
        changed = with_file(submission, path, json.dumps(place.make()))
        if tally.has_to_learn(*one) and not is_noticed("reports", changed, recording):
            tally.unnoticed(*one)
    tally.assert_clean()


def parts(text: str, number: int) -> tuple[str, str, str]:
    """The answers up to a question and what is asked there, the answer to it, and the rest."""
    head, heading, rest = re.split(rf"^(## Q{number} .*\n\n> .*\n)", text, flags=re.MULTILINE)
    following = re.search(r"^## |\Z", rest, re.MULTILINE)
    assert following is not None
    return head + heading, rest[: following.start()], rest[following.start() :]


def with_answer(text: str, number: int, answer: str) -> str:
    """The answers, one of them another."""
    before, _, after = parts(text, number)
    return before + answer + after


@pytest.mark.parametrize("number", [question.number for question in questions()])
def test_what_is_no_answer_is_noticed_whichever_it_stands_for(number: int, box: Box) -> None:
    submission = open_submission(REFERENCE)
    recording = recorded("answers", submission, box)
    text = submission.files[ANSWERS].decode()
    _, answer, _ = parts(text, number)
    for instead in (
        "\n",
        "\nTODO\n\n",
        f"\n{re.findall('[a-z]+', answer)[-1]}\n\n",
        f"\n<!--\n{re.sub('<!--.*?-->', '', answer)}\n-->\n\n",
    ):
        changed = with_answer(text, number, instead)
        assert is_noticed("answers", with_file(submission, ANSWERS, changed), recording), instead
    # Two or three may be the same, of what could not be measured.
    pasted, numbers = text, [question.number for question in questions()]
    for other in sorted(numbers, key=lambda other: (other - number) % len(numbers))[1:SAME_ANSWERS]:
        pasted = with_answer(pasted, other, answer)
    assert is_noticed("answers", with_file(submission, ANSWERS, pasted), recording)
    missing = re.sub(rf"^## Q{number} ", "What is asked: ", text, flags=re.MULTILINE)
    assert is_noticed("answers", with_file(submission, ANSWERS, missing), recording)
    in_other_letters = with_answer(text, number, answer.upper())
    assert not is_noticed("answers", with_file(submission, ANSWERS, in_other_letters), recording)


def recorded(exercise: str, submission: Submission, box: Box) -> Recording:
    """What each check of an exercise saw of the worked solution, which passes them all."""
    names = [check.id for check in EXERCISES[exercise].checks if check.id != OF_A_RERUN]
    recording = {name: Judge(EXERCISES[exercise], name, submission).record(box) for name in names}
    assert not is_noticed(exercise, submission, recording)
    return recording


def is_noticed(exercise: str, submission: Submission, recording: Recording) -> bool:
    """Whether a check does not pass what was handed in."""
    return any(Judge(EXERCISES[exercise], name, submission).verdict(runs) for name, runs in recording.items())


def with_file(submission: Submission, path: str, text: str) -> Submission:
    """The submission with other content in one of its files."""
    return replace(submission, files={**submission.files, path: text.encode()})


def chosen(places: Iterable[Place]) -> Iterator[Place]:
    """Of the places that share key and change a few: the first, and others evenly spread."""
    alike: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        alike.setdefault((place.key, place.change), []).append(place)
    for each in alike.values():
        yield from each[:: -(-len(each) // PLACES)]
