"""How pages write what graders, people and students said: made harmless here, escaped by the templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup, escape

from lockstep.text import LIMIT, safe, safe_line

SHOWN_LINES, SHOWN_CHARACTERS = 8, 900
"""What is read at once of a message; the rest of a log is folded away."""

_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Folded:
    """A text in two parts: what is read at once, and what is folded away below it."""

    shown: str
    more: str = ""

    @property
    def more_lines(self) -> int:
        """Lines that are folded away, at least one where there is anything."""
        return self.more.count("\n") + 1 if self.more else 0


def folded(text: str, limit: int = LIMIT) -> Folded:
    """`text` made harmless, cut in two where a person would stop reading."""
    whole = safe(text, limit).strip()
    end = _nth(whole, "\n", SHOWN_LINES)
    if end > SHOWN_CHARACTERS:
        # At a space, so that no word is cut; a text without any is cut all the same.
        space = max(whole.rfind(mark, SHOWN_CHARACTERS // 2, SHOWN_CHARACTERS) for mark in " \n")
        end = space if space > 0 else SHOWN_CHARACTERS
    # Nobody unfolds a handful of words.
    return Folded(whole) if len(whole) - end < 80 else Folded(whole[:end].rstrip(), whole[end:].strip("\n"))


def prose(text: str) -> Markup:
    """Text in which `names in backticks` are set as code. Made harmless before, escaped here."""
    return Markup("").join(_pieces(text))


def breakable(name: str) -> Markup:
    """The name of an exercise or a check, which a narrow column may break after an underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def points(value: float) -> str:
    """Points as people write them: at most two decimals, none that say nothing."""
    return f"{round(value, 2) + 0.0:g}"


def of_points(value: float, most: float) -> str:
    """Points earned and possible; a check may be there for what it says alone."""
    return f"{points(value)} of {points(most)}" if most else "no points"


def seconds(value: float) -> str:
    """A duration in the unit a person would choose."""
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


def day(moment: str) -> str:
    """The date and time of an ISO 8601 text, as "21 November 2026, 09:11 UTC"; the text itself where it is none."""
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return safe_line(moment, 40)
    return f"{parsed.day} {parsed:%B %Y, %H:%M} UTC"


def plural(count: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 student", "2,000 students"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _pieces(text: str) -> Iterator[Markup]:
    end = 0
    for match in _CODE.finditer(text):
        yield escape(text[end : match.start()])
        yield Markup("<code>%s</code>") % match[1]
        end = match.end()
    yield escape(text[end:])


def _nth(text: str, mark: str, count: int) -> int:
    """Where the mark stands for the nth time; the end of the text where it does not."""
    place = -1
    for _ in range(count):
        place = text.find(mark, place + 1)
        if place < 0:
            return len(text)
    return place
