"""What a configuration means where it says nothing.

Works on checked data (see `decode`), because only there absent and zero can still be told apart. Source: the defaulting
of `kubescheduler.config.k8s.io/v1` in Kubernetes v1.36. Where the original treats a zero as absent (`qps: 0`,
`leaseDuration: 0s`), so does this; where it does not (`parallelism: 0`), validation will object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.config.catalog import PluginInfo, default_plugins
from kubesched.config.durations import Duration
from kubesched.config.errors import FieldError
from kubesched.config.features import FeatureGates
from kubesched.config.plugin_args import ARGS
from kubesched.config.types import ALL_POINTS, DEFAULT_SCHEDULER_NAME, ClientConnection, Extender, LeaderElection
from kubesched.config.validate import binding_timeout_is_read

Data = dict[str, Any]
_DEFAULT_RESOURCES = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def defaulted(config: Data, known: Mapping[str, PluginInfo], gates: FeatureGates, errors: list[FieldError]) -> Data:
    """The checked data of a configuration with everything filled in. The argument stays as it is.

    The one thing that can be wrong here goes to `errors`: a plugin whose args have no default, and that was given none.
    """
    profiles: list[Data] = config.get("profiles") or [{}]
    single = len(profiles) == 1
    result = {
        **config,
        "leaderElection": _zero_means_default(config.get("leaderElection", {}), LeaderElection, keep=("leaderElect",)),
        "clientConnection": _zero_means_default(config.get("clientConnection", {}), ClientConnection),
        "profiles": [
            _profile(f"profiles[{index}]", profile, single, known, gates, errors)
            for index, profile in enumerate(profiles)
        ],
        "extenders": [
            _zero_means_default(extender, Extender, only=("httpTimeout",)) for extender in config.get("extenders", [])
        ],
    }
    result.setdefault("enableContentionProfiling", config.get("enableProfiling", True))
    return result


def default_args(plugin: str, args: Data, gates: FeatureGates) -> Data:
    """The checked args of an in-tree plugin with everything filled in that is not a constant of the type."""
    fill = _ARGS.get(plugin)
    return args if fill is None else fill(args, gates)


def _zero_means_default(
    data: Data, kind: type[msgspec.Struct], keep: tuple[str, ...] = (), only: tuple[str, ...] = ()
) -> Data:
    """`data` without the fields whose value is the type's zero, so that they take their default."""
    return {name: value for name, value in data.items() if value or name in keep or (only and name not in only)}


def _profile(
    path: str,
    profile: Data,
    single: bool,
    known: Mapping[str, PluginInfo],
    gates: FeatureGates,
    errors: list[FieldError],
) -> Data:
    # A name is given only to a profile that is alone: several must all say theirs, which validation holds.
    name = profile.get("schedulerName", DEFAULT_SCHEDULER_NAME if single else "")
    plugins = _plugins(profile.get("plugins", {}), gates)
    configs = [dict(config) for config in profile.get("pluginConfig", [])]
    configured = {config.get("name", "") for config in configs}
    enabled = {plugin["name"] for point in plugins.values() for plugin in point.get("enabled", []) if "name" in plugin}
    for plugin in sorted(enabled - configured):
        kind = ARGS.get(plugin) or (known[plugin].args if plugin in known else None)
        if kind is not None:
            data = default_args(plugin, {}, gates) if plugin in ARGS else {}
            try:
                configs.append({"name": plugin, "args": msgspec.convert(data, kind)})
            except (msgspec.ValidationError, ValueError, TypeError) as error:
                reason = f"plugin {plugin} needs args: {error}"
                errors.append(FieldError(f"{path}.pluginConfig", None, reason, f"{path}.pluginConfig: {reason}"))
    return {**profile, "schedulerName": name, "plugins": plugins, "pluginConfig": configs}


def _plugins(custom: Data, gates: FeatureGates) -> Data:
    defaults = default_plugins(node_declared_features=gates.enabled("NodeDeclaredFeatures"))
    merged = {point: custom.get(point, {}) for point in ALL_POINTS}
    merged["multiPoint"] = _merged([msgspec.to_builtins(plugin) for plugin in defaults], merged["multiPoint"])
    return merged


def _merged(defaults: list[Data], custom: Data) -> Data:
    """The default plugins less the disabled ones, each replaced in place where re-configured; then the new ones."""
    disabled = {plugin.get("name", "") for plugin in custom.get("disabled", [])}
    enabled: list[Data] = custom.get("enabled", [])
    index_of = {plugin.get("name", ""): index for index, plugin in enumerate(enabled)}
    replaced: set[int] = set()
    result = []
    if "*" not in disabled:
        for plugin in defaults:
            if plugin["name"] in disabled:
                continue
            index = index_of.get(plugin["name"])
            if index is None:
                result.append(plugin)
            else:
                replaced.add(index)
                result.append(enabled[index])
    result.extend(plugin for index, plugin in enumerate(enabled) if index not in replaced)
    return {**custom, "enabled": result}


def _dynamic_resources(args: Data, gates: FeatureGates) -> Data:
    filter_timeout = Duration.of(10) if gates.enabled("DRASchedulerFilterTimeout") else None
    binding_timeout = Duration.of(600) if binding_timeout_is_read(gates) else None
    return {"filterTimeout": filter_timeout, "bindingTimeout": binding_timeout, **args}


def _balanced_allocation(args: Data, _: FeatureGates) -> Data:
    return {**args, "resources": _resources(args.get("resources"))}


def _fit(args: Data, _: FeatureGates) -> Data:
    strategy = args.get("scoringStrategy", {"type": "LeastAllocated"})
    return {**args, "scoringStrategy": {**strategy, "resources": _resources(strategy.get("resources"))}}


def _resources(resources: list[Data] | None) -> list[Data]:
    return [{**resource, "weight": resource.get("weight") or 1} for resource in resources or _DEFAULT_RESOURCES]


def _spread(args: Data, _: FeatureGates) -> Data:
    return {**args, "defaultingType": args.get("defaultingType") or "System"}


def _volume_binding(args: Data, gates: FeatureGates) -> Data:
    if gates.enabled("StorageCapacityScoring") and not args.get("shape"):
        return {**args, "shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]}
    return args


_ARGS = {
    "DynamicResources": _dynamic_resources,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "NodeResourcesFit": _fit,
    "PodTopologySpread": _spread,
    "VolumeBinding": _volume_binding,
}
