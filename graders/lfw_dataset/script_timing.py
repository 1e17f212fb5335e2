"""The script's timings on hidden images: do they fit a clock that it cannot touch."""

from __future__ import annotations

import re

import numpy as np

from graders.lfw_dataset import faces
from graders.lfw_dataset.looks import number
from graders.lfw_dataset.printed_times import (
    PASSES,
    Reading,
    are_bare_passes,
    readings,
    readings_otherwise,
    without_passes,
)
from graders.lfw_dataset.script_runs import IDLE, Complaint, as_typed, did_nothing, ended_badly, run_script
from lockstep.check import Check
from lockstep.compare import elements
from lockstep.wire import Json

# More batches than are asked for, than a loop gets that reads one too many, and than one that counts them from 0.
TIMED_IMAGES, BATCH_SIZE, ASKED_BATCHES = 28, 4, 4
# How late each batch comes in one pass after another, in seconds: any five in a row differ.
DELAYS = np.linspace(0.01, 0.09, 7)
# Printed deviations below this share of that of the delays are none. Who prints a deviation of the mean, or of a
# batch, is far above it.
LEAST_SPREAD = 0.08
# What tells how many workers a machine has processors for: whoever asks may start fewer than they were told.
_PROCESSORS = re.compile(rb"cpu_count|affinity|psutil|cpuinfo|num_threads")
_HANDED_OUT = "perf_report.py"


def timing_complaint(check: Check) -> Complaint | None:
    """Whether `-get_timing -num_workers 1` prints the mean and deviation of five passes with one worker."""
    tree = faces.make_tree(check.rng, people=2, images=TIMED_IMAGES)
    delay = float(check.rng.uniform(0.003, 0.006))
    flags = ["-batch_size", str(BATCH_SIZE), "-num_workers", "1", "-get_timing"]
    arguments = ["-path_to_folder", "/data/timed/", *flags, "-batches_to_check", str(ASKED_BATCHES)]
    delays = check.rng.permutation(DELAYS)
    outcome = run_script(check, arguments, {"timed": tree.files}, delay, delays.tolist())
    if ended := ended_badly(check, outcome, arguments):
        return ended
    rank, told = outcome.ranks[0], f"`{as_typed(arguments)}`"
    loaders = [entry for entry in elements(rank.values.get("loaders")) if isinstance(entry, dict)]
    asked = [entry for entry in loaders if entry.get("workers") == 1]
    batches = [int(number(count) or 0) for entry in asked for count in elements(entry.get("batches"))]
    passes = len(batches)
    if passes == 0:
        used = sorted({int(number(e.get("workers")) or 0) for e in loaders if elements(e.get("batches"))})
        if not used:
            return Complaint(
                f"{told} read no DataLoader.",
                IDLE
                if did_nothing(rank)
                else f"Loop {PASSES} times over a DataLoader of the data set, and read the clock around every pass.",
            )
        return Complaint(
            f"{told}: loaders with {_and(used)} workers were read, none with 1.",
            "Pass the flag on: DataLoader(..., num_workers=args.num_workers).",
        )
    if passes < PASSES:
        return Complaint(
            f"{told} read the data {'once' if passes == 1 else f'{passes} times'}; the mean is over {PASSES} passes.",
            f"Repeat the whole loop over the loader {PASSES} times and keep {PASSES} readings.",
        )
    # Who takes no more images than are asked for makes a shorter loader.
    whole = [_length(entry) for entry in asked if not _is_shorter(entry)]
    if any(length != TIMED_IMAGES // BATCH_SIZE for length in whole):
        handed_on = all(number(entry.get("batch_size")) == BATCH_SIZE for entry in asked)
        return Complaint(
            f"{told}: a pass has {min(whole)} batch{'es' * (min(whole) != 1)}; {TIMED_IMAGES} images in batches of "
            f"{BATCH_SIZE} make {TIMED_IMAGES // BATCH_SIZE}.",
            "The batches have the size that was asked for, so `len(dataset)` is not the number of images: see length."
            if handed_on
            else "Pass the flag on: DataLoader(..., batch_size=args.batch_size).",
        )
    hint = (
        "Leave the loop over the loader after batches_to_check batches, or at its end where that comes first."
    )
    # One less, and one or two more, come of where in the loop they are counted; passes beyond five may warm up.
    if sum(batches) < PASSES * (ASKED_BATCHES - 1):
        return Complaint(
            f"{told} read {sum(batches)} batches in {passes} passes, and was to read {ASKED_BATCHES} in each.",
            hint,
        )
    if sum(count <= ASKED_BATCHES + 2 for count in batches) < PASSES:
        return Complaint(
            f"{told} read {max(batches)} batches in a pass, and was to leave it after {ASKED_BATCHES}.", hint
        )
    bars = rank.values.get("bars")
    printed = readings(rank.output, bars)
    shortest = (ASKED_BATCHES - 1) * BATCH_SIZE * delay

    def fits(said: Reading) -> bool:
        return said.fits(shortest, outcome.elapsed)

    fitting = [*filter(fits, readings_otherwise(rank.output)), *filter(fits, printed)]
    if not fitting:
        return _no_timing(told, rank.output, printed, outcome.elapsed)
    took = [number(seconds) or 0.0 for entry in loaders for seconds in elements(entry.get("seconds"))]
    # What came late in these five passes, the first batch of each left out: its wait may lie before the clock.
    waited = (min(batches) - 1) * float(np.mean(delays[:PASSES]))
    # Each without its first batch as well.
    least = [(count - 1) * float(late) for count, late in zip(batches, delays, strict=False)]
    if len(took) == PASSES:
        if not bars and not rank.arrays and are_bare_passes(rank.output, least):
            return Complaint(
                f"{told} printed the {PASSES} readings, but not both their mean and their standard deviation.",
                "Print both, for instance print(f'Timing: {np.mean(res)}+-{np.std(res)}').",
            )
        # The times of two passes may be taken for a mean with its deviation, and hide a wrong one.
        besides = without_passes(rank.output, least)
        left = [*filter(fits, readings_otherwise(besides)), *filter(fits, readings(besides, bars))]
        fitting = left or fitting
    faults = [fault(reading, told, took, waited) for reading in fitting]
    if None not in faults:
        return faults[-1]
    others = any(elements(e.get("batches")) and e.get("workers") != 1 for e in loaders)
    # Two numbers one after the other may be the times of two passes, and then are those of no five.
    timings = [
        reading
        for reading in printed
        if fits(reading) and reading.is_of_five(took) and not reading.is_of_two(took)
    ]
    # Other settings than the number of workers, and other data sets, may be compared.
    kinds = {str(e.get("settings")) for e in asked if len(elements(e.get("batches"))) >= PASSES}
    most = max(len(kinds), 1)
    if passes >= PASSES * (most + 1) and len(timings) > most and not others:
        return Complaint(
            f"{told} printed {len(timings)} timings, all of loaders with 1 worker.",
            "num_workers is fixed when a DataLoader is made: make a new one for every number you compare.",
        )
    # How many are opened is free: they may be kept, or copied first.
    if number(rank.values.get("opened")) == 0:
        return Complaint(
            f"{told} opened no image: what was timed gives something else than the folder's images.",
            "Time a DataLoader of LFWDataset(path_to_folder, transform): what takes the time is to read the images.",
        )
    return _workers_complaint(check, {"timed": tree.files})


def _workers_complaint(check: Check, data: dict[str, dict[str, bytes]]) -> Complaint | None:
    """Whether a script that read with one worker does so as well where it is asked for two.

    A run that does not end well is none that tells.
    """
    flags = ["-batch_size", str(BATCH_SIZE), "-num_workers", "2", "-get_timing"]
    arguments = ["-path_to_folder", "/data/timed/", *flags, "-batches_to_check", str(ASKED_BATCHES)]
    files = check.submission.files
    sources = (files[path] for path in files if path.endswith((".py", ".ipynb")) and path != _HANDED_OUT)
    if any(map(_PROCESSORS.search, sources)):
        return None
    values = run_script(check, arguments, data, expect=False).ranks[0].values
    loaders = [entry for entry in elements(values.get("loaders")) if isinstance(entry, dict)]
    used = {number(entry.get("workers")) for entry in loaders if elements(entry.get("batches"))}
    if values.get("problem") is not None or values.get("status") != 0 or used != {1}:
        return None
    return Complaint(
        f"`{as_typed(arguments)}`: loaders with 1 worker were read, none with 2.",
        "Pass the flag on: DataLoader(..., num_workers=args.num_workers).",
    )


def fault(said: Reading, told: str, took: list[float], waited: float) -> Complaint | None:
    """Why this can be no mean and deviation of five passes that took so long, of which they waited for `waited`."""
    told = f"{told} printed {said.mean:.4g} and {said.std:.4g}, but the passes"
    flat = is_flat(said)
    # A machine that is busy may level what the delays set apart, until the variance seems to be no deviation at all.
    if flat and not (len(took) == PASSES and said.has_variance_of(took)):
        return Complaint(
            f"{told} did not take nearly the same time: images came later in some than in others, by up to "
            f"{ASKED_BATCHES * float(np.ptp(DELAYS)):.2g} s a pass.",
            f"Read the clock before and after every single pass and keep {PASSES} readings. One reading around all of "
            f"them, divided by {PASSES}, hides what the standard deviation is there to tell.",
        )
    # With more passes than are asked for it is not known which of them a figure is of.
    if len(took) != PASSES:
        return None
    spread = f"{min(took):.2g} to {max(took):.2g} s"
    if flat or said.is_too_narrow(took):
        return Complaint(
            f"{told} took {spread}, whose standard deviation is {float(np.std(took)):.2g} s.",
            "np.std is the standard deviation; np.var is its square, and far less where it is below 1.",
        )
    if said.mean + said.digit < 0.95 * waited:
        return Complaint(
            f"{told} took {spread} each.",
            "The two have changed places: print(f'Timing: {np.mean(res)}+-{np.std(res)}')."
            if Reading(said.std, said.mean, said.std_digit, said.digit).is_of_five(took)
            else f"Print the mean of {PASSES} readings, each of a whole pass: from before its first batch to after its "
            "last. Seconds per batch, or per image, are less.",
        )
    if said.is_twice_the_same():
        return Complaint(
            f"{told} took {spread}: their standard deviation is not the number that their mean is.",
            "Print np.mean and np.std of the same list of readings.",
        )
    return None


def is_flat(reading: Reading) -> bool:
    """Whether a standard deviation, however it was rounded, is far below that of the passes' delays."""
    return reading.std + reading.std_digit <= LEAST_SPREAD * float(np.std(DELAYS))


def _no_timing(told: str, output: str, printed: list[Reading], elapsed: float) -> Complaint:
    if "{np." in output or "{mean" in output or "{res" in output:
        return Complaint(
            f"{told} printed braces instead of numbers.",
            "The f in front of the string is missing: print(f'Timing: {np.mean(res)}+-{np.std(res)}').",
        )
    if printed:
        said = printed[-1]
        return Complaint(
            f"{told} printed {said.mean:.4g} and {said.std:.4g}, which cannot be the mean and standard "
            f"deviation of {PASSES} passes in seconds: the whole script took {elapsed:.2f} s, and every "
            "image was slow to open.",
            "Take the time before and after each pass over the whole loader, in seconds, and print np.mean and np.std "
            "of these five times, as they are: a sum is no mean, nor is one that is divided by another number, nor the "
            "largest of them, nor a mean to which the deviation was added.",
        )
    return Complaint(
        f"{told} printed no mean and standard deviation.",
        "Print both, for instance print(f'Timing: {np.mean(res)}+-{np.std(res)}').",
    )


def _length(loader: dict[str, Json]) -> int:
    return int(number(loader.get("length")) or 0)


def _is_shorter(loader: dict[str, Json]) -> bool:
    """Whether a loader has the batches that are asked for and no others."""
    shortened = ASKED_BATCHES - 1 <= _length(loader) <= ASKED_BATCHES + 2
    return shortened and number(loader.get("batch_size")) in (BATCH_SIZE, None)


def _and(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))
