"""The grader of exercise 5, downloads: under a lock on the same file, by name, or once the other process is through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fixtures import build
from graders.lightning_train.test_lightning_ranks import asks_at_once, locked_apart
from lockstep.result import CheckResult
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


def asking(first: Json, second: Json) -> Outcome:
    """Of both processes, the downloads: how many barriers lie behind each, and whether there is a lock."""
    return Outcome(tuple(RankOutcome(True, {"downloads": each}, {}) for each in (first, second)), elapsed=1.0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"train": [[0, False]], "test": [[0, False]]}, {"train": [], "test": []}),
        ({"train": [[0, False]], "test": [[0, False]]}, {"train": [[1, False]], "test": [[3, False]]}),
        ({"train": [[0, False], [2, False]], "test": []}, {"train": [[2, False]], "test": []}),
        ({"train": [[1, True]], "test": []}, {"train": [[1, True]], "test": []}),
    ],
)
def test_who_comes_after_a_barrier_or_under_a_lock_asks_in_turn(first: Json, second: Json) -> None:
    assert not asks_at_once(asking(first, second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"train": [[1, False]], "test": []}, {"train": [[1, False]], "test": []}),
        ({"train": [], "test": []}, {"train": [[4, False]], "test": []}),
        ({"train": [[0, False]], "test": [[1, False]]}, {"train": [[1, False]], "test": [[1, False]]}),
        ({"train": [[0, False]]}, {"train": [[1, False], [0, False]]}),
        (None, {"train": [[1, False]]}),
        ({"train": [["0", False]]}, {"train": [[1, False]]}),
        ({}, None),
        ({}, 0),
    ],
)
def test_who_does_not_wait_asks_at_once(first: Json, second: Json) -> None:
    assert asks_at_once(asking(first, second))


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


PREPARES = """        datasets.FashionMNIST(self.data, train=True, download=True)
        datasets.FashionMNIST(self.data, train=False, download=True)
"""
IN_TURN = {
    "once more in setup": [],
    "rank 0 first, by a barrier": [
        (PREPARES, ""),
        (
            "self.train_data = datasets",
            "if self.trainer.local_rank != 0:\n            self.trainer.strategy.barrier()\n"
            "        self.train_data = datasets",
        ),
        (
            "self.val_data = datasets.FashionMNIST(self.data, train=False, transform=transform, download=True)\n",
            "self.val_data = datasets.FashionMNIST(self.data, train=False, transform=transform, download=True)\n"
            "        if self.trainer.local_rank == 0:\n            self.trainer.strategy.barrier()\n",
        ),
    ],
}


def after(edits: Sequence[tuple[str, str]], folder: Path, box: Box) -> CheckResult:
    """What comes of the worked solution that downloads in setup, and is edited besides."""
    source = (build.ROOT / "reference" / "lightning_train.py").read_text()
    source = source.replace("transform=transform)", "transform=transform, download=True)")
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    (folder / "lightning_train.py").write_text(source)
    (exercise,) = graded(folder, EXERCISE, box, checks=["two_ranks"]).exercises
    (check,) = (each for each in exercise.checks if each.id == "two_ranks")
    return check


@pytest.mark.parametrize("name", IN_TURN)
def test_a_download_that_was_waited_for_earns_the_point(name: str, tmp_path: Path, box: Box) -> None:
    check = after(IN_TURN[name], tmp_path, box)
    assert (check.points, check.message) == (1, "")


def test_a_download_in_every_process_at_once_costs_half(tmp_path: Path, box: Box) -> None:
    check = after([(PREPARES, "")], tmp_path, box)
    assert check.points == 0.5
    assert "rank 1 called for the download" in check.message
