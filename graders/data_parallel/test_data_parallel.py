"""Exercise 3: nn.DataParallel around a hidden model, and a timer that is given calls of known durations.

Several GPUs are emulated: real scatter, replicas and gather, on tensors that refuse to mix devices. What comes
out is held against the bare model, computed here.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from graders.data_parallel import expected, timing
from graders.data_parallel.timing import Complaint, Session
from lockstep.check import Check
from lockstep.compare import difference, integer, number, shown
from lockstep.reports import format as perf_report
from lockstep.reports.accounting import longer_than_its_span
from lockstep.reports.document import document
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.verdict import CheckEnded, Crashed
from lockstep.wire import Json

# Sums over other blocks of the same numbers differ by about 1e-7 of their size.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
REPORT = "reports/data_parallel.json"
# Kinds of crashes, by words of their messages, and what to do about them.
CRASHES = {
    "process group": "DistributedDataParallel is another exercise: it needs a process for each GPU. Here one process serves "
    "them all: nn.DataParallel.",
    "channels, but got": "The batch is split, and that is the first dimension: nn.DataParallel(..., dim=0), which is the default.",
    "Caught ": "Each replica runs in a thread of its own, on one GPU, and ends with the call. It shares with the model what "
    "is put on the instance: a function there, such as a replaced `forward`, still means the first GPU's weights.",
    "'Net' object has no attribute": "What a replica's forward, or a hook on it, keeps in `self` is lost after the call: replicas are made anew "
    "for each. Work with what forward returns.",
    "is invalid for input of size": "A batch may have any size, and each GPU sees a part of it: take the size from the tensor, "
    "or use -1, where you reshape.",
    "device not ready": "Call torch.cuda.synchronize() before Event.elapsed_time: until the GPU has reached both events, "
    "there is no time between them.",
    "NVIDIA driver": "Ask torch.cuda.is_available() before anything that needs a GPU.",
}
ON_ANOTHER_DEVICE = "must have its parameters and buffers on device"
WRAP_HINT = "make_data_parallel has to return nn.DataParallel(model, device_ids=device_ids)."


def observe(check: Check, call: str, **inputs: Any) -> Outcome:
    """check.run, with hints for the crashes that are usual in this exercise."""
    try:
        return check.run(call, **inputs)
    except Crashed as crashed:
        told = crashed.feedback
        hints = [hint for words, hint in CRASHES.items() if words in told.message]
        ended = Crashed(told.message, hints[0] if hints else told.hint)
        ended.spoils = crashed.spoils
        raise ended from None


# The wrapper


def test_is_data_parallel(check: Check) -> None:
    """make_data_parallel returns an nn.DataParallel around the given model, over the given devices."""
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    devices = [int(device) for device in check.rng.permutation(3)]
    bare_without_gpu = False
    for gpus, asked in ((0, [None]), (3, [None, devices[:2], devices[2:]])):
        seen = observe(
            check,
            "wrap",
            values={"shape": shape, "gpus": gpus, "device_ids": asked},
            arrays=expected.as_inputs(weights),
        ).ranks[0]
        answers = [answer for answer in _list(seen.values.get("wrapped")) if isinstance(answer, dict)]
        for device_ids, wrapped in zip(asked, [*answers, *[{}] * len(asked)], strict=False):
            if gpus == 0 and wrapped.get("kind") == "the bare model":
                bare_without_gpu = True
                continue
            _wraps_the_model(check, wrapped)
            found = wrapped.get("device_ids")
            wanted = list(range(gpus)) if device_ids is None else device_ids
            call = f"make_data_parallel(model{'' if device_ids is None else f', {device_ids}'})"
            check.expect(
                gpus == 0 or found == wanted,
                f"{call} on a machine with {gpus} GPUs works on the devices {_listed(found)}, expected {wanted}.",
                "Pass the argument on: nn.DataParallel(model, device_ids=device_ids); with None it takes all GPUs there are. "
                "Numbers that are written out fit one machine only.",
                points=check.points / 2,
            )
            # Whether the function moves them at all is its own business.
            places = wrapped.get("weights")
            check.expect(
                gpus == 0 or places == ["cpu"] or places == [f"cuda:{wanted[0]}"],
                f"{call} on a machine with {gpus} GPUs put the model's weights on {_listed(places)}. nn.DataParallel wants "
                f"them on the first of its devices, cuda:{(wanted or [0])[0]}, and raises otherwise.",
                'parallel.to(f"cuda:{parallel.device_ids[0]}") fits every list of devices.',
                points=check.points / 2,
            )
    check.expect(
        not bare_without_gpu,
        "make_data_parallel(model) on a machine without a GPU returned the bare model, expected an nn.DataParallel.",
        "nn.DataParallel needs no `if`: without a GPU it hands every batch to the model, and what comes back has a "
        "`.module` on every machine.",
        points=check.points / 2,
    )


def _wraps_the_model(check: Check, wrapped: dict[str, Json]) -> None:
    kind, inner = wrapped.get("kind"), wrapped.get("inner")
    if wrapped.get("parallel") is not True:
        check.fail(
            f"make_data_parallel(model) returned {kind[:80] if isinstance(kind, str) else 'something else'}, expected "
            "an nn.DataParallel around the model.",
            CRASHES["process group"] if kind == "a DistributedDataParallel" else WRAP_HINT,
        )
    if inner != "the model":
        what = inner[:80] if isinstance(inner, str) else "something else"
        hints = {
            "a class": "nn.DataParallel(FashionCNN) takes a class without a word; wrap the model that is passed in.",
            "a DataParallel": "One nn.DataParallel is enough: a second one would split what is split already.",
        }
        check.fail(
            f"make_data_parallel(model) returned an nn.DataParallel, but not around the model: its `.module` is {what}.",
            hints.get(
                what,
                f"Wrap the very model that is passed in, neither a copy nor one of your own. {WRAP_HINT}",
            ),
        )


def _listed(found: Json) -> str:
    return f"[{', '.join(shown(item) for item in found[:8])}]" if isinstance(found, list) else "of no list"


def test_same_output(check: Check) -> None:
    """On a machine without a GPU the wrapped model gives the model's own outputs, for batches of any size."""
    sizes = [
        int(size) for size in check.rng.permutation([1, 2, 8, *check.rng.choice([3, 5, 7, 9, 11], 2, False)])
    ]
    # Many wrap the model only where there are several GPUs; what that costs is another check's business.
    if _same(check, sizes, gpus=0) is None and _same(check, sizes, gpus=2) is None:
        check.fail("make_data_parallel(model) returned no nn.DataParallel that could be tried.", WRAP_HINT)


def test_splits_like_devices(check: Check) -> None:
    """On several GPUs (emulated where there are none) every batch is split, and the outputs are the model's own."""
    for gpus in (2, 3):
        sizes = [
            int(size)
            for size in check.rng.permutation([1, 2, gpus + 1, 6, *check.rng.choice([5, 7, 9, 11], 2, False)])
        ]
        parts = _same(check, sizes, gpus)
        if parts is None:
            check.fail(
                "make_data_parallel(model) returned no nn.DataParallel that could be tried.", WRAP_HINT
            )
        for size, places in zip(sizes, parts, strict=True):
            check.expect(
                size == 1 or len(places) > 1,
                f"On {gpus} GPUs a batch of {size} images was not split: the model saw it on "
                f"{', '.join(sorted(places)) or 'no GPU'} alone.",
                "Call the nn.DataParallel itself: the model inside, `.module`, knows of one GPU only.",
            )


def _same(check: Check, sizes: list[int], gpus: int) -> list[dict[str, int]] | None:
    """Hold the wrapped model's outputs against the bare model's; return the rows that each device saw, by batch.

    None where there is no wrapped model.
    """
    shape = expected.make_shape(check.rng)
    weights = expected.make_weights(check.rng, shape)
    batches = expected.make_batches(check.rng, shape, sizes)
    seen = observe(
        check,
        "forward",
        values={"shape": shape, "gpus": gpus},
        arrays={**expected.as_inputs(weights), **batches},
    ).ranks[0]
    if seen.values.get("parallel") is not True:
        return None
    kinds, parts = seen.values.get("kinds"), seen.values.get("parts")
    place = f"on {gpus} GPUs" if gpus else "on a machine without a GPU"
    found = []
    for (name, batch), size in zip(batches.items(), sizes, strict=True):
        kind = kinds.get(name) if isinstance(kinds, dict) else None
        output = seen.arrays.get(name)
        call = f"The wrapped model {place}, given a batch of {size} (the batches had {', '.join(map(str, sizes))} images)"
        check.expect(
            output is not None,
            f"{call}, returned {kind[:80] if isinstance(kind, str) else 'nothing'}, expected a tensor.",
            "nn.DataParallel gathers the parts' outputs in order, along the batch: return what it returns.",
        )
        problem = difference(output, expected.outputs(shape, weights, batch), what="the output", **CLOSE)
        check.expect(
            problem is None,
            f"{call}: {problem}, held against the bare model.",
            _why_different(gpus, len(output) if output is not None and output.ndim else 0, size),
        )
        rows = _rows(parts.get(name) if isinstance(parts, dict) else None)
        check.expect(
            gpus == 0 or sum(rows.values()) == size,
            f"{call}: the model saw {sum(rows.values())} images.",
            "Every image goes through the model once.",
        )
        found.append(rows)
    return found


def _why_different(gpus: int, rows: int, size: int) -> str:
    if gpus:
        return (
            "Each GPU sees a part of the batch, in a replica that ends with the call. What forward keeps in `self`, in a list or "
            "in a closure is lost, or that of one part; and only gather knows the order of the parts."
        )
    if rows != size:
        return "A batch may have any size, one image among them: nothing is cut off, filled up or squeezed."
    return "Return what the model returns, as it is."


def _rows(parts: Json) -> dict[str, int]:
    """How many rows each device saw, or how many calls each size of a batch got."""
    rows: dict[str, int] = {}
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, list) and len(part) == 2 and isinstance(part[0], str):
            rows[part[0][:20]] = rows.get(part[0][:20], 0) + (integer(part[1]) or 0)
    return rows


# The clock


def test_timing_is_sound(check: Check) -> None:
    """time_inference returns the seconds of each call: after a warm-up, in eval mode, without gradients, synchronised."""
    found = _timed(check, on_gpu=True, first=(0.15, 0.2), others=(0.02, 0.06))
    try:
        found += _timed(check, on_gpu=False, first=(0.04, 0.06), others=(0.01, 0.03))
    except CheckEnded as ended:
        found.append(
            Complaint(
                f"On a GPU time_inference works. On a machine without one: {ended.feedback.message}",
                'Wait for a GPU only where there is one: `if device.type == "cuda": torch.cuda.synchronize()`.',
                1 / 3,
            )
        )
    # The same slip on both machines is one slip, told of the first.
    slips = {complaint.hint: complaint for complaint in reversed(found)}
    if slips:
        told = [slips[hint] for hint in dict.fromkeys(complaint.hint for complaint in found)]
        check.fail(
            "\n".join(complaint.message for complaint in told),
            "\n".join(complaint.hint for complaint in told),
            points=round(check.points * max(0.0, 1 - sum(complaint.share for complaint in told)), 2),
        )


def _timed(
    check: Check, *, on_gpu: bool, first: tuple[float, float], others: tuple[float, float]
) -> list[Complaint]:
    """What is wrong with time_inference where each call takes a time that is drawn here, the first a longer one."""
    n_reps, rows = int(check.rng.integers(5, 8)), int(check.rng.integers(3, 9))
    delays = [float(check.rng.uniform(*first)), *map(float, check.rng.uniform(*others, 63))]
    batch = check.rng.standard_normal((rows, 1, 4, 4)).astype(np.float32)
    outcome = observe(
        check,
        "time_calls",
        values={"gpus": int(on_gpu), "delays": delays, "n_reps": n_reps, "again": not on_gpu},
        arrays={"batch": batch},
    )
    noted = _list(outcome.ranks[0].values.get("sessions"))
    sessions, read, kinds = [], [], []
    for entry in noted:
        values = entry if isinstance(entry, dict) else {}
        calls, returned = timing.parse_calls(values.get("calls")), number(values.get("returned"))
        if calls is None or returned is None:
            break
        waited = values.get("waited") is True
        sessions.append(Session(n_reps, rows, delays, on_gpu, calls, returned, waited))
        read.append(timing.parse_readings(values.get("kind"), values.get("readings"), n_reps))
        kinds += timing.of_kind(values.get("kind"), n_reps)
    if len(sessions) != (1 if on_gpu else 3):
        return [
            Complaint(
                "What the model saw did not come back as it was noted.", "Leave the grader's objects alone."
            )
        ]
    if isinstance(read[0], Complaint):
        return [read[0]]
    found = timing.complaints(sessions[0], read[0]) + kinds[:1]
    if not any(complaint.share == 1 for complaint in found):
        found += timing.later(sessions[1:], read[1:], [complaint.hint for complaint in found])
    if not any(complaint.share == 1 for complaint in found):
        readings = [reading for one in read if not isinstance(one, Complaint) for reading in one]
        found += timing.outside(sessions, readings, outcome.elapsed)
    return found


# The script


def test_report(check: Check) -> None:
    """The script times what it is asked to, on the GPUs that are there, and writes a valid perf-report/1."""
    sizes = [int(size) for size in check.rng.choice(np.arange(1, 7), 2, replace=False)]
    n_reps = int(check.rng.integers(2, 5))
    asked = f"--batch-sizes {sizes[0]} {sizes[1]} --n-reps {n_reps} --devices 1 2 --report {REPORT}"
    call = f"`python data_parallel.py {asked}`"
    begun = time.time()
    seen = observe(check, "script", values={"arguments": list(asked.split()), "gpus": 0}).ranks[0]
    ended = time.time()
    check.expect(
        integer(seen.values.get("status")) == 0,
        f"{call} ended with status {shown(seen.values.get('status'))}. Its last lines: {_tail(seen.output)}",
        "Run the same line in a terminal; no GPU is needed for it.",
    )
    written = seen.arrays.get("report")
    if written is None or written.dtype != np.uint8:
        check.fail(
            f"{call} left no {REPORT}.", "Write it where --report says: write_report in perf_report.py does."
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
            "Let write_report in perf_report.py write it; it is given.",
        )
    runs = [run for run in _list(report["runs"]) if isinstance(run, dict)]
    _measured(check, call, runs, sizes, n_reps)
    times = [number(run.get(name)) for run in runs for name in ("t_start", "t_end")]
    check.expect(
        all(at is not None and begun - 1 <= at <= ended + 1 for at in times),
        f"{call} wrote readings that were not taken in that run, going by their t_start and t_end.",
        "t_start and t_end are time.time() right before and after what is timed; measure anew in each run.",
    )
    _calls_were_made(check, call, seen, sizes, n_reps)
    too_long = next(longer_than_its_span(document(report)), None)
    check.expect(
        too_long is None,
        f"{call} wrote a reading that cannot be. {too_long.message if too_long else ''}",
        "A reading takes no longer than the time between its t_start and its t_end, both in seconds.",
        points=check.points / 2,
    )
    _minds_missing_gpus(check, call, report, runs)
    _uses_gpus(check)


def _uses_gpus(check: Check) -> None:
    """On GPUs somebody has to put the weights where nn.DataParallel looks for them, and the model is to run on all."""
    asked = f"--batch-sizes 4 --n-reps 1 --devices 2 1 --report {REPORT}"
    call = f"`python data_parallel.py {asked}` on a machine with 2 GPUs"
    begun = time.time()
    outcome = check.run("script", values={"arguments": list(asked.split()), "gpus": 2}, expect=False)
    seen, error = outcome.ranks[0], outcome.ranks[0].error
    # Whatever else may be wrong there is not asked: GPUs are emulated, and the checks above try the functions on them.
    check.expect(
        error is None or ON_ANOTHER_DEVICE not in error.message,
        f"{call}: the weights of the model are still on the CPU when the nn.DataParallel is called.",
        'Put the weights on the first device before the first call: model.to(f"cuda:{device_ids[0]}"). From there each '
        "call copies them to the others.",
        points=check.points / 2,
    )
    written = seen.arrays.get("report")
    # Processes of the script's own know of no emulated GPUs.
    if error or integer(seen.values.get("status")) != 0 or seen.values.get("by_children") is not False:
        return
    report = perf_report.read(written.tobytes()) if written is not None and written.dtype == np.uint8 else ""
    if isinstance(report, str) or perf_report.schema_problems(report):
        return
    runs = [run for run in _list(report["runs"]) if isinstance(run, dict)]
    if any((number(run.get("t_start")) or 0.0) < begun - 1 for run in runs):
        return  # handed in, not written now
    places = [place[:20] for place in _list(seen.values.get("places")) if isinstance(place, str)]
    if any(_config(run, "n_devices") == 2 for run in runs):
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


def _calls_were_made(check: Check, call: str, seen: RankOutcome, sizes: list[int], n_reps: int) -> None:
    """Behind the readings there are calls of a model; those in processes of the script's own cannot be counted."""
    made = _rows(seen.values.get("calls"))
    if seen.values.get("by_children") is True or made.get("0", 0) >= n_reps * len(sizes):
        return
    for size in sizes:
        count = made.get(str(size), 0)
        check.expect(
            count >= n_reps,
            f"{call} wrote at least {n_reps} readings with batch_size {size}, but called a model {count} times with "
            f"{size} image{'s' * (size > 1)}.",
            "Every reading is the time of a call that was made in that run.",
        )


def _measured(check: Check, call: str, runs: list[dict[str, Json]], sizes: list[int], n_reps: int) -> None:
    """Every batch size was measured with one device, at least n_reps calls of it."""
    for size in sizes:
        steps = [
            integer(run.get("steps")) or 0
            for run in runs
            if _config(run, "batch_size") == size and _config(run, "n_devices") == 1
        ]
        check.expect(
            sum(steps) >= n_reps,
            f"{call} wrote {sum(steps)} readings with batch_size {size} and n_devices 1, expected at least {n_reps}.",
            "Every reading of every batch size goes into `runs`; a CPU counts as one device.",
        )


def _minds_missing_gpus(
    check: Check, call: str, report: dict[str, Json], runs: list[dict[str, Json]]
) -> None:
    hint = 'Measure what is there and pass not_available=[{"config": {"n_devices": 2}, "reason": "..."}] to write_report.'
    check.expect(
        not any((_config(run, "n_devices") or 0) > 1 for run in runs),
        f"{call} ran on a machine without a GPU, and the report holds readings with more than one device.",
        hint,
        points=check.points / 2,
    )
    missing = [entry for entry in _list(report.get("not_available")) if isinstance(entry, dict)]
    check.expect(
        any(_config(entry, "n_devices") == 2 for entry in missing),
        f"{call} ran on a machine without a GPU, and the report does not say why there is nothing for two devices.",
        hint,
        points=check.points / 2,
    )


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _config(run: dict[str, Json], name: str) -> int | None:
    config = run.get("config")
    return integer(config.get(name)) if isinstance(config, dict) else None


def _tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(line[:160] for line in lines[-4:]) or "(nothing was printed)"
