"""The manifests of exercise 8: what the judges say of tables of right and wrong values."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fixtures import build
from graders.launch import agreement, azure_script, background, commands
from graders.launch.azure import read_azure
from graders.launch.launcher import launcher_fault
from graders.launch.manifests import Claim, Problem, Reading
from graders.launch.pytorchjob import read_pytorchjob
from lockstep.wire import Json
from tests.effort import costs_at_most

EXERCISE = "launch"
JOB, AZURE = "launch/pytorchjob.yaml", "launch/azure_job.yml"


# The PyTorchJob

REFERENCE = (build.ROOT / "reference" / JOB).read_text()
REFERENCE_AZURE = (build.ROOT / "reference" / AZURE).read_text()


def reading(text: str, files: Mapping[str, bytes] | None = None) -> Reading:
    return read_pytorchjob({JOB: text.encode(), **(files or {})})


def job(
    master: Mapping[str, Json] | None = None, worker: Mapping[str, Json] | None = None, **spec: Json
) -> Any:
    """A small PyTorchJob; `master` and `worker` are merged over their containers, `spec` over the spec."""

    def replica(changes: Mapping[str, Json]) -> dict[str, Json]:
        container: dict[str, Json] = {"name": "pytorch", "image": "me/ddp:1", **changes}
        return {"replicas": 1, "template": {"spec": {"containers": [container]}}}

    replicas: dict[str, Json] = {"Master": replica(master or {}), "Worker": replica(worker or {})}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "ddp"},
        "spec": {"pytorchReplicaSpecs": replicas, **spec},
    }


def judged(value: Json) -> Reading:
    return reading(json.dumps(value))


def test_the_smallest_job_is_right() -> None:
    seen = judged(job())
    assert (seen.problems, seen.claim and seen.claim.worlds) == ([], {2})


@pytest.mark.parametrize("name", ["a", "ddp-1", "a" * 63])
def test_names_that_are_labels(name: str) -> None:
    value = job()
    value["metadata"]["name"] = name
    assert judged(value).problems == []


@pytest.mark.parametrize("name", ["", "1a", "-a", "a-", "A", "a_b", "a.b", "a" * 64, "a b", "ä"])
def test_names_that_are_no_labels(name: str) -> None:
    value = job()
    value["metadata"]["name"] = name
    (problem,) = judged(value).problems
    assert "DNS label" in problem.message


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pytorchjob", "Capitals count"),
        ("PytorchJob", "Capitals count"),
        ("MPIJob", "for a PyTorchJob only"),
        ("TrainJob", "Trainer v2"),
        ("Job", "no RANK"),
        ("Pod", "`kind: PyTorchJob`"),
        (None, "`kind: PyTorchJob`"),
        (3, "`kind: PyTorchJob`"),
    ],
)
def test_other_kinds_are_explained(kind: Json, words: str) -> None:
    (problem,) = judged({**job(), "kind": kind}).problems
    assert words in problem.hint


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"nvidia.com/gpu": 1}, ""),
        ({"nvidia.com/gpu": "2", "cpu": "500m", "memory": "1.5Gi"}, ""),
        ({"amd.com/gpu": 1}, ""),
        ({"nvidia.com/mig-1g.5gb": 1}, ""),
        ({"nvidia.com/gpu": 0}, ""),
        ({"nvidia.com/gpu": 1.5}, "whole number"),
        ({"nvidia.com/gpu": "all"}, "whole number"),
        ({"nvidia.com/gpu": "1Gi"}, "whole number"),
        ({"nvidia.com/gpu": -1}, "whole number"),
        ({"gpu": 1}, "no resource"),
        ({"GPU": 1}, "no resource"),
        ({"nvidia/gpu": 1}, "no resource"),
        ({"nvidia.com/gpus": 1}, "no resource"),
        ({"nvidia.com/gpu": True}, "boolean"),
        ({"nvidia.com/gpu": None}, "is empty"),
    ],
)
def test_gpu_limits(limits: Json, words: str) -> None:
    problems = judged(job(worker={"resources": {"limits": limits}})).problems
    assert (problems == []) == (words == "")
    assert words in " ".join(problem.message for problem in problems)


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["torchrun", "ddp_train.py", "--epochs", "3"], True),
        (["torchrun", "--brand-new", "ddp_train.py"], True),
        (["torchrun", "-m", "train"], True),
        (["torchrun", "$(SCRIPT)"], True),
        (["torchrun"], False),
        (["torchrun", "--training-data", "/data", "--epochs", "3"], False),
    ],
)
def test_torchrun_is_told_a_script(words: list[Json], right: bool) -> None:
    problems = judged(job(master={"command": words}, worker={"command": words})).problems
    assert ("told no script" not in " ".join(problem.message for problem in problems)) == right


C10D: list[Json] = ["torchrun", "--nnodes=2", "--rdzv-backend=c10d"]


@pytest.mark.parametrize(
    ("master", "worker", "spec", "alone"),
    [
        ([*C10D, "x.py"], {"command": [*C10D, "x.py"]}, {}, True),
        (["torchrun", "x.py"], {"command": ["sh", "-c", "torchrun --rdzv_backend c10d x.py"]}, {}, True),
        ([*C10D, "x.py"], {"command": [*C10D, "--rdzv-endpoint=$(MASTER_ADDR):29400", "x.py"]}, {}, False),
        ([*C10D, "x.py"], {"command": [*C10D, "$(OPTIONS)", "x.py"]}, {}, False),
        ([], {"command": [*C10D, "x.py"], "env": [{"name": "PET_RDZV_ENDPOINT", "value": "m:1"}]}, {}, False),
        ([], {"command": [*C10D, "x.py"], "envFrom": [{"configMapRef": {"name": "where"}}]}, {}, False),
        ([], {"command": ["sh", "-c", "PET_RDZV_ENDPOINT=$MASTER_ADDR:1 torchrun --rdzv-backend c10d x.py"]}, {}, False),
        ([], {"command": [*C10D, "x.py"]}, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}, False),
    ],
)  # fmt: skip
def test_c10d_has_to_be_told_where(
    master: list[Json], worker: Mapping[str, Json], spec: Mapping[str, Json], alone: bool
) -> None:
    problems = judged(job(master={"command": master}, worker=worker, **spec)).problems
    assert any("finds itself alone" in problem.message for problem in problems) == alone, problems


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("torchrun --nproc-per-nodes 2 x.py", "no such option"),
        ("torchrun --nproc_per 2 --nnode=1 --rdzv_end a:1 x.py", ""),
        ("torchrun --brand-new 2 x.py", ""),
        ("torchrun -m x.py -r 3 -t3", ""),
        ("python -m torch.distributed.launch --use_env x.py", ""),
        ("torchrun --rdzv-backend gloo x.py", "no rendezvous backend"),
        ("torchrun --rdzv-backend $(BACKEND) x.py", ""),
        ("torchrun train_noddp.py", "no process group"),
        ("python src/alone.py", "no process group"),
        ("python ./x.py", ""),
        ("python elsewhere.py", ""),
        ("./run.sh alone.py", ""),
    ],
)
def test_what_a_launcher_would_refuse_or_start_for_nothing(words: str, seen: str) -> None:
    start, files = (
        commands.start_in(words),
        {"src/alone.py": b"import torch", "x.py": b"import torch.distributed"},
    )
    assert start is not None
    fault = launcher_fault("It", start, Claim("job.yaml", frozenset({2, 4})), files)
    assert (fault is None) == (seen == ""), fault
    assert fault is None or seen in fault.message


def test_one_process_may_know_no_group() -> None:
    start = commands.start_in("python train_noddp.py")
    assert start is not None
    assert launcher_fault("It", start, Claim("job.yaml", frozenset({1})), {}) is None


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"name": "data", "persistentVolumeClaim": {"claimName": "lab", "readOnly": True}}, ""),
        ({"name": "data", "emptyDir": {}}, ""),
        ({"name": "dta", "emptyDir": {}}, 'mounts "data", but `volumes`'),
        (None, 'mounts "data", but `volumes`'),
        ({"name": "data", "persistentVolumeClaim": {}}, "claimName"),
    ],
)
def test_what_is_mounted_is_a_volume_of_the_pod(volume: Json, words: str) -> None:
    made = job(worker={"volumeMounts": [{"name": "data", "mountPath": "/data"}]})
    if volume is not None:
        made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"] = [volume]
    problems = judged(made).problems
    assert (problems == []) == (words == ""), problems
    assert words in " ".join(problem.message for problem in problems)


CLAIM: Json = {"claimName": "lab.data-1"}
POD_VALUES: list[tuple[str, Json, str]] = [
    # a field of the Worker's pod or (.name) of its container, its value, words of a problem
    (".imagePullPolicy", "Always", ""),
    (".imagePullPolicy", "", ""),
    (".imagePullPolicy", "always", '`imagePullPolicy` is "always", which Kubernetes refuses'),
    (".imagePullPolicy", "OnFailure", "`imagePullPolicy`"),
    (".ports", [{"name": "pytorchjob-port", "containerPort": 23456, "protocol": "TCP"}, {"containerPort": 1, "hostPort": 0}], ""),
    (".ports", [{"name": "0a", "containerPort": 65535, "protocol": ""}, {"name": "", "containerPort": 2}, {"name": "", "containerPort": 3}], ""),
    (".ports", [{"name": "pytorch-job-port", "containerPort": 23456}], 'a port is named "pytorch-job-port"'),
    (".ports", [{"name": "Port", "containerPort": 23456}], "a port is named"),
    (".ports", [{"name": "job_port", "containerPort": 23456}], "a port is named"),
    (".ports", [{"name": "23456", "containerPort": 23456}], "a port is named"),
    (".ports", [{"name": "a--b", "containerPort": 23456}], "a port is named"),
    (".ports", [{"name": "-a", "containerPort": 23456}], "a port is named"),
    (".ports", [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}], '`ports` has the name "a" more than once'),
    (".ports", [{"containerPort": 0}], "`containerPort` is 0, which is no port"),
    (".ports", [{"containerPort": 65536}], "`containerPort` is 65536"),
    (".ports", [{"containerPort": 1, "hostPort": -1}], "`hostPort` is -1"),
    (".ports", [{"containerPort": 1, "protocol": "tcp"}], '`protocol` is "tcp"'),
    (".env", [{"name": "A", "value": "", "valueFrom": {"fieldRef": {}}}, {"name": "B", "value": "b"}], ""),
    (".env", [{"name": "A", "value": "a", "valueFrom": {"fieldRef": {}}}], '"A" in `env` has both'),
    (".volumeMounts", [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/more", "subPath": "m"}], ""),
    (".volumeMounts", [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/data"}], 'the mountPath "/data" more than once'),
    ("volumes", [{"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}], ""),
    ("volumes", [{"name": "data", "emptyDir": None}, {"name": "pages", "emptyDir": {"medium": "HugePages-2Mi"}}], ""),
    ("volumes", [{"name": "data", "emptyDir": {"medium": "", "sizeLimit": 1e9}}, {"name": "2", "hostPath": {"path": "/x"}}], ""),
    ("volumes", [{"name": "data", "emptyDir": {"medium": "memory"}}], '`medium` is "memory", which no node knows'),
    ("volumes", [{"name": "data", "emptyDir": {"medium": "Memory", "size": "16Gi"}}], "no field `size` in `emptyDir`"),
    ("volumes", [{"name": "data", "emptyDir": {"sizeLimit": "16GB"}}], '`sizeLimit` is "16GB"'),
    ("volumes", [{"name": "data", "emptyDir": {"sizeLimit": True}}], "the boolean true"),
    ("volumes", [{"name": "data", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": CLAIM}], '`volumes` has the name "data" more than once'),
    ("volumes", [{"name": "data", "persistentVolumeClaim": CLAIM}], ""),
    ("volumes", [{"name": "data", "persistentVolumeClaim": {"claimName": "Lab_data"}}], '`claimName` is "Lab_data"'),
    ("volumes", [{"name": "data", "persistentVolumeClaim": {"claimName": ""}}], '`claimName` is ""'),
    ("volumes", [{"name": "data", "persistentVolumeClaim": {"claimName": "<claim>"}}], "`claimName` is"),
    ("volumes", [{"name": "data", "emptyDir": None, "persistentVolumeClaim": CLAIM}], ""),
    ("volumes", [{"name": "data", "emptyDir": {}, "persistentVolumeClaim": CLAIM}], "comes from emptyDir and persistentVolumeClaim"),
    ("volumes", [{"name": "data", "hostPath": {"type": "Directory"}}], "`hostPath` has no `path`"),
    ("volumes", [{"name": "data", "nfs": {"server": "files", "path": "/data"}}], ""),
    ("volumes", [{"name": "data", "nfs": {"path": "/data"}}], "`nfs` has no `server`"),
    ("volumes", [{"name": "data", "secret": {"name": "keys"}}], "`secret` has no `secretName`"),
    ("volumes", [{"name": "data", "configMap": {"name": "code"}}, {"name": "more", "csi": {"driver": "x"}}], ""),
    ("volumes", [{"name": "data", "emptyDir": {}}, {"name": "my_data", "emptyDir": {}}], 'a volume is named "my_data"'),
    ("initContainers", [{"name": "fetch-0", "image": "me/fetch:1", "imagePullPolicy": "Never"}], ""),
    ("initContainers", [{"name": "fetch_data", "image": "me/fetch:1"}], 'a container is named "fetch_data"'),
    ("initContainers", [{"name": "fetch", "image": "me/fetch:1", "imagePullPolicy": "Sometimes"}], "`imagePullPolicy`"),
    ("containers", [{"name": "pytorch", "image": "me/ddp:1"}, {"name": "a" * 63, "image": "me/log:1"}], ""),
    ("containers", [{"name": "pytorch", "image": "me/ddp:1"}, {"name": "Log", "image": "me/log:1"}], 'a container is named "Log"'),
    ("containers", [{"name": "pytorch", "image": "me/ddp:1"}, {"name": "pytorch", "image": "me/log:1"}], "more than once"),
    ("nodeSelector", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "gpu": "", "a_B.c": "1"}, ""),
    ("nodeSelector", {"gpu type": "a100"}, '`nodeSelector` has the key "gpu type"'),
    ("nodeSelector", {"gpu": "NVIDIA A100"}, '"NVIDIA A100" for `gpu`'),
    ("nodeSelector", {"Nvidia.com/gpu": "a100"}, "has the key"),
    ("nodeSelector", {"/gpu": "a100"}, "has the key"),
    ("tolerations", [{"operator": "Exists"}, {"key": "a", "value": "b"}, {"key": "a", "operator": "", "value": "", "effect": ""}], ""),
    ("tolerations", [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 3}], ""),
    ("tolerations", [{"key": "a", "operator": "Exists", "value": "", "effect": "PreferNoSchedule"}], ""),
    ("tolerations", [{"key": "a", "operator": "exists", "effect": "NoSchedule"}], '`operator` is "exists"'),
    ("tolerations", [{"key": "a", "operator": "Equals", "value": "b"}], "`operator` is"),
    ("tolerations", [{"key": "a", "operator": "Exists", "effect": "NoScheduling"}], '`effect` is "NoScheduling"'),
    ("tolerations", [{"key": "a", "operator": "Exists", "value": "present"}], 'has the value "present"'),
    ("tolerations", [{"value": "present"}], "a toleration has no `key`"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value", "words"), POD_VALUES)
def test_values_that_the_api_server_looks_at(place: str, value: Json, words: str) -> None:
    made = job()
    pod = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["volumes"] = [{"name": "data", "emptyDir": {}}]
    (pod["containers"][0] if place.startswith(".") else pod)[place.removeprefix(".")] = value
    problems = judged(made).problems
    assert len(problems) == (words != ""), problems
    assert words in " ".join(problem.message for problem in problems)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"namespace": "lab-1"}, ""),
        ({"namespace": "1"}, ""),
        ({"namespace": ""}, ""),
        ({"namespace": "my_lab"}, '`metadata.namespace` is "my_lab"'),
        ({"namespace": "Lab"}, "`metadata.namespace`"),
        ({"namespace": "lab.one"}, "`metadata.namespace`"),
        ({"namespace": "<namespace>"}, "`metadata.namespace`"),
        ({"labels": {"app.kubernetes.io/name": "DDP_train.1", "empty": "", "a": "a" * 63}}, ""),
        ({"labels": {"course": "deep learning"}}, '`labels` has "deep learning" for `course`'),
        ({"labels": {"owner": "me@example.org"}}, '`labels` has "me@example.org"'),
        ({"labels": {"run": "-1"}}, '`labels` has "-1"'),
        ({"labels": {"run": "a" * 64}}, "which is no label's value"),
        ({"labels": {"my course": "a"}}, '`labels` has the key "my course"'),
        ({"annotations": {"Example.org/Who": "me@example.org, and others", "b": ""}}, ""),
        ({"annotations": {"who is it": "me"}}, '`annotations` has the key "who is it"'),
    ],
)
def test_labels_and_namespaces(metadata: dict[str, Json], words: str) -> None:
    for of_the_job in (True, False):
        made = job()
        template = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
        (made if of_the_job else template).setdefault("metadata", {}).update(metadata)
        problems = judged(made).problems
        if of_the_job or "namespace" not in metadata:
            assert len(problems) == (words != ""), problems
            assert words in " ".join(problem.message for problem in problems)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("annotations",), "false", ""),
        (("annotations",), "False", ""),
        (("labels",), "false", ""),
        (("annotations",), "true", 'expected the text "false"'),
        (("annotations",), False, "the boolean false"),
        (("labels",), True, "the boolean true"),
    ],
)
def test_sidecars(place: tuple[str], value: Json, words: str) -> None:
    made = job()
    for role in ("Master", "Worker"):
        template = made["spec"]["pytorchReplicaSpecs"][role]["template"]
        template["metadata"] = {place[0]: {"sidecar.istio.io/inject": value}}
    seen = judged(made)
    assert (seen.problems == []) == (words == "")
    assert words in " ".join(problem.message for problem in seen.problems)
    assert seen.notes == []


def test_a_job_without_a_word_of_istio_is_told_none() -> None:
    assert judged(job()).problems == judged(job()).notes == []


def test_an_annotation_of_the_job_itself_has_no_effect() -> None:
    value = job()
    value["metadata"]["annotations"] = {"sidecar.istio.io/inject": "false"}
    seen = judged(value)
    assert seen.problems == []
    assert "no effect" in seen.notes[0]


STARTS: list[tuple[list[str], Mapping[str, Json], set[int], str]] = [
    # command, spec, processes in both pods, words of a problem
    ([], {}, {2}, ""),
    ([], {"nprocPerNode": "2"}, {2, 3, 4}, ""),
    (["python", "x.py"], {}, {2}, ""),
    (["python", "x.py"], {"nprocPerNode": "2"}, {2}, "starts `python` once"),
    (["python", "x.py"], {"nprocPerNode": "auto"}, {2}, ""),
    (["./start.sh"], {}, {2}, ""),
    (["torchrun", "x.py"], {"nprocPerNode": "4"}, {8}, ""),
    (["torchrun", "x.py"], {"nprocPerNode": "xpu"}, set(), ""),
    (["torchrun", "x.py"], {"nprocPerNode": "2x"}, set(), "torchrun does not understand"),
    (["torchrun", "--nproc-per-node=3", "x.py"], {"nprocPerNode": "2x"}, {6}, ""),
    (["python", "x.py"], {"nprocPerNode": "2x"}, {2}, ""),
    (["torchrun", "x.py"], {}, set(), ""),
    (["torchrun", "--nproc-per-node=3", "x.py"], {}, {6}, ""),
    (["torchrun", "--nproc_per_node", "gpu", "x.py"], {}, set(), ""),
    (["python", "-m", "torch.distributed.launch", "x.py"], {}, {2}, ""),
    (["python", "-m", "torch.distributed.launch", "--nproc_per_node=2", "x.py"], {}, {4}, ""),
    (["torchrun", "--nproc-per-node=1", "--node-rank=0", "x.py"], {}, {2}, "never meet"),
    (["torchrun", "--nproc-per-node=1", "--node-rank=1", "x.py"], {}, {2}, "but it is node 0"),
    (["torchrun", "--nproc-per-node=1", "--node-rank=0", "--rdzv-backend=c10d", "--rdzv-endpoint=$(MASTER_ADDR):9", "x.py"], {}, {2}, ""),
    (["torchrun", "--nproc-per-node=1", "--node-rank=$(RANK)", "x.py"], {}, {2}, ""),
    (["torchrun", "--nproc-per-node=1", "--node-rank=$RANK", "x.py"], {}, {2}, "no shell"),
    (["sh", "-c", "torchrun --nproc-per-node=1 --node-rank=$RANK x.py"], {}, {2}, ""),
    (["sh", "-c", "cd /code\nexport A=b\nexec torchrun --nproc-per-node 2 \\\n x.py > log 2>&1"], {}, {4}, ""),
    (["bash", "-lc", "pip install tqdm && OMP_NUM_THREADS=1 python3 -u x.py"], {}, {2}, ""),
    (["torchrun", "--standalone", "--nproc-per-node=1", "x.py"], {}, {2}, "group of its own"),
    (["torchrun", "--nproc-per-node=1", "--master-addr=localhost", "x.py"], {}, {2}, "finds itself alone"),
    (["torchrun", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:9", "x.py"], {}, {2}, "itself"),
    (["torchrun", "--nproc-per-node=1", "--rdzv-backend=c10d", "--master-addr=localhost", "x.py"], {}, {2}, "is then localhost"),
    (["torchrun", "--nproc-per-node=1", "--master-addr=$(MASTER_ADDR)", "x.py"], {}, {2}, ""),
    (["torchrun", "--nproc-per-node=1", "--rdzv-endpoint=ddp-master-0:29400", "x.py"], {}, {2}, ""),
    (["sh", "-c", "if [ $RANK = 0 ]; then torchrun --node-rank=0 --nproc-per-node=1 x.py; else torchrun --node-rank=1 "
      "--nproc-per-node=1 x.py; fi"], {}, {2}, ""),
    (["python", "-m", "accelerate.commands.launch", "x.py"], {"nprocPerNode": "2"}, {2, 3, 4}, ""),
    (["coverage", "run", "x.py"], {}, {2}, ""),
    (["./train"], {}, {2}, ""),
    (["train", "--epochs", "3"], {}, {2}, ""),
    (["tini", "--", "train"], {}, {2}, ""),
    (["bash", "start.sh", "-c", "3"], {}, {2}, ""),
    (["sh", "-c", "sleep 5 && exec ./train"], {}, {2}, ""),
    (["sh", "-c", "sleep 5; exec $CMD"], {}, {2}, ""),
    (["sh", "-c", ". ./train"], {}, {2}, ""),
    (["sh", "-c", "echo \"$(train)\""], {}, {2}, ""),
    (["sh", "-c", "cat x.py | python"], {}, {2}, ""),
    (["python", "-c", "from train import main; main()"], {}, {2}, ""),
    (["sleep", "infinity"], {}, {2}, "starts no training"),
    (["/usr/bin/tail", "-f", "/dev/null"], {}, {2}, "starts no training"),
    (["nvidia-smi"], {}, {2}, "starts no training"),
    (["sh", "-c", "nvidia-smi && ls 2>&1; while true; do sleep 30; done"], {}, {2}, "starts no training"),
    (["bash"], {}, {2}, "starts no training"),
    (["bash", "-l"], {}, {2}, "starts no training"),
    (["python"], {}, {2}, "starts no training"),
    (["python", "-m", "http.server"], {}, {2}, "starts no training"),
    (["python", "-c", "import torch; print(torch.cuda.is_available())"], {}, {2}, "starts no training"),
    (["torchrun x.py"], {}, {2}, "blanks and all"),
    (["/bin/sh -c", "torchrun x.py"], {}, {2}, "blanks and all"),
]  # fmt: skip


ALONE = '#!/bin/bash\nset -e\ncd /code\ntorchrun --standalone --nproc-per-node 2 ddp_train.py "$@"\n'
SCRIPTS = [
    # a script that is handed in as launch/start.sh, words of a problem where two pods or machines start it
    (ALONE, "`--standalone` in it"),
    (ALONE.replace("set -e", "# if there is one machine"), "`--standalone` in it"),
    (ALONE.replace("--standalone", ""), ""),
    (ALONE.replace("cd /code", 'if [ "$WORLD_SIZE" -gt 1 ]; then exec ./many.sh; fi'), ""),
    (ALONE + "torchrun --nnodes 2 ddp_train.py\n", ""),
    (ALONE.replace("torchrun", "[ $RANK = 0 ] && torchrun"), ""),
    ("python ddp_train.py\n", ""),
]


@pytest.mark.parametrize(("script", "words"), SCRIPTS)
def test_a_script_that_makes_pods_and_machines_train_alone(script: str, words: str) -> None:
    files = {"launch/start.sh": script.encode()}
    command = {"command": ["bash", "launch/start.sh"]}
    seen = reading(json.dumps(job(command, command)), files)
    assert words in " ".join(problem.message for problem in seen.problems)
    assert (seen.problems == []) == (words == "")
    machines = azure(
        json.dumps(azure_job(command="bash launch/start.sh", distribution=PYTORCH, resources=TWO)), **files
    )
    assert words in " ".join(problem.message for problem in machines.problems)
    assert (machines.problems == []) == (words == "")
    assert azure(json.dumps(azure_job(command="bash launch/start.sh")), **files).problems == []


def test_what_azure_sets_for_a_distribution_alone_is_a_note() -> None:
    said = [
        " ".join(azure(json.dumps(azure_job(command=PER_NODE, resources=TWO, **more))).notes)
        for more in (
            {},
            {"distribution": PYTORCH},
            {"environment_variables": {"MASTER_ADDR": "a", "NODE_RANK": "0"}},
        )
    ]
    assert ["$MASTER_ADDR is what Azure sets" in notes for notes in said] == [True, False, False]


@pytest.mark.parametrize(("command", "spec", "worlds", "words"), STARTS)
def test_what_pods_start_fits_what_they_are_told(
    command: list[str], spec: Mapping[str, Json], worlds: set[int], words: str
) -> None:
    changes = {"command": command} if command else {}
    seen = judged(job(changes, changes, **spec))
    assert (seen.problems == []) == (words == "")
    assert words in " ".join(problem.message for problem in seen.problems)
    assert seen.claim is not None
    assert seen.claim.worlds == worlds


def test_arguments_belong_to_the_command() -> None:
    changes: dict[str, Json] = {
        "command": ["torchrun"],
        "args": ["--nproc-per-node=2", "x.py", "--nproc-per-node=9"],
    }
    claim = judged(job(changes, changes)).claim
    assert claim is not None
    assert claim.worlds == {4}


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (["sh", "-c"], ['torchrun --nnodes=2 --nproc-per-node="$NPROC" --node-rank=$RANK x.py']),
        (["bash", "-c"], ["torchrun --nproc-per-node=${NPROC} x.py"]),
        (["torchrun", "--nproc-per-node=$(NPROC)", "x.py"], []),
    ],
)
def test_variables_of_the_container_are_put_in(command: list[str], args: list[str]) -> None:
    env: list[Json] = [
        {"name": "RANK_OF", "valueFrom": {}},
        {"name": "NPROC", "value": "2"},
        {"name": "R", "value": "9"},
    ]
    changes: dict[str, Json] = {"command": [*command], "args": [*args], "env": env}
    seen = judged(job(changes, changes))
    assert seen.claim is not None
    assert (seen.claim.worlds, seen.problems) == ({4}, [])


def test_the_master_alone_may_be_told_to_meet_at_its_own_address() -> None:
    def command(host: str) -> dict[str, Json]:
        words = (
            f"torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint={host}:29400 x.py"
        )
        return {"command": [*words.split()]}

    assert judged(job(command("localhost"), command("ddp-master-0"))).problems == []
    (problem,) = judged(job(command("ddp-master-0"), command("localhost"))).problems
    assert "finds itself alone" in problem.message
    shared = job(command("localhost"), command("localhost"))
    shared["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["hostNetwork"] = True
    assert judged(shared).problems == []


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("me/ddp", ""),
        ("localhost:5000/me/ddp:V1", ""),
        ("GHCR.io/me/ddp:latest", ""),
        ("me/ddp@sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865", ""),
        ("me/python:3.11", ""),
        ("python:3.11", "starts no training by itself"),
        ("docker.io/library/ubuntu", "starts no training by itself"),
        ("docker.io/pytorch/pytorch:latest", "starts no training by itself"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "starts no training by itself"),
        ("https://ghcr.io/me/ddp:1", "is an address"),
        ("docker://me/ddp:1", "is an address"),
        ("Me/ddp:1", "no capitals"),
        ("ghcr.io/Me/ddp:1", "no capitals"),
        ("localhost:5000/Ddp", "no capitals"),
    ],
)
def test_images(image: str, words: str) -> None:
    problems = judged(job(worker={"image": image})).problems
    assert (problems == []) == (words == ""), problems
    assert words in " ".join(problem.message for problem in problems)


def test_arguments_alone_are_for_what_an_image_starts() -> None:
    assert judged(job(worker={"image": "python:3.11", "args": ["python", "x.py"]})).problems == []


@pytest.mark.parametrize(
    "value",
    ["16Gi", "0.5", 0.5, 4, "500m", "1e3", "1E3", "+1", "1.", ".5", "2E", "1k", 1e22, "0", "1e-99999"],
)
def test_quantities(value: Json) -> None:
    assert judged(job(worker={"resources": {"requests": {"memory": value}}})).problems == []


@pytest.mark.parametrize(
    ("limits", "right"),
    [
        ({"memory": "512m"}, False),
        ({"memory": 16}, False),
        ({"memory": "16k"}, False),
        ({"memory": "1Mi"}, True),
        ({"memory": "0"}, True),
        ({"cpu": "500m"}, True),
    ],
)
def test_a_limit_in_which_nothing_starts(limits: Json, right: bool) -> None:
    assert (judged(job(worker={"resources": {"limits": limits}})).problems == []) == right


@pytest.mark.parametrize(
    ("limit", "words"),
    [("64Mi", "find no room"), ("100M", "find no room"), ("128Mi", ""), ("4Gi", ""), ("0", ""), ("many", "")],
)
def test_a_limit_in_which_torch_has_no_room(limit: str, words: str) -> None:
    value = job(worker={"resources": {"limits": {"memory": limit}}})
    assert words in " ".join(problem.message for problem in judged(value).slips)
    assert bool(judged(value).slips) == (words != "")
    # What stands beside the training may be small.
    pods = value["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    pods.insert(0, {"name": "proxy", "image": "me/proxy:1", "resources": pods[0].pop("resources")})
    assert judged(value).slips == []


@pytest.mark.parametrize(
    ("policy", "more", "words"),
    [
        ({"activeDeadlineSeconds": 5}, {}, "5 seconds, in which no training ends"),
        ({"activeDeadlineSeconds": 1}, {}, "is 1 second, in"),
        ({"activeDeadlineSeconds": 60}, {}, ""),
        ({"activeDeadlineSeconds": 3600, "schedulingPolicy": {"minAvailable": 2, "queue": "a"}}, {}, ""),
        ({"schedulingPolicy": {"minAvailable": 4}}, {}, "the job has 2 pods"),
        ({"schedulingPolicy": {"minAvailable": 4}}, {"elasticPolicy": {"maxReplicas": 4}}, ""),
        ({"schedulingPolicy": {"minAvailable": "4"}}, {}, ""),
        ({"schedulingPolicy": {}}, {}, ""),
    ],
)
def test_what_a_job_says_of_its_time_and_its_gang(policy: Json, more: dict[str, Json], words: str) -> None:
    slips = judged(job(runPolicy=policy, **more)).slips
    assert words in " ".join(problem.message for problem in slips)
    assert bool(slips) == (words != "")


def test_a_deadline_of_the_pods_alone() -> None:
    value = job()
    pod = value["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    assert judged(value).slips == []
    pod["activeDeadlineSeconds"] = 30
    (slip,) = judged(value).slips
    assert "Worker.template.spec.activeDeadlineSeconds` is 30 seconds" in slip.message


def mounts(**read_only: bool) -> list[Json]:
    """Mounts of one volume, by where they are below the root: `data__out` for /data/out."""
    paths = {name: f"/{name.replace('__', '/')}" for name in read_only}
    return [{"name": "a", "mountPath": paths[name], "readOnly": read_only[name]} for name in read_only]


@pytest.mark.parametrize(
    ("args", "mounted", "script", "words"),
    [
        ("--checkpoint /data/x.pt", mounts(data=True), None, "`--checkpoint /data/x.pt` is in a volume"),
        ("--checkpoint=/data/a//x.pt", mounts(out=False, data=True), None, "after the first epoch"),
        ("--report /data/x.json", mounts(data=True), b"args.report", "at its end"),
        ("--checkpoint /data/out/x.pt", mounts(data=False, data__out=True), None, "is in a volume"),
        ("--checkpoint /data/out/x.pt", mounts(data__out=False, data=True), None, ""),
        ("--checkpoint /data/x.pt", mounts(data=False), None, ""),
        ("--checkpoint /data/x.pt", [{"name": "a", "mountPath": "/data"}], None, ""),
        ("--checkpoint /data/x.pt", [*mounts(data=True), {"name": "b", "mountPath": "//data"}], None, ""),
        ("--checkpoint /data/x.pt", [*mounts(data=True), 3], None, ""),
        ("--checkpoint /data2/x.pt", mounts(data=True), None, ""),
        ("--checkpoint /data/../out/x.pt", mounts(data=True), None, ""),
        ("--checkpoint /data/$RUN/x.pt", mounts(data=True), None, ""),
        ("--checkpoint x.pt", mounts(data=True), None, ""),
        ("--checkpoint /data/x.pt --checkpoint /tmp/x.pt", mounts(data=True), None, ""),
        ("--training-data /data", mounts(data=True), None, ""),
        ("--checkpoint /data/x.pt", None, None, ""),
        ("--checkpoint /data/x.pt", mounts(data=True), b"parser.parse_known_args()", ""),
        ("--checkpoint /data/x.pt", mounts(data=True), b"args.checkpoint\nexcept OSError:", ""),
        (
            "--checkpoint /data/x.pt",
            mounts(data=True),
            b"args.checkpoint\nexcept ImportError:",
            "is in a volume",
        ),
    ],
)
def test_what_is_written_into_a_volume_that_is_read(
    args: str, mounted: Json, script: bytes | None, words: str
) -> None:
    container = {"command": ["torchrun", "ddp_train.py"], "args": args.split(), "volumeMounts": mounted}
    volumes: list[Json] = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]
    value = job(container, container)
    pods = value["spec"]["pytorchReplicaSpecs"]
    for role in pods:
        pods[role]["template"]["spec"]["volumes"] = volumes
    files = {} if script is None else {"ddp_train.py": script}

    def told() -> str:
        slips = read_pytorchjob({JOB: json.dumps(value).encode(), **files}).slips
        return " ".join(slip.message for slip in slips)

    assert (told() == "") == (words == "")
    assert words in told()
    # Rank 0 may be in the Master.
    pods["Master"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts(data=False)
    assert told() == ""


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never", "ExitCode", None])
def test_pods_that_begin_anew_are_a_note(policy: str | None) -> None:
    value = job()
    value["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = policy
    seen = judged(value)
    assert (any("has no end" in note for note in seen.notes), seen.slips) == (policy == "Always", [])


TWO = ["--epochs", "3"]


@pytest.mark.parametrize(
    ("command", "args", "words"),
    [
        (["bash", "-c", "torchrun x.py"], TWO, "does not reach the training"),
        (["sh", "-c"], ["cd /code; python x.py", *TWO], "does not reach the training"),
        (["sh", "-c", 'torchrun x.py "$@"', "sh"], TWO, ""),
        (["sh", "-c", "torchrun x.py ${*}"], TWO, ""),
        (["sh", "-c", "torchrun x.py $0 $1"], TWO, ""),
        (["sh", "-c", "shift; exec torchrun x.py"], TWO, ""),
        (["sh", "-c", "for word; do set -- x; done; torchrun x.py"], TWO, ""),
        (["sh", "-c", "torchrun x.py --epochs 3"], TWO, ""),
        (["sh", "-c", "torchrun x.py"], ["sh"], ""),
        (["sh", "-c", "exec ./train"], TWO, "does not reach the training"),
        (["sh", "start.sh"], TWO, ""),
        (["torchrun", "x.py"], ["--training-data /data --epochs 3"], "is one word"),
        (["torchrun", "x.py"], ["--training-data /data", "--epochs 3"], "is one word"),
        (["python", "x.py"], ["--epochs 3"], "is one word"),
        (["torchrun", "x.py"], ["--note", "--epochs 3 --lr 1"], ""),
        (["torchrun", "x.py"], ["--note=--epochs 3 --lr 1"], ""),
        (["torchrun", "x.py"], ["--name my run"], ""),
        (["./train"], ["--training-data /data --epochs 3"], ""),
        ([], ["--training-data /data --epochs 3"], ""),
    ],
)
def test_arguments_that_do_not_arrive(command: list[str], args: list[str], words: str) -> None:
    container: dict[str, Json] = {"args": args, **({"command": command} if command else {})}
    seen = judged(job(worker=container))
    assert seen.problems == []
    assert (seen.slips == []) == (words == "")
    assert words in " ".join(slip.message for slip in seen.slips)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("python x.py\n--epochs 3\n", "--epochs 3"),
        ("pip install tqdm\npython x.py \\\n  --lr 1\n  --epochs 3", "--epochs 3"),
        ("python x.py --epochs 3\n", None),
        ("python x.py \\\n  --epochs 3\n", None),
        ("python x.py \\\r\n  --epochs 3\n", None),
        ("python x.py '\n--epochs 3'", None),
        ("cat > a <<END\n--epochs 3\nEND\npython x.py @a", None),
    ],
)
def test_a_line_that_begins_with_an_option(command: str, line: str | None) -> None:
    assert commands.torn_line(command) == line


IN_THE_BACKGROUND = [
    "python x.py &",
    "nohup python x.py --data ${{inputs.a}} < /dev/null > outputs/log 2>&1 &",
    "python x.py &> log & echo $! > pid",
    "pip install x && cd code\nPYTHONPATH=. torchrun x.py | tee log &\necho started; exit 0",
    "(python x.py &)",
    "for rank in 0 1; do RANK=$rank python x.py & done",
    "tensorboard --logdir logs & python x.py --lr $(cat lr) --name 'a & b' & disown",
    "nohup bash -c 'torchrun x.py' &",
]
WAITED_FOR = [
    "python x.py",
    "python x.py & wait",
    "python x.py & pid=$!; wait $pid",
    "RANK=0 python x.py &\nRANK=1 python x.py &\nwait",
    "for rank in 0 1; do RANK=$rank python x.py & done; wait",
    "trap wait EXIT; python x.py &",
    "RANK=1 python x.py & RANK=0 python x.py",
    "tensorboard --logdir logs & python x.py",
    "python x.py; tensorboard --logdir logs &",
    "python x.py & tail -f log",
    "python x.py &\ntail --pid=$! -f /dev/null",
    "python x.py & while kill -0 $!; do sleep 5; done",
    "python x.py & sleep 10h; tensorboard --logdir logs &",
    "python x.py & fg",
    "python x.py & . ./finish.sh",
    "(python x.py &) | tee log",
    "for rank in 0 1; do RANK=$rank python x.py & done | tee log",
    "cd a && python x.py",
    "python x.py > log 2>&1",
    "python x.py &> log",
    "python x.py &>> log",
    "python x.py >& log",
    "python x.py |& tee log",
    "python x.py --name 'a & b'",
    'python x.py --name "it\'s \\" &"',
    "python x.py --name a\\&",
    "python x.py # &",
    "python x.py --name ${NAME:-a&b}",
    "python x.py --seed $((3 & 1))",
    "seen=$(python x.py &)",
    "python x.py > >(tee log) &",
    "run() { python x.py & }; run; tail -f log",
    "if true; then python x.py & fi",
    "bash <<END &\npython x.py\nEND",
    "bash -c 'python x.py & wait'",
]


@pytest.mark.parametrize(
    ("command", "is_left"),
    [*((command, True) for command in IN_THE_BACKGROUND), *((command, False) for command in WAITED_FOR)],
)
def test_a_command_that_ends_before_its_training(command: str, is_left: bool) -> None:
    problems = azure(json.dumps(azure_job(command=command))).problems
    assert any("in the background" in problem.message for problem in problems) == is_left


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("16GB", "`16Gi`"),
        ("16 Gi", "`16Gi`"),
        ("16gb", "`16Gi`"),
        ("1K", "`1Ki`"),
        ("four", "500m"),
        ("", "500m"),
        ("-1", "500m"),
        (-1, "500m"),
        ("1e", "500m"),
        ("1,5", "500m"),
        ("9" * 9000, "500m"),
    ],
)
def test_what_is_no_quantity(value: Json, hint: str) -> None:
    (problem,) = judged(job(worker={"resources": {"limits": {"memory": value}}})).problems
    assert "no quantity" in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize("value", [".inf", ".nan", "9" * 9000])
def test_numbers_that_are_no_quantity(value: str) -> None:
    answered(reading(REFERENCE.replace("nvidia.com/gpu: 2", f"memory: {value}")))


@pytest.mark.parametrize(
    ("key", "request_", "limit", "right"),
    [
        ("cpu", "500m", 1, True),
        ("cpu", 1, "1000m", True),
        ("cpu", "2", "1500m", False),
        ("memory", "16G", "16Gi", True),
        ("memory", "16Gi", "16G", False),
        ("memory", "64Gi", None, True),
        ("memory", "64Gi", "x", True),
    ],
)
def test_requests_are_at_most_the_limit(key: str, request_: Json, limit: Json, right: bool) -> None:
    limits = {} if limit is None else {key: limit}
    problems = judged(job(worker={"resources": {"limits": limits, "requests": {key: request_}}})).problems
    assert ("above its limit" not in " ".join(problem.message for problem in problems)) == right


@pytest.mark.parametrize(
    ("policy", "labels", "right"),
    [
        ({"suspend": False}, {}, True),
        ({"suspend": True}, {}, False),
        ({"suspend": True}, {"app": "ddp"}, False),
        ({"suspend": True}, {"kueue.x-k8s.io/queue-name": "lab"}, True),
        ({"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"}, {}, True),
    ],
)
def test_who_waits_has_a_queue(policy: Mapping[str, Json], labels: Json, right: bool) -> None:
    value = job(runPolicy={**policy})
    value["metadata"]["labels"] = labels
    assert (judged(value).problems == []) == right


@pytest.mark.parametrize("name", ["launch/pytorchjob.yml", "pytorchjob.yaml", "launch/k8s.yaml"])
def test_other_names_are_found_and_told(name: str) -> None:
    seen = read_pytorchjob({"launch/other.yaml": b"a: 1", name: REFERENCE.encode()})
    assert (seen.file, seen.problems) == (name, [])
    assert bool(seen.notes) == (not name.endswith("pytorchjob.yaml"))


def test_without_a_file_the_name_is_told() -> None:
    assert read_pytorchjob({"x.py": b""}).told()[0] == f"{JOB}: there is no such file."


def test_a_word_that_readers_differ_on_is_told() -> None:
    seen = reading(REFERENCE.replace("name: ddp-train", "name: on"))
    assert "is true to Kubernetes" in seen.notes[0]
    assert "`metadata.name` is the boolean true" in seen.told()[0]


def test_many_problems_are_told_in_order_and_counted() -> None:
    text = REFERENCE.replace("replicas: 1", 'replicas: "1"').replace("name: pytorch", "name: x")
    seen = reading(text.replace("kind: PyTorchJob", "kind: PyTorchJob\nfoo: 1"))
    message, hint = seen.told()
    assert message.startswith(f"{JOB}, line 6: there is no field `foo` at the top. Also, line ")
    assert message.endswith(f"And {len(seen.problems) - 3} more.")
    assert hint


# The Azure job


def azure(text: str, **files: bytes) -> Reading:
    seen = read_azure({AZURE: text.encode(), **files})
    assert seen is not None
    return seen


def azure_job(**changes: Json) -> dict[str, Json]:
    made: dict[str, Json] = {
        "type": "command",
        "command": "python ddp_train.py",
        "environment": "azureml:torch@latest",
        "compute": "azureml:gpu",
        **changes,
    }
    return {key: value for key, value in made.items() if value is not None}


TWO: Json = {"instance_count": 2}
PYTORCH: Json = {"type": "pytorch"}
PER_NODE = "torchrun --nnodes 2 --nproc-per-node 2 --node-rank $NODE_RANK --master-addr $MASTER_ADDR x.py"
HALF = "torchrun --nnodes 2 --nproc-per-node 2"
AZURE_JOBS: list[tuple[dict[str, Json], int | None, str]] = [
    # changes, processes (None: not told), words of a problem
    ({}, 1, ""),
    ({"type": None}, 1, ""),
    ({"type": "Command"}, 1, ""),
    ({"compute": None}, 1, ""),
    ({"compute": "local"}, 1, ""),
    ({"compute": "serverless"}, 1, ""),
    ({"compute": ["azureml:gpu"]}, 1, "names no cluster"),
    ({"environment": {"image": "x"}}, 1, ""),
    ({"environment": {"conda_file": "x"}}, 1, "neither"),
    ({"environment": {"image": None, "build": {"path": "docker"}}}, 1, ""),
    ({"environment": {"image": " "}}, 1, "names none"),
    ({"environment": {"image": "<image>", "conda_file": "x"}}, 1, "names none"),
    ({"environment": 3}, 1, "names none"),
    ({"command": ["python", "x.py"]}, None, "expected a command line"),
    ({"command": "bash run.sh"}, None, ""),
    ({"command": "export A=1; exec python -u x.py | tee log"}, 1, ""),
    ({"command": "python -m lfw"}, 1, ""),
    ({"command": "nvidia-smi"}, None, "starts no training"),
    ({"command": "make train"}, None, ""),
    ({"command": "wandb agent me/sweep/1"}, None, ""),
    ({"command": "./train --epochs 3"}, None, ""),
    ({"command": "$PYTHON x.py"}, None, ""),
    ({"command": "bash run.sh -c 3"}, None, ""),
    ({"command": "pip install . && bash -c 'exec \"$@\"' _ torchrun x.py"}, None, ""),
    ({"command": "python -c 'from train import main; main()'"}, None, ""),
    ({"command": "python -c '\nimport train\ntrain.main()\n'"}, None, ""),
    ({"command": "python -c 'import numpy, torch; print(torch.ones(1))'"}, None, "starts no training"),
    ({"command": "python -m json.tool x.json"}, None, "starts no training"),
    ({"command": "python -m cProfile -o profile x.py"}, 1, ""),
    ({"distribution": {"type": "pytorch"}, "resources": TWO}, 2, ""),
    ({"distribution": {"type": "PyTorch", "process_count_per_instance": 4}, "resources": TWO}, 8, ""),
    ({"distribution": {"process_count_per_instance": 2}, "resources": TWO}, 4, "expected pytorch"),
    ({"distribution": {"type": "pytorch", "process_count_per_instance": 0}}, 1, "from 1"),
    ({"distribution": {"type": "mpi", "process_count_per_instance": 2}}, 2, "RANK and WORLD_SIZE"),
    ({"distribution": {"type": "tensorflow", "worker_count": 2}}, 1, "RANK and WORLD_SIZE"),
    ({"command": PER_NODE, "distribution": {"type": "pytorch"}, "resources": TWO}, 4, ""),
    ({"command": PER_NODE, "distribution": {"type": "mpi"}, "resources": TWO}, 4, ""),
    ({"command": PER_NODE.replace("$NODE_RANK", "0"), "distribution": {"type": "pytorch"}, "resources": TWO}, 4, "every machine"),
    ({"command": PER_NODE.replace("$MASTER_ADDR", "localhost"), "distribution": {"type": "pytorch"}, "resources": TWO}, 4, "takes for itself"),
    ({"command": f"if [ $NODE_RANK = 0 ]; then {PER_NODE.replace('$NODE_RANK', '0')}; else {PER_NODE.replace('$NODE_RANK', '1')}; fi", "resources": TWO}, 4, ""),
    ({"command": f"{HALF} x.py", "resources": TWO}, 4, "--master-addr, which is then 127.0.0.1"),
    ({"command": f"{HALF} x.py", "resources": TWO, "distribution": {"type": "pytorch"}}, 4, "--master-addr"),
    ({"command": f"{HALF} --master-addr $MASTER_ADDR x.py", "resources": TWO}, 4, "--node-rank, which is then 0"),
    ({"command": f"{HALF} --rdzv-endpoint $MASTER_ADDR:1 x.py", "resources": TWO}, 4, "--node-rank, which is then 0"),
    ({"command": f"{HALF} --rdzv-backend c10d x.py", "resources": TWO}, 4, "--rdzv-endpoint, which is then localhost"),
    ({"command": f"{HALF} --rdzv-backend c10d --master-addr $MASTER_ADDR x.py", "resources": TWO}, 4, "which is then localhost"),
    ({"command": f"{HALF} --rdzv-backend c10d --rdzv-endpoint [::1]:29400 x.py", "resources": TWO}, 4, "takes for itself"),
    ({"command": f"{HALF} --rdzv-backend c10d --rdzv-endpoint $MASTER_ADDR --master-addr localhost x.py", "resources": TWO}, 4, ""),
    ({"command": f"{HALF} --rdzv-backend etcd x.py", "resources": TWO}, 4, ""),
    ({"command": f"{HALF} $WHERE x.py", "resources": TWO}, 4, ""),
    ({"command": f"export PET_MASTER_ADDR=$MASTER_ADDR PET_NODE_RANK=$NODE_RANK; {HALF} x.py", "resources": TWO}, 4, ""),
    ({"command": f"{HALF} --node-rank $NODE_RANK x.py", "environment_variables": {"PET_MASTER_ADDR": "first"}, "resources": TWO}, 4, ""),
    ({"command": "torchrun --nnode 2 --nproc-per 2 --node $NODE_RANK --master-a $MASTER_ADDR x.py", "resources": TWO}, 4, ""),
    ({"command": "torchrun --nnodes 2 --node-rank $NODE_RANK --master-addr $MASTER_ADDR x.py", "environment_variables": {"PET_NPROC_PER_NODE": "2"}, "resources": TWO}, 4, ""),
    ({"command": "PET_NPROC_PER_NODE=$N torchrun --nnodes 2 --node-rank $NODE_RANK --master-addr $MASTER_ADDR x.py", "resources": TWO}, None, ""),
    ({"command": "torchrun --standalone --nproc-per-node 4 x.py"}, 4, ""),
    ({"command": "torchrun --standalone --nproc-per-node gpu x.py"}, None, ""),
    ({"resources": TWO}, 2, "no `distribution`"),
    ({"resources": {"instance_count": True}}, 1, "whole number"),
    ({"resources": {"node_count": 2}}, 1, "`node_count`"),
    ({"comand": "x"}, 1, "`comand`"),
    ({"course": "x"}, 1, ""),
    ({"$schema": "https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json"}, None, "commandJob.schema.json"),
    ({"command": "python x.py --data ${{inputs.data}}", "inputs": {"data": {"type": "uri_folder", "path": "x"}}}, 1, ""),
    ({"inputs": {"data": {"type": "uri_file"}}}, 1, "`inputs.data` is a uri_file without"),
    ({"inputs": {"data": {"type": "MLTable", "path": ""}}}, 1, "`inputs.data` is a mltable without"),
    ({"inputs": {"data": {"mode": "ro_mount"}, "lr": {"type": "number"}}}, 1, ""),
    ({"command": "python x.py --data ${{inputs.data}}", "inputs": {"dta": 1}}, 1, "`inputs.data`"),
    ({"inputs": {"data": {"type": "URI_Folder", "path": "azureml:x@latest"}, "epochs": 3}}, 1, ""),
    ({"inputs": {"lr": {"type": "number", "default": 0.1}, "run": {"value": "x"}, "none": None}}, 1, ""),
    ({"inputs": {"data": {"type": "uri_dir", "path": "azureml:x@latest"}}}, 1, '`inputs.data.type` is "uri_dir"'),
    ({"inputs": {"data": {"type": "folder", "path": "azureml:x@latest"}}}, 1, '"folder", which Azure refuses'),
    ({"inputs": {"data": {"type": "uri_folder", "path": "azureml:x"}}}, 1, '`inputs.data.path` is "azureml:x", without a version'),
    ({"inputs": {"data": {"path": "azureml:x:"}}}, 1, "without a version"),
    ({"inputs": {"data": {"path": "azureml:x:1"}, "more": {"path": "azureml://datastores/a/paths/b"}}}, 1, ""),
    ({"inputs": {"data": {"path": "azureml:/subscriptions/a/x"}, "more": {"path": "${{inputs.data}}"}, "x": "azureml:x"}}, 1, ""),
    ({"inputs": {"data": {"type": "uri_folder", "path": "x", "mode": "mount"}}}, 1, '`inputs.data.mode` is "mount"'),
    ({"inputs": {"data": {"type": "uri_folder", "path": "x", "mode": "eval_mount"}}}, 1, '`inputs.data.mode` is "eval_mount"'),
    ({"inputs": {"data": {"path": "x", "mode": "rw_mount"}}}, 1, '`inputs.data.mode` is "rw_mount"'),
    ({"inputs": {"data": {"path": "x", "mode": 3}}}, 1, "`inputs.data.mode` is 3"),
    ({"inputs": {"data": {"type": "mltable", "path": "x", "mode": "eval_mount"}, "more": {"path": "x", "mode": "eval_download"}}}, 1, ""),
    ({"inputs": {"data": {"type": "custom_model", "path": "x", "mode": "Direct"}, "more": {"path": "x", "mode": "RO_MOUNT"}}}, 1, ""),
    ({"command": "python x.py --data ${{inputs.cifar-10}}", "inputs": {"cifar-10": {"path": "x"}}}, 1, ""),
    ({"command": "python x.py --data ${{inputs.cifar-10}}", "inputs": {"cifar": {"path": "x"}}}, 1, "`inputs.cifar-10`"),
    ({"environment": "azureml:torch"}, 1, '`environment` is "azureml:torch", without a version'),
    ({"environment": "azureml:torch@"}, 1, "without a version"),
    ({"environment": "azureml:torch:1"}, 1, ""),
    ({"environment": "azureml:AzureML-acpt-pytorch-2.2-cuda12.1"}, 1, ""),
    ({"environment": "azureml://registries/azureml/environments/acpt/labels/latest"}, 1, ""),
    ({"environment": "azureml:/subscriptions/a/environments/b/versions/1"}, 1, ""),
    ({"limits": {"timeout": 3600}}, 1, ""),
    ({"limits": {"timeout": "3600"}}, 1, ""),
    ({"limits": {"timeout": "1h"}}, 1, '`limits.timeout` is "1h"'),
    ({"limits": {"timeout": "PT1H"}}, 1, '`limits.timeout` is "PT1H"'),
    ({"limits": {"timeout": True}}, 1, "`limits.timeout` is true"),
    ({"limits": 3600}, 1, "`limits` is 3600; expected a mapping"),
    ({"environment_variables": {"A": 1, "B": None}, "tags": {"a": "b"}}, 1, ""),
    ({"environment_variables": [{"A": "b"}]}, 1, "`environment_variables` is a list; expected a mapping"),
    ({"environment_variables": "A=b"}, 1, '`environment_variables` is "A=b"; expected a mapping'),
    ({"tags": ["lab", "ddp"]}, 1, "`tags` is a list; expected a mapping"),
    ({"outputs": {"a": None, "b": {}, "c": {"type": "URI_Folder", "mode": "rw_mount"}, "d": {"type": "mlflow_model"}}}, 1, ""),
    ({"outputs": {"model": {"type": "folder"}}}, 1, '`outputs.model.type` is "folder", which Azure refuses'),
    ({"outputs": {"model": "./outputs"}}, 1, '`outputs.model` is "./outputs"'),
    ({"outputs": ["model"]}, 1, "`outputs` is a list; expected a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "world", "words"), AZURE_JOBS)
def test_azure_jobs(changes: dict[str, Json], world: int | None, words: str) -> None:
    seen = azure(json.dumps(azure_job(**changes)))
    assert (seen.problems == []) == (words == ""), seen.problems
    assert words in " ".join(problem.message for problem in seen.problems)
    assert (set(seen.claim.worlds) if seen.claim else set()) == ({world} if world is not None else set())


@pytest.mark.parametrize(
    ("timeout", "is_told"), [(10, True), ("59", True), (0.5, True), (60, False), ("3600", False), (0, False)]
)
def test_a_time_in_which_no_azure_job_ends(timeout: Json, is_told: bool) -> None:
    seen = azure(json.dumps(azure_job(limits={"timeout": timeout})))
    assert (len(seen.slips), seen.problems) == (int(is_told), [])


def test_mpi_is_fine_for_who_reads_its_variables() -> None:
    value = azure_job(distribution={"type": "mpi", "process_count_per_instance": 2})
    script = {"ddp_train.py": b'rank = os.environ["OMPI_COMM_WORLD_RANK"]'}
    assert azure(json.dumps(value), **script).problems == []


OMPI_RANKS = "RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=${OMPI_COMM_WORLD_SIZE}"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"{OMPI_RANKS} python x.py", ""),
        (f"{OMPI_RANKS} \\\n  python x.py", ""),
        (f"export {OMPI_RANKS}\npython x.py", ""),
        (f"env {OMPI_RANKS} python x.py", ""),
        (f"set -a; {OMPI_RANKS}; python x.py", ""),
        (f"{OMPI_RANKS}\nexport RANK WORLD_SIZE\npython x.py", ""),
        (f"bash -c 'export {OMPI_RANKS} && python x.py'", ""),
        (
            'export RANK="$OMPI_COMM_WORLD_RANK" && export WORLD_SIZE="$OMPI_COMM_WORLD_SIZE" && python x.py',
            "",
        ),
        ("RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE python x.py", ""),
        # A shell's own variables are nobody else's.
        (f"{OMPI_RANKS}\npython x.py", "does not set RANK"),
        (
            "LOCAL_RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE python x.py",
            "does not set RANK",
        ),
        ("export RANK=$OMPI_COMM_WORLD_RANK; python x.py", "does not set RANK"),
        ("RANK=$RANK WORLD_SIZE=4 python x.py", "does not set RANK"),
    ],
)
def test_mpi_is_fine_for_a_command_that_hands_its_numbers_on(command: str, words: str) -> None:
    value = azure_job(command=command, distribution={"type": "mpi", "process_count_per_instance": 2})
    problems = azure(json.dumps(value)).problems
    assert (problems == []) == (words == "")
    assert words in " ".join(problem.message for problem in problems)


def test_code_that_is_not_where_it_is_looked_for_is_told() -> None:
    assert azure(REFERENCE_AZURE, **{"ddp_train.py": b""}).notes == []
    here = REFERENCE_AZURE.replace("code: ..", "code: .")
    (note,) = azure(here, **{"ddp_train.py": b""}).notes
    assert "launch/ddp_train.py is not there" in note
    assert azure(here).notes == []  # the script was not handed in: nothing to say


@pytest.mark.parametrize(
    ("command", "files", "words"),
    [
        ("python hello.py", ["ddp_train.py"], "no such file"),
        (
            "pip install -r requirements.txt && torchrun --standalone ./hello.py | tee log",
            ["x.py"],
            "no such file",
        ),
        ("python fashion_trainer.py", ["x.py"], ""),
        ("python hello.py", ["x.py", "hello.ipynb"], ""),
        ("python hello.py", ["x.py", "src/hello.py"], ""),
        ("python hello.py", ["launch/x.py", "README.md"], "was not handed in"),
        ("python -m hello", ["x.py"], ""),
        ("python /opt/hello.py", ["x.py"], ""),
        ("python $DIR/hello.py", ["x.py"], ""),
        ("python ../hello.py", ["x.py"], ""),
        ("cd src && python hello.py", ["x.py"], ""),
        ("git clone https://example.org/me && python me/hello.py", ["x.py"], ""),
        ("curl https://example.org/me.tar | tar x; python hello.py", ["x.py"], ""),
        ("echo 'import x' > hello.py; python hello.py", ["x.py"], ""),
        ("python x.py && python hello.py", ["x.py"], ""),
        ("bash -c 'tar xf a; python hello.py'", ["x.py"], ""),
    ],
)
def test_a_script_that_nobody_handed_in(command: str, files: list[str], words: str) -> None:
    seen = azure(json.dumps(azure_job(command=command, code="..")), **dict.fromkeys(files, b""))
    assert (seen.problems == []) == (words != "no such file"), seen.problems
    assert words in " ".join([*seen.notes, *(problem.message for problem in seen.problems)])
    assert any("handed in" in note for note in seen.notes) == (words == "was not handed in")


def test_a_script_elsewhere_than_in_code_is_not_looked_for() -> None:
    for code in ("../src", "../../all", "/data", "azureml:code:1", None):
        seen = azure(json.dumps(azure_job(command="python hello.py", code=code)), **{"x.py": b""})
        assert seen.problems == []


def call(of: str, *args: Json, **kwargs: Json) -> Json:
    return {"of": of, "set": [], "args": list(args), "kwargs": kwargs}


WHERE: dict[str, Json] = {"compute_target": {"of": "gpu"}, "environment": {"of": "get"}}
V1 = call("ScriptRunConfig", "..", "x.py", **WHERE)


@pytest.mark.parametrize(
    ("calls", "world", "words"),
    [
        ([V1, call("submit")], 1, ""),
        ([V1], 1, "submits nothing"),
        ([call("submit")], None, "no ScriptRunConfig"),
        ([call("ScriptRunConfig", "..", **WHERE), call("submit")], 1, "no `script`"),
        ([call("ScriptRunConfig", "..", "x.py"), call("submit")], 1, "no `compute_target`"),
        ([call("ScriptRunConfig", "..", "x.py", [], {"of": "RunConfiguration"}), call("submit")], 1, ""),
        *[
            (
                [call("ScriptRunConfig", script="x.py", **WHERE, distributed_job_config=job), call("submit")],
                world,
                words,
            )
            for job, world, words in (
                (call("PyTorchConfiguration", process_count=4, node_count=2), 4, ""),
                (call("PyTorchConfiguration", node_count=2), 2, ""),
                (call("PyTorchConfiguration", node_count=-2), None, "node_count=-2"),
                (call("PyTorchConfiguration", process_count=3, node_count=2), None, "process_count=3"),
                (call("PyTorchConfiguration", process_count={"of": "x"}), None, "process_count=a mapping"),
                (call("MpiConfiguration", process_count_per_node=2, node_count=2), 4, ""),
            )
        ],
        (
            [
                call(
                    "command",
                    command="python x.py",
                    environment="torch@latest",
                    compute="gpu",
                    instance_count=2,
                    distribution={"type": "PyTorch", "process_count_per_instance": 2},
                ),
                call("create_or_update"),
            ],
            4,
            "",
        ),
        *[
            (
                [
                    call(
                        "ScriptRunConfig",
                        command=f"torchrun --nnodes 2 {each} x.py".split(),
                        **WHERE,
                        distributed_job_config=call("PyTorchConfiguration", node_count=2),
                    ),
                    call("submit"),
                ],
                world,
                "",
            )
            for each, world in (("--nproc-per-node 2", 4), ("", 2), ("--nproc-per-node $N", None))
        ],
        (
            [
                call(
                    "CommandJob",
                    command="python x.py",
                    environment="torch:1",
                    resources=call("JobResourceConfiguration", instance_count=2),
                    distribution=call("PyTorchDistribution", process_count_per_instance=2),
                ),
                call("create_or_update"),
            ],
            4,
            "",
        ),
        ([call("command", command="python x.py", environment="torch:1"), call("create_or_update")], 1, ""),
        (
            [
                call("command", command="python x.py", environment=call("get"), compute=call("get")),
                call("create_or_update"),
            ],
            1,
            "",
        ),
        (
            [call("command", command="python x.py", environment="torch"), call("create_or_update")],
            1,
            "without a version",
        ),
        (
            [call("command", command="ls", environment="torch:1"), call("create_or_update")],
            None,
            "no training",
        ),
    ],
)
def test_scripts_over_an_sdk(calls: list[Json], world: int | None, words: str) -> None:
    seen = azure_script.read_script("launch/azure_job.py", {"calls": calls}, {})
    assert (seen.problems == []) == (words == ""), seen.problems
    assert words in " ".join(problem.message for problem in seen.problems)
    assert (set(seen.claim.worlds) if seen.claim else set()) == ({world} if world is not None else set())


def test_sdk_v1_is_told_that_its_support_ended() -> None:
    seen = azure_script.read_script("x.py", {"calls": [V1, call("submit")]}, {})
    assert "2026-06-30" in seen.notes[0]


# Commands


@pytest.mark.parametrize(
    ("text", "by", "script"),
    [
        ("torchrun x.py", "torchrun", "x.py"),
        ("/opt/conda/bin/torchrun --nnodes 2 -m pkg.train --nnodes 3", "torchrun", "pkg.train"),
        ("python3.11 -m torch.distributed.run --standalone x.py", "torchrun", "x.py"),
        ("python -u -X dev x.py -m y", "python", "x.py"),
        ("cd a && (python x.py)", "python", "x.py"),
        ("python x.py; echo done", "python", "x.py"),
        ("sh -c 'torchrun x.py'", "torchrun", "x.py"),
        ("accelerate launch x.py", "other", None),
        ("./train.py", "python", "./train.py"),
        ("python -c 'import x'", "other", None),
        ("python -c 'import torch; print(torch.cuda.is_available())'", None, None),
        ("python -c 'import torch.distributed'", "other", None),
        ("torchrun x.py; python -c 'print(1)'", "torchrun", "x.py"),
        ("python -um torch.distributed.run x.py", "torchrun", "x.py"),
        ("python3 -mtorch.distributed.run x.py", "torchrun", "x.py"),
        ("python $(which torchrun) --nnodes 2 x.py", "torchrun", "x.py"),
        ("`command -v torchrun` x.py", "torchrun", "x.py"),
        ("python -m accelerate.commands.launch x.py", "other", "accelerate.commands.launch"),
        ("python -m test", "python", "test"),
        ("python -m http.server", None, None),
        ("bash run.sh -c 3", "other", None),
        ("bash -ceuo pipefail 'torchrun x.py'", "torchrun", "x.py"),
        ("bash -c 'exec \"$@\"' _ torchrun x.py", "other", None),
        ("python x.py; ./upload", "python", "x.py"),
        ("./train", "other", None),
        ("/bin/ls", None, None),
        ("poetry run train", "other", None),
        ("pipenv run torchrun x.py", "torchrun", "x.py"),
        ("stdbuf -oL torchrun x.py", "torchrun", "x.py"),
        ("timeout -k 5 2h python x.py", "python", "x.py"),
        ("numactl --cpunodebind=0 --membind=0 torchrun x.py", "torchrun", "x.py"),
        ("env -u A B=1 bash -c 'torchrun x.py'", "torchrun", "x.py"),
        ("conda run --no-capture-output -n pt python x.py", "python", "x.py"),
        ("uv run python -m torch.distributed.run x.py", "torchrun", "x.py"),
        ("uv run -m torch.distributed.run x.py", "torchrun", "x.py"),
        ("uvx --from torch torchrun x.py", "torchrun", "x.py"),
        ("if ! torchrun x.py; then exit 1; fi", "torchrun", "x.py"),
        ("{ torchrun x.py; }", "torchrun", "x.py"),
        ("torchrun --no-python nice -n 5 python x.py", "torchrun", "x.py"),
        ("torchrun --no-python ./x", "torchrun", "./x"),
        ("nice pip install x", None, None),
        ("conda install torch", None, None),
        ("pip install x", None, None),
        ("python -m pip install x", None, None),
        ("python", None, None),
        ("torchrun", "torchrun", None),
        ("echo 'torchrun x.py", None, None),
        ("# torchrun x.py", None, None),
        ("", None, None),
    ],
)
def test_commands_are_read(text: str, by: str | None, script: str | None) -> None:
    start = commands.start_in(text)
    assert (start.by if start else None, start.script if start else None) == (by, script)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("torchrun x.py", ()),
        ("python x.py", ()),
        ("python x.py --lr '' b", ("--lr", "", "b")),
        ("torchrun --nnodes 2 x.py --data ${{inputs.a b}} 2>&1", ("--data", "$input")),
    ],
)
def test_what_a_command_gives_its_script(text: str, arguments: tuple[str, ...]) -> None:
    start = commands.start_in(text)
    assert start is not None
    assert start.arguments == arguments


@given(st.text(st.sampled_from("torchun python-m= \\'\"$;&|\n()#<>"), max_size=60))
def test_any_command_is_read(text: str) -> None:
    background.leaves_training(text)
    commands.start_in(text)
    commands.start_of(["sh", "-c", text])
    commands.start_of(text.split(" "))


@pytest.mark.parametrize(
    ("word", "by"),
    [
        ("env", "torchrun"),
        ("A=1", "torchrun"),
        ("if", "torchrun"),
        ("torchrun --no-python", "torchrun"),
        ("bash -c", "other"),
    ],
)
def test_words_that_start_each_other_by_the_thousand_are_read(word: str, by: str) -> None:
    start = commands.start_of([*(word.split() * 5000), "torchrun", "x.py"])
    assert start is not None
    assert start.by == by


# Agreement

MULTI = Claim("launch/torchrun_multi.sh", frozenset({4}), "2 nodes x 2 processes", 2)


@pytest.mark.parametrize(
    ("claim", "problems", "notes"),
    [
        (Claim("a", frozenset({4})), 0, 0),
        (Claim("a", frozenset({2, 4})), 0, 0),
        (Claim("a", frozenset({2}), nodes=2), 1, 0),
        (Claim("a", frozenset({2}), nodes=1), 0, 1),
        (Claim("a", frozenset({2}), nodes=1, may_be_alone=False), 1, 0),
        (Claim("a"), 0, 1),
        (Claim("a", frozenset({4}), odds=(Problem("x", "y"),)), 1, 0),
    ],
)
def test_claims_are_compared(claim: Claim, problems: int, notes: int) -> None:
    found, told = agreement.disagreements(MULTI, [claim])
    assert (len(found), len(told)) == (problems, notes)


def test_files_that_differ_from_one_are_told_in_one_sentence() -> None:
    first = Claim(MULTI.file, frozenset({8}), "2 nodes x 4 processes", 2)
    job = Claim("launch/pytorchjob.yaml", frozenset({4}), "2 pods x 2 processes", 2, hint="Every pod counts.")
    cluster = Claim("launch/train.slurm", frozenset({4}), "2 nodes x 2 processes", 2)
    [problem], _ = agreement.disagreements(first, [job, cluster])
    assert problem.message == (
        "launch/pytorchjob.yaml starts 4 processes (2 pods x 2 processes) and launch/train.slurm starts 4 processes "
        "(2 nodes x 2 processes), but launch/torchrun_multi.sh 8 processes (2 nodes x 4 processes)."
    )
    assert problem.hint.startswith("launch/torchrun_multi.sh stands alone")
    [problem], _ = agreement.disagreements(first, [job])
    assert problem.hint == "Every pod counts."


def report(*runs: tuple[Json, Json]) -> bytes:
    return json.dumps(
        {"runs": [{"config": {"world_size": world, "nnodes": nodes}} for world, nodes in runs]}
    ).encode()


@pytest.mark.parametrize(
    ("data", "problems", "notes"),
    [
        (None, 0, 0),
        (b"{", 0, 0),
        (b"[" * 100_000, 0, 0),
        (b"[]", 0, 0),
        (b'{"runs": [1, {"config": 3}, {}]}', 0, 0),
        (report(("4", 1), (True, 2)), 0, 0),
        (report((1, 1), (2, 1)), 0, 1),
        (report((1, None), (2, None)), 0, 1),
        (report((1, 1), (4, 1)), 0, 0),
        (report((1, 1), (4, 2)), 0, 0),
        (report((1, 1), (2, 2)), 1, 0),
        (report((8, 4)), 1, 0),
    ],
)
def test_a_report_of_one_node_contradicts_nothing(data: bytes | None, problems: int, notes: int) -> None:
    found, told = agreement.report_disagreements(data, MULTI)
    assert (len(found), len(told)) == (problems, notes)


# Large ones


def hostile(keys: int) -> Iterator[tuple[str, str]]:
    """Manifests that are as large as they may be, each in another place."""
    names = [f"k{number}elasticPolicy" for number in range(keys)]
    many: Json = dict.fromkeys(names, 1)
    yield "top", json.dumps({**job(), "spec": {**job()["spec"], **many}})
    yield "roles", json.dumps(job(pytorchReplicaSpecs=many))
    yield (
        "limits",
        json.dumps(job(worker={"resources": {"limits": dict.fromkeys([f"{n}gpu" for n in names], 1)}})),
    )
    yield "arguments", json.dumps(job(worker={"command": ["sh", "-c"], "args": ["torchrun;" * 1500] * 3}))
    yield (
        "containers",
        json.dumps(job()).replace('[{"name"', "[" + '{"name": "x"},' * (keys // 3) + '{"name"'),
    )
    yield "azure", json.dumps(azure_job(distribution=many, command="${{inputs.x}}" * 1000, inputs=many))


@pytest.mark.parametrize(("name", "text"), list(hostile(1200)))
def test_a_large_manifest_is_answered_soon(name: str, text: str) -> None:
    with costs_at_most(100):
        answered(reading(text))
        answered(read_azure({AZURE: text.encode()}))


def test_a_folder_full_of_manifests_is_answered_soon() -> None:
    files = {f"launch/{number}.yaml": b"[PyTorchJob, " * 10_000 for number in range(500)}
    with costs_at_most(100):
        assert read_pytorchjob(files).problems


# Whatever a manifest holds, a judge has an answer

ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Json, around: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if around:
        yield around
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*around, key))


@st.composite
def damaged(draw: st.DrawFn, whole: Json) -> Json:
    value: Any = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(list(places(value)) or [("x",)]))
        inner = value
        for step in path:
            inner = inner[step]
        inner[last] = draw(ODD)
    return value


WHOLE_JOB = yaml.safe_load(REFERENCE)
WHOLE_AZURE = yaml.safe_load(REFERENCE_AZURE)
ELASTIC = {**WHOLE_JOB, "spec": {**WHOLE_JOB["spec"], "elasticPolicy": {"minReplicas": 1, "nProcPerNode": 2}}}


def answered(seen: Reading | None) -> None:
    assert seen is not None
    if seen.problems:
        message, hint = seen.told()
        assert message
        assert hint
        assert len(message) < 4000
    agreement.disagreements(MULTI, [seen.claim] if seen.claim else [])


@given(damaged(WHOLE_JOB) | damaged(ELASTIC) | ODD)
def test_any_job_gets_an_answer(value: Json) -> None:
    answered(judged(value))


@given(damaged(WHOLE_AZURE) | ODD)
def test_any_azure_job_gets_an_answer(value: Json) -> None:
    answered(azure(json.dumps(value)))


CALLS: Json = {
    "calls": [
        call("ScriptRunConfig", "..", "x.py", **WHERE, distributed_job_config=call("PyTorchConfiguration", process_count=4)),
        call("command", command="python x.py", environment={"of": "E", "kwargs": {"image": "x"}}, instance_count=2),
        call("submit"),
    ]
}  # fmt: skip


@given(damaged(CALLS))
def test_any_forged_call_gets_an_answer(value: Json) -> None:
    answered(azure_script.read_script("x.py", value if isinstance(value, dict) else {}, {}))
