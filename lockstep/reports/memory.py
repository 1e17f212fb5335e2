"""Rules on memory: what a training must keep at least, what a GPU can hold at most, and searches for the largest batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lockstep.reports.counts import devices_of_all, process_count
from lockstep.reports.document import Claim, Config, Group, Report, Trial
from lockstep.reports.finding import Finding, advice, few, impossible, inconsistent, not_verified, unusual
from lockstep.reports.hardware import (
    HALF,
    MIXED,
    TRAINING,
    batch,
    count,
    devices,
    gib,
    measured_model,
    on_gpu,
    precision,
)
from lockstep.reports.model import ModelFacts
from lockstep.reports.rule import Facts, Rule
from lockstep.text import safe_line

KEPT = 0.95
"""Part of the memory that a training must keep which a report has to show."""
MEMORY_SLACK = 0.01
LARGER_CARD = 1.05
STATES = {"sgd-momentum": 1, "adam": 2, "adamw": 2}
"""Copies of the weights that an optimizer keeps; at least none, for the others."""
AMP_PEAK = 0.45
AMP_BATCH = 2.2
LINEAR = 0.15
LEAST_POINTS = 3


@dataclass(frozen=True)
class _Case:
    """A batch that is said to have been trained: where the report says so, and the peak it names, if any."""

    name: str
    config: Config
    precision: str
    batch: int
    peak: int | None
    states: int


# P02: what a training must keep


def _kept(report: Report, facts: Facts) -> Iterator[Finding]:
    cases = list(_cases(report))
    if not cases:
        return
    model = measured_model(report, facts)
    if isinstance(model, str):
        yield not_verified(f"Memory: {model}")
        return
    yield from few(_beyond(report, model, cases))


def _beyond(report: Report, model: ModelFacts, cases: list[_Case]) -> Iterator[Finding]:
    room = max(gpu.memory for gpu in report.gpus) * (1 + MEMORY_SLACK)
    for case in cases:
        least, formula = _least(report, model, case)
        found = unusual if _may_be_less(report, case.config) else impossible
        if case.peak is not None and case.peak < KEPT * least:
            yield found(
                f"{case.name}: the peak is {gib(case.peak)}. Training keeps at least {gib(least)} on the GPU: {formula}; "
                f"{KEPT:.0%} of that is asked for. Was the peak reset in the middle, or read on another device than the "
                "one that trained? With activation_checkpointing or compiled say so in config, with in-place norms or "
                "frozen layers in declared.",
                peak_bytes=case.peak,
                least_bytes=round(least),
            )
        elif least * KEPT > room and not _spills(report):
            yield found(
                f"{case.name}: that takes at least {gib(least)} ({formula}), and the GPU has "
                f"{gib(room / (1 + MEMORY_SLACK))}. Is batch_size the images of one forward pass, on one device?",
                least_bytes=round(least),
                memory_bytes=max(gpu.memory for gpu in report.gpus),
            )


def _least(report: Report, model: ModelFacts, case: _Case) -> tuple[float, str]:
    """The bytes that must be on a GPU at the end of a forward pass, and how they come about."""
    half, mixed = case.precision in HALF, case.precision in MIXED
    element = 2 if half else 4
    frozen = "pretrained" in report.declared
    weights = element * model.parameters * (1 + (0 if frozen else case.states))
    copies = model.fixed_bytes.get("amp", 2 * model.parameters) if mixed and not frozen else 0
    each = model.saved_bytes.get("amp" if half or mixed else "fp32", 0)
    activations = 0 if frozen else each * case.batch
    parts = [
        f"{element} bytes x {model.parameters} parameters" + (f" x {1 + case.states}" * bool(case.states))
    ]
    if copies:
        parts.append(f"{gib(copies)} of copies in half precision")
    if activations:
        parts.append(f"{case.batch} x {each / 2**20:.4g} MiB of activations")
    return weights + copies + activations, " + ".join(parts)


def _cases(report: Report) -> Iterator[_Case]:
    """The batches that runs, trials and claims speak of, those on GPUs."""
    for group in report.groups:
        kind = precision(report, group.config)
        if kind is None or not on_gpu(report, group.config):
            continue
        yield _Case(
            group.name,
            group.config,
            kind,
            _on_one_device(report, group, min(batch(report, group.config), _seen_at_once(report, group))),
            _peak(group),
            _states(report, group),
        )
    for group, name, size, peak in _searched(report):
        kind = precision(report, group.config)
        if kind is not None and on_gpu(report, group.config):
            there = min(size, count(report.workload.get("dataset_n"), size))
            yield _Case(name, group.config, kind, _on_one_device(report, group, there), peak, 0)


def _searched(report: Report) -> Iterator[tuple[Group, str, int, int | None]]:
    """Batches of trials and of max_batch claims, and a group of the same precision that tells the rest."""
    for index, trial in enumerate(report.batch_search):
        group = _group_of(report, trial)
        if trial.ok and group is not None:
            peak = trial.peak_alloc_bytes or None
            yield group, f"batch_search[{index}] ({_trial(trial)})", trial.batch_size, peak
    for claim in report.claims:
        if claim.what == "max_batch" and claim.value is not None:
            for group in report.selected(claim.config)[:1]:
                yield group, claim.name, max(0, int(claim.value.value)), None


def _group_of(report: Report, trial: Trial) -> Group | None:
    key = "precision_requested" if report.kind == "lightning" else "precision"
    return next((g for g in report.groups if report.setting(g.config, key) == trial.precision), None)


def _trial(trial: Trial) -> str:
    return f"{safe_line(trial.precision, 40)}, batch {trial.batch_size}"


def _on_one_device(report: Report, group: Group, size: int) -> int:
    """The images of a batch that one GPU must have seen."""
    alone = report.kind != "amp" or any(run.rank_samples for run in group.runs)
    # DataParallel in an AMP training splits the batch, and nothing in the report would say so.
    return size if alone else size // max(1, len(report.gpus))


def _seen_at_once(report: Report, group: Group) -> int:
    """The images of a forward pass of one process, by what the runs went through: a data set may be smaller than a batch."""
    return max(-(-run.samples // max(1, run.steps * process_count(report, run))) for run in group.runs)


def _states(report: Report, group: Group) -> int:
    """Copies of the weights in the optimizer; none where it may not have taken a step, or shares them out."""
    steps = min(run.steps for run in group.runs)
    stepped = steps >= 2 * count(report.setting(group.config, "grad_accum"))
    alone = devices(report, group) == 1
    return STATES.get(str(report.workload.get("optimizer")).lower(), 0) if stepped and alone else 0


def _peak(group: Group) -> int | None:
    """The highest peak of a configuration; None where there is none, or 0: then it was not read."""
    peaks = [run.peak_alloc_bytes for run in group.runs if run.peak_alloc_bytes]
    return max(peaks, default=None)


def _may_be_less(report: Report, config: Config) -> bool:
    """Whether something is declared that keeps less than plain autograd does."""
    recomputed = any(report.setting(config, key) is True for key in ("activation_checkpointing", "compiled"))
    sharded = any(word in str(config.get("strategy", "")).lower() for word in ("fsdp", "deepspeed", "model"))
    return recomputed or sharded or "inplace_norm" in report.declared


def _spills(report: Report) -> bool:
    """Whether what does not fit may be in the host's memory: declared, or done by Windows' driver, below WSL as well."""
    system = str(report.env.get("os", "")).lower()
    return "unified_memory" in report.declared or system.startswith("win") or "wsl" in system


# P03: what a GPU can hold


def _held(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_peaks_of_runs(report))
    yield from _larger_cards(report, facts)


def _peaks_of_runs(report: Report) -> Iterator[Finding]:
    room = max((gpu.memory for gpu in report.gpus), default=0)
    named = [
        (
            f"runs[{run.index}] ({Group(run.config, (run,)).name})",
            run.peak_alloc_bytes,
            run.peak_reserved_bytes,
        )
        for run in report.runs
    ]
    named += [
        (f"batch_search[{index}] ({_trial(trial)})", trial.peak_alloc_bytes, None)
        for index, trial in enumerate(report.batch_search)
    ]
    for name, allocated, reserved in named:
        if allocated is not None and reserved is not None and allocated > reserved * (1 + MEMORY_SLACK):
            yield inconsistent(
                f"{name}: peak_alloc_bytes is {gib(allocated)}, peak_reserved_bytes {gib(reserved)}; what PyTorch hands "
                "out it has reserved before. Take max_memory_allocated() and max_memory_reserved() of the same device "
                "after the run; memory_reserved() without max_ is what is left at the end.",
                allocated=allocated,
                reserved=reserved,
            )
        highest = max(allocated or 0, reserved or 0)
        if room and highest > room * (1 + MEMORY_SLACK) and "unified_memory" not in report.declared:
            found = unusual if _spills(report) else impossible
            yield found(
                f"{name}: the peak is {gib(highest)}, and the GPU has {gib(room)}. Were the peaks of several GPUs added "
                "up? Each run has that of one. Where the driver moves to the host's memory what does not fit, declare "
                "unified_memory.",
                peak_bytes=highest,
                memory_bytes=room,
            )


def _larger_cards(report: Report, facts: Facts) -> Iterator[Finding]:
    for gpu in report.gpus[:1]:
        device = facts.devices.find(gpu.name)
        if device is not None and gpu.memory > LARGER_CARD * device.memory:
            yield unusual(
                f"env.gpus: {safe_line(gpu.name, 60)} with {gib(gpu.memory)}; the largest one sold has "
                f"{gib(device.memory)}. A card that was rebuilt, or the memory of several added up?",
                memory_bytes=gpu.memory,
                published_bytes=device.memory,
            )


# P10, P11: AMP against fp32


def _amp_peaks(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_low_peaks(report))


def _low_peaks(report: Report) -> Iterator[Finding]:
    # Runs with runs and trials with trials: they need not have taken the same steps.
    for peaks in (list(_peaks_of_groups(report)), list(_peaks_of_trials(report))):
        full: dict[int, int] = {}
        half: dict[int, tuple[str, int]] = {}
        for name, kind, size, peak in peaks:
            if kind in ("fp32", "tf32"):
                full[size] = min(peak, full.get(size, peak))
            elif kind in MIXED and (size not in half or peak > half[size][1]):
                half[size] = name, peak
        for size in sorted(full.keys() & half.keys()):
            name, peak = half[size]
            if peak == full[size]:
                yield unusual(
                    f"{name}: the peak is {peak} bytes, to the byte what it is in fp32 at the same batch. AMP keeps other "
                    "activations, and copies of the weights. Was the peak of an earlier training read again? "
                    "torch.cuda.reset_peak_memory_stats() forgets it.",
                    amp_bytes=peak,
                    fp32_bytes=full[size],
                )
            if peak < AMP_PEAK * full[size]:
                yield unusual(
                    f"{name}: the peak is {gib(peak)}, {peak / full[size]:.2f} of the {gib(full[size])} in fp32 at the same "
                    "batch. AMP halves activations at best, and the weights stay in fp32. Did the peak in fp32 hold "
                    "something else as well (an earlier run, cudnn.benchmark trying large workspaces)? Then reset it before.",
                    amp_bytes=peak,
                    fp32_bytes=full[size],
                )


def _peaks_of_groups(report: Report) -> Iterator[tuple[str, str, int, int]]:
    """Name, precision, images of a device and peak of the configurations that have one."""
    for group in report.groups:
        kind, peak = precision(report, group.config), _peak(group)
        # More devices may share the optimizer's state out.
        if kind is not None and peak is not None and _is_plain(report, group.config):
            yield group.name, kind, batch(report, group.config), peak


def _peaks_of_trials(report: Report) -> Iterator[tuple[str, str, int, int]]:
    for group, name, size, peak in _searched(report):
        kind = precision(report, group.config)
        if kind is not None and peak is not None and _is_plain(report, group.config):
            yield name, kind, size, peak


def _is_plain(report: Report, config: Config) -> bool:
    alone = count(config.get("world_size")) == 1 and devices_of_all(config) == 1
    return alone and not _may_be_less(report, config)


def _amp_batches(report: Report, facts: Facts) -> Iterator[Finding]:
    largest: dict[str, tuple[int, Claim]] = {}
    for claim in report.claims:
        if claim.what == "max_batch" and claim.value is not None and claim.value.value >= 1:
            kinds = {precision(report, group.config) for group in report.selected(claim.config)}
            for kind in kinds - {None}:
                largest[str(kind)] = int(claim.value.value), claim
    for kind in MIXED:
        if kind not in largest or "fp32" not in largest:
            continue
        (size, claim), (full, _) = largest[kind], largest["fp32"]
        below = _first_failure(report, full)
        if size > AMP_BATCH * below:
            yield unusual(
                f"{claim.name}: in fp32 the largest batch is {full}"
                + (f" and surely less than {below}" if below > full else "")
                + f", so that AMP fits at least {size / below:.2f} times as much. Half precision halves activations at "
                "best. Was something else on the GPU while fp32 was searched, or did its search end early?",
                amp_batch=size,
                fp32_batch=full,
            )


def _first_failure(report: Report, largest: int) -> int:
    """The batch that did not fit in fp32 any more; after a search by doubling it is up to twice the largest."""
    failed = [
        trial.batch_size
        for trial in report.batch_search
        if not trial.ok
        and trial.batch_size > largest
        and (group := _group_of(report, trial)) is not None
        and precision(report, group.config) == "fp32"
    ]
    doubled = largest & (largest - 1) == 0
    return min(failed, default=2 * largest if doubled else largest)


# P12: the search itself


def _searches(report: Report, facts: Facts) -> Iterator[Finding]:
    claimed = any(claim.what == "max_batch" for claim in report.claims)
    if claimed and not report.batch_search:
        yield advice(
            "max_batch is claimed without a batch_search: list the trials, with the one that ran out of memory."
        )
    for name in dict.fromkeys(trial.precision for trial in report.batch_search):
        trials = [trial for trial in report.batch_search if trial.precision == name]
        shown = safe_line(name, 40)
        failed = [trial for trial in trials if not trial.ok]
        worked = [trial for trial in trials if trial.ok]
        lowest = min((trial.batch_size for trial in failed), default=None)
        beyond = [trial.batch_size for trial in worked if lowest is not None and trial.batch_size > lowest]
        if lowest is None:
            yield advice(
                f"batch_search, {shown}: no trial failed, so that {max(t.batch_size for t in worked)} is the largest "
                "batch tried, not the largest that fits. Go on until the GPU is out of memory."
            )
        elif beyond:
            yield advice(
                f"batch_search, {shown}: {lowest} failed and {max(beyond)} fitted. After a failure memory is fragmented: "
                "let go of the model, call torch.cuda.empty_cache(), or try each size in a process of its own.",
                failed=lowest,
                fitted=max(beyond),
            )
        others = [
            t.error for t in failed if t.error and not any(w in t.error.lower() for w in ("memory", "alloc"))
        ]
        if others:
            yield advice(
                f"batch_search, {shown}: a trial failed with {safe_line(others[0], 100)!r}, which does not look like a lack "
                "of memory."
            )
        yield from _nearly_linear(shown, worked)


def _nearly_linear(name: str, trials: list[Trial]) -> Iterator[Finding]:
    points = [(float(t.batch_size), float(t.peak_alloc_bytes)) for t in trials if t.peak_alloc_bytes]
    if len({x for x, _ in points}) < LEAST_POINTS:
        return
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    off, size = max((abs(mean_y + slope * (x - mean_x) - y) / y, x) for x, y in points)
    if off > LINEAR:
        yield advice(
            f"batch_search, {name}: peaks should grow with the batch in a straight line; at {size:g} the peak is "
            f"{off:.0%} off it. cudnn.benchmark may take another workspace for every size; was the peak reset before each "
            "trial (torch.cuda.reset_peak_memory_stats)?",
            off=off,
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="P02",
        demands="A training holds its weights, its optimizer's state and its activations, and all of that fits the GPU.",
        threshold=f"peak >= {KEPT} x [4P(1 + k) + copies under AMP + A x B], where P is the parameters, k the copies the "
        "optimizer keeps (0 SGD, 1 momentum, 2 Adam), A what autograd saves for an image and B the images of a forward "
        "pass, no more than samples / steps / processes; the same must fit for every batch that is claimed",
        why="All of these are there at the end of a forward pass. Gradients are not counted: they take the place of "
        "activations. A is measured on the model.",
        honest="None of 21 published largest batches: they use 0.58 to 0.84 of what this bound leaves them. Checkpointing, "
        "compilation and in-place norms keep less, and make it unusual at most.",
        examine=_kept,
        kinds=TRAINING,
    ),
    Rule(
        id="P03",
        demands="Allocated <= reserved <= the memory of the GPU.",
        threshold=f"{MEMORY_SLACK:.0%}; more memory than the largest card of that name ({LARGER_CARD} times) is unusual",
        why="PyTorch's allocator hands out of what it has reserved, and reserves what is there.",
        honest="Unified memory, which is declared; drivers for Windows, below WSL as well, move memory to the host unasked, "
        "so that there it is unusual only.",
        examine=_held,
    ),
    Rule(
        id="P10",
        demands="AMP takes about half the memory of fp32 at the same batch, not less, and never just as much.",
        threshold=f"peak of AMP / peak of fp32 >= {AMP_PEAK}, and not 1 to the byte",
        why="Activations halve at best; the weights stay, and get copies. Published: 0.62 (fairchem, issue 397).",
        honest="Rarely, where fp32 takes large workspaces.",
        examine=_amp_peaks,
        kinds=TRAINING,
    ),
    Rule(
        id="P11",
        demands="AMP fits about twice the batch of fp32, not more.",
        threshold=f"largest batch of AMP <= {AMP_BATCH} x the batch that fails in fp32 (after doubling: twice the largest)",
        why="Lambda's benchmark: 1.70 to 2.05 times on seven GPUs.",
        honest="None of those.",
        examine=_amp_batches,
        kinds=TRAINING,
    ),
    Rule(
        id="P12",
        demands="A search for the largest batch ends out of memory, and memory grows with the batch in a straight line.",
        threshold=f"peaks within {LINEAR:.0%} of a line from {LEAST_POINTS} sizes on; advice only",
        why="What autograd saves is proportional to the batch.",
        honest="Fragmented memory and workspaces; it never costs anything.",
        examine=_searches,
        kinds=TRAINING,
    ),
)
