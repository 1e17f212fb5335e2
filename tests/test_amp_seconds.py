"""What a report of exercise 6 says of its run: the seconds against those of the processor, and the network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from graders.amp.probe.training import Training
from graders.amp.test_amp_script import least_seconds, other_network
from lockstep.sandbox.box import Box
from lockstep.wire import Json
from tests.amp_scripts import result

CLOCK = "import argparse\nimport time\n"
READ = '"wall_s": repr(wall),'
KEPT = "        runs.append(measured)\n"
LOOP = "        for batch in train_loader:\n"
STEP = "            metrics = train_step(model, batch, criterion, optimizer, scaler, device, args.amp, args.grad_clip)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CLOCK, f"{CLOCK}\ntime.perf_counter = time.process_time\n"),
        (READ, '"wall_s": f"{wall / args.epochs:.2f}",'),
        (KEPT, f"        if epoch > 0:\n    {KEPT}"),
        (
            LOOP + STEP,
            "        ended = start\n"
            f"{LOOP}            start += time.perf_counter() - ended\n{STEP}            ended = time.perf_counter()\n",
        ),
    ],
    ids=["of the processor", "an epoch's mean", "after an epoch to warm up", "of the steps alone"],
)
def test_seconds_may_be_read_otherwise(old: str, new: str, tmp_path: Path, box: Box) -> None:
    found = result(tmp_path, box, "notebook", old, new)
    assert found.points == found.max_points, found.message


def test_seconds_of_one_batch_are_too_few(tmp_path: Path, box: Box) -> None:
    found = result(tmp_path, box, "notebook", READ, '"wall_s": repr(wall / 1000),')
    assert found.points == found.max_points / 2
    assert "its timings add up to" in found.message


@pytest.mark.parametrize(
    ("steps", "seconds"), [([5, 5], 5.0), ([5], 2.5), ([53, 106], 53.0), ([0], 0.0), ([], 0.0)]
)
def test_no_more_steps_count_than_were_made(steps: list[int], seconds: float) -> None:
    assert least_seconds([{"steps": count} for count in steps], 106, 0.5) == seconds


def test_a_step_is_timed_from_its_forward_on() -> None:
    """A validation between two steps, and a step that is left out for an overflow, are no part of it."""
    training, model = Training(), nn.Linear(2, 2)
    assert training.step_seconds() is None
    training.note("optimizer", False, 0.1)
    assert training.step_seconds() is None
    training.forward(model, torch.zeros(2, 3, 8, 8))
    training.note("optimizer", False, 0.1)
    first = training.step_seconds()
    assert first is not None
    training.note("optimizer", False, 0.1)
    with torch.no_grad():
        training.forward(model, torch.zeros(2, 3, 8, 8))
    training.note("optimizer", False, 0.1)
    assert training.step_seconds() == first


@pytest.mark.parametrize("model", ["resnet152", "ResNet-50", "resnet 101", "resnet_34"])
def test_a_network_of_another_depth_is_named(model: str) -> None:
    assert other_network(json.dumps({"workload": {"model": model}})) == model


@pytest.mark.parametrize(
    "model",
    [
        "resnet18",
        "ResNet-18",
        "ResNet",
        "resnet",
        "mine",
        "resnet18 (default: resnet152)",
        "resnet152d",
        "resnet1520",
        152,
        None,
    ],
)
def test_the_network_may_have_a_name_of_its_own(model: Json) -> None:
    assert other_network(json.dumps({"workload": {"model": model}})) is None


def test_a_report_need_not_name_a_network() -> None:
    assert other_network(json.dumps({})) is other_network(None) is None
