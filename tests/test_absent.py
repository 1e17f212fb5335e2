"""A file that was not handed in: told on the class page by its own word, and no crash to help anybody with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockstep.classroom.absent import has_no_file
from lockstep.result import CheckResult
from lockstep.verdict import Verdict
from tests.batches import grade
from tests.test_pages import read, text_of
from tests.tiny_class import ESSAY, LAB, RIGHT

CRASHED, FAILED = Verdict.CRASHED, Verdict.FAILED


@pytest.mark.parametrize(
    ("verdict", "message", "absent"),
    [
        (FAILED, "There is no amp_train.py (nor amp_train.ipynb) in the submission.", True),
        (FAILED, "There is no scaling.py in the submission; Scaling.py was not read: rename it if", True),
        (FAILED, "There is no a.py at the top of the submission, but there is b/a.py: hand in", True),
        (FAILED, "There is no answers.md. Perhaps Answers.txt is meant.", True),
        (FAILED, "There is no launch/torchrun_single.sh in what you handed in.", True),
        (FAILED, "There is none of the reports: loader.json, ddp.json.", True),
        (FAILED, "launch/azure_job.yml: there is no such file.", True),
        (FAILED, "There is no answer whose numbers could be compared.", False),
        (FAILED, "There is no part of a step: round up.", False),
        (FAILED, "launch/azure_job.yml: the command starts a.py, and there is no such file.", False),
        (CRASHED, "Your code raised FileNotFoundError: There is no data.csv, in len(dataset).", False),
        (CRASHED, "There is no answers.md.", False),
        (Verdict.PASSED, "There is no answers.md.", False),
        (Verdict.NOT_CHECKED, "There is no answers.md.", False),
    ],
)
def test_it_is_known_by_what_is_said_of_it(verdict: Verdict, message: str, absent: bool) -> None:
    assert has_no_file(CheckResult("c", verdict, 0.0, 1.0, message)) is absent


def test_the_class_page_counts_it_apart_and_flags_nobody(tmp_path: Path) -> None:
    works = {"ada": RIGHT, "ben": "", "cat": "class X: raise RuntimeError\n" + RIGHT}
    for student, source in works.items():
        (tmp_path / "class" / student).mkdir(parents=True)
        (tmp_path / "class" / student / "essay.md").write_text(ESSAY)
        if source:
            (tmp_path / "class" / student / "doubling.py").write_text(source)
    assert grade(tmp_path / "class", tmp_path / "results", graders=LAB) == 0
    page = (tmp_path / "results" / "index.html").read_text()
    heads = "Did not pass Share that did not pass passed failed crashed hung exceeded a limit not checked grader fault"
    assert f"{heads} file missing" in text_of(page)
    assert "doubling / doubles 1 of 3 1 1 1" in text_of(
        page
    )  # of these the second crashed, the last is no file
    data = json.loads(read(page).scripts[0])
    assert [student[10] for student in data["students"]] == ["ppp", "mnp", "cnp"]
    told = [(data["kinds"][flag[1]], data["students"][flag[0]][1]) for flag in data["flags"]]
    assert [who for kind, who in told if kind == "crashed or hung"] == ["cat"]
