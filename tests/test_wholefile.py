"""A file that cannot be written whole: the error says which."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import IO

import pytest

from lockstep.wholefile import write_whole


def test_a_full_disk_says_which_file_it_could_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, _: str) -> IO[bytes]:
        os.close(handle)
        return Path("/dev/full").open("wb", buffering=io.DEFAULT_BUFFER_SIZE)

    monkeypatch.setattr(os, "fdopen", full)
    for path in (tmp_path / "grades.csv", Path("/dev/full")):
        with pytest.raises(OSError, match="No space left") as refused:
            write_whole(path, b"x")
        assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, str(path))
    assert list(tmp_path.iterdir()) == []
