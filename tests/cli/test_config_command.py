"""`kubesched config validate|show|diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kubesched.cli.main import main
from kubesched.config import dump, load

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PLUGIN = """
import msgspec
from kubesched.framework import Plugin

class Args(msgspec.Struct, frozen=True, rename="camel"):
    wished_zone: str = "a"

class Zone(Plugin):
    name = "Zone"
    args_type = Args

    def score(self, state, pod, node):
        return 0
"""


def file(folder: Path, text: str, name: str = "c.yaml") -> str:
    (folder / name).write_text(HEAD + text)
    return str(folder / name)


def test_validate(tmp_path, capsys):
    good = file(tmp_path, "profiles: [{schedulerName: a}, {schedulerName: b}]\n", "good.yaml")
    bad = file(tmp_path, "parallelism: 0\npercentageOfNodesToScore: 101\n", "bad.yaml")
    assert main(["config", "validate", good]) == 0
    assert capsys.readouterr().out == f"{good}: valid, profiles a, b\n"
    assert main(["config", "validate", bad, good]) == 1
    told = capsys.readouterr()
    assert told.out == f"{good}: valid, profiles a, b\n"
    first, second = [line for line in told.err.splitlines() if line.startswith(bad)]
    assert first.startswith(f"{bad}:3: parallelism: Invalid value: 0")
    assert second.startswith(f"{bad}:4: percentageOfNodesToScore: Invalid value: 101")


def test_validate_tells_what_is_hardly_meant(tmp_path, capsys):
    odd = file(tmp_path, "profiles: [{plugins: {score: {disabled: [{name: NodeResourceFit}]}}}]\n")
    assert main(["config", "validate", odd]) == 0
    assert "NodeResourceFit" in capsys.readouterr().err


def test_show(tmp_path, capsys):
    mine = file(tmp_path, "podMaxBackoffSeconds: 30\n")
    assert main(["config", "show", mine]) == 0
    assert capsys.readouterr().out == dump(load(Path(mine)))
    assert main(["config", "show", mine, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == yaml.safe_load(dump(load(Path(mine))))
    assert main(["config", "show"]) == 0
    assert capsys.readouterr().out == dump(load())


def test_show_effective(tmp_path, capsys):
    mine = file(
        tmp_path, "profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}]}}}]\n"
    )
    assert main(["config", "show", "--effective", mine]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "default-scheduler:"
    assert "  score: ImageLocality 1" in lines
    assert "  permit: -" in lines


def test_what_is_wrong_ends_with_2_where_nobody_asked_whether_it_is(tmp_path, capsys):
    for command in (["show", "nowhere.yaml"], ["diff", "nowhere.yaml"]):
        assert main(["config", *command]) == 2
        assert "nowhere.yaml" in capsys.readouterr().err


DIFFERENCES = {
    "weight": (
        "profiles: [{plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 5}]}}}]\n",
        ["profile default-scheduler", "  ~ score: NodeResourcesFit weight 1 -> weight 5"],
    ),
    "the same weight written otherwise": (
        "profiles: [{plugins: {score: {enabled: [{name: TaintToleration, weight: 3}]}}}]\n",
        [],
    ),
    "disabled and added": (
        "profiles: [{plugins: {score: {disabled: [{name: ImageLocality}], enabled: [{name: Zone, weight: 2}]}}}]\n",
        [
            "profile default-scheduler",
            "  - score: ImageLocality weight 1",
            "  + score: Zone weight 2",
        ],
    ),
    "disabled everywhere": (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: NodePorts}]}}}]\n",
        ["profile default-scheduler", "  - preFilter: NodePorts on", "  - filter: NodePorts on"],
    ),
    "order": (
        "profiles: [{plugins: {filter: {enabled: [{name: NodePorts}]}}}]\n",
        [
            "profile default-scheduler",
            "  ~ filter: order NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, ...",
        ],
    ),
    "args": (
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]\n",
        [
            "profile default-scheduler",
            "  ~ args: NodeResourcesFit.scoringStrategy.type LeastAllocated -> MostAllocated",
        ],
    ),
    "top level": (
        "percentageOfNodesToScore: 50\nextenders: [{urlPrefix: http://x, filterVerb: f}]\n",
        [
            "all profiles",
            "  ~ percentageOfNodesToScore 0 -> 50",
            '  + extenders [{"urlPrefix": "http://x", "filterVerb": "f", "httpTimeout": "5s"}]',
        ],
    ),
    "another name": (
        "profiles: [{schedulerName: mine, percentageOfNodesToScore: 10}]\n",
        ["profile mine", "  ~ schedulerName default-scheduler -> mine", "  + percentageOfNodesToScore 10"],
    ),
    "one more profile": (
        "profiles: [{schedulerName: default-scheduler}, {schedulerName: other}]\n",
        ["profile other", "  + profile other"],
    ),
}


@pytest.mark.parametrize(("text", "lines"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_diff_against_the_defaults(text, lines, tmp_path, capsys):
    (tmp_path / "zone.py").write_text(PLUGIN)
    plugin = f"--plugin={tmp_path / 'zone.py'}:Zone"
    assert main(["config", "diff", plugin, file(tmp_path, text)]) == (1 if lines else 0)
    told = capsys.readouterr().out.splitlines()
    assert len(told) == len(lines)
    for line, expected in zip(told, lines, strict=True):
        assert line.startswith(expected.removesuffix("...")) if expected.endswith("...") else line == expected


def test_diff_of_two_files_as_data(tmp_path, capsys):
    first = file(tmp_path, "podInitialBackoffSeconds: 2\n", "a.yaml")
    second = file(tmp_path, "podInitialBackoffSeconds: 3\n", "b.yaml")
    assert main(["config", "diff", "-o", "json", first, second]) == 1
    place = {"profile": "", "place": "podInitialBackoffSeconds", "what": ""}
    assert json.loads(capsys.readouterr().out) == [{**place, "before": 2, "after": 3}]
    assert main(["config", "diff", first, first]) == 0
