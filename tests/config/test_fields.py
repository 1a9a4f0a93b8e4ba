"""Every field of the API: set once, read back in the type, seen in what is written; and the page that lists them."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from kubesched.config import FeatureGates, dump, load
from kubesched.config.plugin_args import ARGS
from kubesched.config.reference import fields, page
from kubesched.config.types import ALL_POINTS, Configuration

DOCS = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()

WHOLE = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 3
leaderElection:
  leaderElect: false
  leaseDuration: 1m0s
  renewDeadline: 40s
  retryPeriod: 7s
  resourceLock: leases
  resourceName: mine
  resourceNamespace: here
clientConnection:
  kubeconfig: /etc/kubeconfig
  acceptContentTypes: application/json
  contentType: application/json
  qps: 12.5
  burst: 25
enableProfiling: false
enableContentionProfiling: true
percentageOfNodesToScore: 33
podInitialBackoffSeconds: 4
podMaxBackoffSeconds: 44
delayCacheUntilActive: true
profiles:
- schedulerName: mine
  percentageOfNodesToScore: 44
  plugins:
    preEnqueue: {{enabled: [{{name: SchedulingGates, weight: 1}}], disabled: [{{name: DefaultPreemption, weight: 2}}]}}
    queueSort: {{enabled: [{{name: PrioritySort}}]}}
    preFilter: {{disabled: [{{name: NodePorts}}]}}
    filter: {{disabled: [{{name: NodePorts}}]}}
    postFilter: {{enabled: [{{name: DefaultPreemption}}]}}
    preScore: {{enabled: [{{name: NodeAffinity}}]}}
    score: {{enabled: [{{name: ImageLocality, weight: 8}}]}}
    reserve: {{enabled: [{{name: VolumeBinding}}]}}
    permit: {{disabled: [{{name: '*'}}]}}
    preBind: {{enabled: [{{name: VolumeBinding}}]}}
    bind: {{enabled: [{{name: DefaultBinder}}]}}
    postBind: {{disabled: [{{name: '*'}}]}}
    multiPoint: {{enabled: [{{name: NodeAffinity, weight: 6}}]}}
    placementGenerate: {{disabled: [{{name: '*'}}]}}
    placementScore: {{disabled: [{{name: '*'}}]}}
  pluginConfig:
  - {{name: DefaultPreemption, args: {{minCandidateNodesPercentage: 20, minCandidateNodesAbsolute: 7}}}}
  - {{name: DynamicResources, args: {{filterTimeout: 3s, bindingTimeout: 1m30s}}}}
  - {{name: InterPodAffinity, args: {{hardPodAffinityWeight: 9, ignorePreferredTermsOfExistingPods: true}}}}
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - {{weight: 3, preference: {{matchExpressions: [{{key: pool, operator: Gt, values: ["5"]}}]}}}}
  - {{name: NodeResourcesBalancedAllocation, args: {{resources: [{{name: nvidia.com/gpu, weight: 1}}]}}}}
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/a]
      ignoredResourceGroups: [example.org]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{{name: nvidia.com/gpu, weight: 5}}]
        requestedToCapacityRatio: {{shape: [{{utilization: 1, score: 2}}, {{utilization: 80, score: 9}}]}}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - maxSkew: 2
        topologyKey: rack
        whenUnsatisfiable: DoNotSchedule
        minDomains: 3
        nodeAffinityPolicy: Ignore
        nodeTaintsPolicy: Honor
        matchLabelKeys: [pod-template-hash]
  - name: VolumeBinding
    args: {{bindTimeoutSeconds: 5, shape: [{{utilization: 1, score: 10}}, {{utilization: 50, score: 5}}]}}
extenders:
- urlPrefix: https://127.0.0.1:8888
  filterVerb: f
  preemptVerb: p
  prioritizeVerb: s
  weight: 4
  bindVerb: b
  enableHTTPS: true
  tlsConfig:
    insecure: true
    serverName: ext
    certFile: {__file__}
    keyFile: {__file__}
    caFile: {__file__}
    certData: {PEM}
    keyData: {PEM}
    caData: {PEM}
  httpTimeout: 700ms
  nodeCacheCapable: true
  managedResources: [{{name: example.com/a, ignoredByScheduler: true}}]
  ignorable: true
"""
GATES = FeatureGates({"StorageCapacityScoring": True})
CONFIG = load(WHOLE, gates=GATES)
WRITTEN = yaml.safe_load(dump(CONFIG))


def at(data, path):
    """All values at a path such as `profiles[].plugins.score`."""
    found = [data]
    for part in re.findall(r"[^.\[\]]+|\[\]", path):
        if part == "[]":
            found = [item for rows in found for item in rows]
        else:
            found = [item[part] for item in found if part in item]
    return found


CONFIG_FIELDS = [field.path for field in fields(Configuration)]
ARGS_FIELDS = [(plugin, field.path) for plugin, kind in ARGS.items() for field in fields(kind)]
FORBIDDEN = {("PodTopologySpread", "defaultConstraints[].labelSelector")}


@pytest.mark.parametrize("path", CONFIG_FIELDS)
def test_field_is_written_as_it_was_set(path):
    given = at(yaml.safe_load(WHOLE), path)
    written = at(WRITTEN, path)
    assert given, "the test's configuration does not set this field"
    if path.endswith("keyData"):
        assert base64.b64decode(written[0]) == b"<redacted>"
    elif not isinstance(given[0], dict | list):
        assert set(given) <= set(written)
    else:
        assert written


@pytest.mark.parametrize(
    ("plugin", "path"), [pair for pair in ARGS_FIELDS if pair not in FORBIDDEN], ids=lambda value: str(value)
)
def test_args_field_is_written_as_it_was_set(plugin, path):
    given, written = (
        at(next(row["args"] for row in data["profiles"][0]["pluginConfig"] if row["name"] == plugin), path)
        for data in (yaml.safe_load(WHOLE), WRITTEN)
    )
    assert given, "the test's configuration does not set this field"
    assert written == given


def test_every_setting_differs_from_the_default():
    default = load(None)
    same = [
        name
        for part in ("leader_election", "client_connection")
        for name in getattr(default, part).__struct_fields__
        if getattr(getattr(default, part), name) == getattr(getattr(CONFIG, part), name)
    ]
    assert same == ["resource_lock"]  # there is only one kind of lock
    same = [name for name in default.__struct_fields__ if getattr(default, name) == getattr(CONFIG, name)]
    assert same == ["enable_contention_profiling"]  # on, though profiling is off


def test_extension_points_are_those_of_the_api():
    assert set(ALL_POINTS) == set(yaml.safe_load(WHOLE)["profiles"][0]["plugins"])


def test_typed_values():
    assert CONFIG.leader_election.lease_duration.seconds == 60
    assert CONFIG.client_connection.qps == 12.5
    assert CONFIG.extenders[0].http_timeout.seconds == 0.7
    assert CONFIG.extenders[0].tls_config is not None
    assert CONFIG.extenders[0].tls_config.key_data == b"-----BEGIN CERTIFICATE-----"
    fit = CONFIG.profiles[0].args("NodeResourcesFit")
    assert [(p.utilization, p.score) for p in fit.scoring_strategy.requested_to_capacity_ratio.shape] == [
        (1, 2),
        (80, 9),
    ]
    assert CONFIG.profile("mine") is CONFIG.profiles[0]
    assert CONFIG.profile("default-scheduler") is None


def test_a_key_is_neither_shown_nor_written_unless_asked_for():
    assert "BEGIN" not in repr(CONFIG)
    assert WRITTEN["extenders"][0]["tlsConfig"]["keyData"] != PEM
    assert yaml.safe_load(dump(CONFIG, with_keys=True))["extenders"][0]["tlsConfig"]["keyData"] == PEM


def test_what_was_written_loads_to_the_same():
    assert load(dump(CONFIG, with_keys=True), gates=GATES) == CONFIG


def test_configuration_cannot_be_changed():
    with pytest.raises(AttributeError):
        CONFIG.parallelism = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        CONFIG.profiles[0].args("VolumeBinding").bind_timeout_seconds = 5


def test_the_page_is_current():
    assert DOCS.read_text() == page()


def test_the_page_lists_every_field():
    text = page()
    assert all(f"| `{path}` |" in text for path in CONFIG_FIELDS)
    assert all(f"| `{path}` |" in text for _, path in ARGS_FIELDS)


def test_every_row_of_the_page_says_what_the_field_does():
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| `")]
    empty = [
        row[0]
        for row in rows
        if not row[-1].strip(" |") and row[1] in ("string", "boolean", "int32", "int64", "duration")
    ]
    assert not empty


def test_importing_the_package_is_light():
    heavy = ("aiohttp", "numpy", "kubesched.plugins")
    code = f"import sys, kubesched.config; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_args_of_a_plugin_from_outside_are_written_as_given():
    from kubesched.config import PluginInfo

    class GpuArgs(msgspec.Struct, frozen=True, rename="camel"):
        model: str
        spread_over: tuple[str, ...] = ()

    config = load(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n"
        "    filter: {enabled: [{name: Gpu}, {name: Raw}]}\n  pluginConfig:\n"
        "  - {name: Gpu, args: {model: a100, spreadOver: [rack]}}\n  - {name: Raw, args: {x: [1, {y: z}]}}\n",
        plugins=[PluginInfo("Gpu", frozenset({"filter"}), GpuArgs), PluginInfo("Raw", frozenset({"filter"}))],
    )
    assert config.profiles[0].args("Gpu") == GpuArgs("a100", ("rack",))
    written = {row["name"]: row["args"] for row in yaml.safe_load(dump(config))["profiles"][0]["pluginConfig"]}
    assert written["Gpu"] == {"model": "a100", "spreadOver": ["rack"]}
    assert written["Raw"] == {"x": [1, {"y": "z"}]}
