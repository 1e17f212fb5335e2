"""What a pod starts: whether it trains, and fits what the operator tells each pod."""

from __future__ import annotations

import re

from graders.launch.commands import Start, lost_words, meets_itself, starts_nothing
from graders.launch.manifests import NVIDIA, Problem, shown
from graders.launch.pod_images import repository
from graders.launch.pods import Pod, nproc_of, roles
from graders.launch.refusals import OPTIONS
from lockstep.compare import elements
from lockstep.text import safe_line
from lockstep.yamlfile import Place

# Images of which everybody knows what they start by themselves: a shell, an interpreter, nothing of one's own.
BARE_IMAGES = frozenset(
    "alpine busybox centos condaforge/miniforge3 continuumio/anaconda3 continuumio/miniconda3 debian fedora "
    "mambaorg/micromamba nvcr.io/nvidia/cuda nvcr.io/nvidia/pytorch nvidia/cuda python pytorch/pytorch "
    "tensorflow/tensorflow ubuntu".split()
)
_DOCKER_HUB = re.compile(r"^(?:(?:index\.|registry-1\.)?docker\.io/)?(?:library/)?")
# An option and its value in one word: two options, or one of the exercise's own.
SEVERAL = re.compile(rf"--(?:[A-Za-z][\w-]*\s.*\s--[A-Za-z]|(?:{'|'.join(OPTIONS)})\s+\S)", re.DOTALL)


def command_problems(pod: Pod) -> list[Problem]:
    """What each pod starts has to fit what the operator tells it."""
    start, found = pod.start, []
    place: Place = ("containers", pod.position, "command")
    if idle := _starts_nothing(pod, place):
        return [idle]
    if start is None:
        return []
    nproc = nproc_of(pod.manifest)
    total = sum(Pod(pod.manifest, role).count for role in roles(pod.manifest))
    if start.by == "python" and nproc is not None and nproc > 1:
        found.append(
            pod.problem(
                place,
                f"nprocPerNode is {nproc}, but the container starts `python` once; the operator counts "
                f"{total * nproc} processes, so that those there are wait for the others without end.",
                "Start `torchrun ddp_train.py`, which takes the number from the operator's variables; or leave "
                "nprocPerNode out and give each process a pod.",
            )
        )
    if start.by != "torchrun":
        return found
    # An option that nobody knew yet could have swallowed the script, but not hidden its ending.
    if start.script is None and not any(word.endswith(".py") for word in start.words):
        found.append(
            pod.problem(
                place,
                "torchrun is told no script to start.",
                "Write its name between torchrun's own options and the script's: `torchrun ddp_train.py ...`.",
            )
        )
    found += _meets_itself(pod, start, place, total)
    found += _unexpanded(pod, start, place)
    found += _nodes_are_pods(pod, start, place, nproc)
    found += _node_rank(pod, start, place)
    if "standalone" in start.flags and total > 1:
        found.append(
            pod.problem(
                place,
                f"`--standalone` makes a group of its own in each of the {total} pods.",
                "Leave it out: torchrun reads the address and the number of pods from the operator's variables.",
            )
        )
    processes = start.number("nproc_per_node") or nproc
    if processes is not None and pod.gpus is not None and 0 < pod.gpus < processes:
        found.append(
            pod.problem(
                ("containers", pod.position, "resources", "limits", NVIDIA),
                f"each pod gets {pod.gpus} GPU{'s' if pod.gpus > 1 else ''} for {processes} processes.",
                f"Each process takes the GPU of its LOCAL_RANK: ask for `{NVIDIA}: {processes}`.",
            )
        )
    return found


def slips(pod: Pod) -> list[Problem]:
    """Arguments that do not arrive as they are meant."""
    place: Place = ("containers", pod.position, "args")
    if pod.start is None:
        return []
    lost = [word for word in lost_words(pod.words()) if re.match("--[A-Za-z]", word)]
    missing = next((word for word in lost if word not in pod.start.words), None)
    if missing is not None:
        return [
            pod.problem(
                place,
                "`args` stand behind the text of a shell's -c, which takes them for $0, $1 and so on: "
                f"{shown(missing)} does not reach the training.",
                'Write them into the text. Or let it hand them on, `torchrun ddp_train.py "$@"`, and put a word '
                "for $0 in front of them.",
            )
        ]
    behind = pod.start.arguments
    torn = next(
        (
            word
            for before, word in zip(("", *behind), behind, strict=False)
            if SEVERAL.match(word) and not re.fullmatch(r"--[\w-]+", before)
        ),
        None,
    )
    if torn is None:
        return []
    return [
        pod.problem(
            place,
            f"{shown(torn)} is one word, blanks and all, which no script takes for an option and its value.",
            'Write every word on its own: args: ["--training-data", "/data", "--epochs", "3"].',
        )
    ]


def _starts_nothing(pod: Pod, place: Place) -> Problem | None:
    """A command that nothing can execute, or that is known to train nothing; of most it cannot be known."""
    words, image = pod.words(), pod.own("image")
    if pod.says_command and re.search(r"\s", words[0]):
        return pod.problem(
            place,
            f"the first word of `command` is {shown(words[0])}: a program of exactly this name is looked for, "
            "blanks and all, and there is none.",
            'Write every word on its own, command: ["torchrun", "ddp_train.py"], or let a shell take the text '
            'apart: command: ["sh", "-c", "..."].',
        )
    if pod.says_command and starts_nothing(words):
        return pod.problem(
            place,
            f"the container starts {shown(' '.join(words))}, which starts no training.",
            "A manifest runs without anybody at a keyboard: name what trains, command: "
            '["torchrun", "ddp_train.py"].',
        )
    if isinstance(image, str) and not words and _DOCKER_HUB.sub("", repository(image)) in BARE_IMAGES:
        return pod.problem(
            ("containers", pod.position),
            f"there is neither `command` nor `args`, and {shown(image)} starts no training by itself.",
            'Say what it is to start: command: ["torchrun", "ddp_train.py"]. Only an image of your own can know.',
        )
    return None


def _meets_itself(pod: Pod, start: Start, place: Place, total: int) -> list[Problem]:
    """An address that each pod takes for itself. The Master may: it is where the others are to go."""
    where = start.flags.get("rdzv_endpoint", "")
    if start.flags.get("rdzv_backend", "static") in ("static", ""):
        where = where or start.flags.get("master_addr", "")
    shares_host = pod.get("hostNetwork") is True
    if pod.role == "Master" or total < 2 or shares_host:
        return []
    if _has_no_endpoint(pod, start):
        return [
            pod.problem(
                place,
                "torchrun is given --rdzv-backend c10d and no --rdzv-endpoint, which is then localhost, where each "
                "pod finds itself alone. With c10d the operator's address does not count.",
                "Leave the backend out: torchrun reads the Master's address and the numbers of the pods from the "
                "operator's variables.",
            )
        ]
    if not meets_itself(where):
        return []
    return [
        pod.problem(
            place,
            f"torchrun is told to meet the others at {safe_line(where, 40)}, where each pod finds itself alone.",
            "Leave the address out, and the backend with it: torchrun reads the Master's from the operator's "
            "PET_MASTER_ADDR.",
        )
    ]


def _has_no_endpoint(pod: Pod, start: Start) -> bool:
    """Whether c10d is told no address: neither by an option nor by a variable, of its own or the operator's."""
    env = pod.own("env")
    names = {each.get("name") for each in elements(env) if isinstance(each, dict)}
    told = "PET_RDZV_ENDPOINT" in names or any("PET_RDZV" in word for word in pod.words())
    by_operator = pod.manifest.get("spec", "elasticPolicy") is not None or pod.own("envFrom") is not None
    is_c10d = start.flags.get("rdzv_backend") == "c10d" and not start.flags.get("rdzv_endpoint")
    return is_c10d and not (told or by_operator or start.is_open or "standalone" in start.flags)


def _unexpanded(pod: Pod, start: Start, place: Place) -> list[Problem]:
    """Kubernetes puts a variable in only as $(NAME); everything else is a shell's business."""
    bare = next((value for value in start.flags.values() if re.search(r"\$[A-Za-z{]", value)), None)
    if bare is None or pod.has_shell:
        return []
    return [
        pod.problem(
            place,
            f"torchrun is given {shown(bare)} as it stands there, because no shell reads this command.",
            "Leave the option out (torchrun reads the operator's variables), or start `sh -c 'torchrun ...'`.",
        )
    ]


def _nodes_are_pods(pod: Pod, start: Start, place: Place, nproc: int | None) -> list[Problem]:
    """WORLD_SIZE is the number of pods only where nprocPerNode leaves it at that."""
    is_world_size = re.fullmatch(r"\$[{(]?WORLD_SIZE[})]?", start.flags.get("nnodes", ""))
    if nproc is None or nproc < 2 or not is_world_size:
        return []
    return [
        pod.problem(
            place,
            f"torchrun is given --nnodes=$WORLD_SIZE, and with nprocPerNode {nproc} the operator's WORLD_SIZE "
            "counts processes, not pods: it would wait for more pods than there are.",
            "Leave --nnodes out: torchrun reads the number of pods from PET_NNODES, which the operator sets.",
        )
    ]


def _node_rank(pod: Pod, start: Start, place: Place) -> list[Problem]:
    rank = start.number("node_rank")
    if rank is None or start.flags.get("rdzv_backend", "static") not in ("static", ""):
        return []
    only = 0 if pod.role == "Master" else 1
    if rank == only and pod.count == 1:
        return []
    hint = (
        "The operator tells each pod its number: leave --node_rank out with torchrun (it reads PET_NODE_RANK), "
        "or write --node_rank=$RANK in an `sh -c`."
    )
    if pod.role == "Master":
        return [pod.problem(place, f"the pod starts with --node_rank {rank}, but it is node 0.", hint)]
    return [
        pod.problem(
            place,
            f"every pod starts with --node_rank {rank}"
            + (", the number of the Master: nodes that share a number never meet." if rank == 0 else "."),
            hint,
        )
    ]
