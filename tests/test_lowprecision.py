"""Convolutions in 16 bits take about as long as others, whatever the processor has instructions for."""

from __future__ import annotations

from typing import cast

import pytest
import torch

from lockstep.sandbox import lowprecision
from lockstep.sandbox.box import Box
from tests.sandboxed import seen

# A layer with one pixel for each channel, as a ResNet's last ones have of small images: torch's own backward of it
# takes 30 times as long in 16 bits as in 32. Called by name, as oneDNN takes it where the processor has AVX-512.
LAYER = """
import time
import torch

def forward(kind):
    return torch.ops.aten._slow_conv2d_forward(
        images.to(kind), weight.to(kind), [3, 3], bias.to(kind), [1, 1], [1, 1]
    )

def backward(kind, asked=(True, True, True)):
    return torch.ops.aten._slow_conv2d_backward.output_mask(
        given.to(kind), images.to(kind), weight.to(kind), [3, 3], [1, 1], [1, 1], list(asked)
    )

torch.manual_seed(0)
images, weight, bias, given = (
    torch.randn(size).to(torch.LOW).float() for size in ((16, 512, 1, 1), (512, 512, 3, 3), (512,), (16, 512, 1, 1))
)
"""
LOW = pytest.mark.parametrize("low", ["bfloat16", "float16"])


@LOW
def test_they_are_those_in_float32_rounded_once(box: Box, low: str) -> None:
    source = (
        LAYER
        + """
def main():
    low = torch.LOW
    pairs = zip((forward(low), *backward(low)), (forward(torch.float32), *backward(torch.float32)))
    unasked = backward(low, (False, True, False))
    return [
        *(bool(torch.equal(found, exact.to(low))) for found, exact in pairs),
        unasked[0] is None and unasked[2] is None,
        forward(torch.float64).dtype == torch.float64,
    ]
"""
    )

    assert seen(box, source.replace("LOW", low)) == [True] * 6


@LOW
def test_they_take_no_ten_times_as_long(box: Box, low: str) -> None:
    source = (
        LAYER
        + """
def seconds(kind):
    begun = time.perf_counter()
    forward(kind), backward(kind)
    return time.perf_counter() - begun

def main():
    return [min(seconds(kind) for _ in range(3)) for kind in (torch.LOW, torch.float32)]
"""
    )

    slow, quick = cast(list[float], seen(box, source.replace("LOW", low)))

    assert slow < 10 * quick


def test_autocast_goes_through_them_and_back(box: Box) -> None:
    source = """
    import torch

    def main():
        torch.manual_seed(0)
        layer = torch.nn.Conv1d(2, 3, 3)
        images = torch.randn(4, 2, 8)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            answer = layer(images)
        answer.float().sum().backward()
        exact = torch.nn.functional.conv1d(images, layer.weight, layer.bias)
        return [str(answer.dtype), str(layer.weight.grad.dtype), bool(torch.allclose(answer.float(), exact, atol=0.05))]
    """

    assert seen(box, source) == ["torch.bfloat16", "torch.float32", True]


@LOW
def test_types_that_are_mixed_are_refused_as_torch_does(box: Box, low: str) -> None:
    source = (
        LAYER
        + """
def refuses(low, other):
    try:
        torch.ops.aten._slow_conv2d_forward(images.to(low), weight.to(other), [3, 3], None, [1, 1], [1, 1])
    except RuntimeError as error:
        return "expected scalar type" in str(error)
    return False

def main():
    other, = {torch.bfloat16, torch.float16} - {torch.LOW}
    return [refuses(torch.LOW, torch.float32), refuses(torch.LOW, other), refuses(torch.float32, torch.LOW)]
"""
    )

    assert seen(box, source.replace("LOW", low)) == [True] * 3


def test_an_older_torch_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.library, "get_kernel")

    lowprecision.install()
