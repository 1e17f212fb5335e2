"""Runs the scripts of three reports again, small and held up, and puts together what was seen."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fixtures import cifar10, lfw
from graders.reports.handed_in import HandedIn, measured_by, parsed
from lockstep.check import Check
from lockstep.compare import elements, integer, number
from lockstep.reports.document import Report
from lockstep.reports.evidence import Asked, Holdup, Rerun, Source
from lockstep.sandbox.limits import MIB, Limits
from lockstep.sandbox.outcome import RankOutcome
from lockstep.text import last_lines, safe_line
from lockstep.verdict import CheckEnded
from lockstep.wire import Json

SHARES = {"loader.json": 0.5, "data_parallel.json": 0.25, "ddp.json": 0.25}
"""What each script's second run is worth; those of amp and lightning take too long to start for a spot check."""
MISPLACED = UNSAVED = 0.5
"""Of a share: for a report that is right, but not where it was asked for; for one without its picture."""
DRAWN = 64
# A checkpoint of ResNet-18 with its momentum, while the last one is still there.
LIMITS = Limits(disk=512 * MIB)

READ_AS_CLOCKS = {"default_timer"} | {
    name + unit for name in ("perf_counter", "time", "monotonic") for unit in ("", "_ns")
}


# What tells how many workers a machine has room for: whoever asks may start fewer than are wanted.
PROCESSORS = re.compile(rb"cpu_count|affinity|psutil|cpuinfo|num_threads|nproc|meminfo|/dev/shm")
# Marks of a notebook, in which figures show themselves.
NOTEBOOK = re.compile(rb"ipython|ipynb|# In ?\[|# ?%%|matplotlib inline", re.IGNORECASE)
HANDED_OUT = "perf_report.py"


@dataclass(frozen=True)
class Session:
    """How a script is started, on which data, for how long what is held up, and how much there is to be measured."""

    arguments: Sequence[str]  # but for the file that the report is to be written to
    hold_up: str
    seconds: Sequence[float]
    asked: Asked
    data: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    ranks: int | None = None


def _seconds(rng: np.random.Generator, least: float, most: float) -> list[float]:
    return [float(value) for value in rng.uniform(least, most, DRAWN)]


def _loader(rng: np.random.Generator) -> Session:
    tree = lfw.make_tree(rng, people=4, most_images=3, size=48)
    # The last batch is short: who counts every batch as full reports more than there was.
    size = int(rng.choice([size for size in (2, 3, 4, 5) if len(tree) % size][:2]))
    flags = ["-batch_size", str(size), "-num_workers", "0", "-get_timing", "-report"]
    arguments = ["-path_to_folder", "/data/lfw/", *flags]
    # Who tries other sizes of a batch, too, has at most all images in one.
    return Session(arguments, "batches", _seconds(rng, 0.005, 0.025), Asked(step=len(tree)), {"lfw": tree})


def _data_parallel(rng: np.random.Generator) -> Session:
    size = int(rng.integers(1, 7))
    counts = ["--batch-sizes", str(size), "--n-reps", str(int(rng.integers(4, 6)))]
    flags = ["--devices", "1", "--report"]
    return Session([*counts, *flags], "calls", _seconds(rng, 0.008, 0.03), Asked(step=size))


def _ddp(rng: np.random.Generator) -> Session:
    images, epochs = 8, 2
    tree = cifar10.make_batches(rng, images, 5)
    flags = ["--epochs", str(epochs), "--batch-size", "4", "--report"]
    # With torchrun's variables: that they are needed is another exercise's business.
    return Session(
        ["--training-data", "/data/cifar", *flags],
        "calls",
        _seconds(rng, 0.02, 0.1),
        # A sampler may fill up the last batch, and a run may be all that the script does.
        Asked(run=4 * images * epochs),
        {"cifar": tree},
        ranks=1,
    )


SESSIONS = {"loader.json": _loader, "data_parallel.json": _data_parallel, "ddp.json": _ddp}


def why_not(check: Check, handed_in: HandedIn) -> str:
    """Why there is nothing to run again, in words that complete "NAME was not measured again: "; or nothing.

    A script that was not handed in, or that is a notebook, whose cells may know no command line, is no contradiction in
    a report; what it costs, other exercises say. One that is there and does not do what is asked of it is: the report
    says, by its hash, that it was written by this very script. For a report that was put together by hand that is so,
    too: `-report FILE` is part of the script, and whoever measures with a program of their own names that one.
    """
    script, submission = handed_in.wanted.script, check.submission
    if script not in submission.files:
        return f"there is no {script}"
    if script in submission.notebooks:
        return f"{script.removesuffix('.py')}.ipynb is a notebook, and notebooks are not measured again"
    report = handed_in.report
    own = measured_by(report, submission, script) if report is not None else None
    if own is not None and own != script:
        return f"it comes from {safe_line(own, 60)}, and what arguments that takes is not known"
    return ""


def run_again(check: Check, handed_in: HandedIn) -> Rerun:
    """Run the script of a report; whatever happens is in the result."""
    wanted = handed_in.wanted
    session = SESSIONS[wanted.name](check.rng)
    usual = f"reports/{wanted.name}"
    report = f"reports/again_{check.rng.integers(100, 1000)}.json"
    arguments = [*session.arguments, report]
    command = f"`{' '.join(['python', wanted.script, *arguments])}`"
    seen_in_source = _source(check, wanted.script)
    try:
        outcome = check.run(
            "rerun",
            values={
                "script": wanted.script,
                "arguments": list(arguments),
                "reports": [report, usual],
                "seconds": list(session.seconds),
                "hold_up": session.hold_up,
            },
            data=session.data,
            ranks=session.ranks,
            env={"ATTEMPT_NONCE": secrets.token_hex(8)},
            limits=LIMITS,
        )
    except CheckEnded as ended:
        return _failed(command, f"did not come to its end. {without(command, ended.feedback.message)}")
    seen = outcome.ranks[0]
    status = integer(seen.values.get("status"))
    if status != 0:
        return _failed(command, f"ended with status {status}. Its last lines: {last_lines(seen.output)}")
    # Whoever writes to the usual place whatever is asked has measured nevertheless.
    misplaced = "report" not in seen.arrays and "usual" in seen.arrays
    written = seen.arrays.get("usual" if misplaced else "report")
    if written is None or written.dtype != np.uint8:
        return _failed(command, f"left no {report}.")
    again = parsed(written.tobytes())
    return Rerun(
        command=command,
        elapsed=outcome.elapsed,
        began=outcome.began_at,
        ended=outcome.ended_at,
        start=number(seen.values.get("start")) or 0.0,
        end=number(seen.values.get("end")) or 0.0,
        report=again if isinstance(again, Report) else None,
        misplaced=f"{command} wrote {usual}, and not the file that it was given." if misplaced else "",
        unsaved=_unsaved(check, handed_in, command, seen),
        form=f"the report that it wrote is no valid perf-report/1. {again if isinstance(again, str) else ''}",
        holdups=tuple(_holdups(seen.values.get("events"), session.seconds)),
        unseen=_unseen(seen, session.hold_up),
        loaders=_loaders(check, seen),
        asked=session.asked,
        busy=_busy(outcome.stood_still),
        source=seen_in_source,
    )


def _unsaved(check: Check, handed_in: HandedIn, command: str, seen: RankOutcome) -> str:
    """That a script drew error bars and neither saved nor showed them, where that is no notebook's way."""
    source = check.submission.files[handed_in.wanted.script]
    if seen.values.get("bars_unseen") is not True or NOTEBOOK.search(source):
        return ""
    return (
        f"{command} drew error bars and neither saved nor showed them: no picture was left. Once all is drawn, "
        'figure.savefig(Path(path).with_suffix(".png")) writes one beside the report.'
    )


def without(command: str, message: str) -> str:
    """A message on what happened while a command ran, where the command has been named already."""
    return re.sub(rf",? while running {re.escape(command)}", "", message)


def _failed(command: str, problem: str) -> Rerun:
    return Rerun(command, elapsed=0.0, began=0.0, ended=0.0, problem=problem)


def _holdups(value: Json, seconds: Sequence[float]) -> list[Holdup]:
    """What the probe noted, with how long each was held up: those in the script's process in turn."""
    found: list[Holdup] = []
    turn = 0
    for entry in elements(value):
        if not isinstance(entry, list) or len(entry) != 4:
            continue
        start, done, items = number(entry[1]), number(entry[2]), integer(entry[3])
        if start is None or done is None or items is None:
            continue
        in_main = entry[0] is True
        found.append(Holdup(in_main, start, done, items, seconds[turn % len(seconds)] if in_main else 0.0))
        turn += in_main
    return found


def _unseen(seen: RankOutcome, hold_up: str) -> str:
    """Why not everything could be held up."""
    if hold_up == "batches":
        workers = [entry for entry in elements(seen.values.get("workers")) if isinstance(entry, list)]
        starts = [entry[1] for entry in workers if len(entry) == 2]
        return "" if all(way == "fork" for way in starts) else "its workers are not forked"
    own = [
        entry
        for entry in elements(seen.values.get("events"))
        if isinstance(entry, list) and entry[:1] == [True]
    ]
    if seen.values.get("by_children") is True and not own:
        return "it measures in processes of its own"
    return ""


def _loaders(check: Check, seen: RankOutcome) -> frozenset[int] | None:
    """With how many workers loaders were read, where it is torch's own that read, and with as many as it is told."""
    files = check.submission.files
    sources = (files[path] for path in files if path.endswith((".py", ".ipynb")) and path != HANDED_OUT)
    entries = [entry for entry in elements(seen.values.get("loaders")) if isinstance(entry, list)]
    counts = [integer(entry[0]) for entry in entries if len(entry) == 2 and entry[1] is True]
    found = frozenset(count for count in counts if count is not None)
    if not found or len(counts) != len(entries) or None in counts or any(map(PROCESSORS.search, sources)):
        return None
    return found


def _busy(stood_still: float) -> str:
    if stood_still > 0:
        return f"this grading was stopped for {stood_still:.0f} s meanwhile"
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"starting takes long on a busy machine (load {load:.1f} on {cores} cores)" if load > cores else ""


def _source(check: Check, script: str) -> Source:
    """What stands in the script, and in the writer beside it."""
    beside = [path for path in (HANDED_OUT,) if path in check.submission.files]
    try:
        values = check.run("source", values={"script": script, "beside": list(beside)}).ranks[0].values
    except CheckEnded:
        return Source()  # a source that cannot be read is no evidence of anything
    names = {name for name in elements(values.get("names")) if isinstance(name, str)}
    pairs = [
        entry for entry in elements(values.get("reassigned")) if isinstance(entry, list) and len(entry) == 2
    ]
    return Source(
        reassigned=tuple(
            (name, place) for name, place in pairs if isinstance(name, str) and isinstance(place, str)
        ),
        numbers=frozenset(
            value for value in map(number, elements(values.get("numbers"))) if value is not None
        ),
        reads_clock=bool(names & READ_AS_CLOCKS),
        uses_gpu="cuda" in names,
        # What comes to the CPU has been waited for.
        waits_for_gpu=bool(
            names & {"synchronize", "Event", "elapsed_time", "Timer", ".item", ".tolist", ".cpu"}
        ),
        shuffles_by_rank="DistributedSampler" in names,
        sets_epoch="set_epoch" in names,
        softmax_before_loss=values.get("softmax_before_loss") is True,
    )
