"""Parked pods in groups: one answer for all members is only right if each would have given it."""

from __future__ import annotations

import copy

import pytest

from kubesched import Cluster
from kubesched.manifests import Source, decode
from kubesched.manifests.reading import Document
from kubesched.offline import hints
from kubesched.plugins.registry import IN_TREE
from tests.build import make_node, make_pod
from tests.conformance import packed
from tests.harness import Harness


def variants(pod):
    """The pod under other names, and with one thing after the other changed that some plugin may read."""
    changes = {
        "another name": lambda p: None,
        "a label": lambda p: p["metadata"].setdefault("labels", {}).update({"foo": "bar", "app": "other"}),
        "no labels": lambda p: p["metadata"].pop("labels", None),
        "a namespace": lambda p: p["metadata"].update(namespace="elsewhere"),
        "a priority": lambda p: p["spec"].update(priority=7),
        "a toleration": lambda p: p["spec"].setdefault("tolerations", []).append({"operator": "Exists"}),
        "a request": lambda p: p["spec"]["containers"][0].update(resources={"requests": {"cpu": "17"}}),
        "a host port": lambda p: p["spec"]["containers"][0].update(ports=[{"containerPort": 80, "hostPort": 8080}]),
        "a node selector": lambda p: p["spec"].update(nodeSelector={"zone": "nowhere"}),
        "no affinity": lambda p: p["spec"].pop("affinity", None),
        "no constraints": lambda p: p["spec"].pop("topologySpreadConstraints", None),
        "no volumes": lambda p: p["spec"].pop("volumes", None),
        "a claim": lambda p: p["spec"].setdefault("volumes", []).append(
            {"name": "more", "persistentVolumeClaim": {"claimName": "c1"}}
        ),
    }  # fmt: skip
    for what, change in changes.items():
        sibling = copy.deepcopy(pod)
        sibling["metadata"].update(name="sibling", uid="sibling")
        change(sibling)
        yield what, sibling


def typed(pod):
    return decode(Document(Source("pod"), {"apiVersion": "v1", "kind": "Pod", **pod}))


#: The plugins that reject ordinary pods. Others are about claims, which each pod has its own, or about single pods.
SHARE_ANSWERS = {
    "InterPodAffinity",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "PodTopologySpread",
    "TaintToleration",
}


@pytest.mark.parametrize("plugin", [name for name in packed.families("hints") if name in IN_TREE])
def test_pods_of_equal_hint_sign_get_equal_answers(plugin):
    compared = 0
    for case in packed.cases(plugin, "hints"):
        event = case["event"]
        own = {(event[side] or {}).get("metadata", {}).get("uid") for side in ("old", "new")}
        if case["pod"]["metadata"].get("uid") in own:
            continue  # its own event, of which only the pod itself is asked
        cluster = Cluster(case["objects"])
        pod = typed(case["pod"])
        runtime = cluster._runtime(pod)
        asked = next((each for each in runtime.plugins.all() if each.name == plugin), None)
        if asked is None:
            continue
        sign = asked.hint_sign(pod)
        answer = hints.answer(runtime, plugin, pod, event)
        for what, sibling in variants(case["pod"]):
            other = typed(sibling)
            if sign is not None and asked.hint_sign(other) == sign:
                compared += 1
                assert hints.answer(runtime, plugin, other, event) == answer, f"{case['name']}: {what}"
    assert compared or plugin not in SHARE_ANSWERS


async def test_pods_of_one_template_are_one_group_and_all_wake():
    harness = Harness()
    harness.apply(make_node("n1").capacity(cpu=1, pods=110).obj())
    await harness.settle()
    pods = [make_pod(f"p{i}").cpu("2").label("app", f"a{i % 3}").obj() for i in range(30)]
    harness.apply(*pods)
    await harness.settle()
    assert len(harness.queue.parked) == 30
    assert harness.queue.parked.group_count == 1, "labels say nothing to those that rejected them"
    harness.apply(make_node("n2").capacity(cpu=100, pods=110).obj())
    await harness.pass_time(3)
    assert {harness.node_of(pod) for pod in pods} == {"n2"}


async def test_pods_that_differ_in_what_rejected_them_are_apart():
    harness = Harness()
    harness.apply(make_node("n1").capacity(cpu=1, pods=110).taint("a").obj(), make_node("n2").capacity(cpu=1).obj())
    await harness.settle()
    small, tolerant = make_pod("small").cpu("2").obj(), make_pod("tolerant").cpu("2").toleration("a").obj()
    harness.apply(small, tolerant)
    await harness.settle()
    assert harness.queue.parked.group_count == 2
    harness.delete(small)
    await harness.settle()
    assert harness.queue.parked.group_count == 1 and harness.waits_in(tolerant) == "unschedulable"


async def test_an_event_costs_the_groups_not_the_pods():
    """Hints asked about one event, by the number of parked pods."""

    async def asked(count: int) -> int:
        harness = Harness()
        harness.apply(make_node("n1").capacity(cpu=1, pods=110).obj())
        await harness.settle()
        harness.apply(*(make_pod(f"p{i}").cpu(f"{2 + i % 5}").obj() for i in range(count)))
        await harness.settle()
        assert len(harness.queue.parked) == count
        before = hints_asked(harness)
        harness.apply(make_node("n2").capacity(cpu=1, pods=110).obj())
        await harness.settle()
        return hints_asked(harness) - before

    assert await asked(10) == await asked(100) == 5


def hints_asked(harness: Harness) -> int:
    family = harness.metrics._queueing_hint
    return sum(series.count for labels, series in family.items() if labels[1] == "NodeAdd")


async def test_a_hint_that_depends_on_the_single_pod_is_asked_for_each():
    from kubesched.framework import Plugin, Status
    from kubesched.framework.events import NODE, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint

    class Picky(Plugin):
        """Unsigned: hints may look at anything, here at the pod's name."""

        name = "Picky"

        def filter(self, state, pod, node):
            return Status.unschedulable("no") if node.name != pod.metadata.name else None

        def events_to_register(self):
            def after(pod, old, new):
                return QueueingHint.QUEUE if new.metadata.name == pod.metadata.name else QueueingHint.SKIP

            return [ClusterEventWithHint(ClusterEvent(NODE, ActionType.ADD), after)]

    harness = Harness(Picky)
    harness.apply(make_node("n1").obj())
    await harness.settle()
    pods = [make_pod(name).obj() for name in ("a", "b", "c")]
    harness.apply(*pods)
    await harness.settle()
    assert harness.queue.parked.group_count == 3
    harness.apply(make_node("b").obj())
    await harness.pass_time(3)
    assert [harness.node_of(pod) for pod in pods] == ["", "b", ""]


@pytest.mark.parametrize("sign", [["unhashable"], SystemExit(3)], ids=repr)
async def test_a_pod_that_is_held_back_is_not_lost_over_a_hint_sign(sign):
    from kubesched.framework import Plugin, Status
    from kubesched.framework.events import NODE, ActionType, ClusterEvent, ClusterEventWithHint

    class Odd(Plugin):
        """Holds pods back until there is a node; what it signs is of no use, and its hint leaves for good."""

        name = "Odd"

        def pre_enqueue(self, pod):
            return None if self.handle.state.nodes.row_count else Status.unschedulable("no node")

        def hint_sign(self, pod):
            if isinstance(sign, BaseException):
                raise sign
            return sign

        def events_to_register(self):
            def after(pod, old, new):
                raise SystemExit(3)

            return [
                ClusterEventWithHint(
                    ClusterEvent(NODE, ActionType.ADD),
                    after,
                )
            ]

    harness = Harness(Odd)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.waits_in(pod) == "gated"
    harness.apply(make_node("n1").obj())
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"
