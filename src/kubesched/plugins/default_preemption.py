"""DefaultPreemption: a pod that fits nowhere takes the place of less important pods.

The work is in `preemption`; here is what the profile says about it (how many candidates to look for) and how the pod
waits meanwhile: from the moment it has chosen its victims until the last of them is asked to go it stays out of the
active queue. (kube-scheduler v1.36.)
"""

from __future__ import annotations

from collections.abc import Hashable

from kubesched.api.core import Pod
from kubesched.config.plugin_args import DefaultPreemptionArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import ASSIGNED_POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import Plugin
from kubesched.framework.results import Diagnosis, PostFilterPreview, PostFilterResult, PreemptionCandidate
from kubesched.framework.status import Code, Status
from kubesched.preemption import Finding, Preemption

REASON_WAITING = "waiting for the preemption for this pod to be finished"


class DefaultPreemption(Plugin):
    name = "DefaultPreemption"
    args_type = DefaultPreemptionArgs
    watches = ("PodDisruptionBudget",)

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._is_async = handle.features.get("SchedulerAsyncPreemption", False)
        self._preemption = Preemption(
            handle,
            self.name,
            candidates_percentage=args.min_candidate_nodes_percentage,
            candidates_min=args.min_candidate_nodes_absolute,
        )

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if self._preemption.is_under_way(pod.metadata.uid):
            return Status.unresolvable(REASON_WAITING)
        return None

    async def post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        self.handle.metrics.preemption_attempt()
        result, status = await self._preemption.preempt(state, diagnosis)
        return result, None if status is None else _said_of_preemption(status)

    def find(self, state: CycleState, diagnosis: Diagnosis) -> Finding:
        """Every node where preemption would help, with victims and the choice among them. Nothing is done."""
        return self._preemption.find(state, diagnosis, everywhere=True)

    def post_filter_preview(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> PostFilterPreview:
        finding = self.find(state, diagnosis)
        return PostFilterPreview(
            status=Status(Code.SUCCESS) if finding.status is None else _said_of_preemption(finding.status),
            nominated_nodes=tuple(each.node_name for each in finding.choice.equals) if finding.choice else (),
            because=finding.choice.because if finding.choice else "",
            candidates=tuple(
                PreemptionCandidate(each.node_name, tuple(info.key for info in each.victims), each.violation_count)
                for each in finding.candidates
            ),
            rejected=finding.rejected.by_node() if finding.rejected is not None else {},
        )

    def hint_sign(self, pod: Pod) -> Hashable:
        return ()  # its hint looks at no pod: many that wait for their victims are one question

    def events_to_register(self) -> list[ClusterEventWithHint]:
        if not self._is_async:
            return []
        return [ClusterEventWithHint(ClusterEvent(ASSIGNED_POD, ActionType.DELETE), after_pod_deletion)]


def after_pod_deletion(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Whoever preempted was rejected by other plugins before: these say what it waits for."""
    return QueueingHint.SKIP


def _said_of_preemption(status: Status) -> Status:
    return Status(status.code, f"preemption: {status.message}", cause=status.cause)
