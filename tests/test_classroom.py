"""A whole class, from the download to the pages, through the real command."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import lms
from fixtures.classroom import build_class
from tests.tiny_class import EXERCISES, LAB, tiny_works
from tests.whole_class import grade, tables, wrong


def test_every_verdict_is_as_labelled_and_nobody_is_missing(tmp_path: Path) -> None:
    works = tiny_works()
    class_ = build_class(_new(tmp_path / "class"), works, len(works) + 1)
    results, temporary = tmp_path / "results", tmp_path / "temporary"
    command = (class_.submissions, "--roster", class_.roster, "--graders", LAB, "--out", results)

    first = grade(*command, temporary=temporary)
    assert first.status == 1, first  # somebody is on no roster
    assert wrong(class_, results, EXERCISES) == []

    before = tables(results)
    again = grade(*command, temporary=temporary)
    assert again.status == 1, again
    assert "0 graded now" in again.out
    assert wrong(class_, results, EXERCISES) == []
    assert tables(results) == before


@pytest.mark.slow
@pytest.mark.parametrize("form", [form for form in lms.FORMS if form != "folders"])
def test_whatever_made_the_download(form: str, tmp_path: Path) -> None:
    class_ = build_class(_new(tmp_path / "class"), tiny_works(), 40, 1, form)
    results = tmp_path / "results"
    command = (class_.submissions, "--roster", class_.roster, "--graders", LAB, "--out", results)
    graded = grade(*command, temporary=tmp_path / "temporary")
    assert graded.status == 1, graded
    assert wrong(class_, results, EXERCISES) == []


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
