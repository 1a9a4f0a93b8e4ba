"""Making plugins from outside take part where the configuration does not speak of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubesched.config.types import Configuration, Plugin, Profile


def enable_everywhere(config: Configuration, names: Iterable[str]) -> Configuration:
    """Add these plugins to `multiPoint` of every profile, but for those that some profile speaks of already."""
    spoken_of = set().union(*(_mentioned(profile) for profile in config.profiles))
    extra = tuple(Plugin(name) for name in names if name not in spoken_of)
    if not extra:
        return config
    profiles = []
    for profile in config.profiles:
        multi_point = profile.plugins.multi_point
        multi_point = msgspec.structs.replace(multi_point, enabled=multi_point.enabled + extra)
        plugins = msgspec.structs.replace(profile.plugins, multi_point=multi_point)
        profiles.append(msgspec.structs.replace(profile, plugins=plugins))
    return msgspec.structs.replace(config, profiles=tuple(profiles))


def _mentioned(profile: Profile) -> set[str]:
    disabled = {
        plugin.name
        for field in profile.plugins.__struct_fields__
        for plugin in getattr(profile.plugins, field).disabled
    }
    return profile.plugins.names() | disabled
