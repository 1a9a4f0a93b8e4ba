"""Plugins that are not built yet, played from the record.

A stand-in says for its plugin what the recorded decision says, so that everything else of a case can be compared in
full: which plugin comes first, sums of scores, the best nodes, the message. What it says itself is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from kubesched.framework import Code, Plugin, PreFilterResult, Status, Verdicts

#: Their work cannot be read off a record.
_NOT_PLAYED = frozenset({"DefaultPreemption"})
_CODES = {code.text: code for code in Code}


def stand_ins(missing: Iterable[str], expect: dict[str, Any]) -> list[type[Plugin]]:
    return [type(name, (_Recorded,), {"name": name, "expect": expect}) for name in missing if name not in _NOT_PLAYED]


class _Recorded(Plugin):
    expect: ClassVar[dict[str, Any]]

    def pre_enqueue(self, pod: Any) -> Status | None:
        said = self.expect.get("preEnqueue")
        return _status(said) if said and said["plugin"] == self.name else None

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> PreFilterResult | Status | None:
        said = self.expect.get("preFilter") or {}
        status = said.get("status")
        if status and status.get("plugin") == self.name:
            return _status(status)
        if self.name in said.get("skipped", ()):
            return Status.skip()
        if said.get("nodeNames") is not None and self.name in self._narrowing():
            return PreFilterResult(frozenset(said["nodeNames"]))
        return None

    def filter_rows(self, state: Any, pod: Any, nodes: Any) -> Verdicts:
        statuses: list[Status | None] = [None]
        why = np.zeros(len(nodes), dtype=np.int32)
        for position, node in enumerate(nodes):
            said = self._said_of(node.name)
            if said is not None:
                why[position] = len(statuses)
                statuses.append(_status(said))
        return Verdicts(why, statuses)

    def post_filter(self, state: Any, pod: Any, diagnosis: Any) -> Any:
        return None, self._post_filter()

    def post_filter_preview(self, state: Any, pod: Any, diagnosis: Any) -> Any:
        return self._post_filter()

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        return Status.skip() if self.name in self.expect.get("preScoreSkipped", ()) else None

    def score_rows(self, state: Any, pod: Any, nodes: Any) -> Any:
        return self._scores(nodes, "raw")

    def normalize_score(self, state: Any, pod: Any, nodes: Any, scores: Any) -> Any:
        return self._scores(nodes, "normalized")

    def events_to_register(self) -> list[Any]:
        return []

    def _said_of(self, node_name: str) -> Any:
        first = (self.expect.get("filter") or {}).get(node_name)
        alone = (self.expect.get("filterByPlugin") or {}).get(self.name, {}).get(node_name)
        if alone is None and first is not None and first.get("plugin") == self.name:
            return first
        return alone

    def _narrowing(self) -> set[str]:
        """The plugins that the record says narrowed the nodes."""
        text = "node(s) didn't satisfy plugin(s) ["
        reasons = [r for s in (self.expect.get("filter") or {}).values() if s for r in s["reasons"]]
        return {
            name for reason in reasons if reason.startswith(text) for name in reason[len(text) :].rstrip("]").split()
        }

    def _post_filter(self) -> Status:
        status = (self.expect.get("preemption") or {}).get("status") or {}
        if status.get("code") == "Error":
            return _status(status)
        return Status.unschedulable("no new claims to deallocate")

    def _scores(self, nodes: Any, which: str) -> Any:
        recorded = self.expect.get("scores") or {}
        return np.array(
            [recorded.get(node.name, {}).get("plugins", {}).get(self.name, {}).get(which, 0) for node in nodes],
            dtype=np.int64,
        )


def _status(said: dict[str, Any]) -> Status:
    return Status(_CODES[said["code"]], *said["reasons"])
