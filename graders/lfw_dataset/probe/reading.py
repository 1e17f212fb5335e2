"""Makes the data set, reads items and describes them."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import PurePath
from typing import Any, TypeGuard, cast

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import ToTensor

from lockstep.sandbox.probing import Student, kind, plain_tensor
from lockstep.wire import Json


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


def read_items(student: Student, dataset: Any, order: list[int]) -> list[dict[str, Json]]:
    """A look at each item; an index that the data set refuses is an item of kind IndexError."""
    found: list[dict[str, Json]] = []
    for index in order:
        with student.calling(f"dataset[{index}]"):
            try:
                found.append(look(dataset[index]))
            except IndexError:
                found.append({"kind": "IndexError"})
    return found


def look(item: object) -> dict[str, Json]:
    """What an item is; of (image, label) the image."""
    image = item[0] if is_labelled(item) else item
    seen: dict[str, Json] = {"kind": kind(image), "labelled": is_labelled(item)}
    array = plain_tensor(image)
    if array is not None:
        seen |= {"dtype": str(array.dtype), "shape": list(array.shape), "digest": fingerprint(array)}
    elif isinstance(image, Image.Image):
        # So that other checks still know which image it is.
        seen["digest"] = fingerprint(ToTensor()(image).numpy())
    return seen


def is_labelled(item: object) -> TypeGuard[tuple[object, ...] | list[object]]:
    """Whether an item is a pair such as (image, label), or another tuple or list with something in it."""
    return type(item) in (tuple, list) and len(cast("tuple[object, ...] | list[object]", item)) > 0


def fingerprint(array: np.ndarray) -> str:
    """Equal for arrays of equal dtype, shape and values."""
    digest = hashlib.blake2b(f"{array.dtype} {array.shape} ".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def describe(student: Student, error: BaseException) -> dict[str, Json]:
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
    image = item[0] if is_labelled(item) else item
    if isinstance(image, Image.Image):
        return cast(list[int], centre_colour(image).tolist())
    array = plain_tensor(image)
    if array is not None and array.size == 3 and array.dtype.kind in "iuf":
        # Of another form, or divided by 255, it is for items_are_images to judge.
        colour = np.clip(np.nan_to_num(array.reshape(3).astype(np.float64)), -1, 1 << 16)
        return [
            int(value)
            for value in np.rint(colour * (255 if array.dtype.kind == "f" and colour.max() <= 1 else 1))
        ]
    if array is not None and array.ndim == 3 and array.shape[0] == 3 and array.size:
        middle = array[:, array.shape[1] // 2, array.shape[2] // 2]
        return [int(value) for value in np.clip(np.nan_to_num(np.rint(middle * 255)), 0, 255)]
    return [-1, -1, -1]
