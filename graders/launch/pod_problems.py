"""What is wrong with the pods of a PyTorchJob, or worth knowing of them.

Source: kubeflow/training-operator v1.9, pkg/apis/kubeflow.org/v1/common_types.go (restart policies).
"""

from __future__ import annotations

from graders.launch.commands import modernise
from graders.launch.manifests import Problem, like, shown
from graders.launch.pod_commands import command_problems
from graders.launch.pod_images import image_problems
from graders.launch.pod_resources import resource_problems
from graders.launch.pod_values import value_problems
from graders.launch.pods import Pod

RESTART_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
# What the operator tells each pod.
TOLD = frozenset(
    "MASTER_ADDR MASTER_PORT RANK WORLD_SIZE PET_MASTER_ADDR PET_MASTER_PORT PET_NNODES PET_NODE_RANK "
    "PET_NPROC_PER_NODE".split()
)


def problems(pod: Pod) -> list[Problem]:
    """What the webhook, the API server or the pods would stumble over."""
    return [
        *_restart(pod),
        *image_problems(pod),
        *resource_problems(pod),
        *value_problems(pod),
        *command_problems(pod),
    ]


def notes(pod: Pod) -> list[str]:
    """What is worth knowing and costs nothing."""
    found = [modernise(pod.start)] if pod.start is not None and pod.start.old else []
    if isinstance(pod.get("restartPolicy"), str):
        found += [
            f"{pod.role}: `restartPolicy` of the pod's spec is overwritten by the operator; it belongs beside "
            "`replicas`."
        ]
    if pod.replica("restartPolicy") == "Always":
        found.append(
            f"{pod.role}: with `restartPolicy: Always` a pod whose training has ended begins anew, and the job has no "
            "end; OnFailure tries again after an error only."
        )
    found += [
        f"{pod.role}: `env` sets {name}, which the operator sets as well: leave that to it."
        for name in (each.get("name") for each in pod.env)
        if name in TOLD
    ][:1]
    return found


def _restart(pod: Pod) -> list[Problem]:
    policy = pod.replica("restartPolicy")
    if policy is None or policy in RESTART_POLICIES:
        return []
    return [
        pod.manifest.problem(
            (*pod.place, "restartPolicy"),
            f"{pod.role}: `restartPolicy` is {shown(policy)}; expected one of {', '.join(RESTART_POLICIES)}.",
            like(str(policy)[:40], RESTART_POLICIES)
            or "Write OnFailure to try again after an error, or Never.",
        )
    ]
