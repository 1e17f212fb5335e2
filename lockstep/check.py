"""What a judge holds in its hands: run the student's code, look at what came back, reach a verdict."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np

from lockstep import explain
from lockstep.exercise import CheckSpec, Exercise
from lockstep.remarks import remarks
from lockstep.result import Review
from lockstep.sandbox.box import Box
from lockstep.sandbox.gpus import environment
from lockstep.sandbox.limits import ADDRESS_SPACE_OF_CUDA, Limits
from lockstep.sandbox.outcome import Outcome
from lockstep.sandbox.spec import Pack, RankInputs, RunSpec, laid_over
from lockstep.sandbox.turns import run_beside_others
from lockstep.submission import Submission
from lockstep.verdict import Failed, GraderFault
from lockstep.wire import Array, Json

MASTER_PORT = 29500
# Times at most that one run is made because the system's clock was set meanwhile: where that goes on and on, a judge
# has to be content with what it sees.
MOST_TRIES = 3


@dataclass(frozen=True)
class Inputs:
    """What one rank alone is given, on top of what all ranks are given."""

    values: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """What all checks of one grading share."""

    box: Box
    submission: Submission
    seed: int
    world_sizes: tuple[int, ...]
    self_check: bool
    real_gpus: int = 0


class Check:
    """One check of one submission; the fixture `check` of every judge."""

    def __init__(self, setting: Setting, exercise: Exercise, spec: CheckSpec) -> None:
        self._setting = setting
        self._spec = spec
        self._exercise = exercise
        self._notes: list[str] = []
        self._remarks: dict[str, None] = {}
        self._reviews: list[Review] = []
        self._cpu_seconds: float | None = 0.0
        self.rng = _generator(setting.seed, exercise.id, spec.id)

    @property
    def id(self) -> str:
        """The check's id within its exercise."""
        return self._spec.id

    @property
    def points(self) -> float:
        """Points of this check."""
        return self._spec.points

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """The numbers of ranks to try."""
        return self._setting.world_sizes

    @property
    def self_check(self) -> bool:
        """Whether a student grades their own work: nothing about the inputs has to be kept from them."""
        return self._setting.self_check

    @property
    def real_gpus(self) -> int:
        """How many GPUs of this machine the checks may use; 0 unless the grading was asked to."""
        return self._setting.real_gpus

    @property
    def submission(self) -> Submission:
        """What was handed in, as bytes that nobody has run: for files that are read, such as answers and reports."""
        return self._setting.submission

    @property
    def notes(self) -> tuple[str, ...]:
        """What the judge wanted to say at no cost."""
        return tuple(self._notes)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What there is to say about the runs themselves; other checks of the exercise may say the same."""
        return tuple(self._remarks)

    @property
    def reviews(self) -> tuple[Review, ...]:
        """The answers that a person is to mark."""
        return tuple(self._reviews)

    @property
    def cpu_seconds(self) -> float | None:
        """What the check has computed, its judge and its runs together; None where nothing counts the runs'."""
        return self._cpu_seconds

    def count_cpu(self, seconds: float | None) -> None:
        """Add CPU time that was spent on this check; None where it is not known."""
        before = self._cpu_seconds
        self._cpu_seconds = None if before is None or seconds is None else before + seconds

    def again(self) -> None:
        """Start over with the same inputs, after a fault of the grader's own."""
        self._notes = []
        self._remarks = {}
        self._reviews = []
        self.rng = _generator(self._setting.seed, self._exercise.id, self._spec.id)

    def run(
        self,
        call: str,
        *,
        values: Mapping[str, Json] | None = None,
        arrays: Mapping[str, Array] | None = None,
        per_rank: Sequence[Inputs] | None = None,
        ranks: int | None = None,
        data: Mapping[str, Mapping[str, bytes]] | None = None,
        files: Mapping[str, bytes] | None = None,
        env: Sequence[Mapping[str, str]] | Mapping[str, str] | None = None,
        seconds: float | None = None,
        limits: Limits | None = None,
        shared_files: bool = False,
        counts_left: bool = False,
        expect: bool = True,
    ) -> Outcome:
        """Run the probe's function `call` beside the student's code, in fresh processes.

        `ranks=None` is one process without any group variables; `ranks=n` forks n with torchrun's
        environment, over which `env` is laid (one mapping for all, or one per rank). `data` appears
        under /data/NAME, `files` in the student's folder. Ranks find the same files there, but what one writes
        no other sees, and into the data none can write, unless the check is about `shared_files`. `seconds` is
        wall time. Of a run that `counts_left` it can be asked what is `left_running`. Unless `expect` is False, ends
        the check as crashed, hung or over a limit when a rank did not answer; a file whose import hangs is waited for
        once more, for longer, and then spoils the exercise's other checks.
        """
        count = ranks or 1
        limits = replace(limits or Limits(), seconds=seconds or self._spec.seconds)
        if self.real_gpus:
            limits = replace(limits, address_space=ADDRESS_SPACE_OF_CUDA)
        environments = env if isinstance(env, Sequence) else [env or {}] * count
        private = per_rank or [Inputs()] * count
        if len(environments) != count or len(private) != count:
            raise ValueError(f"{count} ranks, but {len(environments)} environments and {len(private)} inputs")
        group = self._group(count) if ranks is not None else [{}] * count
        spec = RunSpec(
            probe=self._exercise.id,
            call=call,
            submission=self._with(files),
            ranks=[
                RankInputs(
                    values={**(values or {}), **private[rank].values},
                    arrays={**(arrays or {}), **private[rank].arrays},
                    environment={**self._hardware(), **group[rank], **environments[rank]},
                )
                for rank in range(count)
            ],
            data={name: Pack(tree) for name, tree in (data or {}).items()},
            limits=limits,
            server=self._exercise.server,
            # Between real GPUs NCCL hands over memory by its address in the process, which it looks for by its pid.
            # Where there are fewer than ranks theirs are emulated, and meet by gloo.
            shared_files=shared_files or 1 < count <= self.real_gpus,
            counts_left=counts_left,
        )
        outcome = self._run(spec)
        hangs_at_import = False
        if expect and explain.hangs_at_import(outcome):
            # It may have been slow, once: it is given more time than any check has, before it costs all of them.
            longest = max(check.seconds for check in self._exercise.checks)
            limits = replace(limits, seconds=max(longest, 2 * limits.seconds))
            outcome = self._run(replace(spec, limits=limits))
            hangs_at_import = explain.hangs_at_import(outcome)
        self._remarks |= dict.fromkeys(remarks(outcome, self._setting.submission))
        problem = explain.problem(outcome, limits, self._setting.submission) if expect else None
        if problem is not None:
            problem.spoils = problem.spoils or hangs_at_import
            raise problem
        return outcome

    def _run(self, spec: RunSpec) -> Outcome:
        return run_beside_others(lambda: self._run_once(spec)) if self.real_gpus else self._run_once(spec)

    def _run_once(self, spec: RunSpec) -> Outcome:
        for _ in range(MOST_TRIES):
            outcome = self._setting.box.run(spec)
            self.count_cpu(outcome.cpu_seconds)
            if not outcome.clock_was_set:
                break
        return outcome

    def expect(self, holds: object, message: str, hint: str = "", *, points: float = 0.0) -> None:
        """End the check as failed unless `holds` is exactly True; NumPy's True counts. Raises as `fail` does."""
        self._insist_on_part(points)
        if not (holds is True or (isinstance(holds, np.bool_) and bool(holds))):
            self.fail(message, hint, points=points)

    def fail(self, message: str, hint: str = "", *, points: float = 0.0) -> NoReturn:
        """End the check as failed, with `points` as partial credit.

        Raises ValueError where those are not less than the check is worth: an author's mistake, no student's.
        """
        self._insist_on_part(points)
        raise Failed(self.placed(message), hint, points)

    def left_running(self, outcome: Outcome) -> int:
        """How many processes a run that counts them left behind; 0 without a sandbox, where nobody can tell.

        Raises GraderFault where nobody said: student code may have seen to that, or the run was not told to count.
        """
        if outcome.left_running is None and self._setting.box.isolated:
            raise GraderFault("the first process of a run did not say what was left running")
        return outcome.left_running or 0

    def note(self, text: str) -> None:
        """Tell the student something that costs nothing."""
        self._notes.append(text)

    def review(self, review: Review) -> None:
        """Leave an answer to a person, whichever way the check ends."""
        self._reviews.append(review)

    def placed(self, text: str) -> str:
        """The text with every place, `file.py:31` or `file.py, line 31`, in words; in a notebook by its cell."""

        def words(match: re.Match[str]) -> str:
            file, line = match[1], int(match[2])
            notebook = self._setting.submission.notebooks.get(file)
            if notebook is None:
                return f"{file}, line {line}"
            return f"{file.removesuffix('.py')}.ipynb, {notebook.place(line)}"

        return re.sub(r"(?<![\w./-])([\w./-]+\.py)(?::|, line )(\d{1,6})\b", words, text)

    def _insist_on_part(self, points: float) -> None:
        if points and not 0 < points < self.points:  # so that NaN is refused
            raise ValueError(
                f"{self.id} is worth {self.points:g} points and would leave {points:g} to whoever fails it: "
                "leave fewer than it is worth"
            )

    def _with(self, files: Mapping[str, bytes] | None) -> Pack:
        submission = self._setting.submission
        handed_in = laid_over(dict(self._exercise.given), submission.files)
        return Pack(laid_over(handed_in, files or {}), submission.executable)

    def _hardware(self) -> dict[str, str]:
        """Runs see no GPU: a check is about the CPU, or asks for GPUs (lockstep.sandbox.gpus)."""
        return environment(self.real_gpus)

    def _group(self, count: int) -> list[Mapping[str, str]]:
        # A network of its own makes a fixed port safe; without one it must be a port nobody has.
        port = MASTER_PORT if self._setting.box.isolated else _free_port()
        return [torchrun_environment(rank, count, port) for rank in range(count)]


def torchrun_environment(rank: int, world_size: int, port: int = MASTER_PORT) -> dict[str, str]:
    """The variables torchrun sets on one node (torch.distributed.elastic's local agent)."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "NODE_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world_size),
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "none",
    }


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _generator(seed: int, exercise: str, check: str) -> np.random.Generator:
    # By name, so that a check's inputs do not depend on which other checks ran.
    digest = hashlib.sha256(f"{seed}/{exercise}/{check}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))
