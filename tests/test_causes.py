"""What a student is advised to do about an exception, by its type, its words and what was handed in."""

from __future__ import annotations

import pytest

from lockstep.causes import advice
from lockstep.notebook import NotebookSource
from lockstep.sandbox.outcome import StudentError
from lockstep.submission import Submission

BARE = b"import cli_of_mine\nmain()\n"
READS = b"import argparse\nparser = argparse.ArgumentParser()\n"
WITH_OPTIONS = "running `python x.py --epochs 1`"


def advised(
    kind: str, message: str, phase: str, files: dict[str, bytes], *, is_notebook: bool = False
) -> str:
    notebooks = {"x.py": NotebookSource("", (), {}, ())} if is_notebook else {}
    submission = Submission("someone", files, frozenset(), "0", (), {}, notebooks)
    return advice(StudentError(kind, message, (), phase), submission)


@pytest.mark.parametrize(
    ("files", "is_notebook", "told"),
    [
        ({"x.py": BARE}, False, "with argparse, and parser.parse_args()."),
        ({"x.py": BARE}, True, "and parser.parse_known_args()[0], which also works in Jupyter."),
        ({"x.py": BARE, "amp_train.py": b"import sys\nsys.argv"}, False, "Nothing in x.py reads options"),
        ({"x.py": BARE, "cli_of_mine.py": b"import typer"}, False, "Run the same call by hand"),
        ({"x.py": READS}, False, "Run the same call by hand"),
        ({"x.py": b"def place(): fire = 1"}, False, "Nothing in x.py reads options"),
        ({}, False, "Run the same call by hand"),
    ],
)
def test_a_script_that_reads_no_options_is_told_so(
    files: dict[str, bytes], is_notebook: bool, told: str
) -> None:
    assert told in advised("RuntimeError", "boom", WITH_OPTIONS, files, is_notebook=is_notebook)


@pytest.mark.parametrize(
    ("kind", "message", "phase", "told"),
    [
        ("TypeError", "got (str, int), but expected one of", WITH_OPTIONS, "type=int"),
        ("TypeError", "can't multiply sequence by non-int of type 'str'", WITH_OPTIONS, "type=int"),
        ("TypeError", "got (str, int), but expected one of", "calling f()", "by hand"),
        ("TypeError", "strange", WITH_OPTIONS, "by hand"),
        (
            "ValueError",
            "Invalid rank 2, rank should be in the interval [0, 1]",
            "calling f()",
            "leave both out",
        ),
        (
            "DistNetworkError",
            "name: EADDRINUSE, message: address already in use",
            "calling f()",
            "LOCAL_RANK",
        ),
        ("RuntimeError", "recv error", "calling f()", "Another rank ended"),
    ],
)
def test_the_usual_cause_is_named(kind: str, message: str, phase: str, told: str) -> None:
    assert told in advised(kind, message, phase, {"x.py": READS})
