"""The data set in a loader's workers."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any, cast

from torch.utils.data import DataLoader
from torchvision.transforms import ToTensor

from lockstep.sandbox.probing import Inputs, Observation, Student
from lockstep.wire import Json

from .reading import describe, look, open_dataset, read_items, the_class


def workers(student: Student, inputs: Inputs) -> Observation:
    """Read all items in this process, in two forked workers, and in one that is like a spawned one."""
    spawned = Spawned(student)
    dataset = open_dataset(student, cast(str, inputs.values["path"]), ToTensor())
    alone = read_items(student, dataset, list(range(cast(int, inputs.values["count"]))))
    # A data set that lost a file is another check's business.
    order = [index for index, item in enumerate(alone) if item["kind"] != "IndexError"]
    loader = DataLoader(dataset, batch_size=2, sampler=order, num_workers=2, collate_fn=list)
    with student.calling("iterating a DataLoader with num_workers=2"):
        forked = [look(item) for batch in loader for item in batch]
    answer: dict[str, Json] = {"items": [], "problem": None}
    try:
        with student.calling("pickling the data set for a spawned worker"):
            pickled = pickle.dumps(dataset)
        with student.calling("reading items in a spawned worker"):
            answer = spawned.read(pickled, order)
    except Exception as error:
        answer["problem"] = describe(student, error)
    return Observation(
        {
            "alone": cast(Json, alone),
            "forked": cast(Json, forked),
            "spawned": answer["items"],
            "problem": answer["problem"],
        }
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

    def read(self, pickled: bytes, order: list[int]) -> dict[str, Json]:
        """Have the worker unpickle a data set and look at its items."""
        self.ours.send((pickled, order))
        return cast(dict[str, Json], self.ours.recv())

    @staticmethod
    def serve(student: Student, connection: Any) -> None:
        """In the worker: import the file anew, unpickle, read."""
        pickled, order = connection.recv()
        answer: dict[str, Json] = {"items": [], "problem": None}
        try:
            the_class(student)
            dataset = pickle.loads(pickled)
            answer["items"] = [look(dataset[index]) for index in order]
        except Exception as error:
            answer["problem"] = describe(student, error)
        connection.send(answer)
