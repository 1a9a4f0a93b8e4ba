"""What configuration knows of plugins: their names, extension points, default order and weights. Never the code.

The in-tree table is data and follows kube-scheduler v1.36; plugins from outside are added by whoever loads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kubesched.config.plugin_args import ARGS
from kubesched.config.types import Plugin


class PluginInfo(msgspec.Struct, frozen=True):
    """A plugin that may be named in a configuration. `args` is the struct of its args; None takes them as raw data.
    With a `fault` it is known to be there and not to be usable; the fault says why."""

    name: str
    points: frozenset[str]
    args: type[msgspec.Struct] | None = None
    fault: str = ""


_IN_TREE_POINTS = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "NodeUnschedulable": "filter",
    "NodeName": "filter",
    "TaintToleration": "filter preScore score",
    "NodeAffinity": "preFilter filter preScore score",
    "NodePorts": "preFilter filter",
    "NodeResourcesFit": "preFilter filter preScore score",
    "VolumeRestrictions": "preFilter filter",
    "NodeVolumeLimits": "preFilter filter",
    "VolumeBinding": "preFilter filter preScore score reserve preBind",
    "VolumeZone": "preFilter filter",
    "PodTopologySpread": "preFilter filter preScore score",
    "InterPodAffinity": "preFilter filter preScore score",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "DefaultPreemption": "preEnqueue postFilter",
    "NodeResourcesBalancedAllocation": "preScore score",
    "ImageLocality": "score",
    "DefaultBinder": "bind",
    "NodeDeclaredFeatures": "preFilter filter",
}

IN_TREE: dict[str, PluginInfo] = {
    name: PluginInfo(name, frozenset(points.split()), ARGS.get(name)) for name, points in _IN_TREE_POINTS.items()
}
"""By name, in the default order of execution."""

_DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}

# Removed in v1 of the configuration API: NodeVolumeLimits does what they did.
REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})


def default_plugins(*, node_declared_features: bool = True) -> tuple[Plugin, ...]:
    """The `multiPoint` plugins of a profile that does not say otherwise, in order."""
    return tuple(
        Plugin(name, _DEFAULT_WEIGHTS.get(name, 0))
        for name in IN_TREE
        if name != "NodeDeclaredFeatures" or node_declared_features
    )


def with_out_of_tree(plugins: Iterable[PluginInfo]) -> Mapping[str, PluginInfo]:
    """The in-tree plugins and `plugins`. Raises ValueError when a name is taken twice."""
    known = dict(IN_TREE)
    for plugin in plugins:
        if plugin.name in known:
            raise ValueError(f"a plugin named {plugin.name} already exists")
        known[plugin.name] = plugin
    return known
