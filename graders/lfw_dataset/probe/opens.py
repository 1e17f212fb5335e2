"""Which images are opened, when, and how many stay open."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from lockstep.sandbox.probing import Inputs, Observation, Student
from lockstep.wire import Json

from .reading import centre_colour, colour_of, open_dataset

SPARE_HANDLES = 64  # open files that are allowed on top of those a fresh process has
IN_OPEN = 0x20  # of <sys/inotify.h>
INOTIFY_EVENT = struct.Struct("iIII")
COUNT_EVERY = 50  # items between two counts of the open files


def lazy(student: Student, inputs: Inputs) -> Observation:
    """Read items while the files under them are replaced, and count what is opened and left open."""
    folder = Path("faces_lazy").absolute()
    names = cast(list[str], inputs.values["names"])
    write_all(folder, names, inputs.arrays["before"])
    opened, listed = watch_opens(), watch_listings(folder)
    with opens_by_any_means(folder, names) as opened_by_any, few_handles() as count_handles:
        handles = [count_handles()]
        colours: list[list[int]] = []
        opens: list[int] = []
        listings: list[int] = []
        place = "__init__"
        try:
            dataset = open_dataset(student, f"{folder}/", centre_colour)
            # Importing the file may look at images of its own.
            opened_in_init = sum(folder in Path(path).parents for path in opened)
            opened_in_init = max(opened_in_init, opened_by_any())
            handles.append(count_handles())
            indices = list(range(len(names)))
            for blob, rounds in (("after", 1), ("later", cast(int, inputs.values["rounds"]))):
                write_all(folder, names, inputs.arrays[blob])
                place = "an item"
                with student.calling("reading item after item"):
                    for index in indices * rounds:
                        before, listed_before = len(opened), len(listed)
                        try:
                            colours.append(colour_of(dataset[index]))
                        except IndexError:
                            # A data set that lost files is another check's business.
                            indices = indices[:index]
                            break
                        opens.append(len(opened) - before)
                        listings.append(len(listed) - listed_before)
                        if len(opens) % COUNT_EVERY == 0:
                            handles.append(count_handles())
        except Exception as error:
            if not is_out_of_handles(error):
                raise
            return Observation({"out_of_handles": place, "items_read": len(opens)})
    return Observation(
        {"opened_in_init": opened_in_init, "handles": cast(Json, handles), "readable": len(indices)},
        {
            "colours": np.array(colours, np.int64).reshape(-1, 3),
            "opens": np.array(opens, np.int64),
            "listings": np.array(listings, np.int64),
        },
    )


def watch_opens() -> list[str]:
    """The image files that this process opens from now on, as absolute paths; the list grows."""
    opened: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and is_image_file(arguments[0]):
            opened.append(os.path.normpath(os.path.join(os.getcwd(), os.fsdecode(arguments[0]))))

    sys.addaudithook(hook)
    return opened


def watch_listings(folder: Path) -> list[None]:
    """Grows whenever this process lists `folder` or one below it."""
    listed: list[None] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("os.listdir", "os.scandir") or not isinstance(
            arguments[0], str | bytes | os.PathLike
        ):
            return
        if Path(os.path.abspath(os.fsdecode(arguments[0]))).is_relative_to(folder):
            listed.append(None)

    sys.addaudithook(hook)
    return listed


@contextlib.contextmanager
def opens_by_any_means(folder: Path, names: list[str]) -> Iterator[Callable[[], int]]:
    """Gives a function that counts those of the images that were opened since it last did, by any library or process.

    Python tells of no file that a library in C opens, nor of what happens in other processes. Where the kernel cannot
    be asked, none is counted.
    """
    kernel = ctypes.CDLL(None, use_errno=True)
    watching = kernel.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watching < 0:
        yield lambda: 0
        return
    people: dict[int, str] = {}
    for person in {os.path.dirname(name) for name in names}:
        watch = kernel.inotify_add_watch(watching, os.fsencode(folder / person), IN_OPEN)
        people[watch] = person
    images = set(names)

    def count() -> int:
        opened: set[str] = set()
        with contextlib.suppress(OSError):
            while events := os.read(watching, 1 << 16):
                place = 0
                while place < len(events):
                    watch, _, _, length = INOTIFY_EVENT.unpack_from(events, place)
                    place += INOTIFY_EVENT.size
                    name = events[place : place + length].rstrip(b"\0")
                    place += length
                    opened.add(os.path.join(people.get(watch, ""), os.fsdecode(name)))
        return len(opened & images)

    try:
        yield count
    finally:
        # A script may have closed all files that are open.
        with contextlib.suppress(OSError):
            os.close(watching)


def is_image_file(path: object) -> bool:
    """Whether what is opened is an image by its name; a handle's number is not."""
    name = os.fsdecode(cast("str | bytes", path)) if type(path) in (str, bytes) else ""
    return name.lower().endswith((".jpg", ".jpeg"))


def slow_opens(seconds: float) -> None:
    """Make every opening of an image take a little longer, as on a slow disk; in workers too."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and is_image_file(arguments[0]):
            sleep(seconds)

    sleep = time.sleep
    if seconds:
        sys.addaudithook(hook)


@contextlib.contextmanager
def few_handles() -> Iterator[Callable[[], int]]:
    """Allow only a few more open files than there are; gives a function that counts the open ones."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(os.devnull, os.O_RDONLY)
    os.close(highest)
    low = min(highest + SPARE_HANDLES, limits[0])

    def count() -> int:
        return sum(map(is_open, range(low)))

    resource.setrlimit(resource.RLIMIT_NOFILE, (low, limits[1]))
    try:
        yield count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def is_out_of_handles(error: BaseException | None) -> bool:
    """Whether this error, or one that it was raised for, says that too many files are open."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.EMFILE:
            return True
        error = error.__cause__ or error.__context__
    return False


def is_open(handle: int) -> bool:
    """Whether this number is an open file."""
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def write_all(folder: Path, names: list[str], blob: np.ndarray) -> None:
    """Put the same file under all names. A file that is open keeps what it held."""
    new = folder / "new"
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(blob.tobytes())
        new.replace(path)
