"""The last words of `lockstep grade`: what a class came to, and what a person should look at."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep import terminal
from lockstep.classroom.grade import Graded
from lockstep.classroom.handin import HandIn, Intake
from lockstep.classroom.intake import LATE
from lockstep.classroom.plan import Plan
from lockstep.classroom.record import Override, Record
from lockstep.classroom.summary import summary
from tests.graded_class import CATALOGUE, a_record, missing

ANN, BEN, CAT = a_record("ann"), a_record("ben"), missing("cat")


def _said(intake: Intake, *records: Record) -> str:
    written = io.StringIO()
    graded = Graded(intake, Plan((), 1, 0), stopped=False)
    terminal.console_for(written).print(summary(graded, records, CATALOGUE, Path("RESULTS")))
    return " ".join(written.getvalue().split())


def _handin(record: Record, *notes: str) -> HandIn:
    return HandIn(record.student, None, record.label, notes=notes)


def test_who_is_not_in_a_later_download_has_not_handed_in_nothing() -> None:
    said = _said(Intake((_handin(ANN),), missing=(BEN.student, CAT.student)), ANN, BEN, CAT)
    assert "1 student handed in nothing, 0 files belong to nobody." in said
    assert "1 student is not among these hand-ins; what they handed in before counts." in said
    said = _said(Intake((_handin(ANN), _handin(BEN)), missing=(CAT.student,)), ANN, BEN, CAT)
    assert "1 student handed in nothing" in said
    assert "not among" not in said


def test_what_canvas_marks_late_is_counted() -> None:
    said = _said(Intake((_handin(ANN, LATE), _handin(BEN, "a note"))), ANN, BEN)
    assert (
        "1 hand-in is marked LATE by Canvas, and nothing says by how much: no points are taken off." in said
    )
    assert "LATE" not in _said(Intake((_handin(ANN), _handin(BEN))), ANN, BEN)


BEFORE, AFTER = "2026-04-30T10:00:00+00:00", "2026-05-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("decided", "told"),
    [
        (Override("ddp_train", "setup", 1.5, "", "Kim", BEFORE), "ddp_train/setup: a decision holds 1.5, the graders now give 2"),
        (Override("ddp_train", "", 1.0, "", "Kim", BEFORE), "ddp_train: a decision holds 1, the graders now give 2.5"),
        (Override("ddp_train", "setup", 1.5, "", "Kim", AFTER), ""),
        (Override("ddp_train", "setup", 2.0, "", "Kim", BEFORE), ""),
        (Override("ddp_train", "setup", None, "a comment", "Kim", BEFORE), ""),
        (Override("ddp_train", "gone", 0.0, "", "Kim", BEFORE), ""),
        (Override("gone", "", 0.0, "", "Kim", BEFORE), ""),
    ],
)  # fmt: skip
def test_a_decision_that_newer_work_has_outgrown_is_told(decided: Override, told: str) -> None:
    said = _said(Intake((_handin(ANN),)), replace(ANN, overrides=(decided,)))
    assert (told in said) if told else ("a decision holds" not in said)


@pytest.mark.parametrize(
    ("out", "gradebook", "named"),
    [
        ("RESULTS", "", "lockstep remove RESULTS --not-on-roster"),
        ("lab 3", "", "lockstep remove 'lab 3' --not-on-roster"),
        ("lab 3", "postgresql://kim@host/lab", "lockstep remove postgresql://kim@host/lab --not-on-roster"),
    ],
)
def test_a_command_is_told_as_it_has_to_be_typed_on_a_line_of_its_own(
    out: str, gradebook: str, named: str
) -> None:
    written = io.StringIO()
    graded = Graded(Intake((_handin(ANN),)), Plan((), 1, 0), stopped=False)
    said = summary(graded, (ANN, replace(BEN, in_class=False)), CATALOGUE, Path(out), gradebook)
    terminal.console_for(written).print(said, crop=False)
    assert f"Who was never in the class is taken out of the results: {named}\n" in written.getvalue()
    assert f"{Path(out, 'index.html')} shows the class" in written.getvalue()


def test_other_points_for_the_same_work_are_listed_by_student() -> None:
    written = io.StringIO()
    graded = Graded(Intake((_handin(ANN), _handin(BEN))), Plan((), 2, 0), stopped=False)
    turned = ((BEN.student.id, "a was 2, now 1"), (BEN.student.id, "b was 0, now 1"))
    said = summary(graded, (ANN, BEN), CATALOGUE, Path("RESULTS"), turned=turned)
    terminal.console_for(written).print(said, crop=False)
    words = " ".join(written.getvalue().replace("│", " ").split())
    assert (
        f"Other points than before for the same work: {BEN.student.shown}: a was 2, now 1; b was 0, now 1"
        in words
    )
