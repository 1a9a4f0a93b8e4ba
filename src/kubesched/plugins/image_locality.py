"""ImageLocality: prefers nodes that have the pod's images already.

An image counts with its size, scaled down by the share of nodes that have it, so that pods do not all run after one
node. Below 23 MiB nothing is gained; the upper bound is 1000 MiB a container. (kube-scheduler v1.36.)
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubesched.api.core import Pod
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import ClusterEventWithHint
from kubesched.framework.plugin import ANY_DIFFERENCE, MAX_NODE_SCORE, Plugin, Reads
from kubesched.state import aspects
from kubesched.state.node_table import Ints, NodeSet, NodeTable

_MIB = 1024 * 1024
_FLOOR_BYTES = 23 * _MIB
_CEILING_PER_CONTAINER_BYTES = 1000 * _MIB


@mypyc_attr(allow_interpreted_subclasses=True)
class ImageLocality(Plugin):
    name = "ImageLocality"
    score_reads = Reads(table=aspects.IMAGES | aspects.MEMBERSHIP)
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def sign(self, pod: Pod) -> Hashable:
        return image_names(pod), _container_count(pod)

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
        node_count = self.handle.state.nodes.row_count
        ceiling = _ceiling_bytes(pod)
        table = nodes.table
        present = [
            (min(scaled_bytes(image.size_bytes, len(image.node_names), node_count), ceiling), name)
            for name in image_names(pod)
            if (image := table.images.get(name)) is not None
        ]
        if sum(size for size, _ in present) <= _FLOOR_BYTES:
            return np.zeros(len(nodes), dtype=np.int64)
        sums = _sums_by_row(present, table, nodes)
        return (np.clip(sums, _FLOOR_BYTES, ceiling) - _FLOOR_BYTES) * MAX_NODE_SCORE // (ceiling - _FLOOR_BYTES)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []


def score(pod: Pod, node_name: str, table: NodeTable) -> int:
    """The score of one node, 0..100, in a cluster of the nodes of `table`."""
    total = 0
    for name in image_names(pod):
        image = table.images.get(name)
        if image is not None and node_name in image.node_names:
            total += scaled_bytes(image.size_bytes, len(image.node_names), table.row_count)
    ceiling = _ceiling_bytes(pod)
    return (min(max(total, _FLOOR_BYTES), ceiling) - _FLOOR_BYTES) * MAX_NODE_SCORE // (ceiling - _FLOOR_BYTES)


def image_names(pod: Pod) -> tuple[str, ...]:
    """Every image that the pod runs or mounts, as nodes report it; as often as it is named."""
    spec = pod.spec
    names = [normalized(container.image) for container in spec.containers]
    names += [normalized(container.image) for container in spec.init_containers]
    names += [normalized(volume.image.reference) for volume in spec.volumes if volume.image is not None]
    return tuple(names)


def normalized(name: str) -> str:
    """A name without tag or digest means the tag `latest`; a colon before the last slash belongs to a port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def scaled_bytes(size_bytes: int, node_count_with: int, node_count: int) -> int:
    return int(float(size_bytes) * (node_count_with / node_count))


def _container_count(pod: Pod) -> int:
    return len(pod.spec.containers) + len(pod.spec.init_containers)


def _ceiling_bytes(pod: Pod) -> int:
    """Image volumes add to the sum, not to the bound."""
    return _CEILING_PER_CONTAINER_BYTES * max(_container_count(pod), 1)


def _sums_by_row(present: list[tuple[int, str]], table: NodeTable, nodes: NodeSet) -> Ints:
    if len(nodes) == 1:
        name = nodes.infos()[0].name
        return np.array([sum(size for size, image in present if name in table.images[image].node_names)])
    sums = np.zeros(table.row_count, dtype=np.int64)
    for size, image in present:
        sums[table.image_rows(image)] += size
    return sums[nodes.index]
