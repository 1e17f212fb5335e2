"""torch.compile and torch.jit in a run: what they make is what it would be, and costs no more than what was written."""

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


SCRIPTED = """
import copy, io, os, torch
from torch import nn

@torch.jit.script
def twice(x: torch.Tensor):
    return 2 * x

def main():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    traced = torch.jit.trace(nn.Linear(2, 3), torch.ones(1, 2), check_trace=False)
    copy.deepcopy(scripted).eval()
    torch.save(scripted, "whole.pt")
    scripted.save("scripted.pt")
    torch.jit.save(traced, "traced.pt")
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.freeze(torch.jit.script(nn.Linear(2, 4)).eval()), buffer)
    buffer.seek(0)
    loaded = [torch.jit.load("scripted.pt"), torch.jit.load("traced.pt"), torch.jit.load(buffer)]
    return [
        type(scripted).__name__,
        type(traced).__name__,
        list(scripted.state_dict()),
        twice(torch.ones(1)).item(),
        [isinstance(each, torch.jit.ScriptModule) for each in loaded],
        [each(torch.ones(1, 2)).shape[1] for each in loaded],
    ]
"""


# Libraries read the graph of what they trace, and so may a person.
GRAPHS = """
import contextlib, torch
from lockstep.sandbox.device import emulated_gpus
from torch import nn
from torch.utils.tensorboard import SummaryWriter

def main():
    network = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with {gpus}, SummaryWriter("logs") as writer:
        writer.add_graph(network, torch.ones(1, 2))
        scripted, traced = torch.jit.script(network), torch.jit.trace(network, torch.ones(1, 2))
        return ["return" in str(scripted.code), "aten::relu" in str(traced.inlined_graph), traced is network]
"""


@pytest.mark.parametrize("gpus", ["contextlib.nullcontext()", "emulated_gpus(1)"])
def test_graphs_are_there_for_those_who_read_them(box: Box, gpus: str) -> None:
    assert seen(box, GRAPHS.format(gpus=gpus)) == [True, True, True]


def test_what_is_scripted_is_what_was_written_until_it_is_saved(box: Box) -> None:
    found = seen(box, SCRIPTED)
    assert found == ["Sequential", "Linear", ["0.weight", "0.bias"], 2.0, [True] * 3, [2, 3, 4]]
