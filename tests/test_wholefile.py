"""A file that is written whole: who may read it, and where it cannot be written, which it is."""

from __future__ import annotations

import errno
import io
import os
import stat
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


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_is_as_open_as_the_umask_lets_it_be(tmp_path: Path, umask: int, expected: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "grades.csv", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "grades.csv").stat().st_mode) == expected


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path, link = tmp_path / "review.csv", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(mode)
    link.symlink_to(path)
    for place in (path, link):
        write_whole(place, b"new")
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, path]
