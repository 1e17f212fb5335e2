"""Takes in what a student hands in: folder, archive, notebook or single file become one tree in memory.

Nothing is unpacked to disk, nothing is executed or unpickled, no link is followed. What is wrong with the
hand-in as a whole is a `SubmissionError`; what is wrong with one file costs that file only and is a note.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from lockstep.archive import UPLOAD_BYTES, list_archive, refuse_bombs
from lockstep.folder import list_folder, read_file
from lockstep.leftovers import TREE_BYTES, TREE_FILES, Skipped, prune, skip_notes, trim
from lockstep.members import (
    NAME_BYTES,
    Kind,
    Member,
    Names,
    SubmissionError,
    check_name,
    composed,
    is_reserved,
    parents_of,
    shown,
    size_text,
    twin_key,
)
from lockstep.notebook import NotebookSource, read_notebook
from lockstep.source import direction_marks, source_problem
from lockstep.text import safe

__all__ = ["Submission", "SubmissionError", "misnamed", "open_submission", "orderly_files", "source_problem"]

ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")
"""Suffixes of archives that are taken."""
FOREIGN_ARCHIVES = (".7z", ".rar", ".tar.bz2", ".tar.xz", ".tbz2", ".txz")
"""Suffixes of archives that cannot be read."""
SOURCES = (".py", ".ipynb")
"""Suffixes of files that may be handed in on their own."""

GRADABLE = frozenset(
    {".py", ".ipynb", ".sh", ".md", ".json", ".yaml", ".yml", ".pbs", ".slurm", ".sbatch", ".lsf"}
)
"""A hand-in with none of these holds no exercise: sources, launch files, reports or answers."""

NAME_LENGTH = 100
"""Characters of a display name; a table and a CSV file stay readable."""

NOTES = 40
"""Remarks that are kept: more are not read, and a notebook could be made to cause thousands."""

# As browsers name what they download again.
_COPY = re.compile(r"(?P<name>(?:.*/)?[^/]*[^/ ]) ?\([0-9]{1,2}\)(?P<suffix>\.[A-Za-z]{1,8})", re.DOTALL)
_UNREAD = "the archive "
_INSTEAD = "Hand in the files themselves, or one .zip of everything"
_ACCEPTED = "Hand in a folder, a .zip, a .tar.gz, a .py or an .ipynb file."


@dataclass(frozen=True)
class Submission:
    """One hand-in as the sandbox will see it. All mappings are read-only.

    `name` is for display: letters, digits, dots, dashes and underscores. `files` maps relative posix paths
    to contents; those in `executable` have their executable bit set. `digest` identifies both. `notes` are
    sentences for a person: what was skipped or read differently. `problems` says for the path of a Python
    source why it cannot be graded, also when it is not in `files`. `notebooks` leads lines of `NAME.py`
    back to the cells of the notebook it was made from.
    """

    name: str
    files: Mapping[str, bytes]
    executable: frozenset[str]
    digest: str
    notes: tuple[str, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    notebooks: Mapping[str, NotebookSource] = field(default_factory=dict)


def open_submission(path: Path) -> Submission:
    """Read what lies at `path`: a folder, .zip, .tar, .tar.gz, .tgz, or a single .py or .ipynb file.

    Raises `SubmissionError` with a sentence for whoever handed it in.
    """
    given = os.path.basename(os.path.abspath(path))
    listed, skipped = _list(path, given)
    files, wrapper = unwrapped(orderly_files(listed))
    kept, too_much = trim(files)
    notes = [f"the submission was read from the folder {shown(wrapper)} inside"] if wrapper else []
    # Beside files that can be graded, the rest of the work may be in it; what is larger could not be handed in packed.
    packed = [file.path for file in files if _is_packed(file.path) and file.size <= UPLOAD_BYTES]
    notes += map(unread_archive, packed)
    notes += skip_notes(item for item in (*skipped, *too_much) if item.path not in packed)
    if not _gradable(file.path for file in kept):
        raise _nothing_gradable(given, files, notes)
    kept, copies = _as_once_called(kept)
    tree = _Tree(notes=[*notes, *copies])
    for item in too_much:
        tree.miss(item)
    for file in kept:
        if not _is_notebook(file.path):
            tree.add(file.path, file.read())
    for file in kept:
        if _is_notebook(file.path):
            tree.add_notebook(file.path, file.read())
    if not _gradable(tree.files):
        # All there was were notebooks that cannot be read: the first one's trouble is the hand-in's.
        raise SubmissionError(next(iter(tree.problems.values())))
    tree.check_sources()
    started = (file.path for file in kept if file.executable and file.path in tree.files)
    executable = frozenset({*tree.scripts, *started})
    return Submission(
        name=display_name(given),
        files=MappingProxyType(tree.files),
        executable=executable,
        digest=_digest(tree.files, executable),
        notes=_first(tree.notes),
        problems=MappingProxyType(tree.problems),
        notebooks=MappingProxyType(tree.notebooks),
    )


def unread_archive(path: str, reason: str = "") -> str:
    """The note on an archive that was handed in beside other files; `reason` is a sentence."""
    can_be_read = path.lower().endswith(ARCHIVES)
    what = "it lies inside the hand-in" if can_be_read else "it is of a kind that cannot be unpacked here"
    return f"{_UNREAD}{shown(path)} was not read: {reason or f'{what}. {_INSTEAD}'}"


def is_unread_archive(note: str) -> bool:
    """Whether `note` was made by `unread_archive`."""
    return note.startswith(_UNREAD)


def _is_packed(path: str) -> bool:
    return path.lower().endswith((*ARCHIVES, *FOREIGN_ARCHIVES))


def _first(notes: Sequence[str]) -> tuple[str, ...]:
    more = len(notes) - NOTES
    return (*notes[:NOTES], f"and {more} more remarks") if more > 0 else tuple(notes)


def display_name(given: str) -> str:
    """`given`, the name of a file or folder, for tables, pages and CSV files, without its suffix.

    Letters of any script stay, so that people find themselves. Everything a spreadsheet, a shell, a path
    or a terminal could take for more than a name becomes an underscore.
    """
    suffix = next((suffix for suffix in (*ARCHIVES, *SOURCES) if given.lower().endswith(suffix)), "")
    plain = unicodedata.normalize("NFC", given[: len(given) - len(suffix)][:NAME_BYTES])
    nameable = (character if _is_nameable(character) else "_" for character in plain)
    # Letters and accents alone, of which twenty on one letter climb over the lines of a table.
    return safe("".join(nameable)).lstrip("-.")[:NAME_LENGTH] or "submission"


def _is_nameable(character: str) -> bool:
    return character in "-._" or unicodedata.category(character)[0] in "LMN"


def _list(path: Path, given: str) -> tuple[list[Member], list[Skipped]]:
    try:
        # Only what was handed in may itself be a link: class folders are often made of them.
        target = Path(os.path.realpath(path))
        status = os.stat(target)
    except FileNotFoundError as error:
        raise SubmissionError(f"There is no file or folder {shown(given)}.") from error
    except (OSError, ValueError) as error:
        raise SubmissionError(
            f"{shown(given)} cannot be opened. Check its name and its permissions."
        ) from error
    if stat.S_ISDIR(status.st_mode):
        return list_folder(target)
    if not stat.S_ISREG(status.st_mode):
        raise SubmissionError(f"{shown(given)} is neither a file nor a folder. {_ACCEPTED}")
    if given.lower().endswith(SOURCES):
        read = partial(read_file, target, status.st_size, given)
        return [Member(composed(given), status.st_size, read)], []
    if not given.lower().endswith(ARCHIVES):
        raise SubmissionError(f"{shown(given)} is not of a type that is graded. {_ACCEPTED}")
    if status.st_size > UPLOAD_BYTES:
        raise SubmissionError(
            f"{shown(given)} has {size_text(status.st_size)}, more than {size_text(UPLOAD_BYTES)}. "
            "Leave data sets, model weights and virtual environments out."
        )
    listed, skipped = prune(list_archive(read_file(target, status.st_size, given), given))
    refuse_bombs(listed, status.st_size, given)
    return listed, skipped


def orderly_files(listed: Sequence[Member]) -> list[Member]:
    """The plain files among `listed`. Raises SubmissionError for odd names, twins, links and devices."""
    files = [member for member in listed if member.kind is not Kind.FOLDER]
    for member in files:
        if member.kind is not Kind.FILE:
            raise SubmissionError(
                f"{shown(member.path)} is {member.kind}; only plain files are taken. "
                "Put the file itself there, or leave it out."
            )
        check_name(member.path)
    names = Names()
    for member in listed:
        if member.kind is Kind.FOLDER:
            names.add_folder(member.path)
        else:
            names.add(member.path)
    return files


def unwrapped(files: Sequence[Member]) -> tuple[list[Member], str]:
    """The files as seen from the innermost folder that holds everything, and that folder's path."""
    wrapper = os.path.commonpath([os.path.dirname(file.path) for file in files]) if files else ""
    if not any(file.path.lower().endswith((*SOURCES, ".md")) for file in files):
        # A folder of nothing but launch files or reports is itself what the exercise asks for.
        wrapper = os.path.dirname(wrapper)
    start = len(wrapper) + 1 if wrapper else 0
    return [replace(file, path=file.path[start:]) for file in files], wrapper


def _as_once_called(files: Sequence[Member]) -> tuple[list[Member], list[str]]:
    """The files, where a browser's copy is the only one under the name that it had: `scaling (1).py` as `scaling.py`.

    Nothing is decided where the file itself is there as well, or more than one copy; there is a note on either.
    """
    copies: dict[str, list[str]] = defaultdict(list)
    taken = {twin_key(folder) for file in files for folder in parents_of(file.path)}
    for file in files:
        match = _COPY.fullmatch(file.path)
        if match is None or match["suffix"].lower() not in GRADABLE:
            taken.add(twin_key(_module(file.path)))
        else:
            copies[_module(match["name"] + match["suffix"])].append(file.path)
    called: dict[str, str] = {}
    notes = []
    for plain, paths in copies.items():
        name = plain if not _is_notebook(paths[0]) else str(PurePosixPath(plain).with_suffix(".ipynb"))
        names = " and ".join(map(shown, paths[:3]))
        if twin_key(plain) in taken:
            notes.append(f"{names} was not read as {shown(name)}, because that is there as well")
        elif len(paths) > 1:
            notes.append(f"{names} were not read as {shown(name)}: keep one of them, under that name")
        elif not is_reserved(PurePosixPath(name).name):
            called[paths[0]] = name
            notes.append(f"{names} was read as {shown(name)}")
    return [replace(file, path=called.get(file.path, file.path)) for file in files], notes


def _module(path: str) -> str:
    """`path`, a notebook's as that of the source it is read as."""
    return str(PurePosixPath(path).with_suffix(".py")) if _is_notebook(path) else path


def misnamed(submission: Submission, name: str) -> str:
    """A sentence on files that may be meant for `name`, which is not there; empty where there are none.

    `name` is a path such as `scaling.py`; `Scaling.py`, `scaling_final.py` and `scaling.py.txt` may be meant for it.
    """
    wanted = PurePosixPath(name)
    stem = wanted.stem.casefold()
    near = []
    for path in submission.files:
        place = PurePosixPath(path)
        called = place.name.casefold()
        is_alike = called.startswith(stem) and not called[len(stem) : len(stem) + 1].isalpha()
        suffixes = (wanted.suffix, ".txt", *(SOURCES if wanted.suffix in SOURCES else ()))
        if place.parent == wanted.parent and is_alike and place.suffix.lower() in suffixes:
            near.append(path)
    if not near:
        return ""
    names, verb = ", ".join(map(shown, sorted(near)[:3])), "was" if len(near) == 1 else "were"
    return f"{names} {verb} not read: rename {'it' if len(near) == 1 else 'one'} if that is what you mean"


def _nothing_gradable(given: str, files: Sequence[Member], notes: Sequence[str]) -> SubmissionError:
    if not files and not notes:
        return SubmissionError(f"{shown(given)} is empty. {_ACCEPTED}")
    inner = next((file.path for file in files if file.path.lower().endswith(ARCHIVES)), None)
    if inner is not None:
        return SubmissionError(f"{shown(given)} holds another archive, {shown(inner)}. Hand in that one.")
    held = ", ".join(shown(file.path) for file in files[:3])
    seen = [f"It holds {held}{' and more' if len(files) > 3 else ''}."] if held else []
    seen += [f"{note[0].upper()}{note[1:]}." for note in notes]
    return SubmissionError(" ".join([f"{shown(given)} holds nothing that can be graded.", *seen, _ACCEPTED]))


def _gradable(paths: Iterable[str]) -> bool:
    return any(PurePosixPath(path).suffix.lower() in GRADABLE for path in paths)


def _is_notebook(path: str) -> bool:
    return path.lower().endswith(".ipynb")


@dataclass
class _Tree:
    """The files while they are gathered, and what there is to say about them; `scripts` came out of notebooks."""

    notes: list[str]
    scripts: set[str] = field(default_factory=set)
    names: Names = field(default_factory=Names)
    files: dict[str, bytes] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    notebooks: dict[str, NotebookSource] = field(default_factory=dict)

    def add(self, path: str, content: bytes) -> None:
        """Take a file as it is. Raises `SubmissionError` when there is no place for it."""
        if len(self.files) == 2 * TREE_FILES:
            raise SubmissionError(f"There was no room for {shown(path)} after {len(self.files)} files.")
        self.names.add(path)
        self.files[path] = content

    def miss(self, item: Skipped) -> None:
        """Remember why a source is not there."""
        path = PurePosixPath(item.path)
        if path.suffix.lower() in SOURCES:
            self.problems[str(path.with_suffix(".py"))] = (
                f"{shown(item.path)} was not read: it is {item.reason}."
            )

    def add_notebook(self, path: str, data: bytes) -> None:
        """Take `NAME.ipynb` as `NAME.py`, unless that is there already, and the files its cells write."""
        module = str(PurePosixPath(path).with_suffix(".py"))
        if twin := self.names.twin(module):
            self.notes.append(f"{shown(path)} was not read, because {shown(twin)} is there as well")
            return
        try:
            source = read_notebook(data, path)
            written = {str(PurePosixPath(module).parent / name): text for name, text in source.files.items()}
            if module in written:
                self.notes.append(
                    f"{shown(module)} is what a cell of {shown(path)} writes, not its other cells"
                )
            else:
                self.add(module, source.text.encode("utf-8"))
                self.notebooks[module] = source
                self.notes.append(f"{shown(path)} was read as {shown(module)}")
        except SubmissionError as error:
            self.problems[module] = str(error)
            self.notes.append(str(error))
            return
        self.notes += source.notes
        for name, content in written.items():
            try:
                self.add(name, content)
                # Nobody could have handed in that `!chmod +x` had been there.
                if name.lower().endswith(".sh"):
                    self.scripts.add(name)
            except SubmissionError as error:
                self.notes.append(
                    f"{shown(name)}, which a cell of {shown(path)} writes, was left out: {error}"
                )

    def check_sources(self) -> None:
        """Look for sources that Python cannot read, or that read otherwise than they run."""
        if sum(map(len, self.files.values())) > 2 * TREE_BYTES:
            raise SubmissionError("The notebooks hold too much code. Hand in those that were asked for.")
        for path, content in self.files.items():
            if not path.endswith(".py"):
                continue
            if problem := source_problem(path, content):
                self.problems[path] = problem
                self.notes.append(problem)
            elif lines := direction_marks(content):
                notebook = self.notebooks.get(path)
                place = notebook.place(lines[0]) if notebook else f"line {lines[0]}"
                self.notes.append(
                    f"{shown(path)} holds bidirectional control characters in {place}: "
                    "it may read otherwise than it runs"
                )


def _digest(files: Mapping[str, bytes], executable: frozenset[str]) -> str:
    """SHA-256 over path, mode bit and content of every file, in order of the paths.

    Lengths go in front, or a byte could move from one file's end to the next one's name unnoticed.
    """
    total = hashlib.sha256()
    for path in sorted(files):
        name = path.encode("utf-8")
        total.update(f"{len(name)} {int(path in executable)} {len(files[path])}\n".encode())
        total.update(name)
        total.update(files[path])
    return total.hexdigest()
