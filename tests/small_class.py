"""Records of a few students for the tests of pages: two exercises, five checks, and people who try everything."""

from __future__ import annotations

from lockstep.classroom.catalogue import CheckTitle, ExerciseTitle
from lockstep.classroom.latepolicy import LatePolicy
from lockstep.classroom.people import Student
from lockstep.classroom.record import Attempt, Flag, Mark, Override, Record
from lockstep.result import CheckResult, ExerciseResult, Review
from lockstep.verdict import Verdict

SEED = 8_472_619_305_712_446
DIGEST = "feedfacecafebeef" * 4
NODE = "grader-node-17"
LOOK_FOR = "names the all_reduce, and that it waits for the slowest"
CATALOGUE = (
    ExerciseTitle(
        "ddp_train",
        "Training on many processes",
        (
            CheckTitle("joins_group", "`setup()` joins the group that torchrun describes.", 2.0),
            CheckTitle("reshuffles", "Every epoch has another order.", 2.0),
            CheckTitle("cleans_up", "`cleanup()` leaves the process group.", 1.0),
        ),
    ),
    ExerciseTitle(
        "answers",
        "Written answers",
        (CheckTitle("present", "Every question has an answer.", 0.0),),
    ),
    ExerciseTitle(
        "secret_lab", "A lab of next term", (CheckTitle("next_term", "Nobody has seen this check.", 3.0),)
    ),
)
GRADED = "2026-11-21T09:41:07+00:00"
HOSTILE = (
    "<script>hacked=1</script>",
    "</script><script>hacked=1</script>",
    '"><img src=x onerror=hacked=1>',
    "'><svg onload=hacked=1>",
    "<!--<script>",
    "-->]]>{{ 7*7 }}{% raw %}",
    "${hacked=1}\\u003cscript\\u003e",
    "\u202egnp.exe\u2066\u200f",
    "nul\0and\x1b[31mescape",
    "lone \ud800 surrogate",
    "x" * 10_000,
    "&lt;b&gt;&amp;amp;",
    "javascript:hacked=1",
    "__proto__",
)


def review(question: str = "Q1", answer: str = "It waits for the slowest.") -> Review:
    """A written answer with everything that its author must not read about it."""
    return Review(
        question=question,
        title="Why is it not twice as fast?",
        max_points=5.0,
        answer=answer,
        words=5,
        look_for=LOOK_FOR,
        numbers=("812 images/s with 2 processes",),
        duplicate="the answer of Eve Elsewhere",
    )


def check(
    name: str,
    verdict: Verdict = Verdict.PASSED,
    points: float = 2.0,
    most: float = 2.0,
    message: str = "",
    hint: str = "",
) -> CheckResult:
    """One check as the grader left it; half a second long."""
    return CheckResult(name, verdict, points, most, message, hint, 0.5)


def ddp(*, failed: bool = False, crashed: bool = False) -> ExerciseResult:
    """The first exercise: all right, with a failure that leaves points, or crashed at the start."""
    if crashed:
        return ExerciseResult(
            "ddp_train",
            (
                check(
                    "joins_group",
                    Verdict.CRASHED,
                    0.0,
                    message="It raised `KeyError: 'RANK'` (train.py, line 9).",
                ),
                check("reshuffles", Verdict.NOT_CHECKED, 0.0, message="`joins_group` did not pass."),
                check("cleans_up", Verdict.NOT_CHECKED, 0.0, 1.0, message="`joins_group` did not pass."),
            ),
        )
    middle = check("reshuffles")
    if failed:
        middle = check(
            "reshuffles",
            Verdict.FAILED,
            0.5,
            2.0,
            "Epochs 0 and 1 have one order.",
            "Call `set_epoch(epoch)`.",
        )
    return ExerciseResult(
        "ddp_train", (check("joins_group"), middle, check("cleans_up", points=1.0, most=1.0))
    )


def answers(*reviews: Review) -> ExerciseResult:
    """The second exercise: its checks are worth nothing, its answers are."""
    present = CheckResult("present", Verdict.PASSED, 0.0, 0.0, seconds=0.1, reviews=reviews or (review(),))
    return ExerciseResult("answers", (present,))


def attempt() -> Attempt:
    """A grading that ended."""
    return Attempt(1, DIGEST, SEED, "done", {"lockstep": "0.1.0", "torch": "2.15.0"}, NODE, GRADED, GRADED)


def record(student: Student, *exercises: ExerciseResult, **more: object) -> Record:
    """A graded student."""
    fields: dict[str, object] = {
        "label": f"{student.id}.zip",
        "late_days": 0.0,
        "attempt": attempt(),
        "exercises": exercises or (ddp(), answers()),
        "policy": LatePolicy(percent_per_day=10.0),
    }
    return Record(student, **{**fields, **more})  # type: ignore[arg-type]


ADA = record(
    Student("a1", "Ada Adams", "ada@example.org", "blue"),
    ddp(failed=True),
    answers(),
    late_days=1.5,
    overrides=(Override("ddp_train", "reshuffles", 2.0, "Right, only unusual.", "K. Abe", GRADED),),
    marks=(Mark("answers", "Q1", 3.0, "Which number says so?", "K. Abe", GRADED),),
    flags=(Flag("similar code", "train.py", "94 % as in one other hand-in.", ("z1",)),),
    notes=("`__MACOSX/` was left out.",),
)
ZOE = record(
    Student("z1", "Zoë Żółć", "zoe@example.org"),
    ddp(crashed=True),
    answers(),
    flags=(
        Flag("similar code", "train.py", "94 % as in one other hand-in.", ("a1",)),
        Flag("crashed or hung", "ddp_train", "1 check crashed.", ()),
    ),
)
BEN = record(Student("b1", "Ben Berg", "ben@example.org", enrolled=False), ddp())
MISSING = Record(Student("m1", "Mia Missing"))
BROKEN = Record(
    Student("k1", "Kim Kaputt"), "k1.zip", problem="The archive is damaged: it ends in the middle."
)
CLASS = (ADA, BEN, BROKEN, MISSING, ZOE)


def hostile_class() -> tuple[Record, ...]:
    """Students whose every text is an attack on the page."""
    found = []
    for number, text in enumerate(HOSTILE):
        one = CheckResult("joins_group", Verdict.FAILED, 0.0, 2.0, text, f"`{text}`\n{text}\n" * 12, 0.1)
        asked = review(text, text)
        work = (ExerciseResult("ddp_train", (one,)), answers(asked))
        found.append(
            record(
                Student(f"{number} {text}", text, text, text),
                *work,
                label=text,
                notes=(text,),
                overrides=(Override("ddp_train", "", None, text, text, text),),
                marks=(Mark("answers", text, 1.0, text, text, text),),
                flags=(Flag(text[:30], text, text, (f"0 {HOSTILE[0]}",)),),
            )
        )
    return tuple(found)
