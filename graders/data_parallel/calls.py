"""Whether behind the readings of a report there are calls, and of the network that it names."""

from __future__ import annotations

from graders.data_parallel import inference
from graders.data_parallel.noted import config_value, steps, totals
from lockstep.check import Check
from lockstep.compare import elements, integer
from lockstep.sandbox.outcome import RankOutcome
from lockstep.wire import Json


def were_made(
    check: Check, call: str, seen: RankOutcome, runs: list[dict[str, Json]], sizes: list[int], n_reps: int
) -> None:
    """Behind the readings there are calls of a model; those in processes of the script's own cannot be counted."""
    made = totals(seen.values.get("calls"))
    if seen.values.get("by_children") is True or made.get("0", 0) >= n_reps * len(sizes):
        return
    for size in sizes:
        count = made.get(str(size), 0)
        check.expect(
            count >= n_reps,
            f"{call} was asked for {n_reps} calls with each batch_size and wrote readings of {size}, but called a "
            f"model {count} times with {size} image{'s' * (size > 1)}.",
            "Every reading is the time of a call that was made in that run, and `steps` says of how many. Is there a "
            "`return` or a `break` within the loop over the calls?",
        )
    if "0" in made:
        return
    for size in sizes:
        count, said = made.get(str(size), 0), calls_told_of(runs, size)
        check.expect(
            count >= said or not inference.calls_each_time(check),
            f"{call} wrote {said} readings with batch_size {size}, but called a model {count} times with "
            f"{size} image{'s' * (size > 1)}: some of them were never taken.",
            "Every reading is the time of a call that was made in that run: call time_inference anew for each timing.",
            points=check.points / 2,
        )


def are_of_that_network(
    check: Check,
    call: str,
    seen: RankOutcome,
    report: dict[str, Json],
    runs: list[dict[str, Json]],
    sizes: list[int],
) -> None:
    """What was called has the parameters that the report tells of, and not only once.

    Some count buffers as parameters, and some what learns alone. Where there are fewer calls than readings something
    else is wrong.
    """
    workload = report.get("workload")
    told = integer(workload.get("params")) if isinstance(workload, dict) else None
    called = integer(seen.values.get("most_parameters"))
    if seen.values.get("by_children") is True or not called or told is None:
        return
    hint = "Time the network that the report names: FashionCNN(), on its own and in what make_data_parallel returns."
    check.expect(
        told <= 2 * called,
        f"{call} wrote that the model has {told} parameters, and what it called has {called}.",
        hint,
        points=check.points / 2,
    )
    made = totals(seen.values.get("calls"))
    if "0" in made:
        return
    for size in sizes:
        count = min(calls_told_of(runs, size), made.get(str(size), 0))
        of_it = calls_of(seen.values.get("networks"), size, told)
        check.expect(
            2 * of_it >= count,
            f"{call} wrote that the model has {told} parameters. What it called with {size} image{'s' * (size > 1)} "
            f"for {count} readings comes to {of_it:.4g} calls of so many parameters: smaller ones are among it.",
            hint,
            points=check.points / 2,
        )


def calls_told_of(runs: list[dict[str, Json]], batch_size: int) -> int:
    """How many calls the runs of a batch size tell of: the readings in step_s, and without any of those the steps.

    Beside runs with step_s others may sum up.
    """
    own = [
        run
        for run in runs
        if (config_value(run, "batch_size"), config_value(run, "n_devices")) == (batch_size, 1)
    ]
    readings = sum(len(elements(run.get("step_s"))) for run in own)
    return readings or steps(own)


def calls_of(networks: Json, batch_size: int, parameters: int) -> float:
    """How many calls with so many images there were of a network with so many parameters.

    A call of something smaller counts in part: model.forward(batch) calls the layers one by one, which add up to one.
    """
    seen = [entry for entry in elements(networks) if isinstance(entry, list) and len(entry) == 3]
    calls = [(integer(size), integer(count)) for rows, size, count in seen if rows == str(batch_size)]
    return sum(min((size or 0) / max(parameters, 1), 1) * (count or 0) for size, count in calls)
