"""What is printed, where nobody reads it any more, where it cannot be written, and where there is no stream at all.

Stdout is what was asked for: when it does not arrive, the command ends and says so by its status. Stderr is told
besides: when it does not arrive, the work goes on.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

_STREAMS = {"stdin": os.O_RDONLY, "stdout": os.O_WRONLY, "stderr": os.O_WRONLY}
"""In the order of their descriptors."""


# Neither is an OSError: those that commands catch are about files, which have names.
class Unread(Exception):
    """Whoever read along, such as `head`, has enough."""


class Unwritable(Exception):
    """What was asked for cannot be written; the message is a sentence that says why."""


class Stream(io.TextIOWrapper):
    """A text file on a descriptor of its own that raises `Unread` and `Unwritable`, or falls silent.

    Characters that the encoding lacks come out as `?` instead of ending the program.
    """

    def __init__(self, descriptor: int, encoding: str | None, *, asked_for: bool) -> None:
        """Take over the `descriptor`; what is not `asked_for` may fail to arrive."""
        self._asked_for = asked_for
        super().__init__(os.fdopen(descriptor, "wb"), encoding=encoding, errors="replace")

    def write(self, text: str) -> int:
        """See TextIOWrapper."""
        with self._failing():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """See TextIOWrapper."""
        with self._failing():
            super().flush()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _silence(self)
            if self._asked_for:
                raise _why(error) from None


def stream_for(stream: TextIO) -> Stream | None:
    """A stream on the same file as one of this process's; None where there is no file, but a StringIO for instance."""
    try:
        descriptor = os.dup(stream.fileno())
    except (OSError, ValueError):
        return None
    return Stream(descriptor, stream.encoding, asked_for=stream is not sys.stderr)


def open_missing() -> None:
    """Put /dev/null where a standard stream was closed (`>&-`): the next file would get its descriptor."""
    for number, (name, mode) in enumerate(_STREAMS.items()):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, mode)  # the lowest that is free
            os.set_inheritable(null, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if mode == os.O_RDONLY else "w", closefd=False))


def say(text: str) -> None:
    """Print what was asked for. Raises Unread and Unwritable."""
    try:
        print(text, flush=True)
    except OSError as error:
        _silence(sys.stdout)
        raise _why(error) from None


def complain(sentence: str) -> None:
    """Print a sentence on stderr, where there is somebody to read it."""
    if isinstance(sys.stderr, io.TextIOWrapper):
        # A sentence must never end in a traceback, whatever the encoding.
        sys.stderr.reconfigure(errors="replace")
    try:
        print(f"lockstep: {sentence}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)


def flush() -> None:
    """Write what is held back, which must not fail at the end of Python. Raises Unread and Unwritable."""
    try:
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)
    try:
        sys.stdout.flush()
    except OSError as error:
        _silence(sys.stdout)
        raise _why(error) from None


def _why(error: OSError) -> Unread | Unwritable:
    if error.errno == errno.EPIPE:
        return Unread()
    full = error.errno == errno.ENOSPC
    reason = "no space left on the device" if full else (error.strerror or "unknown reason").lower()
    return Unwritable(f"the output cannot be written: {reason}")


def _silence(stream: TextIO) -> None:
    """Let what follows, and what is still held back, go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
