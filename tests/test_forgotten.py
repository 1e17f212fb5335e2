"""What SIGKILL leaves of a lockstep that was starting a box is ended by the next lockstep, and nobody else's box is."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lockstep.sandbox import bubblewrap, forgotten
from tests.sandboxed import ROOT

# bubblewrap's second process waits for its first, which this option keeps from telling it to go on.
STARTS = """
import os, subprocess, sys
from lockstep.sandbox import bubblewrap, forgotten
never, unwritten = os.pipe()
said, says = os.pipe()
box = subprocess.Popen(
    [bubblewrap.find(), "--die-with-parent", "--unshare-all", "--unshare-user", "--ro-bind", "/", "/",
     "--userns-block-fd", str(never), "--info-fd", str(says), "true"],
    pass_fds=(never, unwritten, says), env={**forgotten.mark("a box"), **dict(word.split("=", 1) for word in sys.argv[1:])},
)
os.close(says)
print(box.pid, os.read(said, 100).decode().split(":")[1].split(",")[0], flush=True)
sys.stdin.read()
"""


@contextmanager
def half_started(*environment: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A process that owns a box, and handles of bubblewrap's first and second, all waiting for ever."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTS, *environment],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        first, second = (os.pidfd_open(int(pid)) for pid in re.findall(r"\d+", owner.stdout.readline()))
        try:
            yield owner, first, second
        finally:
            for handle in (first, second):
                if not has_ended(handle):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                os.close(handle)
            owner.kill()


def has_ended(handle: int, seconds: float = 0.0) -> bool:
    """Whether a process has ended, or does so within this time."""
    return bool(select.select([handle], [], [], seconds)[0])


def test_what_a_killed_lockstep_left_of_a_box_is_ended_by_the_next() -> None:
    with half_started() as (owner, first, second):
        owner.kill()
        assert has_ended(first, 60)
        assert not has_ended(second), "bubblewrap ends it by now: nothing of this is needed any more"
        forgotten.remove()
        assert has_ended(second)


def test_the_box_of_a_lockstep_that_lives_goes_on() -> None:
    with half_started() as (_, _, second):
        forgotten.remove()
        assert not has_ended(second)


def test_a_box_that_is_closed_before_it_started_is_ended_and_no_other() -> None:
    with half_started() as (owner, first, second):
        signal.pidfd_send_signal(first, signal.SIGKILL)
        assert has_ended(first, 60)
        forgotten.remove_box("another box")
        assert not has_ended(second)
        forgotten.remove_box("a box")
        assert has_ended(second)
        assert owner.poll() is None


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param("pid:[1] 4194303 17", id="in another pid namespace"),
        pytest.param("", id="nobody's"),
        pytest.param("a b c", id="not a mark of ours"),
    ],
)
def test_a_box_of_which_we_cannot_know_goes_on(owner: str) -> None:
    with half_started(f"{forgotten.OWNER}={owner}") as (_, _, second):
        forgotten.remove()
        assert not has_ended(second)


def test_another_process_with_the_number_of_the_owner_is_not_the_owner() -> None:
    numbering, pid, begun = forgotten.mark("a box")[forgotten.OWNER].split()
    with half_started(f"{forgotten.OWNER}={numbering} {pid} {int(begun) - 1}") as (_, _, second):
        forgotten.remove()
        assert has_ended(second)


def test_nothing_in_a_box_carries_the_mark() -> None:
    told = bubblewrap.command(["true"], {}, {}, {}, None)
    assert "--clearenv" in told
    assert forgotten.OWNER not in " ".join(told)
