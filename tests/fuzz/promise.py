"""What holds for every input, whoever reads it: a value or the one refusal, soon, in little memory, and nothing else.

Time is the CPU time of this process and memory the peak of what is resident, so that a busy machine changes neither.
"""

from __future__ import annotations

import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from lockstep.text import safe
from tests.intake import WATCH

CPU_SECONDS = 20.0
"""What one input of a few kilobytes may take. Milliseconds are usual; only what does not end comes near."""
MEMORY = 192 << 20
"""What reading one may add to this process, in bytes: an archive expands to seventy megabytes, which are held twice."""
ROOT = Path(__file__).parents[2]

Value = TypeVar("Value")


class DoesNotEnd(BaseException):
    """Raised in the middle of what takes too long; no Exception, so that nothing takes it for a damaged file."""


def held(
    read: Callable[[], Value], *refusals: type[Exception], memory: int = MEMORY, writes: Path | None = None
) -> Value | None:
    """What `read` returns, or None where it refused in a sentence that anybody may see.

    Fails where it raises anything else, does not end, takes more than `memory` bytes, or writes, unless below the
    folder `writes`.
    """
    told: str | None = None
    value: Value | None = None
    WATCH.seen.clear()
    with _bounded(memory), WATCH.armed():
        try:
            value = read()
        except refusals as error:
            told = str(error)
    # Python keeps what it compiles where something is imported for the first time.
    acts = [act for act in WATCH.seen if "__pycache__" not in act]
    assert [act for act in acts if writes is None or str(writes) not in act] == []
    if told is not None:
        presentable(told)
    return value


def presentable(*messages: str) -> None:
    """Each can be shown as it is: something is said, on any terminal, and no path of this machine."""
    for message in messages:
        assert message.strip(), "nothing is said"
        assert safe(message, len(message)) == message, ascii(message)
        for place in (ROOT, sys.prefix, tempfile.gettempdir()):
            assert f"{place}/" not in message, message


@contextmanager
def _bounded(memory: int) -> Iterator[None]:
    before = signal.signal(signal.SIGPROF, _ring)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    held_before = _kilobytes("VmRSS")
    # Sets the peak back to the present (proc(5)).
    Path("/proc/self/clear_refs").write_text("5")
    # Far more than is measured below: what asks for all there is must not take the machine with it.
    resource.setrlimit(resource.RLIMIT_AS, (_kilobytes("VmSize") * 1024 + memory + (1 << 30), limits[1]))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGPROF, before)
    grown = (_kilobytes("VmHWM") - held_before) * 1024
    assert grown <= memory, f"{grown >> 20} MiB were needed"


def _ring(_: int, __: FrameType | None) -> None:
    raise DoesNotEnd(f"not done after {CPU_SECONDS:g} s of CPU time")


def _kilobytes(name: str) -> int:
    for line in Path("/proc/self/status").read_bytes().splitlines():
        if line.startswith(name.encode() + b":"):
            return int(line.split()[1])
    raise LookupError(name)
