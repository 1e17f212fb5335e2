"""Who to talk to: what of a class a person should look at, and what they can ask about it.

A flag says what was seen and whom it concerns; it accuses nobody and costs no points. Flags name other students, so
they are for instructors: no page, file or message for a student holds any.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from lockstep.classroom import compared, worked
from lockstep.classroom.absent import has_no_file
from lockstep.classroom.compared import Told
from lockstep.classroom.failure import noted
from lockstep.classroom.gradebook import Gradebook
from lockstep.classroom.handin import HandIn
from lockstep.classroom.record import Flag, Record, in_class
from lockstep.classroom.tracebytes import packed, unpacked
from lockstep.classroom.traces import Traces, traces
from lockstep.classroom.winnowing import Given, given
from lockstep.classroom.worked import WORKED, Worked
from lockstep.reports.finding import ASIDE, GRAVITY, Judgement
from lockstep.submission import SubmissionError, is_unread_archive, open_submission
from lockstep.text import safe, safe_line
from lockstep.verdict import Verdict

UNUSUAL, ENDED, FAULT, NOT_GRADED, UNREAD, TURNED = (
    "unusual report",
    "crashed or hung",
    "grader fault",
    "not graded",
    "archive not read",
    "hidden characters",
)
MEANING: Mapping[str, str] = {
    WORKED: "Sources that are alike to the worked solutions, up to names and layout. Ask how they were written.",
    compared.EQUAL: "Two hand-ins are equal byte for byte. Look who handed in what, and when.",
    compared.CODE: "Sources that are alike up to names and layout. Look at both; they may have a common source.",
    compared.READINGS: "Measurements that also stand in somebody else's report. Ask whether they measured together.",
    compared.FILES: "Plots or logs that are equal byte for byte. Ask whether they measured together.",
    compared.ANSWERS: "Written answers that share their words. Look at both; they may have a common source.",
    UNUSUAL: "A performance report that honest ones rarely look like, or that contradicts itself. Read why.",
    ENDED: "Checks that crashed, hung or exceeded a limit. The student may need help more than points.",
    FAULT: "lockstep itself failed. Grade again; nothing is held against the student.",
    NOT_GRADED: "Nothing could be graded. Read why, and ask for another hand-in.",
    UNREAD: "Beside files that were graded lies an archive that was not. Ask for what is in it before you grade.",
    TURNED: "A source holds characters that turn the direction of text: it may read otherwise than it runs.",
}
"""Every kind of flag, in the order in which a table shows them, with a sentence on what to do about it."""
KINDS = tuple(MEANING)

FROM_FILES = (WORKED, compared.EQUAL, compared.CODE, compared.READINGS, compared.FILES, TURNED)
"""Kinds that only the files themselves tell; the others follow from the gradebook."""
BASIS = "flags rest on"
"""Under this key a gradebook keeps what its flags from files were made of."""
FORMAT = 3
"""Raised when the same files would be told otherwise."""

CHECKS_NAMED = 4
# As the judge of the reports says it.
_ODD = re.compile(
    rf"\b(?:{'|'.join(GRAVITY[GRAVITY.index(Judgement.UNUSUAL) :])}) \([A-Z]\d\d\)\.|\b{ASIDE}:"
)


def handed_out(graders: Path) -> tuple[Path, ...]:
    """What students were given to start from, which lies beside the graders: a folder, or nothing."""
    template = graders.resolve().parent / "student_template"
    return (template,) if template.is_dir() else ()


def solution(graders: Path) -> Path | None:
    """The folder of the worked solutions, which lies beside the graders too.

    None where nothing that was handed out lies there: which of their lines every student has is not known then.
    """
    folder = graders.resolve().parent / "reference"
    return folder if handed_out(graders) and folder.is_dir() else None


def refresh(
    book: Gradebook, handins: Iterable[HandIn], handed: Sequence[Path] = (), solved: Path | None = None
) -> tuple[str, ...]:
    """Write the flags of a class into its gradebook, in the place of those that are there.

    Hand-ins are read one at a time, and only those that are new, if a hand-in, the class, a team, what was `handed` out
    or a worked solution in the folder `solved` changed since the last time. With students who are not among them the
    class is compared by what the gradebook keeps of their work; where it keeps nothing, their flags stay. So do those
    of a kind at which lockstep itself fails: sentences on that are returned, and the next time tries again. Raises
    GradebookError.
    """
    known = given(handed)
    solutions = worked.worked(solved, known, handed)
    records = book.records()
    basis = _basis(book, records, known, solutions)
    failures: list[str] = []
    kinds = _from_answers(records, solutions)
    if book.recall(BASIS) == basis:
        found = _kept(records, FROM_FILES)
    else:
        compared_now = _traces_of_class(book, in_class(records), handins, known, failures)
        found = _kept([each for each in in_class(records) if each.student.id not in compared_now], FROM_FILES)
        kinds |= _from_files(records, compared_now, solutions)
    for kind, told in kinds.items():
        with noted(failures, f"flags for {kind}"):
            found += [*told]
            continue
        found += _kept(records, (kind,))
    book.set_flags(_sorted(records, found))
    book.remember(BASIS, "" if failures else basis)
    return tuple(failures)


def _traces_of_class(
    book: Gradebook, records: Sequence[Record], handins: Iterable[HandIn], known: Given, failures: list[str]
) -> Mapping[str, Traces]:
    """What is compared of everybody's newest hand-in, by student id: as it was kept or, where it is new, as it is."""
    basis = basis_of_traces(known)
    newest = {student: received.digest for student, received in book.received().items()}
    kept = book.traces(basis)
    new: dict[str, Traces] = {}
    for handin in handins:
        if newest.get(handin.student.id) not in kept:
            with noted(failures, f"fingerprint of what {safe_line(handin.student.id)} handed in"):
                new |= gather([handin], known)
    book.keep_traces(basis, {each.digest: packed(each) for each in new.values()})
    students = (record.student.id for record in records)
    return {
        student: new[student] if student in new else unpacked(kept[newest[student]])
        for student in students
        if student in new or newest.get(student) in kept
    }


def basis_of_traces(known: Given) -> str:
    """A name for what traces rest on besides the hand-in."""
    total = hashlib.sha256(known.runs.tobytes())
    total.update(json.dumps([FORMAT, sorted(map(bytes.hex, known.digests))]).encode())
    return total.hexdigest()


def find(
    records: Sequence[Record],
    handins: Iterable[HandIn],
    handed: Sequence[Path] = (),
    solved: Path | None = None,
) -> Mapping[str, tuple[Flag, ...]]:
    """The flags of a class by student id, gravest kinds first; `handed` and `solved` are those of `refresh`."""
    known = given(handed)
    solutions = worked.worked(solved, known, handed)
    kinds = {
        **_from_answers(records, solutions),
        **_from_files(records, gather(handins, known), solutions),
    }
    return _sorted(records, [each for told in kinds.values() for each in told])


def gather(handins: Iterable[HandIn], known: Given) -> Mapping[str, Traces]:
    """What is compared of each hand-in, by student id; those that cannot be read are left out."""
    found = {}
    for handin in handins:
        if handin.path is not None:
            try:
                found[handin.student.id] = traces(open_submission(handin.path), known)
            except (SubmissionError, OSError):
                continue  # that is the flag "not graded"
    return found


def from_record(record: Record) -> Iterator[Flag]:
    """What the grading of one student has to say by itself."""
    if record.problem:
        yield Flag(NOT_GRADED, safe_line(record.label) or "the hand-in", safe(record.problem, 600))
    if unread := [note for note in record.notes if is_unread_archive(note)]:
        told = " ".join(f"{note[0].upper()}{note[1:].rstrip('.')}." for note in unread[:CHECKS_NAMED])
        yield Flag(UNREAD, safe_line(record.label) or "the hand-in", safe_line(told, 600))
    checks = [(exercise.id, check) for exercise in record.exercises for check in exercise.checks]
    for exercise, check in checks:
        if odd := _ODD.search(check.message):
            yield Flag(UNUSUAL, f"{exercise}, {check.id}", safe_line(check.message[odd.start() :], 600))
    made = [(exercise, check) for exercise, check in checks if not has_no_file(check)]
    ended = {
        verdict: [f"{exercise}/{check.id}" for exercise, check in made if check.verdict is verdict]
        for verdict in (Verdict.CRASHED, Verdict.HUNG, Verdict.LIMIT, Verdict.FAULT)
    }
    faults = ended.pop(Verdict.FAULT)
    how = [f"{len(names)} {verdict}: {_named(names)}" for verdict, names in ended.items() if names]
    if how:
        concerned = dict.fromkeys(name.split("/")[0] for names in ended.values() for name in names)
        yield Flag(ENDED, ", ".join(concerned), f"{'; '.join(how)}.")
    if faults:
        concerned = dict.fromkeys(name.split("/")[0] for name in faults)
        yield Flag(FAULT, ", ".join(concerned), f"{len(faults)} without a verdict: {_named(faults)}.")


def _from_answers(records: Sequence[Record], solutions: Worked) -> dict[str, Told]:
    """The flags of these kinds, worked out as they are asked for."""
    own = in_class(records)
    return {compared.ANSWERS: chain(worked.from_answers(own, solutions), compared.from_answers(own))}


def _from_files(records: Sequence[Record], found: Mapping[str, Traces], solutions: Worked) -> dict[str, Told]:
    """The flags of these kinds, worked out as they are asked for; only students of the gradebook can have any."""
    students = sorted(
        (record.student for record in records if record.student.id in found), key=lambda each: each.id
    )
    own = [found[student.id] for student in students]
    turned = (
        (student.id, Flag(TURNED, _named(each.turned), "An editor or a copied page may have put them there."))
        for student, each in zip(students, own, strict=True)
        if each.turned
    )
    return {
        WORKED: worked.from_sources(students, own, solutions),
        **compared.from_hand_ins(students, own),
        TURNED: turned,
    }


def _sorted(records: Sequence[Record], found: Iterable[tuple[str, Flag]]) -> Mapping[str, tuple[Flag, ...]]:
    """By student id, with those that follow from each one's own grading."""
    flags: dict[str, list[Flag]] = {record.student.id: [] for record in records}
    for student, flag in found:
        flags[student].append(flag)
    for record in in_class(records):
        flags[record.student.id] += from_record(record)
    return {
        student: tuple(sorted(own, key=lambda flag: KINDS.index(flag.kind)))
        for student, own in flags.items()
        if own
    }


def _kept(records: Sequence[Record], kinds: Sequence[str]) -> list[tuple[str, Flag]]:
    return [(record.student.id, flag) for record in records for flag in record.flags if flag.kind in kinds]


def _basis(book: Gradebook, records: Sequence[Record], known: Given, solutions: Worked) -> str:
    """Equal as long as the same files would be compared in the same way."""
    received = book.received()
    newest = {student: received[student].digest for student in sorted(received)}
    people = {
        record.student.id: [record.student.shown, record.student.team, record.in_class] for record in records
    }
    about = json.dumps([basis_of_traces(known), solutions.digest, newest, people], sort_keys=True)
    return hashlib.sha256(about.encode()).hexdigest()


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - CHECKS_NAMED} more" if len(names) > CHECKS_NAMED else ""
    return ", ".join(names[:CHECKS_NAMED]) + more
