"""What is refused where the recordings do not show it: storage and workloads, with the original's words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.apiserver.lively import Json, Lively, workload

VOLUMES, CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
APPS, JOBS = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS, STATEFUL_SETS = f"{APPS}/deployments", f"{APPS}/statefulsets"

VOLUME: Json = {
    "metadata": {"name": "x"},
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
}
CLAIM: Json = {
    "metadata": {"name": "x"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
}
CLASS: Json = {"metadata": {"name": "x"}, "provisioner": "example.com/p"}
JOB: Json = {
    "metadata": {"name": "x"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
}
SAMPLES = {
    VOLUMES: VOLUME,
    CLAIMS: CLAIM,
    CLASSES: CLASS,
    DEPLOYMENTS: workload("Deployment", "x"),
    STATEFUL_SETS: workload("StatefulSet", "x", serviceName="x"),
    JOBS: JOB,
}


def changed(document: Json, changes: dict[str, Any]) -> Json:
    """The document with values put at dotted paths; None takes one away."""
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, last = path.split(".")
        part = document
        for name in parents:
            part = part.setdefault(name, {})
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
    return document


REFUSED_ON_CREATE = [
    (VOLUMES, {"spec.hostPath": None}, "spec: Required value: must specify a volume type"),
    (
        VOLUMES,
        {"spec.hostPath": None, "spec.local": {"path": "/x"}},
        "spec.nodeAffinity: Required value: Local volume requires node affinity",
    ),
    (
        VOLUMES,
        {"spec.accessModes": ["Once"]},
        'spec.accessModes: Unsupported value: "Once": supported values: "ReadOnlyMany", "ReadWriteMany", '
        '"ReadWriteOnce", "ReadWriteOncePod"',
    ),
    (
        VOLUMES,
        {"spec.persistentVolumeReclaimPolicy": "Keep"},
        'spec.persistentVolumeReclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Recycle", '
        '"Retain"',
    ),
    (
        CLAIMS,
        {"spec.accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]},
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
    ),
    (
        CLAIMS,
        {"spec.resources.requests.storage": "0"},
        'spec.resources[storage]: Invalid value: "0": must be greater than zero',
    ),
    (CLASSES, {"provisioner": None}, "provisioner: Required value"),
    (
        CLASSES,
        {"volumeBindingMode": "Later"},
        'volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"',
    ),
    (
        DEPLOYMENTS,
        {"spec.replicas": -1},
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        DEPLOYMENTS,
        {"spec.template.spec.restartPolicy": "Never"},
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    (
        DEPLOYMENTS,
        {"spec.strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
    ),
    (
        DEPLOYMENTS,
        {"spec.strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
]
REFUSED_ON_UPDATE = [
    (
        VOLUMES,
        {"spec.hostPath.path": "/y"},
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
    ),
    (VOLUMES, {"spec.volumeMode": "Block"}, 'spec.volumeMode: Invalid value: "Block": field is immutable'),
    (CLAIMS, {"spec.accessModes": ["ReadOnlyMany"]}, "spec: Forbidden: spec is immutable after creation except"),
    (
        CLAIMS,
        {"spec.resources.requests.storage": "1Gi"},
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity",
    ),
    (CLASSES, {"provisioner": "other"}, "provisioner: Forbidden: updates to provisioner are forbidden."),
    (
        CLASSES,
        {"volumeBindingMode": "WaitForFirstConsumer"},
        'volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable',
    ),
    (
        STATEFUL_SETS,
        {"spec.serviceName": "other"},
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
        "forbidden",
    ),
    (JOBS, {"spec.completions": 3}, "spec.completions: Invalid value: 3: field is immutable"),
]
ALLOWED_ON_UPDATE = [
    (VOLUMES, {"spec.persistentVolumeReclaimPolicy": "Delete", "spec.capacity.storage": "3Gi"}),
    (CLAIMS, {"spec.resources.requests.storage": "3Gi", "spec.volumeName": "v"}),
    (CLASSES, {"allowVolumeExpansion": True}),
    (STATEFUL_SETS, {"spec.replicas": 3, "spec.minReadySeconds": 5}),
    (JOBS, {"spec.parallelism": 2, "spec.suspend": True}),
]


def title(case: tuple[Any, ...]) -> str:
    return f"{case[0].rsplit('/', 1)[1]} {'+'.join(case[1])}"


@pytest.fixture(scope="module")
def cluster() -> Lively:
    return Lively(controllers=(), nodes=0)


@pytest.mark.parametrize(("path", "changes", "message"), REFUSED_ON_CREATE, ids=map(title, REFUSED_ON_CREATE))
def test_refused_on_create(cluster: Lively, path: str, changes: dict[str, Any], message: str) -> None:
    status, answer = cluster.ask("POST", path, changed(SAMPLES[path], changes))
    assert status == 422, answer
    assert message in answer["message"]


@pytest.mark.parametrize(("path", "changes", "message"), REFUSED_ON_UPDATE, ids=map(title, REFUSED_ON_UPDATE))
def test_refused_on_update(path: str, changes: dict[str, Any], message: str) -> None:
    cluster = Lively(controllers=(), nodes=0)
    made = cluster.ok("POST", path, SAMPLES[path])
    status, answer = cluster.ask("PUT", f"{path}/x", changed(made, changes))
    assert status == 422, answer
    assert message in answer["message"]


@pytest.mark.parametrize(("path", "changes"), ALLOWED_ON_UPDATE, ids=map(title, ALLOWED_ON_UPDATE))
def test_allowed_on_update(path: str, changes: dict[str, Any]) -> None:
    cluster = Lively(controllers=(), nodes=0)
    made = cluster.ok("POST", path, SAMPLES[path])
    wanted = changed(made, changes)
    assert cluster.ok("PUT", f"{path}/x", wanted)["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
