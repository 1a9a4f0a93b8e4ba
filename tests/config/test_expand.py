"""Plugins by extension point: `multiPoint`, overrides, `*`, order, weights."""

import pytest

from kubesched.config import POINTS, PluginInfo, expand, load, with_out_of_tree
from kubesched.config.catalog import IN_TREE

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: "

OUT = [
    PluginInfo("MyFilter", frozenset({"filter"})),
    PluginInfo("MyScore", frozenset({"preScore", "score"})),
    PluginInfo("MyAll", frozenset({"filter", "score", "permit"})),
]


def points(plugins):
    profile = load(HEAD + plugins, plugins=OUT).profiles[0]
    return expand(profile, with_out_of_tree(OUT))


DEFAULT_SCORE = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodeResourcesFit", 1),
    ("VolumeBinding", 1),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
]
BARE = "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}%s]}%s}"

SCORE = [
    ("defaults", "{}", DEFAULT_SCORE),
    (
        "a weight at the point beats the multiPoint one and comes first",
        "{score: {enabled: [{name: NodeResourcesFit, weight: 5}]}}",
        [("NodeResourcesFit", 5), *[item for item in DEFAULT_SCORE if item[0] != "NodeResourcesFit"]],
    ),
    (
        "enabled and disabled in one place is how a weight is changed",
        "{score: {enabled: [{name: NodeResourcesFit, weight: 5}], disabled: [{name: NodeResourcesFit}]}}",
        [*[item for item in DEFAULT_SCORE if item[0] != "NodeResourcesFit"], ("NodeResourcesFit", 5)],
    ),
    (
        "weight 0 at the point means 1, not the multiPoint weight",
        "{score: {enabled: [{name: TaintToleration}]}}",
        [("TaintToleration", 1), *DEFAULT_SCORE[1:]],
    ),
    (
        "star disables all, then two",
        "{score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 4}, {name: NodeAffinity}]}}",
        [("ImageLocality", 4), ("NodeAffinity", 1)],
    ),
    ("one disabled at the point", "{score: {disabled: [{name: ImageLocality}]}}", DEFAULT_SCORE[:-1]),
    (
        "multiPoint replaces a default in place",
        "{multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}}",
        [(name, 9 if name == "NodeAffinity" else weight) for name, weight in DEFAULT_SCORE],
    ),
    (
        "multiPoint disabled and enabled again goes to the end",
        "{multiPoint: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 9}]}}",
        [*[item for item in DEFAULT_SCORE if item[0] != "NodeAffinity"], ("NodeAffinity", 9)],
    ),
    (
        "two own plugins, one default score off",
        "{score: {disabled: [{name: PodTopologySpread}]},"
        " multiPoint: {enabled: [{name: MyScore, weight: 2}, {name: MyAll, weight: 1}]}}",
        [*[item for item in DEFAULT_SCORE if item[0] != "PodTopologySpread"], ("MyScore", 2), ("MyAll", 1)],
    ),
    (
        "order: overridden as listed, then multiPoint, then the point's own",
        "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder},"
        " {name: ImageLocality}, {name: NodeAffinity}, {name: TaintToleration}]},"
        " score: {enabled: [{name: MyScore, weight: 7}, {name: TaintToleration, weight: 3}, {name: ImageLocality}]}}",
        [("TaintToleration", 3), ("ImageLocality", 1), ("NodeAffinity", 1), ("MyScore", 7)],
    ),
    (
        "largest weight",
        "{score: {enabled: [{name: MyScore, weight: 2147483647}]}}",
        [*DEFAULT_SCORE, ("MyScore", 2**31 - 1)],
    ),
]


@pytest.mark.parametrize(("plugins", "expected"), [case[1:] for case in SCORE], ids=[case[0] for case in SCORE])
def test_score(plugins, expected):
    assert list(points(plugins)["score"]) == expected


def test_defaults_at_every_point():
    names = {point: " ".join(name for name, _ in plugins) for point, plugins in points("{}").items()}
    assert names == {
        "preFilter": "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding"
        " VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures",
        "filter": "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit"
        " VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity"
        " DynamicResources NodeDeclaredFeatures",
        "postFilter": "DynamicResources DefaultPreemption",
        "reserve": "VolumeBinding DynamicResources",
        "preScore": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity"
        " NodeResourcesBalancedAllocation",
        "score": " ".join(name for name, _ in DEFAULT_SCORE),
        "preBind": "VolumeBinding DynamicResources",
        "bind": "DefaultBinder",
        "postBind": "",
        "permit": "",
        "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
        "queueSort": "PrioritySort",
    }
    assert tuple(names) == POINTS


def test_only_scores_have_weights():
    assert {weight for point, plugins in points("{}").items() if point != "score" for _, weight in plugins} == {0}


OTHER = [
    ("star at a point", "{filter: {disabled: [{name: '*'}]}}", "filter", []),
    (
        "star keeps what the point enables",
        "{permit: {disabled: [{name: '*'}], enabled: [{name: MyAll}]}}",
        "permit",
        ["MyAll"],
    ),
    ("multiPoint brings a plugin to all its points", BARE % (", {name: MyAll}", ""), "permit", ["MyAll"]),
    ("and to no other", BARE % (", {name: MyAll}", ""), "reserve", []),
    ("disabled at one point only", BARE % (", {name: MyAll}", ", permit: {disabled: [{name: MyAll}]}"), "permit", []),
    (
        "still there at the others",
        BARE % (", {name: MyAll}", ", permit: {disabled: [{name: MyAll}]}"),
        "filter",
        ["MyAll"],
    ),
    ("own plugins after the defaults", "{postFilter: {}, filter: {enabled: [{name: MyFilter}]}}", "filter", None),
]


@pytest.mark.parametrize(
    ("plugins", "point", "expected"), [case[1:] for case in OTHER], ids=[case[0] for case in OTHER]
)
def test_other_points(plugins, point, expected):
    found = [name for name, _ in points(plugins)[point]]
    if expected is None:
        expected = [name for name in IN_TREE if "filter" in IN_TREE[name].points] + ["MyFilter"]
    assert found == expected


def test_different_queue_sort_plugins_by_multi_point_are_refused():
    from kubesched.config import ConfigError

    other = PluginInfo("MySort", frozenset({"queueSort"}))
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: a\n"
        "- schedulerName: b\n"
        "  plugins: {multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: MySort}]}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(text, plugins=[other])
    assert str(caught.value) == (
        'initializing profiles: different queue sort plugins for profile "b": "MySort", first: "PrioritySort"'
    )
