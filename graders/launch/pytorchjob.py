"""What a PyTorchJob manifest says, and what the API server, the operator's webhook and its pods would make of it.

Sources: kubeflow/training-operator v1.9: pkg/webhooks/pytorch/pytorchjob_webhook.go (rules of replicas, containers,
names), pkg/apis/kubeflow.org/v1/common_types.go (restart policies), pkg/controller.v1/pytorch/envvar.go (what a pod is
told: RANK is the pod's number and WORLD_SIZE counts pods times nprocPerNode). kubernetes.io: extended resources are
whole numbers and given as limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from graders.launch.commands import SHELLS, Start, modernise, start_of
from graders.launch.manifests import (
    NVIDIA,
    PLACEHOLDER,
    Claim,
    Manifest,
    Problem,
    Reading,
    documents,
    like,
    manifests,
    named,
    nothing_in,
    readable,
    schema_problems,
    shown,
    texts,
    whole,
)
from graders.launch.pytorchjob_schema import OUTDATED, PYTORCHJOB
from lockstep.wire import Json
from lockstep.yamlfile import Document, Place, YamlError

NAME = "launch/pytorchjob.yaml"
KIND = "PyTorchJob"
VERSION = "kubeflow.org/v1"
REPLICAS: Place = ("spec", "pytorchReplicaSpecs")
RESTART_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
SIDECAR = "sidecar.istio.io/inject"
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_IMAGE = re.compile(r"[^\s<>{}$]+")
_GPUS = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/(?:gpu|mig-[a-z0-9.]+|i915|gpu\.shared)")


def read_pytorchjob(files: Mapping[str, bytes]) -> Reading:
    """Find the manifest among the files of a submission and look at it."""
    path = _path(files)
    if path is None:
        problem = Problem(
            "there is no such file.", f"Write a {VERSION} {KIND}: one Master and at least one Worker."
        )
        return Reading(NAME, [problem])
    reading = Reading(path)
    if not path.endswith("pytorchjob.yaml"):
        reading.notes.append(f"{path} was read; the exercise calls it {NAME}.")
    try:
        found = documents(files[path])
    except YamlError as error:
        sentence = str(error).partition(": ")[2]
        reading.problems.append(
            Problem(sentence, "Mend this place first: up to it the file may be right.", error.line)
        )
        return reading
    if not found:
        reading.problems.append(
            Problem(
                f"the file {nothing_in(files[path])}.",
                f"Write a {VERSION} {KIND}; `#` hides a line from Kubernetes.",
            )
        )
        return reading
    job = next((each for each in found if _kind(each) == KIND), None)
    if job is None:
        reading.problems.append(_other_kind(found[0]))
        return reading
    look_at(Manifest(job), reading)
    return reading


def _path(files: Mapping[str, bytes]) -> str | None:
    there = named(files, "pytorchjob", (".yaml", ".yml", ".json"))
    return there or next(
        (path for path, data in manifests(files) if any(_kind(each) == KIND for each in readable(data))), None
    )


def _kind(document: Document) -> Json:
    return document.value.get("kind") if isinstance(document.value, dict) else None


def _other_kind(document: Document) -> Problem:
    """Why a file without any PyTorchJob is none."""
    manifest, kind = Manifest(document), _kind(document)
    if not isinstance(document.value, dict):
        return manifest.problem(
            (),
            f"this is {shown(document.value)} and no manifest.",
            "A manifest begins with `apiVersion:` and `kind:`.",
        )
    if kind is None:
        return manifest.problem(
            (), "`kind` is missing.", f"Write `apiVersion: {VERSION}` and `kind: {KIND}`."
        )
    message = f"`kind` is {shown(kind)}; expected {KIND}."
    if isinstance(kind, str) and kind.lower() == KIND.lower():
        hint = "Capitals count: P, T and J are large."
    elif kind == "TrainJob":
        hint = (
            "TrainJob belongs to Kubeflow Trainer v2 (trainer.kubeflow.org), which is where PyTorchJobs will move "
            f"one day; this exercise asks for the {KIND} of {VERSION}, whose Master and Worker you write yourself."
        )
    elif kind == "Job":
        hint = (
            "A batch/v1 Job starts pods that know nothing of one another: no RANK, no MASTER_ADDR. The operator "
            f"behind a {KIND} tells them."
        )
    elif isinstance(kind, str) and kind.endswith("Job"):
        hint = f"The operator sets torch's variables for a {KIND} only."
    else:
        hint = f"Write `apiVersion: {VERSION}` and `kind: {KIND}`."
    return manifest.problem(("kind",), message, hint)


def look_at(manifest: Manifest, reading: Reading) -> None:
    """Add to `reading` what there is to say about one PyTorchJob."""
    reading.notes += manifest.document.traps[:2]
    reading.problems += [*_version(manifest), *_name(manifest), *schema_problems(manifest, PYTORCHJOB)]
    _replicas(manifest, reading)
    _elastic(manifest, reading)
    if outdated := [key for key in OUTDATED if manifest.get("spec", key) is not None]:
        reading.notes.append(
            f"`{outdated[0]}` moved from `spec` to `spec.runPolicy`; where it stands it has no effect."
        )
    roles = [role for role in ("Master", "Worker") if isinstance(manifest.get(*REPLICAS, role), dict)]
    pods = {role: Pod(manifest, role) for role in roles}
    for pod in pods.values():
        reading.problems += pod.problems()
        reading.notes += pod.notes()
    _sidecars(manifest, pods, reading)
    reading.claim = _claim(manifest, pods, reading.file)


def _version(manifest: Manifest) -> list[Problem]:
    version = manifest.get("apiVersion")
    if version == VERSION:
        return []
    hint = f"Write `apiVersion: {VERSION}`."
    if isinstance(version, str) and version.startswith("kubeflow.org/v1"):
        hint += " The alpha and beta versions ended with the old pytorch-operator."
    return [manifest.problem(("apiVersion",), f"`apiVersion` is {shown(version)}; expected {VERSION}.", hint)]


def _name(manifest: Manifest) -> list[Problem]:
    key = "name" if manifest.get("metadata", "name") is not None else "generateName"
    name = manifest.get("metadata", key)
    if not isinstance(name, str):
        if name is None:
            return [manifest.problem(("metadata",), "`metadata.name` is missing.", "Give the job a name.")]
        return []  # the schema says so
    # The server puts five signs behind a generateName.
    full = name if key == "name" else f"{name}abcde"
    if len(full) <= 63 and _LABEL.fullmatch(full):
        return []
    return [
        manifest.problem(
            ("metadata", key),
            f"`metadata.{key}` is {shown(name)}, which is no DNS label: at most 63 small letters, digits and `-`, "
            "beginning with a letter and not ending with `-`.",
            "The name becomes a host name: the operator refuses capitals, `_` and `.` in it.",
        )
    ]


def _replicas(manifest: Manifest, reading: Reading) -> None:
    specs = manifest.get(*REPLICAS)
    if not isinstance(specs, dict):
        return
    for role in specs:
        if role not in ("Master", "Worker"):
            reading.problems.append(
                manifest.problem(
                    (*REPLICAS, role),
                    f"there are no replicas called {shown(role)}; the operator knows Master and Worker.",
                    like(role, ("Master", "Worker")) or "Write `Master:` and `Worker:`.",
                )
            )
    if "Master" not in specs:
        reading.problems.append(
            manifest.problem(
                REPLICAS,
                "there is no Master; expected one Master and the Workers.",
                "The Master is the pod with RANK 0, whose address all others get as MASTER_ADDR.",
            )
        )
    elif isinstance(specs["Master"], dict) and specs["Master"].get("replicas") != 1:
        count = specs["Master"].get("replicas")
        said = "does not say `replicas`" if count is None else f"has replicas: {shown(count)}"
        reading.problems.append(
            manifest.problem(
                (*REPLICAS, "Master", "replicas"),
                f"the Master {said}; expected replicas: 1.",
                "There is one Master, and the webhook wants to see it written. More pods are Workers.",
            )
        )
    workers = manifest.get(*REPLICAS, "Worker", "replicas")
    if (count := whole(workers)) is not None and count < 1:
        reading.problems.append(
            manifest.problem(
                (*REPLICAS, "Worker", "replicas"),
                f"the Workers have replicas: {count}; expected at least 1.",
                "Leave `Worker:` out for a job of one pod.",
            )
        )
    if "Worker" not in specs and "Master" in specs:
        reading.notes.append("There is no Worker: the job trains in one pod, so nothing is shared out.")


def _elastic(manifest: Manifest, reading: Reading) -> None:
    policy = manifest.get("spec", "elasticPolicy")
    if not isinstance(policy, dict):
        return
    place: Place = ("spec", "elasticPolicy")
    if not isinstance(manifest.get(*REPLICAS, "Worker"), dict):
        reading.problems.append(
            manifest.problem(
                place,
                "`elasticPolicy` is there, but no Worker.",
                "It says how many Workers may come and go: add Workers, or leave it out.",
            )
        )
    if "nProcPerNode" in policy and manifest.get("spec", "nprocPerNode") is not None:
        reading.problems.append(
            manifest.problem(
                (*place, "nProcPerNode"),
                "`nProcPerNode` and `spec.nprocPerNode` are both there, which the webhook refuses.",
                "Keep `spec.nprocPerNode`; the one in `elasticPolicy` is deprecated.",
            )
        )
    low, high = whole(policy.get("minReplicas")), whole(policy.get("maxReplicas"))
    if low is not None and high is not None and low > high:
        reading.problems.append(
            manifest.problem(
                (*place, "minReplicas"),
                f"`minReplicas` is {low} and `maxReplicas` {high}.",
                "The least has to be at most the most.",
            )
        )


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
        words = [*texts(self._own("command")), *texts(self._own("args"))]
        return start_of(words) if texts(self._own("command")) else None

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
        found = [*self._restart(), *self._images()]
        for position, container in enumerate(self._containers):
            if isinstance(container, dict):
                found += self._resources(position)
        return found + self._command()

    def notes(self) -> list[str]:
        """What is worth knowing and costs nothing."""
        found = [modernise(self.start)] if self.start is not None and self.start.old else []
        if isinstance(self._manifest.get(*self._pod, "restartPolicy"), str):
            found += [
                f"{self.role}: `restartPolicy` of the pod's spec is overwritten by the operator; it belongs beside "
                "`replicas`."
            ]
        return found

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
        return found

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
        return found

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
        return []

    def _command(self) -> list[Problem]:
        """What each pod starts has to fit what the operator tells it."""
        start, found = self.start, []
        if start is None:
            return []
        place: Place = ("containers", self._position, "command")
        nproc = _nproc(self._manifest)
        total = sum(Pod(self._manifest, role).count for role in _roles(self._manifest))
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
        found += self._unexpanded(start, place)
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

    def _unexpanded(self, start: Start, place: Place) -> list[Problem]:
        """Kubernetes puts a variable in only as $(NAME); everything else is a shell's business."""
        first = texts(self._own("command"))[0]
        bare = next((value for value in start.flags.values() if re.search(r"\$[A-Za-z{]", value)), None)
        if bare is None or PurePosixPath(first).name in SHELLS:
            return []
        return [
            self._problem(
                place,
                f"torchrun is given {shown(bare)} as it stands there, because no shell reads this command.",
                "Leave the option out (torchrun reads the operator's variables), or start `sh -c 'torchrun ...'`.",
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


def _roles(manifest: Manifest) -> list[str]:
    return [role for role in ("Master", "Worker") if isinstance(manifest.get(*REPLICAS, role), dict)]


def _nproc(manifest: Manifest) -> int | None:
    """Processes of a pod as the manifest says it; None for a word such as auto, and when it says nothing."""
    said = manifest.get("spec", "nprocPerNode")
    if said is None:
        said = manifest.get("spec", "elasticPolicy", "nProcPerNode")
    if isinstance(said, str) and re.fullmatch(r"[0-9]{1,4}", said):
        return int(said)
    return whole(said)


def _sidecars(manifest: Manifest, pods: Mapping[str, Pod], reading: Reading) -> None:
    """Istio's proxy must stay away: it outlives the training and stands between the pods.

    Most clusters have no Istio, so that whoever says nothing of it has done nothing wrong.
    """
    silent = False
    for role in pods:
        around: Place = (*REPLICAS, role, "template", "metadata")
        said = [
            (group, manifest.get(*around, group, SIDECAR))
            for group in ("annotations", "labels")
            if manifest.get(*around, group, SIDECAR) is not None
        ]
        silent = silent or not said
        for group, value in said:
            if isinstance(value, str) and value.lower() != "false":
                reading.problems.append(
                    manifest.problem(
                        (*around, group, SIDECAR),
                        f'{role}: `{SIDECAR}` is {shown(value)}; expected the text "false".',
                        "With Istio's proxy beside it a pod never ends, and the processes do not reach one another.",
                    )
                )
    if silent and pods:
        outside = manifest.get("metadata", "annotations", SIDECAR) or manifest.get(
            "metadata", "labels", SIDECAR
        )
        if outside is not None:
            reading.notes.append(
                f"`{SIDECAR}` at the job's own metadata has no effect; it belongs to `template.metadata.annotations`."
            )
        else:
            reading.notes.append(
                f'In a namespace with Istio each template needs the annotation {SIDECAR}: "false" (a text, in '
                "quotes), or "
                "its pods never end."
            )


def _claim(manifest: Manifest, pods: Mapping[str, Pod], file: str) -> Claim | None:
    """How many processes the job comes to."""
    if not pods:
        return None
    nproc = _nproc(manifest)
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
            ways.append(_processes(start, pod, nproc))
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
        "Every pod counts, the Master's too: 1 Master and N Workers are N + 1 pods, each with nprocPerNode processes "
        "where torchrun starts them, and with one otherwise."
    )
    return Claim(file, frozenset(worlds), how, total, tuple(odds), hint, may_be_alone=False)


def _processes(start: Start, pod: Pod, nproc: int | None) -> set[int]:
    """Processes that torchrun starts in one pod; nothing when only the cluster could tell."""
    said = start.flags.get("nproc_per_node")
    if said is not None and (number := start.number("nproc_per_node")) is not None:
        return {number}
    if said not in (None, "auto", "gpu"):
        return set()
    if said is None and nproc is not None:
        return {nproc}
    if said is None and start.old:
        return {1}
    return {pod.gpus} if pod.gpus else set()
