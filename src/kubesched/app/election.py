"""Leader election from the configuration: whose lease, and as whom."""

from __future__ import annotations

import asyncio
import socket
import uuid
from typing import Final

from kubesched.client.kubeconfig import ClientConfig
from kubesched.client.lease import LeaderElection, LeaseElector, LeaseSettings
from kubesched.client.request_metrics import RequestMetrics
from kubesched.client.rest import ApiClient, connect
from kubesched.clock import Chance, RealClock
from kubesched.config import Configuration
from kubesched.metrics import Metrics

#: How much longer than the lease itself a lost renewal goes unnoticed by the health check (kube-scheduler v1.36).
WATCHDOG_S: Final = 20.0
_POOL_SIZE: Final = 2


class Election:
    """A `LeaderElection` on a connection of its own, whose requests are counted with all others."""

    def __init__(self, connection: ClientConfig, config: Configuration, chance: Chance, metrics: Metrics) -> None:
        wanted = config.leader_election
        self._settings = LeaseSettings(
            namespace=wanted.resource_namespace,
            name=wanted.resource_name,
            lease_duration_s=wanted.lease_duration.seconds,
            renew_deadline_s=wanted.renew_deadline.seconds,
            retry_period_s=wanted.retry_period.seconds,
        )
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._connection = connection
        self._component = config.profiles[0].scheduler_name
        self._seed = chance.randrange(2**32)
        self._metrics = metrics
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leading = LeaderElection(self._make)
        self.acquired, self.lost = self._leading.acquired, self._leading.lost
        self.check = self._leading.check
        metrics.leader(wanted.resource_name, leading=False)

    async def lead(self) -> bool:
        """Stands by until the lease is ours; False when the election has broken down instead."""
        self._loop = asyncio.get_running_loop()
        self._leading.start()
        waits = [asyncio.ensure_future(event.wait()) for event in (self.acquired, self.lost)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.acquired.is_set():
            self._metrics.leader(self._settings.name, leading=True)
        return self.acquired.is_set() and not self.lost.is_set()

    async def stop(self) -> None:
        """Releases the lease, if it is ours."""
        self._metrics.leader(self._settings.name, leading=False)
        await self._leading.stop()

    def finding(self) -> str:
        """For the health checks: a leader that should have ended long ago and has not."""
        settings = self._settings
        tolerated_s = settings.lease_duration_s - settings.renew_deadline_s + WATCHDOG_S
        if self._leading.overdue_s() <= tolerated_s:
            return ""
        return f"failed election to renew leadership on lease {settings.name}"

    def _make(self) -> tuple[LeaseElector, ApiClient]:
        """On the election's own thread."""
        assert self._loop is not None
        clock = RealClock()
        counts = RequestMetrics(self._metrics, self._connection.cluster.server, self._loop.call_soon_threadsafe)
        client = connect(self._connection, clock, qps=0, pool_size=_POOL_SIZE, metrics=counts)
        elector = LeaseElector(
            client.lane("leader-election", None),
            self.identity,
            clock,
            Chance(self._seed),
            self._settings,
            component=self._component,
        )
        return elector, client
