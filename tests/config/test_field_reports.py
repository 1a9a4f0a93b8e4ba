"""Reports from the field about configurations: BR-121, BR-126."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kubesched.app import options
from kubesched.cli.flag_parsing import parse
from kubesched.config import API_VERSION, KIND, ConfigError, FeatureGates, PluginInfo, expand, load


def config(*profiles: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": list(profiles)}


def scores(**plugins: Any) -> dict[str, int]:
    return dict(expand(load(config({"plugins": plugins})).profiles[0])["score"])


def enabled(*plugins: tuple[str, int] | str, disabled: tuple[str, ...] = ()) -> dict[str, Any]:
    rows = [{"name": p} if isinstance(p, str) else {"name": p[0], "weight": p[1]} for p in plugins]
    return {"enabled": rows, "disabled": [{"name": name} for name in disabled]}


def test_a_weight_at_the_score_point_beats_the_default_one():
    default = scores()
    assert scores(score=enabled(("NodeResourcesFit", 5))) == {**default, "NodeResourcesFit": 5}


def test_disable_all_then_enable_two():
    two = enabled(("ImageLocality", 3), ("NodeAffinity", 4), disabled=("*",))
    assert scores(score=two) == {"ImageLocality": 3, "NodeAffinity": 4}


def test_the_specific_point_beats_multi_point():
    both = scores(multiPoint=enabled(("NodeAffinity", 7)), score=enabled(("NodeAffinity", 9)))
    assert both["NodeAffinity"] == 9
    assert scores(multiPoint=enabled(("NodeAffinity", 7)))["NodeAffinity"] == 7


def test_a_weight_of_0_means_1():
    assert scores(score=enabled(("TaintToleration", 0)))["TaintToleration"] == 1


OWN_LEASE = "--leader-elect-resource-name=mine"
HINTED: dict[str, tuple[str, list[str], int]] = {
    "a name of its own and the default lease": ("mine", [], 1),
    "the flags name a lease": ("mine", [OWN_LEASE], 0),
    "the flags name the default lease": ("mine", ["--leader-elect-resource-name=kube-scheduler"], 1),
    "another namespace": ("mine", ["--leader-elect-resource-namespace=mine"], 0),
    "no election": ("mine", ["--leader-elect=false"], 0),
    "nobody else, for the server is its own": ("mine", ["--embedded"], 0),
    "it takes the place of the default scheduler": ("default-scheduler", [], 0),
}


@pytest.mark.parametrize(("name", "arguments", "count"), HINTED.values(), ids=HINTED)
def test_br_121_a_second_scheduler_on_the_default_lease_is_told_that_it_would_wait(
    name, arguments, count, tmp_path, caplog
):
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config({"schedulerName": name})))
    options.load(parse(["--config", str(file), *arguments]), FeatureGates())
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == count
    assert all("the lease kube-system/kube-scheduler is the one of the stock scheduler" in line for line in said)


def args(plugin: str, **values: Any) -> dict[str, Any]:
    return {"pluginConfig": [{"name": plugin, "args": values}]}


REFUSED: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "a plugin twice at a point": (
        [{"plugins": {"score": enabled("ImageLocality", "ImageLocality")}}],
        "profiles[0].plugins.score.enabled[1]",
        'plugin "ImageLocality" already registered as "ScorePlugin"',
    ),
    "a name twice": (
        [{"schedulerName": "a"}, {"schedulerName": "a"}],
        "profiles[1].schedulerName",
        "Duplicate value",
    ),
    "no queue sort in one of two profiles": (
        [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": {"queueSort": enabled(disabled=("*",))}}],
        "profiles[1].plugins.queueSort",
        "must be the same for all profiles",
    ),
    "an unknown plugin": (
        [{"plugins": {"filter": enabled("NodeRessourcesFit")}}],
        "profiles[0].plugins.filter.enabled[0]",
        'FilterPlugin "NodeRessourcesFit" does not exist (did you mean "NodeResourcesFit"?)',
    ),
    "a plugin at a point that it does not serve": (
        [{"plugins": {"bind": enabled("NodeName", "DefaultBinder")}}],
        "profiles[0].plugins.bind.enabled[0]",
        'plugin "NodeName" does not extend BindPlugin plugin',
    ),
    "an unknown arg": (
        [args("InterPodAffinity", hardPodAffinity=5)],
        "profiles[0].pluginConfig[0].args.hardPodAffinity",
        'unknown field "hardPodAffinity" (did you mean "hardPodAffinityWeight"?)',
    ),
    "weights below zero": (
        [{"plugins": {"score": enabled(("ImageLocality", -1))}}],
        "profiles[0].plugins.score",
        "total score of Score plugins could overflow",
    ),
}


def test_two_profiles_with_different_queue_sorts():
    mine = PluginInfo("MySort", frozenset({"queueSort"}))
    sorts = {"queueSort": enabled("MySort", disabled=("*",))}
    with pytest.raises(ConfigError) as caught:
        load(config({"schedulerName": "a"}, {"schedulerName": "b", "plugins": sorts}), plugins=[mine])
    [error] = caught.value.errors
    assert error.path == "profiles[1].plugins.queueSort"
    assert error.reason == "must be the same for all profiles"


@pytest.mark.parametrize(("profiles", "path", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_names_the_path(profiles, path, message):
    with pytest.raises(ConfigError) as caught:
        load(config(*profiles))
    [error] = caught.value.errors
    assert error.path == path
    assert message in error.message
