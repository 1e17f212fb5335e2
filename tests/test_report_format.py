"""A valid performance report is recognised, a broken one is explained, and the writer given to students writes valid ones."""

from __future__ import annotations

import copy
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from fixtures.build import ROOT
from lockstep.reports import format as perf_report

CONFIGS: dict[str, list[dict[str, Any]]] = {
    "dataloader": [{"num_workers": n, "batch_size": 8} for n in (0, 2)],
    "dp_inference": [{"batch_size": 8, "n_devices": n, "device_ids": list(range(n))} for n in (1, 2)],
    "ddp_scaling": [{"world_size": n, "batch_per_rank": 8, "backend": "gloo"} for n in (1, 2)],
    "amp": [
        {"precision": "fp32", "batch_size": 8, "grad_scaler": False},
        {"precision": "fp16-amp", "batch_size": 8, "grad_scaler": True},
    ],
    "lightning": [
        {"precision_requested": a, "precision_resolved": b, "batch_size": 8, "accelerator": "cpu"}
        for a, b in (("32-true", "32-true"), ("16-mixed", "bf16-mixed"))
    ],
}
WORKLOAD = {"model": "net", "params": 3, "input_shape": [3, 4, 4], "dataset_n": 64}
PLOT = {"x": [0, 2], "y": [0.5, 0.25], "yerr": [0.01, 0.02]}


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("given_perf_report", ROOT / "reference" / "perf_report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def readings(config: dict[str, Any], wall: float, samples: int = 64) -> list[dict[str, Any]]:
    now = time.time()
    return [
        {"config": config, "rep": rep, "t_start": now, "t_end": now + wall + 0.1, "wall_s": repr(wall + rep / 64),
         "samples": samples, "steps": 8}
        for rep in range(3)
    ]  # fmt: skip


def written(writer: ModuleType, kind: str, path: Path, **more: Any) -> dict[str, Any]:
    """A report of two configurations; the second took half as long."""
    runs = [run for n, config in enumerate(CONFIGS[kind]) for run in readings(config, 0.5 / (n + 1))]
    plot = PLOT if kind == "dataloader" else None
    writer.write_report(str(path), kind, __file__, runs, WORKLOAD, "a loop", plot, **more)
    return json.loads(path.read_text())


@pytest.fixture
def report(writer: ModuleType, tmp_path: Path) -> dict[str, Any]:
    return written(writer, "dp_inference", tmp_path / "report.json")


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(perf_report.SCHEMA.read_text()))


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_given_writer_writes_valid_reports(kind: str, writer: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.json"
    written(writer, kind, path)
    assert perf_report.problems(path.read_bytes()) == []
    assert perf_report.problems(path.read_text()) == []


@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind != "dataloader"])
def test_the_given_writer_works_out_what_follows(kind: str, writer: ModuleType, tmp_path: Path) -> None:
    claims = written(writer, kind, tmp_path / "report.json")["claims"]
    (speedup,) = [claim for claim in claims if claim["what"] == "speedup"]
    assert (speedup["config"], speedup["base"]) == (CONFIGS[kind][1], CONFIGS[kind][0])
    assert float(speedup["value"]) == pytest.approx((0.5 + 1 / 64) / (0.25 + 1 / 64), rel=1e-4)
    efficiencies = [claim["value"] for claim in claims if claim["what"] == "efficiency"]
    assert len(efficiencies) == (kind in ("dp_inference", "ddp_scaling"))


def test_a_speedup_is_one_of_images_per_second(writer: ModuleType, tmp_path: Path) -> None:
    path, (one, two) = tmp_path / "report.json", CONFIGS["ddp_scaling"]
    runs = readings(one, 0.5) + readings(two, 0.5, samples=128)
    writer.write_report(str(path), "ddp_scaling", __file__, runs, WORKLOAD, "an epoch")
    claims = json.loads(path.read_text())["claims"]
    assert [claim["value"] for claim in claims if claim["what"] == "speedup"] == ["2.0000"]


def test_trainings_add_to_their_report_what_they_measure_next(writer: ModuleType, tmp_path: Path) -> None:
    path, configs = tmp_path / "amp.json", CONFIGS["amp"]
    for config, samples in ((configs[0], 64), (configs[1], 32), (configs[1], 64)):
        writer.write_report(
            str(path), "amp", __file__, readings(config, 0.5, samples), WORKLOAD, "an epoch",
            claims=[{"what": "max_batch", "config": {"precision": config["precision"]}, "value": str(samples)}],
            batch_search=[{"precision": config["precision"], "batch_size": samples, "ok": True}],
        )  # fmt: skip
    assert perf_report.problems(path.read_bytes()) == []
    report = json.loads(path.read_text())
    assert [run["config"]["precision"] for run in report["runs"]] == ["fp32"] * 3 + ["fp16-amp"] * 3
    assert [run["samples"] for run in report["runs"]] == [64] * 6
    assert [trial["batch_size"] for trial in report["batch_search"]] == [64, 64]
    assert [claim["value"] for claim in report["claims"] if claim["what"] == "max_batch"] == ["64", "64"]
    assert [claim["what"] for claim in report["claims"]].count("speedup") == 1


def test_other_code_or_another_workload_starts_a_new_report(writer: ModuleType, tmp_path: Path) -> None:
    path, (one, two) = tmp_path / "ddp.json", CONFIGS["ddp_scaling"]
    writer.write_report(str(path), "ddp_scaling", __file__, readings(one, 0.5), WORKLOAD, "an epoch")
    other = {**WORKLOAD, "model": "resnet18"}
    writer.write_report(str(path), "ddp_scaling", __file__, readings(two, 0.5), other, "an epoch")
    assert {run["config"]["world_size"] for run in json.loads(path.read_text())["runs"]} == {2}


def test_what_a_machine_lacks_and_what_was_done_otherwise_is_said(writer: ModuleType, tmp_path: Path) -> None:
    missing = [{"config": {"n_devices": 3}, "reason": "2 GPUs"}]
    path = tmp_path / "report.json"
    report = written(writer, "dp_inference", path, not_available=missing, method={"warmup_steps": 3})
    assert perf_report.problems(path.read_bytes()) == []
    assert report["not_available"] == missing
    assert report["method"]["warmup_steps"] == 3


def no_kind(report: dict[str, Any]) -> None:
    report["report"] = "inference"


def no_env(report: dict[str, Any]) -> None:
    del report["env"]


def numbers_for_text(report: dict[str, Any]) -> None:
    for run in report["runs"]:
        run["wall_s"] = float(run["wall_s"])


def decimal_comma(report: dict[str, Any]) -> None:
    report["runs"][2]["wall_s"] = "0,25"


def another_kinds_config(report: dict[str, Any]) -> None:
    report["runs"][1]["config"] = {"world_size": 1, "batch_size": 8}


def speedup_over_nothing(report: dict[str, Any]) -> None:
    (claim,) = [claim for claim in report["claims"] if claim["what"] == "speedup"]
    del claim["base"]


def no_runs(report: dict[str, Any]) -> None:
    report["runs"] = []


def zero_samples(report: dict[str, Any]) -> None:
    report["runs"][0]["samples"] = 0


def half_a_step(report: dict[str, Any]) -> None:
    report["runs"][0]["steps"] = 1.5


def odd_hash(report: dict[str, Any]) -> None:
    report["attempt"]["code_sha256"] = "abc\x1b[31m"


def declared_twice(report: dict[str, Any]) -> None:
    report["declared"] = ["pretrained", "pretrained"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (no_kind, ['`report` is "inference"', "dp_inference"]),
        (no_env, ['The report lacks "env".']),
        (numbers_for_text, ["`runs[0].wall_s` is a number, expected text", "5 more places"]),
        (decimal_comma, ['`runs[2].wall_s` is "0,25"']),
        (another_kinds_config, ['`runs[1].config` lacks "n_devices"', '"world_size", which the format does not know']),
        (speedup_over_nothing, ['lacks "base"']),
        (no_runs, ["`runs` is empty"]),
        (zero_samples, ["`runs[0].samples` is 0, expected at least 1"]),
        (half_a_step, ["`runs[0].steps` is a number, expected a whole number"]),
        (odd_hash, ['`attempt.code_sha256` is "abc']),
        (declared_twice, ["`declared` holds an entry twice"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_sentence(
    spoil: Callable[[dict[str, Any]], None], words: list[str], report: dict[str, Any]
) -> None:
    spoilt = copy.deepcopy(report)
    spoil(spoilt)
    told = perf_report.problems(json.dumps(spoilt))
    assert told
    assert [word for word in words if word not in " ".join(told)] == []
    assert all(sentence.isprintable() and len(sentence) < 400 for sentence in told)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b'{"schema": "perf-report/1",\n}', "line 2"),
        (b"\xff\xfe{", "not UTF-8"),
        (b'{"mean": NaN}', "it holds NaN"),
        (b'{"mean": 1e999}', "not finite"),
        (b'{"mean": 1, "mean": 2}', "not plain JSON"),
        (b"[" * 100_000, "not plain JSON"),
        (b'{"n": ' + b"9" * 5000 + b"}", "not plain JSON"),
        (b"[1]", "holds a list"),
        (b" " * (2 << 20), "larger than 1 MiB"),
    ],
)
def test_what_is_no_report_at_all_is_said_in_one_sentence(data: bytes, words: str) -> None:
    (told,) = perf_report.problems(data)
    assert words in told


def test_a_report_full_of_faults_is_told_in_a_few_sentences(report: dict[str, Any]) -> None:
    report["runs"] = [{}] * 50_000
    report["declared"] = [{"n": number} for number in range(5_000)]
    report["report"] = "dp_inference"
    assert 1 <= len(perf_report.problems(json.dumps(report))) <= perf_report.MAX_PROBLEMS + 1
