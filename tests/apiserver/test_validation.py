"""What is refused where the recordings do not show it: storage and workloads, with the original's words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubesched.apiserver.rules.schedules import schedule_fault
from tests.apiserver.lively import Json, Lively, workload

VOLUMES, CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
APPS, JOBS = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS, STATEFUL_SETS = f"{APPS}/deployments", f"{APPS}/statefulsets"
SERVICES, REPLICATORS = ("/api/v1/namespaces/default/" + plural for plural in ("services", "replicationcontrollers"))
CONFIG_MAPS, SECRETS = ("/api/v1/namespaces/default/" + plural for plural in ("configmaps", "secrets"))
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"

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
SERVICE: Json = {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}}
REPLICATOR: Json = {
    "metadata": {"name": "x"},
    "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
}
CRON_JOB: Json = {
    "metadata": {"name": "x"},
    "spec": {"schedule": "*/5 0-6 1,15 JAN-mar ?", "jobTemplate": {"spec": JOB["spec"]}},
}
TWICE = [{"name": "a", "port": 80}, {"name": "b", "port": 80}]
SAMPLES = {
    SERVICES: SERVICE,
    REPLICATORS: REPLICATOR,
    CRON_JOBS: CRON_JOB,
    CONFIG_MAPS: {"metadata": {"name": "x"}, "data": {"a": "b"}},
    SECRETS: {"metadata": {"name": "x"}, "stringData": {"a": "b"}},
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
    (
        STATEFUL_SETS,
        {"spec.selector": {}},
        "spec.selector: Invalid value: {}: empty selector is invalid for statefulset",
    ),
    (SERVICES, {"spec.ports": None}, "spec.ports: Required value"),
    (SERVICES, {"spec": None}, "spec.ports: Required value"),
    (
        SERVICES,
        {"spec.ports": [{"port": 0}]},
        "[spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive, spec.ports[0].targetPort: "
        "Invalid value: 0: must be between 1 and 65535, inclusive]",
    ),
    (
        SERVICES,
        {"spec.ports": [{"port": 80}, {"port": 81, "name": "B"}]},
        '[spec.ports[0].name: Required value, spec.ports[1].name: Invalid value: "B": a lowercase RFC 1123 label must',
    ),
    (
        SERVICES,
        {"spec.ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81, "protocol": "QUIC"}]},
        '[spec.ports[1].name: Duplicate value: "a", spec.ports[1].protocol: Unsupported value: "QUIC": supported '
        'values: "SCTP", "TCP", "UDP"]',
    ),
    (
        SERVICES,
        {"spec.ports": TWICE},
        'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,'
        '"NodePort":0}',
    ),
    (
        SERVICES,
        {"spec.ports": [{"port": 80, "nodePort": 30080}]},
        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
    ),
    (
        SERVICES,
        {"spec.type": "NodePort", "spec.ports": [{"port": 80, "nodePort": 80}]},
        "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports "
        "is 30000-32767",
    ),
    (
        SERVICES,
        {
            "spec.type": "NodePort",
            "spec.ports": [{**port, "port": n, "nodePort": 30080} for n, port in enumerate(TWICE, 1)],
        },
        "spec.ports[1].nodePort: Duplicate value: 30080",
    ),
    (
        SERVICES,
        {"spec.clusterIP": "10.0.0"},
        'spec.clusterIPs[0]: Invalid value: "10.0.0": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    (
        SERVICES,
        {"spec.clusterIP": "10.0.0.1"},
        'spec.clusterIPs: Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1: provided IP is already '
        "allocated",
    ),
    (
        SERVICES,
        {"spec.clusterIP": "None", "spec.type": "NodePort"},
        "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
    ),
    (SERVICES, {"spec.type": "ExternalName"}, "spec.externalName: Required value"),
    (
        SERVICES,
        {"spec.type": "Other", "spec.sessionAffinity": "Cookie"},
        '[spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None", spec.type: '
        'Unsupported value: "Other": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]',
    ),
    (
        SERVICES,
        {"spec.selector": {"a b": "c"}},
        'spec.selector: Invalid value: "a b": name part must consist of alphanumeric characters',
    ),
    (REPLICATORS, {"spec.replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
    (
        REPLICATORS,
        {"spec.selector": {"app": "y"}},
        'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`',
    ),
    (REPLICATORS, {"spec.template.metadata": None}, "spec.selector: Required value"),
    (CRON_JOBS, {"spec.schedule": None}, "spec.schedule: Required value"),
    (CRON_JOBS, {"spec.schedule": "x"}, 'spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]'),
    (
        CRON_JOBS,
        {"spec.schedule": "0 24 * * *"},
        'spec.schedule: Invalid value: "0 24 * * *": end of range (24) above maximum (23): 24',
    ),
    (
        CRON_JOBS,
        {"spec.concurrencyPolicy": "Maybe"},
        'spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"',
    ),
    (
        CRON_JOBS,
        {"spec.jobTemplate.spec.template.spec.restartPolicy": "Always"},
        'spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ),
    (
        CONFIG_MAPS,
        {"data.a b": "c"},
        'data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric',
    ),
    (CONFIG_MAPS, {"data": {"..": "c"}}, "data[..]: Invalid value: \"..\": must not be '..'"),
    (CONFIG_MAPS, {"data": {"..a": "c"}}, "data[..a]: Invalid value: \"..a\": must not start with '..'"),
    (CONFIG_MAPS, {"data": {"a" * 254: "c"}}, "must be no more than 253 bytes"),
    (CONFIG_MAPS, {"data.a": "x" * 1_048_577}, "[]: Too long: may not be more than 1048576 bytes"),
    (CONFIG_MAPS, {"binaryData": {"a": "YQ=="}}, 'data[a]: Invalid value: "a": duplicate of key present in binaryData'),
    (SECRETS, {"stringData.a": "x" * 1_048_577}, "data: Too long: may not be more than 1048576 bytes"),
    (SECRETS, {"data": {"/": "YQ=="}}, 'data[/]: Invalid value: "/": a valid config key must consist of'),
    (CRON_JOBS, {"metadata.name": 53 * "x"}, "must be no more than 52 characters"),
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
    (
        SERVICES,
        {"spec.clusterIP": "10.0.0.77"},
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.77"]: may not change once set',
    ),
    (SERVICES, {"spec.ports": None}, "spec.ports: Required value"),
]
ALLOWED_ON_UPDATE = [
    (SERVICES, {"spec.ports": [{"port": 81}], "spec.sessionAffinity": "ClientIP"}),
    (
        SERVICES,
        {
            "spec.type": "ExternalName",
            "spec.externalName": "a.example",
            "spec.clusterIP": None,
            "spec.clusterIPs": None,
        },
    ),
    (REPLICATORS, {"spec.replicas": 3}),
    (CONFIG_MAPS, {"data.a": "x" * 1_048_576}),
    (SECRETS, {"stringData.b": "x" * 1_048_575}),
    (CRON_JOBS, {"spec.schedule": "@hourly", "spec.suspend": True}),
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


def test_addresses_and_node_ports_are_given_once() -> None:
    cluster = Lively(controllers=(), nodes=0)

    def make(name: str, **spec: Any) -> Any:
        document = {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}], **spec}}
        return cluster.ask("POST", SERVICES, document)

    first, second = make("a")[1]["spec"], make("b")[1]["spec"]
    assert first["clusterIP"] != second["clusterIP"]
    assert first["ports"][0]["nodePort"] != second["ports"][0]["nodePort"]
    status, answer = make("c", ports=[{"port": 80, "nodePort": first["ports"][0]["nodePort"]}])
    assert status == 422
    assert answer["message"].endswith("provided port is already allocated")
    assert make("d", ports=[{"port": 80, "nodePort": first["ports"][0]["nodePort"], "protocol": "UDP"}])[0] == 201
    assert make("e", clusterIP="10.1.2.3", ports=[{"port": 80}])[1]["spec"]["clusterIPs"] == ["10.1.2.3"]


SCHEDULES = {
    "* * * * *": "",
    "@every 5m": "",
    "@often": "unrecognized descriptor: @often",
    "* * * *": "expected exactly 5 fields, found 4: [* * * *]",
    "*/0 * * * *": "step of range should be a positive number: */0",
    "1/2/3 * * * *": "too many slashes: 1/2/3",
    "1-2-3 * * * *": "too many hyphens: 1-2-3",
    "9-3 * * * *": "beginning of range (9) beyond end of range (3): 9-3",
    "* * 0 * *": "beginning of range (0) below minimum (1): 0",
    "* * * foo *": 'failed to parse int from foo: strconv.Atoi: parsing "foo": invalid syntax',
    "* * * * sun,tue-fri/2": "",
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(schedule: str) -> None:
    assert schedule_fault(schedule) == SCHEDULES[schedule]


def test_pods_of_a_stateful_set_mount_its_claims() -> None:
    cluster = Lively()
    claim = {"metadata": {"name": "data"}, "spec": {**CLAIM["spec"], "storageClassName": "demo"}}
    document = changed(SAMPLES[STATEFUL_SETS], {"spec.volumeClaimTemplates": [claim]})
    document["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    cluster.ok("POST", STATEFUL_SETS, document)
    cluster.run()
    (volume,) = cluster.get("/api/v1/namespaces/default/pods/x-0")["spec"]["volumes"]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-x-0"}}


def test_a_pod_without_a_host_has_nothing_to_talk_to() -> None:
    cluster = Lively(controllers=(), nodes=0)
    pods = "/api/v1/namespaces/default/pods"
    cluster.ok("POST", pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    for stream in ("exec", "attach", "portforward"):
        status, answer = cluster.ask("POST", f"{pods}/p/{stream}")
        assert (status, answer["message"]) == (400, "pod p does not have a host assigned")
