"""The sandbox that all tests of one process share: making one takes seconds, a run in it a tenth of one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from lockstep.exercise import find_exercises
from lockstep.sandbox import bubblewrap
from lockstep.sandbox.box import Box, open_box
from tests.sandboxed import PROBE, ROOT

# As in every grading; here torch is imported by the tests themselves.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A busy machine is no failure, and what is tried is the same every day.
settings.register_profile(
    "lockstep", deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# `make fuzz`: the same tests, on other inputs every time. A failure prints the input, made as small as it gets.
settings.register_profile(
    "fuzz",
    max_examples=10_000,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("lockstep")


@pytest.fixture(scope="session")
def box() -> Iterator[Box]:
    """A warm sandbox that knows the engine's probe and those of all exercises."""
    problem = bubblewrap.problem()
    if problem is not None:
        pytest.fail(f"these tests need the sandbox: {problem}")
    with open_box(find_exercises(ROOT / "graders"), isolated=True, probes={"engine": PROBE}) as shared:
        yield shared
