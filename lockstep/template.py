"""Cuts `student_template/` out of `reference/`, so that the two cannot drift apart.

Run it as `python -m lockstep.template` whenever the reference has changed.

What the student writes stands between two markers in the reference:

    # >>> solution: one sentence that says what belongs here
    ...
    # <<<

In Markdown the markers are comments: `<!-- >>> solution: ... -->` and `<!-- <<< -->`.

In the template the sentence stays as a TODO, and what raises or exits takes the place of the solution. A file
without markers is given to the student as it is, unless it lies in `reports/`: measurements are the student's own
to make. The template's own files, its README, are left alone.
"""

import argparse
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MEASURED = "reports"
"""The folder of what the reference measured."""

_BEGIN = re.compile(r"(?P<indent>\s*)(?P<open>#|<!--) >>> solution: (?P<sentence>\S.*?)(?P<close> -->)?")
_END = re.compile(r"\s*(?:# <<<|<!-- <<< -->)")
# A template must not run by accident: what is not written yet says so.
_INSTEAD = {
    ".py": 'raise NotImplementedError("{name} is not written yet")',
    **dict.fromkeys((".sh", ".slurm", ".pbs", ".lsf"), 'echo "{name} is not written yet" >&2; exit 1'),
}


def cut(text: str, name: str) -> str:
    """Replace every solution in the file `name` with its sentence and a line that stops whoever runs it.

    Raises `ValueError` with the line when markers do not pair up.
    """
    instead = _INSTEAD.get(Path(name).suffix, "")
    lines: list[str] = []
    began_at = 0
    for number, line in enumerate(text.splitlines(), start=1):
        begin = _BEGIN.fullmatch(line)
        if begin and began_at:
            raise ValueError(f"{name}:{number}: a solution begins inside the one of line {began_at}")
        if begin:
            began_at = number
            lines.append(f"{begin['indent']}{begin['open']} TODO: {begin['sentence']}{begin['close'] or ''}")
            if instead:
                lines.append(begin["indent"] + instead.format(name=name))
        elif _END.fullmatch(line):
            if not began_at:
                raise ValueError(f"{name}:{number}: a solution ends that never began")
            began_at = 0
        elif not began_at:
            lines.append(line)
    if began_at:
        raise ValueError(f"{name}:{began_at}: this solution never ends")
    return "\n".join(lines) + "\n"


def solution_lines(text: str) -> list[range]:
    """The numbers of the lines between the markers of a file that `cut` can cut, one range for each solution."""
    began, found = 0, []
    for number, line in enumerate(text.splitlines(), start=1):
        if _BEGIN.fullmatch(line):
            began = number
        elif _END.fullmatch(line):
            found.append(range(began + 1, number))
    return found


def is_given(path: Path) -> bool:
    """Whether a file of the reference holds no solution, so that the student gets it as it is."""
    if not path.is_file() or path.parent.name == MEASURED:
        return False
    return not any(_BEGIN.fullmatch(line) for line in path.read_text().splitlines())


def write_template(reference: Path, template: Path) -> list[str]:
    """Write the template of every file in `reference` and return their names relative to it."""
    names = []
    for source in sorted(reference.rglob("*")):
        name = source.relative_to(reference).as_posix()
        if not source.is_file() or "__pycache__" in source.parts or name.startswith(f"{MEASURED}/"):
            continue
        target = template / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text() if is_given(source) else cut(source.read_text(), source.name))
        shutil.copymode(source, target)
        names.append(name)
    return names


def main() -> None:
    """Write `student_template/` anew."""
    parser = argparse.ArgumentParser(prog="python -m lockstep.template", description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, default=ROOT / "reference")
    parser.add_argument("--template", type=Path, default=ROOT / "student_template")
    args = parser.parse_args()
    for name in write_template(args.reference, args.template):
        print(args.template / name)


if __name__ == "__main__":
    main()
