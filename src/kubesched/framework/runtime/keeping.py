"""Which evaluations are kept: a bounded memory of the signatures seen last.

A plugin that will not sign a pod is left out of that pod's evaluation and asked anew in each cycle. An evaluation is
good as long as the pod that it was made for still has the signature under which it is kept. One for a new signature
starts from the one used last: pods that follow each other often differ in little, and what plugins know that signed
both alike need not be asked for again.

Few are kept until a signature comes back whose evaluation is gone: where hardly two pods are alike, keeping what nobody
asks for again would only cost memory, and the processor's caches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.evaluation import Evaluation, Lineup
from kubesched.framework.runtime.metering import Meter
from kubesched.framework.runtime.signing import Signature, Signing, Versions
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo

#: Bounds on what is kept: bytes in all (some, and more for each node), and evaluations in any case.
_BYTES_MIN = 32 << 20
_BYTES_PER_NODE = 8 << 10
_COUNT_MIN = 8
_COUNT_MAX = 512


class KeptEvaluations:
    def __init__(
        self,
        profile_name: str,
        pre_filters: Sequence[Plugin],
        filters: Sequence[Plugin],
        scores: Sequence[tuple[Plugin, int]],
        pre_scorers: Sequence[Plugin],
        state: ClusterState,
        meter: Meter,
        *,
        enabled: bool = True,
    ) -> None:
        self._filters = [
            plugin for plugin in filters if plugin.filter_reads is not None and hasattr(plugin, "filter_rows")
        ]
        self._scores = [
            (plugin, weight)
            for plugin, weight in scores
            if plugin.score_reads is not None
            and hasattr(plugin, "score_rows")
            and not hasattr(plugin, "normalize_score")
        ]
        #: Plugins whose PreFilter is all there is to keep.
        self._gates = [
            plugin for plugin in pre_filters if plugin.filter_reads is not None and plugin not in self._filters
        ]
        self._pre_scorers = {plugin.name for plugin in pre_scorers}
        seen: dict[str, Plugin] = {plugin.name: plugin for plugin in (*self._gates, *self._filters)}
        seen.update((plugin.name, plugin) for plugin, _ in self._scores)
        self._signing = Signing(profile_name, list(seen.values()), meter)
        self._lineups: dict[frozenset[str], Lineup] = {}
        self._state = state
        self._meter = meter
        self._kept: OrderedDict[Signature, Evaluation] = OrderedDict()
        #: The one used last, kept or not.
        self._previous: Evaluation | None = None
        #: What the largest evaluation took.
        self._largest_bytes = 0
        #: Off: every evaluation is made from scratch (tests and benchmarks compare the two).
        self.enabled = enabled
        #: However small they are, no more than so many are kept.
        self.count_max = _COUNT_MAX
        #: So many are worth keeping, as far as is known.
        self._count_wanted = _COUNT_MIN

    def evaluation(self, pod_info: PodInfo) -> Evaluation:
        """The kept evaluation of the pod's signature, or a new one; not yet refreshed."""
        versions = self._signing.versions()
        signature = self._signing.signature(pod_info, versions)
        found = self._kept.get(signature) if self.enabled else None
        if found is not None:
            if not found.outdated and self._is_still_signed(found, versions):
                self._kept.move_to_end(signature)
                self._meter.batch_hint_used()
                self._previous = found
                return found
            del self._kept[signature]
            self._meter.batch_flushed("expired")
        elif signature.has_come:
            self._count_wanted = min(2 * self._count_wanted, _COUNT_MAX)
        signature.has_come = True
        self._meter.batch_no_hint()
        lineup = self._lineup(self._signing.unsigned(signature))
        made = Evaluation(pod_info, lineup, self._state, self._meter, signature=signature, signed_at=versions)
        like = self._last() or self._previous
        if like is not None and like.signed_at == versions:
            made.adopt(like, self._signing.alike(signature, like.signature))
        self._previous = made if self.enabled else None
        return made

    def keep(self, evaluation: Evaluation) -> None:
        """Remember an evaluation that was refreshed over the whole table."""
        if not self.enabled or self._kept.get(evaluation.signature) is evaluation:
            return
        last = self._last()
        if last is not None:  # it has been scored meanwhile; the new one has yet to grow
            self._largest_bytes = max(self._largest_bytes, last.size_bytes)
        self._kept[evaluation.signature] = evaluation
        budget = _BYTES_MIN + _BYTES_PER_NODE * self._state.nodes.row_count
        count_max = min(self.count_max, self._count_wanted, max(_COUNT_MIN, budget // max(1, self._largest_bytes)))
        while len(self._kept) > count_max:
            self._kept.popitem(last=False)
            self._meter.batch_flushed("expired")

    def drop(self, evaluation: Evaluation) -> None:
        """Forget an evaluation that is spoilt: a plugin failed halfway through."""
        self._previous = None
        if self._kept.get(evaluation.signature) is evaluation:
            del self._kept[evaluation.signature]
            self._meter.batch_flushed("pod_failed")

    def clear(self) -> None:
        self._kept.clear()
        self._previous = None

    def _last(self) -> Evaluation | None:
        """The kept one used last."""
        return next(reversed(self._kept.values())) if self._kept else None

    def _lineup(self, unsigned: frozenset[str]) -> Lineup:
        lineup = self._lineups.get(unsigned)
        if lineup is None:
            lineup = self._lineups[unsigned] = Lineup(
                [plugin for plugin in self._gates if plugin.name not in unsigned],
                [plugin for plugin in self._filters if plugin.name not in unsigned],
                [(plugin, weight) for plugin, weight in self._scores if plugin.name not in unsigned],
                self._pre_scorers,
            )
        return lineup

    def _is_still_signed(self, evaluation: Evaluation, versions: Versions) -> bool:
        """Whether the pod that the evaluation was made for still has its signature."""
        if evaluation.signed_at == versions:
            return True
        if self._signing.signature(evaluation.state.pod_info, versions) is not evaluation.signature:
            return False
        evaluation.signed_at = versions
        return True
