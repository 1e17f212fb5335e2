"""What the tests of graded classes share: hand-ins for the lab `tests/labs/steps/`, whose checks run nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from lockstep import cli
from tests.sandboxed import ROOT

LAB = ROOT / "tests" / "labs" / "steps"
STEPS = ("one", "two", "three", "four", "five", "six")

Verdicts = tuple[tuple[object, ...], ...]


def hand_in(submissions: Path, words: Mapping[str, str]) -> Path:
    """Write a class: by student the steps that fail, and what else is to happen in them."""
    for student, text in words.items():
        (submissions / student).mkdir(parents=True, exist_ok=True)
        (submissions / student / "steps.md").write_text(text)
    return submissions


def grade(submissions: Path, out: Path, *more: str, graders: Path = LAB) -> int:
    """`lockstep grade` in this process, one hand-in at a time; the exit status."""
    arguments = ["grade", str(submissions), "--out", str(out), "--graders", str(graders), "--jobs", "1"]
    return cli.main([*arguments, *more])


def verdicts(out: Path) -> Verdicts:
    """What a gradebook says of everybody's newest grading, as a database tells it; no times, no numbers of attempts."""
    query = """
        SELECT handins.student, checks.exercise, checks.position, checks."check", checks.verdict, checks.points,
               checks.max_points, checks.message, checks.hint, attempts.seed, attempts.state, attempts.problem
        FROM checks JOIN attempts ON attempts.id = checks.attempt JOIN handins ON handins.id = attempts.handin
        WHERE attempts.id IN (SELECT max(id) FROM attempts WHERE state = 'done' GROUP BY handin)
          AND handins.id IN (SELECT max(id) FROM handins GROUP BY student)
        ORDER BY 1, 2, 3
    """
    with sqlite3.connect(out / "gradebook.db") as book:
        return tuple(book.execute(query))


def attempts(out: Path) -> Mapping[str, list[tuple[str, str]]]:
    """By student the attempts, oldest first: how each stands, and its problem."""
    query = """
        SELECT handins.student, attempts.state, attempts.problem
        FROM attempts JOIN handins ON handins.id = attempts.handin ORDER BY attempts.id
    """
    found: dict[str, list[tuple[str, str]]] = {}
    with sqlite3.connect(out / "gradebook.db") as book:
        for student, state, problem in book.execute(query):
            found.setdefault(student, []).append((state, problem))
    return found
