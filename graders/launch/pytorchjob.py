"""What a PyTorchJob manifest says, and what the API server, the operator's webhook and its pods would make of it.

Sources: kubeflow/training-operator v1.9, pkg/webhooks/pytorch/pytorchjob_webhook.go (rules of replicas and names);
kubernetes.io (names of objects are DNS labels here); istio.io (`sidecar.istio.io/inject`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from graders.launch.handed_script import script_problems
from graders.launch.manifests import (
    MANY,
    Manifest,
    Problem,
    Reading,
    like,
    manifests,
    named,
    opened,
    readable,
    schema_problems,
    shown,
    stated,
    whole,
)
from graders.launch.pod_commands import slips
from graders.launch.pod_problems import notes, problems
from graders.launch.pod_resources import memory_slips
from graders.launch.pod_values import metadata_problems, namespace_problems
from graders.launch.pods import REPLICAS, Pod, claim_of
from graders.launch.pytorchjob_schema import OUTDATED, PYTORCHJOB
from graders.launch.read_only import read_only_slips
from graders.launch.run_policy import deadline_slips, gang_slips
from graders.launch.starts import DEVICES
from lockstep.wire import Json
from lockstep.yamlfile import Document, Place

NAME = "launch/pytorchjob.yaml"
KIND = "PyTorchJob"
VERSION = "kubeflow.org/v1"
SIDECAR = "sidecar.istio.io/inject"
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


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
    found = opened(reading, files[path], f"a {VERSION} {KIND}")
    if not found:
        return reading
    job = next((each for each in found if _kind(each) == KIND), None)
    if job is None:
        reading.problems.append(_other_kind(found[0]))
        return reading
    look_at(Manifest(job), reading, files)
    return reading


def _path(files: Mapping[str, bytes]) -> str | None:
    there = named(files, "pytorchjob", (".yaml", ".yml", ".json"))
    return there or next(
        (
            path
            for path, data in manifests(files, KIND.encode())
            if any(_kind(each) == KIND for each in readable(data))
        ),
        None,
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


def look_at(manifest: Manifest, reading: Reading, files: Mapping[str, bytes]) -> None:
    """Add to `reading` what there is to say about one PyTorchJob."""
    reading.notes += manifest.document.traps[:2]
    reading.problems += [*_version(manifest), *_name(manifest), *namespace_problems(manifest)]
    reading.problems += [*metadata_problems(manifest, ("metadata",)), *schema_problems(manifest, PYTORCHJOB)]
    _replicas(manifest, reading)
    _elastic(manifest, reading)
    _suspended(manifest, reading)
    if outdated := [key for key in OUTDATED if manifest.get("spec", key) is not None]:
        reading.notes.append(
            f"`{outdated[0]}` moved from `spec` to `spec.runPolicy`; where it stands it has no effect."
        )
    roles = [role for role in ("Master", "Worker") if isinstance(manifest.get(*REPLICAS, role), dict)]
    pods = {role: Pod(manifest, role) for role in roles}
    for pod in pods.values():
        reading.problems += problems(pod)
        reading.notes += notes(pod)
        reading.slips += [*slips(pod), *memory_slips(pod)]
        if pod.start is not None:
            where = f"{reading.file}, {pod.role},"
            reading.starts[where] = pod.start
            # The Master may call itself by any name, and pods in their hosts' network may share one.
            if pod.role != "Master" and "Master" in pods and pod.get("hostNetwork") is not True:
                reading.apart.add(where)
    if len({pod.gpus for pod in pods.values()}) > 1:
        reading.notes.append(
            "Master and Worker ask for different numbers of GPUs; the Master trains as well."
        )
    _processes(manifest, pods, reading)
    _sidecars(manifest, pods, reading)
    reading.slips += [*deadline_slips(manifest, pods), *gang_slips(manifest, pods)]
    reading.problems += script_problems(pods, files)
    reading.slips += read_only_slips(pods, files)
    reading.claim = claim_of(manifest, pods, reading.file)


def _version(manifest: Manifest) -> list[Problem]:
    version = manifest.get("apiVersion")
    if version == VERSION:
        return []
    hint = f"Write `apiVersion: {VERSION}`."
    if isinstance(version, str) and version.startswith("kubeflow.org/v1"):
        hint += " The alpha and beta versions ended with the old pytorch-operator."
    return [manifest.problem(("apiVersion",), f"`apiVersion` {stated(version)}; expected {VERSION}.", hint)]


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
    for role in list(specs)[:MANY]:
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


def _suspended(manifest: Manifest, reading: Reading) -> None:
    """A job that waits for somebody to wake it: right where a queue does, which is named in its metadata."""
    place: Place = ("spec", "runPolicy", "suspend")
    metadata = [manifest.get("metadata", group) for group in ("labels", "annotations")]
    names = [name for group in metadata if isinstance(group, dict) for name in group]
    queued = any("queue" in name.lower() for name in names) or manifest.get("spec", "runPolicy", "managedBy")
    if manifest.get(*place) is True and not queued:
        reading.problems.append(
            manifest.problem(
                place,
                "`suspend` is true: the operator starts no pod of this job until somebody sets it to false.",
                "Leave `suspend` out. A queue such as Kueue sets it by itself, for jobs with its label "
                "`kueue.x-k8s.io/queue-name`.",
            )
        )


def _processes(manifest: Manifest, pods: Mapping[str, Pod], reading: Reading) -> None:
    """What `nprocPerNode` says torchrun has to understand, which is told it by a variable."""
    said = manifest.get("spec", "nprocPerNode")
    if not isinstance(said, str) or re.fullmatch(r"[1-9][0-9]*", said) or said in DEVICES:
        return
    starts = [pod.start for pod in pods.values() if pod.start is not None]
    if any(start.by == "torchrun" and "nproc_per_node" not in start.flags for start in starts):
        reading.problems.append(
            manifest.problem(
                ("spec", "nprocPerNode"),
                f"`nprocPerNode` is {shown(said)}, which torchrun does not understand.",
                'Write the number of processes of a pod, in quotes: "2". Or auto, gpu or cpu.',
            )
        )


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
    outside = manifest.get("metadata", "annotations", SIDECAR) or manifest.get("metadata", "labels", SIDECAR)
    if silent and outside is not None:
        reading.notes.append(
            f"`{SIDECAR}` at the job's own metadata has no effect; it belongs to `template.metadata.annotations`."
        )
