"""Rules on the logs a report names: do they say what the report says?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from lockstep.reports.clocks import CREATED_SLACK_S
from lockstep.reports.curves import METRICS, Curve, Curves, Point, finite, read_curves
from lockstep.reports.document import Claim, Log, Number, Report, Run, same_setting
from lockstep.reports.finding import Finding, advice, inconsistent, not_verified, unusual
from lockstep.reports.losses import DIGITS, FLOAT32_EPS, class_count, tells
from lockstep.reports.rule import Facts, Rule
from lockstep.text import safe_line

MAX_LOGS = 12
"""Logs of one report that are read; a report has one for each training at most."""
FEW_POINTS = 10
SPAN = 0.5
"""The part of the timed training that a curve of many points must span."""
FEW = 3
"""Points of a curve that is compared with another training's, and losses in it that have to tell."""
CHANGING = (
    "precision",
    "precision_resolved",
    "batch_size",
    "batch_per_rank",
    "world_size",
    "devices",
    "num_nodes",
    "nnodes",
)
"""Settings that change every loss in its last digits at least."""
TIME_SLACK_S = 1.0
"""Steps of the system clock within one log."""
FLOAT32_ULPS = 4
LR_SLACK = 1e-6
FALLING = frozenset({"step", "multistep", "exponential", "linear", "cosine"})
"""Schedules whose learning rate never rises once it has warmed up."""


def _name(log: Log) -> str:
    return f"{log.kind} log {safe_line(log.path, 80)}"


def _of(log: Log) -> str:
    return f"The {_name(log)}"


def _logs(report: Report, facts: Facts) -> Iterator[Finding]:
    if len(report.logs) > MAX_LOGS:
        yield not_verified(f"The report names {len(report.logs)} logs; the first {MAX_LOGS} were read.")
    read: list[tuple[Log, Curves]] = []
    for log in report.logs[:MAX_LOGS]:
        if facts.files is None:
            yield not_verified(f"{_of(log)} was not handed in with the report.")
            continue
        curves = read_curves(log, facts.files)
        if not curves.files:
            yield not_verified(f"{_of(log)} is not there; paths are relative to the report.")
            continue
        data = facts.files.read(log.path)
        if log.sha256 is not None and data is not None and hashlib.sha256(data).hexdigest() != log.sha256:
            yield inconsistent(
                f"{_of(log)} is another file than the one the report was made with: their SHA-256 differ. Was it written to "
                "afterwards? Write the report when the log is closed."
            )
        read.append((log, curves))
        yield from _damage(log, curves)
        yield from _presence(log, curves)
        for curve in curves.curves:
            found = _out_of_order(report, log, curve)
            if found is not None:
                # One curve out of order is all of them: one restart, one finding.
                yield found
                break
        run = _run_of(report, log)
        if run is not None:
            yield from _time(report, log, run, curves)
        yield from _accuracies(report, log, curves)
    yield from _twice(report, read, class_count(report, facts))


def _damage(log: Log, curves: Curves) -> Iterator[Finding]:
    broken = [sentence for sentence in curves.damage if "crc" in sentence]
    others = [sentence for sentence in curves.damage if "crc" not in sentence]
    if broken:
        yield inconsistent(
            f"{_of(log)} is damaged: {safe_line(broken[0], 160)}. The checksums in it show that bytes were changed after it "
            "was written. Was it copied in text mode, or did git change line ends? Hand in the original file.",
            places=len(broken),
        )
    if others:
        yield advice(f"{_of(log)}: {safe_line(others[0], 160)}. What could be read was.", places=len(others))


def _twice(report: Report, read: Sequence[tuple[Log, Curves]], classes: int | None) -> Iterator[Finding]:
    """Whether one training's curves are handed in as those of two that cannot have the same."""
    told = [(log, _points(curves)) for log, curves in read if log.config is not None]
    for (one, points), (other, same) in combinations(told, 2):
        if (
            points == same
            and _tell(points, classes)
            and one.path != other.path
            and _train_apart(report, one, other)
        ):
            yield unusual(
                f"{_of(one)} and the {_name(other)} hold the same losses to the last digit, and are said to be of different "
                "configurations. Was one of them copied, or did a second training write where the first one had? Or was "
                "the setting never switched on, so that both trained the same?",
                points=sum(map(len, points.values())),
            )
            return


_Losses = Mapping[str, tuple[tuple[int, float], ...]]
"""Steps and values, by tag."""


def _tell(losses: _Losses, classes: int | None) -> bool:
    """Whether two trainings do not come to the same by chance, as to a few that were rounded."""
    return any(len({loss for _, loss in curve if tells(loss, classes)}) >= FEW for curve in losses.values())


def _points(curves: Curves) -> _Losses:
    """The losses of several points, whatever their files are called."""
    return {
        curve.tag: tuple((point.step, point.value) for point in curve.points)
        for curve in curves.curves
        if len(curve.points) >= FEW and "loss" in curve.tag.lower()
    }


def _train_apart(report: Report, one: Log, other: Log) -> bool:
    """Whether the runs of two logs differ in what changes every loss in its digits."""

    def settings(log: Log) -> set[str]:
        groups = report.selected(log.config or {})
        return {repr([group.config.get(key) for key in CHANGING]) for group in groups}

    own, others = settings(one), settings(other)
    return bool(own) and bool(others) and not own & others


def _presence(log: Log, curves: Curves) -> Iterator[Finding]:
    missing = [metric for metric in METRICS if not curves.of(metric, log.tags)]
    if missing:
        yield advice(
            f"{_of(log)} has no {', '.join(missing)}. Where you log them under other names, say so in the report under "
            "logs[].tags."
        )
    longest = max((len(curve.points) for curve in curves.curves), default=0)
    if longest < FEW_POINTS:
        yield advice(
            f"{_of(log)} has at most {longest} points of a curve; {FEW_POINTS} make one that can be read."
        )
    for curve in curves.of("loss", log.tags):
        if len(curve.points) >= FEW_POINTS and len({point.value for point in curve.points}) == 1:
            yield advice(
                f"{_of(log)}: {safe_line(curve.tag, 40)} is the same at every step. Is it the right number?"
            )


def _out_of_order(report: Report, log: Log, curve: Curve) -> Finding | None:
    if "resumed" in report.declared:
        return None
    for before, after in pairwise(finite(curve)):
        where = f"{_of(log)}: {safe_line(curve.tag, 40)}"
        if after.step < before.step:
            return inconsistent(
                f"{where} goes back from step {before.step} to step {after.step}. Was the training restarted into the same "
                'file? Declare it: "declared": ["resumed"].',
                before=before.step,
                after=after.step,
            )
        if before.time is not None and after.time is not None and after.time < before.time - TIME_SLACK_S:
            return inconsistent(
                f"{where}: step {after.step} was written {before.time - after.time:.6g} s before step {before.step}. If the "
                'training was resumed or several processes wrote this file, declare it: "declared": ["resumed"].',
                before=before.time,
                after=after.time,
            )
    return None


def _run_of(report: Report, log: Log) -> Run | None:
    """The one run that wrote a log, where the report says which."""
    if log.config is None:
        return None
    runs = [
        run
        for group in report.selected(log.config)
        for run in group.runs
        if log.rep is None or run.rep == log.rep
    ]
    return runs[0] if len(runs) == 1 else None


def _time(report: Report, log: Log, run: Run, curves: Curves) -> Iterator[Finding]:
    timed = [
        [point.time for point in finite(curve) if point.time is not None]
        for curve in curves.curves
        if len(curve.points) >= FEW_POINTS
    ]
    times = [time for own in timed for time in own]
    if not times:
        return
    first, last = min(times), max(times)
    elsewhere = last < run.t_start - TIME_SLACK_S or first > run.t_end + TIME_SLACK_S
    too_short = last - first < SPAN * run.seconds - TIME_SLACK_S
    between = run.t_start - TIME_SLACK_S <= first and last <= report.created + CREATED_SLACK_S
    if last - first < TIME_SLACK_S and between and (elsewhere or too_short):
        # A history that was kept in a list and logged in one go: odd, and nothing that contradicts the run.
        yield advice(
            f"{_of(log)} was written at one moment, {first - run.t_start:.6g} s after runs[{run.index}] began: its times say "
            "nothing about the training. Log each value when it is known, or give add_scalar its walltime.",
            span_s=last - first,
        )
    elif elsewhere:
        yield inconsistent(
            f"{_of(log)} was written at another time than runs[{run.index}], the run it is said to be of. Is it the log of "
            "another run?",
            log_first=first,
            log_last=last,
            t_start=run.t_start,
            t_end=run.t_end,
        )
    elif too_short:
        # A first epoch that compiles, or reads from a slow disk, is over when its point is written.
        begins_late = last - run.t_start >= SPAN * run.seconds and first >= run.t_start
        yield (unusual if begins_late else inconsistent)(
            f"{_of(log)} spans {last - first:.6g} s, runs[{run.index}] took {run.seconds:.6g} s; a log of the whole run spans "
            f"at least {SPAN:.0%} of it. "
            + (
                f"It begins {first - run.t_start:.6g} s after the run: what took so long, compiling, or a first epoch that read "
                "from a slow disk? Or is its beginning missing?"
                if begins_late
                else "Was the log cut, or does wall_s hold more than the training?"
            ),
            span_s=last - first,
            wall_s=run.seconds,
        )


def _accuracies(report: Report, log: Log, curves: Curves) -> Iterator[Finding]:
    if log.config is None:
        return
    for claim in report.claims:
        metric = {"accuracy_pct": "acc1", "acc5_pct": "acc5"}.get(claim.what)
        if metric is None or claim.value is None or not _about(report, claim, log):
            continue
        if metric in log.tags:
            candidates: Sequence[Curve] = curves.of(metric, log.tags)
        else:
            # Under which name is open: any curve of an accuracy may be the one.
            first = metric == "acc1"
            candidates = [
                curve
                for curve in curves.curves
                if "acc" in curve.tag.lower() and not (first and "5" in curve.tag)
            ]
        points = [point for curve in candidates for point in finite(curve)]
        if not points or any(_is(claim.value, claim, point) for point in points):
            continue
        # A log of one accuracy says nothing of another: which it holds is known where the report names its tag.
        other = metric not in log.tags or _counted(claim)
        yield (advice if other else inconsistent)(
            f"{claim.name}: this value is nowhere in the log of that run, {safe_line(log.path, 80)}; it ends with "
            f"{points[-1].value:.6g}. Is the accuracy from another run, of other images, or logged under a name that the report "
            "does not give in logs[].tags?",
            claim=claim.value.value,
            last=points[-1].value,
        )


def _counted(claim: Claim) -> bool:
    """Whether a claim brings its own evidence, which C09 looks at."""
    return claim.correct is not None and claim.total is not None and claim.aggregation == "micro"


def _about(report: Report, claim: Claim, log: Log) -> bool:
    """Whether a claim speaks of no other configuration than the log's."""
    assert log.config is not None
    return all(
        same_setting(report.setting(log.config, key), value) for key, value in claim.config.items()
    ) and bool(claim.config)


def _is(stated: Number, claim: Claim, point: Point) -> bool:
    """Whether a logged value, a part or a percentage in float32, is the one stated."""
    whole = 1.0 if claim.unit == "1" else 100.0
    return any(
        stated.agrees_with(value, slack=FLOAT32_ULPS * FLOAT32_EPS * abs(value))
        for value in (point.value, point.value * whole, point.value * whole / 100.0)
    )


def _learning_rate(report: Report, facts: Facts) -> Iterator[Finding]:
    told = report.workload.get("lr")
    if not isinstance(told, dict) or facts.files is None:
        return
    base, schedule, warmup = told.get("base"), told.get("schedule"), told.get("warmup_steps") or 0
    if not isinstance(base, int | float) or not isinstance(warmup, int | float):
        return
    for log in report.logs[:MAX_LOGS]:
        for curve in read_curves(log, facts.files).of("lr", log.tags):
            values = [point for point in finite(curve) if point.step >= warmup]
            if len(values) < 2:
                continue
            where = f"{_of(log)}: {safe_line(curve.tag, 40)}"
            yield from _first_rate(report, where, float(base), str(schedule), bool(warmup), values)
            yield from _course(report, where, str(schedule), values)


def _first_rate(
    report: Report, where: str, base: float, schedule: str, warmed: bool, points: Sequence[Point]
) -> Iterator[Finding]:
    if warmed or schedule in ("onecycle", "other", "plateau"):
        return
    first = points[0].value
    if abs(first - base) > (LR_SLACK + FLOAT32_ULPS * FLOAT32_EPS) * abs(base):
        yield advice(
            f"{where} begins with {first:.6g}, workload.lr.base says {base:g}. With linear scaling by the number of "
            "processes, base is the rate the optimizer was given.",
            first=first,
            base=base,
        )


def _course(report: Report, where: str, schedule: str, points: Sequence[Point]) -> Iterator[Finding]:
    for before, after in pairwise(points):
        slack = (LR_SLACK + FLOAT32_ULPS * FLOAT32_EPS) * abs(before.value)
        change = after.value - before.value
        if schedule == "constant" and abs(change) > slack:
            yield inconsistent(
                f"{where} goes from {before.value:.6g} to {after.value:.6g} at step {after.step}, and workload.lr.schedule says "
                '"constant". Say which schedule it was, or "other"; a warm-up goes into warmup_steps.',
                before=before.value,
                after=after.value,
                step=after.step,
            )
            return
        if schedule in FALLING and change > slack and "resumed" not in report.declared:
            yield advice(
                f"{where} rises from {before.value:.6g} to {after.value:.6g} at step {after.step}; a {schedule} schedule only "
                "falls. With restarts or a warm-up, say so.",
                before=before.value,
                after=after.value,
                step=after.step,
            )
            return


RULES: tuple[Rule, ...] = (
    Rule(
        id="C13",
        demands="A log that the report names is whole, goes forward, spans the run it is of and holds the accuracy that is "
        "claimed for it.",
        threshold=f"checksums exact; steps and times do not go back ({TIME_SLACK_S:g} s for the clock); a curve of {FEW_POINTS} "
        f"points spans {SPAN:.0%} of wall_s, unusual where only its beginning is missing; the claim within its printed decimals or {FLOAT32_ULPS} float32 "
        "eps, advice where it has correct and total or logs[].tags names no acc1; the same "
        f"losses, {FEW} or more of {DIGITS} digits, in the logs of two configurations that train differently: unusual",
        why="TensorBoard stores float32 and stops reading at a damaged record without a word, so that records are read one "
        "by one here. The checksums detect accidents, not intent.",
        honest="Restarted trainings go back: they are declared. A log cut off by a crash is read as far as it goes.",
        examine=_logs,
    ),
    Rule(
        id="C17",
        demands="The learning rate in a log follows the schedule that the report declares.",
        threshold=f"{LR_SLACK:g} of the rate; only a rate that moves under a constant schedule costs",
        why="A schedule may be stepped by the batch or by the epoch, so that only what no stepping explains counts.",
        honest="None known.",
        examine=_learning_rate,
    ),
)
