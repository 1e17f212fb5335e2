"""The pages of a class, read without a browser: what stands on them, what must not, and when they are written."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fixtures.reports import KINDS, honest
from lockstep.classroom.gradebook import open_gradebook
from lockstep.classroom.handin import HandIn, Unmatched
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.pages.keeping import keep_plots, refresh_plots
from lockstep.classroom.pages.overview import Status, overview, shown_exercises, status
from lockstep.classroom.pages.plots import kept_plots
from lockstep.classroom.pages.render import Pages
from lockstep.classroom.pages.text import folded, prose
from lockstep.classroom.pages.write import write_pages
from lockstep.classroom.publish import publish
from lockstep.classroom.record import Override, Record
from lockstep.classroom.slug import slugs
from lockstep.verdict import Verdict
from tests.small_class import (
    ADA,
    BEN,
    BROKEN,
    CATALOGUE,
    CLASS,
    DIGEST,
    HOSTILE,
    LOOK_FOR,
    MISSING,
    NODE,
    SEED,
    ZOE,
    hostile_class,
)

VOID = {"meta", "input", "br", "img", "link", "rect", "circle", "path", "wbr"}
INLINE = {"a", "bdi", "code", "span", "strong", "wbr"}
STRAYS = (Unmatched("homework (3).zip", "No student of that name is on the roster."),)


class _Reader(HTMLParser):
    """What a page holds: its text without style and script, its elements, and whether they are closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._part(tag)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes another element"
        self._part(tag)

    def handle_data(self, data: str) -> None:
        match self._open[-1:]:
            case ["script"]:
                self.scripts.append(data)
            case ["style"]:
                self.styles.append(data)
            case _:
                self.text.append(data)

    def _part(self, tag: str) -> None:
        if tag not in INLINE:
            self.text.append(" ")

    def close(self) -> None:
        super().close()
        assert self._open == []


def read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader


def text_of(page: str) -> str:
    return " ".join("".join(read(page).text).split())


@cache
def pages() -> Pages:
    return Pages(CATALOGUE, "Autumn")


def class_page(records: tuple[Record, ...], strays: tuple[Unmatched, ...] = ()) -> str:
    return pages().of_class(records, strays, slugs(records))


def student_page(record: Record) -> str:
    return pages().of_student(record)


def test_a_student_reads_what_how_and_why() -> None:
    text = text_of(student_page(ADA))
    for part in (
        "Ada Adams",
        "Training on many processes",
        "✗ failed",
        "✓ passed",
        "Every epoch has another order.",
        "Epochs 0 and 1 have one order.",
        "What to try Call set_epoch(epoch).",
        "reshuffles",
        "__MACOSX/ was left out.",
    ):
        assert part in text


def test_a_student_reads_what_people_decided() -> None:
    text = text_of(student_page(ADA))
    assert "A person looked at this. Points: 0.5 from the grader, now 2. Right, only unusual." in text
    assert "K. Abe" not in student_page(ADA)
    assert "Q1: Why is it not twice as fast? 3 of 5" in text
    assert "Which number says so?" in text


def test_the_late_penalty_stands_apart() -> None:
    text = text_of(student_page(ADA))
    # 5 by checks and 3 by a person; two days begun at 10 % each.
    assert "Points earned 8 Taken off for being late −1.6 Final points 6.4" in text
    assert (
        "Handed in 1.5 days after the deadline. Each day begun takes 10 % of the points earned off." in text
    )
    assert "late" not in text_of(student_page(ZOE)).split("What the words mean")[0]


@pytest.mark.parametrize(
    ("grace_hours", "late_hours", "sentence"),
    [
        (0.25, 0.01, "Handed in 1 minute after the deadline. Each day begun after 15 minutes of grace takes"),
        (1, 0.75, "Handed in 45 minutes after the deadline. Each day begun after 1 hour of grace takes"),
        (1.5, 2, "Handed in 2 hours after the deadline. Each day begun after 90 minutes of grace takes"),
        (2.5, 30, "Handed in 1.2 days after the deadline. Each day begun after 2.5 hours of grace takes"),
        (24, 24, "Handed in 1 day after the deadline. Each day begun after 1 day of grace takes"),
    ],
)
def test_time_is_told_as_exactly_as_it_was_given(
    grace_hours: float, late_hours: float, sentence: str
) -> None:
    policy = LatePolicy(10.0, grace_days=grace_hours / 24)
    assert sentence in text_of(student_page(replace(ADA, late_days=late_hours / 24, policy=policy)))


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (MISSING, "Nothing was handed in under your name."),
        (BROKEN, "Your work could not be graded: The archive is damaged: it ends in the middle."),
        (replace(MISSING, label="m1.zip"), "Your work has not been graded yet."),
    ],
)
def test_a_student_without_points_reads_why(record: Record, sentence: str) -> None:
    text = text_of(student_page(record))
    assert sentence in text
    assert "Points" not in text


def test_an_answer_that_waits_says_so() -> None:
    text = text_of(student_page(replace(ADA, marks=())))
    assert "1 answer waits for a person: up to 5 points more." in text
    assert "waits for a person, up to 5" in text


def test_an_answer_waits_for_nobody_where_points_for_the_whole_exercise_hold() -> None:
    whole = Override("answers", "", 4.0, "By word of mouth.", "K. Abe", "")
    text = text_of(student_page(replace(ADA, marks=(), overrides=(whole,))))
    assert "the points for the exercise as a whole hold" in text
    assert "waits for a person" not in text


@pytest.mark.parametrize("record", CLASS)
def test_nothing_of_the_instructors_is_on_a_students_page(record: Record) -> None:
    page = student_page(record)
    others = [other.student.name for other in CLASS if other is not record]
    flags = [part for flag in record.flags for part in (flag.kind, flag.detail)]
    hidden = ["A lab of next term", "Nobody has seen this check.", "next_term", "secret_lab"]
    told = [
        str(SEED),
        f"{SEED:x}",
        DIGEST,
        DIGEST[:12],
        NODE,
        LOOK_FOR,
        "Eve Elsewhere",
        *others,
        *flags,
        *hidden,
    ]
    for text in told:
        assert text not in page, text
    assert "<script" not in page


def test_a_passed_check_keeps_its_advice_and_a_fault_is_the_graders() -> None:
    advised = replace(ADA.exercises[0].checks[0], message="It passed, and `init_method` is not needed.")
    fault = replace(advised, id="cleans_up", verdict=Verdict.FAULT, message="The grader itself failed.")
    work = replace(ADA.exercises[0], checks=(advised, fault))
    text = text_of(student_page(replace(ADA, exercises=(work,))))
    assert "It passed, and init_method is not needed." in text
    assert "! grader fault" in text
    assert "Look at these first" not in text


def test_checks_that_only_wait_say_so_in_one_line() -> None:
    page = student_page(ZOE)
    assert page.count("What to try") == 0
    assert page.count("<code>joins_group</code> did not pass.") == 2
    assert "Autumn" not in page


def test_what_one_error_stopped_is_told_once() -> None:
    error = "Your code raised ValueError: no (ddp_train.py, line 8, in load), while calling"
    first = replace(
        ADA.exercises[0].checks[0], verdict=Verdict.CRASHED, message=f"{error} setup().", hint="Mend it."
    )
    second = replace(first, id="cleans_up", message=f"{error} cleanup().")
    another = replace(first, id="evaluates", message=first.message.replace("line 8", "line 9"))
    work = replace(ADA.exercises[0], checks=(first, second, another))
    page = student_page(replace(ADA, exercises=(work,)))
    text = text_of(page)
    assert text.count("line 8") == 1
    assert text.count("line 9") == 1
    assert f'The same as in <a href="#check-1-1"><code>{first.id}</code></a>.' in page
    assert 'id="check-1-1"' in page
    assert text.count("Mend it.") == 2
    assert page.count('<a href="#check-1-2">') == 0


def test_what_checks_say_word_for_word_is_told_once() -> None:
    first = replace(
        ADA.exercises[0].checks[0], verdict=Verdict.FAILED, message="It is not there.", hint="Mend it."
    )
    second, other = replace(first, id="cleans_up"), replace(first, id="evaluates", hint="Mend that.")
    page = student_page(replace(ADA, exercises=(replace(ADA.exercises[0], checks=(first, second, other)),)))
    text = text_of(page)
    assert text.count("It is not there.") == 2
    assert text.count("Mend it.") == text.count("Mend that.") == 1
    assert page.count('The same as in <a href="#check-1-1">') == 1


def test_a_long_log_is_folded_and_whole() -> None:
    lines = [f"line {number} of `a log`" for number in range(1, 41)]
    parts = folded("\n".join(lines))
    assert parts.shown.splitlines() == lines[:8]
    assert parts.more.splitlines() == lines[8:]
    assert parts.more_lines == 32
    assert folded("one line").more == ""
    words = folded("word " * 390)
    assert not words.shown.endswith("wor")
    assert f"{words.shown} {words.more.strip()}".split() == ["word"] * 390
    unbroken = folded("x" * 1900)
    assert unbroken.shown + unbroken.more == "x" * 1900


def test_backticks_are_code_and_everything_is_escaped() -> None:
    assert str(prose("`a < b` & `c")) == "<code>a &lt; b</code> &amp; `c"


@pytest.mark.parametrize("record", hostile_class(), ids=range(len(HOSTILE)))
def test_hostile_texts_stay_texts_on_a_students_page(record: Record) -> None:
    reader = read(student_page(record))
    assert not {tag for tag, _ in reader.tags} & {"script", "img", "iframe", "object", "form", "link"}
    assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
    text = "".join(reader.text)
    assert not re.search(r"[\0\x1b\u202a-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]", text)


def test_hostile_texts_stay_texts_on_the_class_page() -> None:
    strays = tuple(Unmatched(text, text) for text in HOSTILE)
    page = class_page(hostile_class(), strays)
    reader = read(page)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    data, _ = reader.scripts
    assert data.isascii()
    assert not re.search(r"[<>&]", data)
    assert len(json.loads(data)["students"]) == len(HOSTILE)
    assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("page", [student_page(ADA), class_page(CLASS, STRAYS)], ids=["student", "class"])
def test_a_page_allows_only_its_own_style_and_script(page: str) -> None:
    reader = read(page)
    (policy,) = (
        attributes["content"]
        for tag, attributes in reader.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for content in (*reader.styles, *reader.scripts[1:]):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not [attributes for _, attributes in reader.tags if "style" in attributes or "src" in attributes]
    assert not re.search(r"https?://", page.replace("www.w3.org", ""))


def test_the_class_page_shows_figures_flags_and_strays() -> None:
    text = text_of(class_page(CLASS, STRAYS))
    for part in (
        "5 students · last graded 21 November 2026, 09:41 UTC",
        "Graded 3 of 5",
        "Median of points 5 of 10",
        "Final points of 3 students: mean 3.8, median 5",
        "Flagged 2",
        "Late, with a penalty 1",
        "Could not be graded 1",
        "Handed in nothing 1",
        "Files that belong to nobody 1",
        "crashed or hung 1",
        "lockstep 0.1.0",
        "setup() joins the group that torchrun describes. ddp_train / joins_group 1 of 3",
        "Written answers 1.5 of 5",
    ):
        assert part in text
    assert "secret_lab" not in text


def test_the_data_of_the_class_is_compact_and_whole() -> None:
    data = json.loads(read(class_page(CLASS, STRAYS)).scripts[0])
    ada = data["students"][0]
    assert ada[:5] == ["Ada Adams", "a1", "ada@example.org", "blue", "a1"]
    assert ada[6:9] == [6.4, 1.6, 1.5]
    assert ada[9:] == [[5, 3], "pqpp"]
    assert [student[10] for student in data["students"]] == ["pqpp", "ppp.", "....", "....", "cnnp"]
    assert [data["statuses"][student[5]] for student in data["students"]] == [
        "graded", "graded", "could not be graded", "handed in nothing", "answers wait for a person",
    ]  # fmt: skip
    assert data["kinds"] == ["similar code", "crashed or hung"]
    assert data["flags"][0] == [0, 0, "train.py", "94 % as in one other hand-in.", [4]]
    assert data["unmatched"] == [["homework (3).zip", "No student of that name is on the roster."]]
    assert data["problems"] == {"2": "The archive is damaged: it ends in the middle."}


def test_a_class_of_nobody_has_a_page() -> None:
    assert "0 students" in text_of(class_page(()))
    assert "1 student" in text_of(class_page((MISSING,)))


def test_status_tells_where_the_work_stands() -> None:
    assert [status(record) for record in CLASS] == [
        Status.GRADED, Status.GRADED, Status.BROKEN, Status.MISSING, Status.WAITS,
    ]  # fmt: skip


def test_checks_that_the_catalogue_lacks_are_shown_all_the_same() -> None:
    exercises = shown_exercises(CLASS, CATALOGUE[1:])
    assert [exercise.id for exercise in exercises] == ["answers", "ddp_train"]
    assert [check.id for check in exercises[1].checks] == ["joins_group", "reshuffles", "cleans_up"]


def test_figures_of_the_class() -> None:
    figures = overview(CLASS, shown_exercises(CLASS, CATALOGUE))
    first, second = figures.exercises
    assert (first.students, first.full, first.mean, first.median_seconds) == (3, 2, 10 / 3, 1.5)
    assert (second.students, second.max_points, second.mean) == (2, 5.0, 1.5)
    worst = figures.most_failed[0]
    assert (worst.check, worst.failed, worst.made) == ("joins_group", 1, 3)
    assert [tally.count("n") for tally in figures.tallies] == [0, 1, 1, 0]
    assert sum(each.count for each in figures.bins) == figures.scored == 3


@pytest.mark.parametrize(("most", "bars"), [(5.0, 20), (100.0, 20), (110.0, 22), (0.5, 20), (1000.0, 20)])
def test_the_bars_of_the_histogram_have_round_widths(most: float, bars: int) -> None:
    check = replace(ADA.exercises[0].checks[0], max_points=most, points=most)
    work = replace(ADA.exercises[0], checks=(check,))
    generous = Override("ddp_train", "", most * 3, "", "", "")
    records = (
        replace(BEN, exercises=(work,)),
        replace(BEN, exercises=(work,), overrides=(generous,)),
        replace(BEN, exercises=(work,), overrides=(replace(generous, points=0.0),)),
    )
    drawn = overview(records, ()).bins
    assert len(drawn) == bars
    assert (drawn[0].low, drawn[-1].high) == (0, most)
    assert (drawn[0].count, drawn[-1].count) == (1, 2)


def test_pages_are_written_once_and_again_only_where_something_changed(tmp_path: Path) -> None:
    names = slugs(CLASS)

    def write(records: tuple[Record, ...] = CLASS, title: str = "") -> int:
        return write_pages(records, CATALOGUE, STRAYS, names, tmp_path, title)

    assert write() == len(CLASS) + 1
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("index.html")}
    assert len(times) == len(CLASS) + 1
    assert write() == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("index.html")} == times
    # A flag is the instructor's: only the class page changes.
    assert write((replace(ADA, flags=()), *CLASS[1:])) == 1
    comment = Override("ddp_train", "", None, "See me.", "K. Abe", "")
    assert write((replace(ADA, overrides=(comment,), flags=()), *CLASS[1:])) == 2
    assert "See me." in (tmp_path / "students" / names["a1"] / "index.html").read_text()
    assert write(tuple(replace(record, policy=LatePolicy(1.0)) for record in CLASS)) == len(CLASS) + 1
    assert write(tuple(replace(record, policy=LatePolicy(1.0)) for record in CLASS), "Autumn") == 1
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"index.html"}


def test_a_damaged_page_is_written_again(tmp_path: Path) -> None:
    names = slugs(CLASS)
    write_pages(CLASS, CATALOGUE, (), names, tmp_path)
    page = tmp_path / "students" / names["a1"] / "index.html"
    page.write_text(re.sub(r'<meta name="made-of".*\n', "", page.read_text())[:900])
    (tmp_path / "students" / names["b1"] / "index.html").unlink()
    (tmp_path / "index.html").write_text("")
    assert write_pages(CLASS, CATALOGUE, (), names, tmp_path) == 3


def test_what_is_no_page_of_lockstep_s_is_neither_written_over_nor_removed(tmp_path: Path) -> None:
    own = "<!doctype html>\n<title>Course notes</title>"
    notes = [tmp_path / "students" / name / "index.html" for name in ("notes", slugs(CLASS)["a1"])]
    for page in notes:
        page.parent.mkdir(parents=True)
        page.write_text(own)
    plots = notes[0].with_name("reports.json")
    plots.write_text("{}")
    with pytest.raises(FileExistsError, match="no page of lockstep's") as refused:
        write_pages(CLASS, CATALOGUE, (), slugs(CLASS), tmp_path)
    assert refused.value.filename == str(notes[1])
    (tmp_path / "index.html").write_text(own)
    with pytest.raises(FileExistsError, match="no page of lockstep's") as refused:
        write_pages((), CATALOGUE, (), {}, tmp_path)
    assert refused.value.filename == str(tmp_path / "index.html")
    assert [page.read_text() for page in (*notes, tmp_path / "index.html", plots)] == [own, own, own, "{}"]
    for page in (notes[1], tmp_path / "index.html"):
        page.unlink()
    assert write_pages(CLASS, CATALOGUE, (), slugs(CLASS), tmp_path) == len(CLASS) + 1
    assert write_pages((), CATALOGUE, (), {}, tmp_path) == 1
    assert [path.name for path in (tmp_path / "students").iterdir()] == ["notes"]
    assert (notes[0].read_text(), plots.read_text()) == (own, "{}")


def test_reports_are_kept_as_numbers_and_drawn(tmp_path: Path) -> None:
    reports = {
        f"reports/{kind}.json": json.dumps(honest(kind, np.random.default_rng(7), machine="laptop")).encode()
        for kind in KINDS
    }
    odd = {
        "reports/broken.json": b'{"schema": "perf-report/1"',
        "notes.json": b"[1, 2]",
        "train.py": b"perf-report/1",
    }
    keep_plots({**reports, **odd}, "d1", tmp_path)
    plots = kept_plots(tmp_path)
    assert sorted(plot.name for plot in plots) == sorted(KINDS)
    for plot in plots:
        assert plot.bars
        heights = [height for bar in plot.bars for height in (*bar.readings, *bar.claims, bar.mean or 0)]
        assert all(0 <= height <= 260 for height in heights)
        assert len(plot.ticks) >= 2
    page = pages().of_student(ADA, plots)
    assert page.count('<svg class="plot"') == len(KINDS)
    assert read(page).text
    keep_plots(odd, "d2", tmp_path)
    assert kept_plots(tmp_path) == ()


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "{",
        "[1]",
        "null",
        '{"plots": 1}',
        '{"plots": [{"name": "x", "kind": "y", "columns": [{"label": 1}]}]}',
    ],
)
def test_numbers_that_cannot_be_drawn_are_no_plots(tmp_path: Path, kept: str) -> None:
    (tmp_path / "reports.json").write_text(kept)
    assert kept_plots(tmp_path) == ()


def test_plots_are_read_once_for_each_hand_in_that_was_graded(tmp_path: Path) -> None:
    names = slugs((ADA, BROKEN))
    out, work = tmp_path / "out", tmp_path / "work" / "reports"
    work.mkdir(parents=True)
    report = json.dumps(honest("amp", np.random.default_rng(7), machine="t4"))
    (work / "amp.json").write_text(report)
    handins = (HandIn(ADA.student, work.parent, "work"), HandIn(BROKEN.student, tmp_path / "none", "none"))

    def refreshed(record: Record) -> list[str]:
        refresh_plots(handins, (record, BROKEN), names, out)
        return [plot.name for plot in kept_plots(out / "students" / names["a1"])]

    write_pages((ADA,), CATALOGUE, (), names, out)
    assert refreshed(ADA) == ["amp"]
    assert write_pages((ADA,), CATALOGUE, (), names, out) == 1
    assert "Your measurements" in (out / "students" / names["a1"] / "index.html").read_text()
    (work / "amp.json").rename(work / "loader.json")
    assert refreshed(ADA) == ["amp"]
    assert ADA.attempt is not None
    again = replace(ADA, attempt=replace(ADA.attempt, digest="another"))
    assert refreshed(again) == ["loader"]
    (work / "loader.json").unlink()
    work.rmdir()
    assert refreshed(replace(again, attempt=replace(ADA.attempt, digest="a third"))) == []
    assert not (out / "students" / names["k1"]).exists()


def test_a_class_is_published_with_its_plots(tmp_path: Path) -> None:
    out, work = tmp_path / "out", tmp_path / "work"
    work.mkdir()
    (work / "amp.json").write_text(json.dumps(honest("amp", np.random.default_rng(7), machine="t4")))
    handin = HandIn(ADA.student, work, "work")
    with open_gradebook(tmp_path / "gradebook.db") as book:
        book.enroll([ADA.student])
        attempt = book.begin(book.receive(handin, "d1"), {"ddp_train": "f"}, seed=SEED)
        for position, check in enumerate(ADA.exercises[0].checks):
            book.write_check(attempt.id, "ddp_train", position, check)
        book.end(attempt.id)
        assert publish(book, out, [handin], (), lambda: ()).failures == ()
    page = (out / "students" / "a1" / "index.html").read_text()
    assert "Your measurements" in page
    assert str(SEED) not in page
    assert (out / "index.html").is_file()
