"""Kept results are exactly those of asking about everything again.

A random cluster lives through random events. After each of them pods of a few templates are evaluated four times: by a
runtime that keeps what it found before, by one that only remembers the last template and starts the next from it, by
one that keeps nothing, and by an explanation, which asks every plugin about every node on its own. All must agree on
which nodes fit, on the status of every other node, on the totals and on the best nodes, and the columns must agree with
a recount.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubesched.api.core import Node, Pod
from kubesched.clock import Chance
from kubesched.framework.runtime.calling import PluginFailure
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.runtime.scoring import best_rows
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.explain import explain
from kubesched.state import consistency
from kubesched.state.pod_info import PodInfo
from tests.build import (
    make_csi_node,
    make_namespace,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_service,
    make_storage_class,
)
from tests.harness import Harness

NODES = [f"n{number}" for number in range(7)]
PODS = [f"p{number}" for number in range(9)]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"

PROFILES = {
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "packing",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 2}]}},
                },
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["closed"]}]}
                                ]
                            }
                        }
                    },
                },
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
                        ],
                    },
                },
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}},
            ],
        },
    ]
}

TEMPLATES: dict[str, Callable[[str], Any]] = {
    "plain": lambda name: make_pod(name).label("app", "web").cpu("500m").memory("1Gi"),
    "large": lambda name: make_pod(name).label("app", "db").cpu("3").memory("5Gi"),
    "device": lambda name: make_pod(name).cpu("100m").requests(**{"example.com/gpu": 1}),
    "nothing": lambda name: make_pod(name).image("nginx"),
    "image": lambda name: make_pod(name).image("registry/app:v1").cpu("100m"),
    "port": lambda name: make_pod(name).label("app", "web").host_port(80),
    "port-ip": lambda name: make_pod(name).host_port(80, ip="10.0.0.1").host_port(80, ip="10.0.0.2").host_port(81),
    "tolerant": lambda name: make_pod(name).toleration("dedicated", "gpu").cpu("200m"),
    "selector": lambda name: make_pod(name).node_selector({"disk": "ssd"}).cpu("100m"),
    "affinity": lambda name: (
        make_pod(name)
        .node_affinity_not_in(ZONE, ["a"])
        .preferred_node_affinity(30, ("disk", "In", ["ssd"]))
        .preferred_node_affinity(70, ("pool", "Exists", []))
    ),
    "by-name": lambda name: make_pod(name).node_affinity_name("n1", "n2", "n9").cpu("1"),
    "with-web": lambda name: make_pod(name).label("app", "db").pod_affinity(ZONE, {"app": "web"}),
    "apart": lambda name: make_pod(name).label("app", "web").pod_anti_affinity(HOST, {"app": "web"}),
    "spread": lambda name: make_pod(name).label("app", "web").spread(ZONE, labels={"app": "web"}, max_skew=1),
    "soft-spread": lambda name: (
        make_pod(name)
        .label("app", "web")
        .spread(ZONE, labels={"app": "web"}, when="ScheduleAnyway")
        .spread(HOST, labels={"app": "web"}, when="ScheduleAnyway", node_taints_policy="Honor")
    ),
    "prefers": lambda name: (
        make_pod(name).pod_affinity(ZONE, {"app": "db"}, weight=60).pod_anti_affinity(HOST, {"app": "web"}, weight=40)
    ),
    "team": lambda name: make_pod(name).pod_anti_affinity(
        ZONE, {"app": "web"}, namespace_selector={"matchLabels": {"team": "x"}}
    ),
    "bound-claim": lambda name: make_pod(name).label("app", "db").pvc("bound").cpu("100m"),
    "open-claim": lambda name: make_pod(name).pvc("open").cpu("100m"),
    "exclusive": lambda name: make_pod(name).pvc("exclusive"),
    "packing": lambda name: make_pod(name).label("app", "web").scheduler("packing").cpu("500m").memory("1Gi"),
    "packing-large": lambda name: make_pod(name).scheduler("packing").cpu("2").image("registry/app:v1"),
}

nodes = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["0", "1", "2", "4", "4100m"]),
        "memory": st.sampled_from(["1Gi", "6Gi", "8Gi"]),
        "pods": st.sampled_from([0, 1, 3, 110]),
        "gpu": st.sampled_from([None, 0, 2]),
        "zone": st.sampled_from(["a", "b", None]),
        "disk": st.sampled_from(["ssd", "hdd", None]),
        "pool": st.sampled_from(["closed", "open", None]),
        "taint": st.sampled_from(
            [
                None,
                ("dedicated", "gpu", "NoSchedule"),
                ("dedicated", "gpu", "PreferNoSchedule"),
                ("odd", "", "NoExecute"),
            ]
        ),
        "cordoned": st.booleans(),
        "image": st.sampled_from([None, "registry/app:v1", "nginx:latest"]),
    }
)
pods = st.fixed_dictionaries(
    {
        "template": st.sampled_from(list(TEMPLATES)),
        "priority": st.sampled_from([0, 0, 10]),
        "namespace": st.sampled_from(["default", "default", "other"]),
        "app": st.sampled_from([None, "web", "db"]),
    }
)
events = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODES), nodes),
    st.tuples(st.just("node gone"), st.sampled_from(NODES)),
    st.tuples(st.just("pod placed"), st.sampled_from(PODS), st.sampled_from([*NODES, "n9"]), pods),
    st.tuples(st.just("pod gone"), st.sampled_from(PODS)),
    st.tuples(st.just("assumed"), st.sampled_from(PODS), pods),
    st.tuples(st.just("forgotten"), st.sampled_from(PODS)),
    st.tuples(st.just("confirmed"), st.sampled_from(PODS)),
    st.tuples(st.just("nominated"), st.sampled_from(PODS), st.sampled_from([*NODES, "n9"]), pods),
    st.tuples(st.just("nomination gone"), st.sampled_from(PODS)),
    st.tuples(st.just("namespace"), st.sampled_from(["default", "other"]), st.sampled_from(["x", "y"])),
    st.tuples(st.just("service"), st.sampled_from(["web", "db"])),
    st.tuples(st.just("volume"), st.sampled_from(["v1", "v2"]), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("volume gone"), st.sampled_from(["v1", "v2"])),
    st.tuples(st.just("claim gone"), st.sampled_from(["bound", "open", "exclusive"])),
    st.tuples(st.just("claims")),
    st.tuples(st.just("csi node"), st.sampled_from(NODES), st.sampled_from([0, 1, 5])),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    cluster=st.lists(nodes, max_size=len(NODES)),
    history=st.lists(st.tuples(events, st.lists(st.sampled_from(list(TEMPLATES)), max_size=3)), max_size=14),
)
def test_kept_results_equal_fresh_ones(cluster: list[dict[str, Any]], history: list[Any]) -> None:
    world = _World()
    for name, shape in zip(NODES, cluster, strict=False):
        world.set_node(_node(name, shape))
    world.hold(list(TEMPLATES))
    for event, templates in history:
        world.happen(event)
        assert consistency.check(world.state) == []
        world.hold(templates)
    world.hold(list(TEMPLATES))


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_finds_nodes_that_fit_and_nodes_that_do_not(template: str) -> None:
    """The property would say little if all templates were rejected, or none."""
    world = _World()
    world.set_node(make_node("n0").capacity(cpu="1", memory="1Gi", pods=0).zone("a").obj())
    big = make_node("n1").capacity(cpu="8", memory="16Gi", **{"example.com/gpu": 2}).zone("b")
    world.set_node(big.label("disk", "ssd").label(HOST, "n1").obj())
    world.happen(("volume", "v2", None))
    world.happen(("pod placed", "p0", "n1", {"template": "image", "priority": 0, "namespace": "default", "app": "web"}))
    if template in ("apart", "spread"):
        world.happen(("pod gone", "p0"))
    assert world.fitting(template) == ["n1"]


def test_a_node_that_scores_what_its_row_held_before_is_scaled_all_the_same() -> None:
    """The raw score of the new node is the zero that its row began with."""
    world = _World()
    world.set_node(make_node("n0").capacity(cpu="4").zone("a").label(HOST, "n0").obj())
    world.hold(["soft-spread"])
    world.set_node(make_node("n1").capacity(cpu="4").zone("a").label(HOST, "n1").obj())
    world.hold(["soft-spread"])


def test_an_evaluation_that_started_from_another_one_follows_single_rows() -> None:
    """Nothing happens between the two pods, so that nothing but their likeness makes plugins ready for the second."""
    world = _World()
    for name in NODES[:3]:
        world.set_node(make_node(name).capacity(cpu="4", memory="8Gi").zone("a").label(HOST, name).obj())
    world.hold(["port", "nothing"])
    for number in range(3):
        shape = {"template": "plain", "priority": 0, "namespace": "default", "app": None}
        world.happen(("pod placed", f"p{number}", NODES[number], shape))
        world.hold(["nothing"])


def test_where_no_node_is_left_after_many_changes_none_fits() -> None:
    """So many rows change between two pods that all are asked about anew."""
    world = _World()
    for number in range(12):
        world.set_node(make_node(f"m{number}").capacity(cpu="4", memory="8Gi", pods=1).zone("a").obj())
    world.hold(["plain"])
    for number in range(12):
        shape = {"template": "plain", "priority": 0, "namespace": "default", "app": None}
        world.happen(("pod placed", f"p{number}", f"m{number}", shape))
    world.hold(["plain"])


class _World:
    """One cluster state under three sets of runtimes: one keeps all it finds, one the last, one nothing."""

    def __init__(self) -> None:
        harness = Harness(settings=PROFILES, echo=False)
        self.state = harness.state
        self._kept = harness.runtimes
        self._fresh = harness.make_runtimes(IN_TREE, Chance(0), keep=False)
        self._forgetful = harness.make_runtimes(IN_TREE, Chance(0), keep=True)
        for runtime in self._forgetful.values():
            runtime.kept.count_max = 1
        self._asked = 0
        self._versions = count(1)
        late = make_storage_class("late").provisioner("csi.example.com").wait_for_first_consumer()
        self.state.objects.put("StorageClass", late.topology(ZONE, ["a"]).obj())
        self.state.objects.put("PersistentVolume", self._volume("v1", "b"))
        self._put_claims()

    def _version(self) -> str:
        return str(next(self._versions))

    def _put_claims(self) -> None:
        claims = (
            make_pvc("bound").storage_class("late").bound_to("v1"),
            make_pvc("open").storage_class("late").request("1Gi"),
            make_pvc("exclusive").storage_class("late").access_modes("ReadWriteOncePod").bound_to("v2"),
        )
        for claim in claims:
            self.state.objects.put("PersistentVolumeClaim", claim.resource_version(self._version()).obj())

    def _volume(self, name: str, zone: str | None) -> Any:
        volume = make_pv(name).storage_class("late").capacity("5Gi").csi("csi.example.com")
        if name == "v1":
            volume.claimed_by("bound")
        if zone is not None:
            volume.node_affinity_in(ZONE, [zone])
        return volume.resource_version(self._version()).obj()

    def set_node(self, node: Node) -> None:
        self.state.set_node(node)

    def happen(self, event: Any) -> None:
        state = self.state
        match event:
            case ("node", name, shape):
                state.set_node(_node(name, shape))
            case ("node gone", name):
                state.remove_node(name)
            case ("pod placed", name, node_name, shape):
                state.nominator.clear(_uid(name))
                state.set_pod(_on(_pod(name, shape), node_name))
            case ("pod gone", name):
                state.remove_pod(_uid(name))
            case ("assumed", name, shape):
                pod = _pod(name, shape)
                fitting = self._find(self._kept, pod).fitting
                if fitting and _uid(name) not in state.placements:
                    state.assume(PodInfo(pod), fitting[0])
                    state.nominator.clear(_uid(name))
            case ("forgotten", name):
                state.forget(_uid(name))
            case ("confirmed", name):
                if state.is_assumed(_uid(name)):
                    placement = state.placements[_uid(name)]
                    state.set_pod(_on(placement.pod.pod, placement.node_name))
            case ("nominated", name, node_name, shape):
                if _uid(name) not in state.placements:
                    state.nominator.nominate(PodInfo(_pod(name, shape)), node_name)
            case ("nomination gone", name):
                state.nominator.clear(_uid(name))
            case ("namespace", name, value):
                state.objects.put("Namespace", make_namespace(name).label("team", value).obj())
            case ("service", app):
                state.objects.put("Service", make_service(app).selector({"app": app}).obj())
            case ("claims",):
                self._put_claims()
            case ("claim gone", name):
                state.objects.remove("PersistentVolumeClaim", ("default", name))
            case ("volume", name, zone):
                state.objects.put("PersistentVolume", self._volume(name, zone))
            case ("volume gone", name):
                state.objects.remove("PersistentVolume", ("", name))
            case ("csi node", name, count):
                node = make_csi_node(name).driver("csi.example.com", count=count)
                state.objects.put("CSINode", node.resource_version(self._version()).obj())
        state.nodes.journal.trim(state.nodes.row_count)

    def hold(self, templates: list[str]) -> None:
        for template in templates:
            self._asked += 1
            pod = TEMPLATES[template](f"asked-{self._asked}").obj()
            kept, fresh = self._find(self._kept, pod), self._find(self._fresh, pod)
            assert kept == fresh, template
            assert self._find(self._forgetful, pod) == fresh, template
            self._hold_against_explanation(template, pod, kept)

    def fitting(self, template: str) -> list[str]:
        return self._find(self._kept, TEMPLATES[template]("asked").obj()).fitting

    def _hold_against_explanation(self, template: str, pod: Pod, found: _Found) -> None:
        if not self.state.nodes.row_count:
            return
        said = explain(self._kept[pod.spec.scheduler_name], self.state, PodInfo(pod))
        assert said.error == found.error, template
        if found.error is not None:
            return
        if said.filter is None:
            assert not found.fitting
            return
        assert [name for name, status in said.filter.items() if status is None] == found.fitting, template
        assert said.filter == found.statuses, template
        if found.fitting:
            assert said.scores is not None
            assert {name: said.total(name) for name in said.scores} == found.totals, template
            assert list(said.best or ()) == found.best, template

    def _find(self, runtimes: dict[str, Runtime], pod: Pod) -> _Found:
        """What a scheduling cycle would find, with the diagnosis filled in whether or not a node fits."""
        runtime = runtimes[pod.spec.scheduler_name]
        table = self.state.nodes
        found = _Found()
        try:
            state, evaluation = runtime.begin(PodInfo(pod))
            fits = runtime.find_fits(state, evaluation)
            fits.complete()
            found.count = fits.count
            found.fitting = [table.infos[row].name for row in fits.rows.tolist()]
            found.statuses = {
                info.name: None if info.name in found.fitting else fits.diagnosis.node_statuses.get(info.name)
                for info in table.infos
            }
            if found.fitting:
                quickly = sorted(int(row) for row in runtime.best(state, fits))
                totals = runtime.totals(state, fits)
                assert quickly == sorted(best_rows(fits.rows, totals).tolist())
                found.totals = dict(zip(found.fitting, np.asarray(totals).tolist(), strict=True))
                found.best = sorted(table.infos[row].name for row in best_rows(fits.rows, totals).tolist())
        except PluginFailure as failure:
            found.error = failure.status.message
        return found


class _Found(msgspec.Struct):
    count: int = 0
    fitting: list[str] = []
    statuses: dict[str, Any] = {}
    totals: dict[str, int] = {}
    best: list[str] = []
    error: str | None = None


def _node(name: str, shape: dict[str, Any]) -> Node:
    extended = {} if shape["gpu"] is None else {"example.com/gpu": shape["gpu"]}
    node = make_node(name).capacity(cpu=shape["cpu"], memory=shape["memory"], pods=shape["pods"], **extended)
    node.label(HOST, name).unschedulable(shape["cordoned"])
    for key, value in ((ZONE, shape["zone"]), ("disk", shape["disk"]), ("pool", shape["pool"])):
        if value is not None:
            node.label(key, value)
    if shape["taint"] is not None:
        node.taint(*shape["taint"])
    if shape["image"] is not None:
        node.image(shape["image"], 300_000_000)
    return node.obj()


def _pod(name: str, shape: dict[str, Any]) -> Pod:
    pod = TEMPLATES[shape["template"]](name).namespace(shape["namespace"]).priority(shape["priority"])
    if shape["app"] is not None:
        pod.label("app", shape["app"])
    found: Pod = pod.uid(_uid(name)).obj()
    return found


def _on(pod: Pod, node_name: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def _uid(name: str) -> str:
    return f"uid-{name}"
