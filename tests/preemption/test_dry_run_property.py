"""The dry run against its definition, written as plainly as possible: the pods in question are really taken away.

Random small clusters with budgets, nominated pods, ports, spreading and affinity. The definition takes pods out of the
cluster and asks whether the pod fits, from PreFilter on: no hypothetical table, no AddPod or RemovePod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubesched.api.core import Pod
from kubesched.framework.plugin import Plugin
from kubesched.framework.results import Diagnosis
from kubesched.framework.status import Code
from kubesched.preemption.budgets import Budgets
from kubesched.state.pod_info import PodInfo
from tests.build import Builder, PodBuilder, make_node, make_pdb, make_pod
from tests.harness import ForColumns, Harness

NODES = ["n0", "n1", "n2", "n3"]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"

shapes = st.fixed_dictionaries(
    {
        "node": st.sampled_from(NODES),
        "cpu": st.sampled_from([0, 1, 2, 2, 3]),
        "priority": st.sampled_from([0, 0, 1, 5, 10, 20]),
        "app": st.sampled_from([None, "web", "db"]),
        "port": st.sampled_from([None, None, 80]),
        #: How often it says that it wants the preemptor away.
        "apart": st.sampled_from([0, 0, 0, 1, 2]),
        "start": st.sampled_from([None, 1, 2, 3]),
    }
)
wants = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([1, 2, 3, 4]),
        "port": st.sampled_from([None, 80]),
        "kind": st.sampled_from(["plain", "plain", "spread", "apart", "near"]),
    }
)
budgets = st.lists(st.tuples(st.sampled_from(["web", "db"]), st.integers(0, 2)), max_size=2)


#: Without it, few nodes are tried one after the other.
WAYS = [pytest.param((), id="node-by-node"), pytest.param((ForColumns,), id="all-in-step")]


@pytest.mark.parametrize("plugins", WAYS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    want=wants,
    placed=st.lists(shapes, min_size=4, max_size=14),
    nominated=st.lists(shapes, max_size=2),
    allowed=budgets,
)
def test_dry_run_equals_its_definition(
    plugins: tuple[type[Plugin], ...],
    want: dict[str, Any],
    placed: list[dict[str, Any]],
    nominated: list[dict[str, Any]],
    allowed: list[Any],
) -> None:
    nodes = [
        make_node(name).capacity(cpu=4, memory="8Gi", pods=5).label(HOST, name).zone(f"z{number % 2}")
        for number, name in enumerate(NODES)
    ]
    pods = [_pod(f"p{number}", shape).node(shape["node"]).obj() for number, shape in enumerate(placed)]
    promised = [_pod(f"q{number}", shape).nominated(shape["node"]).obj() for number, shape in enumerate(nominated)]
    protecting = [
        make_pdb(f"b{number}").selector({"app": app}).allowed(count).obj()
        for number, (app, count) in enumerate(allowed)
    ]
    pod = _preemptor(want)
    world = _World(plugins, nodes, pods, promised, protecting)
    found = world.found(pod)
    if found is None:
        return
    candidates, rejected = found
    limit = pod.spec.priority or 0
    tried = 0
    for name in NODES:
        if world.code_of(name) is not Code.UNSCHEDULABLE:
            assert name not in candidates and name not in rejected
            continue
        tried += 1
        expected = _victims(world, pod, name, [each for each in pods if each.spec.node_name == name], limit, protecting)
        assert candidates.get(name) == expected, name
        assert (name in rejected) is (expected is None)
    assert len(candidates) + len(rejected) == tried


def _victims(
    world: _World, pod: Pod, name: str, there: list[Pod], limit: int, protecting: list[Any]
) -> tuple[list[str], int] | None:
    """The victims on the node, the most important first, and the budgets broken; None if it is no candidate."""
    potential = sorted(
        (each for each in there if (each.spec.priority or 0) < limit), key=lambda each: PodInfo(each).seniority
    )
    if not potential or not world.fits_without(potential, pod, name):
        return None
    breaks = Budgets(protecting).violations(potential)
    gone = list(potential)
    for breaking in (True, False):
        for each, breaks_budget in zip(potential, breaks, strict=True):
            if breaks_budget is not breaking:
                continue
            rest = [other for other in gone if other is not each]
            if world.fits_without(rest, pod, name):
                gone = rest
    count = sum(breaks_budget for each, breaks_budget in zip(potential, breaks, strict=True) if each in gone)
    return [each.name for each in gone], count


class _World:
    def __init__(
        self,
        plugins: tuple[type[Plugin], ...],
        nodes: Iterable[Builder[Any]],
        pods: list[Pod],
        promised: list[Pod],
        protecting: list[Any],
    ) -> None:
        self._harness = Harness(*plugins, echo=False, keep=False)
        self._runtime = self._harness.runtimes["default-scheduler"]
        self._diagnosis = Diagnosis()
        state = self._harness.state
        for node in nodes:
            state.set_node(node.obj())
        for pod in pods:
            state.set_pod(pod)
        for pod in promised:
            state.nominator.nominate(PodInfo(pod), pod.status.nominated_node_name)
        for budget in protecting:
            state.objects.put("PodDisruptionBudget", budget)

    def found(self, pod: Pod) -> tuple[dict[str, tuple[list[str], int]], dict[str, Any]] | None:
        """Candidates with victims and broken budgets, and rejected nodes; None if the pod fits anyway."""
        state, evaluation = self._runtime.begin(PodInfo(pod))
        fits = self._runtime.find_fits(state, evaluation)
        if len(fits.rows):
            return None
        self._diagnosis = fits.diagnosis
        finding = self._harness.plugin("DefaultPreemption").find(state, fits.diagnosis)
        self._harness.check()
        candidates = {
            each.node_name: ([victim.pod.name for victim in each.victims], each.violation_count)
            for each in finding.candidates
        }
        return candidates, finding.rejected.by_node() if finding.rejected is not None else {}

    def code_of(self, name: str) -> Code | None:
        status = self._diagnosis.node_statuses.get(name)
        return status.code if status is not None else None

    def fits_without(self, gone: list[Pod], pod: Pod, name: str) -> bool:
        """Asked while these pods are not in the cluster at all."""
        state = self._harness.state
        for each in gone:
            state.remove_pod(each.uid)
        try:
            cycle, evaluation = self._runtime.begin(PodInfo(pod))
            if self._runtime.filtering.pre_filter(cycle, evaluation).status is not None:
                return False
            return self._runtime.fresh.fits_now(cycle, state.nodes.row_of(name))
        finally:
            for each in gone:
                state.set_pod(each)


def _pod(name: str, shape: dict[str, Any]) -> PodBuilder:
    pod = make_pod(name).priority(shape["priority"])
    if shape["cpu"]:
        pod.cpu(shape["cpu"])
    if shape["app"] is not None:
        pod.label("app", shape["app"])
    if shape["port"] is not None:
        pod.host_port(shape["port"])
    for _ in range(shape["apart"]):
        pod.pod_anti_affinity(HOST, {"app": "main"})
    if shape["start"] is not None:
        pod.started(f"2026-01-01T00:00:0{shape['start']}Z")
    return pod


def _preemptor(want: dict[str, Any]) -> Pod:
    pod = make_pod("h").priority(10).cpu(want["cpu"]).label("app", "main")
    if want["port"] is not None:
        pod.host_port(want["port"])
    if want["kind"] == "spread":
        pod.spread(ZONE, {"app": "web"})
    elif want["kind"] == "apart":
        pod.pod_anti_affinity(HOST, {"app": "web"})
    elif want["kind"] == "near":
        pod.pod_affinity(ZONE, {"app": "db"})
    return pod.obj()
