"""The plot of a report: a picture for every kind, with what it must show, and never a traceback."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from PIL import Image

from fixtures.reports import KINDS, honest, knowledge
from lockstep.cli import main
from lockstep.reports.document import document
from lockstep.reports.pictures import draw

LEGEND = ("readings", "their mean", "claimed")


@pytest.fixture
def legends(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The legend of every figure that is drawn."""
    seen: list[list[str]] = []
    drawn = matplotlib.figure.Figure.legend

    def noted(figure: Any, *arguments: Any, **options: Any) -> Any:
        legend = drawn(figure, *arguments, **options)
        seen.append([text.get_text() for text in legend.get_texts()])
        return legend

    monkeypatch.setattr(matplotlib.figure.Figure, "legend", noted)
    return seen


def size(png: bytes) -> tuple[int, int]:
    """Width and height; raises where the bytes are no picture."""
    with Image.open(io.BytesIO(png)) as picture:
        picture.verify()
        return picture.size


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(kind: str, legends: list[list[str]]) -> None:
    report = honest(kind, np.random.default_rng(1), machine="laptop")
    width, height = size(draw(document(report), knowledge(report)))
    assert width >= 600
    assert height >= 400
    assert set(LEGEND) <= set(legends[0])


def test_the_bound_and_the_reference_are_drawn_where_they_are_known(legends: list[list[str]]) -> None:
    report = honest("amp", np.random.default_rng(2), machine="t4")
    facts = replace(knowledge(report), reference=document(report))
    draw(document(report), facts)
    assert set(legends[0]) == {*LEGEND, "most the GPU can do", "near the reference"}
    draw(document(report), replace(facts, model=None, reference=None))
    assert set(legends[1]) == set(LEGEND)


def test_odd_numbers_and_names_are_no_traceback() -> None:
    report = honest("ddp_scaling", np.random.default_rng(3), machine="laptop")
    report["student"]["id"] = "$\\frac{$ \x1b[2J" + "x" * 1000
    for index, run in enumerate(report["runs"]):
        run["wall_s"] = ["0", "1e-300", "1e300"][index % 3]
    for claim in report["claims"]:
        claim["value"] = "-1e300"
    size(draw(document(report), knowledge(report)))


def test_a_sweep_of_hundreds_is_cut() -> None:
    report = honest("dataloader", np.random.default_rng(4), machine="laptop")
    run = report["runs"][0]
    report["runs"] = [{**run, "config": {"num_workers": workers, "batch_size": 8}} for workers in range(500)]
    width, _ = size(draw(document(report), knowledge(report)))
    assert width < 4000


def test_the_command_draws_one_for_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for student in ("ann", "bob"):
        report = honest("dataloader", np.random.default_rng(len(files)), machine="laptop", student=student)
        (tmp_path / student).mkdir()
        files.append(tmp_path / student / "loader.json")
        files[-1].write_text(json.dumps(report))
    (tmp_path / "broken.json").write_text("{")
    pictures = tmp_path / "new" / "pictures"
    arguments = [str(path) for path in (*files, tmp_path / "broken.json")]
    assert main(["verify-report", *arguments, "--pictures", str(pictures)]) == 2
    assert sorted(path.name for path in pictures.iterdir()) == ["loader-2.png", "loader.png"]
    assert main(["verify-report", *arguments, "--pictures", str(files[0])]) == 2
    assert "cannot write into" in capsys.readouterr().err
