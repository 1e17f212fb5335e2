"""What being late costs: raw points, penalty and final points are kept apart everywhere."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_NUMBERS = {"percent_per_day": 100.0, "max_percent": 100.0, "grace_hours": 24.0 * 365}
"""The numbers of a policy's file, each with the most it may be; the least is 0."""


class PolicyError(Exception):
    """A late policy that does not say what it must; the message names the file and the key."""


@dataclass(frozen=True)
class LatePolicy:
    """A penalty in percent of the points earned for each day begun, at most `max_percent`.

    `grace_days` are forgiven: an upload that takes ten minutes is not a day late. `deadline`, with its time zone,
    is for whoever finds out how late a hand-in is; None leaves that to rosters and learning platforms.
    """

    percent_per_day: float = 0.0
    max_percent: float = 100.0
    grace_days: float = 0.0
    deadline: datetime | None = None

    def penalty(self, points: float, late_days: float | None, extra_days: float = 0.0) -> float:
        """Points that are taken off `points`, never more than those."""
        late = (late_days or 0.0) - extra_days - self.grace_days
        # A millisecond is no day: hours that were divided by 24 are rarely exact.
        days_begun = math.ceil(round(late, 8)) if late > 0 else 0
        return points * min(self.percent_per_day * days_begun, self.max_percent, 100.0) / 100.0

    def to_json(self) -> Mapping[str, object]:
        """As a gradebook keeps it."""
        return {**vars(self), "deadline": None if self.deadline is None else self.deadline.isoformat()}

    @classmethod
    def from_json(cls, kept: Mapping[str, object]) -> LatePolicy:
        """As a gradebook kept it."""
        deadline = kept.get("deadline")
        return cls(
            percent_per_day=float(str(kept["percent_per_day"])),
            max_percent=float(str(kept["max_percent"])),
            grace_days=float(str(kept["grace_days"])),
            deadline=None if deadline is None else datetime.fromisoformat(str(deadline)),
        )


def in_words(days: float) -> str:
    """A duration in the unit a person would choose: "45 minutes", "2 hours", "1.2 days"; a minute at least."""
    minutes = max(round(days * 24 * 60), 1)
    if minutes < 120 and minutes != 60:
        return _counted(minutes, "minute")
    return _counted(round(minutes / 60, 1), "hour") if days < 1 else _counted(round(days, 1), "day")


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"


def read_policy(path: Path) -> LatePolicy:
    """The policy in the table `[late]` of a TOML file. Raises PolicyError.

    Every key may be left out: `percent_per_day`, `max_percent`, `grace_hours`, and `deadline`, a time with its zone.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path} is not UTF-8: save it as that") from error
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{path} is no TOML: {error}") from error
    table = data.get("late")
    if not isinstance(table, dict):
        raise PolicyError(f"{path} has no table [late] with lines such as percent_per_day = 10")
    known = [*_NUMBERS, "deadline"]
    for key in table:
        if key not in known:
            raise PolicyError(f"{path}: [late] knows no key {key!r}; it may have {', '.join(known)}")
    numbers = {key: _number(path, key, table[key]) for key in _NUMBERS if key in table}
    return LatePolicy(
        percent_per_day=numbers.get("percent_per_day", 0.0),
        max_percent=numbers.get("max_percent", 100.0),
        grace_days=numbers.get("grace_hours", 0.0) / 24.0,
        deadline=_time(path, table["deadline"]) if "deadline" in table else None,
    )


def _number(path: Path, key: str, value: object) -> float:
    most = _NUMBERS[key]
    # TOML's true is an int to Python, and its nan a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise PolicyError(f"{path}: {key} is a number from 0 to {most:g}, not {_shown(value)}")
    return float(value)


def _time(path: Path, value: object) -> datetime:
    example = "2026-05-01T23:59:00+02:00"
    if isinstance(value, str):
        raise PolicyError(f"{path}: deadline is a time, written without quotation marks, such as {example}")
    if not isinstance(value, datetime):
        raise PolicyError(f"{path}: deadline is a day with its time and time zone, such as {example}")
    if value.tzinfo is None:
        raise PolicyError(f"{path}: deadline has no time zone; write {value.isoformat()}+02:00, or Z for UTC")
    return value


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
