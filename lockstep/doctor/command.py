"""`lockstep doctor`: looks, says, and returns the exit status."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence

from lockstep.doctor import capacity, protection, trial
from lockstep.doctor.finding import Finding, Level
from lockstep.doctor.look import gather
from lockstep.doctor.machine import Machine
from lockstep.jsontext import Json

SCHEMA = "lockstep/doctor/1"
WORKS, REFUSED = 0, 1


def run_doctor(*, quick: bool, as_json: bool) -> int:
    """Say what this machine can promise; `quick` leaves out the run in a box, which takes seconds."""
    machine = gather()
    found = examine(machine, quick=quick)
    if as_json:
        findings = list(found)
        print(json.dumps(to_json(machine, findings), indent=2, allow_nan=False))
    else:
        findings = _shown(machine, found, quick=quick)
    return exit_status(findings)


def examine(machine: Machine, *, quick: bool) -> Iterator[Finding]:
    """All findings, in order, each as soon as it is there."""
    known = [*protection.findings(machine), *capacity.findings(machine)]
    yield from known
    if not quick:
        yield trial.not_tried() if exit_status(known) == REFUSED else trial.trial()


def exit_status(findings: Sequence[Finding]) -> int:
    """0 where grading would work, 1 where it would be refused."""
    return REFUSED if any(finding.level is Level.REFUSED for finding in findings) else WORKS


def to_json(machine: Machine, findings: Sequence[Finding]) -> dict[str, Json]:
    """What `--json` prints, in the format of doctor-1.schema.json."""
    return {
        "schema": SCHEMA,
        "lockstep": machine.software.lockstep,
        "system": machine.host.system,
        "kernel": machine.host.kernel,
        "root": machine.host.root,
        "container": machine.host.container,
        "grading": exit_status(findings) == WORKS,
        "findings": [finding.to_json() for finding in findings],
    }


def _shown(machine: Machine, found: Iterator[Finding], *, quick: bool) -> list[Finding]:
    # Not before it is needed: programs ask for JSON.
    from lockstep import terminal
    from lockstep.doctor import display

    out, err = terminal.console_for(sys.stdout), terminal.console_for(sys.stderr)
    wide = out.width >= terminal.WIDE
    out.print(display.heading(machine, wide=wide))
    findings = []
    # A log wants no line that is repainted, and a pipe shows none.
    waiting = err.status("a run in a box", spinner="line") if err.is_terminal else contextlib.nullcontext()
    with waiting:
        for finding in found:
            findings.append(finding)
            out.print(display.line(finding, wide=wide))
            if finding.mend:
                out.print(display.command(finding), soft_wrap=True)
    out.print()
    out.print(display.summary(findings, quick=quick))
    return findings
