"""Every recorded case, and the packed copy against the recordings where these are at hand."""

from __future__ import annotations

import gzip

import pytest

from tests.conformance import hints, packed
from tests.conformance.run import run_case
from tests.data import pack_conformance


@pytest.mark.parametrize("family", packed.families())
def test_decisions_agree_with_the_record(family: str) -> None:
    wrong = {case["name"]: found.mismatches for case in packed.cases(family) if (found := run_case(case)).mismatches}
    assert not wrong


def test_all_cases_are_there() -> None:
    counts = {family: sum(1 for _ in packed.cases(family)) for family in packed.families()}
    assert (len(counts), sum(counts.values())) == (53, 465)
    assert sum(1 for plugin in hints.plugins() for _ in packed.cases(plugin, "hints")) == 413


@pytest.mark.parametrize("plugin", hints.plugins())
def test_hints_wake_what_can_fit_and_little_else(plugin: str) -> None:
    judged = [case for case in packed.cases(plugin, "hints") if not hints.undecided(case)]
    wrong = {case["name"]: problems for case in judged if (problems := list(hints.judge(case)))}
    assert not wrong


@pytest.mark.skipif(not pack_conformance.SHARED.is_dir(), reason="the recordings are not beside the repository")
def test_the_packed_copy_is_what_was_recorded() -> None:
    for name, rows in pack_conformance.packed(pack_conformance.SHARED).items():
        copy = gzip.decompress((pack_conformance.PACKED / f"{name}.jsonl.gz").read_bytes())
        assert copy == pack_conformance.encoded(rows), name
