"""The script on hidden images: does its figure show them, and do its timings fit a clock it cannot touch."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from graders.lfw_dataset import faces
from graders.lfw_dataset.looks import number, problem_text
from graders.lfw_dataset.raised import ended_by_script, raised_by_script
from lockstep.check import Check
from lockstep.sandbox.outcome import Outcome, RankOutcome
from lockstep.text import safe_line, without_escapes
from lockstep.wire import Json

PASSES = 5
# Scripts with a fixed grid of subplots take 9, 16, 25 or 64 images from the batch.
SHOWN_IMAGES, SHOWN_PATTERNS = 64, 8
# Who augments with turns by any angle has few of these on their side by chance, and hardly ever so many.
SIDEWAYS = 6
# More batches than are asked for, than a loop gets that reads one too many, and than one that counts them from 0.
TIMED_IMAGES, BATCH_SIZE, ASKED_BATCHES = 28, 4, 4
# How late each batch comes in one pass after another, in seconds: any five in a row differ.
DELAYS = np.linspace(0.01, 0.09, 7)
# Printed deviations below this share of that of the delays are none. Who prints a deviation of the mean, or of a
# batch, is far above it.
LEAST_SPREAD = 0.08
# A deviation below this share of that of the passes is none of theirs: one of their mean is 0.45 of it.
LEAST_SHARE = 0.3
FULL_PRECISION = 1e-10
# What tells how many workers a machine has processors for: whoever asks may start fewer than they were told.
_PROCESSORS = re.compile(rb"cpu_count|affinity|psutil|cpuinfo|num_threads")
_HANDED_OUT = "perf_report.py"
_LIST = re.compile(r"\[([^\[\]]*)\]")
_PLACE = re.compile(r" \([^()]*, line \d+\)$")
_IDLE = 'The script did nothing at all: is main() called at its end, below `if __name__ == "__main__":`?'
# What `"50 % of it" % {...}` and its like raise.
FORMAT_ERRORS = ("ValueError", "TypeError", "KeyError")
# "0.31", ".31", "3.1e-02", also in "0.31s", "0.31." and "0.31) ms"; not the 64 of "float64", nor any part of a version
# number. Chinese has no blank before a number.
_NUMBER = re.compile(
    r"(?<![A-Za-z\d_.])((?:\d+|(?=\.\d))(\.\d+)?([eE][-+]?\d+)?)(?!\d*\.\d)[\s)\]}]*"
    r"(m?s(?:ecs?)?(?![A-Za-z])|[uµμn]s(?:ecs?)?(?![A-Za-z])|(?i:second|milli|mi[ck]ro|nano)|毫秒)?"
)
# What differs where a line is printed for each pass.
_DIFFERING = re.compile(r"\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")
# "0.312(51)": the deviation in the last digits of the mean.
_CONCISE = re.compile(r"(?<![A-Za-z\d_.])(\d+\.(\d+))\((\d+)\)")
# Between these words' numbers may stand others: "mean 0.31 s (51.2 images/s), std 0.02 s".
_MEAN = re.compile(
    r"mean|average|avg|mittel|durchschnitt|moyenne|m[eé]dia\b|promedio|średni|平均|μ", re.IGNORECASE
)
_DEVIATION = re.compile(
    r"std|\bdev\b|devia|\bsd\b|sigma|σ|abweichung|streuung|[ée]cart|desv|odch|标准差|標準偏差", re.IGNORECASE
)
_PLUS_MINUS = re.compile(r"±|\+ ?/? ?[-−]")
# Of what a number is called: there ends what belongs to another.
_BEGINNING = re.compile(r"[\d\n]")
# "Timing [ms]: 310.2 +- 20.1", "mean_ms: 310.2": a unit before its numbers.
_UNIT_BEFORE = re.compile(r"(?<![A-Za-z\d])([muµμn]s(?:ecs?)?(?![A-Za-z])|(?i:milli|mi[ck]ro|nano)|毫秒)")
_SECONDS = {
    "ms": 1e-3,
    "milli": 1e-3,
    "毫秒": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "micro": 1e-6,
    "ns": 1e-9,
    "nano": 1e-9,
}


@dataclass(frozen=True)
class Complaint:
    """What was run and seen and expected, and the usual cause with the next step."""

    message: str
    hint: str
    # How the script ended, where that was not as it should: it is told once where it is the same in all runs.
    ended: str = ""


def told_once(complaints: Sequence[Complaint]) -> str:
    """The messages of complaints, one a line, without how the script ended where the line before says it."""
    lines = []
    for before, complaint in pairwise([None, *complaints]):
        assert complaint is not None
        same = (
            before is not None and complaint.ended != "" and _words(complaint.ended) == _words(before.ended)
        )
        lines.append(
            complaint.message.replace(complaint.ended, "ended likewise") if same else complaint.message
        )
    return "\n".join(lines)


def _words(ended: str) -> str:
    return _PLACE.sub("", ended)


def visualize_complaint(check: Check) -> Complaint | None:
    """Whether `-visualize_batch` draws at least two different images of the folder in one figure."""
    tree, hidden = faces.make_quilts(check.rng, SHOWN_PATTERNS, SHOWN_IMAGES)
    flags = ["-batch_size", str(SHOWN_IMAGES), "-num_workers", "0", "-visualize_batch"]
    arguments = ["-path_to_folder", "/data/batch/", *flags]
    outcome = _run(check, arguments, {"batch": tree.files})
    rank = outcome.ranks[0]
    if ended := _ended_badly(check, outcome, arguments):
        return ended
    pictures = [rank.arrays[name] for name in sorted(rank.arrays) if name.startswith("picture")]
    pictures = [p for p in pictures if p.ndim == 3 and p.shape[2] == 3 and p.dtype == np.uint8]
    shown = [faces.quilts_in(picture, hidden) for picture in pictures]
    most = max(map(len, shown), default=0)
    told = f"`{_shown(arguments)}`"
    if most >= 2:
        best = max(range(len(shown)), key=lambda number: len(shown[number]))
        lying = faces.on_their_side(pictures[best], shown[best])
        if len(lying) < max(most, SIDEWAYS):
            return None
        return Complaint(
            f"{told} drew {_count(pictures)}, in which every image lies on its side: rows and columns are swapped.",
            "imshow wants (height, width, channels): image.permute(1, 2, 0). image.T and permute(2, 1, 0) swap height "
            "and width as well.",
        )
    if not pictures:
        return Complaint(
            f"{told} drew no figure and wrote no picture.",
            _IDLE
            if _did_nothing(rank)
            else "Draw the images of one batch with matplotlib: axis.imshow(image.permute(1, 2, 0)), plt.show().",
        )
    if most == 1:
        return Complaint(
            f"{told} drew {_count(pictures)}, but only one image of the batch in each.",
            "Show the batch in one figure: a subplot for each image, or torchvision.utils.make_grid(batch).",
        )
    return Complaint(
        f"{told} drew {_count(pictures)}, but no image of the folder could be recognised there.",
        "Draw what the loader gives; imshow wants the channels last: image.permute(1, 2, 0), not reshape.",
    )


def timing_complaint(check: Check) -> Complaint | None:
    """Whether `-get_timing -num_workers 1` prints the mean and deviation of five passes with one worker."""
    tree = faces.make_tree(check.rng, people=2, images=TIMED_IMAGES)
    delay = float(check.rng.uniform(0.003, 0.006))
    flags = ["-batch_size", str(BATCH_SIZE), "-num_workers", "1", "-get_timing"]
    arguments = ["-path_to_folder", "/data/timed/", *flags, "-batches_to_check", str(ASKED_BATCHES)]
    delays = check.rng.permutation(DELAYS)
    outcome = _run(check, arguments, {"timed": tree.files}, delay, delays.tolist())
    if ended := _ended_badly(check, outcome, arguments):
        return ended
    rank, told = outcome.ranks[0], f"`{_shown(arguments)}`"
    loaders = [entry for entry in _list(rank.values.get("loaders")) if isinstance(entry, dict)]
    asked = [entry for entry in loaders if entry.get("workers") == 1]
    batches = [int(number(count) or 0) for entry in asked for count in _list(entry.get("batches"))]
    passes = len(batches)
    if passes == 0:
        used = sorted({int(number(e.get("workers")) or 0) for e in loaders if _list(e.get("batches"))})
        if not used:
            return Complaint(
                f"{told} read no DataLoader.",
                _IDLE
                if _did_nothing(rank)
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
    took = [number(seconds) or 0.0 for entry in loaders for seconds in _list(entry.get("seconds"))]
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
    faults = [_fault(reading, told, took, waited) for reading in fitting]
    if None not in faults:
        return faults[-1]
    others = any(_list(e.get("batches")) and e.get("workers") != 1 for e in loaders)
    # Two numbers one after the other may be the times of two passes, and then are those of no five.
    timings = [
        reading
        for reading in readings(rank.output, bars)
        if fits(reading) and reading.is_of_five(took) and not reading.is_of_two(took)
    ]
    # Other settings than the number of workers, and other data sets, may be compared.
    kinds = {str(e.get("settings")) for e in asked if len(_list(e.get("batches"))) >= PASSES}
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
    values = _run(check, arguments, data, expect=False).ranks[0].values
    loaders = [entry for entry in _list(values.get("loaders")) if isinstance(entry, dict)]
    used = {number(entry.get("workers")) for entry in loaders if _list(entry.get("batches"))}
    if values.get("problem") is not None or values.get("status") != 0 or used != {1}:
        return None
    return Complaint(
        f"`{_shown(arguments)}`: loaders with 1 worker were read, none with 2.",
        "Pass the flag on: DataLoader(..., num_workers=args.num_workers).",
    )


def _fault(said: Reading, told: str, took: list[float], waited: float) -> Complaint | None:
    """Why this can be no mean and deviation of five passes that took so long, of which they waited for `waited`."""
    told = f"{told} printed {said.mean:.4g} and {said.std:.4g}, but the passes"
    if is_flat(said):
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
    if said.is_too_narrow(took):
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


def empty_complaint(check: Check) -> Complaint | None:
    """Whether `-get_timing` on a folder that is not there says so instead of printing timings."""
    flags = ["-batch_size", "4", "-num_workers", "0", "-get_timing"]
    arguments = ["-path_to_folder", "/data/no_such_folder/", *flags]
    outcome = _run(check, arguments, {})
    rank = outcome.ranks[0]
    if rank.values.get("problem") is not None or rank.values.get("status") != 0:
        return None
    if not any(reading.fits(0.0, outcome.elapsed) for reading in _pairs(rank.output, turned=True)):
        return None
    return Complaint(
        f"`{_shown(arguments)}`: the folder does not exist, yet timings of an empty loop were printed.",
        "Stop with a message when no image was found, for instance `raise FileNotFoundError(folder)`: glob "
        "and os.walk say nothing of a folder that is not there.",
    )


def help_complaint(check: Check) -> Complaint | None:
    """Whether `--help` breaks while argparse formats the texts. Who parses by hand may answer as they like."""
    problem = _run(check, ["--help"], {}).ranks[0].values.get("problem")
    if not isinstance(problem, dict) or problem.get("type") not in FORMAT_ERRORS:
        return None
    return Complaint(
        f"`{_shown(['--help'])}` raised {problem_text(problem)}",
        "argparse fills help texts in with %: write %% for a percent sign.",
    )


@dataclass(frozen=True)
class Reading:
    """A mean and a standard deviation in seconds, and the last digit that was printed of each."""

    mean: float
    std: float
    digit: float
    std_digit: float

    def fits(self, shortest: float, elapsed: float) -> bool:
        """Whether five passes can have had these times: none below `shortest`, all of them in `elapsed`."""
        # Of five times between `shortest` and what the others leave, with `ddof=1`.
        widest = max(elapsed - PASSES * shortest, 0.0) * 0.5 + self.digit
        return (
            self.mean + self.digit >= 0.95 * shortest
            and PASSES * (self.mean - self.digit) <= elapsed
            and 0 <= self.std <= widest
        )

    def is_too_narrow(self, took: list[float]) -> bool:
        """Whether the mean is that of passes which took at least so long, and the deviation far below theirs."""
        return self.mean + self.digit >= 0.95 * float(
            np.mean(took)
        ) and self.std + self.std_digit < LEAST_SHARE * float(np.std(took))

    def is_twice_the_same(self) -> bool:
        """Whether two numbers are one and the same, and are no two that happen to be alike in a few digits."""
        return self.mean == self.std and max(self.digit, self.std_digit) <= 1e-3 * self.mean

    def is_of_five(self, took: list[float]) -> bool:
        """Whether this is, for clocks that do not measure quite the same, the mean and the deviation of five passes."""
        fives = [took[first : first + PASSES] for first in range(len(took) - PASSES + 1)]
        return any(
            abs(self.mean - np.mean(five)) <= 0.2 * np.mean(five) + self.digit
            and abs(self.std - np.std(five)) <= 0.4 * np.std(five) + self.std_digit
            for five in fives
        )

    def is_of_two(self, took: list[float]) -> bool:
        """Whether these are the times of a pass and of the next one."""
        return any(
            abs(self.mean - one) <= 0.05 * one + self.digit
            and abs(self.std - other) <= 0.05 * other + self.std_digit
            for one, other in pairwise(took)
        )


def without_passes(output: str, least: Sequence[float]) -> str:
    """What was printed, without the time of each pass where there is a list of them or a line for each, all alike.

    None of these is below its `least`.
    """
    lists = _LIST.findall(output)
    if len(lists) == 1 and _are_passes(_numbers(lists[0]), least):
        return _LIST.sub("", output)
    lines = without_escapes(output[-20000:]).splitlines()
    alike: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        alike.setdefault(_DIFFERING.sub("#", " ".join(line.split())), []).append(place)
    found = [
        places
        for words, places in alike.items()
        if len(places) == len(least)
        and not (_MEAN.search(words) or _DEVIATION.search(words))
        and _are_passes(
            [one for place in places for one in _numbers(_texts(lines[place])[1]) if one.has_decimals], least
        )
    ]
    if len(found) != 1:
        return output
    return "\n".join(line for place, line in enumerate(lines) if place not in found[0])


def _are_passes(times: Sequence[_Printed], least: Sequence[float]) -> bool:
    return len(times) == len(least) and all(
        one.has_decimals and (one.value + one.digit) * _SECONDS.get(one.unit, 1.0) >= seconds
        for one, seconds in zip(times, least, strict=True)
    )


def are_bare_passes(output: str, least: Sequence[float]) -> bool:
    """Whether beside the time of each pass there are no two numbers, as of a mean and a deviation."""
    rest = without_passes(output, least)
    if rest == output or _UNIT_BEFORE.search(rest) or _CONCISE.search(rest):
        return False
    return all(sum(one.is_fine for one in _numbers(text)) < 2 for text in _texts(rest))


def is_flat(reading: Reading) -> bool:
    """Whether a standard deviation, however it was rounded, is far below that of the passes' delays."""
    return reading.std + reading.std_digit <= LEAST_SPREAD * float(np.std(DELAYS))


def readings(output: str, bars: object) -> list[Reading]:
    """Every mean with its deviation that was printed or drawn as an error bar."""
    found = _pairs(output)
    for bar in _list(bars):
        if isinstance(bar, dict):
            means, stds = _list(bar.get("y")), _list(bar.get("yerr"))
            for mean, std in zip(map(number, means), map(number, stds), strict=False):
                if mean is not None and std is not None:
                    found.append(Reading(mean, std, 0.0, 0.0))
    return found


def readings_otherwise(output: str) -> list[Reading]:
    """Every mean with its deviation in less usual spellings.

    There may be a whole number in between ("mean of 5 passes: 0.31 s, std of 5 passes: 0.02 s"), the deviation may come
    first, milliseconds may have no decimals, and their unit may stand before them. Behind their words, the two may have
    others between them.
    """
    found = []
    for text in _texts(output):
        printed = _numbers(text)
        found += _odd_pairs_in(printed, text)
        before = _UNIT_BEFORE.search(text)
        if before and not any(one.unit in _SECONDS for one in printed):
            in_units = [one._replace(unit=one.unit or _unit(before[1])) for one in printed]
            found += _odd_pairs_in(in_units, text)
        means, deviations = (_behind(word, text) for word in (_MEAN, _DEVIATION))
        others = [one for one in printed if one.is_fine]
        pairs = zip(means, deviations, strict=False) if means else product(others[:20], deviations[:20])
        found += [_reading(*pair) for pair in pairs]
    found += [
        Reading(float(mean), int(last) / 10 ** len(decimals), *[10.0 ** -len(decimals)] * 2)
        for mean, decimals, last in _CONCISE.findall(output[-20000:])
        if len(last) <= len(decimals) + 1 < 20
    ]
    return found


def _pairs(output: str, *, turned: bool = False) -> list[Reading]:
    """Two numbers with decimals, one after the other, in whatever words; some write 0,31.

    With `turned` also where the words say that the deviation comes first.
    """
    return next(filter(None, (_pairs_in(text, turned) for text in _texts(output))), [])


def _texts(output: str) -> tuple[str, str]:
    """What was printed, and the same with points for decimal commas."""
    text = without_escapes(output[-20000:])
    return text, re.sub(r"(?<=\d),(?=\d)", ".", text)


class _Printed(NamedTuple):
    value: float
    digit: float
    unit: str
    has_decimals: bool
    place: int

    @property
    def is_fine(self) -> bool:
        """Whether this can tell times of less than a second apart."""
        return self.has_decimals or self.unit in _SECONDS


def _numbers(text: str) -> list[_Printed]:
    found = []
    for match in _NUMBER.finditer(text):
        digits, decimals, exponent, unit = match.groups("")
        # Forged output may hold any exponent; a second is never 1e30 of anything.
        power = max(-30, min(30, int(exponent[1:]))) if 0 < len(exponent) < 9 else 0
        digit = 10.0 ** (power - max(len(decimals) - 1, 0))
        found.append(_Printed(float(digits), digit, _unit(unit), bool(decimals or exponent), match.start()))
    return found


def _unit(word: str) -> str:
    """A unit as `_SECONDS` knows it, if it does: "msecs" and "Millisekunden" are other words for some."""
    return re.sub(r"ecs?$", "", word.lower()).replace("mikro", "micro")


def _behind(word: re.Pattern[str], text: str) -> list[_Printed]:
    """The first time behind each such word, in its line."""
    found = []
    for line in text.splitlines():
        words = [at.end() for at in word.finditer(line)]
        fine = [one for one in _numbers(line) if one.is_fine] if words else []
        places = [one.place for one in fine]
        found += [fine[nth] for end in words if (nth := bisect.bisect_left(places, end)) < len(fine)]
    return found


def _pairs_in(text: str, turned: bool) -> list[Reading]:
    return [
        _reading(*pair)
        for pair in pairwise(_numbers(text))
        if pair[0].has_decimals and pair[1].has_decimals and (turned or not _are_turned(*pair, text))
    ]


def _odd_pairs_in(found: list[_Printed], text: str) -> list[Reading]:
    fine = [one for one in found if one.is_fine]
    # "(310 +- 20) ms"
    shared = [(one, other) for one, other in pairwise(found) if not one.is_fine and other.unit in _SECONDS]
    both = [(one._replace(unit=one.unit or other.unit), other) for one, other in pairwise(fine)]
    turned = [_reading(other, one) for one, other in both if not _are_in_order(one, other, text)]
    both = [pair for pair in both if not _are_turned(*pair, text)]
    # Unless something stopped the script, the deviation is less than the mean.
    return [_reading(*pair) for pair in shared + both] + [each for each in turned if each.std < each.mean]


def _are_in_order(one: _Printed, other: _Printed, text: str) -> bool:
    """Whether the first of two numbers is called the mean and the second the deviation, by a sign or by words."""
    before, between = _called(one, other, text)
    by_words = _MEAN.search(before) and not _DEVIATION.search(before) and _DEVIATION.search(between)
    return bool(_PLUS_MINUS.search(between) or by_words)


def _are_turned(one: _Printed, other: _Printed, text: str) -> bool:
    """Whether the first of two numbers is called the deviation, and the second the mean."""
    before, between = _called(one, other, text)
    is_deviation = _DEVIATION.search(before) and not _MEAN.search(before)
    return bool(is_deviation and _MEAN.search(between) and not _DEVIATION.search(between))


def _called(one: _Printed, other: _Printed, text: str) -> tuple[str, str]:
    """What stands before the first of two numbers, in its line, and between the two."""
    before = _BEGINNING.split(text[max(0, one.place - 80) : one.place])[-1]
    return before, text[one.place : min(other.place, one.place + 160)]


def _reading(mean: _Printed, std: _Printed) -> Reading:
    # A unit behind both is that of both: "(31.2 +- 0.4) ms".
    seconds, std_seconds = (_SECONDS.get(unit, 1.0) for unit in (mean.unit or std.unit, std.unit))
    digit, std_digit = mean.digit * seconds, std.digit * std_seconds
    # Beside a mean in full precision 0.0 is no rounded number.
    is_exact = std.value == 0 and digit <= FULL_PRECISION
    return Reading(mean.value * seconds, std.value * std_seconds, digit, 0.0 if is_exact else std_digit)


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
            "Take the time before and after each pass over the whole loader, and print np.mean and np.std of "
            "the five times, in seconds.",
        )
    return Complaint(
        f"{told} printed no mean and standard deviation.",
        "Print both, for instance print(f'Timing: {np.mean(res)}+-{np.std(res)}').",
    )


def _run(
    check: Check,
    arguments: list[str],
    data: dict[str, dict[str, bytes]],
    delay: float = 0.0,
    batch_delays: Sequence[float] = (),
    expect: bool = True,
) -> Outcome:
    delays: dict[str, Json] = {"seconds_per_image": delay, "seconds_per_batch": list(batch_delays)}
    return check.run("script", data=data, values={"arguments": list(arguments), **delays}, expect=expect)


def _length(loader: dict[str, Json]) -> int:
    return int(number(loader.get("length")) or 0)


def _is_shorter(loader: dict[str, Json]) -> bool:
    """Whether a loader has the batches that are asked for and no others."""
    shortened = ASKED_BATCHES - 1 <= _length(loader) <= ASKED_BATCHES + 2
    return shortened and number(loader.get("batch_size")) in (BATCH_SIZE, None)


def _ended_badly(check: Check, outcome: Outcome, arguments: list[str]) -> Complaint | None:
    rank = outcome.ranks[0]
    problem, status = rank.values.get("problem"), rank.values.get("status")
    if raised := problem_text(problem):
        ended, hint = f"raised {raised}", raised_by_script(problem, check.submission)
    elif status == 0:
        return None
    else:
        lines = [line for line in rank.output.splitlines() if line.strip()]
        said = f": {safe_line(lines[-1])}" if lines else ""
        ended, hint = f"ended with status {number(status) or 0:.0f}{said}", ended_by_script(said)
    return Complaint(f"`{_shown(arguments)}` {ended}", hint, ended)


def _did_nothing(rank: RankOutcome) -> bool:
    """Whether a run that ended well left nothing to be seen: most scripts print something."""
    return not rank.output.strip() and not _list(rank.values.get("loaders"))


def _shown(arguments: list[str]) -> str:
    return " ".join(["python lfw_dataset.py", *arguments])


def _count(pictures: list[np.ndarray]) -> str:
    return "one figure" if len(pictures) == 1 else f"{len(pictures)} figures"


def _and(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
