"""Programs that a script calls by where the student's own cluster has them, as /opt/conda/bin/torchrun."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

_MAX_TEXT, _MAX_CALLED, _MAX_PATHS, _MAX_PATH = 1 << 16, 200, 100, 500
# Variables may have several values, each of which may hold others: so many, so many paths of them, so deep.
_MAX_VALUES, _MAX_EXPANDED, _MAX_ROUNDS = 8, 32, 8
# Beside what begins with #!. The others are sourced.
_ENDINGS = (".sh", ".bash", ".env", ".conf")
_ASSIGNED = re.compile(r"(?:^|(?<=[\s;&|({]))(\w+)=(?:\(\s*)?([^\s;&|()`]{1,200})", re.MULTILINE)
# A default is a part of a path, as ${CONDA:-/opt/conda}/bin/python, or holds one, as ${PYTHON:-/opt/conda/bin/python}.
_PATH = re.compile(
    r"(?:(?<![\w~${}./+-])|(?<=:-))(?![+-])"
    r"(?:\$\{\w+:[-=][\w~$./+-]{0,100}\}|[~$\w{}./+-]){0,200}/[\w.+-]+"
)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?[-=]([^{}]*))?\}|(\w+))")


@functools.cache  # of one run: there may be thousands of files
def functions(folder: str, known: frozenset[str]) -> str:
    """Functions of bash, one for each such path in the shell scripts below `folder` whose program is among `known`.

    Bash looks among its functions first, for names with a slash as well: each calls the program by its name alone,
    whether or not the path leads to something here.
    """
    texts = [_unquoted(text) for text in _scripts(folder).values()]
    variables = _assigned(texts, folder)
    called = {
        match[0] for text in texts for match in _PATH.finditer(text) if os.path.basename(match[0]) in known
    }
    paths = {path for each in sorted(called)[:_MAX_CALLED] for path in _paths(each, variables, known)}
    # From the folder of the submission, or from the script's own; what was handed in there is a program by itself.
    bases = (folder, os.path.join(folder, "launch"))
    own = {path for path in paths if any(_is_own(os.path.join(base, path), folder) for base in bases)}
    # The script may have a function of the program's own name, which calls it by its path.
    return "".join(
        f'function {path} {{ command {os.path.basename(path)} "$@"; }}\n'
        for path in sorted(paths - own)[:_MAX_PATHS]
    )


@functools.cache  # of one run
def call_through_env(folder: str, known: frozenset[str]) -> None:
    """Have the run's scripts below `folder` say `exec env PATH` and `command env PATH`: both pass functions by.

    The stand-in for env finds what such a path leads to. `exec > log` and the like stay as they are, and so does what
    starts a file of the student's own.
    """
    scripts = _scripts(folder)
    program = f"(?:{'|'.join(map(re.escape, sorted(known)))})"
    names = [
        name
        for name, values in _assigned(map(_unquoted, scripts.values()), folder).items()
        if any(re.search(rf"/{program}\}}?$", value) for value in values)
    ]
    variable = rf"\$\{{?(?:{'|'.join(names) or '(?!)'})(?:\[[@*0]\])?\}}?"
    passes_by = re.compile(
        # Where a command begins, and not one that goes on from the line above.
        r"""((?:(?<!\\\n)^|[;&|({'"!]|\b(?:then|do|else)\b)[ \t]*"""
        r"""(?:\w+=[^\s;&|()`]*[ \t]+){0,20}(?:exec|command)[ \t]+)"""
        rf"""(?=["']?(?:{variable}|[~/$.\w][^\s;&|]{{0,500}}/{program}\}}?)["']?(?:\s|$))""",
        re.MULTILINE,
    )
    for path, text in scripts.items():
        changed = passes_by.sub(r"\1env ", text)
        if changed != text and not re.match(r"#!.*python", text):
            with (
                contextlib.suppress(OSError),
                open(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "wb") as file,
            ):
                file.write(changed.encode("utf-8", "surrogateescape"))


@functools.cache  # of one run
def _scripts(folder: str) -> Mapping[str, str]:
    """The text of each by its path."""
    scripts = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            text = b""
            with contextlib.suppress(OSError):
                if os.path.isfile(path) and os.path.getsize(path) <= _MAX_TEXT:
                    with open(path, "rb") as file:
                        text = file.read(_MAX_TEXT)
            if text.startswith(b"#!") or name.endswith(_ENDINGS):
                scripts[path] = text.decode("utf-8", "surrogateescape")
    return scripts


def _unquoted(text: str) -> str:
    """A script in which a path, or a part of it, is in no quotes."""
    return text.replace('"', "").replace("'", "")


def _is_own(path: str, folder: str) -> bool:
    """Whether a path leads to a program of the submission; one of an environment there is of another machine."""
    around = os.path.dirname(os.path.dirname(path))
    is_there = os.path.exists(path) and os.path.normpath(path).startswith(folder + os.sep)
    return is_there and not os.path.exists(os.path.join(around, "pyvenv.cfg"))


def _assigned(texts: Iterable[str], folder: str) -> Mapping[str, Sequence[str]]:
    """The values that each variable gets, in whichever script: one may source another.

    What a command says may be the folder of the script, or the one above it.
    """
    places = [folder, os.path.join(folder, "launch")]
    variables = {"HOME": [os.environ.get("HOME", "/")], "PWD": [*places]}
    for text in texts:
        for match in _ASSIGNED.finditer(text):
            values = variables.setdefault(match[1], [])
            for value in places if match[2] == "$" else [match[2]]:
                if value not in values and len(values) < _MAX_VALUES:
                    values.append(value)
    return variables


def _paths(called: str, variables: Mapping[str, Sequence[str]], known: frozenset[str]) -> Iterator[str]:
    for path in _expanded(called, variables):
        if re.fullmatch(r"(?![+-])[\w./+-]*/[\w.+-]+", path, re.ASCII) and os.path.basename(path) in known:
            yield path


def _expanded(path: str, variables: Mapping[str, Sequence[str]]) -> set[str]:
    """A path with its variables, and those that stand in them, put in; what nobody has set stays as it is."""
    paths = {path}
    for _ in range(_MAX_ROUNDS):
        paths = {each for path in paths for each in _with_first(path, variables)}
        paths = set(sorted(paths)[:_MAX_EXPANDED])
    return {re.sub("^~(?=/)", lambda _: variables["HOME"][0], path) for path in paths}


def _with_first(path: str, variables: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A path with each value of its first variable that has some."""
    for found in _VARIABLE.finditer(path):
        values = [*variables.get(found[1] or found[3], ()), *([found[2]] if found[2] is not None else [])]
        if values:
            yield from (
                f"{path[: found.start()]}{value}{path[found.end() :]}"[:_MAX_PATH] for value in values
            )
            return
    yield path
