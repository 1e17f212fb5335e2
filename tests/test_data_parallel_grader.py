"""The grader of exercise 3: what is half right, forged answers, and timers however busy a machine is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from fixtures import build
from graders.data_parallel import expected, timing
from graders.data_parallel.calls import calls_of, calls_told_of
from graders.data_parallel.inference import one_number
from graders.data_parallel.timing import Call, Complaint, Session
from lockstep.compare import difference
from lockstep.reports.document import document
from lockstep.sandbox.box import Box
from lockstep.verdict import Verdict
from lockstep.wire import Json
from tests.forging import forgery, taken_in
from tests.samples import graded

EXERCISE = "data_parallel"
REFERENCE = build.ROOT / "reference"
SAMPLES = build.all_submissions(EXERCISE)


@pytest.mark.parametrize(
    ("sample", "check", "points"),
    [
        ("device_ids_written_out", "is_data_parallel", 1),
        ("wraps_on_gpus_only", "is_data_parallel", 1),
        ("times_the_first_call", "timing_is_sound", 2),
        ("synchronises_without_a_gpu", "timing_is_sound", 2),
        ("returns_an_array", "timing_is_sound", 2),
        ("no_synchronise", "timing_is_sound", 0),
        ("silent_about_what_is_missing", "report", 0.5),
        ("weights_left_on_the_cpu", "report", 0.5),
        ("training_flag_only", "timing_is_sound", 2),
        ("one_device_written_out", "report", 0.5),
        ("two_devices_by_name_only", "report", 0.5),
        ("hours_within_a_second", "report", 0.5),
        ("script_never_warms_up", "report", 0.5),
        ("report_name_written_out", "report", 0.5),
        ("needs_report", "report", 0.5),
        ("devices_never_handed_on", "report", 0.5),
        ("ends_at_the_first_missing_gpu", "report", 0.5),
        ("warms_up_in_training_mode", "timing_is_sound", 2.5),
        ("gradients_left_off", "timing_is_sound", 2.5),
    ],
)
def test_what_is_half_right_keeps_a_part_of_the_points(
    sample: str, check: str, points: float, tmp_path: Path, box: Box
) -> None:
    (found,) = [candidate for candidate in SAMPLES if candidate.name == sample]
    (exercise,) = graded(build.build(found, tmp_path / sample), EXERCISE, box, checks=[check]).exercises
    assert [c.points for c in exercise.checks if c.id == check] == [points]


AVAILABLE = "    n_available = max(torch.cuda.device_count(), 1)  # a CPU counts as one device\n"
MEASURED = "            runs += measure(n_devices, batch_size, args.n_reps)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            AVAILABLE,
            """
    import subprocess
    try:
        n_available = subprocess.check_output(["nvidia-smi", "-L"]).count(b"GPU ") or 1
    except OSError:
        n_available = 1
""",
            id="asks elsewhere how many there are",
        ),
        pytest.param(
            MEASURED,
            """
            try:
                runs += measure(n_devices, batch_size, args.n_reps)
                if n_devices > 1:
                    runs[:] = [run for run in runs if run["config"]["n_devices"] == 1]
                    raise RuntimeError("a call that is not emulated")
            except RuntimeError as error:
                not_available.append({"config": {"n_devices": n_devices}, "reason": str(error)})
""",
            id="tries two and reports that it could not",
        ),
    ],
)
def test_who_meets_the_limits_of_emulated_gpus_loses_nothing(
    old: str, new: str, tmp_path: Path, box: Box
) -> None:
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    source = (REFERENCE / "data_parallel.py").read_text()
    assert source.count(old) == 1
    (tmp_path / "data_parallel.py").write_text(source.replace(old, new))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=["report"]).exercises
    assert [(c.points, c.message) for c in exercise.checks if c.id == "report" and c.points < 1] == []


TIMED = "        seconds = time_inference(model, batch, n_reps)\n"
# A right loop that is not time_inference's; its warm-up has another size.
OWN_LOOP = """
        model.eval()
        seconds = []
        with torch.no_grad():
            model(torch.cat([batch, batch]))
            for _ in range(n_reps):
                synchronize(next(model.parameters()).device)
                start = time.perf_counter()
                model(batch)
                synchronize(next(model.parameters()).device)
                seconds.append(time.perf_counter() - start)
"""
# The clock is read where torch calls hooks.
HOOKS = """
        model.eval()
        seconds, began = [], []
        with torch.no_grad():
            model(torch.cat([batch, batch]))
            timed = model
            hooks = [
                timed.register_forward_pre_hook(lambda *_: began.append(time.perf_counter())),
                timed.register_forward_hook(lambda *_: synchronize(next(model.parameters()).device)),
                timed.register_forward_hook(lambda *_: seconds.append(time.perf_counter() - began.pop())),
            ]
            for _ in range(n_reps):
                model(batch)
            for hook in hooks:
                hook.remove()
"""


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(OWN_LOOP, id="a right loop of its own"),
        pytest.param(HOOKS, id="hooks of the wrapper", marks=pytest.mark.slow),
        pytest.param(HOOKS.replace("timed = model", "timed = model.module"), id="hooks of the model in it"),
        pytest.param(f"        model.train()(batch).sum().backward()\n{TIMED}", id="a look at training besides"),
        pytest.param(f"        model.requires_grad_(False)\n{TIMED}", id="frozen weights"),
        pytest.param(OWN_LOOP.replace("model(batch)", "model.module(batch)").replace(
            "torch.cat([batch, batch])", "batch[:1]"), id="calls the inner model"),
        pytest.param(OWN_LOOP.replace("model(batch)", "model(images=batch)"), id="by keyword"),
    ],
)  # fmt: skip
def test_a_script_may_take_its_times_otherwise(new: str, tmp_path: Path, box: Box) -> None:
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    source = (REFERENCE / "data_parallel.py").read_text()
    assert source.count(TIMED) == 1
    (tmp_path / "data_parallel.py").write_text(source.replace(TIMED, new))
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=["report"]).exercises
    assert [c.message for c in exercise.checks if c.id == "report" and "time_inference" in c.message] == []


def test_readings_may_be_numpys(tmp_path: Path, box: Box) -> None:
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    source = (REFERENCE / "data_parallel.py").read_text()
    assert source.count("    return seconds\n") == 1
    (tmp_path / "data_parallel.py").write_text(
        source.replace(
            "    return seconds\n", "    import numpy as np\n\n    return list(np.array(seconds))\n"
        )
    )
    (exercise,) = graded(tmp_path, EXERCISE, box).exercises
    assert [(c.id, c.message) for c in exercise.checks if c.points < c.max_points] == []


@pytest.mark.parametrize(
    ("odd", "odd_array"),
    [
        ("True", "torch.zeros(3, 3)"),
        ("[-1, None, 'x', {'kind': 3}]", "torch.tensor(3)"),
        ("[[0, 0, True, True, 1]] * 9", "torch.ones(3, dtype=torch.uint8)"),
        ("{'parallel': True, 'inner': 'the model', 'device_ids': [0, 0, 'x']}", "torch.ones(3, 3).bool()"),
    ],
)
def test_forged_answers_earn_nothing_and_break_nothing(
    odd: str, odd_array: str, tmp_path: Path, box: Box
) -> None:
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    source = (REFERENCE / "data_parallel.py").read_text()
    forged = source.replace("import torch\n", "import torch\n" + forgery(odd, odd_array), 1)
    (tmp_path / "data_parallel.py").write_text(forged)
    (exercise,) = graded(tmp_path, EXERCISE, box).exercises
    assert taken_in(exercise.checks) == []


FAKE_CLOCK = """
_real = time.perf_counter
_skipped = [0.0]

def _sleep(seconds):
    _skipped[0] += seconds

time.sleep = _sleep
time.perf_counter = lambda: _real() + _skipped[0]
"""


def test_a_stopped_clock_is_seen_from_outside(tmp_path: Path, box: Box) -> None:
    shutil.copy(REFERENCE / "perf_report.py", tmp_path)
    source = (REFERENCE / "data_parallel.py").read_text()
    (tmp_path / "data_parallel.py").write_text(
        source.replace("BATCH_SIZES =", FAKE_CLOCK + "\nBATCH_SIZES =", 1)
    )
    (exercise,) = graded(tmp_path, EXERCISE, box, checks=["timing_is_sound"]).exercises
    (check,) = [check for check in exercise.checks if check.id == "timing_is_sound"]
    assert (check.verdict, check.points) == (Verdict.FAILED, 0)


# The judge's arithmetic alone, on simulated clocks


class Simulation:
    """A machine on which anything may take longer at any time, and a model on it whose calls take known times."""

    def __init__(self, seed: int, *, on_gpu: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.on_gpu, self.now, self.done = on_gpu, 100.0, 0.0
        self.delays = [0.17, *self.rng.uniform(0.02, 0.06, 63).tolist()]
        self.calls: list[Call] = []

    def stall(self) -> None:
        """Another process has the core: mostly for microseconds, at times for long."""
        self.now += float(self.rng.choice([1e-6, 1e-5, 1e-4, 0.3], p=[0.5, 0.3, 0.15, 0.05]))

    def call(self) -> None:
        """One call of the model."""
        self.stall()
        start, delay = self.now, self.delays[len(self.calls)]
        self.done = max(self.now, self.done) + delay
        if not self.on_gpu:
            self.now = self.done
            self.stall()
            self.done = self.now
        self.calls.append(Call(start, self.done, training=False, grad=False, rows=4))
        self.stall()

    def wait(self) -> None:
        """Synchronise."""
        self.now = max(self.now, self.done)
        self.stall()

    def read(self) -> float:
        """Read the clock."""
        self.stall()
        return self.now

    def complaints(self, readings: Sequence[float]) -> list[Complaint]:
        """What the judge says."""
        self.stall()
        session = Session(len(readings), 4, self.delays, self.on_gpu, self.calls, self.now)
        return timing.complaints(session, readings)


def sound(machine: Simulation, n_reps: int) -> Iterator[float]:
    machine.call()
    machine.call()
    for _ in range(n_reps):
        machine.wait()
        start = machine.read()
        machine.call()
        machine.wait()
        yield machine.read() - start


def warm_up_before_each(machine: Simulation, n_reps: int) -> Iterator[float]:
    for _ in range(n_reps):
        machine.call()
        machine.wait()
        start = machine.read()
        machine.call()
        machine.wait()
        yield machine.read() - start


def rounded(machine: Simulation, n_reps: int) -> Iterator[float]:
    return (round(reading, 3) for reading in sound(machine, n_reps))


def in_order_of_size(machine: Simulation, n_reps: int) -> Iterator[float]:
    return iter(sorted(sound(machine, n_reps), reverse=n_reps % 2 == 0))


def calls_once_more(machine: Simulation, n_reps: int) -> Iterator[float]:
    yield from sound(machine, n_reps)
    machine.call()
    machine.wait()


def events(machine: Simulation, n_reps: int) -> Iterator[float]:
    machine.call()
    for _ in range(n_reps):
        start = max(machine.now, machine.done)
        machine.call()
        yield machine.done - start


def no_wait(machine: Simulation, n_reps: int) -> Iterator[float]:
    machine.call()
    machine.wait()
    for _ in range(n_reps):
        start = machine.read()
        machine.call()
        yield machine.read() - start


def mean(machine: Simulation, n_reps: int) -> Iterator[float]:
    readings = list(sound(machine, n_reps))
    return iter([float(np.mean(readings))] * n_reps)


def milliseconds(machine: Simulation, n_reps: int) -> Iterator[float]:
    return (1000 * reading for reading in sound(machine, n_reps))


def guessed(machine: Simulation, n_reps: int) -> Iterator[float]:
    list(sound(machine, n_reps))
    return iter(machine.rng.uniform(0.02, 0.06, n_reps).tolist())


Timer = Callable[[Simulation, int], Iterator[float]]


@pytest.mark.parametrize(
    ("timer", "on_gpu"),
    [
        (timer, on_gpu)
        for timer in (sound, warm_up_before_each, rounded, calls_once_more)
        for on_gpu in (True, False)
    ]
    + [(events, True)],
)
def test_a_sound_timer_is_never_suspected_however_busy_the_machine(timer: Timer, on_gpu: bool) -> None:
    for seed in range(300):
        machine = Simulation(seed, on_gpu=on_gpu)
        assert machine.complaints(list(timer(machine, 5))) == [], seed


@pytest.mark.parametrize("on_gpu", [True, False])
def test_sorted_readings_are_readings(on_gpu: bool) -> None:
    for seed in range(300):
        machine = Simulation(seed, on_gpu=on_gpu)
        assert machine.complaints(list(in_order_of_size(machine, 4 + seed % 3))) == [], seed


def calls_once_more_without_waiting(machine: Simulation, n_reps: int) -> Iterator[float]:
    yield from sound(machine, n_reps)
    machine.call()


@pytest.mark.parametrize("timer", [sound, calls_once_more, calls_once_more_without_waiting, events])
def test_a_clock_outside_has_nothing_against_a_sound_timer_that_is_all_there_is(timer: Timer) -> None:
    for seed in range(300):
        machine = Simulation(seed, on_gpu=True)
        machine.stall = lambda: None  # type: ignore[method-assign]
        began = machine.now
        readings = list(timer(machine, 5))
        # Events were asked for their times, and so waited for.
        machine.now = max(machine.now, machine.calls[5].done)
        session = Session(5, 4, machine.delays, True, machine.calls, machine.now)
        assert timing.outside([session], [readings], machine.now - began) == [], seed


@pytest.mark.parametrize("on_gpu", [True, False])
def test_what_took_longer_than_the_process_is_told(on_gpu: bool) -> None:
    machine = Simulation(3, on_gpu=on_gpu)
    machine.stall = lambda: None  # type: ignore[method-assign]
    began = machine.now
    readings = list(sound(machine, 5))
    session = Session(5, 4, machine.delays, on_gpu, machine.calls, machine.now)
    assert timing.outside([session], [readings], machine.now - began) == []
    (told,) = timing.outside([session], [readings], 0.9 * (machine.now - began))
    assert (told.share, told.message.split()[:2]) == (1.0, ["7", "calls"])


@pytest.mark.parametrize("timer", [no_wait, mean, milliseconds, guessed])
def test_an_unsound_timer_is_caught_with_any_delays(timer: Timer) -> None:
    for seed in range(300):
        machine = Simulation(seed, on_gpu=True)
        machine.stall = lambda: None  # type: ignore[method-assign]
        told = machine.complaints(list(timer(machine, 5)))
        assert [complaint.share for complaint in told][:1] == [1.0], seed


def test_calls_of_one_timer_do_not_overlap() -> None:
    machine = Simulation(0, on_gpu=False)
    list(sound(machine, 5))
    assert all(before.done <= after.start for before, after in pairwise(machine.calls))


@pytest.mark.parametrize(
    "value",
    [None, 3, [3], [[1, 2, 3]], [[1.0, 0.5, True, True, 1]], [[0, 1, 0, True, 1]], [[0, 1, True, None, 1]],
     [["0", 1, True, True, 1]], [[0, 1, True, True, 1.5]]],
)  # fmt: skip
def test_forged_calls_are_no_calls(value: Json) -> None:
    assert timing.parse_calls(value) is None


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("a float", None, "returned a float"),
        ("a list", [0.1, None, 0.1], "something else than numbers"),
        ("a list", [0.1, {"type": "NaN"}, 0.1], "something else than numbers"),
        ("a list", [True, 0.1, 0.1], "something else than numbers"),
        ("a list", [0.1], "1 numbers"),
        (3, [0.1], "something else"),
    ],
)
def test_readings_that_are_none_are_named(kind: Json, value: Json, words: str) -> None:
    found = timing.parse_readings(kind, value, 3)
    assert isinstance(found, Complaint)
    assert words in found.message


def test_the_hidden_network_has_head_room() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shape = expected.make_shape(rng)
        weights = expected.make_weights(rng, shape)
        (batch,) = expected.make_batches(rng, shape, [7]).values()
        right = expected.outputs(shape, weights, batch)
        twin = expected.build_model(shape, weights).double()
        with torch.no_grad():
            exact = twin(torch.from_numpy(batch).double()).float().numpy()
            parts = [expected.outputs(shape, weights, part) for part in (batch[:1], batch[1:4], batch[4:])]
        # Rounding stays a good way below what is allowed.
        assert difference(right, exact, rtol=2e-6, atol=5e-7) is None, seed
        assert difference(np.concatenate(parts), right, rtol=2e-6, atol=5e-7) is None, seed
        assert np.ptp(right, axis=0).min() > 0.01, seed


# Readings that were taken, each of them

AS_READ = [f"0.006{digits}" for digits in range(1_234_567, 1_234_589)]


def told(
    steps: int, readings: Sequence[str] = (), batch_size: int = 4, n_devices: int = 1
) -> dict[str, Json]:
    written: dict[str, Json] = {"step_s": list(readings)} if readings else {}
    return {"config": {"batch_size": batch_size, "n_devices": n_devices}, "steps": steps, **written}


@pytest.mark.parametrize(
    ("runs", "calls"),
    [
        ([told(22, AS_READ)] * 5, 110),
        ([told(22)] * 5, 110),
        # A run that sums the others up tells of no calls of its own, nor does one of another configuration.
        ([*[told(22, AS_READ)] * 5, told(110)], 110),
        ([told(22, AS_READ), told(22, AS_READ, batch_size=5), told(22, AS_READ, n_devices=2)], 22),
        ([{"config": None, "steps": 22}, {"steps": "x"}], 0),
    ],
)
def test_a_report_tells_of_as_many_calls_as_it_has_readings(runs: list[dict[str, Json]], calls: int) -> None:
    assert calls_told_of(runs, 4) == calls


@pytest.mark.parametrize(
    ("networks", "calls"),
    [
        ([["4", 100, 88]], 88),
        # The layers one by one; a network made anew for each call would be counted in the same way.
        ([["4", 60, 88], ["4", 40, 88]], 88),
        # One call of it, and the others of a small layer; one call of a much larger network is one call.
        ([["4", 100, 1], ["4", 2, 88]], 2.76),
        ([["4", 100_000, 1]], 1),
        # A report that leaves out what does not learn tells of fewer; other batches are others.
        ([["4", 150, 88], ["5", 100, 88]], 88),
        ([["4", 100], "x", ["4", None, 88], ["4", 100, "x"]], 0),
        ({"4": 100}, 0),
    ],
)
def test_calls_of_less_than_the_network_count_in_part(networks: Json, calls: float) -> None:
    assert calls_of(networks, 4, 100) == pytest.approx(calls)


@pytest.mark.parametrize(
    ("readings", "repeated"),
    [
        ([AS_READ[:1] * 22] * 5, AS_READ[0]),
        ([AS_READ[:1] * 22, AS_READ[1:2] * 22, AS_READ[:1]], AS_READ[0]),
        ([AS_READ, AS_READ[:1] * 22], None),
        ([AS_READ[:1] * 21 + AS_READ[1:2]] * 5, None),
        # Rounded, or few, they may be alike.
        ([["0.00612"] * 22] * 5, None),
        ([["0.01"] * 22] * 5, None),
        ([AS_READ[:1] * 5] * 5, None),
        ([[]], None),
    ],
)
def test_readings_to_the_last_digit_are_not_one_number(
    readings: list[list[str]], repeated: str | None
) -> None:
    source = json.loads((build.ROOT / "reference" / "reports" / "data_parallel.json").read_text())
    source["runs"] = [{**source["runs"][0], "step_s": own} for own in readings]
    assert one_number(document(source)) == repeated
