"""May a pod with these claims run on these nodes, and which volumes would its claims get?

`judge` answers for one node and is the definition; `judge_rows` answers for many at once, reasons only. Claims are
taken from the smallest up, each gets the smallest volume that is left, and what gets none is to be provisioned. The two
part ways only where a volume is the best for two claims of the pod: such nodes are judged one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim
from kubesched.api.storage import CSIStorageCapacity
from kubesched.plugins import csi_migration
from kubesched.plugins.volume_binding.claims import BoundClaim, OpenClaim, PodClaims
from kubesched.plugins.volume_binding.ranked import matches, matching
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Bools, Ints, NodeSet
from kubesched.state.objects import ObjectIndex

REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

#: Reasons are coded as bits, in the order in which the original lists them.
NODE_CONFLICT: Final = 1
NOTHING_TO_BIND: Final = 2
NOT_ENOUGH_SPACE: Final = 4
VOLUME_MISSING: Final = 8

_REASONS = {
    NODE_CONFLICT: REASON_NODE_CONFLICT,
    NOTHING_TO_BIND: REASON_NOTHING_TO_BIND,
    NOT_ENOUGH_SPACE: REASON_NOT_ENOUGH_SPACE,
    VOLUME_MISSING: REASON_VOLUME_MISSING,
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What would happen to the claims on one node. `blames` says for each rejected claim (by name) what is wrong."""

    reasons: int
    bind: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...]
    #: With the capacity that was found for each, if capacities are published.
    provision: tuple[tuple[PersistentVolumeClaim, CSIStorageCapacity | None], ...]
    blames: dict[str, str]


def reasons_text(reasons: int) -> tuple[str, ...]:
    return tuple(text for bit, text in _REASONS.items() if reasons & bit)


# -- one node


def judge(claims: PodClaims, node: NodeInfo, objects: ObjectIndex) -> Decision:
    blames: dict[str, str] = {}
    reasons = _judge_bound(claims.bound, node, objects, blames)
    elsewhere = [each for each in claims.open if each.selected_node not in (None, node.name)]
    if elsewhere:
        for each in elsewhere:
            blames[each.claim.metadata.name] = f"is being provisioned for node {each.selected_node}"
        return Decision(reasons | NOTHING_TO_BIND, (), (), blames)
    bind: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
    to_provision: list[OpenClaim] = []
    chosen: set[str] = set()
    for each in claims.open:
        volume = _best_volume(each, node, chosen) if each.selected_node is None else None
        if volume is None:
            to_provision.append(each)
        else:
            chosen.add(volume.metadata.name)
            bind.append((each.claim, volume))
    provision: list[tuple[PersistentVolumeClaim, CSIStorageCapacity | None]] = []
    for each in to_provision:
        problem, capacity, why = _judge_provisioning(each, node)
        if problem:
            blames[each.claim.metadata.name] = why
            return Decision(reasons | problem, tuple(bind), (), blames)
        provision.append((each.claim, capacity))
    return Decision(reasons, tuple(bind), tuple(provision), blames)


def _judge_bound(bound: tuple[BoundClaim, ...], node: NodeInfo, objects: ObjectIndex, blames: dict[str, str]) -> int:
    for each in bound:
        name = each.claim.metadata.name
        if each.volume is None:
            blames[name] = f"is bound to volume {each.claim.spec.volume_name}, which does not exist"
            return VOLUME_MISSING
        migrated = each.migrated_plugin and csi_migration.is_migrated(
            each.migrated_plugin, objects.get("CSINode", node.name)
        )
        if not matches(each.migrated_reach if migrated else each.reach, node.labels):
            blames[name] = f"is bound to volume {each.volume.metadata.name}, which the node cannot reach"
            return NODE_CONFLICT
    return 0


def _best_volume(open_claim: OpenClaim, node: NodeInfo, chosen: set[str]) -> PersistentVolume | None:
    volumes = open_claim.volumes
    taken = [volumes.rank_of[name] for name in chosen if name in volumes.rank_of]
    rank = volumes.best(node.labels, taken)
    return volumes.things[rank] if rank < len(volumes) else None


def _judge_provisioning(open_claim: OpenClaim, node: NodeInfo) -> tuple[int, CSIStorageCapacity | None, str]:
    provisioning = open_claim.provisioning
    if provisioning is None:
        return NOTHING_TO_BIND, None, "no volume that the node can reach is free for it, and its class provisions none"
    if not matches(provisioning.reach, node.labels):
        return NOTHING_TO_BIND, None, "its class does not provision for the node (allowedTopologies)"
    capacities = provisioning.capacities
    if capacities is None:
        return 0, None, ""
    rank = capacities.best(node.labels)
    if rank == len(capacities):
        return NOT_ENOUGH_SPACE, None, f"no storage that the node can reach has {open_claim.size_bytes} bytes free"
    return 0, capacities.things[rank], ""


# -- many nodes


def judge_rows(claims: PodClaims, nodes: NodeSet, objects: ObjectIndex) -> Ints:
    """The reasons against each node, as bits."""
    reasons = np.zeros(len(nodes), dtype=np.int64)
    _judge_bound_rows(claims.bound, nodes, objects, reasons)
    if claims.open:
        _judge_open_rows(claims, nodes, objects, reasons)
    return reasons


def _judge_bound_rows(bound: tuple[BoundClaim, ...], nodes: NodeSet, objects: ObjectIndex, reasons: Ints) -> None:
    undecided = np.ones(len(nodes), dtype=np.bool_)
    for each in bound:
        if each.volume is None:
            reasons[undecided] |= VOLUME_MISSING
            return
        reached = matching(each.reach, nodes)
        if each.migrated_plugin and each.migrated_reach != each.reach:
            migrated = _migrated(each.migrated_plugin, nodes, objects)
            if migrated.any():
                reached = np.where(migrated, matching(each.migrated_reach, nodes), reached)
        reasons[undecided & ~reached] |= NODE_CONFLICT
        undecided &= reached


def _migrated(plugin: str, nodes: NodeSet, objects: ObjectIndex) -> Bools:
    return np.array([csi_migration.is_migrated(plugin, objects.get("CSINode", node.name)) for node in nodes])


def _judge_open_rows(claims: PodClaims, nodes: NodeSet, objects: ObjectIndex, reasons: Ints) -> None:
    going = np.ones(len(nodes), dtype=np.bool_)
    for each in claims.open:
        if each.selected_node is not None:
            going &= nodes.rows() == nodes.table.row_of(each.selected_node)
    reasons[~going] |= NOTHING_TO_BIND

    numbers: dict[str, int] = {}
    chosen: list[Ints] = []
    compete = sum(len(each.volumes) > 0 for each in claims.open) > 1
    clash = np.zeros(len(nodes), dtype=np.bool_)
    for each in claims.open:
        lacks = going
        if len(each.volumes):
            ranks = each.volumes.best_rows(nodes)
            lacks = going & (ranks == len(each.volumes))
            if compete:
                names = [numbers.setdefault(name, len(numbers)) for name in each.volumes.rank_of]
                picks = np.array([*names, -1], dtype=np.int64)[ranks]
                for earlier in chosen:
                    clash |= (picks == earlier) & (picks >= 0)
                chosen.append(picks)
        if lacks.any():
            _judge_provisioning_rows(each, nodes, lacks, reasons)
            going = going & ~(lacks & (reasons & (NOTHING_TO_BIND | NOT_ENOUGH_SPACE) != 0))
    if clash.any():
        infos = nodes.infos()
        for position in np.flatnonzero(clash).tolist():
            reasons[position] = judge(claims, infos[position], objects).reasons


def _judge_provisioning_rows(open_claim: OpenClaim, nodes: NodeSet, lacks: Bools, reasons: Ints) -> None:
    """Where the claim lacks a volume: can one be made?"""
    provisioning = open_claim.provisioning
    if provisioning is None:
        reasons[lacks] |= NOTHING_TO_BIND
        return
    allowed = matching(provisioning.reach, nodes)
    reasons[lacks & ~allowed] |= NOTHING_TO_BIND
    if provisioning.capacities is not None:
        none = provisioning.capacities.best_rows(nodes) == len(provisioning.capacities)
        reasons[lacks & allowed & none] |= NOT_ENOUGH_SPACE
