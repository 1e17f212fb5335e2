"""torch.compile in a run: what it makes is what it would be, and costs no more than what was written."""

from __future__ import annotations

import pytest

from lockstep.sandbox.box import Box
from tests.sandboxed import seen

SOURCE = """
import sys, torch
from torch import nn

def main():
    before = set(sys.modules)

    @torch.compile(fullgraph=True)
    def twice(x):
        return 2 * x

    compiled = torch.compile(nn.Linear(2, 2), {options})
    compiled(twice(torch.ones(1, 2))).sum().backward()
    return [
        type(compiled).__name__,
        compiled._orig_mod.weight.grad.tolist(),
        len(set(sys.modules) - before) < 10,  # the compilers are some four hundred
    ]
"""


@pytest.mark.parametrize("options", ["", "mode='max-autotune', dynamic=True", "backend='aot_eager'"])
def test_it_computes_as_written_and_imports_no_compiler(box: Box, options: str) -> None:
    found = seen(box, SOURCE.format(options=options))
    assert found == ["OptimizedModule", [[2.0, 2.0], [2.0, 2.0]], True]
