"""AppArmor: the profile that holds a program once it is started, and the file that it comes from.

Sources: proc_pid_attr(5), apparmor(7) and apparmor.d(5).
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROFILES = Path("/etc/apparmor.d")
# The other modes let everything pass: complain, and a profile that is called unconfined.
HOLDING = re.compile(r"(.+) \((?:enforce|kill|mixed)\)")


@dataclass(frozen=True)
class Profile:
    """A profile that is enforced; `file` is None where none of the administrator's defines it."""

    name: str
    file: Path | None


def profile_of(bubblewrap: str) -> Profile | None:
    """What holds bubblewrap when it is started; None where nothing does, or this kernel has no AppArmor."""
    try:
        # It waits for options until we have looked, and ends without any.
        with subprocess.Popen(
            [bubblewrap, "--args", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as waiting:
            label = Path(f"/proc/{waiting.pid}/attr/apparmor/current").read_text(errors="replace")
    except OSError:
        return None
    return profile_named_by(label, PROFILES)


def profile_named_by(label: str, folder: Path) -> Profile | None:
    """The profile of a process's label, and the file below `folder` that defines it."""
    held = HOLDING.fullmatch(label.strip())
    return Profile(held[1], _defining(held[1], folder)) if held else None


def _defining(name: str, folder: Path) -> Path | None:
    begins = re.compile(rf'^\s*(?:profile\s+)?"?{re.escape(name)}"?[\s{{]', re.MULTILINE)
    for file in sorted(folder.glob("*")):
        try:
            if begins.search(file.read_text(errors="replace")):
                return file
        except OSError:  # a folder, or closed to us
            continue
    return None
