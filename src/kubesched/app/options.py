"""From flags to what a scheduler runs with: gates, plugins from outside, the configuration, all of it checked.

Whatever is wrong is found here, before anything starts. A reload comes this way again, with the same flags.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubesched import config
from kubesched.api.errors import KubeschedError
from kubesched.app import flags as flag_rules
from kubesched.app import plugin_loading
from kubesched.app.flags import Flags
from kubesched.config import Configuration, FeatureGates
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.profiles import Registry

if TYPE_CHECKING:
    from kubesched.app.run import RunOptions

log = logging.getLogger("kubesched.app")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that can be run, and the classes of all plugins that it may name."""

    config: Configuration
    registry: Registry


def feature_gates(flags: Flags) -> FeatureGates:
    return config.parse_feature_gates(",".join(flags.feature_gates))


def load(flags: Flags, gates: FeatureGates) -> Loaded:
    """Reads the files that the flags name. Raises ConfigError and PluginSetupError."""
    outside = plugin_loading.find(flags.plugin)
    source = Path(flags.config) if flags.config else None
    loaded = config.load(source, plugins=outside.infos, enable=outside.named, gates=gates, elects=False)
    loaded = flag_rules.apply(flags, loaded, gates)
    if flags.embedded and "leader-elect" not in flags.changed:
        # There is nobody else who could lead.
        loaded = replace(loaded, leader_election=replace(loaded.leader_election, leader_elect=False))
    outside.tell()
    if loaded.leader_election.leader_elect and (hint := config.lease_hint(loaded)):
        log.warning(hint)
    return Loaded(loaded, plugin_loading.merged(IN_TREE, outside.classes))


def files(flags: Flags) -> tuple[Path, ...]:
    """What `load` reads and a reload reads again."""
    plugins = (spec.rpartition(":")[0] for spec in flags.plugin)
    paths = [flags.config, *(where for where in plugins if where.endswith(".py"))]
    return tuple(Path(path) for path in paths if path)


def run_options(flags: Flags) -> RunOptions:
    from kubesched.app.live import LiveOptions
    from kubesched.app.run import RunOptions

    gates = feature_gates(flags)
    loaded = load(flags, gates)
    return RunOptions(
        live=LiveOptions(
            config=loaded.config,
            registry=loaded.registry,
            gates=gates,
            seed=flags.seed if flags.seed >= 0 else None,
            pod_max_in_unschedulable_s=flags.pod_max_in_unschedulable_pods_duration,
        ),
        flags=flags,
        kubeconfig=kubeconfig(flags, loaded.config),
        context=flags.context or None,
        master=flags.master,
        embedded=flags.embedded,
        load=tuple(map(Path, flags.load)),
        port=flags.port,
        node_simulator=not flags.no_node_simulator,
        kubeconfig_out=Path(flags.kubeconfig_out) if flags.kubeconfig_out else None,
        until_settled=flags.until_settled,
    )


def kubeconfig(flags: Flags, configuration: Configuration) -> str:
    """The kubeconfig to use; empty for the usual places.

    Beside `--config` the flag is ignored, as in the original. What must not happen is that another cluster is taken
    instead, because the file does not say which one.
    """
    path = configuration.client_connection.kubeconfig
    ignored = flags.kubeconfig and flags.config and flags.kubeconfig != path
    if ignored and not path and not flags.embedded and not _is_in_cluster():
        raise KubeschedError(
            f"--kubeconfig is ignored beside --config, as in kube-scheduler: write "
            f"`clientConnection: {{kubeconfig: {flags.kubeconfig}}}` into {flags.config}"
        )
    return path


def write_config(configuration: Configuration, path: str) -> None:
    """For `--write-config-to`: all defaults, and keys too, so that the file can be loaded again."""
    text = config.dump(configuration, with_keys=True)
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise KubeschedError(f"--write-config-to {path}: {error.strerror or error}") from None


def _is_in_cluster() -> bool:
    import os

    from kubesched.client.kubeconfig import SERVICE_ACCOUNT_DIR

    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT_DIR / "token").exists()
