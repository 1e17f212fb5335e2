"""A stand-in for `jupyter nbconvert --to script` and `jupytext --to py`: makes a program of a notebook.

Who hands in a notebook may start it from a shell script, and then that script first makes a Python file of it. Jupyter
itself is not installed where code is graded. What comes out is the file that the sandbox reads a notebook as
(lockstep/sandbox/cells.py), so that its magics do there what they do here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from lockstep.cellheader import header

_ASKED = "jupyter nbconvert --to script NAME.ipynb"
# What the tools call a plain Python file.
_PYTHON = ("script", "python", "py", "py:light", "py:percent", "auto:percent", "auto")


def main(words: Sequence[str]) -> int:
    """Do what the command line says; its exit status, 0 where all notebooks were converted.

    `words` begin with the program: `jupyter nbconvert`, `jupyter-nbconvert` or `jupytext`. Options that change
    nothing about the code are passed over.
    """
    program, *rest = words
    if os.path.basename(program) == "jupyter" and rest:
        program = f"jupyter-{rest.pop(0)}"
    tool = os.path.basename(program).removeprefix("jupyter-")
    parser = argparse.ArgumentParser(prog=tool, add_help=False, allow_abbrev=False)
    parser.add_argument("--to", default="html" if tool == "nbconvert" else "py")
    parser.add_argument("--output", "-o")
    parser.add_argument("--output-dir", default="")
    parser.add_argument("--stdout", action="store_true")
    options, others = parser.parse_known_args(rest)
    # Any other word may be what another option takes.
    paths = [path for word in others for path in (word, f"{word}.ipynb") if path.endswith(".ipynb")]
    notebooks = [path for path in paths if os.path.isfile(path)]
    if tool not in ("nbconvert", "jupytext") or options.to not in _PYTHON or not notebooks:
        print(f"{' '.join(words)}: nothing done; here only `{_ASKED}` works", file=sys.stderr)
        return 1
    for path in notebooks:
        name = (options.output or os.path.basename(path).removesuffix(".ipynb")).removesuffix(".py") + ".py"
        folder = os.path.dirname(path) if not options.output or tool == "nbconvert" else ""
        target = os.path.join(options.output_dir or folder, name)
        try:
            _convert(path, None if options.stdout or options.output == "-" else target)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            # A stack would be one of lockstep's own.
            print(
                f"[{tool}] {path} cannot be made {target}: {type(error).__name__}: {error}", file=sys.stderr
            )
            return 1
        print(f"[{tool}] Converting {path} to {target}", file=sys.stderr)
    return 0


def _convert(path: str, target: str | None) -> None:
    """Write the program that a notebook becomes; print it where there is no target."""
    with open(path, encoding="utf-8") as file:
        source = _source(json.load(file))
    if target is None:
        print(source)
        return
    with open(target, "w", encoding="utf-8") as file:
        file.write(source)


def _source(notebook: dict[str, list[dict[str, str]]]) -> str:
    """The cells of a notebook that lockstep wrote, as one file."""
    lines: list[str] = []
    for number, cell in enumerate(notebook["cells"], 1):
        text = cell["source"].split("\n")
        if number == 1:
            # Python wants them above everything else.
            while text and text[0].startswith("from __future__ "):
                lines.append(text.pop(0))
        lines += [header(number, len(text), is_parameters="tags" in cell["metadata"]), *text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
