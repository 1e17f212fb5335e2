"""A class's download in any state: every hand-in is somebody's, or listed with a reason, and nothing is written elsewhere."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.classroom.gradescope import METADATA, read_metadata
from lockstep.classroom.intake import IntakeError, take_in
from lockstep.classroom.roster import Roster
from tests.downloads import CLASS, class_of, names_only
from tests.fuzz.bent import Dice, thrown
from tests.fuzz.promise import held, presentable
from tests.fuzz.test_any_archive import content_of, gzip_of, tree, zip_of
from tests.intake import zipped

STUDENTS = (
    "m100",
    "m200",
    "jane-codes",
    "doejane",
    "müllerjörg",
    "jane.doe@uni.edu",
    "nobody",
    "Jane Doe",
    "李小龙",
    "ob",
    "red",
)
YAML = f"""\
---
submission_11:
  :submitters:
  - :name: Jane Doe
    :sid: m100
    :email: jane.doe@uni.edu
  :created_at: 2026-05-01 10:00:00.1 +02:00
submission_12:
  :submitters: &who
  - :name: {chr(0x202E)}x
    :sid: 99999999999999999999
  :created_at: 9999-99-99 99:99:99 Z
submission_13:
  :submitters: *who
  :results: [1, {{a: b}}]
"""


def entry_name(dice: Dice) -> str:
    """Names as learning platforms make them, for people in the class and others."""
    who, number = dice.choice(STUDENTS), dice.choice(["301", "302", "5511", "11", "12", "0", "9" * 25])
    file = dice.choice(
        ["a.py", "w.zip", "a-1.py", "a-2.py", "w.tar.gz", "n.ipynb", "x.pdf", "", "a.rar", dice.name()]
    )
    return dice.choice(
        [
            f"{who}_{number}_77{number}_{file}", f"{who}_LATE_{number}_78_{file}", f"{who}_{number}_text.html",
            f"{who}_{number}_assignsubmission_file_/{file}", f"{who}_{number}_assignsubmission_file_{file}",
            f"Participant_{number}_assignsubmission_onlinetext_/onlinetext.html",
            f"submission_{number}/{file}", f"lab-{who}/.git/HEAD", f"lab-{who}/{file}", f"lab-{who}-1/{file}",
            f"{who}/{file}", f"{who}.zip", f"{who}.py", f"{who} (1).zip", f"wrap/{who}/{file}", f"wrap/{who}.zip", f"{who}_{file}",
            METADATA, "gradebook.db", "__MACOSX/x", ".DS_Store", dice.name(),
        ]
    )  # fmt: skip


def packed(dice: Dice) -> bytes:
    kind = dice.randrange(6)
    if kind == 0:
        return zip_of(dice)
    if kind == 1:
        return gzip_of(dice)
    return zipped(("a.py", b"x = 1\n")) if kind < 4 else content_of(dice)


def download_of(dice: Dice) -> bytes:
    """One big zip; of twins Python's writer warns, and keeps both, as some platforms do."""
    entries = {}
    for _ in range(dice.randint(0, 2 * dice.size)):
        # Python's writer ends a name where a NUL stands, and has none that is empty.
        name = entry_name(dice).encode("utf-8", "replace").decode().lstrip("\0") or "x"
        entries[name] = dice.bent(YAML.encode(), 3) if name == METADATA else packed(dice)
    if dice.rarely(10):
        return zip_of(dice)
    data = zipped(*entries.items())
    return dice.bent(data, 3) if dice.rarely(4) else data


def laid(dice: Dice, root: Path) -> None:
    """The same things as a folder; what no file system holds under such a name is left out."""
    root.mkdir()
    for _ in range(dice.randint(0, 2 * dice.size)):
        parts = [part for part in entry_name(dice).split("/") if part not in ("", ".", "..")]
        path = root.joinpath(*parts) if parts else root
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if dice.rarely(10):
                path.symlink_to(dice.choice(["nowhere", "/etc/hostname", "..", "../canary.py", "."]))
            else:
                path.write_bytes(packed(dice))
        except (OSError, ValueError):
            continue


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("class")
    folder = top / "a" / "b"
    folder.mkdir(parents=True)
    (top / "a" / "canary.py").write_bytes(b"x = 1\n")
    return folder


ROSTERS = {"numbers": class_of(CLASS), "names": names_only(), "none": None}


@given(thrown(lambda dice: dice), st.sampled_from(sorted(ROSTERS)), st.sampled_from(["zip", "zip", "folder"]))
def test_any_download_is_sorted_out_or_refused(place: Path, dice: Dice, roster: str, form: str) -> None:
    given_path, out = place / f"class.{form}", place / "out"
    if form == "zip":
        given_path.write_bytes(download_of(dice))
    else:
        laid(dice, given_path)
    before = tree(place.parent)
    try:
        taken_in(given_path, out, ROSTERS[roster])
        assert [entry for entry in tree(place.parent) if not Path(entry[0]).is_relative_to(out)] == before
        assert not any(path.is_symlink() for path in out.rglob("*"))
    finally:
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(given_path) if given_path.is_dir() else given_path.unlink()


def taken_in(submissions: Path, out: Path, roster: Roster | None) -> None:
    intake = held(
        lambda: take_in(submissions, out, roster, datetime(2026, 5, 1, tzinfo=UTC)), IntakeError, writes=out
    )
    if intake is None:
        return
    for handin in intake.handins:
        presentable(handin.label, *handin.notes, *filter(None, [handin.problem]))
        assert (handin.path is None) == bool(handin.problem)
        if handin.path is not None:
            assert handin.path.is_relative_to(out) or handin.path.is_relative_to(submissions)
    for item in intake.unmatched:
        presentable(item.label, item.reason)
    if roster is not None:
        found = Counter(
            [handin.student.id for handin in intake.handins] + [student.id for student in intake.missing]
        )
        assert found == Counter(student.id for student in roster.students)


@given(thrown(lambda dice: dice.bent(YAML.encode(), 6)))
def test_any_list_of_who_handed_in_says_something_or_nothing(data: bytes) -> None:
    known = held(lambda: read_metadata(data))
    assert known is not None
    for submitted in known.values():
        presentable(*filter(None, [submitted.problem]))
        assert not submitted.problem or not submitted.people
