"""Which program is answered how."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from . import answers, starters, torchrun
from .bench import MAX_RECORDS, TIMEOUT, Bench, Order, Request


def _nothing(bench: Bench, request: Request) -> Order:
    return {}


def _sleep(bench: Bench, request: Request) -> Order:
    """It need not sleep here; a job that would lets those in the background do their work."""
    bench.slept = True
    return {}


def _elsewhere(bench: Bench, request: Request) -> Order:
    """A folder that exists on another machine."""
    bench.note(request, "elsewhere", "cd", request.words[1:])
    return {}


def _submits(bench: Bench, request: Request) -> Order:
    bench.note(request, "submits", os.path.basename(request.words[0]), request.words[1:])
    return {}


def _other(bench: Bench, request: Request) -> Order:
    bench.note(request, "other", os.path.basename(request.words[0]), request.words[1:])
    return {}


def _wrapper(bench: Bench, request: Request) -> Order:
    """`conda run`, `apptainer exec` and the like: what they start, from the first program that is known here."""
    for at, word in enumerate(request.words[1:], start=1):
        if os.path.basename(word) in STARTERS:
            return {"become": [_here(bench, request, word), *request.words[at + 1 :]]}
        if word == "-m" and request.words[at + 1 : at + 2] in torchrun.MODULES:  # uv run -m MODULE
            return {"become": ["python", *request.words[at:]]}
    return {}


def _prefix(bench: Bench, request: Request) -> Order:
    """`nohup`, `env` and the like, which are here as well: they look for what they start by themselves."""
    words = list(request.words[1:])
    for at, word in enumerate(words):
        words[at] = _here(bench, request, word)
        if words[at] != word or starters.is_program(request, word):
            break
    # The student's own PATH, without the stand-ins.
    real = shutil.which(os.path.basename(request.words[0]))
    if real is None:
        return _wrapper(bench, request)
    is_timeout = os.path.basename(real) == "timeout"
    changes = {TIMEOUT: " ".join(request.words[1:9])} if is_timeout else {}
    return {"become": [real, *words], "changes": changes}


def _here(bench: Bench, request: Request, word: str) -> str:
    """The stand-in for a path of the cluster's own that leads nowhere here; any other word as it is."""
    name = os.path.basename(word)
    missing = "/" in word and name in HANDLERS and not os.path.exists(os.path.join(request.folder, word))
    return os.path.join(bench.tools, "bin", name) if missing else word


# With the endings of Intel's MPI, and of those that Debian keeps side by side.
MPI_LAUNCHERS = [
    f"mpi{name}{kind}" for name in ("run", "exec") for kind in ("", ".hydra", ".mpich", ".openmpi")
]
Handler = Callable[[Bench, Request], Order]
HANDLERS: dict[str, Handler] = {
    "torchrun": torchrun.torchrun,
    **dict.fromkeys(("python", "python3", *(f"python3.{minor}" for minor in range(8, 16))), torchrun.python),
    "srun": starters.srun,
    **dict.fromkeys(("orterun", "ibrun", *MPI_LAUNCHERS), starters.mpirun),
    "pbsdsh": starters.pbsdsh,
    "pbs_tmrsh": starters.pbs_tmrsh,
    "blaunch": starters.blaunch,
    "jsrun": starters.jsrun,
    "ssh": starters.ssh,
    **dict.fromkeys(("pdsh", "clush"), starters.pdsh),
    **dict.fromkeys(("sbatch", "salloc", "qsub", "bsub"), _submits),
    **dict.fromkeys(torchrun.OTHER_LAUNCHERS, _other),
    **answers.ANSWERS,
    **dict.fromkeys(torchrun.PREFIXES, _prefix),
    **dict.fromkeys(torchrun.ENVIRONMENTS, _wrapper),
    # A node that waits until another can be reached need not wait here.
    "sleep": _sleep,
    **dict.fromkeys(("module", "ml", "nc", "ncat", "ping"), _nothing),
    # What a log is to hold, or all nodes are to have: nothing of that starts a training.
    **dict.fromkeys(("sinfo", "sstat", "sbcast", "bjobs", "bhosts", "nvcc", "ss", "netstat"), _nothing),
    **dict.fromkeys(("sacctmgr", "sprio", "sshare", "sreport", "sdiag", "seff"), _nothing),
    **dict.fromkeys(("lfs", "quota", "myquota", "ofed_info", "rocminfo", "lshw", "dmidecode"), _nothing),
    **dict.fromkeys(("pip", "pip3", "git", "wandb", "rsync", "scp", "curl", "wget"), _nothing),
    "lockstep-elsewhere": _elsewhere,
}
STARTERS = {"torchrun", "python", "python3", "bash", "sh", "srun"}


def order(bench: Bench, request: Request) -> Order:
    """What a stand-in is to do."""
    answer = HANDLERS.get(os.path.basename(request.words[0]), _nothing)
    return {"status": 1} if len(bench.records) >= MAX_RECORDS else answer(bench, request)
