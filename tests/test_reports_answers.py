"""C16: sentences with numbers, against a report with a speedup of 1.959 and an efficiency of 0.980 on 2 GPUs."""

from __future__ import annotations

import pytest

from fixtures.reports import knowledge
from fixtures.reports.rework import claims_of
from fixtures.reports.sample import start
from lockstep.reports import answers
from lockstep.reports.document import document
from lockstep.reports.finding import Judgement
from lockstep.reports.verify import verify


def said(text: str, kind: str = "ddp_scaling") -> list[str]:
    report = start(kind)
    report["answers"] = {"question": text}
    found = verify(document(report), knowledge(report), answers.RULES).findings
    assert all(each.judgement is Judgement.UNUSUAL for each in found)
    return [each.message for each in found]


@pytest.mark.parametrize(
    "text",
    [
        "With 2 GPUs I measured a speedup of 3.61.",
        "The speed-up was 1.2 on two GPUs.",
        "Speedup: 7.9x",
        "On 2 GPUs the efficiency is 0.61.",
        "Efficiency: 55 %",
    ],
)
def test_a_number_that_the_report_does_not_have_is_told(text: str) -> None:
    assert len(said(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "With 2 GPUs I measured a speedup of {speedup}.",
        "The speedup is about {rounded}, an efficiency of {percent} %.",
        "The speedup on 2 GPUs (batch 32) came to {speedup}x.",
        "The speedup with 4 GPUs is close to 4.",
        "A linear speedup would be 8.",
        "The paper reports a speedup of 128 on 256 GPUs.",
        "Amdahl's law allows a speedup of 20.",
        "The efficiency of 0.5 that I expected did not come.",
        "Speedup means seconds of one GPU over those of 2.",
        "We used 16 GB of RAM, 8 workers, seed 1234 and Python 3.11.",
        "The speedup for 2 GPUs.",
        "accuracy 12.3",
        "Speedup " * 5_000,
        "speedup 1" + "0" * 5_000,
    ],
)
def test_what_may_be_said_is_left_alone(text: str) -> None:
    speedup = float(claims_of(start("ddp_scaling"), "speedup", world_size=2)[0]["value"])
    filled = text.format(speedup=speedup, rounded=round(speedup, 1), percent=round(speedup * 50))
    assert said(filled) == []


def test_accuracies_are_looked_up_among_the_claims() -> None:
    stated = claims_of(start("amp"), "accuracy_pct")[0]["value"]
    assert said(f"The accuracy is {stated} % with both.", "amp") == []
    assert len(said("The accuracy is 99.1 % with both.", "amp")) == 1
