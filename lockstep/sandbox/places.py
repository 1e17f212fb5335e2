"""The folders of one run, and the files that it finds in them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lockstep import wire
from lockstep.sandbox import confine, memoryfile, processes, warm
from lockstep.sandbox.job import Job
from lockstep.wire import Json

MIB = 1 << 20


@dataclass(frozen=True)
class Place:
    """Folders of one run: work (the student's), data (ranks that are apart can only read it), run (stand-ins), tmp."""

    work: str
    data: str
    run: str
    tmp: str


_kept: list[str] = []


def keep_folders() -> None:
    """In the sandbox's server: have its runs find the folders that modules have made in /tmp when it imported them.

    wandb writes pictures and tables into one.
    """
    with os.scandir("/tmp") as entries:
        _kept[:] = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def put_data(job: Job) -> None:
    """In the sandbox: the run's data sets. Where ranks are apart they may read them and leave nothing there."""
    confine.tmpfs("/data", 256 * MIB, inodes=65536)
    _write_data(job, "/data")
    if job.spec["apart"] is True:
        confine.read_only("/data")


def sandboxed(job: Job) -> Place:
    """In the sandbox: folders in memory that are seen where this is called, and from there on."""
    limits = cast(dict[str, int], job.spec["limits"])
    # What is laid there takes nothing from the student's own room.
    confine.tmpfs("/work", limits["disk"] + os.fstat(job.files_fd).st_size)
    confine.tmpfs("/tmp", limits["disk"])
    for folder in _kept:
        os.mkdir(folder, 0o700)
    confine.tmpfs("/run", 1 * MIB, inodes=64)
    confine.tmpfs("/dev/shm", limits["shared_memory"])
    confine.own_terminals()
    place = Place("/work", "/data", "/run", "/tmp")
    _fill(job, place)
    return place


@contextlib.contextmanager
def temporary(job: Job) -> Iterator[Place]:
    """Without a sandbox: folders of the run's own, which go with it and with everything that it started."""
    confine.adopt_orphans()
    root = tempfile.mkdtemp(prefix="run-", dir=job.workspace)
    place = Place(*(os.path.join(root, name) for name in ("work", "data", "run", "tmp")))
    for folder in (place.work, place.data, place.run, place.tmp):
        os.mkdir(folder)
    try:
        _write_data(job, place.data)
        _fill(job, place)
        yield place
    finally:
        processes.end_descendants()
        shutil.rmtree(root, ignore_errors=True)


def _fill(job: Job, place: Place) -> None:
    _write_files(wire.unpack(memoryfile.read(job.files_fd)), place.work)
    warm.write_stand_ins(place.run)


def _write_data(job: Job, folder: str) -> None:
    for name, fd in zip(cast(list[str], job.spec["data"]), job.data_fds, strict=True):
        _write_files(wire.unpack(memoryfile.read(fd)), os.path.join(folder, name))


def _write_files(frame: wire.Frame, folder: str) -> None:
    """Write a pack: `files` lists [path, size, executable], the array `content` holds them end to end."""
    content = frame.arrays["content"].tobytes()
    offset = 0
    os.makedirs(folder, exist_ok=True)
    made = {folder}
    for entry in cast(list[list[Json]], frame.values["files"]):
        path, size, executable = cast(str, entry[0]), cast(int, entry[1]), entry[2] is True
        target = Path(folder, path)
        if str(target.parent) not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(str(target.parent))
        target.write_bytes(content[offset : offset + size])
        if executable:
            target.chmod(0o755)
        offset += size
