"""One notebook cell as plain Python: what only IPython understands becomes comments, line by line.

Every line keeps its number. Nothing is parsed: a scanner follows strings, brackets and backslashes just
far enough to know where a statement begins, so that the `%` of a modulo on a line of its own or a `!`
inside a text is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

# Cell magics that run the cell's Python in the notebook itself. All others hand the cell to another
# program or language.
WRAPPERS = frozenset(
    "time timeit capture prun memit mprun wandb snakeviz pyinstrument scalene filprofile".split()
)
_WRITERS = frozenset({"writefile", "file"})
_SHELLS = frozenset({"bash", "sh"})
# How a cell of Databricks that is not Python begins.
_DATABRICKS = re.compile(r"%(?:md|md-sandbox|sh|fs|sql|scala|r)(?:\s|$)")

_FUTURE = re.compile(r"from\s+__future__\s+import\s+[\w,][\w, ]*(?:#.*)?$")
_TIMED = re.compile(r"%time\s+(?!-)(?=\S)")
_ASSIGNED = re.compile(r"([A-Za-z_][\w.]*(?:\[[\w\"']*\])?(?:\s*,\s*[A-Za-z_]\w*)*)\s*=\s*([!%])\s*(.*)")
_HELP = re.compile(r"\?{1,2}\s*[\w.*]+\s*$|%{0,2}[A-Za-z_*][\w.*]*\s*\?{1,2}\s*$")
_INSTALL = re.compile(r"(?:pip3?|conda|mamba|apt|apt-get)\s+(?:install|uninstall|list|show|update)\b")

# IPython takes a first word for a magic where nothing else has that name. Two words in a row are no Python, but for
# those of an operator; `ls -la` and `cd /` are none, `ll -= x` and `ll - x` are.
_AUTOMATIC = re.compile(
    r"(?:(?:ls|ll|cd|cat|cp|mv|rm|mkdir|rmdir) +(?!{0})[\w~$\"'/.-]"
    r"|(?:load_ext|reload_ext|autoreload|matplotlib|env|run|time|timeit) +(?!{0})[\w\"'])".format(
        r"(?:and|else|for|if|in|is|not|or)\b|[-/]{1,2}(?:=| +\w)"
    )
)
# What later lines may need: a folder to write into, a variable to read. Which process this is torchrun says.
_FOLDERS = re.compile(
    r"[!%]mkdir((?: +(?:-p|-v|-pv|--parents|(?:\./)?\w[\w./-]*))+)(?: +2> ?/dev/null)?(?: *\|\| *true)? *;? *(?:#.*)?$"
)
# What brings the names of another file in, unless IPython would first fill a variable in, or take a module's name.
# Where the command goes on in the next line, no Python could stand in its place.
_RUN = re.compile(r"%run +(?!-\w*m)([^\s{$][^{$]*)(?<!\\)$")
# `%%capture out` keeps what its cell prints.
_CAPTURE = re.compile(r"%%capture(?: +--?\w\S*)* +([A-Za-z_]\w*)(?: +--?\w\S*)*\s*$")
_VARIABLE = re.compile(r"%(?:set_)?env +(\w+)(?: *= *| +)([\w./:,@+-]+) *$")
_TORCHRUN = re.compile(r"MASTER_|(?:LOCAL_|GROUP_|NODE_)?RANK$|(?:LOCAL_)?WORLD_SIZE$")

_OUTSIDE = re.compile(r"#|\"\"\"|'''|[\"']|[(\[{]|[)\]}]|\\$")
_INSIDE = {quote: re.compile(r"\\(?:.|$)|" + quote) for quote in ('"', "'", '"""', "'''")}


@dataclass(frozen=True)
class Written:
    """A file that a `%%writefile` cell writes: the name as it stands there, and the lines."""

    name: str
    lines: tuple[str, ...]
    append: bool


@dataclass(frozen=True)
class PlainCell:
    """A cell without IPython: as many `lines` as it had.

    `future` are `from __future__` imports, which belong at the top of a file and are comments here.
    `left_out` says in a few words why the cell is all comment, or all but the folders that a shell's makes, "" when it
    is not; an unfinished one would be an error in Jupyter, too.
    """

    lines: tuple[str, ...]
    future: tuple[str, ...] = ()
    written: Written | None = None
    left_out: str = ""
    is_unfinished: bool = False


def plain_python(lines: Sequence[str]) -> PlainCell:
    """The cell `lines` (without line ends) as Python."""
    lines = _dedented(lines)
    # Colab lets a form's title stand above a cell magic.
    first = next((number for number, line in enumerate(lines) if line.strip() and line[0] != "#"), len(lines))
    if first < len(lines) and (foreign := _DATABRICKS.match(lines[first])):
        return _left_out(lines, f"is a {foreign[0].strip()} cell")
    while first < len(lines) and lines[first].startswith("%%"):
        magic, _, arguments = lines[first][2:].strip().partition(" ")
        if magic.lower() not in WRAPPERS:
            return _foreign(lines, magic, arguments, lines[first + 1 :])
        captured = _CAPTURE.match(lines[first])
        kept = f'{captured[1]} = get_ipython().run_cell_magic("capture", "", "")  ' if captured else ""
        lines[first] = f"{kept}{_comment(lines[first])}"
        first += 1
    return _without_line_magics(lines)


def _foreign(lines: Sequence[str], magic: str, arguments: str, body: Sequence[str]) -> PlainCell:
    if magic.lower() in _WRITERS:
        words = arguments.split()
        names = [word.strip("\"'") for word in words if not word.startswith("-")]
        if len(names) == 1:
            written = Written(names[0], tuple(body), append="-a" in words or "--append" in words)
            return PlainCell(_commented(lines), written=written)
    # Anything but a plain word is not repeated: a message must not carry a cell's text.
    named = f"a %%{magic} cell" if re.fullmatch(r"[A-Za-z_]\w{0,19}", magic) else "a cell of some magic"
    if magic.lower() in _SHELLS:
        return _of_the_shell(lines, body, f"is {named}")
    return _left_out(lines, f"is {named}")


def _of_the_shell(lines: Sequence[str], body: Sequence[str], why: str) -> PlainCell:
    """A cell of bash, of which nothing is left but the folders that it makes, in lines of their own."""
    made = [_done_in_python(f"!{line}") if _FOLDERS.match(f"!{line}") else "" for line in body]
    plain = [
        f"{python}  {_comment(line)}" if python else _comment(line)
        for python, line in zip(made, body, strict=True)
    ]
    is_all = any(made) and all(
        python or not line.strip() or line[0] == "#" for python, line in zip(made, body, strict=True)
    )
    return PlainCell((*_commented(lines[: -len(body) or None]), *plain), left_out="" if is_all else why)


def _left_out(lines: Sequence[str], why: str) -> PlainCell:
    return PlainCell(_commented(lines), left_out=why)


def _commented(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(_comment(line) for line in lines)


def _without_line_magics(lines: Sequence[str]) -> PlainCell:
    position = _Position()
    plain: list[str] = []
    future: list[str] = []
    rest = _Rest.PYTHON
    for line in lines:
        if rest is _Rest.SHELL:
            replaced = _comment(line)
        elif not position.at_statement:
            replaced = line
        elif _FUTURE.match(line):
            future.append(line)
            replaced, rest = _comment(line), _Rest.PYTHON
        else:
            replaced, rest = _statement(line)
        plain.append(replaced)
        if rest is _Rest.SHELL:
            rest = _Rest.SHELL if line.endswith("\\") else _Rest.PYTHON
        else:
            position.feed(replaced)
    if not position.at_statement:
        # Jupyter reports such a cell and goes on; in one file it would swallow all that follow.
        return replace(_left_out(lines, "ends inside a bracket or a string"), is_unfinished=True)
    return PlainCell(tuple(plain), tuple(future))


class _Rest(Enum):
    """What the lines below one are while its statement goes on."""

    PYTHON = auto()
    SHELL = auto()


def _statement(line: str) -> tuple[str, _Rest]:
    """The first line of a statement as Python, and what a continuation of it would be."""
    indent = line[: len(line) - len(line.lstrip())]
    code = line[len(indent) :]
    if _AUTOMATIC.match(code):
        code = f"%{code}"
    if timed := _TIMED.match(code):
        return indent + code[timed.end() :], _Rest.PYTHON
    if assigned := _ASSIGNED.match(code):
        name, sign, command = assigned.groups()
        if sign == "%" and command.startswith("time "):
            return f"{indent}{name} = {command[5:]}", _Rest.PYTHON
        return f"{indent}{name} = {_value(name, sign, command)}  {_comment(sign + command)}", _Rest.SHELL
    if done := _done_in_python(code):
        return f"{indent}{done}  {_comment(code)}", _Rest.PYTHON
    if code.startswith(("%", "!", "?")) or _HELP.match(code) or _INSTALL.match(code):
        return _placeholder(indent, code), _Rest.SHELL
    return line, _Rest.PYTHON


def _done_in_python(code: str) -> str:
    """What `!mkdir -p reports` or `%env DATA=data` does, as Python; empty for any other magic.

    An `import os` would make `os` a local name of the function that this may stand in.
    """
    if made := _FOLDERS.match(code):
        folders = [word for word in made[1].split() if word[0] != "-" and ".." not in word]
        return "; ".join(f'_ = __import__("os").makedirs("{folder}", exist_ok=True)' for folder in folders)
    if (given := _VARIABLE.match(code)) and not _TORCHRUN.match(given[1]):
        return f'__import__("os").environ["{given[1]}"] = "{given[2]}"'
    if run := _RUN.match(code):
        return f"get_ipython().run_line_magic('run', {run[1].strip()!r})"
    return ""


def _value(name: str, sign: str, command: str) -> str:
    """What is assigned: the lines that a shell command prints, as many as there are names, or what a magic gives."""
    if sign == "!":
        count = len(name.split(","))
        return f"get_ipython().getoutput({command!r})" + (f".of({count})" if count > 1 else "")
    magic, _, line = command.partition(" ")
    return f"get_ipython().run_line_magic({magic!r}, {line!r})"


def _dedented(lines: Sequence[str]) -> list[str]:
    """Without the first line's indentation, as IPython does for code pasted out of a function."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return [line.removeprefix(indent) for line in lines]


def _comment(line: str) -> str:
    return f"# {line}" if line.strip() else ""


def _placeholder(indent: str, code: str) -> str:
    # An `if` whose body was one magic still needs a body; at the margin nothing does, and a `pass`
    # there would forbid `from __future__` further down.
    return f"{indent}pass  # {code}" if indent else f"# {code}"


class _Position:
    """Where the next line begins: at a statement, inside brackets or a string, after a backslash."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0
        self._continued = False

    @property
    def at_statement(self) -> bool:
        return not (self._quote or self._depth or self._continued)

    def feed(self, line: str) -> None:
        """Read one line."""
        offset = 0
        self._continued = False
        while offset <= len(line):
            match = (_INSIDE[self._quote] if self._quote else _OUTSIDE).search(line, offset)
            if match is None:
                break
            offset = match.end()
            token = match[0]
            if token == "\\":
                self._continued = True
                break
            if self._quote:
                if token == self._quote:
                    self._quote = ""
            elif token == "#":
                break
            elif token in "([{":
                self._depth += 1
            elif token in ")]}":
                self._depth = max(self._depth - 1, 0)
            else:
                self._quote = token
        if len(self._quote) == 1 and not self._continued:
            # A string that its line does not close is an error of this line, not of the next.
            self._quote = ""
