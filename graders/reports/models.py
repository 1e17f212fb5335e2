"""What the model of a report costs, measured in the sandbox: on torchvision's own, or on the student's."""

from __future__ import annotations

from pathlib import PurePosixPath

from graders.reports.handed_in import HandedIn
from lockstep.check import Check
from lockstep.compare import elements, integer
from lockstep.reports.model import ModelFacts
from lockstep.verdict import CheckEnded

CLASSES = 10
"""Of the data sets of all exercises."""
LARGEST_SIDE = 4096


def facts(check: Check, item: HandedIn) -> ModelFacts | None:
    """Figures for the model and the input shape that the report names; None where they cannot be had.

    A model of another size than the report's is another model: its figures would say nothing about the readings.
    """
    if item.report is None:
        return None
    workload = item.report.workload
    name, shape = workload.get("model"), workload.get("input_shape")
    parameters = integer(workload.get("params"))
    sides = [integer(side) or 0 for side in elements(shape)]
    if (
        not isinstance(name, str)
        or not sides
        or len(sides) > 4
        or not all(0 < side <= LARGEST_SIDE for side in sides)
    ):
        return None
    try:
        values = (
            check.run(
                "model",
                values={
                    "name": name[:100],
                    "module": PurePosixPath(item.wanted.script).stem,
                    "parameters": parameters,
                    "classes": integer(workload.get("num_classes")) or CLASSES,
                    "shape": list(sides),
                },
            )
            .ranks[0]
            .values
        )
    except CheckEnded:
        return None
    if parameters is not None and integer(values.get("size")) != parameters:
        return None
    return ModelFacts.from_json(values.get("figures"))
