"""A rule as data: what it demands, why its threshold is where it is, how often honest reports break it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from lockstep.reports.devices import DeviceTable
from lockstep.reports.document import Report
from lockstep.reports.evidence import Rerun
from lockstep.reports.finding import Finding
from lockstep.reports.model import ModelFacts


class Files(Protocol):
    """The files beside a report. Paths are relative to the report, with slashes, as it names them."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none, where it is too large, or where the path leads out."""

    def below(self, path: str) -> tuple[str, ...]:
        """The files below a folder, sorted; the path itself where it is a file; nothing where there is neither."""


@dataclass(frozen=True)
class Facts:
    """What is known from elsewhere about a report. Whatever is None leaves the rules that need it not verified."""

    nonce: str | None = None
    """The text that was issued for this attempt."""
    code_sha256: frozenset[str] | None = None
    """SHA-256 of every script that was handed in."""
    files: Files | None = None
    """What was handed in beside the report: logs, pictures, notebooks."""
    deadline: float | None = None
    """Seconds since 1970."""
    now: float | None = None
    """When it is graded, in seconds since 1970."""
    model: ModelFacts | None = None
    """What was measured on the student's model, for the input shape of the report."""
    rerun: Rerun | None = None
    """What the script that the report comes from did when it measured once more."""
    reference: Report | None = None
    """The reference's own report of the same kind, from the same class of machine."""
    least_runs: int = 3
    """Runs asked for per configuration: 5 for dataloader reports (by the exercise), 3 otherwise."""
    devices: DeviceTable = field(default_factory=DeviceTable.published)
    others: tuple[Report, ...] = ()
    """Reports that the readings are compared with, those of other students among them."""
    known_tables: tuple[tuple[str, ...], ...] = ()
    """Numbers, as printed, of tables that students may have seen: lecture, web, reference report."""


@dataclass(frozen=True)
class Rule:
    """One rule. Everything but `examine` is for people: documentation is made from it.

    `examine` yields what it found and nothing where the report is fine; it never raises on a report of the right
    form, however odd its numbers.
    """

    id: str
    demands: str
    """What a report must show, in one sentence."""
    threshold: str
    """Where the line is drawn, slack included."""
    why: str
    """Where the threshold comes from: the measurement or the source."""
    honest: str
    """How often honest reports break it, as measured or reasoned."""
    examine: Callable[[Report, Facts], Iterable[Finding]]
    kinds: frozenset[str] | None = None
    """The kinds of report it applies to; None for all."""
