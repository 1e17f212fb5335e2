"""Rules on the devices that the runs used: those that are there, and what they and Lightning do with a precision."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockstep.reports.counts import GROWN, gpus_needed, machine_count, number
from lockstep.reports.devices import AMPERE, Device
from lockstep.reports.document import Report
from lockstep.reports.finding import Finding, advice, few, inconsistent, unusual
from lockstep.reports.rule import Facts, Rule
from lockstep.text import safe_line

CAPABILITY = re.compile(r"[0-9]{1,2}(\.[0-9]{1,2})?")


def _hardware(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_devices_used(report))
    yield from _clock_of_a_gpu(report)
    yield from few(_precisions(report, facts))
    yield from _other_capabilities(report, facts)


def _devices_used(report: Report) -> Iterator[Finding]:
    there = len(report.gpus)
    for group in report.groups:
        config = group.config
        used, nodes = gpus_needed(report, config), machine_count(config)
        if report.kind == "ddp_scaling" and nodes > number(config.get("world_size")):
            yield inconsistent(
                f"{group.name}: {nodes} machines, but fewer processes. nnodes counts the machines that this configuration "
                "used, each of which runs one process at least.",
                nodes=nodes,
                processes=number(config.get("world_size")),
            )
        if config.get("backend") == "nccl" and not there:
            yield inconsistent(
                f"{group.name}: the backend is nccl, which works on GPUs only, and env.gpus is empty. Was the "
                "environment noted on another machine (a login node)?",
                backend="nccl",
                gpus=0,
            )
        elif used is not None and used > max(there * nodes, 0):
            of_later = report.kind in GROWN and any(
                run.t_start > max(own.t_end for own in group.runs) for run in report.runs
            )
            yield (unusual if of_later else inconsistent)(
                f"{group.name} used {used} GPUs; env.gpus names {there}"
                + (f" on each of {nodes} machines." if nodes > 1 else ".")
                + (
                    " env is of the call that wrote the file last: did that have fewer GPUs?"
                    if of_later
                    else " devices are those of each machine, num_nodes the machines. Was the environment noted on another one?"
                    if report.kind == "lightning"
                    else " Was the environment noted on another machine, or do you mean processes on the CPU? Of several machines, "
                    "nnodes in config says how many."
                    if report.kind == "ddp_scaling"
                    else " Was the environment noted on another machine?"
                ),
                used=used,
                gpus=there,
                nodes=nodes,
            )
        ids = config.get("device_ids")
        listed = ids if isinstance(ids, list) else []
        highest = max((int(one) for one in listed if isinstance(one, int | float)), default=0)
        if highest >= max(there, 1):
            yield inconsistent(
                f"{group.name}: device_ids go up to {highest}, and env.gpus names {there} GPUs, which count from 0.",
                gpus=there,
            )


def _clock_of_a_gpu(report: Report) -> Iterator[Finding]:
    if report.gpus:
        return
    if report.method.get("clock") == "cuda_event":
        yield inconsistent(
            "method.clock is cuda_event, which only a GPU can record, and env.gpus is empty. Was the environment noted on "
            "another machine (a login node), or the time read from time.perf_counter?",
            gpus=0,
        )
    elif report.method.get("sync") in ("cuda.synchronize", "cuda_event"):
        yield advice(
            "method.sync says that a GPU was waited for, and env.gpus is empty: on a CPU it is not_applicable.",
            gpus=0,
        )


def _precisions(report: Report, facts: Facts) -> Iterator[Finding]:
    stated = _capability(report)
    # What a name stands for is taken from a table, which may err; what the report says is its own.
    best = _published(report, facts) if stated is None else stated
    if best is None or best >= AMPERE:
        return
    contradicts = unusual if stated is None else inconsistent
    whose = "has" if stated is not None else "names cards of"
    for group in report.groups:
        precision = str(group.config.get("precision", group.config.get("precision_resolved", "")))
        if precision == "tf32":
            yield contradicts(
                f"{group.name}: TF32 needs compute capability 8.0 (Ampere), and env.gpus {whose} {best:g}. There it is plain "
                "fp32 whatever allow_tf32 says.",
                compute_capability=best,
            )
        elif precision.startswith("bf16"):
            yield advice(
                f"{group.name}: below compute capability 8.0 (here {best:g}) bfloat16 is emulated, and slow. fp16 with a "
                "GradScaler is what these GPUs are made for.",
                compute_capability=best,
            )


def _capability(report: Report) -> float | None:
    """The highest compute capability that the report names."""
    found = [
        float(gpu.compute_capability)
        for gpu in report.gpus
        if gpu.compute_capability is not None and CAPABILITY.fullmatch(gpu.compute_capability)
    ]
    return max(found, default=None) if len(found) == len(report.gpus) else None


def _cards(report: Report, facts: Facts) -> list[tuple[str, str | None, Device]]:
    """Name, compute capability as stated, and published figures of the GPUs that are known."""
    found = [(gpu.name, gpu.compute_capability, facts.devices.find(gpu.name)) for gpu in report.gpus]
    return [(name, stated, device) for name, stated, device in found if device is not None]


def _published(report: Report, facts: Facts) -> float | None:
    """The highest compute capability of the cards that the report names, where all of them are known."""
    known = [device.compute_capability for _, _, device in _cards(report, facts)]
    capabilities = [float(capability) for capability in known if capability is not None]
    return max(capabilities, default=None) if len(capabilities) == len(report.gpus) else None


def _other_capabilities(report: Report, facts: Facts) -> Iterator[Finding]:
    for name, stated, device in _cards(report, facts):
        published = device.compute_capability
        if stated is None or published is None or not CAPABILITY.fullmatch(stated):
            continue
        if int(float(stated)) != int(float(published)):
            yield unusual(
                f"env.gpus: {safe_line(name, 60)} with compute capability {stated}; {device.name} has {published}. Take both "
                "from the same GPU: torch.cuda.get_device_name() and get_device_capability(), with the same index.",
                stated=float(stated),
                published=float(published),
            )
            return


# C15: what Lightning does with a precision

_MIXED = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}


def _lightning_precision(report: Report, facts: Facts) -> Iterator[Finding]:
    if str(report.env.get("lightning", "2")).startswith("1."):
        # Lightning 1 kept the number it was given.
        return
    for group in report.groups:
        asked, got = (str(group.config.get(f"precision_{part}", "")) for part in ("requested", "resolved"))
        expected = _MIXED.get(asked, asked)
        if group.config.get("accelerator") == "cpu" and expected == "16-mixed":
            expected = "bf16-mixed"
        if _MIXED.get(got, got) != expected:
            yield advice(
                f"{group.name}: Trainer(precision={safe_line(asked, 20)!r}) becomes {safe_line(expected, 20)} there, and "
                f"precision_resolved says {safe_line(got, 20)}. Take it from trainer.precision after the Trainer was made.",
                expected=safe_line(expected, 20),
                resolved=safe_line(got, 20),
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="C14",
        demands="A configuration uses no more devices than there are, and nothing they do not have.",
        threshold="devices <= GPUs of a machine x machines; machines <= processes; TF32 from compute capability 8.0 on; "
        "nccl and CUDA events need GPUs; where no compute capability is stated, or one of another generation than the card's "
        "name stands for: unusual. Of trainings that were not the last to be measured: unusual, for env is of the last",
        why="NVIDIA, CUDA C++ Programming Guide, Compute Capabilities: TF32 and bfloat16 in hardware from 8.0 on.",
        honest="None known.",
        examine=_hardware,
    ),
    Rule(
        id="C15",
        demands="precision_resolved is what Lightning makes of the request.",
        threshold="exact; advice only",
        why="Seen with pytorch_lightning 2.6.6: 16, '16' and '16-mixed' become bf16-mixed on a CPU.",
        honest="Other versions of Lightning may resolve differently, so that it never costs anything.",
        examine=_lightning_precision,
        kinds=frozenset({"lightning"}),
    ),
)
