"""Rules on what happens when the script that a report comes from measures once more (`Rerun`).

Nothing is held against what a busy machine might stretch. What is held up takes at least as long as it was held up,
on any machine, and at most the time from the work before it to the work after it: between these two a reading must
lie, however long it all took. Absolute times are never compared with the report's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate

from lockstep.reports import accounting, claims, clocks, equipment
from lockstep.reports.document import Report, Run
from lockstep.reports.evidence import Holdup, Rerun
from lockstep.reports.finding import Finding, advice, impossible, inconsistent, not_verified, unusual
from lockstep.reports.rule import Facts, Rule
from lockstep.text import listed, safe_line

KINDS = frozenset({"dataloader", "dp_inference", "ddp_scaling"})
"""Reports whose scripts measure something small within seconds."""
MOST_OF_ELAPSED, LEAST_OF_ELAPSED = 1.02, 0.20
RATIO, SLACK = 0.02, 2e-3
"""Two clocks of one machine, and readings that were rounded to milliseconds."""
OVERLAP = 0.5
"""Workers may go on reading after the last batch that counts, or before the first."""
MOMENT = 1.0
"""Seconds by which two clocks of one machine may differ in when something was."""
DIGITS, MANY = 6, 3
SIZE = "dataset_n"


def _x01(report: Report, facts: Facts) -> Iterator[Finding]:
    rerun = facts.rerun
    if rerun is None:
        yield not_verified("The script was not run again.")
    elif rerun.problem:
        yield inconsistent(f"{rerun.command} {rerun.problem}")
    elif rerun.report is None:
        yield inconsistent(f"{rerun.command}: {rerun.form}")
    elif rerun.report.kind != report.kind:
        yield inconsistent(f'{rerun.command} wrote a report of the kind "{rerun.report.kind}".')
    else:
        # Who has written the size of the real data set out tells nothing of the few images of this run.
        written_out = rerun.report.workload.get(SIZE) == report.workload.get(SIZE)
        for rule in (*claims.RULES, *clocks.RULES, *accounting.RULES, *equipment.RULES):
            if rule.kinds is not None and report.kind not in rule.kinds:
                continue
            if written_out and rule.id == accounting.STEPS_OF_AN_EPOCH:
                continue
            for finding in rule.examine(rerun.report, Facts()):
                if finding.judgement.costs:
                    yield inconsistent(
                        f"{rerun.command} wrote a report that contradicts itself ({rule.id}). {finding.message}"
                    )


def _x02(report: Report, facts: Facts) -> Iterator[Finding]:
    for rerun, written in _written(facts):
        total = sum(run.seconds for run in written.runs)
        told = (
            f"{rerun.command}: the readings add up to {total:.3f} s, and the whole script took {rerun.elapsed:.3f} s "
            "by a clock outside of it."
        )
        if not total <= rerun.elapsed * MOST_OF_ELAPSED:
            yield impossible(
                f"{told} Are the readings in seconds, and does each begin where the last one ended?",
                total_s=total,
                elapsed_s=rerun.elapsed,
            )
        elif total < rerun.elapsed * LEAST_OF_ELAPSED:
            if rerun.busy:
                yield not_verified(f"{told} That is little, but {rerun.busy}.")
            else:
                yield unusual(
                    f"{told} Much work beside what is timed explains that; nearly all of the time was in what the "
                    f"script is asked to time.",
                    total_s=total,
                    elapsed_s=rerun.elapsed,
                )


def _x03(report: Report, facts: Facts) -> Iterator[Finding]:
    for rerun, written in _written(facts):
        yield from _more_than_there_was(rerun, written)
        if rerun.unseen:
            yield not_verified(f"{rerun.command}: {rerun.unseen}, so that not all could be counted.")
        runs, held = _seen(rerun, written)
        claimed, counted = sum(run.samples for run in runs), sum(each.items for each in held)
        steps, seen = sum(run.steps for run in runs), len(held)
        what = "read" if report.kind == "dataloader" else "put through a model"
        times = "batches were read" if report.kind == "dataloader" else "calls of a model were made"
        if counted < claimed or seen < steps:
            yield inconsistent(
                f"{rerun.command} reported {claimed} samples in {steps} steps, but {counted} were {what}: {seen} "
                f"{times}. Is a reading used more than once, or `samples` the size of the data set where only a part "
                "of it was timed?",
                claimed=claimed,
                counted=counted,
            )
        elif report.kind == "dataloader":
            yield from _told_in_part(rerun, sorted(runs, key=lambda run: run.t_end))


def _seen(rerun: Rerun, written: Report) -> tuple[list[Run], list[Holdup]]:
    """The runs whose work could be held up and counted, and how it was."""
    if not rerun.unseen:
        return list(written.runs), list(rerun.holdups)
    # Workers that are out of sight leave what is read without any where it was; a run says so, or is left alone.
    alone = [
        run for run in written.runs if written.kind == "dataloader" and run.config.get("num_workers") == 0
    ]
    return alone, [held for held in rerun.holdups if held.in_main]


def _more_than_there_was(rerun: Rerun, written: Report) -> Iterator[Finding]:
    asked = rerun.asked
    for run in written.runs:
        most = min(
            math.inf if asked.step is None else asked.step * run.steps,
            math.inf if asked.run is None else asked.run,
        )
        if run.samples > most:
            yield inconsistent(
                f"{rerun.command} reported {run.samples} samples in {run.steps} steps (rep {run.rep}), and its flags and its "
                f"data allow {most:.0f} at the most. The report has to say what was done in that run: count the samples of "
                "each batch as it comes, and take sizes from the flags.",
                claimed=run.samples,
                most=most,
            )
            return


def _told_in_part(rerun: Rerun, runs: Sequence[Run]) -> Iterator[Finding]:
    """A run that tells of fewer samples than as many batches in a row ever held, wherever in the script they were."""
    held = sorted((each for each in rerun.holdups if each.in_main), key=lambda each: each.start)
    sums = [0, *accumulate(each.items for each in held)]
    for run in runs:
        if _workers(run) or run.steps >= len(sums):
            continue
        fewest = min(after - before for before, after in zip(sums, sums[run.steps :], strict=False))
        if run.samples < fewest:
            yield inconsistent(
                f"{rerun.command} reported {run.samples} samples in {run.steps} steps (rep {run.rep}), but wherever so "
                f"many batches were read, they held {fewest} images or more. Add up the images of all batches of a pass.",
                claimed=run.samples,
                counted=fewest,
            )
            return


def _x04(report: Report, facts: Facts) -> Iterator[Finding]:
    for rerun, written in _written(facts):
        seen, held = _seen(rerun, written)
        main = [each for each in held if each.in_main]
        runs = [run for run in seen if not _workers(run)]
        wrong = first_misfit(runs, main, rerun.start, rerun.end)
        if wrong is not None:
            yield _misfit(rerun, report.kind, wrong, main)
            continue
        if rerun.unseen:
            continue
        busy = sum(each.done - each.start for each in rerun.holdups if not each.in_main)
        given = sum(run.seconds * _workers(run) for run in written.runs if _workers(run))
        if given < OVERLAP * busy:
            yield inconsistent(
                f"{rerun.command}: the readings with workers leave them {given:.3f} s of work, and they worked for "
                f"{busy:.3f} s. Take the time of the whole pass, from before the loop to after its last batch.",
                given_s=given,
                worked_s=busy,
            )


def first_misfit(runs: Sequence[Run], held: Sequence[Holdup], start: float, end: float) -> Run | None:
    """The first of the runs, in the order of the file, that cannot be the time of as many hold-ups as it has steps.

    The hold-ups of one run follow each other, those of a later run come later, and there may be others in between:
    warm-ups, evaluations. Taking the earliest that fit leaves most to the runs that follow.
    """
    ordered = sorted(held, key=lambda each: each.start)
    seconds = [0.0, *accumulate(each.seconds for each in ordered)]
    place = 0
    for run in runs:
        for first in range(place, len(ordered) - run.steps + 1):
            after = first + run.steps
            least = seconds[after] - seconds[first]
            most = (ordered[after].start if after < len(ordered) else end) - (
                ordered[first - 1].done if first else start
            )
            if _between(least, run.seconds, most):
                place = after
                break
        else:
            return run
    return None


def _between(least: float, reading: float, most: float) -> bool:
    # Written so that anything incomparable is not.
    return least <= reading * (1 + RATIO) + SLACK and reading <= most * (1 + RATIO) + SLACK


def _misfit(rerun: Rerun, kind: str, run: Run, main: Sequence[Holdup]) -> Finding:
    what = "batches" if kind == "dataloader" else "calls of the model"
    shortest = sum(sorted(each.seconds for each in main)[: run.steps])
    longest = sum(sorted(each.seconds for each in main)[-run.steps :]) if run.steps else 0.0
    told = (
        f"{rerun.command}, where each of the {what} was made to take longer by another known time: the reading of "
        f"{run.seconds:.4f} s for {run.steps} of them (rep {run.rep}) fits none that were made. They were held up for "
        f"{shortest:.4f} to {longest:.4f} s."
    )
    return inconsistent(
        f"{told} Read the clock (time.perf_counter) right before and right after the work of each repetition: "
        "time.process_time does not count waiting, and a mean over all is no reading.",
        reading_s=run.seconds,
    )


def _x05(report: Report, facts: Facts) -> Iterator[Finding]:
    for rerun, written in _written(facts):
        old = [
            run
            for run in written.runs
            if run.t_start < rerun.began - MOMENT or run.t_end > rerun.ended + MOMENT
        ]
        if old:
            yield inconsistent(
                f"{rerun.command} wrote {len(old)} of {len(written.runs)} readings that were not taken in that run, going "
                "by their t_start and t_end. These are time.time() right before and after what is timed; is an older "
                "file read back in?",
                old=len(old),
            )
            continue
        before = {run.wall.text for run in report.runs if _telling(run)}
        same = sorted({run.wall.text for run in written.runs if _telling(run)} & before)
        if same:
            told = (
                f"{rerun.command}, run on another machine, gave {len(same)} of the readings of the report again to the "
                f"last digit, {safe_line(', '.join(same[:2]), 80)} among them. Is a file with earlier readings merged "
                "into the new one?"
            )
            yield (inconsistent if len(same) >= MANY else unusual)(told, same=len(same))


def _telling(run: Run) -> bool:
    return run.wall.digits >= DIGITS


def _x06(report: Report, facts: Facts) -> Iterator[Finding]:
    if facts.rerun is None:
        return
    source = facts.rerun.source
    if source.reassigned:
        told = "; ".join(
            f"{safe_line(name, 40)} in {safe_line(place, 60)}" for name, place in source.reassigned[:3]
        )
        yield unusual(
            f"The source gives clocks or waits another meaning ({told}). A profiler or a test helper may do so, too.",
            places=len(source.reassigned),
        )
    written_out = [run.wall.text for run in report.runs if _telling(run) and run.seconds in source.numbers]
    if written_out:
        yield unusual(
            f"{len(written_out)} readings of the report are written out in the source, such as "
            f"{safe_line(written_out[0], 30)}. Numbers kept for comparison belong beside the script, not in it.",
            readings=len(written_out),
        )


def _x07(report: Report, facts: Facts) -> Iterator[Finding]:
    if facts.rerun is None:
        return
    source = facts.rerun.source
    # A loader works on the CPU; of a GPU its script only asks whether there is one.
    on_gpu = source.uses_gpu and report.kind != "dataloader"
    if source.reads_clock and on_gpu and not source.waits_for_gpu:
        yield advice(
            "The script reads a clock and uses a GPU, but never waits for it: torch.cuda.synchronize() before each "
            "reading, or the clock says how long the GPU took to be told."
        )
    if source.shuffles_by_rank and not source.sets_epoch:
        yield advice(
            "A DistributedSampler without sampler.set_epoch(epoch) gives every epoch the order of the first."
        )
    if source.softmax_before_loss:
        yield advice("CrossEntropyLoss takes logits: a softmax before it is one too many.")


def _x08(report: Report, facts: Facts) -> Iterator[Finding]:
    for rerun, written in _written(facts):
        if rerun.loaders is None or rerun.unseen:
            continue
        # More workers than there are batches have nothing to do, and need not be started.
        told = {_workers(run) for run in written.runs if 0 < _workers(run) <= run.steps}
        if missing := sorted(told - rerun.loaders):
            yield inconsistent(
                f"{rerun.command} reported passes with num_workers={_numbers(missing)}, and no DataLoader that was read had "
                f"so many workers; there were some with num_workers={_numbers(sorted(rerun.loaders))}. That number is fixed "
                "when a loader is made: make a new one for every number that is compared, with that number.",
                missing=len(missing),
            )


def _numbers(numbers: Sequence[int]) -> str:
    return listed([str(number) for number in numbers])


def _written(facts: Facts) -> Iterator[tuple[Rerun, Report]]:
    """The re-run with its report, where it came to one."""
    if facts.rerun is not None and not facts.rerun.problem and facts.rerun.report is not None:
        yield facts.rerun, facts.rerun.report


def _workers(run: Run) -> int:
    """Processes beside the script's own that did the work of a run."""
    workers = run.config.get("num_workers")
    return workers if isinstance(workers, int) else 0


RULES: tuple[Rule, ...] = (
    Rule(
        id="X01",
        demands="The script that a report comes from runs, and writes a report that does not contradict itself.",
        threshold="Ends with status 0; the file is a perf-report/1 of the same kind; the rules on claims, clocks, accounting and equipment.",
        why="A report is the output of code that was handed in with it; without that, its numbers are only told.",
        honest="A script that was changed after measuring, or that needs what only its author has.",
        examine=_x01,
        kinds=KINDS,
    ),
    Rule(
        id="X02",
        demands="Together the readings take no longer than the script, and not much less than what it is asked to do.",
        threshold=f"At most {MOST_OF_ELAPSED:g} of the seconds outside; below {LEAST_OF_ELAPSED:.0%} is unusual.",
        why="A stopwatch outside cannot be patched; 2 % are for two clocks and for rounding.",
        honest="Above: none. Below: scripts with much preparation, and all scripts on a busy machine.",
        examine=_x02,
        kinds=KINDS,
    ),
    Rule(
        id="X03",
        demands="As much was read, or put through a model, as the report counts.",
        threshold="Counted items and calls are not fewer than samples and steps; more are fine: warm-ups, evaluations. A "
        "run of a loader without workers has at least the samples of the emptiest batches in a row it may have read. No "
        "run has more than the flags and the data allow.",
        why="Counted by hooks that were there before the script.",
        honest="Workers that are spawned, not forked, are not seen: only what is read without workers is counted then.",
        examine=_x03,
        kinds=KINDS,
    ),
    Rule(
        id="X04",
        demands="Readings follow delays that the script does not know.",
        threshold=(
            f"Each lies between the time its steps were held up and the time between the steps around them, "
            f"{RATIO:.0%} and {SLACK * 1000:g} ms off at most. With workers: they cannot have worked longer than all "
            f"of them had time to, {OVERLAP:g} of it at least."
        ),
        why="A sleep never ends early and a reading never exceeds what surrounds it, however busy the machine is.",
        honest="None: timers that leave out reading the data are not asked about it, only the loader's are.",
        examine=_x04,
        kinds=KINDS,
    ),
    Rule(
        id="X05",
        demands="Another execution gives other readings, taken while it ran.",
        threshold=(
            f"t_start and t_end within the run and {MOMENT:g} s; {MANY} equal readings of {DIGITS} digits, fewer are "
            "unusual."
        ),
        why="Two runs never agree in six digits by more than chance.",
        honest="A script that adds to the file it finds; the re-run starts without one.",
        examine=_x05,
        kinds=KINDS,
    ),
    Rule(
        id="X06",
        demands="The source leaves clocks and waits what they are, and holds none of the readings.",
        threshold="Any assignment to a name of time, to torch.cuda.synchronize or to an event's elapsed_time.",
        why="Read, not run: what a person should look at.",
        honest="Rare: profilers, helpers that stop the clock in tests.",
        examine=_x06,
        kinds=KINDS,
    ),
    Rule(
        id="X07",
        demands="The timing is done with care: the GPU waited for, epochs reshuffled, logits for the loss.",
        threshold="Names in the source.",
        why="The usual slips behind fast GPUs and flat curves.",
        honest="Common, and never more than advice.",
        examine=_x07,
        kinds=KINDS,
    ),
    Rule(
        id="X08",
        demands="For every number of workers that is told, a loader with so many was read.",
        threshold="A DataLoader with just that number, where a pass has as many batches or more.",
        why="Torch's own loader says when a pass begins; with one loader for all numbers nothing was compared.",
        honest="Nothing is said of loaders of other classes, of workers that are spawned, and of scripts that ask what the machine has.",
        examine=_x08,
        kinds=frozenset({"dataloader"}),
    ),
)
