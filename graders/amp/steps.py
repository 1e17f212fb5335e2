"""Steps that train_step makes with a hidden network, and how far what came of them is from what is right."""

from __future__ import annotations

import math

import numpy as np

from graders.amp import complaints, expected
from graders.amp.expected import Scenario, Step
from lockstep.batchloop import PLAIN, Loop
from lockstep.check import Check
from lockstep.devicefault import is_device_fault
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import CheckEnded
from lockstep.wire import Array, Json

# Measured over 60 networks: bf16 moves 20 steps' way by 0.7 % and their losses by 0.1 %.
LOW, LOW_LOSS = 0.05, 0.02
# How many items each batch has that the template's `evaluate` is given.
EVALUATED_BY = 9
NO_STEP = (
    "Every call makes backward(), scaler.step(optimizer) and scaler.update(), whatever amp and grad_clip are: is one "
    "of them indented into an `if` or without its brackets, or zero_grad between backward and step?"
)


class Case:
    """A hidden network with its batches, and the steps that a right training makes of them."""

    def __init__(self, check: Check, scenario: Scenario) -> None:
        self.check = check
        self.scenario = scenario
        self.shape = expected.make_shape(check.rng)
        self.weights = expected.make_weights(check.rng, self.shape)
        self.data = expected.make_data(check.rng, sum(scenario.sizes))

    def run(
        self, *scenarios: Scenario, gpu: bool = False, forward_only: bool = False, **values: Json
    ) -> RankOutcome:
        """Let train_step make the steps of these scenarios, or of the case's own, or stop after the backward."""
        told = {**self._told(*scenarios, gpu=gpu, forward_only=forward_only), **values}
        try:
            return self._run("steps", told)
        except CheckEnded as ended:
            if not gpu or not is_device_fault(ended.feedback.message):
                raise
        # The loop that calls train_step may move the batches.
        return self._run("steps", {**told, "moved": True})

    def fetch(self) -> tuple[RankOutcome | None, bool]:
        """What train_step does on a GPU with a batch that is not there yet, and whether it fails because of that."""
        try:
            return self._run("fetch", self._told(gpu=True, forward_only=True)), False
        except CheckEnded as ended:
            return None, is_device_fault(ended.feedback.message)

    def _told(self, *scenarios: Scenario, gpu: bool, forward_only: bool) -> dict[str, Json]:
        return {
            "shape": self.shape,
            "scenarios": [scenario.told() for scenario in scenarios or [self.scenario]],
            "gpu": gpu,
            "forward_only": forward_only,
        }

    def _run(self, call: str, told: dict[str, Json]) -> RankOutcome:
        arrays = {**self.data.arrays(), **expected.as_inputs(self.weights)}
        try:
            return self.check.run(call, values=told, arrays=arrays).ranks[0]
        except CheckEnded as ended:
            complaints.explain(self.check, ended)
            raise

    def steps(self, loop: Loop = PLAIN) -> list[Step]:
        """What is right in fp32, or what such a loop comes to."""
        return expected.train(self.shape, self.weights, self.data, self.scenario, loop)

    def far(self, seen: dict[str, Array], step: int, *loops: Loop) -> float:
        """How far these weights are, after a step, from those of the nearest of some loops: see distance."""
        moved = self.moved(seen)
        return min(distance(moved, self.moved(self.steps(loop)[step].weights)) for loop in loops)

    def moved(self, weights: dict[str, Array]) -> dict[str, Array]:
        """How far weights are from where they started."""
        return {name: value - self.weights[name] for name, value in weights.items()}

    def stands_still(self, seen: RankOutcome, step: int, scenario: int = 0) -> bool:
        """Whether after that call of train_step the weights are those that it began with."""
        return expected.norm(self.moved(self.held(seen, step, scenario))) == 0

    def held(self, seen: RankOutcome, step: int, scenario: int = 0) -> dict[str, Array]:
        """The weights after a call of train_step; ends the check when they are not what a network holds."""
        held = {name: seen.arrays.get(f"{scenario}/step{step}/{name}") for name in self.weights}
        right = {
            name: value
            for name, value in held.items()
            if value is not None and value.shape == self.weights[name].shape and value.dtype.kind == "f"
        }
        self.check.expect(
            len(right) == len(held),
            f"After call {step + 1} of train_step the model does not hold its weights any more.",
            "train_step trains the model it is given, in place.",
        )
        return {name: value.astype(np.float64) for name, value in right.items()}


def distance(seen: dict[str, Array], wanted: dict[str, Array]) -> float:
    """The length of a difference as a part of the length of what it should be; infinite when not finite."""
    with np.errstate(all="ignore"):
        apart = expected.norm({name: seen[name] - wanted[name] for name in wanted})
    return apart / expected.norm(wanted) if math.isfinite(apart) else math.inf
