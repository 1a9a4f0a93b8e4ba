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
from kubesched.state.node_table import NodeSet
from kubesched.state.pod_info import PodInfo


class FilterProbe:
    """`plugin` has `pre_filter`, `filter_rows` and `sign`."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._answers: dict[Hashable, bool] = {}
        self._position = -1

    def somewhere(self, pod: Pod) -> bool:
        """Whether some node passes the plugin's Filter."""
        position = self._plugin.handle.state.nodes.journal.position
        if position != self._position:
            self._answers.clear()
            self._position = position
        sign = self._plugin.sign(pod)
        known = self._answers.get(sign)
        if known is None:
            known = self._answers[sign] = self._passes(pod, self._plugin.handle.state.nodes.all_nodes())
        return known

    def at(self, pod: Pod, node: Node) -> bool:
        """Whether this node does."""
        table = self._plugin.handle.state.nodes
        row = table.row_of(node.metadata.name)
        return row >= 0 and self._passes(pod, table.nodes_at([row]))

    def _passes(self, pod: Pod, nodes: NodeSet) -> bool:
        state = CycleState(PodInfo(pod))
        answer = self._plugin.pre_filter(state, pod, self._plugin.handle.state.nodes.all_nodes())
        if isinstance(answer, Status):
            return not answer.is_rejected
        said = self._plugin.filter_rows(state, pod, nodes)
        return said is None or bool((np.asarray(said.why) == 0).any())
