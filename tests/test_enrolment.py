"""Who is in the class, as it changes: a roster that comes late, students who leave it and who come back."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockstep import cli
from lockstep.classroom.claims import claim
from lockstep.classroom.classfolder import opened
from lockstep.classroom.exports import write
from lockstep.classroom.exports.gradebook import gradebook_json
from lockstep.classroom.gradebook import Gradebook, open_gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.lms import sort_out
from lockstep.classroom.matching import Register
from lockstep.classroom.people import Student
from lockstep.classroom.record import Flag, Mark, Override, answer_key
from lockstep.classroom.strangers import recognised
from lockstep.classroom.unpacked import LIST
from lockstep.result import CheckResult, Review
from lockstep.verdict import Verdict
from tests.batches import attempts, grade, hand_in
from tests.downloads import ARCHIVE, CLASS, CODE, class_of, download, names_only
from tests.gradebook_child import child
from tests.sandboxed import ROOT
from tests.test_pages import read, text_of

HEADER = "id,name,email,canvas id\n"
JANE = "m1,Jane Doe,jane@uni.edu,301\n"
BOB = "m2,Bob Ng,bob@uni.edu,302\n"
CAT = "m3,Cat Oy,cat@uni.edu,303\n"


class Term:
    """A class that is graded again and again; `said` is what the last grading has printed."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.submissions, self.out = folder / "class", folder / "results"
        self._capfd = capfd
        self.said = ""

    def grade(self, *roster: str, works: Mapping[str, str] | None = None) -> int:
        """Grade with a roster of these lines; without any, with none."""
        hand_in(self.submissions, works or {})
        more = []
        if roster:
            file = self.submissions.parent / "roster.csv"
            file.write_text(HEADER + "".join(roster))
            more = ["--roster", str(file)]
        status = grade(self.submissions, self.out, *more)
        captured = self._capfd.readouterr()
        self.said = " ".join(f"{captured.out} {captured.err}".replace("│", " ").split())
        return status

    def ran(self, *arguments: str) -> str:
        """What another command of lockstep says."""
        cli.main([*arguments])
        return " ".join(self._capfd.readouterr().out.replace("│", " ").split())

    def grades(self) -> dict[str, str]:
        """Final points by id, as grades.csv has them."""
        with (self.out / "exports" / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
            return {row["id"]: row["final"] for row in csv.DictReader(file)}

    def gradebook(self) -> dict[str, tuple[bool, float, str]]:
        """By id whether the roster names them, points and why they are no grade, as gradebook.json has them."""
        students = json.loads((self.out / "exports" / "gradebook.json").read_text())["students"]
        return {each["id"]: (each["enrolled"], each["final_points"], each["no_grade"]) for each in students}

    def page(self) -> str:
        """The words of the class page."""
        return text_of((self.out / "index.html").read_text())

    def statuses(self) -> dict[str, str]:
        """By id what the table of the class page says."""
        data = json.loads(read((self.out / "index.html").read_text()).scripts[0])
        return {student[1]: data["statuses"][student[5]] for student in data["students"]}


@pytest.fixture
def term(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Term:
    return Term(tmp_path, capfd)


BEFORE = {"Jane Doe": "one", "bob@uni.edu": "", "somebody else": "two"}


def test_what_was_graded_before_there_was_a_roster_becomes_its_students(term: Term) -> None:
    assert term.grade(works=BEFORE) == 0
    assert term.grades() == {"Jane Doe": "4.25", "bob@uni.edu": "6", "somebody else": "5.25"}
    term.ran(
        "override", str(term.out), "Jane Doe", "steps/one", "--points", "1", "--comment", "shown in the lab"
    )

    assert term.grade(JANE, BOB, CAT) == 1
    assert "2 hand-ins: 0 graded now, 2 unchanged" in term.said
    assert (
        "Graded before under another name: Jane Doe is Jane Doe (m1) bob@uni.edu is Bob Ng (m2) "
        "Not on the roster; what they have is kept and counts nowhere: somebody else Nobody's: somebody else: Nobody"
    ) in term.said
    assert term.grades() == {"m1": "5", "m2": "6", "m3": ""}
    assert set(attempts(term.out)) == {"m1", "m2", "somebody else"}
    assert sorted(path.name for path in (term.out / "students").iterdir()) == [
        "m1",
        "m2",
        "m3",
        "somebody_else",
    ]
    assert "3 students · last graded" in term.page()
    assert "Graded 2 of 3 Median of points 5.5 of 6" in term.page()

    term.grade(JANE, BOB, CAT)
    assert "under another name" not in term.said


def test_who_left_the_roster_counts_nowhere_and_comes_back(term: Term) -> None:
    works = {"m1": "one", "m2": "", "m3": "two"}
    assert term.grade(JANE, BOB, CAT, works=works) == 0
    whole = term.grades()

    term.grade(BOB, CAT)
    assert "0 students handed in nothing" in term.said
    assert "Not on the roster; what they have is kept and counts nowhere: Jane Doe" in term.said
    assert "Mean 5.6 of 6 points." in term.said
    assert term.grades() == {"m2": "6", "m3": "5.25"}
    assert term.gradebook() == {
        "m1": (False, 4.25, "not on the roster"), "m2": (True, 6.0, ""), "m3": (True, 5.25, ""),
    }  # fmt: skip
    assert not (term.out / "exports" / "json" / "m1.json").exists()
    assert "m1" not in (term.out / "exports" / "canvas.csv").read_text()
    assert term.statuses() == {"m1": "not on the roster", "m2": "graded", "m3": "graded"}
    assert "2 students · last graded" in term.page()
    assert "Final points of 2 students: mean 5.62, median 5.62" in term.page()
    assert "Not on the roster 1" in term.page()

    assert term.grade(JANE, BOB, CAT) == 0
    assert "3 hand-ins: 0 graded now, 3 unchanged" in term.said
    assert "Not on the roster" not in term.said
    assert term.grades() == whole
    assert set(term.statuses().values()) == {"graded"}


def test_who_left_and_is_not_in_the_download_is_no_file_of_nobody(term: Term) -> None:
    term.grade(JANE, BOB, works={"m1": "", "m2": ""})
    (term.submissions / "m1" / "steps.md").unlink()
    (term.submissions / "m1").rmdir()
    assert term.grade(BOB) == 0
    assert "0 students handed in nothing, 0 files belong to nobody." in term.said
    assert "counts nowhere: Jane Doe" in term.said


def test_the_gradebook_remembers_the_roster(term: Term) -> None:
    assert term.grade(JANE, BOB, CAT, works={"Jane Doe": "", "m2": "one"}) == 0
    assert term.grade(works={"m3": ""}) == 0
    assert "3 hand-ins: 1 graded now, 2 unchanged" in term.said
    assert term.grades() == {"m1": "6", "m2": "4.25", "m3": "6"}


def test_a_roster_that_fits_nobody_changes_nothing(term: Term) -> None:
    term.grade(JANE, BOB, works={"m1": "", "m2": "one"})
    before = term.gradebook()
    assert term.grade("x7,Eve Elsewhere,,\n") == 2
    assert "holds no hand-in, only what belongs to nobody, such as m1: Nobody on the roster has" in term.said
    assert term.grade() == 0
    assert term.gradebook() == before


def test_a_gradebook_of_before_asks_for_its_roster(term: Term) -> None:
    term.grade(JANE, works={"m1": ""})
    with open_gradebook(term.out) as book:
        book.remember("roster", None)
    assert term.grade() == 2
    assert "give it once more, by --roster" in term.said
    assert term.grade(JANE) == 0


def test_rows_of_who_left_stay_as_they_are_in_a_platform_s_file(term: Term, tmp_path: Path) -> None:
    term.grade(JANE, BOB, works={"m1": "", "m2": "one"})
    term.grade(BOB)
    file = tmp_path / "canvas.csv"
    file.write_text("Student,ID,SIS User ID,Section,Lab (1)\n,,,,\nJane Doe,301,m1,A,\nBob Ng,302,m2,A,\n")
    said = term.ran("export", str(term.out), "--canvas", str(file))
    assert "1 grade filled in." in said
    assert "Rows of nobody, which stay as they are:" in said
    assert "Left out" not in said
    assert "Jane Doe,301,m1,A,\n" in file.read_text().replace("\r", "")


def test_lateness_that_a_roster_tells_afterwards_counts_for_who_is_in_an_earlier_download(
    term: Term, tmp_path: Path
) -> None:
    def with_roster(lines: str) -> dict[str, str]:
        (tmp_path / "late.csv").write_text(f"id,late days,submitted at\n{lines}m3,,\n")
        (tmp_path / "late.toml").write_text("[late]\ndeadline = 2026-05-01T12:00:00Z\npercent_per_day = 10\n")
        more = ("--roster", str(tmp_path / "late.csv"), "--late", str(tmp_path / "late.toml"))
        grade(term.submissions, term.out, *more)
        return term.grades()

    term.grade(JANE, BOB, CAT, works={"m1": "", "m2": ""})
    for name in ("m1", "m2"):
        shutil.rmtree(term.submissions / name)
    hand_in(term.submissions, {"m3": ""})
    assert with_roster("m1,1.5,\nm2,,2026-05-02T10:00Z\n") == {"m1": "4.8", "m2": "5.4", "m3": "6"}
    # A roster that does not speak of it takes nothing back.
    assert with_roster("m1,0,\nm2,,\n") == {"m1": "6", "m2": "5.4", "m3": "6"}


# Who was never in the class


def test_students_of_a_wrong_folder_are_named_and_removed(term: Term) -> None:
    term.grade(works={"hw one": "one", "old": "one", "m2": "two"})
    for name in ("hw one", "old"):
        shutil.rmtree(term.submissions / name)
    assert term.grade(works={"m1": ""}) == 0
    assert (
        "Not among these hand-ins, and no roster says whether they are in the class; what they have counts: "
        "hw one old"
    ) in term.said
    assert f"taken out of the results: lockstep remove {term.out} STUDENT" in term.said
    assert "There is no roster" in term.ran("remove", str(term.out))

    assert cli.main(["remove", str(term.out), "--not-on-roster"]) == 2
    assert cli.main(["remove", str(term.out), "old", "nobody"]) == 2
    assert set(attempts(term.out)) == {"hw one", "old", "m1", "m2"}
    said = term.ran("remove", str(term.out), "hw one", "old")
    assert "Removed: hw one: hw one, 4.25 of 6 points old: old, 4.25 of 6 points Pages and exports" in said
    assert term.grades() == {"m1": "6", "m2": "5.25"}
    assert set(term.statuses()) == set(attempts(term.out)) == {"m1", "m2"}
    assert sorted(path.name for path in (term.out / "students").iterdir()) == ["m1", "m2"]

    assert term.grade() == 0
    assert "lockstep remove" not in term.said
    assert "2 hand-ins: 0 graded now, 2 unchanged" in term.said


def test_students_of_a_wrong_roster_are_removed_unless_somebody_decided_about_them(term: Term) -> None:
    term.grade(JANE, "x1,Eve Elsewhere,,\n", CAT, works={"m1": "one", "m3": "two"})
    term.ran("override", str(term.out), "m3", "steps/one", "--points", "1")
    term.grade(JANE, BOB)
    assert "counts nowhere: Cat Oy Eve Elsewhere" in term.said
    assert f"taken out of the results: lockstep remove {term.out} --not-on-roster" in term.said
    assert cli.main(["remove", str(term.out), "m1"]) == 2
    listed = "Cat Oy (m3): m3, 5.25 of 6 points Eve Elsewhere (x1): handed in nothing"
    assert term.ran("remove", str(term.out)).endswith(f"Not on the roster: {listed}")

    said = term.ran("remove", str(term.out), "--not-on-roster")
    assert "Removed: Eve Elsewhere (x1): handed in nothing Kept, because a person decided about them" in said
    assert set(term.gradebook()) == {"m1", "m2", "m3"}
    assert "Removed: Cat Oy (m3)" in term.ran("remove", str(term.out), "Cat Oy")
    assert "Everybody is on the roster." in term.ran("remove", str(term.out), "--not-on-roster")


def test_a_flag_that_names_only_who_was_removed_is_none(tmp_path: Path) -> None:
    with open_gradebook(tmp_path / "gradebook.db") as book:
        book.enroll([Student("ann"), Student("ben"), Student("hw1", enrolled=False)])
        kind = "equal hand-in"
        book.set_flags(
            {
                "ann": [Flag(kind, "all", "", ("hw1",)), Flag(kind, "all", "", ("ben", "hw1"))],
                "ben": [Flag("hung", "all", "")],
                "hw1": [Flag(kind, "all", "", ("ann",))],
            }
        )
        book.remove(["hw1"])
        told = {record.student.id: [flag.others for flag in record.flags] for record in book.records()}
        assert told == {"ann": [("ben", "hw1")], "ben": [()]}


# Who is recognised


@pytest.mark.parametrize("roster", [class_of(CLASS), names_only()], ids=["numbers", "names"])
@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (
            {"doejane_301_9001_ddp_train.py": CODE, "müllerjörg_LATE_302_9003_my work.zip": ARCHIVE},
            {"301": "m100", "302": "m200"},
        ),
        ({"Jane Doe_5511_assignsubmission_file_/ddp_train.py": CODE}, {"5511": "m100"}),
        ({"Doe, Jane/a.py": CODE, "M200.zip": ARCHIVE}, {"Doe, Jane": "m100", "M200": "m200"}),
        ({"lab3_jane_doe/a.py": CODE, "nobody/a.py": CODE}, {"lab3_jane_doe": "m100"}),
        # Two of one name, whom the LMS tells apart.
        (
            {"doejane_801_9001_ddp_train.py": CODE, "doejane_802_9001_ddp_train.py": CODE},
            {},
        ),
        # A team is no student.
        ({"red/a.py": CODE, "nobody/a.py": CODE}, {}),
    ],
)
def test_strangers_are_known_again_as_their_hand_ins_would_be(
    tmp_path: Path, files: Mapping[str, bytes], wanted: Mapping[str, str], roster: object
) -> None:
    with opened(download(tmp_path, files, True)) as items:
        strangers = [each.student for each in claim(sort_out(items, None).arrivals, None).claims]
    assert recognised(strangers, Register(roster)) == wanted  # type: ignore[arg-type]


def test_people_of_other_systems_are_known_by_what_these_say() -> None:
    register = Register(class_of(CLASS))
    strangers = [
        Student("jane-codes", "jane-codes", columns=(("github", "jane-codes"),), enrolled=False),
        Student("jm2@uni.edu", "Jörg Müller", "jm2@uni.edu", enrolled=False),
        Student("submission_123", enrolled=False),
    ]
    assert recognised(strangers, register) == {"jane-codes": "m100", "jm2@uni.edu": "m200"}


def test_whom_a_roster_has_named_is_never_taken_for_another_of_that_name() -> None:
    left = Student("x9", "Jane Doe", columns=(("id", "x9"), ("name", "Jane Doe")), enrolled=False)
    assert recognised([left], Register(class_of(CLASS))) == {}


# What becomes theirs


def _graded(book: Gradebook, student: Student, digest: str, *checks: CheckResult) -> int:
    book.enroll([student])
    handin = book.receive(HandIn(student, None, f"{student.id} {digest}"), digest)
    attempt = book.begin(handin, {"ex": "f"}, 1).id
    for position, check in enumerate(checks):
        book.write_check(attempt, "ex", position, check)
    book.end(attempt)
    return attempt


def test_all_of_a_stranger_s_becomes_the_student_s(tmp_path: Path) -> None:
    stranger, student = Student("jane", enrolled=False), Student("m1", "Jane Doe")
    review = Review("Q1", "Why?", 4.0, "Because.")
    check = CheckResult("one", Verdict.PASSED, 2.0, 2.0, reviews=(review,))
    with open_gradebook(tmp_path / "book.db") as book:
        for digest in ("a", "b"):
            _graded(book, stranger, digest, check)
        last = _graded(book, student, "a", check)
        early, late = "2026-05-01T10:00:00+00:00", "2026-05-02T10:00:00+00:00"
        book.mark("jane", Mark("ex", "Q1", 3.0, "well put", "Kim", early, answer_key("jane", "ex", review)))
        for who, at, points in (("jane", early, 0.0), ("m1", late, 1.0)):
            book.override(who, Override("ex", "one", points, who, "Kim", at))
        book.override("jane", Override("ex", "", None, "see me", "Kim", late))
        assert book.record("m1").raw_points == 1.0
        assert [record.in_class for record in book.records()] == [False, True]

        book.adopt("jane", "m1")
        (record,) = book.records()
        assert record.student == student
        assert (record.label, record.raw_points, record.waiting_reviews) == ("m1 a", 4.0, 0)
        assert [override.comment for override in record.overrides] == ["see me", "m1"]
        assert record.attempt is not None
        assert record.attempt.id == last
        assert len(book.attempts("m1")) == 3


def test_what_a_person_decides_is_on_pages_and_in_tables_at_once(term: Term) -> None:
    term.grade(JANE, BOB, works={"m1": "one", "m2": ""})
    page = term.out / "students" / "m1" / "index.html"
    given = ("override", str(term.out), "m1", "steps/one")
    said = term.ran(*given, "--points", "1", "--comment", "shown in the lab")
    assert said.endswith(f"Pages and exports in {term.out} say so now.")
    assert "shown in the lab" in text_of(page.read_text())
    assert term.grades() == {"m1": "5", "m2": "6"}
    assert "mean 5.5" in term.page()
    term.ran(*given, "--withdraw")
    assert "shown in the lab" not in text_of(page.read_text())
    assert term.grades() == {"m1": "4.25", "m2": "6"}


def test_a_decision_is_taken_while_others_are_at_work_and_where_nothing_can_be_written(term: Term) -> None:
    term.grade(JANE, BOB, works={"m1": "one", "m2": ""})
    given = ("override", str(term.out), "m1", "steps/one", "--points")
    with child(term.out, "hold") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        said = term.ran(*given, "1")
    assert f"Another process is at work on {term.out}; pages and exports say so when it is done" in said
    assert term.grades()["m1"] == "4.25"
    lock = term.out / ".gradebook.db.lock"
    lock.unlink()  # the other process was killed
    lock.mkdir()
    assert f"Pages and exports do not say so yet: {lock} cannot be written: Is a directory." in term.ran(
        *given, "1"
    )
    lock.rmdir()
    table = term.out / "exports" / "grades.csv"
    table.unlink()
    table.mkdir()
    assert f"Pages and exports do not say so yet: {table}: Is a directory." in term.ran(*given, "0.5")
    table.rmdir()
    term.ran("export", str(term.out))
    assert term.grades()["m1"] == "4.5"


@pytest.mark.parametrize("at_work", ["grade", "override", "export"])
def test_a_decision_that_comes_while_pages_are_written_is_on_them_when_that_is_done(
    term: Term, at_work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decides(*read: Any) -> Any:
        """Somebody decides when the gradebook has been read and nothing is written yet."""
        monkeypatch.undo()
        decided = (
            "override",
            str(term.out),
            "m1",
            "steps/one",
            "--points",
            "1",
            "--comment",
            "shown in the lab",
        )
        command = [sys.executable, "-m", "lockstep.cli", *decided]
        said.append(subprocess.check_output(command, cwd=ROOT, text=True))
        return gradebook_json(*read)

    said: list[str] = []
    term.grade(JANE, BOB, works={"m1": "one", "m2": "two"})
    monkeypatch.setattr(write, "gradebook_json", decides)
    if at_work == "grade":
        term.grade(works={"m2": ""})
    else:
        term.ran(
            at_work, str(term.out), *(("m2", "steps/two", "--points", "1") if at_work == "override" else ())
        )
    # An export holds up nobody.
    assert (f"Another process is at work on {term.out}" in said[0]) is (at_work != "export")
    assert "shown in the lab" in text_of((term.out / "students" / "m1" / "index.html").read_text())
    assert term.grades() == {"m1": "5", "m2": "5.25" if at_work == "export" else "6"}
    assert term.grade() == 0
    assert term.grades()["m1"] == "5"


def with_archives(submissions: Path, *names: str) -> dict[str, bytes]:
    """Hand-ins that have to be unpacked; returns all files there are."""
    hand_in(submissions, {"m1": "one", "old": "two"})
    for name in names:  # an archive beside other files is unpacked
        (submissions / name / "more.zip").write_bytes(ARCHIVE)
    return contents(submissions)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("moved", ["as it is", "moved", "copied"])
def test_nothing_of_a_removed_student_stays_in_the_results(term: Term, moved: str) -> None:
    with_archives(term.submissions, "m1", "old")
    term.grade()
    if moved != "as it is":
        results = term.out.with_name("elsewhere")
        shutil.copytree(term.out, results)
        if moved == "moved":
            shutil.rmtree(term.out)
        term.out = results
    unpacked = term.out / "submissions"
    assert sorted(path.name for path in unpacked.iterdir()) == [LIST, "m1", "old"]
    assert term.ran("remove", str(term.out), "old").endswith("say so now.")
    kept = {path.name for path in term.out.rglob("*") if path.name.startswith(("m1", "old"))}
    assert kept == {"m1", "m1.json", "m1.xml"}
    # What somebody puts there afterwards is theirs.
    (unpacked / "old").mkdir()
    term.grade()
    assert f"{unpacked / 'old'} lies where a hand-in would be unpacked, and nothing says that" in term.said
    assert list((unpacked / "old").iterdir()) == []


def test_what_lies_beside_a_gradebook_elsewhere_is_neither_removed_nor_written_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    course = tmp_path / "course"
    term = Term(course, capfd)
    term.submissions = course / "submissions"
    (course / "students" / "notes").mkdir(parents=True)
    for page in (course / "index.html", course / "students" / "notes" / "index.html"):
        page.write_text("<title>Notes</title>")
    with_archives(term.submissions, "m1", "old")
    arguments = (term.submissions, term.out, "--gradebook", str(course / "gradebook.db"))
    assert grade(*arguments) == 0
    before = {path: content for path, content in contents(course).items() if "gradebook.db" not in path}
    capfd.readouterr()

    decided = term.ran("override", str(course), "m1", "steps/one", "--points", "1")
    removed = term.ran("remove", str(course), "old")
    for said in (decided, removed):
        assert said.endswith(f"after the next `lockstep grade`; in {course} after: lockstep export {course}")
    assert "Left, because nothing says that lockstep has unpacked them: submissions/old" in removed
    after = contents(course)
    assert {path: after.get(path) for path in before} == before
    assert cli.main(["export", str(course)]) == 2
    assert "cannot write" in (said := capfd.readouterr().err)
    assert "no page of lockstep's, so it is not written over" in " ".join(said.split())

    shutil.rmtree(term.submissions / "old")
    assert grade(*arguments) == 0
    assert [path.name for path in (term.out / "students").iterdir()] == ["m1"]
    assert {path: contents(course)[path] for path in before if "notes" in path or path == "index.html"} == {
        path: content for path, content in before.items() if "notes" in path or path == "index.html"
    }


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("submissions/m1/steps.md", "submissions/m1 lies where a hand-in would be unpacked"),
        ("index.html", "holds an index.html that is no page of lockstep's and would be written over"),
    ],
)
def test_results_go_nowhere_where_they_would_take_the_place_of_somebody_s_own_files(
    term: Term, there: str, said: str
) -> None:
    with_archives(term.submissions, "m1")
    own = term.out / there
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    assert term.grade() == 2
    assert said in term.said
    assert own.read_text() == "mine"
    own.unlink()
    if own.parent != term.out:
        own.parent.rmdir()
    assert term.grade() == 0
