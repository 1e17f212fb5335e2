"""The data set in one process: its length, its items, what it raises."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import ToTensor

from lockstep.sandbox.probing import Inputs, Observation, Student, kind, plain
from lockstep.wire import Json

from .opens import watch_opens
from .random_state import is_reset
from .reading import describe, look, open_dataset, read_items, the_class


def constructs(student: Student, inputs: Inputs) -> Observation:
    """Build the data set from several spellings of a path, and read its first item each time."""
    the_class(student)
    opened = watch_opens()
    os.chdir(student.data)
    attempts: list[Json] = []
    for path in cast(list[str], inputs.values["paths"]):
        opened.clear()
        made = False
        first: dict[str, Json] = {}
        problem: dict[str, Json] | None = None
        try:
            dataset = open_dataset(student, path, ToTensor())
            made = True
            with student.calling("dataset[0]"):
                first = look(dataset[0])
        except Exception as error:
            problem = describe(student, error)
        root = student.data.removesuffix("/data")
        names: list[Json] = [name.removeprefix(root) for name in opened[:100]]
        attempts.append({"made": made, "opened": names, "first": first, "problem": problem})
    return Observation({"attempts": attempts})


def length(student: Student, inputs: Inputs) -> Observation:
    """What `__len__` says for each of the folders."""
    lengths: list[Json] = []
    for path in cast(list[str], inputs.values["paths"]):
        dataset = open_dataset(student, path, ToTensor())
        with student.calling("len(dataset)"):
            lengths.append(plain(type(dataset).__len__(dataset)))
    return Observation({"lengths": lengths})


def items(student: Student, inputs: Inputs) -> Observation:
    """Read the items twice, in the orders that were asked for."""
    dataset = open_dataset(student, cast(str, inputs.values["path"]), ToTensor())
    orders = cast(list[list[int]], inputs.values["orders"])
    passes = [read_items(student, dataset, order) for order in orders]
    return Observation({"passes": cast(Json, passes)})


def transform(student: Student, inputs: Inputs) -> Observation:
    """Hand over a transform that notes what it is given and answers with a table of numbers; look at torch's own."""
    table = inputs.tensor("table")
    given: list[str] = []

    def by_table(image: object) -> torch.Tensor:
        given.append(
            kind(image) if not isinstance(image, Image.Image) else f"a PIL image in mode {image.mode}"
        )
        if not isinstance(image, Image.Image) or image.mode != "RGB":
            return torch.zeros(1)
        return table[torch.from_numpy(np.array(image)).long()]

    dataset = open_dataset(student, cast(str, inputs.values["path"]), by_table)
    order = cast(list[int], inputs.values["order"])
    found = read_items(student, dataset, order)
    resets = all(is_reset(student, dataset, index) for index in order)
    return Observation({"given": cast(Json, [*given]), "items": cast(Json, found), "resets": resets})


def robust(student: Student, inputs: Inputs) -> Observation:
    """Read folders as real ones are; every trial stands for itself."""
    the_class(student)
    for folder in cast(list[str], inputs.values["empty_folders"]):
        os.makedirs(folder)
    trials: dict[str, Json] = {}
    for name, trial in cast(dict[str, list[Json]], inputs.values["trials"]).items():
        path, count = cast(str, trial[0]), cast(int, trial[1])
        given = Path(path) if name == "pathlib" else path
        try:
            dataset = open_dataset(student, given, ToTensor())
            trials[name] = {"items": cast(Json, read_until_end(student, dataset, count)), "problem": None}
        except Exception as error:
            trials[name] = {"items": [], "problem": describe(student, error)}
    return Observation({"trials": trials})


def read_until_end(student: Student, dataset: Any, count: int) -> list[dict[str, Json]]:
    """A look at every item up to the first IndexError, and a few more where there should be no more."""
    found: list[dict[str, Json]] = []
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
