"""Takes `answers.md` apart: which lines answer which question.

Only the blocks of CommonMark are parsed, which takes linear time, so that a heading inside a code fence or a comment
is none. Whatever can be told to be the heading of a question is taken for one, and told where it is not Markdown.
"""

from __future__ import annotations

import bisect
import codecs
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from markdown_it import MarkdownIt

from graders.answers.rubric import Question
from lockstep.similarity import words
from lockstep.submission import Submission

FILE = "answers.md"
MAX_BYTES = 64 << 10
"""Some twenty pages; real answers have three."""

MAX_MARKS = 200
"""Headings of questions that are looked at; there are eight questions."""

TITLE = 0.7
"""Share of a title's words that a heading without a number must have, and the other way round."""

FEWEST_ALIKE = 4
"""Headings that have to be alike but for their numbers, where these are in words that are not known here."""

_NAMES = "question|quest|q|answer|ans|a|spørgsmål|spm|opgave|svar|frage|aufgabe|antwort|fråga|pregunta|vraag"
_NUMBERED = re.compile(
    rf"\W{{0,8}}(?:(?:exercise|opgave)\s*10\W{{1,3}})?(?:{_NAMES})[\s.:#°-]{{0,3}}0?(?P<number>\d{{1,2}})"
    r"(?:\s?[a-h](?![^\W_]))?(?![^\W_])",
    re.IGNORECASE,
)
_BARE = re.compile(r"\W{0,8}0?(?P<number>\d{1,2})(?:[.):\]]|\s*$)(?!\d)")
# A numeral of whatever script, by which its place begins: 1, １, 一, ①; not the beginning of 1.87.
_NUMERAL = re.compile(r"(?<!\d)(?:\d{1,2}|[^\W\d_]|[\u2460-\u2467])(?!\d|[.,]\d)")
# What looks like a heading to its author: `##Q1`, `**Q1 ...**`, `<h2>Q1</h2>`, `*Q1*`.
_MEANT = re.compile(
    r" {0,3}(?:[#＃]{1,6}\s*|(?P<bold>\*\*|__)"
    r"|(?P<tag>(?:<details>\s*)?<(?:h[1-6]|summary|strong|b)(?:\s[^<>]{0,200})?>))(?=\S)",
    re.IGNORECASE,
)
_MARKED = "*`[("
# They come with what is copied from a web page, and nobody sees them.
_UNSEEN = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))
_COMMENT = re.compile(r"<!--(?P<text>.*?)(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,1000}>")
_IMAGE = re.compile(r"!\[[^\[\]\n]{0,1000}\]\([^)\n]{0,1000}\)")
_LINK = re.compile(r"\[([^\[\]\n]{0,1000})\]\([^)\n]{0,1000}\)")
_KINDS = {"fence": "code", "code_block": "code", "html_block": "html"}


@dataclass(frozen=True)
class Section:
    """What stands below one question's heading.

    `text` is its Markdown without comments, for a person. `said` is all text of it, code too, without tags, images
    and link targets; `told` is `said` without code and quotations: what the author states. `comments` stood in
    `<!-- -->`.
    """

    text: str = ""
    said: str = ""
    told: str = ""
    comments: str = ""
    pictures: int = 0

    def __add__(self, other: Section) -> Section:
        text, said, told, comments = (
            f"{one}\n\n{two}".strip("\n") for one, two in zip(self._texts, other._texts, strict=True)
        )
        return Section(text, said, told, comments, self.pictures + other.pictures)

    @property
    def _texts(self) -> tuple[str, str, str, str]:
        return self.text, self.said, self.told, self.comments


@dataclass(frozen=True)
class Answers:
    """The sections by number of the question, and what to tell the author about the file."""

    sections: Mapping[int, Section] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    in_code: tuple[int, ...] = ()
    """Questions whose headings stand inside code."""
    unclosed: bool = False
    """A comment begins that never ends."""


@dataclass(frozen=True)
class _Mark:
    """The heading of a question: the lines it takes up, and what of the last of them is answer already."""

    number: int
    begin: int
    end: int
    rest: str = ""


@dataclass(frozen=True)
class _Block:
    """A heading, a paragraph, code or HTML, with the lines it takes up."""

    kind: str
    begin: int
    end: int
    text: str
    quoted: bool


def candidates(submission: Submission) -> list[str]:
    """The paths that are `answers.md`, however it is spelt: those at the top, or else those further down."""
    paths = sorted(path for path in submission.files if PurePosixPath(path).name.casefold() == FILE)
    return [path for path in paths if "/" not in path] or paths


def decode(data: bytes) -> tuple[str, str]:
    """The text of a file, and the encoding where it is not UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace"), "UTF-16"
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), "Windows-1252 or Latin-1"


def parse(text: str, questions: Iterable[Question]) -> Answers:
    """Find the questions' headings in a Markdown text, and what stands below them."""
    asked = {question.number: question for question in questions}
    lines = text.translate(_UNSEEN).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    blocks = _blocks("\n".join(lines))
    remarks: list[str] = []
    marks = _headings(blocks, asked)
    if missing := asked.keys() - {mark.number for mark in marks}:
        meant = [mark for mark in _meant(blocks, plain=not marks) if mark.number in missing]
        if meant:
            named = ", ".join(f"Q{number}" for number in sorted({mark.number for mark in meant}))
            remarks.append(
                f"No Markdown heading: {named}. Write `## Q{meant[0].number}` on a line of its own."
            )
        marks = sorted([*marks, *meant], key=lambda mark: mark.begin)
    marks = marks[:MAX_MARKS]
    sections: dict[int, Section] = {}
    ends = [*(mark.begin for mark in marks), len(lines)][1:]
    for mark, until in zip(marks, ends, strict=True):
        if mark.number in asked:
            own = _section(mark, until, lines, blocks)
            sections[mark.number] = sections.get(mark.number, Section()) + own
    return Answers(
        sections=sections,
        remarks=tuple(remarks),
        in_code=tuple(sorted(_in_code(blocks) & asked.keys() - sections.keys())),
        unclosed=any(_is_unclosed(block) for block in blocks),
    )


def _blocks(text: str) -> list[_Block]:
    """The blocks that hold text, in order."""
    parser = MarkdownIt("commonmark").disable("reference")
    parser.core.ruler.enableOnly(["normalize", "block"])
    blocks: list[_Block] = []
    quoted, kind = 0, ""
    for token in parser.parse(text):
        quoted += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type in ("heading_open", "paragraph_open"):
            kind = token.type.removesuffix("_open")
            begin, end = token.map or [0, 0]
        elif token.type == "inline":
            blocks.append(_Block(kind, begin, end, token.content, quoted > 0))
        elif token.type in ("fence", "code_block", "html_block"):
            begin, end = token.map or [0, 0]
            blocks.append(_Block(_KINDS[token.type], begin, end, token.content, quoted > 0))
    return blocks


def _headings(blocks: list[_Block], asked: Mapping[int, Question]) -> list[_Mark]:
    """Headings that name a question: by `Q1` or the like; if none does, by `1.` or other words; or by its title."""
    found = [block for block in blocks if block.kind == "heading"]
    numbers: dict[int, int] = {}
    for pattern in (_NUMBERED, _BARE):
        matches = {block.begin: pattern.match(block.text) for block in found}
        numbers = {begin: int(match["number"]) for begin, match in matches.items() if match}
        if asked.keys() & set(numbers.values()):
            break
    else:
        numbers = _alike(found, asked)
    missing = {number: set(words(asked[number].title)) for number in asked.keys() - set(numbers.values())}
    for block in found:
        if missing and block.begin not in numbers:
            said = set(words(block.text[:200]))
            alike = [number for number, title in missing.items() if _is_title(said, title)]
            if alike:
                numbers[block.begin] = alike[0]
                del missing[alike[0]]
    return [_Mark(numbers[block.begin], block.begin, block.end) for block in found if block.begin in numbers]


def _alike(headings: Iterable[_Block], asked: Mapping[int, Question]) -> dict[int, int]:
    """The numbers of headings by the lines they begin in, where several have the same words before their numbers."""
    series: dict[str, dict[int, int]] = {}
    for block in headings:
        text = unicodedata.normalize("NFKC", block.text[:80]).casefold()
        for match in _NUMERAL.finditer(text):
            number = int(unicodedata.numeric(match[0], 0)) if len(match[0]) == 1 else int(match[0])
            if number in asked:
                series.setdefault(text[: match.start()].strip(), {})[block.begin] = number
    most = max(series.values(), key=lambda numbers: len({*numbers.values()}), default={})
    return most if len({*most.values()}) >= FEWEST_ALIKE else {}


def _is_title(said: set[str], title: set[str]) -> bool:
    return len(said & title) >= TITLE * max(len(said), len(title))


def _meant(blocks: list[_Block], *, plain: bool) -> Iterator[_Mark]:
    """Lines of paragraphs that were meant as headings; `plain` ones, `Q1: ...`, where there is no real heading."""
    for block in blocks:
        if block.kind not in ("paragraph", "html") or block.text.lstrip().startswith("<!--"):
            continue
        for at, line in enumerate(block.text.split("\n"), start=block.begin):
            start = _MEANT.match(line)
            match = _NUMBERED.match(line, start.end() if start else 0)
            if match and (start or (plain and line.lstrip(_MARKED)[:1].isalnum())):
                rest = line[match.end() :]
                if start and start["bold"]:  # what is bold is the question, what follows the answer
                    rest = rest.partition(start["bold"])[2]
                elif start and start["tag"]:
                    rest = rest.partition("</")[2].partition(">")[2]
                elif start:
                    rest = ""
                yield _Mark(int(match["number"]), at, at + 1, rest.lstrip(" .:)-*`]"))


def _section(mark: _Mark, until: int, lines: list[str], blocks: list[_Block]) -> Section:
    """What stands between a heading and the next, which begins in the line `until`."""
    said, told, comments = [mark.rest], [mark.rest], []
    pictures = 0
    first = bisect.bisect_right(blocks, mark.end, key=lambda block: block.begin)
    while first and blocks[first - 1].end > mark.end:  # a paragraph that the heading is a line of
        first -= 1
    for block in itertools.takewhile(lambda block: block.begin < until, blocks[first:]):
        inside = block.text
        if block.kind in ("paragraph", "html"):
            # It can hold what was meant as the headings of several questions.
            own = slice(max(mark.end - block.begin, 0), until - block.begin)
            inside = "\n".join(inside.split("\n")[own])
        if block.kind == "code":
            said.append(inside)
            continue
        comments += [match["text"] for match in _COMMENT.finditer(inside)]
        pictures += len(_IMAGE.findall(inside))
        said.append(_plain(inside))
        told += [] if block.quoted else [_plain(inside)]
    text = "\n".join([mark.rest, *lines[mark.end : until]])
    return Section(
        text=_COMMENT.sub("", text).strip(),
        said="\n\n".join(said).strip(),
        told="\n\n".join(told).strip(),
        comments="\n".join(comments).strip(),
        pictures=pictures,
    )


def _plain(text: str) -> str:
    return _TAG.sub(" ", _LINK.sub(r"\1", _IMAGE.sub(" ", _COMMENT.sub(" ", text))))


def _in_code(blocks: list[_Block]) -> set[int]:
    lines = (line.lstrip() for block in blocks if block.kind == "code" for line in block.text.split("\n"))
    matches = (_NUMBERED.match(line) for line in lines if line.startswith("#"))
    return {int(match["number"]) for match in matches if match}


def _is_unclosed(block: _Block) -> bool:
    return block.kind == "html" and block.text.rfind("<!--") > block.text.rfind("-->")
