"""The judge of exercise 3, the script: whether its report holds what was asked for, measured in that run."""

from __future__ import annotations

import numpy as np

from graders.data_parallel import calls, inference
from graders.data_parallel.crashes import observe
from graders.data_parallel.noted import config_value, steps
from lockstep.check import Check
from lockstep.compare import elements, integer, number, shown
from lockstep.helptexts import answers_help
from lockstep.ownfolder import lacks_a_file
from lockstep.refusedoptions import refused
from lockstep.reports import format as perf_report
from lockstep.reports.clocks import longer_than_its_span
from lockstep.reports.document import document
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.slips import slip
from lockstep.text import last_lines
from lockstep.verdict import CheckEnded
from lockstep.wire import Json

REPORT = "reports/data_parallel.json"
OTHER_REPORT = "reports/two_gpus.json"
# More than the template's constant, so that whoever sees to a least number still has another with --n-reps 1.
MANY = (21, 26)
# On two GPUs.
BATCH = 4
MISSING = (4, 3)
ON_ANOTHER_DEVICE = "must have its parameters and buffers on device"


def test_report(check: Check) -> None:
    """The script times what it is asked to, on the GPUs that are there, and writes a valid perf-report/1."""
    sizes = [int(size) for size in check.rng.choice(np.arange(1, 7), 2, replace=False)]
    n_reps = int(check.rng.integers(*MANY))
    asked = f"--batch-sizes {sizes[0]} {sizes[1]} --n-reps {n_reps} --devices 1 2 --report {REPORT}"
    call = f"`python data_parallel.py {asked}`"
    outcome = observe(
        check,
        "script",
        values={"arguments": list(asked.split()), "report": REPORT, "gpus": 0, "delay": inference.DELAY},
    )
    seen = outcome.ranks[0]
    check.expect(
        integer(seen.values.get("status")) == 0,
        f"{call} ended with status {shown(seen.values.get('status'))}. Its last lines: {last_lines(seen.output)}",
        "Run the same line in a terminal; no GPU is needed for it.",
    )
    written = seen.arrays.get("report")
    if written is None or written.dtype != np.uint8:
        check.fail(
            f"{call} left no {REPORT}. Its last lines: {last_lines(seen.output)}",
            "Measure each batch size on what there is, a CPU counts as one device, and write it where --report says: "
            "write_report in perf_report.py does.",
        )
    report = perf_report.read(written.tobytes())
    kind = report.get("report") if isinstance(report, dict) else None
    check.expect(
        not isinstance(kind, str) or kind == "dp_inference",
        f'{call} wrote a report of the kind {shown(kind)}, expected "dp_inference".',
        "The kind is write_report's second argument.",
    )
    problems = [report] if isinstance(report, str) else perf_report.schema_problems(report)
    if isinstance(report, str) or problems:
        check.fail(
            f"{call} wrote a report that is no valid perf-report/1. {' '.join(problems[:3])}",
            "The repr of a number of NumPy's has its type around it, np.float64(0.5): write repr(float(seconds))."
            if b"np.float" in written.tobytes()
            else "Let write_report in perf_report.py write it; it is given. What it is handed it writes as it is: the field "
            "that is named may be among that.",
        )
    runs = [run for run in elements(report["runs"]) if isinstance(run, dict)]
    _measured(check, call, runs, sizes, n_reps)
    elsewhen = _taken_elsewhen(runs, outcome)
    check.expect(
        elsewhen is None,
        f"{call} wrote readings that were not taken in that run: {elsewhen}.",
        "t_start and t_end are time.time(), seconds since 1970, right before and after what is timed. Measure anew in each "
        "run, and write no times that an earlier run kept.",
    )
    calls.were_made(check, call, seen, runs, sizes, n_reps)
    calls.are_of_that_network(check, call, seen, report, runs, sizes)
    too_long = next(longer_than_its_span(document(report)), None)
    check.expect(
        too_long is None,
        f"{call} wrote a reading that cannot be. {too_long.message if too_long else ''}",
        "A reading takes no longer than the time between its t_start and its t_end, both in seconds.",
        points=check.points / 2,
    )
    _minds_missing_gpus(check, call, report, runs)
    inference.as_time_inference_does(check, call, seen, sizes, n_reps, steps(runs))
    inference.readings_are_long_enough(check, call, seen, document(report))
    inference.readings_are_read_each(check, call, document(report))
    answers_help(check, seen, "data_parallel.py")
    _uses_gpus(check, n_reps, {_readings(runs, size, 1) for size in sizes})
    _needs_no_report(check, asked.removesuffix(f" --report {REPORT}"))


def _needs_no_report(check: Check, asked: str) -> None:
    """The script comes to its end where it is asked for no report, with all that it was `asked` before."""
    values: dict[str, Json] = {"arguments": list(asked.split()), "report": REPORT, "gpus": 0, "delay": 0.0}
    hint = "Is a report written even where none is asked for? Write it under `if args.report:`."
    try:
        seen = check.run("script", values=values).ranks[0]
    except CheckEnded as ended:
        message = ended.feedback.message
        if lacks_a_file(message):
            return
        raise type(ended)(
            f"With --report {REPORT} the script runs, and not without: {message}",
            hint,
            points=check.points / 2,
        ) from None
    check.expect(
        integer(seen.values.get("status")) == 0,
        f"`python data_parallel.py {asked}` ended with status {shown(seen.values.get('status'))}. With --report {REPORT} it "
        f"runs. Its last lines: {last_lines(seen.output)}",
        refused(last_lines(seen.output)) or hint,
        points=check.points / 2,
    )


def _uses_gpus(check: Check, n_reps: int, readings: set[int]) -> None:
    """On GPUs somebody has to put the weights where nn.DataParallel looks for them, and the model is to run on all.

    `readings` are how many there were of each batch size with `n_reps`.
    """
    # Numbers that the machine does not have come first.
    call, outcome = _on_two_gpus(check, " ".join(map(str, (*MISSING, 2, 1))))
    seen = outcome.ranks[0]
    asked_for_missing = _called(seen)
    if not asked_for_missing:
        failed, (call, outcome) = call, _on_two_gpus(check, "2 1")
        seen = outcome.ranks[0]
        check.expect(
            not _called(seen),
            f"{failed} called no model. With --devices 2 1 it does.",
            f"Where there are no {MISSING[-1]} GPUs there may be 2: note what is missing in not_available and go on with the "
            "next number (`continue`); `break`, `return` and an exception end everything.",
            points=check.points / 2,
        )
    error = seen.error
    written_wrong = slip(check, error)
    if written_wrong is not None:
        check.fail(
            f"{call} ended with {written_wrong.message}. Without a GPU it comes to its end.",
            written_wrong.hint,
            points=check.points / 2,
        )
    # Whatever else may be wrong there is not asked: GPUs are emulated, and the checks above try the functions on them.
    check.expect(
        error is None or ON_ANOTHER_DEVICE not in error.message,
        f"{call}: the weights of the model are not on the first of its GPUs when the nn.DataParallel is called.",
        'Put the weights on the first device before the first call: model.to(f"cuda:{device_ids[0]}"). From there each '
        "call copies them to the others.",
        points=check.points / 2,
    )
    written = seen.arrays.get("report")
    if error or integer(seen.values.get("status")) != 0:
        return
    report = perf_report.read(written.tobytes()) if written is not None and written.dtype == np.uint8 else ""
    if isinstance(report, str) or perf_report.schema_problems(report):
        return
    runs = [run for run in elements(report["runs"]) if isinstance(run, dict)]
    if any((number(run.get("t_start")) or 0.0) < outcome.began_at - 1 for run in runs):
        return  # handed in, not written now
    check.expect(
        seen.values.get("as_asked") is True,
        f"{call} wrote its report to {REPORT}, and none to {OTHER_REPORT}.",
        "Hand --report on: write_report(args.report, ...).",
        points=check.points / 2,
    )
    # What goes on until the time is up has another number each time.
    check.expect(
        readings != {_readings(runs, BATCH, 1)},
        f"{call} wrote {_readings(runs, BATCH, 1)} readings with n_devices 1, as many as with --n-reps {n_reps}.",
        "Hand --n-reps on: time_inference(model, batch, args.n_reps).",
        points=check.points / 2,
    )
    # Processes of the script's own know of no emulated GPUs.
    if seen.values.get("by_children") is not False:
        return
    missing = [entry for entry in elements(report.get("not_available")) if isinstance(entry, dict)]
    told = {config_value(entry, "n_devices") for entry in [*runs, *missing]}
    untold = [n_devices for n_devices in MISSING if n_devices not in told]
    check.expect(
        not asked_for_missing or not untold,
        f"{call}: the report says nothing of n_devices {' and '.join(map(str, untold))}, neither in `runs` nor in "
        "not_available.",
        "Hand --devices on: `for n_devices in args.devices`. Each number that the machine does not have goes into "
        "not_available, on a machine with GPUs as well.",
        points=check.points / 2,
    )
    inference.waits_as_time_inference_does(check, call, seen)
    largest = integer(seen.values.get("largest_part"))
    check.expect(
        not _readings(runs, BATCH, 1) or largest is None or largest >= BATCH,
        f"{call} wrote readings with n_devices 1, but every batch of {BATCH} was split: no GPU got more than {largest} images "
        "of it.",
        "Wrap the model for the GPUs that are compared, make_data_parallel(model, list(range(n_devices))): without numbers "
        "nn.DataParallel takes all there are.",
        points=check.points / 2,
    )
    places = [place[:20] for place in elements(seen.values.get("places")) if isinstance(place, str)]
    if any(config_value(run, "n_devices") == 2 for run in runs):
        check.expect(
            len(places) > 1,
            f"{call} wrote readings with n_devices 2, and every model was called on {places[0] if places else 'the CPU'} alone.",
            "Time what make_data_parallel returns for these GPUs: it splits every batch over them.",
            points=check.points / 2,
        )
    else:
        # Whoever tried them and failed may have met what the emulation lacks.
        untouched = seen.values.get("second_used") is False and seen.values.get("asks_elsewhere") is False
        check.expect(
            not untouched,
            f"{call} wrote no reading with n_devices 2, and put nothing on the second GPU.",
            "Ask torch.cuda.device_count() how many GPUs there are. A number that is written out fits one machine only.",
            points=check.points / 2,
        )


def _on_two_gpus(check: Check, devices: str) -> tuple[str, Outcome]:
    """The script on a machine with two GPUs: how it was called, for a message, and what was seen."""
    asked = f"--batch-sizes {BATCH} --n-reps 1 --devices {devices} --report {OTHER_REPORT}"
    values: dict[str, Json] = {
        "arguments": list(asked.split()),
        "report": OTHER_REPORT,
        "gpus": 2,
        "delay": 0.0,
    }
    outcome = check.run("script", values=values, expect=False)
    return f"`python data_parallel.py {asked}` on a machine with 2 GPUs", outcome


def _called(seen: RankOutcome) -> bool:
    """Whether a model was called, or may have been where it is not seen."""
    return bool(elements(seen.values.get("calls"))) or seen.values.get("by_children") is True


def _taken_elsewhen(runs: list[dict[str, Json]], outcome: Outcome) -> str | None:
    """The first moment of the readings that is not one of the script's run, and when that was."""
    begun, ended = outcome.began_at, outcome.ended_at
    for place, run in enumerate(runs):
        for name in ("t_start", "t_end"):
            at = number(run.get(name))
            if at is None or not begun - 1 <= at <= ended + 1:
                said = shown(run.get(name)) if at is None else f"{at:.13g}"
                return f"runs[{place}].{name} is {said}, and the script ran from {begun:.3f} to {ended:.3f}"
    return None


def _measured(check: Check, call: str, runs: list[dict[str, Json]], sizes: list[int], n_reps: int) -> None:
    """Every batch size was measured with one device, at least n_reps calls of it."""
    for size in sizes:
        count = _readings(runs, size, 1)
        check.expect(
            count >= n_reps,
            f"{call} wrote {count} readings with batch_size {size} and n_devices 1, expected at least {n_reps}.",
            "Every reading of every batch size goes into `runs`; a CPU counts as one device.",
        )


def _minds_missing_gpus(
    check: Check, call: str, report: dict[str, Json], runs: list[dict[str, Json]]
) -> None:
    hint = 'Measure what is there and pass not_available=[{"config": {"n_devices": 2}, "reason": "..."}] to write_report.'
    check.expect(
        not any((config_value(run, "n_devices") or 0) > 1 for run in runs),
        f"{call} ran on a machine without a GPU, and the report holds readings with more than one device.",
        hint,
        points=check.points / 2,
    )
    missing = [entry for entry in elements(report.get("not_available")) if isinstance(entry, dict)]
    reasons = [entry.get("reason") for entry in missing if config_value(entry, "n_devices") == 2]
    check.expect(
        # A dash is none.
        any(isinstance(reason, str) and any(map(str.isalpha, reason)) for reason in reasons),
        f"{call} ran on a machine without a GPU, and the report does not say why there is nothing for two devices.",
        hint,
        points=check.points / 2,
    )


def _readings(runs: list[dict[str, Json]], batch_size: int, n_devices: int) -> int:
    """How many there are of one configuration."""
    wanted = {"batch_size": batch_size, "n_devices": n_devices}
    return steps([run for run in runs if all(config_value(run, name) == wanted[name] for name in wanted)])
