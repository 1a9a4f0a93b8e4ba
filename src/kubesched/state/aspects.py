"""What can change about a node, as bits.

The node table notes every change in its journal as (row, aspects); a plugin declares which aspects its answers read.
The two together say which kept results are still true. Plain ints: they are tested on the hot path.
"""

from __future__ import annotations

from typing import Final

ALLOCATABLE: Final = 1 << 0
#: Sums over the node's pods: requested resources and the pod count.
REQUESTED: Final = 1 << 1
#: Host ports in use by the node's pods.
PORTS: Final = 1 << 2
#: Which pods are there, with their labels, affinities, volumes and deletion marks.
PODS: Final = 1 << 3
LABELS: Final = 1 << 4
TAINTS: Final = 1 << 5
UNSCHEDULABLE: Final = 1 << 6
IMAGES: Final = 1 << 7
DECLARED_FEATURES: Final = 1 << 8
CONDITIONS: Final = 1 << 9
#: Annotations and whatever else the Node object holds.
OTHER: Final = 1 << 10
#: The row now stands for another node than before.
MEMBERSHIP: Final = 1 << 11

ALL: Final = (1 << 12) - 1
#: Everything that comes with a pod placed or removed.
POD_CHANGE: Final = REQUESTED | PORTS | PODS
