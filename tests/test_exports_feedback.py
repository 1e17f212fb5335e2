"""What a student may read holds all that helps and nothing that is the grader's or somebody else's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from lockstep.classroom.exports import feedback
from lockstep.classroom.exports.autograding import autograding
from lockstep.classroom.exports.gradescope import results
from lockstep.classroom.exports.junit import junit_xml
from lockstep.classroom.exports.moodle import comment
from lockstep.classroom.record import Record
from lockstep.verdict import Verdict
from tests.graded_class import CATALOGUE, FAILED, HOST, HOSTILE, PASSED, SECRETS, a_record, named, the_class

FOR_STUDENTS: dict[str, Callable[[Record], str]] = {
    "gradescope": lambda record: json.dumps(results(record, CATALOGUE)),
    "junit": lambda record: junit_xml(record, CATALOGUE).decode(),
    "moodle": lambda record: comment(record, CATALOGUE),
    "github": lambda record: json.dumps(autograding(record, CATALOGUE)),
}


@pytest.mark.parametrize("export", FOR_STUDENTS)
@pytest.mark.parametrize("record", the_class(), ids=lambda record: record.student.id)
def test_nothing_secret_is_in_what_a_student_may_read(export: str, record: Record) -> None:
    text = FOR_STUDENTS[export](record)
    for secret in SECRETS:
        assert secret not in text


def test_the_canaries_are_there_to_be_found() -> None:
    texts = repr(the_class())
    assert all(secret in texts for secret in SECRETS)


@pytest.mark.parametrize("export", ["gradescope", "junit", "moodle"])
def test_message_hint_and_title_reach_the_student(export: str) -> None:
    text = FOR_STUDENTS[export](a_record("plain"))
    assert "of 40 images." in text
    assert "Try: Use a `DistributedSampler`." in text
    if export != "junit":
        assert "Every rank sees its own share." in text


@pytest.mark.parametrize("export", FOR_STUDENTS)
def test_why_nothing_was_graded_reaches_the_student_without_our_folders(export: str) -> None:
    broken = next(record for record in the_class() if record.student.id == "broken")
    text = FOR_STUDENTS[export](broken)
    if export != "github":
        assert "broken.zip is no archive: it ends too early." in text
    assert "/srv" not in text


@pytest.mark.parametrize("export", FOR_STUDENTS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_made_harmless(export: str, name: str) -> None:
    text = FOR_STUDENTS[export](named(name))
    assert not set(text) & set("\x00\x1b\u202e\u200b")
    assert "\\u202e" not in text
    assert "\\u0000" not in text
    text.encode()


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (f"{HOST}/a.zip is empty.", "a.zip is empty."),
        (f"'{HOST}/a.zip' and `{HOST}/b.zip`", "'a.zip' and `b.zip`"),
        ("see https://example.org/a/b.html", "see https://example.org/a/b.html"),
        ("either 1/2 or and/or/else", "either 1/2 or and/or/else"),
        ("ddp_train / sampler", "ddp_train / sampler"),
        ("in src/a/b.py", "in src/a/b.py"),
        ("there is no /tmp", "there is no /tmp"),
        ("\x1b[31mred", "red"),
    ],
)
def test_folders_of_this_machine_are_taken_off(sentence: str, shown: str) -> None:
    assert feedback.public(sentence) == shown


def test_numbers_follow_the_catalogue() -> None:
    items = feedback.items(a_record("plain"), CATALOGUE)
    assert [(item.number, item.name) for item in items] == [
        ("1.1", "setup"),
        ("1.2", "sampler"),
        ("2.1", "there"),
        ("2.2", "Q1"),
    ]
    assert [item.number for item in feedback.items(a_record("plain"), CATALOGUE[1:])] == [
        "2.1",
        "2.2",
        "1.1",
        "1.2",
    ]


def test_points_are_what_a_person_left_of_them() -> None:
    decided = next(record for record in the_class() if record.student.id == "decided")
    sampler = feedback.items(decided, CATALOGUE)[1]
    assert (sampler.points, sampler.passed, sampler.verdict) == (3.0, True, Verdict.FAILED)
    assert sampler.said.endswith("A person gave 3 instead of 0.5 points.\nComment: Seen it work.")
    assert "essay: See me." in feedback.summary(decided)


def test_what_waits_and_what_is_late_is_said() -> None:
    waits = feedback.summary(a_record("plain"))
    assert waits[0] == "2.5 of 8 points."
    assert "1 answer waits for a person, who may still give points." in waits
    late = next(record for record in the_class() if record.student.id == "late")
    assert "2 days late: 1 of 5 points are taken off." in feedback.summary(late)
    said = [feedback.summary(replace(late, late_days=days)) for days in (1.0, 1.5, 0.3)]
    assert any(line.startswith("1 day late: ") for line in said[0])
    assert any(line.startswith("1.5 days late: ") for line in said[1])
    assert any(line.startswith("7.2 hours late: ") for line in said[2])


def test_a_check_that_passed_with_a_remark_says_it() -> None:
    item = feedback.items(a_record("ann", replace(PASSED, message="Slow.")), CATALOGUE)[0]
    assert (item.passed, item.said) == (True, "Slow.")
    assert not feedback.items(a_record("ann", replace(FAILED, max_points=0.0, points=0.0)), CATALOGUE)[
        0
    ].passed
