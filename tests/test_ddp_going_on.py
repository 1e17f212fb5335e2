"""Exercise 4, --resume of the script: what is said of one that does not go on, and what must not be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures import build
from graders.ddp_train.probe.documented import missing_checkpoint
from graders.ddp_train.probe.launched import epoch_of
from graders.ddp_train.probe.side import Told
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.verdict import Verdict
from lockstep.wire import Json
from tests.made_up import end_of
from tests.samples import graded

EXERCISE = "ddp_train"
REFERENCE = build.ROOT / "reference"


def told_of(**values: Json) -> str:
    """What is said of a ddp_train.sh that works, but for these values; nothing when it passes."""
    found: dict[str, Json] = {
        "status": 0, "output": "", "keys": ["fc.weight"], "executable": True,
        "report": '{"runs": [{"config": {"world_size": 2}}]}', **values,
    }  # fmt: skip
    outcome = Outcome((RankOutcome(complete=True, values=found),), elapsed=1.0)
    ended = end_of(EXERCISE, "script", lambda _: outcome)
    return ended.feedback.message if ended is not None else ""


def raised(what: str) -> str:
    return (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/work/ddp_train.py", line 203, in main\n'
        "[rank0]:     first_epoch = load_checkpoint(model, optimizer, args.checkpoint) + 1\n"
        '[rank0]:   File "/usr/lib/python3/site-packages/torch/serialization.py", line 759, in __init__\n'
        "[rank0]:     super().__init__(open(name, mode))\n"
        f"[rank0]: {what}\n"
    )


NO_FILE = raised("FileNotFoundError: [Errno 2] No such file or directory: 'checkpoint-0401.pt'")
SLIP = raised("TypeError: cannot unpack non-iterable int object")
FULL = raised("OSError: [Errno 28] No space left on device")
REFUSES = raised("ValueError: on two processes I do not resume")


@pytest.mark.parametrize(
    ("as_documented", "said"),
    [
        (None, ""),
        (3, ""),
        ({}, ""),
        ({"missing": "", "status": "1", "output": SLIP}, ""),
        ({"missing": "", "status": 0, "output": SLIP}, ""),
        ({"missing": "checkpoint.pt", "status": 0, "output": NO_FILE}, ""),  # main looked for another one
        ({"missing": "", "status": 1, "output": None}, ""),
        ({"missing": "", "status": 1, "output": FULL}, ""),
        ({"missing": "", "status": 1, "output": REFUSES}, ""),
        ({"missing": "", "status": 1, "output": NO_FILE}, ""),
        ({"missing": "", "status": 2, "output": "ddp_train.py: error: unrecognized arguments: --resume\n"}, ""),
        ({"missing": "x.pt", "status": 2, "output": "ddp_train.py: error: --resume: expected one argument\n"}, ""),
        ({"missing": "x.pt", "status": 1, "output": SLIP}, ""),
        ({"missing": 7, "status": 1, "output": FULL}, ""),
        ({"missing": "x.pt", "status": 0, "output": "", "batches": None}, ""),
        ({"missing": "x.pt", "status": 0, "output": "", "batches": 5}, ""),  # of an older one of its own
        ({"missing": "x.pt", "status": 1, "output": FULL, "batches": 3}, ""),
        ({"missing": "", "status": 0, "output": "", "batches": 3}, ""),
        ({"missing": "x.pt", "status": 0, "output": "", "batches": 3}, "began anew, without a word"),
        ({"missing": "", "status": 1, "output": SLIP}, "should go on from it, but ended with: "),
        ({"missing": "x\x1b[31m.pt", "status": 1, "output": NO_FILE}, "with `--checkpoint x.pt`, and there is no such file"),
    ],
)  # fmt: skip
def test_a_documented_line_that_fails_is_told_where_the_cause_is_known(
    as_documented: Json, said: str
) -> None:
    told = told_of(as_documented=as_documented, batches=6)
    assert said in told
    assert said or told == ""


@pytest.mark.parametrize("batches", [3, None, "6"])
def test_whoever_keeps_the_best_checkpoint_only_may_come_to_as_many_batches_as_one_that_begins_anew(
    batches: Json,
) -> None:
    anew: Json = {"missing": "x.pt", "status": 0, "output": "", "batches": 3}
    assert "began anew" not in told_of(as_documented=anew, batches=batches)


TOLD = "--standalone\n--nproc-per-node\n2\nddp_train.py\n"


@pytest.mark.parametrize(
    ("words", "there", "missing"),
    [
        (None, (), ""),
        ("", (), ""),
        (TOLD + "--resume\n--help\n", ("ddp_train.py",), ""),
        (TOLD + "--checkpoint\na.pt\n--help\n", ("ddp_train.py", "a.pt"), ""),
        (TOLD + "--checkpoint=a.pt\n--help\n", ("a.pt",), ""),
        (TOLD + "--checkpoint\nnew.pt\n--start-from\nold.pt\n", ("ddp_train.py", "old.pt"), ""),
        (TOLD + "--checkpoint\nnew.pt\n--run-folder\nruns\n", ("runs",), ""),
        (TOLD + "--checkpoint-every\n1\n", (), ""),
        (TOLD + "--checkpoint\na.pt\n--help\n", ("ddp_train.py", "reports/ddp.json"), "a.pt"),
        (TOLD + "--checkpoint\na.pt\n--checkpoint=b.pt\n", (), "b.pt"),
    ],
)
def test_a_checkpoint_is_missing_where_nothing_that_is_named_may_be_one(
    words: str | None, there: tuple[str, ...], missing: str
) -> None:
    assert missing_checkpoint(Told(words, there)) == missing


@pytest.mark.parametrize(
    ("kept", "epoch"),
    [
        ({"epoch": 3, "model": {}}, 3),
        ({"Last_Epoch": 3, "epochs_since_best": 1}, 3),
        ({"epochs_left": 1}, None),
        ({"epochs_without_improvement": 1}, None),
        ({"epoch": 3, "best_epoch": 1}, None),
        ({"epoch": True}, None),
        ({"epoch": "3"}, None),
        ([3], None),
        (None, None),
    ],
)
def test_the_epoch_of_a_checkpoint_has_that_name_and_counts_up(kept: object, epoch: int | None) -> None:
    assert epoch_of(kept) == epoch


NEWEST = """        newest = max(glob.glob("checkpoint-*.pt"), key=os.path.getmtime)
        first_epoch = load_checkpoint(model, optimizer, newest) + 1
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["the newest of its kind", "cleans but for --resume", "puts the last one aside"]
)
def test_a_script_may_keep_its_checkpoints_in_its_own_way(how: str, tmp_path: Path, box: Box) -> None:
    for name in ("ddp_train.py", "ddp_train.sh", "perf_report.py"):
        shutil.copy(REFERENCE / name, tmp_path)
    source, script = tmp_path / "ddp_train.py", tmp_path / "ddp_train.sh"
    loads = "        first_epoch = load_checkpoint(model, optimizer, args.checkpoint) + 1\n"
    folder = 'cd "$(dirname "$0")"\n'
    assert source.read_text().count(loads) == script.read_text().count(folder) == 1
    if how == "the newest of its kind":
        source.write_text(
            source.read_text()
            .replace(loads, NEWEST)
            .replace("import argparse\n", "import argparse\nimport glob\n")
        )
        script.write_text(script.read_text().replace("checkpoint.pt", '"checkpoint-$(date +%s%N).pt"'))
    elif how == "cleans but for --resume":
        script.write_text(
            script.read_text().replace(
                folder, f'{folder}[[ " $* " == *" --resume "* ]] || rm -f checkpoint.pt\n'
            )
        )
    else:
        aside = loads.replace(
            "args.checkpoint", 'aside if os.path.exists(aside := "aside.pt") else args.checkpoint'
        )
        source.write_text(source.read_text().replace(loads, aside))
        script.write_text(
            script.read_text().replace(
                folder, f"{folder}[ ! -e checkpoint.pt ] || mv checkpoint.pt aside.pt\n"
            )
        )
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=("script",)).exercises
    assert [(check.verdict, check.message) for check in exercise.checks] == [(Verdict.PASSED, "")]
