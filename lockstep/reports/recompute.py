"""What the rules on claims share: which runs a claim is about, and whether its number is what they give.

What can be meant by a number is taken in the student's favour: rounded or cut off, mean or median or minimum. What
agrees with none of it is compared with the usual slips, so that the message can name the one it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lockstep.jsontext import Json
from lockstep.reports.document import Claim, Config, Group, Number, Report, same_setting

FLOAT32_SLACK = 4 * 2.0**-23
"""Of the value: `torch.tensor(readings).mean()` has no more digits, however many are printed."""
SECONDS = ("mean_s", "median_s", "min_s")
SEVERAL = frozenset({"max_batch", "accuracy_pct", "acc5_pct", "crossover_batch"})
"""Claims whose configuration may select several."""
FOLLOWING = frozenset({"device_ids", "backend", "grad_scaler", "precision_requested", "strategy", "plugin"})
"""Settings that follow from others, so that a base differs in them, too."""


Pair = tuple[Group, Group]
"""The configuration of a ratio and its base."""


@dataclass(frozen=True)
class Way:
    """One way to work a number out, and what it gives."""

    words: str
    value: float


@dataclass(frozen=True)
class Slip:
    """A usual mistake: what the claim would say then, and what to tell whoever made it."""

    value: float
    advice: str


def agrees(number: Number, ways: Sequence[Way], slack: float = 0.0) -> bool:
    """Whether a claim is what one of the ways gives; `slack` is a part of the value."""
    return any(number.agrees_with(way.value, (FLOAT32_SLACK + slack) * abs(way.value)) for way in ways)


def cause(number: Number, slips: Sequence[Slip], otherwise: str) -> str:
    """What to try first: the slip that the number fits, if any."""
    fitting = (slip for slip in slips if number.agrees_with(slip.value, FLOAT32_SLACK * abs(slip.value)))
    return next((slip.advice for slip in fitting), otherwise)


def told(ways: Sequence[Way]) -> str:
    """The values and what they are, each once."""
    values: dict[str, str] = {}
    for way in ways:
        values.setdefault(f"{way.value:.6g}", way.words)
    return " or ".join(f"{value} ({words})" for value, words in values.items())


def figures(ways: Sequence[Way]) -> list[Json]:
    """The values for a program; one that is not finite has no place in JSON."""
    return [way.value if math.isfinite(way.value) else None for way in ways]


def stated(report: Report, *whats: str) -> Iterator[tuple[Claim, Number]]:
    """The claims of these sorts, with their numbers."""
    for claim in report.claims:
        if claim.what in whats and claim.value is not None:
            yield claim, claim.value


def the_group(report: Report, config: Config) -> Group | None:
    """The one configuration that a claim selects; None where C00 has something to say.

    Where it selects several, the one whose settings it repeats: a setting that only other runs have cannot be named.
    """
    groups = report.selected(config)
    return groups[0] if len(groups) == 1 else report.exactly(config)


def compared(report: Report, claim: Claim) -> tuple[Pair, ...]:
    """The configuration of a ratio and the one it is relative to.

    Twice where there are two such: the base may be meant in part or as it stands. Not at all where C00 tells.
    """
    group = the_group(report, claim.config)
    if group is None or claim.base is None:
        return ()
    return tuple((group, base) for base in meant_as_base(report, claim.base, group))


def meant_as_base(report: Report, base: Config, group: Group) -> tuple[Group, ...]:
    """The one that `bases_of` gives, and the one whose settings the base repeats; none where it is open."""
    bases, exact = bases_of(report, base, group), report.exactly(base)
    one = bases if len(bases) == 1 else ()
    return one if exact is None or exact in one else (exact, *one)


def bases_of(report: Report, base: Config, group: Group) -> tuple[Group, ...]:
    """What a partial base selects; where that is several, those that are otherwise like the claim's own."""
    groups = report.selected(base)
    if len(groups) <= 1:
        return groups
    return tuple(
        other for other in groups if other is not group and alike(report, other, group, besides=base)
    )


def alike(report: Report, a: Group, b: Group, besides: Config) -> bool:
    """Whether two configurations have the same settings, but for those of `besides` and what follows from them."""
    return all(
        same_setting(report.setting(a.config, key), report.setting(b.config, key))
        for key in a.config.keys() | b.config.keys()
        if key not in besides and key not in FOLLOWING
    )


def of_same_config(report: Report, group: Group, config: object) -> bool:
    """Whether what stands beside the runs (discarded, not available) is about this configuration."""
    return isinstance(config, dict) and bool(config) and group in report.selected(config)
