"""Evaluations that start from what another knows share its arrays; what happens to one happens to no other."""

from __future__ import annotations

from typing import Any

import numpy as np

from kubesched.api.core import Pod
from kubesched.framework.plugin import Reads
from kubesched.state import aspects
from kubesched.state.node_table import NodeSet
from kubesched.state.pod_info import PodInfo
from tests.framework.test_kept_user_plugins import Signing, World


def hold(world: World, **pod: str) -> None:
    found = []
    for runtime in (world.kept, world.fresh):
        state, evaluation = runtime.begin(PodInfo(world.pod(**pod)))
        fits = runtime.find_fits(state, evaluation)
        found.append(runtime.totals(state, fits).tolist())
    assert found[0] == found[1], pod


class Labelled(Signing):
    """Scores by a label of the node, for all pods alike."""

    name = "Labelled"
    score_reads = Reads(row=aspects.LABELS)

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([int(node.labels.get("points", "0")) for node in nodes])


def test_scores_that_are_shared_change_for_one_alone() -> None:
    world = World(Labelled, node_count=20)
    for cpu in ("1", "2"):
        hold(world, cpu=cpu)
    world.set_node("n3", points="50")
    for cpu in ("1", "2", "1", "3", "1", "1500m", "1"):
        hold(world, cpu=cpu)
    world.set_node("n4", points="60")
    for cpu in ("1", "1700m"):
        hold(world, cpu=cpu)


class Stepped(Signing):
    """Scores by a label of the pod."""

    name = "Stepped"
    score_reads = Reads()

    def sign(self, pod: Pod) -> Any:
        return pod.metadata.labels.get("step", "")

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.arange(len(nodes)) * int(pod.metadata.labels["step"]) % 7

    def score_scale(self, state: Any, pod: Pod, raw: Any) -> int:
        return int(raw.max())

    def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: int) -> Any:
        return raw * 100 // max(scale, 1)


def test_totals_that_are_shared_stay_what_they_were() -> None:
    world = World(Stepped, node_count=20)
    for step in ("1", "2", "1", "3", "1", "5"):
        hold(world, step=step)


class Relative(Signing):
    """Scores by a label of the node, the highest of those that fit being 100."""

    name = "Relative"
    score_reads = Reads(row=aspects.LABELS)

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([int(node.labels.get("points", "10")) for node in nodes])

    def score_scale(self, state: Any, pod: Pod, raw: Any) -> int:
        return int(raw.max())

    def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: int) -> Any:
        return np.minimum(raw, scale) * 100 // scale


def test_scores_that_were_all_the_same_are_scaled_by_the_rows_that_fit() -> None:
    world = World(Relative, node_count=20)
    world.place("n1", cpu="8")
    world.hold()
    world.set_node("n19", points="50")
    world.hold()


def test_scores_are_scaled_anew_when_all_rows_come_to_fit() -> None:
    world = World(Relative, node_count=20)
    world.set_node("n1", points="50")
    filling = world.place("n1", cpu="8")
    world.hold()
    world.state.forget(filling)
    world.hold()
