"""Gradescope gets what its specification asks for, from a gradebook and from an autograder that really runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.classroom.exports import convert
from lockstep.classroom.exports.gradescope import results
from lockstep.classroom.exports.services import ServiceError, write_autograder
from lockstep.grading import PUBLIC_SEED
from lockstep.jsonfile import write_json
from lockstep.result import ExerciseResult, Result
from lockstep.verdict import Verdict
from tests.graded_class import ANSWER, CATALOGUE, FAILED, PASSED, a_record, the_class
from tests.sandboxed import ROOT

TOP = {
    "score",
    "execution_time",
    "output",
    "output_format",
    "test_output_format",
    "test_name_format",
    "visibility",
    "stdout_visibility",
    "extra_data",
    "tests",
    "leaderboard",
}
TEST = {
    "score",
    "max_score",
    "status",
    "name",
    "name_format",
    "number",
    "output",
    "output_format",
    "tags",
    "visibility",
    "extra_data",
}
"""Gradescope's documented keys."""

TINY = ROOT / "tests" / "labs" / "graders"
RIGHT = "def double(x):\n    return 2 * x\n"
WRONG = "def double(x):\n    print('/autograder/source', 'canary')\n    return 3 * x\n"


@pytest.mark.parametrize("record", the_class(), ids=lambda record: record.student.id)
def test_every_result_has_documented_keys_only(record: Any) -> None:
    value = results(record, CATALOGUE)
    assert set(value) <= TOP
    assert value["visibility"] == "visible"
    assert value["stdout_visibility"] == "hidden"
    tests = value["tests"]
    assert isinstance(tests, list)
    for test in tests:
        assert set(test) <= TEST
        assert test.get("status") in ("passed", "failed", None)
        assert test["visibility"] == "visible"
        assert 0 <= test["score"] <= test["max_score"]


def test_the_score_is_what_counts_and_the_tests_say_why() -> None:
    late = next(record for record in the_class() if record.student.id == "late")
    value: Any = results(late, CATALOGUE)
    assert value["score"] == 4.0
    assert value["extra_data"] == {"max_score": 8.0}
    assert [(test["number"], test["score"], test["max_score"]) for test in value["tests"]] == [
        ("1.1", 2.0, 2.0),
        ("1.2", 0.5, 3.0),
        ("2.1", 0.0, 0.0),
        ("2.2", 2.5, 3.0),
    ]
    failed = value["tests"][1]
    assert failed["name"] == "ddp_train / sampler: Every rank sees its own share."
    assert failed["status"] == "failed"
    assert failed["output"].startswith("failed.\nRank 1 saw <b>12</b> of 40 images.\nTry: ")
    assert failed["tags"] == ["ddp_train", "failed"]
    assert value["output_format"] == value["test_output_format"] == "text"
    assert "2 days late: 1 of 5 points are taken off." in value["output"]


def test_a_failure_of_lockstep_is_said_first() -> None:
    value = results(a_record("ann", PASSED, replace(FAILED, verdict=Verdict.FAULT)), CATALOGUE)
    assert str(value["output"]).startswith(
        "lockstep itself failed at ddp_train / sampler. Points that it took are not lost"
    )


def _converted(tmp_path: Path, result: Result | None, said: str = "") -> Any:
    (tmp_path / "said.txt").write_text(said)
    if result is not None:
        write_json(tmp_path / "result.json", result.to_json())
    arguments = [
        tmp_path / "result.json",
        "--said",
        tmp_path / "said.txt",
        "--gradescope",
        tmp_path / "out.json",
    ]
    assert convert.main([str(argument) for argument in arguments]) == 0
    return json.loads((tmp_path / "out.json").read_text())


def test_a_result_is_converted_with_its_answers(tmp_path: Path) -> None:
    checks = (PASSED, replace(FAILED, reviews=(replace(ANSWER, look_for=""),)))
    value = _converted(tmp_path, Result("work", 4711, (ExerciseResult("ddp_train", checks),)))
    assert value["score"] == 2.5
    assert [test["number"].partition(".")[2] for test in value["tests"]] == ["1", "2", "3"]
    assert value["tests"][2]["output"] == "Waits for a person."
    assert "4711" not in json.dumps(value)


def test_answers_that_were_not_handed_in_count_among_the_points_there_are(tmp_path: Path) -> None:
    absent = replace(FAILED, id="present", points=0.0, max_points=0.0)
    exercises = (ExerciseResult("ddp_train", (PASSED, FAILED)), ExerciseResult("answers", (absent,)))
    value = _converted(tmp_path, Result("work", 1, exercises))
    assert value["extra_data"] == {"max_score": 15.0}
    assert value["output"].startswith("2.5 of 15 points.")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("noise\nlockstep: /autograder/submission/x holds nothing\n", "x holds nothing"),
        (
            "Traceback (most recent call last):\n  File /autograder/source/x.py\nKeyError: 'canary'\n",
            "There is no verdict, and no reason was given.",
        ),
        ("", "tell your instructor"),
    ],
)
def test_without_a_result_there_are_no_points_and_a_sentence(tmp_path: Path, said: str, shown: str) -> None:
    value = _converted(tmp_path, None, said)
    assert (value["score"], value["tests"], value["visibility"]) == (0, [], "visible")
    assert shown in value["output"]
    assert "/autograder" not in value["output"]
    assert "Traceback" not in value["output"]
    assert set(value) <= TOP


@pytest.fixture(scope="module")
def autograder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the small lab, as it is uploaded."""
    folder = tmp_path_factory.mktemp("gradescope") / "autograder"
    write_autograder(folder, TINY, ("tiny",))
    return folder


def test_the_folder_holds_all_that_its_scripts_need_and_no_more(autograder: Path) -> None:
    names = {path.relative_to(autograder).as_posix() for path in autograder.rglob("*") if path.is_file()}
    assert {"setup.sh", "run_autograder", "pyproject.toml", "README.md", "scripts/setup.sh"} <= names
    assert {"graders/tiny/exercise.toml", "graders/tiny/probe.py", "graders/tiny/test_tiny.py"} <= names
    assert "lockstep/schemas/result-1.schema.json" in names
    assert not any("__pycache__" in name or name.startswith((".", "tests/")) for name in names)
    for name in ("setup.sh", "run_autograder", "scripts/setup.sh"):
        assert os.access(autograder / name, os.X_OK)
    for name in ("setup.sh", "run_autograder"):
        subprocess.run(["bash", "-n", autograder / name], check=True, timeout=300)
    assert 'EXERCISES="tiny"' in (autograder / "run_autograder").read_text()


def test_the_courses_graders_come_with_what_they_import(tmp_path: Path) -> None:
    write_autograder(tmp_path / "a", ROOT / "graders")
    imported = {
        match[1]
        for path in (tmp_path / "a" / "graders").rglob("*.py")
        for match in re.finditer(
            r"^from fixtures import (\w+)$|^from fixtures\.(\w+) ", path.read_text(), re.MULTILINE
        )
        if match[1]
    }
    assert imported
    assert all((tmp_path / "a" / "fixtures" / f"{name}.py").is_file() for name in imported)
    assert (tmp_path / "a" / "reference" / "reports").is_dir()
    assert not (tmp_path / "a" / "fixtures" / "submissions").exists()


def test_the_folder_is_made_anew_and_other_folders_are_left_alone(autograder: Path, tmp_path: Path) -> None:
    again = shutil.copytree(autograder, tmp_path / "again")
    (again / "graders" / "stale.py").touch()
    write_autograder(again, TINY)
    assert not (again / "graders" / "stale.py").exists()
    assert 'EXERCISES=""' in (again / "run_autograder").read_text()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(ServiceError, match="holds other files"):
        write_autograder(tmp_path / "mine", TINY)
    assert {path.name for path in tmp_path.iterdir()} == {"again", "mine"}


def test_setup_sh_stops_where_something_fails(autograder: Path, tmp_path: Path) -> None:
    """apt-get is a stand-in that notes what is asked of it, and fails."""
    (tmp_path / "root").mkdir()
    shutil.copytree(autograder, tmp_path / "root" / "source")
    (tmp_path / "bin").mkdir()
    apt = tmp_path / "bin" / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\ncase "$*" in install*) exit 1;; esac\n')
    apt.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    script = [tmp_path / "root" / "source" / "setup.sh", tmp_path / "root"]
    done = subprocess.run(script, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == 1
    asked = (tmp_path / "asked").read_text()
    for package in ("python3.11", "bubblewrap", "libseccomp2"):
        assert package in asked
    assert not (tmp_path / "root" / "source" / ".venv").exists()


def _root(autograder: Path, tmp_path: Path, python: bool = True) -> Path:
    """What Gradescope has when it starts `run_autograder`: /autograder, but elsewhere."""
    root = tmp_path / "autograder"
    shutil.copytree(autograder, root / "source")
    shutil.copy(autograder / "run_autograder", root / "run_autograder")
    (root / "submission").mkdir()
    if python:
        (root / "source" / ".venv" / "bin").mkdir(parents=True)
        interpreter = root / "source" / ".venv" / "bin" / "python"
        interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        interpreter.chmod(0o755)
    return root


def _run(root: Path) -> Any:
    # The root is given as people would, seen from where they are.
    done = subprocess.run(
        [root / "run_autograder", root.name],
        cwd=root.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert {path.name for path in (root / "results").iterdir()} == {"results.json"}, done.stderr
    value = json.loads((root / "results" / "results.json").read_text())
    assert set(value) <= TOP
    assert value["stdout_visibility"] == "hidden"
    return value


def test_run_autograder_grades_for_real(autograder: Path, tmp_path: Path) -> None:
    root = _root(autograder, tmp_path)
    (root / "submission" / "tiny.py").write_text(WRONG)
    value = _run(root)
    scores = {test["number"]: (test["score"], test["max_score"], test["status"]) for test in value["tests"]}
    assert scores == {"1.1": (1.0, 3.0, "failed"), "1.2": (0.0, 2.0, "failed"), "1.3": (1.0, 1.0, "passed")}
    assert value["score"] == 2.0
    assert "Multiply by two." in value["tests"][0]["output"]
    assert "`double(x)` is twice x." in value["tests"][0]["name"]
    text = json.dumps(value)
    assert str(PUBLIC_SEED) not in text
    assert str(root) not in text
    assert "canary" not in text


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "is empty"),
        ({"thesis.pdf": "%PDF"}, "holds nothing that can be graded"),
    ],
)
def test_what_cannot_be_graded_gives_no_points_and_a_sentence(
    autograder: Path, tmp_path: Path, files: dict[str, str], sentence: str
) -> None:
    root = _root(autograder, tmp_path)
    for name, text in files.items():
        (root / "submission" / name).write_text(text)
    value = _run(root)
    assert (value["score"], value["tests"]) == (0, [])
    assert sentence in value["output"]
    assert str(tmp_path) not in value["output"]


def test_without_a_setup_there_are_no_points_and_a_sentence(autograder: Path, tmp_path: Path) -> None:
    value = _run(_root(autograder, tmp_path, python=False))
    assert value["score"] == 0
    assert "not set up" in value["output"]


@pytest.mark.parametrize(
    "program", ["exit 137", "kill -9 $$", "echo /root/canary >&2; exit 2", "echo {} ; exit 0"]
)
def test_a_grader_that_dies_leaves_a_sentence(autograder: Path, tmp_path: Path, program: str) -> None:
    root = _root(autograder, tmp_path)
    (root / "source" / ".venv" / "bin" / "python").write_text(f"#!/bin/sh\n{program}\n")
    value = _run(root)
    assert (value["score"], value["tests"]) == (0, [])
    assert "tell your instructor" in value["output"]
    assert "canary" not in value["output"]
