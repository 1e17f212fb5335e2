"""One file of a submission before it is read: what it may be called, what it may be, how to say so.

Folders and archives of every kind are listed as `Member`s first, so that one set of rules holds for all of
them and nothing is read, let alone unpacked, that is not wanted.
"""

from __future__ import annotations

import re
import stat
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from lockstep.text import safe_line

NAME_BYTES = 255
"""The longest file name that ext4, APFS, NTFS and the sandbox's tmpfs can hold."""

PATH_BYTES = 1000
"""Far below the 4096 of Linux: the sandbox's own prefix still fits, and so does a Windows reviewer's."""

PATH_DEPTH = 16
"""Real submissions are three or four folders deep; deeper ones come from generators and accidents."""

# Names that open a device on Windows, whatever their suffix: a reviewer who unpacks there gets no file.
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(?:\.|$)", re.IGNORECASE
)
_DRIVE = re.compile(r"[A-Za-z]:")


class SubmissionError(Exception):
    """A hand-in that cannot be taken: one sentence or two for whoever handed it in, never a host path."""


class Kind(StrEnum):
    """What a member is; the values complete the sentence "... is"."""

    FILE = "a file"
    FOLDER = "a folder"
    SYMLINK = "a symbolic link"
    HARD_LINK = "a hard link"
    PIPE = "a named pipe"
    DEVICE = "a device"
    SOCKET = "a socket"
    SPARSE = "a sparse file"
    OTHER = "neither a file nor a folder"


MODE_KINDS = {
    stat.S_IFREG: Kind.FILE,
    stat.S_IFDIR: Kind.FOLDER,
    stat.S_IFLNK: Kind.SYMLINK,
    stat.S_IFIFO: Kind.PIPE,
    stat.S_IFCHR: Kind.DEVICE,
    stat.S_IFBLK: Kind.DEVICE,
    stat.S_IFSOCK: Kind.SOCKET,
}
"""By the file type in a mode, as `stat.S_IFMT` gives it."""


@dataclass(frozen=True)
class Member:
    """An entry of a folder or an archive. `path` is relative, with forward slashes, in NFC.

    `size` is what the entry claims, in bytes; `read` returns the content and raises `SubmissionError`
    when it cannot be had or the claim was a lie. It never holds more than `size` bytes in memory.
    """

    path: str
    size: int
    read: Callable[[], bytes]
    kind: Kind = Kind.FILE
    executable: bool = False


def shown(name: str) -> str:
    """`name` as a message shows it: on one line, harmless, not too long, in backticks."""
    return f"`{safe_line(name, 120).replace('`', chr(39)) or 'a name without visible characters'}`"


def size_text(size: int) -> str:
    """A number of bytes for a person: `3.2 MiB`, `17 KiB`, `90 bytes`."""
    if size >= 1 << 20:
        return f"{size / (1 << 20):.1f} MiB".replace(".0 ", " ")
    return f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} bytes"


def relative_path(raw: str) -> str:
    """The path inside the submission that an archive's name `raw` stands for; "" for its root.

    Windows tools write backslashes; macOS writes umlauts in two characters (NFD), where Python programs
    and import statements mean one (NFC). Raises `SubmissionError` for a name that leads elsewhere.
    """
    path = raw.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or _DRIVE.match(path) or ".." in parts:
        raise SubmissionError(
            f"The archive holds {shown(raw)}, a name that leads out of the submission. "
            "Pack your folder again with the zip function of your file manager."
        )
    return composed("/".join(parts))


def composed(path: str) -> str:
    """`path` in NFC. Raises `SubmissionError` for one that is too long."""
    # Length first: putting many stacked accents in their canonical order takes quadratic time.
    if len(path.encode("utf-8", "surrogatepass")) > PATH_BYTES:
        raise SubmissionError(f"The path {shown(path)} is longer than {PATH_BYTES} bytes. Shorten it.")
    return unicodedata.normalize("NFC", path)


def check_name(path: str) -> None:
    """Raise `SubmissionError` unless every part of `path` is a name that all systems can hold and show.

    Spaces, umlauts and leading dashes are welcome: a name never reaches a shell.
    """
    parts = path.split("/")
    if len(parts) > PATH_DEPTH:
        raise SubmissionError(f"{shown(path)} lies more than {PATH_DEPTH} folders deep. Move it up.")
    for part in parts:
        categories = {unicodedata.category(character) for character in part}
        if "Cs" in categories:
            raise SubmissionError(f"The name {shown(path)} is not valid UTF-8. Rename the file.")
        if categories & {"Cc", "Cf", "Zl", "Zp"} or "\\" in part or _DRIVE.match(path):
            raise SubmissionError(
                f"The name {shown(path)} holds control characters, direction marks, a backslash or a drive. "
                "Rename it with letters, digits, spaces, dots, dashes and underscores."
            )
        if len(part.encode("utf-8")) > NAME_BYTES:
            raise SubmissionError(f"The name {shown(path)} is longer than {NAME_BYTES} bytes. Shorten it.")
        if not part.strip(" ."):
            raise SubmissionError(f"{shown(path)} has a name of nothing but dots and spaces. Rename it.")
        if is_reserved(part):
            raise SubmissionError(f"{shown(path)} has a name that Windows keeps for a device. Rename it.")


def is_reserved(name: str) -> bool:
    """Whether Windows keeps `name` for a device."""
    return _RESERVED.match(name) is not None


def twin_key(path: str) -> str:
    """Equal for two paths that name one file on some system: by case, by accents, by trailing dots."""
    parts = (part.rstrip(" .") for part in path.split("/"))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", "/".join(parts)).casefold())


class Names:
    """The files of one tree, where twins and a file that is a folder too cannot lie side by side."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: set[str] = set()

    def __len__(self) -> int:
        return len(self._files)

    def twin(self, path: str) -> str | None:
        """The file that `path` would be on some system, perhaps spelt in another way."""
        return self._files.get(twin_key(path))

    def add(self, path: str) -> None:
        """Take a file in; raises `SubmissionError` when there is no place for it beside the others."""
        twin = self.twin(path)
        if twin == path:
            raise SubmissionError(f"The submission holds {shown(path)} twice. Keep one of them.")
        if twin is not None:
            raise SubmissionError(
                f"{shown(twin)} and {shown(path)} differ only in upper and lower case, accents or trailing "
                "dots: on some systems they are one file. Rename one."
            )
        if twin_key(path) in self._folders:
            raise _file_and_folder(path)
        for folder in parents_of(path):
            self.add_folder(folder)
        self._files[twin_key(path)] = path

    def add_folder(self, path: str) -> None:
        """Take a folder in; those above a file are known without."""
        file = self.twin(path)
        if file is not None:
            raise _file_and_folder(file)
        self._folders.add(twin_key(path))


def _file_and_folder(path: str) -> SubmissionError:
    return SubmissionError(f"{shown(path)} is a file and a folder at once. Rename one of them.")


def parents_of(path: str) -> Iterable[str]:
    """The folders above `path`, the outermost first: `a`, `a/b` for `a/b/c.py`."""
    return (path[:end] for end, character in enumerate(path) if character == "/")
