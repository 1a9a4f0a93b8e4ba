"""A small cluster and one plugin in it, asked as the framework asks.

Every question is asked in all the ways in which the framework may ask it: all rows at once, each row alone, some rows
out of order, rows of a hypothetical table, and node after node through `judge` and `rate` where a plugin has them. The
answers must agree, so each table of cases also tests the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.api.core import Node, Pod
from kubesched.clock import Chance, ManualClock
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import PreFilterResult
from kubesched.framework.row_rules import RowJudge, RowRate
from kubesched.framework.status import Status
from kubesched.metrics import Metrics
from kubesched.plugins.registry import IN_TREE
from kubesched.state import consistency
from kubesched.state.cells import Cells, line_of
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet
from kubesched.state.pod_info import PodInfo
from tests.build import Builder

SKIP, QUEUE = QueueingHint.SKIP, QueueingHint.QUEUE


class Rig:
    """`pods` are placed ones; `objects` are of any other kind."""

    def __init__(
        self,
        nodes: Iterable[Builder[Node] | Node] = (),
        pods: Iterable[Builder[Pod] | Pod] = (),
        objects: Iterable[Builder[Any]] = (),
        *,
        features: Mapping[str, bool] | None = None,
        port: Any = None,
    ) -> None:
        self.state = ClusterState()
        for node in nodes:
            self.state.set_node(built(node))
        for pod in pods:
            self.state.set_pod(built(pod))
        for each in objects:
            obj = each.obj()
            self.state.objects.put(type(obj).__name__, obj)
        assert consistency.check(self.state) == []
        self.handle = Handle(
            profile_name="default-scheduler",
            clock=ManualClock(),
            chance=Chance(0),
            metrics=Metrics(),
            features=features or {},
            state=self.state,
            port=port,
            control=None,  # type: ignore[arg-type]
        )

    def plugin(self, name: str, args: Any = None) -> Any:
        """With default args unless given."""
        made = IN_TREE[name]
        if args is None and made.args_type is not None:
            args = made.args_type()
        return made(args, self.handle)

    def info(self, name: str) -> NodeInfo:
        return self.state.nodes.by_name[name]

    # -- Filter

    def pre_filter(self, plugin: Any, pod: Builder[Pod] | Pod) -> PreFilterResult | Status | None:
        answer: PreFilterResult | Status | None = plugin.pre_filter(*self._cycle(pod), self.state.nodes.all_nodes())
        return answer

    def filter(self, plugin: Any, pod: Builder[Pod] | Pod) -> dict[str, str | None]:
        """Per node None or "<code>: <reasons>"."""
        state, obj = self._cycle(pod)
        if hasattr(plugin, "pre_filter"):
            answer = plugin.pre_filter(state, obj, self.state.nodes.all_nodes())
            if isinstance(answer, Status):
                assert answer.is_skip, answer
                return dict.fromkeys((info.name for info in self.state.nodes.infos), None)
        answers = [_verdicts(plugin, state, obj, nodes) for nodes in self._ways()]
        if hasattr(plugin, "judge"):
            judge = plugin.judge(state, obj)
            answers.append({info.name: _text(judge(info)) for info in self.state.nodes.infos})
            if isinstance(judge, RowJudge):
                doubtful = judge.doubtful(self._line())
                answers.append(
                    {info.name: _text(judge(info)) if info.row in doubtful else None for info in self.state.nodes.infos}
                )
        return _agreed(answers)

    # -- Score

    def pre_score(self, plugin: Any, pod: Builder[Pod] | Pod) -> Status | None:
        status: Status | None = plugin.pre_score(*self._cycle(pod), self.state.nodes.all_nodes())
        return status

    def raw(self, plugin: Any, pod: Builder[Pod] | Pod) -> dict[str, int]:
        state, obj = self._cycle(pod)
        if hasattr(plugin, "pre_score"):
            assert plugin.pre_score(state, obj, self.state.nodes.all_nodes()) is None
        answers = []
        for nodes in self._ways():
            scores = plugin.score_rows(state, obj, nodes)
            assert scores.dtype in ("int64", "uint8")
            assert len(scores) == len(nodes)
            answers.append({info.name: int(score) for info, score in zip(nodes.infos(), scores, strict=True)})
        if hasattr(plugin, "rate"):
            rate = plugin.rate(state, obj)
            answers.append({info.name: rate(info) for info in self.state.nodes.infos})
            if isinstance(rate, RowRate):
                answers.append(dict(zip(answers[0], self.rated(rate), strict=True)))
        return _agreed(answers)

    def rated(self, rate: RowRate) -> list[int]:
        """What the rule puts down for all rows together."""
        points = Cells(self.state.nodes.row_count)
        rate.rate_rows(self._line(), points.cells)
        scores: list[int] = points.array.tolist()
        return scores

    def _line(self) -> Any:
        return line_of(list(range(self.state.nodes.row_count)))

    def normalized(self, plugin: Any, pod: Builder[Pod] | Pod) -> dict[str, int]:
        state, obj = self._cycle(pod)
        if hasattr(plugin, "pre_score"):
            assert plugin.pre_score(state, obj, self.state.nodes.all_nodes()) is None
        nodes = self.state.nodes.all_nodes()
        raw = plugin.score_rows(state, obj, nodes)
        scores = plugin.normalize_rows(state, obj, raw, plugin.score_scale(state, obj, raw))
        return {info.name: int(score) for info, score in zip(nodes.infos(), scores, strict=True)}

    def _cycle(self, pod: Builder[Pod] | Pod) -> tuple[CycleState, Pod]:
        obj = built(pod)
        return CycleState(PodInfo(obj)), obj

    def _ways(self) -> list[NodeSet]:
        table = self.state.nodes
        rows = list(range(table.row_count))
        return [
            table.all_nodes(),
            table.nodes_at(rows[::-1]),
            table.hypothetical(rows[::-1]).all_nodes(),
            *(table.nodes_at([row]) for row in rows),
            *(table.hypothetical([row]).all_nodes() for row in rows[:3]),
        ]


def hints(plugin: Any, resource: str, pod: Any, old: Any, new: Any) -> set[QueueingHint]:
    """What the plugin's hints for this kind of object answer, all of its registered events together."""
    pod, old, new = built(pod), built(old), built(new)
    return {
        QUEUE if registered.hint is None else registered.hint(pod, old, new)
        for registered in plugin.events_to_register()
        if registered.event.resource == resource
    }


def registered(plugin: Any) -> set[tuple[str, str]]:
    """(resource, label of the action) of every event that the plugin listens to."""
    return {(each.event.resource, each.event.label) for each in plugin.events_to_register()}


def built(thing: Any) -> Any:
    return thing.obj() if isinstance(thing, Builder) else thing


def _verdicts(plugin: Any, state: CycleState, pod: Pod, nodes: NodeSet) -> dict[str, str | None]:
    answer = plugin.filter_rows(state, pod, nodes)
    if answer is None:
        return dict.fromkeys((info.name for info in nodes.infos()), None)
    assert answer.why.dtype == "int32"
    assert answer.statuses[0] is None
    assert len(answer.why) == len(nodes)
    statuses = [answer.statuses[why] for why in answer.why.tolist()]
    assert all(status.plugin == plugin.name for status in statuses if status is not None)
    return {info.name: _text(status) for info, status in zip(nodes.infos(), statuses, strict=True)}


def _text(status: Status | None) -> str | None:
    return None if status is None else f"{status.code.text}: {', '.join(sorted(status.reasons))}"


def _agreed(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The first answer, which is on all nodes; the others, on some of them, must not differ."""
    everything = answers[0]
    for answer in answers[1:]:
        assert answer == {name: everything[name] for name in answer}
    return everything
