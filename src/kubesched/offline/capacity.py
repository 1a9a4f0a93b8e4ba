"""How many more pods of a template fit: one decision after the other, none of which is carried out.

Each copy is filtered, scored, assumed and reserved as a pod of the scheduler is, and counts for those after it. Nobody
is preempted for a copy and nothing is bound. At the end all copies are taken back, so that the cluster is as it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from msgspec.structs import replace

from kubesched.api.core import Pod
from kubesched.clock import Chance
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.results import NO_NODES_MESSAGE, fit_message
from kubesched.framework.runtime.calling import PluginFailure
from kubesched.framework.runtime.runtime import Runtime
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo


@dataclass(slots=True, repr=False)
class Capacity:
    """`by_node`: how many copies each node takes, in the order in which nodes were first chosen."""

    by_node: dict[str, int] = field(default_factory=dict)
    #: Why there are no more; "" when the limit was reached.
    message: str = ""

    @property
    def count(self) -> int:
        return sum(self.by_node.values())

    def __repr__(self) -> str:
        return f"<Capacity {self.count} on {len(self.by_node)} nodes: {self.message or 'limit reached'}>"


def estimate(pod: Pod, runtime: Runtime, cluster: ClusterState, chance: Chance, limit: int | None) -> Capacity:
    """PluginFailure when a plugin fails."""
    first = PodInfo(pod)
    counts: Counter[str] = Counter()
    taken: list[tuple[CycleState, Pod, str]] = []
    message = ""
    try:
        while limit is None or len(taken) < limit:
            copy = _copy(pod, len(taken))
            found = _place(PodInfo(copy, first), runtime, cluster, chance)
            if isinstance(found, str):
                message = found
                break
            state, node_name = found
            taken.append((state, copy, node_name))
            counts[node_name] += 1
            status = runtime.reserve(state, copy, node_name)
            if status is not None:
                counts -= Counter((node_name,))
                if not status.is_rejected:
                    raise PluginFailure(status)
                message = status.message
                break
    finally:
        for state, copy, node_name in reversed(taken):
            runtime.unreserve(state, copy, node_name)
            cluster.forget(copy.metadata.uid)
        cluster.nodes.journal.trim(cluster.nodes.row_count)
    return Capacity(dict(counts), message)


def _place(copy: PodInfo, runtime: Runtime, cluster: ClusterState, chance: Chance) -> tuple[CycleState, str] | str:
    """The node for one more copy, on which it is assumed from now on; or why there is none."""
    nodes = cluster.nodes
    if not nodes.row_count:
        return NO_NODES_MESSAGE
    state, evaluation = runtime.begin(copy)
    fits = runtime.find_fits(state, evaluation)
    if not fits.count:
        return fit_message(nodes.row_count, fits.diagnosis)
    best = runtime.best(state, fits) if fits.count > 1 else fits.rows
    node_name = nodes.infos[int(best[chance.randrange(len(best))])].name
    cluster.assume(copy, node_name)
    return state, node_name


def _copy(pod: Pod, number: int) -> Pod:
    metadata = replace(pod.metadata, name=f"{pod.metadata.name}-{number}", uid=f"{pod.metadata.uid}-{number}")
    return replace(pod, metadata=metadata)
