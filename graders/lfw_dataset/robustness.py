"""Folders as real ones are: each a trial with its share of the point and a sentence when it goes wrong."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from graders.lfw_dataset import faces
from graders.lfw_dataset.looks import Look, Made, as_it_is, looks, prints_of, problem_text
from lockstep.text import listed
from lockstep.wire import Json

# Names that every usual way to take an ending off a name can be given, whichever are drawn.
READMES = ("README.txt", "README.md", "index.html")
LEFT_BEHIND = ("Thumbs.db", "desktop.ini", "checksums.md5")
# With a number between the two: no list of names holds it. None has ".jpg" in it, which many look for wherever it is.
NOTES, NOTES_END = ("labels", "boxes", "landmarks"), (".txt", ".json", ".csv")

_Judge = Callable[["Trial", list[Look]], str]


@dataclass(frozen=True)
class Trial:
    """One folder and what must be read from it; `share` of the point is lost with a complaint."""

    title: str
    share: float
    hint: str
    path: str
    files: Mapping[str, bytes]
    pixels: Mapping[str, np.ndarray]
    judge: _Judge
    made: Made = as_it_is

    @property
    def prints(self) -> dict[str, str]:
        """The fingerprint of every image that must be read, and whose it is."""
        return prints_of(faces.Tree({}, dict(self.pixels)), self.made)

    def complaint(self, answer: Mapping[str, Json]) -> str:
        """What went wrong, or nothing."""
        if problem := problem_text(answer.get("problem")):
            return f"raised {problem}"
        return self.judge(self, looks(answer.get("items")))


def trials(rng: np.random.Generator) -> dict[str, Trial]:
    """A fresh set of trials, by the names of their folders."""
    clean = faces.make_tree(rng, 2, 4)
    clutter = faces.make_tree(rng, 3, 5)
    stray = _stray(rng, clutter)
    upper = faces.make_tree(rng, 2, 4)
    renamed = {name: name.removesuffix(".jpg") + ".JPG" for name in list(upper.files)[::2]}
    return {
        "clutter": Trial(
            f"A folder with {listed(sorted({name.split('/')[-1] for name in stray}))} and an empty folder in it",
            0.25,
            "Keep files that end in .jpg, and look into folders only: os.path.isdir, or glob('*/*.jpg').",
            "clutter/",
            {**clutter.files, **stray},
            clutter.pixels,
            _reads_all,
        ),
        "upper": Trial(
            "Images named .JPG",
            0.1,
            "Compare the ending in lower case: name.lower().endswith('.jpg').",
            "/data/upper/",
            {renamed.get(name, name): data for name, data in upper.files.items()},
            {renamed.get(name, name): pixels for name, pixels in upper.pixels.items()},
            _reads_all,
        ),
        "grey": _odd_image(rng, "L", "A grey image", 0.15),
        "cmyk": _odd_image(rng, "CMYK", "A CMYK image", 0.1),
        "pathlib": Trial(
            "A pathlib.Path instead of a str",
            0.15,
            "os.path.join, glob and Path(folder) take both; folder + '/' takes only a str.",
            "/data/pathlib/",
            clean.files,
            clean.pixels,
            _reads_all,
        ),
        "past_the_end": Trial(
            "dataset[len(dataset)]",
            0.15,
            "Python ends `for image in dataset` at an IndexError; a list raises it, `% len` takes it away.",
            "/data/past_the_end/",
            clean.files,
            clean.pixels,
            _ends,
        ),
        "truncated": _truncated(rng),
    }


def _stray(rng: np.random.Generator, tree: faces.Tree) -> dict[str, bytes]:
    """Files that do not end as images do: of file managers and downloads, and notes on a person's images.

    There is no list of people or images among them: whoever finds one may go by it.
    """
    people = _people(tree)
    return {
        ".DS_Store": rng.bytes(64),
        f"{people[0]}/.DS_Store": rng.bytes(64),
        str(rng.choice(READMES)): b"Labeled Faces in the Wild\n",
        f"{rng.choice(people)}/{rng.choice(LEFT_BEHIND)}": rng.bytes(64),
        f"{rng.choice(people)}/{rng.choice(NOTES)}_{rng.integers(100, 1000)}{rng.choice(NOTES_END)}": b"seen\n",
    }


def _people(tree: faces.Tree) -> list[str]:
    return sorted({name.split("/")[0] for name in tree.files})


def _odd_image(rng: np.random.Generator, mode: str, title: str, share: float) -> Trial:
    tree = faces.make_tree(rng, 2, 3)
    name = list(tree.files)[1]
    file = io.BytesIO()
    faces.patchwork(rng).convert(mode).save(file, "JPEG", quality=90)
    folder = "/data/grey/" if mode == "L" else "/data/cmyk/"
    return Trial(
        f"{title} among the others",
        share,
        'Image.open(path).convert("RGB") makes three channels of every image.',
        folder,
        {**tree.files, name: file.getvalue()},
        {**tree.pixels, name: faces.read(file.getvalue())},
        _reads_all,
    )


def _truncated(rng: np.random.Generator) -> Trial:
    tree = faces.make_tree(rng, 2, 4)
    name = list(tree.files)[int(rng.integers(tree.count))]
    cut = tree.files[name][: len(tree.files[name]) // 2]
    return Trial(
        "A truncated image",
        0.1,
        "Of 13,233 files one is broken, and PIL does not say which: catch OSError in `__getitem__` and raise "
        "one with the path in its message. ImageFile.LOAD_TRUNCATED_IMAGES fills up with grey what is missing.",
        "/data/truncated/",
        {**tree.files, name: cut},
        {path: pixels for path, pixels in tree.pixels.items() if path != name},
        lambda trial, found: _names(trial, found, name),
    )


def _reads_all(trial: Trial, found: list[Look]) -> str:
    """A complaint unless exactly the folder's images come, in any order; past the end they may come again."""
    prints = trial.prints
    for look in found:
        if look.kind == "error":
            return f"reading an item raised {look.problem}"
        if look.kind != "IndexError" and look.digest not in prints:
            size = "x".join(map(str, look.shape))
            return (
                f"an item is a tensor of shape {size} that is no image of the folder"
                if size
                else f"an item is {look.kind}"
            )
    missing = len(set(prints) - {look.digest for look in found})
    return f"{missing} of {len(prints)} images are not in the data set" if missing else ""


def _ends(trial: Trial, found: list[Look]) -> str:
    if complaint := _reads_all(trial, [look for look in found if look.kind != "error"]):
        return complaint
    after = found[-1]
    if after.kind == "IndexError":
        return ""
    return (
        f"raised {after.problem}, not IndexError"
        if after.kind == "error"
        else f"gave {after.kind}, no IndexError"
    )


def _names(trial: Trial, found: list[Look], name: str) -> str:
    broken = [look for look in found if look.kind == "error"]
    if complaint := _reads_all(trial, [look for look in found if look.problem == ""]):
        return complaint
    if not broken:
        return "was passed over, or read as if it were whole"
    file = name.split("/")[-1].removesuffix(".jpg")
    return "" if file in broken[0].problem else f"the error does not name the file: {broken[0].problem}"
