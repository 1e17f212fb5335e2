"""Folders that make a service grade with lockstep: an autograder for Gradescope, a workflow for GitHub Classroom.

Gradescope, "Autograder Specifications": a ZIP with `setup.sh` and `run_autograder` at its top is unpacked to
/autograder/source. GitHub Docs, "Use autograding" and "Workflow syntax for GitHub Actions".
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import lockstep
from lockstep.wholefile import write_whole

TEMPLATES = Path(__file__).parent / "templates"
WORKFLOW = Path(".github", "workflows", "classroom.yml")
_CHECKOUT = Path(lockstep.__file__).resolve().parent.parent
_NEEDED = ("pyproject.toml", "README.md", "scripts/setup.sh")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "*.egg-info")


class ServiceError(Exception):
    """The folder cannot be made; the message is a sentence."""


def write_autograder(folder: Path, graders: Path, exercises: Sequence[str] = ()) -> None:
    """Make the autograder's folder, or make it anew; what it needs of this checkout is copied into it.

    Raises ServiceError, and OSError where it cannot be written.
    """
    if folder.exists() and not (folder / "run_autograder").is_file() and any(folder.iterdir()):
        raise ServiceError(f"{folder} holds other files; give the name of a folder that is not there yet.")
    missing = [name for name in _NEEDED if not (_CHECKOUT / name).is_file()]
    if missing:
        raise ServiceError(
            f"{_CHECKOUT} has no {', '.join(missing)}: an autograder can be made from a checkout of lockstep only."
        )
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.absolute().parent, prefix=f".{folder.name}.") as scratch:
        made = Path(scratch, "made")
        for source, name in _parts(graders.resolve()):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, made / name, ignore=_LEFT_OUT)
            else:
                shutil.copy(source, made / name)
        for name in ("setup.sh", "run_autograder"):
            (made / name).write_text(_filled(name, exercises), encoding="utf-8")
            (made / name).chmod(0o755)
        if folder.exists():
            folder.rename(Path(scratch, "old"))
        made.rename(folder)


def write_workflow(folder: Path, exercises: Sequence[str] = ()) -> Path:
    """Write the workflow into a template repository's folder and return its path. Raises OSError."""
    path = folder / WORKFLOW
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _filled("classroom.yml", exercises).encode("utf-8"))
    return path


def _parts(graders: Path) -> Iterator[tuple[Path, str]]:
    yield from ((_CHECKOUT / name, name) for name in (*_NEEDED, "lockstep"))
    yield graders, "graders"
    # Beside the graders lies what they draw data with and compare to; sample submissions are nothing of either.
    for path in sorted(graders.parent.glob("fixtures/*.py")):
        yield path, f"fixtures/{path.name}"
    if (graders.parent / "reference").is_dir():
        yield graders.parent / "reference", "reference"


def _filled(name: str, exercises: Sequence[str]) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").replace("@EXERCISES@", ",".join(exercises))
