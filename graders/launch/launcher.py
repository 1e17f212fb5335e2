"""What torchrun would refuse of a command line in a manifest, which nobody runs, and what would not train together.

An option that is unlike all that are known may be one of another version.
"""

from __future__ import annotations

from collections.abc import Mapping

from graders.launch.commands import OPTIONS, Start
from graders.launch.fault import Fault, Stage
from graders.launch.manifests import Claim, like
from graders.launch.script_faults import alone_fault, backend_fault


def launcher_fault(where: str, start: Start, claim: Claim | None, files: Mapping[str, bytes]) -> Fault | None:
    """What keeps the processes that a manifest starts, `claim` says how many, from training together."""
    if start.by == "torchrun":
        for flag in start.flags:
            option = flag.replace("_", "-")
            is_known = any(known.startswith(option) for known in OPTIONS)
            if not is_known and (meant := like(option, OPTIONS).replace("`", "`--", 1)):
                return Fault(
                    Stage.UNREADABLE,
                    f"{where} gives torchrun --{option[:40]}: it has no such option, and ends with an error.",
                    f"{meant} Compare with `torchrun --help`.",
                )
        if fault := backend_fault(where, start.flags.get("rdzv_backend") or "static", files):
            return fault
    several = claim is not None and min(claim.worlds, default=1) > 1
    if not several or start.by == "other" or start.script is None:
        return None
    return alone_fault(where, start.script.rpartition("/")[2], files)
