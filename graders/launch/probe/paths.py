"""Programs that a script calls by where the student's own cluster has them, as /opt/conda/bin/torchrun."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Mapping

_MAX_TEXT, _MAX_PATHS, _MAX_PATH = 1 << 16, 100, 1000
_ASSIGNED = re.compile(r"^[ \t]*(?:(?:export|readonly)[ \t]+)?(\w+)=([^\s;&|()`]{1,200})", re.MULTILINE)
_PATH = re.compile(r"(?<![\w~${}./+-])[~$\w{}./+-]{0,500}/[\w.+-]+")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@functools.cache  # of one run: there may be thousands of files
def functions(folder: str, known: frozenset[str]) -> str:
    """Functions of bash, one for each such path in the shell scripts below `folder` whose program is among `known`.

    Bash looks among its functions first, for names with a slash as well: each calls the program by its name alone,
    whether or not the path leads to something here.
    """
    paths = {path for text in _scripts(folder) for path in _paths(text, known)}
    return "".join(
        f'function {path} {{ {os.path.basename(path)} "$@"; }}\n' for path in sorted(paths)[:_MAX_PATHS]
    )


def _scripts(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            text = b""
            with contextlib.suppress(OSError):
                if os.path.isfile(path) and os.path.getsize(path) <= _MAX_TEXT:
                    with open(path, "rb") as file:
                        text = file.read(_MAX_TEXT)
            if text.startswith(b"#!") or name.endswith(".sh"):
                # A path may be quoted, whole or in part.
                yield text.decode("utf-8", "replace").replace('"', "").replace("'", "")


def _paths(text: str, known: frozenset[str]) -> Iterator[str]:
    assigned = {match[1]: match[2] for match in _ASSIGNED.finditer(text)}
    variables = {"HOME": os.environ.get("HOME", "/"), **assigned}
    for match in _PATH.finditer(text):
        path = _expanded(match[0], variables)
        if re.fullmatch(r"/[\w./+-]+", path, re.ASCII) and os.path.basename(path) in known:
            yield path


def _expanded(path: str, variables: Mapping[str, str]) -> str:
    """A path with its variables, and those that stand in them, put in; what nobody has set stays as it is."""
    for _ in range(3):
        path = _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), path)[:_MAX_PATH]
        path = re.sub("^~(?=/)", lambda _: variables["HOME"], path)
    return path
