"""YAML that nobody's editor would leave alone: what is accepted is what PyYAML makes of it, where both can read it."""

from __future__ import annotations

import datetime
import json
import math
import re

import yaml
from hypothesis import given

from lockstep.wire import Json
from lockstep.yamlfile import NODES, YamlError, read_yaml
from tests.fuzz.bent import Dice, thrown, written
from tests.fuzz.promise import held, presentable

MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata: &meta
  name: train
  labels: {app: "ddp", tier: 'gpu'}
spec:
  parallelism: 2
  template:
    metadata: *meta
    spec:
      containers:
      - name: c
        image: pytorch:2.1 # the course's
        command: ["torchrun", --nproc_per_node=2, "train.py"]
        args: |
          --epochs 3
            --lr 0.1
        env:
        - {name: A, value: "yes"}
        - <<: *meta
          value: >-
            folded
            text
      restartPolicy: Never
---
- 0o14
- 0x1F
- 1e3
- .5
- ~
- on
- 2026-01-02
- 12:30
- "\\u00e4\\x41"
"""
SCALARS = (
    "a", "b c", "''", '""', "'it''s'", '"\\u00e4"', '"\\ud800"', '"\\x00"', '"\\q"', '"', "'", "~", "null", "true", "False", "yes", "NO", "on", "y",
    "0", "-0", "1", "+1", "007", "08", "0o17", "0x1f", "0b101", "1_000", "1.5", ".5", "5.", "1e3", "1e999", "-.inf", ".nan", "1:30", "190:20:30",
    "9" * 18, "9" * 19, "9" * 5000, "2026-01-02", "2026-01-02 03:04:05", "<<", "=", "-", "- a", "a: b", "a:b", "#", "a #b", "@a", "`a`", "%a", "!",
    "!!str 1", "!!int 1", "!!int x", "!!float 1", "!!bool yes", "!!null ''", "!!binary aGk=", "!!set {a}", "!!python/object/apply:os.system [x]",
    "!<tag:yaml.org,2002:str> 1", "!x a", "{{ a }}", "&a 1", "*a", "&a [*a]", "|\n  a\n   b", ">-\n  a\n  b", "|2\n    a", "|9\n a", "? a", "[", "]",
    "{", "}", ",", "[a, b]", "{a: 1, b: 2}", "{a}", "[a: b]", "\t", "\ta", "\u202e", "\x1b[2J", "\ufeff", "\u2028", "字", "\U0001f600",
)  # fmt: skip
DIRECTIVES = (
    "---",
    "...",
    "%YAML 1.1\n---",
    "%YAML 9.9\n---",
    "%YAML 99999999999999999999.1\n---",
    "%TAG ! tag:x,2000:\n---",
    "# x",
    "",
)


def yaml_of(dice: Dice) -> bytes:
    kind = dice.randrange(5)
    if kind == 0:
        return dice.bent(MANIFEST.encode())
    if kind == 1:
        return dice.bent(written(dice.json(4)), 2)
    if kind == 2:
        return dice.noise(100)
    lines = [line for _ in range(1 + dice.size) for line in lines_of(dice, 0)]
    return dice.bent("\n".join(lines).encode("utf-8", "replace"), 1)


def lines_of(dice: Dice, indent: int) -> list[str]:
    """A few lines that are mostly a block in another."""
    kind = dice.randrange(10)
    blanks = " " * indent
    if kind == 0:
        return [dice.choice(DIRECTIVES)]
    if kind == 1:
        # Aliases of aliases: each ten times the one before.
        name = dice.choice("abc")
        return [f"{blanks}- &{name} [{', '.join(['*' + dice.choice('abc')] * 10)}]"]
    if kind == 2:
        depth = dice.choice([2, 30, 40, 300])
        return [f"{blanks}- {dice.choice(['[', '{a: ', '- ', '? ', '! ', '&a ']) * depth}"]
    key = dice.choice(["a", "b", "<<", "a", "? a", "&k c", "*a", "''", '"\\u0061"', dice.choice(SCALARS)])
    if kind < 6 and indent < 8:
        inner = [line for _ in dice.few(3) for line in lines_of(dice, indent + dice.choice([1, 2, 2, 2, 0]))]
        return [f"{blanks}{dice.choice([key + ':', '-', '- ' + key + ':', key + ': &a'])}", *inner]
    value = dice.choice(SCALARS)
    return [f"{blanks}{dice.choice(['- ', key + ': ', key + ': ', key + ': &a ', ''])}{value}"]


@given(thrown(yaml_of))
def test_any_yaml_is_read_as_pyyaml_reads_it_or_refused(data: bytes) -> None:
    documents = held(lambda: read_yaml(data), YamlError)
    if documents is None:
        return
    for document in documents:
        presentable(*document.traps)
        assert size(document.value) <= NODES
        json.dumps(document.value, allow_nan=False).encode("ascii")
        for place, line in document.lines.items():
            assert (
                1 <= line <= data.count(b"\n") + data.count(b"\r") + 3
                or b"\xc2\x85" in data
                or b"\xe2\x80" in data
            )
            assert document.line((*place, "deeper")) == line
    theirs = read_by_pyyaml(data)
    if theirs is not None:
        assert len(theirs) == len(documents)
        for document, value in zip(documents, theirs, strict=True):
            assert agree(document.value, value), (document.value, value)


def read_by_pyyaml(data: bytes) -> list[object] | None:
    """The documents that hold something; None for what PyYAML does not take."""
    text = data.decode("utf-8-sig")
    if re.search(r"!(?![\w!<])", text):
        # `!` alone makes a text of what follows to YAML 1.2 and to Kubernetes, and nothing to PyYAML.
        return None
    try:
        values = list(yaml.load_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError, LookupError):
        return None
    return [value for value in values if value is not None]


def agree(ours: Json, theirs: object) -> bool:
    """Whether the structure is the same, and so is every scalar that all versions of YAML read alike."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        # Their keys are numbers and dates, too, of which two may be one: 1 and 1.0, `on` and true.
        same = len(ours) >= len(theirs)
        return same and all(agree(ours[key], value) for key, value in theirs.items() if isinstance(key, str))
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    if isinstance(ours, str) and isinstance(theirs, str):
        return ours == theirs
    if isinstance(theirs, datetime.date):
        return isinstance(ours, str)
    if isinstance(ours, bool) or isinstance(theirs, bool) or ours is None or theirs is None:
        # `y` and `n` are text to PyYAML.
        return ours == theirs or (
            isinstance(ours, bool) and isinstance(theirs, str) and theirs.lower() in ("y", "n")
        )
    if isinstance(theirs, str):
        # 1e3 and 0o17 are text to YAML 1.1.
        return isinstance(ours, int | float)
    if isinstance(theirs, int | float):
        # To base 60, with underscores, with more digits than a machine has, and infinity.
        return (
            isinstance(ours, str)
            or ours == theirs
            or (isinstance(ours, float) and math.isclose(ours, theirs))
        )
    return False


def size(value: Json) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + size(item) for item in value.values())
    return 1 + sum(map(size, value)) if isinstance(value, list) else 1
