"""The pods of a PyTorchJob: what is wrong with their templates, what they start, and how many processes that comes to.

Sources: kubeflow/training-operator v1.9: pkg/webhooks/pytorch/pytorchjob_webhook.go (containers),
pkg/apis/kubeflow.org/v1/common_types.go (restart policies), pkg/controller.v1/pytorch/envvar.go (what a pod is told:
RANK is the pod's number, WORLD_SIZE counts pods times nprocPerNode, torchrun finds the same under PET_...).
kubernetes.io: extended resources are whole numbers and given as limits; what is mounted is one of the pod's volumes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from graders.launch.commands import (
    SHELLS,
    Start,
    lost_words,
    meets_itself,
    modernise,
    start_of,
    starts_nothing,
)
from graders.launch.manifests import (
    NVIDIA,
    PLACEHOLDER,
    Claim,
    Manifest,
    Problem,
    like,
    shown,
    texts,
    whole,
)
from graders.launch.quantities import quantity, similar
from graders.launch.refusals import OPTIONS
from lockstep.text import safe_line
from lockstep.wire import Json
from lockstep.yamlfile import Place

REPLICAS: Place = ("spec", "pytorchReplicaSpecs")
RESTART_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
_IMAGE = re.compile(r"[^\s<>{}$]+")
# Images of which everybody knows what they start by themselves: a shell, an interpreter, nothing of one's own.
BARE_IMAGES = frozenset(
    "alpine busybox centos condaforge/miniforge3 continuumio/anaconda3 continuumio/miniconda3 debian fedora "
    "mambaorg/micromamba nvcr.io/nvidia/cuda nvcr.io/nvidia/pytorch nvidia/cuda python pytorch/pytorch "
    "tensorflow/tensorflow ubuntu".split()
)
_DOCKER_HUB = re.compile(r"^(?:(?:index\.|registry-1\.)?docker\.io/)?(?:library/)?")
# An option and its value in one word: two options, or one of the exercise's own.
SEVERAL = re.compile(rf"--(?:[A-Za-z][\w-]*\s.*\s--[A-Za-z]|(?:{'|'.join(OPTIONS)})\s+\S)", re.DOTALL)
# What the operator tells each pod.
TOLD = frozenset(
    "MASTER_ADDR MASTER_PORT RANK WORLD_SIZE PET_MASTER_ADDR PET_MASTER_PORT PET_NNODES PET_NODE_RANK "
    "PET_NPROC_PER_NODE".split()
)
# What no program fits into, let alone Python.
LEAST_MEMORY = 1 << 20
_GPUS = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/(?:gpu|mig-[a-z0-9.]+|i915|gpu\.shared)")


class Pod:
    """The template of one role's pods."""

    def __init__(self, manifest: Manifest, role: str) -> None:
        self.role = role
        self._manifest = manifest
        self._place: Place = (*REPLICAS, role)
        self._pod: Place = (*self._place, "template", "spec")
        containers = manifest.get(*self._pod, "containers")
        self._containers = containers if isinstance(containers, list) else []
        # The container the operator looks for, or the only one there is.
        self._position = next(
            (
                at
                for at, each in enumerate(self._containers)
                if isinstance(each, dict) and each.get("name") == "pytorch"
            ),
            0,
        )

    @property
    def count(self) -> int:
        """How many pods of this role there are; one unless it is said."""
        return max(whole(self._manifest.get(*self._place, "replicas")) or 1, 1)

    @property
    def start(self) -> Start | None:
        """What the container starts, where the manifest says it at all."""
        return start_of(self._words()) if self.says_command else None

    def _words(self) -> list[str]:
        """Command and arguments with the container's own `env` put in: $(NAME) by Kubernetes, the rest by a shell.

        So is what the operator adds to it, where the manifest says it in numbers.
        """
        forms = r"\$\((\w+)\)" + (r"|\$\{(\w+)\}|\$(\w+)" if self._has_shell else "")
        env = self._own("env")
        entries = [each for each in env if isinstance(each, dict)] if isinstance(env, list) else []
        nproc = nproc_of(self._manifest)
        values: dict[str, Json] = {"PET_NPROC_PER_NODE": "auto" if nproc is None else str(nproc)}
        values |= {str(each.get("name")): each.get("value") for each in entries}

        def put_in(found: re.Match[str]) -> str:
            value = values.get(next(filter(None, found.groups())))
            return value if isinstance(value, str) else found[0]

        words = [*texts(self._own("command")), *texts(self._own("args"))]
        return [re.sub(forms, put_in, word) for word in words]

    @property
    def _has_shell(self) -> bool:
        """Whether the command is a shell's, which puts variables in."""
        command = texts(self._own("command"))
        return bool(command) and PurePosixPath(command[0]).name in SHELLS

    @property
    def says_command(self) -> bool:
        """Whether the manifest names a command; `args` alone are for the image's own."""
        return bool(texts(self._own("command")))

    @property
    def gpus(self) -> int | None:
        """NVIDIA GPUs of one pod."""
        limit = self._own("resources", "limits", NVIDIA)
        return int(limit) if isinstance(limit, str) and limit.isdigit() and len(limit) < 5 else whole(limit)

    def _own(self, *place: str) -> Json:
        return self._manifest.get(*self._pod, "containers", self._position, *place)

    def _problem(self, place: Place, message: str, hint: str) -> Problem:
        return self._manifest.problem((*self._pod, *place), f"{self.role}: {message}", hint)

    def problems(self) -> list[Problem]:
        """What the webhook, the API server or the pods would stumble over."""
        found = [*self._restart(), *self._images(), *self._gpus_of_no_container()]
        for position, container in enumerate(self._containers):
            if isinstance(container, dict):
                found += self._resources(position) + self._mounts(position)
        return found + self._command()

    def notes(self) -> list[str]:
        """What is worth knowing and costs nothing."""
        found = [modernise(self.start)] if self.start is not None and self.start.old else []
        if isinstance(self._manifest.get(*self._pod, "restartPolicy"), str):
            found += [
                f"{self.role}: `restartPolicy` of the pod's spec is overwritten by the operator; it belongs beside "
                "`replicas`."
            ]
        env = self._own("env")
        names = [each.get("name") for each in env if isinstance(each, dict)] if isinstance(env, list) else []
        found += [
            f"{self.role}: `env` sets {name}, which the operator sets as well: leave that to it."
            for name in names
            if name in TOLD
        ][:1]
        return found

    def slips(self) -> list[Problem]:
        """Arguments that do not arrive as they are meant."""
        place: Place = ("containers", self._position, "args")
        if self.start is None:
            return []
        lost = [word for word in lost_words(self._words()) if re.match("--[A-Za-z]", word)]
        missing = next((word for word in lost if word not in self.start.words), None)
        if missing is not None:
            return [
                self._problem(
                    place,
                    "`args` stand behind the text of a shell's -c, which takes them for $0, $1 and so on: "
                    f"{shown(missing)} does not reach the training.",
                    'Write them into the text. Or let it hand them on, `torchrun ddp_train.py "$@"`, and put a word '
                    "for $0 in front of them.",
                )
            ]
        behind = self.start.arguments
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
            self._problem(
                place,
                f"{shown(torn)} is one word, blanks and all, which no script takes for an option and its value.",
                'Write every word on its own: args: ["--training-data", "/data", "--epochs", "3"].',
            )
        ]

    def _restart(self) -> list[Problem]:
        policy = self._manifest.get(*self._place, "restartPolicy")
        if policy is None or policy in RESTART_POLICIES:
            return []
        return [
            self._manifest.problem(
                (*self._place, "restartPolicy"),
                f"{self.role}: `restartPolicy` is {shown(policy)}; expected one of {', '.join(RESTART_POLICIES)}.",
                like(str(policy)[:40], RESTART_POLICIES)
                or "Write OnFailure to try again after an error, or Never.",
            )
        ]

    def _images(self) -> list[Problem]:
        found = []
        if not self._containers and self._manifest.get(*self._pod, "containers") is not None:
            found.append(
                self._problem(("containers",), "the list of containers is empty.", "Add one named `pytorch`.")
            )
        names = [each.get("name") for each in self._containers if isinstance(each, dict)]
        if names and "pytorch" not in names:
            found.append(
                self._problem(
                    ("containers", 0, "name"),
                    f"no container is named `pytorch`, but {', '.join(shown(name) for name in names[:3])}.",
                    "The operator sets the variables of torch in the container of this name: write `- name: pytorch`.",
                )
            )
        for position, container in enumerate(self._containers):
            if not isinstance(container, dict):
                continue
            image = container.get("image")
            place: Place = ("containers", position, "image")
            if image is None or image == "":
                found.append(
                    self._problem(
                        place, "a container has no `image`.", "Name the image that holds torch and your code."
                    )
                )
            elif isinstance(image, str) and not (_IMAGE.fullmatch(image) and not PLACEHOLDER.search(image)):
                found.append(
                    self._problem(
                        place,
                        f"`image` is {shown(image)}, which names no image.",
                        "Put the name of a real image there, as in `registry/name:tag`.",
                    )
                )
            elif isinstance(image, str):
                found += self._image_name(place, image)
        return found

    def _image_name(self, place: Place, image: str) -> list[Problem]:
        """An address of a web page, and capitals: no registry is asked for such an image."""
        scheme, _, rest = image.rpartition("://")
        if scheme:
            return [
                self._problem(
                    place,
                    f"`image` is {shown(image)}, which is an address; the name of an image is expected.",
                    f"Leave `{safe_line(scheme, 20)}://` out: `registry/name:tag`, or `name:tag` for Docker Hub. What "
                    "`docker pull` takes is right.",
                )
            ]
        host, _, path = rest.partition("/")
        name = _repository(path if path and re.search(r"[.:]", host) else rest)
        if name == name.lower():
            return []
        return [
            self._problem(
                place,
                f"`image` is {shown(image)}; there are no capitals in the name of an image.",
                f"Write `{safe_line(name.lower(), 60)}`; behind the `:` of the tag capitals are fine.",
            )
        ]

    def _resources(self, position: int) -> list[Problem]:
        found = []
        around: Place = ("containers", position, "resources")
        for group in ("limits", "requests"):
            values = self._manifest.get(*self._pod, *around, group)
            for key, value in values.items() if isinstance(values, dict) else ():
                found += self._resource((*around, group, key), key, value)
        requested = self._manifest.get(*self._pod, *around, "requests", NVIDIA)
        limit = self._manifest.get(*self._pod, *around, "limits", NVIDIA)
        if requested is not None and str(requested) != str(limit):
            said = "no limit" if limit is None else f"a limit of {shown(limit)}"
            found.append(
                self._problem(
                    (*around, "requests", NVIDIA),
                    f"a request of {shown(requested)} GPU has {said} beside it, which Kubernetes refuses.",
                    f"GPUs cannot be shared: write `{NVIDIA}` under `limits`, and leave the request out.",
                )
            )
        return found + self._more_than_the_limit(around)

    def _more_than_the_limit(self, around: Place) -> list[Problem]:
        """Requests above their limits, which the API server refuses; what no quantity is has been told."""
        found = []
        requests = self._manifest.get(*self._pod, *around, "requests")
        for key, value in requests.items() if isinstance(requests, dict) else ():
            limit = self._manifest.get(*self._pod, *around, "limits", key)
            asked, most = quantity(value), quantity(limit)
            if key != NVIDIA and asked is not None and most is not None and asked > most:
                found.append(
                    self._problem(
                        (*around, "requests", key),
                        f"a request of {shown(value)} for `{key[:40]}` is above its limit of {shown(limit)}, which "
                        "Kubernetes refuses.",
                        "A request is what a container gets for certain, the limit the most that it may take: raise "
                        "the limit, or ask for less.",
                    )
                )
        return found

    def _gpus_of_no_container(self) -> list[Problem]:
        """A pod's own `resources` know cpu, memory and huge pages; what is older than they are ignores them."""
        return [
            self._problem(
                ("resources", group, NVIDIA),
                "`resources` of the pod, beside `containers`, give no container a GPU.",
                f"Move `resources` into the container: `{NVIDIA}` is given to a container, under its `limits`.",
            )
            for group in ("limits", "requests")
            if self._manifest.get(*self._pod, "resources", group, NVIDIA) is not None
        ]

    def _resource(self, place: Place, key: str, value: Json) -> list[Problem]:
        if key == NVIDIA or _GPUS.fullmatch(key):
            text = str(value)
            if isinstance(value, float) or not re.fullmatch(r"[0-9]{1,4}", text):
                return [
                    self._problem(
                        place,
                        f"`{key}` is {shown(value)}; expected a whole number.",
                        "A container gets whole GPUs or none.",
                    )
                ]
            return []
        if "gpu" in key.lower():
            return [
                self._problem(
                    place,
                    f"`{key[:40]}` is no resource that a cluster has; expected `{NVIDIA}`.",
                    f"GPUs are a resource of NVIDIA's plugin and carry its name: `{NVIDIA}: 1`.",
                )
            ]
        if value is None or isinstance(value, bool | dict | list):
            return []  # the schema says so
        amount = quantity(value)
        if amount is not None and key == "memory" and "limits" in place and 0 < amount < LEAST_MEMORY:
            return [
                self._problem(
                    place,
                    f"`memory` is limited to {shown(value)}, less than a MiB, in which nothing starts.",
                    "m is a thousandth, for processors, and without a suffix bytes are counted: write 512Mi or 16Gi.",
                )
            ]
        if amount is not None and amount >= 0:
            return []
        meant = similar(str(value)[:40])
        hint = "Write a number with or without a suffix: 4 or 500m processors, 16Gi or 16G of memory."
        return [
            self._problem(
                place,
                f"`{key[:40]}` is {shown(value)}, which is no quantity to Kubernetes: it refuses the file.",
                f"Did you mean `{meant}`? Suffixes are k, M, G of 1000 and Ki, Mi, Gi of 1024."
                if meant
                else hint,
            )
        ]

    def _mounts(self, position: int) -> list[Problem]:
        """Volumes of a container that the pod does not have: the API server refuses such a pod."""
        volumes = self._manifest.get(*self._pod, "volumes")
        there = _names(volumes)
        mounts = self._manifest.get(*self._pod, "containers", position, "volumeMounts")
        return [
            self._problem(
                ("containers", position, "volumeMounts"),
                f"a container mounts {shown(name)}, but `volumes` has nothing of that name.",
                like(name, there)
                or "Each `volumeMounts` name stands in `volumes`, beside `containers`, as well.",
            )
            for name in sorted(_names(mounts) - there)
        ]

    def _command(self) -> list[Problem]:
        """What each pod starts has to fit what the operator tells it."""
        start, found = self.start, []
        place: Place = ("containers", self._position, "command")
        if idle := self._starts_nothing(place):
            return [idle]
        if start is None:
            return []
        nproc = nproc_of(self._manifest)
        total = sum(Pod(self._manifest, role).count for role in roles(self._manifest))
        if start.by == "python" and nproc is not None and nproc > 1:
            found.append(
                self._problem(
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
                self._problem(
                    place,
                    "torchrun is told no script to start.",
                    "Write its name between torchrun's own options and the script's: `torchrun ddp_train.py ...`.",
                )
            )
        found += self._meets_itself(start, place, total)
        found += self._unexpanded(start, place)
        found += self._nodes_are_pods(start, place, nproc)
        found += self._node_rank(start, place)
        if "standalone" in start.flags and total > 1:
            found.append(
                self._problem(
                    place,
                    f"`--standalone` makes a group of its own in each of the {total} pods.",
                    "Leave it out: torchrun reads the address and the number of pods from the operator's variables.",
                )
            )
        processes = start.number("nproc_per_node") or nproc
        if processes is not None and self.gpus is not None and 0 < self.gpus < processes:
            found.append(
                self._problem(
                    ("containers", self._position, "resources", "limits", NVIDIA),
                    f"each pod gets {self.gpus} GPU{'s' if self.gpus > 1 else ''} for {processes} processes.",
                    f"Each process takes the GPU of its LOCAL_RANK: ask for `{NVIDIA}: {processes}`.",
                )
            )
        return found

    def _starts_nothing(self, place: Place) -> Problem | None:
        """A command that nothing can execute, or that is known to train nothing; of most it cannot be known."""
        words, image = self._words(), self._own("image")
        if self.says_command and re.search(r"\s", words[0]):
            return self._problem(
                place,
                f"the first word of `command` is {shown(words[0])}: a program of exactly this name is looked for, "
                "blanks and all, and there is none.",
                'Write every word on its own, command: ["torchrun", "ddp_train.py"], or let a shell take the text '
                'apart: command: ["sh", "-c", "..."].',
            )
        if self.says_command and starts_nothing(words):
            return self._problem(
                place,
                f"the container starts {shown(' '.join(words))}, which starts no training.",
                "A manifest runs without anybody at a keyboard: name what trains, command: "
                '["torchrun", "ddp_train.py"].',
            )
        if isinstance(image, str) and not words and _DOCKER_HUB.sub("", _repository(image)) in BARE_IMAGES:
            return self._problem(
                ("containers", self._position),
                f"there is neither `command` nor `args`, and {shown(image)} starts no training by itself.",
                'Say what it is to start: command: ["torchrun", "ddp_train.py"]. Only an image of your own can know.',
            )
        return None

    def _meets_itself(self, start: Start, place: Place, total: int) -> list[Problem]:
        """An address that each pod takes for itself. The Master may: it is where the others are to go."""
        where = start.flags.get("rdzv_endpoint", "")
        if start.flags.get("rdzv_backend", "static") in ("static", ""):
            where = where or start.flags.get("master_addr", "")
        shares_host = self._manifest.get(*self._pod, "hostNetwork") is True
        if self.role == "Master" or total < 2 or shares_host:
            return []
        if self._has_no_endpoint(start):
            return [
                self._problem(
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
            self._problem(
                place,
                f"torchrun is told to meet the others at {safe_line(where, 40)}, where each pod finds itself alone.",
                "Leave the address out, and the backend with it: torchrun reads the Master's from the operator's "
                "PET_MASTER_ADDR.",
            )
        ]

    def _has_no_endpoint(self, start: Start) -> bool:
        """Whether c10d is told no address: neither by an option nor by a variable, of its own or the operator's."""
        env = self._own("env")
        names = (
            {each.get("name") for each in env if isinstance(each, dict)} if isinstance(env, list) else set()
        )
        told = "PET_RDZV_ENDPOINT" in names or any("PET_RDZV" in word for word in self._words())
        by_operator = (
            self._manifest.get("spec", "elasticPolicy") is not None or self._own("envFrom") is not None
        )
        is_c10d = start.flags.get("rdzv_backend") == "c10d" and not start.flags.get("rdzv_endpoint")
        return is_c10d and not (told or by_operator or start.is_open or "standalone" in start.flags)

    def _unexpanded(self, start: Start, place: Place) -> list[Problem]:
        """Kubernetes puts a variable in only as $(NAME); everything else is a shell's business."""
        bare = next((value for value in start.flags.values() if re.search(r"\$[A-Za-z{]", value)), None)
        if bare is None or self._has_shell:
            return []
        return [
            self._problem(
                place,
                f"torchrun is given {shown(bare)} as it stands there, because no shell reads this command.",
                "Leave the option out (torchrun reads the operator's variables), or start `sh -c 'torchrun ...'`.",
            )
        ]

    def _nodes_are_pods(self, start: Start, place: Place, nproc: int | None) -> list[Problem]:
        """WORLD_SIZE is the number of pods only where nprocPerNode leaves it at that."""
        is_world_size = re.fullmatch(r"\$[{(]?WORLD_SIZE[})]?", start.flags.get("nnodes", ""))
        if nproc is None or nproc < 2 or not is_world_size:
            return []
        return [
            self._problem(
                place,
                f"torchrun is given --nnodes=$WORLD_SIZE, and with nprocPerNode {nproc} the operator's WORLD_SIZE "
                "counts processes, not pods: it would wait for more pods than there are.",
                "Leave --nnodes out: torchrun reads the number of pods from PET_NNODES, which the operator sets.",
            )
        ]

    def _node_rank(self, start: Start, place: Place) -> list[Problem]:
        rank = start.number("node_rank")
        if rank is None or start.flags.get("rdzv_backend", "static") not in ("static", ""):
            return []
        only = 0 if self.role == "Master" else 1
        if rank == only and self.count == 1:
            return []
        hint = (
            "The operator tells each pod its number: leave --node_rank out with torchrun (it reads PET_NODE_RANK), "
            "or write --node_rank=$RANK in an `sh -c`."
        )
        if self.role == "Master":
            return [self._problem(place, f"the pod starts with --node_rank {rank}, but it is node 0.", hint)]
        return [
            self._problem(
                place,
                f"every pod starts with --node_rank {rank}"
                + (", the number of the Master: nodes that share a number never meet." if rank == 0 else "."),
                hint,
            )
        ]


def _repository(image: str) -> str:
    """The name of an image without its tag and its digest."""
    name = image.partition("@")[0]
    before, slash, last = name.rpartition("/")
    return before + slash + last.partition(":")[0]


def _names(entries: Json) -> set[str]:
    named = (
        [each.get("name") for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    )
    return {name for name in named if isinstance(name, str)}


def roles(manifest: Manifest) -> list[str]:
    """The roles that have pods."""
    return [role for role in ("Master", "Worker") if isinstance(manifest.get(*REPLICAS, role), dict)]


def nproc_of(manifest: Manifest) -> int | None:
    """Processes of a pod as the manifest says it; None for a word such as auto, and when it says nothing."""
    said = manifest.get("spec", "nprocPerNode")
    if said is None:
        said = manifest.get("spec", "elasticPolicy", "nProcPerNode")
    if isinstance(said, str) and re.fullmatch(r"[0-9]{1,4}", said):
        return int(said)
    return whole(said)


def claim_of(manifest: Manifest, pods: Mapping[str, Pod], file: str) -> Claim | None:
    """How many processes the job comes to."""
    if not pods:
        return None
    nproc, by_device = nproc_of(manifest), manifest.get("spec", "nprocPerNode") in ("auto", "gpu")
    total = sum(pod.count for pod in pods.values())
    odds: list[Problem] = []
    ways: list[set[int]] = []
    for pod in pods.values():
        start = pod.start
        if start is not None and start.by == "torchrun":
            nodes = start.number("nnodes")
            if nodes is not None and nodes != total:
                odds.append(
                    Problem(
                        f"{pod.role}: --nnodes {nodes}, but the job has {total} pods.",
                        "--nnodes counts the Master and the Workers; leave it out and torchrun reads the operator's "
                        "number.",
                        manifest.document.line((*REPLICAS, pod.role)),
                    )
                )
            ways.append(_processes(start, pod, nproc, by_device=by_device))
        elif start is not None and start.by == "python":
            ways.append({1})
        else:
            # The image's own command, or a script in it: one process, or as many as there are GPUs.
            ways.append({1} | {number for number in (nproc, pod.gpus) if number})
    if any(not way for way in ways):
        return Claim(file, nodes=total, odds=tuple(odds))
    counts = [pod.count for pod in pods.values()]
    how = "1 pod" if total == 1 else f"{total} pods"
    if len(set.union(*ways)) == 1:
        each = next(iter(ways[0]))
        how += f" x {each} process{'es' if each > 1 else ''}"
    worlds = {0}
    for count, way in zip(counts, ways, strict=True):
        worlds = {world + count * each for world in worlds for each in way}
    hint = (
        "Every pod counts, the Master's too. Four processes are, for example, 1 Master and 3 Workers of one process "
        'each, or 1 Master and 1 Worker that start torchrun, with nprocPerNode: "2".'
    )
    return Claim(file, frozenset(worlds), how, total, tuple(odds), hint, may_be_alone=False)


def _processes(start: Start, pod: Pod, nproc: int | None, *, by_device: bool) -> set[int]:
    """Processes that torchrun starts in one pod; nothing when only the cluster could tell."""
    said = start.flags.get("nproc_per_node")
    if said is not None and (number := start.number("nproc_per_node")) is not None:
        return {number}
    if said not in (None, "auto", "gpu"):
        return set()
    if said is None and nproc is not None:
        return {nproc}
    if said is None and start.old and not by_device:
        return {1}
    return {pod.gpus} if pod.gpus else set()
