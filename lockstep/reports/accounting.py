"""Rules on what a run must add up to by itself: its clock, its samples and steps, the devices it used."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from lockstep.jsontext import Json
from lockstep.reports.document import Config, Group, Report, Run
from lockstep.reports.finding import Finding, advice, few, inconsistent
from lockstep.reports.resolution import resolution
from lockstep.reports.rule import Facts, Rule
from lockstep.text import safe_line

CLOCK_SLACK_S, CLOCK_SLACK = 0.05, 0.01
"""What the wall clock and the monotonic clock may differ by: a fixed part, and a part of the duration."""
STEPS_SLACK = 0.05
"""Steps may be read by another clock than the run: by CUDA events, for instance."""
FILE_SLACK_S = 1.0
"""created_utc may be given in whole seconds."""
FLOAT32_EPS = 2.0**-23
AMPERE = 8.0
"""Compute capability from which on a GPU has TF32 and bfloat16 in hardware."""


def _shown(seconds: float) -> str:
    return f"{seconds:.6g} s"


def _of_run(report: Report, run: Run) -> str:
    return f"runs[{run.index}] ({Group(run.config, (run,)).name}, rep {run.rep})"


# C06: clocks


def _clocks(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(longer_than_its_span(report))
    yield from few(_steps_longer_than_their_run(report))
    yield from few(_overlaps(report))
    last = max(report.runs, key=lambda run: run.t_end)
    if last.t_end > report.created + FILE_SLACK_S:
        late = last.t_end - report.created
        yield inconsistent(
            f"{_of_run(report, last)} ended {_shown(late)} after created_utc, when the file that reports it was written. "
            "Usual causes: created_utc is local time with a Z behind it, or an old file was filled with new runs. The "
            "writer notes the time in UTC when it writes.",
            t_end=last.t_end,
            created=report.created,
        )
    if facts.deadline is not None and last.t_end > facts.deadline + FILE_SLACK_S:
        yield inconsistent(
            f"{_of_run(report, last)} ended {_shown(last.t_end - facts.deadline)} after the deadline. Was the clock of "
            "that machine right?",
            t_end=last.t_end,
            deadline=facts.deadline,
        )


def longer_than_its_span(report: Report) -> Iterator[Finding]:
    """Each run that is said to have taken longer than the time between its start and its end."""
    for run in report.runs:
        span = run.t_end - run.t_start
        if span > 0 and not run.seconds <= span + CLOCK_SLACK_S + CLOCK_SLACK * span:
            yield inconsistent(
                f"{_of_run(report, run)}: wall_s is {_shown(run.seconds)}, but from t_start to t_end there are only "
                f"{_shown(span)}. If the system clock was set during the run, measure it again; otherwise take "
                "time.time() just before and just after the timed region.",
                wall_s=run.seconds,
                span_s=span,
            )


def _steps_longer_than_their_run(report: Report) -> Iterator[Finding]:
    """Each run whose single steps are more, or together took longer, than the run itself.

    Fewer are fine: some were read, or the run has pauses. Processes and loader workers may each have told theirs.
    """
    warmup = _count(report.method.get("warmup_steps", 0))
    for run in report.runs:
        if not run.step_seconds:
            continue
        told, side_by_side = len(run.step_seconds), _side_by_side(report, run)
        if told > (run.steps + warmup) * side_by_side:
            yield inconsistent(
                f"{_of_run(report, run)}: step_s has {told} entries, and the run {run.steps} steps. step_s holds the "
                "seconds of the single steps of this run: was the list not emptied between two runs?",
                told=told,
                steps=run.steps,
            )
            continue
        together = sum(step.value for step in run.step_seconds)
        slack = STEPS_SLACK * run.seconds + told * resolution(run.step_seconds)
        if told <= run.steps * side_by_side and together > (run.seconds + slack) * side_by_side:
            yield inconsistent(
                f"{_of_run(report, run)}: the entries of step_s add up to {_shown(together)}, and wall_s is "
                f"{_shown(run.seconds)}. wall_s is the sum of the steps, or more where something else was timed as well: "
                "are both in seconds, and of the same run?",
                steps_s=together,
                wall_s=run.seconds,
            )


def _side_by_side(report: Report, run: Run) -> int:
    """How many may have done steps of a run at the same time, each with seconds of its own."""
    if report.kind == "dataloader":
        return 1 + _count(run.config.get("num_workers", 0))
    return max(_processes(report, run), len(report.gpus))


def _overlaps(report: Report) -> Iterator[Finding]:
    ordered = sorted((run for run in report.runs if run.t_end > run.t_start), key=lambda run: run.t_start)
    latest: Run | None = None
    for run in ordered:
        if (
            latest is not None
            and latest.t_end - run.t_start > CLOCK_SLACK_S
            and _share_devices(report, latest, run)
        ):
            together = min(latest.t_end, run.t_end) - run.t_start
            if together > CLOCK_SLACK_S:
                yield inconsistent(
                    f"{_of_run(report, latest)} and {_of_run(report, run)} ran at the same time for {_shown(together)}, on "
                    "the same machine: one of them had to wait for the other. Were two scripts started at once? Measure "
                    "one after the other.",
                    overlap_s=together,
                    runs=[latest.index, run.index],
                )
        if latest is None or run.t_end > latest.t_end:
            latest = run


def _share_devices(report: Report, a: Run, b: Run) -> bool:
    """Whether two runs must have met on a device: on GPUs they need not, where there are enough for both."""
    ids_a, ids_b = a.config.get("device_ids"), b.config.get("device_ids")
    if isinstance(ids_a, list) and isinstance(ids_b, list):
        return any(one in ids_b for one in ids_a)
    if not report.gpus or report.kind == "dataloader":
        return True
    used = [_devices(report, run.config) for run in (a, b)]
    nodes = max(_nodes(report, run.config) for run in (a, b))
    return sum(count or 1 for count in used) > len(report.gpus) * nodes


# C07: samples and steps


def _samples(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_samples_of_runs(report))


def _samples_of_runs(report: Report) -> Iterator[Finding]:
    for run in report.runs:
        per_step = _images_per_step(report, run)
        if per_step is None:
            continue
        least, most = _ragged(report, run, per_step), run.steps * per_step + per_step
        if not least <= run.samples <= most:
            yield inconsistent(
                f"{_of_run(report, run)}: {run.steps} steps of {per_step} images make {max(least, 1)} to {most} images "
                f"(steps x batch x processes; the last batch of an epoch may be short), but samples is {run.samples}. "
                "steps counts the batches of one process, samples the images of all of them; a batch size is the images "
                "of one forward pass.",
                samples=run.samples,
                steps=run.steps,
                images_per_step=per_step,
            )


def _ragged(report: Report, run: Run, per_step: int) -> int:
    """The fewest images in the steps of a run, where the last batch of every epoch may hold a single one."""
    if "iterable_dataset" in report.declared:
        # Every loader worker has an end of its own, and a short batch there.
        return run.steps
    epochs = run.epochs
    if epochs is None:
        items = report.workload.get("dataset_n")
        epochs = math.ceil(run.steps * per_step / int(items)) + 1 if isinstance(items, int | float) else 1
    return (run.steps - epochs) * per_step


# C08: steps of an epoch, and shares of the processes


def _epochs(report: Report, facts: Facts) -> Iterator[Finding]:
    if "iterable_dataset" in report.declared:
        return
    yield from few(_steps_per_epoch(report))
    yield from few(_shares(report))


def _steps_per_epoch(report: Report) -> Iterator[Finding]:
    items = report.workload.get("dataset_n")
    if not isinstance(items, int | float):
        return
    for run in report.runs:
        per_step = _images_per_step(report, run)
        if run.epochs is None or per_step is None:
            continue
        part = _part_of_an_epoch(run.config)
        least, most = math.floor(items / per_step * part), math.ceil(items / per_step * part) + 1
        per_epoch = run.steps / run.epochs
        if least <= per_epoch <= most:
            continue
        processes = _processes(report, run)
        alone = math.ceil(items * processes / per_step)
        message = (
            f"{_of_run(report, run)}: {per_epoch:g} steps an epoch, expected {least} to {most}: {items:g} images in steps "
            f"of {per_step}."
        )
        if processes > 1 and abs(per_epoch - alone) <= 1:
            message += (
                f" {alone} is what one process alone needs: every process seems to have gone through the whole data set. "
                "Usual causes: no DistributedSampler in the loader, or steps added up over the processes."
            )
        else:
            message += (
                " If the run was cut off, or saw a part of the data set only, leave epochs out, or set dataset_n to the "
                "images it went through."
            )
        yield inconsistent(message, steps=run.steps, epochs=run.epochs, least=least, most=most)


def _part_of_an_epoch(config: Config) -> float:
    """Lightning's limit_train_batches as a part of the data set; a number of batches is taken as it comes."""
    limit = config.get("limit_train_batches")
    return float(limit) if isinstance(limit, int | float) and 0 < limit < 1 else 1.0


def _shares(report: Report) -> Iterator[Finding]:
    for run in report.runs:
        if not run.rank_samples:
            continue
        processes = _processes(report, run)
        if report.kind == "ddp_scaling" and len(run.rank_samples) != processes:
            yield inconsistent(
                f"{_of_run(report, run)}: rank_samples has {len(run.rank_samples)} entries for {processes} processes.",
                rank_samples=len(run.rank_samples),
                processes=processes,
            )
            continue
        per_step = _images_per_step(report, run)
        epochs = run.epochs or 1
        padding = (per_step or 1) * epochs
        batch = max(1, padding // max(1, processes))
        spread = max(run.rank_samples) - min(run.rank_samples)
        if spread > batch:
            yield inconsistent(
                f"{_of_run(report, run)}: the processes got {min(run.rank_samples)} to {max(run.rank_samples)} images. A "
                f"DistributedSampler gives all the same number, give or take a batch an epoch ({batch}). With another way "
                "of sharing out, declare iterable_dataset.",
                spread=spread,
                allowed=batch,
            )
        elif abs(sum(run.rank_samples) - run.samples) > padding:
            yield inconsistent(
                f"{_of_run(report, run)}: rank_samples add up to {sum(run.rank_samples)}, samples is {run.samples}. samples "
                "counts the images of all processes together.",
                rank_samples=sum(run.rank_samples),
                samples=run.samples,
            )


# C10: ranges


def _ranges(report: Report, facts: Facts) -> Iterator[Finding]:
    accuracies: dict[str, list[tuple[Config, float]]] = {"accuracy_pct": [], "acc5_pct": []}
    for claim in report.claims:
        if claim.what not in accuracies or claim.value is None:
            continue
        whole = 1.0 if claim.unit == "1" else 100.0
        if not -whole * FLOAT32_EPS <= claim.value.value <= whole * (1 + FLOAT32_EPS):
            yield inconsistent(
                f"{claim.name}: an accuracy lies between 0 and {whole:g}. Was it told in percent while unit says otherwise?",
                value=claim.value.value,
                most=whole,
            )
        accuracies[claim.what].append((claim.config, claim.value.value / whole))
    for config, first in accuracies["accuracy_pct"]:
        for other, five in accuracies["acc5_pct"]:
            if config == other and not first <= five + 4 * FLOAT32_EPS:
                yield inconsistent(
                    f"accuracy_pct is {100 * first:g} %, acc5_pct {100 * five:g} % for the same configuration: who is right "
                    "with the first answer is right with the first five. Were the two mixed up?",
                    accuracy=first,
                    acc5=five,
                )


# C14: devices


def _hardware(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_devices_used(report))
    yield from _clock_of_a_gpu(report)
    yield from few(_precisions(report))


def _devices_used(report: Report) -> Iterator[Finding]:
    there = len(report.gpus)
    for group in report.groups:
        config = group.config
        used, nodes = _devices(report, config), _nodes(report, config)
        if report.kind == "ddp_scaling" and nodes > _count(config.get("world_size")):
            yield inconsistent(
                f"{group.name}: {nodes} machines, but fewer processes. nnodes counts the machines that this configuration "
                "used, each of which runs one process at least.",
                nodes=nodes,
                processes=_count(config.get("world_size")),
            )
        if config.get("backend") == "nccl" and not there:
            yield inconsistent(
                f"{group.name}: the backend is nccl, which works on GPUs only, and env.gpus is empty. Was the "
                "environment noted on another machine (a login node)?",
                backend="nccl",
                gpus=0,
            )
        elif used is not None and used > max(there * nodes, 0):
            yield inconsistent(
                f"{group.name} used {used} GPUs; env.gpus names {there}"
                + (f" on each of {nodes} machines." if nodes > 1 else ".")
                + " Was the environment noted on another machine, or do you mean processes on the CPU?",
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


def _precisions(report: Report) -> Iterator[Finding]:
    best = _capability(report)
    if best is None or best >= AMPERE:
        return
    for group in report.groups:
        precision = str(group.config.get("precision", group.config.get("precision_resolved", "")))
        if precision == "tf32":
            yield inconsistent(
                f"{group.name}: TF32 needs compute capability 8.0 (Ampere), and env.gpus has {best:g}. There it is plain "
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
        if gpu.compute_capability is not None and re.fullmatch(r"\d{1,2}(\.\d{1,2})?", gpu.compute_capability)
    ]
    return max(found, default=None) if len(found) == len(report.gpus) else None


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


# What a configuration comes to


def _processes(report: Report, run: Run) -> int:
    if report.kind == "ddp_scaling":
        return _count(run.config.get("world_size"))
    if report.kind == "lightning":
        return _count(run.config.get("devices", 1))
    # Nothing in the configuration says that a training with AMP was distributed; its runs do.
    return max(1, len(run.rank_samples)) if report.kind == "amp" else 1


def _images_per_step(report: Report, run: Run) -> int | None:
    """Images that all processes together see in one step."""
    batch = run.config.get("batch_per_rank" if report.kind == "ddp_scaling" else "batch_size")
    return _count(batch) * _processes(report, run) if isinstance(batch, int | float) else None


def _devices(report: Report, config: Config) -> int | None:
    """GPUs that a configuration needs; None where it runs on the CPU, or need not have a GPU for itself."""
    if report.kind == "dp_inference":
        count = _count(config.get("n_devices"))
        return count if report.gpus or count > 1 else None
    if report.kind == "ddp_scaling":
        return _count(config.get("world_size")) if config.get("backend") == "nccl" else None
    if report.kind == "lightning":
        on_gpu = config.get("accelerator") in ("cuda", "gpu")
        return _count(config.get("devices", 1)) if on_gpu else None
    return None


def _nodes(report: Report, config: Config) -> int:
    return _count(config.get("nnodes", 1))


def _count(value: Json) -> int:
    return int(value) if isinstance(value, int | float) else 1


RULES: tuple[Rule, ...] = (
    Rule(
        id="C06",
        demands="A run takes no longer than the time between its start and its end, and its single steps together no "
        "longer than the run; runs on the same devices follow one another, and all of them come before the file that "
        "reports them.",
        threshold=f"wall_s <= (t_end - t_start) + {CLOCK_SLACK_S} s + {CLOCK_SLACK:.0%}; no more entries in step_s than "
        f"steps, warm-up included, with a sum <= wall_s + {STEPS_SLACK:.0%} + a tick each, both times the processes, GPUs "
        f"or loader workers; overlaps up to {CLOCK_SLACK_S} s; "
        f"created_utc and the deadline with {FILE_SLACK_S:g} s",
        why="wall_s comes from a monotonic clock, t_start and t_end from the system clock, which time servers correct.",
        honest="Only when the system clock is set during a run: rare, and the message asks for the run again.",
        examine=_clocks,
    ),
    Rule(
        id="C07",
        demands="The images of a run fit its steps and its batch size.",
        threshold="(steps - epochs) x B <= samples <= steps x B + B, where B is the batch size times the processes",
        why="The last batch of an epoch may be short, and a sampler may pad it.",
        honest="None known; drop_last on or off both fit.",
        examine=_samples,
    ),
    Rule(
        id="C08",
        demands="An epoch has as many steps as the data set fills, and the processes get equal shares.",
        threshold="floor(n/B) to ceil(n/B) + 1 steps an epoch; shares within one batch an epoch",
        why="torch.utils.data.DistributedSampler pads or cuts all shares to one length. As many steps as on one process "
        "is how a training without a sampler shows.",
        honest="None known for map-style data sets; iterable ones are declared.",
        examine=_epochs,
        kinds=frozenset({"dataloader", "ddp_scaling", "amp", "lightning"}),
    ),
    Rule(
        id="C10",
        demands="0 <= accuracy <= top-5 accuracy <= 100 %.",
        threshold="a few units in the last place of a float32",
        why="The logs that accuracies are read from hold float32.",
        honest="None known.",
        examine=_ranges,
    ),
    Rule(
        id="C14",
        demands="A configuration uses no more devices than there are, and nothing they do not have.",
        threshold="devices <= GPUs of a machine x machines; machines <= processes; TF32 from compute capability 8.0 on; "
        "nccl and CUDA events need GPUs",
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
