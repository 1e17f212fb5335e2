"""Whatever is killed while a class is graded, and however: the next grading goes on, and comes to the same."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockstep.sandbox.backend import possible_parents
from tests import tiny_class
from tests.batches import LAB, Verdicts, attempts, hand_in, verdicts
from tests.sandboxed import _descendants, is_alive

CLASS = {"ada": "", "bob": "two four", "cem": "one six", "dan": "five", "eve": "three"}
PATIENCE = 600  # seconds, after which something is not slow but stuck


@dataclass
class Grading:
    """A `lockstep grade` under way in a session of its own. Its temporary files are in a folder of its own, too."""

    process: subprocess.Popen[str]
    gate: int
    seen: set[int]

    def begins(self, checks: int) -> None:
        """Wait until so many more checks have begun; the last one may still run."""
        for _ in range(checks):
            ready, _, _ = select.select([self.gate], [], [], PATIENCE)
            assert ready, "no check began"
            os.read(self.gate, 1)

    def look(self) -> list[int]:
        """The processes that grade; all that are there now are remembered."""
        self.seen |= _descendants(self.process.pid)
        return [pid for pid in sorted(self.seen) if is_alive(pid) and b"classroom.worker" in _command(pid)]

    def boxes(self) -> list[int]:
        """The processes around the sandboxes."""
        self.look()
        return [pid for pid in sorted(self.seen) if is_alive(pid) and _command(pid).startswith(b"bwrap")]

    def end(self) -> tuple[int, str]:
        """Wait until it and everything seen of it has ended: its exit status and what it said."""
        _, said = self.process.communicate(timeout=PATIENCE)
        wait_gone(self.seen)
        return self.process.returncode, said


@contextlib.contextmanager
def grading(submissions: Path, out: Path, graders: Path, *more: str) -> Iterator[Grading]:
    """Begin to grade a class; whatever is left of that at the end is killed."""
    temporary = out.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    gate = out.parent / "gate"
    if not gate.exists():
        os.mkfifo(gate)
    command = [sys.executable, "-m", "lockstep.cli", "grade", str(submissions), "--out", str(out)]
    handle = os.open(gate, os.O_RDWR)
    process = subprocess.Popen(
        [*command, "--graders", str(graders), "--seed", "7", "--jobs", "2", *more],
        env={**os.environ, "TMPDIR": str(temporary), "LOCKSTEP_TESTS_GATE": str(gate)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    running = Grading(process, handle, set())
    try:
        yield running
    finally:
        os.close(handle)
        if process.poll() is None:
            running.look()
        for pid in (pid for pid in running.seen if is_alive(pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def wait_gone(pids: Iterable[int]) -> None:
    """Wait until none of these processes runs."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ready, _, _ = select.select([handle], [], [], PATIENCE)
            assert ready, f"{_command(pid)!r} is left running"
        finally:
            os.close(handle)


def nothing_is_left(out: Path, seen: Iterable[int]) -> None:
    """No file and no control group of what was killed."""
    assert list((out.parent / "temporary").iterdir()) == []
    assert not (out / ".work").exists()
    groups = [group for parent in possible_parents() for group in parent.glob("lockstep-*-*")]
    assert not [group for group in groups if int(group.name.split("-")[1]) in set(seen)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(victim: Callable[[Grading], list[int]]) -> Callable[[Grading], None]:
    def kill(running: Grading) -> None:
        running.look()
        for pid in victim(running):
            os.kill(pid, signal.SIGKILL)

    return kill


def _send(number: signal.Signals) -> Callable[[Grading], None]:
    def send(running: Grading) -> None:
        running.look()
        running.process.send_signal(number)

    return send


_interrupt = _send(signal.SIGINT)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """What comes out when nothing is killed."""
    folder = tmp_path_factory.mktemp("unbroken")
    submissions = hand_in(folder / "submissions", CLASS)
    with grading(submissions, folder / "results", LAB) as running:
        running.begins(1)
        running.look()
        assert running.end()[0] == 0
    nothing_is_left(folder / "results", running.seen)
    return verdicts(folder / "results")


@pytest.mark.parametrize(
    ("after", "strike", "status"),
    [
        (4, _kill(lambda running: [running.process.pid]), -signal.SIGKILL),
        (17, _kill(lambda running: [running.process.pid, *running.look()]), -signal.SIGKILL),
        (9, _kill(lambda running: running.look()[:1]), 0),
        (13, _interrupt, 130),
        (7, _send(signal.SIGHUP), 130),
    ],
    ids=["coordinator", "everything", "a worker", "Ctrl-C", "the terminal closed"],
)
def test_a_broken_off_grading_goes_on(
    after: int, strike: Callable[[Grading], None], status: int, tmp_path: Path, unbroken: Verdicts
) -> None:
    submissions, out = hand_in(tmp_path / "submissions", CLASS), tmp_path / "results"
    with grading(submissions, out, LAB) as running:
        running.begins(after)
        strike(running)
        ended, said = running.end()
    assert ended == status
    if status == 130:
        assert said.splitlines()[-1].startswith("lockstep: stopped. ")
        assert "the same command goes on from there" in said
    written = verdicts(out)
    with grading(submissions, out, LAB) as again:
        assert again.end()[0] == 0
    assert verdicts(out) == unbroken
    assert set(written) <= set(unbroken)
    # Nobody was graded twice, and no check was made that had been made before.
    assert attempts(out) == {student: [("done", "")] for student in CLASS}
    nothing_is_left(out, running.seen)


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    submissions, out = hand_in(tmp_path / "submissions", {"ada": "three:waits"}), tmp_path / "results"
    with grading(submissions, out, LAB) as running:
        running.begins(3)
        _interrupt(running)
        assert running.process.stderr is not None
        lines = iter(running.process.stderr)
        assert next(line for line in lines if line.startswith("stopping after the present checks"))
        _interrupt(running)
        ended, said = running.end()
    assert ended == 130
    assert said.splitlines()[-1].startswith("lockstep: stopped. ")
    nothing_is_left(out, running.seen)
    assert attempts(out) == {"ada": [("running", "")]}


@pytest.mark.slow
def test_twenty_random_moments(tmp_path: Path) -> None:
    # Messages may tell how long something took.
    def compared(out: Path) -> set[tuple[object, ...]]:
        return {row[:7] for row in verdicts(out)}

    rng = random.Random(20)
    submissions = tmp_path / "submissions"
    for work in tiny_class.tiny_works():
        for number in range(1 if work.refused else 4):
            folder = submissions / f"{work.name} {number}"
            folder.mkdir(parents=True)
            work.write(folder)
    (tmp_path / "unbroken").mkdir()
    (tmp_path / "broken").mkdir()
    with grading(submissions, tmp_path / "unbroken" / "results", tiny_class.LAB) as running:
        assert running.end()[0] == 1  # some are refused

    out, struck, seen = tmp_path / "broken" / "results", 0, set[int]()
    while struck < 20:
        with grading(submissions, out, tiny_class.LAB, *(["--regrade"] if struck else [])) as running:
            while running.process.poll() is None and struck < 20:
                # Not to wait for anything, but to come at a moment that nobody chose.
                threading.Event().wait(rng.uniform(0.5, 12.0))
                victims = rng.choice(
                    [[running.process.pid], [running.process.pid], running.look()[:1], running.boxes()[:1]]
                )
                for pid in victims:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        struck += 1
                if running.process.pid in victims:
                    break
            running.look()
            seen |= running.seen
            if struck == 20 or running.process.poll() is not None:
                running.end()
    with grading(submissions, out, tiny_class.LAB) as running:
        assert running.end()[0] == 1
    assert compared(out) == compared(tmp_path / "unbroken" / "results")
    nothing_is_left(out, seen)
