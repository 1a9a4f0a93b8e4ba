"""`Cluster`: a cluster made of manifests, to ask and to schedule on.

    cluster = Cluster(["nodes.yaml", "apps/"])
    cluster.explain(pod).message          # nothing changes
    cluster.capacity(pod).count           # how many of these would fit? nothing changes
    cluster.schedule(pod).node            # the cluster holds the pod from then on
    cluster.run().placements              # every pending pod

It puts the scheduler's parts together around a `World` instead of an API server and a clock that is moved by hand.
Pods that wait are queued from the start, but nothing is scheduled until it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from kubesched.api import kinds
from kubesched.api.core import Node, Pod
from kubesched.clock import Chance, ManualClock
from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.runtime import Runtime
from kubesched.manifests import Input
from kubesched.metrics import Metrics
from kubesched.offline import hints
from kubesched.offline.capacity import Capacity, estimate
from kubesched.offline.errors import OfflineError
from kubesched.offline.garbage import collected_rarely
from kubesched.offline.inputs import ConfigInput, is_text, load_config, load_objects, load_pod
from kubesched.offline.outcomes import Outcome, Run
from kubesched.offline.private_loop import PrivateLoop
from kubesched.offline.running import Driver
from kubesched.offline.world import World
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.explain import explain
from kubesched.scheduler.explanation import Explanation
from kubesched.scheduler.profiles import build_profiles
from kubesched.scheduler.scheduler import Scheduler
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo

#: Manifest (dict, YAML or JSON text, path), a decoded pod, or the name of a pending pod ("name", "namespace/name").
PodInput: TypeAlias = "Input | Pod"


class Cluster:
    """`manifests`: dicts, YAML or JSON texts, paths of files and folders, Lists, or any collection of these.

    `config` is a KubeSchedulerConfiguration as path, text or dict; None is the default one. Extenders are refused.
    `plugins` are classes from outside; they run in every profile unless the configuration names them itself. Those
    `available` run only where it does. Equal manifests, configuration and seed give equal answers. ManifestError,
    ConfigError, PluginSetupError and OfflineError say what is wrong with the input; all are KubeschedErrors.
    """

    def __init__(
        self,
        manifests: Input = (),
        config: ConfigInput = None,
        seed: int = 0,
        *,
        plugins: Iterable[type[Plugin]] = (),
        available: Iterable[type[Plugin]] = (),
    ) -> None:
        plugins, available = tuple(plugins), tuple(available)
        registry = _registry((*plugins, *available))
        configuration = load_config(config, plugins, available)
        with collected_rarely():
            objects, self._admission = load_objects(manifests)
        self._clock = ManualClock()
        self._world = World(self._clock)
        self._state = ClusterState()
        self._chance = chance = Chance(seed)
        metrics = Metrics()
        self._loop = PrivateLoop()
        self._scheduler = Scheduler(
            self._state,
            self._world,
            self._clock,
            chance,
            metrics,
            # None of ours asks for its task before it waits, but who knows what a plugin from outside does.
            start_binding=self._loop.start_at_once if plugins or available else self._loop.run_at_once,
            tells_of_bindings=False,
        )
        self._runtimes = build_profiles(
            configuration,
            registry,
            state=self._state,
            port=self._world,
            control=self._scheduler,
            clock=self._clock,
            chance=chance,
            metrics=metrics,
        )
        self._scheduler.start_with(
            self._runtimes,
            initial_backoff_s=configuration.pod_initial_backoff_seconds,
            max_backoff_s=configuration.pod_max_backoff_seconds,
        )
        self._world.on_change = self._scheduler.deliver
        self._driver = Driver(self._scheduler, self._world, self._clock, self._loop)
        with collected_rarely():
            for obj in sorted(objects, key=_waiting_pods_last):
                self._world.put(obj)
            self._scheduler.inbox.apply_all()

    def __repr__(self) -> str:
        return f"<Cluster of {len(self.nodes)} nodes, {len(self.placements)} pods placed, {len(self.pending)} pending>"

    # -- what there is

    @property
    def nodes(self) -> list[Node]:
        return self._world.list(kinds.NODE)

    @property
    def pods(self) -> list[Pod]:
        return self._world.list(kinds.POD)

    @property
    def placements(self) -> dict[str, str]:
        """Node by pod (namespace/name)."""
        return {pod.key: pod.spec.node_name for pod in self.pods if pod.spec.node_name and not pod.is_terminal}

    @property
    def pending(self) -> list[str]:
        """The pods (namespace/name) of this configuration's profiles that have no node."""
        return [pod.key for pod in self._scheduler.handlers.pending.values()]

    # -- what would happen

    def explain(self, pod: PodInput) -> Explanation:
        """What an attempt to schedule the pod now would come to, and why. Nothing changes.

        A pod that names its node already, which no scheduler would pick up, is filtered and scored all the same.
        """
        asked = self._pod(pod)
        return explain(self._runtime(asked), self._state, PodInfo(asked))

    def capacity(self, pod: PodInput, limit: int | None = None) -> Capacity:
        """How many copies of the pod fit beside what is there, on which nodes, and why no more. Nothing changes.

        Nobody is preempted for them. `limit` stops the count.
        """
        asked = self._pod(pod)
        with collected_rarely():
            return estimate(asked, self._runtime(asked), self._state, self._chance, limit)

    def queueing_hint(self, plugin: str, pod: PodInput, event: Mapping[str, Any]) -> str | None:
        """Would the event make the plugin want a pod that it rejected tried again: "Queue", "Skip", or None where it
        does not listen to such events. The cluster is the one after the event.

        `event` has `resource` (a kind), `action` (Add, Update, Delete), `old` and `new` objects as far as there are
        such, and may name the scheduler's own `actionTypes`; without them they are found out from the objects.
        """
        asked = self._pod(pod)
        return hints.answer(self._runtime(asked), plugin, asked, event)

    # -- what happens

    def schedule(self, pod: PodInput) -> Outcome:
        """Schedule this one pod, preempting others if need be. The cluster holds it from then on, bound or pending."""
        asked = self._pod(pod)
        self._runtime(asked)
        known = self._world.get(kinds.POD, asked.name, asked.namespace)
        if known is not None and known.spec.node_name:
            raise OfflineError(f"pod {asked.key} is on node {known.spec.node_name} already")
        if asked.spec.node_name:
            raise OfflineError(f"pod {asked.key} names its node already (spec.nodeName: {asked.spec.node_name!r})")
        return self._loop.run(self._driver.schedule(asked))

    def run(self) -> Run:
        """Schedule every pending pod through queue, backoff and preemption, in virtual time, until nothing more can
        happen."""
        with collected_rarely():
            return self._loop.run(self._driver.run())

    # -- helpers

    def _pod(self, pod: PodInput) -> Pod:
        if isinstance(pod, str) and not is_text(pod) and not os.path.exists(pod):
            return self._pending_pod(pod)
        return load_pod(pod, self._admission)

    def _pending_pod(self, name: str) -> Pod:
        namespace, _, short = name.rpartition("/")
        found: Pod | None = self._world.get(kinds.POD, short, namespace or "default")
        if found is None:
            raise OfflineError(f"no pod {namespace or 'default'}/{short} in the cluster, and no such file: {name}")
        if found.spec.node_name:
            raise OfflineError(f"pod {found.key} is on node {found.spec.node_name} already")
        return found

    def _runtime(self, pod: Pod) -> Runtime:
        runtime = self._runtimes.get(pod.spec.scheduler_name)
        if runtime is None:
            raise OfflineError(
                f"pod {pod.key}: spec.schedulerName: no profile is named {pod.spec.scheduler_name!r}, "
                f"the configuration has {', '.join(map(repr, self._runtimes))}"
            )
        return runtime


def _registry(plugins: Iterable[type[Plugin]]) -> dict[str, type[Plugin]]:
    registry = dict(IN_TREE)
    for plugin in plugins:
        if plugin.name in registry:
            raise OfflineError(f"a plugin named {plugin.name} is there already")
        registry[plugin.name] = plugin
    return registry


def _waiting_pods_last(obj: Any) -> bool:
    return isinstance(obj, Pod) and not obj.spec.node_name
