"""The pods of a PyTorchJob: what they start, and how many processes that comes to.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/pytorch/envvar.go (what a pod is told: RANK is the pod's
number, WORLD_SIZE counts pods times nprocPerNode, torchrun finds the same under PET_...).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from graders.launch.commands import SHELLS, Start, start_of
from graders.launch.manifests import NVIDIA, Claim, Manifest, Problem, texts, whole
from lockstep.compare import elements
from lockstep.wire import Json
from lockstep.yamlfile import Place

REPLICAS: Place = ("spec", "pytorchReplicaSpecs")


class Pod:
    """The template of one role's pods."""

    def __init__(self, manifest: Manifest, role: str) -> None:
        self.role = role
        self.manifest = manifest
        self.place: Place = (*REPLICAS, role)
        self._pod: Place = (*self.place, "template", "spec")
        containers = self.get("containers")
        self.containers = elements(containers)
        # The container the operator looks for, or the only one there is.
        self.position = next(
            (
                at
                for at, each in enumerate(self.containers)
                if isinstance(each, dict) and each.get("name") == "pytorch"
            ),
            0,
        )

    @property
    def count(self) -> int:
        """How many pods of this role there are; one unless it is said."""
        return max(whole(self.replica("replicas")) or 1, 1)

    @property
    def start(self) -> Start | None:
        """What the container starts, where the manifest says it at all."""
        return start_of(self.words()) if self.says_command else None

    def words(self) -> list[str]:
        """Command and arguments with the container's own `env` put in: $(NAME) by Kubernetes, the rest by a shell.

        So is what the operator adds to it, where the manifest says it in numbers.
        """
        forms = r"\$\((\w+)\)" + (r"|\$\{(\w+)\}|\$(\w+)" if self.has_shell else "")
        nproc = nproc_of(self.manifest)
        values: dict[str, Json] = {"PET_NPROC_PER_NODE": "auto" if nproc is None else str(nproc)}
        values |= {str(each.get("name")): each.get("value") for each in self.env}

        def put_in(found: re.Match[str]) -> str:
            value = values.get(next(filter(None, found.groups())))
            return value if isinstance(value, str) else found[0]

        words = [*texts(self.own("command")), *texts(self.own("args"))]
        return [re.sub(forms, put_in, word) for word in words]

    @property
    def has_shell(self) -> bool:
        """Whether the command is a shell's, which puts variables in."""
        command = texts(self.own("command"))
        return bool(command) and PurePosixPath(command[0]).name in SHELLS

    @property
    def says_command(self) -> bool:
        """Whether the manifest names a command; `args` alone are for the image's own."""
        return bool(texts(self.own("command")))

    @property
    def gpus(self) -> int | None:
        """NVIDIA GPUs of one pod."""
        limit = self.own("resources", "limits", NVIDIA)
        return int(limit) if isinstance(limit, str) and limit.isdigit() and len(limit) < 5 else whole(limit)

    @property
    def env(self) -> list[dict[str, Json]]:
        """The entries of the container's own `env`."""
        entries = self.own("env")
        return [each for each in elements(entries) if isinstance(each, dict)]

    def replica(self, *place: str | int) -> Json:
        """What stands there, below the role's name."""
        return self.manifest.get(*self.place, *place)

    def get(self, *place: str | int) -> Json:
        """What stands there in the pod's spec."""
        return self.manifest.get(*self._pod, *place)

    def own(self, *place: str) -> Json:
        """What stands there in the container that trains."""
        return self.get("containers", self.position, *place)

    def problem(self, place: Place, message: str, hint: str) -> Problem:
        """A problem at a place in the pod's spec."""
        return self.manifest.problem((*self._pod, *place), f"{self.role}: {message}", hint)


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
