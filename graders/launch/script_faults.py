"""What torchrun is given to start: whether it is there, belongs to a group, and has its GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from graders.launch.fault import CONTINUATION, TRAINING, Fault, Stage, plural
from graders.launch.starts import Start

# What everybody is given, and few hand in: the same training in one process.
GIVEN = "train_noddp.py"
# Behind the script these are the script's; none of the course's scripts has an option of such a name.
OWN_OPTION = re.compile(
    r"--(nnodes|nproc[-_]per[-_]node|standalone|rdzv[-_]\w+|node[-_]rank|master[-_](addr|port))\b"
)
# Those of torch.distributed.elastic's own; a hand-in that registers another does so under one of these words.
BACKENDS = ("static", "c10d", "etcd", "etcd-v2")
REGISTERS = re.compile(rb"torchrun\.handlers|rendezvous_handler_registry")
# What a script that belongs to a group of processes has in it, by itself or in what does it for it.
GROUP = re.compile(
    rb"(?i:distributed|process_group|all_reduce|nccl|gloo|\bddp\b|lightning|accelerate|deepspeed|horovod|fabric|"
    rb"transformers|ignite|composer|colossal|fairscale|megatron|mpi4py|\bray\b)|RANK\b|\bWORLD_SIZE\b|"
    rb"importlib|__import__|runpy|subprocess|\bexec\b"
)


def script_fault(call: str, start: Start, files: Mapping[str, bytes]) -> Fault | None:
    """Whether what torchrun starts is a training script that lies where torchrun looks for it."""
    known = {file.rpartition("/")[2] for file in files if file.endswith(".py")} | {TRAINING}
    if not start.script.strip() or start.script.strip().startswith(("-", "#", "\\")):
        return Fault(
            Stage.SCRIPT,
            f"{call} breaks off before the script: where its name should stand, torchrun finds {_shown(start.script)}.",
            CONTINUATION,
        )
    # What a script has made itself, a copy or a program out of a notebook, was not handed in and is there.
    if start.script_name not in known and not start.there:
        return Fault(
            Stage.SCRIPT,
            f"{call} starts {start.script} with torchrun, and no such file was handed in.",
            _no_script_hint(start.script),
        )
    if late := late_options(start):
        return Fault(
            Stage.SCRIPT,
            f"{call} writes {late[0]} behind {start.script}: torchrun hands it to the script instead of reading it.",
            "torchrun's own options stand in front of the script, the script's behind it.",
        )
    if not start.there and not start.script.startswith(("/", "~")):
        return Fault(
            Stage.SCRIPT,
            f"{call} starts torchrun in the folder {_folder(start)} with {start.script}, and there is no such file "
            "from there.",
            f"From there it is {start.script_name}: write that."
            if start.folder in ("", ".") and start.script_name in files
            else "A job of PBS and a command over ssh begin in the home folder: change to the script's folder first."
            if start.folder == "~"
            else 'Change to the folder of the script first: cd "$(dirname "$0")/.." leads from launch/ to the folder '
            "above.",
        )
    return backend_fault(call, start.backend, files) or alone_fault(call, start.script_name, files)


def _no_script_hint(script: str) -> str:
    """What may have been meant by a script that was not handed in."""
    if script.endswith(".py"):
        return f"Start {TRAINING}; torchrun's own options stand in front of it, the script's behind it."
    if re.fullmatch(r"python[\d.]*", script.rpartition("/")[2]):
        return f"torchrun starts Python by itself: leave `{script}` out."
    if script.startswith(tuple("\u2010\u2011\u2012\u2013\u2014\u2212")):
        return "It begins with a dash, as a text program makes one of two hyphens: type `--` anew."
    return (
        "torchrun takes the first word that belongs to none of its options for the script: is the option missing that "
        f"{script} belongs to, such as --nproc-per-node in front of a number?"
    )


def late_options(start: Start) -> list[str]:
    """torchrun's own options behind what it takes for the script, where they count for nothing."""
    return [word for word in start.arguments if OWN_OPTION.match(word)]


def backend_fault(call: str, backend: str, files: Mapping[str, bytes]) -> Fault | None:
    """Whether torchrun knows no rendezvous backend of this name; a variable may hold any."""
    if backend in BACKENDS or "$" in backend or any(map(REGISTERS.search, files.values())):
        return None
    return Fault(
        Stage.MEETING,
        f"{call} gives torchrun --rdzv-backend {backend}: no rendezvous backend of that name is registered.",
        "It says how nodes find one another: c10d, or static. What they then send data with, nccl or gloo, the "
        "training script tells init_process_group.",
    )


def alone_fault(call: str, name: str, files: Mapping[str, bytes]) -> Fault | None:
    """Whether the script of this name is one of a single process, as far as it was handed in."""
    given = name == GIVEN and not any(path.rpartition("/")[2] == name for path in files)
    if name == TRAINING or not (given or _stays_alone(name, files)):
        return None
    return Fault(
        Stage.SCRIPT,
        f"{call} starts {name}, which knows of no process group: every process trains a model of its own.",
        f"Start {TRAINING}, or what else calls torch.distributed.",
    )


def _stays_alone(name: str, files: Mapping[str, bytes]) -> bool:
    """Whether neither a script nor what it imports of what was handed in has anything of a process group in it."""
    own = [content for path, content in files.items() if path.rpartition("/")[2] == name]
    others = {
        path.rpartition("/")[2].removesuffix(".py").encode()
        for path, content in files.items()
        if path.endswith(".py") and GROUP.search(content)
    }
    imported = {
        word
        for content in own
        for line in content.splitlines()
        if line.lstrip().startswith((b"import ", b"from "))
        for word in re.findall(rb"\w+", line)
    }
    return bool(own) and not any(map(GROUP.search, own)) and not others & imported


def devices_fault(call: str, start: Start, files: Mapping[str, bytes]) -> Fault | None:
    """Whether CUDA_VISIBLE_DEVICES leaves a GPU to each process of a node.

    Empty it hides all, for a training on CPUs. With --nproc-per-node gpu torchrun counts those that it leaves.
    """
    devices = start.places.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
    count = start.nproc or 0
    on_cpus = any(re.search("cpu|gloo", word) for word in start.arguments)
    if on_cpus or not all(re.fullmatch(r"\d+|(GPU|MIG)-\S+", name) for name in devices):
        return None
    if len({*devices}) < len(devices) and _is_written(start.places["CUDA_VISIBLE_DEVICES"], files):
        twice = next(name for name in devices if devices.count(name) > 1)
        return Fault(
            Stage.SCRIPT,
            f"{call} sets CUDA_VISIBLE_DEVICES={','.join(devices)[:80]}, in which {twice[:60]} stands more than once: "
            "torch takes such a list for no GPU at all, so that there is none for any process.",
            "List each GPU once, CUDA_VISIBLE_DEVICES=0,1 for two. Processes do not share one: where a node has one "
            "GPU, start one process there.",
        )
    if len(devices) >= count:
        return None
    return Fault(
        Stage.SCRIPT,  # looked at behind the script
        f"{call} starts {count} processes, and CUDA_VISIBLE_DEVICES={','.join(devices)[:80]} leaves them "
        f"{len(devices)} GPU{plural(len(devices))}: there is none for LOCAL_RANK {len(devices)}.",
        "List one GPU for each process, CUDA_VISIBLE_DEVICES=0,1 for two, or do not set it. srun sets it where it is "
        "told a number of GPUs: by itself it hands on all that the job has.",
    )


def _is_written(devices: str, files: Mapping[str, bytes]) -> bool:
    """Whether a launch file has this list in so many words; one that it works out may be another elsewhere."""
    written = re.compile(rb"""\bCUDA_VISIBLE_DEVICES=["']?%b(?![\w,-])""" % re.escape(devices).encode())
    return any(written.search(data) for path, data in files.items() if not path.endswith((".md", ".ipynb")))


def _shown(word: str) -> str:
    return f"`{word.strip()}`" if word.strip() else "a blank" if word else "nothing"


def _folder(start: Start) -> str:
    if start.folder == "~":
        return "of the user's home"
    return "that was handed in" if start.folder in ("", ".") else start.folder
