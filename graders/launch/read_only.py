"""What a PyTorchJob's training is to write into a volume that is mounted to be read.

Rank 0 alone writes. In which pod it is depends on how they meet: what one of them can write to is no fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from graders.launch.manifests import Problem
from graders.launch.pods import Pod
from graders.launch.script_options import own_texts, uses, value_of
from lockstep.compare import elements
from lockstep.text import safe_line
from lockstep.yamlfile import Place

WRITES = {"checkpoint": "after the first epoch", "report": "at its end"}
# A script of one's own may do without the file.
_MINDS = r"\bexcept\s*:|\bexcept\b.{0,80}\b(?:OSError|IOError|PermissionError|(?:Base)?Exception)\b"


def read_only_slips(pods: Mapping[str, Pod], files: Mapping[str, bytes]) -> list[Problem]:
    """A checkpoint or a report that nobody can write; `pods` by their roles, `files` what was handed in."""
    found = [_slip(pod, files) for pod in pods.values()]
    return [slip for slip in found[:1] if slip is not None and all(found)]


def _slip(pod: Pod, files: Mapping[str, bytes]) -> Problem | None:
    start = pod.start
    if start is None or start.script is None:
        return None
    if any(re.search(_MINDS, text) for text in own_texts(start.script, files)):
        return None
    for option, when in WRITES.items():
        path = value_of(start.arguments, option) or ""
        mount = _mount_of(pod, path)
        if mount is None or not uses(start.script, files, rf"[-_.]{option}\b"):
            continue
        return pod.problem(
            (*mount, "readOnly"),
            f"`--{option} {safe_line(path, 60)}` is in a volume that is mounted with `readOnly: true`, where nothing "
            f"can be written: the training ends with an error {when}.",
            "Take `readOnly` away, or leave it to the data and mount a second volume for what is written, to which "
            f"--{option} leads.",
        )
    return None


def _mount_of(pod: Pod, path: str) -> Place | None:
    """Where the manifest mounts the volume in which a path lies, where that can only be read."""
    mounts = pod.own("volumeMounts")
    target = PurePosixPath(path)
    around: Place = ("containers", pod.position, "volumeMounts")
    inside: list[tuple[int, Place, bool]] = []
    for position, mount in enumerate(elements(mounts)):
        where = mount.get("mountPath") if isinstance(mount, dict) else None
        if not isinstance(where, str) or not _is_plain(where):
            return None
        if target.is_relative_to(where):
            reads = pod.get(*around, position, "readOnly") is True
            inside.append((len(PurePosixPath(where).parts), (*around, position), reads))
    if not _is_plain(path) or not inside:
        return None
    _, place, reads = max(inside)
    return place if reads else None


def _is_plain(path: str) -> bool:
    """Whether a path says by itself where it leads."""
    return re.fullmatch(r"/(?!/)[^$]*", path) is not None and ".." not in path
