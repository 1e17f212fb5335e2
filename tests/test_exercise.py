"""What an exercise.toml must say, and what its author reads who misspelt something in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.exercise import DEFAULT_SECONDS, ExerciseError, find_exercises, load_exercise

RIGHT = """\
title = "The mean of a tensor"
files = ["mean.py"]
[limits]
seconds = 4
[[check]]
id = "is_there"
points = 0
[[check]]
id = "mean_of_values"
points = 2
seconds = 6.5
needs = ["is_there"]
"""


def written(folder: Path, text: str) -> Path:
    (folder / "exercise.toml").write_text(text, encoding="utf-8")
    return folder


def test_what_it_says_is_read(tmp_path: Path) -> None:
    exercise = load_exercise(written(tmp_path, RIGHT))
    assert exercise.files == ("mean.py",)
    assert [(check.id, check.points, check.seconds) for check in exercise.checks] == [
        ("is_there", 0.0, 4.0),
        ("mean_of_values", 2.0, 6.5),
    ]
    without = load_exercise(written(tmp_path, RIGHT.replace("[limits]\nseconds = 4\n", "")))
    assert without.checks[0].seconds == DEFAULT_SECONDS


@pytest.mark.parametrize(
    ("find", "replacement", "words"),
    [
        ("title =", "titel =", "exercise: the key title is missing"),
        ("[limits]", "[limit]", "the key limit is unknown; known are check, early, files"),
        ("seconds = 4", "second = 4", "[limits]: the key second is unknown; known are seconds"),
        ("seconds = 4", "seconds = 0", "[limits]: seconds is 0, and has to be more than 0"),
        ("seconds = 6.5", "seconds = -1", "check mean_of_values: seconds is -1"),
        ('["mean.py"]', '"mean.py"', "files is no list"),
        ("points = 2", "point = 2", "check mean_of_values: the key points is missing"),
        ("points = 2", 'points = "2"', "points is no number"),
        ("points = 2", "points = true", "points is no number"),
        ("points = 2", "points = -3", "points is -3, and has to be 0 or more"),
        ("points = 2", "points = nan", "points is nan"),
        ("points = 2", "points = inf", "points is inf"),
        ('"mean_of_values"', '"is_there"', "there are two checks is_there"),
        ('needs = ["is_there"]', 'needs = ["is_ther"]', "needs is_ther, which is no check"),
        ('needs = ["is_there"]', 'needs = ["mean_of_values"]', "that comes before it"),
        ('needs = ["is_there"]', 'need = ["is_there"]', "the key need is unknown"),
        ("[limits]\nseconds = 4", "limits = 4", "limits is no table"),
        ("[[check]]", "[check]", "exercise.toml"),
        (
            '"mean_of_values"',
            '"mean of values"',
            "check mean of values: its judge is a function test_mean of values",
        ),
        ('"mean_of_values"', '"mean-of-values"', "name it by letters, digits and _ alone"),
        ('"mean_of_values"', '"test_mean"', "check test_mean: leave out test_"),
        ("[limits]", 'early = "yes"\n[limits]', "early is neither true nor false"),
        ('["mean.py"]', "[]", "files is empty"),
        ('["mean.py"]', '["../mean.py"]', "'../mean.py' is no file below the folder that is handed in"),
        ('["mean.py"]', '["/mean.py"]', "'/mean.py' is no file below"),
        ('["mean.py"]', r'["src\\mean.py"]', "is no file below"),
        ('["mean.py"]', '["mean.ipynb"]', "name mean.py, which may be handed in as a notebook as well"),
        (RIGHT[RIGHT.index("[limits]") :], "check = [1]", "check is no list of tables: write `[[check]]`"),
    ],
)
def test_what_is_misspelt_is_named(tmp_path: Path, find: str, replacement: str, words: str) -> None:
    with pytest.raises(ExerciseError) as caught:
        load_exercise(written(tmp_path, RIGHT.replace(find, replacement)))
    assert words in str(caught.value)
    assert "exercise.toml" in str(caught.value)


def test_what_a_person_gives_is_the_sum_of_the_rubric(tmp_path: Path) -> None:
    written(tmp_path, f'rubric = "rubric.toml"\n{RIGHT}')
    (tmp_path / "rubric.toml").write_text("[[question]]\npoints = 1.5\n[[question]]\npoints = 2\n")
    assert load_exercise(tmp_path).by_person == 3.5
    (tmp_path / "rubric.toml").write_text("[[question]]\n")
    with pytest.raises(ExerciseError, match=r"rubric\.toml: points is no number"):
        load_exercise(tmp_path)


@pytest.mark.parametrize(
    "rubric", ["question = 3", "question = [1]", "[question]\npoints = 1", "title = 'None'"]
)
def test_a_rubric_of_another_form_is_told_in_a_sentence(tmp_path: Path, rubric: str) -> None:
    written(tmp_path, f'rubric = "rubric.toml"\n{RIGHT}')
    (tmp_path / "rubric.toml").write_text(rubric)
    with pytest.raises(
        ExerciseError, match=r"rubric\.toml: question is no list of tables: write `\[\[question"
    ):
        load_exercise(tmp_path)


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExerciseError, match=r"exercise\.toml"):
        load_exercise(tmp_path)


@pytest.mark.parametrize("name", ["my mean", "mean,of", "mean[1]", "mean.2", "-mean", "mean::of", "mittel_ü"])
def test_a_folder_that_cannot_be_the_name_of_an_exercise_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ExerciseError, match="the folder's name is the exercise's"):
        load_exercise(written(tmp_path / name, RIGHT))


def test_an_editors_byte_order_mark_is_no_part_of_it(tmp_path: Path) -> None:
    assert load_exercise(written(tmp_path, f"\ufeff{RIGHT}")).title == "The mean of a tensor"


def graders_with(folder: Path, *judges: str) -> Path:
    """The exercise `mean`, and judges elsewhere: all of them would be passed over in silence."""
    for name in ("mean/test_mean.py", *judges):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    written(folder / "mean", RIGHT)
    return folder


def test_what_nobody_would_grade_is_told(tmp_path: Path) -> None:
    graders = graders_with(tmp_path, "other/helper.py", "other/deep/test_deep.py", "mean/test_more.py")
    assert [exercise.id for exercise in find_exercises(graders)] == ["mean"]
    written(graders / "other" / "deep", RIGHT)
    with pytest.raises(
        ExerciseError, match=r"other/deep is too deep to be found: an exercise is a folder in"
    ):
        find_exercises(graders)


@pytest.mark.parametrize("inside", ["mean", "more"])
def test_an_exercise_inside_of_another_is_told(tmp_path: Path, inside: str) -> None:
    graders = graders_with(tmp_path, f"{inside}/inner/test_inner.py")
    written(graders / inside / "inner", RIGHT)
    with pytest.raises(ExerciseError, match="too deep"):
        find_exercises(graders)


def test_a_judge_whose_folder_says_nothing_is_told(tmp_path: Path) -> None:
    graders = graders_with(tmp_path, "other/test_other.py")
    (graders / "other" / "Exercise.toml").write_text(RIGHT)
    with pytest.raises(ExerciseError, match=r"other has no exercise\.toml, so nobody would ask it"):
        find_exercises(graders)


def test_two_judges_of_one_name_are_told(tmp_path: Path) -> None:
    graders = graders_with(tmp_path, "other/test_mean.py")
    written(graders / "other", RIGHT)
    with pytest.raises(ExerciseError, match=r"mean/test_mean\.py and .*two judges have one name"):
        find_exercises(graders)
