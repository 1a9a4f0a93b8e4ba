"""What a scheduling cycle ends with: a `Decision` to bind, or a `Failure`."""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.results import FitError
from kubesched.framework.status import Code, Status

#: What happens to the pod's nominated node: KEEP leaves it, CLEAR removes it, a name sets it.
KEEP = None
CLEAR = ""


class Decision:
    """The pod is assumed on `node_name`; how many nodes were looked at and fit."""

    __slots__ = ("evaluated_count", "feasible_count", "node_name", "started_s", "state")

    def __init__(
        self, node_name: str, state: CycleState, evaluated_count: int, feasible_count: int, started_s: float
    ) -> None:
        self.node_name = node_name
        self.state = state
        self.evaluated_count = evaluated_count
        self.feasible_count = feasible_count
        self.started_s = started_s


@dataclass(slots=True)
class Failure:
    """Why the attempt failed. `fit_error` is set when plugins rejected the pod; its text is then that of `status`."""

    status: Status
    fit_error: FitError | None = None
    nomination: str | None = CLEAR

    @property
    def message(self) -> str:
        return self.status.message

    @property
    def reason(self) -> str:
        """The reason of the PodScheduled condition."""
        return "Unschedulable" if self.status.is_rejected else "SchedulerError"

    @property
    def result(self) -> str:
        """The `result` label of the metrics."""
        return "unschedulable" if self.status.is_rejected else "error"


def rejection(fit_error: FitError, nomination: str | None, code: Code = Code.UNSCHEDULABLE) -> Failure:
    return Failure(Status(code, str(fit_error)), fit_error, nomination)
