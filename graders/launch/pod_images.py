"""The containers of a pod and their images: names that no registry would be asked for.

Source: kubeflow/training-operator v1.9, pkg/webhooks/pytorch/pytorchjob_webhook.go (containers).
"""

from __future__ import annotations

import re

from graders.launch.manifests import PLACEHOLDER, Problem, shown
from graders.launch.pods import Pod
from lockstep.text import safe_line
from lockstep.yamlfile import Place

_IMAGE = re.compile(r"[^\s<>{}$]+")


def image_problems(pod: Pod) -> list[Problem]:
    """Containers that are missing, that the operator would not find, or whose image is none."""
    found = []
    if not pod.containers and isinstance(pod.get("containers"), list):
        found.append(
            pod.problem(("containers",), "the list of containers is empty.", "Add one named `pytorch`.")
        )
    names = [each.get("name") for each in pod.containers if isinstance(each, dict)]
    # One without a name is told by the schema.
    if any(names) and "pytorch" not in names:
        found.append(
            pod.problem(
                ("containers", 0, "name"),
                f"no container is named `pytorch`, but {', '.join(shown(name) for name in names[:3])}.",
                "The operator sets the variables of torch in the container of this name: write `- name: pytorch`.",
            )
        )
    for position, container in enumerate(pod.containers):
        if not isinstance(container, dict):
            continue
        image = container.get("image")
        place: Place = ("containers", position, "image")
        if image is None or image == "":
            found.append(
                pod.problem(
                    place, "a container has no `image`.", "Name the image that holds torch and your code."
                )
            )
        elif isinstance(image, str) and not (_IMAGE.fullmatch(image) and not PLACEHOLDER.search(image)):
            found.append(
                pod.problem(
                    place,
                    f"`image` is {shown(image)}, which names no image.",
                    "Put the name of a real image there, as in `registry/name:tag`.",
                )
            )
        elif isinstance(image, str):
            found += _image_name(pod, place, image)
    return found


def _image_name(pod: Pod, place: Place, image: str) -> list[Problem]:
    """An address of a web page, and capitals: no registry is asked for such an image."""
    scheme, _, rest = image.rpartition("://")
    if scheme:
        return [
            pod.problem(
                place,
                f"`image` is {shown(image)}, which is an address; the name of an image is expected.",
                f"Leave `{safe_line(scheme, 20)}://` out: `registry/name:tag`, or `name:tag` for Docker Hub. What "
                "`docker pull` takes is right.",
            )
        ]
    host, _, path = rest.partition("/")
    name = repository(path if path and re.search(r"[.:]", host) else rest)
    if name == name.lower():
        return []
    return [
        pod.problem(
            place,
            f"`image` is {shown(image)}; there are no capitals in the name of an image.",
            f"Write `{safe_line(name.lower(), 60)}`; behind the `:` of the tag capitals are fine.",
        )
    ]


def repository(image: str) -> str:
    """The name of an image without its tag and its digest."""
    name = image.partition("@")[0]
    before, slash, last = name.rpartition("/")
    return before + slash + last.partition(":")[0]
