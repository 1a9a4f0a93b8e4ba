"""What is allowed but hardly meant. The original says nothing about these; `load` logs them as warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubesched.config.catalog import PluginInfo
from kubesched.config.plugin_args import NodeResourcesFitArgs
from kubesched.config.types import ALL_POINTS, DEFAULT_SCHEDULER_NAME, Configuration, LeaderElection, Profile


def hints(config: Configuration, known: Mapping[str, PluginInfo]) -> list[str]:
    """Readable lines, each beginning with the field's path. `config` is valid and not yet completed."""
    return list(_hints(config, known))


def lease_hint(config: Configuration) -> str:
    """What is odd about the lease, or nothing. Only for who takes part in leader election, and with what flags say."""
    election, stock = config.leader_election, LeaderElection()
    same = (election.resource_namespace, election.resource_name) == (stock.resource_namespace, stock.resource_name)
    if not (election.leader_elect and same and config.profile(DEFAULT_SCHEDULER_NAME) is None):
        return ""
    return (
        f"leaderElection.resourceName: the lease {stock.resource_namespace}/{stock.resource_name} is the one of the"
        " stock scheduler: beside it, this one would wait for ever. Give it a name of its own"
    )


def _hints(config: Configuration, known: Mapping[str, PluginInfo]) -> Iterator[str]:
    managed = any(
        resource.ignored_by_scheduler for extender in config.extenders for resource in extender.managed_resources
    )
    for index, profile in enumerate(config.profiles):
        yield from _profile(f"profiles[{index}]", profile, known)
        args = profile.args("NodeResourcesFit")
        if managed and isinstance(args, NodeResourcesFitArgs) and args.ignored_resources:
            yield (
                f"profiles[{index}].pluginConfig: the ignoredResources of NodeResourcesFit have no effect:"
                " those that extenders manage take their place"
            )


def _profile(path: str, profile: Profile, known: Mapping[str, PluginInfo]) -> Iterator[str]:
    named = profile.plugins.names()
    for index, config in enumerate(profile.plugin_config):
        if config.name not in named:
            where = f"{path}.pluginConfig[{index}]"
            yield f'{where}: args for "{config.name}" have no effect: no such plugin runs in this profile'
    for point in ALL_POINTS:
        for index, plugin in enumerate(profile.plugins.at(point).disabled):
            if plugin.name != "*" and plugin.name not in known:
                where = f"{path}.plugins.{point}.disabled[{index}]"
                yield f'{where}: disabling "{plugin.name}" has no effect: there is no such plugin'
