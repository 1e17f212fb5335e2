"""Exercise 4, ranks on GPUs and on nodes of their own: what is not held against code that is right on one machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fixtures import build
from graders.ddp_train.runs import judged
from graders.ddp_train.test_ddp_replicas import apart_from_the_first_step
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.verdict import Crashed, Failed, Verdict
from tests.samples import graded


def told(judge: Callable[[Outcome], None], run: Callable[[], Outcome]) -> tuple[bool, str]:
    """Whether there was an outcome, and what the judge said."""
    outcome, ended = judged(judge, run)
    return outcome is not None, ended.feedback.message if ended else ""


def test_what_ends_early_elsewhere_is_no_wrong_result() -> None:
    def minds(_: Outcome) -> None:
        raise Failed("wrong")

    def passes(_: Outcome) -> None:
        pass

    def run() -> Outcome:
        return Outcome((RankOutcome(complete=True),), elapsed=1.0)

    def crashes() -> Outcome:
        raise Crashed("not known on an emulated GPU")

    assert told(passes, run) == (True, "")
    assert told(minds, run) == (True, "wrong")
    assert told(minds, crashes) == (False, "not known on an emulated GPU")


@pytest.mark.parametrize(
    ("gradients", "finals", "is_told"),
    [
        ((0, 0), (0, 0), False),
        ((0, 0), (0, 1), False),
        ((0, 1), (0, 0), False),
        ((None, None), (0, 1), False),  # no step was seen
        ((0, 1), (0, 1), True),
        ((0, 1), (0, None), True),
    ],
)
def test_weights_that_differ_are_told_where_the_gradients_did(
    gradients: tuple[int | None, ...], finals: tuple[int | None, ...], is_told: bool
) -> None:
    ranks = []
    for gradient, final in zip(gradients, finals, strict=True):
        held = {"grad0/head.bias": gradient, "final/head.bias": final}
        arrays = {name: np.full(2, value, np.float32) for name, value in held.items() if value is not None}
        ranks.append(RankOutcome(complete=True, arrays=arrays))
    assert (apart_from_the_first_step(ranks) is not None) == is_told


WRAPPED = "    return DistributedDataParallel(model.to(device), device_ids=device_ids)\n"
STEPPED = "        loss.backward()\n"
WITHOUT_A_WRAPPER = """
    model = model.to(device)
    for value in [*model.parameters(), *model.buffers()]:
        dist.broadcast(value.data, 0)
    return model
"""
# As recipes for NCCL have it: first within the node, then between the nodes.
BY_NODES = """        loss.backward()
        group = dist.new_subgroups(int(os.environ.get("LOCAL_WORLD_SIZE", 1)))[0]
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, group=group)
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size() * dist.get_world_size(group)
"""
IN_ONE_PIECE = """        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat, async_op=True).wait()
        for gradient, mean in zip(gradients, flat.div_(dist.get_world_size()).split([g.numel() for g in gradients])):
            gradient.copy_(mean.view_as(gradient))
"""


@pytest.mark.parametrize("averaged", [BY_NODES, IN_ONE_PIECE], ids=["by nodes", "in one piece"])
def test_averages_by_hand_are_right_on_gpus_and_nodes(averaged: str, tmp_path: Path, box: Box) -> None:
    source = (build.ROOT / "reference" / "ddp_train.py").read_text()
    assert source.count(WRAPPED) == source.count(STEPPED) == 1
    source = source.replace(WRAPPED, WITHOUT_A_WRAPPER).replace(STEPPED, averaged)
    (tmp_path / "ddp_train.py").write_text(source)
    (exercise,) = graded(
        tmp_path, "ddp_train", box, checks=("weights_in_sync",), world_sizes=(2, 4)
    ).exercises
    assert [(check.verdict, check.message) for check in exercise.checks] == [(Verdict.PASSED, "")]


def test_an_evaluation_may_be_done_where_the_model_is(tmp_path: Path, box: Box) -> None:
    """Of what it is given, only the model says on which GPU of which node."""
    source = (build.ROOT / "reference" / "ddp_train.py").read_text()
    begins = "    model.eval()\n"
    assert source.count(begins) == 1
    (tmp_path / "ddp_train.py").write_text(
        source.replace(begins, f"{begins}    device = next(model.parameters()).device\n")
    )
    (exercise,) = graded(
        tmp_path, "ddp_train", box, checks=("shuffle_false_for_eval",), world_sizes=(2, 3)
    ).exercises
    assert [(check.verdict, check.message) for check in exercise.checks] == [(Verdict.PASSED, "")]
