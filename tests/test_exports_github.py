"""GitHub Classroom gets a workflow that is YAML, whose steps run, and a result that its reporter reads."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lockstep.classroom.exports.autograding import autograding
from lockstep.classroom.exports.services import write_workflow
from lockstep.jsonfile import write_json
from lockstep.result import ExerciseResult, Result
from lockstep.verdict import Verdict
from lockstep.yamlfile import read_yaml
from tests.graded_class import CATALOGUE, FAILED, PASSED, SEED, a_record, the_class
from tests.sandboxed import ROOT

STEPS = ["Look for lockstep", "Fetch the submission", "Fetch lockstep", "Install Python", "Set lockstep up", "Grade", "Report the points", "Keep the checks", "Say whether all checks passed"]  # fmt: skip


@pytest.fixture
def workflow(tmp_path: Path) -> Any:
    path = write_workflow(tmp_path / "template", ("ddp_train", "amp"))
    assert path == tmp_path / "template" / ".github" / "workflows" / "classroom.yml"
    (document,) = read_yaml(path.read_bytes())
    assert document.traps == ()
    return document.value


def _steps(workflow: Any) -> dict[str, Any]:
    return {step["name"]: step for step in workflow["jobs"]["lockstep"]["steps"]}


def test_the_workflow_is_yaml_and_has_its_steps(workflow: Any) -> None:
    assert list(workflow) == ["name", "on", "permissions", "concurrency", "jobs"]
    assert set(workflow["on"]) == {"push", "workflow_dispatch"}
    assert workflow["permissions"]["contents"] == "read"
    assert list(_steps(workflow)) == STEPS
    for step in _steps(workflow).values():
        assert ("uses" in step) != ("run" in step)
        if "run" in step:
            subprocess.run(["bash", "-n", "-c", step["run"]], check=True, timeout=300)


def test_exercises_and_python_are_texts(workflow: Any) -> None:
    assert workflow["jobs"]["lockstep"]["env"]["EXERCISES"] == "ddp_train,amp"
    assert _steps(workflow)["Install Python"]["with"]["python-version"] == "3.11"
    assert (ROOT / "scripts" / "setup.sh").is_file()
    assert "lockstep/scripts/setup.sh" in _steps(workflow)["Set lockstep up"]["run"]


def test_no_expression_of_a_students_making_is_in_a_script(workflow: Any) -> None:
    for step in _steps(workflow).values():
        assert "${{" not in step.get("run", "")


def test_tokens_do_not_stay_in_a_checkout(workflow: Any) -> None:
    for name in ("Fetch the submission", "Fetch lockstep"):
        assert _steps(workflow)[name]["with"]["persist-credentials"] is False


def _run(step: Any, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    # GitHub runs steps so: docs.github.com, "Workflow syntax", `shell`.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    environment = {**os.environ, **variables}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_without_its_repository_it_says_so(workflow: Any, tmp_path: Path) -> None:
    step = _steps(workflow)["Look for lockstep"]
    done = _run(step, tmp_path, REPOSITORY="")
    assert done.returncode == 1
    assert "LOCKSTEP_REPOSITORY is not set" in done.stdout
    assert _run(step, tmp_path, REPOSITORY="course/lockstep").returncode == 0


def _grade(
    workflow: Any, tmp_path: Path, check: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, str], Path]:
    """Run the step `Grade` with `check` in place of `lockstep check`, but the real conversion."""
    (tmp_path / "lockstep" / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / "lockstep" / ".venv" / "bin" / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$2" in lockstep.cli) echo "$@" >{tmp_path}/called; {check};; *) exec {sys.executable} "$@";; esac\n'
    )
    python.chmod(0o755)
    output, temp, results = tmp_path / "output", tmp_path / "temp", tmp_path / "results"
    temp.mkdir()
    output.touch()
    done = _run(
        _steps(workflow)["Grade"],
        tmp_path / "lockstep",
        RESULTS=str(results),
        RUNNER_TEMP=str(temp),
        GITHUB_OUTPUT=str(output),
        EXERCISES="ddp_train,amp",
        PYTHONPATH=str(ROOT),
    )
    lines = (line.partition("=") for line in output.read_text().splitlines())
    return done, {name: value for name, _, value in lines}, results


def test_the_step_grades_and_hands_on_points_and_junit(workflow: Any, tmp_path: Path) -> None:
    write_json(
        tmp_path / "made.json",
        Result("work", SEED, (ExerciseResult("ddp_train", (PASSED, FAILED)),)).to_json(),
    )
    done, output, results = _grade(
        workflow, tmp_path, f"cp {tmp_path}/made.json {tmp_path}/temp/result.json; exit 1"
    )
    assert done.returncode == 0, done.stderr
    assert output["status"] == "1"
    value = json.loads(base64.b64decode(output["result"]))
    assert (value["status"], value["max_score"], [test["score"] for test in value["tests"]]) == (
        "fail",
        5.0,
        [2.0, 0.5],
    )
    assert ElementTree.parse(results / "junit.xml").getroot()[0].get("failures") == "1"
    assert str(SEED) not in json.dumps(value) + (results / "junit.xml").read_text()
    # The result with its seed is not among what is kept.
    assert not (tmp_path / "temp" / "result.json").exists()
    assert [path.name for path in results.iterdir()] == ["junit.xml"]
    called = (tmp_path / "called").read_text().split()
    assert called[1:4] == ["lockstep.cli", "check", "../submission"]
    assert called[called.index("--exercise") + 1] == "ddp_train,amp"
    assert called[called.index("--seed") + 1].isdigit()


def test_without_a_verdict_the_step_fails_with_a_sentence(workflow: Any, tmp_path: Path) -> None:
    done, output, _ = _grade(workflow, tmp_path, "echo 'lockstep: no sandbox' >&2; exit 2")
    assert done.returncode == 1
    assert "::error title=lockstep::There is no verdict" in done.stdout
    assert output == {}


def _value(*checks: Any, **fields: Any) -> Mapping[str, Any]:
    return autograding(a_record("ann", *checks, **fields), CATALOGUE)


def test_the_result_has_the_reporters_form() -> None:
    value = _value()
    assert set(value) == {"version", "status", "max_score", "tests"}
    assert (value["version"], value["max_score"]) == (1, 5.0)
    for test in value["tests"]:
        assert set(test) == {
            "name",
            "status",
            "score",
            "message",
            "test_code",
            "filename",
            "line_no",
            "duration",
        }
    assert sum(test["score"] for test in value["tests"]) == 2.5


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (_value(PASSED), "pass"),
        (_value(PASSED, FAILED), "fail"),
        (_value(PASSED, replace(FAILED, verdict=Verdict.FAULT)), "error"),
        (_value(exercises=()), "error"),
    ],
)
def test_the_status_tells_passed_failed_and_could_not_grade(value: Mapping[str, Any], status: str) -> None:
    assert value["status"] == status


def test_no_message_begins_a_command_of_the_log() -> None:
    bad = replace(FAILED, message="::error::forged\n::set-output name=x::y", hint="##[error]x")
    for test in _value(PASSED, bad)["tests"]:
        for text in (test["name"], test["message"], test["test_code"]):
            assert "\n" not in text
            assert not text.startswith(("::", "##["))


@pytest.mark.parametrize("sign", ["x", "é", "🙂"])
def test_a_long_result_fits_an_environment_variable(sign: str) -> None:
    long = [
        replace(FAILED, id=f"check_{number}", message=sign * 2000, hint=sign * 2000) for number in range(80)
    ]
    encoded = base64.b64encode(json.dumps(_value(*long)).encode())
    # Linux, execve(2): MAX_ARG_STRLEN.
    assert len(encoded) < 128 << 10


def test_every_student_has_a_result() -> None:
    for record in the_class():
        assert json.dumps(autograding(record, CATALOGUE))
