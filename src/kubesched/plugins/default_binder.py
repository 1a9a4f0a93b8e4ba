"""DefaultBinder: writes the decision to the API server, as a Binding of the pod to the node."""

from __future__ import annotations

from kubesched.api.core import Pod
from kubesched.api.errors import ApiError, TransportError
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import ClusterEventWithHint
from kubesched.framework.plugin import Plugin
from kubesched.framework.status import Status


class DefaultBinder(Plugin):
    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """After a TransportError the Binding may or may not stand; the watch shows which."""
        try:
            await self.handle.port.bind(pod, node_name)
        except (ApiError, TransportError) as error:
            return Status.error(error)
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []
