"""Beside a student's lfw_dataset.py: build the data set, read items, run the script, and tell what was seen.

Nothing here knows what is right. Items travel as fingerprints, which the judge compares with those of the
images it made for this run; figures travel as pixels.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import itertools
import multiprocessing
import os
import pickle
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torchvision.transforms import ToTensor

from lockstep.sandbox.probing import Inputs, Observation, Student, kind, plain, plain_tensor

PICTURES = 6  # at most so many figures and picture files of one script are looked at
PICTURE_SIDE = 2000  # pixels; a larger picture is scaled down
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
SPARE_HANDLES = 64  # open files that are allowed on top of those a fresh process has
IN_OPEN = 0x20  # of <sys/inotify.h>
INOTIFY_EVENT = struct.Struct("iIII")
COUNT_EVERY = 50  # items between two counts of the open files

# There is no screen here: a back end with windows, which right solutions ask for, would only raise.
plt.switch_backend("agg")
matplotlib.use = plt.switch_backend = lambda *args, **kwargs: None


def constructs(student: Student, inputs: Inputs) -> Observation:
    """Build the data set from several spellings of a path, and read its first item each time."""
    the_class(student)
    opened = watch_opens()
    os.chdir(student.data)
    attempts = []
    for path in inputs.values["paths"]:
        opened.clear()
        made, first, problem = False, {}, None
        try:
            dataset = open_dataset(student, path, ToTensor())
            made = True
            with student.calling("dataset[0]"):
                first = look(dataset[0])
        except Exception as error:
            problem = describe(student, error)
        root = student.data.removesuffix("/data")
        names = [name.removeprefix(root) for name in opened[:100]]
        attempts.append({"made": made, "opened": names, "first": first, "problem": problem})
    return Observation({"attempts": attempts})


def length(student: Student, inputs: Inputs) -> Observation:
    """What `__len__` says for each of the folders."""
    lengths = []
    for path in inputs.values["paths"]:
        dataset = open_dataset(student, path, ToTensor())
        with student.calling("len(dataset)"):
            lengths.append(plain(type(dataset).__len__(dataset)))
    return Observation({"lengths": lengths})


def items(student: Student, inputs: Inputs) -> Observation:
    """Read the items twice, in the orders that were asked for."""
    dataset = open_dataset(student, inputs.values["path"], ToTensor())
    passes = [read_items(student, dataset, order) for order in inputs.values["orders"]]
    return Observation({"passes": passes})


def transform(student: Student, inputs: Inputs) -> Observation:
    """Hand over a transform that notes what it is given and answers with a table of numbers."""
    table = inputs.tensor("table")
    given: list[str] = []

    def by_table(image: object) -> torch.Tensor:
        given.append(
            kind(image) if not isinstance(image, Image.Image) else f"a PIL image in mode {image.mode}"
        )
        if not isinstance(image, Image.Image) or image.mode != "RGB":
            return torch.zeros(1)
        return table[torch.from_numpy(np.array(image)).long()]

    dataset = open_dataset(student, inputs.values["path"], by_table)
    found = read_items(student, dataset, inputs.values["order"])
    return Observation({"given": given, "items": found})


def lazy(student: Student, inputs: Inputs) -> Observation:
    """Read items while the files under them are replaced, and count what is opened and left open."""
    folder = Path("faces_lazy").absolute()
    names = inputs.values["names"]
    write_all(folder, names, inputs.arrays["before"])
    opened = watch_opens()
    with opens_by_any_means(folder, names) as opened_by_any, few_handles() as count_handles:
        handles = [count_handles()]
        colours: list[list[int]] = []
        opens: list[int] = []
        place = "__init__"
        try:
            dataset = open_dataset(student, f"{folder}/", centre_colour)
            # Importing the file may look at images of its own.
            opened_in_init = sum(folder in Path(path).parents for path in opened)
            opened_in_init = max(opened_in_init, opened_by_any())
            handles.append(count_handles())
            indices = list(range(len(names)))
            for blob, rounds in (("after", 1), ("later", inputs.values["rounds"])):
                write_all(folder, names, inputs.arrays[blob])
                place = "an item"
                with student.calling("reading item after item"):
                    for index in indices * rounds:
                        before = len(opened)
                        try:
                            colours.append(colour_of(dataset[index]))
                        except IndexError:
                            # A data set that lost files is another check's business.
                            indices = indices[:index]
                            break
                        opens.append(len(opened) - before)
                        if len(opens) % COUNT_EVERY == 0:
                            handles.append(count_handles())
        except Exception as error:
            if not is_out_of_handles(error):
                raise
            return Observation({"out_of_handles": place, "items_read": len(opens)})
    return Observation(
        {"opened_in_init": opened_in_init, "handles": handles, "readable": len(indices)},
        {"colours": np.array(colours, np.int64).reshape(-1, 3), "opens": np.array(opens, np.int64)},
    )


def workers(student: Student, inputs: Inputs) -> Observation:
    """Read all items in this process, in two forked workers, and in one that is like a spawned one."""
    spawned = Spawned(student)
    dataset = open_dataset(student, inputs.values["path"], ToTensor())
    alone = read_items(student, dataset, list(range(inputs.values["count"])))
    # A data set that lost a file is another check's business.
    order = [index for index, item in enumerate(alone) if item["kind"] != "IndexError"]
    loader = DataLoader(dataset, batch_size=2, sampler=order, num_workers=2, collate_fn=list)
    with student.calling("iterating a DataLoader with num_workers=2"):
        forked = [look(item) for batch in loader for item in batch]
    answer: dict[str, Any] = {"items": [], "problem": None}
    try:
        with student.calling("pickling the data set for a spawned worker"):
            pickled = pickle.dumps(dataset)
        with student.calling("reading items in a spawned worker"):
            answer = spawned.read(pickled, order)
    except Exception as error:
        answer["problem"] = describe(student, error)
    return Observation(
        {"alone": alone, "forked": forked, "spawned": answer["items"], "problem": answer["problem"]}
    )


class Spawned:
    """A worker as spawn starts it: forked before the student's file was imported, it has nothing of it.

    Really spawning takes seconds, all of them for importing torch.
    """

    def __init__(self, student: Student) -> None:
        context = multiprocessing.get_context("fork")
        self.ours, theirs = context.Pipe()
        context.Process(target=self.serve, args=(student, theirs), daemon=True).start()
        theirs.close()

    def read(self, pickled: bytes, order: list[int]) -> dict[str, Any]:
        """Have the worker unpickle a data set and look at its items."""
        self.ours.send((pickled, order))
        return self.ours.recv()

    @staticmethod
    def serve(student: Student, connection: Any) -> None:
        """In the worker: import the file anew, unpickle, read."""
        pickled, order = connection.recv()
        answer: dict[str, Any] = {"items": [], "problem": None}
        try:
            the_class(student)
            dataset = pickle.loads(pickled)
            answer["items"] = [look(dataset[index]) for index in order]
        except Exception as error:
            answer["problem"] = describe(student, error)
        connection.send(answer)


def script(student: Student, inputs: Inputs) -> Observation:
    """Run the script; note its figures, its data loaders, and how it ended."""
    slow_opens(inputs.values["seconds_per_image"])
    figures = Figures()
    loaders = watch_loaders(inputs.values["seconds_per_batch"])
    bars = watch_error_bars()
    status, problem = None, None
    try:
        arguments = inputs.values["arguments"]
        status = student.run_script("lfw_dataset.py", arguments)
    except Exception as error:
        problem = describe(student, error)
    with student.calling("drawing the figures"):
        pictures = figures.finish()
    return Observation(
        {"status": status, "problem": problem, "loaders": loaders, "bars": bars},
        {f"picture{number}": picture for number, picture in enumerate(pictures)},
    )


def robust(student: Student, inputs: Inputs) -> Observation:
    """Read folders as real ones are; every trial stands for itself."""
    the_class(student)
    for folder in inputs.values["empty_folders"]:
        os.makedirs(folder)
    trials = {}
    for name, (path, count) in inputs.values["trials"].items():
        given = Path(path) if name == "pathlib" else path
        try:
            dataset = open_dataset(student, given, ToTensor())
            trials[name] = {"items": read_until_end(student, dataset, count), "problem": None}
        except Exception as error:
            trials[name] = {"items": [], "problem": describe(student, error)}
    return Observation({"trials": trials})


def read_until_end(student: Student, dataset: Any, count: int) -> list[dict[str, Any]]:
    """A look at every item up to the first IndexError, and a few more where there should be no more."""
    found: list[dict[str, Any]] = []
    for index in range(count + 8):
        with student.calling(f"dataset[{index}]"):
            try:
                found.append(look(dataset[index]))
            except IndexError:
                found.append({"kind": "IndexError"})
                break
            except Exception as error:
                found.append({"kind": "error", "problem": describe(student, error)})
    return found


def the_class(student: Student) -> Any:
    """The class LFWDataset of the student's file, which is imported once."""
    module = sys.modules.get("lfw_dataset") or student.load("lfw_dataset")
    return student.get(module, "LFWDataset")


def open_dataset(student: Student, path: str | PurePath, given_transform: object) -> Any:
    """`LFWDataset(path, transform)`, positionally as the contract has it."""
    cls = the_class(student)
    shown = f"Path({str(path)!r})" if isinstance(path, PurePath) else repr(path)
    with student.calling(f"LFWDataset({shown}, transform)"):
        return cls(path, given_transform)


def read_items(student: Student, dataset: Any, order: list[int]) -> list[dict[str, Any]]:
    """A look at each item; an index that the data set refuses is an item of kind IndexError."""
    found = []
    for index in order:
        with student.calling(f"dataset[{index}]"):
            try:
                found.append(look(dataset[index]))
            except IndexError:
                found.append({"kind": "IndexError"})
    return found


def look(item: object) -> dict[str, Any]:
    """What an item is; of (image, label) the image."""
    labelled = type(item) in (tuple, list) and len(item) > 0
    image = item[0] if labelled else item
    seen: dict[str, Any] = {"kind": kind(image), "labelled": labelled}
    array = plain_tensor(image)
    if array is not None:
        seen |= {"dtype": str(array.dtype), "shape": list(array.shape), "digest": fingerprint(array)}
    elif isinstance(image, Image.Image):
        # So that other checks still know which image it is.
        seen["digest"] = fingerprint(ToTensor()(image).numpy())
    return seen


def fingerprint(array: np.ndarray) -> str:
    """Equal for arrays of equal dtype, shape and values."""
    digest = hashlib.blake2b(f"{array.dtype} {array.shape} ".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def describe(student: Student, error: BaseException) -> dict[str, Any]:
    """An exception in words, with the place in the student's files."""
    text = str(error)
    if text.startswith("Caught ") and "DataLoader worker" in text:
        # The worker's own traceback stands above the error.
        text = text.strip().splitlines()[-1].removeprefix(f"{type(error).__name__}: ")
    # What `add_note` says stands in every traceback, below the error.
    text = " ".join([text, *map(str, getattr(error, "__notes__", ()))])
    text = text[:300].encode("utf-8", "replace").decode()
    place, step = None, error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if file.startswith(student.work + os.sep):
            place = f"{os.path.relpath(file, student.work)}, line {step.tb_lineno}"
        step = step.tb_next
    return {"type": type(error).__name__, "message": text, "place": place}


def centre_colour(image: Any) -> torch.Tensor:
    """A transform as small as can be: the colour of the pixel in the middle."""
    return torch.tensor(image.convert("RGB").getpixel((image.width // 2, image.height // 2)))


def colour_of(item: object) -> list[int]:
    """The colour an item shows, whether or not the transform was applied; -1 where it shows none."""
    image = item[0] if type(item) in (tuple, list) and len(item) > 0 else item
    if isinstance(image, Image.Image):
        return centre_colour(image).tolist()
    array = plain_tensor(image)
    if array is not None and array.shape == (3,) and array.dtype.kind in "iu":
        return array.tolist()
    if array is not None and array.ndim == 3 and array.shape[0] == 3 and array.size:
        middle = array[:, array.shape[1] // 2, array.shape[2] // 2]
        return [int(value) for value in np.clip(np.nan_to_num(np.rint(middle * 255)), 0, 255)]
    return [-1, -1, -1]


def watch_opens() -> list[str]:
    """The image files that this process opens from now on, as absolute paths; the list grows."""
    opened: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and is_image_file(arguments[0]):
            opened.append(os.path.normpath(os.path.join(os.getcwd(), os.fsdecode(arguments[0]))))

    sys.addaudithook(hook)
    return opened


@contextlib.contextmanager
def opens_by_any_means(folder: Path, names: list[str]) -> Iterator[Callable[[], int]]:
    """Gives a function that counts those of the images that were opened so far, by any library and any process.

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
        with contextlib.suppress(BlockingIOError):
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
        os.close(watching)


def is_image_file(path: object) -> bool:
    """Whether what is opened is an image by its name; a handle's number is not."""
    return type(path) in (str, bytes) and os.fsdecode(path).lower().endswith((".jpg", ".jpeg"))


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


def watch_loaders(seconds: Sequence[float]) -> list[dict[str, Any]]:
    """The data loaders that are made from now on: workers asked for, and how many batches each pass got of it.

    `length` is how many batches a whole pass has, `seconds` what a pass took up to its last batch.

    In the n-th pass over any loader every batch comes `seconds[n]` late, then over again. It is held up here, when it
    has come: what workers read ahead makes up for no delay of the last batch, so that a pass takes longer than another
    by what their delays differ, at least.
    """
    loaders: list[dict[str, Any]] = []
    make, iterate, step = DataLoader.__init__, DataLoader.__iter__, _BaseDataLoaderIter.__next__
    delays = itertools.cycle(seconds or [0.0])
    sleep, now = time.sleep, time.perf_counter

    def making(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        length = None
        # Whatever a data set of the student's own does when it is asked for its length.
        with contextlib.suppress(Exception):
            length = plain(len(self))
        batch_size = plain(self.batch_size)
        record = {
            "workers": plain(self.num_workers),
            "batch_size": batch_size,
            "length": length,
            "batches": [],
            "seconds": [],
        }
        loaders.append(record)
        object.__setattr__(self, "_seen", record)

    def iterating(self: Any) -> Any:
        began = now()
        iterator = iterate(self)
        if hasattr(self, "_seen"):
            # Persistent workers have one iterator for all passes.
            iterator._seen, iterator._pass, iterator._delay = (
                self._seen,
                len(self._seen["batches"]),
                next(delays),
            )
            iterator._began = began
            self._seen["batches"].append(0)
            self._seen["seconds"].append(0.0)
        return iterator

    def stepping(self: Any) -> Any:
        batch = step(self)
        if hasattr(self, "_seen"):
            self._seen["batches"][self._pass] += 1
            sleep(self._delay)
            self._seen["seconds"][self._pass] = now() - self._began
        return batch

    DataLoader.__init__, DataLoader.__iter__ = making, iterating
    _BaseDataLoaderIter.__next__ = stepping
    return loaders


def watch_error_bars() -> list[dict[str, Any]]:
    """What `errorbar` is asked to draw from now on."""
    bars: list[dict[str, Any]] = []
    draw = matplotlib.axes.Axes.errorbar

    def drawing(self: Any, x: Any, y: Any, yerr: Any = None, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            heights, errors = (np.atleast_1d(np.asarray(values, float)) for values in (y, yerr))
            if np.isfinite(heights).all() and np.isfinite(errors).all():
                bars.append({"y": heights[:20].tolist(), "yerr": errors[:20].tolist()})
        return draw(self, x, y, yerr, *args, **kwargs)

    matplotlib.axes.Axes.errorbar = drawing
    return bars


class Figures:
    """Every figure the script shows, saves, closes or leaves behind, and every picture file it writes."""

    def __init__(self) -> None:
        self.pictures: list[np.ndarray] = []
        self.started = picture_files()
        save, close = Figure.savefig, plt.close

        # Arguments have the names that matplotlib gives them.
        def saving(figure: Figure, fname: Any, *args: Any, **kwargs: Any) -> Any:
            result = save(figure, fname, *args, **kwargs)
            if is_picture_file(fname):
                figure.stale = False  # the file is read at the end; drawing it as well would take time
            else:
                self.draw(figure)
            return result

        def showing(*args: Any, **kwargs: Any) -> None:
            self.draw_open()

        def closing(*args: Any, **kwargs: Any) -> None:
            self.draw_open()
            close(*args, **kwargs)

        Figure.savefig, plt.show, plt.close = saving, showing, closing
        Image.Image.show = lambda image, *args, **kwargs: self.add(image)

    def draw_open(self) -> None:
        """Draw the figures that changed since they were last drawn or saved."""
        for number in plt.get_fignums():
            figure = plt.figure(number)
            if figure.stale and figure.axes:
                self.draw(figure)

    def draw(self, figure: Figure) -> None:
        """Keep what a figure shows."""
        if len(self.pictures) >= PICTURES:
            return
        figure.set_dpi(min(150, PICTURE_SIDE / max(figure.get_size_inches())))
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        self.pictures.append(np.array(canvas.buffer_rgba())[..., :3].copy())

    def add(self, image: Image.Image) -> None:
        """Keep what a picture shows."""
        if len(self.pictures) < PICTURES:
            image = image.convert("RGB")
            image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
            self.pictures.append(np.array(image))

    def finish(self) -> list[np.ndarray]:
        """All of them."""
        self.draw_open()
        for path, _ in sorted(picture_files() - self.started):
            with contextlib.suppress(Exception), Image.open(path) as image:
                self.add(image)
        return self.pictures


def is_picture_file(target: object) -> bool:
    """Whether `savefig` writes a file that can be read back as pixels."""
    if not isinstance(target, (str, PurePath)):
        return False
    return PurePath(target).suffix.lower() in ("", *PICTURE_SUFFIXES)


def picture_files() -> set[tuple[str, int]]:
    """The pictures in the student's folder, each with when it was written: one of an earlier run may be handed in."""
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names)
    return {(path, os.lstat(path).st_mtime_ns) for path in paths if path.lower().endswith(PICTURE_SUFFIXES)}
