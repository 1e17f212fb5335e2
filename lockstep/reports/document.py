"""A report whose form is right, its parts under names; all of them as the student states them.

Everything here is untrusted: the form has been checked (lockstep.reports.format), the numbers are finite and have
at most 64 bits, and that is all. Texts may be long and hold anything: `safe_line` before showing them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, cast

from lockstep.jsontext import Json
from lockstep.reports.names import known_claims, not_looked_at
from lockstep.text import safe_line

Config = Mapping[str, Json]

_NETWORK: Mapping[str, Json] = {"compiled": False, "channels_last": False}
_TRAINING: Mapping[str, Json] = {
    **_NETWORK, "grad_accum": 1, "activation_checkpointing": False, "cudnn_benchmark": False,
}  # fmt: skip
DEFAULTS: Mapping[str, Mapping[str, Json]] = {
    "dataloader": {"pin_memory": False, "persistent_workers": False},
    "dp_inference": {**_NETWORK, "precision": "fp32"},
    "ddp_scaling": {**_TRAINING, "nnodes": 1, "precision": "fp32", "comm_hook": "none"},
    "amp": _TRAINING,
    "lightning": {**_TRAINING, "devices": 1, "num_nodes": 1, "nnodes": 1},
}
"""What a setting is where a configuration leaves it out, by kind of report: the format's defaults, and PyTorch's."""

ROUNDED = 0.56
"""Of a unit in the last place: half of it, and a twentieth where a number was rounded to one digit more before."""
FIRST_DIGIT = 0.94
"""Of a unit: the least that rounding makes one of, where that unit is the first digit's. 9.5 becomes 1e1, 5.5 does not."""


@dataclass(frozen=True)
class Number:
    """A number as it was printed: its decimals say how precise it claims to be."""

    text: str

    @cached_property
    def value(self) -> float:
        """The number itself."""
        return float(self.text)

    @cached_property
    def ulp(self) -> float:
        """One unit in the last printed place: 0.01 for "1.50", 1 for "12", 1e-6 for "8.5e-05"."""
        exponent = Decimal(self.text).as_tuple().exponent
        return float(10.0**exponent) if isinstance(exponent, int) else 0.0

    @cached_property
    def digits(self) -> int:
        """Significant digits as printed: 3 for "1.50", 2 for "8.5e-05"."""
        return len(Decimal(self.text).as_tuple().digits)

    def agrees_with(self, value: float, slack: float = 0.0) -> bool:
        """Whether rounding or cutting `value` off can have printed this; `slack` is absolute.

        Cut off it is less than one unit in the last place nearer to zero (Hugging Face prints 101.9003 s as 101),
        rounded half a unit from `value`, rounded twice a little more; and 1e-9 of the value besides.
        """
        sign = -1.0 if value < 0 else 1.0
        left_out = sign * (value - self.value)
        most = self.ulp * (1 + 1e-9) + 1e-9 * abs(value) + slack
        # A comparison with NaN must come out as False. 1e1 is printed for 12 or 9.6, never for 1 or for 0.
        shows_a_digit = self.ulp <= 1 or abs(value) + slack >= FIRST_DIGIT * self.ulp
        return -ROUNDED * self.ulp - 1e-9 * abs(value) - slack <= left_out < most and shows_a_digit


@dataclass(frozen=True)
class Run:
    """One timed repetition; `index` is its place in the file."""

    index: int
    config: Config
    rep: int
    t_start: float
    t_end: float
    wall: Number
    samples: int
    steps: int
    epochs: int | None = None
    rank_samples: tuple[int, ...] = ()
    peak_alloc_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    loss_first: float | None = None
    loss_last: float | None = None
    step_seconds: tuple[Number, ...] = ()
    note: str = ""
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The reading."""
        return self.wall.value

    @property
    def throughput(self) -> float:
        """Samples per second; infinite where the reading is 0."""
        return self.samples / self.seconds if self.seconds > 0 else float("inf")


@dataclass(frozen=True)
class Group:
    """The runs of one configuration, in the order of the file. Never empty."""

    config: Config
    runs: tuple[Run, ...]

    @cached_property
    def seconds(self) -> tuple[float, ...]:
        """The readings."""
        return tuple(run.seconds for run in self.runs)

    @cached_property
    def mean(self) -> float:
        """Mean seconds."""
        return statistics.fmean(self.seconds)

    @cached_property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)

    @cached_property
    def minimum(self) -> float:
        """The shortest reading, in seconds."""
        return min(self.seconds)

    def deviation(self, ddof: int) -> float | None:
        """Standard deviation in seconds with divisor n - ddof; None where that is not positive."""
        if len(self.runs) <= ddof:
            return None
        squares = sum((value - self.mean) ** 2 for value in self.seconds)
        return float((squares / (len(self.runs) - ddof)) ** 0.5)

    @cached_property
    def throughputs(self) -> tuple[float, float, float]:
        """Samples per second as mean of ratios, median of ratios, ratio of means."""
        each = [run.throughput for run in self.runs]
        total = sum(self.seconds)
        overall = sum(run.samples for run in self.runs) / total if total > 0 else float("inf")
        return statistics.fmean(each), statistics.median(each), overall

    @property
    def name(self) -> str:
        """The configuration in words, for a message."""
        return named(self.config)


@dataclass(frozen=True)
class Claim:
    """A number that the student states; `index` is its place in the file."""

    index: int
    what: str
    config: Config
    value: Number | None
    base: Config | None = None
    unit: str | None = None
    stat: str = "mean"
    ddof: int | None = None
    """0 where a claim does not say."""
    correct: int | None = None
    total: int | None = None
    aggregation: str = "micro"

    @property
    def name(self) -> str:
        """The claim in words, for a message."""
        value = "" if self.value is None else f" {safe_line(self.value.text, 30)}"
        return f"claims[{self.index}]: {self.what}{value} for {named(self.config)}"


@dataclass(frozen=True)
class Trial:
    """One trial of a search for the largest batch."""

    precision: str
    batch_size: int
    ok: bool
    peak_alloc_bytes: int | None
    error: str


@dataclass(frozen=True)
class Gpu:
    """A GPU as the report names it. `memory` in bytes."""

    name: str
    memory: int
    compute_capability: str | None


@dataclass(frozen=True)
class Log:
    """A log file the report names, relative to it, and the run that wrote it."""

    kind: str
    path: str
    sha256: str | None
    tags: Mapping[str, str]
    config: Config | None
    rep: int | None


@dataclass(frozen=True)
class Plot:
    """The numbers drawn: settings, mean seconds, standard deviation."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    yerr: tuple[float, ...]
    file: str | None


@dataclass(frozen=True)
class Report:
    """A report whose form is right."""

    kind: str
    student: str
    team: tuple[str, ...]
    nonce: str
    created: float
    """When the file says it was written, in seconds since 1970."""
    code_sha256: str
    env: Mapping[str, Json]
    gpus: tuple[Gpu, ...]
    method: Mapping[str, Json]
    workload: Mapping[str, Json]
    declared: frozenset[str]
    runs: tuple[Run, ...]
    claims: tuple[Claim, ...]
    discarded: tuple[Mapping[str, Json], ...]
    not_available: tuple[Mapping[str, Json], ...]
    batch_search: tuple[Trial, ...]
    plot: Plot | None
    logs: tuple[Log, ...]
    answers: Mapping[str, str]
    artifacts: tuple[Mapping[str, Json], ...]
    not_looked_at: tuple[str, ...]
    """What it has besides, in sentences."""

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The runs by configuration, in the order in which the configurations first occur."""
        return tuple(self._by_settings.values())

    def selected(self, config: Config) -> tuple[Group, ...]:
        """The groups that a claim's partial configuration fits; settings left out have their defaults."""
        # Every rule on claims asks again, and a report may have a thousand of them.
        key = config_key(config)
        if key not in self._selections:
            self._selections[key] = tuple(
                group
                for group in self.groups
                if all(
                    same_setting(self.setting(group.config, name), value) for name, value in config.items()
                )
            )
        return self._selections[key]

    def exactly(self, config: Config) -> Group | None:
        """The group that has these settings and no others, but for those that are left at their defaults."""
        return self._by_settings.get(self._settings(config))

    @cached_property
    def _selections(self) -> dict[str, tuple[Group, ...]]:
        return {}

    @cached_property
    def _by_settings(self) -> dict[str, Group]:
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(self._settings(run.config), []).append(run)
        return {settings: Group(runs[0].config, tuple(runs)) for settings, runs in found.items()}

    def _settings(self, config: Config) -> str:
        # `prefetch_factor: null` says no more than leaving it out.
        named_ones = {key: value for key, value in config.items() if value is not None}
        return config_key({**DEFAULTS.get(self.kind, {}), **named_ones})

    def setting(self, config: Config, key: str) -> Json:
        """A setting of a configuration, or its default; None where it has none."""
        return config.get(key, DEFAULTS.get(self.kind, {}).get(key))


def same_setting(a: Json, b: Json) -> bool:
    """Whether two settings are equal; 1 and True are not, 1 and 1.0 are."""
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def config_key(config: Config) -> str:
    """A text that is the same for equal configurations and for no others."""
    return json.dumps(config, sort_keys=True)


def named(config: Config) -> str:
    """A configuration in words: "world_size 2, batch_per_rank 32"."""
    parts = [
        f"{safe_line(str(key), 40)} {safe_line(json.dumps(value), 40)}"
        for key, value in list(config.items())[:8]
    ]
    return ", ".join(parts) if parts else "every configuration"


def document(report: Mapping[str, Json]) -> Report:
    """Name the parts of a report that `format.schema_problems` found nothing wrong with."""
    raw = cast(Any, _with_whole_numbers(dict(report)))
    attempt, student, env = raw["attempt"], raw["student"], raw["env"]
    return Report(
        kind=raw["report"],
        student=student["id"],
        team=tuple(student.get("team", ())),
        nonce=attempt["nonce"],
        created=_seconds_since_1970(attempt["created_utc"]),
        code_sha256=attempt["code_sha256"],
        env=env,
        gpus=tuple(
            Gpu(gpu["name"], gpu["memory_total_mib"] << 20, gpu.get("compute_capability"))
            for gpu in env["gpus"]
        ),
        method=raw["method"],
        workload=raw["workload"],
        declared=frozenset(raw.get("declared", ())),
        runs=tuple(_run(index, run) for index, run in enumerate(raw["runs"])),
        claims=tuple(_claim(index, claim) for index, claim in known_claims(raw)),
        discarded=tuple(raw.get("discarded", ())),
        not_available=tuple(raw.get("not_available", ())),
        batch_search=tuple(
            Trial(
                trial["precision"],
                trial["batch_size"],
                trial["ok"],
                trial.get("peak_alloc_bytes"),
                trial.get("error", ""),
            )
            for trial in raw.get("batch_search", ())
        ),
        plot=_plot(raw.get("plot")),
        logs=tuple(
            Log(
                log["kind"],
                log["path"],
                log.get("sha256"),
                log.get("tags", {}),
                log.get("config"),
                log.get("rep"),
            )
            for log in raw.get("logs", ())
        ),
        answers=raw.get("answers", {}),
        artifacts=tuple(raw.get("artifacts", ())),
        not_looked_at=not_looked_at(raw),
    )


def _run(index: int, run: Any) -> Run:
    return Run(
        index=index,
        config=run["config"],
        rep=run["rep"],
        t_start=float(run["t_start"]),
        t_end=float(run["t_end"]),
        wall=Number(run["wall_s"]),
        samples=run["samples"],
        steps=run["steps"],
        epochs=run.get("epochs"),
        rank_samples=tuple(run.get("rank_samples", ())),
        peak_alloc_bytes=run.get("peak_alloc_bytes"),
        peak_reserved_bytes=run.get("peak_reserved_bytes"),
        loss_first=_real(run.get("loss_first")),
        loss_last=_real(run.get("loss_last")),
        step_seconds=_numbers(run.get("step_s", ())),
        note=run.get("note", ""),
        extra=run.get("extra", {}),
    )


def _claim(index: int, claim: Any) -> Claim:
    value = claim.get("value")
    return Claim(
        index=index,
        what=claim["what"],
        config=claim["config"],
        value=None if value is None else Number(value),
        base=claim.get("base"),
        unit=claim.get("unit"),
        stat=claim.get("stat", "mean"),
        ddof=claim.get("ddof"),
        correct=claim.get("correct"),
        total=claim.get("total"),
        aggregation=claim.get("aggregation", "micro"),
    )


def _plot(plot: Any) -> Plot | None:
    if plot is None:
        return None
    x, y, yerr = (tuple(float(value) for value in plot[axis]) for axis in ("x", "y", "yerr"))
    return Plot(x, y, yerr, plot.get("file"))


def _numbers(texts: Sequence[str]) -> tuple[Number, ...]:
    return tuple(Number(text) for text in texts)


def _real(value: Any) -> float | None:
    return None if value is None else float(value)


def _with_whole_numbers(value: Json, name: str = "") -> Json:
    """3.0 is a whole number to JSON Schema, so it becomes 3, or a configuration of 2.0 devices were another.

    Not where it says something else: Lightning takes 1.0 batches for all of them, and 1 for one.
    """
    if isinstance(value, float) and name != "limit_train_batches":
        return int(value) if value.is_integer() and abs(value) < 1 << 63 else value
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_whole_numbers(item, key) for key, item in value.items()}
    return value


def _seconds_since_1970(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
