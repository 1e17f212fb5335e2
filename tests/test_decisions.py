"""What people decide: points given and taken back, answers marked in a table, and what no table may do."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.classroom.catalogue import CheckTitle, ExerciseTitle
from lockstep.classroom.decisions import DecisionError, override, run_override, withdraw
from lockstep.classroom.exports.feedback import summary
from lockstep.classroom.gradebook import Gradebook, open_gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.marking import COLUMNS, MarkingError, Taken, read_reviews, write_reviews
from lockstep.classroom.people import Student
from lockstep.classroom.review import run_review
from lockstep.classroom.show import run_show
from lockstep.result import CheckResult, Review
from lockstep.verdict import Verdict

ADA = Student("007", "Ada Lovelace", "ada@example.org")
BOB = Student("b2", "Bob", "bob@example.org")
TWIN = Student("b3", "Bob")
TITLES = [
    ExerciseTitle("ex", "An exercise", (CheckTitle("one", "First.", 2.0), CheckTitle("two", "Second.", 3.0))),
    ExerciseTitle("answers", "Answers", (CheckTitle("all", "Answered.", 0.0),)),
]


def _grade(
    book: Gradebook, student: Student, answers: dict[str, str], work: str = "w", graders: str = "g"
) -> None:
    handin = book.receive(HandIn(student, None, "work.zip"), work)
    attempt = book.begin(handin, {"ex": graders, "answers": graders}, seed=1).id
    book.write_check(attempt, "ex", 0, CheckResult("one", Verdict.PASSED, 2.0, 2.0))
    book.write_check(attempt, "ex", 1, CheckResult("two", Verdict.FAILED, 0.0, 3.0))
    reviews = tuple(
        Review(name, f"Why {name}?", 4.0, text, len(text.split()), "the reducer", ("0.5 s", "=1+1"))
        for name, text in answers.items()
    )
    book.write_check(attempt, "answers", 0, CheckResult("all", Verdict.PASSED, 0.0, 0.0, reviews=reviews))
    book.end(attempt)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "gradebook.db"


@pytest.fixture
def book(place: Path) -> Iterator[Gradebook]:
    with open_gradebook(place) as book:
        book.enroll([ADA, BOB, TWIN])
        book.remember_catalogue(TITLES)
        _grade(book, ADA, {"Q1": "Because.", "Q10": "Ten;\n=HYPERLINK(1)", "Q2": "- a\n- b"})
        _grade(book, BOB, {"Q1": "=cmd|' /C calc'!A0", "Q2": ""})
        yield book


def _points(book: Gradebook, student: Student = ADA) -> float:
    return book.record(student.id).raw_points


# Overrides


@pytest.mark.parametrize("who", ["007", "Ada Lovelace", "ada lovelace", "ADA@example.org"])
def test_points_are_given_to_whom_only_one_can_be_meant(book: Gradebook, who: str) -> None:
    before = override(book, who, "ex/two", 1.5, "half of it", "Kim")
    assert (before.points, before.max_points) == (0.0, 3.0)
    (decided,) = book.record("007").overrides
    assert (decided.points, decided.comment, decided.by) == (1.5, "half of it", "Kim")
    assert _points(book) == 3.5


def test_what_was_decided_survives_another_grading_and_is_taken_back(book: Gradebook) -> None:
    override(book, "007", "ex/two", 1.5, "", "Kim")
    override(book, "007", "ex/one", None, "look again at the loop", "Kim")
    override(book, "007", "answers/Q1", 3.0, "well put", "Kim")
    assert _points(book) == 6.5
    _grade(book, ADA, {"Q1": "Because."}, graders="other")
    assert _points(book) == 6.5
    assert withdraw(book, "007", "ex/two").points == 1.5
    assert withdraw(book, "007", "answers/Q1").points == 3.0
    assert _points(book) == 2.0
    for what in ("ex/two", "answers/Q1", "ex"):
        with pytest.raises(DecisionError, match="nobody has decided anything"):
            withdraw(book, "007", what)


def test_a_whole_exercise_takes_the_points_of_its_answers_in(book: Gradebook) -> None:
    assert override(book, "007", "answers", 12.0, "", "Kim").max_points == 12.0
    assert _points(book) == 14.0
    assert override(book, "b3", "answers", 11.0, "by word of mouth", "Kim").max_points == 12.0
    assert _points(book, TWIN) == 11.0


def test_what_is_no_longer_graded_can_be_withdrawn(book: Gradebook) -> None:
    override(book, "007", "ex/two", 1.0, "", "Kim")
    book.remember_catalogue([ExerciseTitle("ex", "An exercise", (CheckTitle("one", "First.", 2.0),))])
    _grade(book, ADA, {}, graders="other")
    withdraw(book, "007", "ex/two")
    assert book.record("007").overrides == ()


@pytest.mark.parametrize(
    ("who", "what", "points", "comment", "said"),
    [
        ("nobody", "ex", 1.0, "", "knows no student 'nobody'"),
        ("", "ex", 1.0, "", "knows no student ''"),
        ("bob", "ex", 1.0, "", "'bob' are 2 students: say b2, b3"),
        ("007", "nosuch", 1.0, "", "no exercise 'nosuch'; there are ex, answers"),
        ("007", "ex/nosuch", 1.0, "", "ex has no 'nosuch'; it has one, two"),
        ("007", "answers/Q7", 1.0, "", "answers has no 'Q7'; it has all, Q1, Q10, Q2"),
        ("007", "ex/one", None, "", "neither points nor a comment"),
        ("007", "ex/one", -1.0, "", "-1 points cannot be given"),
        ("007", "ex/one", math.nan, "", "nan points cannot be given"),
        ("007", "ex/one", math.inf, "", "inf points cannot be given"),
        ("007", "ex/one", 2.5, "", "2.5 is more than the 2 points"),
        ("007", "ex", 5.5, "", "5.5 is more than the 5 points"),
        ("b3", "ex/one", 2.5, "", "2.5 is more than the 2 points"),
        ("007", "answers/Q1", 5.0, "", "5 is more than the 4 points"),
    ],
)
def test_what_cannot_be_decided(
    book: Gradebook, who: str, what: str, points: float | None, comment: str, said: str
) -> None:
    with pytest.raises(DecisionError) as refused:
        override(book, who, what, points, comment, "Kim")
    assert said in str(refused.value)
    assert [record.overrides for record in book.records()] == [(), (), ()]


def test_more_than_there_is_takes_a_word_more(book: Gradebook) -> None:
    override(book, "007", "ex/one", 2.5, "", "Kim", above_max=True)
    assert _points(book) == 2.5


def _override(
    place: Path,
    student: str | None = None,
    what: str | None = None,
    points: float | None = None,
    comment: str = "",
    *,
    withdraw: bool = False,
) -> int:
    return run_override(
        gradebook=str(place),
        student=student,
        what=what,
        points=points,
        comment=comment,
        by="",
        withdraw=withdraw,
        above_max=False,
    )


def test_the_command_says_what_came_of_it(
    book: Gradebook, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _override(place) == 0
    assert capsys.readouterr().out == "Nobody has decided anything yet.\n"
    assert _override(place, "007", "ex/two", 1.5, "half \x1b[31m of it") == 0
    assert capsys.readouterr().out.split() == (
        "Ada Lovelace: ex/two was 0, now 1.5 of 3 points; in all 3.5 of 17 points. Pages and exports say so after "
        "the next `lockstep grade`, exports after `lockstep export --out` as well.".split()
    )
    assert _override(place, "007", "answers/Q1", 3.0) == 0
    assert _override(place, "007", "ex", None, "a comment") == 0
    capsys.readouterr()
    _grade(book, ADA, {"Q1": "Another."}, work="w2")
    assert _override(place) == 0
    listed = capsys.readouterr().out
    assert "\x1b" not in listed
    assert [line.split()[2] for line in listed.splitlines()[1:]] == ["ex", "ex/two", "answers/Q1"]
    assert "(an earlier answer)" in listed
    assert _override(place, "007", "ex/two", withdraw=True) == 0
    assert "ex/two was 1.5, now 0 of 3 points" in capsys.readouterr().out
    assert _override(place, "007", "ex/two", withdraw=True) == 2
    assert "nobody has decided anything about ex/two" in capsys.readouterr().err
    assert _override(place, "007", "ex/two", 1.0, withdraw=True) == 2
    assert _override(place.with_name("nosuch.db"), "007", "ex", 1.0) == 2
    assert "there is no gradebook" in capsys.readouterr().err


def test_the_command_says_that_points_for_the_whole_hold(
    book: Gradebook, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _override(place, "007", "answers", 4.0) == 0
    assert "hold" not in capsys.readouterr().out
    assert _override(place, "007", "answers/Q1", 3.0) == 0
    assert "The points that answers was given as a whole hold" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("student", "given", "said"),
    [
        ("007", {"points": 3.0}, "say which exercise it is about: ex, answers"),
        ("007", {"comment": "well put"}, "say which exercise it is about: ex, answers"),
        ("007", {"withdraw": True}, "say which exercise it is about: ex, answers"),
        ("007", {}, "say which exercise it is about: ex, answers"),
        (None, {"points": 3.0}, "say whose work and which exercise it is about"),
    ],
)
def test_what_it_is_about_has_to_be_said(
    book: Gradebook,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    student: str | None,
    given: dict[str, Any],
    said: str,
) -> None:
    assert _override(place, student, **given) == 2
    shown = capsys.readouterr()
    assert (shown.out, said in shown.err) == ("", True)
    assert all(record.overrides == () for record in book.records())


# Answers in a table


def _table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


def _save(path: Path, rows: list[dict[str, str]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))
    return path


@pytest.fixture
def table(book: Gradebook, tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    assert write_reviews(book, path) == 4
    return path


def test_answers_that_wait_stand_question_by_question(table: Path) -> None:
    rows = _table(table)
    assert list(rows[0]) == list(COLUMNS)
    assert [(row["question"], row["student"]) for row in rows] == [
        ("Q1", "007"),
        ("Q1", "b2"),
        ("Q2", "007"),
        ("Q10", "007"),
    ]
    assert (rows[0]["title"], rows[0]["max_points"], rows[0]["look_for"]) == ("Why Q1?", "4", "the reducer")
    assert rows[0]["points"] == rows[0]["comment"] == rows[0]["note"] == ""


def test_no_cell_is_computed_wherever_a_spreadsheet_splits(table: Path) -> None:
    rows = _table(table)
    assert rows[1]["answer"] == "'=cmd|' /C calc'!A0"
    assert rows[2]["answer"] == "'- a\n'- b"
    assert rows[3]["answer"] == "Ten;\n'=HYPERLINK(1)"
    assert rows[0]["numbers"] == "0.5 s\n'=1+1"
    for row in rows:
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())


@pytest.mark.parametrize(
    ("delimiter", "encoding", "half"),
    [(",", "utf-8-sig", "2.5"), (";", "cp1252", "2,5"), ("\t", "utf-16", "2,5")],
)
def test_points_come_back_from_any_spreadsheet_and_stay(
    book: Gradebook, table: Path, delimiter: str, encoding: str, half: str
) -> None:
    rows = _table(table)
    rows[0] |= {"points": half, "comment": "schön; genau"}
    rows[0]["student"] = "7"  # what a spreadsheet makes of 007
    rows[1] |= {"comment": "see me"}
    rows[3] |= {"points": "0"}
    taken = read_reviews(book, _save(table, rows[::-1], delimiter, encoding), "Kim")
    assert taken == Taken(marked=2, commented=1, empty=1)
    assert _points(book) == 4.5
    _grade(book, ADA, {"Q1": "Because.", "Q10": "Ten;\n=HYPERLINK(1)", "Q2": "- a\n- b"}, graders="other")
    record = book.record("007")
    marks = {mark.question: mark for mark in record.marks}
    assert (marks["Q1"].comment, marks["Q1"].by) == ("schön; genau", "Kim")
    assert (record.raw_points, record.waiting_reviews) == (4.5, 1)
    assert write_reviews(book, table) == 2
    assert [(row["student"], row["question"], row["comment"]) for row in _table(table)] == [
        ("b2", "Q1", "see me"),
        ("007", "Q2", ""),
    ]


def test_a_table_that_is_read_twice_changes_nothing_more(book: Gradebook, table: Path) -> None:
    rows = _table(table)
    rows[0]["points"] = "3"
    read_reviews(book, _save(table, rows), "Kim")
    assert read_reviews(book, table, "Kim") == Taken(marked=1, empty=3)
    rows[0]["points"] = "1"
    assert read_reviews(book, _save(table, rows), "Kim") == Taken(marked=1, empty=3, changed=1)
    rows[0] |= {"points": "", "comment": "on second thoughts"}
    assert read_reviews(book, _save(table, rows), "Kim") == Taken(commented=1, empty=3)
    assert _points(book) == 3.0


def test_an_answer_that_was_replaced_is_read_again(book: Gradebook, table: Path) -> None:
    rows = _table(table)
    rows[0]["points"] = "3"
    rows[0]["comment"] = "well put"
    _grade(book, ADA, {"Q1": "Because I say so."}, work="w2")
    assert read_reviews(book, _save(table, rows[:1]), "Kim") == Taken(outdated=1)
    assert (_points(book), book.record("007").waiting_reviews) == (2.0, 1)
    anew = table.with_name("anew.csv")
    write_reviews(book, anew)
    newer = next(row for row in _table(anew) if row["student"] == "007")
    assert newer["note"] == "an earlier answer had 3 points: well put"
    newer["points"] = "1"
    read_reviews(book, _save(anew, [newer]), "Kim")
    assert read_reviews(book, _save(table, rows[:1]), "Lee") == Taken(outdated=1)
    assert _points(book) == 3.0


def test_what_is_filled_in_is_not_written_over_before_it_is_taken_in(book: Gradebook, table: Path) -> None:
    empty = table.read_bytes()
    assert write_reviews(book, table) == 4
    assert table.read_bytes() == empty
    for filled in ({"points": "4"}, {"comment": "well argued"}, {"points": "many"}):
        rows = _table(table)
        rows[0] |= filled
        kept = _save(table, rows).read_bytes()
        with pytest.raises(MarkingError) as refused:
            write_reviews(book, table)
        assert (
            "1 row has points or a comment that the gradebook does not (line 3, 007). Take them in first"
            in str(refused.value)
        )
        assert table.read_bytes() == kept
        table.write_bytes(empty)
    rows = _table(table)
    rows[0] |= {"points": "4,0", "comment": "fine; =indeed;\n=so"}
    rows[1] |= {"comment": "see me"}
    read_reviews(book, _save(table, rows, ";"), "Kim")
    assert write_reviews(book, table) == 3
    assert write_reviews(book, table) == 3
    rows[0]["points"] = "3"  # on second thoughts, and not taken in
    _save(table, rows)
    with pytest.raises(MarkingError, match="1 row has points"):
        write_reviews(book, table)


def test_points_for_an_answer_that_was_replaced_are_not_written_over_either(
    book: Gradebook, table: Path
) -> None:
    rows = _table(table)
    rows[0]["points"] = rows[1]["points"] = "3"
    _save(table, rows)
    _grade(book, ADA, {"Q1": "Because I say so."}, work="w2")
    with pytest.raises(MarkingError, match="2 rows have"):
        write_reviews(book, table)
    read_reviews(book, table, "Kim")
    assert write_reviews(book, table) == 1


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (b"name,email\nAda,ada@example.org\n", "has no column student, exercise, question, points, comment"),
        (b"PK\x03\x04", "Save it as CSV"),
    ],
)
def test_no_other_file_is_written_over(book: Gradebook, tmp_path: Path, there: bytes, said: str) -> None:
    path = tmp_path / "roster.csv"
    path.write_bytes(there)
    with pytest.raises(MarkingError, match=said) as refused:
        write_reviews(book, path)
    assert "is there and not written over: name another file" in str(refused.value)
    assert path.read_bytes() == there
    path.write_bytes(b"")
    assert write_reviews(book, path) == 4


def test_a_comment_on_an_answer_that_was_replaced_takes_no_points_from_it(
    book: Gradebook, table: Path
) -> None:
    rows = _table(table)
    rows[0]["points"] = "3"
    read_reviews(book, _save(table, rows[:1]), "Kim")
    _grade(book, ADA, {"Q1": "Because I say so."}, work="w2")
    rows[0] |= {"points": "", "comment": "on second thoughts"}
    assert read_reviews(book, _save(table, rows[:1]), "Kim") == Taken(outdated=1)
    (mark,) = book.record("007").marks
    assert (mark.points, mark.comment) == (3.0, "on second thoughts")
    assert _points(book) == 2.0
    _grade(book, ADA, {"Q1": "Because."}, work="w3")
    assert (_points(book), book.record("007").waiting_reviews) == (5.0, 0)


def test_no_answer_waits_where_a_decision_about_the_whole_exercise_holds(
    book: Gradebook, table: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    override(book, "007", "answers", None, "see me", "Kim")
    assert book.record("007").waiting_reviews == 3
    override(book, "007", "answers", 2.0, "by word of mouth", "Kim")
    record = book.record("007")
    assert record.waiting_reviews == 0
    assert not any("wait" in sentence for sentence in summary(record))
    rows = _table(table)
    rows[0]["points"] = rows[1]["points"] = "4"
    assert _review(place, read=_save(table, rows)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Points for 2 answers; 2 left empty. A decision about the exercise as a whole holds" in said
    assert "(007, answers)" in said
    assert (_points(book), _points(book, BOB)) == (4.0, 6.0)
    assert write_reviews(book, table) == 0
    withdraw(book, "007", "answers")
    assert (_points(book), book.record("007").waiting_reviews) == (6.0, 2)
    assert write_reviews(book, table) == 2


def test_an_id_begins_no_formula_and_comes_back(book: Gradebook, tmp_path: Path) -> None:
    odd = Student("bob;=HYPERLINK(A1)")
    book.enroll([odd])
    _grade(book, odd, {"Q1": "Because."})
    path = tmp_path / "odd.csv"
    write_reviews(book, path)
    rows = [row for row in _table(path) if row["student"].startswith("bob")]
    assert [row["student"] for row in rows] == ["bob;'=HYPERLINK(A1)"]
    for spelling in ("bob;'=HYPERLINK(A1)", "bob;=HYPERLINK(A1)"):
        for key in (rows[0]["key"], ""):
            rows[0] |= {"points": "3", "student": spelling, "key": key}
            assert read_reviews(book, _save(path, rows), "Kim").marked == 1
    assert _points(book, odd) == 5.0


def test_a_table_of_ones_own_needs_five_columns(book: Gradebook, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("Comment;Points;Student;Exercise;Question\nfine;2,5;b2;answers;Q1\n")
    assert read_reviews(book, path, "Kim").marked == 1
    assert _points(book, BOB) == 4.5


@pytest.mark.parametrize(
    ("line", "change", "said"),
    [
        (0, {"points": "many"}, "line 3 (007, answers/Q1): 'many' is no number of points"),
        (0, {"points": "nan"}, "'nan' is no number"),
        (0, {"points": "-1"}, "'-1' is no number"),
        (0, {"points": "1e3"}, "'1e3' is no number"),
        (0, {"points": "5"}, "5 is more than the 4 points"),
        (0, {"points": "1", "student": "b2"}, "was one column sorted and not the others?"),
        (0, {"points": "1", "question": "Q2"}, "was one column sorted and not the others?"),
        (0, {"points": "1", "student": "2,02112E+11"}, "a spreadsheet has rounded the student '2,02112E+11'"),
        (0, {"points": "1", "key": "1.2E+10"}, "its key '1.2E+10' was changed"),
        (0, {"points": "1", "key": "", "student": "nobody"}, "knows no student 'nobody'"),
        (0, {"points": "1", "key": "", "question": "Q9"}, "has no answer to answers/Q9"),
        (1, {"points": "1", "key": "", "student": "007"}, "line 3 is about the same answer"),
    ],
)
def test_one_wrong_row_and_nothing_is_taken_in(
    book: Gradebook, table: Path, line: int, change: dict[str, str], said: str
) -> None:
    rows = _table(table)
    rows[0]["points"] = "4"
    rows[line] |= change
    with pytest.raises(MarkingError) as refused:
        read_reviews(book, _save(table, rows), "Kim")
    (problem,) = refused.value.problems
    assert said in problem
    assert all(record.marks == () for record in book.records())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"student,question\na,b\n", "has no column exercise, points, comment; it has student, question"),
        (b"PK\x03\x04", "Save it as CSV"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_table(book: Gradebook, tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "odd.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MarkingError, match=said):
        read_reviews(book, path, "Kim")


def test_names_that_no_table_takes_come_back_as_well(book: Gradebook, tmp_path: Path) -> None:
    odd = Student("=1+1\0\n\udcff x", "'; drop")
    book.enroll([odd])
    _grade(book, odd, {"Q1": "Because\0.\ud800"})
    path = tmp_path / "answers.csv"
    write_reviews(book, path)
    rows = _table(path)
    for row in rows:
        row["points"] = "1"
    assert read_reviews(book, _save(path, rows), "Kim").marked == 5
    assert _points(book, odd) == 3.0


def _review(
    place: Path, *, write: Path | None = None, read: Path | None = None, above_max: bool = False
) -> int:
    return run_review(gradebook=str(place), write=write, read=read, by="Kim", above_max=above_max)


def test_the_command_writes_reads_and_counts(
    book: Gradebook, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answers.csv"
    assert _review(place) == 0
    assert capsys.readouterr().out.split("\n")[:3] == [
        "4 answers wait for a person:",
        "     2  answers/Q1  Why Q1?",
        "     1  answers/Q2  Why Q2?",
    ]
    assert _review(place, write=path) == 0
    assert "4 answers in" in capsys.readouterr().out
    rows = _table(path)
    for row in rows:
        row["points"] = "5"
    assert _review(place, read=_save(path, rows)) == 2
    said = capsys.readouterr().err
    assert said.count("more than the 4 points") == 4
    assert said.endswith("lockstep: nothing was taken in\n")
    assert _review(place, write=path) == 2
    refused = capsys.readouterr().err
    assert "4 rows have points or a comment that the gradebook does not" in " ".join(refused.split())
    assert "nothing was taken in" not in refused
    assert _review(place, read=path, above_max=True) == 0
    assert capsys.readouterr().out.startswith(
        "Points for 4 answers.\nPages and exports say so after the next "
    )
    assert _review(place.parent, read=path, above_max=True) == 0
    assert f"; in {place.parent} after: lockstep export {place.parent}\n" in capsys.readouterr().out
    assert _review(place) == 0
    assert capsys.readouterr().out == "No answer waits.\n"
    assert _review(place, write=tmp_path / "nosuch" / "answers.csv") == 2
    assert "cannot be written" in capsys.readouterr().err


# Shown to whoever is asked


def shown(capsys: pytest.CaptureFixture[str], place: Path, student: str, what: str | None = None) -> str:
    assert run_show(gradebook=str(place), student=student, what=what) == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_a_lost_point_is_shown_with_its_reason_and_how_to_see_it_again(
    book: Gradebook, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    override(book, "007", "ex/two", 1.0, "half of it is right", "me")
    said = shown(capsys, place, "ada@example.org", "ex/two")
    assert said == (
        "Ada Lovelace (007) 3 of 17 points. 3 answers wait for a person, who may still give points. "
        "ex / two: failed, 1 of 3 points Second. A person gave 1 instead of 0 points. Comment: half of it is right "
        "The same again, on the same data, from what came in as work.zip: "
        "pytest graders/ --submission PATH --exercise ex --check two --seed 1"
    )
    assert "ex / one: passed, 2 of 2 points First." in shown(capsys, place, "007", "ex")
    assert "answers / Q1: no points yet Why Q1?" in shown(capsys, place, "007", "answers/Q1")


def test_all_that_cost_points_is_shown_where_nothing_is_named(
    book: Gradebook, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = shown(capsys, place, "b2")
    assert "ex / two: failed, 0 of 3 points" in said
    assert "answers / Q2" in said
    assert "ex / one" not in said
    assert "me" not in said.split()
    assert shown(capsys, place, "b3") == "Bob (b3) Nothing was handed in."


def test_of_a_check_that_is_not_there_nothing_is_shown(
    book: Gradebook, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_show(gradebook=str(place), student="007", what="ex/three") == 2
    assert "ex has no 'three'; it has one, two" in capsys.readouterr().err
    assert run_show(gradebook=str(place), student="Bob", what=None) == 2
    assert "'Bob' are 2 students" in capsys.readouterr().err
