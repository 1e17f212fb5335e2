"""A class whose exercises take next to no computing: `tests/labs/classroom/`, and everything handed in for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fixtures.build import Sample
from fixtures.works import Work, unusable_uploads
from tests.attack_corpus import refused_works
from tests.sandboxed import ROOT

LAB = ROOT / "tests" / "labs" / "classroom"
EXERCISES = ("doubling", "essay")
CHECKS = ("doubles", "halves")

RIGHT = "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
ESSAY = "# An essay\n\nBecause <b>it</b> is =1+1, says the student.\n"

_FILES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "everything": ({"doubling.py": RIGHT, "essay.md": ESSAY}, ()),
    "adds": ({"doubling.py": RIGHT.replace("2 * x", "x + x"), "essay.md": ESSAY}, ()),
    "by numpy": ({"doubling.py": "import numpy\n" + RIGHT.replace("2 * x", "2 * numpy.asarray(x)")}, ()),
    "triples": ({"doubling.py": RIGHT.replace("2 * x", "3 * x"), "essay.md": ESSAY}, ("doubles",)),
    "no half": ({"doubling.py": RIGHT.partition("\n\n\n")[0], "essay.md": ESSAY}, ("halves",)),
    "raises": ({"doubling.py": RIGHT.replace("x / 2", "x / [0][1]")}, ("halves",)),
    "hangs": ({"doubling.py": RIGHT.replace("return x / 2", "while True: pass")}, ("halves",)),
    "ends the process": ({"doubling.py": RIGHT.replace("return x / 2", "__import__('os')._exit(0)")}, ("halves",)),
    "crashes": ({"doubling.py": RIGHT.replace("return x / 2", "__import__('ctypes').string_at(0)")}, ("halves",)),
    "cannot be imported": ({"doubling.py": "class X: raise RuntimeError('\x1b[31m<b>no</b>')\n" + RIGHT}, CHECKS),
    "is no Python": ({"doubling.py": "def double(:\n", "essay.md": ESSAY}, CHECKS),
    "an essay only": ({"essay.md": ESSAY}, CHECKS),
    "nothing of it": ({"README.md": "I was ill."}, CHECKS),
}  # fmt: skip


def tiny_works() -> list[Work]:
    """Each of them once: right, wrong, broken, hostile, and uploads that are refused."""
    works = [_work(name, files, fails) for name, (files, fails) in _FILES.items()]
    return [*works, *refused_works(), *unusable_uploads()]


def _work(name: str, files: dict[str, str], fails: tuple[str, ...]) -> Work:
    spoiled = fails == CHECKS
    sample = Sample("doubling", "mistake", name, fails, (), name, LAB)
    essay = Sample("essay", "correct", name, (), (), name, LAB)
    expected = {} if spoiled else {"doubling": sample}
    if "essay.md" in files:
        expected["essay"] = essay
    return Work(name, partial(_write, files), expected)


def _write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)
