"""`PodInfo`: a pod with its requirements computed once.

Placed pods and pending pods use the same class. What a pod takes from a node differs in one respect between the two: a
placed pod that is being resized counts with the larger of what it asked for and what it still has (KEP-1287), a pending
one with its spec alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kubesched.api import pod_requests
from kubesched.api.core import Pod
from kubesched.api.host_ports import HostPort, host_ports
from kubesched.api.meta import format_micro_time, parse_time

#: Orders after every time.
_NOT_STARTED = "~"


class PodInfo:
    """`requests` and `placed_requests` map resource names to exact integers: cpu in milli-cores, the rest in units.

    The two `nonzero` figures are what scoring assumes for a placed pod: containers that ask for nothing count with 100m
    and 200 MiB (kube-scheduler v1.36, `calculateResource`).
    """

    __slots__ = (
        "_requests",
        "_seniority",
        "class_key",
        "host_ports",
        "nonzero_cpu_milli",
        "nonzero_memory_bytes",
        "placed_requests",
        "pod",
        "signatures",
        "uid",
    )

    def __init__(self, pod: Pod, like: PodInfo | None = None) -> None:
        """`like`: of a pod that counts the same, of which figures are taken over and not computed anew."""
        self.pod = pod
        self.uid: str = pod.metadata.uid
        self.placed_requests: dict[str, int]
        self.nonzero_cpu_milli: int
        self.nonzero_memory_bytes: int
        self.host_ports: tuple[HostPort, ...]
        self._requests: dict[str, int] | None
        if like is not None:
            self.placed_requests = like.placed_requests
            self.nonzero_cpu_milli = like.nonzero_cpu_milli
            self.nonzero_memory_bytes = like.nonzero_memory_bytes
            self.host_ports = like.host_ports
            self._requests = like._requests
        else:
            self.placed_requests, self.nonzero_cpu_milli, self.nonzero_memory_bytes = pod_requests.node_share(pod)
            self.host_ports = host_ports(pod)
            self._requests = None
        self._seniority: tuple[int, str] | None = None
        #: What `pod_counts` tells pods apart by, filled there.
        self.class_key: tuple[str, bytes, bool, bytes] | None = None
        #: Per profile the scheduling signature, with the version of the state that it is true of; by the framework.
        self.signatures: dict[str, tuple[Hashable, Any]] | None = None

    def followed_by(self, pod: Pod) -> PodInfo:
        """The same pod in a newer version."""
        return PodInfo(pod, self if _counts_the_same(self.pod, pod) else None)

    @property
    def requests(self) -> dict[str, int]:
        """What the pod asks of a node it is not yet on."""
        if self._requests is None:
            self._requests = pod_requests.pending_requests(self.pod)
        return self._requests

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def seniority(self) -> tuple[int, str]:
        """Sorts the most important pod first: by priority, then by start, where one that has not started is the last.

        (`MoreImportantPod` of kube-scheduler v1.36.)
        """
        if self._seniority is None:
            self._seniority = (-self.priority, _start_text(self.pod.status.start_time))
        return self._seniority

    def takes_the_same(self, other: PodInfo) -> bool:
        """Whether both take the same resources and ports from a node."""
        if self.host_ports != other.host_ports:
            return False
        return self.placed_requests is other.placed_requests or (
            self.placed_requests == other.placed_requests
            and self.nonzero_cpu_milli == other.nonzero_cpu_milli
            and self.nonzero_memory_bytes == other.nonzero_memory_bytes
        )

    def looks_the_same(self, other: PodInfo) -> bool:
        """Whether a plugin that looks at the pods of a node sees no difference (status and node name apart)."""
        mine, theirs = self.pod, other.pod
        return (
            mine.metadata.labels == theirs.metadata.labels
            and mine.metadata.namespace == theirs.metadata.namespace
            and mine.metadata.annotations == theirs.metadata.annotations
            and mine.metadata.deletion_timestamp == theirs.metadata.deletion_timestamp
            and mine.spec.affinity == theirs.spec.affinity
            and mine.spec.volumes == theirs.spec.volumes
            and mine.spec.priority == theirs.spec.priority
        )

    def __repr__(self) -> str:
        return f"<PodInfo {self.key}>"


def _counts_the_same(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod agree in all that requests and ports are computed from."""
    before, after = old.spec, new.spec
    if not (
        before.containers == after.containers
        and before.init_containers == after.init_containers
        and before.resources == after.resources
        and before.overhead == after.overhead
    ):
        return False
    was, now = old.status, new.status
    return (
        was.container_statuses == now.container_statuses
        and was.init_container_statuses == now.init_container_statuses
        and was.resources == now.resources
        and was.allocated_resources == now.allocated_resources
        and (
            was.conditions is now.conditions
            or pod_requests.is_resize_infeasible(old) == pod_requests.is_resize_infeasible(new)
        )
    )


def _start_text(time: str | None) -> str:
    """A time as a text that orders by time; whatever is none orders last."""
    if time is None:
        return _NOT_STARTED
    if len(time) == 20 and time[19] == "Z":
        return time[:19]
    try:
        return format_micro_time(parse_time(time))[:-1].rstrip("0").rstrip(".")
    except ValueError:
        return _NOT_STARTED
