"""The class as JSON follows its schema and holds everything; each student's result follows the older one."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import lockstep
from lockstep.classroom.exports.gradebook import gradebook_json, result_json
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.verdict import Verdict
from tests.graded_class import CATALOGUE, HOSTILE, LOOK_FOR, MOST, SEED, a_record, missing, named, the_class

SCHEMAS = Path(lockstep.__file__).parent / "schemas"
SCHEMA = json.loads((SCHEMAS / "gradebook-1.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
RESULT = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "result-1.schema.json").read_text()))
UNMATCHED = (Unmatched("who.zip", "nobody is called so"),)


def _whole(value: Mapping[str, object]) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def test_the_schema_is_a_valid_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_field_is_required_and_described_and_none_other_is_allowed() -> None:
    for described in (SCHEMA, *(item for item in SCHEMA["$defs"].values() if item["type"] == "object")):
        assert described["description"]
        assert described["additionalProperties"] is False
        assert set(described["required"]) == set(described["properties"])
        for field in described["properties"].values():
            assert "$ref" in field or field["description"]


def test_the_schema_knows_every_verdict() -> None:
    allowed = SCHEMA["$defs"]["check"]["properties"]["verdict"]["enum"]
    assert sorted(allowed) == sorted(str(verdict) for verdict in Verdict)


def test_a_class_follows_the_schema_and_nobody_is_missing() -> None:
    policy = LatePolicy(10.0, 50.0, 0.5, datetime(2026, 5, 1, tzinfo=UTC))
    records = tuple(replace(record, policy=policy) for record in the_class())
    value = _whole(gradebook_json(records, CATALOGUE, UNMATCHED))
    VALIDATOR.validate(value)
    assert [student["id"] for student in value["students"]] == [record.student.id for record in records]
    assert value["unmatched"] == [{"label": "who.zip", "reason": "nobody is called so"}]
    assert (value["max_points"], value["late_policy"]["percent_per_day"]) == (MOST, 10.0)
    assert [exercise["max_points"] for exercise in value["exercises"]] == [5.0, 3.0]


def test_points_are_those_that_count_and_those_that_were_graded() -> None:
    value = _whole(gradebook_json(the_class(), CATALOGUE, ()))
    decided = next(student for student in value["students"] if student["id"] == "decided")
    sampler = decided["exercises"][0]["checks"][1]
    assert (sampler["points"], sampler["graded_points"]) == (3.0, 0.5)
    assert decided["exercises"][1]["review"][0]["points"] == 2.5
    assert decided["raw_points"] == sum(exercise["points"] for exercise in decided["exercises"]) == 7.5
    late = next(student for student in value["students"] if student["id"] == "late")
    assert (late["raw_points"], late["penalty"], late["final_points"]) == (5.0, 1.0, 4.0)
    assert late["attempt"]["seed"] == SEED


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_carried_as_it_is(name: str) -> None:
    value = _whole(gradebook_json([named(name)], CATALOGUE, [Unmatched(name, name)]))
    VALIDATOR.validate(value)
    assert value["students"][0]["name"] == name


def test_an_empty_class_is_one() -> None:
    VALIDATOR.validate(_whole(gradebook_json((), (), ())))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "lockstep/gradebook/2"),
        (("students", 0, "extra"), 1),
        (("students", 0, "raw_points"), -1),
        (("students", 0, "attempt", "state"), "lost"),
        (("students", 0, "exercises", 0, "id"), "../up"),
        (("students", 0, "exercises", 0, "checks", 0, "verdict"), "ok"),
        (("students", 0, "exercises", 1, "review", 0, "look_for"), None),
        (("late_policy", "percent_per_day"), "10"),
    ],
)
def test_what_is_no_gradebook_is_refused(path: tuple[str | int, ...], value: object) -> None:
    good = _whole(gradebook_json(the_class(), CATALOGUE, UNMATCHED))
    bad = copy.deepcopy(good)
    target = bad
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    VALIDATOR.validate(good)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(bad)


@pytest.mark.parametrize("record", the_class(), ids=lambda record: record.student.id)
def test_each_students_result_follows_the_older_schema(record: Any) -> None:
    value = _whole(result_json(record, "a-slug"))
    RESULT.validate(value)
    assert value["submission"] == "a-slug"
    for name in ("points", "max_points"):
        assert value[name] == sum(
            check[name] for exercise in value["exercises"] for check in exercise["checks"]
        )


def test_a_result_holds_what_the_grader_gave_and_what_people_marked() -> None:
    decided = next(record for record in the_class() if record.student.id == "decided")
    value = _whole(result_json(decided, "decided"))
    assert value["seed"] == SEED
    assert value["exercises"][0]["checks"][1]["points"] == 0.5
    (review,) = value["exercises"][1]["review"]
    assert (review["points"], review["comment"], review["look_for"]) == (2.5, "Well said.", LOOK_FOR)


def test_a_result_of_nothing_has_no_exercises() -> None:
    value = _whole(result_json(missing("absent"), "absent"))
    RESULT.validate(value)
    assert (value["seed"], value["exercises"]) == (0, [])
    assert _whole(result_json(a_record("ann", attempt=None, exercises=()), "ann"))["seed"] == 0
