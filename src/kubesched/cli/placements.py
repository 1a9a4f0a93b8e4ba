"""Where pods went: the table that ends `kubesched run --until-settled`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from kubesched.scheduler.queue import QueuedPod, SchedulingQueue
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo


def show(state: ClusterState, queue: SchedulingQueue, console: Console | None = None) -> None:
    console = console or Console()
    console.print(_nodes(state.nodes_in_turn()))
    waiting = sorted([*queue.parked, *queue.backoff], key=lambda pod: pod.key)
    if waiting:
        console.print(_waiting(waiting))
    console.print(f"{len(state.placements)} pods placed, {len(waiting)} waiting.")


def _nodes(nodes: list[NodeInfo]) -> Table:
    table = Table(title="Placements", title_justify="left", expand=False)
    for column in ("node", "zone", "pods", "cpu", "memory"):
        table.add_column(column, overflow="fold")
    for node in sorted(nodes, key=lambda info: info.name):
        pods = sorted(info.key for info in node.pods.values())
        table.add_row(
            node.name,
            node.labels.get("topology.kubernetes.io/zone", "-"),
            "\n".join(pods) or "-",
            _share(node, "cpu"),
            _share(node, "memory"),
            end_section=True,
        )
    return table


def _waiting(pods: list[QueuedPod]) -> Table:
    table = Table(title="Waiting", title_justify="left", expand=False)
    table.add_column("pod", overflow="fold")
    table.add_column("attempts", justify="right")
    table.add_column("why", overflow="fold")
    for pod in pods:
        table.add_row(pod.key, str(pod.attempts), pod.last_message)
    return table


def _share(node: NodeInfo, resource: str) -> str:
    """Requested of allocatable, in percent."""
    allocatable = node.allocatable.get(resource, 0)
    return f"{100 * node.requested.get(resource, 0) // allocatable} %" if allocatable else "-"
