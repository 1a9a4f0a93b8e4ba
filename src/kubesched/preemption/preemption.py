"""`Preemption`: what a PostFilter plugin holds to preempt with. See the package for the steps."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kubesched.api.core import Pod
from kubesched.api.errors import KubeschedError
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.extender import Victims
from kubesched.framework.handle import Handle
from kubesched.framework.results import Diagnosis, NodeStatuses, PostFilterResult, fit_message
from kubesched.framework.status import Code, Status
from kubesched.preemption.budgets import Budgets
from kubesched.preemption.candidate import Candidate
from kubesched.preemption.choice import Choice, choose
from kubesched.preemption.execution import Execution
from kubesched.preemption.kept_outcomes import KeptOutcomes
from kubesched.preemption.lowest_priority import LowestPriorities
from kubesched.preemption.rules import Rules
from kubesched.preemption.search import Search, Sought
from kubesched.state.pod_info import PodInfo

log = logging.getLogger("kubesched.preemption")

NEVER = "Never"
POLICY_NEVER_MESSAGE = "not eligible due to preemptionPolicy=Never."
TERMINATING_MESSAGE = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = Status.unresolvable("Preemption is not helpful for scheduling")
NO_CANDIDATE_MESSAGE = "no candidate node for preemption"


@dataclass(frozen=True, slots=True)
class Finding:
    """What preemption would come to. Nothing of it has been done, and extenders have not been asked."""

    #: Why nothing can be done; None when there are candidates.
    status: Status | None
    candidates: tuple[Candidate, ...] = ()
    #: Why the other nodes that were tried are none.
    rejected: NodeStatuses | None = None
    choice: Choice | None = None
    #: What becomes of the pod's own nomination: None keeps it, "" clears it.
    nomination: str | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Preemption:
    """`candidates_percentage` of the promising nodes, but at least `candidates_min`, are found before one is chosen."""

    def __init__(
        self,
        handle: Handle,
        plugin_name: str,
        *,
        rules: Rules | None = None,
        candidates_percentage: int = 10,
        candidates_min: int = 100,
    ) -> None:
        self._handle = handle
        self._rules = rules or Rules()
        self._candidates_percentage = candidates_percentage
        self._candidates_min = candidates_min
        self._execution = Execution(handle, plugin_name)
        self._lowest = LowestPriorities(handle.state.nodes)
        self._kept = KeptOutcomes(handle.state, self._rules)
        self._budgets = Budgets(())
        self._budgets_version = -1

    async def preempt(self, state: CycleState, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        """Make room for the pod, which fits nowhere as `diagnosis` says. The answer is one for `post_filter`."""
        finding = self.find(state, diagnosis)
        choice = finding.choice
        if choice is None:
            return _keeping_or_clearing(finding.nomination), finding.status
        if self._handle.extenders:
            try:
                candidates = await self._ask_extenders(state.pod_info.pod, finding.candidates)
            except KubeschedError as error:
                return None, Status.error(error)
            if not candidates:
                return None, Status.unschedulable(NO_CANDIDATE_MESSAGE)
            choice = choose(candidates, self._rules.criteria)
        status = await self._execution.begin(choice.best, state.pod_info.pod)
        if status is not None:
            return None, status
        log.info(
            "preempting pod=%s node=%s victims=%d violations=%d candidates=%d because=%s",
            state.pod_info.key,
            choice.best.node_name,
            len(choice.best.victims),
            choice.best.violation_count,
            len(finding.candidates),
            choice.because,
        )
        return PostFilterResult(choice.best.node_name), None

    def is_under_way(self, uid: str) -> bool:
        """Whether victims of this pod are still to be asked to go: it is no use to try the pod before."""
        return self._execution.holds(uid)

    # -- finding

    def find(self, state: CycleState, diagnosis: Diagnosis, *, everywhere: bool = False) -> Finding:
        """Candidates and the choice among them; changes nothing. `everywhere`: try all nodes, from the first one on."""
        obstacle = self._obstacle(state, diagnosis)
        if obstacle is not None:
            return Finding(Status.unschedulable(obstacle))
        table = self._handle.state.nodes
        runtime = self._handle.runtime
        assert runtime is not None, "plugins preempt after the profile is complete"
        budgets = self._current_budgets()
        kept = self._kept.of_attempt(state, runtime, budgets)
        search = Search(runtime.fresh, self._rules, state, table, budgets, self._lowest, kept)
        promising = diagnosis.node_statuses.rows_with(Code.UNSCHEDULABLE, table)
        if len(promising):
            search.run(promising, self._sought(len(promising), everywhere))
        candidates = tuple(search.candidates)
        if candidates:
            return Finding(None, candidates, search.rejected, choose(candidates, self._rules.criteria))
        if errors := search.errors():
            return Finding(Status.error(_joined(errors)), rejected=search.rejected)
        rejected = search.rejected
        rejected.absent = NOT_HELPFUL
        message = fit_message(table.row_count, Diagnosis(node_statuses=rejected))
        return Finding(Status.unschedulable(message), rejected=rejected, nomination="")

    def _obstacle(self, state: CycleState, diagnosis: Diagnosis) -> str | None:
        """Why this pod must not preempt anybody (now)."""
        pod = state.pod_info.pod
        if pod.spec.preemption_policy == NEVER:
            return POLICY_NEVER_MESSAGE
        cluster = self._handle.state
        nominated = cluster.nominator.node_of(pod.metadata.uid) or pod.status.nominated_node_name
        if not nominated:
            return None
        status = diagnosis.node_statuses.get(nominated)
        if status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None  # that node is of no use any more
        node = cluster.nodes.by_name.get(nominated)
        if node is None or node.row < 0:
            return None
        is_leaving = self._execution.is_leaving
        if any(is_leaving(info.pod) for info in self._rules.victims_on(node, state.pod_info)):
            return TERMINATING_MESSAGE
        return None

    def _sought(self, promising_count: int, everywhere: bool) -> Sought:
        if everywhere:
            return Sought(promising_count)
        wanted = max(promising_count * self._candidates_percentage // 100, self._candidates_min, 1)
        return Sought(min(wanted, promising_count), self._handle.chance.randrange(promising_count))

    def _current_budgets(self) -> Budgets:
        objects = self._handle.state.objects
        version = objects.version("PodDisruptionBudget")
        if version != self._budgets_version:
            self._budgets = Budgets(objects.list("PodDisruptionBudget"))
            self._budgets_version = version
        return self._budgets

    # -- extenders

    async def _ask_extenders(self, pod: Pod, candidates: tuple[Candidate, ...]) -> list[Candidate]:
        """What the extenders that take part leave of the candidates; each sees what the ones before it left."""
        nodes = self._handle.state.nodes
        victims = {
            each.node_name: Victims(tuple(info.pod for info in each.victims), each.violation_count)
            for each in candidates
        }
        for extender in self._handle.extenders:
            if not extender.supports_preemption() or not extender.is_interested(pod):
                continue
            infos = [nodes.by_name[name] for name in victims]
            try:
                answer = await extender.process_preemption(pod, victims, infos)
            except KubeschedError as error:
                if not extender.ignorable:
                    raise
                log.warning("extender failed to judge preemption, going on extender=%s error=%s", extender.name, error)
                continue
            victims = {name: left for name, left in answer.items() if left.pods}
            if len(victims) < len(answer) and not extender.ignorable:
                name = next(name for name, left in answer.items() if not left.pods)
                raise KubeschedError(f'expected at least one victim pod on node "{name}"')
            if not victims:
                break
        return [Candidate(name, tuple(map(PodInfo, left.pods)), left.violation_count) for name, left in victims.items()]


def _keeping_or_clearing(nomination: str | None) -> PostFilterResult | None:
    return None if nomination is None else PostFilterResult(nomination)


def _joined(errors: list[str]) -> str:
    """Several errors as one text, as the original puts them together."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
