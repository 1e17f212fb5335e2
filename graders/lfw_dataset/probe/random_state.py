"""Whether reading an item sets torch's random numbers back to where they were before."""

from __future__ import annotations

from typing import Any

import torch

from lockstep.sandbox.probing import Student

SEEDS = (7, 11)


def is_reset(student: Student, dataset: Any, index: int) -> bool:
    """Whether the state after `dataset[index]` is the same, whatever it was before; who draws numbers moves it on."""
    after = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        with student.calling(f"dataset[{index}]"):
            try:
                dataset[index]
            except IndexError:
                return False
        after.append(torch.get_rng_state())
    return torch.equal(*after)
