"""`lockstep doctor`: looks, says, and returns the exit status."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence

from lockstep import output
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
    if as_json:
        findings = examine(machine)
        findings += [] if quick else tried(machine, findings)
        output.say(json.dumps(to_json(machine, findings), indent=2, allow_nan=False))
        return exit_status(findings)
    try:
        return exit_status(_shown(machine, quick=quick))
    except ImportError as error:
        output.complain(f"{error}, and without it nothing can be shown or graded: run `make setup`")
        return REFUSED


def examine(machine: Machine) -> list[Finding]:
    """What there is to say of a machine without starting a box, in order."""
    return [*protection.findings(machine), *capacity.findings(machine)]


def tried(machine: Machine, findings: Sequence[Finding]) -> list[Finding]:
    """What a run in a box shows, where it was not known before that there can be none. Takes seconds."""
    if exit_status(findings) == REFUSED:
        return [trial.not_tried()]
    in_order = any(finding.id == "gpus" and finding.level is Level.OK for finding in findings)
    return trial.trial(machine.gpus.usable if in_order else 0)


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


def _shown(machine: Machine, *, quick: bool) -> list[Finding]:
    from lockstep import terminal
    from lockstep.doctor import display

    out, err = terminal.console_for(sys.stdout), terminal.console_for(sys.stderr)
    wide = out.width >= display.WIDE

    def show(finding: Finding) -> None:
        out.print(display.line(finding, wide=wide))
        if finding.mend:
            out.print(display.command(finding), soft_wrap=True)

    out.print(display.heading(machine, wide=wide))
    findings = examine(machine)
    for finding in findings:
        show(finding)
    if not quick:
        # A log wants no line that is repainted.
        with err.status(trial.TITLE, spinner="line") if err.is_terminal else contextlib.nullcontext():
            runs = tried(machine, findings)
        for finding in runs:
            show(finding)
        findings += runs
    out.print()
    out.print(display.summary(findings, quick=quick))
    return findings
