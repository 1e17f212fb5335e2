"""YAML that somebody else wrote, as plain values: an alias that multiplies, a tag that builds objects, a tower of
brackets end in one sentence with a line.

PyYAML's parser, in Python and not in C (it reads what a student hands in, outside of the sandbox), gives one event
after the other; nothing is built of them but dicts, lists, text, numbers, booleans and None. An alias is counted
as what it stands for before it is copied, so that a small file cannot become a large value.

Where the versions of YAML read a plain word differently, the document says so under `traps`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from lockstep.text import safe_line
from lockstep.wire import Json
from lockstep.yamlscalar import TagError, refused, resolved

BYTES = 128 << 10
"""A manifest has a few thousand; a hundred of them in one file still fit."""
DEPTH = 32
NODES = 5_000
"""Values and keys of a whole file, every alias counted as what it stands for."""
SCALAR = 16 << 10
"""Characters of one text."""
CHARACTERS = 256 << 10
"""Characters of all texts, every alias counted as what it stands for."""
TRAPS = 20
"""Remarks that are kept; a file can be made of nothing else."""

Place = tuple[str | int, ...]
"""Where a value stands in its document: keys and positions in lists, from the outside in."""


class YamlError(Exception):
    """Text that is no YAML, or more of it than is read; the message is a sentence that names the `line`."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line}: {sentence}")
        self.line = line


@dataclass(frozen=True)
class Document:
    """One of the documents of a file. `lines` says where each value stands, `traps` what others read otherwise."""

    value: Json
    lines: Mapping[Place, int]
    traps: tuple[str, ...] = ()

    def line(self, place: Place) -> int:
        """The line of a value, or of what is nearest around it: what an alias stands for has its own lines."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_yaml(data: bytes) -> tuple[Document, ...]:
    """Every document of a file that holds something; comments alone are none. Raises YamlError, and nothing else."""
    text = _text(data)
    # PyYAML takes no tab in front of anything. Between brackets tabs are blanks, and JSON is often indented so.
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        text = re.sub(r"(?m)^[ \t]+", lambda blanks: " " * len(blanks[0]), text)
    try:
        return tuple(_Reader(text).documents())
    except yaml.MarkedYAMLError as error:
        raise _explained(error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(line, f"U+{error.character:04X} is no character of a text file.") from None
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, RecursionError):
        # PyYAML's scanner turns digits of an escape or of `%YAML` into numbers without looking at them.
        raise YamlError(1, "this is no YAML that can be read.") from None


def _text(data: bytes) -> str:
    if len(data) > BYTES:
        raise YamlError(1, f"the file has {len(data):,} bytes, of which at most {BYTES:,} are read.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise YamlError(1, "the file is saved as UTF-16; save it as UTF-8.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise YamlError(line, "a byte here is not UTF-8; save the file as UTF-8.") from None


@dataclass
class _Node:
    """A value and what copying it once more costs."""

    value: Json
    line: int
    height: int = 0
    nodes: int = 1
    characters: int = 0
    text: str | None = None
    """What a scalar was written as: a key is always text."""

    def take(self, child: _Node) -> None:
        self.height = max(self.height, child.height + 1)
        self.nodes += child.nodes
        self.characters += child.characters


@dataclass
class _Open:
    """A list or mapping whose end has not come yet."""

    node: _Node
    place: Place
    anchor: str | None
    key: _Node | None = None
    keys: dict[str, int] = field(default_factory=dict)
    merged: dict[str, Json] = field(default_factory=dict)

    @property
    def awaits_key(self) -> bool:
        return isinstance(self.node.value, dict) and self.key is None

    @property
    def inner(self) -> Place:
        """Where its next value stands."""
        if isinstance(self.node.value, list):
            return (*self.place, len(self.node.value))
        return (*self.place, self.key.text or "") if self.key else self.place


class _Reader:
    """Turns events into documents; a file's limits are counted over all of its documents."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=yaml.SafeLoader))
        self._nodes = 0
        self._characters = 0
        self._begin()

    def _begin(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, _Node | None] = {}
        self._lines: dict[Place, int] = {}
        self._traps: dict[str, None] = {}
        self._root: _Node | None = None

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            line = event.start_mark.line + 1 if event.start_mark is not None else 1
            if isinstance(event, yaml.DocumentStartEvent):
                self._begin()
            elif isinstance(event, yaml.DocumentEndEvent):
                if self._root is not None and self._root.value is not None:
                    yield Document(self._root.value, self._lines, tuple(self._traps))
            elif isinstance(event, yaml.AliasEvent):
                self._put(self._copy(event.anchor, line))
            elif isinstance(event, yaml.ScalarEvent):
                self._scalar(event, line)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._start(event, line)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end()

    def _count(self, line: int, nodes: int, characters: int, height: int = 0) -> None:
        self._nodes += nodes
        self._characters += characters
        if len(self._open) + height > DEPTH:
            raise YamlError(line, f"values stand in one another more than {DEPTH} deep.")
        if self._nodes > NODES:
            raise YamlError(line, f"the file comes to more than {NODES:,} values, its aliases written out.")
        if self._characters > CHARACTERS:
            raise YamlError(
                line, f"the file comes to more than {CHARACTERS:,} characters, its aliases written out."
            )

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if len(event.value) > SCALAR:
            raise YamlError(
                line, f"a text has {len(event.value):,} characters, of which at most {SCALAR:,} are read."
            )
        if any("\ud800" <= character <= "\udfff" for character in event.value):
            raise YamlError(line, "an escape stands for half a character.")
        self._count(line, 1, len(event.value))
        is_key = bool(self._open) and self._open[-1].awaits_key
        value: Json = event.value
        if not is_key:
            try:
                value, trap = resolved(event.value, event.tag, quoted=not event.implicit[0])
            except TagError as error:
                raise YamlError(line, str(error)) from None
            if trap and len(self._traps) < TRAPS:
                self._traps[f"line {line}: {trap}"] = None
        node = _Node(value, line, characters=len(event.value), text=event.value)
        if event.anchor:
            self._anchors[event.anchor] = node
        self._put(node)

    def _start(self, event: yaml.CollectionStartEvent, line: int) -> None:
        is_map = isinstance(event, yaml.MappingStartEvent)
        own = ("!", f"tag:yaml.org,2002:{'map' if is_map else 'seq'}")
        if event.tag is not None and event.tag not in own:
            raise YamlError(line, refused(event.tag))
        self._count(line, 1, 0, height=1)
        if event.anchor:
            # Known, but not finished: an alias in here would stand for itself.
            self._anchors[event.anchor] = None
        place = self._open[-1].inner if self._open else ()
        self._open.append(_Open(_Node({} if is_map else [], line), place, event.anchor))

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.node.value, dict):
            for key, value in done.merged.items():
                done.node.value.setdefault(key, value)
        if done.anchor:
            self._anchors[done.anchor] = done.node
        self._put(done.node)

    def _copy(self, anchor: str, line: int) -> _Node:
        name = safe_line(anchor, 40)
        if anchor not in self._anchors:
            raise YamlError(line, f"`*{name}` stands for nothing: no `&{name}` comes before it.")
        meant = self._anchors[anchor]
        if meant is None:
            raise YamlError(
                line, f"`*{name}` stands inside of `&{name}`, so it would hold itself without end."
            )
        self._count(line, meant.nodes, meant.characters, meant.height)
        return _Node(_copied(meant.value), line, meant.height, meant.nodes, meant.characters, meant.text)

    def _put(self, node: _Node) -> None:
        if not self._open:
            self._root = node
            self._lines[()] = node.line
            return
        around = self._open[-1]
        if around.awaits_key:
            self._put_key(around, node)
            return
        around.node.take(node)
        self._lines.setdefault(around.inner, node.line)
        if isinstance(around.node.value, list):
            around.node.value.append(node.value)
        elif isinstance(around.node.value, dict) and around.key is not None:
            key = around.key.text or ""
            if key == "<<":
                _merge(around, node)
            else:
                around.node.value[key] = node.value
                # A block stands below its key, and it is the key that people look for.
                self._lines[around.inner] = around.key.line
            around.key = None

    def _put_key(self, around: _Open, node: _Node) -> None:
        if node.text is None:
            raise YamlError(
                node.line,
                "a key has to be a plain text, not a list or mapping; `{{ ... }}` needs quotes around it.",
            )
        if node.text in around.keys and node.text != "<<":
            raise YamlError(
                node.line,
                f"the key `{safe_line(node.text, 40)}` is there twice, first in line {around.keys[node.text]}: "
                "only one of the two would count.",
            )
        around.keys[node.text] = node.line
        around.node.take(node)
        around.key = node


def _merge(around: _Open, node: _Node) -> None:
    """`<<: *base`: the keys of another mapping, or of several, where they are not given here (YAML 1.1)."""
    sources = node.value if isinstance(node.value, list) else [node.value]
    for source in sources:
        if not isinstance(source, dict):
            raise YamlError(node.line, "`<<` takes a mapping, as in `<<: *base`.")
        for key, value in source.items():
            around.merged.setdefault(key, value)


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


# What PyYAML says, and what it means to somebody who has written a manifest. The first that fits counts.
_MEANINGS = (
    (r"found character '\\t'", "a tab stands in front of something; YAML is indented with blanks only."),
    (
        r"found character '[@`%]'",
        "a value cannot begin with this sign; put quotes around it.",
    ),
    (
        r"mapping values are not allowed",
        "a colon stands where none can: look at the indentation of this line and the one above, or put quotes around "
        "the text that holds `: `.",
    ),
    (
        r"could not find expected ':'",
        "a key without a colon and a blank after it, in this line or the one above.",
    ),
    (
        r"expected <block end>, but found '-'|sequence entries are not allowed",
        "a `-` stands where no list goes on: look at the indentation of this line and the ones above.",
    ),
    (
        r"expected <block end>",
        "this line is indented otherwise than its neighbours: what belongs together begins in one column.",
    ),
    (r"unexpected end of stream", "a quote that is opened here is never closed."),
    (
        r"expected ',' or|flow (?:sequence|mapping|node)",
        "a bracket that is opened here is never closed.",
    ),
    (
        r"expected '<document start>'",
        "what stands here does not belong to anything above: look at its indentation.",
    ),
    (r"undefined tag handle", "a value that begins with `!` is a tag; put quotes around it."),
    (r"unknown escape character", "`\\` begins an escape inside of double quotes; use single quotes."),
)


def _explained(error: yaml.MarkedYAMLError) -> YamlError:
    said = f"{error.context or ''} {error.problem or ''}"
    here, begin = error.problem_mark or error.context_mark, error.context_mark or error.problem_mark
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, said):
            mark = begin if "opened here" in meaning else here
            break
    else:
        mark = here
        meaning = (
            f"this is no YAML that can be read: {safe_line(error.problem or 'something unexpected', 120)}."
        )
    return YamlError(mark.line + 1 if mark is not None else 1, meaning)
