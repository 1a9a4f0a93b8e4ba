"""Every recorded case, and the packed copy against the recordings where these are at hand."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import pytest

from kubesched import Cluster
from tests.conformance import hints, packed
from tests.conformance.compare import differences
from tests.conformance.run import mismatches, run
from tests.data import pack_conformance


@pytest.mark.parametrize("family", packed.families())
def test_decisions_agree_with_the_record(family: str) -> None:
    assert not {case["name"]: found for case in packed.cases(family) if (found := mismatches(case))}


def test_all_cases_are_there() -> None:
    counts = {family: sum(1 for _ in packed.cases(family)) for family in packed.families()}
    assert (len(counts), sum(counts.values())) == (53, 465)
    assert sum(1 for plugin in hints.plugins() for _ in packed.cases(plugin, "hints")) == 413


def test_the_runner_tells_by_its_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("node-name") == 0
    assert "ok   node-name                  4/4" in capsys.readouterr().out

    def spoilt(family: str, folder: str = "") -> Iterator[Any]:
        for case in cases(family, folder):
            yield {**case, "expect": {**case["expect"], "message": "something else"}}

    cases = packed.cases
    monkeypatch.setattr(packed, "cases", spoilt)
    assert run("node-name") == 1
    assert "FAIL node-name                  0/4" in capsys.readouterr().out


@pytest.mark.parametrize("plugin", hints.plugins())
def test_hints_wake_what_can_fit_and_little_else(plugin: str) -> None:
    judged = [case for case in packed.cases(plugin, "hints") if not hints.needs_devices(case)]
    assert not {case["name"]: wrong for case in judged if (wrong := list(hints.wrong_hint(case)))}


def test_known_differences_are_about_inter_pod_affinity_alone() -> None:
    """The original reads negated namespace selectors wrong; nothing else of these cases may differ."""
    found = {}
    for case in packed.cases("affinity-ns-negated", "known-differences"):
        got = Cluster(case["objects"]).explain(case["pod"]).to_dict()
        found[case["name"]] = [
            each
            for each in differences(_without_affinity(got), _without_affinity(case["expect"]))
            if not each.startswith(("filter.", "best:"))
        ]
    assert len(found) == 6
    assert not {name: wrong for name, wrong in found.items() if wrong}


def test_pods_with_resource_claims_are_held_back() -> None:
    """Until devices are allocated: bound without them such a pod would never run."""
    held = [
        Cluster(case["objects"]).explain(case["pod"]).pre_enqueue
        for family in packed.families("later")
        for case in packed.cases(family, "later")
    ]
    assert len(held) == 10
    assert {status.plugin for status in held if status is not None} == {"DynamicResources"}
    assert all(held)


@pytest.mark.skipif(not pack_conformance.SHARED.is_dir(), reason="the recordings are not beside the repository")
def test_the_packed_copy_is_what_was_recorded() -> None:
    for name, rows in pack_conformance.packed(pack_conformance.SHARED).items():
        copy = gzip.decompress((pack_conformance.PACKED / f"{name}.jsonl.gz").read_bytes())
        assert copy == pack_conformance.encoded(rows), name


def _without_affinity(shape: dict[str, Any]) -> dict[str, Any]:
    """Without what InterPodAffinity says, and without the nodes' scores where it changes which of them fit."""
    rest = {key: value for key, value in shape.items() if key != "scores"}
    by_plugin = shape["filterByPlugin"]
    return {**rest, "filterByPlugin": {name: said for name, said in by_plugin.items() if name != "InterPodAffinity"}}
