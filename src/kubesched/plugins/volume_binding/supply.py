"""`Supply`: what claims can be bound to or provisioned from, best first, worked out once per sort of claim.

Many pods ask for the same: replicas, and all pods that an event may concern. Answers are kept until a volume, a class,
a driver or a capacity changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from kubesched.api import quantity, selectors
from kubesched.api.core import PersistentVolume, PersistentVolumeClaim
from kubesched.api.errors import SelectorError
from kubesched.api.selectors import Requirement
from kubesched.api.storage import CSIDriver, CSIStorageCapacity, StorageClass
from kubesched.plugins.volume_binding.ranked import EVERYWHERE, Ranked, Terms, terms_of_labels, terms_of_node_selector
from kubesched.state.assumed_volumes import VOLUME, AssumedVolumes, class_of_claim, class_of_volume
from kubesched.state.objects import ObjectIndex

_CLASS, _DRIVER, _CAPACITY = "StorageClass", "CSIDriver", "CSIStorageCapacity"
_NO_PROVISIONER: Final = ("", "kubernetes.io/no-provisioner")

#: More sorts of claims than this at a time are not kept.
_KEPT_MAX: Final = 256

T = TypeVar("T")


class Volumes(Ranked[PersistentVolume]):
    """Volumes for a claim, the smallest first."""

    __slots__ = ("_rank_of",)

    def __init__(self, things: Iterable[tuple[PersistentVolume, Terms]]) -> None:
        super().__init__(things)
        self._rank_of: dict[str, int] | None = None

    @property
    def rank_of(self) -> dict[str, int]:
        """By name."""
        if self._rank_of is None:
            self._rank_of = {volume.metadata.name: rank for rank, volume in enumerate(self.things)}
        return self._rank_of


@dataclass(frozen=True, slots=True)
class Provisioning:
    """What a class asks of the node for which it provisions. `capacities` is None where they are not published."""

    reach: Terms
    capacities: Ranked[CSIStorageCapacity] | None


class Supply:
    def __init__(self, volumes: AssumedVolumes, objects: ObjectIndex) -> None:
        self.volumes = volumes
        self.objects = objects
        self._kept: dict[Hashable, object] = {}
        self._version = -1

    def volumes_for(self, claim: PersistentVolumeClaim) -> Volumes:
        """What may be bound to the claim; one set aside for it excludes all others. (`FindMatchingVolume`, v1.36.)"""
        spec, class_name = claim.spec, class_of_claim(claim)
        for volume in self.volumes.volumes_naming(claim.metadata.namespace, claim.metadata.name):
            if class_of_volume(volume) == class_name and names_claim(volume, claim) and _suits(volume, claim):
                return Volumes([(volume, reach_of(volume))])
        selector = selectors.compile_label_selector(spec.selector) if spec.selector is not None else None
        sort = (
            VOLUME,
            class_name,
            spec.resources.requests.get("storage", 0),
            spec.volume_mode,
            spec.volume_attributes_class_name,
            spec.access_modes,
            selector,
        )
        return self._keep(sort, lambda: self._free_volumes(claim, selector))

    def provisioning_for(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Provisioning | None:
        """None where the class provisions nothing."""
        if storage_class.provisioner in _NO_PROVISIONER:
            return None
        sort = (_CLASS, storage_class.metadata.name, claim.spec.resources.requests.get("storage"))
        return self._keep(sort, lambda: Provisioning(_allowed(storage_class), self._capacities(claim, storage_class)))

    def _keep(self, sort: Hashable, make: Callable[[], T]) -> T:
        version = self.objects.version(VOLUME, _CLASS, _DRIVER, _CAPACITY)
        if version != self._version or len(self._kept) > _KEPT_MAX:
            self._kept.clear()
            self._version = version
        if sort not in self._kept:
            self._kept[sort] = make()
        return self._kept[sort]  # type: ignore[return-value]

    def _free_volumes(self, claim: PersistentVolumeClaim, selector: selectors.LabelMatcher | None) -> Volumes:
        modes = frozenset(claim.spec.access_modes)
        found = [
            (quantity.nano_value(volume.spec.capacity.get("storage", 0)), volume.metadata.name, volume)
            for volume in self.volumes.free_volumes(class_of_claim(claim))
            if volume.status.phase == "Available"
            and _suits(volume, claim)
            and modes.issubset(volume.spec.access_modes)
            and (selector is None or selector.matches(volume.metadata.labels))
        ]
        found.sort()  # by size, then by name: that no two share
        return Volumes((volume, reach_of(volume)) for _, _, volume in found)

    def _capacities(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> Ranked[CSIStorageCapacity] | None:
        """Where there is room for the claim, by name; None where the driver does not publish it."""
        driver: CSIDriver | None = self.objects.get(_DRIVER, storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity or "storage" not in claim.spec.resources.requests:
            return None
        size_bytes = requested_bytes(claim)
        enough = [
            capacity
            for capacity in self.objects.list(_CAPACITY)
            if capacity.storage_class_name == storage_class.metadata.name
            and capacity.node_topology is not None
            and (limit := storage_limit(capacity)) is not None
            and limit >= size_bytes
        ]
        enough.sort(key=lambda capacity: (capacity.metadata.namespace, capacity.metadata.name))
        return Ranked((capacity, _reach_of_capacity(capacity)) for capacity in enough)


def names_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to the claim, or set aside for it."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def may_serve(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is of the claim's class and free, or set aside for it."""
    if class_of_volume(volume) != class_of_claim(claim):
        return False
    free = volume.spec.claim_ref is None and volume.status.phase == "Available"
    return free or names_claim(volume, claim)


def reach_of(volume: PersistentVolume) -> Terms:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return EVERYWHERE
    return terms_of_node_selector(affinity.required)


def _reach_of_capacity(capacity: CSIStorageCapacity) -> Terms:
    """A topology that cannot be compiled reaches no node; that is no reason to fail the pods of the class."""
    try:
        return terms_of_labels(selectors.compile_label_selector(capacity.node_topology))
    except SelectorError:
        return ()


def storage_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume that can be made there, in bytes; None if unknown."""
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if limit is None else quantity.value(limit)


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    return quantity.value(claim.spec.resources.requests.get("storage", 0))


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """By size, mode and volume attributes class, and not about to go."""
    spec, theirs = claim.spec, volume.spec
    return (
        quantity.nano_value(theirs.capacity.get("storage", 0))
        >= quantity.nano_value(spec.resources.requests.get("storage", 0))
        and (theirs.volume_mode or "Filesystem") == (spec.volume_mode or "Filesystem")
        and (theirs.volume_attributes_class_name or "") == (spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _allowed(storage_class: StorageClass) -> Terms:
    if not storage_class.allowed_topologies:
        return EVERYWHERE
    return tuple(
        tuple(Requirement(each.key, "in", each.values) for each in term.match_label_expressions)
        for term in storage_class.allowed_topologies
        if term.match_label_expressions
    )
