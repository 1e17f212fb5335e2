"""The grader of exercise 4, the script beside right functions: devices, gradients, rates, GPUs, and its report."""

from __future__ import annotations

from typing import Any

import pytest

from graders.ddp_train.reported import settings
from lockstep.devicefault import NO_BACKEND
from lockstep.exercise import load_exercise
from lockstep.sandbox.outcome import Outcome, RankOutcome, StudentError
from lockstep.sandbox.spec import RunSpec
from lockstep.wire import Json
from tests.made_up import check_of
from tests.observed import judge_of
from tests.sandboxed import ROOT
from tests.test_ddp_grader import joined, launched, verdict

ASKED = "--nproc-per-node\n1\nddp_train.py\n--help\n"
UNASKED = "--standalone\n--nproc-per-node\n2\nddp_train.py\n--help\n"


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([["cuda:0"], ["cuda:1"]], ""),
        ([["cuda:0"], ["cuda:0"]], "on the first of them"),
        ([["cpu"], ["cpu"]], "on the CPU"),
        ([["cuda:0"], []], ""),  # it did not come to a step
        ([[], []], ""),
        ([None, None], ""),
        ([["cpu", "cuda:0"], ["cpu", "cuda:0"]], ""),  # some of a network may be elsewhere on purpose
        (["cuda:0", "cuda:0"], ""),
    ],
)
def test_the_script_trains_on_the_gpus_that_setup_returns(places: list[Json], said: str) -> None:
    def answer(spec: RunSpec) -> Outcome:
        if spec.call != "places":
            return joined(spec, "gloo", "cuda")
        ranks = (RankOutcome(complete=True, values={"places": one}) for one in places)
        return Outcome(tuple(ranks), elapsed=1.0)

    told = verdict("joins_group", answer)
    assert said in told
    assert said or told == ""


@pytest.mark.parametrize(
    ("raised", "is_told"),
    [
        ((NO_BACKEND, NO_BACKEND), True),
        ((NO_BACKEND, "Connection closed by peer"), False),
        (("the grader runs this on an emulated GPU, which does not know this call",) * 2, False),
    ],
)
def test_a_script_that_stays_on_the_cpu_is_told(raised: tuple[str, ...], is_told: bool) -> None:
    def answer(spec: RunSpec) -> Outcome:
        if spec.call != "places":
            return joined(spec, "gloo", "cuda")
        errors = (StudentError("RuntimeError", message, (), "running ddp_train.py") for message in raised)
        return Outcome(tuple(RankOutcome(complete=True, error=error) for error in errors), elapsed=1.0)

    told = verdict("joins_group", answer)
    assert ("what the ranks are to exchange is on the CPU" in told) == is_told
    assert is_told or told == ""


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([], ""),
        ([3.0, 3.0], ""),
        ([30.0, 0.5], ""),  # rates of their own
        ([3.0, 1.0], "3 groups of parameters"),
        ([1.0], "of 1 other was"),
        (["x", None], ""),
    ],
)
def test_scale_lr_is_for_every_group_of_parameters(rates: list[Json], said: str) -> None:
    def answer(spec: RunSpec) -> Outcome:
        arguments: Any = spec.ranks[0].values["arguments"]
        lr, scaled = float(arguments[arguments.index("--lr") + 1]), "--scale-lr" in arguments
        rate = lr * (len(spec.ranks) if scaled else 1)
        groups = [lr * one if isinstance(one, float) else one for one in rates] if scaled else []
        seen = RankOutcome(
            complete=True, values={"lr": [rate], "later": [rate, rate], "groups": list(groups)}
        )
        return Outcome((seen,) * len(spec.ranks), elapsed=1.0)

    told = verdict("lr_scaling", answer)
    assert said in told
    assert said or told == ""


@pytest.mark.parametrize(
    ("report", "found"),
    [
        (
            '{"runs": [{"config": {"world_size": 2}}, {"config": {"world_size": 1.0}}, {"config": {}}]}',
            [2],
        ),
        ('{"runs": [{"config": {"world_size": "2"}}]}', []),
        ('{"runs": [{"config": []}]}', []),
        ('{"runs": {"config": 3}}', []),
        ("[]", []),
        ("", []),
        (None, []),
    ],
)
def test_what_a_report_says_of_its_runs(report: Json, found: list[int]) -> None:
    assert settings(report, "world_size") == found


@pytest.mark.parametrize(
    ("config", "alone", "said"),
    [
        ('{"world_size": 2, "batch_per_rank": 4}', '{"world_size": 1}', ""),
        ('{"world_size": 2, "batch_per_rank": 8}', '{"world_size": 1}', ""),  # of all ranks
        ('{"world_size": 2, "batch_size": 32}', '{"processes": 2}', ""),
        ('{"world_size": 2, "batch_per_rank": 32}', '{"world_size": 1}', "batch_per_rank 32, expected 4"),
        ('{"world_size": 2, "batch_per_rank": 4}', '{"world_size": 2}', "world_size 2 into its report, expected 1"),
    ],
)  # fmt: skip
def test_a_report_tells_of_the_run_that_wrote_it(config: str, alone: str, said: str) -> None:
    report, other = (f'{{"runs": [{{"config": {one}}}]}}' for one in (config, alone))
    went_on: Json = {"wrote": True, "before": 4, "after": 8, "report": other}
    told = verdict("script", lambda _: launched(asked=ASKED, report=report, went_on=went_on))
    assert said in told
    assert said or told == ""


@pytest.mark.parametrize(
    ("unasked", "gpus", "passes"),
    [
        (UNASKED, "", True),
        (UNASKED, "0,1", True),
        (UNASKED, "-1", True),  # none, for a training on the CPU
        (UNASKED, "GPU-1, GPU-2", True),
        (UNASKED, "0", False),
        (UNASKED, 3, True),
        (UNASKED + "--backend\ngloo\n", "0", True),
        (UNASKED.replace("2", "gpu"), "0", True),  # torchrun counts them
        (UNASKED.replace("2", "1"), "0", True),
        (None, "0", True),
    ],
)
def test_a_script_leaves_a_gpu_to_each_of_its_processes(unasked: Json, gpus: Json, passes: bool) -> None:
    told = verdict("script", lambda _: launched(asked=ASKED, unasked=unasked, gpus=gpus))
    assert (told == "") == passes, told
    assert passes or "there is none for LOCAL_RANK 1" in told


@pytest.mark.parametrize(("failed_with", "noted"), [(0, True), (3, False), (1, False), (None, False)])
def test_a_script_that_hides_a_failure_is_told_and_loses_nothing(failed_with: Json, noted: bool) -> None:
    check = check_of("ddp_train", "script", lambda _: launched(asked=ASKED, failed_with=failed_with))
    judge_of(load_exercise(ROOT / "graders" / "ddp_train"), "script")(check)
    assert any("ends with status 0 all the same" in note for note in check.notes) == noted
