"""A class's download becomes one hand-in for each student, whatever made it; nothing is dropped or guessed."""

from __future__ import annotations

import os
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.classroom.claims import claim, in_their_teams
from lockstep.classroom.classfolder import opened
from lockstep.classroom.handin import HandIn, Intake
from lockstep.classroom.intake import IntakeError, take_in
from lockstep.classroom.lms import sort_out
from lockstep.classroom.matching import Register
from lockstep.classroom.people import Student
from lockstep.classroom.roster import Roster
from lockstep.classroom.unpacked import LIST
from lockstep.submission import SubmissionError, is_unread_archive, open_submission
from tests.downloads import (
    ARCHIVE,
    CLASS,
    CODE,
    big_zip,
    class_of,
    download,
    folder,
    names_only,
    raw_names,
)
from tests.intake import quick, zipped
from tests.test_archive import entry, tarred

EVERYBODY = class_of(CLASS)
both = pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])


def taken(
    tmp_path: Path, files: Mapping[str, bytes], packed: bool, roster: Roster | None = EVERYBODY
) -> Intake:
    return take_in(download(tmp_path, files, packed), tmp_path / "results" / "submissions", roster)


def by_id(intake: Intake) -> dict[str, HandIn]:
    assert len({handin.student.id for handin in intake.handins}) == len(intake.handins)
    return {handin.student.id: handin for handin in intake.handins}


def files_of(handin: HandIn) -> dict[str, bytes]:
    assert handin.problem == ""
    assert handin.path is not None
    return dict(open_submission(handin.path).files)


def labels(intake: Intake) -> set[str]:
    return {item.label for item in intake.unmatched}


def reason(intake: Intake, label: str) -> str:
    (found,) = (item.reason for item in intake.unmatched if item.label == label)
    return found


CANVAS = {
    "doejane_301_9001_ddp_train.py": CODE,
    "doejane_301_9002_answers.md": b"# answers\n",
    "müllerjörg_LATE_302_9003_my work.zip": ARCHIVE,
    "obrienannamaria_303_9004_ddp_train-1.py": b"new = 1\n",
    "obrienannamaria_303_9005_lfw_dataset_2.py": CODE,
    "李小龙_304_9006_work-2.tar.gz": tarred(("ddp_train.py", CODE)),
}
MOODLE = {
    "Jane Doe_5511_assignsubmission_file_/ddp_train.py": CODE,
    "Jane Doe_5511_assignsubmission_file_/answers.md": b"# answers\n",
    "Jörg Müller_5512_assignsubmission_file/my work.zip": ARCHIVE,
    "Anna-Maria O'Brien_5513_assignsubmission_file_ddp_train.py": b"new = 1\n",
    "Anna-Maria O'Brien_5513_assignsubmission_file_lfw_dataset_2.py": CODE,
    "李小龙_5514_assignsubmission_file_/work.tar.gz": tarred(("ddp_train.py", CODE)),
}
WANTED = {
    "m100": {"ddp_train.py": CODE, "answers.md": b"# answers\n"},
    "m200": {"ddp_train.py": CODE},
    "m300": {"ddp_train.py": b"new = 1\n", "lfw_dataset_2.py": CODE},
    "m400": {"ddp_train.py": CODE},
}


@both
@pytest.mark.parametrize("files", [CANVAS, MOODLE], ids=["canvas", "moodle"])
@pytest.mark.parametrize("roster", [EVERYBODY, names_only()], ids=["numbers", "names"])
def test_files_of_an_lms_become_hand_ins(
    tmp_path: Path, files: Mapping[str, bytes], packed: bool, roster: Roster
) -> None:
    intake = taken(tmp_path, files, packed, roster)
    assert {key: files_of(handin) for key, handin in by_id(intake).items()} == WANTED
    assert intake.unmatched == ()
    assert intake.missing == ()


@both
@pytest.mark.parametrize(("files", "first"), [(CANVAS, "301"), (MOODLE, "5511")], ids=["canvas", "moodle"])
def test_without_a_roster_everybody_is_a_student(
    tmp_path: Path, files: Mapping[str, bytes], first: str, packed: bool
) -> None:
    intake = taken(tmp_path, files, packed, None)
    assert len(intake.handins) == 4
    student = by_id(intake)[first].student
    assert not student.enrolled
    assert student.columns[0][1].endswith(first)
    assert [files_of(handin) for handin in intake.handins] == list(WANTED.values())
    assert intake.missing == ()


def test_a_late_mark_of_canvas_is_a_note(tmp_path: Path) -> None:
    handin = by_id(taken(tmp_path, CANVAS, True))["m200"]
    assert handin.late_days is None
    assert handin.notes[-1] == "Canvas marks it as late"  # their author reads it


def test_what_canvas_numbered_anew_takes_the_place_of_the_old(tmp_path: Path) -> None:
    files = {
        "doejane_301_9001_ddp_train.py": b"old = 1\n",
        "doejane_301_9002_ddp_train-1.py": b"older = 1\n",
        "doejane_301_9010_ddp_train-10.py": b"new = 1\n",
        "doejane_301_9004_node-1.sh": b"1\n",
        "doejane_301_9005_node-2.sh": b"2\n",
    }
    intake = taken(tmp_path, files, True)
    jane = by_id(intake)["m100"]
    kept = {
        "ddp_train.py": b"new = 1\n",
        "ddp_train-1.py": b"older = 1\n",
        "node.sh": b"2\n",
        "node-1.sh": b"1\n",
    }
    assert files_of(jane) == kept
    assert labels(intake) == {"doejane_301_9001_ddp_train.py"}
    assert "`doejane_301_9010_ddp_train-10.py` of the same student is newer" in " ".join(jane.notes)


SEVERAL = {
    "exercises": (
        {"exercise-7.zip": {"scaling.py": b"7\n"}, "exercise-10.zip": {"answers.md": b"10\n"}},
        {"scaling.py": b"7\n", "answers.md": b"10\n"},
    ),
    "parts": (
        {"part-1.zip": {"hw/a.py": b"1\n"}, "part-2.zip": {"hw/b.py": b"2\n"}},
        {"a.py": b"1\n", "b.py": b"2\n"},
    ),
    "versions": (
        {
            "lab.zip": {"a.py": b"0\n", "b.py": b"0\n", "c.py": b"0\n"},
            "lab-9.zip": {"a.py": b"9\n", "b.py": b"9\n"},
            "lab-10.zip": {"a.py": b"10\n"},
        },
        {"a.py": b"10\n", "b.py": b"9\n", "c.py": b"0\n"},
    ),
}


@both
@pytest.mark.parametrize("called", ["doejane_301_{}_{}", "Jane Doe_5511_assignsubmission_file_/{1}"])
@pytest.mark.parametrize(("archives", "wanted"), SEVERAL.values(), ids=SEVERAL)
def test_all_archives_of_a_student_count_and_of_equal_names_the_higher_number(
    tmp_path: Path,
    called: str,
    packed: bool,
    archives: Mapping[str, Mapping[str, bytes]],
    wanted: Mapping[str, bytes],
) -> None:
    files = {
        called.format(number, name): zipped(*content.items())
        for number, (name, content) in enumerate(archives.items(), 9001)
    }
    intake = taken(tmp_path, files, packed)
    (jane,) = intake.handins
    assert files_of(jane) == wanted
    assert intake.unmatched == ()
    lost = sum(map(len, archives.values())) - len(wanted)
    assert sum("was not read: there is another one" in note for note in jane.notes) == lost


def test_archives_of_canvas_that_somebody_unpacked_are_one_hand_in(tmp_path: Path) -> None:
    files = {
        "doejane_301_9001_lab/work/a.py": b"0\n",
        "doejane_301_9001_lab/work/b.py": b"0\n",
        "doejane_301_9002_lab-1/a.py": b"1\n",
        "doejane_301_9003_rest.zip": zipped(("c.py", b"2\n")),
    }
    intake = taken(tmp_path, files, False)
    (jane,) = intake.handins
    assert files_of(jane) == {"a.py": b"1\n", "b.py": b"0\n", "c.py": b"2\n"}
    assert intake.unmatched == ()


def test_what_somebody_unpacked_beside_canvas_s_archive_is_passed_over(tmp_path: Path) -> None:
    files = {
        "doejane_301_9001_lab-1.zip": zipped(("a.py", b"1\n")),
        "doejane_301_9001_lab-1/a.py": b"unpacked\n",
        "doejane_301_9002_lab-2/b.py": b"2\n",
    }
    intake = taken(tmp_path, files, False)
    assert labels(intake) == {"doejane_301_9001_lab-1"}
    assert files_of(by_id(intake)["m100"])["a.py"] == b"1\n"


@both
def test_an_archive_and_files_beside_it_are_one_hand_in(tmp_path: Path, packed: bool) -> None:
    files = {
        "doejane_301_9001_code.zip": zipped(("hw/ddp_train.py", CODE), ("hw/scaling.py", b"old = 1\n")),
        "doejane_301_9002_scaling.py": b"new = 1\n",
        "doejane_301_9003_launch.zip": zipped(("launch/torchrun_single.sh", b"torchrun\n")),
        "doejane_301_9004_broken.zip": b"PK\3\4",
        "müllerjörg_302_9005_code.zip": ARCHIVE,
        "müllerjörg_302_9006_report.pdf": b"%PDF",
    }
    intake = taken(tmp_path, files, packed)
    jane, joerg = by_id(intake)["m100"], by_id(intake)["m200"]
    found = files_of(jane)
    assert found["ddp_train.py"] == CODE
    assert found["scaling.py"] == b"new = 1\n"
    assert found["launch/torchrun_single.sh"] == b"torchrun\n"
    said = " ".join(jane.notes)
    assert "`scaling.py` in `code.zip` was not read: there is another one" in said
    assert "`broken.zip` was not read" in said
    assert files_of(joerg) == {"ddp_train.py": CODE}
    assert "`report.pdf` beside `code.zip` was not read" in " ".join(joerg.notes)


@both
@pytest.mark.parametrize(
    "called", ["doejane_301_{}_{}", "Jane Doe_5511_assignsubmission_file_/{1}", "m100/{1}"]
)
@pytest.mark.parametrize(
    ("files", "unread"),
    [
        ({"answers.md": b"# answers\n", "work.rar": b"Rar!"}, "work.rar"),
        ({"work.zip": ARCHIVE, "more.7z": b"7z"}, "more.7z"),
        ({"answers.md": b"# answers\n", "work.zip": b"Rar!"}, "work.zip"),
        ({"scaling.py": CODE, "work.zip": zipped(("ddp_train.py", CODE), ("inner.zip", ARCHIVE))}, ""),
    ],
    ids=["rar", "7z beside a zip", "a rar called zip", "in an archive"],
)
def test_an_archive_that_is_not_read_is_told(
    tmp_path: Path, called: str, packed: bool, files: Mapping[str, bytes], unread: str
) -> None:
    named = {
        called.format(number, name): content for number, (name, content) in enumerate(files.items(), 9001)
    }
    (jane,) = taken(tmp_path, named, packed).handins
    assert jane.path is not None
    told = [*jane.notes, *open_submission(jane.path).notes]
    unread = unread or ("work.zip" if called.startswith("m100") else "inner.zip")
    assert [f"`{unread}` was not read" in note for note in filter(is_unread_archive, told)] == [True]


def test_texts_and_anonymous_names_of_canvas(tmp_path: Path) -> None:
    files = {
        "doejane_LATE_301_text.html": b"<p>",
        "anon_aB3dE_9002_ddp_train.py": CODE,
        "roejohn_399_link.html": b"<a>",
    }
    intake = taken(tmp_path, files, True)
    (jane,) = intake.handins
    assert jane.student.id == "m100"
    assert jane.path is not None
    with pytest.raises(SubmissionError, match=r"nothing that can be graded. It holds `text.html`"):
        open_submission(jane.path)
    assert labels(intake) == {"anon_aB3dE_9002_ddp_train.py", "roejohn_399_link.html"}
    assert [handin.student.id for handin in taken(tmp_path, files, True, None).handins] == [
        "301",
        "399",
        "anon_aB3dE",
    ]


def test_texts_typed_into_moodle_are_no_files(tmp_path: Path) -> None:
    files = {
        **MOODLE,
        "Jane Doe_5511_assignsubmission_onlinetext_/onlinetext.html": b"<p>",
        "Jörg Müller_5599_assignsubmission_onlinetext/onlinetext.html": b"<p>",
    }
    intake = taken(tmp_path, files, False)
    assert files_of(by_id(intake)["m100"]) == WANTED["m100"]
    assert "onlinetext" in " ".join(by_id(intake)["m100"].notes)
    assert labels(intake) == {
        "Jane Doe_5511_assignsubmission_onlinetext_",
        "Jörg Müller_5599_assignsubmission_onlinetext",
    }


def test_two_people_with_one_number_of_moodle_s_are_two(tmp_path: Path) -> None:
    called = "{}_5511_assignsubmission_file_/{}.py"
    files = {called.format("Jane Doe", "a"): CODE, called.format("Jörg Müller", "b"): CODE}
    intake = taken(tmp_path, files, True, names_only())
    assert {key: set(files_of(handin)) for key, handin in by_id(intake).items()} == {
        "m100": {"a.py"},
        "m200": {"b.py"},
    }
    intake = taken(tmp_path, files, True)
    assert {key: set(files_of(handin)) for key, handin in by_id(intake).items()} == {"m100": {"a.py"}}
    assert "its Moodle id `5511` is another one's" in reason(
        intake, "Jörg Müller_5511_assignsubmission_file_"
    )


def test_somebody_who_typed_a_text_handed_in_no_file(tmp_path: Path) -> None:
    files = {"Jane Doe_5511_assignsubmission_onlinetext_/onlinetext.html": b"<p>", **MOODLE}
    files = {name: content for name, content in files.items() if "5511_assignsubmission_file" not in name}
    jane = by_id(taken(tmp_path, files, True))["m100"]
    assert (jane.path, jane.problem) == (
        None,
        "Only a text was typed into Moodle, and no file was handed in.",
    )


METADATA = """\
---
submission_11:
  :submitters:
  - :name: Jane Doe
    :sid: m100
    :email: other@elsewhere.org
  :created_at: 2026-05-03 12:00:00.123456789 -08:00
  :score: 1.0
  :results: &1
    :tests: [1, 2]
    :same: *1x
submission_12:
  :submitters:
  - :name: Jörg Müller
    :sid:
    :email: JM2@uni.edu
  - :name: Anna-Maria O'Brien
    :sid: 'm300'
    :email:
  :created_at: 2026-05-01 12:00:00 Z
submission_13:
  :submitters:
  - :name: Nobody Known
    :sid: 999
submission_14:
  :submitters: !ruby/object:Evil {}
submission_77:
  :submitters:
  - :name: 李小龙
"""
GRADESCOPE = {
    "assignment_5_export/submission_metadata.yml": METADATA.encode(),
    **{f"assignment_5_export/submission_{number}/ddp_train.py": CODE for number in (11, 12, 13, 14, 15)},
}


@both
def test_gradescope_says_whose_folders_are(tmp_path: Path, packed: bool) -> None:
    submissions = download(tmp_path, GRADESCOPE, packed)
    deadline = datetime(2026, 5, 2, 20, tzinfo=UTC)
    intake = take_in(submissions, tmp_path / "out", EVERYBODY, deadline)
    found = by_id(intake)
    assert set(found) == {"m100", "m200", "m300"}
    assert found["m100"].late_days == pytest.approx(1.0)
    assert found["m200"].late_days == found["m300"].late_days == 0.0
    assert found["m200"].path == found["m300"].path
    assert found["m200"].student.team == found["m300"].student.team == "red"
    assert "handed in together with Anna-Maria O'Brien" in found["m200"].notes
    assert files_of(found["m100"]) == {"ddp_train.py": CODE}
    assert [student.id for student in intake.missing] == ["m400"]
    assert "no folder for `submission_77`" in reason(intake, "assignment_5_export/submission_metadata.yml")
    assert "Nobody on the roster has the id `999` or the name `Nobody Known`" in reason(
        intake, "assignment_5_export/submission_13"
    )
    assert "cannot be read where it says whose it is: line 2" in reason(
        intake, "assignment_5_export/submission_14"
    )
    assert "does not say whose it is" in reason(intake, "assignment_5_export/submission_15")


def test_gradescope_without_a_roster(tmp_path: Path) -> None:
    intake = taken(tmp_path, GRADESCOPE, True, None)
    found = by_id(intake)
    assert set(found) == {"m100", "JM2@uni.edu", "m300", "999", "submission_14", "submission_15"}
    assert (
        found["m300"].student.team
        == found["JM2@uni.edu"].student.team
        == "of assignment_5_export/submission_12"
    )
    assert found["m100"].student.name == "Jane Doe"


def test_ids_that_several_have_typed_in_are_nobody_s(tmp_path: Path) -> None:
    people = [
        ("N/A", "Ann"),
        ("N/A", "Bob"),
        ("12345", "Cem"),
        ("12345", "Dan"),
        ("000", "Eve"),
        ("77", "Fay"),
    ]
    files = {
        "e/submission_metadata.yml": "".join(
            f"submission_{number}:\n  :submitters:\n  - :name: {name}\n    :sid: '{sid}'\n"
            f"    :email: {name.lower()}@uni.edu\n"
            for number, (sid, name) in enumerate(people)
        ).encode(),
        **{f"e/submission_{number}/ddp_train.py": CODE for number in range(len(people))},
    }
    assert set(by_id(taken(tmp_path, files, False, None))) == {
        *(f"{name}@uni.edu" for name in ("ann", "bob", "cem", "dan", "eve")), "77",
    }  # fmt: skip


def test_a_team_of_a_joint_hand_in_stays_one_in_the_next_download(tmp_path: Path) -> None:
    before = [handin.student for handin in taken(tmp_path, GRADESCOPE, True, None).handins]
    (team,) = {student.team for student in before if student.team}
    missing = [Student("m300"), Student("m100"), Student("m400", team="blue"), Student("m500")]
    assert [student.team for student in in_their_teams(missing, before)] == [team, "", "blue", ""]


def test_clones_of_github_classroom(tmp_path: Path) -> None:
    files = {
        **{f"lab-2-{login}/ddp_train.py": login.encode() for login in ("Jane-Codes", "joerg", "stranger")},
        **{f"lab-2-{login}/.git/HEAD": b"ref" for login in ("Jane-Codes", "joerg", "stranger")},
        "lab-2-annaob-1/ddp_train.py": b"again\n",
        "lab-2-red/ddp_train.py": b"team\n",
        ".DS_Store": b"",
    }
    intake = taken(tmp_path, files, False)
    found = by_id(intake)
    assert {key: files_of(handin)["ddp_train.py"] for key, handin in found.items()} == {
        "m100": b"Jane-Codes",
        "m200": b"joerg",
        "m300": b"again\n",
        "m400": b"team\n",
    }
    assert "GitHub name `stranger`" in reason(intake, "lab-2-stranger")
    assert found["m100"].path == tmp_path / "submissions" / "lab-2-Jane-Codes"
    (tmp_path / "lab-2-submissions").mkdir()
    (tmp_path / "submissions").rename(tmp_path / "lab-2-submissions" / "clones")
    assert set(by_id(take_in(tmp_path / "lab-2-submissions", tmp_path / "out", EVERYBODY))) == set(found)
    strangers = take_in(tmp_path / "lab-2-submissions", tmp_path / "out", None)
    assert {handin.student.id for handin in strangers.handins} == {
        "Jane-Codes",
        "joerg",
        "stranger",
        "annaob-1",
        "red",
    }


@pytest.mark.parametrize("others", [(), ("lab1-ann",)], ids=["a tie", "no tie"])
def test_the_end_of_a_stranger_s_login_is_nobody_s(tmp_path: Path, others: tuple[str, ...]) -> None:
    roster = class_of("id,name,github\n1,Sam Smith,smith\n2,Bob Ray,bob\n3,Ann Lee,ann")
    clones = {f"{name}/ddp_train.py": CODE for name in ("lab1-jan-smith", "lab1-bob", *others)}
    intake = taken(tmp_path, clones, False, roster)
    assert set(by_id(intake)) == ({"2", "3"} if others else {"2"})
    assert "GitHub name `jan-smith`" in reason(intake, "lab1-jan-smith")


@both
def test_plain_folders_and_archives_go_by_id_name_or_address(tmp_path: Path, packed: bool) -> None:
    files = {
        "Doe, Jane/ddp_train.py": CODE,
        "JM2.zip": ARCHIVE,
        "m300 (1).tgz": tarred(("ddp_train.py", CODE)),
        "lee@UNI.edu.py": CODE,
        "somebody else.ipynb": b"{}",
        "roster.csv": CLASS.encode(),
        "__MACOSX/._x": b"",
        "Thumbs.db": b"",
    }
    intake = taken(tmp_path, files, packed)
    assert set(by_id(intake)) == {"m100", "m200", "m300", "m400"}
    assert labels(intake) == {"somebody else.ipynb", "roster.csv", "__MACOSX", "Thumbs.db"}
    assert intake.set_aside == 2
    assert reason(intake, "__MACOSX") == "Left out: made by a tool, not part of the work."
    assert "neither a folder nor an archive" in reason(intake, "roster.csv")
    assert intake.missing == ()


@both
def test_files_with_an_id_in_front_are_one_hand_in(tmp_path: Path, packed: bool) -> None:
    files = {
        "m100_ddp_train.py": CODE,
        "M100-answers.md": b"# answers\n",
        "m200_.py": CODE,
        "m300_lab 3.zip": ARCHIVE,
        "m4000_ddp_train.py": CODE,
    }
    intake = taken(tmp_path, files, packed)
    handins = by_id(intake)
    assert files_of(handins["m100"]) == {"ddp_train.py": CODE, "answers.md": b"# answers\n"}
    assert handins["m100"].notes[0].startswith("handed in as 2 files: ")
    assert set(handins) == {"m100", "m200", "m300"}
    assert handins["m300"].notes == ("the student is known by the id inside the name",)
    assert labels(intake) == {"m4000_ddp_train.py"}


@both
def test_of_several_ids_in_front_the_longest_counts(tmp_path: Path, packed: bool) -> None:
    roster = class_of("id,name\nanna,Anna Abel\nanna-k,Anna Kern\nanna_m,Anna Meier")
    files = {
        "anna-k_scaling.py": b"k = 1\n",
        "anna_scaling.py": b"a = 1\n",
        "anna-k-means.md": b"k\n",
        "anna_m (1).py": b"m = 1\n",
    }
    handins = by_id(taken(tmp_path, files, packed, roster))
    assert files_of(handins["anna"]) == {"scaling.py": b"a = 1\n"}
    assert files_of(handins["anna-k"]) == {"scaling.py": b"k = 1\n", "means.md": b"k\n"}
    assert files_of(handins["anna_m"]) == {"anna_m.py": b"m = 1\n"}
    assert "`anna-k_scaling.py` begins with more than one id: the longest counts" in handins["anna-k"].notes
    assert not any("more than one id" in note for note in handins["anna"].notes)


@both
@pytest.mark.parametrize(
    ("other", "name", "called"),
    [
        ("77,Anna Kern,anna-k@uni.edu,,", "anna-k_scaling.py", "anna-k"),
        ("77,Anna Kern,,anna_k,", "anna_k-scaling.py", "anna_k"),
        ("77,Anna Kern,,,", "Anna_Kern.py", "Anna_Kern"),
        ("77,Anna Kern,,,", "anna_kern_answers.md", "anna_kern"),
        ("77,Zoe Kern,,,anna-k", "anna-k_scaling.py", "anna-k"),
    ],
)
def test_an_id_in_front_is_not_enough_where_more_of_the_name_is_somebody_else_s(
    tmp_path: Path, other: str, name: str, called: str, packed: bool
) -> None:
    roster = class_of(f"id,name,email,login,team\nanna,Anna Abel,,,\n{other}")
    intake = taken(tmp_path, {name: CODE, "anna_ddp_train.py": CODE}, packed, roster)
    assert files_of(by_id(intake)["anna"]) == {"ddp_train.py": CODE}
    assert set(by_id(intake)) == {"anna"}
    said = reason(intake, name)
    assert f"It begins with the id `anna`, but `{called}` leads to " in said
    assert "(77)" in said


@both
@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("anna_bob_scaling.py", "bob"),
        ("anna_bob.py", "bob"),
        ("anna_m4321_scaling.py", "anna_m4321"),
        ("anna_lab_3_m4321.py", "anna_lab_3_m4321"),
        ("m8765_m4321_scaling.py", "m4321"),
        ("m8765_lab_3_m4321.py", "lab_3_m4321"),
        ("anna_with-carl_answers.md", ""),
        ("anna_9_scaling.py", ""),
        ("anna_anna_abel_scaling.py", ""),
        ("m4321-2_scaling.py", ""),
    ],
)
def test_what_has_the_ids_of_two_in_its_name_is_nobody_s(
    tmp_path: Path, name: str, called: str, packed: bool
) -> None:
    roster = class_of(
        "id,name\nanna,Anna Abel\nbob,Bob Berg\n9,Nina Nine\nm4321,Mo Moll\nm4321-2,Mia\nm8765,Max"
    )
    intake = taken(tmp_path, {name: CODE, "anna_ddp_train.py": CODE}, packed, roster)
    if not called:
        assert labels(intake) == set()
        return
    assert set(by_id(intake)) == {"anna"}
    assert files_of(by_id(intake)["anna"]) == {"ddp_train.py": CODE}
    first = name.partition("_")[0]
    who = "Bob Berg (bob)" if called == "bob" else "Mo Moll (m4321)"
    assert f"It begins with the id `{first}`, but `{called}` leads to {who}. Rename it" in reason(
        intake, name
    )


@both
def test_plain_without_a_roster(tmp_path: Path, packed: bool) -> None:
    files = {"ann/ddp_train.py": CODE, "Bob.zip": ARCHIVE, "class list.xlsx": b"PK", ".hidden": b""}
    intake = taken(tmp_path, files, packed, None)
    assert {(handin.student.id, handin.student.enrolled) for handin in intake.handins} == {
        ("ann", False),
        ("Bob", False),
    }
    assert labels(intake) == {"class list.xlsx", ".hidden"}


@both
@pytest.mark.parametrize("roster", [EVERYBODY, None], ids=["roster", "none"])
def test_a_folder_around_everything_is_no_student(
    tmp_path: Path, packed: bool, roster: Roster | None
) -> None:
    files = {f"course/hw 1/{key}/ddp_train.py": CODE for key in ("m100", "m200")} | {"course/.DS_Store": b""}
    intake = taken(tmp_path, files, packed, roster)
    assert set(by_id(intake)) == {"m100", "m200"}
    assert {handin.label for handin in intake.handins} == {"course/hw 1/m100", "course/hw 1/m200"}
    assert labels(intake) == {"course/.DS_Store"}


@both
def test_the_only_student_of_a_class_is_no_wrapper(tmp_path: Path, packed: bool) -> None:
    files = {"m100/hw/ddp_train.py": CODE, "m100/launch/a.sh": CODE, "m100/hw/answers.md": CODE}
    assert set(by_id(taken(tmp_path, files, packed))) == {"m100"}


def test_the_folder_of_a_tutorial_is_nobody_s_hand_in(tmp_path: Path) -> None:
    files = {
        f"{place}/{key}.zip": ARCHIVE for place in ("red", "Tuesday") for key in ("m100", "m200", "m300")
    }
    intake = taken(tmp_path, files, False)
    assert intake.handins == ()
    assert reason(intake, "red") == reason(intake, "Tuesday")
    assert "It holds hand-ins of several students" in reason(intake, "red")


@pytest.mark.parametrize("files", [CANVAS, MOODLE, GRADESCOPE], ids=["canvas", "moodle", "gradescope"])
def test_the_folder_an_lms_s_zip_was_downloaded_to_is_told_apart(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    submissions = folder(tmp_path / "hw1", {"roster.csv": CLASS.encode(), ".DS_Store": b""})
    big_zip(submissions / "submissions.zip", files)
    with pytest.raises(IntakeError, match=r"is the zip of a whole class\. Give that file itself"):
        take_in(submissions, tmp_path / "out", EVERYBODY)


# What else is known


def test_days_late_are_the_roster_s_or_come_from_a_time_and_a_deadline(tmp_path: Path) -> None:
    roster = class_of(
        "id,late days,submitted at\n1,2.5,2026-05-09 12:00\n2,,2026-05-03 00:00\n3,,2026-05-03T00:00+02:00\n4,,\n5,0,"
    )
    files = {f"{number}/ddp_train.py": CODE for number in range(1, 6)}
    submissions = download(tmp_path, files, False)

    def late(deadline: datetime | None) -> list[float | None]:
        intake = take_in(submissions, tmp_path / "out", roster, deadline)
        return [handin.late_days for handin in intake.handins]

    assert late(None) == [2.5, None, None, None, 0.0]
    assert late(datetime(2026, 5, 2, 12, tzinfo=UTC)) == [2.5, 0.5, pytest.approx(10 / 24), None, 0.0]
    assert late(datetime(2026, 5, 4, tzinfo=UTC)) == [2.5, 0.0, 0.0, None, 0.0]
    naive = late(datetime(2026, 5, 2, 12))
    assert naive[1] == 0.5
    assert naive[2] is not None


def test_a_second_hand_in_is_never_passed_over_in_silence(tmp_path: Path) -> None:
    submissions = folder(
        tmp_path / "submissions",
        {
            "m100.zip": ARCHIVE,
            "m100/ddp_train.py": b"new = 1\n",
            "m200.zip": ARCHIVE,
            "m200.tgz": ARCHIVE,
            "m300.zip": ARCHIVE,
            "m300.pdf": b"%PDF",
            "m400.zip": ARCHIVE,
            "李小龙.zip": ARCHIVE,
        },
    )
    for name in ("m100.zip", "m300.zip", "m400.zip", "m200.zip", "m200.tgz"):
        os.utime(submissions / name, (1_700_000_000, 1_700_000_000))
    intake = take_in(submissions, tmp_path / "out", EVERYBODY)
    handins = by_id(intake)
    assert {key: handin.label for key, handin in handins.items()} == {
        "m100": "m100",
        "m200": "m200.zip",
        "m300": "m300.zip",
        "m400": "m400.zip",
    }
    assert labels(intake) == {"m100.zip", "m200.tgz", "m300.pdf", "李小龙.zip"}
    assert intake.set_aside == 4
    assert (
        handins["m100"].notes[-1] == "handed in 2 times: `m100` was taken, it is the newest; not `m100.zip`"
    )
    assert "nothing says that it is newer; look at it" in handins["m200"].notes[-1]
    assert "Another hand-in of Jane Doe, `m100`, was taken" in reason(intake, "m100.zip")


def test_people_of_one_name_get_nobody_s_grade(tmp_path: Path) -> None:
    files = {
        "doejane_701_9001_ddp_train.py": b"one = 1\n",
        "doejane_702_9002_ddp_train.py": b"two = 1\n",
        "müllerjörg_703_9003_ddp_train.py": CODE,
    }
    intake = taken(tmp_path, files, True, names_only())
    assert set(by_id(intake)) == {"m200"}
    assert labels(intake) == {"doejane_701_9001_ddp_train.py", "doejane_702_9002_ddp_train.py"}
    assert intake.set_aside == 0
    assert "the roster does not tell them apart" in reason(intake, "doejane_701_9001_ddp_train.py")
    assert {student.id for student in intake.missing} == {"m100", "m300", "m400"}


def test_a_team_s_hand_in_is_each_member_s_until_they_hand_in_their_own(tmp_path: Path) -> None:
    roster = class_of("id,team\n1,red\n2,red\n3,red\n4,blue")
    intake = taken(tmp_path, {"red.zip": ARCHIVE, "2/ddp_train.py": CODE, "green.zip": ARCHIVE}, True, roster)
    handins = by_id(intake)
    assert {key: handin.label for key, handin in handins.items()} == {
        "1": "red.zip",
        "2": "2",
        "3": "red.zip",
    }
    assert handins["1"].path == handins["3"].path
    assert "handed in for the team red" in handins["1"].notes
    assert labels(intake) == {"green.zip"}


# What is hostile, odd or broken


OUT = "leads out of the submission"
HOSTILE: dict[str, tuple[list[tuple[str | zipfile.ZipInfo, bytes]], str]] = {
    "leads out": ([("m100/../../evil.py", CODE)], OUT),
    "leads out on windows": ([("m100\\..\\..\\evil.py", CODE)], OUT),
    "a link": ([(entry("m100/link.py", 0o120777), b"/etc/passwd")], "is a symbolic link"),
    "twins": ([("m100/A.py", CODE), ("m100/a.py", CODE)], "differ only in upper and lower case"),
    "a file and a folder": ([("m100/a.py", CODE), ("m100", CODE)], "a file and a folder at once"),
    "a long name": ([("m100/" + "a" * 2000, CODE)], "longer than 1000 bytes"),
    "a device": ([("m100/con.py", CODE)], "keeps for a device"),
    "control characters": ([("m100/a\x1b[2J.py", CODE)], "control characters"),
    "empty": ([("m100/", b"")], "is empty"),
    "nothing but a tool's": ([("m100/__pycache__/a.pyc", CODE)], "is empty"),
    "a huge archive": ([("m100.zip", b"\0" * (21 << 20))], "more than 20 MiB"),
}


@pytest.mark.parametrize(("entries", "said"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_entry_costs_only_its_student(
    tmp_path: Path, entries: list[tuple[str | zipfile.ZipInfo, bytes]], said: str
) -> None:
    data = zipped(("m200/ddp_train.py", CODE), *entries, ("m300.zip", ARCHIVE))
    (tmp_path / "class.zip").write_bytes(data)
    results = tmp_path / "results" / "submissions"
    handins = by_id(take_in(tmp_path / "class.zip", results, EVERYBODY))
    assert set(handins) == {"m100", "m200", "m300"}
    assert said in handins["m100"].problem
    assert handins["m100"].path is None
    assert files_of(handins["m200"]) == files_of(handins["m300"]) == {"ddp_train.py": CODE}
    assert {path.name for path in results.iterdir()} == {"m200", "m300", LIST}
    assert not list(tmp_path.glob("**/evil.py"))


def test_damage_inside_costs_only_its_student(tmp_path: Path) -> None:
    data = zipped(("m100/ddp_train.py", b"damaged"), ("m200/ddp_train.py", CODE), method=zipfile.ZIP_STORED)
    (tmp_path / "class.zip").write_bytes(data.replace(b"damaged", b"DAMAGED"))
    handins = by_id(take_in(tmp_path / "class.zip", tmp_path / "out", EVERYBODY))
    assert "is damaged inside the archive" in handins["m100"].problem
    assert files_of(handins["m200"]) == {"ddp_train.py": CODE}


def test_what_belongs_to_nobody_because_of_its_name_is_listed(tmp_path: Path) -> None:
    names = {"../../etc/cron.d/x", "/root/.ssh/x", "C:/x", "hw/../../x"}
    data = zipped(
        *((name, CODE) for name in sorted(names)), ("hw/m100.zip", ARCHIVE), ("hw/m200.zip", ARCHIVE)
    )
    (tmp_path / "class.zip").write_bytes(data)
    for roster in (EVERYBODY, None):
        intake = take_in(tmp_path / "class.zip", tmp_path / "out", roster)
        assert {handin.label for handin in intake.handins} == {"hw/m100.zip", "hw/m200.zip"}
        assert labels(intake) == names
        assert all(OUT in item.reason for item in intake.unmatched)


def test_weights_and_bombs_are_left_out_without_being_expanded(tmp_path: Path) -> None:
    files = {
        "m100/ddp_train.py": CODE,
        "m100/model.pt": b"\0" * (30 << 20),
        "m200.zip": zipped(("a.py", b"\0" * (30 << 20))),
    }
    submissions = big_zip(tmp_path / "class.zip", files)
    tracemalloc.start()
    handins = by_id(take_in(submissions, tmp_path / "out", EVERYBODY))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert set(files_of(handins["m100"])) == {"ddp_train.py"}
    assert handins["m200"].path is not None
    with pytest.raises(SubmissionError, match="expands to more than"):
        open_submission(handins["m200"].path)
    assert sum(path.stat().st_blocks * 512 for path in (tmp_path / "out").rglob("*")) < 1 << 20


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read, or is empty"),
        (b"Rar!", "is no zip"),
        (b"PK\3\4 cut off", "damaged or incomplete"),
        (zipped(*((f"{number}.py", b"") for number in range(4)))[:-4], "damaged"),
    ],
)
def test_what_is_no_download_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "class.zip").write_bytes(content)
    with pytest.raises(IntakeError, match=said):
        take_in(tmp_path / "class.zip", tmp_path / "out")


@both
@pytest.mark.parametrize("name", ["ddp_train.py", "ddp_train.ipynb"])
def test_the_hand_in_of_one_person_is_refused(tmp_path: Path, name: str, packed: bool) -> None:
    files = {name: CODE, "notes.py": CODE, "plots/loss.png": b""}
    submissions = download(tmp_path, files, packed)
    with pytest.raises(IntakeError, match=f"is one person's hand-in, not a class: it holds {name}"):
        take_in(submissions, tmp_path / "out", asked_for=["ddp_train.py", "reports/ddp.json"])


def test_a_person_may_be_called_as_a_file_is(tmp_path: Path) -> None:
    roster = class_of("id,name\nddp_train,Dee Train\n")
    submissions = download(tmp_path, {"ddp_train.py": CODE}, packed=False)
    intake = take_in(submissions, tmp_path / "out", roster, asked_for=["ddp_train.py"])
    assert [handin.student.id for handin in intake.handins] == ["ddp_train"]


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IntakeError, match="There is no file or folder"):
        take_in(tmp_path / "class.zip", tmp_path / "out")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IntakeError, match="There is no file or folder"):
        take_in(tmp_path / "pipe", tmp_path / "out")
    folder(tmp_path / "out", {"m100/ddp_train.py": CODE})
    with pytest.raises(IntakeError, match="what an earlier grading has unpacked"):
        take_in(tmp_path / "out", tmp_path / "out")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(IntakeError, match="Nothing can be written to"):
        take_in(big_zip(tmp_path / "a.zip", {"m100.zip": ARCHIVE}), tmp_path / "file" / "out")


def test_an_empty_download_is_a_class_that_handed_in_nothing(tmp_path: Path) -> None:
    for packed in (False, True):
        (tmp_path / "submissions").mkdir(exist_ok=True)
        intake = take_in(download(tmp_path, {}, packed), tmp_path / "out", EVERYBODY)
        assert (intake.handins, intake.unmatched, len(intake.missing)) == ((), (), 4)


def test_results_beside_the_submissions_are_no_hand_in(tmp_path: Path) -> None:
    submissions = folder(
        tmp_path, {"m100/ddp_train.py": CODE, "results/index.html": b"", "old results/gradebook.db": b""}
    )
    intake = take_in(submissions, tmp_path / "results" / "submissions", None)
    assert set(by_id(intake)) == {"m100"}
    assert {reason(intake, name) for name in ("results", "old results")} == {"Left out: results of lockstep."}


@pytest.mark.parametrize("roster", [EVERYBODY, None], ids=["roster", "none"])
def test_results_among_the_submissions_are_no_hand_in(tmp_path: Path, roster: Roster | None) -> None:
    results = (
        "exports/grades.csv",
        "gradebook.db",
        "gradebook.db-wal",
        "index.html",
        "submissions/m300/a.py",
    )
    pages = ("students/m100/index.html", "students/m200/index.html")
    work = {"m100/ddp_train.py": CODE, "m200.zip": ARCHIVE}
    submissions = folder(tmp_path / "hw", work | dict.fromkeys((*results, *pages), b""))
    intake = take_in(submissions, submissions / "submissions", roster)
    assert set(by_id(intake)) == {"m100", "m200"}
    assert labels(intake) == {name.partition("/")[0] for name in (*results, *pages)}
    assert {item.reason for item in intake.unmatched} == {"Left out: results of lockstep."}
    elsewhere = take_in(submissions, tmp_path / "results" / "submissions", roster)
    assert (set(by_id(elsewhere)), labels(elsewhere)) == ({"m100", "m200"}, labels(intake))


def test_links_to_where_submissions_lie_are_followed_and_broken_ones_told(tmp_path: Path) -> None:
    folder(tmp_path / "elsewhere", {"work/ddp_train.py": CODE, "work.zip": ARCHIVE})
    submissions = folder(tmp_path / "submissions", {"m300/ddp_train.py": CODE})
    (submissions / "m100").symlink_to(tmp_path / "elsewhere" / "work")
    (submissions / "m200.zip").symlink_to(tmp_path / "elsewhere" / "work.zip")
    (submissions / "m300" / "passwd.py").symlink_to("/etc/passwd")
    (submissions / "m400").symlink_to(tmp_path / "nowhere")
    handins = by_id(take_in(submissions, tmp_path / "out", EVERYBODY))
    assert files_of(handins["m100"]) == files_of(handins["m200"]) == {"ddp_train.py": CODE}
    assert handins["m300"].path is not None
    with pytest.raises(SubmissionError, match="is a symbolic link"):
        open_submission(handins["m300"].path)
    assert "link to nowhere" in handins["m400"].problem


def test_old_zips_keep_their_umlauts_and_macs_theirs(tmp_path: Path) -> None:
    (tmp_path / "old.zip").write_bytes(raw_names("Jörg Müller/ddp_train.py", "Bärbel/ddp_train.py"))
    assert "m200" in by_id(take_in(tmp_path / "old.zip", tmp_path / "out", EVERYBODY))
    decomposed = "Mu\u0308ller, Jo\u0308rg"
    intake = taken(tmp_path, {f"{decomposed}/ddp_train.py": CODE}, False)
    assert set(by_id(intake)) == {"m200"}


def test_names_that_cannot_be_seen_apart_stay_apart(tmp_path: Path) -> None:
    names = ("jane", "jane\u200e", "ja\u200bne", "jane\n")
    intake = taken(tmp_path, {f"{name}.zip": ARCHIVE for name in names}, False, None)
    assert len(by_id(intake)) == 4
    assert {handin.student.id.split()[0] for handin in intake.handins} == {"jane"}
    assert all(handin.student.id.isprintable() and handin.label.isprintable() for handin in intake.handins)
    spoofed = by_id(taken(tmp_path, {"m100\u200e.zip": ARCHIVE, "m100.zip": ARCHIVE}, True))
    assert spoofed["m100"].label == "m100.zip"
    assert "handed in 2 times" in spoofed["m100"].notes[-1]


def test_a_name_that_is_no_text_is_taken_in(tmp_path: Path) -> None:
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / os.fsdecode(b"j\xf6rg.zip")).write_bytes(ARCHIVE)
    (handin,) = take_in(tmp_path / "submissions", tmp_path / "out").handins
    handin.student.id.encode()
    assert files_of(handin) == {"ddp_train.py": CODE}


@both
def test_names_like_canvas_s_that_are_not_canvas_s(tmp_path: Path, packed: bool) -> None:
    files = {f"lab_1_2_{name}.zip": ARCHIVE for name in ("ann", "bob", "cem")}
    assert set(by_id(taken(tmp_path, files, packed, None))) == {
        f"lab_1_2_{name}" for name in ("ann", "bob", "cem")
    }


def test_a_class_of_a_thousand(tmp_path: Path) -> None:
    files = {f"student{number}_{number}_{number + 10_000}_ddp_train.py": CODE for number in range(1, 1001)}
    submissions = big_zip(tmp_path / "class.zip", files)
    roster = class_of("id,name,canvas id\n" + "\n".join(f"m{n},Student{n},{n}" for n in range(1, 1001)))
    intake = take_in(submissions, tmp_path / "out", roster)
    assert [handin.student.id for handin in intake.handins] == [f"m{number}" for number in range(1, 1001)]
    assert (intake.unmatched, intake.missing) == ((), ())


def test_taking_in_again_gives_the_same_and_leaves_nothing_old(tmp_path: Path) -> None:
    submissions = big_zip(tmp_path / "class.zip", {**CANVAS, "doejane_301_9999_extra.py": CODE})
    first = take_in(submissions, tmp_path / "out", EVERYBODY)
    big_zip(submissions, CANVAS)
    second = take_in(submissions, tmp_path / "out", EVERYBODY)
    assert {key: files_of(handin) for key, handin in by_id(second).items()} == WANTED
    assert [handin.path for handin in first.handins] == [handin.path for handin in second.handins]


WHO = st.sampled_from(
    ["m100", "m200", "doejane", "Jane Doe", "Müller, Jörg", "red", "stranger", "li", "李小龙", "x\u202ey"]
)
NUMBER = st.integers(1, 12)
ENTRY = st.one_of(
    st.builds(
        "{}_{}{}_{}_{}".format,
        WHO,
        st.sampled_from(["", "LATE_"]),
        NUMBER,
        NUMBER,
        st.sampled_from(["a.py", "a-1.py", "w.zip", "a-2.py"]),
    ),
    st.builds(
        "{}_{}_assignsubmission_{}{}".format,
        WHO,
        NUMBER,
        st.sampled_from(["file", "onlinetext"]),
        st.sampled_from(["_/a.py", "/w.zip", "_a.py"]),
    ),
    st.builds("submission_{}/{}".format, NUMBER, st.sampled_from(["a.py", "w.zip"])),
    st.builds("lab-{}/{}".format, WHO, st.sampled_from([".git/HEAD", "a.py"])),
    st.builds(
        "{}{}".format, WHO, st.sampled_from([".zip", "/a.py", "/w.zip", ".py", ".pdf", " (1).zip", "/"])
    ),
    st.sampled_from(
        [
            "submission_metadata.yml",
            ".DS_Store",
            "roster.csv",
            "../x",
            "__MACOSX/x",
            "/abs",
            "wrap/a/b.py",
            "a\\b.py",
        ]
    ),
)


@pytest.mark.parametrize("roster", [EVERYBODY, names_only(), None], ids=["numbers", "names", "none"])
@given(names=st.lists(ENTRY, max_size=10, unique=True))
@quick
def test_every_item_is_a_hand_in_or_listed_and_never_both(
    tmp_path: Path, roster: Roster | None, names: list[str]
) -> None:
    submissions = big_zip(
        tmp_path / "class.zip", {name: METADATA.encode() if name.endswith(".yml") else CODE for name in names}
    )
    register = Register(roster) if roster else None
    with opened(submissions) as items:
        sorted_out = sort_out(items, roster)
        claimed = claim(sorted_out.arrivals, register)
        graded = {piece.item.label for each in claimed.claims for piece in each.arrival.pieces}
        listed = [item.label for item in claimed.unmatched] + [item.label for item, _ in sorted_out.set_aside]
        assert graded | {label for label in listed if " (" not in label or label.endswith(".zip")} == {
            item.label for item in items
        }
        assert not graded & set(listed)
        assert len(set(listed)) == len(listed)
    intake = take_in(submissions, tmp_path / "out", roster)
    assert len(by_id(intake)) == len(intake.handins)
    if roster is not None:
        assert Counter(
            [handin.student.id for handin in intake.handins] + [student.id for student in intake.missing]
        ) == Counter(student.id for student in roster.students)
    for handin in intake.handins:
        assert (handin.path is None) == bool(handin.problem)
        assert handin.label
