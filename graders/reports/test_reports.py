"""Exercise 9: five reports of measurements and a picture. Can the numbers be true, and does their script repeat them?

What a report says is held against itself, against what its machine can do and against what honest readings look
like (lockstep.reports). Whether a configuration is faster or slower than another plays no part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from graders.reports import handed_in, models, picture, spot
from graders.reports.handed_in import WANTED, HandedIn
from lockstep.check import Check
from lockstep.reports import rerun
from lockstep.reports.document import Report
from lockstep.reports.finding import ASIDE, Finding, Judgement
from lockstep.reports.model import needs_model
from lockstep.reports.rule import Facts, Rule
from lockstep.reports.verify import RULES, verify
from lockstep.text import listed, more_places, safe_line
from lockstep.verdict import Failed

TOLD = 3
"""Findings that are told: who mends three comes back for the rest."""
NOTED = 2
# That no nonce was issued, no hash is that of a notebook, no reference is there to compare with: nothing of a student's.
OF_THE_GRADER = ("S05", "S06", "R01")
# Advice to do more than the exercise asks for is `lockstep verify-report`'s to give.
MORE_THAN_ASKED = ("S03",)
# As a sentence names its rule, which may name another.
RULE_NAMED = re.compile(r"\(([A-Z]\d\d)\)")
COMPLETE = ("S01", "S03", "S04")
# What is claimed follows from the runs: what is wrong with these is told first.
OF_RUNS = ("C06", "C07", "C08")
PICTURED = ("C12",)


def rules_of(*classes: str) -> tuple[Rule, ...]:
    """The rules of some classes, by the first letter of their ids, without those that other checks put."""
    return tuple(
        rule
        for rule in RULES
        if rule.id[0] in classes and rule.id not in COMPLETE and rule.id not in PICTURED
    )


def rules_named(*names: str) -> tuple[Rule, ...]:
    """The rules with these ids."""
    return tuple(rule for rule in RULES if rule.id in names)


@dataclass(frozen=True)
class Told:
    """What is wrong with one of the reports, as the student reads it."""

    name: str
    sentence: str
    absent: bool = False
    """Whether that is only that it is not there, or not of the right form."""

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


def examine(
    check: Check,
    rules: Sequence[Rule],
    facts: Callable[[HandedIn], Facts],
    wanted: Iterable[str] | None = None,
) -> tuple[list[Told], float]:
    """Put rules to the reports; what takes points away, and the share of the reports that is free of it.

    What costs nothing becomes notes. A report that is not there, or not of the right form, loses its share with one
    short sentence: `complete` says what is wrong with it.
    """
    names = [each.name for each in WANTED] if wanted is None else list(wanted)
    items = [item for item in handed_in.read(check.submission) if item.name in names]
    found: list[Told] = []
    free = 0
    rest: list[tuple[str, Finding]] = []
    for item in items:
        if item.report is None:
            found.append(Told(item.name, "not looked at.", absent=True))
            continue
        findings = verify(item.report, facts(item), rules).findings
        costing = [finding for finding in findings if finding.judgement.costs]
        found += told_once(item.name, costing)
        free += not costing
        rest += [(item.name, finding) for finding in findings if not finding.judgement.costs]
    # What could not be verified can wait where reports are missing and nothing else is wrong.
    waits = bool(found) and all(told.absent for told in found)
    note(check, [each for each in rest if not (waits and each[1].judgement is Judgement.NOT_VERIFIED)])
    return found, free / len(items)


def told_once(name: str, findings: Sequence[Finding]) -> list[Told]:
    """One sentence for each rule: what it says of one run it mostly says of the others, too."""
    told = []
    for rule in sorted(
        dict.fromkeys(finding.rule for finding in findings), key=lambda rule: rule not in OF_RUNS
    ):
        same = [finding for finding in findings if finding.rule == rule]
        more = f" The like in {more_places(len(same) - 1)}." if len(same) > 1 else ""
        told.append(Told(name, f"{same[0].judgement} ({rule}). {same[0].message}{more}"))
    return told


def note(check: Check, findings: Sequence[tuple[str, Finding]]) -> None:
    """Say what costs nothing: what is unusual, some advice, and what could not be verified, each rule once."""
    for judgement, word in (
        (Judgement.UNUSUAL, ASIDE),
        (Judgement.CONSISTENT, "Advice"),
    ):
        told = [
            (name, finding)
            for name, finding in findings
            if finding.judgement is judgement and finding.rule not in MORE_THAN_ASKED
        ]
        for name, finding in told[:NOTED]:
            check.note(f"{word}: {name}: {finding.message}")
        if len(told) > NOTED:
            check.note(f"And {len(told) - NOTED} more like that.")
    unverified = {
        finding.rule: f"Not verified: {name}: {finding.message}"
        for name, finding in reversed(findings)
        if finding.judgement is Judgement.NOT_VERIFIED and finding.rule not in OF_THE_GRADER
    }
    # What the rerun came to is not to be found out in any other way.
    rules = sorted(unverified, key=lambda rule: (not rule.startswith("X"), rule))
    for rule in rules[:NOTED]:
        check.note(unverified[rule])
    if len(rules) > NOTED:
        check.note(
            f"{len(rules) - NOTED} more could not be looked into; `lockstep verify-report` says which, and why."
        )


def end(check: Check, found: Sequence[Told], share: float, hint: str) -> None:
    """End the check as failed with this share of its points, unless nothing was found.

    The hint is for what is wrong in reports that are there.
    """
    if found:
        here = [str(each) for each in found if not each.absent]
        absent = [each.name for each in found if each.absent]
        lines = here[:TOLD]
        if len(here) > TOLD:
            lines.append(f"And {len(here) - TOLD} more.")
        if absent:
            lines.append(f"Not looked at: {listed(absent)}, as `complete` says.")
        if not here:
            hint = "Mend what `complete` says; nothing else is wrong here."
        told = "\n".join(lines)
        check.fail(told, f"{hint}{_where_described(told)}", points=round(check.points * share, 2))


def _where_described(told: str) -> str:
    """Where to read on what the rules demand that are named by their numbers."""
    rules = sorted(set(RULE_NAMED.findall(told)))
    if not rules:
        return ""
    return f" In lockstep's own folder docs/report-rules.md describes {'rule' if len(rules) == 1 else 'the rules'} {listed(rules)}."


def known(check: Check) -> Callable[[HandedIn], Facts]:
    """What is known of each report of the submission without running anything."""
    return lambda item: handed_in.facts(item, check.submission)


def test_complete(check: Check) -> None:
    """All five reports are there, in the format perf-report/1, with enough readings of enough configurations."""
    items = handed_in.read(check.submission)
    if not any(item.path for item in items):
        failed = Failed(
            f"There is none of the reports: {', '.join(item.name for item in items)}.",
            "Run each script with its --report flag (lfw_dataset.py: -get_timing -report reports/loader.json) and hand "
            "the folder reports/ in.",
        )
        failed.spoils = True
        raise failed
    found, share = examine(check, rules_named(*COMPLETE), known(check))
    wrong, missing = (
        [Told(item.name, item.problem) for item in items if item.report is None and bool(item.path) is there]
        for there in (True, False)
    )
    # What is to be mended in files that are there comes before those that are not.
    told = [*wrong, *(each for each in found if not each.absent), *missing]
    end(
        check,
        told,
        share,
        "write_report in perf_report.py, which is given, writes the format; the flags of the scripts say what is measured. "
        "What your machine lacks goes into `not_available`, with the reason.",
    )
    moved = [item.path for item in items if item.path and item.path != f"{handed_in.FOLDER}/{item.name}"]
    if moved:
        check.note(
            f"{safe_line(moved[0], 80)} was read as {handed_in.FOLDER}/{moved[0].rpartition('/')[2].lower()}."
        )


def test_consistent(check: Check) -> None:
    """The numbers of each report agree with each other, with the logs and with the script that was handed in."""
    found, share = examine(check, rules_of("S", "C"), known(check))
    end(
        check,
        found,
        share,
        "Let the script work every number out from its readings, and run it again after a change. Where the runs of two reports "
        "were put into one, every claim has to be worked out anew, from all of them.",
    )


def test_possible(check: Check) -> None:
    """No number is beyond what the machine that the report names can do."""

    def measured(item: HandedIn) -> Facts:
        facts = handed_in.facts(item, check.submission)
        return replace(facts, model=models.facts(check, item)) if needed(item.report) else facts

    def needed(report: Report | None) -> bool:
        return report is not None and needs_model(report)

    found, share = examine(check, rules_of("P", "R"), measured)
    end(
        check,
        found,
        share,
        "Check first what was timed: did the clock wait for the GPU, are the units right, is the GPU's name the one you "
        "measured on?",
    )


def test_measured(check: Check) -> None:
    """The readings vary as readings do."""
    found, share = examine(check, rules_of("F"), known(check))
    end(
        check,
        found,
        share,
        "Put in what the clock says, each repetition's own reading, unrounded: repr(stop - start).",
    )


def test_pictures(check: Check) -> None:
    """loader.png shows error bars, and the numbers that were drawn are those of the report."""
    found, share = examine(check, rules_named(*PICTURED), known(check), ["loader.json"])
    problem = picture.problem(check)
    if problem:
        found = [Told("loader.png", problem), *found]
    end(
        check,
        found,
        (share + (not problem)) / 2,
        "Draw the mean of each number of workers with its standard deviation, plt.errorbar(workers, means, yerr=stds), and "
        "save the figure before plt.show(): what is saved afterwards is empty.",
    )


def test_spot_rerun(check: Check) -> None:
    """The scripts measure again: they write a report, and its readings follow delays that they do not know."""
    again: dict[str, Facts] = {}
    for item in handed_in.read(check.submission):
        if item.name not in spot.SHARES or item.report is None:
            continue
        if reason := spot.why_not(check, item):
            check.note(f"{item.name} was not measured again: {reason}.")
            continue
        again[item.name] = replace(known(check)(item), rerun=spot.run_again(check, item))
    found: list[Told] = []
    came_to_nothing, came_to_part = True, False
    share = 0.0
    for name, worth in spot.SHARES.items():
        told, free = examine(
            check, rerun.RULES if name in again else (), lambda item: again.get(item.name, Facts()), [name]
        )
        # One cause has many consequences: the first is the one to mend.
        found += told[:1]
        evidence = again[name].rerun if name in again else None
        here = [each for each in told if not each.absent]
        came_to_nothing = came_to_nothing and (not here or bool(evidence and evidence.problem))
        if free and evidence and evidence.misplaced:
            came_to_part = True
            found.append(Told(name, evidence.misplaced))
            free *= spot.MISPLACED
        elif free and evidence and evidence.unsaved:
            came_to_part = True
            found.append(Told(name, evidence.unsaved))
            free *= spot.UNSAVED
        share += worth * free
    end(
        check,
        found,
        share,
        "Run the same command with a small data set of your own: it has to come to its end and to write that report. Does "
        "the script know every option of it, spelled just so?"
        if came_to_nothing and not came_to_part
        else "A report is what the handed-in script writes when it is run: with its flags, on any data, each time anew. Take "
        "the time of what was done in that run, and write every reading.",
    )
