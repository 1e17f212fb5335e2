"""The grader of exercise 5, downloads under a lock: the same file in both processes, by name, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import build
from graders.lightning_train.test_lightning_ranks import locked_apart
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.wire import Json
from tests.samples import graded

EXERCISE = "lightning_train"
A, B = "/tmp/a.lock", "/tmp/b.lock"


def ranks(*locks: Json) -> Outcome:
    return Outcome(tuple(RankOutcome(True, {"locks": each}, {}) for each in locks), elapsed=1.0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"train": [A], "test": [A]}, {"train": [A], "test": [A]}),
        ({"train": [A], "test": [B]}, {"train": [A], "test": [B]}),
        # Who comes second finds the data, and asks no more.
        ({"train": [A], "test": []}, {"train": [], "test": [B]}),
        # Another lock is held besides, for some other reason.
        ({"train": ["/tmp/run-0", A], "test": []}, {"train": [A, "/tmp/run-1"], "test": []}),
        ({"train": [], "test": []}, {"train": [A], "test": []}),
    ],
)
def test_who_waits_for_the_other_is_not_apart(first: Json, second: Json) -> None:
    assert locked_apart(ranks(first, second)) is None


def test_who_locks_another_file_is_apart() -> None:
    assert locked_apart(ranks({"train": [A], "test": [A]}, {"train": [A], "test": [B]})) == (A, B)


@pytest.mark.parametrize("odd", [None, 1, "x", [], {}, {"train": None}, {"train": [None, 1, {}]}])
def test_forged_locks_are_none(odd: Json) -> None:
    assert locked_apart(ranks(odd, {"train": [A], "test": [A]})) is None


HONEST = {
    "lockf in the folder of the work": 'with open("fashion.lock", "w") as file:\n            fcntl.lockf(file, fcntl.LOCK_EX)',
    "one that removes its file": (
        'with open("/tmp/fashion.lock", "w") as file:\n            fcntl.flock(file, fcntl.LOCK_EX)\n'
        '            os.unlink("/tmp/fashion.lock") if os.path.exists("/tmp/fashion.lock") else None'
    ),
    "by the host's name": (
        'with open(f"/tmp/{os.uname().nodename}-{os.getuid()}.lock", "w") as file:\n'
        "            fcntl.flock(file, fcntl.LOCK_EX)"
    ),
}
OPENS = "self.train_data = datasets.FashionMNIST(self.data, train=True, transform=transform)"


@pytest.mark.parametrize("name", HONEST)
def test_every_way_to_lock_one_file_earns_the_point(name: str, tmp_path: Path, box: Box) -> None:
    source = (build.ROOT / "reference" / "lightning_train.py").read_text()
    assert source.count(OPENS) == 1
    asks = OPENS.replace("transform)", "transform, download=True)")
    source = source.replace(OPENS, f"{HONEST[name]}\n            {asks}")
    source = source.replace("import argparse\n", "import argparse\nimport fcntl\nimport os\n", 1)
    (tmp_path / "lightning_train.py").write_text(source)
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=["two_ranks"]).exercises
    (check,) = (each for each in exercise.checks if each.id == "two_ranks")
    assert (check.points, check.message) == (1, "")
