"""`lockstep grade`: what is graded, what is left as it is, and what is not let stop it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.pretending import Pretending, Unwatched
from lockstep.classroom import plan, snapshot
from lockstep.classroom.batch import TIMES, Batch, Way
from lockstep.classroom.fingerprint import fingerprints
from lockstep.classroom.gradebook import open_gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.people import Student
from lockstep.classroom.plan import Wanted, forget_forced, make_plan
from lockstep.classroom.pool import LocalPool
from lockstep.classroom.record import Override
from lockstep.classroom.scratch import Scratch
from lockstep.classroom.task import Ended, Event, Lost, Setup, Task
from lockstep.exercise import find_exercises
from lockstep.submission import Submission
from tests import tiny_class
from tests.batches import LAB, STEPS, attempts, grade, hand_in, verdicts
from tests.test_pages import text_of


@pytest.fixture
def submissions(tmp_path: Path) -> Path:
    return tmp_path / "submissions"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def graders(tmp_path: Path) -> Path:
    """A copy of the lab that a test may change. No two judges of one process share a name."""
    folder = tmp_path / "graders"
    shutil.copytree(LAB, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def drawn(out: Path) -> dict[tuple[object, object], object]:
    """By student and check what the judge drew: it is another number whenever a check is made with another seed."""
    return {(row[0], row[3]): re.findall(r"drawn \d+", str(row[7])) for row in verdicts(out)}


def test_results_among_the_submissions_are_refused_and_go_on_where_they_are(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": "", "bob": "two four"})
    before = sorted(submissions.rglob("*"))
    assert grade(submissions, submissions) == 2
    assert "--out names the folder of the hand-ins" in text_of(capfd.readouterr().err)
    assert sorted(submissions.rglob("*")) == before
    assert grade(submissions, out) == 0
    shutil.copytree(out, submissions, dirs_exist_ok=True)
    # Whoever did so with a lockstep that did not refuse it yet.
    assert grade(submissions, submissions) == 0
    assert {str(row[0]) for row in verdicts(submissions)} == {"ada", "bob"}


MIXED = {
    "pages go there": (
        "hw/students",
        "hw",
        "lie in hw/students, where --out hw would have its own files written",
    ),
    "deeper": (
        "hw/exports/lab 1",
        "hw",
        "lie in hw/exports, where --out hw would have its own files written",
    ),
    "unpacked there": ("hw/submissions", "hw", "lie in hw/submissions, where --out hw"),
    "in a hand-in": ("hw", "hw/ada/results", "lies inside of hw/ada, which would be taken for a hand-in"),
    "is a hand-in": ("hw", "hw/ada", "holds steps.md, so it may be one of them"),
}


@pytest.mark.parametrize(("given", "results", "said"), MIXED.values(), ids=MIXED)
def test_results_and_hand_ins_that_would_be_mixed_are_refused(
    given: str,
    results: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    hand_in(Path(given), {"ada": "", "bob": "two four"})
    before = sorted(tmp_path.rglob("*"))
    assert grade(Path(given), Path(results)) == 2
    assert said in text_of(capfd.readouterr().err)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("given", "results"), [("hw/handed in", "hw"), ("hw", "hw/results"), ("hw", "hw results")]
)
def test_results_beside_or_around_the_hand_ins_are_told_from_them(
    given: str, results: str, tmp_path: Path
) -> None:
    submissions, out = tmp_path / given, tmp_path / results
    hand_in(submissions, {"ada": "", "bob": "two four"})
    for _ in range(2):
        assert grade(submissions, out) == 0
        assert {str(row[0]) for row in verdicts(out)} == {"ada", "bob"}
        assert len(attempts(out)) == 2


def test_a_class_is_graded_and_what_has_not_changed_is_not_graded_again(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": "", "bob": "two four", "eve": "one"})
    assert grade(submissions, out) == 0
    assert "3 hand-ins: 3 graded now, 0 unchanged" in " ".join(capfd.readouterr().out.split())
    first = verdicts(out)
    assert {(row[0], row[3]): row[4] for row in first if row[4] != "passed"} == {
        ("bob", "two"): "failed", ("bob", "four"): "failed", ("eve", "one"): "failed", ("eve", "two"): "not checked",
    }  # fmt: skip
    assert {row[5] for row in first} == {1.0, 0.25, 0.0}

    hand_in(submissions, {"eve": ""})
    assert grade(submissions, out) == 0
    assert "3 hand-ins: 1 graded now, 2 unchanged" in " ".join(capfd.readouterr().out.split())
    assert [row for row in verdicts(out) if row[0] != "eve"] == [row for row in first if row[0] != "eve"]
    assert [row[4] for row in verdicts(out) if row[0] == "eve"] == ["passed"] * 6


@pytest.mark.parametrize(
    ("exercises", "checks"),
    [("essay", "doubling/halves"), ("doubling", "halves,essay/there"), ("doubling,essay", "halves")],
)
def test_exercises_and_checks_that_leave_each_other_out_are_refused(
    exercises: str, checks: str, submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": ""})
    arguments = ("--exercise", exercises, "--only-check", checks)
    assert grade(submissions, out, *arguments, graders=tiny_class.LAB) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert said.startswith(f"lockstep: --exercise {exercises} and --only-check {checks} do not go together: ")
    assert not out.exists()


def test_what_tools_have_made_is_told_from_what_belongs_to_nobody(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": ""})
    (submissions / ".DS_Store").write_bytes(b"")
    (submissions / "notes.txt").write_bytes(b"")
    assert grade(submissions, out) == 1
    said = " ".join(capfd.readouterr().out.split())
    assert (
        "1 file belongs to nobody. 1 file was set aside: older hand-ins of known students, or what tools"
        in said
    )
    assert "Nobody's, or set aside:" in said
    page = text_of((out / "index.html").read_text())
    assert "Files that belong to nobody 1 Files set aside 1" in page
    assert "Files that were not graded 1 file belongs to nobody. 1 file was set aside: older hand-ins" in page


METADATA = "submission_7:\n  :submitters:\n  - :name: Ada Doe\n    :sid: 'ada'\n    :email: ada@x.org\n"
GONE = METADATA.replace("7", "8").replace("ada", "bob").replace("Ada", "Bob")


@pytest.mark.parametrize(("metadata", "status"), [(METADATA, 0), (METADATA + GONE, 1)])
def test_a_clean_export_with_leftovers_is_all_graded(
    metadata: str, status: int, submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"submission_7": ""})
    (submissions / "submission_metadata.yml").write_text(metadata)
    (submissions / ".DS_Store").write_bytes(b"")
    (submissions / "__MACOSX").mkdir()
    assert grade(submissions, out) == status
    said = " ".join(capfd.readouterr().out.replace("│", " ").split())
    assert "3 files were set aside" in said
    assert ("there is no folder for `submission_8`" in said) is bool(status)


def test_an_older_hand_in_that_was_set_aside_is_told_by_the_status(submissions: Path, out: Path) -> None:
    hand_in(submissions, {"ada": "", "ada copy": ""})
    assert grade(submissions, out) == 1


def test_what_is_forced_is_graded_again(submissions: Path, out: Path) -> None:
    hand_in(submissions, {"ada": "", "bob": "two"})
    grade(submissions, out)
    before = drawn(out)
    grade(submissions, out, "--regrade")
    after = drawn(out)
    assert before.keys() == after.keys()
    assert not [key for key in before if before[key] == after[key]]


def test_one_check_alone_is_made_again_and_the_others_stay(
    submissions: Path, out: Path, graders: Path
) -> None:
    hand_in(submissions, {"ada": "", "bob": "three"})
    judge = graders / "steps" / "test_steps.py"
    judge.rename(judge.with_name("test_steps_to_change.py"))
    judge = judge.with_name("test_steps_to_change.py")
    grade(submissions, out, graders=graders)
    before = verdicts(out)

    right = judge.read_text()
    judge.write_text(right.replace("check.id not in words", "True").replace("drawn {", "mended {"))
    assert grade(submissions, out, "--only-check", "steps/three", graders=graders) == 0
    after = {(row[0], row[3]): row for row in verdicts(out)}
    # Four waited for three, so it is looked at now; with the same data as before.
    assert after["bob", "three"][4] == after["bob", "four"][4] == "passed"
    made = {key for key, row in after.items() if "mended" in str(row[7])}
    assert made == {("ada", "three"), ("bob", "three"), ("bob", "four")}
    assert [row[:4] for row in verdicts(out)] == [row[:4] for row in before]
    assert {row[9] for row in after.values()} == {row[9] for row in before}

    # Whoever makes one check alone says that the others are as good as they were.
    states = attempts(out)
    assert grade(submissions, out, graders=graders) == 0
    assert attempts(out) == states


def test_a_check_that_nobody_knows_is_refused(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": ""})
    assert grade(submissions, out, "--only-check", "steps/seven") == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "there is no check 'steps/seven'; name it as" in said
    assert said.endswith("one of one, two, three, four, five, six")
    assert grade(submissions, out, "--exercise", "stairs") == 2
    assert "there is no exercise 'stairs'; there are steps" in capfd.readouterr().err
    assert not out.exists()


def test_a_file_that_cannot_be_meant_is_refused_before_anything_is_written(
    submissions: Path, out: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": ""})
    (tmp_path / "wrong.csv").write_text("shoe size\n44\n")
    (tmp_path / "wrong.toml").write_text("[late]\ndedline = 3\n")
    assert grade(submissions, out, "--roster", str(tmp_path / "wrong.csv")) == 2
    assert "no column with the students' ids" in capfd.readouterr().err
    assert grade(submissions, out, "--late", str(tmp_path / "wrong.toml")) == 2
    assert "dedline" in capfd.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--jobs", "0"], "a number from 1 to 200"),
        (["--jobs", "many"], "a number from 1 to 200"),
        (["--jobs", "2", "--cluster", "slurm"], "argument --cluster: not allowed with argument --jobs"),
        (["--timeout", "0"], "a number of seconds from 1 on"),
        (["--timeout", "nan"], "a number of seconds from 1 on"),
        (["--sandbox", "docker"], "invalid choice"),
    ],
)
def test_a_wrong_option_is_explained(
    arguments: list[str], complaint: str, submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        grade(submissions, out, *arguments)
    assert stopped.value.code == 2
    assert complaint in capfd.readouterr().err
    assert not out.exists()


def test_a_folder_with_nobodys_work_is_no_class(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    submissions.mkdir(exist_ok=True)
    assert grade(submissions, out) == 2
    assert (
        "holds no hand-in; give a folder with one folder or archive for each student"
        in capfd.readouterr().err
    )
    assert not (out / "index.html").exists()


def test_results_are_a_folder(submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    hand_in(submissions, {"ada": ""})
    out.write_text("grades")
    assert grade(submissions, out) == 2
    assert f"--out names a folder, and {out} is a file" in capfd.readouterr().err
    assert out.read_text() == "grades"


def test_a_fingerprint_changes_with_what_a_verdict_depends_on(tmp_path: Path) -> None:
    graders = tmp_path / "course" / "graders"
    shutil.copytree(LAB, graders, ignore=shutil.ignore_patterns("__pycache__"))

    def current(setup: Setup) -> str:
        return fingerprints(find_exercises(graders), setup)["steps"]

    seen = [current(Setup())]
    assert current(Setup()) == seen[0]
    for changed in ("graders/steps/test_steps.py", "reference/steps.md", "fixtures/shared.py"):
        path = tmp_path / "course" / changed
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.write("# changed\n")
        seen.append(current(Setup()))
    seen += [current(Setup(device="cuda")), current(Setup(sandbox="none")), current(Setup(world_sizes=(2,)))]
    assert len(set(seen)) == len(seen)
    (tmp_path / "course" / "graders" / "steps" / "__pycache__").mkdir()
    (tmp_path / "course" / "graders" / "steps" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert current(Setup()) == seen[3]


def test_a_worker_that_dies_costs_only_its_hand_in(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": "", "bob": "four:dies", "eve": "two"})
    assert grade(submissions, out, "--jobs", "2") == 1
    said = capfd.readouterr()
    assert (
        said.err.count("bob is taken up again, because the process that graded was ended by SIGKILL") == TIMES
    )
    problem = f"It was taken up {TIMES} times, and each time the process that graded was ended by SIGKILL."
    ((state, told),) = attempts(out)["bob"]
    assert (state, told.startswith(problem)) == ("done", True)
    # Its checks stay for the next time, and nobody loses points for what lockstep could not finish.
    assert [row[3] for row in verdicts(out) if row[0] == "bob"] == ["one", "two", "three"]
    with open_gradebook(out) as book:
        assert [len(record.exercises) for record in book.records()] == [1, 0, 1]
    assert "bob: It was taken up" in " ".join(said.out.split())

    before = verdicts(out)
    assert grade(submissions, out) == 1
    assert len(attempts(out)["bob"]) == 1
    assert verdicts(out) == before


def test_a_hand_in_that_takes_too_long_is_given_up_and_keeps_its_checks(
    submissions: Path,
    out: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What a busy machine takes to start a process does not count.
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text("import time\ntime.sleep(5)\n")
    path = filter(None, [os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "slow"), *path]))
    hand_in(submissions, {"ada": "", "bob": "three:waits"})
    assert grade(submissions, out, "--timeout", "4") == 1
    said = " ".join(capfd.readouterr().out.split())
    assert "2 hand-ins: 1 graded now, 0 unchanged, 1 without a grade." in said
    ((_, problem),) = attempts(out)["bob"]
    assert problem.startswith("It took longer than the 4 seconds that one hand-in may take.")
    assert [row[3] for row in verdicts(out) if row[0] == "bob"] == ["one", "two"]
    assert [row[4] for row in verdicts(out) if row[0] == "ada"] == ["passed"] * len(STEPS)


def test_a_worker_that_cannot_start_stops_everything(
    submissions: Path,
    out: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "broken" / "lockstep").mkdir(parents=True)
    (tmp_path / "broken" / "lockstep" / "__init__.py").write_text(
        "raise RuntimeError('half an installation')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    hand_in(submissions, {"ada": "", "bob": "", "eve": ""})
    assert grade(submissions, out) == 2
    said = capfd.readouterr().err
    assert "lockstep: a process that grades could not start: " in said
    assert "half an installation" in said
    monkeypatch.delenv("PYTHONPATH")
    assert grade(submissions, out) == 0


def test_a_hand_in_that_changes_meanwhile_is_not_graded_as_what_it_was(tmp_path: Path) -> None:
    path = hand_in(tmp_path / "submissions", {"ada": ""}) / "ada"
    heard: list[Event] = []
    task = Task(1, str(path), ("steps",), 5, Setup(graders=str(LAB)), digest="of other files")
    with Scratch(tmp_path / ".work") as scratch, LocalPool(1, 60, scratch) as pool:
        pool.run([task], heard.append)
    assert heard == [Ended(1, "The files changed after they were taken in. Grade again.")]


def test_a_hand_in_that_breaks_the_intake_stops_nothing(
    submissions: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = plan.open_submission

    def breaks(path: Path) -> Submission:
        if path.name == "bob":
            raise RecursionError("too deep")
        return original(path)

    monkeypatch.setattr(plan, "open_submission", breaks)
    hand_in(submissions, {"ada": "", "bob": ""})
    assert grade(submissions, out) == 1
    with open_gradebook(out) as book:
        ada, bob = book.records()
    assert (ada.problem, ada.raw_points) == ("", 6.0)
    assert "RecursionError" in bob.problem


def test_two_gradings_into_one_gradebook_refuse_each_other(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": ""})
    out.mkdir()
    holding = (
        "import sys\nfrom lockstep.classroom.gradebook import open_gradebook\n"
        "with open_gradebook(sys.argv[1]) as book, book.grading():\n    print(flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", holding, str(out / "gradebook.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert grade(submissions, out) == 2
        assert (
            f"another process is grading into {out / 'gradebook.db'}: process {other.pid}"
            in capfd.readouterr().err
        )
        other.kill()
    assert grade(submissions, out) == 0


def test_without_a_sandbox_a_class_is_graded_only_by_those_who_say_twice_that_they_want_it(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hand_in(submissions, {"ada": ""})
    assert grade(submissions, out, "--sandbox", "none") == 2
    assert "--i-trust-this-code" in capfd.readouterr().err
    assert not out.exists()
    assert grade(submissions, out, "--sandbox", "none", "--i-trust-this-code") == 0


def test_what_a_killed_grading_left_behind_is_removed(submissions: Path, out: Path, tmp_path: Path) -> None:
    hand_in(submissions, {"ada": ""})
    out.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        (tmp_path / "temporary").mkdir()
        forgotten = Scratch(out / ".work").new()
        (forgotten / "file").write_text("x")
        # A link to anything else was not made by a grading, and what it leads to is not touched.
        (out / ".work" / "precious").symlink_to(submissions)
        assert grade(submissions, out) == 0
        assert list((tmp_path / "temporary").iterdir()) == []
    assert not (out / ".work").exists()
    assert (submissions / "ada" / "steps.md").exists()


def test_the_coordinator_keeps_nothing_of_what_was_graded(tmp_path: Path) -> None:
    exercises = find_exercises(LAB)
    message = "word " * 20_000
    wanted = Wanted(fingerprints(exercises, Setup()), {})
    submissions = hand_in(tmp_path / "submissions", {f"s{number}": "" for number in range(8)})
    handins = [HandIn(Student(path.name), path, path.name) for path in sorted(submissions.iterdir())]
    with open_gradebook(tmp_path / "gradebook.db") as book:
        book.enroll([handin.student for handin in handins])
        made = make_plan(book, handins, wanted)
        batch = Batch(book, Way(Setup(), wanted, {}), Unwatched())
        tracemalloc.start()
        batch.grade(Pretending(exercises, message), made.work[:3])
        warm, _ = tracemalloc.get_traced_memory()
        batch.grade(Pretending(exercises, message), made.work[3:])
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert after - warm < len(message)


class Losing:
    """A pool that loses its first tasks, and then grades."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.runs: list[list[Task]] = []

    def __enter__(self) -> Losing:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def stop(self) -> None:
        """See Pool."""

    def run(self, tasks: Iterable[Task], hear: Callable[[Event], None]) -> None:
        own = list(tasks)
        self.runs.append(own)
        for task in own:
            lost = len(self.runs) <= self.times
            hear(Lost(task.attempt, "the machine went away") if lost else Ended(task.attempt))


@pytest.mark.parametrize("times", range(TIMES + 1))
def test_what_was_lost_is_taken_up_again_a_few_times(times: int, tmp_path: Path) -> None:
    path = hand_in(tmp_path / "submissions", {"ada": ""}) / "ada"
    handin = HandIn(Student("ada"), path, "ada")
    wanted = Wanted(fingerprints(find_exercises(LAB), Setup()), {})
    with open_gradebook(tmp_path / "gradebook.db") as book:
        book.enroll([handin.student])
        pool = Losing(times)
        Batch(book, Way(Setup(), wanted, {}), Unwatched()).grade(pool, make_plan(book, [handin], wanted).work)
        assert [len(run) for run in pool.runs if run] == [1] * min(times + 1, TIMES)
        assert len({(task.attempt, task.seed) for run in pool.runs for task in run}) == 1
        problem = book.records()[0].problem
    assert problem.startswith(f"It was taken up {TIMES} times") is (times == TIMES)


def test_a_forced_grading_that_failed_is_gone_on_with_by_a_plain_one(tmp_path: Path) -> None:
    submissions = hand_in(tmp_path / "submissions", {"ada": "", "bob": ""})
    handins = [HandIn(Student(path.name), path, path.name) for path in sorted(submissions.iterdir())]
    wanted = Wanted(fingerprints(find_exercises(LAB), Setup()), {})
    with open_gradebook(tmp_path / "gradebook.db") as book:
        book.enroll([handin.student for handin in handins])

        def graded(pool: Losing, wanted: Wanted, those: list[HandIn]) -> tuple[int, int]:
            made = make_plan(book, those, wanted)
            Batch(book, Way(Setup(), wanted, {}), Unwatched()).grade(pool, made.work)
            forget_forced(book)
            return len(made.work), made.unchanged

        assert graded(Losing(0), wanted, handins) == (2, 0)
        assert graded(Losing(TIMES), replace(wanted, regrade=True), handins[:1]) == (1, 0)
        assert [bool(record.problem) for record in book.records()] == [True, False]
        assert graded(Losing(0), wanted, handins) == (1, 1)
        assert not any(record.problem for record in book.records())
        assert graded(Losing(0), wanted, handins) == (0, 2)
        assert len(book.attempts("ada")) == 2  # the one that failed was gone on with


def test_tables_and_pages_of_an_unchanged_class_are_left_as_they_are(submissions: Path, out: Path) -> None:
    def written() -> dict[str, int]:
        places = [out / "index.html", *(out / "exports").rglob("*"), *(out / "students").rglob("*")]
        return {str(path): path.stat().st_mtime_ns for path in places if path.is_file()}

    hand_in(submissions, {"ada": "", "bob": "two"})
    grade(submissions, out)
    first = written()
    assert grade(submissions, out) == 0
    assert written() == first
    (out / "exports" / "grades.csv").unlink()
    assert grade(submissions, out) == 0
    assert written().keys() == first.keys()
    with open_gradebook(out) as book:
        book.override(
            "bob", Override("steps", "two", 1.0, "shown in the lab", "ann", "2026-05-01T12:00:00+00:00")
        )
    assert grade(submissions, out) == 0
    assert written() != first


def test_pages_that_cannot_be_made_are_told_and_the_grades_stay(
    submissions: Path, out: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("a template")

    hand_in(submissions, {"ada": ""})
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "write_pages", fails)
        assert grade(submissions, out) == 2
    assert (
        "lockstep: lockstep itself failed to make the pages: KeyError: 'a template'" in capfd.readouterr().err
    )
    assert (out / "exports" / "grades.csv").exists()
    assert {row[4] for row in verdicts(out)} == {"passed"}
    assert grade(submissions, out) == 0
    assert (out / "index.html").exists()
