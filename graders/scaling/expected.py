"""What the functions of exercise 7 return, which arguments they take, and the slips that are made with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

import numpy as np

from lockstep.wire import Json

Number = int | float


class Kind(Enum):
    """What an argument is, and with that which values it must not have."""

    COUNT = "a whole number above zero"
    SIZE = "a whole number that is not negative"  # of a data set: what an empty one comes to is nobody's business
    ABOVE_ZERO = "a finite number above zero"
    RATE = "a finite number that is not negative"  # a learning rate: torch takes 0
    FRACTION = "a number from 0 to 1"


@dataclass(frozen=True)
class Call:
    """One call of a function: its arguments, and those that are given by name."""

    function: str
    arguments: tuple[Number | str, ...]
    keywords: Mapping[str, bool] = field(default_factory=dict)
    # Of a bad call: an error other than ValueError that says the same.
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As Python, to be tried by hand."""
        shown = [_shown(value) for value in self.arguments]
        shown += [f"{name}={value}" for name, value in self.keywords.items()]
        return f"{self.function}({', '.join(shown)})"

    def to_json(self) -> dict[str, Json]:
        """For the probe."""
        return {
            "shown": str(self),
            "arguments": [_packed(value) for value in self.arguments],
            "keywords": dict(self.keywords),
        }


def _shown(value: Number | str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _packed(value: Number | str) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


@dataclass(frozen=True)
class Slip:
    """A formula that is often written instead, and what to tell whoever wrote it."""

    formula: Callable[..., Number]
    hint: str


@dataclass(frozen=True)
class Function:
    """One function of the exercise: its formula, the kinds of its arguments, and the slips."""

    formula: Callable[..., Number]
    kinds: tuple[Kind, ...]
    slips: tuple[Slip, ...]


ARGUMENTS = {
    "effective_batch_size": ("batch_size", "world_size"),
    "steps_per_epoch": ("n_samples", "batch_size", "world_size"),
    "scaled_lr": ("base_lr", "base_batch_size", "batch_size", "world_size"),
    "speedup": ("t1", "tn"),
    "efficiency": ("t1", "tn", "n"),
    "amdahl_speedup": ("serial_fraction", "n"),
    "karp_flatt": ("speedup", "n"),
}
"""The names of the arguments that have a kind, in their order."""


def ceil_div(a: int, b: int) -> int:
    """The quotient of two whole numbers, rounded up."""
    return -(-a // b)


def steps(n: int, batch: int, world: int, drop_last: bool = False) -> int:
    """Steps of one epoch: ceil(n / (batch x world)), or floor with drop_last."""
    return n // (batch * world) if drop_last else ceil_div(n, batch * world)


FUNCTIONS = {
    "effective_batch_size": Function(
        lambda batch, world: batch * world,
        (Kind.COUNT, Kind.COUNT),
        (
            Slip(lambda batch, world: batch + world, "Every process takes a whole batch in a step: multiply."),
            Slip(lambda batch, world: batch, "That is what one process takes; count those of all of them."),
            Slip(
                lambda batch, world: batch / world,
                "`batch_size` is what each process takes, as the DataLoader of each has it: multiply.",
            ),
            Slip(
                lambda batch, world: batch // world,
                "`batch_size` is what each process takes, as the DataLoader of each has it: multiply.",
            ),
        ),
    ),
    "steps_per_epoch": Function(
        steps,
        (Kind.SIZE, Kind.COUNT, Kind.COUNT),
        (
            Slip(
                lambda n, batch, world, drop_last=False: n // (batch * world),
                "Without `drop_last` the samples that are left over make one more, smaller step: round up.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: ceil_div(n, batch * world),
                "With `drop_last=True` the samples that are left over are not used: round down.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: steps(n, batch, world, not drop_last),
                "The two cases of `drop_last` are swapped: with it round down, without it up.",
            ),
            Slip(
                lambda n, batch, world, drop_last=True: steps(n, batch, world, drop_last),
                "Where nothing is said of `drop_last` it is False: its default belongs in the line with `def`.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: (
                    n // (batch * world) if drop_last else (n - 1) // (batch * world)
                ),
                "(n - 1) // m is one step too few: (n - 1) // m + 1 rounds up, or math.ceil, or -(-n // m).",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: (n if drop_last else -n) // (batch * world),
                "There are no steps below zero: -(-n // m) rounds up, with a minus in front as well.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: (
                    n // (batch * world) + (0 if drop_last else 1)
                ),
                "`+ 1` is one step too many where the samples fill all steps: use math.ceil, or -(-a // b).",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: round(n / (batch * world)),
                "round() goes to the nearest number: math.ceil and math.floor round up and down.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: (
                    n // (batch * world) if drop_last else round(n / (batch * world))
                ),
                "round() goes to the nearest number: math.ceil and math.floor round up and down.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: n // (batch * world) if drop_last else n / (batch * world),
                "There is no part of a step: what is left over is one more, so round up.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: (
                    n / (batch * world) if drop_last else ceil_div(n, batch * world)
                ),
                "There is no part of a step: with `drop_last=True` round down, n // m or math.floor.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: steps(n, batch, 1, drop_last),
                "The data set is shared: each process takes only its part of it.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: steps(n, batch, 1, drop_last) * world,
                "More processes make fewer steps: each takes only its part of the data set.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: n / (batch * world),
                "There is no part of a step: round up, or with `drop_last` down.",
            ),
            Slip(
                lambda n, batch, world, drop_last=False: _in_float32(n, batch * world, drop_last),
                "It is right for small data sets only: float32, torch's default, has no room for 8 digits. "
                "Divide Python's own numbers.",
            ),
        ),
    ),
    "scaled_lr": Function(
        lambda lr, base, batch, world: lr * batch * world / base,
        (Kind.RATE, Kind.COUNT, Kind.COUNT, Kind.COUNT),
        (
            Slip(
                lambda lr, base, batch, world: lr * base / (batch * world),
                "The ratio is upside down: with larger steps the learning rate grows.",
            ),
            Slip(
                lambda lr, base, batch, world: lr / world,
                "The learning rate grows with the processes: multiply.",
            ),
            Slip(
                lambda lr, base, batch, world: lr * world,
                "That is right only where `batch_size` is `base_batch_size`: compare what a step takes now, "
                "`batch_size * world_size`, with `base_batch_size`.",
            ),
            Slip(
                lambda lr, base, batch, world: lr if world == 1 else lr * batch * world / base,
                "One process is no exception: its steps take `batch_size` samples, `base_lr` is for `base_batch_size`.",
            ),
            Slip(
                lambda lr, base, batch, world: lr * batch / base,
                "A step takes the batches of all processes: `batch_size * world_size` samples.",
            ),
            Slip(
                lambda lr, base, batch, world: lr * batch * world,
                "`base_lr` is for steps of `base_batch_size` samples: divide by that.",
            ),
            Slip(
                lambda lr, base, batch, world: lr * math.sqrt(batch * world / base),
                "That is the square-root rule; asked for is the linear one (Goyal et al. 2017).",
            ),
            Slip(
                lambda lr, base, batch, world: lr * math.sqrt(world),
                "That is the square-root rule; asked for is the linear one (Goyal et al. 2017).",
            ),
            Slip(
                lambda lr, base, batch, world: lr * (batch * world // base),
                "`//` and int() drop the fraction: divide with `/`.",
            ),
            Slip(
                lambda lr, base, batch, world: lr * max(1, batch * world / base),
                "The rule goes both ways: steps of fewer samples than `base_batch_size` take less than `base_lr`.",
            ),
            Slip(
                lambda lr, base, batch, world: round(lr * batch * world / base, 6),
                "round() makes 0 of a small learning rate: return the result unrounded, and round where it is printed.",
            ),
        ),
    ),
    "speedup": Function(
        lambda t1, tn: t1 / tn,
        (Kind.ABOVE_ZERO, Kind.ABOVE_ZERO),
        (
            Slip(lambda t1, tn: tn / t1, "The ratio is upside down: half the time is a speedup of 2."),
            Slip(lambda t1, tn: t1 - tn, "That is the time saved; the speedup is a ratio."),
            Slip(lambda t1, tn: (t1 - tn) / t1, "That is the part of the time saved; the speedup is t1 / tn."),
            Slip(lambda t1, tn: t1 // tn, "`//` drops the fraction: divide with `/`."),
            Slip(lambda t1, tn: t1 / tn - 1, "That is the gain; the speedup of half the time is 2."),
            Slip(lambda t1, tn: max(1, t1 / tn), "More processes may be slower: then it is below 1, and stays so."),
            Slip(lambda t1, tn: 100 * t1 / tn, "Not as a percentage: half the time is a speedup of 2."),
        ),
    ),
    "efficiency": Function(
        lambda t1, tn, n: t1 / tn / n,
        (Kind.ABOVE_ZERO, Kind.ABOVE_ZERO, Kind.COUNT),
        (
            Slip(
                lambda t1, tn, n: n * tn / t1,
                "The ratio is upside down, which makes more than 1 of what processes cannot reach: it is "
                "the speedup divided by n.",
            ),
            Slip(
                lambda t1, tn, n: tn / t1 / n,
                "The ratio of the times is upside down: the speedup is t1 / tn.",
            ),
            Slip(lambda t1, tn, n: t1 / tn, "That is the speedup: divide it by n."),
            Slip(lambda t1, tn, n: n * t1 / tn, "Divide the speedup by n, do not multiply."),
            Slip(lambda t1, tn, n: 100 * t1 / tn / n, "Not as a percentage: 1 is perfect."),
            Slip(lambda t1, tn, n: 1 - t1 / tn / n, "That is the part that is lost; 1 is perfect."),
            Slip(lambda t1, tn, n: t1 / tn // n, "`//` drops the fraction: divide with `/`."),
        ),
    ),
    "amdahl_speedup": Function(
        lambda s, n: 1 / (s + (1 - s) / n),
        (Kind.FRACTION, Kind.COUNT),
        (
            Slip(
                lambda s, n: 1 / (1 - s + s / n),
                "The two parts are swapped: the serial fraction is the one that more processes do not help.",
            ),
            Slip(lambda s, n: s + (1 - s) / n, "That is the time that is left: the speedup is one over it."),
            Slip(lambda s, n: 1 / (s + (1 - s) * n), "n processes need an n-th of the time: divide by n."),
            Slip(lambda s, n: n - s * (n - 1), "That is Gustafson's law, for work that grows with n."),
            Slip(lambda s, n: 1 / (s + 1 - s / n), "Brackets are missing: s + (1 - s) / n."),
            Slip(lambda s, n: 1 / s + (1 - s) / n, "Brackets are missing: 1 / (s + (1 - s) / n)."),
            Slip(lambda s, n: 1 / (s + (1 - s)) / n, "A bracket ends too early: 1 / (s + (1 - s) / n)."),
            Slip(lambda s, n: n * (1 - s), "The serial part takes its time as well: 1 / (s + (1 - s) / n)."),
        ),
    ),
    "karp_flatt": Function(
        lambda s, n: (1 / s - 1 / n) / (1 - 1 / n),
        (Kind.ABOVE_ZERO, Kind.COUNT),
        (
            Slip(
                lambda s, n: 1 - (1 / s - 1 / n) / (1 - 1 / n),
                "That is the part that can be shared; asked for is the serial one.",
            ),
            Slip(lambda s, n: (1 / n - 1 / s) / (1 - 1 / n), "The sign is wrong: 1 / speedup - 1 / n."),
            Slip(lambda s, n: 1 / s - 1 / n, "Divide by 1 - 1 / n."),
            Slip(lambda s, n: (s - 1 / n) / (1 - 1 / n), "It takes one over the speedup, not the speedup."),
            Slip(lambda s, n: 1 / s - 1 / n / (1 - 1 / n), "Brackets are missing around 1 / speedup - 1 / n."),
            Slip(lambda s, n: (1 / s - 1 / n) / 1 - 1 / n, "Brackets are missing around 1 - 1 / n."),
        ),
    ),
}  # fmt: skip


def _in_float32(n: int, batch: int, drop_last: bool) -> int:
    quotient = np.float32(n / batch)
    return int(np.floor(quotient) if drop_last else np.ceil(quotient))


def right(call: Call) -> Number:
    """What a legal call has to return."""
    return FUNCTIONS[call.function].formula(*call.arguments, **call.keywords)


# Legal calls, the usual before the odd: the first that goes wrong is the one a student is shown.


def legal_calls(function: str, rng: np.random.Generator) -> list[Call]:
    """Calls with arguments that are in order; drawn anew, and with the edge cases among them."""
    return [Call(function, arguments, keywords) for arguments, keywords in _DRAW[function](rng)]


_Drawn = list[tuple[tuple[Number, ...], dict[str, bool]]]


def _whole(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def _number(rng: np.random.Generator, low: float, high: float) -> float:
    # Four digits: what a student is shown can be typed.
    return float(f"{rng.uniform(low, high):.4g}")


def _batches(rng: np.random.Generator) -> _Drawn:
    usual = [(_whole(rng, 8, 512), _whole(rng, 2, 64)) for _ in range(4)]
    return [(pair, {}) for pair in [*usual, (_whole(rng, 8, 512), 1), (1, _whole(rng, 2, 64)), (1, 1)]]


def _epochs(rng: np.random.Generator) -> _Drawn:
    drawn: _Drawn = []
    for _ in range(3):
        batch, world, full = _whole(rng, 8, 128), _whole(rng, 3, 16), _whole(rng, 20, 500)
        share = (full * batch * world, batch, world)
        # With drop_last it depends on the sampler what becomes of the last few, when nearly a batch is left
        # for each process: so there is less.
        rest = _whole(rng, 1, world * (batch - 2))
        drawn += [
            ((share[0] + rest, batch, world), {}),
            ((share[0] + rest, batch, world), {"drop_last": True}),
            (share, {}),
            (share, {"drop_last": True}),
            ((share[0] + 1, batch, world), {"drop_last": False}),
            ((share[0] - 1, batch, world), {}),
        ]
    batch, world = _whole(rng, 8, 128), _whole(rng, 3, 16)
    tokens = _whole(rng, 3 << 32, 4 << 32) * batch * world
    drawn += [
        ((_whole(rng, 200, 9_000), batch, 1), {}),
        ((_whole(rng, 200, 9_000), 1, world), {}),
        ((_whole(rng, 1, world * (batch - 2)), batch, world), {}),
        ((_whole(rng, 1, world * (batch - 2)), batch, world), {"drop_last": True}),
        ((1, batch, world), {}),
        ((tokens + 1, batch, world), {}),
    ]
    return drawn


def _rates(rng: np.random.Generator) -> _Drawn:
    drawn: _Drawn = []
    for _ in range(4):
        batch, world = _whole(rng, 16, 128), _whole(rng, 2, 16)
        drawn.append(((_number(rng, 0.01, 0.5), _whole(rng, 100, 300), batch, world), {}))
    batch, world, lr = _whole(rng, 16, 128), _whole(rng, 2, 16), _number(rng, 0.01, 0.5)
    drawn += [
        ((lr, batch, batch, 1), {}),
        ((lr, batch * world, batch, world), {}),
        ((lr, batch, batch, world), {}),
        ((lr, batch * world * 8, batch, world), {}),
        ((1, batch, batch + 1, world), {}),
        ((_number(rng, 1e-7, 4e-7), batch * world, batch, world), {}),
        ((lr, _whole(rng, 200, 400), batch, 1), {}),
        # As many processes as nobody has at hand.
        ((lr, batch, batch, _whole(rng, 500, 4000)), {}),
    ]
    return drawn


def _times(rng: np.random.Generator) -> list[tuple[Number, Number, int]]:
    # More than n times as fast does happen, and whether that is an error is a matter of taste.
    drawn: list[tuple[Number, Number, int]] = []
    for scale in (600.0, 600.0, 600.0, 600.0, 1e-4):
        n, t1 = _whole(rng, 2, 16), _number(rng, 0.1 * scale, scale)
        drawn.append((t1, _number(rng, t1 / (0.95 * n), t1 / 1.05), n))
    t1, n = _number(rng, 1, 90), _whole(rng, 2, 16)
    return [
        *drawn,
        (t1, t1, n),  # no gain
        (t1, _number(rng, 1.1 * t1, 3 * t1), n),  # slower
        (4 * _whole(rng, 3, 5) + _whole(rng, 1, 3), 4, 6),  # whole numbers, and no whole ratio
        (t1, t1, 1),
    ]


def _amdahl(rng: np.random.Generator) -> _Drawn:
    usual = [(_number(rng, 0.02, 0.6), _whole(rng, 3, 128)) for _ in range(4)]
    n = _whole(rng, 3, 64)
    return [(pair, {}) for pair in [*usual, (_number(rng, 0.02, 0.6), 1), (0.0, n), (1.0, n), (0, n), (1, n)]]


def _karp_flatt(rng: np.random.Generator) -> _Drawn:
    usual = [(_number(rng, 1.1, 0.9 * n), n) for n in (_whole(rng, 3, 64) for _ in range(4))]
    n = _whole(rng, 3, 64)
    return [
        (pair, {}) for pair in [*usual, (_number(rng, 1.1, 1.9), 2), (1.0, n), (float(n), n), (2, 2), (2, 3)]
    ]


_DRAW: dict[str, Callable[[np.random.Generator], _Drawn]] = {
    "effective_batch_size": _batches,
    "steps_per_epoch": _epochs,
    "scaled_lr": _rates,
    "speedup": lambda rng: [(time[:2], {}) for time in _times(rng)],
    "efficiency": lambda rng: [(time, {}) for time in _times(rng)],
    "amdahl_speedup": _amdahl,
    "karp_flatt": _karp_flatt,
}


def positional_calls(function: str, rng: np.random.Generator) -> list[Call]:
    """Legal calls that give by place what `legal_calls` gives by name: of the functions that take such an argument."""
    return [
        Call(function, (*call.arguments, *call.keywords.values()))
        for call in legal_calls(function, rng)
        if call.keywords
    ]


# Bad calls: a legal one, with one argument that is not.


def bad_calls(function: str, rng: np.random.Generator) -> list[Call]:
    """Calls that must raise ValueError: zero, negative, NaN, infinite, fractions of what is counted."""
    usual = legal_calls(function, rng)[0].arguments
    calls = [
        Call(function, (*usual[:place], value, *usual[place + 1 :]), others=others)
        for place, kind in enumerate(FUNCTIONS[function].kinds)
        for value, others in _bad_values(kind, rng)
    ]
    if function == "karp_flatt":
        calls.append(Call(function, (1.0, 1)))  # 0 / 0
    if function in ("speedup", "efficiency"):
        t1, tn, *n = cast(tuple[Number, ...], usual)
        calls.append(Call(function, (-t1, -tn, *n)))  # whose ratio is in order
    return calls


def _bad_values(kind: Kind, rng: np.random.Generator) -> list[tuple[Number | str, tuple[str, ...]]]:
    """Values that an argument must not have, with the errors that are as clear as a ValueError there."""
    amount = _whole(rng, 2, 40)
    if kind in (Kind.COUNT, Kind.SIZE):
        # A float where something is counted is of the wrong type, too; int(inf) is an OverflowError.
        wrong_type = ("TypeError", "OverflowError")
        values: list[tuple[Number | str, tuple[str, ...]]] = [
            (-amount, ()),
            (amount + 0.5, wrong_type),
            (math.nan, wrong_type),
            (math.inf, wrong_type),
        ]
    elif kind is Kind.FRACTION:
        values = [(-amount / 100, ()), (1 + amount / 100, ()), (math.nan, ()), (math.inf, ())]
    else:
        values = [(-amount / 4, ()), (math.nan, ()), (math.inf, ())]
    if kind in (Kind.COUNT, Kind.ABOVE_ZERO):
        values.insert(0, (0, ()))
    return [*values, (str(amount), ("TypeError",))]
