"""The grader of exercise 6 on scripts whose criterion is another than nn.CrossEntropyLoss()."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graders.amp.batches import Batch, training
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import RankOutcome
from lockstep.verdict import Verdict
from lockstep.wire import Json
from tests.amp_scripts import result

CRITERION = "    criterion = nn.CrossEntropyLoss()\n"
SMOOTHED = """\
    class Smoothed(nn.Module):
        def forward(self, x, target):
            logprobs = x.log_softmax(dim=-1)
            own = -logprobs.gather(dim=-1, index=target.unsqueeze(1)).squeeze(1)
            return (0.9 * own - 0.1 * logprobs.mean(dim=-1)).mean()

    criterion = Smoothed()
"""
ONE_HOT = """\
    def criterion(logits, labels):
        hot = nn.functional.one_hot(labels, logits.shape[1])
        return -(hot * torch.log_softmax(logits.float(), dim=1)).sum(dim=1).mean()
"""
BY_INDEX = """\
    def criterion(logits, labels):
        return (torch.logsumexp(logits, 1) - logits[torch.arange(len(labels)), labels]).mean()
"""
BY_FUNCTION = """\
    class CrossEntropy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, logits, labels):
            p = logits.float().softmax(1)
            ctx.save_for_backward(p, labels)
            return -p[torch.arange(len(labels)), labels].log().mean()

        @staticmethod
        def backward(ctx, grad):
            p, labels = ctx.saved_tensors
            return grad * (p - nn.functional.one_hot(labels, p.shape[1])) / len(labels), None

    criterion = CrossEntropy.apply
"""
FOCAL = """\
    def criterion(logits, labels):
        each = nn.functional.cross_entropy(logits, labels, reduction="none")
        return ((1 - torch.exp(-each)) ** 2 * each).mean()
"""
SUM = """\
    def criterion(logits, labels):
        return nn.functional.cross_entropy(logits, labels, reduction="sum") / len(labels)
"""
BINARY = """\
    def criterion(logits, labels):
        hot = nn.functional.one_hot(labels, logits.shape[1]).float()
        return nn.BCEWithLogitsLoss()(logits, hot)
"""
LIKE_KERAS = """\
    def criterion(logits, labels):
        hot = nn.functional.one_hot(labels, logits.shape[1]).float()
        return nn.functional.cross_entropy(logits, hot)
"""


@pytest.mark.parametrize(
    "criterion",
    [SMOOTHED, ONE_HOT, BY_INDEX, BY_FUNCTION, FOCAL, SUM, LIKE_KERAS, BINARY],
    ids=["smoothed", "one-hot", "by index", "by function", "focal", "sum", "like Keras", "binary"],
)
def test_a_criterion_may_be_written_by_hand(criterion: str, tmp_path: Path, box: Box) -> None:
    found = result(tmp_path, box, "tensorboard", CRITERION, criterion)
    assert (found.verdict, found.message) == (Verdict.PASSED, "")


@pytest.mark.parametrize(
    ("events", "losses"),
    [
        ([["loss", 2.0, 2.0], ["scale", 1.0], ["backward", False, 64.0]], (2.0,)),
        ([["loss", None, 2.0], ["scale", 1.5], ["backward", False, 96.0]], (2.0, 1.5)),
        ([["loss", 8.0, 2.0], ["backward", False, 1.5]], (8.0, 2.0, 1.5)),
        ([["loss", 8.0, None], ["backward", False, 8.0]], (8.0, 8.0)),
    ],
    ids=["the mean", "one for each item", "the sum", "a label that is ignored"],
)
def test_what_may_be_logged_as_the_loss(events: list[Json], losses: tuple[float, ...]) -> None:
    assert isinstance(events[0], list)
    values: dict[str, Json] = {"losses": [events[0][1]], "sizes": [1], "events": events}
    arrays = {"logits": np.arange(6.0)[None], "labels": np.array([0])}
    assert training(RankOutcome(True, values, arrays)) == [Batch(losses, (0.0, 0.0), (0.0, 0.0), None, 1)]
