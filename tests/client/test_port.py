"""What the port sends, held against what kube-scheduler was recorded sending (b03, b04, b05, b06)."""

from __future__ import annotations

import pytest

from kubesched.api import codec, kinds
from kubesched.api.errors import ApiError, TransportError
from kubesched.api.meta import Condition
from kubesched.client.auth import FixedCredentials, Grant
from kubesched.client.port import ApiPort
from kubesched.client.rest import ApiClient
from kubesched.client.transport import ConnectError
from kubesched.clock import ManualClock
from kubesched.framework.ports import ClusterPort
from tests.client.doubles import MemoryTransport, QuickClock, reply
from tests.client.wire import status

NOW = 1_796_000_000.0
NOW_TEXT = "2026-11-30T00:53:20Z"


class NoEvents:
    def record(self, event) -> None:
        raise AssertionError("no event expected")


def make(*answers, guard=None):
    transport = MemoryTransport(list(answers) or [reply(201)])
    client = ApiClient(transport, FixedCredentials(Grant()), QuickClock())
    port: ClusterPort = ApiPort(client, NoEvents(), ManualClock(start=NOW), guard=guard)
    return port, transport


def pod(name="s1", **status_fields):
    return codec.from_dict(
        kinds.POD,
        {
            "metadata": {"name": name, "namespace": "default", "uid": "cc517ca9", "generation": 1},
            "status": status_fields,
        },
    )


BOUND = reply(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


class TestBind:
    async def test_as_recorded(self):
        port, transport = make(BOUND)
        await port.bind(pod(), "n2")
        sent = transport.sent[0]
        assert (sent.method, sent.target) == ("POST", "/api/v1/namespaces/default/pods/s1/binding")
        assert sent.headers["Content-Type"] == "application/json"
        assert sent.json == {
            "kind": "Binding", "apiVersion": "v1",
            "metadata": {"name": "s1", "namespace": "default", "uid": "cc517ca9"},
            "target": {"kind": "Node", "name": "n2"},
        }  # fmt: skip

    async def test_refused(self):
        message = 'Operation cannot be fulfilled on pods/binding "s1": pod s1 is already assigned to node "n2"'
        port, transport = make(reply(409, status(409, "Conflict", message)))
        with pytest.raises(ApiError, match="already assigned"):
            await port.bind(pod(), "n2")
        assert len(transport.sent) == 1

    async def test_a_lost_answer_is_settled_by_asking_again(self):
        port, transport = make(TransportError("cut"), BOUND)
        await port.bind(pod(), "n2")
        assert len(transport.sent) == 2
        assert transport.sent[0].body == transport.sent[1].body

    @pytest.mark.parametrize(("node", "bound"), [("n2", True), ("n22", False)])
    async def test_bound_though_the_answer_was_lost(self, node, bound):
        message = f'Operation cannot be fulfilled on pods/binding "s1": pod s1 is already assigned to node "{node}"'
        port, _ = make(TransportError("cut"), reply(409, status(409, "Conflict", message)))
        if bound:
            await port.bind(pod(), "n2")
        else:
            with pytest.raises(ApiError, match="n22"):
                await port.bind(pod(), "n2")

    async def test_lost_twice_is_lost(self):
        port, transport = make(TransportError("cut"))
        with pytest.raises(TransportError):
            await port.bind(pod(), "n2")
        assert len(transport.sent) == 2

    async def test_not_sent_or_too_slow_is_not_asked_again(self):
        slow = TransportError("no answer within 30 s")
        slow.__cause__ = TimeoutError()
        for error in (ConnectError("refused"), slow):
            port, transport = make(error)
            with pytest.raises(TransportError):
                await port.bind(pod(), "n2")
            assert len(transport.sent) == 1

    async def test_the_guard_stops_every_write(self):
        class NotLeading(Exception):
            pass

        def guard():
            raise NotLeading

        port, transport = make(guard=guard)
        condition = Condition(type="PodScheduled", status="False")
        for write in (
            lambda: port.bind(pod(), "n2"),
            lambda: port.delete_pod(pod()),
            lambda: port.patch_pod_status(pod(), condition=condition),
        ):
            with pytest.raises(NotLeading):
                await write()
        assert transport.sent == []


UNSCHEDULABLE = Condition(
    type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes are available: 1 Insufficient cpu.",
    observed_generation=1,
)  # fmt: skip
OLD = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/6 nodes are available.",
    "lastTransitionTime": "2026-11-29T11:11:05Z", "lastProbeTime": None, "observedGeneration": 1,
}  # fmt: skip
KUBELET = [{"type": name, "status": "True"} for name in ("Initialized", "ContainersReady", "Ready")]


@pytest.mark.parametrize(
    ("status_fields", "condition", "nominated", "expected"),
    [
        pytest.param(
            {"phase": "Pending"}, UNSCHEDULABLE, None,
            {"conditions": [{
                "lastProbeTime": None, "lastTransitionTime": NOW_TEXT,
                "message": "0/1 nodes are available: 1 Insufficient cpu.", "observedGeneration": 1,
                "reason": "Unschedulable", "status": "False", "type": "PodScheduled",
            }]},
            id="b04: first failure",
        ),
        pytest.param(
            {"conditions": [OLD]}, UNSCHEDULABLE, None,
            {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                "conditions": [{"message": "0/1 nodes are available: 1 Insufficient cpu.", "type": "PodScheduled"}],
            },
            id="b04: only the message differs",
        ),
        pytest.param(
            {}, UNSCHEDULABLE, "p1",
            {
                "conditions": [{
                    "lastProbeTime": None, "lastTransitionTime": NOW_TEXT,
                    "message": "0/1 nodes are available: 1 Insufficient cpu.", "observedGeneration": 1,
                    "reason": "Unschedulable", "status": "False", "type": "PodScheduled",
                }],
                "nominatedNodeName": "p1",
            },
            id="b05: preemptor",
        ),
        pytest.param(
            {"conditions": [*KUBELET, {"type": "PodScheduled", "status": "True"}]},
            Condition(
                type="DisruptionTarget", status="True", reason="PreemptionByScheduler", observed_generation=1,
                message="default-scheduler: preempting to accommodate a higher priority pod",
            ),
            None,
            {
                "$setElementOrder/conditions": [
                    {"type": "Initialized"}, {"type": "ContainersReady"}, {"type": "Ready"},
                    {"type": "PodScheduled"}, {"type": "DisruptionTarget"},
                ],
                "conditions": [{
                    "lastProbeTime": None, "lastTransitionTime": NOW_TEXT,
                    "message": "default-scheduler: preempting to accommodate a higher priority pod",
                    "observedGeneration": 1, "reason": "PreemptionByScheduler", "status": "True",
                    "type": "DisruptionTarget",
                }],
            },
            id="b05: victim",
        ),
        pytest.param({}, None, "v2", {"nominatedNodeName": "v2"}, id="b06: nomination alone"),
        pytest.param({"nominatedNodeName": "v2"}, None, "", {"nominatedNodeName": None}, id="nomination cleared"),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "True", "reason": "x", "message": "y"}]},
            Condition(type="PodScheduled", status="False", message="z"), None,
            {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                "conditions": [{
                    "lastTransitionTime": NOW_TEXT, "message": "z", "reason": None, "status": "False",
                    "type": "PodScheduled",
                }],
            },
            id="status changes, reason goes",
        ),
        pytest.param(
            {}, Condition(type="T", status="True", last_transition_time="2026-01-01T00:00:00Z"), None,
            {"conditions": [{
                "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True", "type": "T",
            }]},
            id="a transition time of the caller's",
        ),
    ],
)  # fmt: skip
async def test_status_patches(status_fields, condition, nominated, expected):
    port, transport = make(reply(200))
    await port.patch_pod_status(pod(**status_fields), condition=condition, nominated_node_name=nominated)
    sent = transport.sent[0]
    assert (sent.method, sent.target) == ("PATCH", "/api/v1/namespaces/default/pods/s1/status")
    assert sent.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert sent.json == {"status": expected}


@pytest.mark.parametrize(
    ("status_fields", "condition", "nominated"),
    [
        pytest.param({"conditions": [OLD]}, Condition(
            type="PodScheduled", status="False", reason="Unschedulable", message="0/6 nodes are available."), None,
            id="condition is there"),
        pytest.param({"nominatedNodeName": "n1"}, None, "n1", id="nomination is there"),
        pytest.param({"nominatedNodeName": "n1"}, None, None, id="nothing asked"),
        pytest.param({}, None, "", id="nothing to clear"),
    ],
)  # fmt: skip
async def test_no_patch_where_nothing_changes(status_fields, condition, nominated):
    port, transport = make()
    await port.patch_pod_status(pod(**status_fields), condition=condition, nominated_node_name=nominated)
    assert transport.sent == []


class TestDelete:
    async def test_with_the_uid_as_precondition(self):
        port, transport = make(reply(200))
        await port.delete_pod(pod("low1"))
        sent = transport.sent[0]
        assert (sent.method, sent.target) == ("DELETE", "/api/v1/namespaces/default/pods/low1")
        assert sent.json == {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "cc517ca9"}}

    @pytest.mark.parametrize("code", [404, 409])
    async def test_gone_already_or_replaced_by_another_is_fine(self, code):
        port, _ = make(reply(code, status(code, "x", "x")))
        await port.delete_pod(pod())

    async def test_forbidden_is_not(self):
        port, _ = make(reply(403, status(403, "Forbidden", "no")))
        with pytest.raises(ApiError, match="no"):
            await port.delete_pod(pod())


VOLUME = {
    "kind": "PersistentVolume", "apiVersion": "v1",
    "metadata": {"name": "pv-a", "uid": "u", "resourceVersion": "1596", "finalizers": ["kubernetes.io/pv-protection"]},
    "spec": {"capacity": {"storage": "5Gi"}, "local": {"path": "/mnt/x"}, "fieldOfTheFuture": {"kept": True}},
    "status": {"phase": "Available"},
}  # fmt: skip
CLAIM = {
    "kind": "PersistentVolumeClaim", "apiVersion": "v1",
    "metadata": {"name": "c-a", "namespace": "default", "uid": "cu", "resourceVersion": "1597",
                 "annotations": {"mine": "kept"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "unheardOf": 1},
}  # fmt: skip


class TestVolumes:
    volume = codec.from_dict(kinds.PERSISTENT_VOLUME, VOLUME)
    claim = codec.from_dict(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM)

    async def test_a_volume_is_bound_without_losing_a_field(self):
        answer = {**VOLUME, "metadata": {**VOLUME["metadata"], "resourceVersion": "1600"}}  # type: ignore[dict-item]
        port, transport = make(reply(200, VOLUME), reply(200, answer))
        got = await port.update_volume(self.volume, claim=self.claim)
        assert got.metadata.resource_version == "1600"
        assert [(sent.method, sent.target) for sent in transport.sent] == [
            ("GET", "/api/v1/persistentvolumes/pv-a"), ("PUT", "/api/v1/persistentvolumes/pv-a"),
        ]  # fmt: skip
        assert transport.sent[1].json == {
            **VOLUME,
            "metadata": {**VOLUME["metadata"], "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},  # type: ignore[dict-item]
            "spec": {**VOLUME["spec"], "claimRef": {  # type: ignore[dict-item]
                "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c-a", "uid": "cu",
                "apiVersion": "v1", "resourceVersion": "1597",
            }},
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("reference", "ours"),
        [
            pytest.param({"namespace": "default", "name": "c-a"}, False, id="set-aside-for-the-claim"),
            pytest.param({"namespace": "default", "name": "c-a", "uid": "cu"}, False, id="bound-to-the-claim"),
            pytest.param({"namespace": "default", "name": "c-a", "uid": "former"}, True, id="bound-to-a-former-one"),
            pytest.param({"namespace": "other", "name": "c-a"}, True, id="set-aside-for-another"),
        ],
    )
    async def test_a_volume_that_was_set_aside_stays_its_owners(self, reference, ours):
        volume = {**VOLUME, "spec": {**VOLUME["spec"], "claimRef": reference}}  # type: ignore[dict-item]
        port, transport = make(reply(200, volume))
        await port.update_volume(self.volume, claim=self.claim)
        put = transport.sent[1].json
        assert put["spec"]["claimRef"]["uid"] == "cu"
        assert (put["metadata"].get("annotations") == {"pv.kubernetes.io/bound-by-controller": "yes"}) is ours

    async def test_a_claim_is_told_its_node(self):
        port, transport = make(reply(200, CLAIM))
        await port.update_claim(self.claim, selected_node="v1")
        put = transport.sent[1]
        assert put.target == "/api/v1/namespaces/default/persistentvolumeclaims/c-a"
        assert put.json["metadata"]["annotations"] == {"mine": "kept", "volume.kubernetes.io/selected-node": "v1"}
        assert put.json["spec"] == CLAIM["spec"]

    async def test_decided_on_an_old_version_is_a_conflict(self):
        newer = {**VOLUME, "metadata": {**VOLUME["metadata"], "resourceVersion": "1599"}}  # type: ignore[dict-item]
        port, transport = make(reply(200, newer))
        with pytest.raises(ApiError, match='persistentvolumes "pv-a": the object has been modified') as caught:
            await port.update_volume(self.volume, claim=self.claim)
        assert caught.value.code == 409
        assert len(transport.sent) == 1
