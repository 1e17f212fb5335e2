"""Whether the emulated GPUs do what a real one did, expression by expression (tests/gpu_expressions.py)."""

from __future__ import annotations

import json
from pathlib import Path

from lockstep.sandbox.device import emulated_gpus
from tests.gpu_expressions import OUTCOMES, outcome, refuses

# What comes to something else, and why.
DIFFERENCES: dict[str, str] = json.loads(Path(__file__).with_name("gpu_differences.json").read_text())
# Refused by both, in words that name another of torch's kernels.
MOST_IN_OTHER_WORDS = 40


def test_an_emulated_gpu_does_what_a_real_one_did() -> None:
    with emulated_gpus(1):
        found = {expression: outcome(expression) for expression in OUTCOMES}
    # A convolution's refusal says as well where its tensors are.
    others = {name for name, told in OUTCOMES.items() if not found[name].startswith(told)}
    in_other_words = {name for name in others if refuses(OUTCOMES[name]) and refuses(found[name])}
    assert others - in_other_words == DIFFERENCES.keys()
    assert len(in_other_words) <= MOST_IN_OTHER_WORDS


def test_the_table_is_long_enough() -> None:
    assert len(OUTCOMES) > 800
    assert sum(map(refuses, OUTCOMES.values())) > 200
