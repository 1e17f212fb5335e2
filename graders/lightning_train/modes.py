"""Whether a module undoes what Lightning does: training mode in training, evaluation mode in validation."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.compare import elements, integer
from lockstep.sandbox.outcome import RankOutcome

MAX_MODES = 10  # first steps that the probe keeps, and last ones
# A step: whether it left the module in training mode, how many of its layers have two modes, how many trained.
Step = tuple[bool, int, int]


def validates_in_training_mode(seen: RankOutcome) -> bool:
    """Whether every step of validation made the module train, and its layers with it, to be asked once.

    Who asks the network several times, each time with other units dropped, may want just that (Gal and Ghahramani,
    Dropout as a Bayesian Approximation).
    """
    training, validation = _steps(seen, "train"), _steps(seen, "val")
    once = min((layers for _, layers, _ in training), default=0)
    return len(validation) > 1 and all(trains and 0 < active <= once for trains, _, active in validation)


def trains_in_evaluation_mode(seen: RankOutcome) -> bool:
    """Whether training switched the module off and left it so, with all of its layers, though none is frozen."""
    return _are_off(seen, _steps(seen, "train")[1:])


def ends_in_evaluation_mode(seen: RankOutcome) -> bool:
    """Whether it did so later on: in the last steps, of more than are kept."""
    training = _steps(seen, "train")
    return len(training) == 2 * MAX_MODES and _are_off(seen, training[MAX_MODES:])


def _are_off(seen: RankOutcome, steps: Sequence[Step]) -> bool:
    return (
        seen.values.get("frozen") is False
        and len(steps) > 1
        and all(not trains and layers > 0 and active == 0 for trains, layers, active in steps)
    )


def _steps(seen: RankOutcome, stage: str) -> list[Step]:
    """The first and the last steps of a stage; those of which it is not known are left out."""
    modes = seen.values.get("modes")
    found = modes.get(stage) if isinstance(modes, dict) else None
    steps = []
    for step in elements(found):
        if isinstance(step, list) and len(step) == 3:
            layers, active = integer(step[1]), integer(step[2])
            if layers is not None and active is not None:
                steps.append((step[0] is True, layers, active))
    return steps
