"""Rules on what a report is and where it comes from: its form, how much was measured, by what code, for whom."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lockstep.jsontext import Json
from lockstep.reports.counts import whole_seconds
from lockstep.reports.document import Config, Group, Report, Run, named, same_setting
from lockstep.reports.finding import Finding, Judgement, advice, few, inconsistent, not_verified, unusual
from lockstep.reports.rule import Facts, Rule
from lockstep.text import safe_line

GOOD_RUNS = 5
"""Fewer repetitions say little about the spread."""
MAY_BE_DISCARDED = 1
COARSE_TICK_S = 0.016
"""Before Python 3.13 time.time() ticks 64 times a second on Windows; a shorter run may begin and end in one tick."""
WORKER_COUNTS, BATCH_SIZES = 3, 3

UNITS: Mapping[str, tuple[str, ...]] = {
    "mean_s": ("s",),
    "std_s": ("s",),
    "median_s": ("s",),
    "min_s": ("s",),
    "throughput_ips": ("images/s",),
    "speedup": ("x", "1", "%"),
    "efficiency": ("1", "x", "%"),
    "serial_fraction": ("1", "%"),
    "max_batch": ("images", "1"),
    "crossover_batch": ("images", "1"),
    "peak_alloc_mib": ("MiB",),
    "accuracy_pct": ("%", "1"),
    "acc5_pct": ("%", "1"),
}
"""The units each claim can have; with "%" a ratio is given in percent, with "1" an accuracy as a fraction."""

LINE_ENDINGS = ((b"\r\n", b"\n"), (b"\n", b"\r\n"))
_PLACEHOLDERS = ("unknown", "none", "n/a", "na", "?", "-", "todo", "xxx", "...")
_OF_A_MACHINE = ("hostname", "host", "driver", "cuda", "gpu", "cpu_model", "torch")


# S01: form


def wrong_form(problems: Sequence[str]) -> tuple[Finding, ...]:
    """What S01 says of a report that is none: the sentences of `format.schema_problems`, as findings."""
    advice = " The given perf_report.py writes the form as it should be."
    last = len(problems) - 1
    return tuple(
        Finding(Judgement.INCONSISTENT, problem + (advice if index == last else ""), rule="S01")
        for index, problem in enumerate(problems)
    )


def _form(report: Report, facts: Facts) -> Iterator[Finding]:
    # A report of the wrong form has no parts that a rule could look at: see `wrong_form`.
    if report.not_looked_at:
        yield advice(" ".join(report.not_looked_at))


# S02: positive, in order, in its unit


def _numbers(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_not_positive(report))
    yield from few(_wrong_units(report))


def _not_positive(report: Report) -> Iterator[Finding]:
    tick = max(COARSE_TICK_S, whole_seconds(report))
    for run in report.runs:
        if not run.seconds > 0:
            yield inconsistent(
                f"{_of(run)}: wall_s is {safe_line(run.wall.text, 30)}, but every run takes time. Is the clock read before "
                "and after the timed region, and fine enough? time.perf_counter() is.",
                wall_s=run.seconds,
            )
        within_a_tick = run.t_end == run.t_start and run.seconds <= tick
        if not run.t_end > run.t_start and not within_a_tick:
            yield inconsistent(
                f"{_of(run)}: t_end - t_start = {run.t_end - run.t_start:.6g} s, but a run ends after it starts. Both are "
                "time.time() in seconds since 1970, before and after the timed region; were they swapped, or the clock set?",
                t_start=run.t_start,
                t_end=run.t_end,
            )
        if any(not step.value >= 0 for step in run.step_seconds):
            yield inconsistent(f"{_of(run)}: step_s holds a negative time.")


def _wrong_units(report: Report) -> Iterator[Finding]:
    for claim in report.claims:
        units = UNITS.get(claim.what)
        if units is not None and claim.unit is not None and claim.unit not in units:
            yield inconsistent(
                f"{claim.name}: its unit is {claim.unit}, expected {' or '.join(units)}. Is it a slip in the report, or is "
                "this another quantity?",
                unit=claim.unit,
            )


# S03: repetitions


def _repetitions(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(_too_few_runs(report, facts.least_runs))
    few_runs = [group for group in report.groups if facts.least_runs <= len(group.runs) < GOOD_RUNS]
    if few_runs:
        counts = sorted({len(group.runs) for group in few_runs})
        yield advice(
            f"{len(few_runs)} of {len(report.groups)} configurations have {' or '.join(map(str, counts))} runs, enough for "
            f"what is asked. From {GOOD_RUNS} on, one slow run can be told from a slow configuration.",
            configurations=len(few_runs),
            runs=counts[0],
        )


def _too_few_runs(report: Report, least: int) -> Iterator[Finding]:
    for group in report.groups:
        discarded = sum(1 for entry in report.discarded if _is_about(report, entry["config"], group))
        if len(group.runs) + min(discarded, MAY_BE_DISCARDED) < least:
            yield inconsistent(
                f"{group.name}: {len(group.runs)} runs{f' and {discarded} discarded' if discarded else ''}, but {least} are "
                f"asked for (one of them may be discarded with a reason). Was a run lost, or does a setting differ from that "
                "of the others?",
                runs=len(group.runs),
                discarded=discarded,
                least=least,
            )


def _is_about(report: Report, config: Json, group: Group) -> bool:
    return isinstance(config, dict) and bool(config) and group in report.selected(config)


# S04: what has to be measured

_SPEAKS_OF_GPUS = re.compile(r"gpu|cuda|nvidia", re.IGNORECASE)


@dataclass(frozen=True)
class Missing:
    """Something that the exercise asks for and that no run covers."""

    what: str
    excuses: Callable[[Config], bool]
    """Whether an entry of not_available for this configuration accounts for it."""
    without_gpus: str = ""
    """How this machine measures it without GPUs; empty where it cannot."""


def _coverage(report: Report, facts: Facts) -> Iterator[Finding]:
    for missing in _MISSING[report.kind](report):
        excuses = [entry for entry in report.not_available if missing.excuses(_config_of(entry))]
        excuse = next((entry for entry in excuses if not _is_placeholder(str(entry["reason"]))), None)
        if excuse is None:
            said = (
                f", and its reason is {json.dumps(safe_line(str(excuses[0]['reason']), 20))}"
                if excuses
                else ""
            )
            yield inconsistent(
                f"The runs lack {missing.what}{said}. What this machine cannot do belongs in not_available, with the reason."
            )
            continue
        reason = safe_line(str(excuse["reason"]), 100)
        said = f"The runs lack {missing.what}: {named(_config_of(excuse))} was not available ({reason})."
        wanted, gpus = _whole(_config_of(excuse).get("n_devices")), len(report.gpus)
        # A batch may be too large for one of them; two of them are there or not.
        if 1 < wanted <= gpus and "batch_size" not in _config_of(excuse):
            yield unusual(f"{said} But env.gpus names {gpus} GPUs. Were some of them busy?", gpus=gpus)
        if missing.without_gpus and _SPEAKS_OF_GPUS.search(reason):
            yield unusual(
                f"{said} But no GPU is needed for it: {missing.without_gpus}. Is there another reason?"
            )
        yield not_verified(f"{said} Nothing can be said about it.")


def _config_of(entry: Mapping[str, Json]) -> Config:
    config = entry.get("config")
    return config if isinstance(config, dict) else {}


def _loader_coverage(report: Report) -> Iterator[Missing]:
    counts = {_whole(group.config.get("num_workers")) for group in report.groups}
    if len(counts) < WORKER_COUNTS:
        yield Missing(
            f"{WORKER_COUNTS} numbers of workers (there are {len(counts)})",
            lambda config: "num_workers" in config,
        )


def _inference_coverage(report: Report) -> Iterator[Missing]:
    measured: dict[int, set[int]] = {}
    for group in report.groups:
        batch, devices = (_whole(group.config.get(key)) for key in ("batch_size", "n_devices"))
        measured.setdefault(devices, set()).add(batch)
    if 1 not in measured:
        yield Missing("one device, with which others are compared", lambda c: _whole(c.get("n_devices")) == 1)
    if max(measured) < 2:
        yield Missing("two or more devices", lambda c: _whole(c.get("n_devices")) >= 2)
    for devices, batches in sorted(measured.items()):
        if len(batches) < BATCH_SIZES:
            yield Missing(
                f"{BATCH_SIZES} batch sizes on {devices} device{'s' * (devices > 1)} (there are {len(batches)})",
                lambda c: "batch_size" in c,
            )
    shared = set.intersection(*measured.values())
    if len(shared) < BATCH_SIZES <= min(map(len, measured.values())):
        yield Missing(
            f"{BATCH_SIZES} batch sizes that were measured on every number of devices (there are {len(shared)})",
            lambda c: "batch_size" in c,
        )


def _training_coverage(report: Report) -> Iterator[Missing]:
    sizes = {_whole(group.config.get("world_size")) for group in report.groups}
    if 1 not in sizes:
        yield Missing("one process (world_size 1)", lambda c: _whole(c.get("world_size")) == 1)
    if 2 not in sizes:
        on_cpu = not report.gpus or {group.config.get("backend") for group in report.groups} == {"gloo"}
        yield Missing(
            "two processes (world_size 2)",
            lambda c: _whole(c.get("world_size")) >= 2,
            "two processes share the cores of one machine, with gloo for a backend" if on_cpu else "",
        )


def _is_mixed(value: Json) -> bool:
    # Before its second version Lightning calls mixed precision 16 and bf16.
    return isinstance(value, str) and (value.endswith(("-amp", "-mixed")) or value in ("16", "bf16"))


def _is_single(value: Json) -> bool:
    return isinstance(value, str) and value in ("fp32", "tf32", "32", "32-true")


def _precision_coverage(report: Report) -> Iterator[Missing]:
    key = "precision" if report.kind == "amp" else "precision_resolved"

    def about(is_such: Callable[[Json], bool]) -> Callable[[Config], bool]:
        return lambda config: any(
            is_such(value) or (is_such is _is_mixed and value == 16)
            for name, value in config.items()
            if name.startswith("precision")
        )

    precisions = [group.config.get(key) for group in report.groups]
    if not any(map(_is_single, precisions)):
        yield Missing("single precision (fp32)", about(_is_single))
    if not any(map(_is_mixed, precisions)):
        yield Missing(
            "mixed precision (AMP)",
            about(_is_mixed),
            "" if report.gpus else "on a CPU it is bfloat16",
        )


_MISSING: Mapping[str, Callable[[Report], Iterator[Missing]]] = {
    "dataloader": _loader_coverage,
    "dp_inference": _inference_coverage,
    "ddp_scaling": _training_coverage,
    "amp": _precision_coverage,
    "lightning": _precision_coverage,
}


# S05: the attempt


def _attempt(report: Report, facts: Facts) -> Iterator[Finding]:
    if facts.nonce is None:
        yield not_verified("Nobody said which nonce was issued for this attempt (--nonce).")
    elif report.nonce.strip() != facts.nonce.strip():
        unset = report.nonce in ("none", "example-nonce")
        yield inconsistent(
            f'attempt.nonce is "{safe_line(report.nonce, 40)}", which was not issued for this attempt. '
            + (
                "ATTEMPT_NONCE was not set when the script ran: set it to the text you were given, and measure again."
                if unset
                else "Is this the report of an earlier attempt? Measure again with the nonce of this one."
            ),
            nonce=safe_line(report.nonce, 40),
        )


# S06: code and artefacts


def _hashes(report: Report, facts: Facts) -> Iterator[Finding]:
    if facts.code_sha256 is None:
        yield not_verified("Nobody said which script was handed in (--code-sha256).")
    elif report.code_sha256 not in facts.code_sha256:
        yield inconsistent(
            f"attempt.code_sha256 begins with {report.code_sha256[:12]}, and no script that was handed in has this hash. An "
            "edit after the run, be it a comment, changes it (so does git turning line endings around): run the script as "
            "you hand it in once more.",
            code_sha256=report.code_sha256,
        )
    yield from few(_artefacts(report, facts))


def _artefacts(report: Report, facts: Facts) -> Iterator[Finding]:
    named_files = {str(entry["path"]): str(entry["sha256"]) for entry in report.artifacts}
    for path, stated in named_files.items():
        shown = safe_line(path, 80)
        data = None if facts.files is None else facts.files.read(path)
        if data is None:
            yield not_verified(f"artifacts names {shown}, which is not there to be looked at.", path=shown)
        elif stated not in (seen := hashlib.sha256(data).hexdigest()):
            others = (hashlib.sha256(data.replace(old, new)).hexdigest() for old, new in LINE_ENDINGS)
            if stated in others:
                yield advice(
                    f"{shown} is the file that artifacts names, but for its line endings.", path=shown
                )
                continue
            yield inconsistent(
                f"{shown} has the SHA-256 {seen[:12]}..., artifacts says {stated[:12]}... Was the file written or edited "
                "after the report? Write the report last.",
                path=shown,
                seen=seen,
                stated=stated,
            )


# S07: the environment


def _environment(report: Report, facts: Facts) -> Iterator[Finding]:
    for key in ("os", "python", "torch"):
        value = report.env[key]
        if isinstance(value, str) and _is_placeholder(value):
            yield advice(
                f'env.{key} is "{safe_line(value, 20)}": note what it was, or nobody can repeat this.',
                key=key,
            )
    torch = report.env["torch"]
    if report.gpus and isinstance(torch, str) and torch.endswith("+cpu"):
        yield advice(
            f"env.torch is {safe_line(torch, 40)}, a build that knows no GPU, and env.gpus names {len(report.gpus)}. Was the "
            "environment noted in another virtual environment than the runs?",
            torch=safe_line(torch, 40),
        )
    for key in _OF_A_MACHINE:
        values: list[Json] = [report.env[key]] if key in report.env else []
        for run in report.runs:
            value = run.extra.get(key)
            if value is not None and not any(same_setting(value, other) for other in values):
                values.append(value)
        if len(values) > 1:
            shown = ", ".join(safe_line(str(value), 40) for value in values[:3])
            yield advice(
                f"{key} is not the same in all runs: {shown}. Compare only what was measured on one machine; a scheduler may "
                "give every job another one.",
                key=key,
                values=len(values),
            )


def _is_placeholder(text: str) -> bool:
    return text.strip().lower() in ("", *_PLACEHOLDERS)


def _of(run: Run) -> str:
    return f"runs[{run.index}] ({named(run.config)}, rep {run.rep})"


def _whole(value: Json) -> int:
    return value if isinstance(value, int) else 0


RULES: tuple[Rule, ...] = (
    Rule(
        id="S01",
        demands="The file is a perf-report/1: JSON that fits the schema, with dates and numbers that can be reckoned with.",
        threshold="exact; parts and settings of other names, what else runs and the workload say, and claims about something else are not looked at, which is told",
        why="What is not where the format puts it cannot be compared with anything.",
        honest="None for a file that the given writer wrote.",
        examine=_form,
    ),
    Rule(
        id="S02",
        demands="Readings are positive, runs end after they start, claims have the unit of what they claim.",
        threshold=f"wall_s > 0 and t_end > t_start, or equal where wall_s is at most {COARSE_TICK_S} s, one tick of time.time() on "
        "Windows, or 1 s where all times are whole seconds; a ratio may be a percentage, an accuracy a fraction, if the unit says so",
        why="No run takes no time: time.perf_counter() ticks at least 10 million times a second.",
        honest="None known.",
        examine=_numbers,
    ),
    Rule(
        id="S03",
        demands="Every configuration was run often enough.",
        threshold=f"as many runs as the exercise asks for, {MAY_BE_DISCARDED} of them discarded with a reason; below "
        f"{GOOD_RUNS} advice",
        why="The mean of three runs with one disturbed says little. MLPerf Training's rules let one of the runs be dropped, "
        "which is why a discarded one counts.",
        honest="None: how many runs there are is a matter of the exercise.",
        examine=_repetitions,
    ),
    Rule(
        id="S04",
        demands="The runs cover what the exercise asks for, or say why they cannot.",
        threshold=f"dataloader: {WORKER_COUNTS} numbers of workers; dp_inference: {BATCH_SIZES} batch sizes on one device "
        "and on several, the same on each; ddp_scaling: one process and two; amp and lightning: fp32 and AMP; a reason is more "
        "than a dash",
        why="A comparison needs both sides. What a machine lacks is accepted with a reason, and then not verified.",
        honest="Machines without a second GPU: not_available, with a reason. Where that reason is a GPU, and none is needed, a "
        "person is told.",
        examine=_coverage,
    ),
    Rule(
        id="S05",
        demands="The report was made for this attempt.",
        threshold="the nonce that was issued, but for spaces around it",
        why="A nonce in the file ties a report to one student and one attempt.",
        honest="Students who forget to set ATTEMPT_NONCE; the message says so.",
        examine=_attempt,
    ),
    Rule(
        id="S06",
        demands="The script that was handed in measured this, and the files that the report names are the ones beside it.",
        threshold="equal SHA-256; for artefacts up to line endings",
        why="Figures belong to the code that made them.",
        honest="Edits after the run; the message asks for another run.",
        examine=_hashes,
    ),
    Rule(
        id="S07",
        demands="The environment is noted, and the same for all runs.",
        threshold="advice only: placeholders, a host or driver that changes, a CPU build of torch with GPUs",
        why="Readings from two machines do not compare.",
        honest="Low: jobs of a batch system that ran on different nodes.",
        examine=_environment,
    ),
)
