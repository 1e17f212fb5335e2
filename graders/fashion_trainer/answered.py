"""What a script's network answered to the test pictures, in one pass over them or in several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graders.fashion_trainer import expected
from graders.fashion_trainer.expected import Calls
from lockstep.wire import Array


@dataclass(frozen=True)
class Answers:
    """Logits, and the numbers of the test pictures that they answer to."""

    numbers: Array
    logits: Array

    def right(self, labels: Array) -> tuple[int, int]:
        """The least and the most right answers."""
        return expected.right_answers(self.logits, labels[self.numbers])


def passes(found: Calls, test: Array, batch: int) -> list[Answers]:
    """The passes that were made without training. Each ends with a batch of another size than was asked for."""
    numbers, ended, rows = _numbers(found, test), 0, list[int]()
    found_passes = []
    for call in found.calls:
        own = [row for row in range(ended, ended + call.size) if numbers[row] >= 0]
        ended += call.size
        rows += own
        if rows and len(own) != batch:
            found_passes.append(rows)
            rows = []
    found_passes += [rows] if rows else []
    return [Answers(numbers[rows], found.logits[rows]) for rows in found_passes]


def since_training(found: Calls, test: Array) -> Answers | None:
    """Each test picture once, as answered after the training began.

    None where one got different answers: several networks may vote then, or a mean may be what counts. Where all agree
    every vote comes to the same.
    """
    ends = np.cumsum([call.size for call in found.calls])
    began = next((int(end) for end, call in zip(ends, found.calls, strict=True) if call.trained), 0)
    numbers, logits = _numbers(found, test)[began:], found.logits[began:]
    numbers, logits = numbers[numbers >= 0], logits[numbers >= 0]
    different, places = np.unique(numbers, return_index=True)
    if len({*zip(numbers.tolist(), logits.argmax(axis=1).tolist(), strict=True)}) != len(different):
        return None
    return Answers(different, logits[places])


def only_known(found: Calls, test: Array, train: Array) -> bool:
    """Whether all that was looked at without training is test pictures, or training pictures already trained on.

    Others may be a validation set, of which an accuracy may be told.
    """
    trained = _trained(found)
    of_train = np.where(expected.recognised(found.rows, test) < 0, expected.recognised(found.rows, train), -2)
    learned: set[int] = {-2}
    for number, was_trained in zip(of_train.tolist(), trained.tolist(), strict=True):
        if was_trained:
            learned.add(number)
        elif number == -1 or number not in learned:
            return False
    return True


def _numbers(found: Calls, test: Array) -> Array:
    """For each row the number of the test picture that it shows, or -1; -1 as well where it was trained on."""
    return np.where(_trained(found), -1, expected.recognised(found.rows, test))


def _trained(found: Calls) -> Array:
    return np.repeat([call.trained for call in found.calls], [call.size for call in found.calls])
