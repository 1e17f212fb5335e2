"""Where a report comes from and how much was measured: what is missing is told, what a machine lacks is accepted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lockstep.reports.document import document
from lockstep.reports.finding import Finding, Judgement
from lockstep.reports.folder import Handed
from lockstep.reports.format import schema_problems
from lockstep.reports.provenance import RULES, wrong_form
from lockstep.reports.rule import Facts
from lockstep.reports.verify import verify
from tests.small_reports import CODE, COSTS, NONCE, Raw, found, loader, runs_of, small, told

FIVE, THREE, TWO = ("1.0", "1.1", "1.2", "1.3", "1.4"), ("1.0", "1.1", "1.2"), ("1.0", "1.1")
GPU = {"name": "Tesla T4", "memory_total_mib": 15_109}
PICTURE = b"P6\r\n1 1\r\n"


def changed(report: Raw, place: str, value: object) -> Raw:
    """A report with another value at one place, such as "runs.0.wall_s"."""
    *way, last = place.split(".")
    inner: Any = report
    for part in way:
        inner = inner[int(part) if part.isdecimal() else part]
    inner[int(last) if last.isdecimal() else last] = value
    return report


def whole() -> Raw:
    return loader(FIVE, FIVE, FIVE)


def within_a_tick() -> Raw:
    """The first run of a report began and ended at one reading of time.time()."""
    report = whole()
    first = report["runs"][0]
    return changed(changed(report, "runs.0.wall_s", "0.0151234"), "runs.0.t_end", first["t_start"])


def inference(batches: Mapping[int, Sequence[int]], gpus: int = 2, **sections: Any) -> Raw:
    """Batch sizes by number of devices."""
    timed = [
        run
        for devices, sizes in batches.items()
        for batch in sizes
        for run in runs_of({"n_devices": devices, "batch_size": batch}, FIVE, batch * 8)
    ]
    report = small("dp_inference", timed, [{"what": "best_config", "config": {}}], **sections)
    report["env"]["gpus"] = [GPU] * gpus
    return report


def ddp(*sizes: int, **sections: Any) -> Raw:
    timed = [run for n in sizes for run in runs_of({"world_size": n, "batch_per_rank": 8}, FIVE, 64 * n)]
    return small("ddp_scaling", timed, [{"what": "best_config", "config": {}}], **sections)


def amp(*precisions: str, **sections: Any) -> Raw:
    timed = [run for p in precisions for run in runs_of({"precision": p, "batch_size": 8}, FIVE)]
    return small("amp", timed, [{"what": "best_config", "config": {}}], **sections)


def lightning(*precisions: str, **sections: Any) -> Raw:
    timed = [
        run
        for p in precisions
        for run in runs_of(
            {"precision_requested": p, "precision_resolved": p, "batch_size": 8, "accelerator": "cpu"}, FIVE
        )
    ]
    return small("lightning", timed, [{"what": "best_config", "config": {}}], **sections)


def lacking(reason: str = "the time ran out", **config: Any) -> dict[str, Any]:
    return {"not_available": [{"config": config, "reason": reason}]}


def discarded(*workers: int) -> dict[str, Any]:
    dropped = [{"config": {"num_workers": n, "batch_size": 8}, "reason": "cold cache"} for n in workers]
    return {"discarded": dropped}


def naming(sha256: str, path: str = "loader.ppm") -> Raw:
    return loader(FIVE, FIVE, FIVE, artifacts=[{"path": path, "sha256": sha256}])


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


WRONG: list[tuple[str, str, Raw, str]] = [
    ("S02", "took no time", changed(whole(), "runs.3.wall_s", "0.0"), "runs[3] (num_workers 0, batch_size 8, rep 3)"),
    ("S02", "ends as it starts", changed(whole(), "runs.0.t_end", 1_790_000_000.0), "were they swapped"),
    ("S02", "a time in images", changed(loader(FIVE, FIVE, FIVE, claims=[
        {"what": "mean_s", "config": {"num_workers": 0}, "value": "1.2", "unit": "images"}]), "env.os", "x"), "expected s"),
    ("S03", "too few", loader(FIVE, FIVE[:4], FIVE), "4 runs, but 5 are asked for"),
    ("S03", "two discarded", loader(FIVE, FIVE[:3], FIVE, **discarded(1, 1)), "3 runs and 2 discarded"),
    ("S03", "discarded elsewhere", loader(FIVE, FIVE[:4], FIVE, **discarded(2)), "4 runs, but 5"),
    ("S03", "of nothing", loader(FIVE, FIVE[:4], FIVE, discarded=[{"config": {}, "reason": "x"}]), "4 runs, but 5"),
    ("S04", "two worker counts", loader(FIVE, FIVE), "3 numbers of workers (there are 2)"),
    ("S04", "one device", inference({1: (8, 16, 32)}), "two or more devices"),
    ("S04", "no single device", inference({2: (8, 16, 32)}), "one device, with which"),
    ("S04", "two batches", inference({1: (8, 16), 2: (8, 16)}), "3 batch sizes on 1 device (there are 2)"),
    ("S04", "unlike batches", inference({1: (8, 16, 32), 2: (16, 32, 64)}), "on every number of devices (there are 2)"),
    ("S04", "the excuse of another", inference({1: (8, 16, 32)}, **lacking(batch_size=64)), "two or more devices"),
    ("S04", "a dash for an excuse", ddp(1, not_available=[{"config": {"world_size": 2}, "reason": "-"}]), 'its reason is "-"'),
    ("S04", "one process", ddp(1), "two processes"),
    ("S04", "two processes only", ddp(2, 4), "one process"),
    ("S04", "fp32 only", amp("fp32"), "mixed precision"),
    ("S04", "AMP only", amp("bf16-amp"), "single precision"),
    ("S04", "true half precision is not mixed", amp("fp32", "fp16-true"), "mixed precision"),
    ("S04", "Lightning in fp32 only", lightning("32-true"), "mixed precision"),
    ("S05", "another attempt", changed(whole(), "attempt.nonce", "nonce-2"), "earlier attempt"),
    ("S05", "never set", changed(whole(), "attempt.nonce", "none"), "ATTEMPT_NONCE was not set"),
    ("S06", "another script", changed(whole(), "attempt.code_sha256", "b" * 64), "once more"),
    ("S06", "another picture", naming("c" * 64), "Write the report last"),
]  # fmt: skip


def facts(report: Raw) -> Facts:
    return Facts(
        nonce=NONCE,
        code_sha256=frozenset({CODE}),
        least_runs=5 if report["report"] == "dataloader" else 3,
        files=Handed({"loader.ppm": PICTURE}),
    )


@pytest.mark.parametrize(("rule", "report", "words"), [(r, raw, w) for r, _, raw, w in WRONG],
                         ids=[f"{r}: {name}" for r, name, _, _ in WRONG])  # fmt: skip
def test_what_is_missing_or_of_another_is_told(rule: str, report: Raw, words: str) -> None:
    costly = [each for each in found(report, RULES, facts(report)) if each.judgement in COSTS]
    assert {each.rule for each in costly} == {rule}, told(costly)
    assert words in told(costly), told(costly)


RIGHT: list[tuple[str, Raw]] = [
    ("five of each", whole()),
    ("four and a discarded one", loader(FIVE, FIVE[:4], FIVE, **discarded(1))),
    ("spaces around the nonce", changed(whole(), "attempt.nonce", f" {NONCE}\n")),
    ("the picture", naming(sha256(PICTURE))),
    ("1, 2 and 4 GPUs", inference({1: (8, 16, 32), 2: (8, 16, 32), 4: (8, 16, 32)}, gpus=4)),
    ("more batches on two GPUs", inference({1: (8, 16, 32), 2: (8, 16, 32, 64)})),
    ("1, 2 and 4 processes", ddp(1, 2, 4)),
    ("TF32 and AMP", amp("tf32", "bf16-amp")),
    ("Lightning's words", lightning("32-true", "bf16-mixed")),
    ("within one tick of Windows' clock", within_a_tick()),
    ("fractions and percentages", changed(whole(), "claims", [
        {"what": "speedup", "config": {"num_workers": 1}, "base": {"num_workers": 0}, "value": "100", "unit": "%"}])),
]  # fmt: skip


@pytest.mark.parametrize("report", [raw for _, raw in RIGHT], ids=[name for name, _ in RIGHT])
def test_a_complete_report_is_left_alone(report: Raw) -> None:
    assert found(report, RULES, facts(report)) == ()


@pytest.mark.parametrize(
    ("report", "judgement", "words"),
    [
        (inference({1: (8, 16, 32)}, gpus=1, **lacking("it has one GPU", n_devices=2)), Judgement.NOT_VERIFIED, "it has one GPU"),
        (inference({1: (8, 16, 32), 2: (16, 32, 64)}, **lacking(n_devices=1, batch_size=64)),
         Judgement.NOT_VERIFIED, "(there are 2)"),
        (ddp(1, **lacking(world_size=2)), Judgement.NOT_VERIFIED, "world_size 2 was not available"),
        (amp("fp32", **lacking(precision="fp16-amp")), Judgement.NOT_VERIFIED, "mixed precision"),
        (lightning("32-true", **lacking(precision_requested="16-mixed")), Judgement.NOT_VERIFIED, "mixed precision"),
        (lightning("32-true", **lacking(precision_requested="16")), Judgement.NOT_VERIFIED, "mixed precision"),
        (loader(FIVE, FIVE, **lacking(num_workers=2)), Judgement.NOT_VERIFIED, "numbers of workers"),
        (naming("c" * 64, "lost.png"), Judgement.NOT_VERIFIED, "lost.png, which is not there"),
        (naming("c" * 64, "../../etc/passwd"), Judgement.NOT_VERIFIED, "not there"),
        (naming(sha256(PICTURE.replace(b"\r\n", b"\n"))), Judgement.CONSISTENT, "line endings"),
        (changed(ddp(1, 2), "runs", ddp(1, 2)["runs"][:8]), Judgement.CONSISTENT, "1 of 2 configurations have 3 runs"),
        (changed(whole(), "env.torch", "unknown"), Judgement.CONSISTENT, "env.torch"),
        (changed(whole(), "env.driver", "560.1") | {"runs": [{**run, "extra": {"driver": "550.2"}}
         for run in whole()["runs"]]}, Judgement.CONSISTENT, "driver is not the same in all runs: 560.1, 550.2"),
        (changed(changed(ddp(1, 2), "env.torch", "2.15.0+cpu"), "env.gpus", [GPU]), Judgement.CONSISTENT, "knows no GPU"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_or_may_be_better_costs_nothing(
    report: Raw, judgement: Judgement, words: str
) -> None:
    (finding,) = found(report, RULES, facts(report))
    assert finding.judgement is judgement
    assert words in finding.message


def test_a_machine_that_names_two_gpus_and_used_one_is_for_a_person_to_read() -> None:
    report = inference({1: (8, 16, 32)}, gpus=2, **lacking(n_devices=2))
    assert [each.judgement for each in found(report, RULES)] == [Judgement.UNUSUAL, Judgement.NOT_VERIFIED]


@pytest.mark.parametrize(
    ("report", "how"),
    [
        (ddp(1, **lacking("there is only one GPU", world_size=2)), "two processes share the cores"),
        (amp("fp32", **lacking("no CUDA here", precision="fp16-amp")), "on a CPU it is bfloat16"),
        (
            lightning("32-true", **lacking("no gpu", precision_requested="16-mixed")),
            "on a CPU it is bfloat16",
        ),
    ],
)
def test_a_gpu_that_is_missing_where_none_is_needed_is_for_a_person_to_read(report: Raw, how: str) -> None:
    told, passed = found(report, RULES)
    assert (told.judgement, passed.judgement) == (Judgement.UNUSUAL, Judgement.NOT_VERIFIED)
    assert how in told.message


def test_a_gpu_that_is_missing_is_a_reason_where_the_runs_needed_one() -> None:
    report = changed(ddp(1, **lacking("there is only one GPU", world_size=2)), "env.gpus", [GPU])
    runs = [{**run, "config": {**run["config"], "backend": "nccl"}} for run in report["runs"]]
    assert [each.judgement for each in found({**report, "runs": runs}, RULES)] == [Judgement.NOT_VERIFIED]


def test_few_runs_are_enough_for_what_is_asked() -> None:
    (finding,) = found(loader(THREE, THREE, THREE), RULES, Facts(NONCE, frozenset({CODE}), least_runs=3))
    assert finding.judgement is Judgement.CONSISTENT
    assert "3 of 3 configurations have 3 runs, enough for what is asked. From 5 on" in finding.message


def test_what_nobody_said_is_not_verified() -> None:
    findings = verify(document(whole()), Facts(), RULES).findings
    assert [(each.rule, each.judgement) for each in findings] == [
        ("S05", Judgement.NOT_VERIFIED),
        ("S06", Judgement.NOT_VERIFIED),
    ]


def test_a_report_of_the_wrong_form_is_inconsistent() -> None:
    problems = schema_problems(changed(changed(whole(), "runs.0.wall_s", 1.5), "schema", "perf-report/2"))
    findings = wrong_form(problems)
    assert len(findings) == len(problems) == 2
    assert {(each.rule, each.judgement) for each in findings} == {("S01", Judgement.INCONSISTENT)}
    assert "perf_report.py" in findings[-1].message
    assert wrong_form([]) == ()


def test_what_a_report_says_of_itself_is_shown_harmlessly() -> None:
    report = changed(naming("c" * 64, "a\x1b[31m\n.png"), "attempt.nonce", "x\u202e\x1b[2J" * 50)
    report["env"] |= {"driver": "\x1b]0;title\x07"}
    report["runs"][0]["extra"] = {"driver": ["\x1b[31m"] * 100, "hostname": {"a": "\n"}}
    findings: Sequence[Finding] = found(report, RULES, facts(report))
    assert findings
    assert all(each.message.isprintable() and len(each.message) < 600 for each in findings), told(findings)
