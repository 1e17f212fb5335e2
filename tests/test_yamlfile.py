"""The reader of YAML: what it takes, what it refuses with a sentence, and that nothing makes it break or grow."""

from __future__ import annotations

import contextlib
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lockstep import yamlfile
from lockstep.wire import Json
from lockstep.yamlfile import YamlError, read_yaml
from tests.effort import costs_at_most

# Yardsticks of plain Python (tests/effort.py).
PATIENCE = 40


def only(text: str) -> Json:
    (document,) = read_yaml(text.encode())
    return document.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("a:\r\n- b\r\n- 'c'\r\n", {"a": ["b", "c"]}),
        ("\ufeffa: 1", {"a": 1}),
        ("{a: [1, 2.5, x], b: {}}", {"a": [1, 2.5, "x"], "b": {}}),
        ('{\n\t"a": [true,\n\t\tnull]\n}', {"a": [True, None]}),
        ("a: |\n  x\n  y\nb: >-\n  x\n  y", {"a": "x\ny\n", "b": "x y"}),
        ("a: &x {b: 1}\nc: *x\nd: [*x, *x]", {"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}, {"b": 1}]}),
        ("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}),
        (
            "a: &x {b: 1}\nb: &y {b: 2, c: 3}\nd: {<<: [*x, *y]}",
            {"a": {"b": 1}, "b": {"b": 2, "c": 3}, "d": {"b": 1, "c": 3}},
        ),
        ("1: a\ntrue: b\n~: c", {"1": "a", "true": "b", "~": "c"}),
        (
            "nvidia.com/gpu: 1\nimage: host:5000/x:latest",
            {"nvidia.com/gpu": 1, "image": "host:5000/x:latest"},
        ),
        ("# nothing\nx", "x"),
    ],
)
def test_values_are_plain(text: str, value: Json) -> None:
    assert only(text) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *[(word, None) for word in ("", "~", "null", "NULL")],
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[
            (word, word)
            for word in ("tRue", "Never", "No way", "nil", "None", "1.2.3", "v1", "1Gi", "0.5.", "--", "+")
        ],
        ("0", 0),
        ("-17", -17),
        ("+3", 3),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        ("2026-11-21", "2026-11-21"),
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9" * 400, "9" * 400),
        ("1234567890123456789012", 1234567890123456789012.0),
        ("'1'", "1"),
        ('"yes"', "yes"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("!!int 1", 1),
        ("!!float 1", 1),
    ],
)
def test_scalars_without_a_trap(written: str, value: Json) -> None:
    (document,) = read_yaml(f"key: {written}".encode())
    assert isinstance(document.value, dict)
    assert document.value["key"] == value
    assert type(document.value["key"]) is type(value) or written == "!!float 1"
    assert document.traps == ()


@pytest.mark.parametrize(
    ("written", "value", "words"),
    [
        ("yes", True, "write true"),
        ("No", False, "write false"),
        ("off", False, "YAML 1.2"),
        ("n", False, "quote it"),
        ("22:30", "22:30", "base 60"),
        ("010", 8, "octal"),
        ("089", 89, "octal"),
        ("1_000", "1_000", "leave out"),
    ],
)
def test_words_that_readers_differ_on_are_told_with_their_line(written: str, value: Json, words: str) -> None:
    (document,) = read_yaml(f"# first\nkey: {written}\n".encode())
    assert document.value == {"key": value}
    (trap,) = document.traps
    assert trap.startswith(f"line 2: `{written}`")
    assert words in trap


def test_a_key_is_no_trap() -> None:
    (document,) = read_yaml(b"on: push\nno: 1")
    assert (document.value, document.traps) == ({"on": "push", "no": 1}, ())


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("# all\n# of it\n", []),
        ("---\n---\n# no\n...\n", []),
        ("a: 1\n---\n# none\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}]),
        ("--- a\n--- 0", ["a", 0]),
    ],
)
def test_every_document_that_holds_something_is_given(text: str, values: list[Json]) -> None:
    assert [document.value for document in read_yaml(text.encode())] == values


def test_places_have_lines() -> None:
    (document,) = read_yaml(b"# x\na: &a\n  b:\n  - 1\n  - c: 2\nd: *a\n")
    assert document.line(("a",)) == 2
    assert document.line(("a", "b")) == 3
    assert document.line(("a", "b", 1, "c")) == 5
    assert document.line(("d", "b", 0)) == 6  # nearest around it
    assert document.line(("e",)) == 2


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [" + ", ".join("x" * 9) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, levels)]
    return "\n".join(lines)


REFUSED: dict[str, tuple[str | bytes, int, str]] = {
    "alias bomb": (bomb(9), 4, "its aliases written out"),
    "text bomb": (f"a: &a {'x' * 16_000}\nb: [{', '.join(['*a'] * 99)}]", 2, "its aliases written out"),
    "deep alias": (
        "a0: &a0 [[[x]]]\n" + "\n".join(f"a{n}: &a{n} [[[*a{n - 1}]]]" for n in range(1, 12)), 11, "32 deep"
    ),
    "merge bomb": (
        "a0: &a0 {k0: 0}\n"
        + "\n".join(f"a{n}: &a{n} {{<<: *a{n - 1}, x{n}: *a{n - 1}, y{n}: *a{n - 1}}}" for n in range(1, 12)), 7, "written"
    ),
    "recursive": ("a: &a [*a]", 1, "inside of `&a`"),
    "recursive merge": ("a: &a\n  <<: *a", 2, "inside of `&a`"),
    "merge of a text": ("a:\n  <<: x", 2, "`<<` takes a mapping"),
    "undefined": ("x: 1\na: *b", 2, "no `&b` comes before"),
    "other document's anchor": ("a: &b 1\n---\nc: *b", 3, "no `&b`"),
    "twice": ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3", 5, "`c` is there twice, first in line 3"),
    "object": ("a: !!python/object/apply:os.system [ls]", 1, "`!!python/object/apply:os.system` is not taken"),
    "text tag": ("a: !!binary aGk=", 1, "`!!binary` is not taken"),
    "own tag": ("a: !Ref x", 1, "`!Ref` is not taken"),
    "map tag": ("a: !!set {x}", 1, "`!!set` is not taken"),
    "misfit": ("a: !!int x", 1, "!!int says"),
    "tab": ("a:\n\tb: 1", 2, "a tab"),
    "indentation": ("a:\n  b: 1\n c: 2", 3, "begins in one column"),
    "less than the first": (" a: 1\nb: 2", 2, "look at its indentation"),
    "colon": ("a: b: c", 1, "a colon stands where none can"),
    "no colon": ("a: 1\nfoo\nb: 2", 3, "without a colon"),
    "list": ("a: 1\n- b", 2, "where no list goes on"),
    "quote": ("x: 1\na: 'b\nc: 2\n", 2, "quote that is opened here"),
    "bracket": ("x: 1\na: [b,\nc: 2\n", 2, "bracket that is opened here"),
    "at": ("a: @b", 1, "put quotes around it"),
    "template": ("a: {{ x }}", 1, "`{{ ... }}` needs quotes"),
    "key of a list": ("? [a]\n: b", 1, "a key has to be a plain text"),
    "escape": ('a: "C:\\data"', 1, "use single quotes"),
    "wild escape": ('a: "\\UFFFFFFFF"', 1, "no YAML that can be read"),
    "surrogate": ('a: "\\ud800"', 1, "half a character"),
    "version": ("%YAML 1." + "9" * 5000 + "\n---\na", 1, "no YAML that can be read"),
    "zero byte": ("x: 1\na: \0", 2, "U+0000"),
    "utf-16": ("a: 1".encode("utf-16"), 1, "save it as UTF-8"),
    "latin-1": (b"x: 1\na: caf\xe9", 2, "save the file as UTF-8"),
    "long text": ("a: " + "x" * 20_000, 1, "of which at most 16,384"),
    "many values": ("- 1\n" * 6_000, 5_000, "5,000 values"),
    "many documents": ("--- 1\n" * 6_000, 5_001, "5,000 values"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_taken_gets_a_sentence_and_a_line(name: str) -> None:
    text, line, words = REFUSED[name]
    with pytest.raises(YamlError) as error:
        read_yaml(text.encode() if isinstance(text, str) else text)
    assert error.value.line == line
    assert str(error.value).startswith(f"line {line}: ")
    assert words in str(error.value)
    assert len(str(error.value)) < 250


SIZES = (yamlfile.BYTES - 1, 1 << 20)
HOSTILE = {
    "brackets": "[",
    "braces": "{a: ",
    "dashes": "- ",
    "questions": "? ",
    "questions in brackets": "[?",
    "comments": "#\n",
    "blanks": " ",
    "lines": "\n",
    "tabs": "\t",
    "words": "a ",
    "items": "[a,",
    "anchors": "- &a\n",
    "aliases": "- &a x\n- *a\n",
    "tags": "- !!str\n",
    "documents": "---\n",
    "quotes": "''",
    "escapes": '"\\n" ',
    "block": "|\n a\n",
    "directives": "%TAG !a! b\n",
    "marks": "!",
    "colons": "a:",
    "same keys": "k: v\n",
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_answered_soon(name: str, size: int) -> None:
    data = (HOSTILE[name] * (size // len(HOSTILE[name]) + 1))[:size].encode()
    with costs_at_most(PATIENCE), contextlib.suppress(YamlError):
        read_yaml(data)


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXTS.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_what_is_written_by_others_is_read_back(value: Json, flow: bool) -> None:
    written = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    read = [document.value for document in read_yaml(written.encode())]
    # `y` and `n` are text to PyYAML, which leaves them bare, and booleans to Kubernetes.
    assert read == ([] if value is None else [value]) or not {"y", "n", "Y", "N"}.isdisjoint(
        json.dumps(value).split('"')
    )


@given(VALUES)
def test_json_is_yaml(value: Json) -> None:
    read = [
        document.value for document in read_yaml(json.dumps(value, ensure_ascii=False, indent="\t").encode())
    ]
    assert read == ([] if value is None else [value])
