"""The three plugins that neither filter nor score: SchedulingGates, PrioritySort, DefaultBinder."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kubesched.api.core import Pod
from kubesched.api.errors import ApiError, TransportError
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Code
from kubesched.state.pod_info import PodInfo
from tests.build import PodBuilder, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

# -- SchedulingGates


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(make_pod(), None, id="no-gate"),
        pytest.param(make_pod().gate("quota"), "waiting for scheduling gates: [quota]", id="one-gate"),
        pytest.param(make_pod().gate("b").gate("a"), "waiting for scheduling gates: [b a]", id="in-order"),
    ],
)
def test_gates_hold_the_pod_back(pod: PodBuilder, reason: str | None) -> None:
    status = Rig().plugin("SchedulingGates").pre_enqueue(pod.obj())
    if reason is None:
        assert status is None
    else:
        assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


@pytest.mark.parametrize(
    ("updated", "hint"),
    [
        pytest.param(make_pod("p"), QUEUE, id="own-gates-gone"),
        pytest.param(make_pod("other"), SKIP, id="gates-of-another-pod-gone"),
    ],
)
def test_gates_hints(updated: PodBuilder, hint: object) -> None:
    plugin = Rig().plugin("SchedulingGates")
    assert registered(plugin) == {("Pod", "PodUpdatePodSchedulingGatesEliminated")}
    assert hints(plugin, "Pod", make_pod("p"), updated.copy().gate("quota"), updated) == {hint}


# -- PrioritySort


@dataclass
class Queued:
    pod_info: PodInfo
    timestamp: float


def queued(priority: int | None, timestamp: float) -> Queued:
    pod = make_pod()
    if priority is not None:
        pod.priority(priority)
    return Queued(PodInfo(pod.obj()), timestamp)


@pytest.mark.parametrize(
    ("a", "b", "first"),
    [
        pytest.param(queued(10, 2.0), queued(5, 1.0), True, id="higher-priority-first"),
        pytest.param(queued(5, 1.0), queued(10, 2.0), False, id="lower-priority-later"),
        pytest.param(queued(5, 1.0), queued(5, 2.0), True, id="earlier-first-among-equals"),
        pytest.param(queued(5, 2.0), queued(5, 1.0), False, id="later-one-later"),
        pytest.param(queued(5, 1.0), queued(5, 1.0), False, id="equal-in-both"),
        pytest.param(queued(-1, 1.0), queued(None, 2.0), False, id="negative-below-absent-which-is-0"),
        pytest.param(queued(2_000_000_000, 9.0), queued(2**31 - 1, 9.0), False, id="highest-possible"),
    ],
)
def test_priority_sort(a: Queued, b: Queued, first: bool) -> None:
    plugin = Rig().plugin("PrioritySort")
    assert plugin.less(a, b) is first
    assert (plugin.sort_key(a) < plugin.sort_key(b)) is first


# -- DefaultBinder


class Port:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.bound: list[tuple[str, str]] = []

    async def bind(self, pod: Pod, node_name: str) -> None:
        if self.error is not None:
            raise self.error
        self.bound.append((pod.key, node_name))


async def test_binder_binds_through_the_port() -> None:
    port, pod = Port(), make_pod("p").obj()
    plugin = Rig(port=port).plugin("DefaultBinder")
    assert await plugin.bind(CycleState(PodInfo(pod)), pod, "n1") is None
    assert port.bound == [("default/p", "n1")]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(
            ApiError(409, "Conflict", 'pod p is already assigned to node "n2"'),
            'pod p is already assigned to node "n2"',
            id="conflict",
        ),
        pytest.param(TransportError("connection reset"), "connection reset", id="no-answer"),
    ],
)
async def test_binder_answers_with_the_error(error: Exception, message: str) -> None:
    pod = make_pod("p").obj()
    status = await Rig(port=Port(error)).plugin("DefaultBinder").bind(CycleState(PodInfo(pod)), pod, "n1")
    assert (status.code, status.message, status.cause) == (Code.ERROR, message, error)


async def test_binder_does_not_swallow_bugs() -> None:
    pod = make_pod("p").obj()
    plugin = Rig(port=Port(KeyError("no such thing"))).plugin("DefaultBinder")
    with pytest.raises(KeyError):
        await plugin.bind(CycleState(PodInfo(pod)), pod, "n1")


@pytest.mark.parametrize("name", ["PrioritySort", "DefaultBinder"])
def test_no_change_turns_around_what_these_never_reject(name: str) -> None:
    assert registered(Rig().plugin(name)) == set()
