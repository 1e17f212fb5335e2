"""What came back from the sandbox about items, and sentences about how it differs from the hidden tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from graders.lfw_dataset.faces import Tree, fingerprint, to_tensor
from lockstep.compare import elements
from lockstep.text import safe_line
from lockstep.wire import Json


@dataclass(frozen=True)
class Look:
    """What one item was: its kind in words, whether it came as (image, label), its fingerprint if any."""

    kind: str
    labelled: bool = False
    digest: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    problem: str = ""

    @property
    def is_tensor(self) -> bool:
        """Whether the item (or the first of a pair) was a plain tensor."""
        return bool(self.dtype)


def looks(value: Json) -> list[Look]:
    """Looks as the probe sent them. Anything that is not of their form is an item of unknown kind."""
    return [_look(item) for item in elements(value)]


def _look(value: object) -> Look:
    if not isinstance(value, dict):
        return Look("nothing that can be read")
    shape = value.get("shape")
    return Look(
        kind=safe_line(text(value.get("kind")), 80),
        labelled=value.get("labelled") is True,
        digest=text(value.get("digest")),
        shape=tuple(shape) if isinstance(shape, list) and all(map(_is_size, shape[:9])) else (),
        dtype=safe_line(text(value.get("dtype")), 20),
        problem=problem_text(value.get("problem")),
    )


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 40


def text(value: object) -> str:
    """The value where it is a string, otherwise an empty one."""
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """The value where it is an int or a float of ordinary size, otherwise None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    return None


def problem_text(value: object) -> str:
    """An exception as the probe described it: `OSError: ... (lfw_dataset.py, line 31)`."""
    if not isinstance(value, dict):
        return ""
    place = safe_line(text(value.get("place")), 80)
    told = f"{safe_line(text(value.get('type')), 60)}: {safe_line(text(value.get('message')), 240)}"
    return f"{told} ({place})" if place else told


Made = Callable[[np.ndarray], np.ndarray]
"""What becomes of an image after ToTensor."""


def as_it_is(image: np.ndarray) -> np.ndarray:
    """Nothing, as is asked for."""
    return image


def prints_of(tree: Tree, made: Made = as_it_is) -> dict[str, str]:
    """The fingerprint of every image of a tree after ToTensor, and whose it is."""
    return {fingerprint(made(to_tensor(pixels))): path for path, pixels in tree.pixels.items()}


@dataclass(frozen=True)
class Difference:
    """What is wrong with items, and the usual cause with the next step."""

    message: str
    hint: str


def difference(found: list[Look], tree: Tree) -> Difference | None:
    """How the items differ, as a multiset, from the tree's images after ToTensor; None where they do not."""
    for index, look in enumerate(found):
        if not look.is_tensor and look.kind != "IndexError":
            return _no_tensor(index, look)
    refused = sum(look.kind == "IndexError" for look in found)
    if refused:
        return Difference(
            f"The folder holds {tree.count} images, but {refused} of the indices 0 to {tree.count - 1} "
            "raise IndexError.",
            "Your list of files is shorter than the folder's. Print it beside `find FOLDER -name '*.jpg'` "
            "and look which files are missing: often the last, or each person's first or last. Is it as long? Then "
            "items are counted from 1: the first is self.paths[0].",
        )
    expected = prints_of(tree)
    strange = [look for look in found if look.digest not in expected]
    if strange:
        return _strange(strange[0], len(strange), len(found), tree)
    times = Counter(look.digest for look in found)
    twice = [expected[key] for key, count in times.items() if count > 1]
    missing = [path for key, path in expected.items() if key not in times]
    if len(times) == 1 and len(found) > 1:
        return Difference(
            f"All {len(found)} items are the same image, {twice[0]}.",
            "`__getitem__` must open the file that belongs to `index`; look for a fixed index in it.",
        )
    if missing or twice:
        return Difference(
            f"Of the {tree.count} images {len(missing)} never came and {len(twice)} came more than once; "
            f"{missing[0] if missing else twice[0]} is one of them.",
            "Every file must belong to exactly one index: look how the list of paths is built.",
        )
    return None


def _no_tensor(index: int, look: Look) -> Difference:
    advice = {
        "None": "A `return` is missing, or the transform's result is not returned.",
        "a PIL image": "Return `self.transform(image)`: calling the transform changes nothing in place.",
        "a NumPy array": "Return the tensor that the transform gives.",
    }
    item = f"dataset[{index}][0]" if look.labelled else f"dataset[{index}]"
    return Difference(
        f"{item} is {look.kind}, not a torch.Tensor.",
        advice.get(
            look.kind, "`__getitem__` returns the transformed image, one plain tensor, and nothing else."
        ),
    )


def _strange(look: Look, strange: int, found: int, tree: Tree) -> Difference:
    message = (
        f"{strange} of {found} items are not what transforms.ToTensor() makes of an image of the folder; "
        f"one is a {look.dtype} tensor of shape {_shape(look.shape)}."
    )
    pixels = list(tree.pixels.values())
    for cause, variant in _VARIANTS.items():
        if any(fingerprint(variant(to_tensor(image))) == look.digest for image in pixels):
            return Difference(message, cause)
    size = next(iter(pixels)).shape[:2]
    if look.shape != (3, *size):
        return Difference(
            message,
            f"The images are {size[1]}x{size[0]} RGB, so shape {_shape((3, *size))} was expected: leave "
            "sizes and channels to the transform that is passed in.",
        )
    return Difference(
        message,
        "Open the image with PIL, convert it to RGB, and return what the given transform makes of it: "
        "no second transform, no resizing, no rounding of your own.",
    )


def _shape(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


_VARIANTS: dict[str, Made] = {
    "Red and blue are swapped: that is OpenCV's order. Read with PIL.": lambda t: np.ascontiguousarray(
        t[::-1]
    ),
    "The channels are last: return the transform's tensor as it is, (3, height, width).": lambda t: (
        np.ascontiguousarray(t.transpose(1, 2, 0))
    ),
    "Height and width are swapped.": lambda t: np.ascontiguousarray(t.transpose(0, 2, 1)),
    "The values are 0..255 instead of 0..1: the given transform was not applied.": lambda t: np.rint(t * 255),
    "These are bytes 0..255: the given transform was not applied.": lambda t: np.rint(t * 255).astype(
        np.uint8
    ),
    "The numbers are right but were converted to float64 afterwards.": lambda t: t.astype(np.float64),
    "An extra dimension was added (`unsqueeze`): the loader makes batches, not the data set.": lambda t: t[
        None
    ],
    "The pixels were divided by 255 twice: ToTensor does it already.": lambda t: t / np.float32(255),
}


EVERY_WAY: tuple[Made, ...] = (as_it_is, *_VARIANTS.values())
"""What may become of every image alike: items_are_images says what is wrong with it, the other checks know them all."""


def known(found: Iterable[Look], prints: Mapping[str, str] | set[str]) -> int:
    """How many of the items are images that the judge knows."""
    return sum(look.digest in prints for look in found)
