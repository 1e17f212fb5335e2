"""Values that the API server looks at once the operator makes the pods: names, labels, ports, volumes, tolerations.

Source: Kubernetes, pkg/apis/core/validation/validation.go and apimachinery's util/validation (names and labels).
An empty text stands for the default there, as if nothing were said. What goes beyond it, no node could carry out:
`medium` of pkg/volume/emptydir, and claims of a name that none can have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from graders.launch.manifests import MANY, Manifest, Problem, like, shown, whole
from graders.launch.pods import Pod
from graders.launch.quantities import quantity
from lockstep.compare import elements
from lockstep.text import safe_line
from lockstep.wire import Json
from lockstep.yamlfile import Place

LABEL = "at most 63 small letters, digits and `-`, with a letter or a digit at both ends"
PULL = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("TCP", "UDP", "SCTP")
# Lt and Gt are behind a gate since 1.35; whoever writes them means them.
OPERATORS = ("Exists", "Equal", "Lt", "Gt")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PORT = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_NEEDS = {"hostPath": ("path",), "nfs": ("server", "path"), "secret": ("secretName",), "configMap": ("name",)}
_MEDIUM = re.compile(r"Memory|HugePages(-.+)?")


def value_problems(pod: Pod) -> list[Problem]:
    """Values of a pod that keep it from being made, or from starting."""
    around: Place = (*pod.place, "template", "metadata")
    found = [*metadata_problems(pod.manifest, around, f"{pod.role}: ")]
    found += pair_problems(pod.manifest, (*pod.place, "template", "spec", "nodeSelector"), f"{pod.role}: ")
    found += _twice(pod, ("containers",), pod.get("containers"), "name", "Give each a name of its own.")
    names = [each.get("name") for each in pod.containers if isinstance(each, dict)]
    for group in ("containers", "initContainers"):
        for position, container in _mappings(pod.get(group)):
            place: Place = (group, position)
            # Where none is named pytorch that is told already, and the name will be another.
            if "pytorch" in names:
                found += _label(pod, (*place, "name"), container.get("name"), "a container")
            found += _one_of(pod, (*place, "imagePullPolicy"), container.get("imagePullPolicy"), PULL)
            found += _ports(pod, (*place, "ports"), container.get("ports"))
            found += _twice(
                pod, (*place, "volumeMounts"), container.get("volumeMounts"), "mountPath",
                "A place holds one volume: mount the other one elsewhere, or leave one of them out.",
            )  # fmt: skip
            found += _env(pod, (*place, "env"), container.get("env"))
    return [*found, *_volumes(pod), *_tolerations(pod)][:MANY]


def namespace_problems(manifest: Manifest) -> list[Problem]:
    """A namespace that cannot be."""
    namespace = manifest.get("metadata", "namespace")
    if not isinstance(namespace, str) or namespace == "" or is_label(namespace):
        return []
    return [
        manifest.problem(
            ("metadata", "namespace"),
            f"`metadata.namespace` is {shown(namespace)}, which no namespace can be called: {LABEL}.",
            "Write the name that `kubectl get namespaces` shows, or leave it out and say `kubectl -n NAME`.",
        )
    ]


def metadata_problems(manifest: Manifest, place: Place, who: str = "") -> Iterator[Problem]:
    """Labels and annotations that are none; `who` begins the messages."""
    yield from pair_problems(manifest, (*place, "labels"), who)
    yield from pair_problems(manifest, (*place, "annotations"), who, any_value=True)


def pair_problems(
    manifest: Manifest, place: Place, who: str = "", *, any_value: bool = False
) -> Iterator[Problem]:
    """Keys, and values unless they may be any, that no label has."""
    pairs, where = manifest.get(*place), place[-1]
    for key, value in pairs.items() if isinstance(pairs, dict) else ():
        if not _is_key(key.lower() if any_value else key):
            yield manifest.problem(
                (*place, key),
                f"{who}`{where}` has the key {shown(key)}, which Kubernetes refuses.",
                "A key has letters, digits, `-`, `_` and `.`, a letter or a digit at both ends, and at most one `/` "
                "behind a domain: `example.org/name`.",
            )
        elif not any_value and isinstance(value, str) and value and not _is_value(value):
            yield manifest.problem(
                (*place, key),
                f"{who}`{where}` has {shown(value)} for `{safe_line(key, 40)}`, which is no label's value: Kubernetes "
                "refuses it.",
                "A value has at most 63 letters, digits, `-`, `_` and `.`, with a letter or a digit at both ends. "
                "Whatever else is to be said belongs into `annotations`.",
            )


def is_label(text: str) -> bool:
    """Whether a text is a DNS label, as names of namespaces, containers and volumes are."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether a text is a DNS name, labels with dots between them."""
    return len(text) <= 253 and all(_LABEL.fullmatch(part) for part in text.split("."))


def _is_value(text: str) -> bool:
    return len(text) <= 63 and _VALUE.fullmatch(text) is not None


def _is_key(text: str) -> bool:
    domain, slash, name = text.rpartition("/")
    return _is_value(name) and (not slash or is_subdomain(domain))


def _mappings(value: Json) -> list[tuple[int, dict[str, Json]]]:
    """The mappings in a list, with their positions."""
    items = enumerate(elements(value))
    return [(position, item) for position, item in items if isinstance(item, dict)]


def _label(pod: Pod, place: Place, name: Json, what: str) -> list[Problem]:
    if not isinstance(name, str) or is_label(name):
        return []
    hint = "Write small letters, and `-` for `_`, dots and blanks."
    return [pod.problem(place, f"{what} is named {shown(name)}, which Kubernetes refuses: {LABEL}.", hint)]


def _one_of(pod: Pod, place: Place, value: Json, known: tuple[str, ...]) -> list[Problem]:
    """A text that is none of those that are known; for what is no text the schema has words."""
    if not isinstance(value, str) or value in ("", *known):
        return []
    told = f"Kubernetes knows {', '.join(known[:3])}."
    message = f"`{place[-1]}` is {shown(value)}, which Kubernetes refuses."
    return [pod.problem(place, message, f"{like(value, known)} {told}".strip())]


def _twice(pod: Pod, place: Place, items: Json, key: str, hint: str) -> list[Problem]:
    """The first value of a key that several items of a list have."""
    seen = Counter(item[key] for _, item in _mappings(items) if isinstance(item.get(key), str))
    twice = next((value for value, times in seen.items() if times > 1), None)
    if twice is None:
        return []
    return [
        pod.problem(
            place,
            f"`{place[-1]}` has the {key} {shown(twice)} more than once, which Kubernetes refuses.",
            hint,
        )
    ]


def _ports(pod: Pod, place: Place, ports: Json) -> list[Problem]:
    found = []
    for position, port in _mappings(ports):
        here: Place = (*place, position)
        found += _one_of(pod, (*here, "protocol"), port.get("protocol"), PROTOCOLS)
        for key, least in (("containerPort", 1), ("hostPort", 0)):
            number = whole(port.get(key))
            if number is not None and not least <= number <= 65535:
                message = f"`{key}` is {shown(number)}, which is no port: they are 1 to 65535."
                hint = "The operator's own is 23456; any from 1024 that nothing else uses will do."
                found.append(pod.problem((*here, key), message, hint))
        name = port.get("name")
        if isinstance(name, str) and name and (len(name) > 15 or not _PORT.fullmatch(name)):
            found.append(
                pod.problem(
                    (*here, "name"),
                    f"a port is named {shown(name)}, which Kubernetes refuses: at most 15 small letters, digits and "
                    "`-`, a letter among them.",
                    "The operator's own is called `pytorchjob-port`, which has just 15.",
                )
            )
    hint = "Give every port a name of its own, or none."
    return found + _twice(
        pod, place, [port for _, port in _mappings(ports) if port.get("name")], "name", hint
    )


def _env(pod: Pod, place: Place, env: Json) -> list[Problem]:
    return [
        pod.problem(
            (*place, position),
            f"{shown(entry.get('name'))} in `env` has both a `value` and a `valueFrom`, which Kubernetes refuses.",
            "Keep one of them: `value` is the text itself, `valueFrom` says where to look for it.",
        )
        for position, entry in _mappings(env)
        if entry.get("value") not in (None, "") and entry.get("valueFrom") is not None
    ][:1]


def _volumes(pod: Pod) -> list[Problem]:
    volumes = pod.get("volumes")
    hint = "Each volume has a name of its own, by which `volumeMounts` asks for it."
    found = _twice(pod, ("volumes",), volumes, "name", hint)
    for position, volume in _mappings(volumes):
        place: Place = ("volumes", position)
        found += _label(pod, (*place, "name"), volume.get("name"), "a volume")
        claim = pod.get(*place, "persistentVolumeClaim", "claimName")
        if isinstance(claim, str) and not is_subdomain(claim):
            found.append(
                pod.problem(
                    (*place, "persistentVolumeClaim", "claimName"),
                    f"`claimName` is {shown(claim)}, which no claim can be called: small letters, digits, `-` and `.`.",
                    "Write the name that `kubectl get pvc` shows; until there is such a claim the pod waits.",
                )
            )
        found += [*_sources(pod, place, volume), *_scratch(pod, (*place, "emptyDir"))]
    return found


def _sources(pod: Pod, place: Place, volume: dict[str, Json]) -> Iterator[Problem]:
    """Where a volume comes from: one place, and what that needs to be found."""
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    if len(sources) > 1:
        both = " and ".join(safe_line(source, 40) for source in sources[:3])
        yield pod.problem(
            place,
            f"the volume {shown(volume.get('name'))} comes from {both}; Kubernetes takes one source for each.",
            "Make two volumes of it, each with a name of its own, and mount both.",
        )
    for source in sources:
        given = volume[source]
        if not isinstance(given, dict):
            continue
        for key in _NEEDS.get(source, ()):
            if given.get(key) in (None, ""):
                yield pod.problem(
                    (*place, source), f"`{source}` has no `{key}`, without which Kubernetes refuses it.",
                    f"Write `{key}:` below `{source}:`, or `emptyDir: {{}}` for a folder that is empty at first.",
                )  # fmt: skip


def _scratch(pod: Pod, place: Place) -> list[Problem]:
    """What is wrong with an `emptyDir`."""
    empty, found = pod.get(*place), []
    for key, value in empty.items() if isinstance(empty, dict) else ():
        if key not in ("medium", "sizeLimit"):
            message = f"there is no field `{safe_line(key, 40)}` in `emptyDir`."
            hint = (
                "Did you mean `sizeLimit`?" if "size" in key.lower() else like(key, ("medium", "sizeLimit"))
            )
            hint = (
                hint or "An `emptyDir` has `medium` and `sizeLimit`, and may be left empty: `emptyDir: {}`."
            )
            return [pod.problem((*place, key), message, hint)]
        if key == "medium" and isinstance(value, str) and value and not _MEDIUM.fullmatch(value):
            hint = "Write `medium: Memory` for shared memory; left out, the folder lies on the node's disk."
            message = f"`medium` is {shown(value)}, which no node knows: the pod does not start."
            found.append(pod.problem((*place, key), message, hint))
        is_amount = (
            key == "sizeLimit" and isinstance(value, str | int | float) and not isinstance(value, bool)
        )
        amount = quantity(value) if is_amount else 0
        if amount is None or amount < 0:
            hint = "Write a number with a suffix of 1024 or of 1000: 16Gi or 16G."
            message = (
                f"`sizeLimit` is {shown(value)}, which is no quantity to Kubernetes: it refuses the file."
            )
            found.append(pod.problem((*place, key), message, hint))
    return found


def _tolerations(pod: Pod) -> list[Problem]:
    found = []
    for position, each in _mappings(pod.get("tolerations")):
        place: Place = ("tolerations", position)
        found += _one_of(pod, (*place, "operator"), each.get("operator"), OPERATORS)
        found += _one_of(pod, (*place, "effect"), each.get("effect"), EFFECTS)
        if each.get("operator") == "Exists" and isinstance(each.get("value"), str) and each["value"]:
            found.append(
                pod.problem(
                    (*place, "value"),
                    f"a toleration with `operator: Exists` has the value {shown(each['value'])}, which Kubernetes "
                    "refuses.",
                    "Exists fits whatever the value is: leave `value` out, or write `operator: Equal`.",
                )
            )
        elif each.get("operator") in (None, "", "Equal") and each.get("key") in (None, ""):
            found.append(
                pod.problem(
                    place,
                    "a toleration has no `key`, which Kubernetes refuses unless its `operator` is Exists.",
                    "Write the key of the taint, such as `nvidia.com/gpu`; `operator: Exists` alone tolerates all.",
                )
            )
    return found
