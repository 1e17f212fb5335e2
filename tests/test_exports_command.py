"""`lockstep export`: every command of docs/exports.md runs, and what it says and writes is what that page promises."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep import cli
from lockstep.classroom.exports import command
from lockstep.classroom.exports.canvas import IDS
from lockstep.classroom.exports.grades import AFTER, BEFORE
from lockstep.classroom.gradebook import open_gradebook
from lockstep.classroom.handin import HandIn, Unmatched
from lockstep.classroom.people import Student
from lockstep.verdict import Verdict
from tests.graded_class import CATALOGUE, FAILED, PASSED
from tests.sandboxed import ROOT

PAGE = (ROOT / "docs" / "exports.md").read_text()
CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (7)\n"
    "    Points Possible,,,,,5\n"
    '"Lee, Ann",1,ann,,A,\n'
    '"Roe, Ben",2,ben,,A,\n'
)
MOODLE = (
    "Identifier,Full name,Grade,Maximum Grade,Grade can be changed,Feedback comments\n"
    "Participant 1,Ann Lee,,5.00,Yes,\n"
    "Participant 2,Ben Roe,,5.00,Yes,\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with RESULTS of two students, one of whom handed in nothing, and files of platforms."""
    (tmp_path / "RESULTS").mkdir()
    with open_gradebook(tmp_path / "RESULTS" / "gradebook.db") as book:
        ann, ben = Student("ann", "Ann Lee"), Student("ben", "Ben Roe")
        book.enroll([ann, ben])
        book.remember_catalogue(CATALOGUE[:1])
        attempt = book.begin(book.receive(HandIn(ann, tmp_path, "ann.zip"), "d1"), {"ddp_train": "f"}, 7)
        for position, check in enumerate((PASSED, FAILED)):
            book.write_check(attempt.id, "ddp_train", position, check)
        book.end(attempt.id)
        book.list_unmatched([Unmatched("who.zip", "nobody's")])
    (tmp_path / "grades_export.csv").write_text(CANVAS)
    (tmp_path / "worksheet.csv").write_text(MOODLE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _commands() -> list[list[str]]:
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line.removeprefix("$ ")) for block in blocks for line in block.splitlines()]
    assert all(line[0] == ".venv/bin/lockstep" for line in lines)
    return [line[1:] for line in lines]


@pytest.mark.parametrize("arguments", _commands(), ids=" ".join)
def test_every_command_of_the_page_runs(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert len(shown.out.splitlines()) >= 1


def test_the_page_shows_every_option() -> None:
    shown = {argument for arguments in _commands() for argument in arguments if argument.startswith("--")}
    assert shown == {"--canvas", "--assignment", "--moodle", "--gradescope", "--github"}


def _first_cells(heading: str) -> list[str]:
    section = PAGE[PAGE.index(f"## {heading}\n") :].split("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    return [name for row in rows[1:] for name in re.findall(r"`([^`]+)`", row)]


def test_the_pages_columns_are_those_that_are_written() -> None:
    assert _first_cells("grades.csv") == [*BEFORE, *AFTER]
    assert set(IDS) <= set(_first_cells("Canvas"))
    mapped = PAGE[PAGE.index("## JUnit XML") :].split("\n## ")[0]
    assert all(str(verdict) in mapped for verdict in Verdict)


def test_the_page_names_every_file_that_is_written(folder: Path) -> None:
    assert cli.main(["export", "RESULTS"]) == 0
    exports = folder / "RESULTS" / "exports"
    names = {path.relative_to(exports).as_posix() for path in exports.rglob("*") if path.is_file()}
    documented = set(re.findall(r"^\| `([\w./]+)` \|", PAGE.split("\n## ")[0], re.MULTILINE))
    assert {name.replace("ann", "SLUG") for name in names} == documented - {"canvas.csv"}


def test_pages_and_exports_say_what_was_decided_since(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = folder / "RESULTS"
    page, table = results / "students" / "ann" / "index.html", results / "exports" / "grades.csv"
    assert cli.main(["export", "RESULTS"]) == 0
    assert "RESULTS/index.html: 3 pages written anew." in capsys.readouterr().out
    assert cli.main(["override", "RESULTS", "ann", "ddp_train/sampler", "--points", "2.25"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Pages and exports in RESULTS say so now."
    for path in (page, table, results / "index.html"):
        assert "4.25" in path.read_text()


Run = Callable[..., int]


@pytest.fixture
def run() -> Run:
    """`run_export` with everything left out that is not given."""

    def started(gradebook: str | None = None, **given: object) -> int:
        whole: dict[str, object] = dict.fromkeys(
            ("out", "canvas", "moodle", "gradescope", "github", "graders")
        )
        whole |= {"assignment": "", "exercises": (), **given}
        return command.run_export(gradebook=gradebook, **whole)  # type: ignore[arg-type]

    return started


def test_files_are_filled_in_place_and_told(
    folder: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("RESULTS", canvas=Path("grades_export.csv"), moodle=Path("worksheet.csv")) == 0
    assert (folder / "grades_export.csv").read_text() == CANVAS.replace("ann,,A,", "ann,,A,2.5")
    assert "Participant 1,Ann Lee,2.5,5.00,Yes," in (folder / "worksheet.csv").read_text()
    assert "Participant 2,Ben Roe,,5.00,Yes,\n" in (folder / "worksheet.csv").read_text()
    shown = capsys.readouterr().out
    assert "grades_export.csv: 1 grade filled in.\n" in shown
    assert "Left out" not in shown
    assert not (folder / "RESULTS" / "exports").exists()


def test_who_is_left_out_is_listed_and_the_status_says_so(
    folder: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "grades_export.csv").write_text(
        CANVAS.replace("Lee, Ann", "Doe,\x1b[31m Jo").replace(",ann,", ",x,")
    )
    assert run("RESULTS", canvas=Path("grades_export.csv")) == 1
    shown = capsys.readouterr().out
    assert "Ann Lee: has no row in the file" in shown
    assert "Doe, Jo: is nobody's" in shown
    assert "\x1b" not in shown


def test_exports_of_a_database_go_where_they_are_told(folder: Path, run: Run) -> None:
    url = f"sqlite:///{folder}/RESULTS/gradebook.db"
    assert run(url) == 2
    assert run(url, out=folder / "elsewhere") == 0
    assert (folder / "elsewhere" / "grades.csv").is_file()
    assert not (folder / "RESULTS" / "exports").exists()


@pytest.mark.parametrize(
    ("gradebook", "given", "sentence"),
    [
        (None, {}, "say whose grades"),
        (None, {"gradescope": Path("new"), "canvas": Path("grades_export.csv")}, "say whose grades"),
        ("nowhere", {}, "there is no gradebook"),
        ("RESULTS", {"canvas": Path("no.csv")}, "no.csv cannot be read: No such file or directory"),
        ("RESULTS", {"canvas": Path("worksheet.csv")}, "worksheet.csv has no column `Student`"),
        ("RESULTS", {"moodle": Path("grades_export.csv")}, "grades_export.csv has no column `Identifier`"),
        ("RESULTS", {"canvas": Path("grades_export.csv"), "assignment": "x"}, "no assignment `x`"),
        ("RESULTS", {"canvas": Path("RESULTS")}, "RESULTS cannot be read: Is a directory"),
        ("RESULTS", {"out": Path("worksheet.csv")}, "cannot write worksheet.csv"),
        (None, {"gradescope": Path("RESULTS")}, "RESULTS holds other files"),
        (
            None,
            {"gradescope": Path("new"), "exercises": ("ddp; rm",)},
            "there is no exercise 'ddp; rm'; there are ",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    folder: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    gradebook: str | None,
    given: dict[str, object],
    sentence: str,
) -> None:
    before = {path: path.read_bytes() for path in folder.glob("*.csv")}
    assert run(gradebook, **given) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("lockstep: ")
    assert sentence in shown.err
    assert shown.err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.glob("*.csv")} == before
    assert not (folder / "new").exists()


def test_exercises_reach_the_folders_for_services(folder: Path, run: Run) -> None:
    given = {"gradescope": Path("auto"), "github": Path("template"), "exercises": ("amp", "ddp_train")}
    assert run(None, **given) == 0
    assert 'EXERCISES="amp,ddp_train"' in (folder / "auto" / "run_autograder").read_text()
    workflow = folder / "template" / ".github" / "workflows" / "classroom.yml"
    assert 'EXERCISES: "amp,ddp_train"' in workflow.read_text()
