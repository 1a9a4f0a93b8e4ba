"""Where pods went: the table that ends `kubesched run --until-settled`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from kubesched.cli import tables
from kubesched.cli.tables import add_names
from kubesched.scheduler.queue import QueuedPod, SchedulingQueue
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo


def show(state: ClusterState, queue: SchedulingQueue, console: Console | None = None) -> None:
    console = console or tables.console()
    console.print(_nodes(state.nodes_in_turn()), crop=False)
    waiting = sorted([*queue.parked, *queue.backoff], key=lambda pod: pod.key)
    if waiting:
        console.print(_waiting(waiting), crop=False)
    console.print(f"{len(state.placements)} pods placed, {len(waiting)} waiting.")


def _nodes(nodes: list[NodeInfo]) -> Table:
    table = Table(title="Placements", title_justify="left", expand=False)
    add_names(table, "node", [node.name for node in nodes])
    add_names(table, "zone", map(_zone, nodes))
    add_names(table, "pods", [info.key for node in nodes for info in node.pods.values()])
    for column in ("cpu", "memory"):
        table.add_column(column, no_wrap=True)
    for node in sorted(nodes, key=lambda info: info.name):
        pods = sorted(info.key for info in node.pods.values())
        table.add_row(
            node.name,
            _zone(node),
            "\n".join(pods) or "-",
            _share(node, "cpu"),
            _share(node, "memory"),
            end_section=True,
        )
    return table


def _waiting(pods: list[QueuedPod]) -> Table:
    table = Table(title="Waiting", title_justify="left", expand=False)
    add_names(table, "pod", [pod.key for pod in pods])
    table.add_column("attempts", justify="right")
    table.add_column("why", overflow="fold")
    for pod in pods:
        table.add_row(pod.key, str(pod.attempts), pod.last_message)
    return table


def _zone(node: NodeInfo) -> str:
    return node.labels.get("topology.kubernetes.io/zone", "-")


def _share(node: NodeInfo, resource: str) -> str:
    """Requested of allocatable, in percent."""
    allocatable = node.allocatable.get(resource, 0)
    return f"{100 * node.requested.get(resource, 0) // allocatable} %" if allocatable else "-"
