"""`Handle`: what a plugin may use of the scheduler it runs in.

One handle a profile, passed to every plugin of it. The state is for reading: whatever a plugin wants changed goes
through the port (the cluster) or through `control` (the scheduler), and takes effect between scheduling cycles.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kubesched.api.core import Pod
from kubesched.clock import Chance, Clock
from kubesched.framework.extender import Extender
from kubesched.framework.ports import ClusterPort, EventRecord
from kubesched.framework.waiting import WaitingPods
from kubesched.state.cluster_state import ClusterState

if TYPE_CHECKING:
    from kubesched.framework.runtime.runtime import Runtime
    from kubesched.metrics import Metrics


class SchedulerControl(Protocol):
    """What plugins may ask of the scheduler. Each call is noted and carried out between cycles."""

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move these pods to the active queue, if they are pending."""
        ...

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Note (or with "" clear) the pod's nominated node in our own view."""
        ...

    def preempt_binding(self, uid: str, message: str) -> bool:
        """Preempt the pod if it waits in Permit or is in PreBind; False when it is in neither. It fails with an error,
        so that it is tried again soon."""
        ...

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside the cycles; it is cancelled when the scheduler stops."""
        ...


@dataclass(slots=True)
class Handle:
    profile_name: str
    clock: Clock
    chance: Chance
    metrics: Metrics
    #: Feature gates by name; absent names are off.
    features: Mapping[str, bool]
    #: Nodes, placed pods, other objects, nominations: read only.
    state: ClusterState
    port: ClusterPort
    control: SchedulerControl
    waiting_pods: WaitingPods = field(default_factory=WaitingPods)
    extenders: tuple[Extender, ...] = ()
    #: The profile's own runtime, for plugins that run filters themselves (preemption). Set once all plugins are made.
    runtime: Runtime | None = None

    def record_event(
        self, pod: Pod, *, type: str, reason: str, action: str, note: str, related: Pod | None = None
    ) -> None:
        self.port.record_event(
            EventRecord(
                regarding=pod,
                type=type,
                reason=reason,
                action=action,
                note=note,
                reporting_controller=self.profile_name,
                related=related,
            )
        )
