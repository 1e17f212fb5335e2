"""What the trusted side knows about one run, as frozen values; nothing in here has been evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.wire import Array, Json


@dataclass(frozen=True)
class CodeFrame:
    """One line of the student's that was being executed."""

    file: str
    line: int
    function: str
    # Where the student sees that line, when it is not in this file: a cell of a notebook.
    place: str = ""

    def __str__(self) -> str:
        return self.place or f"{self.file}, line {self.line}"


@dataclass(frozen=True)
class StudentError:
    """An exception that came out of student code, as the sandbox described it."""

    type: str
    message: str
    frames: tuple[CodeFrame, ...]
    phase: str
    errno: int | None = None
    line: int | None = None


@dataclass(frozen=True)
class Standing:
    """Where a rank stood at the deadline: its own line, and what it waited in, in words.

    `started` are the ranks that its command started, by number.
    """

    waits_in: str
    frame: CodeFrame | None
    state: str = ""
    started: tuple[tuple[int, Standing], ...] = ()


@dataclass(frozen=True)
class RankOutcome:
    """One rank's side of a run. `complete` says that its one frame arrived whole and well-formed.

    `began` says that student code was called; unlike `events`, student code can neither say it nor take it back.
    """

    complete: bool
    values: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    error: StudentError | None = None
    events: tuple[Mapping[str, Json], ...] = ()
    standing: Standing | None = None
    output: str = ""
    status: int | None = None
    protocol: str = ""
    began: bool = False


@dataclass(frozen=True)
class Outcome:
    """One run. `elapsed` in seconds by the trusted clock; `limit` names the limit that ended it.

    In `stood_still` seconds of these whoever watched was stopped, by Ctrl-Z for example, and the run perhaps, too.
    `began_at` and `ended_at` are seconds since 1970 by the system's clock; where that `clock_was_set` meanwhile,
    neither they nor what student code timed with it say anything.

    `loopback_bytes` and `left_running`, of a run that `counts_left`, are counted by its own namespaces, where there are
    any. `cpu_seconds` include what it took to take the run before this one apart.
    """

    ranks: tuple[RankOutcome, ...]
    elapsed: float
    timed_out: bool = False
    limit: str | None = None
    loopback_bytes: int | None = None
    left_running: int | None = None
    peak_memory: int | None = None
    cpu_seconds: float | None = None
    stood_still: float = 0.0
    began_at: float = 0.0
    ended_at: float = 0.0
    clock_was_set: bool = False
