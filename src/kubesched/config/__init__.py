"""`KubeSchedulerConfiguration` v1: read strictly, defaulted, validated, expanded, written out.

    config = load(Path("scheduler.yaml"))            # or a text, or plain data; ConfigError says what is wrong
    for profile in config.profiles:
        expand(profile)["score"]                     # ((name, weight), ...) in order of execution

Types are in `types` and `plugin_args`. This package knows in-tree plugins by name only (`catalog`); plugins from
outside are passed to `load` as `PluginInfo`.
"""

from kubesched.config.catalog import IN_TREE, PluginInfo, with_out_of_tree
from kubesched.config.dump import dump, to_dict
from kubesched.config.durations import Duration, DurationError, format_duration, parse_duration
from kubesched.config.errors import ConfigError, FieldError
from kubesched.config.expand import expand, score_weights
from kubesched.config.features import FeatureGates, parse_feature_gates
from kubesched.config.hints import lease_hint
from kubesched.config.load import load
from kubesched.config.plugin_args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from kubesched.config.types import (
    API_VERSION,
    KIND,
    POINTS,
    ClientConnection,
    Configuration,
    Extender,
    ExtenderTLSConfig,
    LeaderElection,
    ManagedResource,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
    Profile,
)

__all__ = [
    "API_VERSION",
    "IN_TREE",
    "KIND",
    "POINTS",
    "ClientConnection",
    "ConfigError",
    "Configuration",
    "DefaultPreemptionArgs",
    "Duration",
    "DurationError",
    "DynamicResourcesArgs",
    "Extender",
    "ExtenderTLSConfig",
    "FeatureGates",
    "FieldError",
    "InterPodAffinityArgs",
    "LeaderElection",
    "ManagedResource",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "Plugin",
    "PluginConfig",
    "PluginInfo",
    "PluginSet",
    "Plugins",
    "PodTopologySpreadArgs",
    "Profile",
    "VolumeBindingArgs",
    "dump",
    "expand",
    "format_duration",
    "lease_hint",
    "load",
    "parse_duration",
    "parse_feature_gates",
    "score_weights",
    "to_dict",
    "with_out_of_tree",
]
