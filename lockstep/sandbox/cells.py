"""Runs a notebook from top to bottom without a kernel: its cells in order, in one `__main__`.

The sandbox sees a notebook as one Python file in which each cell lies below a header line
(lockstep/notebook.py writes it). Everything measured here is told by a process that also runs the
student's code; what counts against them is decided outside, by the run's own limits and clock.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, TextIO, cast

from lockstep.cellheader import HEADER
from lockstep.sandbox import awaiting
from lockstep.sandbox.starvation import Limit
from lockstep.sandbox.stopwatch import Stopwatch
from lockstep.wire import Json

# How often it is asked again whether the time of a cell is up, once it would be on a machine that is idle otherwise.
AGAIN_SECONDS = 0.1


class CellTooSlow(BaseException):
    """A cell did not end in its time. No Exception, so that a student's `except Exception` lets it through."""


class CellTooLoud(BaseException):
    """A cell printed more than it may."""


@dataclass(frozen=True)
class Cell:
    """Where a code cell lies in the file; `number` is the student's, `first_line` counts from 1."""

    number: int
    first_line: int
    lines: int
    is_parameters: bool
    is_unfinished: bool

    def of(self, lines: Sequence[str]) -> Sequence[str]:
        """The cell's own lines among all of the file."""
        return lines[self.first_line - 1 : self.first_line - 1 + self.lines]


@dataclass(frozen=True)
class CellRun:
    """How a cell went: wall seconds, and the characters that it printed."""

    number: int
    seconds: float
    printed: int


@dataclass(frozen=True)
class NotebookRun:
    """How a notebook went: from the top to its end, or to the first cell that failed.

    `ran` are the cells that were begun, of `total`. `error` is what the `failed` cell raised: `raise
    run.error` makes it the run's, whose message names cell and line. `parameters_cell` is the first cell
    with that tag; `unknown` are parameters that no such cell defines. `main` has what the cells defined.
    """

    main: ModuleType
    total: int
    ran: tuple[CellRun, ...]
    failed: int | None
    error: BaseException | None
    parameters_cell: int | None
    unknown: tuple[str, ...]

    def values(self) -> dict[str, Json]:
        """All but `main`, for an Observation; the error by its type."""
        return {
            "total": self.total,
            "ran": [[cell.number, cell.seconds, cell.printed] for cell in self.ran],
            "failed": self.failed,
            "error": None if self.error is None else type(self.error).__name__[:60],
            "parameters_cell": self.parameters_cell,
            "unknown": list(self.unknown),
        }


def read_cells(source: str) -> tuple[Cell, ...] | None:
    """The cells of a file that was made from a notebook; None for any other file."""
    lines = source.split("\n")
    at = 0
    while at < len(lines) and lines[at].startswith("from __future__ "):
        at += 1
    cells: list[Cell] = []
    # The last line is the empty one after the file's last line end.
    while at < len(lines) - 1:
        header = HEADER.match(lines[at])
        if header is None or int(header[1]) != len(cells) + 1:
            return None
        # The header says how many lines are the cell's: what stands in them is never taken for a header.
        cells.append(Cell(len(cells) + 1, at + 2, int(header[2]), bool(header[3]), bool(header[4])))
        at += 1 + cells[-1].lines
    return tuple(cells) if cells and at == len(lines) - 1 else None


def as_notebook(source: str) -> str:
    """The JSON of a notebook with these cells. Raises ValueError when `source` was made from no notebook."""
    cells = read_cells(source)
    if cells is None:
        raise ValueError("no notebook")
    lines = source.split("\n")
    # What had to go above all cells goes back into the first.
    futures = lines[: cells[0].first_line - 2]
    made: list[dict[str, Json]] = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"cell-{cell.number}",
            "metadata": {"tags": ["parameters"]} if cell.is_parameters else {},
            "outputs": [],
            "source": "\n".join([*(futures if cell.number == 1 else ()), *cell.of(lines)]),
        }
        for cell in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def run_cells(
    source: str,
    path: str,
    main: ModuleType,
    parameters: Mapping[str, Json],
    *,
    seconds_per_cell: float | None,
    output_limit: int | None,
    calling: Callable[[int], AbstractContextManager[None]],
) -> NotebookRun:
    """Run the notebook `source`, which lies at `path`, in the module `main`.

    `calling` wraps the run of each cell, by its number. Raises ValueError when it is no notebook.
    """
    cells = read_cells(source)
    if cells is None:
        raise ValueError(f"{path} was not made from a notebook")
    lines = source.split("\n")
    meter = _Meter(output_limit)
    ran: list[CellRun] = []
    failed: int | None = None
    failure: BaseException | None = None
    tagged = [cell.number for cell in cells if cell.is_parameters]
    unknown = set(parameters)
    with _metered(meter):
        for cell in cells:
            meter.begin(cell.number)
            start = time.perf_counter()
            try:
                with calling(cell.number), _alarm(seconds_per_cell, cell.number):
                    given = parameters if cell.is_parameters else {}
                    _execute(lines, cells[0].first_line - 2, cell, path, main, given)
            except BaseException as error:
                failed, failure = cell.number, error
            ran.append(CellRun(cell.number, time.perf_counter() - start, meter.printed))
            if failure is not None:
                break
            if cell.is_parameters:
                unknown -= main.__dict__.keys()
                # Those that it does not define, too, as papermill does.
                main.__dict__.update(parameters)
    return NotebookRun(
        main=main,
        total=len(cells),
        ran=tuple(ran),
        failed=failed,
        error=failure,
        parameters_cell=tagged[0] if tagged else None,
        unknown=tuple(sorted(unknown)),
    )


def _execute(
    lines: Sequence[str], preamble: int, cell: Cell, path: str, main: ModuleType, given: Mapping[str, Json]
) -> None:
    """Run one cell as Jupyter does; the value of an expression that ends it is shown.

    What it sets is overwritten by what is `given` as soon as it is set: what the cell makes of its constants is
    made of these, as if they had been edited in the cell.
    """
    if cell.is_unfinished:
        place = (path, cell.first_line, None, None)
        raise SyntaxError("the cell ends inside a bracket or a string", place)
    # The file's `from __future__` lines, then blank ones, so that every line has its number in the file.
    text = [*lines[:preamble], *[""] * (cell.first_line - 1 - preamble), *cell.of(lines)]
    tree = ast.parse("\n".join(text), path)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    futures, statements = tree.body[:preamble], tree.body[preamble:]
    for body in [[one] for one in statements] if given else [statements]:
        awaiting.evaluate(ast.Module([*futures, *body], []), path, main.__dict__)
        main.__dict__.update({name: value for name, value in given.items() if name in main.__dict__})
    if isinstance(last, ast.Expr):
        value = awaiting.evaluate(ast.Expression(last.value), path, main.__dict__)
        if value is not None:
            print(repr(value))


@contextlib.contextmanager
def _alarm(seconds: float | None, number: int) -> Iterator[None]:
    """Raise CellTooSlow when the time is up; in a long call outside Python, only once that returns.

    What others do on this machine does not count.
    """
    if seconds is None:
        yield
        return

    # Asked for the first time when the time is up.
    limit = Limit(seconds, os.getppid(), Stopwatch(most=math.inf))

    def ring(_: int, __: FrameType | None) -> None:
        if limit.is_reached():
            raise CellTooSlow(f"cell {number} did not end within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Meter:
    """Counts the characters that the present cell prints, to both streams together."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._cell = 0
        self.printed = 0

    def begin(self, number: int) -> None:
        """Start counting for the next cell."""
        self._cell, self.printed = number, 0

    def add(self, size: int) -> None:
        """Count what is written. Raises CellTooLoud."""
        self.printed += size
        if self._limit is not None and self.printed > self._limit:
            raise CellTooLoud(f"cell {self._cell} printed more than {self._limit} characters")


class _Metered:
    """A stream that counts what goes through it; everything else is the stream's own."""

    def __init__(self, stream: TextIO, meter: _Meter) -> None:
        self._stream = stream
        self._meter = meter

    def write(self, text: str) -> int:
        """Write, unless that is too much."""
        self._meter.add(len(text))
        return self._stream.write(text)

    def writelines(self, lines: Sequence[str]) -> None:
        """Write one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _metered(meter: _Meter) -> Iterator[None]:
    # One pair for all cells: libraries keep the stream that they first saw.
    before = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, _Metered(sys.stdout, meter))
    sys.stderr = cast(TextIO, _Metered(sys.stderr, meter))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
