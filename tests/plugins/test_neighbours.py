"""PodTopologySpread and InterPodAffinity against their plainest definitions, through random histories of a cluster.

One cluster state lives through random changes, so that counts, sums and whatever the plugins remember are followed
rather than made anew; after each change random pods are judged both ways, and the counts are held against a recount.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from kubesched.api import codec, kinds
from kubesched.api.core import Pod
from kubesched.config.plugin_args import InterPodAffinityArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins import inter_pod_affinity, pod_topology_spread
from kubesched.state import consistency
from kubesched.state.pod_info import PodInfo
from tests.plugins import neighbours
from tests.plugins.neighbours import Dice, Doc, World
from tests.plugins.rig import Rig

SPREAD = {
    pod_topology_spread.REASON_SKEW: "skew",
    pod_topology_spread.REASON_LABEL: "label",
}
AFFINITY = {
    inter_pod_affinity.REASON_EXISTING: "existing",
    inter_pod_affinity.REASON_ANTI_AFFINITY: "anti",
    inter_pod_affinity.REASON_AFFINITY: "affinity",
}
ARGS = InterPodAffinityArgs(hard_pod_affinity_weight=3)


@pytest.mark.parametrize("seed", range(40))
def test_vector_answers_are_those_of_the_definitions(seed: int) -> None:
    history = History(seed)
    for _ in range(20):
        history.step()
        assert consistency.check(history.rig.state) == []
        for _ in range(2):
            history.judge(history.dice.pod("asked"))


@pytest.mark.parametrize("seed", range(100, 130))
def test_pods_tried_on_and_off_count_as_if_they_came_and_went(seed: int) -> None:
    history = History(seed)
    for _ in range(15):
        history.step()
    for _ in range(25):
        history.try_pods(history.dice.pod("asked"))


def test_random_pods_meet_every_verdict() -> None:
    """The comparisons would say little if all pods fitted everywhere, or nowhere."""
    met: set[tuple[str, str]] = set()
    scored: set[str] = set()
    for seed in range(40):
        history = History(seed)
        for _ in range(20):
            history.step()
        for _ in range(10):
            pod = history.dice.pod("asked")
            met |= {("spread", said) for said in (neighbours.spread_verdicts(history.world, pod) or {}).values()}
            met |= {("affinity", said) for said in (neighbours.affinity_verdicts(history.world, pod) or {}).values()}
            names = list(history.world.nodes)
            scores = neighbours.spread_scores(history.world, pod, names)
            scored |= {"spread"} if scores is not None and len(set(scores[1].values())) > 2 else set()
            pulls = neighbours.affinity_scores(history.world, pod, names, hard_weight=3, ignore_existing=False)
            scored |= {"affinity"} if pulls is not None and len(set(pulls[1].values())) > 2 else set()
    assert met == {("spread", said) for said in ("", *SPREAD.values())} | {
        ("affinity", said) for said in ("", *AFFINITY.values())
    }
    assert scored == {"spread", "affinity"}


class History:
    """A cluster that changes at random, as the plugins see it (`rig`) and as the definitions do (`world`)."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.world = World()
        self.rig = Rig()
        self.spread = self.rig.plugin("PodTopologySpread")
        self.affinity = self.rig.plugin("InterPodAffinity", ARGS)
        self._number = 0
        for _ in range(5):
            self._set_node()

    def step(self) -> None:
        change = self.dice.random.choice(
            [self._set_node, self._remove_node, *[self._place] * 6, self._replace, self._remove, self._set_namespace]
        )
        change()

    # -- the same question to both

    def judge(self, pod: Doc) -> None:
        obj = _decoded(pod)
        names = list(self.world.nodes)
        for plugin, reasons, want in (
            (self.spread, SPREAD, neighbours.spread_verdicts(self.world, pod)),
            (self.affinity, AFFINITY, neighbours.affinity_verdicts(self.world, pod)),
        ):
            state = CycleState(PodInfo(obj))
            answer = plugin.pre_filter(state, obj, self.rig.state.nodes.all_nodes())
            if want is None:
                assert isinstance(answer, Status), pod
                assert answer.is_skip
            else:
                assert answer is None
                assert self._verdicts(plugin, reasons, state, obj, names) == want, pod
        feasible = sorted(self.dice.random.sample(names, self.dice.random.randint(0, len(names))))
        if feasible:
            hard = ARGS.hard_pod_affinity_weight
            pulls = neighbours.affinity_scores(self.world, pod, feasible, hard_weight=hard, ignore_existing=False)
            assert self._scores(self.spread, obj, feasible) == neighbours.spread_scores(self.world, pod, feasible), pod
            assert self._scores(self.affinity, obj, feasible) == pulls, pod

    def try_pods(self, pod: Doc) -> None:
        """Take some pods off a node and put others on, in a copy of the cycle state."""
        if not self.world.nodes:
            return
        name = self.dice.random.choice(list(self.world.nodes))
        info = self.rig.info(name)
        leaving = [other for other in self.world.pods.values() if other["spec"]["nodeName"] == name]
        leaving = self.dice.random.sample(leaving, self.dice.random.randint(0, len(leaving)))
        coming = [self.dice.pod(f"guest-{number}") for number in range(self.dice.random.randint(0, 2))]
        leaving = [other for other in leaving if "deletionTimestamp" not in other["metadata"]]
        coming = [other for other in coming if "deletionTimestamp" not in other["metadata"]]
        after = copy.deepcopy(self.world)
        for other in leaving:
            del after.pods[other["metadata"]["name"]]
        for other in coming:
            after.pods[other["metadata"]["name"]] = _on(other, name)
        obj = _decoded(pod)
        for plugin, reasons, verdicts in (
            (self.spread, SPREAD, neighbours.spread_verdicts),
            (self.affinity, AFFINITY, neighbours.affinity_verdicts),
        ):
            if plugin is self.spread and _counts_nothing(pod):
                continue
            before = CycleState(PodInfo(obj))
            if plugin.pre_filter(before, obj, self.rig.state.nodes.all_nodes()) is not None:
                continue
            names = list(self.world.nodes)
            unchanged = self._verdicts(plugin, reasons, before, obj, names)
            state = before.clone()
            for other in leaving:
                plugin.remove_pod(state, obj, PodInfo(_decoded(other)), info)
            for other in coming:
                plugin.add_pod(state, obj, PodInfo(_decoded(other)), info)
            want = verdicts(after, pod)
            got = self._verdicts(plugin, reasons, state, obj, names)
            assert got == (want or dict.fromkeys(names, "")), pod
            assert self._verdicts(plugin, reasons, before, obj, names) == unchanged

    def _verdicts(
        self, plugin: Any, reasons: dict[str, str], state: CycleState, pod: Pod, names: Iterable[str]
    ) -> dict[str, str]:
        """On all rows at once, and on each row of a hypothetical table."""
        table = self.rig.state.nodes
        rows = [table.row_of(name) for name in names]
        together = _said(plugin, reasons, plugin.filter_rows(state, pod, table.nodes_at(rows)), len(rows))
        alone = [
            _said(plugin, reasons, plugin.filter_rows(state, pod, table.hypothetical([row]).all_nodes()), 1)[0]
            for row in rows
        ]
        assert alone == together
        return dict(zip(names, together, strict=True))

    def _scores(self, plugin: Any, pod: Pod, feasible: list[str]) -> tuple[dict[str, int], dict[str, int]] | None:
        table = self.rig.state.nodes
        nodes = table.nodes_at([table.row_of(name) for name in feasible])
        state = CycleState(PodInfo(pod))
        status = plugin.pre_score(state, pod, nodes)
        if status is not None:
            assert status.is_skip
            return None
        raw = plugin.score_rows(state, pod, nodes)
        normalized = plugin.normalize_rows(state, pod, raw, plugin.score_scale(state, pod, raw))
        shown = plugin.shown_scores(raw) if plugin is self.spread else raw
        return _named(feasible, shown), _named(feasible, normalized)

    # -- changes

    def _set_node(self) -> None:
        node = self.dice.node()
        self.world.nodes[node["metadata"]["name"]] = node
        self.rig.state.set_node(codec.from_dict(kinds.NODE, node))

    def _remove_node(self) -> None:
        if self.world.nodes:
            name = self.dice.random.choice(list(self.world.nodes))
            del self.world.nodes[name]
            self.rig.state.remove_node(name)

    def _place(self) -> None:
        self._number += 1
        self._set_pod(_on(self.dice.pod(f"p{self._number}"), self.dice.node_name()))

    def _replace(self) -> None:
        """A placed pod with other labels, terms or marks, perhaps on another node."""
        if self.world.pods:
            name = self.dice.random.choice(list(self.world.pods))
            where = self.world.pods[name]["spec"]["nodeName"]
            self._set_pod(_on(self.dice.pod(name), where if self.dice.chance(0.7) else self.dice.node_name()))

    def _remove(self) -> None:
        if self.world.pods:
            name = self.dice.random.choice(list(self.world.pods))
            del self.world.pods[name]
            self.rig.state.remove_pod(f"uid-{name}")

    def _set_namespace(self) -> None:
        name, labels = self.dice.namespace()
        self.world.namespaces[name] = labels
        document = {"metadata": {"name": name, "labels": labels}}
        self.rig.state.objects.put("Namespace", codec.from_dict(kinds.NAMESPACE, document))

    def _set_pod(self, pod: Doc) -> None:
        self.world.pods[pod["metadata"]["name"]] = pod
        self.rig.state.set_pod(_decoded(pod))


def _said(plugin: Any, reasons: dict[str, str], answer: Any, count: int) -> list[str]:
    if answer is None:
        return [""] * count
    statuses = [answer.statuses[why] for why in answer.why.tolist()]
    assert all(status is None or status.plugin == plugin.name for status in statuses)
    return ["" if status is None else reasons[status.message] for status in statuses]


def _named(names: list[str], scores: Any) -> dict[str, int]:
    assert np.asarray(scores).dtype in (np.int64, np.uint8)
    return dict(zip(names, scores.tolist(), strict=True))


def _counts_nothing(pod: Doc) -> bool:
    """Some constraint has an empty selector, for which the original counts pods that come and go, but no others."""
    return any(each.get("labelSelector") == {} for each in pod["spec"].get("topologySpreadConstraints", []))


def _on(pod: Doc, node_name: str) -> Doc:
    return pod | {"spec": pod["spec"] | {"nodeName": node_name}}


def _decoded(pod: Doc) -> Pod:
    decoded: Pod = codec.from_dict(kinds.POD, pod)
    return decoded
