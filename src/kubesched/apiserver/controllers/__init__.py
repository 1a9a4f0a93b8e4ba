"""Small controllers for a lively cluster, one a file, each switchable by the name kube-controller-manager gives it.

`Controllers` runs those that are chosen in the server's process. They are held to what recordings of a real
kube-controller-manager show, and kept small: what a scheduler, kubectl and their users look at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubesched.apiserver.controllers.base import Controller
from kubesched.apiserver.controllers.daemon_sets import DaemonSets
from kubesched.apiserver.controllers.deployments import Deployments
from kubesched.apiserver.controllers.disruption_budgets import DisruptionBudgets
from kubesched.apiserver.controllers.garbage import GarbageCollector
from kubesched.apiserver.controllers.jobs import Jobs
from kubesched.apiserver.controllers.nodes import NodeLeases, NodeLifecycle
from kubesched.apiserver.controllers.owners import OwnerIndex
from kubesched.apiserver.controllers.pod_garbage import PodGarbage
from kubesched.apiserver.controllers.replica_sets import ReplicaSets, ReplicationControllers
from kubesched.apiserver.controllers.service_accounts import RootCertificates, ServiceAccounts
from kubesched.apiserver.controllers.stateful_sets import StatefulSets
from kubesched.apiserver.controllers.taint_eviction import TaintEviction
from kubesched.apiserver.controllers.volume_binder import VolumeBinder
from kubesched.apiserver.controllers.volume_protection import ClaimProtection, VolumeProtection
from kubesched.apiserver.controllers.volume_provisioner import DEMO_PROVISIONER, VolumeProvisioner

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

log = logging.getLogger("kubesched.apiserver")

_ALL: tuple[type[Controller], ...] = (
    ServiceAccounts,
    RootCertificates,
    NodeLeases,
    NodeLifecycle,
    Deployments,
    ReplicaSets,
    ReplicationControllers,
    StatefulSets,
    DaemonSets,
    Jobs,
    DisruptionBudgets,
    TaintEviction,
    VolumeBinder,
    VolumeProvisioner,
    ClaimProtection,
    VolumeProtection,
    PodGarbage,
    GarbageCollector,
)
CONTROLLERS: dict[str, type[Controller]] = {controller.name: controller for controller in _ALL}


class Controllers:
    """The chosen controllers and the index of owners that they share."""

    def __init__(self, api: Api, names: Iterable[str]) -> None:
        self._owners = OwnerIndex(api)
        self._controllers = [CONTROLLERS[name](api, self._owners) for name in names]

    def start(self) -> None:
        if self._controllers:
            self._owners.start()
        for controller in self._controllers:
            controller.start()

    def stop(self) -> None:
        for controller in self._controllers:
            controller.stop()
        self._owners.stop()


def chosen(words: Iterable[str]) -> tuple[str, ...]:
    """The names that a list like kube-controller-manager's `--controllers` means: `*` is all, `-name` all but that.

    Raises ValueError for a name that is unknown.
    """
    words = list(words)
    for word in words:
        if word != "*" and word.removeprefix("-") not in CONTROLLERS:
            raise ValueError(f'"{word}" is not a known controller, known are: {", ".join(CONTROLLERS)}')
    named = {word for word in words if word != "*"}
    return tuple(n for n in CONTROLLERS if f"-{n}" not in named and (n in named or "*" in words))


__all__ = ["CONTROLLERS", "DEMO_PROVISIONER", "Controllers", "chosen"]
