"""Flags: what of a class a person should look at, told to everybody it concerns, and to nobody for nothing."""

from __future__ import annotations

import copy
import itertools
import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.reports import KINDS, Noise, honest
from fixtures.reports.malformed import MALFORMED, Malformed
from fixtures.reports.rework import settle
from lockstep.classroom import flags, readings, tracebytes, worked
from lockstep.classroom.gradebook import Gradebook, open_gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.noise import alike_noise, series
from lockstep.classroom.overlap import COMMON_LEAST
from lockstep.classroom.people import Student
from lockstep.classroom.publish import publish
from lockstep.classroom.record import Flag, Record
from lockstep.classroom.traces import traces
from lockstep.classroom.winnowing import given
from lockstep.classroom.wording import same_words
from lockstep.reports import between
from lockstep.reports.document import document
from lockstep.result import CheckResult, ExerciseResult, Review
from lockstep.submission import open_submission, unread_archive
from lockstep.verdict import Verdict
from tests.batches import LAB, grade, hand_in
from tests.disguise import DISGUISES
from tests.fillings import filled
from tests.test_copies import sources
from tests.test_similarity import COPIES as REWORDED
from tests.test_similarity import HONEST, QUESTION

ROOT = Path(__file__).resolve().parent.parent
HANDED = flags.handed_out(ROOT / "graders")
SOLVED = flags.solution(ROOT / "graders")
Report = dict[str, Any]


def report(kind: str = "dataloader", seed: int = 0, noise: float = 0.02, **sections: Any) -> Report:
    machine = "laptop" if kind in ("dataloader", "lightning") else "two 3090"
    made = honest(
        kind,
        np.random.default_rng(seed),
        machine=machine,
        noise=Noise(noise),
        repetitions=5,
        student="unknown",
    )
    return {**made, **sections}


def reread(original: Report, change: Callable[[float], float]) -> Report:
    changed = copy.deepcopy(original)
    for run in changed["runs"]:
        run["wall_s"] = repr(change(float(run["wall_s"])))
    settle(changed)
    return changed


def jittered(size: float, scale: float = 1.05, seed: int = 1) -> Callable[[float], float]:
    rng = np.random.default_rng(seed)
    return lambda value: value * scale * float(np.exp(size * rng.standard_normal()))


class Class:
    """A class on disk; what is written for a student becomes their hand-in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._students: dict[str, Student] = {}

    def add(self, student: str, files: Mapping[str, str | bytes | Report], team: str = "") -> None:
        self._students[student] = Student(student, student.title(), f"{student}@example.org", team)
        for path, content in files.items():
            place = self._folder / student / path
            place.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(content) if isinstance(content, dict) else content
            place.write_bytes(text if isinstance(text, bytes) else text.encode())

    @property
    def handins(self) -> list[HandIn]:
        return [HandIn(each, self._folder / name, name) for name, each in self._students.items()]

    @property
    def records(self) -> list[Record]:
        return [Record(each, name) for name, each in self._students.items()]

    def found(self) -> dict[str, dict[str, Flag]]:
        told = flags.find(self.records, self.handins, HANDED)
        return {student: {flag.kind: flag for flag in own} for student, own in told.items()}


@pytest.fixture
def school(tmp_path: Path) -> Class:
    return Class(tmp_path / "class")


# Files


def test_equal_hand_ins_are_told_once(school: Class) -> None:
    files = {"fashion_trainer.py": filled("careful"), "reports/loader.json": report()}
    school.add("ann", files)
    school.add("ben", files)
    school.add("cat", {"fashion_trainer.py": filled("terse")})
    found = school.found()
    assert {student: list(own) for student, own in found.items()} == {
        "ann": ["equal hand-in"],
        "ben": ["equal hand-in"],
    }
    assert found["ann"]["equal hand-in"].others == ("ben",)
    assert "what Ben handed in" in found["ann"]["equal hand-in"].detail


def test_what_was_handed_out_and_handed_in_untouched_is_no_sign(school: Class) -> None:
    template = {path.name: path.read_bytes() for path in (ROOT / "student_template").glob("*.py")}
    school.add("ann", template)
    school.add("ben", template)
    assert school.found() == {}


def test_similar_code_names_files_lines_and_shares(school: Class) -> None:
    school.add("ann", {"fashion_trainer.py": filled("careful")})
    school.add("ben", {"fashion_trainer.py": filled("careful").replace("labels", "targets")})
    found = school.found()
    assert {student: list(own) for student, own in found.items()} == {
        "ann": ["similar code"],
        "ben": ["similar code"],
    }
    flag = found["ben"]["similar code"]
    assert (flag.subject, flag.others) == ("fashion_trainer.py", ("ann",))
    assert "100% of what is the student's own" in flag.detail
    assert "lines " in flag.detail


def test_a_team_is_excused_by_the_roster(school: Class) -> None:
    files = {
        "fashion_trainer.py": filled("careful"),
        "reports/loader.json": report(),
        "plot.png": b"\x89PNG1",
    }
    school.add("ann", files, team="red")
    school.add("ben", {**files, "extra.py": "x = 1"}, team="red")
    assert school.found() == {}


def test_equal_plots_and_logs_are_told_and_data_is_not(school: Class) -> None:
    data = {f"data/{number}.png": f"image {number}" for number in range(30)}
    school.add(
        "ann",
        {"a.py": "x = 1", "reports/loader.png": b"\x89PNG", "runs/events.out.tfevents.1.h": b"log", **data},
    )
    school.add("ben", {"b.py": "y = 2", "plots/mine.png": b"\x89PNG", **data})
    school.add("cat", {"c.py": "z = 3", "reports/loader.png": b"\x89PNG of hers", **data})
    found = school.found()
    assert {student: list(own) for student, own in found.items()} == {
        "ann": ["equal files"],
        "ben": ["equal files"],
    }
    assert found["ann"]["equal files"].subject == "reports/loader.png"
    assert "plots/mine.png of Ben" in found["ann"]["equal files"].detail


def test_characters_that_turn_text_around_are_told(school: Class) -> None:
    school.add("ann", {"a.py": "x = 1\ny = '\u202e2'\n"})
    flag = school.found()["ann"]["hidden characters"]
    assert flag.subject == "a.py, line 2"
    assert "\u202e" not in flag.detail


def test_what_cannot_be_read_stops_nothing(school: Class, tmp_path: Path) -> None:
    school.add("ann", {"fashion_trainer.py": filled("careful")})
    school.add("ben", {"fashion_trainer.py": filled("careful") + "\n"})
    (tmp_path / "broken.zip").write_bytes(b"no archive")
    others = [
        HandIn(Student("cat"), tmp_path / "broken.zip", "broken.zip"),
        HandIn(Student("dan"), None, "dan", problem="There is nothing in it."),
        HandIn(Student("eve"), tmp_path / "gone", "gone"),
    ]
    records = [*school.records, *(Record(each.student, each.label, problem=each.problem) for each in others)]
    found = flags.find(records, [*school.handins, *others], HANDED)
    assert {student: [flag.kind for flag in own] for student, own in found.items()} == {
        "ann": ["similar code"],
        "ben": ["similar code"],
        "dan": ["not graded"],
    }


def test_an_archive_beside_what_was_graded_is_told() -> None:
    notes = ("`work.py` in `a.zip` was not read: there is another one", unread_archive("work.rar"))
    (flag,) = flags.from_record(Record(Student("ann"), "ann", notes=notes))
    assert (flag.kind, flag.subject) == ("archive not read", "ann")
    assert flag.detail == (
        "The archive `work.rar` was not read: it is of a kind that cannot be unpacked here. "
        "Hand in the files themselves, or one .zip of everything."
    )


def test_names_and_files_are_made_harmless(school: Class) -> None:
    code = filled("careful")
    school.add("ann", {"a\u202eb.py": code})
    school.add("ben", {"fashion_trainer.py": code + "\n"})
    odd = [Record(Student("ann", "\x1b[31mAnn\nsays\u202e"), "ann"), Record(Student("ben"), "ben")]
    for own in flags.find(odd, school.handins, HANDED).values():
        for flag in own:
            assert not {"\x1b", "\n", "\u202e"} & set(flag.subject + flag.detail)


def test_namesakes_are_told_apart(school: Class) -> None:
    code = filled("careful")
    for student in ("ann", "ben", "cat"):
        school.add(student, {"fashion_trainer.py": f"{code}# {student}"})
    same = [
        Record(Student(each.student.id, "Jo" if each.student.id != "cat" else "Cat"))
        for each in school.records
    ]
    found = flags.find(same, school.handins, HANDED)
    assert (
        "the work of Jo (ben)" in found["ann"][0].detail or "the work of Jo (ann)" in found["cat"][0].detail
    )


# Readings


def test_shared_readings_are_told_whatever_students_call_themselves(school: Class) -> None:
    original = report()
    school.add("ann", {"reports/loader.json": original})
    school.add("ben", {"reports/Loader.json": original, "a.py": "x = 1"})
    school.add("cat", {"reports/loader.json": report(seed=5)})
    found = school.found()
    assert found.keys() == {"ann", "ben"}
    flag = found["ben"]["shared readings"]
    assert flag.others == ("ann",)
    assert flag.subject == "reports/Loader.json"
    assert "beside reports/loader.json" in flag.detail
    assert "report of Ann" in flag.detail


COPIES: dict[str, Callable[[float], float]] = {
    "scaled": lambda value: value * 1.05,
    "scaled and jittered": jittered(2e-4),
    "a different kind of clock": lambda value: value * 1.37 + 0.0,
}


@pytest.mark.parametrize("change", COPIES.values(), ids=COPIES)
def test_scaled_and_jittered_readings_are_told(school: Class, change: Callable[[float], float]) -> None:
    original = report()
    school.add("ann", {"reports/loader.json": original})
    school.add("ben", {"reports/loader.json": reread(original, change)})
    for number in range(20):
        school.add(f"s{number}", {"reports/loader.json": report(seed=100 + number)})
    found = school.found()
    assert {student: list(own) for student, own in found.items()} == {
        "ann": ["shared readings"],
        "ben": ["shared readings"],
    }


def test_times_of_another_report_around_readings_of_one_s_own_are_told(school: Class) -> None:
    original = report()
    other = reread(report(seed=3), lambda value: value)
    for mine, hers in zip(other["runs"], original["runs"], strict=False):
        mine.update({name: hers[name] for name in ("t_start", "t_end")})
    school.add("ann", {"reports/loader.json": original})
    school.add("ben", {"reports/loader.json": other})
    for number in range(20):
        school.add(f"s{number}", {"reports/loader.json": report(seed=100 + number)})
    found = school.found()
    assert found.keys() == {"ann", "ben"}
    assert "t_start and t_end also stand in" in found["ben"]["shared readings"].detail


@pytest.mark.parametrize("name", ["ann", "Ann", " ANN@example.org "])
def test_a_team_is_excused_by_its_reports(school: Class, name: str) -> None:
    original = report()
    school.add("ann", {"r.json": {**original, "student": {"id": "unknown", "team": ["ben"]}}})
    school.add("ben", {"r.json": {**original, "student": {"id": "unknown", "team": [name]}}, "a.py": "x = 1"})
    assert school.found() == {}


def test_a_team_that_only_one_report_names_is_told(school: Class) -> None:
    original = report()
    school.add("ann", {"r.json": original})
    school.add("ben", {"r.json": {**original, "student": {"id": "b", "team": ["ann"]}}, "a.py": "x = 1"})
    found = school.found()
    assert found.keys() == {"ann", "ben"}
    assert "only one of the two names the other" in found["ann"]["shared readings"].detail


def test_a_report_that_was_handed_out_is_no_sign(school: Class, tmp_path: Path) -> None:
    example = report()
    (tmp_path / "given.json").write_text(json.dumps(example))
    school.add("ann", {"a.json": example, "a.py": "x = 1"})
    school.add("ben", {"b.json": example, "b.py": "y = 2"})
    assert school.found().keys() == {"ann", "ben"}
    assert flags.find(school.records, school.handins, [tmp_path / "given.json"]) == {}


def packed(reports: Sequence[Report]) -> list[tuple[readings.Readings, ...]]:
    class Handed:
        def __init__(self, number: int, content: Report) -> None:
            self.files = {f"r{number}.json": json.dumps(content).encode()}

    return [readings.readings(Handed(*each), given([])) for each in enumerate(reports)]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.001, 0.02])
def test_nobody_is_missed_who_would_be_found_by_comparing_all_pairs(kind: str, noise: float) -> None:
    reports = [report(kind, seed, noise) for seed in range(8)]
    reports += [
        reread(reports[0], jittered(size, 1.1, number)) for number, size in enumerate((0.0, 1e-4, 5e-4))
    ]
    fewer = copy.deepcopy(reports[1])
    fewer["runs"] = fewer["runs"][: len(fewer["runs"]) * 2 // 3]
    renamed = reread(reports[2], lambda value: value * 0.9)
    for run in renamed["runs"]:
        run["config"]["note"] = "mine"
    reports += [fewer, renamed]
    ready = [
        between.Prepared(
            **{**vars(between.prepared(document(each))), "member": str(number), "team": frozenset()}
        )
        for number, each in enumerate(reports)
    ]
    pairs = len(reports) * (len(reports) - 1) // 2
    expected = {
        (a, b)
        for a, b in itertools.combinations(range(len(reports)), 2)
        for finding in between.between(ready[a], ready[b])
        if readings._told(finding, pairs)
    }
    names = [str(number) for number in range(len(reports))]
    told = readings.shared(packed(reports), names, [frozenset({name}) for name in names], lambda a, b: False)
    assert {tuple(sorted((each.student, each.other))) for each in told} == expected
    assert (1, 11) in expected


@pytest.mark.parametrize("noise", [2e-4, 0.002, 0.02])
def test_honest_readings_of_a_class_share_nothing(noise: float) -> None:
    reports = [report(seed=seed, noise=noise) for seed in range(60)]
    names = [str(number) for number in range(60)]
    assert not [*readings.shared(packed(reports), names, [frozenset()] * 60, lambda a, b: False)]


@pytest.mark.parametrize("clock", ["time.perf_counter", "cuda_event"])
@pytest.mark.parametrize("sync", ["none", "cuda.synchronize", "cuda_event", "x" * 100])
def test_what_is_kept_of_a_report_tells_the_same_ticks(school: Class, clock: str, sync: str) -> None:
    measured = report("ddp_scaling", method={"clock": clock, "sync": sync})
    measured["runs"][0]["step_s"] = ["0.1234567", "0.1245678"]
    school.add("ann", {"ddp.json": measured})
    (handin,) = school.handins
    assert handin.path is not None
    (kept,) = readings.readings(open_submission(handin.path), given(HANDED))
    whole, slim = (between.prepared(each) for each in (document(measured), readings._unpacked(kept)))
    assert (slim.wall_tick, slim.step_tick) == (whole.wall_tick, whole.step_tick)
    assert (whole.step_tick > 1e-7) is ("cuda_event" in (clock, sync))


def test_a_class_on_one_coarse_clock_shares_nothing() -> None:
    reports = [reread(report(seed=seed), lambda value: round(value * 64) / 64) for seed in range(30)]
    names = [str(number) for number in range(30)]
    assert not [*readings.shared(packed(reports), names, [frozenset()] * 30, lambda a, b: False)]


def test_rows_of_thousands_are_few_candidates() -> None:
    rng = np.random.default_rng(0)
    cold = np.array([1.8, 1, 1, 1, 1])
    some = [
        series({f"{workers}": tuple(cold * (1 + 0.01 * rng.standard_normal(5))) for workers in range(8)})
        for _ in range(600)
    ]
    reports = [each for each in some if each is not None]
    copied = type(reports[0])(reports[3].names, reports[3].lengths, reports[3].logs + 0.2)
    assert alike_noise([*reports, copied], 1e-8, 20) == {(3, 600)}


ODD: dict[str, Any] = {
    "no object": [],
    "no runs": {"report": "amp"},
    "runs that are none": {"report": "amp", "runs": [1, {"wall_s": 1}, {"wall_s": "nan"}, {"wall_s": "x"}]},
    "numbers for texts": {"report": "amp", "runs": [{"wall_s": 1.25, "config": {"a": 1}}] * 3},
    "lists everywhere": {"report": "amp", "runs": [{"wall_s": "1.5", "config": [], "step_s": [[], None]}], "student": []},
    "deep settings": {"report": "amp", "runs": [{"wall_s": "1", "config": {"a": {"b": []}}}], "method": {"clock": {}}},
    "zeros": {"report": "amp", "runs": [{"wall_s": "0"}] * 4},
    "huge": {"report": "amp", "runs": [{"wall_s": "9" * 40 + "e99"}] * 4},
    "tiny": {"report": "amp", "runs": [{"wall_s": "1e-99"}] * 4},
    "a team of lists": {"report": "amp", "runs": [{"wall_s": "1.23456"}] * 4, "student": {"team": [[], 1]}},
}  # fmt: skip


NO_FILES = (
    "a gigabyte of nothing",
    "a folder",
    "nothing",
    "a pipe that nobody writes to",
    "a link to nowhere",
)


@pytest.mark.parametrize(
    "case", [case for case in MALFORMED if case.name not in NO_FILES], ids=lambda case: case.name
)
def test_malformed_files_stop_nothing(case: Malformed, school: Class, tmp_path: Path) -> None:
    case.write(tmp_path / "report.json")
    content = (tmp_path / "report.json").read_bytes()
    school.add("ann", {"a.json": content, "a.py": "x = 1"})
    school.add("ben", {"b.json": content, "b.py": "y = 2"})
    for own in school.found().values():
        assert own.keys() <= {"shared readings"}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_odd_reports_are_left_out_or_compared(content: Any) -> None:
    names = [frozenset({"1"})] * 2
    assert not [*readings.shared(packed([content, content]), ["a", "b"], names, lambda a, b: False)]


# The worked solutions


def worked_solution(exercise: str) -> str:
    return (ROOT / "reference" / f"{exercise}.py").read_text()


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_disguised_worked_solution_is_told(school: Class, disguise: str) -> None:
    for exercise in ("ddp_train", "lfw_dataset", "scaling"):
        name = f"{exercise}.py"
        school.add(exercise, DISGUISES[disguise]({name: worked_solution(exercise)}))
    found = flags.find(school.records, school.handins, HANDED, SOLVED)
    assert {student: [flag.kind for flag in own] for student, own in found.items()} == {
        student: ["worked solution"] for student in ("ddp_train", "lfw_dataset", "scaling")
    }
    (flag,) = found["scaling"]
    assert flag.others == ()
    assert "in the worked solutions, most of it in scaling.py, lines " in flag.detail


def test_however_many_hand_in_a_worked_solution_each_is_told(school: Class) -> None:
    for number in range(3 * COMMON_LEAST):
        text = worked_solution("ddp_train").replace("model", f"network_{number}")
        school.add(f"s{number}", {"ddp_train.py": f"{text}\n# {number}\n"})
    found = flags.find(school.records, school.handins, HANDED, SOLVED)
    assert len(found) == 3 * COMMON_LEAST
    assert {flag.kind for own in found.values() for flag in own} == {"worked solution"}


def test_independent_work_is_not_like_the_worked_solutions(school: Class) -> None:
    derived = "own_arithmetic"  # begins with the worked solution's code
    for file, name, text in sources():
        if name != derived:
            school.add(f"{file} {name}".replace(" ", "-"), {file: text})
    found = flags.find(school.records, school.handins, HANDED, SOLVED)
    assert "worked solution" not in {flag.kind for own in found.values() for flag in own}


def test_worked_answers_are_told_and_honest_ones_are_not() -> None:
    text = (ROOT / "reference" / "answers.md").read_text()
    answer = text[text.index("When the model is wrapped") : text.index("<!-- <<< -->")]
    quoted = "When the model is wrapped, in `forward`, in `backward`: who sends what to whom? I do not know it yet."
    records = [
        with_answers("ann", {"Q1": REWORDED["every sixth word replaced"](answer), "Q2": HONEST["terse"]}),
        with_answers("ben", {"Q1": HONEST["long"], "Q2": HONEST["formal"]}),
        with_answers("cat", {"Q1": quoted}),
    ]
    found = flags.find(records, [], HANDED, SOLVED)
    assert found.keys() == {"ann"}
    (flag,) = found["ann"]
    assert (flag.kind, flag.subject, flag.others) == ("similar answer", "Q1", ())
    assert "that the worked solutions hold as well. Q1: " in flag.detail


def test_what_was_handed_out_is_known_where_all_solutions_lie_in_one_folder(tmp_path: Path) -> None:
    for root, text in (("reference", "# Q1\n\nBecause."), ("student_template", "# Q1\n\nWhy?")):
        (tmp_path / root / "essay").mkdir(parents=True)
        (tmp_path / root / "essay" / "answers.md").write_text(text)
    handed = [tmp_path / "student_template"]
    solutions = worked.worked(tmp_path / "reference", given(handed), handed)
    assert solutions.texts == (("# Q1\n\nBecause.", "# Q1\n\nWhy?"),)


def test_worked_solutions_that_come_later_or_go_count(school: Class, tmp_path: Path) -> None:
    graders = tmp_path / "graders"
    for folder in (graders, tmp_path / "student_template"):
        folder.mkdir()
    assert flags.solution(graders) is None
    school.add("ann", {"ddp_train.py": worked_solution("ddp_train")})
    with open_gradebook(tmp_path / "gradebook.db") as book:
        enrolled(book, school)
        flags.refresh(book, school.handins, HANDED, flags.solution(graders))
        assert kinds(book) == {}
        shutil.copytree(ROOT / "reference", tmp_path / "reference")
        flags.refresh(book, school.handins, HANDED, flags.solution(graders))
        assert kinds(book) == {"ann": ["worked solution"]}
        shutil.rmtree(tmp_path / "reference")
        (tmp_path / "reference").mkdir()  # in which nothing could be handed in
        flags.refresh(book, school.handins, HANDED, flags.solution(graders))
        assert kinds(book) == {}


def test_a_class_is_held_against_what_lies_beside_its_graders(tmp_path: Path) -> None:
    shutil.copytree(LAB, tmp_path / "graders")
    shutil.copytree(ROOT / "reference", tmp_path / "reference")
    assert flags.solution(tmp_path / "graders") is None  # nobody knows which of its lines were handed out
    shutil.copytree(ROOT / "student_template", tmp_path / "student_template")
    for student, source in (("ann", worked_solution("scaling")), ("ben", filled("careful"))):
        folder = hand_in(tmp_path / "class", {student: ""}) / student
        (folder / "mine.py").write_text(source)
    assert grade(tmp_path / "class", tmp_path / "results", graders=tmp_path / "graders") == 0
    with open_gradebook(tmp_path / "results" / "gradebook.db", create=False) as book:
        assert kinds(book) == {"ann": ["worked solution"]}


# Answers


def with_answers(student: str, answers: Mapping[str, str], team: str = "") -> Record:
    reviews = tuple(Review(name, QUESTION, 2.0, text) for name, text in answers.items())
    checks = (CheckResult("present", Verdict.PASSED, 0.0, 0.0, reviews=reviews),)
    return Record(
        Student(student, student.title(), team=team), student, exercises=(ExerciseResult("answers", checks),)
    )


def test_answers_in_nearly_the_same_words_are_told_to_both() -> None:
    text = HONEST["formal"]
    records = [
        with_answers("ann", {"Q1": text, "Q2": HONEST["terse"]}),
        with_answers("ben", {"Q1": REWORDED["every fifth word replaced"](text), "Q2": HONEST["wrong"]}),
        with_answers("cat", {"Q1": HONEST["long"], "Q2": ""}),
    ]
    found = flags.find(records, [])
    assert found.keys() == {"ann", "ben"}
    (flag,) = found["ann"]
    assert (flag.kind, flag.subject, flag.others) == ("similar answer", "Q1", ("ben",))
    assert "Q1: " in flag.detail
    assert "shared with Ben." in flag.detail
    assert (
        flags.find([with_answers("ann", {"Q1": text}, "t"), with_answers("ben", {"Q1": text}, "t")], []) == {}
    )


def test_honest_answers_are_not_alike() -> None:
    assert not [*same_words([*HONEST.values(), ""], QUESTION, lambda a, b: False)]


@pytest.mark.parametrize("how", REWORDED)
def test_reworded_answers_are_alike(how: str) -> None:
    texts = [*HONEST.values(), REWORDED[how](HONEST["formal"])]
    place = [*HONEST].index("formal")
    found = {same.student: same.others for same in same_words(texts, QUESTION, lambda a, b: False)}
    assert found[place] == (len(HONEST),)


def test_a_sentence_of_the_lecture_is_no_sign() -> None:
    lecture = HONEST["formal"]
    own = [
        f"{lecture} I tried it {number} times on machine {number * 7}." for number in range(COMMON_LEAST + 2)
    ]
    assert not [*same_words(own, QUESTION, lambda a, b: False)]


# Gradings


def graded(*checks: CheckResult, problem: str = "") -> list[Flag]:
    exercises = (ExerciseResult("ddp_train", checks),) if checks else ()
    record = Record(Student("ann"), "ann.zip", exercises=exercises, problem=problem)
    return [*flags.find([record], []).get("ann", ())]


def test_what_ended_badly_is_told_in_one_flag() -> None:
    verdicts = (Verdict.CRASHED, Verdict.CRASHED, Verdict.HUNG, Verdict.LIMIT, Verdict.FAILED, Verdict.PASSED)
    checks = [CheckResult(f"c{number}", verdict, 0.0, 1.0) for number, verdict in enumerate(verdicts)]
    (flag,) = graded(*checks)
    assert (flag.kind, flag.subject) == ("crashed or hung", "ddp_train")
    assert flag.detail == (
        "2 crashed: ddp_train/c0, ddp_train/c1; 1 hung: ddp_train/c2; 1 exceeded a limit: ddp_train/c3."
    )


def test_a_fault_of_the_grader_is_its_own() -> None:
    assert [flag.kind for flag in graded(CheckResult("c", Verdict.FAULT, 1.0, 1.0))] == ["grader fault"]


def test_a_hand_in_that_could_not_be_graded_says_why() -> None:
    (flag,) = graded(problem="It is empty.\x1b[2J")
    assert (flag.kind, flag.subject, flag.detail) == ("not graded", "ann.zip", "It is empty.")


MESSAGES = {
    "Well. Unusual, which costs nothing: ddp.json: Readings agree in 9 digits. Advice: more.": True,
    "loader.json: inconsistent (C03). The mean is another.": True,
    "amp.json: impossible (P01). No GPU does that.\nAnd 2 more.": True,
    "This is unusual, but nothing of the kind.": False,
    "It is impossible (really).": False,
}


@pytest.mark.parametrize(("message", "told"), MESSAGES.items(), ids=range(len(MESSAGES)))
def test_reports_that_a_rule_finds_odd_are_told(message: str, told: bool) -> None:
    found = graded(CheckResult("measured", Verdict.PASSED, 1.0, 1.0, message))
    assert [flag.kind for flag in found] == ["unusual report"] * told


def test_the_judge_of_the_reports_says_it_in_these_words() -> None:
    judge = (ROOT / "graders" / "reports" / "test_reports.py").read_text()
    assert "(Judgement.UNUSUAL, ASIDE)" in judge
    assert 'f"{same[0].judgement} ({rule}). {same[0].message}' in judge


def test_flags_come_in_the_order_of_a_table_and_accuse_nobody() -> None:
    text = " ".join(flags.MEANING.values()).casefold()
    assert not [word for word in ("cheat", "plagiar", "fraud", "stole", "guilty") if word in text]
    assert all(len(kind) <= 32 for kind in flags.KINDS)
    assert set(flags.FROM_FILES) <= set(flags.KINDS)


# In the gradebook


def enrolled(book: Gradebook, school: Class) -> None:
    book.enroll(handin.student for handin in school.handins)
    for handin in school.handins:
        assert handin.path is not None
        book.receive(handin, open_submission(handin.path).digest)


def kinds(book: Gradebook) -> dict[str, list[str]]:
    return {
        record.student.id: [flag.kind for flag in record.flags] for record in book.records() if record.flags
    }


class Counted(list[HandIn]):
    """Hand-ins that know how often they were gone through."""

    times = 0

    def __iter__(self) -> Any:
        self.times += 1
        return super().__iter__()


def test_flags_are_written_and_files_read_again_only_when_something_changed(
    school: Class, tmp_path: Path
) -> None:
    school.add("ann", {"fashion_trainer.py": filled("careful")})
    school.add("ben", {"fashion_trainer.py": filled("careful") + "\n"})
    with open_gradebook(tmp_path / "gradebook.db") as book:
        enrolled(book, school)
        handins = Counted(school.handins)
        flags.refresh(book, handins, HANDED)
        assert kinds(book) == {"ann": ["similar code"], "ben": ["similar code"]}
        flags.refresh(book, handins, HANDED)
        assert kinds(book) == {"ann": ["similar code"], "ben": ["similar code"]}
        assert handins.times == 1
        shutil.rmtree(tmp_path / "class" / "ben")
        school.add("ben", {"fashion_trainer.py": filled("terse")})
        enrolled(book, school)
        flags.refresh(book, Counted(school.handins), HANDED)
        assert kinds(book) == {}


def test_a_comparison_that_fails_is_told_and_hides_no_other(
    school: Class, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        raise OverflowError("too large")

    measured = report(seed=7)
    school.add("ann", {"fashion_trainer.py": filled("careful"), "reports/loader.json": measured})
    school.add("ben", {"fashion_trainer.py": filled("careful") + "\n", "loader.json": measured})
    both = ["similar code", "shared readings"]
    with open_gradebook(tmp_path / "gradebook.db") as book:

        def published() -> tuple[str, ...]:
            flag = partial(flags.refresh, book, school.handins, HANDED)
            return publish(book, tmp_path / "results", school.handins, HANDED, flag).failures

        enrolled(book, school)
        with monkeypatch.context() as patch:
            patch.setattr(between, "between", fails)
            said = "lockstep itself failed to make the flags for shared readings: OverflowError: too large"
            assert published() == (said,)
            assert kinds(book) == {"ann": ["similar code"], "ben": ["similar code"]}
        assert published() == ()
        assert kinds(book) == {"ann": both, "ben": both}
        school.add("cat", {"fashion_trainer.py": filled("terse")})
        enrolled(book, school)
        with monkeypatch.context() as patch:
            patch.setattr(between, "between", fails)
            patch.setattr(flags, "traces", fails)
            assert any("the fingerprint of what cat handed in" in failure for failure in published())
            assert kinds(book) == {"ann": both, "ben": both}  # those of before


def test_a_team_that_is_formed_later_counts(school: Class, tmp_path: Path) -> None:
    code = filled("careful")
    school.add("ann", {"fashion_trainer.py": code})
    school.add("ben", {"fashion_trainer.py": code + "\n"})
    with open_gradebook(tmp_path / "gradebook.db") as book:
        enrolled(book, school)
        flags.refresh(book, school.handins, HANDED)
        book.enroll([Student("ann", team="red"), Student("ben", team="red")])
        flags.refresh(book, school.handins, HANDED)
        assert kinds(book) == {}


def test_a_late_copy_of_what_came_in_before_is_told_to_both(school: Class, tmp_path: Path) -> None:
    measured = report(seed=7)
    school.add("ann", {"fashion_trainer.py": filled("careful"), "reports/loader.json": measured})
    school.add("ben", {"fashion_trainer.py": filled("terse")})
    with open_gradebook(tmp_path / "gradebook.db") as book:
        enrolled(book, school)
        flags.refresh(book, school.handins, HANDED)
        assert kinds(book) == {}
        shutil.rmtree(tmp_path / "class")  # the first download is no more
        late = Class(tmp_path / "late")
        late.add("ben", {"fashion_trainer.py": filled("careful").replace("labels", "targets")})
        late.add("cat", {"reports/loader.json": reread(measured, lambda value: value * 1.3)})
        enrolled(book, late)
        flags.refresh(book, late.handins, HANDED)
        assert kinds(book) == {
            "ann": ["similar code", "shared readings"],
            "ben": ["similar code"],
            "cat": ["shared readings"],
        }
        late.add("ben", {"fashion_trainer.py": filled("terse")})
        enrolled(book, late)
        flags.refresh(book, [each for each in late.handins if each.student.id == "ben"], HANDED)
        assert kinds(book) == {"ann": ["shared readings"], "cat": ["shared readings"]}


def test_of_earlier_work_nothing_is_kept_and_who_is_not_in_the_class_is_not_compared(
    school: Class, tmp_path: Path
) -> None:
    def kept(book: Gradebook) -> int:
        flags.refresh(book, school.handins, HANDED)
        return len(book.traces(flags.basis_of_traces(given(HANDED))))

    school.add("ann", {"fashion_trainer.py": filled("careful")})
    school.add("ben", {"fashion_trainer.py": filled("careful") + "\n"})
    with open_gradebook(tmp_path / "gradebook.db") as book:
        enrolled(book, school)
        assert kept(book) == 2
        school.add("ben", {"fashion_trainer.py": filled("careful") + "\n\n"})
        enrolled(book, school)
        assert (kept(book), kinds(book)) == (2, {"ann": ["similar code"], "ben": ["similar code"]})
        book.enroll([Student("ann")], everybody=True)
        assert (kept(book), kinds(book)) == (2, {})
        book.enroll([Student("ann"), Student("ben")], everybody=True)
        assert (kept(book), kinds(book)) == (2, {"ann": ["similar code"], "ben": ["similar code"]})


def test_where_a_gradebook_of_before_keeps_nothing_of_a_hand_in_its_flags_stay(
    school: Class, tmp_path: Path
) -> None:
    code = filled("careful")
    school.add("ann", {"fashion_trainer.py": code})
    school.add("ben", {"fashion_trainer.py": code + "\n"})
    with open_gradebook(tmp_path / "gradebook.db") as book:
        enrolled(book, school)
        flags.refresh(book, school.handins, HANDED)
    with closing(sqlite3.connect(tmp_path / "gradebook.db")) as before:
        before.execute("DROP TABLE traces")
    with open_gradebook(tmp_path / "gradebook.db", create=False) as book:
        school.add("cat", {"fashion_trainer.py": filled("terse")})
        enrolled(book, school)
        with book.grading():
            flags.refresh(book, [school.handins[1], school.handins[2]], HANDED)
        assert kinds(book) == {"ann": ["similar code"]}


def test_traces_come_back_from_a_gradebook_as_they_were(school: Class) -> None:
    code = filled("careful")
    cells = [{"cell_type": "code", "source": code, "metadata": {}, "outputs": [], "execution_count": None}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    plot = b"\x89PNG of measurements"
    school.add(
        "ann",
        {"a.py": f"{code}# \u202eturned\n", "b.ipynb": notebook, "loader.json": report(), "p.png": plot},
    )
    (handin,) = school.handins
    assert handin.path is not None
    found = traces(open_submission(handin.path), given(HANDED))
    assert len(found.prints) == 2
    assert all((found.readings, found.made, found.turned, found.prints[1].cells))
    again = tracebytes.unpacked(tracebytes.packed(found))
    assert tracebytes.packed(again) == tracebytes.packed(found)
    assert repr(again) == repr(found)
