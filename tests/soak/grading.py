"""Rounds of gradings: the twenty submissions in an order of their own, in a fresh sandbox, on a machine of one kind."""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

from lockstep.exercise import find_exercises
from lockstep.grading import CouldNotGrade
from lockstep.result import CheckResult
from lockstep.sandbox.box import Box, open_box
from lockstep.verdict import GraderFault
from tests.sandboxed import ROOT, processes_of
from tests.soak import traces
from tests.soak.machines import MACHINES
from tests.soak.works import EXERCISES, WORKS, Work, checks_of, graded, is_too_big, surprises, write

GROWTH = 8.0
"""MiB by which the process that grades may grow from the second to the last quarter of all gradings."""


@dataclass(frozen=True)
class Grading:
    """One grading and its circumstances.

    `seconds` is how long it took, `load` the machine's load average, `memory` what the process that grades held
    afterwards, in MiB.
    """

    machine: str
    work: Work
    seed: int
    checks: tuple[CheckResult, ...]
    seconds: float
    load: float
    memory: float
    findings: tuple[str, ...]

    def verdicts(self) -> tuple[tuple[str, str, float], ...]:
        """What must be the same each time; messages hold figures of the hidden data."""
        return tuple((check.id, str(check.verdict), check.points) for check in self.checks)


@dataclass
class Soak:
    """All gradings so far, and what was wrong with the rounds as a whole."""

    gradings: list[Grading] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    first: dict[tuple[Work, bool], Grading] = field(default_factory=dict)

    def add(self, grading: Grading) -> Grading:
        """Remember a grading; it comes back with a finding more where an earlier one came to something else."""
        key = grading.work, is_too_big(grading.work, grading.machine)
        first = self.first.setdefault(key, grading)
        if grading.verdicts() != first.verdicts():
            told = f"another verdict than at first: {_told(first)} (seed {first.seed}, {first.machine})"
            grading = replace(grading, findings=(*grading.findings, told))
        self.gradings.append(grading)
        return grading

    def growth(self) -> float:
        """MiB by which the process that grades is larger in the last quarter than in the second: medians."""
        quarter = len(self.gradings) // 4
        early, late = (
            statistics.median(grading.memory for grading in self.gradings[at : at + quarter])
            for at in (quarter, 3 * quarter)
        )
        return late - early

    def problems(self) -> list[str]:
        """Everything that must not be, a sentence each."""
        found = [*self.findings, *(text for grading in self.gradings for text in grading.findings)]
        if len(self.gradings) >= 4 * len(WORKS) and self.growth() > GROWTH:
            found.append(f"the process that grades grew by {self.growth():.1f} MiB")
        return found


def soak(rounds: int, seed: int, machines: Sequence[str], say: Callable[[str], None], until: float) -> Soak:
    """Grade `rounds` times all submissions, on each kind of machine in turn; none begins after `until` (monotonic).

    Raises NoMemoryGroup where the machine cannot be made short of memory.
    """
    traces.adopt_orphans()
    rng = random.Random(seed)
    done = Soak()
    with _folders() as (scratch, folder):
        canary = folder / "canary"
        canary.write_text(text := f"{rng.getrandbits(64):x}")
        canary.chmod(0o666)
        places = {work: write(work, folder / str(number), canary) for number, work in enumerate(WORKS)}
        with _box():  # what is imported or opened only once is not left behind by a grading
            pass
        before = traces.look(scratch)
        for number in range(rounds):
            if time.monotonic() >= until:
                break
            machine = machines[number % len(machines)]
            begun = len(done.gradings)
            try:
                with MACHINES[machine]():
                    _round(machine, rng, places, scratch, done, say)
            except GraderFault as fault:
                done.findings.append(f"round {number} ({machine}) was broken off: {fault}")
            left = traces.left(before, traces.look(scratch))
            if canary.read_text() != text:
                left.append("a file outside of the sandbox was changed")
            done.findings += [f"after round {number} ({machine}): {sentence}" for sentence in left]
            taken = sum(grading.seconds for grading in done.gradings[begun:])
            wrong = sum(bool(grading.findings) for grading in done.gradings[begun:]) + len(left)
            say(
                f"round {number + 1} of {rounds}, {machine}, load {os.getloadavg()[0]:.1f}: "
                f"{len(done.gradings) - begun} gradings in {taken:.0f} s, {wrong} findings, {traces.memory():.0f} MiB"
            )
    return done


def _round(
    machine: str,
    rng: random.Random,
    places: dict[Work, Path],
    scratch: Path,
    done: Soak,
    say: Callable[[str], None],
) -> None:
    """Grade every submission once, one after the other in one sandbox that is theirs alone."""
    with _box() as box:
        baseline = traces.look(scratch)
        for work in rng.sample(WORKS, len(WORKS)):
            grading = done.add(
                _grade(machine, work, places[work], rng.getrandbits(48), box, scratch, baseline)
            )
            for finding in grading.findings:
                say(
                    f"{machine}, {work}, seed {grading.seed}, load {grading.load:.1f}: {finding}; "
                    f"now {_told(grading)}"
                )


def _grade(
    machine: str, work: Work, place: Path, seed: int, box: Box, scratch: Path, baseline: traces.Traces
) -> Grading:
    begun = time.monotonic()
    checks: tuple[CheckResult, ...] = ()
    findings: list[str] = []
    try:
        result = graded(work, place, seed, box)
    except CouldNotGrade as problem:
        findings.append(f"not graded: {problem}")
    else:
        checks = checks_of(result)
        findings += surprises(work, machine, result)
    seconds = time.monotonic() - begun
    box.wait_ready()
    box.settle()
    traces.reap({box._process.pid})
    findings += [f"left behind: {sentence}" for sentence in traces.left(baseline, traces.look(scratch))]
    load = os.getloadavg()[0]
    return Grading(machine, work, seed, checks, seconds, load, traces.memory(), tuple(findings))


def _told(grading: Grading) -> str:
    return "; ".join(
        f"{check.id} {check.verdict}, {check.points:g} points: {check.message}" for check in grading.checks
    )


@contextmanager
def _box() -> Iterator[Box]:
    """A warm sandbox; afterwards everything in it has ended."""
    wanted = [exercise for exercise in find_exercises(ROOT / "graders") if exercise.id in EXERCISES]
    with open_box(wanted, isolated=True) as box:
        box.wait_ready()
        yield box
        ending = processes_of(box)
    traces.wait_gone(ending)
    traces.reap(set())


@contextmanager
def _folders() -> Iterator[tuple[Path, Path]]:
    """An empty folder that has all temporary files of this process, and one for the submissions."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        scratch, folder = Path(name, "temporary"), Path(name, "submissions")
        scratch.mkdir()
        folder.mkdir()
        # Boxes are other users of this machine: whatever they find open, they may try to write to.
        Path(name).chmod(0o755)
        with mock.patch.object(tempfile, "tempdir", str(scratch)):
            yield scratch, folder
