"""The grader of exercise 4: forged answers, scripts that go their own way, and what is read from their runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch._C._distributed_c10d import BuiltinCommHookType
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from fixtures import build
from graders.ddp_train import expected
from graders.ddp_train.batches import fed_by_step
from graders.ddp_train.probe import compression
from graders.ddp_train.probe.checkpoints import CHECKPOINT
from graders.ddp_train.probe.script import checkpoint_elsewhere
from graders.ddp_train.test_ddp_communication import is_divided
from graders.ddp_train.test_ddp_data import steps_hint
from graders.ddp_train.test_ddp_script import RESNET, hands_nothing_on
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import CodeFrame, Outcome, RankOutcome, StudentError
from lockstep.sandbox.spec import RunSpec
from lockstep.verdict import CheckEnded, Verdict
from lockstep.wire import Json
from tests.forging import forgery, taken_in
from tests.made_up import check_of, end_of
from tests.samples import graded

EXERCISE = "ddp_train"
REFERENCE = build.ROOT / "reference"


@pytest.mark.parametrize(
    ("odd", "odd_array"),
    [
        pytest.param("-1", "torch.zeros(20, 48)", marks=pytest.mark.slow),
        ("[[0]]", "torch.ones(3, 3, 3, dtype=torch.int64)"),
    ],
)
def test_forged_answers_earn_nothing_and_break_nothing(
    odd: str, odd_array: str, tmp_path: Path, box: Box
) -> None:
    for name in ("ddp_train.py", "ddp_train.sh", "perf_report.py"):
        shutil.copy(REFERENCE / name, tmp_path / name)
    source = tmp_path / "ddp_train.py"
    source.write_text(
        source.read_text().replace(
            "import argparse\n", "import argparse\n" + forgery(odd, odd_array, spared="device"), 1
        )
    )
    (exercise,) = graded(tmp_path, EXERCISE, box).exercises
    checks = {check.id: check for check in exercise.checks}
    assert checks.pop("joins_group").verdict is Verdict.PASSED
    # The script's processes do not load the forgery, and an exception that comes out is no answer.
    for name in ("fails_fast", "single_process", "script"):
        checks.pop(name)
    assert taken_in(checks.values()) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("        loss = train_one_epoch(", "        model.train()\n        loss = train_one_epoch("),
        (
            "        if rank == 0:\n            print(",
            "        model.train()\n        if rank == 0:\n            print(",
        ),
    ],
    ids=["before each epoch", "after each evaluation"],
)
def test_main_may_see_to_training_mode(before: str, after: str, tmp_path: Path, box: Box) -> None:
    source = (REFERENCE / "ddp_train.py").read_text()
    assert source.count("    model.train()\n") == source.count(before) == 1
    source = source.replace("    model.train()\n", "").replace(before, after)
    (tmp_path / "ddp_train.py").write_text(source)
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=("single_process",)).exercises
    assert [(check.verdict, check.message) for check in exercise.checks] == [(Verdict.PASSED, "")]


AVERAGED = """
    def average(*_):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size

    optimizer.register_step_pre_hook(average)
"""
WARM_UP = """
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.0)
    model(torch.ones(2, 3, 32, 32))
"""
A_COPY_OF_EACH_RANK = """
    torch.manual_seed(rank)
    copy = models.resnet18()
    optimizer.register_step_post_hook(lambda *_: copy(torch.ones(2, 3, 32, 32)))
"""
TWO_OPTIMIZERS = """
    other = torch.optim.SGD(model.module.layer1.parameters(), lr=lr)
    optimizer = torch.optim.SGD([p for n, p in model.named_parameters() if "layer1" not in n], lr=lr)
    optimizer.register_step_post_hook(lambda *_: other.step())
"""


@pytest.mark.parametrize(
    ("wrapping", "more"),
    [
        ("ddp_model = wrap_model(", AVERAGED),
        ("model = wrap_model(", WARM_UP),
        ("model = wrap_model(", A_COPY_OF_EACH_RANK),
        ("model = wrap_model(", TWO_OPTIMIZERS),
    ],
    ids=["averaged within the step", "warm-up from rate 0", "a copy of each rank", "two optimizers"],
)
def test_a_script_may_train_together_in_its_own_way(
    wrapping: str, more: str, tmp_path: Path, box: Box
) -> None:
    source = (REFERENCE / "ddp_train.py").read_text()
    made = "    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=MOMENTUM)\n"
    wrapped = "    model = wrap_model("
    assert source.count(made) == source.count(wrapped) == 1
    source = source.replace(made, made + more).replace(wrapped, f"    {wrapping}")
    (tmp_path / "ddp_train.py").write_text(source)
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=("really_communicates",)).exercises
    assert [(check.verdict, check.message) for check in exercise.checks] == [(Verdict.PASSED, "")]


def test_test_images_that_nothing_is_learned_from_are_read_at_will(tmp_path: Path, box: Box) -> None:
    source = (REFERENCE / "ddp_train.py").read_text()
    learns, evaluates = "        loss = train_one_epoch(", "@torch.no_grad()\n"
    assert source.count(learns) == source.count(evaluates) == source.count("    model.eval()\n") == 1
    # A batch is looked at before each epoch, and the network evaluated as it trains.
    source = source.replace(learns, f"        next(iter(test_loader)), test_data[0]\n{learns}")
    source = source.replace(evaluates, "").replace("    model.eval()\n", "")
    (tmp_path / "ddp_train.py").write_text(source)
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=("really_communicates",)).exercises
    assert [(check.verdict, check.message) for check in exercise.checks] == [(Verdict.PASSED, "")]


JOINS = "dist.init_process_group(backend, init_method=init_method, rank=rank, world_size=world_size)"
C10D = JOINS.replace("dist.", "dist.distributed_c10d.")
MESH = f"""if device.type == "cuda" and init_method is None:
            dist.init_device_mesh("cuda", (world_size,))
        else:
            {JOINS}"""


@pytest.mark.parametrize("joins", [C10D, MESH], ids=["distributed_c10d", "init_device_mesh"])
def test_a_group_on_gpus_may_be_made_by_another_of_its_names(joins: str, tmp_path: Path, box: Box) -> None:
    source = (REFERENCE / "ddp_train.py").read_text()
    assert source.count(JOINS) == 1
    (tmp_path / "ddp_train.py").write_text(source.replace(JOINS, joins))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=("joins_group",)).exercises
    assert [(check.verdict, check.message) for check in exercise.checks] == [(Verdict.PASSED, "")]


def test_what_bash_does_not_understand_is_told() -> None:
    printed = "./ddp_train.sh: line 5: `more=(--epochs 2)': not a valid identifier"
    ended = end_of(EXERCISE, "script", lambda _: launched(status=1, output=printed))
    assert ended is not None
    assert "bash ended at that line" in ended.feedback.hint


def test_a_group_may_be_left_as_python_ends(tmp_path: Path, box: Box) -> None:
    source = (REFERENCE / "ddp_train.py").read_text()
    last = "    cleanup()\n\n\nif __name__"
    assert source.count(last) == source.count("import os\n") == 1
    source = source.replace(last, "    atexit.register(cleanup)\n\n\nif __name__")
    (tmp_path / "ddp_train.py").write_text(source.replace("import os\n", "import atexit\nimport os\n"))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=("cleans_up",)).exercises
    assert [(check.verdict, check.message) for check in exercise.checks] == [(Verdict.PASSED, "")]


def test_a_report_that_was_handed_in_is_not_the_scripts(tmp_path: Path, box: Box) -> None:
    for name in ("ddp_train.py", "ddp_train.sh", "perf_report.py", "reports/ddp.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REFERENCE / name, tmp_path / name)
    script = tmp_path / "ddp_train.sh"
    text = script.read_text()
    assert text.count(" --report reports/ddp.json") == 1
    script.write_text(text.replace(" --report reports/ddp.json", ""))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=("script",)).exercises
    (check,) = exercise.checks
    assert check.verdict is Verdict.FAILED
    assert "one that was handed in does not count" in check.message


@pytest.mark.parametrize(
    "sizes", [None, "x", [], [0], [-4, 8], [True] * 4, [2.0, 2.0], [4, None], [5], [1 << 62], [[4]]]
)
def test_forged_batch_sizes_are_no_batches(sizes: Json) -> None:
    data = expected.make_data(np.random.default_rng(0), 4)
    rank = RankOutcome(complete=True, values={"sizes": sizes}, arrays={"rows": data.images.reshape(4, -1)})
    assert not expected.batches(rank, data)


def test_rows_of_other_data_are_no_batches() -> None:
    mine, other = (expected.make_data(np.random.default_rng(seed), 4) for seed in (0, 1))
    rows = mine.images.reshape(4, -1)
    assert expected.batches(RankOutcome(True, {"sizes": [2, 2]}, {"rows": rows}), mine) == [(0, 1), (2, 3)]
    for wrong in (other.images.reshape(4, -1), rows.astype(np.float64), rows[:, :5], rows[0]):
        assert expected.batches(RankOutcome(True, {"sizes": [2, 2]}, {"rows": wrong}), mine) is None


def verdict(check_id: str, answer: Callable[[RunSpec], Outcome]) -> str:
    """What the judge of a check makes of runs that never were; nothing when it passes."""
    ended = end_of(EXERCISE, check_id, answer)
    return ended.feedback.message if ended is not None else ""


def joined(spec: RunSpec, backend: str, device: str) -> Outcome:
    """What setup() does where every rank joins; where a backend is given, this one on this device."""
    if spec.call == "places":  # nothing is said of a script that comes to no step there
        return Outcome((RankOutcome(complete=True),) * len(spec.ranks), elapsed=1.0)
    ranks = []
    for rank in spec.ranks:
        place, node = rank.environment, {"cuda": f"cuda:{rank.environment['LOCAL_RANK']}", "cpu": "cpu"}
        gpus = "gpus" in rank.values
        # In two jobs, those of one's own.
        group = [one for one in spec.ranks if one.environment["MASTER_PORT"] == place["MASTER_PORT"]]
        values: dict[str, Json] = {
            "initialized": True,
            "rank": int(place["RANK"]),
            "world_size": int(place["WORLD_SIZE"]),
            "device": node[device if "backend" in rank.values else "cuda" if gpus else "cpu"],
            "backend": backend if "backend" in rank.values else "nccl" if gpus else "gloo",
        }
        total = np.array([sum(int(one.arrays["number"][0]) for one in group)])
        ranks.append(RankOutcome(complete=True, values=values, arrays={"total": total}))
    return Outcome(tuple(ranks), elapsed=1.0)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_backend_that_is_given_is_the_one_to_use(device: str) -> None:
    assert verdict("joins_group", lambda spec: joined(spec, "gloo", device)) == ""
    told = verdict("joins_group", lambda spec: joined(spec, "nccl", device))
    assert "setup(backend='gloo', init_method='file://...')" in told
    assert 'joined with backend "nccl", expected gloo' in told


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("Expected all tensors to be on the same device, but found cuda:0 and cpu!", "On a machine with 2 GPUs: Rank 0"),
        ("the grader runs this on an emulated GPU, which does not know this call", "evaluate on 2 ranks"),
    ],
)  # fmt: skip
def test_an_evaluation_on_gpus_is_minded_only_where_tensors_of_two_devices_meet(
    raised: str, said: str
) -> None:
    def answer(spec: RunSpec) -> Outcome:
        if spec.ranks[0].values.get("gpus") is None:
            return Outcome((RankOutcome(complete=True),) * 2, elapsed=1.0)
        error = StudentError("RuntimeError", raised, (), "calling evaluate")
        return Outcome((RankOutcome(complete=True, error=error),) * 2, elapsed=1.0)

    assert verdict("shuffle_false_for_eval", answer).startswith(said)


def test_two_gpus_that_meet_are_not_told_to_move_what_lies_on_the_cpu() -> None:
    raised = "Expected all tensors to be on the same device, but found cuda:0 and cuda:1!"
    error = StudentError("RuntimeError", raised, (), "calling evaluate")

    def answer(spec: RunSpec) -> Outcome:
        on_gpus = spec.ranks[0].values.get("gpus") is not None
        rank = RankOutcome(complete=True, error=error if on_gpus else None)
        return Outcome((rank,) * 2, elapsed=1.0)

    ended = end_of(EXERCISE, "shuffle_false_for_eval", answer)
    assert ended is not None
    assert "device_ids=[device.index]" in ended.feedback.hint


@pytest.mark.parametrize(
    ("function", "phase", "passes"),
    [
        ("main", "running `python ddp_train.py`", True),
        ("cleanup", "running `python ddp_train.py`", False),
        ("main", "ending as Python does at its end", False),
    ],
)
def test_a_script_that_never_came_to_cleanup_says_nothing_of_it(
    function: str, phase: str, passes: bool
) -> None:
    error = StudentError("KeyError", "'x'", (CodeFrame("ddp_train.py", 7, function),), phase)
    fails = RankOutcome(complete=True, error=error)
    tidy = RankOutcome(complete=True, values={"was": True, "is": False})

    def answer(spec: RunSpec) -> Outcome:
        seen = fails if spec.call == "script_ends" else tidy
        return Outcome((seen,) * len(spec.ranks), elapsed=1.0, left_running=0)

    assert ("KeyError" not in verdict("cleans_up", answer)) == passes


@pytest.mark.parametrize(
    ("too_many", "sizes", "told"),
    [
        (-1, [4, 4], "short last batch"),
        (-4, [4, 4, 4, 4], "stands in the loop"),
        (9, [1] * 13, "No batch had more than 1 of the 4 items"),
        (3, [4] * 7, "reads the whole data set"),
        (3, [], "reads the whole data set"),
    ],
)
def test_what_makes_steps_too_many_or_too_few(too_many: int, sizes: list[int], told: str) -> None:
    assert told in steps_hint(too_many, sizes, 4)


FAULT = StudentError("InjectedFault", "put there by the check", (), "running it")
MET, WENT_ON = {"kind": "met"}, {"kind": "went_on"}


@pytest.mark.parametrize(
    ("rank", "passes"),
    [
        (RankOutcome(complete=False, events=(MET,), status=0), False),
        (RankOutcome(complete=True, events=(MET,), values={"status": 0}), False),
        (RankOutcome(complete=True, events=(MET,), values={"status": 1}), True),
        (RankOutcome(complete=False, events=(MET,), status=1), True),
        (RankOutcome(complete=False, events=(MET,), status=-6), True),
        (RankOutcome(complete=True, events=(MET,), error=FAULT, status=0), True),
        (RankOutcome(complete=True, events=(MET, WENT_ON), values={"status": 0}), False),
        (RankOutcome(complete=True, events=(MET, WENT_ON), values={"status": 1}), True),
        # It is read in a way that nobody sees.
        (RankOutcome(complete=True, values={"status": 0}), True),
    ],
)
def test_a_fault_is_hidden_by_status_0_alone(rank: RankOutcome, passes: bool) -> None:
    other = RankOutcome(complete=True, error=FAULT)

    def answer(spec: RunSpec) -> Outcome:
        return Outcome((other, rank if spec.call == "broken" else other), elapsed=1.0)

    assert ("exit status 0" in verdict("fails_fast", answer)) != passes


def test_what_all_ranks_pass_over_may_be_passed_over() -> None:
    done = RankOutcome(complete=True, values={"status": 0})
    passes_over = replace(done, events=(MET, WENT_ON))
    raises = RankOutcome(complete=True, error=FAULT)

    def answer(spec: RunSpec) -> Outcome:
        return Outcome((done, passes_over) if spec.call == "broken" else (raises, raises), elapsed=1.0)

    assert verdict("fails_fast", answer) == ""


@pytest.mark.parametrize(
    ("rows", "divided"),
    [
        ([2] * 12, True),
        ([2] * 6, True),
        ([4] * 6, False),
        ([8, 4, 8, 4], False),  # one step for two batches
        ([6, *[4] * 5], False),  # the network was tried once before
        ([6, *[2] * 5], False),
        ([2] * 5, False),
        ([2.0] * 12, False),
        ([], False),
        (None, False),
    ],
)
def test_a_batchis_divided_where_all_steps_are_of_half_as_many_images(rows: Json, divided: bool) -> None:
    assert is_divided(rows) == divided


def launched(**values: Json) -> Outcome:
    """What is seen of a ddp_train.sh that works, but for these values."""
    found: dict[str, Json] = {
        "status": 0, "output": "", "keys": ["fc.weight"], "executable": True,
        "report": '{"runs": [{"config": {"world_size": 2}}]}', **values,
    }  # fmt: skip
    return Outcome((RankOutcome(complete=True, values=found),), elapsed=1.0)


@pytest.mark.parametrize(
    ("asked", "resumed"),
    [
        (None, None),
        (3, "KeyError: 'OMPI_COMM_WORLD_RANK'"),
        ("", 1),
        ("--standalone\n--nproc-per-node\n1\nddp_train.py\n", []),
        ("--nproc_per_node=1\n", {}),
        ("--nproc-per-node\n$n\nddp_train.py\n", None),
        ("-m\nfour.ranks\n--nproc-per-node=99999999\n", None),
    ],
)
def test_scripts_that_let_nproc_decide_or_start_in_their_own_way_pass(asked: Json, resumed: Json) -> None:
    assert verdict("script", lambda _: launched(asked=asked, resumed=resumed)) == ""


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ("--nproc-per-node\n2\nddp_train.py\n", "2"),
        ("--standalone\n-nproc_per_node=2\nddp_train.py", "2"),
        ("--nproc-per-node=auto\nddp_train.py\n", "auto"),
        ("--nproc-per-node\ngpu\nddp_train.py\n", "gpu"),
    ],
)
def test_a_script_that_does_not_ask_nproc_is_told(asked: str, number: str) -> None:
    told = verdict("script", lambda _: launched(asked=asked))
    assert f"`NPROC=1 ./ddp_train.sh` asks torchrun for {number} processes" in told


@pytest.mark.parametrize(
    ("batches", "loopback_bytes", "passes"),
    [
        (6, 580_000_000, True),
        (4, None, True),  # a part is for validation, and the short last batch left out
        (3, 580_000_000, True),  # trained on all six, and kept the checkpoint of the better epoch
        (2, 402_000_000, True),  # so has one with four
        (3, 313_000_000, False),
        (3, None, False),
    ],
)
def test_whoever_keeps_the_best_checkpoint_has_trained_as_asked(
    batches: int, loopback_bytes: int | None, passes: bool
) -> None:
    asked = "--nproc-per-node\n1\nddp_train.py\n--help\n"
    told = verdict(
        "script", lambda _: replace(launched(asked=asked, batches=batches), loopback_bytes=loopback_bytes)
    )
    assert (told == "") == passes, told
    assert passes or "trained on 3 batches" in told


@pytest.mark.parametrize(
    ("unasked", "passes"),
    [
        ("--standalone\n--nproc-per-node\nauto\nddp_train.py\n--help\n", True),
        ("--nproc-per-node=4\nddp_train.py\n", True),
        ("ddp_train.py\n--help\n", True),  # python alone
        ("-c\nprint(2)\n--nproc-per-node\n\nddp_train.py\n", True),  # its number comes from Python
        ("count.py\n--nproc-per-node=\nddp_train.py\n", True),
        (None, True),
        (3, True),
        ("", False),
        ("--nproc-per-node\n\nddp_train.py\n", False),
        ("--standalone\n--nproc_per_node\nddp_train.py\n--help\n", False),
        ("--standalone\n--nproc_per_node=\nddp_train.py\n", False),
    ],
)
def test_nproc_has_a_default(unasked: Json, passes: bool) -> None:
    asked = "--nproc-per-node\n1\nddp_train.py\n"
    told = verdict("script", lambda _: launched(asked=asked, unasked=unasked))
    assert (told == "") == passes, told
    assert passes or "where nobody has set NPROC" in told
    # Of a script that says otherwise how many there are, nothing is known.
    assert verdict("script", lambda _: launched(asked="", unasked=unasked)) == ""


def test_a_checkpoint_that_the_script_cannot_go_on_from_is_told() -> None:
    raised = (
        "RuntimeError: Error(s) in loading state_dict for DDP:\n\tMissing key(s): \x1b[31mmodule.fc.weight"
    )
    told = verdict("script", lambda _: launched(resumed=f"Traceback ...\n{raised}\n"))
    assert "--resume` does not go on from the checkpoint" in told
    assert "Missing key(s): module.fc.weight" in told


IN_MAIN = 'Traceback (most recent call last):\n  File "ddp_train.py", line 182, in main\n    rank = os.environ["RANK"]\n'

NONE_IN_MAIN = (
    'Traceback (most recent call last):\n  File "ddp_train.py", line 182, in main\n    local_rank = int({})\n    ^^^^\n'
    "TypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'\n"
)


@pytest.mark.parametrize(
    ("output", "missing"),
    [
        (IN_MAIN + "KeyError: 'LOCAL_RANK'\n", "LOCAL_RANK"),
        (IN_MAIN + "KeyError: 'WORLD_SIZE'\n\n", "WORLD_SIZE"),
        (
            IN_MAIN
            + "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, "
            "but not set",
            "RANK",
        ),
        (NONE_IN_MAIN.format('os.getenv("LOCAL_RANK")'), "LOCAL_RANK"),
        (NONE_IN_MAIN.format("environ.get('WORLD_SIZE')").replace("    ^^^^\n", ""), "WORLD_SIZE"),
        # Another variable may be the author's own, and another None comes from elsewhere.
        (NONE_IN_MAIN.format('os.getenv("MY_RANK")'), ""),
        (NONE_IN_MAIN.format('os.getenv("LOCAL_RANK", args.rank)'), ""),
        (NONE_IN_MAIN.format("args.workers"), ""),
        (NONE_IN_MAIN.format('os.getenv("RANK")') + "Started without torchrun\n", ""),
        (NONE_IN_MAIN.format('os.getenv("RANK")').replace("in main", "in setup"), ""),
        # single_process tells it of setup.
        (IN_MAIN + '  File "ddp_train.py", line 30, in setup\n' + "KeyError: 'RANK'\n", ""),
        (IN_MAIN + '  File "ddp_train.py", line 30, in Trainer.setup\n' + "KeyError: 'RANK'\n", ""),
        # Who says in other words what to do instead may be no script of Python alone.
        (IN_MAIN + "KeyError: 'RANK'\n\nDuring handling ...\nSystemExit: start me with ./ddp_train.sh\n", ""),
        (IN_MAIN + "KeyError: 'OMPI_COMM_WORLD_RANK'\n", ""),
        (IN_MAIN + "KeyError: 'RANKS'\n", ""),
        (IN_MAIN + "ValueError: world size expected\n", ""),
        ("KeyError", ""),
        (None, ""),
        (1, ""),
    ],
)
def test_a_script_that_needs_torchrun_is_told_which_variable_it_misses(output: Json, missing: str) -> None:
    told = verdict("script", lambda _: launched(resumed=output))
    assert told == "" if not missing else f"there is no environment variable {missing}." in told


TOLD = "--standalone\n--nproc-per-node\n2\nddp_train.py\n"


@pytest.mark.parametrize(
    ("words", "script", "nothing"),
    [
        (TOLD, b"torchrun ddp_train.py\n", True),
        (TOLD, b'#!/bin/sh\n  # >>> a checkpoint, "$@"\ntorchrun ddp_train.py\n', True),
        (TOLD, b"torchrun ddp_train.py --lr 0.1 # ${#NAMES} $name $?\n", True),
        (TOLD + "--checkpoint\nmy checkpoint.pt\n--help\n", b". ./common.sh\n", False),
        (TOLD + "--checkpoint\nmy\ncheckpoint.pt\n--help\n", b"torchrun ddp_train.py $@\n", False),
        # It may have arguments of its own.
        (TOLD, b"EPOCHS=${1:-3}\ntorchrun ddp_train.py --epochs $EPOCHS\n", False),
        (TOLD, b"while getopts e: name; do epochs=$OPTARG; done\n", False),
        (TOLD, b'ARGS=("${@:1}")\n', False),
        (TOLD, b"", False),  # a notebook writes it
        ("", b"torchrun ddp_train.py\n", False),
        (None, b"torchrun ddp_train.py\n", False),
    ],
)
def test_a_script_that_hands_nothing_on_is_told_so(words: Json, script: bytes, nothing: bool) -> None:
    assert hands_nothing_on(words, script) == nothing


def test_a_network_that_was_not_trained_earns_nothing_whatever_else_is_wrong_with_it() -> None:
    wrapped = replace(launched(batches=0, outputs=[1000]), loopback_bytes=45_000_000)
    assert "trained on no batch" in verdict("script", lambda _: wrapped)


@pytest.mark.parametrize(
    ("went_on", "passes"),
    [
        (None, True),
        (3, True),
        ({}, True),
        ({"wrote": True, "before": 6, "after": 12}, True),
        ({"wrote": True, "before": 6, "after": 6}, True),  # it may write elsewhere
        ({"wrote": True, "before": 6, "after": 24}, True),  # or count --epochs from where it goes on
        ({"wrote": True, "before": 6, "after": 24, "epoch_before": 1, "epoch_after": 4}, True),
        ({"wrote": True, "before": 6, "after": 24, "epoch_before": 1, "epoch_after": 2}, False),
        ({"wrote": True, "before": 6, "after": 12, "epoch_before": 1, "epoch_after": 2}, True),
        (
            {"wrote": True, "before": 6, "after": 12, "epoch_before": 1, "epoch_after": 1},
            True,
        ),  # that of the best
        ({"wrote": True, "before": 6, "after": 12, "epoch_before": None, "epoch_after": 0}, True),
        ({"wrote": True, "before": 6, "after": 12, "epoch_before": 1, "epoch_after": "0"}, True),
        (
            {"wrote": True, "before": 6, "after": 8, "epoch_before": 1, "epoch_after": 0},
            True,
        ),  # of its own kind
        ({"wrote": True, "before": 6, "after": 12, "epoch_before": 1, "epoch_after": 0}, False),
        ({"before": 2, "after": 2, "epoch_before": 1, "epoch_after": 2, "moved": False}, False),
        ({"before": 2, "after": 2, "epoch_before": 0, "epoch_after": 0, "moved": False}, True),
        ({"before": 0, "after": 0, "epoch_before": 1, "epoch_after": 2, "moved": False}, True),
        ({"before": 6, "after": 6, "epoch_before": 1, "epoch_after": 2, "moved": True}, True),
        ({"wrote": True, "before": None, "after": 18}, True),
        ({"wrote": True, "before": 12, "after": 18}, True),
        ({"wrote": True, "before": 6, "after": 18}, False),
        ({"wrote": False, "before": 6, "after": 6}, False),
    ],
)
def test_a_run_that_resumes_trains_what_is_left(went_on: Json, passes: bool) -> None:
    told = verdict("script", lambda _: launched(went_on=went_on))
    assert ("should train one epoch more" in told) != passes


@pytest.mark.parametrize(
    ("reported", "passes"), [(True, True), (None, True), (0, True), ("no", True), (False, False)]
)
def test_a_report_that_is_written_to_another_file_is_told(reported: Json, passes: bool) -> None:
    went_on: Json = {"wrote": True, "before": 6, "after": 12, "reported": reported}
    told = verdict("script", lambda _: launched(went_on=went_on))
    assert ("reports/ddp.json instead" in told) != passes


@pytest.mark.parametrize(
    ("written", "elsewhere"),
    [
        ([], ""),
        (["reports/ddp.json", "log.txt"], ""),
        ([CHECKPOINT, "best.pt"], ""),
        (["best.pt", f"checkpoints/{CHECKPOINT}"], ""),
        (["checkpoint-of-a-check_epoch1.pt", "last.pt"], ""),
        ([f"{CHECKPOINT}/epoch-1.pt"], ""),
        (["checkpoint.pt"], "checkpoint.pt"),
        (["a.json", "b.ckpt", "c.pth"], "b.ckpt"),
    ],
)
def test_a_checkpoint_is_elsewhere_where_no_file_has_its_name_in_its_own(
    written: list[str], elsewhere: str
) -> None:
    assert checkpoint_elsewhere(written) == elsewhere


@pytest.mark.parametrize(
    ("went_on", "loopback_bytes", "passes"),
    [
        ({"before": 4, "after": 8, "moved": False}, 45_100_000, False),
        ({"before": 4, "after": 8, "moved": True}, 45_100_000, True),  # main trains the inner model
        ({"before": 4, "after": 8, "moved": False}, 400_000_000, True),  # a learning rate that came down to 0
        ({"before": 4, "after": 8, "moved": False}, None, True),
        ({"before": 4, "after": 4, "moved": False}, 45_100_000, True),  # it may write elsewhere
        ({"before": None, "after": None, "moved": False}, 45_100_000, True),
    ],
)
def test_a_network_that_only_saw_the_images_is_told(
    went_on: dict[str, Json], loopback_bytes: int | None, passes: bool
) -> None:
    run = replace(launched(went_on={"wrote": True, **went_on}), loopback_bytes=loopback_bytes)
    assert ("learned nothing" in verdict("script", lambda _: run)) != passes


@pytest.mark.parametrize(
    ("asked", "passes"),
    [
        ("--nproc-per-node\n1\nddp_train.py\n--checkpoint\nmy checkpoint.pt\n--help\n", True),
        ("--nproc-per-node\n1\nddp_train.py\n", True),
        ("", True),
        ("--nproc-per-node\n1\nddp_train.py\n--checkpoint\nmy\ncheckpoint.pt\n--help\n", False),
    ],
)
def test_arguments_arrive_whole(asked: str, passes: bool) -> None:
    assert ("two arguments reach" in verdict("script", lambda _: launched(asked=asked))) != passes


WHOLE = """        loss = criterion(model(images), labels)
        loss.backward()
"""
# As where a batch is too large for a GPU: its parts one after the other, and one step.
IN_PARTS = """        loss = torch.zeros((), device=device)
        parts = list(zip(images.split(SIZE), labels.split(SIZE)))
        for number, (some, theirs) in enumerate(parts):
            wait = number < len(parts) - 1 and isinstance(model, DistributedDataParallel)
            with model.no_sync() if wait else contextlib.nullcontext():
                part = criterion(model(some), theirs) * (len(theirs) / len(labels))
                part.backward()
            loss += part.detach()
"""
STEPPED = ("weights_in_sync", "gradients_averaged", "checkpoint", "really_communicates", "no_double_softmax", "single_process")  # fmt: skip


@pytest.mark.parametrize("size", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_batch_may_go_through_the_model_in_parts(size: str, tmp_path: Path, box: Box) -> None:
    for name in ("ddp_train.sh", "perf_report.py"):
        shutil.copy(REFERENCE / name, tmp_path)
    source = (REFERENCE / "ddp_train.py").read_text()
    assert source.count(WHOLE) == 1
    parts = "import contextlib\n" + source.replace(WHOLE, IN_PARTS.replace("SIZE", size))
    (tmp_path / "ddp_train.py").write_text(parts)
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=STEPPED).exercises
    assert [
        (c.id, c.message) for c in exercise.checks if c.id in STEPPED and c.verdict is not Verdict.PASSED
    ] == []


@pytest.mark.parametrize(
    ("steps", "passes"),
    [
        ([1, 2, 3, 4], True),
        ([2, 4], True),  # in parts
        ([1, 4], False),  # of more than a batch
        ([4], False),
        ([2], False),  # and two batches that nobody stepped for
        ([], False),
        ([2, 2, 4], False),
        ([4, 2], False),
        ([True, None, "4"], False),
        (None, False),
    ],
)
def test_one_step_for_each_batch(steps: Json, passes: bool) -> None:
    data = expected.make_data(np.random.default_rng(3), 8)
    rank = RankOutcome(
        complete=True,
        values={"sizes": [2, 2, 2, 2], "steps": steps},
        arrays={"rows": data.images.reshape(8, -1)},
    )
    outcome, told = Outcome((rank,), elapsed=1.0), ""
    try:
        found = fed_by_step(check_of(EXERCISE, "single_process", lambda _: outcome), outcome, [data], 4)
        assert [batch for (batch,) in found] in (
            [(0, 1), (2, 3), (4, 5), (6, 7)],
            [(0, 1, 2, 3), (4, 5, 6, 7)],
        )
    except CheckEnded as ended:
        told = ended.feedback.message
    assert (told == "") == passes, told
    assert passes or "the model was called 4 times, but optimizer.step()" in told


def test_the_device_of_a_cpu_may_have_a_number(tmp_path: Path, box: Box) -> None:
    """As in torch.device("cuda" if torch.cuda.is_available() else "cpu", local_rank): all of them are the CPU."""
    for name in ("ddp_train.sh", "perf_report.py"):
        shutil.copy(REFERENCE / name, tmp_path)
    source, plain = (REFERENCE / "ddp_train.py").read_text(), 'torch.device("cpu")'
    assert source.count(plain) == 1
    numbered = source.replace(plain, 'torch.device("cpu", int(os.environ.get("LOCAL_RANK", 0)))')
    (tmp_path / "ddp_train.py").write_text(numbered)
    checks = ("joins_group", "weights_in_sync", "global_metrics", "checkpoint", "script")
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=checks).exercises
    assert [
        (c.id, c.message) for c in exercise.checks if c.id in checks and c.verdict is not Verdict.PASSED
    ] == []


@pytest.mark.parametrize("seed", [0, 2])
def test_batches_of_one_item_are_exchanged_as_well(seed: int, tmp_path: Path, box: Box) -> None:
    """In these draws the part of one rank in the first gradients is small, and rounding has grown by the last step."""
    (sample,) = (each for each in build.all_submissions(EXERCISE) if each.name == "batch_split_in_loader")
    folder = build.build(sample, tmp_path / sample.name)
    (exercise,) = graded(
        folder, EXERCISE, box, seed=seed, checks=["really_communicates"], world_sizes=(2,)
    ).exercises
    assert [
        c.message for c in exercise.checks if c.id == "really_communicates" and c.points < c.max_points
    ] == []


@pytest.mark.parametrize(
    ("name", "is_resnets"),
    [
        ("fc.weight", True),
        ("model.layer4.0.conv1.weight", True),
        ("model/layer4.0.conv1.weight", True),
        ("net_fc.weight", True),
        ("rfc.weight", False),
        ("layer3.0.conv1.weight", False),
    ],
)
def test_weights_in_a_checkpoint_are_known_by_how_their_names_end(name: str, is_resnets: bool) -> None:
    assert (RESNET.search(name) is not None) == is_resnets


def test_sending_everything_again_and_again_is_told_and_costs_nothing(tmp_path: Path, box: Box) -> None:
    source = (REFERENCE / "ddp_train.py").read_text()
    step = "        optimizer.step()\n"
    assert source.count(step) == 1
    again = (
        "        for p in list(model.parameters()) * 12:\n            dist.all_reduce(p.detach().clone())\n"
    )
    (tmp_path / "ddp_train.py").write_text(source.replace(step, again + step))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=("really_communicates",)).exercises
    check = next(check for check in exercise.checks if check.id == "really_communicates")
    assert check.verdict is Verdict.PASSED
    assert "something is sent again and again. That costs time, and no points." in check.message


def test_no_hook_of_torch_sends_half_of_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []

    def note(wrapped: Any, *what: Any) -> None:
        registered.append(what[-1])

    def own(state: object, bucket: object) -> object:
        return bucket

    monkeypatch.setattr(DistributedDataParallel, "register_comm_hook", note)
    monkeypatch.setattr(DistributedDataParallel, "_register_builtin_comm_hook", note)
    monkeypatch.setattr(default_hooks, "_compress_hook", None)
    monkeypatch.setattr(default_hooks, "allreduce_hook", lambda group, bucket: (group, bucket))
    compression.send_whole()
    wrapped: Any = object.__new__(DistributedDataParallel)
    fp16, bf16 = default_hooks.fp16_compress_wrapper, default_hooks.bf16_compress_wrapper
    for hook in (default_hooks.fp16_compress_hook, fp16(bf16(default_hooks.bf16_compress_hook)), fp16(own)):
        wrapped.register_comm_hook(None, hook)
    wrapped._register_builtin_comm_hook(BuiltinCommHookType.FP16_COMPRESS)
    halving, wrapping, other, builtin = registered
    assert [halving("group", "bucket"), wrapping("group", "bucket")] == [("group", "bucket")] * 2
    assert other is own
    assert builtin == BuiltinCommHookType.ALLREDUCE


def told_of_rates(scaled: list[Json], plain: list[Json], factor: int) -> str:
    """What lr_scaling says of rates that are these parts of --lr, the first ones by a factor and with --scale-lr."""

    def answer(spec: RunSpec) -> Outcome:
        arguments: Any = spec.ranks[0].values["arguments"]
        lr, steps = float(arguments[arguments.index("--lr") + 1]), int(str(spec.ranks[0].values["steps"]))
        parts, by = (scaled, factor) if "--scale-lr" in arguments else (plain, 1)
        first, *later = [lr * by * part if isinstance(part, float) else part for part in parts[:steps]]
        seen = RankOutcome(complete=True, values={"lr": [first], "later": later})
        return Outcome((seen,) * len(spec.ranks), elapsed=1.0)

    return verdict("lr_scaling", answer)


@pytest.mark.parametrize(
    ("scaled", "plain", "factor", "said"),
    [
        ([0.0, 0.01, 0.02, 0.03], [0.0, 0.01, 0.02, 0.03], 2, ""),
        ([0.0, 0.01, 0.02, 0.03], [1.0] * 4, 2, ""),  # with --scale-lr only
        ([0.0, 0.0, 0.2, 0.2], [0.0, 0.0, 0.2, 0.2], 2, ""),  # by the epoch
        ([0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0], 2, ""),
        ([0.0, 0.01, 0.02, 0.03], [0.0, 0.01, 0.02, 0.03], 1, "0.005 of"),  # never scaled
        ([0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0], 1, "0.5 of"),
        ([0.0, 0.01, 0.02, 0.03], [0.0, 0.02, 0.04, 0.06], 2, "0.02 of"),  # always scaled
        ([0.0] * 4, [0.0] * 4, 2, "0 in each of the first 4 steps"),
        ([0.0], [0.0], 2, ""),  # one step for several batches
        ([0.0] * 4, [1.0] * 4, 2, "0 in each of the first 4 steps"),
        ([0.0, "x", "x", "x"], [0.0, 0.01], 2, "expected the same part"),
        ([0.0, 0.01], [0.0], 2, "expected the same part"),
    ],
)  # fmt: skip
def test_a_warm_up_may_begin_at_0(scaled: list[Json], plain: list[Json], factor: int, said: str) -> None:
    told = told_of_rates(scaled, plain, factor)
    assert said in told
    assert told == "" or said, told


@pytest.mark.parametrize(
    ("scaled", "plain", "said"),
    [
        ([1.0, 1.0, 0.5], [1.0, 1.0, 1.0], "that of the second epoch"),  # as adjust_learning_rate sets it
        ([1.0, 1.0, 0.5], [1.0, 1.0, 0.5], ""),  # half of it in every epoch
        ([1.0, 0.5, 0.4], [1.0, 0.5, 0.4], ""),
        ([1.0, 1.0], [1.0, 1.0], ""),  # no second epoch
    ],
)
def test_a_rate_that_was_scaled_stays_so(scaled: list[Json], plain: list[Json], said: str) -> None:
    told = told_of_rates(scaled, plain, 2)
    assert said in told
    assert told == "" or said, told
