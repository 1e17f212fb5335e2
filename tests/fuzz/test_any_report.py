"""Reports with anything in them and folders with anything beside them: judged or refused, in sentences for anybody."""

from __future__ import annotations

import copy
import json
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from fixtures.reports import KINDS, honest, knowledge
from lockstep.reports.document import document
from lockstep.reports.folder import Folder
from lockstep.reports.format import read_file, schema_problems
from lockstep.reports.verify import verify
from tests.fuzz.bent import Dice, thrown, written
from tests.fuzz.promise import held, presentable
from tests.fuzz.test_any_event_file import event_file_of
from tests.fuzz.test_any_wandb_file import wandb_file_of

DECIMALS = (
    "0",
    "-0",
    "1",
    "1.0",
    "0.1234567",
    "1e30",
    "1e-30",
    "1e999",
    "-1",
    "1_0",
    "１",
    "",
    "x",
    "9" * 101,
    "1e15",
    "1.50e+02",
)
PATHS = (
    "logs",
    "logs/a",
    ".",
    "",
    "..",
    "../canary",
    "/etc/passwd",
    "logs/link",
    "C:\\x",
    "a\0b",
    "x/" * 40,
    "logs\\b.csv",
    "\ud800",
    "##[x]\x1b[2J",
)
METRICS = ("loss", "acc1", "acc5", "lr", "\u202e")
CSV = "epoch,step,loss,acc1,lr\n0,1,2.3,0.1,0.1\n0,2,2.2,0.2,0.1\n1,3,nan,inf,1e999\n"


@cache
def original(kind: str, which: int) -> bytes:
    """An honest report with all of its optional parts, but few runs: what is odd is to be met often."""
    report = honest(kind, np.random.default_rng([which]), thorough=True)
    configs = [run["config"] for run in report["runs"][:4]]
    report["runs"] = [run for run in report["runs"] if run["config"] in configs][:6]
    for run in report["runs"]:
        if "step_s" in run:
            run["step_s"] = run["step_s"][:3]
    return written(report)


def report_of(dice: Dice) -> bytes:
    report = json.loads(original(dice.choice(KINDS), dice.randrange(3)))
    report["logs"] = [log_of(dice, report) for _ in dice.few(3)]
    for _ in dice.few(3):
        change(dice, report)
    data = written(report)
    return dice.bent(data, 2) if dice.rarely() else data


def log_of(dice: Dice, report: dict[str, Any]) -> dict[str, Any]:
    log: dict[str, Any] = {
        "kind": dice.choice(["tensorboard", "wandb", "lightning_csv"]),
        "path": dice.choice(PATHS) if dice.rarely(3) else dice.choice(["logs", ".", "logs/a"]),
        "tags": {metric: dice.choice(METRICS) for metric in METRICS if dice.rarely(4)},
    }
    if dice.rarely(2):
        log |= {"config": report["runs"][0]["config"], "rep": dice.choice([0, 1, 2**62])}
    return log


def change(dice: Dice, report: Any) -> None:
    """Another value somewhere."""
    place: Any = report
    while True:
        key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or dice.rarely(10):
            break
        place = inner
    if isinstance(inner, str) and not dice.rarely(3):
        place[key] = dice.choice(DECIMALS) if inner[:1].isdigit() else dice.text()
    elif isinstance(inner, int | float) and not dice.rarely(3):
        place[key] = dice.choice(
            [0, 1, -1, 2, 2**53, 2**62, 1e15, 1e30, 1e308, -1.5, 1e-300, inner * 2, inner + 1]
        )
    elif isinstance(place, list) and dice.rarely(2):
        place.append(copy.deepcopy(inner)) if dice.rarely(2) else place.remove(inner)
    else:
        place[key] = dice.json()


def folder_of(dice: Dice) -> dict[str, bytes]:
    """What lies beside the report: logs by the names that their readers look for."""
    contents = {
        "logs/events.out.tfevents.1": event_file_of(dice),
        "logs/a/run-1.wandb": wandb_file_of(dice),
        "logs/b.csv": dice.bent(CSV.encode(), 4),
        "logs/a/metrics.csv": dice.noise(60),
        "logs/a": b"a file, not a folder",
        "x.png": dice.noise(9),
    }
    return {name: data for name, data in contents.items() if dice.rarely(2)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("reports")
    (top / "canary").mkdir()
    (top / "canary" / "metrics.csv").write_text(CSV)
    return top


@given(thrown(lambda dice: (report_of(dice), folder_of(dice), dice.rarely(4))))
def test_any_report_is_judged_or_refused(place: Path, made: tuple[bytes, dict[str, bytes], bool]) -> None:
    data, beside, linked = made
    root = place / "handed in"
    lay(root, data, beside, linked)
    try:
        raw = held(lambda: read_file(root / "report.json"))
        if isinstance(raw, str):
            presentable(raw.replace(str(root), "r"))
            return
        assert raw is not None
        problems = held(lambda: schema_problems(raw))
        assert problems is not None
        presentable(*problems)
        if problems:
            return
        report = document(raw)
        facts = knowledge(raw, files=Folder(root))
        verification = held(lambda: verify(report, facts))
        assert verification is not None
        for finding in verification.findings:
            presentable(finding.message)
            json.dumps(finding.to_json()).encode("ascii")
    finally:
        shutil.rmtree(root)


def lay(root: Path, data: bytes, beside: dict[str, bytes], linked: bool) -> None:
    (root / "logs").mkdir(parents=True)
    (root / "report.json").write_bytes(data)
    if linked:
        os.symlink("../../canary", root / "logs" / "link")
        os.mkfifo(root / "logs" / "pipe.csv")
    for name, content in beside.items():
        path = root / name
        if path.exists() or path.parent.is_file():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
