"""A shell script of one's own that a manifest starts: what it starts, where it was handed in and decides nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from graders.launch.commands import Start, start_in
from graders.launch.manifests import Problem
from graders.launch.pods import Pod
from lockstep.text import safe_line

_COMMENT = re.compile(r"(?<!\S)#.*")
# What makes a script start this or that, or something that is written down elsewhere.
_DECIDES = re.compile(r"(?<![\w$-])(?:if|case|for|while|until|eval|function|source|trap)(?!\w)|\[|\|\||\(\)")
_TORCHRUN = re.compile(r"\btorchrun\b|\btorch\.distributed\b")


def standalone_script(start: Start, files: Mapping[str, bytes]) -> str:
    """The path of a script of which the one torchrun stands alone; "" where there is none, or it may do otherwise."""
    words = [word for word in start.words if word.endswith(".sh")] if start.by == "other" else []
    if len(words) != 1:
        return ""
    name = PurePosixPath(words[0]).name
    paths = [path for path in files if PurePosixPath(path).name == name]
    if len(paths) != 1:
        return ""
    text = _COMMENT.sub("", files[paths[0]].decode("utf-8", "replace"))
    if _DECIDES.search(text) or len(_TORCHRUN.findall(text)) != 1:
        return ""
    found = start_in(text)
    return paths[0] if found is not None and "standalone" in found.flags else ""


def script_problems(pods: Mapping[str, Pod], files: Mapping[str, bytes]) -> list[Problem]:
    """A script that makes each of several pods train alone; `pods` by their roles, `files` what was handed in."""
    total = sum(pod.count for pod in pods.values())
    for pod in pods.values() if total > 1 else ():
        if pod.start is not None and (script := standalone_script(pod.start, files)):
            return [
                pod.problem(
                    ("containers", pod.position, "command"),
                    f"the container starts {safe_line(script, 60)}, and torchrun's `--standalone` in it makes a "
                    f"group of its own in each of the {total} pods.",
                    "Start torchrun without it: it reads the address and the number of pods from the operator's "
                    "variables.",
                )
            ]
    return []
