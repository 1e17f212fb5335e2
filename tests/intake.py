"""What the tests of the intake share: archives to hand in, and a watch over what reading them does."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from lockstep.submission import SubmissionError, open_submission

quick = settings(
    database=None,
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return buffer.getvalue()


class Watch:
    """Reports whatever writes, starts or unpickles something while it is armed."""

    def __init__(self) -> None:
        self._armed = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._armed:
            return
        # A descriptor that becomes a file object was heard of when it was opened.
        is_opened = event == "open" and not isinstance(arguments[0], int)
        is_writing = is_opened and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        is_acting = event.startswith(
            ("os.", "subprocess.", "shutil.", "socket.", "pickle.", "ctypes.", "tempfile.")
        )
        if is_writing or (is_acting and event not in {"os.scandir", "os.listdir"}):
            self.seen.append(f"{event} {arguments}")

    @contextmanager
    def armed(self) -> Iterator[None]:
        self._armed = True
        try:
            yield
        finally:
            self._armed = False


WATCH = Watch()


def taken_or_refused(path: Path, data: bytes) -> None:
    """The one promise for any bytes at all: a Submission or a SubmissionError, and nothing left behind."""
    path.write_bytes(data)
    before = sorted(path.parent.iterdir())
    with WATCH.armed():
        try:
            said = " ".join(open_submission(path).notes)
        except SubmissionError as error:
            said = str(error)
    assert said.isprintable()
    assert WATCH.seen == []
    assert sorted(path.parent.iterdir()) == before
