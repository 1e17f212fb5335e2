"""The JSON result follows its schema, its points add up, and a file is written whole or not at all."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.jsonfile import write_json
from lockstep.result import CheckResult, ExerciseResult, Result, Review
from lockstep.verdict import Verdict
from tests.results import ANSWERED, FAILED, FAULT, NOT_CHECKED, PASSED, a_result

SCHEMA = json.loads((Path(lockstep.__file__).parent / "schemas" / "result-1.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

points = st.integers(0, 40).map(lambda quarters: quarters / 4)
reviews = st.builds(
    Review,
    question=st.text(min_size=1),
    title=st.text(),
    max_points=points,
    answer=st.text(),
    words=st.integers(0, 9),
    look_for=st.text(),
    numbers=st.lists(st.text(), max_size=2).map(tuple),
    duplicate=st.none() | st.text(),
    points=st.none() | points,
    comment=st.text(),
)
checks = st.builds(
    CheckResult,
    id=st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True),
    verdict=st.sampled_from(Verdict),
    points=points,
    max_points=points,
    message=st.text(),
    hint=st.text(),
    seconds=st.floats(0, 1000),
    reviews=st.lists(reviews, max_size=2).map(tuple),
)
exercises = st.builds(ExerciseResult, id=st.just("ddp_train"), checks=st.lists(checks, max_size=4).map(tuple))
results = st.builds(
    Result,
    submission=st.text(min_size=1),
    seed=st.integers(0, 2**64),
    exercises=st.lists(exercises, max_size=3).map(tuple),
)


def test_the_schema_is_a_valid_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_field_is_described_and_none_other_is_allowed() -> None:
    objects = [SCHEMA, *(SCHEMA["$defs"][name] for name in ("exercise", "check", "review"))]
    # Results from before there were answers to mark stay valid.
    optional = {"review"}
    for described in objects:
        assert described["additionalProperties"] is False
        assert set(described["required"]) == set(described["properties"]) - optional
        for field in described["properties"].values():
            field = SCHEMA["$defs"]["id"] if "$ref" in field else field
            assert field["description"]


def test_the_schema_knows_every_verdict() -> None:
    allowed = SCHEMA["$defs"]["check"]["properties"]["verdict"]["enum"]
    assert sorted(allowed) == sorted(str(verdict) for verdict in Verdict)


@given(results)
def test_every_result_follows_the_schema_and_its_points_add_up(result: Result) -> None:
    value: Any = json.loads(json.dumps(result.to_json()))
    VALIDATOR.validate(value)
    for name in ("points", "max_points"):
        assert value[name] == sum(exercise[name] for exercise in value["exercises"])
        for exercise in value["exercises"]:
            assert exercise[name] == sum(check[name] for check in exercise["checks"])


def test_answers_that_a_person_marks_stand_beside_the_checks() -> None:
    value: Any = json.loads(json.dumps(a_result(ANSWERED).to_json()))
    VALIDATOR.validate(value)
    (exercise,) = value["exercises"]
    assert [(review["question"], review["points"]) for review in exercise["review"]] == [
        ("Q1", None),
        ("Q2", None),
        ("Q3", None),
    ]
    assert (exercise["points"], exercise["max_points"]) == (0, 0)
    assert "review" not in a_result(PASSED).to_json()["exercises"][0]  # type: ignore[index]


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(result: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        target: Any = result
        for step in parents:
            target = target[int(step) if step.isdigit() else step]
        target[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", "lockstep/result/2"),
        ("submission", ""),
        ("seed", -1),
        ("seed", 1.5),
        ("seed", None),
        ("points", "7"),
        ("host", "example"),
        ("exercises.0.id", "../up"),
        ("exercises.0.extra", 1),
        ("exercises.0.checks.0.verdict", "ok"),
        ("exercises.0.checks.0.points", -1),
        ("exercises.0.checks.0.message", None),
        ("exercises.0.checks.0.traceback", "..."),
    ],
)
def test_what_is_no_result_is_refused(path: str, value: object) -> None:
    good: dict[str, Any] = copy.deepcopy(dict(a_result(PASSED, FAILED, NOT_CHECKED, FAULT).to_json()))
    VALIDATOR.validate(good)
    _set(path, value)(good)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(good)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")
    write_json(target, {"name": "Zoë"})
    assert target.read_bytes() == b'{\n  "name": "Zo\\u00eb"\n}\n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")

    def full_disk(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_json(target, {})
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("result.json", "old")]


def test_a_link_and_a_device_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_json(tmp_path / "link.json", 1)
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "1\n"
    write_json(Path(os.devnull), 1)
    assert not Path(os.devnull).is_file()


def test_nan_is_not_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "result.json", float("nan"))
    assert list(tmp_path.iterdir()) == []
