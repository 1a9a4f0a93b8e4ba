"""VolumeZone: a bound volume with zone or region labels wants a node in the same zone or region.

The label may list several values, separated by `__`. The labels of before v1.17 count as well, and such a label of the
volume may meet today's label of the node. A node without any of the four labels is taken to be in a cluster without
zones, and fits. Claims of ephemeral volumes are not looked at here. (kube-scheduler v1.36.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kubesched.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.storage import StorageClass
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.plugins.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from kubesched.plugins.pod_volumes import WAIT_FOR_FIRST_CONSUMER, has_claims, names_claim, not_found
from kubesched.state.assumed_volumes import class_of_claim
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Bools, NodeSet
from kubesched.state.objects import ObjectIndex

REASON = "node(s) had no available volume zone"
REASON_NO_CLAIM_NAME = "PersistentVolumeClaim had no name"
REASON_NO_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"
REASON_NO_VOLUME_NAME = "PersistentVolume had no name"

STATE_KEY = "PreFilterVolumeZone"

_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
#: The label of a node that stands in where it lacks the one of the volume.
_TODAYS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}

_VOLUME, _CLAIM, _CLASS = "PersistentVolume", "PersistentVolumeClaim", "StorageClass"


class Topology(NamedTuple):
    """What one label of a volume asks of nodes."""

    volume: str
    key: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class Topologies:
    wanted: tuple[Topology, ...]


@mypyc_attr(allow_interpreted_subclasses=True)
class VolumeZone(Plugin):
    name = "VolumeZone"
    #: For pods that are signed, which are those without claims.
    filter_reads = Reads()
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def sign(self, pod: Pod) -> Hashable | None:
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                return None
        return ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        wanted = _wanted(pod, self.handle.state.objects)
        if isinstance(wanted, Status):
            return wanted
        if not wanted:
            return Status.skip(lasting=not has_claims(pod))
        state.write(STATE_KEY, Topologies(wanted))
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        rejected = np.zeros(len(nodes), dtype=np.bool_)
        for topology in state.read(STATE_KEY, Topologies).wanted:
            rejected |= ~_meets(topology, nodes)
        if not rejected.any():
            return None
        rejected &= _has_zones(nodes)
        return Verdicts.where(rejected, _CONFLICT) if rejected.any() else None

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """The first volume whose label the node does not meet."""
        topologies = state.get(STATE_KEY)
        if isinstance(topologies, Topologies):
            for topology in topologies.wanted:
                value = _value(node.labels, topology.key)
                if value not in topology.values:
                    return {
                        "volume": topology.volume,
                        "label": topology.key,
                        "allowed": sorted(topology.values),
                        "has": value,
                    }
        return {}

    def events_to_register(self) -> list[ClusterEventWithHint]:
        # Taints change nothing here, but a new node is often tainted until it is ready.
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        either = ActionType.ADD | ActionType.UPDATE
        return [
            ClusterEventWithHint(ClusterEvent(_CLASS, ActionType.ADD), self.after_class_added),
            ClusterEventWithHint(ClusterEvent(NODE, node_change), self.after_node_change),
            ClusterEventWithHint(ClusterEvent(_CLAIM, either), after_claim_change),
            ClusterEventWithHint(ClusterEvent(_VOLUME, either), self.after_volume_change),
        ]

    def after_class_added(self, pod: Pod, old: None, new: StorageClass) -> QueueingHint:
        """Only a class that binds late lets an unbound claim pass, and only a claim of that class."""
        if new.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
            return QueueingHint.SKIP
        mine = any(class_of_claim(claim) == new.metadata.name for claim in self._claims(pod))
        return QueueingHint.QUEUE if mine else QueueingHint.SKIP

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        wanted = _wanted(pod, self.handle.state.objects)
        helps = not isinstance(wanted, Status) and _fits(wanted, new.metadata.labels)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def after_volume_change(self, pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> QueueingHint:
        if not any(claim.spec.volume_name == new.metadata.name for claim in self._claims(pod)):
            return QueueingHint.SKIP
        changed = old is None or topologies_of(old) != topologies_of(new)
        return QueueingHint.QUEUE if changed else QueueingHint.SKIP

    def _claims(self, pod: Pod) -> list[PersistentVolumeClaim]:
        """Those of the pod's claims that there are."""
        objects, namespace = self.handle.state.objects, pod.metadata.namespace
        found = (objects.get(_CLAIM, name, namespace) for name in _claim_names(pod))
        return [claim for claim in found if claim is not None]


def after_claim_change(pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> QueueingHint:
    if not names_claim(pod, new) or new.metadata.name not in _claim_names(pod):
        return QueueingHint.SKIP
    same = old is not None and old.spec == new.spec and old.metadata.annotations == new.metadata.annotations
    return QueueingHint.SKIP if same else QueueingHint.QUEUE


def fits(pod: Pod, node: NodeInfo, objects: ObjectIndex) -> bool:
    """Whether the node lies where the pod's bound volumes lie. False as well if a claim or a volume is missing."""
    wanted = _wanted(pod, objects)
    return not isinstance(wanted, Status) and _fits(wanted, node.labels)


def topologies_of(volume: PersistentVolume) -> tuple[Topology, ...]:
    """A label with an empty value in its list cannot be parsed and is passed over."""
    found = []
    for key in _LABELS:
        listed = volume.metadata.labels.get(key)
        if listed is None:
            continue
        values = [part.strip() for part in listed.split(ZONE_DELIMITER)]
        if all(values):
            found.append(Topology(volume.metadata.name, key, frozenset(values)))
    return tuple(found)


def _wanted(pod: Pod, objects: ObjectIndex) -> tuple[Topology, ...] | Status:
    """What the pod's bound volumes ask for, or why the pod cannot be placed at all."""
    wanted: list[Topology] = []
    namespace = pod.metadata.namespace
    for name in _claim_names(pod):
        if not name:
            return Status.unresolvable(REASON_NO_CLAIM_NAME)
        claim: PersistentVolumeClaim | None = objects.get(_CLAIM, name, namespace)
        if claim is None:
            return Status.unresolvable(not_found(name))
        volume_name = claim.spec.volume_name
        if not volume_name:
            class_name = class_of_claim(claim)
            if not class_name:
                return Status.unresolvable(REASON_NO_CLASS)
            storage_class: StorageClass | None = objects.get(_CLASS, class_name)
            if storage_class is None:
                return Status.unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
            if storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
                return Status.unresolvable(REASON_NO_VOLUME_NAME)
            continue
        volume: PersistentVolume | None = objects.get(_VOLUME, volume_name)
        if volume is None:
            return Status.unresolvable(f'persistentvolume "{volume_name}" not found')
        wanted += topologies_of(volume)
    return tuple(wanted)


def _claim_names(pod: Pod) -> list[str]:
    return [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]


def _fits(wanted: tuple[Topology, ...], labels: Mapping[str, str]) -> bool:
    if not any(key in labels for key in _LABELS):
        return True
    return all(_value(labels, topology.key) in topology.values for topology in wanted)


def _value(labels: Mapping[str, str], key: str) -> str | None:
    value = labels.get(key)
    return labels.get(_TODAYS.get(key, key)) if value is None else value


# -- kernels


def _meets(topology: Topology, nodes: NodeSet) -> Bools:
    accepted, absent = _accepted(topology.key, topology.values, nodes)
    todays = _TODAYS.get(topology.key)
    if todays is not None and absent.any():
        accepted |= absent & _accepted(todays, topology.values, nodes)[0]
    return accepted


def _accepted(key: str, values: frozenset[str], nodes: NodeSet) -> tuple[Bools, Bools]:
    """Where the label has one of the values, and where it is absent."""
    column = nodes.table.label_column(key)
    codes = column.codes[nodes.index]
    return column.holds(values.__contains__, absent=False).take(codes), codes < 0


def _has_zones(nodes: NodeSet) -> Bools:
    """Where a node has any of the four labels."""
    found = np.zeros(len(nodes), dtype=np.bool_)
    for key in _LABELS:
        found |= nodes.table.label_column(key).codes[nodes.index] >= 0
    return found


_CONFLICT = Status.unresolvable(REASON).of(VolumeZone.name)
