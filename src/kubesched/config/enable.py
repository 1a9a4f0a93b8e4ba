"""Making plugins from outside take part where the configuration does not speak of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Data = dict[str, Any]


def enabled_everywhere(config: Data, names: Iterable[str]) -> Data:
    """Checked data with these plugins in `multiPoint` of every profile, but for those that some profile enables or
    disables itself. Args alone do not count as speaking of a plugin. The argument stays as it is."""
    profiles: list[Data] = config.get("profiles") or [{}]
    spoken_of = set().union(*(_mentioned(profile) for profile in profiles))
    extra = [{"name": name} for name in names if name not in spoken_of]
    return {**config, "profiles": [_with(profile, extra) for profile in profiles]} if extra else config


def _with(profile: Data, extra: list[Data]) -> Data:
    plugins = profile.get("plugins") or {}
    multi_point = plugins.get("multiPoint") or {}
    multi_point = {**multi_point, "enabled": [*(multi_point.get("enabled") or []), *extra]}
    return {**profile, "plugins": {**plugins, "multiPoint": multi_point}}


def _mentioned(profile: Data) -> set[str]:
    return {
        plugin.get("name", "")
        for plugins in (profile.get("plugins") or {}).values()
        for listed in plugins.values()
        for plugin in listed
    }
