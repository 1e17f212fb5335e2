"""What the API server checks of a PyTorchJob before anybody else sees it: types and unknown fields.

Fields: kubeflow/training-operator v1.9, manifests/base/crds/kubeflow.org_pytorchjobs.yaml; those of pods and containers
from the Kubernetes API reference (PodSpec v1 core). The parts that no training job of a course goes into are left open.
kubectl refuses unknown fields since 1.27 (--validate=strict is what the server does by default).
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
OPEN: Schema = {"type": "object"}
TEXT_MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
QUANTITY: Schema = {"type": ["integer", "number", "string"]}


def fields(*required: str, **properties: Schema) -> Schema:
    """A mapping with these fields and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


def list_of(item: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": item}


def names(text: str, schema: Schema) -> dict[str, Schema]:
    """Several fields of one kind."""
    return dict.fromkeys(text.split(), schema)


METADATA = fields(
    **names("name generateName namespace", TEXT),
    **names("labels annotations", TEXT_MAP),
    **names("creationTimestamp deletionTimestamp finalizers ownerReferences managedFields uid", ANYTHING),
    **names("resourceVersion generation selfLink deletionGracePeriodSeconds", ANYTHING),
)

CONTAINER = fields(
    "name",
    **names("name image imagePullPolicy workingDir terminationMessagePath terminationMessagePolicy", TEXT),
    **names("restartPolicy", TEXT),
    **names("command args", list_of(TEXT)),
    env=list_of(fields("name", name=TEXT, value=TEXT, valueFrom=OPEN)),
    envFrom=list_of(OPEN),
    resources=fields(
        limits={"type": "object", "additionalProperties": QUANTITY},
        requests={"type": "object", "additionalProperties": QUANTITY},
        claims=list_of(OPEN),
    ),
    volumeMounts=list_of(
        fields(
            "name",
            "mountPath",
            **names("name mountPath subPath subPathExpr mountPropagation recursiveReadOnly", TEXT),
            readOnly=BOOLEAN,
        )
    ),
    ports=list_of(
        fields(
            "containerPort", **names("containerPort hostPort", WHOLE), **names("name protocol hostIP", TEXT)
        )
    ),
    **names("volumeDevices resizePolicy restartPolicyRules", list_of(OPEN)),
    **names("lifecycle livenessProbe readinessProbe startupProbe securityContext", OPEN),
    **names("stdin stdinOnce tty", BOOLEAN),
)

VOLUME: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        # Nothing behind it is a folder as well; what else may stand there is told with better words.
        "emptyDir": {"type": ["object", "null"], "properties": {"medium": TEXT, "sizeLimit": QUANTITY}},
        "persistentVolumeClaim": {
            "type": "object",
            "required": ["claimName"],
            "properties": {"claimName": TEXT, "readOnly": BOOLEAN},
        },
    },
}

POD = fields(
    "containers",
    containers=list_of(CONTAINER),
    initContainers=list_of(CONTAINER),
    volumes=list_of(VOLUME),
    imagePullSecrets=list_of(fields(name=TEXT)),
    nodeSelector=TEXT_MAP,
    tolerations=list_of(
        fields(**names("key operator value effect", TEXT), tolerationSeconds=WHOLE),
    ),
    **names(
        "restartPolicy serviceAccountName serviceAccount nodeName hostname subdomain schedulerName", TEXT
    ),
    **names("dnsPolicy priorityClassName preemptionPolicy runtimeClassName hostnameOverride", TEXT),
    **names("hostNetwork hostPID hostIPC hostUsers shareProcessNamespace setHostnameAsFQDN", BOOLEAN),
    **names("automountServiceAccountToken enableServiceLinks", BOOLEAN),
    **names("terminationGracePeriodSeconds activeDeadlineSeconds priority", WHOLE),
    **names("affinity securityContext dnsConfig overhead os resources workloadRef", OPEN),
    **names("hostAliases readinessGates topologySpreadConstraints ephemeralContainers", list_of(OPEN)),
    **names("resourceClaims schedulingGates", list_of(OPEN)),
)

REPLICA = fields(
    "template",
    replicas=WHOLE,
    restartPolicy=TEXT,
    template=fields("spec", metadata=METADATA, spec=POD),
)

RUN_POLICY = fields(
    **names("cleanPodPolicy managedBy", TEXT),
    **names("ttlSecondsAfterFinished activeDeadlineSeconds backoffLimit", WHOLE),
    suspend=BOOLEAN,
    schedulingPolicy=OPEN,
)

OUTDATED = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
"""Fields of `spec` in the pytorch-operator that came before; they moved to `runPolicy`."""

PYTORCHJOB = fields(
    "spec",
    **names("apiVersion kind", ANYTHING),
    metadata=METADATA,
    status=ANYTHING,
    spec=fields(
        "pytorchReplicaSpecs",
        # Which replicas there may be is the webhook's business, and told with better words.
        pytorchReplicaSpecs={"type": "object", "additionalProperties": REPLICA},
        nprocPerNode=TEXT,
        elasticPolicy=fields(
            **names("minReplicas maxReplicas nProcPerNode maxRestarts rdzvPort", WHOLE),
            **names("rdzvBackend rdzvId rdzvHost", TEXT),
            standalone=BOOLEAN,
            rdzvConf=list_of(fields(key=TEXT, value=TEXT)),
            metrics=list_of(OPEN),
        ),
        runPolicy=RUN_POLICY,
        **names(" ".join(OUTDATED), ANYTHING),
    ),
)
