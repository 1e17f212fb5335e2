"""A valid performance report is recognised, a broken one is explained, and the writer given to students writes valid ones."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import json
import os
import re
import socket
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import is_dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.build import ROOT
from lockstep.reports import format as perf_report
from lockstep.reports.document import Group, Number, Report, document
from lockstep.reports.names import SCHEMA, schema
from tests.effort import costs_at_most

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
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))


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


def test_the_given_writer_reads_readings_of_numpys(writer: ModuleType, tmp_path: Path) -> None:
    runs = [
        {**run, "wall_s": f"np.float64({run['wall_s']})", "step_s": ["np.float64(0.015625)", "0.25"]}
        for run in readings(CONFIGS["amp"][0], 0.5)
    ]
    path = tmp_path / "report.json"
    writer.write_report(str(path), "amp", __file__, runs, WORKLOAD, "an epoch")
    assert perf_report.problems(path.read_bytes()) == []
    report = json.loads(path.read_text())
    assert [run["wall_s"] for run in report["runs"]] == ["0.5", "0.515625", "0.53125"]
    assert report["runs"][0]["step_s"] == ["0.015625", "0.25"]


@pytest.mark.parametrize("value", [61.2, np.float64(61.2), "61.2 ", "np.float64(61.2)"], ids=repr)
def test_the_given_writer_takes_a_claim_as_it_is_computed(
    value: Any, writer: ModuleType, tmp_path: Path
) -> None:
    claims = [{"what": "accuracy_pct", "config": CONFIGS["amp"][0], "value": value, "unit": "percent"}]
    path = tmp_path / "report.json"
    report = written(writer, "amp", path, claims=claims)
    assert perf_report.problems(path.read_bytes()) == []
    assert report["claims"][-1] == {**claims[0], "value": "61.2", "unit": "%"}


def test_the_given_writer_leaves_out_what_is_no_number(writer: ModuleType, tmp_path: Path) -> None:
    astray = {"loss_last": float("nan"), "loss_first": 2.3, "extra": {"val_loss": float("inf"), "load": 0.5}}
    path = tmp_path / "report.json"
    runs = [{**run, **astray} for run in readings(CONFIGS["amp"][0], 0.5)]
    writer.write_report(str(path), "amp", __file__, runs, WORKLOAD, "an epoch")
    assert perf_report.problems(path.read_bytes()) == []
    run = json.loads(path.read_text())["runs"][0]
    assert ("loss_last" in run, run["loss_first"], run["extra"]["load"]) == (False, 2.3, 0.5)
    assert "val_loss" not in run["extra"]


@pytest.mark.parametrize(
    ("kind", "config", "started", "machines"),
    [
        ("ddp_scaling", {"world_size": 4, "batch_per_rank": 8}, ("4", "2"), 2),
        ("ddp_scaling", {"world_size": 4, "batch_per_rank": 8, "nnodes": 4}, ("4", "2"), 4),
        ("ddp_scaling", {"world_size": 3, "batch_per_rank": 8}, ("3", "2"), 2),
        ("ddp_scaling", {"world_size": 2, "batch_per_rank": 8}, ("2", "2"), None),
        ("ddp_scaling", {"world_size": 1, "batch_per_rank": 8}, ("4", "2"), None),
        ("ddp_scaling", {"world_size": 1, "batch_per_rank": 8}, ("", ""), None),
        ("lightning", {**CONFIGS["lightning"][0], "devices": 2}, ("4", "2"), 2),
        ("lightning", {**CONFIGS["lightning"][0], "devices": 2, "num_nodes": 2}, ("4", "2"), None),
        ("lightning", {**CONFIGS["lightning"][0], "devices": 2}, ("", ""), None),
        ("amp", CONFIGS["amp"][0], ("4", "2"), None),
    ],
)
def test_the_given_writer_names_the_machines_of_a_training_on_several(
    kind: str,
    config: dict[str, Any],
    started: tuple[str, str],
    machines: int | None,
    writer: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, one = tmp_path / "report.json", CONFIGS[kind][0]
    writer.write_report(str(path), kind, __file__, readings(one, 0.5), WORKLOAD, "an epoch")
    for name, value in zip(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), started, strict=True):
        monkeypatch.setenv(name, value)
    writer.write_report(str(path), kind, __file__, readings(config, 0.25), WORKLOAD, "an epoch")
    assert perf_report.problems(path.read_bytes()) == []
    report = json.loads(path.read_text())
    assert report["runs"][-1]["config"].get("nnodes") == machines
    if kind == "ddp_scaling" and config["world_size"] > 1:
        (speedup,) = [claim for claim in report["claims"] if claim["what"] == "speedup"]
        assert float(speedup["value"]) == pytest.approx((0.5 + 1 / 64) / (0.25 + 1 / 64), rel=1e-4)


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


@pytest.mark.parametrize(
    ("earlier", "now", "together"),
    [(("a", "a"), ("a",), ["a", "a"]), (("a",), ("a", "a"), ["a", "a"]), (("a",), (), ["a"]), (("a",), ("b",), ["b", "a"])],
)  # fmt: skip
def test_a_report_names_the_gpus_of_every_call(
    earlier: tuple[str, ...], now: tuple[str, ...], together: list[str],
    writer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A batch system gives each job GPUs of its own; two processes may be measured before one."""
    path, configs = tmp_path / "ddp.json", CONFIGS["ddp_scaling"]
    monkeypatch.setattr(writer.platform, "node", lambda: "annas-laptop")
    for config, names in ((configs[1], earlier), (configs[0], now)):
        devices = [SimpleNamespace(name=name, total_memory=16 << 30, uuid=f"GPU-{name}") for name in names]
        monkeypatch.setattr(writer.torch.cuda, "device_count", lambda devices=devices: len(devices))
        monkeypatch.setattr(writer.torch.cuda, "get_device_properties", lambda i, devices=devices: devices[i])
        writer.write_report(str(path), "ddp_scaling", __file__, readings(config, 0.5), WORKLOAD, "an epoch")
    assert perf_report.problems(path.read_bytes()) == []
    report = json.loads(path.read_text())
    assert [gpu["name"] for gpu in report["env"]["gpus"]] == together
    uuids = {run["config"]["world_size"]: run["extra"].get("gpu_uuids", []) for run in report["runs"]}
    aliases = {name: sha256(f"GPU-{name}".encode()).hexdigest()[:12] for name in (*earlier, *now)}
    assert uuids == {2: [aliases[name] for name in earlier], 1: [aliases[name] for name in now]}
    assert "annas-laptop" not in path.read_text()


@pytest.mark.parametrize(
    ("said", "cuda", "written_down"),
    [
        ("gloo", True, "gloo"),
        ("undefined", True, "nccl"),
        ("undefined", False, "gloo"),
        ("cpu:gloo,cuda:nccl", True, "nccl"),
        ("cpu:gloo,cuda:nccl", False, "gloo"),
        ("xccl", False, None),
    ],
)
def test_the_writer_names_the_backend_that_was_used(
    said: str, cuda: bool, written_down: str | None,
    writer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """`init_process_group()` without a backend takes one for each device; `get_backend()` then says "undefined"."""
    monkeypatch.setattr(writer.torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(writer.torch.cuda, "device_count", lambda: 0)
    path, config = tmp_path / "ddp.json", {**CONFIGS["ddp_scaling"][0], "backend": said}
    claim = {"what": "accuracy_pct", "config": config, "value": "61.2", "unit": "%"}
    writer.write_report(
        str(path), "ddp_scaling", __file__, readings(config, 0.5), WORKLOAD, "an epoch", claims=[claim]
    )
    assert perf_report.problems(path.read_bytes()) == []
    report = json.loads(path.read_text())
    named = {each["config"].get("backend") for each in (*report["runs"], *report["claims"])}
    assert named == {written_down}


def test_the_writer_names_a_system_whose_driver_is_that_of_windows(
    writer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.platform, "system", lambda: "Linux")
    monkeypatch.setattr(writer.platform, "release", lambda: "5.15.167.4-microsoft-standard-WSL2")
    assert written(writer, "amp", tmp_path / "report.json")["env"]["os"] == "Linux (WSL)"


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


def runs_misspelt(report: dict[str, Any]) -> None:
    report["Rums"] = report.pop("runs")


def claims_about_nothing_known(report: dict[str, Any]) -> None:
    report["claims"] = [{"what": "params"}]


def a_claim_about_a_number(report: dict[str, Any]) -> None:
    report["claims"][0]["what"] = 3


def a_claim_about_no_configuration(report: dict[str, Any]) -> None:
    del report["claims"][0]["config"]


def declared_twice(report: dict[str, Any]) -> None:
    report["declared"] = ["pretrained", "pretrained"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (no_kind, ['`report` is "inference"', "dp_inference"]),
        (no_env, ['The report lacks "env".']),
        (numbers_for_text, ["`runs[0].wall_s` is a number, expected text", "5 more places"]),
        (decimal_comma, ['`runs[2].wall_s` is "0,25"']),
        (another_kinds_config, ['`runs[1].config` lacks "n_devices"', '"world_size", which this kind of report does not know']),
        (speedup_over_nothing, ['lacks "base"']),
        (no_runs, ["`runs` is empty"]),
        (zero_samples, ["`runs[0].samples` is 0, expected at least 1"]),
        (half_a_step, ["`runs[0].steps` is a number, expected a whole number"]),
        (odd_hash, ['`attempt.code_sha256` is "abc']),
        (declared_twice, ["`declared` holds an entry twice"]),
        (runs_misspelt, ['The report lacks "runs". Is "Rums" meant to be that?']),
        (claims_about_nothing_known, ["`claims` holds nothing that can be verified, which is mean_s, std_s"]),
        (a_claim_about_a_number, ["`claims[0].what` is a whole number, expected text"]),
        (a_claim_about_no_configuration, ['`claims[0]` lacks "config".']),
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


OTHER_CLAIM = {"what": "params", "value": 1e300, "from": [None]}


@pytest.mark.parametrize(
    ("parts", "claims", "told"),
    [
        ({}, [], []),
        ({"notes": "a quiet evening"}, [], ["`notes` is not looked at."]),
        ({"a": 1e300, "b": [[]] * 2000, "c\x1b[31m": 0, "d": 0, "e": 0}, [],
         ["`a`, `b`, `c` and 2 more are not looked at."]),
        ({"not_avaliable": [], "PLOTS": {}}, [],
         ["`not_avaliable` and `PLOTS` are not looked at. Did you mean `not_available` and `plot`?"]),
        ({"workload": {"transform": "ToTensor", "epochs": 3}}, [],
         ["`workload.transform` and `workload.epochs` are not looked at."]),
        ({"runs": {"accuracy": 0.61, "val_loss": 1e300, "steps_s": ["0.1"]}}, [],
         ["`accuracy`, `val_loss` and `steps_s` of its runs are not looked at. Did you mean `step_s`?"]),
        ({"runs": {"epochs": 1, "epoch": 0}}, [], ["`epoch` of its runs is not looked at."]),
        ({"config": {"device": "mps", "precison": [1, {}]}}, [],
         ["Of `device` and `precison` in config only whether runs differ in it is looked at. Did you mean `precision`?"]),
        ({"config": {"compiled": True, "channels_last": True}, "method": {"clock": "other", "sync": "other"}}, [], []),
        ({}, [OTHER_CLAIM, OTHER_CLAIM], ["Its claim about `params` is not verified. What can be: mean_s, std_s, median_s"]),
        ({"x": 0}, [{"what": "throughput"}, OTHER_CLAIM],
         ["`x` is", "Its claims about `throughput` and `params` are not verified. Did you mean `throughput_ips`?"]),
    ],
)  # fmt: skip
def test_what_the_format_does_not_know_is_taken_told_and_not_looked_at(
    parts: dict[str, Any], claims: list[dict[str, Any]], told: list[str], report: dict[str, Any]
) -> None:
    plain = document(report)
    more = {**report, **parts, "claims": [*claims, *report["claims"]]}
    more["workload"] = {**report["workload"], **parts.get("workload", {})}
    settings = parts.get("config", {})
    more["runs"] = [
        {**run, **parts.get("runs", {}), "config": {**run["config"], **settings}} for run in report["runs"]
    ]
    more.pop("config", None)
    assert perf_report.problems(json.dumps(more)) == []
    read = document(more)
    assert [claim.index for claim in read.claims] == [claim.index + len(claims) for claim in plain.claims]
    assert [claim.value for claim in read.claims] == [claim.value for claim in plain.claims]
    assert len(read.not_looked_at) == len(told)
    for sentence, words in zip(read.not_looked_at, told, strict=True):
        assert sentence.startswith(words)
        assert sentence.isprintable()
        assert len(sentence) < 400


def test_the_given_writer_names_all_parts_and_claims(writer: ModuleType) -> None:
    schema = json.loads(SCHEMA.read_text())
    said = " ".join(writer.write_report.__doc__.split())
    claims, parts = said.partition("A claim can be about ")[2].split("; further parts are ")
    assert re.findall(r"\w+", claims.replace(" or ", ", ")) == schema["$defs"]["what"]["enum"]
    by_name = {"schema", "student", "attempt", "env"} | set(inspect.signature(writer.write_report).parameters)
    by_name |= {"report", "plot"}
    known = [name for name in schema["properties"] if name not in by_name]
    assert re.findall(r"\w+", parts.partition(".")[0].replace(" and ", ", ")) == known


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'{"schema": "perf-report/1",\n}', "line 2"),
        ('{"schema": 1}'.encode("utf-16"), "UTF-16"),
        ('{"schema": 1}'.encode("utf-16-le"), "UTF-16"),
        ('{"name": "M\u00fcller"}'.encode("latin-1"), "not UTF-8"),
        (b"{\0}", "UTF-16"),
        (b'{"schema": "' + b"x" * 80 + b'\0"}', "Invalid control character"),
        (b'{"mean": NaN}', "it holds NaN"),
        (b'{"mean": -Infinity}', "it holds -Infinity"),
        (b'{"mean": 1e999}', "not finite"),
        (b'{"mean": 1, "mean": 2}', 'it names "mean" twice'),
        (b'{"\\u202e\\u001b[31m": 1, "\\u202e\\u001b[31m": 2}', 'it names "\\u202e\\u001b[31m" twice'),
        (b'{"name": "\\ud800"}', "lone surrogate"),
        (b'{"##[error]": 1, "##[error]": 2}', 'it names "## [error]" twice'),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "nested too deeply"),
        (b"[" * 40 + b"]" * 40, "nested too deeply"),
        (b'{"n": ' + b"9" * 400 + b"}", "more than 64 bits"),
        (b'{"n": ' + b"9" * 5000 + b"}", "more than 64 bits"),
        (b'{"n": 0.' + b"9" * 900_000 + b"}", "lacks"),
        (b"[1]", "holds a list"),
        (b" " * (2 << 20), "larger than 1 MiB"),
    ],
)
def test_what_is_no_report_at_all_is_said_in_a_sentence_soon(data: bytes, words: str) -> None:
    with costs_at_most(20):
        told = perf_report.problems(data)
    assert words in told[0]
    assert all(sentence.isprintable() and len(sentence) < 400 for sentence in told)


def test_a_mark_before_the_text_is_skipped(report: dict[str, Any]) -> None:
    assert perf_report.problems(b"\xef\xbb\xbf" + json.dumps(report).encode()) == []


def folder(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def socket_file(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


def gigabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "There is no file"),
        (folder, "is a folder"),
        (pipe, "is not a regular file"),
        (socket_file, "cannot be read"),
        (loop, "cannot be read"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
        (gigabyte, "larger than 1 MiB"),
    ],
)
def test_a_file_that_is_none_gets_a_sentence_soon(
    make: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.json"
    make(path)
    with costs_at_most(20):
        told = perf_report.read_file(path)
    tracemalloc.start()
    assert perf_report.read_file(path) == told
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert isinstance(told, str)
    assert words in told


def test_names_of_files_are_shown_harmlessly() -> None:
    for name in ("\x1b[31mred", "a\0b", "x" * 5000):
        told = perf_report.read_file(Path(name))
        assert isinstance(told, str)
        assert told.isprintable()
        assert len(told) < 400


def test_a_file_is_read(report: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(report))
    assert perf_report.read_file(tmp_path / "r.json") == report


def put(*place: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """A change of one value deep inside a report."""

    def change(report: dict[str, Any]) -> None:
        inner: Any = report
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("attempt", "created_utc", value="2026-13-45T00:00:00Z"), "`attempt.created_utc` is"),
        (put("attempt", "created_utc", value="2026-11-20T25:00:00Z"), "no date of the calendar"),
        (put("attempt", "created_utc", value="2026-11-20T15:00:00+99:00"), "no date of the calendar"),
        (put("attempt", "created_utc", value="0000-01-01T00:00:00Z"), "no date of the calendar"),
        (put("runs", 0, "wall_s", value="1e999999999"), "expected 0 or a number"),
        (put("runs", 0, "wall_s", value="0e999999999"), "expected 0 or a number"),
        (put("runs", 0, "wall_s", value="1e-999999999"), "expected 0 or a number"),
        (put("runs", 0, "wall_s", value="1e16"), "expected 0 or a number"),
        (put("runs", 0, "wall_s", value="1.5\n"), "`runs[0].wall_s` is"),
        (put("runs", 0, "wall_s", value="9" * 400), "`runs[0].wall_s` has 400 characters"),
        (put("runs", 0, "step_s", value=["1.5", "1e400"]), "`runs[0].step_s[1]` is"),
        (put("claims", 0, "value", value="-1e99"), "`claims[0].value` is"),
        (put("claims", 0, "value", value="9" * 100_000), "`claims[0].value` has 100000 characters"),
        (put("discarded", value=[{"config": {}, "reason": "x", "wall_s": "1e99"}]), "`discarded[0].wall_s`"),
        (
            put("runs", 1, "t_start", value=1.79e12),
            "`runs[1].t_start` is 1.79e+12, expected seconds since 1970",
        ),
        (put("runs", 1, "t_end", value=1e300), "`runs[1].t_end` is 1e+300"),
        (put("runs", 1, "samples", value=1e19), "`runs[1].samples` is a number, expected a whole number"),
        (
            put("runs", 1, "loss_last", value=1e300),
            "`runs[1].loss_last` is 1e+300, expected a number of at most",
        ),
        (put("env", "deep", value={"a": [1e300]}), "`env.deep.a[0]`"),
    ],
)
def test_what_no_rule_could_reckon_with_is_refused(
    change: Callable[[dict[str, Any]], None], words: str, report: dict[str, Any]
) -> None:
    change(report)
    (told,) = perf_report.problems(json.dumps(report))
    assert words in told
    assert told.isprintable()
    assert len(told) < 400


@pytest.mark.parametrize(
    "change",
    [
        put("attempt", "created_utc", value="2026-11-20T15:30:00.123456789-23:59"),
        put("attempt", "created_utc", value="0001-01-01T00:00:00+23:59"),
        put("attempt", "created_utc", value="9999-12-31T23:59:59-23:59"),
        put("runs", 0, "wall_s", value=str(Decimal.from_float(0.001))),
        put("runs", 0, "wall_s", value="8.5e-05"),
        put("runs", 0, "wall_s", value="0.000"),
        put("runs", 0, "wall_s", value="0E-17"),
        put("claims", 0, "value", value="-0.0"),
        put("runs", 0, "samples", value=64.0),
        put("runs", 0, "peak_alloc_bytes", value=2.0**62),
        put("runs", 0, "loss_first", value=-1e30),
    ],
)
def test_odd_but_possible_values_are_read(
    change: Callable[[dict[str, Any]], None], report: dict[str, Any]
) -> None:
    change(report)
    assert perf_report.problems(json.dumps(report)) == []
    touch(document(report))


def touch(value: object) -> None:
    """Read every property of a report and of its parts."""
    if isinstance(value, tuple):
        for item in value:
            touch(item)
    elif is_dataclass(value):
        for name in dir(value):
            if not name.startswith("_") and not callable(getattr(value, name)):
                touch(getattr(value, name))
    if isinstance(value, Group):
        for ddof in (0, 1):
            value.deviation(ddof)
    if isinstance(value, Number):
        value.agrees_with(1.0)
    if isinstance(value, Report):
        for claim in value.claims:
            value.selected(claim.config)
            value.setting(claim.config, "precision")


def test_whole_numbers_may_have_a_point_but_not_where_it_means_something(report: dict[str, Any]) -> None:
    report["runs"][0]["config"]["n_devices"] = 1.0
    assert len(document(report).groups) == 2
    report["runs"][0]["extra"] = {"limit_train_batches": 1.0}
    assert isinstance(document(report).runs[0].extra["limit_train_batches"], float)


def test_settings_left_out_are_those_by_default(report: dict[str, Any]) -> None:
    report["runs"][0]["config"] = {**report["runs"][0]["config"], "precision": "fp32"}
    one, two = document(report).groups
    assert (len(one.runs), len(two.runs)) == (3, 3)


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 1, -1, 2**63 - 1, 1e15, 1e30, 3.0, 1e-300, {}, [], "", "\0", "x" * 500, [[]], {"a": {}}]),
    st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,4})?", fullmatch=True),
    st.datetimes().map(lambda date: date.isoformat() + "Z"), st.text(max_size=8),
)  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
@settings(max_examples=150, deadline=None, database=None)
@given(data=st.data())
def test_a_report_without_problems_can_be_named(
    kind: str, full_reports: dict[str, dict[str, Any]], data: st.DataObject
) -> None:
    report = copy.deepcopy(full_reports[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        change_something(report, data)
    told = perf_report.problems(json.dumps(report))
    assert all(sentence.isprintable() and len(sentence) < 400 for sentence in told)
    if not told:
        touch(document(report))


@pytest.fixture(scope="module")
def full_reports(writer: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """A report of each kind with all of its optional parts."""
    reports = {kind: written(writer, kind, tmp_path_factory.mktemp(kind) / "report.json") for kind in CONFIGS}
    for report in reports.values():
        config = report["runs"][0]["config"]
        report["runs"][0] |= {
            "epochs": 1, "rank_samples": [64], "peak_alloc_bytes": 1, "peak_reserved_bytes": 2, "loss_first": 2.3,
            "loss_last": 2.0, "step_s": ["0.25", "0.25"], "note": "x", "extra": {"load": 1},
        }  # fmt: skip
        report |= {
            "discarded": [{"config": config, "reason": "x", "wall_s": "1.5", "rep": 3}],
            "not_available": [{"config": {"n_devices": 3}, "reason": "2 GPUs"}],
            "batch_search": [{"precision": "fp32", "batch_size": 8, "ok": True, "peak_alloc_bytes": 3}],
            "logs": [{"kind": "wandb", "path": "w", "tags": {"lr": "x"}, "config": {}, "rep": 0}],
            "plot": PLOT,
            "declared": ["pretrained"],
            "artifacts": [{"path": "x", "sha256": "0" * 64}],
            "answers": {"a": "b"},
        }
        assert perf_report.schema_problems(report) == []
    return reports


def change_something(report: dict[str, Any], data: st.DataObject) -> None:
    """Another value at one place, which the form may or may not allow."""
    inner: Any = report
    while True:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        key = data.draw(st.sampled_from(keys))
        if not inner[key] or not isinstance(inner[key], dict | list) or data.draw(st.integers(0, 9)) == 0:
            break
        inner = inner[key]
    inner[key] = data.draw(ODD)


RUN = {"config": {"batch_size": 8, "n_devices": 1}, "rep": 0, "t_start": 1.0, "t_end": 2.0, "wall_s": "0.5",
       "samples": 1, "steps": 1}  # fmt: skip
CLAIM = {"what": "speedup", "config": {"n_devices": 2}, "base": {"n_devices": 1}, "value": "1"}


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("runs", [RUN] * perf_report.MAX_ENTRIES),
        ("runs", [RUN] * 7000),
        ("runs", [{**RUN, "wall_s": 0}] * perf_report.MAX_ENTRIES),
        ("runs", [{**RUN, "step_s": ["0.012345678901234567"] * 33_000}]),
        ("runs", [[]] * 200_000),
        ("claims", [CLAIM] * perf_report.MAX_ENTRIES),
        ("claims", [CLAIM] * 9000),
        ("declared", ["pretrained", *([number] for number in range(1990))]),
        ("plot", {"x": [1e300] * 100_000, "y": [], "yerr": []}),
        ("answers", {f"a{number}": number for number in range(60_000)}),
        ("claims", [{"what": f"w{number}"} for number in range(perf_report.MAX_ENTRIES)]),
        ("another", {f"k{number}": 0 for number in range(60_000)}),
        ("env", {f"k{number}": 0 for number in range(60_000)}),
    ],
)
def test_the_most_that_a_file_can_hold_is_read_soon(
    section: str, value: object, report: dict[str, Any]
) -> None:
    report[section] = value
    data = json.dumps(report).encode()
    assert len(data) < 1 << 20
    with costs_at_most(100):
        told = perf_report.problems(data)
        if not told:
            assert document(report).groups


def test_a_report_full_of_faults_is_told_in_a_few_sentences(report: dict[str, Any]) -> None:
    report["runs"] = [{}] * 50_000
    report["declared"] = [{"n": number} for number in range(5_000)]
    report["report"] = "dp_inference"
    assert 1 <= len(perf_report.problems(json.dumps(report))) <= perf_report.MAX_PROBLEMS + 1


def test_null_says_no_more_than_nothing(writer: ModuleType, tmp_path: Path) -> None:
    report = written(writer, "dataloader", tmp_path / "report.json")
    report["runs"][0]["config"] = {
        **report["runs"][0]["config"],
        "prefetch_factor": None,
        "pin_memory": False,
    }
    assert perf_report.schema_problems(report) == []
    assert len(document(report).groups) == 2


def test_the_settings_that_a_kind_refuses_are_those_of_all_others() -> None:
    kinds = [schema()["$defs"][f"config_{kind}"] for kind in CONFIGS]
    every = {name for kind in kinds for name in kind["properties"]}
    for kind in kinds:
        assert set(kind["propertyNames"]["not"]["enum"]) == every - kind["properties"].keys()
