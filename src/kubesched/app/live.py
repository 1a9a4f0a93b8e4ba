"""A scheduler connected to an API server: what it is made of, how it starts and how it stops.

start: client ─► events ─► one reflector a kind ─► wait until all have synced ─► schedule
stop:  no new cycle ─► binds in flight end ─► events flushed ─► watches closed ─► connections closed
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from kubesched.api import kinds
from kubesched.api.kinds import Kind
from kubesched.client.events import EventSink
from kubesched.client.kubeconfig import ClientConfig
from kubesched.client.port import ApiPort
from kubesched.client.rate import TokenBucket
from kubesched.client.reflector import UNFINISHED_PODS, Reflector
from kubesched.client.rest import ApiClient, connect
from kubesched.clock import Chance, Clock, RealClock
from kubesched.config import Configuration, FeatureGates
from kubesched.framework.plugin import Plugin
from kubesched.metrics import Metrics
from kubesched.scheduler.profiles import build_profiles
from kubesched.scheduler.scheduler import Scheduler
from kubesched.state.cluster_state import ClusterState

log = logging.getLogger("kubesched.app")

#: How long a stop waits for events that are still queued.
_FLUSH_EVENTS_S = 2.0
#: How often a start that waits for its caches says so.
_REMIND_S = 10.0


@dataclass(slots=True)
class LiveOptions:
    config: Configuration
    registry: Mapping[str, type[Plugin]]
    gates: FeatureGates = field(default_factory=FeatureGates)
    seed: int | None = None
    pod_max_in_unschedulable_s: float = 300.0


class LiveScheduler:
    """`await start()`, then `await run()` until cancelled or stopped, then `await stop()`."""

    def __init__(self, connection: ClientConfig, options: LiveOptions, *, clock: Clock | None = None) -> None:
        self._connection = connection
        self._options = options
        self.clock = clock or RealClock()
        self.chance = Chance(options.seed)
        self.metrics = Metrics()
        self.state = ClusterState()
        self._reflectors: list[Reflector] = []
        self._tasks: list[asyncio.Task[None]] = []

        settings = options.config.client_connection
        self._client: ApiClient = connect(connection, self.clock, qps=settings.qps, burst=settings.burst)
        self._events = EventSink(
            self._client.lane("events", TokenBucket(settings.qps, settings.burst, self.clock)),
            self.clock,
            host=socket.gethostname(),
        )
        port = ApiPort(self._client, self._events, self.clock)
        self.scheduler = Scheduler(self.state, port, self.clock, self.chance, self.metrics)
        self.scheduler.start_with(
            build_profiles(
                options.config,
                options.registry,
                state=self.state,
                port=port,
                control=self.scheduler,
                clock=self.clock,
                chance=self.chance,
                metrics=self.metrics,
                gates=options.gates,
            ),
            initial_backoff_s=options.config.pod_initial_backoff_seconds,
            max_backoff_s=options.config.pod_max_backoff_seconds,
            flush_after_s=options.pod_max_in_unschedulable_s,
        )

    async def start(self) -> None:
        """Connects and returns once everything that is watched has been seen whole. Waits for a server that is away."""
        log.info("connecting server=%s seed=%d", self._connection.cluster.server, self.chance.seed)
        self._events.start()
        for kind in self._watched_kinds():
            reflector = Reflector(
                self._client,
                kind,
                self.scheduler.deliver,
                clock=self.clock,
                chance=self.chance,
                field_selector=UNFINISHED_PODS if kind is kinds.POD else "",
            )
            self._reflectors.append(reflector)
            self._tasks.append(asyncio.create_task(reflector.run(), name=f"watch of {kind.plural}"))
        await self._all_synced()
        self.scheduler.inbox.apply_all()
        log.info(
            "caches synced nodes=%d pods=%d pending=%d",
            self.state.nodes.row_count, len(self.state.placements), len(self.scheduler.handlers.pending),
        )  # fmt: skip

    async def run(self) -> None:
        await self.scheduler.run()

    async def stop(self) -> None:
        await self.scheduler.stop()
        await self._events.stop(_FLUSH_EVENTS_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    def _watched_kinds(self) -> list[Kind]:
        """Pods, nodes, and whatever a plugin of some profile reads or listens to."""
        wanted = {"Pod", "Node"} | self.scheduler.queue.resources()
        for runtime in self.scheduler.runtimes.values():
            for plugin in runtime.plugins.all():
                wanted.update(plugin.watches)
                for reads in (plugin.filter_reads, plugin.score_reads):
                    wanted.update(reads.objects if reads is not None else ())
        return [kind for kind in kinds.KINDS if kind.kind in wanted]

    async def _all_synced(self) -> None:
        waiting = {asyncio.ensure_future(reflector.wait_synced()): reflector for reflector in self._reflectors}
        pending = set(waiting)
        try:
            while pending:
                _, pending = await asyncio.wait(pending, timeout=_REMIND_S)
                if pending:
                    missing = ",".join(sorted(waiting[future].kind.plural for future in pending))
                    log.warning("still waiting for the first list of %s", missing)
        finally:
            for future in pending:
                future.cancel()
