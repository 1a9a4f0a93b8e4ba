"""A configuration as `--write-config-to` and `/configz` show it: every field, defaults included.

Equal as data to what the original writes. Keys of the client certificates of extenders are left out unless they are
asked for: a log, a web page and an issue report are no places for them, a file that will be loaded again is.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import yaml

from kubesched.config.durations import Duration
from kubesched.config.plugin_args import ARGS
from kubesched.config.types import API_VERSION, KIND, Configuration, Extender, Plugins, PluginSet, Profile

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def dump(config: Configuration, *, with_keys: bool = False) -> str:
    """YAML text, its fields sorted as the original sorts them. `with_keys` is for `--write-config-to` alone."""
    data = to_dict(config, with_keys=with_keys)
    text: str = yaml.dump(data, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True)
    return text


def to_dict(config: Configuration, *, with_keys: bool = False) -> dict[str, Any]:
    """Plain data, in the order of the API's fields (that of `/configz`)."""
    data: dict[str, Any] = {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "parallelism": config.parallelism,
        "leaderElection": _plain(config.leader_election),
        "clientConnection": _plain(config.client_connection),
        "enableProfiling": config.enable_profiling,
        "enableContentionProfiling": config.enable_contention_profiling,
        "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
        "profiles": [_profile(profile) for profile in config.profiles],
    }
    if config.extenders:
        data["extenders"] = [_extender(extender, with_keys) for extender in config.extenders]
    if config.delay_cache_until_active:
        data["delayCacheUntilActive"] = True
    return data


def _profile(profile: Profile) -> dict[str, Any]:
    data: dict[str, Any] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        data["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    data["plugins"] = _plugins(profile.plugins)
    if profile.plugin_config:
        data["pluginConfig"] = [
            {"name": config.name, "args": _args(config.name, config.args)} for config in profile.plugin_config
        ]
    return data


def _plugins(plugins: Plugins) -> dict[str, Any]:
    return {field.encode_name: _plugin_set(getattr(plugins, field.name)) for field in msgspec.structs.fields(Plugins)}


def _plugin_set(plugins: PluginSet) -> dict[str, Any]:
    return {name: rows for name, rows in _plain(plugins).items() if rows}


def _args(plugin: str, args: Any) -> Any:
    if not isinstance(args, msgspec.Struct):
        return args
    data = {key: value for key, value in _plain(args).items() if value not in (None, [], {})}
    if plugin not in ARGS:
        return data
    if "addedAffinity" in data:
        data["addedAffinity"] = _without_absent(data["addedAffinity"])
    if "defaultConstraints" in data:
        data["defaultConstraints"] = [_without_absent(item) for item in data["defaultConstraints"]]
    if "scoringStrategy" in data:
        data["scoringStrategy"] = _without_absent(data["scoringStrategy"])
    return {"kind": f"{plugin}Args", "apiVersion": API_VERSION, **data}


def _extender(extender: Extender, with_keys: bool) -> dict[str, Any]:
    data = {key: value for key, value in _plain(extender).items() if value not in (None, [], "", 0, False)}
    data.setdefault("urlPrefix", "")
    if "tlsConfig" in data:
        tls = {key: value for key, value in data["tlsConfig"].items() if value}
        if "keyData" in tls and not with_keys:
            tls["keyData"] = base64.b64encode(b"<redacted>").decode()
        data["tlsConfig"] = tls
    if "managedResources" in data:
        data["managedResources"] = [
            {key: value for key, value in resource.items() if value or key == "name"}
            for resource in data["managedResources"]
        ]
    return data


def _plain(struct: msgspec.Struct) -> dict[str, Any]:
    """A struct's fields by their API names, durations and whole numbers as the original writes them."""
    return {field.encode_name: _builtin(getattr(struct, field.name)) for field in msgspec.structs.fields(struct)}


def _builtin(value: Any) -> Any:
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return _plain(value)
    if isinstance(value, tuple | list):
        return [_builtin(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _without_absent(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_absent(value) for key, value in data.items() if value not in (None, [], {})}
    if isinstance(data, list):
        return [_without_absent(item) for item in data]
    return data
