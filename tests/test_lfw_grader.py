"""The grader of exercise 1: forged answers, and its finer parts."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from graders.lfw_dataset import faces, printed_times, robustness, script_runs, script_timing
from graders.lfw_dataset.looks import Look, difference, looks, number, problem_text
from graders.lfw_dataset.raised import ended_by_script, raised_by_script, raised_hint
from graders.lfw_dataset.script_runs import Complaint, told_once
from lockstep.sandbox.box import Box
from lockstep.submission import Submission
from lockstep.verdict import Verdict
from tests.effort import costs_at_most
from tests.forging import forgery, taken_in
from tests.samples import graded

EXERCISE = "lfw_dataset"


FINDS_THE_IMAGES = """
import glob
import numpy as np

class LFWDataset:
    def __init__(self, path_to_folder, transform):
        self.paths = glob.glob(path_to_folder + "/*/*.jpg")

    def __len__(self):
        return 13

    def __getitem__(self, index):
        return open(self.paths[0]).name
"""


@pytest.mark.parametrize(
    ("odd", "odd_array"),
    [
        ("None", "np.zeros(0)"),
        ("[[{}] * 15] * 2", "np.full((2100, 3), 2**63 - 1)"),
        *(
            pytest.param(odd, odd_array, marks=pytest.mark.slow)
            for odd, odd_array in (
                ("-1", "np.zeros((2100, 3))"),
                ("'x'", "np.ones(2100, bool)"),
                ("[None] * 20", "np.zeros((500, 500, 3), np.uint8)"),
                ("{'clutter': {'items': [7]}}", "np.zeros((1, 1, 1, 1))"),
            )
        ),
    ],
)
def test_forged_answers_earn_nothing_and_break_nothing(
    odd: str, odd_array: str, tmp_path: Path, box: Box
) -> None:
    forged = FINDS_THE_IMAGES + forgery(odd, odd_array, spared="attempts")
    (tmp_path / "lfw_dataset.py").write_text(forged)
    (exercise,) = graded(tmp_path, EXERCISE, box).exercises
    constructs, *others = exercise.checks
    assert constructs.verdict is Verdict.PASSED
    assert taken_in(others) == []


@pytest.mark.parametrize(
    "value",
    [None, 7, "text", [None], [{"kind": 3, "shape": ["a"], "dtype": []}], {"kind": "None"}, [[1], {}]],
)
def test_odd_looks_are_no_images(value: object) -> None:
    tree = faces.make_tree(np.random.default_rng(0), 2, 3)
    found = looks(value)
    assert all(not look.is_tensor for look in found)
    assert found == [] or difference(found, tree) is not None


@pytest.mark.parametrize("value", [True, None, "1", [], 10**400, float("inf")])
def test_odd_numbers_are_no_numbers(value: object) -> None:
    assert number(value) is None


def test_a_problem_is_told_on_one_line() -> None:
    told = problem_text(
        {"type": "OSError", "message": "broken\x1b[31m\nfile", "place": "lfw_dataset.py, line 3"}
    )
    assert told == "OSError: broken file (lfw_dataset.py, line 3)"


TIMINGS = [
    "Timing: 0.31+-0.02",
    "Timing: 0.3123456 +- 0.0212345 s",
    "Timing:0.31+/-0.02",
    "Workers: 1, Timing: 0.31 ± 0.02",
    "Timing with 1 workers: 0.3100 (std 0.0200)",
    "mean = 3.1e-01 s\nstd = 2e-02 s",
    "310.0 ms +- 20.0 ms",
    "(310.0 ± 20.0) ms",
    "0.310 s, deviation 20.0 ms",
    "mean 310000.0, std 20000.0 µs",
    "310000000.0 ± 20000000.0 ns",
    "{'mean': np.float64(0.31), 'std': np.float64(0.02)}",
    "[5 passes]\r\n0.31s, 0.02s",
    "5 Durchgänge mit 1.024 Bildern: 0,3100 ± 0,0200 s",
]


@pytest.mark.parametrize("printed", TIMINGS)
def test_a_timing_is_read_in_any_spelling(printed: str) -> None:
    (reading,) = [r for r in printed_times.readings(printed, None) if r.fits(0.1, 2.0)]
    assert (round(reading.mean, 2), round(reading.std, 2)) == (0.31, 0.02)


ODD_TIMINGS = [
    "num_workers=1: mean of 5 passes 0.3100 s, std of 5 passes 0.0200 s",
    "mean of 5 passes: 0.3100 s\nstandard deviation of 5 passes: 0.0200 s",
    "Mean time:          0.3100 s (num_workers=1)\nStandard deviation: 0.0200 s (num_workers=1)",
    "mean of 5 passes: 0,3100 s\nstd of 5 passes: 0,0200 s",
    "std: 0.0200 s, mean: 0.3100 s",
    "std of 5 passes: 20.0 ms\nmean of 5 passes: 310.0 ms",
    "std and mean with 1 worker: 20.0, 310.0 ms",
    "310 ms ± 20.0 ms",
    "310 ms ± 20 ms per pass (mean ± std of 5 passes)",
    "28 images, 5 passes: (310 ± 20) ms",
    "Timing [ms]: 310.2 +- 20.1",
    "mean_ms: 310.2, std_ms: 20.1",
    "0.310(20) s",
    "Timing: .310 +- .020",
    "310.0 msec +- 20.0 msecs",
    "平均值0.310秒，标准差0.020秒",
    "平均310毫秒，标准差20毫秒",
    "mean \x1b[1m0.310\x1b[0m s\nstd \x1b[38;5;208m0.020\x1b[0m s",
    "09:03:16.123 | INFO | mean 0.310 s\n09:03:16.124 | INFO | std 0.020 s",
    "0.310 s (51.2 images/s), std 0.020 s",
]


@pytest.mark.parametrize("printed", ODD_TIMINGS)
def test_a_timing_is_read_in_odd_spellings(printed: str) -> None:
    found = [r for r in printed_times.readings_otherwise(printed) if r.fits(0.1, 2.0)]
    assert {(round(r.mean, 2), round(r.std, 2)) for r in found} == {(0.31, 0.02)}


@pytest.mark.parametrize(
    "printed",
    [
        "Timing: 0.02+-0.31",
        "20.0 ms ± 310.0 ms",
        "0.02 +/- 0.31 s",
        "mean: 0.0200 s, std: 0.3100 s",
        "mean 0.02\nstandard deviation 0.31",
        "Mittelwert 0,02 Standardabweichung 0,31",
        "std: 0.3100 s, mean: 0.0200 s",
        "standard deviation 0.31\nmean 0.02",
    ],
)
def test_a_deviation_that_is_called_the_mean_is_no_mean(printed: str) -> None:
    found = printed_times.readings_otherwise(printed) + printed_times.readings(printed, None)
    assert [r for r in found if r.mean > r.std] == []


AMONG_OTHERS = [
    "310,0 Millisekunden, Standardabweichung 20,0 Millisekunden",
    '{"max": 0.391, "mean": 0.310, "median": 0.305, "min": 0.212, "std": 0.020}',
]


@pytest.mark.parametrize(
    "part", ["std", "std 0.1 ", "mean 1.5 std ", "sd 1 ", "0.31(", "mean " * 99 + "0.3 0.1\n"]
)
def test_whatever_is_printed_is_soon_read(part: str) -> None:
    printed = part * (20_000 // len(part))
    with costs_at_most(20):
        printed_times.readings_otherwise(printed)


@pytest.mark.parametrize("printed", AMONG_OTHERS)
def test_a_timing_is_read_among_other_numbers(printed: str) -> None:
    found = printed_times.readings_otherwise(printed)
    assert (0.31, 0.02) in [(round(r.mean, 4), round(r.std, 4)) for r in found]


@pytest.mark.parametrize(
    "printed",
    [
        "Timing: {np.mean(res)}+-{np.std(res)}",
        "Timing: nan+-nan",
        "Timing: 1 workers",
        "Timing: 12.5+-0.3",
        "Timing: 0.31+-1.7",
        "Timing: 0.0001+-0.0",
        "Timing: 0.31 s with 1 workers",
        "Timing: 310 ms with 1 workers",
        "1e99999 2e-99999",
        "9" * 10_000 + ".5 0.1",
    ],
)
def test_what_is_no_timing_of_five_passes_does_not_fit(printed: str) -> None:
    found = printed_times.readings(printed, None) + printed_times.readings_otherwise(printed)
    assert [r for r in found if r.fits(0.1, 2.0)] == []


@pytest.mark.parametrize(
    ("printed", "flat"),
    [
        ("Timing: 0.3412 +- 0.0000 s", True),
        ("Timing: 0.341 +- 0.000 s", True),
        ("Timing: 0.34123456789012+-0.0", True),
        ("Timing: 0.34123456789012+-5.551115123125783e-17", True),
        ("Timing: 341.2 ms +- 0.0 ms", True),
        # Rounding may hide what there is.
        ("Timing: 0.34+-0.00", False),
        ("Timing: 0.3412+-0.0", False),
        ("Timing: 0,34 ± 0,00 s", False),
        # The least that a deviation of the mean, or of one of three batches, is of passes that are held up like this.
        ("Timing: 0.3412 +- 0.0049 s", False),
        ("Timing: 0.1137 +- 0.0036 s", False),
    ],
)
def test_a_deviation_of_zero_is_told_from_one_that_rounding_hides(printed: str, flat: bool) -> None:
    found = [reading for reading in printed_times.readings(printed, None) if reading.fits(0.05, 2.0)]
    assert [script_timing.is_flat(reading) for reading in found] == [flat]


@pytest.mark.parametrize(
    ("printed", "narrow"),
    [
        ("Timing: 0.3100 +- 0.0064 s", True),
        ("Timing: 0.31 +- 0.01 s", True),
        ("Timing: 0.3100 +- 0.0800 s", False),
        # A deviation of the mean, one that rounding hides, and those of a batch.
        ("Timing: 0.3100 +- 0.0358 s", False),
        ("Timing: 0.3 +- 0.0 s", False),
        ("Timing: 0.1033 +- 0.0119 s", False),
    ],
)
def test_a_variance_is_told_from_the_deviations_that_are_meant(printed: str, narrow: bool) -> None:
    (reading,) = [reading for reading in printed_times.readings(printed, None) if reading.fits(0.05, 2.0)]
    assert reading.is_too_narrow([0.19, 0.25, 0.31, 0.37, 0.43]) == narrow


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("Timing: 0.4489 +- 0.0015 s", "np.var is its square"),
        ("Timing: 0.4489 +- 0.0000 s", "every single pass"),
        ("Timing: 0.1012 +- 0.0013 s", "every single pass"),
    ],
)
def test_a_variance_is_told_where_a_busy_machine_levels_the_passes(printed: str, words: str) -> None:
    (reading,) = printed_times.readings(printed, None)
    assert script_timing.is_flat(reading)
    complaint = script_timing.fault(reading, "", [0.398, 0.421, 0.44, 0.475, 0.51], 0.1)
    assert complaint is not None
    assert words in complaint.hint


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("Timing: 0.3102 +- 0.3102 s", True),
        ("Timing: 310.2 ms +- 310.2 ms", True),
        ("Timing: 0.3 +- 0.3 s", False),
        ("Timing: 0.310 +- 0.310 s", False),
        ("Timing: 0.3102 +- 0.3101 s", False),
    ],
)
def test_the_mean_for_the_deviation_is_told_from_what_rounding_makes_alike(printed: str, same: bool) -> None:
    assert [reading.is_twice_the_same() for reading in printed_times.readings(printed, None)] == [same]


LINES = "".join(f"pass {n}: {s} s\n" for n, s in enumerate((0.1512, 0.4312, 0.1103, 0.27, 0.3121)))


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("28 images\nTiming: [0.1512, 0.4312, 0.1103, 0.27, 0.3121]", True),
        ("Timing: [0.1512 0.4312 0.1103\n 0.27 0.3121]", True),
        (
            "[np.float64(0.1512), np.float64(0.4312), np.float64(0.1103), np.float64(0.27), np.float64(0.3121)] s",
            True,
        ),
        # With the mean and the deviation, in whatever words.
        ("[0.1512, 0.4312, 0.1103, 0.27, 0.3121]: 0.25+-0.11", False),
        ("[0.1512, 0.4312, 0.1103, 0.27, 0.3121]: 0,25+-0,11", False),
        ("[0.1512, 0.4312, 0.1103, 0.27, 0.3121]: 255 ms +- 114 ms", False),
        ("[0.1512, 0.4312, 0.1103, 0.27, 0.3121]\nin ms: 255 +- 114", False),
        # Not the times of these passes: mean, deviation, least, most and median.
        ("[0.255, 0.114, 0.1103, 0.4312, 0.27]", False),
        ("[0.255, 0.114]", False),
        ("0.1512, 0.4312, 0.1103, 0.27, 0.3121", False),
        ("[]", False),
        ("[0.1512, 0.4312, 0.1103, 0.27, 0.3121]\nmean 0.25 s", True),
        # One line for each pass.
        (LINES, True),
        (f"Timing on 1 worker\n{LINES}mean: 0.255 s", True),
        (LINES.replace(".", ","), True),
        (f"{LINES}0.255 +- 0.114", False),
        (f"{LINES}0,255 +- 0,114", False),
        (f"{LINES}0.255(114)", False),
        (f"{LINES}In milliseconds: 255 +- 114", False),
        (LINES.replace("pass", "mean so far after"), False),
        (LINES.replace(" s", " s, 51.2 images per second"), False),
        (LINES.replace("0.27", "0.02"), False),
    ],
)
def test_readings_alone_are_told_from_what_is_made_of_them(printed: str, told: bool) -> None:
    assert printed_times.are_bare_passes(printed, [0.06, 0.27, 0.03, 0.15, 0.18]) == told


def test_a_deviation_is_read_beside_the_passes() -> None:
    least = [0.06, 0.27, 0.03, 0.15, 0.18]
    rest = printed_times.without_passes(f"{LINES}mean 0.255 s, variance 0.0129 s", least)
    assert [(r.mean, r.std) for r in printed_times.readings(rest, None)] == [(0.255, 0.0129)]


def test_delays_differ_whichever_passes_are_timed() -> None:
    for seed in range(100):
        delays = np.random.default_rng(seed).permutation(script_timing.DELAYS)
        for count in (3, 4, 5, 6):
            for first in range(7):
                timed = np.resize(np.roll(delays, -first), count)
                assert np.std(timed) > 4 * script_timing.LEAST_SPREAD * np.std(script_timing.DELAYS)


def test_versions_are_no_timing() -> None:
    assert printed_times.readings("2.15.0 0.30.0+cpu\nno data in /data", None) == []


def test_an_error_bar_counts_as_a_timing() -> None:
    bars = [{"y": [0.31], "yerr": [0.02]}, {"y": "no"}, 3]
    assert [r.mean for r in printed_times.readings("", bars) if r.fits(0.1, 2.0)] == [0.31]


def test_quilts_are_found_in_a_figure_and_nothing_is_found_in_another() -> None:
    rng = np.random.default_rng(3)
    tree, hidden = faces.make_quilts(rng, patterns=4, images=8)
    other, _ = faces.make_quilts(np.random.default_rng(4), patterns=4, images=8)
    assert len(faces.quilts_in(_figure(list(tree.pixels.values())), hidden)) == 4
    assert len(faces.quilts_in(_figure(list(other.pixels.values())), hidden)) < 2
    assert len(faces.quilts_in(_figure([next(iter(tree.pixels.values()))] * 8), hidden)) == 1


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (lambda image, _: image, False),
        (lambda image, _: image[:, ::-1], False),
        (lambda image, place: image[:: (1, -1)[place % 2], ::-1], False),
        (lambda image, place: np.rot90(image, place), False),
        (lambda image, _: image.transpose(1, 0, 2), True),
        (lambda image, place: image[:, :: (1, -1)[place % 2]].transpose(1, 0, 2), True),
    ],
)
def test_images_with_rows_for_columns_are_told_from_mirrored_ones(
    turn: Callable[[np.ndarray, int], np.ndarray], told: bool
) -> None:
    tree, hidden = faces.make_quilts(np.random.default_rng(3), patterns=8, images=16)
    picture = _figure([turn(image, place) for place, image in enumerate(tree.pixels.values())])
    found = faces.quilts_in(picture, hidden)
    assert len(found) == 8
    assert (len(faces.on_their_side(picture, found)) >= script_runs.SIDEWAYS) == told


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (lambda image, _: image[::-1], True),
        (lambda image, place: image[::-1, :: (1, -1)[place % 2]], True),
        (lambda image, _: image, False),
        (lambda image, _: image[:, ::-1], False),
        (lambda image, place: image[:: (1, -1)[place % 2]], False),
        (lambda image, place: image[:: (1 if place == 15 else -1)], False),
        (lambda image, place: np.rot90(image, place), False),
        (lambda image, _: image.transpose(1, 0, 2), False),
    ],
)
def test_images_that_all_stand_on_their_heads_are_told_from_some_that_do(
    turn: Callable[[np.ndarray, int], np.ndarray], told: bool
) -> None:
    tree, hidden = faces.make_quilts(np.random.default_rng(3), patterns=8, images=16)
    picture = _figure([turn(image, place) for place, image in enumerate(tree.pixels.values())])
    times = faces.on_their_heads(picture, faces.quilts_in(picture, hidden))
    assert (len(times) == 8 and script_runs.ON_THEIR_HEADS <= sum(times.values()) <= 16) == told


@pytest.mark.parametrize("colours", [(0, 1, 2, 6), (0, 6, 7, 5), (1, 3, 5, 6), (2, 4, 7, 3)])
def test_blurred_edges_of_one_image_are_no_other_image(colours: tuple[int, ...]) -> None:
    every = {faces._pattern(four) for four in permutations(range(8), 4)}
    assert faces.quilts_in(_figure([faces.read(faces.jpeg(faces._quilt(colours)))]), every) == {colours}


def test_a_figure_of_every_pattern_shows_none() -> None:
    rng = np.random.default_rng(3)
    _, hidden = faces.make_quilts(rng, patterns=8, images=64)
    every, _ = faces.make_quilts(rng, patterns=210, images=210)
    rows = list(every.pixels.values())
    picture = np.vstack([np.hstack(rows[start : start + 15]) for start in range(0, 210, 15)])
    assert faces.quilts_in(picture, hidden) == set()


def _figure(images: list[np.ndarray]) -> np.ndarray:
    figure = Figure()
    for place, image in enumerate(images):
        figure.add_subplot(-(-len(images) // 4), min(4, len(images)), place + 1).imshow(image)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def test_trees_are_clean_and_fresh() -> None:
    rng = np.random.default_rng(5)
    one, other = (faces.make_tree(rng, people=4, images=9) for _ in range(2))
    assert (one.count, one.people) == (9, 4)
    assert not one.files.keys() & other.files.keys()
    assert len({faces.fingerprint(pixels) for tree in (one, other) for pixels in tree.pixels.values()}) == 18
    for name, data in one.files.items():
        person, file = name.split("/")
        assert file.startswith(person)
        with Image.open(io.BytesIO(data)) as image:
            assert (image.mode, image.size) == ("RGB", (250, 250))


def test_robust_gives_one_point_in_all() -> None:
    trials = robustness.trials(np.random.default_rng(0))
    assert round(sum(trial.share for trial in trials.values()), 9) == 1


def test_a_trial_without_answer_is_lost() -> None:
    for trial in robustness.trials(np.random.default_rng(0)).values():
        assert trial.complaint({})
        assert trial.complaint({"items": [{"kind": "IndexError"}], "problem": {}})


def test_labels_are_told_apart_from_images() -> None:
    (look,) = looks(
        [{"kind": "a float32 tensor", "labelled": True, "dtype": "float32", "digest": "d", "shape": [3]}]
    )
    assert look == Look("a float32 tensor", labelled=True, digest="d", shape=(3,), dtype="float32")


NOBODYS = Submission("someone", {}, frozenset(), "0", (), {}, {})


@pytest.mark.parametrize(
    ("kind", "message", "place", "told"),
    [
        ("NotImplementedError", "lfw_dataset.py is not written yet", "lfw_dataset.py, line 33", "look for the TODO"),
        ("TypeError", "__init__() takes 2 positional arguments but 3 were given", None, "the exercise has it called"),
        ("TypeError", "f() takes 2 positional arguments but 3 were given", "lfw_dataset.py, line 9", "with other arguments than it takes"),
        ("NameError", "name 'glob' is not defined", "lfw_dataset.py, line 9", "Nothing has defined glob"),
        ("ZeroDivisionError", "division by zero", "lfw_dataset.py, line 9", "by hand"),
        ("IndexError", "list index out of range", "lfw_dataset.py, line 9", "one level below the folder"),
        ("FileNotFoundError", "no such file", "lfw_dataset.py, line 9", "about paths"),
    ],
)  # fmt: skip
def test_only_what_may_come_of_a_path_is_told_about_paths(
    kind: str, message: str, place: str | None, told: str
) -> None:
    hint = raised_hint({"type": kind, "message": message, "place": place}, NOBODYS, "about paths")
    assert told in hint
    assert ("about paths" in hint) is (kind in {"IndexError", "FileNotFoundError"})


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("default_collate: batch must contain tensors", "see items_are_images"),
        ("'NoneType' object cannot be interpreted as an integer", "see length"),
        ("strange", "Run it yourself"),
    ],
)
def test_a_script_that_stops_at_the_data_set_is_told_so(message: str, told: str) -> None:
    assert told in raised_by_script({"type": "TypeError", "message": message, "place": None}, NOBODYS)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (": x.py: error: unrecognized arguments: -get_timing", "with one dash"),
        (": x.py: error: argument -visualize_batch: expected one argument", 'action="store_true"'),
        (": x.py: error: the following arguments are required: --lr", "a default"),
        (": no images", "Run it yourself"),
    ],
)
def test_flags_that_a_script_does_not_know_are_told(said: str, told: str) -> None:
    assert told in ended_by_script(said)


def test_how_a_script_ended_is_told_once() -> None:
    first = Complaint("`-a` raised TypeError: no (x.py, line 3)", "", "raised TypeError: no (x.py, line 3)")
    again = Complaint("`-b` raised TypeError: no (x.py, line 9)", "", "raised TypeError: no (x.py, line 9)")
    other = Complaint("`-b` raised TypeError: yes (x.py, line 3)", "", "raised TypeError: yes (x.py, line 3)")
    well = Complaint("`-b` drew nothing", "")
    assert told_once([first, again]) == f"{first.message}\n`-b` ended likewise"
    assert told_once([first, other]) == f"{first.message}\n{other.message}"
    assert told_once([well, well]) == f"{well.message}\n{well.message}"
