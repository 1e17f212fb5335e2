"""What counts as scoring as expected, and how the demo shows and writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from rich.console import Console

from fixtures import demo
from fixtures.build import Sample
from fixtures.expect import reference_surprises, surprises, template_surprises
from lockstep.result import CheckResult, ExerciseResult, Result
from lockstep.verdict import Verdict
from tests.results import ANSWERED, FAILED, FAULT, NOT_CHECKED, PASSED, a_result

# Of the made-up checks, `items_are_images` is the one that fails and `workers` needs it.
FULL = CheckResult("items_are_images", Verdict.PASSED, 3.0, 3.0)
NONE = CheckResult("items_are_images", Verdict.FAILED, 0.0, 3.0)
GENEROUS = CheckResult("items_are_images", Verdict.FAILED, 3.0, 3.0)
RELUCTANT = CheckResult("items_are_images", Verdict.PASSED, 2.0, 3.0)
# A check that is worth no points can still catch a mistake.
WORTHLESS = CheckResult("present", Verdict.FAILED, 0.0, 0.0)


def a_sample(
    fails: tuple[str, ...] = (),
    follows: tuple[str, ...] = (),
    says: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Sample:
    return Sample(
        exercise="lfw_dataset",
        kind="mistake" if fails else "correct",
        name="sample",
        fails=fails,
        follows=follows,
        why="",
        path=Path("sample"),
        says=says,
    )


@pytest.mark.parametrize(
    ("sample", "checks"),
    [
        (a_sample(), (PASSED, FULL)),
        (a_sample(fails=("items_are_images",)), (PASSED, FAILED)),
        (a_sample(fails=("items_are_images",), follows=("workers",)), (PASSED, NONE, NOT_CHECKED)),
        (a_sample(fails=("items_are_images",), follows=("length",)), (PASSED, NONE)),
        (a_sample(), (PASSED, ANSWERED)),
        (a_sample(fails=("present",)), (PASSED, WORTHLESS)),
        (a_sample(("items_are_images",), says={"items_are_images": ["saw 12"]}), (PASSED, FAILED)),
    ],
)
def test_a_sample_that_scores_as_it_must(sample: Sample, checks: tuple[CheckResult, ...]) -> None:
    assert surprises(sample, a_result(*checks)) == []


@pytest.mark.parametrize(
    ("sample", "checks", "told"),
    [
        (a_sample(), (PASSED, FAILED), "items_are_images failed, 0.5 of 3, not in full: saw 12"),
        (a_sample(), (PASSED, WORTHLESS), "present failed, 0 of 0, not in full"),
        (a_sample(fails=("present",)), (PASSED, ANSWERED), "present passed, 0 of 0, though the mistake"),
        (a_sample(), (PASSED, RELUCTANT), "items_are_images passed, 2 of 3, not in full"),
        (a_sample(), (PASSED, FAULT), "lazy grader fault, 0 of 2, which no submission may cause"),
        (a_sample(fails=("length",)), (PASSED, FULL), "length passed, 2 of 2, though the mistake"),
        (a_sample(fails=("items_are_images",)), (PASSED, GENEROUS), "3 of 3, though the mistake is one"),
        (a_sample(fails=("items_are_images",)), (PASSED, NONE, NOT_CHECKED), "workers not checked"),
        (a_sample(fails=("workers",)), (FULL, NOT_CHECKED), "workers not checked, 0 of 1, though"),
        (a_sample(fails=("lazy",)), (FULL, FAULT), "which no submission may cause"),
        (a_sample(fails=("items_are_images",), follows=("lazy",)), (NONE, FAULT), "which no submission"),
        (
            a_sample(("items_are_images",), says={"items_are_images": ["saw 12", "a cow"]}),
            (FAILED,),
            "and says nothing of ['a cow']: saw 12",
        ),
        (a_sample(fails=("no_such",)), (PASSED,), "['no_such'] are no checks of lfw_dataset"),
        (a_sample(), (), "graded ['lfw_dataset'], not lfw_dataset"),
    ],
)
def test_a_sample_that_scores_something_else(
    sample: Sample, checks: tuple[CheckResult, ...], told: str
) -> None:
    (surprise,) = surprises(sample, a_result(*checks))
    assert told in surprise


def test_the_wrong_exercise_is_a_surprise() -> None:
    assert surprises(a_sample(), a_result(PASSED, exercise="ddp_train"))
    both = Result("x", 1, tuple(ExerciseResult(name, (PASSED,)) for name in ("lfw_dataset", "ddp_train")))
    assert surprises(a_sample(), both)


def test_the_reference_must_earn_every_point() -> None:
    assert reference_surprises(a_result(PASSED, FULL)) == []
    assert len(reference_surprises(a_result(PASSED, RELUCTANT, NOT_CHECKED, FAULT))) == 3


def test_the_template_must_earn_none() -> None:
    assert template_surprises(a_result(NONE, NOT_CHECKED)) == []
    assert len(template_surprises(a_result(NONE, PASSED, FAILED, FAULT))) == 3
    assert template_surprises(a_result(WORTHLESS)) == []
    assert len(template_surprises(a_result(ANSWERED))) == 1


@pytest.mark.parametrize("judge", [reference_surprises, template_surprises])
def test_grading_nothing_proves_nothing(judge: object) -> None:
    with pytest.raises(ValueError, match="nothing was graded"):
        judge(Result("x", 1, ()))  # type: ignore[operator]


def _outcomes() -> list[demo.Outcome]:
    mistake = a_sample(fails=("items_are_images",))
    return [
        demo.Outcome(demo.Job("reference", "reference", ("lfw_dataset",)), a_result(PASSED, FULL), (), 4.0),
        demo.Outcome(demo.Job("sample", "mistake", ("lfw_dataset",), mistake), a_result(NONE), (), 2.0),
        demo.Outcome(demo.Job("odd", "correct", ("lfw_dataset",), a_sample()), None, ("is empty",), 0.1),
    ]


def test_the_demo_shows_one_row_a_submission() -> None:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(demo.table(_outcomes(), ("lfw_dataset",)))
    rows = [line.split() for line in capture.get().splitlines()]
    assert rows == [
        ["ok", "submission", "kind", "points", "failed"],
        [],
        ["lfw_dataset"],
        ["✓", "reference", "reference", "5", "of", "5"],
        ["✓", "sample", "mistake", "0", "of", "3", "items_are_images"],
        ["✗", "odd", "correct", "not", "graded"],
    ]


def test_the_demo_shows_no_points_where_there_are_none() -> None:
    job = demo.Job("reference", "reference", ("answers",))
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(
            demo.table([demo.Outcome(job, a_result(ANSWERED, exercise="answers"), (), 0.1)], ("answers",))
        )
    assert capture.get().splitlines()[-1].split() == ["✓", "reference", "reference", "-"]


def test_the_demo_writes_each_result_and_a_list(tmp_path: Path) -> None:
    demo.write(_outcomes(), 6.1, tmp_path)
    listed = json.loads((tmp_path / "demo.json").read_text())["submissions"]
    assert [entry["as_expected"] for entry in listed] == [True, True, False]
    for entry in listed[:2]:
        assert json.loads((tmp_path / entry["result"]).read_text())["points"] == entry["points"]
    assert listed[2]["result"] is None
