"""Every workload can be read and stamped, and results are compared by pairs."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.compare import paired
from benchmarks.driver import collection_of
from benchmarks.e2e import Run, _snake

from benchmarks import workload
from kubesched.api import codec, kinds


@pytest.mark.parametrize("name", workload.names())
def test_every_workload_can_be_carried_out(name):
    wanted = workload.load(name)
    assert wanted.description and wanted.operations
    measured = 0
    for operation in wanted.operations:
        assert hasattr(Run, f"_{_snake(operation.name)}"), operation.name
        if "template" in operation.options:
            for number in (0, 7):
                document = workload.stamp(operation.options["template"], number)
                assert collection_of(document)
                codec.from_dict(kinds.by_name(document["kind"]), document)
        if operation.options.get("measure"):
            measured += operation.options["count"]
    assert measured > 0


def test_parameters_are_those_of_the_variant_or_of_the_command_line():
    assert workload.load("basic").parameters["nodes"] == 5000
    assert workload.load("basic/15000Nodes", {"pods": 3}).parameters == {"nodes": 15000, "pods": 3}
    for wrong in ("nothing", "basic/nothing"):
        with pytest.raises(ValueError, match="nothing"):
            workload.load(wrong)


@pytest.mark.parametrize(
    ("template", "made"),
    [
        pytest.param("pod-{i}", "pod-7", id="the number"),
        pytest.param("{100 + 10 * (i % 4)}m", "130m", id="a sum within a text"),
        pytest.param("{i // 2}", 3, id="a sum alone is a number"),
        pytest.param({"a": ["{i}", 1, None]}, {"a": [7, 1, None]}, id="deep inside"),
    ],
)
def test_stamping(template, made):
    assert workload.stamp(template, 7) == made


@pytest.mark.parametrize("bad", ["{j}", "{i ** 2}", "{__import__('os')}", "{i / 2}"])
def test_only_sums_of_the_number_are_computed(bad):
    with pytest.raises(ValueError, match="cannot compute"):
        workload.stamp(bad, 1)


def test_runs_are_paired_in_order():
    a: list[dict[str, Any]] = [
        {"workload": "w", "cpu_ms_per_pod": 2.0},
        {"workload": "w", "cpu_ms_per_pod": 4.0},
        {"workload": "only"},
    ]
    b: list[dict[str, Any]] = [{"workload": "w", "cpu_ms_per_pod": 1.0}, {"workload": "w", "cpu_ms_per_pod": None}]
    assert list(paired(a, b)) == [("w", "CPU ms/pod", [(2.0, 1.0)])]
