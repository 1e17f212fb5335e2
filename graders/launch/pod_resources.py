"""What containers ask for: processors, memory, GPUs and volumes, as the API server reads them.

Source: kubernetes.io: extended resources are whole numbers and given as limits; what is mounted is one of the pod's
volumes.
"""

from __future__ import annotations

import re

from graders.launch.fault import LEAST_TO_TRAIN
from graders.launch.manifests import NVIDIA, Problem, like, shown
from graders.launch.pods import Pod
from graders.launch.quantities import quantity, similar
from lockstep.compare import elements
from lockstep.wire import Json
from lockstep.yamlfile import Place

# What no program fits into, let alone Python.
LEAST_MEMORY = 1 << 20
_GPUS = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/(?:gpu|mig-[a-z0-9.]+|i915|gpu\.shared)")


def resource_problems(pod: Pod) -> list[Problem]:
    """What no cluster could give to a pod or its containers."""
    found = _gpus_of_no_container(pod)
    for position, container in enumerate(pod.containers):
        if isinstance(container, dict):
            found += _resources(pod, position) + _mounts(pod, position)
    return found


def memory_slips(pod: Pod) -> list[Problem]:
    """A limit on the memory of the container that trains in which there is no room for that."""
    limit = pod.own("resources", "limits", "memory")
    amount = quantity(limit)
    if amount is None or not LEAST_MEMORY <= amount < LEAST_TO_TRAIN:
        return []
    return [
        pod.problem(
            ("containers", pod.position, "resources", "limits", "memory"),
            f"`memory` is limited to {shown(limit)}, in which torch and a ResNet-18 find no room: the kernel ends the "
            "container.",
            "Mi is 1024 KiB, Gi is 1024 of those: a training takes some, write 8Gi or 16Gi.",
        )
    ]


def _resources(pod: Pod, position: int) -> list[Problem]:
    found = []
    around: Place = ("containers", position, "resources")
    for group in ("limits", "requests"):
        values = pod.get(*around, group)
        for key, value in values.items() if isinstance(values, dict) else ():
            found += _resource(pod, (*around, group, key), key, value)
    requested = pod.get(*around, "requests", NVIDIA)
    limit = pod.get(*around, "limits", NVIDIA)
    if requested is not None and str(requested) != str(limit):
        said = "no limit" if limit is None else f"a limit of {shown(limit)}"
        found.append(
            pod.problem(
                (*around, "requests", NVIDIA),
                f"a request of {shown(requested)} GPU has {said} beside it, which Kubernetes refuses.",
                f"GPUs cannot be shared: write `{NVIDIA}` under `limits`, and leave the request out.",
            )
        )
    return found + _more_than_the_limit(pod, around)


def _more_than_the_limit(pod: Pod, around: Place) -> list[Problem]:
    """Requests above their limits, which the API server refuses; what no quantity is has been told."""
    found = []
    requests = pod.get(*around, "requests")
    for key, value in requests.items() if isinstance(requests, dict) else ():
        limit = pod.get(*around, "limits", key)
        asked, most = quantity(value), quantity(limit)
        if key != NVIDIA and asked is not None and most is not None and asked > most:
            found.append(
                pod.problem(
                    (*around, "requests", key),
                    f"a request of {shown(value)} for `{key[:40]}` is above its limit of {shown(limit)}, which "
                    "Kubernetes refuses.",
                    "A request is what a container gets for certain, the limit the most that it may take: raise "
                    "the limit, or ask for less.",
                )
            )
    return found


def _gpus_of_no_container(pod: Pod) -> list[Problem]:
    """A pod's own `resources` know cpu, memory and huge pages; what is older than they are ignores them."""
    return [
        pod.problem(
            ("resources", group, NVIDIA),
            "`resources` of the pod, beside `containers`, give no container a GPU.",
            f"Move `resources` into the container: `{NVIDIA}` is given to a container, under its `limits`.",
        )
        for group in ("limits", "requests")
        if pod.get("resources", group, NVIDIA) is not None
    ]


def _resource(pod: Pod, place: Place, key: str, value: Json) -> list[Problem]:
    if key == NVIDIA or _GPUS.fullmatch(key):
        text = str(value)
        if isinstance(value, float) or not re.fullmatch(r"[0-9]{1,4}", text):
            return [
                pod.problem(
                    place,
                    f"`{key}` is {shown(value)}; expected a whole number.",
                    "A container gets whole GPUs or none.",
                )
            ]
        return []
    if "gpu" in key.lower():
        return [
            pod.problem(
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
            pod.problem(
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
        pod.problem(
            place,
            f"`{key[:40]}` is {shown(value)}, which is no quantity to Kubernetes: it refuses the file.",
            f"Did you mean `{meant}`? Suffixes are k, M, G of 1000 and Ki, Mi, Gi of 1024."
            if meant
            else hint,
        )
    ]


def _mounts(pod: Pod, position: int) -> list[Problem]:
    """Volumes of a container that the pod does not have: the API server refuses such a pod."""
    volumes = pod.get("volumes")
    there = _names(volumes)
    mounts = pod.get("containers", position, "volumeMounts")
    return [
        pod.problem(
            ("containers", position, "volumeMounts"),
            f"a container mounts {shown(name)}, but `volumes` has nothing of that name.",
            like(name, there)
            or "Each `volumeMounts` name stands in `volumes`, beside `containers`, as well.",
        )
        for name in sorted(_names(mounts) - there)
    ]


def _names(entries: Json) -> set[str]:
    named = [each.get("name") for each in elements(entries) if isinstance(each, dict)]
    return {name for name in named if isinstance(name, str)}
