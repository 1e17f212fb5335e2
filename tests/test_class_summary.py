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
