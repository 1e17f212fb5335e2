"""The grader of exercise 9: the reference's own reports, files and pictures of any kind, and forged answers."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fixtures import build
from fixtures.jsonedit import edit_json
from fixtures.measure_reports import COMMANDS
from graders.reports import handed_in, picture, spot
from graders.reports import test_reports as judge
from lockstep.check import Check, Setting
from lockstep.exercise import load_exercise
from lockstep.reports.finding import advice, not_verified
from lockstep.reports.verify import RULES
from lockstep.sandbox.box import Box
from lockstep.sandbox.outcome import RankOutcome
from lockstep.submission import open_submission
from lockstep.verdict import CheckEnded, Verdict
from tests.samples import graded
from tests.test_forged_answers import ARRAYS, VALUES, Anything, Oracle

EXERCISE = "reports"
SAMPLES = build.all_submissions(EXERCISE)
REFERENCE = build.ROOT / "reference"


@pytest.mark.parametrize("wanted", handed_in.WANTED, ids=lambda wanted: wanted.name)
def test_the_references_reports_are_of_its_present_scripts(wanted: handed_in.Wanted) -> None:
    """If this fails: `make reports`, then look at what changed."""
    report = json.loads((REFERENCE / "reports" / wanted.name).read_text())
    script = (REFERENCE / wanted.script).read_bytes()
    assert report["attempt"]["code_sha256"] == hashlib.sha256(script).hexdigest(), "run `make reports`"


def test_make_reports_measures_each_of_them_with_its_script() -> None:
    scripts = {wanted.name: wanted.script for wanted in handed_in.WANTED}
    assert COMMANDS.keys() == scripts.keys()
    for name, commands in COMMANDS.items():
        assert all(scripts[name] in command and f"reports/{name}" in command for command in commands)


def test_every_rule_that_looks_at_a_report_is_put_by_one_check() -> None:
    put = [judge.rules_named(*judge.COMPLETE), judge.rules_named(*judge.PICTURED)]
    put += [judge.rules_of("S", "C"), judge.rules_of("P", "R"), judge.rules_of("F")]
    assert sorted(rule.id for rules in put for rule in rules) == sorted(rule.id for rule in RULES)


# Points


@pytest.mark.parametrize(
    ("sample", "points"),
    [
        (
            "no_lightning_report",
            {"complete": 0.8, "consistent": 1.6, "possible": 0.8, "measured": 0.8, "pictures": 1},
        ),
        ("typed_mean", {"consistent": 1.6}),
        ("no_picture", {"pictures": 0.5}),
        ("plot_of_older_numbers", {"pictures": 0.5}),
        ("no_report_flag", {"spot_rerun": 1}),
        ("report_path_written_in", {"spot_rerun": 1.5}),
        ("picture_never_saved", {"spot_rerun": 1.5}),
        ("mean_for_the_total", {"spot_rerun": 1.5}),
    ],
)
def test_each_report_earns_its_share(sample: str, points: dict[str, float], tmp_path: Path, box: Box) -> None:
    (found,) = [candidate for candidate in SAMPLES if candidate.name == sample]
    (exercise,) = graded(build.build(found, tmp_path / sample), EXERCISE, box, checks=list(points)).exercises
    assert {check.id: check.points for check in exercise.checks} == points


def test_no_report_at_all_is_told_once(tmp_path: Path, box: Box) -> None:
    (tmp_path / "lfw_dataset.py").write_text("x = 1")
    first, *others = graded(tmp_path, EXERCISE, box).exercises[0].checks
    assert (first.verdict, first.points, "none of the reports" in first.message) == (Verdict.FAILED, 0, True)
    assert {check.verdict for check in others} == {Verdict.NOT_CHECKED}


def test_files_that_hold_anything_are_a_verdict(tmp_path: Path, box: Box) -> None:
    (tmp_path / "reports").mkdir()
    for wanted, data in zip(
        handed_in.WANTED,
        (b"", b"[" * 100_000, b'{"a": NaN}', b"\xff\xfe", b'{"schema": 1, "schema": 2}'),
        strict=True,
    ):
        (tmp_path / "reports" / wanted.name).write_bytes(data)
    (tmp_path / "reports" / "loader.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (exercise,) = graded(tmp_path, EXERCISE, box).exercises
    assert [(check.verdict, check.points) for check in exercise.checks] == [(Verdict.FAILED, 0)] * 6
    names = "loader.json, data_parallel.json, ddp.json, amp.json and lightning.json"
    for check in exercise.checks:
        if check.id in ("consistent", "possible", "measured"):
            assert check.message == f"Not looked at: {names}, as `complete` says."
            assert check.hint == "Mend what `complete` says; nothing else is wrong here."


def test_what_the_format_does_not_know_costs_nothing_and_is_told(tmp_path: Path, box: Box) -> None:
    folder = build.build(next(s for s in SAMPLES if s.name == "ddof_one"), tmp_path / "x")
    for name in ("loader", "data_parallel"):
        path = folder / "reports" / f"{name}.json"
        report = json.loads(path.read_text())
        if name == "loader":
            report["notes"] = "a quiet evening"
        else:
            report["claims"].append({"what": "params", "config": {}, "value": "11689512"})
        path.write_text(json.dumps(report))
    wanted = ["complete", "consistent", "possible", "measured", "pictures"]
    (exercise,) = graded(folder, EXERCISE, box, checks=wanted).exercises
    assert {check.verdict for check in exercise.checks} == {Verdict.PASSED}
    (complete,) = [check for check in exercise.checks if check.id == "complete"]
    assert "loader.json: `notes` is not looked at." in complete.message
    assert (
        "data_parallel.json: Its claim about `params` is not verified. What can be: mean_s"
        in complete.message
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_last_batch_of_a_loader_is_short_in_every_draw(seed: int) -> None:
    session = spot.SESSIONS["loader.json"](np.random.default_rng(seed))
    size = int(session.arguments[session.arguments.index("-batch_size") + 1])
    assert 1 < size < len(session.data["lfw"])
    assert len(session.data["lfw"]) % size


# What was handed in


def submission(files: dict[str, str | bytes], folder: Path) -> Any:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_submission(folder)


def test_a_script_with_other_line_ends_is_the_same_script(tmp_path: Path) -> None:
    source = b"import time\nprint(1)\n"
    ends = source.replace(b"\n", b"\r\n")
    digest, other = (hashlib.sha256(data).hexdigest() for data in (source, ends))
    assert handed_in.digests(source) >= {digest, other} <= handed_in.digests(ends)


def test_readings_of_one_report_in_another_are_noted_under_whatever_name(tmp_path: Path, box: Box) -> None:
    """One STUDENT_ID for ddp, none for lightning: both are in one submission."""
    (tmp_path / "reports").mkdir()
    ddp, lightning = (
        json.loads((REFERENCE / "reports" / f"{name}.json").read_text()) for name in ("ddp", "lightning")
    )
    for own, theirs in zip(lightning["runs"], ddp["runs"][:3], strict=False):
        own["wall_s"] = theirs["wall_s"]
    ddp["student"]["id"], lightning["student"]["id"] = "ann", "unknown"
    for name, report in (("ddp", ddp), ("lightning", lightning)):
        (tmp_path / "reports" / f"{name}.json").write_text(json.dumps(report))
    (check,) = graded(tmp_path, EXERCISE, box, checks=["measured"]).exercises[0].checks
    assert check.points == 0.4
    assert "the lightning report of the same student" in check.message


def test_a_notebook_leaves_the_hash_open(tmp_path: Path) -> None:
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ["x = 1"]}
    read = submission(
        {
            "amp_train.ipynb": json.dumps({**notebook, "cells": [cell]}),
            "ddp_train.py": "x = 1\n",
            "reports/amp.json": (REFERENCE / "reports/amp.json").read_bytes(),
        },
        tmp_path,
    )
    ddp, amp = (item for item in handed_in.read(read) if item.name in ("ddp.json", "amp.json"))
    assert handed_in.facts(ddp, read).code_sha256 is not None
    assert handed_in.facts(amp, read).code_sha256 is None


def test_what_could_not_be_verified_is_told_in_words_and_once() -> None:
    told: list[str] = []
    findings = [
        ("amp.json", replace(not_verified(message), rule=rule))
        for rule, message in (
            ("S04", "The runs lack a GPU."),
            ("S05", "Nobody said which nonce."),
            ("P01", "No peak is known."),
            ("P02", "No width is known."),
            ("X03", "Its workers are not forked."),
            ("X03", "And these are not."),
            ("R01", "There is no reference."),
        )
    ]
    judge.note(cast(Check, SimpleNamespace(note=told.append)), findings)
    assert told == [
        "Not verified: amp.json: Its workers are not forked.",
        "Not verified: amp.json: No peak is known.",
        "2 more could not be looked into; `lockstep verify-report` says which, and why.",
    ]


def test_who_measures_as_often_as_is_asked_is_not_told_to_measure_more() -> None:
    told: list[str] = []
    findings = [
        ("ddp.json", replace(advice("3 runs."), rule="S03")),
        ("amp.json", replace(advice("x"), rule="S01")),
    ]
    judge.note(cast(Check, SimpleNamespace(note=told.append)), findings)
    assert told == ["Advice: amp.json: x"]


@pytest.mark.parametrize("place", ["loader.json", "Reports/Loader.json", "hand-in/reports/loader.json"])
def test_a_report_may_lie_elsewhere(place: str, tmp_path: Path) -> None:
    read = submission({place: (REFERENCE / "reports/loader.json").read_bytes(), "a.py": "x = 1\n"}, tmp_path)
    assert handed_in.read(read)[0].report is not None


def test_files_beside_a_report_stay_within_the_submission(tmp_path: Path) -> None:
    read = submission({"reports/runs/a.log": "a", "reports/b.log": "b", "secret.py": "x = 1\n"}, tmp_path)
    beside = handed_in.Beside(read.files, "reports")
    assert beside.read("runs/a.log") == b"a"
    assert beside.below("runs") == ("runs/a.log",)
    assert beside.below("b.log") == ("b.log",)
    assert (beside.read("../../etc/passwd"), beside.read("/etc/passwd"), beside.below("nothing")) == (
        None,
        None,
        (),
    )


# The picture


def plot(draw: bool, layout: str | None = None, style: str = "o-") -> np.ndarray:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 3.6), layout=layout)
    canvas, axis = FigureCanvasAgg(figure), figure.subplots()
    if draw:
        axis.errorbar([0, 1, 8], [3.1, 2.2, 2.9], yerr=[0.1, 0.3, 0.2], fmt=style)
    axis.set_xlabel("workers")
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


@pytest.mark.parametrize("layout", [None, "tight", "constrained"])
@pytest.mark.parametrize("style", ["o-", "o", "none"])
def test_error_bars_are_seen(layout: str | None, style: str) -> None:
    assert picture.drawn(plot(True, layout, style)) >= picture.LEAST_DRAWN


def test_empty_axes_show_nothing() -> None:
    assert picture.drawn(plot(False)) < picture.LEAST_DRAWN


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        (np.full((300, 400, 3), 255, np.uint8), "every pixel has the same colour"),
        (np.zeros((20, 20, 3), np.uint8), "too few to read"),
        (plot(False), "nothing is drawn within the axes"),
    ],
)
def test_pictures_of_nothing_are_refused(pixels: np.ndarray, words: str, tmp_path: Path, box: Box) -> None:
    from PIL import Image

    folder = build.build(next(s for s in SAMPLES if s.name == "ddof_one"), tmp_path / "x")
    Image.fromarray(pixels).save(folder / "reports/loader.png")
    (exercise,) = graded(folder, EXERCISE, box, checks=["pictures"]).exercises
    (check,) = [check for check in exercise.checks if check.id == "pictures"]
    assert (check.verdict, check.points, words in check.message) == (Verdict.FAILED, 0.5, True), check.message


# Forgeries


def judged(check_id: str, rank: RankOutcome) -> float:
    """The points of one check of the reference where every run of the sandbox answers the same."""
    exercise = load_exercise(build.ROOT / "graders" / EXERCISE)
    setting = Setting(Oracle(rank), open_submission(REFERENCE), 1, (2,), False)  # type: ignore[arg-type]
    check = Check(setting, exercise, exercise.check(check_id))
    try:
        getattr(judge, f"test_{check_id}")(check)
    except CheckEnded as ended:
        return ended.points
    return check.points


@pytest.mark.parametrize("check", ["pictures", "spot_rerun"])
def test_odd_answers_earn_nothing_and_break_nothing(check: str) -> None:
    # The numbers that were drawn are half of the picture's points, and no answer of the sandbox.
    most = {"pictures": 0.5, "spot_rerun": 0.0}[check]
    answers = [(value, ARRAYS["bytes"]) for value in VALUES.values()]
    answers += [(0, array) for array in ARRAYS.values()]
    for value, array in answers:
        seen = RankOutcome(complete=True, values=Anything(value), arrays=Anything(array))
        assert judged(check, seen) <= most


FORGED = """
from lockstep.sandbox import probing
made = probing.Observation.__init__

def forging(self, values, arrays=None):
    made(self, {{**values, {odd}}}, arrays or {{}})

probing.Observation.__init__ = forging
"""


@pytest.mark.parametrize(
    "odd",
    [
        "'events': [[True, -1e308, 1e308, 1]] * 300, 'start': -1e308, 'end': 1e308",
        "'events': [], 'workers': [[1, 'spawn']]",
    ],
)
def test_forged_events_do_not_make_up_for_a_wrong_clock(odd: str, tmp_path: Path, box: Box) -> None:
    folder = build.build(next(s for s in SAMPLES if s.name == "canned_readings"), tmp_path / "x")
    source = (folder / "lfw_dataset.py").read_text()
    (folder / "lfw_dataset.py").write_text(
        source.replace("import torch\n", "import torch\n" + FORGED.format(odd=odd), 1)
    )
    edit_json(
        folder, {"file": "reports/loader.json", "path": "attempt.code_sha256", "sha256_of": "lfw_dataset.py"}
    )
    (exercise,) = graded(folder, EXERCISE, box, checks=["spot_rerun"]).exercises
    (check,) = [check for check in exercise.checks if check.id == "spot_rerun"]
    assert (check.verdict, check.points) == (Verdict.FAILED, 1), check.message


def test_another_program_is_not_started_with_flags_it_may_not_know(tmp_path: Path) -> None:
    folder = build.build(next(s for s in SAMPLES if s.name == "bench_of_ones_own"), tmp_path / "x")
    read = open_submission(folder)
    exercise = load_exercise(build.ROOT / "graders" / EXERCISE)
    check = Check(Setting(None, read, 1, (2,), False), exercise, exercise.check("spot_rerun"))  # type: ignore[arg-type]
    loader, parallel, *_ = handed_in.read(read)
    assert "bench_loader.py" in spot.why_not(check, loader)
    assert spot.why_not(check, parallel) == ""


def test_a_notebook_is_not_measured_again_whatever_it_can_do(tmp_path: Path) -> None:
    line = "args = __import__('argparse').ArgumentParser().parse_known_args()[0]"
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [line]}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    report = (REFERENCE / "reports/loader.json").read_bytes()
    read = submission(
        {"lfw_dataset.ipynb": json.dumps(notebook), "reports/loader.json": report, "a.py": "x = 1\n"},
        tmp_path,
    )
    exercise = load_exercise(build.ROOT / "graders" / EXERCISE)
    check = Check(Setting(None, read, 1, (2,), False), exercise, exercise.check("spot_rerun"))  # type: ignore[arg-type]
    reason = spot.why_not(check, handed_in.read(read)[0])
    assert reason == "lfw_dataset.ipynb is a notebook, and notebooks are not measured again"


def test_edits_of_json_that_lead_nowhere_are_errors(tmp_path: Path) -> None:
    shutil.copytree(REFERENCE / "reports", tmp_path / "reports")
    for path in ("runs[num_workers=77].wall_s", "nothing.at.all", "claims[99].value"):
        with pytest.raises((ValueError, LookupError)):
            edit_json(tmp_path, {"file": "reports/loader.json", "path": path, "scale": 2.0})


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "Your code raised E (x.py, line 3, in f), while running `python x.py -a`.",
            "Your code raised E (x.py, line 3, in f).",
        ),
        (
            "No answer within 9 s while running `python x.py -a`: it is busy.",
            "No answer within 9 s: it is busy.",
        ),
        ("Your code raised E, while importing x.py.", "Your code raised E, while importing x.py."),
    ],
)
def test_a_command_that_is_run_again_is_named_once(message: str, told: str) -> None:
    assert spot.without("`python x.py -a`", message) == told
