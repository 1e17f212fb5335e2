"""Which of the losses that were computed is in what is derived: what is computed for a log alone is in none of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

# Where a node of autograd's graph keeps what is known of it, which lives and dies with the node.
_KEY = "lockstep loss"


def remember(value: object, record: dict[str, Any]) -> None:
    """Let `record` be what is known of a value that was just computed; one that asks for no gradient has no node."""
    node: Any = value.grad_fn if isinstance(value, torch.Tensor) else None
    if node is not None:
        node.metadata[_KEY] = record


def records_in(outputs: object) -> Iterator[dict[str, Any]]:
    """The records of the values that a tensor, or a list of them, was computed from, each once."""
    tensors = outputs if isinstance(outputs, list | tuple) else [outputs]
    nodes: list[Any] = [value.grad_fn for value in tensors if isinstance(value, torch.Tensor)]
    # The nodes themselves: the number of one that is gone may be another's.
    seen: set[Any] = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        record = node.metadata.get(_KEY)
        if record is not None:
            yield record
        else:
            nodes.extend(before for before, _ in node.next_functions)
