"""The demo leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures.demo import jobs
from lockstep.grading import default_graders, known_exercises
from lockstep.sandbox.backend import possible_parents
from lockstep.template import cut
from tests.sandboxed import ROOT, is_alive


@pytest.mark.parametrize(
    ("to_all", "number"),
    [
        pytest.param(True, signal.SIGINT, id="Ctrl-C in a terminal"),
        pytest.param(False, signal.SIGINT, id="kill -INT", marks=pytest.mark.slow),
        pytest.param(False, signal.SIGTERM, id="kill", marks=pytest.mark.slow),
        pytest.param(True, signal.SIGHUP, id="the terminal closed", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_demo_leaves_nothing(to_all: bool, number: signal.Signals, tmp_path: Path) -> None:
    with begun_demo(tmp_path) as demo:
        graders = _graders(demo.pid)
        assert len(graders) == 2
        assert len([path for path in tmp_path.iterdir() if path.name.startswith("lockstep-demo-")]) == 1
        (os.killpg if to_all else os.kill)(demo.pid, number)
        _, said = demo.communicate(timeout=300)
    assert demo.returncode == 130
    assert said.splitlines()[-1] == "demo: stopped before there was a result"
    assert not [pid for pid in graders if is_alive(pid)]
    assert list(tmp_path.iterdir()) == []
    left = [
        group
        for parent in possible_parents()
        for pid in graders
        for group in parent.glob(f"lockstep-{pid}-*")
    ]
    assert left == []


@pytest.mark.slow
def test_what_grades_ends_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    with begun_demo(tmp_path) as demo:
        graders = _graders(demo.pid)
        assert len(graders) == 2
        handles = [os.pidfd_open(pid) for pid in graders]
        demo.kill()
        demo.wait()
        for handle in handles:
            assert select.select([handle], [], [], 300)[0]
            os.close(handle)


def test_a_demo_has_the_first_of_each_sort() -> None:
    exercises = known_exercises(default_graders())
    everything = [job.sample for job in jobs(exercises, everything=True) if job.sample]
    shown = [job.sample for job in jobs(exercises, everything=False) if job.sample]
    sorts = [(sample.exercise, *sample.fails[:1]) for sample in shown]
    assert len(sorts) == len(set(sorts))
    assert set(sorts) == {(sample.exercise, *sample.fails[:1]) for sample in everything}
    assert {sample.exercise for sample in shown if sample.kind == "correct"} == set(exercises)


COURSE = ROOT / "tests" / "labs" / "course"


def demo_of(course: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the demo says of a course outside of this checkout; it may take one sandbox."""
    command = [sys.executable, "-m", "fixtures.demo", "--course", str(course), "--jobs", "1", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, timeout=600
    )


def test_a_course_outside_is_told_what_its_samples_show(tmp_path: Path) -> None:
    """Its reference, its template, what is right and what is wrong; and what its judge leaves unsaid or breaks at."""
    course = shutil.copytree(COURSE, tmp_path / "course")
    samples = course / "fixtures" / "submissions" / "largest"
    mistake = (samples / "mistakes" / "begins_with_zero.toml").read_text()
    (samples / "mistakes" / "for_no_check.toml").write_text(
        mistake.replace("is_largest", "is_larger").replace("max(0.0", "max(1.0")
    )
    judge = course / "graders" / "largest" / "test_largest.py"
    silent = '    check.expect(seen != 1.0, "It is 1.")\n    assert seen != 2.0\n    check.expect(\n'
    judge.write_text(judge.read_text().replace("    check.expect(\n", silent))
    for name, number in (("gives_one", "1.0"), ("gives_two", "2.0")):
        text = mistake.replace("max(0.0, values.max().item())", number).replace("not with 0", "It")
        (samples / "mistakes" / f"{name}.toml").write_text(text)
    done = demo_of(course, "--all")
    assert done.returncode == 1, done.stderr
    said = " ".join(done.stdout.replace("│", " ").split())
    assert "4 of 7 submissions scored what they must" in said
    assert "for_no_check: not as expected ['is_larger'] are no checks of largest" in said
    assert (
        "gives_one: not as expected is_largest failed, 0 of 2, with no hint of what to try: It is 1." in said
    )
    assert "gives_two: not as expected is_largest grader fault, 0 of 2, which no submission may cause" in said
    assert "A grader fault is one of the judge or the probe: `pytest " in said
    assert (course / "results" / "demo.json").exists()


def test_the_template_of_the_course_is_cut_from_its_reference() -> None:
    assert (COURSE / "student_template" / "largest.py").read_text() == cut(
        (COURSE / "reference" / "largest.py").read_text(), "largest.py"
    )


def test_a_course_that_cannot_be_graded_is_one_sentence(tmp_path: Path) -> None:
    assert "there are no graders in" in demo_of(tmp_path).stderr
    course = shutil.copytree(COURSE, tmp_path / "course")
    assert (
        "there is no exercise 'smallest'; there are largest"
        in demo_of(course, "--exercise", "smallest").stderr
    )
    (course / "fixtures/submissions/largest/mistakes/begins_with_zero.toml").write_text(
        'fails = ["is_largest"]'
    )
    refused = demo_of(course)
    assert refused.returncode == 1
    assert refused.stderr.startswith("demo: largest/mistake/begins_with_zero: ")


@contextmanager
def begun_demo(scratch: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo of which all processes grade."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "fixtures.demo", "--all", "--exercise", "scaling", "--jobs", "2"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that runs the tests in the background has them, and what they start, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert demo.stderr is not None
        assert demo.stderr.readline().startswith("10 of ")
        yield demo
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
            demo.wait()


def _graders(pid: int) -> set[int]:
    """The processes that grade; beside them multiprocessing keeps one that ends some time after the demo."""
    children = {
        int(child)
        for thread in os.listdir(f"/proc/{pid}/task")
        for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
    }
    return {child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}
