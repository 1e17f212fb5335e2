"""A generated class: the same for the same seed, with everything in it, and every hand-in what its label says."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import pytest

from fixtures import lms
from fixtures.build import all_submissions
from fixtures.classroom import Classroom, build_class
from fixtures.works import Work, class_works, unusable_uploads
from lockstep.submission import SubmissionError, open_submission
from tests.tiny_class import tiny_works


def _made(folder: Path, works: list[Work], students: int, form: str = "folders", seed: int = 1) -> Classroom:
    folder.mkdir()
    return build_class(folder, works, students, seed, form)


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


# Without the hostile archives of the tests: they take long to make, and hold the time at which they were made.
LIGHT = [*(work for work in tiny_works() if not work.upload), *unusable_uploads()]


@pytest.mark.parametrize("form", lms.FORMS)
def test_the_same_seed_makes_the_same_class(form: str, tmp_path: Path) -> None:
    first, again, other = (
        _made(tmp_path / name, LIGHT, 24, form, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first.labels == again.labels != other.labels
    assert _tree(tmp_path / "a") == _tree(tmp_path / "b") != _tree(tmp_path / "c")


@pytest.mark.parametrize("form", lms.FORMS)
def test_everybody_is_in_the_download(form: str, tmp_path: Path) -> None:
    class_ = _made(tmp_path / "class", LIGHT, 40, form)
    if class_.submissions.is_dir():
        entries = len(list(class_.submissions.iterdir())) - len(lms.STRAYS)
    else:
        names = zipfile.ZipFile(class_.submissions).namelist()
        entries = len({number for name in names for number in [_number(name)] if number})
    handed_in = [label for label in class_.labels if label.works]
    assert entries == len(handed_in) == 40
    with class_.roster.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["student id"] for row in rows] == [
        label.student.id for label in class_.labels if label.student.enrolled
    ]
    assert {row["name"] for row in rows} > {"<script>alert(1)</script>", "=HYPERLINK(1)"}


def _number(name: str) -> str:
    """The student's number in an LMS, which begins with 2 here."""
    return next(
        (part for part in name.replace("/", "_").split("_") if part[:1] == "2" and len(part) == 5), ""
    )


def test_a_class_holds_every_sample_of_its_exercises(tmp_path: Path) -> None:
    exercises = ("answers", "lfw_dataset", "scaling")
    works = class_works(exercises)
    class_ = _made(tmp_path / "class", works, 150)
    handed_in = [work.name for label in class_.labels for work in label.works]
    assert set(handed_in) == {work.name for work in works}
    assert set(handed_in) > {str(sample) for exercise in exercises for sample in all_submissions(exercise)}
    for label in class_.labels:
        together = [name for work in label.works for name in work.expected]
        assert len(together) == len(set(together)), label
    assert len({label.student.id for label in class_.labels}) == len(class_.labels) > 150


def test_more_works_than_people_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="10 people cannot hand in"):
        build_class(tmp_path, class_works(("scaling",)), 10)


def test_each_hand_in_is_read_or_refused_as_its_label_says(tmp_path: Path) -> None:
    for number, work in enumerate(LIGHT):
        folder = tmp_path / str(number)
        folder.mkdir()
        work.write(folder)
        path = next(folder.iterdir()) if work.upload else folder
        try:
            open_submission(path)
            said = ""
        except SubmissionError as error:
            said = str(error)
        assert work.refused in said, work.name
        assert bool(said) == bool(work.refused), (work.name, said)
