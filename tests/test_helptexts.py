"""What is noted of a script's --help while it takes its options, and what must not be."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from lockstep.sandbox.helptexts import note_broken_help

PERCENT = "takes 1 % of it"


class WithWords(argparse.ArgumentParser):
    """One that writes its help itself."""

    def format_help(self) -> str:
        return "see the README"


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", argparse.ArgumentParser.parse_known_args)
    kinds: list[str] = []
    note_broken_help(lambda kind, **_: kinds.append(kind))
    return kinds


@pytest.mark.parametrize(
    ("parser", "text", "is_noted"),
    [
        (argparse.ArgumentParser(), "of %(default)s, 100 %% at most", False),
        (argparse.ArgumentParser(description="100 % by hand", epilog="5 %"), "%(type)s of %(prog)s", False),
        (argparse.ArgumentParser(add_help=False), PERCENT, False),
        (WithWords(), PERCENT, False),
        (argparse.ArgumentParser(), argparse.SUPPRESS, False),
        (argparse.ArgumentParser(), PERCENT, True),
        (argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter), PERCENT, True),
        (argparse.ArgumentParser(), "all of it, 100%", True),
        (argparse.ArgumentParser(), "%(nothing)s", True),
    ],
)
def test_help_is_broken_where_argparse_cannot_make_it(
    parser: argparse.ArgumentParser, text: str, is_noted: bool, noted: list[str]
) -> None:
    parser.add_argument("--decay", type=float, default=0.0, help=text)
    assert parser.parse_args(["--decay", "0.5"]).decay == 0.5
    assert noted == ["no_help"] * is_noted


def test_only_the_first_parser_is_asked_for_help(noted: list[str]) -> None:
    first, second = argparse.ArgumentParser(), argparse.ArgumentParser()
    second.add_argument("--decay", help=PERCENT)
    first.parse_known_args([])
    second.parse_known_args([])
    assert noted == []
