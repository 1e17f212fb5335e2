"""What the shell of a notebook gives its code: the names of another file, lines that a command prints, a timing.

Nothing here talks to a front end. Commands are run only where they do no more than look around, as `!nproc` does;
any other prints nothing.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import statistics
import subprocess
import sys
import timeit
from types import FrameType
from typing import Any

# Commands that are over at once and change nothing, with what joins them.
_LOOKS = frozenset(
    "cat date df echo free head hostname ls lscpu nproc nvidia-smi pwd sort tail uname wc which".split()
)
_JOINED = re.compile(r"\|\|?|&&|;")
_FOR_A_SHELL = re.compile(r"[<>`$&{}]")
_LOOK_SECONDS = 10


class Lines(list[str]):
    """The lines that a command printed, as IPython's SList; one that is not there is empty."""

    @property
    def n(self) -> str:
        """As one text of lines."""
        return "\n".join(self)

    @property
    def s(self) -> str:
        """As one text of words."""
        return " ".join(self)

    @property
    def l(self) -> list[str]:  # noqa: E743
        """As a list."""
        return self

    def of(self, count: int) -> list[str]:
        """As many as `a, b = !command` has names for."""
        return [*self[:count], *[""] * (count - len(self))]

    def __getitem__(self, index: Any) -> Any:
        try:
            return list.__getitem__(self, index)
        except IndexError:
            return ""


class Captured:
    """What `%%capture out` keeps: nothing, as the cell's output was printed."""

    stdout = stderr = ""
    outputs = ()

    def __call__(self) -> None:
        """Show it."""

    show = __call__


class Timing:
    """The result of `%timeit -o`: seconds for one call, of each of the `repeat` runs."""

    def __init__(self, seconds: list[float], loops: int) -> None:
        self.all_runs = seconds
        self.loops, self.repeat = loops, len(seconds)
        self.timings = [one / loops for one in seconds]
        self.best, self.worst = min(self.timings), max(self.timings)
        self.average, self.stdev = statistics.fmean(self.timings), statistics.pstdev(self.timings)
        self.compile_time = 0.0


def printed(command: str) -> Lines:
    """What `!command` prints."""
    words = [part.split()[:1] for part in _JOINED.split(command)]
    if _FOR_A_SHELL.search(_JOINED.sub("", command)) or any(
        not word or word[0] not in _LOOKS for word in words
    ):
        return Lines()
    try:
        done = subprocess.run(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=_LOOK_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return Lines()
    return Lines(done.stdout.splitlines())


def timed(line: str, frame: FrameType) -> Timing | None:
    """Do what `%timeit line` does in a frame; give its result where that was asked for by `-o`."""
    options: dict[str, str] = {}
    # The first word that is no option begins the statement.
    while found := re.match(r"\s*-(?:([nrp]) *(\d+)|([oqct]+)(?=\s))", line):
        options |= {found[1]: found[2]} if found[1] else dict.fromkeys(found[3] or "", "")
        line = line[found.end() :]
    # 0 leaves it to IPython how often.
    loops, repeat = int(options.get("n", 0)) or 1, int(options.get("r", 7))
    timer = timeit.Timer(line.strip(), globals={**frame.f_globals, **frame.f_locals})
    timing = Timing(timer.repeat(repeat, loops), loops)
    return timing if "o" in options else None


def run_file(line: str, frame: FrameType) -> None:
    """Do what `%run line` does for the module of a frame: all names that the other file defines are then its own.

    A notebook that is only imported takes no more than the definitions.
    """
    from lockstep.sandbox import cells, loading, reading  # which have to have a shell first

    words = shlex.split(line)
    while len(words) > 1 and words[0].startswith("-"):
        words.pop(0)
    name = os.path.basename(words[0])
    namespace = frame.f_globals
    path = _found(words[0], os.path.dirname(os.path.abspath(frame.f_code.co_filename)))
    if path is None:
        # Told, and held against what needs it, as any import that finds nothing.
        module = re.sub(r"\W", "_", name.partition(".")[0])
        importing = ast.parse(f"from {module} import *")
        for node in ast.walk(importing):
            if isinstance(node, ast.stmt):
                node.lineno = node.end_lineno = frame.f_lineno
        exec(compile(importing, frame.f_code.co_filename, "exec", dont_inherit=True), namespace)
        return
    if "-i" in shlex.split(line)[:-1] or cells.read_cells(reading.read_source(path)) is not None:
        # What a notebook defines finds the names of the one that runs it.
        loading.run_into(path, namespace)
        return
    if namespace.get("__name__") != "__main__":
        defined = loading.load(f"__run_{name.partition('.')[0]}__", path).module
    else:
        main, argv = sys.modules["__main__"], sys.argv
        sys.argv = words
        try:
            loading.run_as_main(path)
        except SystemExit as stop:
            # What ends with `sys.exit(main())` has defined its names all the same.
            if stop.code:
                raise
        finally:
            defined = sys.modules["__main__"]
            sys.modules["__main__"], sys.argv = main, argv
    namespace.update({name: value for name, value in vars(defined).items() if not name.startswith("__")})


def _found(name: str, folder: str) -> str | None:
    """The file that a notebook in `folder` calls so: beside it, or wherever below; a notebook lies there as Python."""
    stem = name[: -len(".ipynb")] if name.endswith(".ipynb") else name.removesuffix(".py")
    paths = [os.path.join(base, f"{stem.removeprefix('/')}.py") for base in ("", folder)]
    file = f"{os.path.basename(stem)}.py"
    paths += [os.path.join(above, file) for above, _, files in os.walk(folder) if file in files]
    return next((path for path in map(os.path.abspath, paths) if os.path.isfile(path)), None)
