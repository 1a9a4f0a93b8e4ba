"""`Explanation`: everything a scheduling decision rests on, node by node and plugin by plugin.

`explain` computes it. Statuses keep the original's codes and reasons; `details` adds what a reason leaves out: amounts
asked, used and there, the pod that holds the port, the taint. `to_dict` is the shape in which decisions of the real
kube-scheduler v1.36 are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesched.framework.results import PostFilterPreview
from kubesched.framework.status import Code, Status


@dataclass(slots=True)
class PreFilterAnswer:
    """`status` is a rejection on all nodes; `node_names` of None leaves all nodes in."""

    status: Status | None = None
    node_names: frozenset[str] | None = None
    #: Plugins that asked to leave out their Filter.
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginScore:
    raw: int
    normalized: int
    weight: int

    @property
    def weighted(self) -> int:
        return self.normalized * self.weight


@dataclass(slots=True, repr=False)
class Explanation:
    """Maps go by node name, in the order of the node table, and by plugin name, in profile order.

    Steps that were never reached are None: after a rejection by PreEnqueue or PreFilter, or after an error.
    """

    #: namespace/name
    pod: str
    node_count: int
    #: The rejection that keeps the pod out of the queue; nothing else is given then.
    pre_enqueue: Status | None = None
    #: The attempt ends in an internal error with this text.
    error: str | None = None
    pre_filter: PreFilterAnswer | None = None
    #: The first plugin that rejects each node, nominated pods counted; None where the pod fits.
    filter: dict[str, Status | None] | None = None
    #: What each plugin says by itself, without nominated pods.
    filter_by_plugin: dict[str, dict[str, Status | None]] | None = None
    #: What plugins have to add about the nodes that they reject, by node and plugin.
    details: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    #: Per node that fits, which volumes would be bound and which claims provisioned.
    volumes: dict[str, Mapping[str, Any]] | None = None
    pre_score_skipped: tuple[str, ...] | None = None
    #: Per node that fits and plugin.
    scores: dict[str, dict[str, PluginScore]] | None = None
    #: The nodes one of which would be taken, sorted.
    best: tuple[str, ...] | None = None
    #: Why no node fits, as the PodScheduled condition says it; "" when one does.
    message: str = ""
    message_with_preemption: str | None = None
    #: What PostFilter plugins would do about it.
    preemption: PostFilterPreview | None = None

    @property
    def fits(self) -> bool:
        return bool(self.best)

    def total(self, node_name: str) -> int:
        assert self.scores is not None
        return sum(score.weighted for score in self.scores[node_name].values())

    def nodes_by_reason(self) -> list[tuple[Status, list[str]]]:
        """The rejected nodes in groups of one status each, largest group first."""
        groups: dict[Status, list[str]] = {}
        for name, status in (self.filter or {}).items():
            if status is not None:
                groups.setdefault(status, []).append(name)
        return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0].plugin, group[0].reasons))

    def __repr__(self) -> str:
        return f"<Explanation {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        """A few lines for people: where to, or why not, and what is on each group of nodes."""
        if self.fits:
            lines = [f"{self.pod}: would go to {' or '.join(self.best or ())}"]
        else:
            lines = [f"{self.pod}: {self.message}"]
        for status, names in self.nodes_by_reason():
            more = f", and {len(names) - 5} more" if len(names) > 5 else ""
            said_by = f" ({status.plugin})" if status.plugin else ""
            lines.append(f"  {', '.join(names[:5])}{more}: {', '.join(status.reasons)}{said_by}")
        return "\n".join(lines)

    def to_dict(self, *, details: bool = False) -> dict[str, Any]:
        """The shape of recorded decisions; with `details` one more key of that name, and `pod`."""
        if self.pre_enqueue is not None:
            shape: dict[str, Any] = {"preEnqueue": _status(self.pre_enqueue)}
        else:
            shape = self._decision()
        if details:
            shape["pod"] = self.pod
            shape["details"] = self.details
        return shape

    def _decision(self) -> dict[str, Any]:
        shape: dict[str, Any] = {}
        if self.error is not None:
            shape["error"] = self.error
        if self.pre_filter is not None:
            names = self.pre_filter.node_names
            shape["preFilter"] = {
                "status": _status(self.pre_filter.status),
                "nodeNames": None if names is None else sorted(names),
                "skipped": sorted(self.pre_filter.skipped),
            }
        if self.filter is not None:
            shape["filter"] = {name: _status(status) for name, status in sorted(self.filter.items())}
        if self.filter_by_plugin is not None:
            shape["filterByPlugin"] = {
                plugin: {name: _status(status, said_by=False) for name, status in sorted(statuses.items())}
                for plugin, statuses in sorted(self.filter_by_plugin.items())
            }
        if self.volumes is not None:
            shape["volumes"] = dict(sorted(self.volumes.items()))
        if self.pre_score_skipped is not None:
            shape["preScoreSkipped"] = sorted(self.pre_score_skipped)
        if self.scores is not None:
            shape["scores"] = {name: self._scores(name, scores) for name, scores in sorted(self.scores.items())}
        if self.best is not None:
            shape["best"] = list(self.best)
        if self.message:
            shape["message"] = self.message
        if self.message_with_preemption is not None:
            shape["messageWithPreemption"] = self.message_with_preemption
        if self.preemption is not None:
            shape["preemption"] = _preemption(self.preemption)
        return shape

    def _scores(self, node_name: str, scores: Mapping[str, PluginScore]) -> dict[str, Any]:
        return {
            "plugins": {
                plugin: {"raw": score.raw, "normalized": score.normalized, "weighted": score.weighted}
                for plugin, score in sorted(scores.items())
            },
            "total": self.total(node_name),
        }


def _status(status: Status | None, *, said_by: bool = True) -> dict[str, Any] | None:
    if status is None:
        return None
    shape: dict[str, Any] = {"plugin": status.plugin} if said_by and status.plugin else {}
    return {**shape, "code": status.code.text, "reasons": sorted(status.reasons)}


def _preemption(preview: PostFilterPreview) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "status": {"code": preview.status.code.text, "reasons": sorted(preview.status.reasons)},
    }
    victims = {candidate.node_name: candidate for candidate in preview.candidates}
    if preview.status.code is Code.SUCCESS and len(preview.nominated_nodes) == 1:
        shape["nominatedNode"] = preview.nominated_nodes[0]
        if preview.nominated_nodes[0] in victims:
            shape["victims"] = sorted(victims[preview.nominated_nodes[0]].victims)
    elif preview.status.code is Code.SUCCESS and preview.nominated_nodes:
        shape["nominatedNodeAnyOf"] = sorted(preview.nominated_nodes)
    if victims:
        shape["candidates"] = {
            name: {"victims": list(candidate.victims), "pdbViolations": candidate.violation_count}
            for name, candidate in sorted(victims.items())
        }
    if preview.rejected:
        shape["rejected"] = {name: _status(status, said_by=False) for name, status in sorted(preview.rejected.items())}
    return shape
