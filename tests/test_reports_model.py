"""What a model costs is measured without computing it, agrees with published figures, and is believed only in form."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision import models

from fixtures.reports import honest
from lockstep.reports.document import document
from lockstep.reports.model import ModelFacts, known_model, model_of, needs_model
from lockstep.sandbox import modelmeter
from lockstep.sandbox.modelmeter import measure


def facts_of(model: nn.Module, shape: tuple[int, ...]) -> ModelFacts:
    facts = ModelFacts.from_json(json.loads(json.dumps(measure(model, shape))))
    assert facts is not None
    return facts


@pytest.mark.parametrize(
    ("name", "size", "classes", "macs", "parameters"),
    [
        # As torchvision's own table of models has them (GFLOPS there are multiply-accumulates).
        ("resnet50", 224, 1000, 4.089e9, 25_557_032),
        pytest.param("resnet152", 224, 1000, 11.514e9, 60_192_808, marks=pytest.mark.slow),
        ("resnet18", 32, 10, 0.0370e9, 11_181_642),
        ("mobilenet_v2", 224, 1000, 0.301e9, 3_504_872),
        pytest.param("vit_b_16", 224, 1000, 17.564e9, 86_567_656, marks=pytest.mark.slow),
    ],
)
def test_published_figures_come_out(name: str, size: int, classes: int, macs: float, parameters: int) -> None:
    with torch.device("meta"), _no_init():
        model = models.get_model(name, weights=None, num_classes=classes)
    facts = facts_of(model, (3, size, size))
    assert facts.macs == pytest.approx(macs, rel=0.002)
    assert facts.parameters == parameters
    assert facts.classes == classes
    assert facts.macs_3x3 <= facts.macs
    assert facts.least_macs <= facts.macs
    assert facts.least_macs < facts.least_training_macs <= 3 * facts.least_macs


class _no_init:
    """truncated normal weights look at values, which a model without any has not."""

    def __enter__(self) -> None:
        self.original = nn.init.trunc_normal_
        nn.init.trunc_normal_ = lambda tensor, *args, **kwargs: tensor

    def __exit__(self, *_: object) -> None:
        nn.init.trunc_normal_ = self.original


def test_a_convolution_by_hand() -> None:
    """8 x 8 outputs, 3 to 16 channels, 3 x 3: Winograd leaves 4 of 9; backward needs no gradient of the images."""
    facts = facts_of(nn.Conv2d(3, 16, 3, padding=1), (3, 8, 8))
    macs = 8 * 8 * 3 * 16 * 9
    assert (facts.macs, facts.macs_3x3) == (macs, macs)
    assert facts.least_macs == pytest.approx(macs / 2.25, abs=1)
    assert facts.least_training_macs == pytest.approx(2 * macs / 2.25, abs=2)
    assert facts.parameters == 3 * 16 * 9 + 16
    assert facts.saved_bytes == {"fp32": 3 * 8 * 8 * 4, "amp": 3 * 8 * 8 * 2}
    # Under AMP the weights' copies in half precision are kept as well.
    assert facts.fixed_bytes == {"fp32": 0, "amp": 2 * 3 * 16 * 9}


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        (nn.Conv2d(4, 4, 5, padding=2), 4 / 25),
        (nn.Conv2d(4, 4, 3, stride=2, padding=1), 1),
        (nn.Conv2d(4, 4, 3, padding=1, groups=4), 1),
        (nn.Conv2d(4, 4, 3, padding=2, dilation=2), 1),
        (nn.Conv2d(4, 4, 1), 1),
        (nn.ConvTranspose2d(4, 4, 3), 1),
    ],
)
def test_which_convolutions_may_be_had_for_less(layer: nn.Module, part: float) -> None:
    facts = facts_of(layer, (4, 16, 16))
    assert facts.macs_3x3 == 0
    assert facts.least_macs == pytest.approx(facts.macs * part, abs=1)


def test_frozen_layers_cost_less() -> None:
    model = nn.Sequential(nn.Conv2d(3, 32, 1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 64, 10))
    whole = facts_of(model, (3, 8, 8))
    model[0].requires_grad_(False)
    frozen = facts_of(model, (3, 8, 8))
    assert frozen.least_training_macs < whole.least_training_macs
    assert frozen.macs == whole.macs
    assert sum(frozen.saved_bytes.values()) < sum(whole.saved_bytes.values())
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert facts_of(model, (3, 8, 8)).least_training_macs == whole.macs


def test_in_place_layers_keep_less() -> None:
    def net(inplace: bool) -> nn.Module:
        layers = [
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace),
            nn.Conv2d(8, 8, 3, padding=1),
        ]
        return nn.Sequential(*layers)

    # Images, the norm's input, the rectifier's output, which is the next layer's input, in the same place or not.
    for inplace in (False, True):
        assert facts_of(net(inplace), (8, 16, 16)).saved_bytes["fp32"] == 3 * 8 * 16 * 16 * 4


class Looks(nn.Module):
    """Decides by a value, has dropout of both kinds and returns a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.dropout = nn.Dropout(0.5)

    def forward(self, items: Tensor) -> dict[str, Any]:
        hidden = self.layer(items)
        if hidden.sum().item() > 1e9:
            hidden = -hidden
        return {
            "logits": functional.dropout(self.dropout(hidden), 0.5, self.training),
            "more": (hidden, None),
        }


def test_a_model_that_looks_at_values_is_measured_on_some() -> None:
    facts = facts_of(Looks(), (16,))
    assert facts.macs == 256
    assert facts.saved_bytes["fp32"] == 16 * 4
    assert facts.classes is None


def test_a_model_is_left_as_it_was() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.25), nn.Flatten(), nn.Linear(4 * 36, 10)
    ).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    own = [id(parameter) for parameter in model.parameters()]
    measure(model, (1, 8, 8))
    assert [id(parameter) for parameter in model.parameters()] == own
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.training
    assert model[2].p == 0.25


def test_with_and_without_values_it_is_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.resnet18(weights=None, num_classes=10)
    without = facts_of(model, (3, 32, 32))

    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(modelmeter, "_without_values", refuse)
    computed = facts_of(model, (3, 32, 32))
    # Kernels for bfloat16 keep a batch norm's statistics in another type than their description says.
    assert computed.fixed_bytes["amp"] == pytest.approx(without.fixed_bytes["amp"], rel=1e-3)
    assert replace(computed, fixed_bytes={}) == replace(without, fixed_bytes={})
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_that_does_not_fit_its_input_raises_its_own_error() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        measure(nn.Linear(3, 4), (5,))


def test_a_model_of_torchvision_by_name() -> None:
    facts = known_model("resnet18", (3, 32, 32), parameters=11_181_642)
    assert facts is not None
    assert (facts.parameters, facts.classes) == (11_181_642, 10)
    assert facts.macs == 37_016_576
    # A report of the kind, from a machine with a GPU, names the same one.
    assert known_model("resnet18", (3, 32, 32), parameters=11_181_642) is facts


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("Net", (3, 32, 32), 10),
        ("resnet18; import os", (3, 32, 32), 10),
        ("__import__", (3, 32, 32), 10),
        ("resnet18", (3, 32), 10),
        ("resnet18", (3, 10**9, 10**9), 10),
        ("resnet18", (3, -1, 32), 10),
        ("resnet18", (3, 32, 32), 0),
        ("resnet18", (3, 32, 32), 10**12),
    ],
)
def test_no_process_is_started_for_what_is_no_model(
    name: str, shape: tuple[int, ...], classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError

    monkeypatch.setattr(subprocess, "run", refuse)
    assert known_model(name, shape, classes) is None


def test_a_name_that_only_looks_like_one_is_none() -> None:
    assert known_model("resnet19", (3, 32, 32), 10) is None


@pytest.mark.parametrize(("machine", "needed"), [("t4", True), ("laptop", False), ("apple", False)])
def test_models_are_measured_for_reports_on_gpus_only(machine: str, needed: bool) -> None:
    for kind in ("dp_inference", "ddp_scaling", "amp", "lightning"):
        assert needs_model(document(honest(kind, np.random.default_rng(1), machine=machine))) is needed
    assert not needs_model(document(honest("dataloader", np.random.default_rng(1), machine="t4")))


def test_a_report_without_a_model_has_none() -> None:
    raw = honest("dataloader", np.random.default_rng(1), machine="laptop")
    assert model_of(document(raw)) is None


GOOD: dict[str, Any] = {
    "macs": 10, "macs_3x3": 3, "least_macs": 8, "least_training_macs": 20, "parameters": 7, "classes": None,
    "saved_bytes": {"fp32": 4, "amp": 2}, "fixed_bytes": {"fp32": 0, "amp": 1},
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"macs": -1}, {"macs": 1.5}, {"macs": True}, {"macs": None}, {"macs": 1 << 70}, {"macs_3x3": 11},
        {"parameters": "7"}, {"least_macs": None}, {"classes": "10"}, {"saved_bytes": [1]}, {"saved_bytes": {"fp32": 1}},
        {"fixed_bytes": {"fp32": 1, "amp": -1}},
    ],
)  # fmt: skip
def test_forged_figures_of_another_form_are_none(change: dict[str, Any]) -> None:
    assert ModelFacts.from_json(GOOD) is not None
    assert ModelFacts.from_json({**GOOD, **change}) is None
    assert ModelFacts.from_json(None) is None
    assert ModelFacts.from_json([]) is None


def test_figures_only_ever_loosen_the_bound() -> None:
    """A forged minimum above what the formula gives is not believed."""
    facts = ModelFacts.from_json({**GOOD, "least_macs": 1000, "least_training_macs": 10_000})
    assert facts is not None
    assert facts.least_macs == 10 - 3 + 3 / 2.25
    assert facts.least_training_macs == 3 * facts.least_macs


def test_nothing_on_the_way_to_a_verdict_imports_torch() -> None:
    code = "import sys, lockstep.reports.verify; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnext50_32x4d", "resnet18"])
def test_a_backward_pass_costs_at_most_two_forward_passes(name: str) -> None:
    # Grouped convolutions, too: counted too high, honest trainings of small networks would look impossible.
    model = getattr(models, name)(weights=None)
    figures = modelmeter.measure(model, (3, 64, 64))
    least, training = figures["least_macs"], figures["least_training_macs"]
    assert isinstance(least, int)
    assert isinstance(training, int)
    assert 2.5 * least < training <= 3 * least


def test_a_transposed_convolution_costs_backward_twice_what_it_costs_forward() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 1), torch.nn.ConvTranspose2d(4, 6, 5, stride=2, groups=2)
    )
    figures = modelmeter.measure(model, (3, 8, 8))
    first, second = 3 * 4 * 8 * 8, 4 * 8 * 8 * 3 * 25
    # The first layer needs no gradient of its input.
    assert (figures["macs"], figures["least_training_macs"]) == (first + second, 2 * first + 3 * second)
