"""Regular expressions on texts that swell: none of the trusted side takes time with the square of a student's text.

Every pattern that lockstep and the graders compile is searched for in texts made from the pattern itself: beginnings
of what it matches, with one repetition swollen and an end that does not match. No seconds are asked for: a text four
times as long may take about four times as long.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from fixtures import build
from lockstep.magics import plain_python

SIZES = (1_000, 4_000, 16_000)
# Linear ones come to 4, with noise to 6; the square to 16. What is over in less is not measured well.
GROWTH, NOTICED = 8.0, 0.03
METHODS = ("search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split")
# Read in the sandbox, or on this computer's own files alone.
APART = ("/probe/", "lockstep/sandbox/", "lockstep/doctor/")
# How patterns are used that their own module does not use by name.
USED = {"graders/launch/slurm_header.py SLURM_VALUES": {"fullmatch"}}
# A file's last blanks are cut off before.
BOUNDED = {"lockstep/classroom/tokens.py _PYTHON"}
BLANKS, SIGNS = " \t\n", "a1-\"'([{#.,=_$\\/:"

sre: Any = importlib.import_module("re._parser")
compiler: Any = importlib.import_module("re._compiler")
opcode: Any = importlib.import_module("re._constants")
REPEATS = (opcode.MAX_REPEAT, opcode.MIN_REPEAT, opcode.POSSESSIVE_REPEAT)
ONE_SIGN = (opcode.IN, opcode.ANY, opcode.NOT_LITERAL, opcode.LITERAL)


def modules() -> list[str]:
    """The files of the trusted side that use regular expressions."""
    files = [*build.ROOT.glob("lockstep/**/*.py"), *build.ROOT.glob("graders/**/*.py")]
    names = sorted(str(file.relative_to(build.ROOT)) for file in files if "import re\n" in file.read_text())
    return [name for name in names if not any(part in name for part in APART)]


def patterns(file: str) -> Iterator[tuple[str, re.Pattern[Any], set[str]]]:
    """Every pattern of a file with its name and the methods that are called on it."""
    source = (build.ROOT / file).read_text()
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    for node in ast.parse(source).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        for name in (target.id for target in targets if isinstance(target, ast.Name)):
            called = set(re.findall(rf"(?<!\w){name}\.({'|'.join(METHODS)})\b", source))
            for pattern in compiled(vars(module).get(name)):
                yield f"{file} {name}", pattern, USED.get(f"{file} {name}") or called or {"search"}
    for call in ast.walk(ast.parse(source)):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str() | bytes() as text), *rest],
            ) if method in METHODS:
                flags = 0
                for each in (*rest, *(keyword.value for keyword in call.keywords)):
                    if isinstance(each, ast.Attribute) and each.attr.isupper():
                        flags |= getattr(re, each.attr)
                yield f"{file}:{call.lineno}", re.compile(text, flags), {method}


def compiled(value: object) -> Iterator[re.Pattern[Any]]:
    """The patterns in a value of a module, or in its collections."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from compiled([*value, *value.values()])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from compiled(each)


class Swollen:
    """The texts of one pattern, each as a beginning, what is repeated, and an end."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        bytes_of = isinstance(pattern.pattern, bytes)
        text = pattern.pattern.decode("latin1") if bytes_of else pattern.pattern
        self._flags = pattern.flags & ~(re.UNICODE if bytes_of else 0)
        self._parsed = sre.parse(text, self._flags)

    def texts(self) -> set[tuple[str, str, str]]:
        """All of them."""
        found = {("", sign, "") for sign in BLANKS + SIGNS}
        for word in sorted(self._words(self._parsed))[:25]:
            found |= {("", unit, "") for unit in (word, f"{word} ", f"{word} -", f"{word}-", f"{word}\n")}
        refused = sorted(set(self._refused(self._parsed)))
        ends = {"", "!", "\0", "\n", *refused, "".join(refused)}
        for begin, body in self._swells(self._parsed, ""):
            found |= {(begin, body, end) for end in ends}
            found |= {("", begin + body, ""), ("", f"{begin}{body} ", "")}
        return found

    def _fits(self, item: Any, sign: str) -> bool:
        one = compiler.compile(sre.SubPattern(self._parsed.state, [item]), self._flags)
        return one.fullmatch(sign) is not None

    def _signs(self, item: Any) -> list[str]:
        return [sign for sign in BLANKS + SIGNS if self._fits(item, sign)]

    def _refused(self, part: Any) -> Iterator[str]:
        """A sign that does not match, for every one-sign part: nothing else ends what repeats all but a few signs."""
        for code, value in part:
            if code in ONE_SIGN:
                yield next((sign for sign in map(chr, range(128)) if not self._fits((code, value), sign)), "")
            for inner in self._parts(code, value):
                yield from self._refused(inner)

    def _example(self, part: Any) -> str:
        return "".join(self._one(*item) for item in part)

    def _one(self, code: Any, value: Any) -> str:
        if code is opcode.LITERAL:
            return chr(value)
        if code in ONE_SIGN:
            fitting = self._signs((code, value))
            return next((sign for sign in "a1 -" if sign in fitting), fitting[0] if fitting else "a")
        if code in REPEATS:
            return self._example(value[2]) * max(value[0], 1)
        parts = self._parts(code, value)
        return self._example(parts[0]) if parts and code not in (opcode.ASSERT, opcode.ASSERT_NOT) else ""

    @staticmethod
    def _parts(code: Any, value: Any) -> list[Any]:
        if code in REPEATS:
            return [value[2]]
        if code is opcode.BRANCH:
            return list(value[1])
        if code is opcode.SUBPATTERN:
            return [value[3]]
        if code is opcode.ATOMIC_GROUP:
            return [value]
        return [value[1]] if code in (opcode.ASSERT, opcode.ASSERT_NOT) else []

    def _words(self, part: Any) -> set[str]:
        """The literals of a part, as long as they go on."""
        found, word = set(), ""
        for code, value in part:
            if code is opcode.LITERAL:
                word += chr(value)
                continue
            found, word = found | {word}, ""
            for inner in self._parts(code, value):
                found |= self._words(inner)
        return (found | {word}) - {""}

    def _swells(self, part: Any, begin: str) -> Iterator[tuple[str, str]]:
        """What a text begins with until a repetition, and what is repeated there."""
        for code, value in part:
            if code in REPEATS and (value[1] is opcode.MAXREPEAT or value[1] > 50):
                inner = value[2]
                if len(inner) == 1 and inner[0][0] in ONE_SIGN:
                    yield from ((begin, sign) for sign in self._signs(inner[0])[:12])
                if body := self._example(inner):
                    yield begin, body
            for each in self._parts(code, value):
                yield from self._swells(each, begin)
            begin += self._one(code, value)


def growth(act: Callable[[int], object]) -> float:
    """How often as long a text of four times the size takes; 1 where there is nothing to measure."""

    def seconds(size: int) -> float:
        begun = time.thread_time()  # others may use this computer's cores meanwhile
        act(size)
        return time.thread_time() - begun

    # Whatever is slow at fewer signs already is not waited for at 16,000.
    for longer in SIZES:
        # Once may be chance: a computer that is shared takes time that is charged to whoever runs.
        if seconds(longer) < NOTICED or (least := min(seconds(longer) for _ in range(3))) < NOTICED:
            continue
        ratio = least / min(seconds(longer // 4) for _ in range(5))
        if ratio > GROWTH:
            return ratio
    return 1.0


def slow(name: str, pattern: re.Pattern[Any], methods: Iterable[str]) -> Iterator[str]:
    """The texts on which a pattern grows too fast, in words."""
    is_bytes = isinstance(pattern.pattern, bytes)
    for method in methods:
        for begin, unit, end in sorted(Swollen(pattern).texts()):

            def act(
                size: int, begin: str = begin, unit: str = unit, end: str = end, method: str = method
            ) -> None:
                text: Any = begin + unit * (size // len(unit)) + end
                text = text.encode("latin1", "replace") if is_bytes else text
                arguments = (text[:0], text) if method.startswith("sub") else (text,)
                found = getattr(pattern, method)(*arguments)
                if method == "finditer":
                    list(found)

            if (ratio := growth(act)) > GROWTH:
                yield f"{name}.{method} grows by {ratio:.0f}: {begin!r} + {unit!r} * n + {end!r}"
                return


@pytest.mark.parametrize("file", modules())
def test_no_pattern_takes_the_square_of_a_text(file: str) -> None:
    found = [
        words
        for name, pattern, methods in patterns(file)
        if name not in BOUNDED
        for words in slow(name, pattern, methods)
    ]
    assert not found, "\n".join(found)


def test_a_pattern_that_does_is_found() -> None:
    for text in (
        r"x\s+\s*y",
        r"from\s+f\s+import\s+[\w, ]+(?:#.*)?$",
        r"\bip\s+(?:-\S+\s+)*link\b",
        r"\d+:",
        r"%run +[^{$]+$",
    ):
        assert list(slow(text, re.compile(text), ["search"])), text


LINES = {
    "a future import": ("from __future__ import", " ", "!"),
    "names of a future import": ("from __future__ import a", ", ", "!"),
    "a future import from afar": ("from", "\t", "!"),
    "a magic": ("%time", " ", ""),
    "another file that is run": ("%run", " ", "{"),
    "a shell command's result": ("x =", " ", "!"),
    "a question": ("?", " ", "!"),
    "a word and no question": ("a", " ", "!"),
    "quotes": ("x = ", "'\"", ""),
    "brackets": ("x = ", "([", ""),
    "backslashes": ("x = '", "\\", ""),
}


@pytest.mark.parametrize("name", LINES)
def test_a_cell_with_one_swollen_line(name: str) -> None:
    begin, unit, end = LINES[name]
    assert growth(lambda size: plain_python([begin + unit * (size // len(unit)) + end])) <= GROWTH
