"""The names that the format knows, and what a report says under others: taken, told to the student, never looked at.

Nothing can be hidden so: whoever calls a part or a claim by another name might as well have left it out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from lockstep.text import listed, safe_line

SCHEMA = Path(__file__).parent.parent / "schemas" / "perf-report-1.schema.json"
ALIKE, ALIKE_ENOUGH = 0.8, 0.7
"""As difflib reckons: `throughput` is meant to be `throughput_ips`, `loss` is not meant to be `logs`; where a report
lacks a part, less is enough, and `rums` is meant to be `runs`."""
TOLD = 3


@cache
def schema() -> Any:
    """The format itself."""
    return json.loads(SCHEMA.read_text())


def parts() -> Collection[str]:
    """What the parts of a report are called."""
    names: Collection[str] = schema()["properties"].keys()
    return names


def of_workload() -> Collection[str]:
    """What a report may say of the workload."""
    names: Collection[str] = schema()["properties"]["workload"]["properties"].keys()
    return names


def of_run() -> Collection[str]:
    """What a report may say of a run."""
    names: Collection[str] = schema()["$defs"]["run"]["properties"].keys()
    return names


def of_config(kind: str) -> Collection[str]:
    """The settings that a configuration of this kind of report may have."""
    names: Collection[str] = schema()["$defs"][f"config_{kind}"]["properties"].keys()
    return names


def whats() -> Sequence[str]:
    """What claims can be about."""
    names: Sequence[str] = schema()["$defs"]["what"]["enum"]
    return names


def known_claims(report: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """The claims that can be verified, with their places in the file, of a report that the schema allows."""
    known = frozenset(whats())
    return ((place, claim) for place, claim in enumerate(report["claims"]) if claim["what"] in known)


def looked_into(report: Mapping[str, Any]) -> dict[str, Any]:
    """The workload and the runs of a report that the schema allows, without what they say besides."""
    workload = {name: value for name, value in report["workload"].items() if name in of_workload()}
    runs = [{name: value for name, value in run.items() if name in of_run()} for run in report["runs"]]
    return {"workload": workload, "runs": runs}


def not_looked_at(report: Mapping[str, Any]) -> tuple[str, ...]:
    """What a report that the schema allows has besides: a sentence on each kind of thing."""
    others = [name for name in report if name not in parts()]
    workload = [f"workload.{name}" for name in report["workload"] if name not in of_workload()]
    of_runs = dict.fromkeys(name for run in report["runs"] for name in run if name not in of_run())
    known = of_config(report["report"])
    configs = [run["config"] for run in report["runs"]]
    settings = dict.fromkeys(name for config in configs for name in config if name not in known)
    claimed = dict.fromkeys(claim["what"] for claim in report["claims"])
    unknown = [what for what in claimed if what not in whats()]
    told = []
    if others:
        hint = _hint(others, parts() - report.keys())
        told.append(f"{_shown(others)} {_are(others)} not looked at.{hint}")
    if workload:
        told.append(f"{_shown(workload)} {_are(workload)} not looked at.")
    if of_runs:
        # What every run has already is no slip: `epoch` beside `epochs` is a number of its own.
        hint = _hint(
            [*of_runs], [name for name in of_run() if not all(name in run for run in report["runs"])]
        )
        told.append(f"{_shown([*of_runs])} of its runs {_are(of_runs)} not looked at.{hint}")
    if settings:
        hint = _hint([*settings], [name for name in known if not all(name in config for config in configs)])
        told.append(f"Of {_shown([*settings])} in config only whether runs differ in it is looked at.{hint}")
    if unknown:
        hint = _hint(unknown, whats()) or f" What can be: {listed(whats())}."
        claims = "claim" if len(unknown) == 1 else "claims"
        told.append(f"Its {claims} about {_shown(unknown)} {_are(unknown)} not verified.{hint}")
    return tuple(told)


def meant(name: str, known: Iterable[str], alike: float = ALIKE) -> str | None:
    """The name among `known` that this one may be a slip of."""
    return next(iter(get_close_matches(name[:80].lower(), list(known), 1, alike)), None)


def _hint(names: Sequence[str], known: Iterable[str]) -> str:
    slips = [near for name in names[:TOLD] if (near := meant(name, known))]
    return f" Did you mean {listed([f'`{near}`' for near in slips])}?" if slips else ""


def _shown(names: Sequence[str]) -> str:
    more = [f"{len(names) - TOLD} more"] if len(names) > TOLD else []
    return listed([*(f"`{safe_line(name, 40)}`" for name in names[:TOLD]), *more])


def _are(names: Sized) -> str:
    return "is" if len(names) == 1 else "are"
