"""What there is to know about a model before any physics: measured on the CPU, handed in as numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelFacts:
    """Figures of one model for one input shape.

    `macs` are multiply-accumulates of one forward pass of one item, `macs_3x3` those of its 3x3 convolutions of
    stride 1, `parameters` a number of elements, `saved_bytes` what autograd keeps for one item until backward by
    precision of the configuration ("fp32", "amp"), `fixed_bytes` of it what does not grow with the batch.
    """

    macs: int
    macs_3x3: int
    parameters: int
    saved_bytes: dict[str, int]
    classes: int | None = None
