"""`--feature-gates`: known gates, stages, locks, and what they change in a configuration."""

import gzip
import re
from pathlib import Path

import pytest

from kubesched.config import ConfigError, FeatureGates, load, parse_feature_gates
from kubesched.config.features import GATES, NEEDS, SCHEDULER_GATES

METRICS = Path(__file__).resolve().parents[1] / "data" / "metrics" / "recorded.txt.gz"
RECORDED = re.findall(
    r'kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\d)', gzip.decompress(METRICS.read_bytes()).decode()
)


def test_gates_are_the_recorded_ones_with_stage_and_default():
    recorded = {name: (stage, on == "1") for name, stage, on in RECORDED if name not in ("AllAlpha", "AllBeta")}
    assert len(recorded) > 200
    assert {gate.name: (gate.stage, gate.default) for gate in GATES.values()} == recorded
    assert set(SCHEDULER_GATES) <= set(GATES)
    assert all(GATES[name].stage == "" for name in GATES if GATES[name].locked)


@pytest.mark.parametrize(
    ("text", "gate", "on"),
    [
        ("", "NodeDeclaredFeatures", True),
        ("OpportunisticBatching=false", "OpportunisticBatching", False),
        ("kube:OpportunisticBatching=F", "OpportunisticBatching", False),
        (" SchedulerAsyncAPICalls = true , ", "SchedulerAsyncAPICalls", True),
        ("SchedulerAsyncAPICalls=1,SchedulerAsyncAPICalls=0", "SchedulerAsyncAPICalls", False),
        ("AllAlpha=true", "GangScheduling", True),
        ("AllAlpha=true,VolumeLimitScaling=false", "VolumeLimitScaling", False),
        ("VolumeLimitScaling=false,AllAlpha=true", "VolumeLimitScaling", False),
        ("AllAlpha=true", "SchedulerAsyncAPICalls", False),
        ("AllBeta=true", "SchedulerAsyncAPICalls", True),
        ("AllBeta=false", "NodeDeclaredFeatures", False),
        ("AllBeta=false", "SidecarContainers", True),
        ("SidecarContainers=true", "SidecarContainers", True),
        ("KubeletPSI=false", "KubeletPSI", False),
    ],
)
def test_parsed(text, gate, on):
    assert parse_feature_gates(text).enabled(gate) is on


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Foo=true", ["unrecognized feature gate: Foo"]),
        ("NodeDeclaredFeatures", ["missing bool value for NodeDeclaredFeatures"]),
        (
            "NodeDeclaredFeatures=maybe",
            ['invalid value of NodeDeclaredFeatures=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax'],
        ),
        (
            "SidecarContainers=false",
            ["cannot set feature gate SidecarContainers to false, feature is locked to true"],
        ),
        (
            "GangScheduling=true,WorkloadAwarePreemption=true",
            ["GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"],
        ),
        (
            "NodeDeclaredFeatures=false,PodLevelResources=false",
            [
                "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: "
                "[PodLevelResources NodeDeclaredFeatures]",
                "RestartAllContainersOnContainerExits is enabled, but depends on features that are disabled: "
                "[NodeDeclaredFeatures]",
            ],
        ),
        ("Foo=true,Bar,AllBeta=1", ["missing bool value for Bar", "unrecognized feature gate: Foo"]),
    ],
)
def test_refused(text, lines):
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(text)
    assert str(caught.value).splitlines() == [f"--feature-gates: {line}" for line in lines]


@pytest.mark.parametrize(
    "text",
    ["", "AllAlpha=true", "AllAlpha=true,AllBeta=true", "AllBeta=true", "AllBeta=false",
     "GangScheduling=true,GenericWorkload=true", "AtomicFIFO=false,AllBeta=false"],
)  # fmt: skip
def test_what_a_gate_needs_may_come_with_it(text):
    parse_feature_gates(text)


def test_only_gates_that_exist_are_needed_and_may_be_off():
    assert NEEDS
    for name, needed in NEEDS.items():
        assert name in GATES
        assert all(not GATES[each].locked for each in needed), name


def test_a_misspelled_gate_in_the_code_is_a_key_error():
    with pytest.raises(KeyError):
        FeatureGates().enabled("NodeDeclaredFeature")


def test_printed_as_given_and_listed_whole():
    gates = parse_feature_gates("SchedulerAsyncAPICalls=true,OpportunisticBatching=0")
    assert str(gates) == "OpportunisticBatching=false,SchedulerAsyncAPICalls=true"
    assert gates.overrides == {"SchedulerAsyncAPICalls": True, "OpportunisticBatching": False}
    listed = {gate.name: on for gate, on in gates}
    assert len(listed) == len(GATES)
    assert (listed["SchedulerAsyncAPICalls"], listed["OpportunisticBatching"]) == (True, False)


def test_default_plugins_follow_the_gate():
    def names(text):
        config = load(None, gates=parse_feature_gates(text))
        return [plugin.name for plugin in config.profiles[0].plugins.multi_point.enabled]

    assert names("")[-1] == "NodeDeclaredFeatures"
    needing = "InPlacePodLevelResourcesVerticalScaling=false,RestartAllContainersOnContainerExits=false"
    assert "NodeDeclaredFeatures" not in names(f"NodeDeclaredFeatures=false,{needing}")


def test_default_args_follow_their_gates():
    gates = parse_feature_gates(
        "DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false,StorageCapacityScoring=true"
    )
    profile = load(None, gates=gates).profiles[0]
    dynamic = profile.args("DynamicResources")
    assert (dynamic.filter_timeout, dynamic.binding_timeout) == (None, None)
    shape = profile.args("VolumeBinding").shape
    assert [(point.utilization, point.score) for point in shape] == [(0, 10), (100, 0)]
