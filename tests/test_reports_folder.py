"""The files beside a report: what it names is found, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockstep.reports import folder
from lockstep.reports.folder import Folder, Handed
from lockstep.reports.rule import Files


@pytest.fixture(params=["on disk", "handed in"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """The same three files both ways, the report in `reports`."""
    contents = {"reports/logs/a.csv": b"1", "reports/logs/deep/b.csv": b"2", "reports/picture.png": b"3"}
    if request.param == "handed in":
        return Handed({**contents, "secret.txt": b"!", "reports2/x": b"!"}, "reports")
    for name, data in {**contents, "secret.txt": b"!"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return Folder(tmp_path / "reports")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("logs/a.csv", b"1"),
        ("./logs//a.csv", b"1"),
        ("logs\\deep\\b.csv", b"2"),
        ("logs", None),
        ("missing", None),
        ("picture.png/x", None),
        ("../secret.txt", None),
        ("logs/../../secret.txt", None),
        ("..\\secret.txt", None),
        ("/etc/passwd", None),
        ("C:/secret.txt", None),
        ("a\0b", None),
        ("\ud800", None),
        ("x" * 5000, None),
        ("x/" * 5000, None),
        ("", None),
    ],
)
def test_a_file_is_read_and_nothing_outside(files: Files, path: str, content: bytes | None) -> None:
    assert files.read(path) == content


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("logs", ("logs/a.csv", "logs/deep/b.csv")),
        ("logs/", ("logs/a.csv", "logs/deep/b.csv")),
        ("picture.png", ("picture.png",)),
        ("missing", ()),
        ("log", ()),
        ("..", ()),
        ("/", ()),
    ],
)
def test_the_files_below_a_folder(files: Files, path: str, below: tuple[str, ...]) -> None:
    assert files.below(path) == below


def test_what_is_listed_can_be_read(files: Files) -> None:
    for place in (".", "", "logs", "logs\\deep"):
        assert files.below(place)
        assert all(files.read(path) is not None for path in files.below(place))


def test_links_pipes_and_folders_of_links_do_not_exist(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x").write_bytes(b"!")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "link").symlink_to(tmp_path / "secret" / "x")
    (tmp_path / "reports" / "folder").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "reports" / "pipe")
    beside = Folder(tmp_path / "reports")
    assert [beside.read(path) for path in ("link", "folder/x", "pipe")] == [None] * 3
    assert beside.below(".") == ()


def test_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "FILE_BYTES", 10)
    monkeypatch.setattr(folder, "FOLDER_BYTES", 25)
    (tmp_path / "fits").write_bytes(b"x" * 10)
    (tmp_path / "large").write_bytes(b"x" * 11)
    beside = Folder(tmp_path)
    assert beside.read("large") is None
    assert [beside.read("fits") is None for _ in range(3)] == [False, False, True]
    assert Handed({"large": b"x" * 11}).read("large") is None


def test_a_folder_of_a_million_files_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "FOLDER_ENTRIES", 3)
    for number in range(5):
        (tmp_path / str(number)).touch()
    assert len(Folder(tmp_path).below(".")) == 3


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").touch()
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b", "a", "a/missing", "missing/x", "a/b/c"):
        Folder(tmp_path).read(path)
        Folder(tmp_path).below(path)
    assert len(os.listdir("/proc/self/fd")) == before
