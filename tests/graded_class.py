"""A made-up graded class for the tests of what leaves the gradebook: honest, hostile, broken, missing."""

from __future__ import annotations

from dataclasses import replace

from lockstep.classroom.catalogue import CheckTitle, ExerciseTitle
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.people import Student
from lockstep.classroom.record import Attempt, Flag, Mark, Override, Record
from lockstep.result import CheckResult, ExerciseResult, Review
from lockstep.verdict import Verdict

# No export that a student may see holds any of these.
SEED = 7213904455
LOOK_FOR = "canary-of-the-rubric"
HOST = "/srv/canary-host/uploads"
NODE = "canary-node"
FLAGGED = "canary-of-a-flag"
DUPLICATE = "canary-of-another-student"
BY = "canary-instructor"
SECRETS = (str(SEED), LOOK_FOR, "canary-host", NODE, FLAGGED, DUPLICATE, BY)

HOSTILE = (
    "=cmd|'/C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(1,1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "  =1+1",
    "＝1+1",
    "＋1",
    "－1",
    "＠x",
    "\u200b=1+1",
    "'=1+1",
    '"=1+1"',
    "a;=1+1",
    'a;"=1+1',
    "a;  -1+1",
    'Ann, the "second"',
    "two\nlines\r\nand\rthree",
    "nul\x00nul",
    "עברית",
    "\u202egnp.exe",
    "👩‍👩‍👧 Zoë",
    "half \ud800 a character",
    "x" * 10_000,
    "<script>alert(1)</script>",
    "]]>",
    "\ufffe\uffff",
    "",
)
"""Names that somebody could have, or give to a file."""

CATALOGUE = (
    ExerciseTitle(
        "ddp_train",
        "Distributed training",
        (
            CheckTitle("setup", "`setup()` joins the group.", 2.0),
            CheckTitle("sampler", "Every rank sees its own share.", 3.0),
        ),
    ),
    ExerciseTitle("essay", "Answers", (CheckTitle("there", "There is an answer.", 0.0),)),
)
MOST = 8.0
"""Points of the class: 5 for checks, 3 for the answer."""

PASSED = CheckResult("setup", Verdict.PASSED, 2.0, 2.0, seconds=0.25, cpu_seconds=0.2)
FAILED = CheckResult(
    "sampler",
    Verdict.FAILED,
    0.5,
    3.0,
    "Rank 1 saw <b>12</b> of 40 images.",
    "Use a `DistributedSampler`.",
    1.5,
)
ANSWER = Review("Q1", "Why?", 3.0, "Because.", 1, LOOK_FOR, ("speedup 1.43",), DUPLICATE)


def an_attempt(**changes: object) -> Attempt:
    """An attempt with every secret that it can hold."""
    whole = Attempt(
        1,
        "d" * 64,
        SEED,
        "done",
        {"torch": "2.15.0"},
        NODE,
        "2026-05-01T10:00:00+00:00",
        "2026-05-01T10:01:00+00:00",
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def a_record(student: str | Student, *checks: CheckResult, **fields: object) -> Record:
    """A hand-in with these checks of ddp_train and one answer that nobody has marked."""
    if isinstance(student, str):
        student = Student(student, f"{student.title()} Lee", f"{student}@example.org")
    there = CheckResult("there", Verdict.PASSED, 0.0, 0.0, reviews=(ANSWER,))
    whole = Record(
        student,
        label=f"{student.id}.zip",
        late_days=0.0,
        attempt=an_attempt(),
        exercises=(
            ExerciseResult("ddp_train", checks or (PASSED, FAILED)),
            ExerciseResult("essay", (there,)),
        ),
        flags=(Flag("copy", FLAGGED, f"shares readings, see {HOST}", ("ben",)),),
        notes=(f"{HOST}/class.zip held a folder",),
    )
    return replace(whole, **fields)  # type: ignore[arg-type]


def a_problem(student: str) -> Record:
    """A hand-in of which nothing could be graded."""
    sentence = f"{HOST}/{student}.zip is no archive: it ends too early."
    return a_record(
        student, exercises=(), problem=sentence, attempt=an_attempt(problem=sentence), flags=(), notes=()
    )


def missing(student: str) -> Record:
    """Somebody in the roster who handed in nothing."""
    return Record(Student(student, f"{student.title()} Lee", f"{student}@example.org"))


def the_class() -> tuple[Record, ...]:
    """One of each kind, by id: what happened to them is in their names."""
    late = LatePolicy(10.0, 50.0, 0.25)
    fault = replace(FAILED, verdict=Verdict.FAULT, points=0.0)
    decided = (
        Override("ddp_train", "sampler", 3.0, "Seen it work.", BY, "2026-05-02T10:00:00+00:00"),
        Override("essay", "", None, "See me.", BY, "2026-05-02T10:00:00+00:00"),
    )
    mark = Mark("essay", "Q1", 2.5, "Well said.", BY, "2026-05-02T10:00:00+00:00")
    return tuple(
        replace(record, policy=late)
        for record in (
            a_record("plain"),
            a_record("late", late_days=2.0, marks=(mark,)),
            a_record("decided", overrides=decided, marks=(mark,)),
            a_record("faulty", PASSED, fault),
            a_record(
                "ends",
                replace(PASSED, verdict=Verdict.HUNG, points=0.0, message="No answer within 5 s."),
                replace(FAILED, verdict=Verdict.NOT_CHECKED, points=0.0, message="Not looked at."),
            ),
            a_problem("broken"),
            missing("absent"),
        )
    )


def named(name: str, number: int = 0) -> Record:
    """A graded student all of whose texts are `name`."""
    student = Student(f"{number} {name}", name, name, name, columns=(("SIS Login ID", f"{number}{name}"),))
    bad = replace(FAILED, message=name, hint=name)
    return a_record(
        student, PASSED, bad, label=name or "work", notes=(name,), flags=(Flag("copy", name, name),)
    )
