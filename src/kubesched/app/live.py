"""A scheduler connected to an API server: what it is made of, how it starts and how it stops.

start: client ─► events ─► one reflector a kind ─► wait until all have synced ─► stand by until leading ─► schedule
stop:  no new cycle ─► binds in flight end ─► lease released ─► events flushed ─► watches and connections closed
"""

from __future__ import annotations

import asyncio
import logging
import platform
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import NamedTuple

from kubesched.api import kinds
from kubesched.api.changes import Change
from kubesched.api.errors import KubeschedError
from kubesched.api.kinds import Kind
from kubesched.app.election import Election
from kubesched.client import discovery
from kubesched.client.documents import Documents
from kubesched.client.events import EventSink
from kubesched.client.extender import HttpExtender, extenders_of
from kubesched.client.kubeconfig import ClientConfig
from kubesched.client.port import ApiPort
from kubesched.client.rate import TokenBucket
from kubesched.client.reflector import UNFINISHED_PODS, Reflector, ReflectorSettings
from kubesched.client.request_metrics import RequestMetrics
from kubesched.client.rest import ApiClient, connect
from kubesched.clock import Chance, Clock, RealClock
from kubesched.config import Configuration, FeatureGates
from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.waiting import WaitingPods
from kubesched.metrics import Metrics
from kubesched.scheduler.profiles import build_profiles
from kubesched.scheduler.queue.hints import HintTable
from kubesched.scheduler.scheduler import Scheduler
from kubesched.state.cluster_state import ClusterState

log = logging.getLogger("kubesched.app")

#: How often a start that waits for its caches says so.
_REMIND_S = 10.0


@dataclass(slots=True)
class LiveOptions:
    config: Configuration
    registry: Mapping[str, type[Plugin]]
    gates: FeatureGates = field(default_factory=FeatureGates)
    seed: int | None = None
    pod_max_in_unschedulable_s: float = 300.0
    #: Over what the configuration says; None leaves it to that.
    leader_elect: bool | None = None
    #: How long one call to the API server may take, and how patient watches are.
    call_timeout_s: float = 30.0
    watching: ReflectorSettings | None = None
    #: How often it is looked whether a custom resource is served by now.
    search_every_s: float = 30.0
    #: How long a stop waits for events that are still queued.
    flush_events_s: float = 2.0


class LeaseLostError(KubeschedError):
    """Somebody else may lead now: the process has to end."""


class _Watch(NamedTuple):
    reflector: Reflector
    task: asyncio.Task[None]


class LiveScheduler:
    """`await start()`, then `await run()` until cancelled or stopped, then `await stop()`."""

    def __init__(self, connection: ClientConfig, options: LiveOptions, *, clock: Clock | None = None) -> None:
        self._connection = connection
        self._options = options
        self.clock = clock or RealClock()
        self.chance = Chance(options.seed)
        self.metrics = Metrics()
        self.state = ClusterState()
        self._watches: dict[str, _Watch] = {}
        self._searches: dict[str, asyncio.Task[None]] = {}
        #: What it runs with now; a reload changes it.
        self.config = options.config
        #: All watched objects have been seen, and applied.
        self.is_synced = False
        self.is_stopping = False

        settings = options.config.client_connection
        self.client: ApiClient = connect(
            connection,
            self.clock,
            qps=settings.qps,
            burst=settings.burst,
            timeout_s=options.call_timeout_s,
            metrics=RequestMetrics(self.metrics, connection.cluster.server),
        )
        elects = options.config.leader_election.leader_elect if options.leader_elect is None else options.leader_elect
        self.election = Election(connection, options.config, self.chance, self.metrics) if elects else None
        self._events = EventSink(
            self.client.lane("events", TokenBucket(settings.qps, settings.burst, self.clock)),
            self.clock,
            host=socket.gethostname(),
            to_come=lambda: len(self.scheduler.queue.active),
        )
        guard = self.election.check if self.election is not None else None
        self._port = ApiPort(self.client, self._events, self.clock, guard=guard)
        self.scheduler = Scheduler(self.state, self._port, self.clock, self.chance, self.metrics)
        self._waiting_pods = WaitingPods()
        self.documents = Documents()
        self._want_documents(options.config)
        self.extenders = self._build_extenders(options.config)
        self._former_extenders: list[HttpExtender] = []
        self.scheduler.start_with(
            self._build_profiles(options.config, options.registry, self.extenders),
            initial_backoff_s=options.config.pod_initial_backoff_seconds,
            max_backoff_s=options.config.pod_max_backoff_seconds,
            flush_after_s=options.pod_max_in_unschedulable_s,
        )
        self._tell_metrics()

    async def start(self) -> None:
        """Connects and returns once everything that is watched has been seen whole. Waits for a server that is away."""
        log.info("connecting server=%s seed=%d", self._connection.cluster.server, self.chance.seed)
        self._events.start()
        if self.config.delay_cache_until_active:
            await self._lead()
        for kind in self._watched_kinds(self.scheduler.runtimes):
            self._watch(kind)
        await self._watch_custom(self.scheduler.runtimes)
        await self._all_synced()
        self.scheduler.inbox.apply_all()
        self.is_synced = True
        log.info(
            "caches synced nodes=%d pods=%d pending=%d",
            self.state.nodes.row_count, len(self.state.placements), len(self.scheduler.handlers.pending),
        )  # fmt: skip

    async def run(self) -> None:
        """Stands by until it leads, then schedules. Raises `LeaseLostError`; ends otherwise when it is stopped."""
        if self.election is None:
            await self.scheduler.run()
            return
        if not self.election.acquired.is_set():
            following = asyncio.create_task(self.scheduler.stand_by(), name="standing by")
            try:
                await self._lead()
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
        if self.is_stopping:
            return
        scheduling = asyncio.create_task(self.scheduler.run(), name="scheduling")
        losing = asyncio.create_task(self.election.lost.wait(), name="watch of the lease")
        try:
            await asyncio.wait((scheduling, losing), return_when=asyncio.FIRST_COMPLETED)
            if self.election.lost.is_set() and not self.is_stopping:
                raise LeaseLostError("the lease is lost")
            await scheduling
        finally:
            for task in (scheduling, losing):
                task.cancel()
            await asyncio.gather(scheduling, losing, return_exceptions=True)

    async def _lead(self) -> None:
        if self.election is not None and not await self.election.lead() and not self.is_stopping:
            raise LeaseLostError("leader election has ended")

    async def stop(self) -> None:
        self.is_stopping = True
        await self.scheduler.stop()
        for runtime in self.scheduler.runtimes.values():
            runtime.close()
        if self.election is not None:
            await self.election.stop()
        await self._events.stop(self._options.flush_events_s)
        tasks = [watch.task for watch in self._watches.values()] + list(self._searches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for extender in (*self.extenders, *self._former_extenders):
            await extender.close()
        await self.client.close()

    async def adopt(self, config: Configuration, registry: Mapping[str, type[Plugin]]) -> None:
        """Go on with another configuration (a reload), from between two cycles on.

        Raises what building the plugins or extenders raises, before anything has changed. Everything that the new
        profiles read is in view before they are asked. What concerns connections and the lease stays as it is.
        """
        extenders = self._build_extenders(config)
        runtimes = self._build_profiles(config, registry, extenders)
        again = self._want_documents(config)
        for kind in self._watched_kinds(runtimes):
            if kind.kind not in self._watches or kind.kind in again:
                self._watch(kind)
        await self._watch_custom(runtimes)
        await self._all_synced()
        if self.scheduler.has_started:
            await self._between_cycles(self._swap, config, runtimes, extenders)
        else:
            self._swap(config, runtimes, extenders)

    def _swap(self, config: Configuration, runtimes: dict[str, Runtime], extenders: tuple[HttpExtender, ...]) -> None:
        former = list(self.scheduler.runtimes.values())
        added = runtimes.keys() - self.scheduler.runtimes.keys()
        self.scheduler.adopt(
            runtimes,
            initial_backoff_s=config.pod_initial_backoff_seconds,
            max_backoff_s=config.pod_max_backoff_seconds,
        )
        for runtime in former:
            runtime.close()
        for extender in self.extenders:
            self._former_extenders.append(extender)  # bindings under way may still need them
        self.config, self.extenders = config, extenders
        if added:
            self._watch(kinds.POD)  # pods that were somebody else's come again

    async def _between_cycles(self, work: Callable[..., None], *args: object) -> None:
        done = asyncio.get_running_loop().create_future()

        def carry_out() -> None:
            try:
                work(*args)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        self.scheduler.inbox.post(carry_out)
        await done

    # -- what it is made of

    def _tell_metrics(self) -> None:
        release = version("kubesched")
        self.metrics.build_info(
            {
                "git_version": f"v{release}",
                "major": "1",
                "minor": "36",
                "platform": f"{platform.system().lower()}/{platform.machine()}",
                "go_version": f"python{platform.python_version()}",
                "compiler": platform.python_implementation().lower(),
            }
        )
        for gate, enabled in self._options.gates:
            self.metrics.feature_enabled(gate.name, gate.stage, enabled)
        self.metrics.before_export(self._count_cache)

    def _count_cache(self) -> None:
        placements = self.state.placements
        assumed = sum(placement.assumed for placement in placements.values())
        self.metrics.cache_size(nodes=self.state.nodes.row_count, pods=len(placements), assumed_pods=assumed)

    def _build_extenders(self, config: Configuration) -> tuple[HttpExtender, ...]:
        return extenders_of(config.extenders, self.documents, self.clock)

    def _build_profiles(
        self, config: Configuration, registry: Mapping[str, type[Plugin]], extenders: tuple[HttpExtender, ...]
    ) -> dict[str, Runtime]:
        return build_profiles(
            config,
            registry,
            state=self.state,
            port=self._port,
            control=self.scheduler,
            clock=self.clock,
            chance=self.chance,
            metrics=self.metrics,
            gates=self._options.gates,
            extenders=extenders,
            waiting_pods=self._waiting_pods,
        )

    # -- watches

    def _watch(self, kind: Kind) -> None:
        """Watch a kind; again from the start if it is watched already."""
        if (before := self._watches.get(kind.event_resource)) is not None:
            before.task.cancel()
        reflector = Reflector(
            self.client,
            kind,
            self._deliver,
            clock=self.clock,
            chance=self.chance,
            field_selector=UNFINISHED_PODS if kind is kinds.POD else "",
            keep_documents=self.documents.wants(kind.event_resource),
            settings=self._options.watching,
        )
        task = asyncio.create_task(reflector.run(), name=f"watch of {kind.plural}")
        self._watches[kind.event_resource] = _Watch(reflector, task)

    def _deliver(self, changes: Sequence[Change]) -> None:
        if self.documents.wants("Pod"):
            self.scheduler.inbox.post(self.documents.take, changes)
        self.scheduler.deliver(changes)

    def _want_documents(self, config: Configuration) -> set[str]:
        """Whole documents for the extenders; answers the kinds that must be watched anew for it."""
        whole = [extender for extender in config.extenders if not extender.node_cache_capable]
        return self.documents.want(
            pods=bool(config.extenders),
            placed_pods=any(extender.preempt_verb for extender in whole),
            nodes=any(extender.filter_verb or extender.prioritize_verb for extender in whole),
        )

    def _watched_kinds(self, runtimes: Mapping[str, Runtime]) -> list[Kind]:
        """Pods, nodes, and whatever a plugin of some profile reads or listens to."""
        wanted = {"Pod", "Node"} | _resources_of(runtimes)
        return [kind for kind in kinds.KINDS if kind.kind in wanted]

    async def _watch_custom(self, runtimes: Mapping[str, Runtime]) -> None:
        """Watch the custom resources that plugins read or listen to: now those that are served, the others when they
        appear. Nothing waits for the latter."""
        for resource in sorted(filter(kinds.is_custom, _resources_of(runtimes))):
            if resource in self._watches or resource in self._searches:
                continue
            if not await self._found(resource):
                log.warning("a resource that plugins listen to is not served, will look again resource=%s", resource)
                self._searches[resource] = asyncio.create_task(self._search(resource), name=f"search for {resource}")

    async def _search(self, resource: str) -> None:
        while not await self._found(resource):
            await self.clock.sleep(self._options.search_every_s)
        log.info("a resource that plugins listen to is served now resource=%s", resource)
        del self._searches[resource]

    async def _found(self, resource: str) -> bool:
        try:
            kind = await discovery.find(self.client, resource)
        except KubeschedError as error:
            log.warning("could not look for a resource resource=%s error=%s", resource, error)
            return False
        if kind is not None:
            self._watch(kind)
        return kind is not None

    async def _all_synced(self) -> None:
        reflectors = [watch.reflector for watch in self._watches.values()]
        waiting = {asyncio.ensure_future(reflector.wait_synced()): reflector for reflector in reflectors}
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


def _resources_of(runtimes: Mapping[str, Runtime]) -> set[str]:
    """Whatever a plugin of some profile reads or listens to."""
    wanted: set[str] = set()
    for runtime in runtimes.values():
        wanted |= HintTable(runtime.plugins.all()).resources()
        for plugin in runtime.plugins.all():
            wanted.update(plugin.watches)
            for reads in (plugin.filter_reads, plugin.score_reads):
                wanted.update(reads.objects if reads is not None else ())
    return wanted
