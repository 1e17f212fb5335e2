"""Whether the emulated GPUs do what a real one did, expression by expression (tests/gpu_expressions.py)."""

from __future__ import annotations

from lockstep.sandbox.device import emulated_gpus
from tests.gpu_expressions import OUTCOMES, outcome

# Refused by both, in words that name another of torch's kernels.
OTHER_WORDS = {
    "gpu(3).index_fill(0, cpu(2).long(), 1.0)",
    "gpu(3).scatter(0, cpu(2).long(), 1.0)",
    "gpu(3).masked_scatter(cpu(3) > 0, gpu(3))",
    "torch.bucketize(gpu(3), cpu(2))",
    "torch.searchsorted(cpu(2), gpu(3))",
    "torch.normal(gpu(3), cpu(3))",
    "nn.Conv2d(1, 1, 2, dilation=2).cuda()(cpu(1, 1, 4, 4))",
    "nn.Conv3d(1, 1, 2).cuda()(cpu(1, 1, 4, 4, 4))",
    "nn.BatchNorm2d(3).eval()(gpu(2, 3, 4, 4))",
    "F.scaled_dot_product_attention(gpu(1, 1, 2, 4), gpu(1, 1, 2, 4), gpu(1, 1, 2, 4), attn_mask=cpu(2, 2) > 0)",
    "gpu(2, 2) @ cpu(2)",
}
# What no solution of an exercise has been seen to do.
NOT_EMULATED = {"torch.from_dlpack(gpu(3))", "cpu(3).set_(gpu(3))", "torch.linspace(gpu(()), gpu(()), 3)"}


def test_an_emulated_gpu_does_what_a_real_one_did() -> None:
    with emulated_gpus(1):
        found = {expression: outcome(expression) for expression in OUTCOMES}
    # A convolution's refusal says as well where its tensors are.
    others = {name for name, told in OUTCOMES.items() if not found[name].startswith(told)}
    assert others == OTHER_WORDS | NOT_EMULATED
    assert {name for name in OTHER_WORDS if "Error: " not in found[name]} == set()


def test_the_table_is_long_enough() -> None:
    assert len(OUTCOMES) > 300
    assert sum("Error: " in told for told in OUTCOMES.values()) > 100
