"""Reading: what absent, zero and null mean, the forms of YAML, sources, and warnings."""

import json
import logging
from pathlib import Path

import pytest

from kubesched.config import Duration, ExtenderTLSConfig, load

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def read(text):
    return load(HEAD + text)


ABSENT = [
    ("qps 0 is absent", "clientConnection: {qps: 0}", lambda c: c.client_connection.qps, 50),
    ("qps below 0 is not", "clientConnection: {qps: -1}", lambda c: c.client_connection.qps, -1),
    ("burst 0 is absent", "clientConnection: {burst: 0}", lambda c: c.client_connection.burst, 100),
    (
        "empty content type",
        "clientConnection: {contentType: ''}",
        lambda c: c.client_connection.content_type[-8:],
        "protobuf",
    ),
    (
        "lease 0s is absent",
        "leaderElection: {leaseDuration: 0s}",
        lambda c: str(c.leader_election.lease_duration),
        "15s",
    ),
    (
        "empty lease name",
        "leaderElection: {resourceName: ''}",
        lambda c: c.leader_election.resource_name,
        "kube-scheduler",
    ),
    ("elect false stays", "leaderElection: {leaderElect: false}", lambda c: c.leader_election.leader_elect, False),
    ("elect null is absent", "leaderElection: {leaderElect: null}", lambda c: c.leader_election.leader_elect, True),
    ("whole section null", "leaderElection:", lambda c: c.leader_election.leader_elect, True),
    ("percentage 0 stays", "percentageOfNodesToScore: 0", lambda c: c.percentage_of_nodes_to_score, 0),
    ("profiling off turns both off", "enableProfiling: false", lambda c: c.enable_contention_profiling, False),
    ("no profiles", "profiles: []", lambda c: c.profiles[0].scheduler_name, "default-scheduler"),
    ("a null profile", "profiles: [null]", lambda c: c.profiles[0].scheduler_name, "default-scheduler"),
    ("profile percentage absent", "profiles: [{}]", lambda c: c.profiles[0].percentage_of_nodes_to_score, None),
    (
        "profile percentage 0 stays",
        "profiles: [{percentageOfNodesToScore: 0}]",
        lambda c: c.profiles[0].percentage_of_nodes_to_score,
        0,
    ),
    ("timeout 0s is absent", "extenders: [{httpTimeout: 0s}]", lambda c: c.extenders[0].http_timeout, Duration.of(5)),
    ("a whole float is an integer", "parallelism: 8.0", lambda c: c.parallelism, 8),
    ("an exponent is an integer", "parallelism: 1e2", lambda c: c.parallelism, 100),
    ("an octal number", "parallelism: 010", lambda c: c.parallelism, 8),
    ("a hexadecimal number", "parallelism: 0x10", lambda c: c.parallelism, 16),
    ("underscores", "parallelism: 1_000", lambda c: c.parallelism, 1000),
    ("yes is true", "delayCacheUntilActive: yes", lambda c: c.delay_cache_until_active, True),
    (
        "a date is a text",
        "profiles: [{schedulerName: 2026-01-02}]",
        lambda c: c.profiles[0].scheduler_name,
        "2026-01-02",
    ),
    ("a clock is a text", "profiles: [{schedulerName: 12:30}]", lambda c: c.profiles[0].scheduler_name, "12:30"),
    ("quoted digits", "profiles: [{schedulerName: '5'}]", lambda c: c.profiles[0].scheduler_name, "5"),
    ("a tagged text", "profiles: [{schedulerName: !!str 5}]", lambda c: c.profiles[0].scheduler_name, "5"),
    ("a block text", "profiles:\n- schedulerName: >-\n    a\n    b", lambda c: c.profiles[0].scheduler_name, "a b"),
    (
        "an alias",
        "leaderElection: {resourceName: &n x}\nprofiles: [{schedulerName: *n}]",
        lambda c: c.profiles[0].scheduler_name,
        "x",
    ),
    (
        "a merge, overridden",
        "profiles:\n- &p {schedulerName: a, percentageOfNodesToScore: 7}\n- {<<: *p, schedulerName: b}",
        lambda c: (c.profiles[1].scheduler_name, c.profiles[1].percentage_of_nodes_to_score),
        ("b", 7),
    ),
    (
        "empty args",
        "profiles: [{pluginConfig: [{name: VolumeBinding}]}]",
        lambda c: c.profiles[0].args("VolumeBinding").bind_timeout_seconds,
        600,
    ),
    (
        "args with their kind",
        "profiles: [{pluginConfig: [{name: VolumeBinding, args: {apiVersion: kubescheduler.config.k8s.io/v1,"
        " kind: VolumeBindingArgs, bindTimeoutSeconds: 1}}]}]",
        lambda c: c.profiles[0].args("VolumeBinding").bind_timeout_seconds,
        1,
    ),
    (
        "args with half their kind",
        "profiles: [{pluginConfig: [{name: VolumeBinding, args: {kind: VolumeBindingArgs, bindTimeoutSeconds: 0}}]}]",
        lambda c: c.profiles[0].args("VolumeBinding").bind_timeout_seconds,
        0,
    ),
    (
        "resource weight 0 is 1",
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated,"
        " resources: [{name: a.b/c}]}}}]}]",
        lambda c: [r.weight for r in c.profiles[0].args("NodeResourcesFit").scoring_strategy.resources],
        [1],
    ),
    (
        "resources of a strategy default",
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]",
        lambda c: [r.name for r in c.profiles[0].args("NodeResourcesFit").scoring_strategy.resources],
        ["cpu", "memory"],
    ),
    (
        "args of what does not run are dropped",
        "profiles: [{pluginConfig: [{name: Foo, args: {a: 1}}]}]",
        lambda c: c.profiles[0].args("Foo"),
        None,
    ),
]


@pytest.mark.parametrize(("text", "get", "expected"), [case[1:] for case in ABSENT], ids=[case[0] for case in ABSENT])
def test_read_as(text, get, expected):
    assert get(read(text)) == expected


def test_sources_give_the_same(tmp_path):
    text = HEAD + "parallelism: 5\n"
    path = tmp_path / "c.yaml"
    path.write_text("\ufeff" + text)
    data = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 5}
    as_json = json.dumps(data, indent="\t")
    first = load(text)
    assert first.parallelism == 5
    assert [load(text.encode()), load(path), load(as_json), load(data)] == [first] * 4
    assert data["parallelism"] == 5
    assert load(None) == load(HEAD)


def test_plain_data_is_not_changed():
    config = {"name": "NodeAffinity", "args": {}}
    data = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    load({**data, "profiles": [{"pluginConfig": [config]}]})
    assert config == {"name": "NodeAffinity", "args": {}}


def test_documents_after_the_first_are_not_read(caplog):
    assert load("---\n" + HEAD + "parallelism: 5\n---\nwhatever: [").parallelism == 5
    assert "only the first document" in caplog.text


def test_extender_resources_are_ignored_by_the_fit_plugin():
    config = read(
        "extenders: [{managedResources: [{name: a.b/c, ignoredByScheduler: true}, {name: a.b/d}]}]\n"
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [x.y/z]}}]}]\n"
    )
    assert config.profiles[0].args("NodeResourcesFit").ignored_resources == ("a.b/c",)


def test_tls_data_goes_before_an_unreadable_file():
    config = read("extenders: [{tlsConfig: {certFile: /none, certData: eA==}}]")
    assert config.extenders[0].tls_config == ExtenderTLSConfig(cert_file="/none", cert_data=b"x")


WARNINGS = [
    ("nothing to say", "", []),
    (
        "stock lease for another scheduler",
        "profiles: [{schedulerName: mine}]",
        ["leaderElection.resourceName: the lease kube-system/kube-scheduler is the one of the stock scheduler"],
    ),
    ("lease of its own", "profiles: [{schedulerName: mine}]\nleaderElection: {resourceName: mine}", []),
    ("no lease", "profiles: [{schedulerName: mine}]\nleaderElection: {leaderElect: false}", []),
    (
        "the stock scheduler's name beside others",
        "profiles: [{schedulerName: mine}, {schedulerName: default-scheduler}]",
        [],
    ),
    (
        "args for nobody",
        "profiles: [{pluginConfig: [{name: NodeAfinity, args: {}}]}]",
        ['profiles[0].pluginConfig[0]: args for "NodeAfinity" have no effect: no such plugin runs in this profile'],
    ),
    (
        "disabling nobody",
        "profiles: [{plugins: {score: {disabled: [{name: Foo}, {name: '*'}]}}}]",
        ['profiles[0].plugins.score.disabled[0]: disabling "Foo" has no effect: there is no such plugin'],
    ),
    (
        "ignored resources lost",
        "extenders: [{managedResources: [{name: a.b/c, ignoredByScheduler: true}]}]\n"
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [x.y/z]}}]}]",
        ["profiles[0].pluginConfig: the ignoredResources of NodeResourcesFit have no effect"],
    ),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in WARNINGS], ids=[case[0] for case in WARNINGS])
def test_warned(text, expected, caplog):
    with caplog.at_level(logging.WARNING, logger="kubesched.config"):
        read(text)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(expected)
    assert all(line.startswith(begin) for line, begin in zip(said, expected, strict=True))


@pytest.mark.parametrize("name", ["a.yaml", "b.json"])
def test_name_in_messages_can_be_given(name):
    from kubesched.config import ConfigError

    with pytest.raises(ConfigError) as caught:
        load(Path("/none") / name, name="the configuration")
    assert str(caught.value) == "open the configuration: no such file or directory"
