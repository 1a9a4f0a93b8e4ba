"""`FilterProbe`: would a plugin let a waiting pod pass now? For queueing hints that want to be sure.

The plugin is asked about the nodes as they are when the hint is asked for. Pods of one signature get one answer per
state of the cluster, so that an event which concerns hundreds of waiting replicas costs one look.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubesched.api.core import Node, Pod
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin
from kubesched.framework.status import Status
from kubesched.state.node_table import Bools, NodeSet
from kubesched.state.pod_info import PodInfo


class FilterProbe:
    """`plugin` has `pre_filter`, `filter_rows` and `sign`."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._answers: dict[Hashable, Bools] = {}
        self._asked_at = (-1, -1)

    def passing(self, pod: Pod) -> Bools:
        """Per row of the node table whether the node passes the plugin's Filter."""
        state = self._plugin.handle.state
        now = (state.nodes.journal.position, state.objects.version("Namespace"))
        if now != self._asked_at:
            self._answers.clear()
            self._asked_at = now
        sign = self._plugin.sign(pod)
        known = self._answers.get(sign)
        if known is None:
            known = self._answers[sign] = self._ask(pod, state.nodes.all_nodes())
        return known

    def somewhere(self, pod: Pod) -> bool:
        """Whether some node passes."""
        return bool(self.passing(pod).any())

    def at(self, pod: Pod, node: Node) -> bool:
        """Whether this node passes."""
        table = self._plugin.handle.state.nodes
        row = table.row_of(node.metadata.name)
        return row >= 0 and bool(self._ask(pod, table.nodes_at([row])).any())

    def _ask(self, pod: Pod, nodes: NodeSet) -> Bools:
        state = CycleState(PodInfo(pod))
        answer = self._plugin.pre_filter(state, pod, self._plugin.handle.state.nodes.all_nodes())
        if isinstance(answer, Status):
            return np.full(len(nodes), not answer.is_rejected)
        said = self._plugin.filter_rows(state, pod, nodes)
        return np.ones(len(nodes), dtype=np.bool_) if said is None else np.equal(said.why, 0)
