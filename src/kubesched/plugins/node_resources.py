"""What the two NodeResources plugins share: resource names, and what of a pod their answers depend on.

Amounts are exact integers, cpu in thousandths of a core. The columns of the node table cut them at `AMOUNT_MAX`; rows
that are cut are judged by their exact figures, so that no sum and no product ever wraps.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from kubesched.api.core import Container, Pod
from kubesched.api.quantity import Quantity
from kubesched.config.names import is_extended_resource
from kubesched.state.node_table import AMOUNT_MAX, Ints

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
#: What every node has; all else counts only for pods that ask for it.
PRIMARY: Final[tuple[str, ...]] = (CPU, MEMORY, EPHEMERAL_STORAGE)

#: Codes up to this are told apart by counting, which beats sorting.
_COUNTED_MAX: Final = 4096

#: What columns hold for an allocatable amount that is larger than they can say.
CUT_CAPACITY: Final = AMOUNT_MAX - 1


@lru_cache(4096)
def is_scalar(name: str) -> bool:
    """Resources besides cpu, memory and ephemeral storage that nodes offer and pods ask for (IsScalarResourceName)."""
    return (
        is_extended_resource(name) or name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name
    )


def occurring(codes: Ints) -> tuple[list[int], Ints]:
    """The distinct codes, ascending, and for each row the position of its code among them. Codes are not negative."""
    if not len(codes) or codes.max() > _COUNTED_MAX:
        distinct, positions = np.unique(codes, return_inverse=True)
        return distinct.tolist(), positions
    counts = np.bincount(codes)
    distinct = np.flatnonzero(counts)
    counts[distinct] = np.arange(len(distinct))
    return distinct.tolist(), counts.take(codes)


def requests_key(pod: Pod) -> Hashable:
    """All that the effective request of a pending pod is computed from."""
    spec = pod.spec
    return (
        tuple([_items(container.resources.requests) for container in spec.containers]),
        tuple([_init_key(container) for container in spec.init_containers]),
        _items(spec.overhead),
        _items(spec.resources.requests) if spec.resources is not None else None,
    )


def _init_key(container: Container) -> Hashable:
    return container.is_sidecar, _items(container.resources.requests)


def _items(resources: Mapping[str, Quantity]) -> tuple[tuple[str, Quantity], ...]:
    return tuple(resources.items())
