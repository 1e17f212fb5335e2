"""Slips of the pen, of which only a machine with a GPU knows."""

from __future__ import annotations

import pytest

from lockstep.slips import found

UNKNOWN, UNKNOWN_OF_TORCH = "name 'gpu' is not defined", "module 'torch.cuda' has no attribute '{}'"


@pytest.mark.parametrize(
    ("source", "kind", "message", "hint"),
    [
        ("f(\ngpu)", "NameError", UNKNOWN, "`gpu` is assigned nowhere: was another name meant?"),
        ("args.gpu\nf(gpu, gpu=1)", "NameError", UNKNOWN, "`gpu` is assigned nowhere: was another name meant?"),
        ("gpu\nother", "NameError", UNKNOWN, None),
        ("args.gpu\nargs.gpu", "NameError", UNKNOWN, None),
        ("\ngpu\ntry:\n  gpu = 1\nexcept: pass", "NameError", UNKNOWN, None),
        ("\ngpu\ntry: import gpu\nexcept ImportError: pass", "NameError", UNKNOWN, None),
        ("\ngpu\nimport nvml as gpu", "NameError", UNKNOWN, None),
        ("from nvml import *\ngpu", "NameError", UNKNOWN, None),
        ("globals()['g' + 'pu'] = 1\ngpu", "NameError", UNKNOWN, None),
        ("def f(*gpu): pass\ngpu", "NameError", UNKNOWN, None),
        ("def f():\n  global gpu\ngpu", "NameError", UNKNOWN, None),
        ("builtins.gpu = 1\ngpu", "NameError", UNKNOWN, None),
        ("x\ndisplay(1)", "NameError", "name 'display' is not defined", None),
        ("x\ngpu", "UnboundLocalError", UNKNOWN, None),
        ("x\ngpu", "NameError", f"Caught NameError in replica 0 on device 0: {UNKNOWN}", None),
        ("x\n(gpu", "NameError", UNKNOWN, None),
        ("x\ntorch.cuda.device_cout()", "AttributeError", UNKNOWN_OF_TORCH.format("device_cout"), "Was torch.cuda.device_count meant?"),
        ("x\ntorch.cuda.synchronise()", "AttributeError", UNKNOWN_OF_TORCH.format("synchronise"), "Was torch.cuda.synchronize meant?"),
        ("x\ntorch.devic", "AttributeError", "module 'torch' has no attribute 'devic'", "Was torch.device meant?"),
        ("x\nf()", "AttributeError", UNKNOWN_OF_TORCH.format("device_cout"), None),
        ("x\ntorch.cuda.device_count()", "AttributeError", UNKNOWN_OF_TORCH.format("device_count"), None),
        ("x\ntorch.cuda.empty_all_caches()", "AttributeError", UNKNOWN_OF_TORCH.format("empty_all_caches"), None),
        ("torch.cuda.device_cout = f\ntorch.cuda.device_cout()", "AttributeError", UNKNOWN_OF_TORCH.format("device_cout"), None),
        ("x\nnp.devic", "AttributeError", "module 'numpy' has no attribute 'devic'", None),
    ],
)  # fmt: skip
def test_a_name_that_no_machine_knows_is_a_slip(
    source: str, kind: str, message: str, hint: str | None
) -> None:
    assert found(source, 2, kind, message) == hint
