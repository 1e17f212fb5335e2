"""Rules on what the clocks of a run must add up to: its span, its steps, and the runs beside it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

from lockstep.reports.counts import (
    GROWN,
    gpus_needed,
    machine_count,
    number,
    of_run,
    process_count,
    whole_seconds,
)
from lockstep.reports.document import Group, Report, Run
from lockstep.reports.finding import Finding, few, inconsistent, unusual
from lockstep.reports.hardware import on_gpu
from lockstep.reports.resolution import resolution
from lockstep.reports.rule import Facts, Rule

CLOCK_SLACK_S, CLOCK_SLACK = 0.05, 0.01
"""What the wall clock and the monotonic clock may differ by: a fixed part, and a part of the duration."""
STEPS_SLACK = 0.05
"""Steps may be read by another clock than the run: by CUDA events, for instance."""
PART, WHOLE = 0.9, 0.98
"""wall_s over the time between start and end: where a part is missing, and where nothing is."""
FOLLOWS = 0.03
"""How closely what is left out follows wall_s: the spread of the parts, over that of what takes a time of its own."""
SHORT_S, LEAST_RUNS = 0.5, 3
"""Shorter runs may wait for longer than they take; and a machine that sleeps in one run does not in three."""
DEADLINE_SLACK_S = 1.0
CREATED_SLACK_S = 60.0
"""created_utc may be given without its seconds, or come from the clock of another machine than the runs: one that no time
server sets drifts by a second a day or two, so by a minute in a term. A wrong time zone is off by a quarter of an hour at
least, an old file that was filled with new runs by the time that these take."""
WAITS_S, FIRST_WAITS_S = 1800.0, 60.0
"""How much sooner than rank 0 another rank may begin where no barrier holds it back: gloo waits half an hour for whoever
is late. Before the first run there is no checkpoint to save, no evaluation and no other run, only the start."""
APART_S, APART = 1.0, 0.05
"""What ranks are apart by in any case, where nothing says when rank 0 was done with the run before: a fixed part, and a
part of the run."""
PLACES = (
    "hostname", "host", "node", "nodename", "node_name", "machine", "computer",
    "slurm_job_id", "slurmd_nodename", "pbs_jobid", "lsb_jobid", "job_id",
)  # fmt: skip
"""What people call the machine in `extra`, or the job to which a scheduler gave devices of its own; or in capitals."""
BEFORE_PYTORCH, THESE_DAYS, DAY_S = 1_420_070_400.0, 1_800_000_000.0, 86_400.0
"""The beginning of 2015: a machine whose clock has no battery begins in 1970. And January 2027: whoever grades may have
a clock that is behind, too."""


def _shown(seconds: float) -> str:
    return f"{seconds:.6g} s"


def _clocks(report: Report, facts: Facts) -> Iterator[Finding]:
    yield from few(longer_than_its_span(report))
    yield from few(_steps_longer_than_their_run(report))
    yield from few(_shorter_than_their_span(report))
    yield from few(_overlaps(report))
    yield from _late(report, facts)
    yield from _other_times(report, facts)


def _late(report: Report, facts: Facts) -> Iterator[Finding]:
    """Runs that ended after the file was written, or after the deadline.

    Where the last of them did not, the clock went ahead in an earlier session and was set right since.
    """
    last = max(report.runs, key=lambda run: run.t_end)
    ends = report.runs[-1].t_end
    if last.t_end > report.created + CREATED_SLACK_S:
        late = _shown(last.t_end - report.created)
        set_right = _was_set_right(last.t_end, ends, report.created, CREATED_SLACK_S)
        yield (unusual if set_right else inconsistent)(
            f"{of_run(report, last)} ended {late} after created_utc, when the file that reports it was written. "
            + (
                "The last run did not: was the system clock ahead when this one was measured, and set right since?"
                if set_right
                else "Usual causes: created_utc is local time with a Z behind it, an old file was filled with new runs, or the "
                "machine that wrote it has a clock that is behind. The writer notes the time in UTC when it writes."
            ),
            t_end=last.t_end,
            created=report.created,
        )
    if facts.deadline is not None and last.t_end > facts.deadline + DEADLINE_SLACK_S:
        set_right = _was_set_right(last.t_end, ends, facts.deadline, DEADLINE_SLACK_S)
        yield (unusual if set_right else inconsistent)(
            f"{of_run(report, last)} ended {_shown(last.t_end - facts.deadline)} after the deadline"
            + (", and the last run before it" if set_right else "")
            + ". Was the clock of that machine right?",
            t_end=last.t_end,
            deadline=facts.deadline,
        )


def _was_set_right(latest: float, last: float, limit: float, slack: float) -> bool:
    """Whether a clock that was wrong by a time zone at most, or by a day, explains how a limit was passed before."""
    return latest <= limit + DAY_S and last <= limit + slack


def _other_times(report: Report, facts: Facts) -> Iterator[Finding]:
    """Runs before anything could run them, or after they were graded."""
    first = min(report.runs, key=lambda run: run.t_start)
    last = max(report.runs, key=lambda run: run.t_end)
    for run, moment, odd in (
        (first, first.t_start, first.t_start < BEFORE_PYTORCH),
        (last, last.t_end, facts.now is not None and last.t_end > max(facts.now, THESE_DAYS) + DAY_S),
    ):
        if odd:
            yield unusual(
                f"{of_run(report, run)} was measured in {time.gmtime(moment).tm_year}, by t_start and t_end. Both are "
                "time.time(), seconds since 1970: is one time.perf_counter(), which counts from another moment, or was the "
                "clock of that machine wrong?",
                moment=moment,
            )


def longer_than_its_span(report: Report) -> Iterator[Finding]:
    """Each run that is said to have taken longer than the time between its start and its end."""
    cut = whole_seconds(report)
    for run in report.runs:
        span = run.t_end - run.t_start
        slack = cut + CLOCK_SLACK_S + CLOCK_SLACK * span + _began_sooner(report, run)
        if span >= 0 and (span or cut) and not run.seconds <= span + slack:
            yield inconsistent(
                f"{of_run(report, run)}: wall_s is {_shown(run.seconds)}, but from t_start to t_end there are only "
                f"{_shown(span)}. {_why_longer(run, span)}",
                wall_s=run.seconds,
                span_s=span,
            )


def _why_longer(run: Run, span: float) -> str:
    if span and abs(run.seconds / span - 1000) < 1000 * CLOCK_SLACK:
        return "Is it in milliseconds? wall_s is in seconds."
    if run.wall.text.isdigit() and abs(run.seconds - span) <= 1:
        return "Was it rounded? Write what the clock gave, with repr()."
    return (
        "If the system clock was set during the run, measure it again; otherwise take time.time() just before and just "
        "after the timed region."
    )


def _began_sooner(report: Report, run: Run) -> float:
    """Seconds by which the slowest rank, whose are wall_s, may have begun before rank 0, whose are t_start and t_end.

    Not long before the run before was over.
    """
    if process_count(report, run) < 2:
        return 0.0
    before = [other.t_end for other in report.runs if other is not run and other.t_end <= run.t_start]
    waited = min(run.t_start - max(before), WAITS_S) if before else FIRST_WAITS_S
    return max(waited, APART_S, APART * (run.t_end - run.t_start))


def _shorter_than_their_span(report: Report) -> Iterator[Finding]:
    """Each configuration of which all runs leave out a part of their span, while others take all of theirs.

    Where steps are timed one by one, or calls of a network, what lies between them is left out everywhere.
    """
    if report.kind == "dp_inference" or any(run.step_seconds for run in report.runs):
        return
    shares = [
        (group, [run.seconds / (run.t_end - run.t_start) for run in group.runs])
        for group in report.groups
        if len(group.runs) >= LEAST_RUNS and all(run.t_end - run.t_start > SHORT_S for run in group.runs)
    ]
    if whole_seconds(report) or not any(min(own) > WHOLE for _, own in shares):
        return
    for group, own in shares:
        if max(own) < PART and _in_proportion(group, own):
            yield unusual(
                f"{group.name}: wall_s is {min(own):.0%} to {max(own):.0%} of the time between t_start and t_end in all "
                f"{len(own)} runs, and in other configurations all of it. What was left out here and not there? t_start and "
                "t_end belong right before and behind what wall_s times.",
                shares=[*own[:5]],
            )


def _in_proportion(group: Group, shares: Sequence[float]) -> bool:
    """Whether longer runs leave out more in the same measure.

    What starts workers or processes takes a time of its own, whatever is measured then: the shares of the runs spread
    as much as that makes them, at least.
    """
    share = statistics.fmean(shares)
    walls = [run.seconds for run in group.runs]
    of_its_own = share * (1 - share) * (max(walls) - min(walls)) / statistics.fmean(walls)
    return max(shares) - min(shares) < FOLLOWS * of_its_own


def _steps_longer_than_their_run(report: Report) -> Iterator[Finding]:
    """Each run whose single steps are more, or together took longer, than the run itself.

    Fewer are fine: some were read, or the run has pauses. Processes and loader workers may each have told theirs.
    """
    warmup = number(report.method.get("warmup_steps", 0))
    for run in report.runs:
        if not run.step_seconds:
            continue
        told, side_by_side = len(run.step_seconds), _side_by_side(report, run)
        if told > (run.steps + warmup) * side_by_side:
            yield inconsistent(
                f"{of_run(report, run)}: step_s has {told} entries, and the run {run.steps} steps. step_s holds the "
                "seconds of the single steps of this run: was the list not emptied between two runs?",
                told=told,
                steps=run.steps,
            )
            continue
        together = sum(step.value for step in run.step_seconds)
        slack = STEPS_SLACK * run.seconds + told * resolution(run.step_seconds)
        if told <= run.steps * side_by_side and together > (run.seconds + slack) * side_by_side:
            yield inconsistent(
                f"{of_run(report, run)}: the entries of step_s add up to {_shown(together)}, and wall_s is "
                f"{_shown(run.seconds)}. wall_s is the sum of the steps, or more where something else was timed as well. "
                "Does step_s include what wall_s leaves out, such as loading the data? Are both in seconds, and of the same run?",
                steps_s=together,
                wall_s=run.seconds,
            )


def _side_by_side(report: Report, run: Run) -> int:
    """How many may have done steps of a run at the same time, each with seconds of its own."""
    if report.kind == "dataloader":
        return 1 + number(run.config.get("num_workers", 0))
    return max(process_count(report, run), len(report.gpus))


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
                cores = _may_have_had_cores(report, latest, run)
                yield (unusual if cores else inconsistent)(
                    f"{of_run(report, latest)} and {of_run(report, run)} ran at the same time for {_shown(together)}, on "
                    + (
                        "the same machine. Had each job cores of its own? They may share memory and caches all the same: "
                        "measure one after the other."
                        if cores
                        else "the same machine: one of them had to wait for the other. Were two scripts started at once? "
                        "Measure one after the other."
                    )
                    + " Were there two machines? Then extra.hostname of each run says which. Or was the system clock set back between "
                    "the two? Then measure again.",
                    overlap_s=together,
                    runs=[latest.index, run.index],
                )
        if latest is None or run.t_end > latest.t_end:
            latest = run


def _share_devices(report: Report, a: Run, b: Run) -> bool:
    """Whether two runs must have met on a device: on GPUs they need not, where there are enough for both."""
    if any(_apart(a, b, key) for place in PLACES for key in (place, place.upper())):
        return False
    if report.gpus and report.kind != "dataloader" and _apart(a, b, "gpu_uuids"):
        return False
    ids_a, ids_b = a.config.get("device_ids"), b.config.get("device_ids")
    if isinstance(ids_a, list) and isinstance(ids_b, list):
        return any(one in ids_b for one in ids_a)
    if not report.gpus or report.kind == "dataloader":
        return True
    used = [gpus_needed(report, run.config) for run in (a, b)]
    nodes = max(machine_count(run.config) for run in (a, b))
    return sum(count or 1 for count in used) > len(report.gpus) * nodes


def _may_have_had_cores(report: Report, a: Run, b: Run) -> bool:
    """Whether two jobs may have measured these on cores of their own: other configurations, each a call's, on a CPU."""
    if report.kind not in GROWN or any(on_gpu(report, run.config) for run in (a, b)):
        return False
    return not any(a in group.runs and b in group.runs for group in report.groups)


def _apart(a: Run, b: Run, key: str) -> bool:
    """Whether both runs say what they ran on under this key of `extra`, and have none of it in common."""
    places = [value if isinstance(value, list) else [value] for value in (a.extra.get(key), b.extra.get(key))]
    one, other = (
        {str(place) for place in places_of if isinstance(place, str | int) and place != ""}
        for places_of in places
    )
    return bool(one and other) and not one & other


RULES: tuple[Rule, ...] = (
    Rule(
        id="C06",
        demands="A run takes no longer than the time between its start and its end, and its single steps together no "
        "longer than the run; runs on the same devices follow one another, and all of them come before the file that "
        "reports them.",
        threshold=f"wall_s <= (t_end - t_start) + {CLOCK_SLACK_S} s + {CLOCK_SLACK:.0%}, and 1 s where all of these are whole seconds; "
        f"of several processes also the time since the run before, up to {WAITS_S:g} s, or {FIRST_WAITS_S:g} s before the first, and {APART_S:g} s and {APART:.0%} at least; no more entries in step_s than "
        f"steps, warm-up included, with a sum <= wall_s + {STEPS_SLACK:.0%} + a tick each, both times the processes, GPUs "
        f"or loader workers; below {PART:.0%} of it in all runs of a "
        f"configuration, in proportion to wall_s, and above {WHOLE:.0%} in another: unusual; overlaps up to {CLOCK_SLACK_S} s, any of runs whose extra names other "
        "hosts (hostname, node, machine, slurm_job_id and the like), or other GPUs by their UUIDs; of two configurations that two calls may have measured on a CPU: unusual; "
        f"created_utc with {CREATED_SLACK_S:g} s and the deadline with {DEADLINE_SLACK_S:g} s, unusual where the last run keeps to it and others by a day; before 2015, and a day "
        "after the grading: unusual",
        why="wall_s comes from a monotonic clock, t_start and t_end from the system clock, which time servers correct. wall_s is "
        "that of the slowest rank, which may begin before rank 0 has saved a checkpoint.",
        honest="Only when the system clock is set during a run: rare, and the message asks for the run again.",
        examine=_clocks,
    ),
)
