"""The scheduling cycle: from a popped pod to a node that is assumed, or to the reasons why there is none.

    PreFilter ─► Filter ─► (PostFilter if nothing fits) ─► PreScore ─► Score ─► pick ─► assume ─► Reserve ─► Permit

It never suspends but for HTTP extenders, so what it reads cannot change under it; an epoch check asserts that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Pod
from kubesched.api.errors import KubeschedError
from kubesched.clock import Chance, Clock
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.extender import Extender
from kubesched.framework.plugin import MAX_NODE_SCORE
from kubesched.framework.results import NO_NODES_MESSAGE, Diagnosis, FitError
from kubesched.framework.runtime.calling import PluginFailure
from kubesched.framework.runtime.filtering import Fits
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.runtime.scoring import best_rows
from kubesched.framework.status import Code, Status
from kubesched.metrics import Metrics
from kubesched.scheduler.bugs import as_bug
from kubesched.scheduler.outcome import CLEAR, KEEP, Decision, Failure, rejection
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Ints
from kubesched.state.pod_info import PodInfo

log = logging.getLogger("kubesched.scheduler")

#: Extenders score 0..10.
_MAX_EXTENDER_PRIORITY = 10
#: Whatever an extender answers, sums of scores stay within 64 bits.
SCORE_MAX = 2**61


class SchedulingCycle:
    def __init__(self, state: ClusterState, clock: Clock, chance: Chance, metrics: Metrics) -> None:
        self._cluster = state
        self._now: Callable[[], float] = clock.monotonic
        self._chance = chance
        self._metrics = metrics
        #: When the attempt under way began, or the last one.
        self.started_s = 0.0

    async def run(self, pod_info: PodInfo, runtime: Runtime) -> Decision | Failure:
        self.started_s = started_s = self._now()
        epoch = self._cluster.nodes.journal.position
        try:
            found = self._find_node(pod_info, runtime)
            if not isinstance(found, (Decision, Failure)):
                found = await found
        except PluginFailure as failure:
            return Failure(failure.status)
        except KubeschedError as error:
            return Failure(Status.error(error))
        except Exception as bug:
            return Failure(as_bug(bug, pod_info.key))
        finally:
            self._metrics.scheduling_algorithm(self._now() - started_s)
        assert epoch == self._cluster.nodes.journal.position, "the cluster state changed during a scheduling cycle"
        if isinstance(found, Failure):
            return found
        self._cluster.assume(pod_info, found.node_name)
        self._cluster.nominator.clear(pod_info.uid)
        return self._reserve_and_permit(pod_info, runtime, found)

    def _find_node(
        self, pod_info: PodInfo, runtime: Runtime
    ) -> Decision | Failure | Coroutine[Any, Any, Decision | Failure]:
        """To be awaited where extenders or PostFilter plugins are asked, who may take their time."""
        if not self._cluster.nodes.row_count:
            return Failure(Status.unresolvable(NO_NODES_MESSAGE), None, CLEAR)
        state, evaluation = runtime.begin(pod_info)
        fits = runtime.find_fits(state, evaluation)
        if runtime.handle.extenders:
            return self._find_with_extenders(state, runtime, fits)
        if not fits.count:
            return self._post_filter(state, runtime, fits)
        row = int(fits.rows[0]) if fits.count == 1 else self._pick(runtime.best(state, fits))
        return self._decision(state, fits, row)

    async def _find_with_extenders(self, state: CycleState, runtime: Runtime, fits: Fits) -> Decision | Failure:
        extenders = runtime.handle.extenders
        if fits.count:
            fits = await self._ask_extenders(state.pod_info.pod, extenders, fits)
        if not fits.count:
            return await self._post_filter(state, runtime, fits)
        if fits.count == 1:
            return self._decision(state, fits, int(fits.rows[0]))
        totals = runtime.totals(state, fits)
        totals = totals + await self._extender_scores(state.pod_info.pod, extenders, fits)
        return self._decision(state, fits, self._pick(best_rows(fits.rows, totals)))

    def _pick(self, rows: Sequence[int] | NDArray[np.intp]) -> int:
        """One of these, by chance."""
        return int(rows[self._chance.randrange(len(rows))])

    def _decision(self, state: CycleState, fits: Fits, row: int) -> Decision:
        node_name = self._cluster.nodes.infos[row].name
        return Decision(node_name, state, fits.evaluated_count, fits.count, self.started_s)

    async def _post_filter(self, state: CycleState, runtime: Runtime, fits: Fits) -> Failure:
        fit_error = FitError(state.pod_info.pod, self._cluster.nodes.row_count, fits.diagnosis)
        if not runtime.plugins.post_filter:
            return rejection(fit_error, KEEP)
        result, status = await runtime.post_filter(state, fit_error.diagnosis)
        fit_error.diagnosis.post_filter_message = status.message
        if status.is_error:
            log.debug(
                "PostFilter failed pod=%s/%s plugin=%s error=%s",
                fit_error.pod.metadata.namespace,
                fit_error.pod.metadata.name,
                status.plugin,
                status.message,
            )
        return rejection(fit_error, result.nominated_node if result is not None else KEEP)

    def _reserve_and_permit(self, pod_info: PodInfo, runtime: Runtime, decision: Decision) -> Decision | Failure:
        """Failures here move no other pods: what was assumed is given back before anybody saw it."""
        pod, state, node_name = pod_info.pod, decision.state, decision.node_name
        try:
            status = runtime.reserve(state, pod, node_name)
            if status is None:
                status = runtime.permit(state, pod, node_name)
                if status is not None and status.is_wait:
                    status = None
        except Exception as error:
            status = as_bug(error, pod_info.key)
        if status is None:
            return decision
        runtime.unreserve(state, pod, node_name)
        self._cluster.forget(pod_info.uid)
        return rejected_at_node(pod, node_name, status) if status.is_rejected else Failure(status)

    # -- extenders

    async def _ask_extenders(self, pod: Pod, extenders: tuple[Extender, ...], fits: Fits) -> Fits:
        """What the extenders leave. When they refuse the pod's nominated node, or fail over it, all others count."""
        if fits.otherwise is None:
            return await self._filter_by_extenders(pod, extenders, fits)
        try:
            left = await self._filter_by_extenders(pod, extenders, fits)
        except KubeschedError as error:
            log.warning("extender failed for the nominated node pod=%s error=%s", pod.key, error)
        else:
            if len(left.rows):
                return left
        fits = fits.otherwise()
        return await self._filter_by_extenders(pod, extenders, fits) if len(fits.rows) else fits

    async def _filter_by_extenders(self, pod: Pod, extenders: tuple[Extender, ...], fits: Fits) -> Fits:
        """Ask the extenders one after the other; each sees what the ones before it left."""
        fits.complete()
        table = self._cluster.nodes
        infos = [table.infos[row] for row in fits.rows.tolist()]
        statuses = fits.diagnosis.node_statuses
        for extender in extenders:
            if not infos:
                break
            if not extender.is_filter() or not extender.is_interested(pod):
                continue
            try:
                result = await extender.filter(pod, infos)
            except KubeschedError as error:
                if not extender.ignorable:
                    raise
                log.warning("extender failed, going on without it extender=%s error=%s", extender.name, error)
                continue
            for name, reason in result.unresolvable.items():
                statuses.set(name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason, plugin=extender.name))
            for name, reason in result.failed.items():
                if name not in result.unresolvable:
                    statuses.set(name, Status(Code.UNSCHEDULABLE, reason, plugin=extender.name))
            passed = set(result.node_names)
            for info in infos:
                if info.name not in passed and info.name not in result.failed and info.name not in result.unresolvable:
                    statuses.set(info.name, Status.unresolvable(FILTERED_MESSAGE).of(extender.name))
            infos = [info for info in infos if info.name in passed]
        rows = np.array([info.row for info in infos], dtype=np.intp)
        if len(rows) == len(fits.rows):
            return fits
        fits.diagnosis.unschedulable_plugins.add(EXTENDER_PLUGIN)
        return Fits(rows, fits.diagnosis, None, fits.evaluated_count)

    async def _extender_scores(self, pod: Pod, extenders: tuple[Extender, ...], fits: Fits) -> Ints:
        """Priorities times weight, brought to the scale of the plugins' scores. A failing extender adds nothing."""
        infos = [self._cluster.nodes.infos[row] for row in fits.rows.tolist()]
        asked = [extender for extender in extenders if extender.is_prioritizer() and extender.is_interested(pod)]
        answers = await asyncio.gather(*(_priorities(extender, pod, infos) for extender in asked))
        sums = dict.fromkeys((info.name for info in infos), 0)
        for extender, priorities in zip(asked, answers, strict=True):
            for name, priority in priorities.items():
                if name in sums:
                    sums[name] += priority * extender.weight * (MAX_NODE_SCORE // _MAX_EXTENDER_PRIORITY)
        return np.array([min(max(each, -SCORE_MAX), SCORE_MAX) for each in sums.values()], dtype=np.int64)


async def _priorities(extender: Extender, pod: Pod, infos: list[NodeInfo]) -> dict[str, int]:
    try:
        return await extender.prioritize(pod, infos)
    except KubeschedError as error:
        log.warning("extender failed to prioritize extender=%s pod=%s error=%s", extender.name, pod.key, error)
        return {}


#: The reason of nodes that an extender leaves out without saying why.
FILTERED_MESSAGE = "node(s) were filtered by extender"

#: Stands in `unschedulable_plugins` for extenders: such pods wake on any event that some plugin listens to.
EXTENDER_PLUGIN = "Extender"


def rejected_at_node(pod: Pod, node_name: str, status: Status) -> Failure:
    """A rejection by Reserve, Permit or later: about the one node that was chosen."""
    diagnosis = Diagnosis()
    diagnosis.node_statuses.set(node_name, status)
    diagnosis.note(status)
    return rejection(FitError(pod, 1, diagnosis), CLEAR, status.code)
