"""`KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`, complete and defaulted.

A value of these types is what the scheduler runs with: every absent field has been given its default, durations are
parsed, and each profile's `plugin_config` holds the args of the plugins that the profile runs, as structs of
`plugin_args` (raw data for plugins that declare none). Attribute names are the fields' in snake case.
"""

from __future__ import annotations

from typing import Annotated, Any, dataclass_transform

import msgspec
from msgspec import Meta, field

from kubesched.config.durations import SECOND_NS, Duration

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

# The order in which the original sets extension points up, and so the order in which it finds faults with them.
POINTS = (
    "preFilter",
    "filter",
    "postFilter",
    "reserve",
    "preScore",
    "score",
    "preBind",
    "bind",
    "postBind",
    "permit",
    "preEnqueue",
    "queueSort",
)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all configuration types."""


class Plugin(Struct):
    """A plugin's name at an extension point. `weight` 0 means 1 where weights count."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(Struct):
    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()

    def disables(self, name: str) -> bool:
        return any(plugin.name == name for plugin in self.disabled)


class Plugins(Struct):
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """The set of an extension point by its name in the file (`preFilter`, `multiPoint`)."""
        found: PluginSet = getattr(self, _ATTRIBUTE[point])
        return found

    def names(self) -> set[str]:
        """Every plugin that is enabled anywhere."""
        return {plugin.name for attribute in self.__struct_fields__ for plugin in getattr(self, attribute).enabled}


_ATTRIBUTE = {info.encode_name: info.name for info in msgspec.structs.fields(Plugins)}
ALL_POINTS = tuple(_ATTRIBUTE)


class PluginConfig(Struct):
    name: str = ""
    args: Any = None


class Profile(Struct):
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args(self, plugin: str) -> Any:
        """The args of a plugin of this profile: a struct, raw data, or None if it has none."""
        return next((config.args for config in self.plugin_config if config.name == plugin), None)


class LeaderElection(Struct):
    leader_elect: bool = True
    lease_duration: Duration = Duration(15 * SECOND_NS)
    renew_deadline: Duration = Duration(10 * SECOND_NS)
    retry_period: Duration = Duration(2 * SECOND_NS)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Struct):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class ManagedResource(Struct):
    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Struct):
    """Data takes precedence over the file of the same name. `repr` never shows the key."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""

    def __repr__(self) -> str:
        return f"ExtenderTLSConfig(insecure={self.insecure}, server_name={self.server_name!r}, ...)"


class Extender(Struct):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration(5 * SECOND_NS)
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class Configuration(Struct):
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False

    def profile(self, scheduler_name: str) -> Profile | None:
        return next((profile for profile in self.profiles if profile.scheduler_name == scheduler_name), None)
