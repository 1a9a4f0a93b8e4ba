"""The flags of kube-scheduler v1.36: names, defaults, what each does here, and what they make of a configuration.

`Flags` holds one value a flag and is the only place that lists them: the command line, its help and the page
`docs/flags.md` are made from it. Flags that have no effect here are accepted all the same, so that a command line (a
kubeadm static pod's, say) works by swapping the binary, and say why they have none.

Importing this loads nothing heavy: `--help` does it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from kubesched.config import Configuration, FeatureGates

MISC: Final = "Misc"
SERVING: Final = "Secure serving"
AUTHENTICATION: Final = "Authentication"
AUTHORIZATION: Final = "Authorization"
DEPRECATED: Final = "Deprecated"
ELECTION: Final = "Leader election"
GATES: Final = "Feature gates"
METRICS: Final = "Metrics"
LOGS: Final = "Logs"
CLUSTER: Final = "kubesched: which cluster"
EMBEDDED: Final = "kubesched: with --embedded"
BEHAVIOUR: Final = "kubesched: behaviour"

#: What the original does not have.
OWN_GROUPS: Final = (CLUSTER, EMBEDDED, BEHAVIOUR)

_TLS_VERSIONS: Final = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_HTTP2: Final = "no effect, because HTTP/1.1 is served"
_UNBUFFERED: Final = "no effect, because each line is written at once"
_EMULATED: Final = "checked; no effect, because decisions are always those of v1.36"
_JSON_ONLY: Final = "no effect, because kubesched always speaks JSON, which every API server does"


def _flag(default: Any, group: str, help: str, effect: str = "as said", *, short: str = "", many: bool = False) -> Any:
    """A field of `Flags`. `many`: the flag may be repeated, and commas do not separate its values."""
    metadata = {"group": group, "help": help, "effect": effect, "short": short, "many": many}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """Durations are in seconds. `changed` names the flags that were given."""

    changed: frozenset[str] = frozenset()

    config: str = _flag("", MISC, "file with a KubeSchedulerConfiguration")
    write_config_to: str = _flag("", MISC, "write the configuration with all defaults to this file and exit")
    master: str = _flag("", MISC, "address of the API server, over the kubeconfig's; without --kubeconfig: as nobody")

    bind_address: str = _flag("0.0.0.0", SERVING, "address to serve on; 0.0.0.0 and :: are all interfaces")
    secure_port: int = _flag(10259, SERVING, "port of HTTPS; 0: none")
    cert_dir: str = _flag("", SERVING, "folder of kube-scheduler.crt and kube-scheduler.key, made if they are missing")
    tls_cert_file: str = _flag("", SERVING, "certificate of the server, and its chain")
    tls_private_key_file: str = _flag("", SERVING, "key of --tls-cert-file")
    tls_cipher_suites: tuple[str, ...] = _flag((), SERVING, "cipher suites, by their names in Go")
    tls_curve_preferences: tuple[str, ...] = _flag(
        (), SERVING, "key exchange mechanisms, by their numbers", "no effect, because OpenSSL's own order is kept"
    )
    tls_min_version: str = _flag("", SERVING, f"lowest version of TLS: {', '.join(_TLS_VERSIONS)}")
    tls_sni_cert_key: tuple[str, ...] = _flag((), SERVING, "CERT,KEY or CERT,KEY:NAME,...; repeat for more", many=True)
    disable_http2_serving: bool = _flag(False, SERVING, "do not serve HTTP/2", _HTTP2)
    http2_max_streams_per_connection: int = _flag(0, SERVING, "limit of streams in one HTTP/2 connection", _HTTP2)
    permit_address_sharing: bool = _flag(False, SERVING, "SO_REUSEADDR on the port")
    permit_port_sharing: bool = _flag(False, SERVING, "SO_REUSEPORT on the port")

    authentication_kubeconfig: str = _flag("", AUTHENTICATION, "kubeconfig to ask who a caller is with")
    authentication_skip_lookup: bool = _flag(
        False, AUTHENTICATION, "do not look up the cluster's authentication configuration"
    )
    authentication_token_webhook_cache_ttl: float = _flag(10.0, AUTHENTICATION, "how long an answer is remembered")
    authentication_tolerate_lookup_failure: bool = _flag(
        True, AUTHENTICATION, "go on when the cluster's authentication configuration cannot be read"
    )
    client_ca_file: str = _flag("", AUTHENTICATION, "authority of client certificates")
    requestheader_allowed_names: tuple[str, ...] = _flag((), AUTHENTICATION, "names of trusted proxies; none: any")
    requestheader_client_ca_file: str = _flag("", AUTHENTICATION, "authority of the certificates of trusted proxies")
    requestheader_extra_headers_prefix: tuple[str, ...] = _flag(
        ("x-remote-extra-",), AUTHENTICATION, "prefixes of headers with extra information"
    )
    requestheader_group_headers: tuple[str, ...] = _flag(("x-remote-group",), AUTHENTICATION, "headers with groups")
    requestheader_uid_headers: tuple[str, ...] = _flag((), AUTHENTICATION, "headers with the user's UID")
    requestheader_username_headers: tuple[str, ...] = _flag(
        ("x-remote-user",), AUTHENTICATION, "headers with the user's name"
    )

    authorization_always_allow_paths: tuple[str, ...] = _flag(
        ("/healthz", "/readyz", "/livez"), AUTHORIZATION, "paths that anybody may ask for"
    )
    authorization_kubeconfig: str = _flag("", AUTHORIZATION, "kubeconfig to ask what a caller may do with")
    authorization_webhook_cache_authorized_ttl: float = _flag(10.0, AUTHORIZATION, "how long a yes is remembered")
    authorization_webhook_cache_unauthorized_ttl: float = _flag(10.0, AUTHORIZATION, "how long a no is remembered")

    kubeconfig: str = _flag("", DEPRECATED, "kubeconfig of the API server", "ignored beside --config")
    kube_api_qps: float = _flag(50.0, DEPRECATED, "requests a second", "ignored beside --config")
    kube_api_burst: int = _flag(100, DEPRECATED, "requests at once beyond that", "ignored beside --config")
    kube_api_content_type: str = _flag(
        "application/vnd.kubernetes.protobuf", DEPRECATED, "media type of requests", _JSON_ONLY
    )
    profiling: bool = _flag(True, DEPRECATED, "serve profiles", "ignored beside --config")
    contention_profiling: bool = _flag(
        True, DEPRECATED, "profile waiting for locks", "no effect, because there are no locks to wait for"
    )
    pod_max_in_unschedulable_pods_duration: float = _flag(
        300.0, DEPRECATED, "after so long a rejected pod is tried again whatever happens", "counts beside --config, too"
    )

    leader_elect: bool = _flag(True, ELECTION, "take part in leader election", "overrides the configuration")
    leader_elect_lease_duration: float = _flag(15.0, ELECTION, "others take over so long after the last renewal")
    leader_elect_renew_deadline: float = _flag(10.0, ELECTION, "a leader that cannot renew for so long stops")
    leader_elect_retry_period: float = _flag(2.0, ELECTION, "pause between tries")
    leader_elect_resource_lock: str = _flag("leases", ELECTION, "kind of the lock; leases is the only one")
    leader_elect_resource_name: str = _flag("kube-scheduler", ELECTION, "name of the lock")
    leader_elect_resource_namespace: str = _flag("kube-system", ELECTION, "namespace of the lock")

    feature_gates: tuple[str, ...] = _flag((), GATES, "A=true,B=false")
    emulated_version: tuple[str, ...] = _flag((), GATES, "1.35 or kube=1.35", _EMULATED)
    min_compatibility_version: tuple[str, ...] = _flag((), GATES, "1.35 or kube=1.35", _EMULATED)

    allow_metric_labels: tuple[str, ...] = _flag((), METRICS, "METRIC,LABEL='v1,v2': other values become `unexpected`")
    allow_metric_labels_manifest: str = _flag("", METRICS, "file with the same, under --allow-metric-labels")
    disabled_metrics: tuple[str, ...] = _flag((), METRICS, "names of metrics to leave out")
    show_hidden_metrics_for_version: str = _flag(
        "", METRICS, "1.35 shows metrics that were hidden since", "checked; no effect, because none are hidden"
    )

    v: int = _flag(0, LOGS, "how much is logged, as klog counts", short="v")
    vmodule: tuple[str, ...] = _flag(
        (), LOGS, "FILE=N,...", "checked; no effect, because it names files of the original's source"
    )
    logging_format: str = _flag("text", LOGS, "text or json")
    log_flush_frequency: float = _flag(5.0, LOGS, "longest time between two flushes", _UNBUFFERED)
    log_json_info_buffer_size: str = _flag("0", LOGS, "bytes to hold back with --log-json-split-stream", _UNBUFFERED)
    log_json_split_stream: bool = _flag(False, LOGS, "errors to stderr, the rest to stdout", _UNBUFFERED)
    log_text_info_buffer_size: str = _flag("0", LOGS, "bytes to hold back with --log-text-split-stream", _UNBUFFERED)
    log_text_split_stream: bool = _flag(False, LOGS, "errors to stderr, the rest to stdout", _UNBUFFERED)

    context: str = _flag("", CLUSTER, "context of the kubeconfig")
    embedded: bool = _flag(False, CLUSTER, "serve a control plane in this process, and schedule on it")

    load: tuple[str, ...] = _flag((), EMBEDDED, "file or folder of manifests to start with; repeat for more", many=True)
    port: int = _flag(0, EMBEDDED, "port of its API server; 0: a free one")
    kubeconfig_out: str = _flag("", EMBEDDED, "write a kubeconfig for kubectl to this file")
    no_node_simulator: bool = _flag(False, EMBEDDED, "leave bound pods Pending")
    until_settled: bool = _flag(False, EMBEDDED, "end, and show the placements, when nothing more can be scheduled")

    plugin: tuple[str, ...] = _flag(
        (), BEHAVIOUR, "FILE:CLASS or MODULE:CLASS, a plugin of your own; repeat for more", many=True
    )
    seed: int = _flag(-1, BEHAVIOUR, "seed of all chance, to repeat a run; -1: by chance")
    reload_on_change: bool = _flag(
        False, BEHAVIOUR, "load --config and the files of --plugin again when they change; SIGHUP does it in any case"
    )


class FlagError(ValueError):
    """A command line that cannot be meant; the text is for its user."""


class Spec(NamedTuple):
    """One flag as the command line knows it; `kind` is one of bool, int, float, duration, string, strings."""

    name: str
    kind: str
    default: Any
    group: str
    help: str
    effect: str
    short: str
    many: bool

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")


def specs() -> tuple[Spec, ...]:
    return tuple(_specs())


def _specs() -> Iterator[Spec]:
    for field in dataclasses.fields(Flags):
        about = field.metadata
        if not about:
            continue
        kind = _KINDS[str(field.type)]
        if kind == "float" and field.name != "kube_api_qps":
            kind = "duration"
        name = field.name.replace("_", "-")
        yield Spec(
            name, kind, field.default, **{key: about[key] for key in ("group", "help", "effect", "short", "many")}
        )


_KINDS: Final = {"str": "string", "int": "int", "bool": "bool", "float": "float", "tuple[str, ...]": "strings"}


# -- what flags mean together


def check(flags: Flags) -> None:
    """Everything that can be told from the flags alone. Raises FlagError with one line a problem."""
    if problems := list(_problems(flags)):
        raise FlagError("\n".join(problems))


def warnings(flags: Flags) -> list[str]:
    """What an operator should know about the flags that were given."""
    told = []
    beside_config = "config" in flags.changed
    for spec in specs():
        if spec.group != DEPRECATED or spec.name not in flags.changed:
            continue
        if beside_config and spec.name != "pod-max-in-unschedulable-pods-duration":
            told.append(f"--{spec.name} is deprecated and ignored, because --config is given")
        else:
            told.append(f"--{spec.name} is deprecated")
    if any(version.rpartition("=")[2] != "1.36" for version in flags.emulated_version):
        told.append("--emulated-version changes nothing: decisions are always those of v1.36")
    return told


def apply(flags: Flags, config: Configuration, gates: FeatureGates) -> Configuration:
    """The configuration with what flags override: leader election, and the deprecated ones if there is no file.

    Raises ConfigError when the result makes no sense.
    """
    from msgspec.structs import replace

    from kubesched.config import ConfigError, Duration
    from kubesched.config.validate import validate

    def given(names: Iterable[str]) -> dict[str, Any]:
        """Field of the configuration -> value, of those flags that were given."""
        values = {}
        for name in names:
            field, _, flag = name.partition(":")
            if flag in flags.changed:
                value = getattr(flags, flag.replace("-", "_"))
                values[field] = Duration.of(value) if flag in _ELECTION_DURATIONS else value
        return values

    election = given(f"{name.replace('-', '_').removeprefix('leader_elect_')}:{name}" for name in _ELECTION)
    config = replace(config, leader_election=replace(config.leader_election, **election))
    if "config" not in flags.changed:
        client = given(("kubeconfig:kubeconfig", "qps:kube-api-qps", "burst:kube-api-burst",
                        "content_type:kube-api-content-type"))  # fmt: skip
        debugging = given(("enable_profiling:profiling", "enable_contention_profiling:contention-profiling"))
        config = replace(config, client_connection=replace(config.client_connection, **client), **debugging)
    if errors := validate(config, gates):
        raise ConfigError(errors, "flags")
    return config


_ELECTION: Final = tuple(
    f"leader-elect{rest}"
    for rest in ("", "-lease-duration", "-renew-deadline", "-retry-period", "-resource-lock", "-resource-name",
                 "-resource-namespace")
)  # fmt: skip
_ELECTION_DURATIONS: Final = frozenset(_ELECTION[1:4])


def _problems(flags: Flags) -> Iterator[str]:
    import ipaddress
    import re

    try:
        ipaddress.ip_address(flags.bind_address or "0.0.0.0")
    except ValueError:
        yield f'invalid argument "{flags.bind_address}" for "--bind-address" flag: failed to parse IP'
    if not 0 <= flags.secure_port <= 65535:
        yield (
            f"--secure-port {flags.secure_port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
        )
    if not 0 <= flags.port <= 65535:
        yield f"--port {flags.port} must be between 0 and 65535, inclusive. 0 for a free one"
    if flags.tls_min_version and flags.tls_min_version not in _TLS_VERSIONS:
        yield f'unknown tls version "{flags.tls_min_version}"'
    if bool(flags.tls_cert_file) != bool(flags.tls_private_key_file):
        yield "--tls-cert-file and --tls-private-key-file go together"
    if flags.logging_format not in ("text", "json"):
        yield f'--logging-format: Invalid value: "{flags.logging_format}": Unsupported log format'
    if flags.v < 0:
        yield f'invalid argument "{flags.v}" for "-v, --v" flag: must not be negative'
    for item in flags.vmodule:
        if not re.fullmatch(r"[^=]+=\d+", item):
            yield f'invalid argument "{item}" for "--vmodule" flag: expect comma-separated list of filename=N'
    yield from _versions("emulation version", flags.emulated_version, 33, 36)
    yield from _versions("minCompatibilityVersion", flags.min_compatibility_version, 33, 36)
    if flags.show_hidden_metrics_for_version not in ("", "1.35"):
        yield (
            "--show-hidden-metrics-for-version must be omitted or have the value '1.35'. "
            "Only the previous minor version is allowed"
        )
    for name in flags.disabled_metrics:
        if not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name):
            yield f'--disabled-metrics must be fully qualified metric names, got "{name}"'
    if not flags.embedded and (flags.load or flags.until_settled or flags.kubeconfig_out):
        yield "--load, --until-settled and --kubeconfig-out go with --embedded"


def _versions(what: str, given: tuple[str, ...], lowest: int, highest: int) -> Iterator[str]:
    import re

    for item in given:
        component, _, version = item.rpartition("=")
        if component not in ("", "kube"):
            yield f"component not registered: {component}"
        elif not (found := re.fullmatch(r"v?1\.(\d+)", version)):
            yield f'{what} "{version}" is not MAJOR.MINOR'
        elif not lowest <= int(found[1]) <= highest:
            yield f"{what} {version} is not between [1.{lowest}, 1.{highest}]"


# -- the page


def page() -> str:
    """`docs/flags.md`, written by `python -m kubesched.app.flags`."""
    lines = [_HEAD.strip()]
    groups: dict[str, list[Spec]] = {}
    for spec in specs():
        groups.setdefault(spec.group, []).append(spec)
    for group, members in groups.items():
        lines += ["", f"## {group}", "", "| flag | default | meaning | effect |", "|---|---|---|---|"]
        lines += [f"| `--{s.name}` | {shown_default(s)} | {s.help} | {s.effect} |" for s in members]
    return "\n".join(lines) + "\n"


def shown_default(spec: Spec) -> str:
    """As the original's help shows it."""
    value = spec.default
    if spec.kind == "bool":
        return str(value).lower()
    if spec.kind == "duration":
        return f"{value / 60:g}m0s" if value >= 60 else f"{value:g}s"
    if spec.kind == "strings":
        return f"[{','.join(value)}]" if value else ""
    return f"{value:g}" if spec.kind == "float" else str(value)


_HEAD = """
# Flags

<!-- Written by `python -m kubesched.app.flags`; change that, not this page. -->

`kubesched run` takes all flags of kube-scheduler v1.36, with the same names, defaults and syntax (`--flag=value` or
`--flag value`; a boolean is `--flag` or `--flag=false`; `_` counts as `-`). So does `kubesched` with flags and without
a command:

    kubesched --kubeconfig=/etc/kubernetes/scheduler.conf --authentication-kubeconfig=/etc/kubernetes/scheduler.conf \\
      --authorization-kubeconfig=/etc/kubernetes/scheduler.conf --bind-address=127.0.0.1 --leader-elect=true

is what kubeadm's static pod runs, with the name of the program changed. Exit codes are the original's: 0 when asked to
stop (or after `--write-config-to`), 1 when the command line or the configuration is wrong or something broke.

Flags of leader election override `--config`. Deprecated ones are ignored beside it, with a warning, but for
`--pod-max-in-unschedulable-pods-duration`. When `--kubeconfig` is ignored and the file names none in
`clientConnection.kubeconfig`, only the service account of the pod is used, never `~/.kube/config`.

`--master` takes the place of the kubeconfig's server. Alone it is all there is, as in kube-scheduler: no credentials
are sent, not even those of `$KUBECONFIG` or the pod, which belong to another address (`--context` asks for them).
"""


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
