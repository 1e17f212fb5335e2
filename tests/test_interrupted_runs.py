"""Ctrl-C in the middle of a run: wherever it breaks in, the run ends, and nothing of it is left with its sandbox."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from lockstep import sandbox
from lockstep.exercise import Server
from lockstep.sandbox import backend, channel, connection
from lockstep.sandbox.box import Box
from tests.sandboxed import control_groups, run

# The trusted side of a run is in this process.
TRUSTED = str(Path(sandbox.__file__).parent)
SOURCE = "def main(): return 1"
PARTS = 6
Line = tuple[str, int]


@pytest.fixture
def groups(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[backend.Groups]:
    """Those of the box's next runs."""
    box.wait_ready()
    box.settle()
    parent, _ = backend.find()
    groups = backend.Groups(parent)
    for server in box._servers:
        monkeypatch.setattr(server, "_groups", groups)
    # A run that does not end is to be a failure soon.
    monkeypatch.setattr(connection, "GONE_SECONDS", 60.0)
    yield groups
    box.settle()
    groups.close()


@contextmanager
def lines_met_by(meet: Callable[[Line], None]) -> Iterator[None]:
    """`meet` is called before a line of the trusted side is run, each time."""

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if not frame.f_code.co_filename.startswith(TRUSTED):
            return None
        if event == "line":
            meet((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def lines_of_a_run(box: Box) -> list[Line]:
    """In the order in which they are first met."""
    lines: dict[Line, None] = {}
    with lines_met_by(lines.setdefault):
        run(box, SOURCE)
    return list(lines)


def interrupt(box: Box, where: Line) -> bool:
    """Run once, and have Ctrl-C break in before a line; False when that run never comes there."""

    def meet(line: Line) -> None:
        if line == where:
            sys.settrace(None)
            raise KeyboardInterrupt

    try:
        with lines_met_by(meet):
            run(box, SOURCE)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
def test_nothing_is_left_wherever_it_breaks_in(box: Box, groups: backend.Groups, part: int) -> None:
    run(box, SOURCE)
    lines = lines_of_a_run(box)
    others = control_groups()
    came = 0
    for line in lines[part::PARTS]:
        run(box, SOURCE)
        came += interrupt(box, line)
        box.settle()
        groups.close()
        left = control_groups() - others
        assert left == set(), line
    # Some lines are for what does not happen every time, such as a machine that is busy.
    assert came >= len(lines[part::PARTS]) / 2


@pytest.mark.usefixtures("groups")
def test_a_run_that_nobody_waits_for_ends(box: Box) -> None:
    server = box._servers[Server.FULL]
    number = next(server._numbers)
    ours, theirs = channel.pair()
    ours.close()  # its first word, and what it has to say about that, find nobody
    channel.send(server.control, {"op": "prepare", "id": number}, (theirs.fileno(),))
    theirs.close()
    server._wait_ended(number)
    # It must not have gone the long way out, on which interpreters with torch now and then never arrive.
    assert "Traceback" not in said_by(box)


def said_by(box: Box) -> str:
    """What the servers have said since they were last listened to."""
    said = box._process.stderr
    assert said is not None
    return os.read(said.fileno(), 1 << 16).decode() if select.select([said], [], [], 0)[0] else ""
