"""From what happened in a run to what the student reads: crashed, hung or over a limit, and why.

Everything here comes from the student's process and may be forged; it only ever costs the forger.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lockstep.causes import ENDS_PROGRAM, advice, is_peer_lost
from lockstep.remarks import imports_placed, on_missing_name
from lockstep.sandbox.limits import GIB, MIB, Limits
from lockstep.sandbox.outcome import CodeFrame, Outcome, RankOutcome, Standing, StudentError
from lockstep.sandbox.standing import WITH_OTHERS
from lockstep.submission import Submission, misnamed
from lockstep.text import last_lines, safe, safe_line
from lockstep.verdict import CheckEnded, Crashed, Failed, GraderFault, Hung, LimitExceeded
from lockstep.wire import BROKEN

_LIMIT_ERRNOS = {
    errno.ENOSPC: "disk",
    errno.EFBIG: "disk",
    errno.EDQUOT: "disk",
    errno.EMFILE: "files",
    errno.ENFILE: "files",
    errno.EAGAIN: "processes",
}
# How torch words a failed allocation; it raises RuntimeError, not MemoryError.
_OUT_OF_MEMORY = ("DefaultCPUAllocator", "can't allocate memory", "not enough memory", "std::bad_alloc")
# How Python words a thread that could not be started; a process fails with errno EAGAIN instead.
_OUT_OF_THREADS = "can't start new thread"
IMPORTING = "importing "
# Characters of a command or a message: torch tells the cause at the end of two lines, and a command can be run by hand.
LONGEST = 320
# How Python's syntax errors name another line, such as that of the `if` without a body.
_ON_LINE = re.compile(r"on line (\d{1,6})\b")
# What lockstep.sandbox.cells raises.
_CELLS: Mapping[str, tuple[type[CheckEnded], str]] = {
    "CellTooSlow": (Hung, "Look for an endless loop, a wait for input, or data that is larger than the parameters say."),
    "CellTooLoud": (LimitExceeded, "Is something printed in every step that should be printed once per epoch?"),
}  # fmt: skip

# What lockstep.sandbox.probing raises for what the contract asks for, where a file could be imported.
_MISTAKES: Mapping[str, str] = {
    "NoCode": "Was it saved after you worked in it, and is it the file that you worked in?",
    "OutOfReach": "Move it out of there, to the left margin of the file, so that importing the file defines it.",
    "Misspelt": "Give it the name that the exercise has, capital letters and underscores included.",
    "Undefined": "It is looked for by the name that the exercise has, at the left margin of the file.",
    "LeftOut": "Define it where nothing is trained, parsed or joined, with def or a plain assignment, and put what runs "
    'below `if __name__ == "__main__":`.',
}


def problem(outcome: Outcome, limits: Limits, submission: Submission) -> CheckEnded | None:
    """What went wrong in a run, as the verdict to end the check with; None when every rank answered.

    Raises GraderFault when the fault is not in the student's code.
    """
    outcome = _in_their_files(outcome, submission)
    if outcome.limit is not None:
        return _limit(outcome.limit, _phase(outcome.ranks), limits)
    lost = [
        number for number, rank in enumerate(outcome.ranks) if not rank.complete and rank.status is not None
    ]
    first_error = _first_error(outcome.ranks)
    if first_error is not None and not is_peer_lost(first_error[1]):
        return _error(*first_error, outcome.ranks, limits, submission)
    if lost:
        return _ended(lost[0], outcome.ranks)
    if outcome.timed_out:
        return _hung(outcome, limits)
    for rank in outcome.ranks:
        if rank.protocol:
            return Crashed(
                f"{_of(outcome.ranks, rank)}answer did not arrive as one whole piece ({rank.protocol}).",
                "The check expects what your functions return, nothing written to other files or pipes.",
            )
    if first_error is not None:
        return _error(*first_error, outcome.ranks, limits, submission)
    return None


def hangs_at_import(outcome: Outcome) -> bool:
    """Whether the time was up while their file was imported: a line of theirs ran, in every rank that had not ended."""
    stands = [rank for rank in outcome.ranks if not rank.complete and rank.status is None]
    return bool(outcome.timed_out and outcome.limit is None and stands) and all(
        rank.standing is not None and rank.standing.frame is not None and _phase([rank]).startswith(IMPORTING)
        for rank in stands
    )


def _in_their_files(outcome: Outcome, submission: Submission) -> Outcome:
    """The same outcome with lines of a notebook named by cell, and a missing file by why it is missing."""
    ranks = []
    for rank in outcome.ranks:
        error, standing = rank.error, rank.standing
        if error is not None:
            frames = tuple(_placed(frame, submission) for frame in error.frames)
            message = _missing(error, submission) or error.message
            if error.type == "ModuleNotFoundError":
                message = imports_placed(message, submission)
            error = _placed_syntax(replace(error, frames=frames, message=message), submission)
        if standing is not None:
            standing = _placed_standing(standing, submission)
        ranks.append(replace(rank, error=error, standing=standing))
    return replace(outcome, ranks=tuple(ranks))


def _placed_standing(standing: Standing, submission: Submission) -> Standing:
    frame = standing.frame and _placed(standing.frame, submission)
    started = tuple((number, _placed_standing(one, submission)) for number, one in standing.started)
    return replace(standing, frame=frame, started=started)


def _placed(frame: CodeFrame, submission: Submission) -> CodeFrame:
    notebook = submission.notebooks.get(frame.file)
    if notebook is None:
        return frame
    name = f"{frame.file.removesuffix('.py')}.ipynb"
    return replace(frame, place=f"{name}, {notebook.place(frame.line)}")


def _placed_syntax(error: StudentError, submission: Submission) -> StudentError:
    """A syntax error names its line in its message, and sometimes another: both become cells."""
    for path, notebook in submission.notebooks.items():
        file = os.path.basename(path)
        named = f"({file}, line {error.line})"
        if error.line is None or named not in error.message:
            continue
        place = f"({file.removesuffix('.py')}.ipynb, {notebook.place(error.line)})"
        message = error.message.replace(named, place)
        if other := _ON_LINE.search(message):
            message = message.replace(other[0], f"in {notebook.place(int(other[1]))}")
        return replace(error, message=message, line=None)
    return error


def _missing(error: StudentError, submission: Submission) -> str | None:
    """Why a file that was to be imported is not there, where the submission can tell."""
    name = error.phase.removeprefix(IMPORTING)
    if error.type != "StudentMistake" or name == error.phase:
        return None
    if name in submission.problems:
        return submission.problems[name].rstrip(".")
    deeper = next((path for path in submission.files if path.endswith(f"/{name}")), None)
    if deeper is not None:
        return f"there is no {name} at the top of the submission, but there is {deeper}: hand in the folder that holds it"
    if near := misnamed(submission, name):
        return f"there is no {name} in the submission; {near}"
    return None


def _first_error(ranks: Sequence[RankOutcome]) -> tuple[int, StudentError] | None:
    """The error that the others follow from: not merely that a peer was gone."""
    errors = [(number, rank.error) for number, rank in enumerate(ranks) if rank.error is not None]
    errors.sort(key=lambda entry: is_peer_lost(entry[1]))
    return errors[0] if errors else None


def _phase(ranks: Sequence[RankOutcome]) -> str:
    for rank in sorted(ranks, key=lambda rank: rank.complete):
        for event in reversed(rank.events):
            name = event.get("name")
            if event.get("kind") == "phase" and isinstance(name, str):
                return name
    return ""


def _while(phase: str) -> str:
    name = safe(phase, LONGEST).strip()
    if not name:
        return "before any of your functions was called"
    # Probes name what they call either as doing ("calling setup()") or as the call itself ("len(dataset)").
    word = "while" if name.split()[0].endswith("ing") else "in"
    return f"{word} {name}"


def _of(ranks: Sequence[RankOutcome], rank: RankOutcome) -> str:
    return "The " if len(ranks) == 1 else f"Rank {list(ranks).index(rank)}'s "


def _who(number: int, ranks: Sequence[RankOutcome]) -> str:
    return "your code" if len(ranks) == 1 else f"rank {number} of {len(ranks)}"


def _on(number: int, ranks: Sequence[RankOutcome]) -> str:
    return "" if len(ranks) == 1 else f", on {_who(number, ranks)}"


def _limit(name: str, phase: str, limits: Limits) -> LimitExceeded:
    sentences = {
        "memory": (
            f"more memory than the {_size(limits.memory)} of this check",
            "Is something kept that could be let go, such as every batch, every loss with its graph, or a whole data set?",
        ),
        "machine": (
            "nearly all the memory of the machine that it ran on",
            "Is something kept that could be let go? If not, this machine is too small for it.",
        ),
        "processes": (
            f"more than the {limits.processes} processes and threads of this check",
            "Does something start processes in a loop, or a DataLoader in every step?",
        ),
        "output": (
            f"more than the {_size(limits.output)} of printed output of this check",
            "Is something printed in an endless loop, or in every step, or a whole tensor or data set at once?",
        ),
        "disk": (
            f"more than the {_size(limits.disk)} of disk space of this check",
            "Is something written in every step that should be written once?",
        ),
        "files": (
            f"more than the {limits.open_files} open files of this check",
            "Are files opened and never closed? Use `with open(...)` or `with Image.open(...)`.",
        ),
    }
    what, hint = sentences[name]
    return LimitExceeded(f"Your code used {what} {_while(phase)}, and was stopped.", hint)


def _size(size: int) -> str:
    return f"{size / GIB:.0f} GiB" if size >= GIB else f"{size / MIB:.0f} MiB"


def _ended(number: int, ranks: Sequence[RankOutcome]) -> Crashed:
    status = ranks[number].status or 0
    phase = _phase([ranks[number]])
    if status == BROKEN and not _student_ran(ranks[number]):
        raise GraderFault("the probe ended before it came to the student's code: is there such a function?")
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        kinds = {"SIGSEGV": "a segmentation fault", "SIGABRT": "an abort", "SIGKILL": "a kill"}
        how = f"was ended by {kinds.get(name, name)} ({name})"
        hint = (
            "Code outside Python failed: look for tensors of different shapes in one collective, or ctypes."
        )
    else:
        how = f"ended by itself (exit status {status}) without coming back"
        hint = "Look for os._exit or exit() in your code; a function should return, or raise an exception."
        if phase.startswith(IMPORTING):
            hint = ENDS_PROGRAM
    output = ranks[number].output
    printed = f" Its last lines: {last_lines(output)}" if status >= 0 and output.strip() else ""
    ended = Crashed(f"The process of {_who(number, ranks)} {how}, {_while(phase)}.{printed}", hint)
    # Where the kernel ended it, it may go well another time.
    ended.spoils = status >= 0 and phase.startswith(IMPORTING)
    return ended


def _error(
    number: int, error: StudentError, ranks: Sequence[RankOutcome], limits: Limits, submission: Submission
) -> CheckEnded:
    message = safe_line(error.message, LONGEST)
    raised = f"{safe(error.type, 60)}{': ' + message if message else ''}"
    exceeded = _exceeded(error)
    if exceeded is not None:
        return _limit(exceeded, error.phase, limits)
    if error.type in _CELLS:
        return _cell(error)
    importing = error.phase.startswith(IMPORTING)
    if error.type in _MISTAKES or error.type == "StudentMistake":  # a file that is not there, or a name in it
        missing = Failed(f"{_capital(message)}.", _MISTAKES.get(error.type) or advice(error, submission))
        # Of a file without code, whatever else is asked of it would only be told in other words.
        missing.spoils = importing or error.type == "NoCode"
        return missing
    if error.type == "SourceError" and importing and not error.frames:  # of lockstep.sandbox.reading
        file = error.phase.removeprefix(IMPORTING)
        unread = Crashed(
            submission.problems.get(file) or f"{safe(file, 120)} cannot be read: {message}.",
            advice(error, submission),
        )
        unread.spoils = True
        return unread
    if not error.frames and not error.phase:
        if not _student_ran(ranks[number]):
            raise GraderFault(f"the probe failed: {error.type}: {error.message}")
        return Crashed(
            f"What this check did after your functions had come back ended with {raised}{_on(number, ranks)}.",
            advice(error, submission),
        )
    if error.type == "SystemExit":
        text = f"{_capital(_who(number, ranks))} called sys.exit or exit ({message or 'no status'})"
    else:
        text = f"{_capital(_who(number, ranks))} raised {raised}"
    place = error.frames[-1] if error.frames else None
    if error.line is not None and place is None and f"line {error.line}" not in message:
        text += f" (line {error.line})"
    elif place is not None:
        text += f" ({safe(str(place), 120)}, in {safe(place.function, 60)})"
    after = not error.phase and _student_ran(ranks[number])
    when = "after your functions had come back" if after else _while(error.phase)
    why = on_missing_name(ranks[number], submission)
    ended = Crashed(" ".join(filter(None, (f"{text}, {when}.", why))), advice(error, submission))
    ended.spoils = importing
    return ended


def _cell(error: StudentError) -> CheckEnded:
    """A cell of a notebook that was stopped by a limit of its own."""
    verdict, hint = _CELLS[error.type]
    place = f", at {safe(str(error.frames[-1]), 120)}" if error.frames else ""
    return verdict(f"{_capital(safe(error.message, 200))}{place}.", hint)


def _student_ran(rank: RankOutcome) -> bool:
    """Whether any of the student's code was called: from then on it may have broken the probe, or speak for it."""
    return rank.began or any(event.get("kind") == "phase" for event in rank.events)


def _capital(text: str) -> str:
    # The name of a file or a function stays as it is.
    return text if re.search(r"[._(]", text.split(" ")[0]) else text[:1].upper() + text[1:]


def _exceeded(error: StudentError) -> str | None:
    # Its parser's stack, which source text can overflow, is a small fixed one: no line has run yet.
    parsing = error.phase.startswith(IMPORTING) and not error.frames
    if (error.type == "MemoryError" and not parsing) or any(
        words in error.message for words in _OUT_OF_MEMORY
    ):
        return "memory"
    if error.type == "RuntimeError" and _OUT_OF_THREADS in error.message:
        return "processes"
    return None if error.errno is None else _LIMIT_ERRNOS.get(error.errno)


def _hung(outcome: Outcome, limits: Limits) -> Hung:
    ranks = outcome.ranks if len(outcome.ranks) > 1 else tuple(map(_alone, outcome.ranks))
    # What one of them is in, not what the others are at meanwhile, which may be a wait for that one.
    phase = _phase([rank for rank in ranks if rank.standing and rank.standing.frame] or ranks)
    where = "; ".join(_stands(number, rank, len(ranks), phase) for number, rank in enumerate(ranks))
    text = f"No answer within {limits.seconds:.0f} s {_while(phase)}: {where}."
    if hangs_at_import(outcome):
        hint = (
            "All that stands at the left margin of a file runs whenever it is imported: put what loops, waits or "
            'computes for long into a function, or below `if __name__ == "__main__":`.'
        )
    elif len(ranks) == 1 and not any(rank.standing and len(rank.standing.started) > 1 for rank in ranks):
        stands = ranks[0].standing
        hint = (
            "Does the loop that this line is in, or is called from, ever end? Does the line wait for something that never "
            "comes, or compute far more than was asked for?"
            if stands is not None and stands.frame is not None and not (stands.waits_in or stands.state)
            else "Look for an endless loop, a wait for input, or a process group that waits for ranks that never come."
        )
    elif any(rank.standing and rank.standing.waits_in.startswith("init_process_group") for rank in ranks):
        hint = (
            "They never met. init_process_group has to be given the init_method that your function is given; rank and "
            "world size come from RANK and WORLD_SIZE, which torchrun sets."
        )
    else:
        hint = (
            "A collective (all_reduce, barrier, broadcast, the backward of a wrapped model ...) returns only when "
            "every rank calls it. Look for one inside `if rank == 0`, or in a function that is called there, for ranks with "
            "different numbers of batches, and for an exception that one rank swallows."
        )
    return Hung(text, hint)


def _alone(rank: RankOutcome) -> RankOutcome:
    """The one rank of a run: in what only several do together, it computes."""
    stands = rank.standing
    if stands is None or stands.waits_in not in WITH_OTHERS:
        return rank
    return replace(rank, standing=replace(stands, waits_in=""))


def _stands(number: int, rank: RankOutcome, world: int, phase: str) -> str:
    who = "it" if world == 1 else f"rank {number}"
    if rank.complete:
        return (
            f"{who} has finished" if rank.error is None else f"{who} has raised {safe(rank.error.type, 60)}"
        )
    if rank.status is not None:
        return f"{who} has ended"
    stands = rank.standing
    if stands is None:
        return f"{who} gave no sign of life"
    own = _phase([rank])
    if own != phase and not (stands.frame or stands.waits_in or stands.state):
        return f"{who} is not in it, but {_while(own).removeprefix('while ')}"
    started = [f"its rank {rank} {_does(one)}" for rank, one in stands.started]
    return "; ".join([f"{who} {_does(stands)}", *started])


def _does(stands: Standing) -> str:
    if stands.state == "stopped":
        return "has stopped itself (SIGSTOP)"
    place = f" at {safe(str(stands.frame), 120)}" if stands.frame else ""
    if stands.waits_in:
        return f"waits in {safe(stands.waits_in, 120)}{place}"
    return f"is busy{place or ' outside your files'}"
