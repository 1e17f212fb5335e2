"""JUnit XML as pytest writes it: a testsuite for every exercise, a testcase for every check.

pytest, "Creating JUnitXML format files" (family xunit2), is the shape that GitLab, Jenkins and GitHub's actions read.
A check that did not pass is a `failure`, one at which lockstep itself failed an `error`, one that was not made is
`skipped`. Answers that a person marks are no tests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree

from lockstep.classroom.catalogue import ExerciseTitle
from lockstep.classroom.exports import feedback
from lockstep.classroom.record import Record
from lockstep.verdict import Verdict

# What no XML 1.0 document may hold, not even escaped (W3C, XML 1.0, production 2).
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENDS = {Verdict.FAULT: "error", Verdict.NOT_CHECKED: "skipped"}


def junit_xml(record: Record, catalogue: Sequence[ExerciseTitle]) -> bytes:
    """One student's checks. A hand-in of which nothing could be graded is one error that says why."""
    root = ElementTree.Element("testsuites", name="lockstep")
    items = [item for item in feedback.items(record, catalogue) if item.verdict is not None]
    for exercise, own in groupby(items, key=lambda item: item.exercise):
        _add_suite(root, exercise, list(own), record)
    if not items:
        suite = ElementTree.SubElement(root, "testsuite", _counts("submission", 1, errors=1))
        case = ElementTree.SubElement(
            suite, "testcase", classname="submission", name="can_be_graded", time="0.000"
        )
        sentence = _legal(" ".join(feedback.summary(record))) or "Nothing was graded."
        ElementTree.SubElement(case, "error", message=sentence, type="submission").text = sentence
    # Asked for bytes, ElementTree encodes piece by piece, which takes longer than all else.
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(root, 'unicode')}\n".encode()


def _add_suite(
    root: ElementTree.Element, exercise: str, items: Sequence[feedback.Item], record: Record
) -> None:
    ends = [_end(item) for item in items]
    counts = _counts(
        exercise,
        len(items),
        errors=ends.count("error"),
        failures=ends.count("failure"),
        skipped=ends.count("skipped"),
        seconds=sum(item.seconds for item in items),
    )
    if record.attempt is not None:
        counts["timestamp"] = _legal(record.attempt.started_at)
    suite = ElementTree.SubElement(root, "testsuite", counts)
    for item, end in zip(items, ends, strict=True):
        case = ElementTree.SubElement(
            suite, "testcase", classname=_legal(exercise), name=_legal(item.name), time=f"{item.seconds:.3f}"
        )
        properties = ElementTree.SubElement(case, "properties")
        for name, value in (("points", item.points or 0.0), ("max_points", item.max_points)):
            ElementTree.SubElement(properties, "property", name=name, value=f"{value:g}")
        if end:
            first = item.said.split("\n", 1)[0]
            fields = {"message": _legal(f"{item.verdict}: {first}"), "type": str(item.verdict)}
            ElementTree.SubElement(case, end, fields).text = _legal(item.said)
        elif item.said:
            ElementTree.SubElement(case, "system-out").text = _legal(item.said)


def _counts(
    name: str, tests: int, *, errors: int = 0, failures: int = 0, skipped: int = 0, seconds: float = 0.0
) -> dict[str, str]:
    return {
        "name": _legal(name),
        "errors": str(errors),
        "failures": str(failures),
        "skipped": str(skipped),
        "tests": str(tests),
        "time": f"{seconds:.3f}",
    }


def _end(item: feedback.Item) -> str:
    return "" if item.passed or item.verdict is None else _ENDS.get(item.verdict, "failure")


def _legal(text: str) -> str:
    return _ILLEGAL.sub("", text)
