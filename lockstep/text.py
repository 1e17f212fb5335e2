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
    return f"{kept} ... ({left_out} more characters)" if left_out else kept


def safe_line(text: str, limit: int = 200) -> str:
    """`safe` for names and other text that must stay on one line."""
    return " ".join(safe(text, limit).split())


def listed(words: Sequence[str]) -> str:
    """Words in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def last_lines(output: str) -> str:
    """The last four lines of what something printed that are not empty, in one line for a message.

    Of a torchrun with a failed process those before its own stack and summary, which do not tell the cause; of a
    process that died below Python the signal and where it was; of argparse its complaint without the usage.
    """
    own = _TORCHRUN_FAILED.split(output, maxsplit=1)[0]
    if died := _DIED.search(own):
        frames = [line for line in own[died.start() :].splitlines() if line.lstrip().startswith("File ")]
        return " | ".join(safe_line(line, 160) for line in (died[0], *frames[:3]))
    lines = [line for line in own.splitlines() if line.strip() and not _TORCHRUN_SAYS.match(line)]
    lines = lines or [line for line in output.splitlines() if line.strip()]
    if lines and _ARGPARSE_SAYS.match(lines[-1]):
        return safe_line(lines[-1])
    # Several processes often say the same.
    lines = [line for line, _ in itertools.groupby(lines)]
    return " | ".join(safe_line(line, 160) for line in lines[-4:]) or "(nothing was printed)"


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
