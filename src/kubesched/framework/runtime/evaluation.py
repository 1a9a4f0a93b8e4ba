"""`Evaluation`: what the keepable plugins of a profile say of every node for one scheduling signature.

It holds, per Filter plugin and row, the verdict (`KeptVerdicts`), and per Score plugin and row the normalised score,
with their sums (`KeptScores`). The first `refresh` asks the plugins about all rows, or takes over what an evaluation
that is like it in part knows already; later ones ask only about rows that the journal names, and only the plugins that
read what changed there. Plugins that read the whole table are asked about all rows, PreFilter or PreScore first, and
then only rows whose answer is another than before count as changed. The outcome is exactly that of asking about
everything again: a property test holds the two against each other, and `kept` results differ from fresh ones in nothing
but time.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin, PreFilterResult
from kubesched.framework.runtime.changes import Changes, changes_since
from kubesched.framework.runtime.kept_crowd import KeptCrowd
from kubesched.framework.runtime.kept_scores import KeptScores
from kubesched.framework.runtime.kept_verdicts import FilterRule, KeptVerdicts, reads_of
from kubesched.framework.runtime.metering import Meter
from kubesched.framework.runtime.score_part import Score, ScoreRule
from kubesched.framework.runtime.signing import UNSIGNED, Signature, Versions
from kubesched.framework.status import LASTING_SKIP, Status
from kubesched.state.cells import Room
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo

#: Priorities of which verdicts about nodes with nominated pods are kept.
_CROWDS_MAX = 8


class Lineup:
    """The plugins that take part in an evaluation: those that signed the pod.

    `gates` are those of which PreFilter is all there is to keep; `scores` come with their weights.
    """

    def __init__(
        self,
        gates: Sequence[Plugin],
        filters: Sequence[Plugin],
        scores: Sequence[tuple[Plugin, int]],
        pre_scorers: Collection[str],
    ) -> None:
        self.filters = list(filters)
        self.filter_rules = [FilterRule(plugin) for plugin in filters]
        self.pre_filter_names = {plugin.name for plugin in (*gates, *filters)}
        self.table_filters = [plugin for plugin in (*gates, *filters) if reads_of(plugin.filter_reads).table]
        kinds = {kind for plugin in (*gates, *filters) for kind in reads_of(plugin.filter_reads).objects}
        kinds |= {kind for plugin, _ in scores for kind in reads_of(plugin.score_reads).objects}
        #: Kinds of other objects that some of them read.
        self.objects = tuple(kinds)
        #: Where scores are calculated; no two evaluations are at work at a time.
        self.room = Room()
        self._score_rules = [
            ScoreRule(plugin, weight, runs_pre_score=plugin.name in pre_scorers) for plugin, weight in scores
        ]

    def scores(self) -> list[Score]:
        return [Score(rule) for rule in self._score_rules]


#: Of an evaluation that keeps nothing.
EMPTY = Lineup((), (), (), ())


class Evaluation:
    def __init__(
        self,
        pod_info: PodInfo,
        lineup: Lineup,
        state: ClusterState,
        meter: Meter,
        *,
        signature: Signature = UNSIGNED,
        signed_at: Versions = (),
    ) -> None:
        self.signature = signature
        #: The versions that the signature was made at.
        self.signed_at = signed_at
        #: What PreFilter and PreScore of these plugins left behind; every attempt starts with a copy.
        self.state = CycleState(pod_info)
        #: Answers of PreFilter by plugin name.
        self.pre_filter: dict[str, PreFilterResult | Status | None] = {}
        #: The plugins whose PreFilter said Skip, and will as long as the signature stands.
        self.lasting_skips: frozenset[str] = frozenset()
        #: What all PreFilter plugins together said, kept by `Filtering` while no answer changes.
        self.outcome: Any = None
        self.verdicts = KeptVerdicts(lineup.filter_rules, self.state, state, meter)
        self.scores = KeptScores(lineup.scores, self.verdicts, self.state, state, meter, lineup.room)
        self._crowds: dict[Hashable, KeptCrowd] = {}
        self._lineup = lineup
        self._cluster = state
        #: Positions of the journal that verdicts and scores are true of; -1 before they were first asked for.
        self._position = -1
        self._score_position = -1
        self._changes: Changes | None = None
        #: Changes since `_position` as of a position of the journal: (as of, since, changes).
        self._pending: tuple[int, int, Changes | None] | None = None
        self._objects_version = state.objects.version(*lineup.objects)
        self._objects_seen = state.objects.change_count
        #: Grows whenever a plugin may have written to `state`.
        self._state_version = 0
        #: Whose answers are taken over when answers about nodes are first asked for, and from which plugins.
        self._model: tuple[Evaluation, Collection[str]] | None = None

    def adopt(self, other: Evaluation, alike: frozenset[str]) -> None:
        """Start from what `other` knows of the plugins named `alike`, which say the same of both pods."""
        self.lasting_skips = other.lasting_skips & alike
        if self.lasting_skips:
            self.pre_filter = dict.fromkeys(self.lasting_skips, LASTING_SKIP)
            self.state.skip_filter.update(self.lasting_skips)
            self._state_version += 1
        other._model = None
        self._model = other, alike

    def _adopt_answers(self, other: Evaluation, alike: Collection[str]) -> None:
        if other._position < 0 or other._score_position != other._position or other.verdicts.has_errors:
            return
        if other.outdated or other.verdicts.capacity != self._cluster.nodes.capacity:
            return
        self.verdicts.adopt(other.verdicts, alike)
        self.scores.adopt(other.scores, alike)
        self._position = self._score_position = other._position

    # -- staying true

    @property
    def outdated(self) -> bool:
        """An object changed that PreFilter or PreScore may have read: nothing here can be kept."""
        objects = self._cluster.objects
        if self._objects_seen == objects.change_count:
            return False
        if self._objects_version != objects.version(*self._lineup.objects):
            return True
        self._objects_seen = objects.change_count
        return False

    @property
    def size_bytes(self) -> int:
        """What the arrays take."""
        crowds = sum([crowd.size_bytes for crowd in self._crowds.values()]) if self._crowds else 0
        return self.verdicts.size_bytes + self.scores.size_bytes + crowds

    def begin(self, pod_info: PodInfo, plugin_meter: Meter | None = None) -> CycleState:
        """The cycle state of a new attempt for a pod of this signature."""
        self.state.plugin_meter = plugin_meter
        state = self.state.clone(pod_info)
        state.absorbed_version = self._state_version
        return state

    def crowd_of(self, state: CycleState) -> KeptCrowd:
        """What is kept about nodes with nominated pods, for pods of the priority of this attempt's."""
        key = state.pod_info.priority, frozenset(state.skip_filter)
        crowd = self._crowds.get(key)
        if crowd is None or crowd.is_overgrown:
            if len(self._crowds) >= _CROWDS_MAX:
                self._crowds.clear()
            crowd = self._crowds[key] = KeptCrowd()
        return crowd

    def share_with(self, state: CycleState) -> None:
        """Bring the state of an attempt up to date with what plugins wrote here since it began."""
        if state.absorbed_version != self._state_version:
            state.absorb(self.state)
            state.absorbed_version = self._state_version

    @property
    def pre_filter_names(self) -> set[str]:
        """The plugins whose PreFilter answers are kept."""
        return self._lineup.pre_filter_names

    def pre_filters_to_ask(self) -> list[Plugin]:
        """Plugins whose PreFilter was asked and must be again."""
        asked = self.pre_filter
        return [p for p in self._lineup.table_filters if p.name in asked and self.wants_pre_filter(p)]

    def wants_pre_filter(self, plugin: Plugin) -> bool:
        """Whether PreFilter must be asked: for the first time, or because nodes changed in what it reads of all."""
        answer = self.pre_filter.get(plugin.name, _NOT_ASKED)
        if answer is LASTING_SKIP:
            return False
        if answer is _NOT_ASKED:
            return True
        table = reads_of(plugin.filter_reads).table
        if not table or self._cluster.nodes.journal.position == self._position:
            return False
        changes = self._changes_since_refresh()
        return changes is None or bool(table & changes.aspects)

    def set_pre_filter(self, name: str, answer: PreFilterResult | Status | None) -> None:
        self.pre_filter[name] = answer
        if answer is LASTING_SKIP:
            self.lasting_skips |= {name}
        self._state_version += 1
        skips, skipped = isinstance(answer, Status) and answer.is_skip, name in self.state.skip_filter
        if skips and not skipped:
            self.state.skip_filter.add(name)
        elif skipped and not skips:
            self.state.skip_filter.remove(name)
        self.verdicts.pre_filter_asked(name, turned=skips != skipped)
        self.scores.pre_filter_asked(name)

    def without(self, filters: Sequence[Plugin]) -> list[Plugin]:
        """Those of a profile's filters that are not part of this evaluation."""
        if len(filters) == len(self._lineup.filters):
            return []
        return [plugin for plugin in filters if plugin not in self._lineup.filters]

    def refresh(self) -> None:
        """Bring verdicts up to date with the table; PreFilter has been asked where it must."""
        if self._model is not None:
            model, self._model = self._model, None
            self._adopt_answers(*model)
        table = self._cluster.nodes
        position = table.journal.position
        is_overgrown = self.verdicts.is_overgrown
        if position == self._position and not self.verdicts.is_behind and not is_overgrown:
            return
        capacity = table.capacity
        anew = is_overgrown or capacity != self.verdicts.capacity
        changes = None if anew else self._changes_since_refresh()
        if changes is None:
            self.verdicts.start(capacity)
            self._score_position = -1
        else:
            self.verdicts.follow(changes)
        self._changes = changes
        self._position = position

    def refresh_scores(self) -> None:
        """Bring scores up to date; after `refresh`, with at least one row that fits."""
        table, verdicts = self._cluster.nodes, self.verdicts
        if self._score_position == self._position and not verdicts.fits_changed:
            return
        changes = self._changes
        if self._score_position < 0:
            changes = None
        elif changes is None or changes.since != self._score_position:
            changes = changes_since(table.journal, self._score_position, table.row_count)
        if self.scores.follow(changes):
            self._state_version += 1
        self._score_position = self._position

    def _changes_since_refresh(self) -> Changes | None:
        """The same object until the table changes again."""
        table = self._cluster.nodes
        position, pending = table.journal.position, self._pending
        if pending is None or pending[0] != position or pending[1] != self._position:
            changes = changes_since(table.journal, self._position, table.row_count)
            pending = self._pending = (position, self._position, changes)
        return pending[2]


_NOT_ASKED: Any = object()
