"""The attacks under `tests/attacks/`, one folder each, and how one is graded.

A folder is a submission with an `attack.toml` that says what it must come to:

    title = "Replaces what compares tensors"
    exercise = "lfw_dataset"             # graded on `checks`, none of which may earn a point
    checks = ["items_are_images"]
    verdict = ["failed"]                 # each check ends in one of these
    says = "words of the message"        # optional
    needs = "abstract sockets apart"     # optional: what not every kernel can do; elsewhere it is not made
    base = "reference"                   # optional: on top of the worked solution, changed by
    [[edit]]                             # `find`, which occurs once in `file`, becoming `replace`

A `make.py` has a function `make(folder)` that writes what cannot lie in a repository. For what must not
even be taken in it returns the path of the hand-in, and the `attack.toml` is

    title = "..."
    refused = "words of the sentence"

`@CANARY@` in any of its files becomes the path of a file outside of the sandbox that must stay as it is.
"""

from __future__ import annotations

import contextlib
import runpy
import shutil
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fixtures.works import Work
from lockstep import grading, plugin
from lockstep.grading import Bridge, Options, Silent
from lockstep.result import CheckResult
from lockstep.sandbox.box import Box
from lockstep.submission import open_submission
from tests.samples import impatient_checks
from tests.sandboxed import ROOT, keeps_abstract_sockets_apart

FOLDER = Path(__file__).with_name("attacks")
# Long enough not to be found in a message by chance.
SEED = 7_306_218_954_371_206
SHORT_SECONDS = 2.5
"""How long a check waits for an attack that never answers; `slow` attacks get their check's own limit."""

FOLDERS = {"M08_huge_notebook", "M23_nothing_at_all", "R17_huge_source"}
"""Uploads that are folders; all others are one file."""

_KEYS = {"title", "exercise", "checks", "verdict", "says", "base", "edit", "refused", "slow", "needs"}
_NEEDS = {"abstract sockets apart": keeps_abstract_sockets_apart}


@dataclass(frozen=True)
class Attack:
    """One folder of `tests/attacks/`; its name begins with its number in the catalogue."""

    name: str
    about: dict[str, Any]

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return FOLDER / self.name

    @property
    def is_upload(self) -> bool:
        """Whether it is refused when it is handed in."""
        return "refused" in self.about

    def build(self, folder: Path, canary: Path) -> Path:
        """Write the submission below `folder`, where nothing lies yet, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.is_upload:
            made = self._make(folder)
            assert isinstance(made, Path)
            return made
        if self.about.get("base") == "reference":
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / "reference", folder, ignore=unwanted, dirs_exist_ok=True)
        ours = shutil.ignore_patterns("attack.toml", "make.py", "__pycache__")
        shutil.copytree(self.folder, folder, ignore=ours, dirs_exist_ok=True)
        if (self.folder / "make.py").exists():
            self._make(folder)
        for change in self.about.get("edit", ()):
            path = folder / change["file"]
            text = path.read_text()
            assert text.count(change["find"]) == 1, f"{self.name}: {change['find']!r} must occur once"
            path.write_text(text.replace(change["find"], change["replace"]))
        for path in folder.rglob("*.py"):
            path.write_bytes(path.read_bytes().replace(b"@CANARY@", bytes(canary)))
        return folder

    def _make(self, folder: Path) -> object:
        return runpy.run_path(str(self.folder / "make.py"))["make"](folder)


def all_attacks() -> list[Attack]:
    """Every attack that can be made on this machine, by its number."""
    attacks = []
    for path in sorted(FOLDER.glob("*/attack.toml")):
        about = tomllib.loads(path.read_text())
        assert set(about) <= _KEYS, f"{path}: unknown {set(about) - _KEYS}"
        if "needs" not in about or _NEEDS[about["needs"]]():
            attacks.append(Attack(path.parent.name, about))
    return attacks


def refused_works() -> list[Work]:
    """The attacks that are one file which is refused when it is handed in, as works for a class."""
    return [
        Work(attack.name, partial(attack.build, canary=Path()), refused=attack.about["refused"], upload=True)
        for attack in all_attacks()
        if attack.is_upload and attack.name not in FOLDERS
    ]


def grade(
    submission: Path,
    exercise: str,
    checks: list[str],
    box: Box,
    *,
    seed: int = SEED,
    slow: bool = False,
    device: str = Options.device,
) -> dict[str, CheckResult]:
    """Grade some checks as `lockstep` does, in a sandbox that is lent to it; the results by check id."""
    options = Options(submission, exercises=(exercise,), seed=seed, world_sizes=(2,), device=device)
    bridge = Bridge(options, Silent(), box)
    words = [f"test_{check}" for check in checks]
    with contextlib.nullcontext() if slow else impatient_checks(SHORT_SECONDS):
        pytest.main([*grading._arguments(options), "-k", " or ".join(words)], plugins=[plugin, bridge])
    assert bridge.problem is None, bridge.problem
    assert bridge.result is not None
    (graded,) = bridge.result.exercises
    return {check.id: check for check in graded.checks if check.id in checks}


def refusal(path: Path) -> str:
    """The sentence with which a hand-in is refused, or what is said about its files."""
    submission = open_submission(path)
    return " ".join([*submission.notes, *submission.problems.values()])
