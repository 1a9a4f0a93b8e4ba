"""Writing pod statuses without getting in the way of binds.

Conditions and nominations are queued per pod, the newest replacing what is not sent yet, and sent by a few calls at a
time. So what is queued is bounded by the pods there are, and binds find the connections free. A write that fails is
logged and dropped: the next attempt of the pod brings the next one. A pod that is about to be bound is written no more,
for its binding would be followed by the news that it does not fit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from kubesched.api.core import Pod
from kubesched.api.errors import ApiError, KubeschedError
from kubesched.api.meta import Condition
from kubesched.framework.ports import ClusterPort

log = logging.getLogger("kubesched.scheduler")

#: Calls in flight at a time. Binds have no such limit.
_IN_FLIGHT_MAX = 4


class _Write:
    __slots__ = ("condition", "nominated_node_name", "pod")

    def __init__(self, pod: Pod, condition: Condition | None, nominated_node_name: str | None) -> None:
        self.pod = pod
        self.condition = condition
        self.nominated_node_name = nominated_node_name


class StatusWriter:
    def __init__(self, port: ClusterPort, spawn: Callable[[str, Coroutine[Any, Any, None]], object]) -> None:
        self._port = port
        self._spawn = spawn
        self._queued: dict[str, _Write] = {}
        #: Their UIDs in order, with some that are not queued any more. (To find the first key of a dictionary that is
        #: emptied from its front takes longer and longer.)
        self._turns: deque[str] = deque()
        self._in_flight: dict[str, asyncio.Future[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, pod: Pod, *, condition: Condition | None, nominated_node_name: str | None) -> None:
        """`pod` is the newest version known; only what differs from it is written."""
        uid = pod.metadata.uid
        earlier = self._queued.get(uid)
        if earlier is not None:
            condition = condition or earlier.condition
            if nominated_node_name is None:
                nominated_node_name = earlier.nominated_node_name
        else:
            self._turns.append(uid)
        self._queued[uid] = _Write(pod, condition, nominated_node_name)
        self._idle.clear()
        self._start()

    def drop(self, uid: str) -> asyncio.Future[None] | None:
        """Send nothing more about the pod; what there is to wait for until what is under way was answered."""
        self._queued.pop(uid, None)
        return self._in_flight.get(uid)

    async def flushed(self) -> None:
        """Returns when everything submitted so far was sent."""
        await self._idle.wait()

    def _start(self) -> None:
        while self._turns and len(self._in_flight) < _IN_FLIGHT_MAX:
            uid = self._turns.popleft()
            if uid not in self._queued or uid in self._in_flight:
                continue  # dropped, or sent by the call under way when that is answered
            self._in_flight[uid] = asyncio.get_running_loop().create_future()
            self._spawn(f"status of pod {uid}", self._send(uid))

    async def _send(self, uid: str) -> None:
        try:
            while (write := self._queued.pop(uid, None)) is not None:
                await self._send_one(write)
        finally:
            self._in_flight.pop(uid).set_result(None)
            if self._queued:
                self._start()
            elif not self._in_flight:
                self._idle.set()

    async def _send_one(self, write: _Write) -> None:
        metadata = write.pod.metadata
        try:
            await self._port.patch_pod_status(
                write.pod, condition=write.condition, nominated_node_name=write.nominated_node_name
            )
        except ApiError as error:
            level = logging.DEBUG if error.code == 404 else logging.WARNING
            log.log(level, "could not write the status pod=%s/%s error=%s", metadata.namespace, metadata.name, error)
        except KubeschedError as failure:
            log.warning("could not write the status pod=%s/%s error=%s", metadata.namespace, metadata.name, failure)
