"""JUnit XML has pytest's shape and is XML whatever a student wrote."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.classroom.exports.junit import junit_xml
from lockstep.classroom.record import Record
from lockstep.verdict import Verdict
from tests.graded_class import CATALOGUE, FAILED, HOSTILE, PASSED, a_record, named, the_class

PYTESTS = """
def test_passes(): pass
def test_fails(): assert 0
"""


def _suites(record: Record) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(junit_xml(record, CATALOGUE))
    assert root.tag == "testsuites"
    return list(root)


@pytest.mark.parametrize(
    ("verdict", "element"),
    [
        (Verdict.PASSED, None),
        (Verdict.FAILED, "failure"),
        (Verdict.CRASHED, "failure"),
        (Verdict.HUNG, "failure"),
        (Verdict.LIMIT, "failure"),
        (Verdict.NOT_CHECKED, "skipped"),
        (Verdict.FAULT, "error"),
    ],
)
def test_every_verdict_has_its_element(verdict: Verdict, element: str | None) -> None:
    suite = _suites(a_record("ann", replace(FAILED, verdict=verdict)))[0]
    found = [child.tag for child in suite[0] if child.tag in ("failure", "error", "skipped")]
    assert found == ([] if element is None else [element])
    counts = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    for tag, attribute in counts.items():
        assert suite.get(attribute) == str(int(tag == element))


def test_every_verdict_is_known() -> None:
    for verdict in Verdict:
        assert _suites(a_record("ann", replace(FAILED, verdict=verdict)))


def test_an_exercise_is_a_suite_and_a_check_a_case() -> None:
    suites = _suites(a_record("plain"))
    assert [suite.get("name") for suite in suites] == ["ddp_train", "essay"]
    assert [(case.get("classname"), case.get("name"), case.get("time")) for case in suites[0]] == [
        ("ddp_train", "setup", "0.250"),
        ("ddp_train", "sampler", "1.500"),
    ]
    assert (suites[0].get("tests"), suites[0].get("time")) == ("2", "1.750")
    assert suites[0].get("timestamp") == "2026-05-01T10:00:00+00:00"
    failure = suites[0][1].find("failure")
    assert failure is not None
    assert failure.get("message") == "failed: Rank 1 saw <b>12</b> of 40 images."
    assert failure.text == "Rank 1 saw <b>12</b> of 40 images.\nTry: Use a `DistributedSampler`."
    properties = {item.get("name"): item.get("value") for item in suites[0][1].iter("property")}
    assert properties == {"points": "0.5", "max_points": "3"}


def test_elements_and_attributes_are_those_of_pytest(pytester_file: Path) -> None:
    theirs = ElementTree.parse(pytester_file).getroot()
    ours = ElementTree.fromstring(junit_xml(a_record("plain"), CATALOGUE))
    for path in (".", "testsuite", "testsuite/testcase", "testsuite/testcase/failure"):
        own, given = ours.find(path), theirs.find(path)
        assert own is not None
        assert given is not None
        # pytest adds the machine's name, which is nobody's business.
        assert own.tag == given.tag
        assert set(given.keys()) - {"hostname"} <= {*own.keys(), "type"}


@pytest.fixture
def pytester_file(tmp_path: Path) -> Path:
    """What pytest itself writes."""
    (tmp_path / "test_it.py").write_text(PYTESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:lockstep",
        "--junit-xml",
        "out.xml",
        "-c",
        "/dev/null",
        "test_it.py",
    ]
    subprocess.run([*command, "--rootdir", "."], cwd=tmp_path, capture_output=True, timeout=300, check=False)
    return tmp_path / "out.xml"


def test_a_hand_in_without_a_grading_is_one_error() -> None:
    broken = next(record for record in the_class() if record.student.id == "broken")
    (suite,) = _suites(broken)
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    error = suite[0].find("error")
    assert error is not None
    assert "broken.zip is no archive" in str(error.text)


def test_all_points_from_a_person_are_a_pass() -> None:
    decided = next(record for record in the_class() if record.student.id == "decided")
    assert _suites(decided)[0].get("failures") == "0"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_still_xml(name: str) -> None:
    assert len(_suites(named(name))) == 2


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text_is_still_xml(text: str) -> None:
    check = replace(FAILED, message=text, hint=text)
    (suite, _) = _suites(a_record("ann", PASSED, check))
    assert len(suite) == 2
