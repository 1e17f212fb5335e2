"""On a real GPU: what the emulated ones refuse, allow and cast is what it does, and no verdict is another. `make gpu`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures import build, expect
from lockstep.doctor import trial
from lockstep.doctor.finding import Level
from lockstep.doctor.look import gather
from lockstep.exercise import find_exercises
from lockstep.grading import default_graders, known_exercises
from lockstep.sandbox import bubblewrap
from lockstep.sandbox.box import Box, open_box
from lockstep.sandbox.gpus import environment
from lockstep.sandbox.limits import ADDRESS_SPACE_OF_CUDA, Limits
from lockstep.sandbox.outcome import Outcome
from lockstep.sandbox.turns import run_beside_others
from tests import test_device as emulated
from tests.attack_corpus import Attack, all_attacks, grade
from tests.gpu_expressions import OUTCOMES, outcome, refuses
from tests.samples import graded, samples_to_meet, surprises
from tests.sandboxed import PROBE, ROOT, run, seen

pytestmark = pytest.mark.gpu

# The exercises whose checks ask for GPUs.
ON_GPUS = ("ddp_train", "fashion_trainer", "amp", "lightning_train")
# These rows of the tables put something on a second GPU; a machine with one says other words there.
ON_SEVERAL = {"two GPUs", "matmul of two GPUs", "indices of another GPU", "a GPU that is not there"}
ON_SEVERAL |= {"moved from a GPU to another"}
# As Check.run has it for real GPUs.
LIMITS = Limits(seconds=90, address_space=ADDRESS_SPACE_OF_CUDA)
ENVIRONMENT = environment(1)
AUTOCAST = {"fp16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(scope="module")
def gpu_box() -> Iterator[Box]:
    """A warm sandbox in which this machine's GPUs can be opened."""
    assert bubblewrap.gpu_devices(), "there is no NVIDIA GPU that a process can open"
    exercises = find_exercises(ROOT / "graders")
    with open_box(exercises, isolated=True, probes={"engine": PROBE}, real_gpus=1) as box:
        yield box


# The doctor and the box


def test_the_doctor_names_the_gpus_and_their_driver() -> None:
    gpus = gather().gpus
    assert gpus.usable == gpus.there > 0
    assert gpus.driver
    assert gpus.models
    assert gpus.memory_file


def test_the_doctor_tries_one() -> None:
    in_a_box, on_a_gpu = trial.trial(1)
    assert (in_a_box.level, on_a_gpu.level) == (Level.OK, Level.OK), on_a_gpu


COMPUTES = """
    import torch
    from lockstep.sandbox.gpus import gpus

    def main():
        with gpus(1):
            return computed()

    def computed():
        model = torch.nn.Conv2d(1, 2, 3).cuda()
        out = model(torch.ones(1, 1, 4, 4, device="cuda"))
        out.sum().backward()
        return [str(out.device), torch.cuda.device_count() > 0, model.weight.grad.isfinite().all().item()]
"""


def test_a_run_computes_on_the_gpu(gpu_box: Box) -> None:
    assert seen(gpu_box, COMPUTES, limits=LIMITS, environment=ENVIRONMENT) == ["cuda:0", True, True]


GROUP = (
    """
    import torch, torch.distributed as dist
    from lockstep.sandbox.gpus import gpus

    def main():
        with gpus(1):
            return met()

    def met():
        torch.cuda.set_device(0)
        dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
        told = added_up()
        dist.destroy_process_group()
        return told
"""
    + emulated.ADDED_UP
)


def test_nccl_adds_up_and_takes_no_tensor_of_the_cpu(gpu_box: Box) -> None:
    (rank,) = run(gpu_box, GROUP, ranks=1, limits=LIMITS, shared_files=True, environment=ENVIRONMENT).ranks
    assert rank.values.get("seen") == [1.0, emulated.REFUSED], rank


TAKES_MORE_THAN_HALF = """
    import threading, torch
    from lockstep.sandbox.gpus import gpus

    def main():
        with gpus(1):
            return taken()

    def taken():
        free, total = torch.cuda.mem_get_info()
        held = torch.empty(total * 11 // 20, dtype=torch.uint8, device="cuda")
        return held.device.type
"""
KEEPS_IT = TAKES_MORE_THAN_HALF.replace("return held", "threading.Event().wait(); return held")


def test_who_finds_the_memory_taken_gets_it_when_it_is_free(gpu_box: Box) -> None:
    """No more than half, or the other tests that run meanwhile would miss it."""
    begun: list[None] = []

    def attempt() -> Outcome:
        begun.append(None)
        return run(gpu_box, TAKES_MORE_THAN_HALF, limits=LIMITS, environment=ENVIRONMENT)

    def keep() -> Outcome:
        return run(other, KEEPS_IT, limits=replace(LIMITS, seconds=15), environment=ENVIRONMENT)

    with open_box([], isolated=True, probes={"engine": PROBE}, real_gpus=1) as other:
        keeper = threading.Thread(target=run_beside_others, args=[keep])
        keeper.start()
        while (memory := torch.cuda.mem_get_info())[0] > memory[1] * 9 // 20:
            assert keeper.is_alive()
        (rank,) = run_beside_others(attempt).ranks
        keeper.join()
    assert rank.values.get("seen") == "cuda"
    assert len(begun) == 2


# What the emulated GPUs say, held against this one


@pytest.mark.parametrize("name", sorted(set(emulated.MIXED) - ON_SEVERAL))
def test_mixed_devices_are_refused_in_these_words(name: str) -> None:
    act, text = emulated.MIXED[name]
    with pytest.raises(RuntimeError) as caught:
        act()
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("name", sorted(set(emulated.ALLOWED) - ON_SEVERAL))
def test_what_is_let_through_is_let_through(name: str) -> None:
    assert emulated.ALLOWED[name]().device == torch.device("cuda:0")


def test_a_cpu_tensor_is_written_by_indices_of_a_gpu() -> None:
    assert emulated.written_from_a_gpu() == [[1.0, 0.0, 4.0], [0.0, 0.0], [[0.0, 2.0], [0.0, 0.0]]]


@pytest.mark.parametrize("name", emulated.OPERATIONS)
def test_an_operation_gives_this_type(name: str) -> None:
    expected = emulated.OPERATIONS[name](emulated._inputs("cpu"))
    found = emulated.OPERATIONS[name](emulated._inputs("cuda"))
    assert (found.device, found.dtype, found.shape) == (
        torch.device("cuda:0"),
        expected.dtype,
        expected.shape,
    )


@pytest.mark.parametrize("name", emulated.OPTIMIZERS)
def test_an_optimizer_trains(name: str) -> None:
    expected = emulated._train("cpu", emulated.OPTIMIZERS[name])
    found = emulated._train("cuda:0", emulated.OPTIMIZERS[name])
    # Dropout draws other numbers, so that only the first loss is near.
    assert [values.shape for values in found] == [values.shape for values in expected]


def types_under_autocast(dtype: torch.dtype) -> dict[str, str]:
    """The type of what each operation gives under autocast on the first GPU, or the first words of its refusal.

    Left out is what no exercise has: cuDNN's recurrent networks, float16 under any autocast, and sparse matrices.
    """
    return {
        name: _type_under_autocast(operation, dtype)
        for name, operation in sorted(emulated.OPERATIONS.items())
        if name not in ("LSTM", "GRU on packed sequences", "sparse")
    }


def _type_under_autocast(operation: Callable[[emulated.Tensors], Any], dtype: torch.dtype) -> str:
    try:
        with torch.autocast("cuda", dtype=dtype):
            return str(operation(emulated._inputs("cuda")).dtype)
    except RuntimeError as error:
        return " ".join(str(error).split()[:6])


EMULATED = """
import json, sys, torch, torch._dynamo
from lockstep.sandbox.device import emulated_gpus
from tests.test_real_gpu import AUTOCAST, types_under_autocast
with emulated_gpus(1):
    json.dump(types_under_autocast(AUTOCAST[sys.argv[1]]), sys.stdout)
"""


@pytest.mark.parametrize("precision", AUTOCAST)
def test_autocast_casts_what_it_casts(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a process of its own, which has not started CUDA.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    command = [sys.executable, "-W", "ignore", "-c", EMULATED, precision]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert types_under_autocast(AUTOCAST[precision]) == json.loads(said.stdout)


def test_expressions_come_to_what_they_came_to() -> None:
    """Of another release of torch the words may be others, but what is refused is refused."""
    found = {expression: outcome(expression) for expression in OUTCOMES}
    differ = {name for name, told in OUTCOMES.items() if refuses(told) or refuses(found[name])}
    assert {name for name in differ if refuses(OUTCOMES[name]) != refuses(found[name])} == set()
    assert {name: found[name] for name in OUTCOMES.keys() - differ} == {
        name: OUTCOMES[name] for name in OUTCOMES.keys() - differ
    }


def test_memory_runs_out_in_these_words() -> None:
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        torch.zeros(1 << 45, device="cuda")
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == torch.cuda.get_device_properties(0).total_memory


# Grading


@pytest.mark.parametrize("exercise", known_exercises(default_graders()))
def test_the_reference_earns_every_point(exercise: str, gpu_box: Box) -> None:
    result = graded(build.ROOT / "reference", exercise, gpu_box, device="cuda")
    assert expect.reference_surprises(result) == []


@pytest.mark.parametrize(
    "sample", [sample for exercise in ON_GPUS for sample in samples_to_meet(build.all_submissions(exercise))]
)
def test_samples_score_what_they_must(sample: build.Sample, tmp_path: Path, gpu_box: Box) -> None:
    assert surprises(sample, tmp_path, gpu_box, device="cuda") == []


@pytest.mark.parametrize(
    "attack",
    [attack for attack in all_attacks() if attack.about.get("exercise") in ON_GPUS],
    ids=lambda attack: attack.name,
)
def test_an_attack_earns_nothing(attack: Attack, tmp_path: Path, gpu_box: Box) -> None:
    canary = tmp_path / "canary"
    canary.write_text("untouched")
    canary.chmod(0o666)
    submission = attack.build(tmp_path / "hand-in", canary)
    exercise, checks = attack.about["exercise"], attack.about["checks"]
    results = grade(submission, exercise, checks, gpu_box, slow=True, device="cuda")
    assert results.keys() == set(checks)
    for result in results.values():
        assert (result.verdict in attack.about["verdict"], result.points) == (True, 0), result
    assert canary.read_text() == "untouched"
