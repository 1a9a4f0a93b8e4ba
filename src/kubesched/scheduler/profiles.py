"""From a configuration to the runtimes of its profiles: the one place where live and offline runs are put together."""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.clock import Chance, Clock
from kubesched.config import IN_TREE, Configuration, FeatureGates, PluginInfo, Profile, expand
from kubesched.framework.extender import Extender
from kubesched.framework.handle import Handle, SchedulerControl
from kubesched.framework.plugin import Plugin
from kubesched.framework.ports import ClusterPort
from kubesched.framework.runtime.build import build_runtime, check_plugin
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.waiting import WaitingPods
from kubesched.metrics import Metrics
from kubesched.state.cluster_state import ClusterState

Registry = Mapping[str, type[Plugin]]


def plugin_info(plugin: type[Plugin]) -> PluginInfo:
    """What the configuration has to know of a plugin from outside; raises PluginSetupError."""
    return PluginInfo(plugin.name, check_plugin(plugin), plugin.args_type)


def build_profiles(
    config: Configuration,
    registry: Registry,
    *,
    state: ClusterState,
    port: ClusterPort,
    control: SchedulerControl,
    clock: Clock,
    chance: Chance,
    metrics: Metrics,
    gates: FeatureGates | None = None,
    extenders: tuple[Extender, ...] = (),
    waiting_pods: WaitingPods | None = None,
    keep: bool = True,
) -> dict[str, Runtime]:
    """A runtime per profile, by scheduler name. Plugins of all profiles share the state and the waiting pods.

    `waiting_pods` are those of the profiles that these replace, if they do.
    """
    features = {gate.name: on for gate, on in (gates or FeatureGates())}
    known = dict(IN_TREE)
    known.update((name, plugin_info(cls)) for name, cls in registry.items() if name not in IN_TREE)
    # Ours may need no method at a point where the original has one (a PreScore that only copies, ...).
    served = {name: check_plugin(registry[name]) for name in IN_TREE if name in registry}
    waiting_pods = WaitingPods() if waiting_pods is None else waiting_pods
    runtimes: dict[str, Runtime] = {}

    def build(profile: Profile) -> Runtime:
        handle = Handle(
            profile_name=profile.scheduler_name,
            clock=clock,
            chance=chance,
            metrics=metrics,
            features=features,
            state=state,
            port=port,
            control=control,
            waiting_pods=waiting_pods,
            extenders=extenders,
        )
        percentage = profile.percentage_of_nodes_to_score
        return build_runtime(
            handle,
            registry,
            {
                point: [entry for entry in plugins if entry[0] not in served or point in served[entry[0]]]
                for point, plugins in expand(profile, known).items()
            },
            profile.args,
            percentage_of_nodes=config.percentage_of_nodes_to_score if percentage is None else percentage,
            keep=keep,
        )

    try:
        for profile in config.profiles:
            runtimes[profile.scheduler_name] = build(profile)
    except BaseException:
        for runtime in runtimes.values():
            runtime.close()
        raise
    return runtimes
