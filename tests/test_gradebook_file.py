"""The gradebook as a file: where it may lie, what else a file may be, and who else may hold it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lockstep.classroom import database
from lockstep.classroom.database import kind_of_file_system
from lockstep.classroom.gradebook import GradebookError, open_gradebook
from lockstep.classroom.people import Student

ADA = Student("a1", "Ada")


def _journal(file: Path) -> str:
    with sqlite3.connect(file) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def test_a_folder_of_results_stands_for_the_gradebook_in_it(tmp_path: Path) -> None:
    with open_gradebook(tmp_path) as book:
        book.enroll([ADA])
    with open_gradebook(str(tmp_path / "gradebook.db"), create=False) as book:
        assert book.records()[0].student == ADA
    with open_gradebook(f"sqlite:///{tmp_path}/gradebook.db", create=False) as book:
        assert book.records()[0].student == ADA


@pytest.mark.parametrize("name", ["a?mode=ro.db", "100%.db", "a#b.db", "mit Blank.db", "file:x.db", "ü.db"])
def test_any_name_of_a_file_will_do(tmp_path: Path, name: str) -> None:
    with open_gradebook(tmp_path / name) as book:
        book.enroll([ADA])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_it_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    with open_gradebook(tmp_path) as book, book.grading():
        book.enroll([ADA])
    assert [path.name for path in tmp_path.iterdir()] == ["gradebook.db"]
    assert _journal(tmp_path / "gradebook.db") == "wal"


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("Buy milk. " * 100)
    with pytest.raises(GradebookError, match="file is not a database"):
        open_gradebook(text)
    assert text.read_text() == "Buy milk. " * 100
    places = tmp_path / "places.sqlite"
    with sqlite3.connect(places) as connection:
        connection.execute("CREATE TABLE bookmarks (id)")
    with pytest.raises(GradebookError, match=r"tables of something else \(bookmarks\)"):
        open_gradebook(places)
    with sqlite3.connect(places) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]


def test_a_table_of_the_same_name_makes_no_gradebook(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "book.db") as connection:
        connection.execute("CREATE TABLE about (text)")
    with pytest.raises(GradebookError, match=r"tables of something else \(about\)"):
        open_gradebook(tmp_path / "book.db")


def test_an_empty_file_becomes_a_gradebook(tmp_path: Path) -> None:
    (tmp_path / "gradebook.db").touch()
    with open_gradebook(tmp_path / "gradebook.db") as book:
        assert book.records() == ()


@pytest.mark.parametrize(
    "place", ["nosuchdatabase://somewhere/book", "postgres://kim:secret@host/book", "://", "mysql://"]
)
def test_a_url_that_cannot_be_is_a_sentence(place: str) -> None:
    with pytest.raises(GradebookError, match="cannot be opened") as refused:
        open_gradebook(place)
    assert "secret" not in str(refused.value)


def test_a_place_that_cannot_hold_a_gradebook_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for place in (tmp_path / "file" / "book.db", tmp_path / "nosuch" / "book.db"):
        with pytest.raises(GradebookError, match="unable to open database file: does its folder exist"):
            open_gradebook(place)


def test_a_disk_that_fails_may_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(database, "_prepare_sqlite", fails)
    with pytest.raises(GradebookError, match="disk I/O error: is its disk full, or a network's"):
        open_gradebook(tmp_path)


def test_on_a_network_file_system_it_does_without_a_shared_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_gradebook(tmp_path).close()
    monkeypatch.setattr(database, "_network_file_system", lambda file: "nfs4")
    with open_gradebook(tmp_path) as book:
        assert "network file system (nfs4)" in book.notes[0]
        book.enroll([ADA])
        assert book.records()[0].student == ADA
    assert _journal(tmp_path / "gradebook.db") == "delete"


MOUNTS = r"""
22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
28 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
90 28 0:45 / /home rw,relatime shared:50 - nfs4 files:/home rw,vers=4.2
91 90 0:46 / /home/kim/my\040class rw - fuse.sshfs kim@lab: rw
92 28 253:2 / /home2 rw master:1 propagate_from:2 - xfs /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/results/gradebook.db", "ext4"),
        ("/home/kim/gradebook.db", "nfs4"),
        ("/home/kim/my class/results/gradebook.db", "fuse.sshfs"),
        ("/home2/gradebook.db", "xfs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert kind_of_file_system(Path(path), MOUNTS.strip()) == kind


def test_what_may_not_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_gradebook(tmp_path) as book:
        book.enroll([ADA])
    monkeypatch.setattr(database, "_is_writable", lambda file: False)
    with open_gradebook(tmp_path) as book:
        assert book.notes == (
            f"the gradebook {tmp_path}/gradebook.db cannot be written here; it is only read",
        )
        assert book.records()[0].student == ADA
        with pytest.raises(GradebookError, match="readonly database: is it yours"):
            book.enroll([ADA])
    assert [path.name for path in tmp_path.iterdir()] == ["gradebook.db"]


def test_a_held_gradebook_says_who_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gradebook.db.lock").write_text("process 7 on lab3, since noon\n")
    with open_gradebook(tmp_path) as book:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(database, "_lock", lambda handle: False)
            with pytest.raises(GradebookError, match="process 7 on lab3, since noon"), book.grading():
                pass
        with book.grading():  # whoever wrote that has ended
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["gradebook.db"]


def test_a_database_that_is_locked_for_good_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0)
    with open_gradebook(tmp_path) as book:
        other = sqlite3.connect(tmp_path / "gradebook.db")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(GradebookError, match="database is locked: another program"):
            book.enroll([ADA])
        assert book.records() == ()
        other.close()
        book.enroll([ADA])
