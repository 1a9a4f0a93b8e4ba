"""The order in which nodes are tried one by one: zones take turns, so that a sample of nodes spans all of them."""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api.core import Node
from kubesched.state.node_info import NodeInfo

_ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")


def zones_in_turn(infos: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Every node exactly once: the first of each zone, the second of each zone, and so on."""
    zones: dict[tuple[str, str], list[NodeInfo]] = {}
    for info in infos:
        assert info.node is not None
        zones.setdefault(zone_of(info.node), []).append(info)
    order: list[NodeInfo] = []
    queues = list(zones.values())
    turn = 0
    while queues:
        order.extend(queue[turn] for queue in queues)
        turn += 1
        queues = [queue for queue in queues if turn < len(queue)]
    return order


def zone_of(node: Node) -> tuple[str, str]:
    """(region, zone) by the stable labels, else the beta ones, else ""."""
    labels = node.metadata.labels

    def first(keys: tuple[str, ...]) -> str:
        return next((labels[key] for key in keys if key in labels), "")

    return first(_REGION_LABELS), first(_ZONE_LABELS)
