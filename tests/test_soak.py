"""A thousand gradings come to what they must, and leave nothing; what watches over them sees what it is there for."""

from __future__ import annotations

import dataclasses
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fixtures import build
from lockstep.result import CheckResult
from lockstep.verdict import Verdict
from tests.results import FAILED, PASSED, a_result
from tests.sandboxed import ROOT
from tests.soak import honest, steady, traces
from tests.soak.grading import GROWTH, Grading, Soak
from tests.soak.works import WORKS, Work, write


@pytest.mark.slow
def test_a_thousand_gradings_come_to_the_same_and_leave_nothing() -> None:
    command = [sys.executable, "-m", "tests.soak", "--gradings", "1000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_stops_it_is_left_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--gradings", "20", "--machine", "idle"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as soak:
        while soak.poll() is None and not list(tmp_path.glob("soak-*/submissions/*")):
            time.sleep(0.05)
        soak.terminate()
        _, said = soak.communicate()
    assert (soak.returncode, said) == (130, b"soak: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_twenty_submissions_of_every_kind_can_be_built(tmp_path: Path) -> None:
    assert len(set(WORKS)) == 20
    assert {work.kind for work in WORKS} == {"right", "unusual", "wrong", "crashing", "hanging", "hostile"}
    for number, work in enumerate(WORKS):
        folder = write(work, tmp_path / str(number), tmp_path / "canary")
        files = build.exercise_toml(work.exercise)["files"]
        assert any((folder / file).exists() for file in files), work
        known = {check["id"] for check in build.exercise_toml(work.exercise)["check"]}
        assert known >= set(work.checks), work


@contextmanager
def a_process(_: Path) -> Iterator[None]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL):
        yield


@contextmanager
def a_port(_: Path) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)):
        yield


@contextmanager
def an_abstract_socket(_: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"\0lockstep-tests-{os.getpid()}")
        yield


@contextmanager
def a_descriptor(_: Path) -> Iterator[None]:
    with open(os.devnull):
        yield


@contextmanager
def a_file(scratch: Path) -> Iterator[None]:
    with tempfile.NamedTemporaryFile(dir=scratch):
        yield


@pytest.mark.parametrize(
    ("leave", "kind"),
    [
        (a_process, "processes: 1 more: cat"),
        (a_port, "ports and sockets: 1 more: port "),
        (an_abstract_socket, "ports and sockets: 1 more: @lockstep-tests-"),
        (a_descriptor, "descriptors: 1 more: /dev/null"),
        (a_file, "files: 1 more: tmp"),
    ],
)
def test_what_is_left_is_named(
    leave: Callable[[Path], AbstractContextManager[None]], kind: str, tmp_path: Path
) -> None:
    before = traces.look(tmp_path)
    with leave(tmp_path):
        left = traces.left(before, traces.look(tmp_path))
    assert any(sentence.startswith(kind) for sentence in left), left
    assert traces.left(before, traces.look(tmp_path)) == []


def test_a_control_group_that_is_left_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Those of the sandbox that the tests share come and go.
    monkeypatch.setattr(traces, "control_groups", set)
    before = traces.look(tmp_path)
    monkeypatch.setattr(traces, "control_groups", lambda: {"/sys/fs/cgroup/memory/lockstep-1-7"})
    assert traces.left(before, traces.look(tmp_path)) == ["control groups: 1 more: lockstep-1"]


ORPHAN = """
import os, signal, sys
from pathlib import Path
from tests.soak import honest, steady, traces
traces.adopt_orphans()
before, scratch = traces.look(Path(sys.argv[1])), Path(sys.argv[1])
read, write = os.pipe()
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        signal.pause()
    os.write(write, str(grandchild).encode())
    os._exit(0)
os.waitpid(child, 0)
grandchild = int(os.read(read, 20))
os.close(read), os.close(write)
print(*traces.left(before, traces.look(scratch)))
os.kill(grandchild, signal.SIGKILL)
os.waitid(os.P_PID, grandchild, os.WEXITED | os.WNOWAIT)
traces.reap(set())
print(os.path.exists(f"/proc/{grandchild}"), *traces.left(before, traces.look(scratch)))
"""


def test_a_process_whose_parent_has_ended_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines() == [f"processes: 1 more: {Path(sys.executable).name}", "False"]


def graded(work: Work, verdict: Verdict, memory: float = 100.0) -> Grading:
    check = CheckResult(work.checks[0], verdict, 0.0, 1.0, f"This is {verdict}.", "", 0.1)
    return Grading("idle", work, 7, (check,), 0.1, 0.0, memory, ())


def test_a_verdict_that_changes_is_found_with_what_replays_it() -> None:
    done = Soak()
    for verdict in (Verdict.HUNG, Verdict.HUNG, Verdict.CRASHED):
        done.add(graded(WORKS[0], verdict))
    (problem,) = done.problems()
    assert "This is hung." in problem
    assert "seed 7" in problem


@pytest.mark.parametrize(("growth", "is_found"), [(0.0, False), (GROWTH / 2, False), (3 * GROWTH, True)])
def test_memory_that_grows_is_found(growth: float, is_found: bool) -> None:
    done = Soak()
    for number in range(8 * len(WORKS)):
        memory = 100 + growth * number / (4 * len(WORKS))
        done.add(graded(WORKS[number % len(WORKS)], Verdict.PASSED, memory))
    assert (done.problems() != []) == is_found


def odd_solutions() -> dict[honest.Key, build.Sample]:
    return {
        (sample.exercise, sample.name): sample
        for exercise in ("answers", "scaling")
        for sample in build.all_submissions(exercise)
        if sample.kind == "correct"
    }


def test_what_was_graded_least_often_comes_next_until_all_were_graded_often_enough() -> None:
    samples = odd_solutions()
    rare, *others = samples
    counts = {key: honest.Count(*key, gradings=honest.WANTED - 1) for key in others}
    counts[rare] = honest.Count(*rare, gradings=honest.WANTED - 3)
    coming = [(sample.exercise, sample.name) for sample in honest.next_ones(counts, samples)]
    assert coming[:2] == [rare, rare]
    assert sorted(coming[2:]) == sorted(samples)


def test_gradings_are_counted_also_across_engines() -> None:
    count = honest.Count("scaling", "by_hand")
    for engine, is_harmed in (("old", False), ("old", True), ("new", False)):
        count = count.and_one(engine, is_harmed)
    assert count == honest.Count("scaling", "by_hand", 3, 1, "new", 1)
    counts = {("scaling", "by_hand"): count, ("answers", "short"): honest.Count("answers", "short", 2)}
    assert honest.read(honest.written(counts)) == counts


def test_only_submissions_that_exist_are_counted() -> None:
    counted = honest.read(honest.COUNTED.read_text("utf-8"))
    for exercise in {exercise for exercise, _ in counted}:
        names = {sample.name for sample in build.all_submissions(exercise) if sample.kind == "correct"}
        assert {name for of, name in counted if of == exercise} <= names


def test_honest_work_is_graded_and_what_it_loses_is_told() -> None:
    (sample, *_) = [sample for key, sample in odd_solutions().items() if key[0] == "answers"]
    wrong = dataclasses.replace(sample, fails=("present",))
    outcomes = list(honest.graded(iter([sample, wrong]), 1, math.inf))
    assert [bool(outcome.surprises) for outcome in outcomes] == [False, True]


def test_a_mistake_that_earns_now_more_now_less_is_seen() -> None:
    half = dataclasses.replace(FAILED, points=FAILED.points / 2)
    results = [
        dataclasses.replace(a_result(PASSED, check), seed=seed)
        for seed, check in enumerate((FAILED, FAILED, half, FAILED))
    ]
    ways = steady.ways(results, [FAILED.id])
    assert ways == {FAILED.id: {FAILED.points: 0, half.points: 2}}
