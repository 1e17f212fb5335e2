"""What was seen when a student's script measured once more, small, under a clock it cannot touch."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.reports.document import Report


@dataclass(frozen=True)
class Holdup:
    """One batch that was read, or one call of a model, and was made to take longer by `seconds`.

    `start` and `done` are readings of one clock, in seconds. In a worker's process the n-th batch was held up for
    as long as the n-th that was read by the script's own.
    """

    in_main: bool
    start: float
    done: float
    items: int
    seconds: float


@dataclass(frozen=True)
class Source:
    """What stands in the scripts, as far as it says something about clocks. Places are `file.py:31`."""

    reassigned: tuple[tuple[str, str], ...] = ()
    """Names of clocks and waits that are given another meaning, and where: ("time.sleep", "x.py:3")."""
    numbers: frozenset[float] = frozenset()
    """Every number with decimals that is written out."""
    reads_clock: bool = False
    uses_gpu: bool = False
    waits_for_gpu: bool = False
    shuffles_by_rank: bool = False
    """Whether a DistributedSampler is made."""
    sets_epoch: bool = False
    softmax_before_loss: bool = False


@dataclass(frozen=True)
class Asked:
    """The most that there was to be measured, by what the run was given: a report of more is not about that run."""

    step: int | None = None
    """Samples of one step: a batch, or a call of the model."""
    run: int | None = None
    """Samples of all steps of one run."""


@dataclass(frozen=True)
class Rerun:
    """One run of the script that a report comes from.

    `began` and `ended` are seconds since 1970 and `elapsed` the seconds between them, by the clock outside; `start`
    and `end` are when the script began and ended, by the clock of `holdups`.
    """

    command: str
    elapsed: float
    began: float
    ended: float
    start: float = 0.0
    end: float = float("inf")
    problem: str = ""
    """How the run ended, where it did not end well; completes "COMMAND ..."."""
    report: Report | None = None
    misplaced: str = ""
    """Where it wrote the report instead of where it was asked to, in a sentence; empty where it did as asked."""
    unsaved: str = ""
    """That it drew what it was to draw and left no picture, in a sentence; empty where it may have."""
    form: str = ""
    """What keeps the file that it wrote from being a report."""
    holdups: tuple[Holdup, ...] = ()
    unseen: str = ""
    """Why not all that was done could be held up and counted; empty where it could."""
    loaders: frozenset[int] | None = None
    """With how many workers data loaders were read; None where that says nothing of the passes."""
    asked: Asked = Asked()
    busy: str = ""
    """In words, what made the whole script take longer here than its work does; empty where nothing did."""
    source: Source = Source()
