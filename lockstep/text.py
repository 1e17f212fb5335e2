"""Text that a student's code had a hand in, made harmless for a terminal, a log and a JSON file.

A file name or an exception's message may hold anything: escape sequences that repaint the screen or
retitle the window, a carriage return that hides a line, direction marks that reorder it, commands a
CI service reads out of its log.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence

LIMIT = 2000
"""Characters kept of one message; about a screenful."""

NOT_WRITTEN = "is not written yet"
"""What the template's own exceptions say."""

PEER_LOST = (
    "Connection reset by peer",
    "Connection closed by peer",
    "Broken pipe",
    "Socket closed",
    "recv error",
)
"""How an error says no more than that another process was gone."""

# ECMA-48: CSI ... final byte; OSC, DCS, SOS, PM and APC strings up to their terminator; then two- and
# three-byte escapes. Removed whole, or their visible remainder ("[31m") would litter the sentence.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_NEWLINE = re.compile(r"\r\n|[\r\v\f\x85\u2028\u2029]")
_PLAIN = re.compile(r"[\n -~]*")
# Two accents on a letter is language; twenty climb over the neighbouring lines.
_MARK = r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_STACKED_MARKS = re.compile(rf"({_MARK}{_MARK}){_MARK}+")
_JOINERS = "\u200c\u200d"
"""Format characters that spelling needs: Persian words and composed emoji fall apart without them."""
# "E1123 03:35:13.062000 23116 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) ..."
_TORCHRUN_SAYS = re.compile(r"[A-Z]\d{4} [\d:.]+ \d+ torch/distributed/")
_ARGPARSE_SAYS = re.compile(r"\S+: error: ")
_DIED = re.compile(r"Fatal Python error: [^\n]*")
# "frame #17: <unknown function> + 0x40e61b (0x7f99 in libtorch_python.so)": a stack below Python, forty lines of it.
_FRAME_BELOW = re.compile(r"\s*(?:frame #\d+: |Exception raised from .* \(most recent call first\))")
_TRACEBACK = "Traceback (most recent call last)"
_FRAME = re.compile(r'^(?:\[\w+\]:)?\s*File "([^"]+)", line (\d+), in (.+)$')
_INDENTED = re.compile(r"(?:\[\w+\]:)?\s{2,}")
_TORCHRUN_FAILED = re.compile(rf"^{_TORCHRUN_SAYS.pattern}\S+ failed \(exitcode: ", re.MULTILINE)


def safe(text: str, limit: int = LIMIT) -> str:
    """`text` without control, escape and direction characters, at most `limit` characters of it.

    Line breaks survive as `\\n` and tabs as spaces. What is cut off is counted at the end. Runner
    commands in the middle of a line (`##[...]`) are broken up; those that must begin one (`::...::`)
    cannot be told from Python, so whoever prints lines puts something in front of them.
    """
    # Most texts are such, and a class has half a million of them.
    if len(text) <= limit and _PLAIN.fullmatch(text) and "##[" not in text:
        return text
    # A huge text is cut before it is searched; escapes may shrink it further, which costs nothing.
    head = text[: limit * 4]
    clean = _NEWLINE.sub("\n", _ESCAPE.sub("", head)).expandtabs(4)
    clean = "".join(character for character in clean if _is_harmless(character))
    clean = _STACKED_MARKS.sub(r"\1", clean).replace("##[", "## [")
    kept = clean[:limit]
    left_out = len(clean) - len(kept) + len(text) - len(head)
    return f"{kept} ... ({left_out} more character{'s' * (left_out != 1)})" if left_out else kept


def without_escapes(text: str) -> str:
    """`text` without what colours it in a terminal; harmless it is not."""
    return _ESCAPE.sub("", text)


def safe_line(text: str, limit: int = 200) -> str:
    """`safe` for names and other text that must stay on one line."""
    return " ".join(safe(text, limit).split())


def listed(words: Sequence[str]) -> str:
    """Words in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def few_names(names: Sequence[str]) -> str:
    """Some names of a student's, the first few of them."""
    few = ", ".join(safe(name, 60) for name in names[:3])
    return few + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def last_lines(output: str) -> str:
    """The last four lines of what something printed that are not empty, in one line for a message.

    Of a torchrun with a failed process those before its own stack and summary, which do not tell the cause; of a
    process that died below Python the signal and where it was; of argparse its complaint without the usage; of a
    traceback the last line that is no library's, and what was raised. A stack of C++ is left out.
    """
    own = _TORCHRUN_FAILED.split(output, maxsplit=1)[0]
    if died := _DIED.search(own):
        frames = [line for line in own[died.start() :].splitlines() if line.lstrip().startswith("File ")]
        return " | ".join(safe_line(line, 160) for line in (died[0], *frames[:3]))
    lines = [
        line
        for line in own.splitlines()
        if line.strip() and not _TORCHRUN_SAYS.match(line) and not _FRAME_BELOW.match(line)
    ]
    lines = lines or [line for line in output.splitlines() if line.strip()]
    if lines and _ARGPARSE_SAYS.match(lines[-1]):
        return safe_line(lines[-1])
    # Several processes often say the same.
    lines = [line for line, _ in itertools.groupby(lines)]
    return " | ".join(safe_line(line, 160) for line in _told(lines)) or "(nothing was printed)"


def _told(lines: Sequence[str]) -> list[str]:
    """The last four lines; of tracebacks at the end the last line of one's own code, and what was raised.

    A process that only says that another is gone does not tell the cause, if any other does.
    """
    starts = [at for at, line in enumerate(lines) if _TRACEBACK in line]
    tracebacks = [_traceback(lines[at:end]) for at, end in itertools.pairwise([*starts, len(lines)])]
    if not tracebacks or len(tracebacks[-1]) not in range(2, 5):
        return list(lines[-4:])
    causes = [told for told in tracebacks if told and not any(words in " ".join(told) for words in PEER_LOST)]
    return (causes[-1] if causes else tracebacks[-1])[:4]


def _traceback(lines: Sequence[str]) -> list[str]:
    """The last place in one's own code, and the lines of what was raised; nothing where it was raised elsewhere.

    A line may have a mark of its process in front, as in `[rank0]:   File "x.py", line 3, in f`.
    """
    frames = [(at, frame) for at, frame in enumerate(map(_FRAME.match, lines)) if frame]
    own = next((frame for _, frame in reversed(frames) if _is_own(frame[1])), None)
    if own is None:
        return []
    # Below a frame are its line of code and perhaps marks under it; what was raised begins in the first column.
    raised = [line for line in lines[frames[-1][0] + 1 :] if not _INDENTED.match(line)]
    return [f"{own[1].rpartition('/')[2]}, line {own[2]}, in {own[3]}", *raised]


def _is_own(path: str) -> bool:
    return (
        not path.startswith(("/opt/", "/usr/", "<"))
        and "-packages/" not in path
        and "/lib/python" not in path
    )


def few_lines(lines: Sequence[str], limit: int = 20) -> tuple[str, ...]:
    """The first `limit` lines, each made harmless; how many more there are is said by one more."""
    kept = [safe_line(line) for line in lines[:limit]]
    left_out = len(lines) - len(kept)
    return (*kept, f"and {left_out} more") if left_out else tuple(kept)


def _is_harmless(character: str) -> bool:
    if character == "\n" or character in _JOINERS:
        return True
    # Cc control, Cf format (direction marks, zero-width, tags), Cs lone surrogates (cannot be encoded),
    # Co private use (a terminal's font may draw anything).
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co"}


def more_places(count: int) -> str:
    """In how many more places something is, in words."""
    return "one more place" if count == 1 else f"{count} more places"
