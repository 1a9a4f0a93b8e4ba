"""`Status`: what a plugin answers, with the original's codes.

None stands for success wherever a `Status | None` is asked for: the common answer costs nothing. A rejection is a value
of this class; an operating failure becomes one (code ERROR) where the framework calls the plugin; a bug is an exception
that the framework catches at the same place, logs with its traceback, and turns into code ERROR as well.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    SUCCESS = 0
    #: An internal failure: the attempt ends, the pod is tried again after an error backoff.
    ERROR = 1
    #: The pod does not fit now; preemption or a cluster event may help.
    UNSCHEDULABLE = 2
    #: The pod does not fit and preemption cannot change that.
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    #: Permit only: hold the pod until it is allowed.
    WAIT = 4
    #: Bind: not mine, ask the next. PreFilter, PreScore, PreBindPreFlight: leave me out of what follows.
    SKIP = 5
    #: Rejected, but something outside the cluster's state is under way; woken without backoff.
    PENDING = 6

    @property
    def text(self) -> str:
        """The original's spelling, as in metrics and in recorded decisions: "UnschedulableAndUnresolvable"."""
        return _TEXTS[self]


_TEXTS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}


class Status:
    """An answer other than plain success. Immutable; equal by code, reasons and plugin."""

    __slots__ = ("cause", "code", "plugin", "reasons")

    def __init__(self, code: Code, *reasons: str, plugin: str = "", cause: BaseException | None = None) -> None:
        self.code = code if type(code) is Code else Code(code)
        # Plugins pass numbers and exceptions, too.
        self.reasons: tuple[str, ...] = tuple(each if type(each) is str else str(each) for each in reasons)
        self.plugin = plugin
        self.cause = cause

    @classmethod
    def unschedulable(cls, *reasons: str) -> Status:
        return cls(Code.UNSCHEDULABLE, *reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> Status:
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, *reasons)

    @classmethod
    def pending(cls, *reasons: str) -> Status:
        return cls(Code.PENDING, *reasons)

    @classmethod
    def wait(cls, *reasons: str) -> Status:
        return cls(Code.WAIT, *reasons)

    @classmethod
    def skip(cls, *, lasting: bool = False) -> Status:
        """`lasting`: the reason lies in what the plugin signed of the pod alone, so that the answer stands whatever
        happens to nodes and other pods."""
        return LASTING_SKIP if lasting else _SKIP

    @classmethod
    def error(cls, reason: str | BaseException) -> Status:
        if isinstance(reason, BaseException):
            return cls(Code.ERROR, str(reason) or type(reason).__name__, cause=reason)
        return cls(Code.ERROR, reason)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        return self.code in _REJECTED

    @property
    def is_error(self) -> bool:
        return self.code is Code.ERROR

    @property
    def is_skip(self) -> bool:
        return self.code is Code.SKIP

    @property
    def is_wait(self) -> bool:
        return self.code is Code.WAIT

    def of(self, plugin: str) -> Status:
        """The same status, said by `plugin`."""
        return self if self.plugin == plugin else Status(self.code, *self.reasons, plugin=plugin, cause=self.cause)

    def wrapped(self, context: str) -> Status:
        """The same code with `context: message` as its only reason."""
        return Status(self.code, f"{context}: {self.message}", plugin=self.plugin, cause=self.cause)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return (self.code, self.reasons, self.plugin) == (other.code, other.reasons, other.plugin)

    def __hash__(self) -> int:
        return hash((self.code, self.reasons, self.plugin))

    def __repr__(self) -> str:
        said_by = f" by {self.plugin}" if self.plugin else ""
        return f"<Status {self.code.text}{said_by}: {self.message}>"


LASTING_SKIP = Status(Code.SKIP)
_SKIP = Status(Code.SKIP)

_REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


def is_success(status: Status | None) -> bool:
    return status is None or status.code is Code.SUCCESS
