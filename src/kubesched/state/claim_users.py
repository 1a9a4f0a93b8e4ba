"""`ClaimUsers`: which placed pods use which claims, and which volumes of theirs are where.

Derived from the pods of the node table's rows and brought up to date at first need, from the rows that the journal
names: who never asks pays nothing. Pods on nodes that have no Node object count nowhere, as in the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from kubesched.api.core import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    Pod,
    RBDVolumeSource,
    Volume,
)
from kubesched.state import aspects
from kubesched.state.node_table import Ints, NodeTable
from kubesched.state.objects import ObjectKey
from kubesched.state.pod_info import PodInfo

_CHANGES = aspects.PODS | aspects.MEMBERSHIP


class ClaimUsers:
    __slots__ = ("_counts", "_disks", "_position", "_rows", "_table", "_users")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._position = -1
        #: Per row the claims of its pods, with the user's UID.
        self._rows: list[list[tuple[ObjectKey, str]]] = []
        self._counts: Ints = np.zeros(0, dtype=np.int64)
        self._disks: set[int] = set()
        self._users: dict[ObjectKey, dict[str, PodInfo]] = {}

    def of(self, namespace: str, claim: str) -> list[PodInfo]:
        """The placed pods that name the claim in a `persistentVolumeClaim` volume."""
        self._refresh()
        return list(self._users.get((namespace, claim), {}).values())

    def volume_counts(self) -> Ints:
        """Per row of the table how many volumes its pods name that may need attaching: an upper bound."""
        self._refresh()
        return self._counts

    def rows_with_disks(self) -> set[int]:
        """The rows where some pod mounts a disk that it names itself, of those that bear one writer per node."""
        self._refresh()
        return self._disks

    def findings(self) -> list[str]:
        """Where what is kept differs from a recount; for self-checks. Nothing as long as nobody has asked."""
        if self._position < 0:
            return []
        self._refresh()
        fresh = ClaimUsers(self._table)
        fresh._refresh()
        rows = slice(0, self._table.row_count)
        same = (
            {claim: users.keys() for claim, users in self._users.items()}
            == {claim: users.keys() for claim, users in fresh._users.items()}
            and self._disks == fresh._disks
            and np.array_equal(self._counts[rows], fresh._counts[rows])
        )
        return [] if same else ["users of claims or volumes of nodes differ from a recount"]

    def _refresh(self) -> None:
        table = self._table
        position = table.journal.position
        if position == self._position:
            return
        noted = table.journal.rows_since(self._position, _CHANGES) if self._position >= 0 else None
        if noted is None:
            self._rows, self._users, self._disks = [], {}, set()
            self._counts = np.zeros(table.capacity, dtype=np.int64)
            changed: Sequence[int] = range(table.row_count)
        else:
            changed = sorted(noted)
        self._resize()
        for row in changed:
            if row < len(self._rows):
                self._drop(row)
        for row in changed:
            if row < table.row_count:
                self._take(row)
        self._position = position

    def _resize(self) -> None:
        missing = self._table.row_count - len(self._rows)
        self._rows.extend([] for _ in range(missing))
        if len(self._counts) < self._table.capacity:
            counts = np.zeros(self._table.capacity, dtype=np.int64)
            counts[: len(self._counts)] = self._counts
            self._counts = counts

    def _drop(self, row: int) -> None:
        for claim, uid in self._rows[row]:
            users = self._users[claim]
            users.pop(uid, None)
            if not users:
                del self._users[claim]
        self._rows[row] = []
        self._counts[row] = 0
        self._disks.discard(row)

    def _take(self, row: int) -> None:
        claims = self._rows[row]
        count = 0
        for info in self._table.infos[row].pods.values():
            pod = info.pod
            for volume in pod.spec.volumes:
                if volume.persistent_volume_claim is not None:
                    claim = (pod.metadata.namespace, volume.persistent_volume_claim.claim_name)
                    users = self._users.setdefault(claim, {})
                    if info.uid not in users:
                        users[info.uid] = info
                        claims.append((claim, info.uid))
                elif disk_of(volume) is not None:
                    self._disks.add(row)
                count += may_need_attaching(volume)
        self._counts[row] = count


Disk: TypeAlias = GCEPersistentDiskVolumeSource | AWSElasticBlockStoreVolumeSource | ISCSIVolumeSource | RBDVolumeSource


def disk_of(volume: Volume) -> Disk | None:
    """A source in the pod itself that bears one writer per node."""
    return volume.gce_persistent_disk or volume.aws_elastic_block_store or volume.iscsi or volume.rbd


def may_need_attaching(volume: Volume) -> bool:
    """A claim, or a disk of a former in-tree driver, whichever driver serves it."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.aws_elastic_block_store is not None
        or volume.gce_persistent_disk is not None
        or volume.azure_disk is not None
        or volume.cinder is not None
        or volume.portworx_volume is not None
        or volume.azure_file is not None
        or volume.vsphere_volume is not None
    )


def needs_attaching(pod: Pod) -> bool:
    return any(map(may_need_attaching, pod.spec.volumes))
