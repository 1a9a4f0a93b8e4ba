"""Which plugins of a profile run at which extension point, in which order and with which weight.

The rules of `multiPoint`, from kube-scheduler v1.36: what a point enables itself overrides what `multiPoint` brings;
`disabled` of a point keeps `multiPoint` plugins out of that point (`*` all of them), but never a plugin that the point
enables itself. Order at a point: overridden `multiPoint` plugins as the point lists them, then the other `multiPoint`
plugins in their order, then the rest of the point's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.config.catalog import IN_TREE, PluginInfo
from kubesched.config.types import POINTS, Profile

WEIGHTED_POINT = "score"


def expand(profile: Profile, known: Mapping[str, PluginInfo] = IN_TREE) -> dict[str, tuple[tuple[str, int], ...]]:
    """For every extension point its plugins in order of execution, as (name, weight); 0 where no weight counts.

    `known` holds all plugins that the profile may name (`catalog.with_out_of_tree`). The profile must be valid: a
    plugin that is not known is a KeyError.
    """
    weights = score_weights(profile, known)
    return {
        point: tuple((name, weights[name] if point == WEIGHTED_POINT else 0) for name in _at(point, profile, known))
        for point in POINTS
    }


def score_weights(profile: Profile, known: Mapping[str, PluginInfo] = IN_TREE) -> dict[str, int]:
    """The weight of every score plugin: the score point's own goes before the `multiPoint` one, and 0 means 1."""
    weights: dict[str, int] = {}
    for plugin in (*profile.plugins.score.enabled, *profile.plugins.multi_point.enabled):
        if plugin.name not in weights and WEIGHTED_POINT in known[plugin.name].points:
            weights[plugin.name] = plugin.weight or 1
    return weights


def _at(point: str, profile: Profile, known: Mapping[str, PluginInfo]) -> list[str]:
    own_set = profile.plugins.at(point)
    own = [plugin.name for plugin in own_set.enabled]
    if own_set.disables("*"):
        return own
    offered = [
        plugin.name
        for plugin in profile.plugins.multi_point.enabled
        if point in known[plugin.name].points and not own_set.disables(plugin.name)
    ]
    overridden = [name for name in own if name in offered]
    brought = [name for name in offered if name not in own]
    return overridden + brought + [name for name in own if name not in overridden]
