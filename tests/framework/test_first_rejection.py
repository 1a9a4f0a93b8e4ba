"""A node is recorded with the first rejection in profile order, whatever was asked first; errors end the attempt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched.framework import FitError, Plugin, Status, Verdicts
from kubesched.framework.runtime.calling import PluginFailure
from kubesched.scheduler.explain import explain
from kubesched.state.pod_info import PodInfo
from tests.build import make_node, make_pod
from tests.harness import Harness


class Unkept(Plugin):
    """Declares nothing that it reads, so it is asked after the kept ones. Rejects n1 and n2."""

    name = "Unkept"
    answer = Status.unschedulable("not here")

    def filter_rows(self, state: Any, pod: Any, nodes: Any) -> Verdicts:
        return Verdicts.where(np.array([node.name in ("n1", "n2") for node in nodes]), self.answer)


class Failing(Unkept):
    name = "Failing"
    answer = Status.error("disk is on fire")


def profile(*plugins: str) -> dict[str, Any]:
    enabled = [{"name": name} for name in ("PrioritySort", *plugins, "DefaultBinder")]
    return {"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}}]}


def harness(*order: str) -> Harness:
    found = Harness(Unkept, Failing, settings=profile(*order))
    for name, cpu in (("n1", "1"), ("n2", "8"), ("n3", "1")):
        found.state.set_node(make_node(name).capacity(cpu=cpu).obj())
    return found


@pytest.mark.parametrize(
    ("order", "first"),
    [
        pytest.param(["Unkept", "NodeResourcesFit"], ["Unkept", "Unkept", "NodeResourcesFit"], id="the unkept one"),
        pytest.param(["NodeResourcesFit", "Unkept"], ["NodeResourcesFit", "Unkept", "NodeResourcesFit"], id="the kept"),
    ],
)
def test_the_first_in_profile_order_is_recorded(order: list[str], first: list[str]) -> None:
    found = harness(*order)
    runtime = found.runtimes["default-scheduler"]
    pod = make_pod("big").cpu("4").obj()
    for _ in range(2):  # the second time from what is kept
        state, evaluation = runtime.begin(PodInfo(pod))
        fits = runtime.find_fits(state, evaluation)
        assert not len(fits.rows)
        statuses = [fits.diagnosis.node_statuses.get(name) for name in ("n1", "n2", "n3")]
        assert [status.plugin if status else None for status in statuses] == first
        said = explain(runtime, found.state, PodInfo(pod))
        assert list((said.filter or {}).values()) == statuses
        assert str(FitError(pod, 3, fits.diagnosis)) == said.message


def test_an_error_about_one_node_ends_the_attempt() -> None:
    found = harness("NodeResourcesFit", "Failing")
    runtime = found.runtimes["default-scheduler"]
    pod = PodInfo(make_pod("small").cpu("100m").obj())
    state, evaluation = runtime.begin(pod)
    with pytest.raises(PluginFailure, match='running "Failing" filter plugin: disk is on fire'):
        runtime.find_fits(state, evaluation)
    said = explain(runtime, found.state, pod)
    assert said.error == 'running "Failing" filter plugin: disk is on fire'
    assert said.filter is not None
    assert [status.code.text if status else None for status in said.filter.values()] == ["Error", "Error", None]


def test_an_error_behind_a_rejection_is_not_heard_of() -> None:
    """A node that an earlier plugin rejects is not shown to later ones."""
    found = harness("NodeResourcesFit", "Failing")
    found.state.remove_node("n2")
    runtime = found.runtimes["default-scheduler"]
    state, evaluation = runtime.begin(PodInfo(make_pod("big").cpu("4").obj()))
    fits = runtime.find_fits(state, evaluation)
    assert fits.diagnosis.unschedulable_plugins == {"NodeResourcesFit"}
