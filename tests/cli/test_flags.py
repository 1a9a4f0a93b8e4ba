"""The command line: kube-scheduler's flags, their syntax and defaults, and what they make of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.api.errors import KubeschedError
from kubesched.app.flags import OWN_GROUPS, FlagError, Flags, page, shown_default, specs
from kubesched.app.options import kubeconfig, load
from kubesched.cli.flag_parsing import help_text, parse
from kubesched.cli.main import main
from kubesched.config import Duration, FeatureGates

DOCS = Path(__file__).resolve().parents[2] / "docs" / "flags.md"

#: `/flagz` of a kube-scheduler v1.36.2, whose command line gave those flags that are marked with *.
RECORDED = """
allow-metric-labels []
allow-metric-labels-manifest
authentication-kubeconfig *
authentication-skip-lookup false
authentication-token-webhook-cache-ttl 10s
authentication-tolerate-lookup-failure true
authorization-always-allow-paths [/healthz,/readyz,/livez]
authorization-kubeconfig *
authorization-webhook-cache-authorized-ttl 10s
authorization-webhook-cache-unauthorized-ttl 10s
bind-address *
cert-dir *
client-ca-file
config *
contention-profiling true
disable-http2-serving false
disabled-metrics []
emulated-version []
feature-gates
http2-max-streams-per-connection 0
kube-api-burst 100
kube-api-content-type application/vnd.kubernetes.protobuf
kube-api-qps 50
kubeconfig
leader-elect true
leader-elect-lease-duration 15s
leader-elect-renew-deadline 10s
leader-elect-resource-lock leases
leader-elect-resource-name kube-scheduler
leader-elect-resource-namespace kube-system
leader-elect-retry-period 2s
log-flush-frequency 5s
log-json-info-buffer-size 0
log-json-split-stream false
log-text-info-buffer-size 0
log-text-split-stream false
logging-format text
master
min-compatibility-version []
permit-address-sharing false
permit-port-sharing false
pod-max-in-unschedulable-pods-duration 5m0s
profiling true
requestheader-allowed-names []
requestheader-client-ca-file
requestheader-extra-headers-prefix [x-remote-extra-]
requestheader-group-headers [x-remote-group]
requestheader-uid-headers []
requestheader-username-headers [x-remote-user]
secure-port *
show-hidden-metrics-for-version
tls-cert-file *
tls-cipher-suites []
tls-curve-preferences []
tls-min-version
tls-private-key-file *
tls-sni-cert-key []
v 0
vmodule
write-config-to
"""

KUBEADM = [
    "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--bind-address=127.0.0.1",
    "--kubeconfig=/etc/kubernetes/scheduler.conf",
    "--leader-elect=true",
]


def test_names_and_defaults_are_the_originals():
    recorded = dict(line.partition(" ")[::2] for line in RECORDED.strip().splitlines())
    ours = {spec.name: spec for spec in specs() if spec.group not in OWN_GROUPS}
    assert ours.keys() == recorded.keys()
    differing = {
        name: (shown_default(ours[name]), value)
        for name, value in recorded.items()
        if value != "*" and shown_default(ours[name]) != ("" if value == "[]" else value)
    }
    assert differing == {}
    assert (ours["bind-address"].default, ours["secure-port"].default) == ("0.0.0.0", 10259)


def test_the_page_is_current_and_says_what_each_flag_does():
    assert DOCS.read_text() == page()
    assert all(spec.effect for spec in specs())


def test_help_lists_every_flag(capsys):
    text = help_text()
    assert all(f"--{spec.name}" in text for spec in specs())
    assert main(["run", "--help"]) == 0
    assert capsys.readouterr().out == text


SYNTAX: dict[str, tuple[list[str], dict[str, Any]]] = {
    "nothing": ([], {}),
    "kubeadm's static pod": (KUBEADM, {
        "authentication_kubeconfig": "/etc/kubernetes/scheduler.conf",
        "authorization_kubeconfig": "/etc/kubernetes/scheduler.conf",
        "bind_address": "127.0.0.1", "kubeconfig": "/etc/kubernetes/scheduler.conf", "leader_elect": True}),
    "value after a space": (["--config", "c.yaml", "--secure-port", "1"], {"config": "c.yaml", "secure_port": 1}),
    "boolean alone": (["--profiling", "--leader-elect=false"], {"profiling": True, "leader_elect": False}),
    "booleans as Go reads them": (["--profiling=F", "--leader-elect=1"], {"profiling": False, "leader_elect": True}),
    "underscores": (["--leader_elect=false", "--kube_api_qps=5"], {"leader_elect": False, "kube_api_qps": 5.0}),
    "empty value": (["--kubeconfig="], {"kubeconfig": ""}),
    "value with =": (["--feature-gates=A=true,B=false"], {"feature_gates": ("A=true", "B=false")}),
    "lists add up": (["--disabled-metrics=a,b", "--disabled-metrics=c"], {"disabled_metrics": ("a", "b", "c")}),
    "a list replaces its default": (["--authorization-always-allow-paths=/x"],
                                    {"authorization_always_allow_paths": ("/x",)}),
    "the last one counts": (["--master=a", "--master=b"], {"master": "b"}),
    "-v": (["-v=4"], {"v": 4}),
    "-v without =": (["-v4"], {"v": 4}),
    "-v and a space": (["-v", "4"], {"v": 4}),
    "--v": (["--v=4"], {"v": 4}),
    "durations": (["--leader-elect-lease-duration=1m30s"], {"leader_elect_lease_duration": 90.0}),
    "paths with commas in repeated flags": (["--load=a,b", "--load", "c", "--embedded"],
                                            {"load": ("a,b", "c"), "embedded": True}),
    "hexadecimal": (["--secure-port=0x10"], {"secure_port": 16}),
    "emulated versions": (["--emulated-version=kube=1.35"], {"emulated_version": ("kube=1.35",)}),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "values"), SYNTAX.values(), ids=SYNTAX)
def test_syntax(arguments, values):
    flags = parse(arguments)
    assert flags == Flags(**values, changed=frozenset(name.replace("_", "-") for name in values))


WRONG = {
    "unknown": (["--nope"], "unknown flag: --nope"),
    "nearly known": (["--leader-elected"], "unknown flag: --leader-elected (did you mean --leader-elect?)"),
    "unknown letter": (["-x"], "unknown shorthand flag: 'x' in -x"),
    "no argument": (["--config"], "flag needs an argument: --config"),
    "an argument": (["run"], "does not take any arguments"),
    "a boolean takes no value after a space": (["--leader-elect", "false"], 'any arguments, got "false"'),
    "not a boolean": (
        ["--leader-elect=maybe"],
        'invalid argument "maybe" for "--leader-elect" flag: strconv.ParseBool',
    ),
    "not a number": (["--secure-port=https"], 'invalid argument "https" for "--secure-port" flag: strconv.ParseInt'),
    "not a float": (["--kube-api-qps=fast"], 'for "--kube-api-qps" flag: strconv.ParseFloat'),
    "endless": (["--kube-api-qps=inf"], "value out of range"),
    "too large": (["--kube-api-burst=3000000000"], "value out of range"),
    "not a duration": (["--leader-elect-lease-duration=15"], 'time: missing unit in duration "15"'),
    "not an address": (
        ["--bind-address=here"],
        'invalid argument "here" for "--bind-address" flag: failed to parse IP',
    ),
    "port out of range": (["--secure-port=65536"], "--secure-port 65536 must be between 0 and 65535, inclusive"),
    "negative port": (["--secure-port=-1"], "--secure-port -1 must be between 0 and 65535, inclusive"),
    "embedded port out of range": (["--embedded", "--port=99999"], "--port 99999 must be between 0 and 65535"),
    "verbosity": (["-v=much"], 'invalid argument "much" for "-v, --v" flag'),
    "log format": (["--logging-format=xml"], 'Invalid value: "xml": Unsupported log format'),
    "vmodule": (["--vmodule=queue"], "expect comma-separated list of filename=N"),
    "tls version": (["--tls-min-version=TLS1.2"], 'unknown tls version "TLS1.2"'),
    "half a certificate": (["--tls-cert-file=a"], "--tls-cert-file and --tls-private-key-file go together"),
    "hidden metrics": (["--show-hidden-metrics-for-version=1.20"], "must be omitted or have the value '1.35'"),
    "metric name": (["--disabled-metrics=a-b"], "must be fully qualified metric names"),
    "old version": (["--emulated-version=1.20"], "emulation version 1.20 is not between [1.33, 1.36]"),
    "another component": (["--emulated-version=wardle=1.2"], "component not registered: wardle"),
    "load": (["--load=x"], "go with --embedded"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_wrong_command_lines(arguments, message, capsys):
    with pytest.raises(FlagError) as caught:
        parse(arguments)
    assert message in str(caught.value)
    assert main(["run", *arguments]) == 1
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


GATES = {
    "unknown": ("Nope=true", "unrecognized feature gate: Nope"),
    "locked": ("SchedulerQueueingHints=false", "feature is locked to true"),
    "no value": ("GangScheduling", "missing bool value for GangScheduling"),
    "lacks another": ("GangScheduling=true", "depends on features that are disabled: [GenericWorkload]"),
    "no boolean": ("GangScheduling=maybe", "invalid value of GangScheduling=maybe"),
}


@pytest.mark.parametrize(("gates", "message"), GATES.values(), ids=GATES)
def test_gates_are_checked(gates, message, capsys):
    assert main([f"--feature-gates={gates}"]) == 1
    assert message in capsys.readouterr().err


# -- what flags make of a configuration


def written(folder: Path, *arguments: str, config: str = "") -> dict[str, Any]:
    more = []
    if config:
        (folder / "c.yaml").write_text(
            f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{config}"
        )
        more = [f"--config={folder / 'c.yaml'}"]
    assert main([*arguments, *more, f"--write-config-to={folder / 'out.yaml'}"]) == 0
    data: dict[str, Any] = yaml.safe_load((folder / "out.yaml").read_text())
    return data


DEPRECATED = {
    "--kubeconfig=k": ("clientConnection", "kubeconfig", "k"),
    "--kube-api-qps=7": ("clientConnection", "qps", 7),
    "--kube-api-burst=8": ("clientConnection", "burst", 8),
    "--kube-api-content-type=application/json": ("clientConnection", "contentType", "application/json"),
    "--profiling=false": ("", "enableProfiling", False),
    "--contention-profiling=false": ("", "enableContentionProfiling", False),
}


@pytest.mark.parametrize("flag", DEPRECATED)
def test_deprecated_flags_count_alone_and_are_ignored_beside_a_file(flag, tmp_path, capsys):
    place, field, value = DEPRECATED[flag]

    def seen(data: dict[str, Any]) -> Any:
        return (data[place] if place else data)[field]

    name = flag.partition("=")[0]
    assert seen(written(tmp_path, flag)) == value
    assert f"{name} is deprecated" in (told := capsys.readouterr().err) and "ignored" not in told
    own = "clientConnection: {kubeconfig: mine}\n"
    assert seen(written(tmp_path, flag, config=own)) != value
    assert f"{name} is deprecated and ignored, because --config is given" in capsys.readouterr().err


ELECTION = {
    "--leader-elect=false": ("leaderElect", False),
    "--leader-elect-lease-duration=60s": ("leaseDuration", "1m0s"),
    "--leader-elect-renew-deadline=9s": ("renewDeadline", "9s"),
    "--leader-elect-retry-period=3s": ("retryPeriod", "3s"),
    "--leader-elect-resource-name=mine": ("resourceName", "mine"),
    "--leader-elect-resource-namespace=here": ("resourceNamespace", "here"),
}


@pytest.mark.parametrize("flag", ELECTION)
def test_flags_of_leader_election_override_the_file(flag, tmp_path):
    field, value = ELECTION[flag]
    config = "leaderElection: {leaseDuration: 20s, renewDeadline: 8s, retryPeriod: 1s, resourceName: filed}\n"
    assert written(tmp_path, flag)["leaderElection"][field] == value
    data = written(tmp_path, flag, config=config)["leaderElection"]
    assert data[field] == value
    untouched = {"leaseDuration": "20s", "renewDeadline": "8s", "retryPeriod": "1s", "resourceName": "filed"} | {
        field: value
    }
    assert {name: data[name] for name in untouched} == untouched


def test_flags_are_validated_with_the_rest(tmp_path, capsys):
    assert main(["--leader-elect-lease-duration=5s", f"--write-config-to={tmp_path / 'out'}"]) == 1
    assert "leaderElection.leaseDuration: Invalid value" in capsys.readouterr().err
    assert main(["--leader-elect-resource-lock=endpoints", f"--write-config-to={tmp_path / 'out'}"]) == 1
    assert 'resourceLock: Invalid value: "endpoints"' in capsys.readouterr().err


def test_time_in_the_unschedulable_queue_counts_beside_a_file(tmp_path):
    from kubesched.app.options import run_options

    file = tmp_path / "c.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    flags = parse([f"--config={file}", "--pod-max-in-unschedulable-pods-duration=90s", "--seed=4", "--context=c"])
    options = run_options(flags)
    assert options.live.pod_max_in_unschedulable_s == 90
    assert (options.live.seed, options.context, options.master) == (4, "c", "")
    assert run_options(parse(["--master=http://x"])).master == "http://x"


def test_an_ignored_kubeconfig_never_means_another_cluster(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    file = tmp_path / "c.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

    def chosen(*arguments: str) -> str:
        flags = parse(arguments)
        return kubeconfig(flags, load(flags, FeatureGates()).config)

    file.write_text(head)
    assert chosen("--kubeconfig=k") == "k"
    assert chosen(f"--config={file}") == ""
    with pytest.raises(KubeschedError, match=r"--kubeconfig is ignored beside --config.*kubeconfig: k"):
        chosen("--kubeconfig=k", f"--config={file}")
    file.write_text(head + "clientConnection: {kubeconfig: mine}\n")
    assert chosen("--kubeconfig=k", f"--config={file}") == "mine"


def test_durations_are_kept_exactly():
    flags = parse(["--leader-elect-retry-period=100ms"])
    assert load(flags, FeatureGates()).config.leader_election.retry_period == Duration(100_000_000)
