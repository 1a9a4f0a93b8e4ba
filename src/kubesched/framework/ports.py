"""What the core wants done to the cluster.

The scheduler, its plugins and the preemption code act on the world only through a `ClusterPort`. The HTTP client, the
offline cluster and the tests each bring one, so that one core serves live, embedded, offline and simulated-fault runs.

A method that fails raises `ApiError` (the API server said no) or `TransportError` (no answer, the outcome is unknown);
it never returns an error. Nothing here retries on its own: who calls knows what a second try would mean.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.meta import Condition


class EventRecord(msgspec.Struct, frozen=True, gc=False):
    """One Event to be, in the terms of events.k8s.io/v1.

    `regarding` is the pod the event is about; `type` is "Normal" or "Warning"; `note` may exceed the API's 1024
    characters: who sends it cuts it (ending in " ..."). `related` names a pod besides, for plugins that have one to
    name; the original's events have none.
    """

    regarding: Pod
    type: str
    reason: str
    action: str
    note: str
    reporting_controller: str
    related: Pod | None = None


class ClusterPort(Protocol):
    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST pods/NAME/binding with the pod's UID as precondition."""
        ...

    async def read_pod(self, pod: Pod) -> Pod | None:
        """GET the live pod; None when it is gone or another one has its name."""
        ...

    async def patch_pod_status(
        self, pod: Pod, *, condition: Condition | None = None, nominated_node_name: str | None = None
    ) -> None:
        """PATCH pods/NAME/status with what differs from `pod`, which is the newest version that we know.

        `condition` replaces the one of its type; `nominated_node_name` of None leaves the field, "" clears it.
        """
        ...

    async def delete_pod(self, pod: Pod) -> None:
        """DELETE the pod with its UID as precondition. A pod that is gone already (404) is no error."""
        ...

    async def update_volume(self, volume: PersistentVolume, *, claim: PersistentVolumeClaim) -> PersistentVolume:
        """PUT the volume with `claimRef` set to `claim` and, unless the volume was set aside for the claim before, the
        annotation `pv.kubernetes.io/bound-by-controller`.

        Fails with a 409 `ApiError` when the volume is no longer at `volume.metadata.resource_version`.
        """
        ...

    async def update_claim(self, claim: PersistentVolumeClaim, *, selected_node: str) -> PersistentVolumeClaim:
        """PUT the claim with the annotation `volume.kubernetes.io/selected-node`. 409 as for `update_volume`."""
        ...

    def record_event(self, event: EventRecord) -> None:
        """Queue an Event. Never blocks and never fails: events may be dropped when they pile up."""
        ...
