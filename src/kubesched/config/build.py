"""Could the profiles and extenders of a valid configuration be built? And what they look like once they are.

The original finds these problems only when it makes the plugins, after validation, and its messages say so
(`initializing profiles: ...`). Here no plugin is made: what is needed to know is data in `catalog`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from itertools import pairwise

import msgspec

from kubesched.config.catalog import REMOVED, PluginInfo
from kubesched.config.errors import FieldError
from kubesched.config.expand import expand, score_weights
from kubesched.config.plugin_args import NodeResourcesFitArgs
from kubesched.config.types import POINTS, Configuration, Extender, PluginConfig, Profile
from kubesched.config.validate import node_resources_fit

_MAX_NODE_SCORE = 100
_MAX_TOTAL_SCORE = 2**63 - 1


def build_problems(config: Configuration, known: Mapping[str, PluginInfo]) -> list[FieldError]:
    """Everything that would keep the scheduler from starting with `config`, which has passed `validate`."""
    problems = [*_extenders(config.extenders, config.profiles)]
    for index, profile in enumerate(config.profiles):
        problems.extend(_profile(f"profiles[{index}]", profile, known))
    if not problems:
        problems.extend(_queue_sorts(config.profiles, known))
    return problems


def completed(config: Configuration, known: Mapping[str, PluginInfo]) -> Configuration:
    """`config` as the scheduler runs it: args of the profile's own plugins only, by name; resources that extenders
    manage alone ignored by NodeResourcesFit (they replace ignored resources of the args, as in the original)."""
    ignored = _ignored_resources(config.extenders)
    profiles = []
    for profile in config.profiles:
        named = profile.plugins.names()
        configs = sorted(
            (
                item
                for item in profile.plugin_config
                if item.name in named and item.name in known and item.args is not None
            ),
            key=lambda item: item.name,
        )
        if ignored:
            configs = [_ignoring(item, ignored) for item in configs]
        profiles.append(msgspec.structs.replace(profile, plugin_config=tuple(configs)))
    return msgspec.structs.replace(config, profiles=tuple(profiles))


def _ignored_resources(extenders: tuple[Extender, ...]) -> tuple[str, ...]:
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


def _ignoring(config: PluginConfig, resources: tuple[str, ...]) -> PluginConfig:
    if not isinstance(config.args, NodeResourcesFitArgs):
        return config
    return PluginConfig(config.name, msgspec.structs.replace(config.args, ignored_resources=resources))


def _extenders(extenders: tuple[Extender, ...], profiles: tuple[Profile, ...]) -> Iterator[FieldError]:
    for index, extender in enumerate(extenders):
        tls = extender.tls_config
        if tls is None:
            continue
        for name, file, data in (
            ("certFile", tls.cert_file, tls.cert_data),
            ("keyFile", tls.key_file, tls.key_data),
            ("caFile", tls.ca_file, tls.ca_data),
        ):
            fault = _unreadable(file) if file and not data else None
            if fault is not None:
                path = f"extenders[{index}].tlsConfig.{name}"
                yield FieldError(path, file, fault, f"couldn't build extenders: open {file}: {fault}")
    if _ignored_resources(extenders):
        for index, profile in enumerate(profiles):
            if not isinstance(profile.args("NodeResourcesFit"), NodeResourcesFitArgs):
                reason = "can't find NodeResourcesFitArgs in plugin config"
                yield FieldError(f"profiles[{index}].pluginConfig", None, reason, f"couldn't build extenders: {reason}")


def _unreadable(file: str) -> str | None:
    try:
        with open(file, "rb"):
            return None
    except (OSError, ValueError) as error:
        text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        return text[:1].lower() + text[1:]


def _profile(path: str, profile: Profile, known: Mapping[str, PluginInfo]) -> Iterator[FieldError]:
    def fault(where: str, reason: str, value: object = None) -> FieldError:
        message = f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}: {reason}"
        return FieldError(f"{path}.{where}" if where else path, value, reason, message)

    problems = [
        *(
            fault(where, f'initializing plugin "NodeResourcesFit": {error}', error.value)
            for where, error in _fit(profile)
        ),
        *(fault(where, reason) for where, reason in _own_points(profile, known)),
        *(fault(where, reason) for where, reason in _multi_point(profile, known)),
    ]
    if problems:
        yield from problems
        return
    expanded = expand(profile, known)
    sorters = len(expanded["queueSort"])
    if sorters != 1:
        name = f'profile with scheduler name "{profile.scheduler_name}"'
        yield fault("plugins", f"only one queue sort plugin required for {name}, but got {sorters}")
    if not expanded["bind"]:
        name = f'profile with scheduler name "{profile.scheduler_name}"'
        yield fault("plugins", f"at least one bind plugin is needed for {name}")
    weights = score_weights(profile, known)
    total = sum(weight * _MAX_NODE_SCORE for weight in weights.values())
    if total > _MAX_TOTAL_SCORE or any(weight < 0 for weight in weights.values()):
        yield fault("plugins.score", "score plugins: total score of Score plugins could overflow")


def _fit(profile: Profile) -> Iterator[tuple[str, FieldError]]:
    if "NodeResourcesFit" not in profile.plugins.names():
        return
    for index, config in enumerate(profile.plugin_config):
        if isinstance(config.args, NodeResourcesFitArgs):
            for error in node_resources_fit("", config.args):
                yield f"pluginConfig[{index}].args.{error.path}", error


def _own_points(profile: Profile, known: Mapping[str, PluginInfo]) -> Iterator[tuple[str, str]]:
    """What is wrong with the plugins that the extension points themselves enable: (where, reason)."""
    for point in POINTS:
        kind = _interface(point)
        seen: set[str] = set()
        for index, plugin in enumerate(profile.plugins.at(point).enabled):
            where = f"plugins.{point}.enabled[{index}]"
            if fault := _fault(plugin.name, known):
                yield where, f'{kind} "{plugin.name}" {fault}'
            elif point not in known[plugin.name].points:
                yield where, f'plugin "{plugin.name}" does not extend {kind} plugin'
            elif plugin.name in seen:
                yield where, f'plugin "{plugin.name}" already registered as "{kind}"'
            seen.add(plugin.name)


def _multi_point(profile: Profile, known: Mapping[str, PluginInfo]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for plugin in profile.plugins.multi_point.enabled:
        where = "plugins.multiPoint.enabled"  # without the index: the list holds the default plugins too
        if fault := _fault(plugin.name, known):
            # The original names the first extension point that it expands.
            point = next((p for p in POINTS if not profile.plugins.at(p).disables("*")), POINTS[0])
            yield where, f'{_interface(point)} "{plugin.name}" {fault}'
        elif plugin.name in seen:
            point = _first_open_point(profile, known[plugin.name])
            if point:
                yield where, f'plugin "{plugin.name}" already registered as "{_interface(point)}"'
        seen.add(plugin.name)


def _fault(name: str, known: Mapping[str, PluginInfo]) -> str:
    """Why there is no plugin of this name to be had; empty if there is."""
    if name not in known:
        return f"does not exist{_instead(name, known)}"
    return f"cannot be used: {known[name].fault}" if known[name].fault else ""


def _instead(name: str, known: Mapping[str, PluginInfo]) -> str:
    if name in REMOVED:
        return " (NodeVolumeLimits does what it did)"
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f' (did you mean "{close[0]}"?)' if close else " (if it is your own: --plugin FILE:CLASS)"


def _first_open_point(profile: Profile, plugin: PluginInfo) -> str:
    """The first point at which `multiPoint` would bring the plugin; empty if each sets or disables it itself."""
    for point in POINTS:
        own = profile.plugins.at(point)
        taken = any(item.name == plugin.name for item in own.enabled)
        if point in plugin.points and not (own.disables("*") or own.disables(plugin.name) or taken):
            return point
    return ""


def _queue_sorts(profiles: tuple[Profile, ...], known: Mapping[str, PluginInfo]) -> Iterator[FieldError]:
    sorters = [expand(profile, known)["queueSort"][0][0] for profile in profiles]
    for index, (first, sorter) in enumerate(zip([sorters[0]] * len(sorters), sorters, strict=True)):
        name, path = profiles[index].scheduler_name, f"profiles[{index}]"
        if sorter != first:
            reason = f'different queue sort plugins for profile "{name}": "{sorter}", first: "{first}"'
            yield FieldError(f"{path}.plugins.queueSort", sorter, reason, f"initializing profiles: {reason}")
    for before, after in pairwise(range(len(profiles))):
        if profiles[after].args(sorters[0]) != profiles[before].args(sorters[0]):
            reason = f'different queue sort plugin args for profile "{profiles[after].scheduler_name}"'
            path = f"profiles[{after}].pluginConfig"
            yield FieldError(path, None, reason, f"initializing profiles: {reason}")


def _interface(point: str) -> str:
    """The name of an extension point's interface in the original: `PreFilterPlugin`."""
    return f"{point[0].upper()}{point[1:]}Plugin"
