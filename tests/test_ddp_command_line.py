"""Exercise 4, the command line of the script: what is said of --help and of the folder of images, and what must not be."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from torchvision import datasets

from graders.ddp_train.probe.options import absent_home, note_data_at_home
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.sandbox.probing import Student
from lockstep.sandbox.spec import RunSpec
from lockstep.wire import Json
from tests.made_up import end_of


class Noting:
    """Stands in for a student's run: keeps what is noted of it."""

    def __init__(self) -> None:
        self.watch = self
        self.noted: list[tuple[str, Mapping[str, object]]] = []

    def note(self, kind: str, **fields: object) -> None:
        self.noted.append((kind, fields))


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Noting:
    monkeypatch.setattr(datasets.CIFAR10, "__init__", datasets.CIFAR10.__init__)
    return Noting()


@pytest.mark.parametrize(
    "folder",
    [
        "data", "./data", "../data", "~/data", "/data", "/scratch/cifar10", "/datasets", "home/anna/data", "/home", "C:/data",
        "/root/data", "",
    ],
)  # fmt: skip
def test_other_folders_may_be_there_where_a_script_is_started(folder: str) -> None:
    assert absent_home(folder) == ""


def test_the_home_of_whoever_starts_a_script_is_none_of_somebody_else() -> None:
    assert absent_home("/home/nobody-of-this-name/data") == "/home/nobody-of-this-name/data"
    assert absent_home("C:\\Users\\nobody-of-this-name\\data") != ""
    for users in ("/home", "/Users"):
        for name in os.listdir(users) if os.path.isdir(users) else ():
            assert absent_home(f"{users}/{name}/data") == ""


def test_a_folder_is_noted_where_there_are_no_images_in_it(noting: Noting, tmp_path: Path) -> None:
    note_data_at_home(cast(Student, noting))
    make: Any = datasets.CIFAR10
    for folder in (str(tmp_path), tmp_path):
        with pytest.raises(RuntimeError, match="Dataset not found"):
            make(folder)
    assert noting.noted == []
    for named in ({"root": "/home/nobody-of-this-name"}, {"root": Path("/home/nobody-of-this-name")}):
        with pytest.raises(RuntimeError, match="Dataset not found"):
            make(**named, train=False)
    assert noting.noted == [("data_at_home", {"folder": "/home/nobody-of-this-name"})] * 2


AT_HOME: Mapping[str, Json] = {"kind": "data_at_home", "folder": "/home/anna/cifar"}
NO_HELP: Mapping[str, Json] = {"kind": "no_help", "raised": "TypeError: of a format"}


@pytest.mark.parametrize(
    ("event", "trains", "said"),
    [
        (AT_HOME, False, "looks for CIFAR-10 in /home/anna/cifar"),
        (AT_HOME, True, ""),  # it has found them elsewhere
        ({"kind": "data_at_home"}, False, ""),
        ({"kind": "data_at_home", "folder": 3}, False, ""),
        ({"kind": "phase", "folder": "/home/anna"}, False, ""),  # as one that has to be told a folder
        (NO_HELP, True, "--help` ends with a traceback: TypeError: of a format"),
        (NO_HELP, False, "--help` ends with a traceback"),
        ({"kind": "no_help", "raised": None}, True, ""),
    ],
)
def test_what_was_noted_is_told_where_it_matters(event: Mapping[str, Json], trains: bool, said: str) -> None:
    def answer(spec: RunSpec) -> Outcome:
        told: Any = spec.ranks[0].values["arguments"]
        lr, factor = float(told[told.index("--lr") + 1]), len(spec.ranks) if "--scale-lr" in told else 1
        seen = RankOutcome(complete=True, values={"lr": [lr * factor], "later": []})
        if "--training-data" not in told:
            seen = RankOutcome(complete=True, values=seen.values if trains else {}, events=(event,))
        return Outcome((seen,) * len(spec.ranks), elapsed=1.0)

    ended = end_of("ddp_train", "lr_scaling", answer)
    message = ended.feedback.message if ended is not None else ""
    assert said in message
    assert said or message == ""
