"""A whole scheduler on a manual clock, with a port that records what the cluster is asked and can refuse it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from kubesched import config
from kubesched.api import kinds
from kubesched.api.changes import Delete, Upsert
from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.meta import Condition, Object
from kubesched.app.plugin_loading import merged
from kubesched.clock import Chance, ManualClock
from kubesched.framework import CycleState, EventRecord, Plugin, Reads
from kubesched.framework.runtime.runtime import Runtime
from kubesched.metrics import Metrics
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.profiles import build_profiles, plugin_info
from kubesched.scheduler.scheduler import Scheduler
from kubesched.state import consistency
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_table import NodeSet

Call = tuple[Any, ...]


class RecordingPort:
    """`calls` lists what was asked, as (verb, pod name, ...). `bind_answers` are raised or awaited, one a bind call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.events: list[EventRecord] = []
        self.bind_answers: deque[Exception | Callable[[], Awaitable[None]]] = deque()
        self.read_answers: deque[Exception | Pod | None] = deque()
        self.on_bind: Callable[[Pod, str], None] = lambda _pod, _node: None

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.calls.append(("bind", pod.metadata.name, node_name))
        if self.bind_answers:
            answer = self.bind_answers.popleft()
            if isinstance(answer, Exception):
                raise answer
            await answer()
        self.on_bind(pod, node_name)

    async def read_pod(self, pod: Pod) -> Pod | None:
        self.calls.append(("read", pod.metadata.name))
        answer = self.read_answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def patch_pod_status(
        self, pod: Pod, *, condition: Condition | None = None, nominated_node_name: str | None = None
    ) -> None:
        what = (condition.type, condition.status, condition.reason) if condition is not None else None
        self.calls.append(("status", pod.metadata.name, what, nominated_node_name))

    async def delete_pod(self, pod: Pod) -> None:
        self.calls.append(("delete", pod.metadata.name))

    async def update_volume(self, volume: PersistentVolume, *, claim: PersistentVolumeClaim) -> PersistentVolume:
        self.calls.append(("volume", volume.metadata.name, claim.metadata.name))
        return volume

    async def update_claim(self, claim: PersistentVolumeClaim, *, selected_node: str) -> PersistentVolumeClaim:
        self.calls.append(("claim", claim.metadata.name, selected_node))
        return claim

    def record_event(self, event: EventRecord) -> None:
        self.events.append(event)

    def event_reasons(self, pod_name: str) -> list[str]:
        return [event.reason for event in self.events if event.regarding.metadata.name == pod_name]

    def binds(self) -> list[tuple[str, str]]:
        """(pod, node) of every bind call."""
        return [(call[1], call[2]) for call in self.calls if call[0] == "bind"]


class ForColumns(Plugin):
    """Lets every node pass, and has no rule for one node: Filter goes by columns however few nodes there are."""

    name = "ForColumns"
    filter_reads = Reads()

    def sign(self, pod: Pod) -> str:
        return ""

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> None:
        return None


class Harness:
    """`plugins` run in every profile besides the in-tree ones. Pods that were bound are seen on the watch."""

    def __init__(
        self,
        *plugins: type[Plugin],
        settings: dict[str, Any] | None = None,
        seed: int = 1,
        echo: bool = True,
        keep: bool = True,
        port: RecordingPort | None = None,
    ) -> None:
        extra = {plugin.name: plugin for plugin in plugins}
        infos = [plugin_info(plugin) for plugin in plugins]
        source = settings and {"apiVersion": config.API_VERSION, "kind": config.KIND, **settings}
        self.config = config.load(source, plugins=infos, enable=extra)
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.state = ClusterState()
        self.port = port or RecordingPort()
        chance = Chance(seed)
        self.scheduler = Scheduler(self.state, self.port, self.clock, chance, self.metrics)
        self.runtimes = self.make_runtimes(merged(IN_TREE, extra), chance, keep=keep)
        self.scheduler.start_with(
            self.runtimes,
            initial_backoff_s=self.config.pod_initial_backoff_seconds,
            max_backoff_s=self.config.pod_max_backoff_seconds,
        )
        if echo:
            self.port.on_bind = self.see_bound

    def make_runtimes(self, registry: Mapping[str, type[Plugin]], chance: Chance, *, keep: bool) -> dict[str, Runtime]:
        """One a profile, on this state. Others than `runtimes` may be asked beside it."""
        return build_profiles(
            self.config,
            registry,
            state=self.state,
            port=self.port,
            control=self.scheduler,
            clock=self.clock,
            chance=chance,
            metrics=self.metrics,
            keep=keep,
        )

    @property
    def queue(self) -> Any:
        return self.scheduler.queue

    def plugin(self, name: str, profile: str = "default-scheduler") -> Any:
        return next(plugin for plugin in self.runtimes[profile].plugins.all() if plugin.name == name)

    def apply(self, *objects: Object) -> None:
        """Objects appear or change, as a watch would tell."""
        self.scheduler.deliver([Upsert(kinds.of(obj), obj) for obj in objects])

    def delete(self, *objects: Object) -> None:
        self.scheduler.deliver([Delete(kinds.of(obj), obj) for obj in objects])

    def see_bound(self, pod: Pod, node_name: str) -> None:
        self.apply(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name)))

    async def settle(self) -> None:
        """Run until nothing is ready and every task waits for time or for somebody else."""
        idle_turns = 0
        while idle_turns < 5:
            if await self.scheduler.step():
                idle_turns = 0
            else:
                idle_turns += 1
            await asyncio.sleep(0)
        self.check()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass in steps of an eighth of a second, with the queue flushed as `run` would."""
        for _ in range(round(seconds * 8)):
            self.clock.advance(0.125)
            self.queue.flush()
            await self.settle()

    def check(self) -> None:
        assert consistency.check(self.state) == []

    def node_of(self, pod: Object) -> str:
        return self.state.node_of(pod.metadata.uid)

    def waits_in(self, pod: Object) -> str:
        """The one place of the queue where the pod is, or ""."""
        uid = pod.metadata.uid
        places = {
            "active": uid in self.queue.active,
            "backoff": self.queue.backoff.get(uid) is not None,
            "gated": uid in self.queue.parked and bool(self.queue.parked.get(uid).gated_by),
            "unschedulable": uid in self.queue.parked and not self.queue.parked.get(uid).gated_by,
            "in flight": uid in self.queue.in_flight,
        }
        found = [place for place, is_there in places.items() if is_there]
        assert len(found) <= 1, f"{pod.metadata.name} is in {found}"
        return found[0] if found else ""

    async def stop(self) -> None:
        await self.scheduler.stop()


def names(objects: Iterable[Object]) -> list[str]:
    return [obj.metadata.name for obj in objects]
