"""What a PyTorchJob says of its time and of its pods as a gang, with which it does not come to its end, or to begin.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/common/job.go (a job past its `activeDeadlineSeconds` fails,
and its pods are deleted; `schedulingPolicy.minAvailable` becomes the least number of pods of its PodGroup).
"""

from __future__ import annotations

from collections.abc import Mapping

from graders.launch.fault import SHORTEST, plural
from graders.launch.manifests import Manifest, Problem, dotted, whole
from graders.launch.pods import Pod
from lockstep.yamlfile import Place

POLICY: Place = ("spec", "runPolicy")


def deadline_slips(manifest: Manifest, pods: Mapping[str, Pod]) -> list[Problem]:
    """Limits on the time in which no training ends: of the job, and of a role's pods."""
    around = [POLICY, *((*pod.place, "template", "spec") for pod in pods.values())]
    places: list[Place] = [(*place, "activeDeadlineSeconds") for place in around]
    return [
        manifest.problem(
            place,
            f"`{dotted(place)}` is {seconds} second{plural(seconds)}, in which no training ends: the job fails then.",
            "It counts seconds, and from the start of the pods, their images among it: 3600 is one hour.",
        )
        for place in places
        if (seconds := whole(manifest.get(*place))) is not None and seconds < SHORTEST
    ]


def gang_slips(manifest: Manifest, pods: Mapping[str, Pod]) -> list[Problem]:
    """More pods that have to be there at once than there are; an elastic job may come to have them."""
    place: Place = (*POLICY, "schedulingPolicy", "minAvailable")
    least, total = whole(manifest.get(*place)), sum(pod.count for pod in pods.values())
    if not pods or least is None or least <= total or manifest.get("spec", "elasticPolicy") is not None:
        return []
    return [
        manifest.problem(
            place,
            f"`minAvailable` is {least}, and the job has {total} pod{plural(total)}: a scheduler of gangs waits for "
            "the others without end, and starts none.",
            "It counts pods, not processes: write the number of the Master and the Workers, or leave it out.",
        )
    ]
