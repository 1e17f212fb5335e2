"""What a student is told of options that a script refuses: argparse's own words, from real parsers."""

from __future__ import annotations

import argparse
import contextlib
import io
from typing import Any

import pytest

from lockstep.refusedoptions import refused
from lockstep.text import last_lines


def said(flag: str, words: list[str], **settings: Any) -> str:
    """The last lines of a script with one option that is started with these words."""
    parser = argparse.ArgumentParser(prog="x.py")
    parser.add_argument(flag, **settings)
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
        parser.parse_args(words)
    return last_lines(printed.getvalue())


@pytest.mark.parametrize(
    ("flag", "words", "settings", "told"),
    [
        ("--batch_size", ["--batch-size", "4"], {"type": int}, "and not as --batch_size"),
        (
            "--data",
            ["--folder", "d"],
            {},
            "no --folder: options have the names that the exercise gives them.",
        ),
        ("--amp", ["--amp"], {"type": bool}, 'action="store_true"'),
        ("--wandb", ["--wandb", "offline"], {"action": "store_true"}, "in front of offline takes a value"),
        ("--lr", ["--lr", "0.1"], {"type": int}, "type=float"),
        ("--wandb", ["--wandb", "offline"], {"choices": ("on", "off")}, "among its choices"),
        ("--data", [], {"required": True}, "give them a default"),
    ],
)
def test_what_argparse_says_is_explained(
    flag: str, words: list[str], settings: dict[str, Any], told: str
) -> None:
    assert told in refused(said(flag, words, **settings))


@pytest.mark.parametrize(
    "words", ["", "out of memory", "ValueError: argument of no kind", "error: 3 images are missing"]
)
def test_of_what_is_no_option_nothing_is_said(words: str) -> None:
    assert refused(words) == ""
