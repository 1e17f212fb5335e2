"""What travels to another machine is read there exactly as it would be read here, or refused in the same words."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.works import Work
from lockstep.classroom.parcel import pack, unpack
from lockstep.leftovers import FILE_BYTES, TREE_FILES
from lockstep.submission import Submission, SubmissionError, open_submission
from tests.tiny_class import tiny_works


def read(path: Path) -> object:
    """What the intake makes of a hand-in, but for remarks on what it left out."""
    try:
        submission: Submission = open_submission(path)
    except SubmissionError as error:
        return str(error)
    return (
        submission.name,
        dict(submission.files),
        submission.executable,
        submission.digest,
        dict(submission.problems),
        {name: source.text for name, source in submission.notebooks.items()},
    )


def carried(path: Path, there: Path) -> Path:
    there.mkdir()
    return unpack(pack(path), there)


def _big_file_above_the_work(work: Path) -> None:
    # It is not read, but without it the work would seem to begin one folder further down.
    (work / "lab").mkdir()
    (work / "lab" / "scaling.py").write_text("x = 1\n")
    (work / "weights.pt").write_bytes(bytes(FILE_BYTES + 1))


def _more_files_than_are_read(work: Path) -> None:
    for number in range(TREE_FILES + 5):
        (work / f"{number:03}.md").write_text(str(number))
    (work / "scaling.py").write_text("x = 1\n")


def _tools_and_data(work: Path) -> None:
    for name in (".git/config.py", "lfw/a.jpg", "__pycache__/scaling.pyc", "scaling.py", "launch/run.sh"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x = 1\n")
    (work / "launch" / "run.sh").chmod(0o755)


def _odd_names(work: Path) -> None:
    for name in ("u\u0308bung.py", "my lab/answers 'final'.md", "my lab/-x.py"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("x = 1\n")


def _a_link(work: Path) -> None:
    (work / "scaling.py").symlink_to("/etc/passwd")


def _a_pipe(work: Path) -> None:
    (work / "scaling.py").write_text("x = 1\n")
    os.mkfifo(work / "pipe.py")


def _a_huge_hole(work: Path) -> None:
    (work / "scaling.py").write_text("x = 1\n")
    with (work / "data.bin").open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    "write",
    [
        _big_file_above_the_work,
        _more_files_than_are_read,
        _tools_and_data,
        _odd_names,
        _a_huge_hole,
        lambda work: None,
    ],
)
def test_a_folder(write: Callable[[Path], None], tmp_path: Path) -> None:
    work = tmp_path / "my work"
    work.mkdir()
    write(work)
    parcel = pack(work)
    assert sum(len(file.content or b"") for file in parcel.files) < 20_000
    assert read(carried(work, tmp_path / "there")) == read(work)


@pytest.mark.parametrize("write", [_a_link, _a_pipe])
def test_a_folder_that_is_refused(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(SubmissionError) as refusal:
        pack(tmp_path)
    assert str(refusal.value) == read(tmp_path)


@pytest.mark.parametrize("work", tiny_works(), ids=lambda work: work.name)
def test_everything_that_people_hand_in(work: Work, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    work.write(folder)
    path = next(folder.iterdir()) if work.upload else folder
    there = carried(path, tmp_path / "there")
    assert read(there) == read(path)
    if work.upload:
        assert there.read_bytes() == path.read_bytes()


def test_an_archive_travels_as_the_bytes_that_it_is(tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text("x = 1\n")
    with tarfile.open(tmp_path / "work.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "scaling.py", "../../scaling.py")
    (file,) = pack(tmp_path / "work.tar.gz").files
    assert file.content == (tmp_path / "work.tar.gz").read_bytes()


def test_an_upload_that_is_too_big_does_not_travel(tmp_path: Path) -> None:
    with (tmp_path / "work.zip").open("wb") as file:
        file.truncate(1 << 40)
    (only,) = pack(tmp_path / "work.zip").files
    assert only.content is None
    there = carried(tmp_path / "work.zip", tmp_path / "there")
    assert "has 20" in str(read(there))
    assert there.stat().st_blocks == 0


def test_what_vanished_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=r"There is no file or folder `work.zip` any more"):
        pack(tmp_path / "work.zip")
