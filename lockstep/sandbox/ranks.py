"""One rank of a run: confines itself, runs the probe beside the student's code, sends one frame, ends."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn, cast

from lockstep import wire
from lockstep.sandbox import confine, elsewhere, memoryfile, missing, probefiles, probing, shims
from lockstep.sandbox.watch import Watch
from lockstep.wire import Json

MAX_TEXT = 300
# Where judges say that data is.
DATA = "/data"
MAX_FRAMES = 8
# What a fresh torch process starts from; the server's own warm-up has moved it on.
FRESH_TORCH_SEED = 67280421310721


@dataclass(frozen=True)
class RankPipes:
    """A rank's private descriptors: input file, and the pipes for result, events, stacks, output and that it began."""

    input: int
    result: int
    events: int
    stacks: int
    output: int
    began: int

    def all(self) -> tuple[int, ...]:
        """Every descriptor."""
        return (self.input, self.result, self.events, self.stacks, self.output, self.began)


@dataclass(frozen=True)
class Confinement:
    """What a process gives up before it runs student code."""

    limits: confine.ProcessLimits
    seccomp: bytes | None

    def apply(self) -> None:
        """Give it up, for good."""
        confine.limit_process(self.limits)
        confine.seal(self.seccomp)


@dataclass(frozen=True)
class RankJob:
    """What one rank does, and where."""

    number: int
    probe: str
    call: str
    environment: Mapping[str, str]
    work: str
    python: str
    confinement: Confinement


def run_rank(job: RankJob, pipes: RankPipes) -> NoReturn:
    """Observe and send. Exit codes mean nothing: the frame is complete or it is not."""
    try:
        os.setsid()  # so that a signal to "my process group" stays with this rank
        become_fresh(job.environment, job.work, job.python, pipes.output)
        faulthandler.register(signal.SIGUSR1, file=pipes.stacks, all_threads=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        frame = wire.unpack(memoryfile.read(pipes.input))
        probe = probefiles.load(job.probe)
        send = _sender(job.work, pipes.result)
        watch = Watch(pipes.events, pipes.began, job.work)
        shims.install(watch.note)
        missing.install(job.work, watch.note)
        elsewhere.install(job.work, watch.note)
        job.confinement.apply()
        _observe(job, frame, probe, watch, send)
    finally:
        os._exit(wire.BROKEN)


def become_fresh(environment: Mapping[str, str], work: str, python: str, output: int | None) -> None:
    """Look like a newly started Python in the student's folder: environment, streams, seeds, path."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(work)
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if output is not None:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(output, 1)
        os.dup2(output, 2)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8", errors="replace")
    sys.stdout = io.TextIOWrapper(
        io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="replace", line_buffering=True
    )
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="replace", line_buffering=True
    )
    sys.argv = ["student"]
    sys.executable = python
    multiprocessing.set_executable(python)
    tempfile.tempdir = None
    _reseed()
    # Last, so that a student's own `random.py` cannot stand in for a module the probe needs.
    sys.path.append(work)


def _reseed() -> None:
    import numpy as np
    import torch

    random.seed()
    np.random.seed()
    torch.default_generator.manual_seed(FRESH_TORCH_SEED)


def flush_output() -> None:
    """Flush what the student printed; their streams may be closed or replaced."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()


Send = Callable[[dict[str, Json], Mapping[str, wire.Array], bool], NoReturn]


def _sender(work: str, result: int) -> Send:
    """What sends an answer and then stays, or does not; it never comes back. Student code may be what called it."""
    # Held here because student code may replace what these modules export.
    write, end, pack, pause = os.write, os._exit, wire.pack, signal.pause

    def send(values: dict[str, Json], arrays: Mapping[str, wire.Array], stays: bool) -> NoReturn:
        try:
            data = pack(values, arrays)
        except Exception as error:
            data = pack({"error": _described(error, work, "sending what was observed")})
            stays = False
        flush_output()
        view = memoryview(data)
        while view:
            view = view[write(result, view) :]
        # A rank that is through stays until all are: a peer that still waits for it then hangs in its
        # collective, and can be named, instead of dying of a closed connection. A rank that failed goes
        # at once, as it would under torchrun.
        while stays:
            try:
                pause()
            except BaseException:  # of a handler of the student's
                continue
        end(0)

    return send


def _observe(job: RankJob, frame: wire.Frame, probe: ModuleType, watch: Watch, send: Send) -> NoReturn:
    as_arrays = probing.as_arrays

    def answer(observation: probing.Observation, stays: bool = True) -> NoReturn:
        try:
            arrays = as_arrays(observation.arrays)
        except BaseException as error:
            send({"error": _described(error, job.work, student.phase)}, {}, False)
        send({"values": cast(Json, observation.values)}, arrays, stays)

    call = cast(Callable[[probing.Student, probing.Inputs], probing.Observation], getattr(probe, job.call))
    environment = job.environment
    student = probing.Student(job.work, watch, answer)
    inputs = probing.Inputs(
        values={name: _placed(value, student.data) for name, value in frame.values.items()},
        arrays=dict(frame.arrays),
        rank=int(environment.get("RANK", "0")),
        world_size=int(environment.get("WORLD_SIZE", "1")),
    )
    try:
        observation = call(student, inputs)
    except BaseException as error:
        send({"error": _described(error, job.work, student.phase)}, {}, False)
    answer(observation)


def _placed(value: Json, data: str) -> Json:
    """What the judge sent, with /data where that is: without a sandbox, a folder of the run's own."""
    if isinstance(value, str):
        return data + value.removeprefix(DATA) if value == DATA or value.startswith(f"{DATA}/") else value
    if isinstance(value, list):
        return [_placed(item, data) for item in value]
    if isinstance(value, dict):
        return {key: _placed(item, data) for key, item in value.items()}
    return value


def _described(error: BaseException, work: str, phase: str) -> Json:
    """A student's exception as plain values; `str` of it is theirs too, so it may raise or be endless."""
    try:
        text = str(error)[:MAX_TEXT]
        text.encode("utf-8")
    except BaseException:
        text = ""
    frames: list[Json] = []
    summary: traceback.StackSummary | list[traceback.FrameSummary] = []
    with contextlib.suppress(BaseException):
        summary = traceback.extract_tb(error.__traceback__)
    for entry in summary:
        if entry.filename.startswith(work + os.sep):
            frames.append([os.path.relpath(entry.filename, work), entry.lineno or 0, entry.name])
    number = getattr(error, "errno", None) if isinstance(error, OSError) else None
    return {
        "type": type(error).__name__[:MAX_TEXT],
        "message": text,
        "frames": frames[-MAX_FRAMES:],
        "phase": phase,
        "errno": number if type(number) is int else None,
        "line": error.lineno if isinstance(error, SyntaxError) and type(error.lineno) is int else None,
    }
