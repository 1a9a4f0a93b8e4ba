"""Configurations as the real kube-scheduler v1.36.2 defaults, refuses and uses them."""

import gzip

import pytest
import yaml

from kubesched.config import ConfigError, dump, expand, load, to_dict
from tests.config.recorded import DATA, SHARED, rows
from tests.data import pack_config

DEFAULTED = rows("defaulted")
INVALID = rows("invalid")
CONFORMANCE = rows("conformance")

# Messages that speak of Go: the same path, value and reason in our words.
IN_OUR_WORDS = {
    "wrong-type": 'parallelism: cannot unmarshal string "many" into a field of type int32',
    "lease-bad-duration-text": "leaderElection.leaseDuration: cannot unmarshal number 15 into a field of type string",
    "no-kind": "Object 'Kind' is missing",
}
# Where there are several problems: one line each. The original puts them into brackets, or tells only the first.
BUILDING = "initializing profiles: creating profile for scheduler name default-scheduler: "
ON_SEVERAL_LINES = {
    "no-queuesort-multipoint": [
        BUILDING + 'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0',
        BUILDING + 'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
    ],
    "lease-negative": [
        'leaderElection.leaseDuration: Invalid value: "-5s": must be greater than zero',
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
    ],
}


def with_kubeconfig(text):
    """The recorder put a kubeconfig into each configuration before the run; it is the last line of the file."""
    return text if "clientConnection:" in text else text.rstrip("\n") + "\nclientConnection: {kubeconfig: KUBECONFIG}\n"


@pytest.mark.parametrize("case", DEFAULTED, ids=[case["name"] for case in DEFAULTED])
def test_defaulted_as_recorded(case):
    expected = yaml.safe_load(case["output"])
    config = load(case["input"])
    written = yaml.safe_load(dump(config))
    expected["clientConnection"].pop("kubeconfig")
    assert written["clientConnection"].pop("kubeconfig") == ""
    assert written == expected
    assert yaml.safe_load(dump(config)) == to_dict(config)


@pytest.mark.parametrize("case", DEFAULTED, ids=[case["name"] for case in DEFAULTED])
def test_what_was_written_loads_to_the_same(case):
    config = load(case["input"])
    assert load(dump(config)) == config


def test_kubeconfig_is_kept():
    config = load(with_kubeconfig(DEFAULTED[0]["input"]))
    assert config.client_connection.kubeconfig == "KUBECONFIG"
    assert yaml.safe_load(dump(config))["clientConnection"]["kubeconfig"] == "KUBECONFIG"


@pytest.mark.parametrize(
    "case", [c for c in INVALID if c["exitCode"] == 0], ids=[c["name"] for c in INVALID if c["exitCode"] == 0]
)
def test_accepted_as_recorded(case):
    assert load(with_kubeconfig(case["input"])).profiles


@pytest.mark.parametrize(
    "case", [c for c in INVALID if c["exitCode"] != 0], ids=[c["name"] for c in INVALID if c["exitCode"] != 0]
)
def test_refused_as_recorded(case):
    with pytest.raises(ConfigError) as caught:
        load(with_kubeconfig(case["input"]), name="sched.yaml")
    lines = str(caught.value).splitlines()
    expected = ON_SEVERAL_LINES.get(case["name"]) or [IN_OUR_WORDS.get(case["name"], case["message"])]
    assert len(lines) == len(expected)
    for line, message in zip(lines, expected, strict=True):
        assert message in line
        assert line.startswith("sched.yaml")


@pytest.mark.parametrize("case", CONFORMANCE, ids=[case["name"] for case in CONFORMANCE])
def test_expansion_is_what_the_recorded_decision_shows(case):
    profile = load(case["config"]).profile(case["profile"])
    assert profile is not None
    points = expand(profile)
    weights = dict(points["score"])
    assert {name: weights[name] for name in case["weights"]} == case["weights"]
    if case["filters"]:
        in_force = {name for name, _ in points["filter"]}
        assert set(case["filters"]) <= in_force
        assert in_force <= set(case["filters"]) | set(case["skipped"])


def test_the_recorded_decisions_show_enough():
    assert len(CONFORMANCE) > 100
    assert sum(len(case["weights"]) for case in CONFORMANCE) > 200


def test_packed_copies_are_the_recordings():
    if not SHARED.exists():
        pytest.skip("the recordings are not beside the repository")
    for name, expected in pack_config.packed(SHARED).items():
        assert gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()) == pack_config.encoded(expected)
