"""Plugins that misbehave at each point: the pod at hand pays for it, once; nothing else does.

Every plugin here does something wrong the first time that it is asked about a pod, and answers properly from then on.
In the end each pod that fits must have a node, whatever the first answer was.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubesched import Cluster
from kubesched.framework import Plugin, Status
from kubesched.framework.plugin import PreFilterResult, Reads, Verdicts
from kubesched.framework.runtime.build import PluginSetupError

NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    for name in ("n1", "n2", "n3")
]
#: The last one fits nowhere, so that PostFilter has a turn.
PODS = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }
    for name, cpu in (("a", "1"), ("b", "1"), ("big", "99"))
]
API = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


def raises(error: BaseException) -> Callable[..., Any]:
    def raise_it(*_: Any) -> Any:
        raise error

    return raise_it


def changes_the_pod(*args: Any) -> None:
    for each in args:
        each.spec = None


WRONG: dict[str, Callable[..., Any]] = {
    "raises": raises(RuntimeError("boom\nand a second line")),
    "exits": raises(SystemExit(3)),
    "cancels": raises(asyncio.CancelledError()),
    "stops iteration": raises(StopIteration(1)),
    "changes the pod": changes_the_pod,
    "a number": lambda *_: 10**30,
    "a text": lambda *_: "no",
    "NaN": lambda *_: float("nan"),
    "a generator": lambda *_: iter(()),
    "something odd": lambda *_: Unhashable(),
    "a wait without end": lambda *_: (Status.wait("w"), float("nan")),
    "a wait that is over": lambda *_: (Status.wait("w"), -5),
    "an error": lambda *_: Status.error("broken"),
    "a reason that is no text": lambda *_: Status.unschedulable(ValueError("odd")),  # type: ignore[arg-type]
    "a code that is none": lambda *_: Status(99, "odd"),  # type: ignore[arg-type]
    "verdicts of another size": lambda *_: Verdicts(np.zeros(99, dtype=np.int32), [None]),
    "verdicts without status": lambda *_: Verdicts(np.full(3, 7, dtype=np.int32), [None]),
    "verdicts that are no numbers": lambda *_: Verdicts(np.full(3, 0.5), [None]),
    "verdicts whose status is a text": lambda *_: Verdicts(np.ones(3, dtype=np.int32), [None, "no"]),  # type: ignore[list-item]
    "verdicts whose status is None": lambda *_: Verdicts(np.ones(3, dtype=np.int32), [None, None]),
    "verdicts that begin with a status": lambda *_: Verdicts(np.zeros(3, dtype=np.int32), [Status.pending("no")]),
    "verdicts without statuses": lambda *_: Verdicts(np.zeros(3, dtype=np.int32), None),  # type: ignore[arg-type]
    "nodes that do not exist": lambda *_: PreFilterResult({"ghost"}),
    "a node's name for a list of them": lambda *_: PreFilterResult("n1"),
}

#: How a plugin of the point behaves when it does.
RIGHT: dict[str, Callable[..., Any]] = {
    "pre_enqueue": lambda self, pod: None,
    "pre_filter": lambda self, state, pod, nodes: None,
    "filter": lambda self, state, pod, node: None,
    "filter_rows": lambda self, state, pod, nodes: None,
    "post_filter": lambda self, state, pod, diagnosis: None,
    "post_filter_preview": lambda self, state, pod, diagnosis: None,
    "pre_score": lambda self, state, pod, nodes: None,
    "score": lambda self, state, pod, node: 1,
    "score_rows": lambda self, state, pod, nodes: np.ones(len(nodes), dtype=np.int64),
    "normalize_score": lambda self, state, pod, nodes, scores: scores,
    "normalize_rows": lambda self, state, pod, raw, scale: raw,
    "score_scale": lambda self, state, pod, raw: None,
    "reserve": lambda self, state, pod, node_name: None,
    "unreserve": lambda self, state, pod, node_name: None,
    "permit": lambda self, state, pod, node_name: None,
    "pre_bind_pre_flight": lambda self, state, pod, node_name: None,
    "pre_bind": lambda self, state, pod, node_name: None,
    "bind": lambda self, state, pod, node_name: Status.skip(),
    "post_bind": lambda self, state, pod, node_name: None,
    "sign": lambda self, pod: None,
    "details": lambda self, state, pod, node: None,
    "less": lambda self, a, b: a.timestamp < b.timestamp,
    "sort_key": lambda self, queued: queued.timestamp,
}
#: Points that are served together with another, which behaves.
BESIDE: dict[str, tuple[str, ...]] = {
    "post_filter_preview": ("post_filter",),
    "normalize_score": ("score",),
    "normalize_rows": ("score_rows", "score_scale"),
    "score_scale": ("score_rows", "normalize_rows"),
    "unreserve": ("reserve",),
    "pre_bind_pre_flight": ("pre_bind",),
    "sign": ("filter_rows", "score_rows"),
    "details": ("filter_rows",),
    "sort_key": ("less",),
}


#: Answers that are of a sort that some points take; it is enough to give them there and in a few other places.
_SPECIAL = ("verdicts", "nodes", "a node's", "a wait")
_SPECIAL_POINTS = ("pre_filter", "filter", "filter_rows", "permit", "pre_bind")
CASES = {
    f"{point}: {name}": (point, wrong)
    for point in RIGHT
    for name, wrong in WRONG.items()
    if not name.startswith(_SPECIAL) or point in _SPECIAL_POINTS
}


def misbehaving(point: str, wrong: Callable[..., Any]) -> type[Plugin]:
    asked: Counter[str] = Counter()

    def method(self: Plugin, *args: Any) -> Any:
        pod = next((each.metadata.name for each in args if hasattr(each, "metadata")), "")
        asked[pod] += 1
        return wrong(*args) if asked[pod] == 1 else RIGHT[point](self, *args)

    methods: dict[str, Any] = {each: RIGHT[each] for each in BESIDE.get(point, ())}
    return type("Odd", (Plugin,), {"name": "Odd", **methods, point: method})


def configuration(point: str) -> dict[str, Any] | None:
    """The points of which there is to be one plugin, or which should be asked first."""
    if point in ("less", "sort_key"):
        only = {"queueSort": {"enabled": [{"name": "Odd"}], "disabled": [{"name": "*"}]}}
        return {**API, "profiles": [{"plugins": only}]}
    if point == "bind":
        first = {"bind": {"enabled": [{"name": "Odd"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}}
        return {**API, "profiles": [{"plugins": first}]}
    return None


@pytest.mark.parametrize(("point", "wrong"), CASES.values(), ids=CASES)
def test_a_wrong_answer_costs_one_attempt(point: str, wrong: Callable[..., Any], no_bug_is_logged: list[str]) -> None:
    cluster = Cluster([*NODES, *PODS], config=configuration(point), plugins=[misbehaving(point, wrong)])
    said = cluster.explain("a")  # which uses up the wrong answer for this pod
    said.to_dict(details=True)
    assert said.error is None or "Odd" in said.error or point == "pre_enqueue"
    run = cluster.run()
    held = {pod for pod, why in run.pending.items() if point == "pre_enqueue" and why}
    assert run.placements.keys() | held >= {"default/a", "default/b"}, run.pending
    assert "Insufficient cpu" in run.pending["default/big"] or "default/big" in held
    assert no_bug_is_logged == []  # it is the boundary that holds, not what is behind it


NO_EVENTS = {name: wrong for name, wrong in WRONG.items() if name != "changes the pod"}


@pytest.mark.parametrize("wrong", NO_EVENTS.values(), ids=NO_EVENTS)
def test_events_that_cannot_be_registered_are_a_matter_of_the_start(wrong: Callable[..., Any]) -> None:
    methods: dict[str, Any] = {"filter": RIGHT["filter"], "events_to_register": lambda self: wrong()}
    odd = type("Odd", (Plugin,), {"name": "Odd", **methods})
    with pytest.raises(PluginSetupError, match='plugin "Odd": events_to_register: '):
        Cluster(NODES, plugins=[odd])


@pytest.mark.parametrize(("alone", "lacking"), [("normalize_rows", "score_scale"), ("score_scale", "normalize_rows")])
def test_normalizing_rows_takes_two_steps(alone: str, lacking: str) -> None:
    odd = type("Odd", (Plugin,), {"name": "Odd", **{n: RIGHT[n] for n in ("score_rows", alone)}})
    with pytest.raises(PluginSetupError, match=f"plugin Odd: {alone} needs {lacking}"):
        Cluster(NODES, plugins=[odd])


def test_a_bug_in_the_middle_of_an_attempt_costs_that_pod_only(no_bug_is_logged: list[str]) -> None:
    """What gets past the boundary: a sign that cannot be compared, deep inside what is kept of answers."""

    class Odd:
        def __init__(self, number: int) -> None:
            self._number = number

        def __hash__(self) -> int:
            return self._number

        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError("no comparison")

    class Signing(Plugin):
        name = "Signing"
        filter_reads = Reads()

        def filter_rows(self, state: Any, pod: Any, nodes: Any) -> None:
            return None

        def sign(self, pod: Any) -> Any:
            return Odd(len(pod.metadata.name))

    run = Cluster([*NODES, *PODS], plugins=[Signing]).run()
    (placed,) = run.placements
    (failed,) = {"default/a", "default/b"} - {placed}
    assert run.pending[failed] == "ZeroDivisionError: no comparison"
    assert "Insufficient cpu" in run.pending["default/big"]
    assert all(f"pod={failed}" in told for told in no_bug_is_logged)
    no_bug_is_logged.clear()
