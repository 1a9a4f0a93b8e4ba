"""`CycleState`: what plugins leave for each other during one scheduling attempt.

A plugin writes under its own key and reads it back at a later extension point. Reading an absent key, or a value of
another type than asked for, raises `CycleStateError` with the key in its text; the framework turns that into an ERROR
status of the plugin that read. Values with a `clone()` method are cloned with the state (preemption and nominated pods
change clones); a value that no pod added or removed can change needs none and is shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kubesched.api.errors import KubeschedError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from kubesched.api.core import Pod
    from kubesched.framework.runtime.metering import Meter
    from kubesched.state.pod_info import PodInfo

T = TypeVar("T")


class CycleStateError(KubeschedError):
    """A plugin read a key that is absent or holds another type."""


class CycleState:
    """Per-attempt storage. `pod_info` is the pod under way with its requirements computed once."""

    __slots__ = (
        "_clonable",
        "_values",
        "absorbed_version",
        "plugin_meter",
        "pod_info",
        "pods_to_activate",
        "pre_filter_not_reached",
        "skip_filter",
        "skip_pre_bind",
        "skip_score",
    )

    def __init__(self, pod_info: PodInfo, *, plugin_meter: Meter | None = None) -> None:
        self.pod_info = pod_info
        self._values: dict[Hashable, Any] = {}
        #: The keys of values that are cloned with the state.
        self._clonable: set[Hashable] = set()
        #: How much of a kept evaluation's own state is in here, by its version.
        self.absorbed_version = -1
        #: Names of plugins whose PreFilter / PreScore / PreBindPreFlight answered Skip.
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        #: Plugins whose PreFilter had no turn in this attempt, because one before them settled the matter.
        self.pre_filter_not_reached: frozenset[str] = frozenset()
        #: Pods (by namespace/name) that plugins want moved to the active queue when this cycle succeeds.
        self.pods_to_activate: dict[str, Pod] = {}
        #: Times each plugin, in the share of cycles that is sampled; None in the others.
        self.plugin_meter = plugin_meter

    @property
    def record_plugin_metrics(self) -> bool:
        return self.plugin_meter is not None

    def write(self, key: Hashable, value: Any) -> None:
        self._values[key] = value
        if hasattr(value, "clone"):
            self._clonable.add(key)
        else:
            self._clonable.discard(key)

    def read(self, key: Hashable, kind: type[T]) -> T:
        try:
            value = self._values[key]
        except KeyError:
            raise CycleStateError(f'reading "{key}" from cycleState: not found') from None
        if not isinstance(value, kind):
            raise CycleStateError(
                f'reading "{key}" from cycleState: expected {kind.__name__}, found {type(value).__name__}'
            )
        return value

    def get(self, key: Hashable, default: Any = None) -> Any:
        return self._values.get(key, default)

    def delete(self, key: Hashable) -> None:
        self._values.pop(key, None)
        self._clonable.discard(key)

    def absorb(self, other: CycleState) -> None:
        """Take over every value and skip of `other`."""
        self._values.update(other._values)
        if self._clonable:
            self._clonable -= other._values.keys()
        if other._clonable:
            self._clone_values(other._clonable)
        self.skip_filter |= other.skip_filter
        self.skip_score |= other.skip_score

    def keys(self) -> Iterable[Hashable]:
        return self._values.keys()

    def clone(self, pod_info: PodInfo | None = None) -> CycleState:
        """A twin, for the same pod or for another that is its equal to every plugin that wrote here."""
        twin = CycleState(pod_info or self.pod_info, plugin_meter=self.plugin_meter)
        twin._values = self._values.copy()
        twin._clone_values(self._clonable)
        twin.skip_filter = set(self.skip_filter)
        twin.skip_score = set(self.skip_score)
        twin.skip_pre_bind = set(self.skip_pre_bind)
        return twin

    def _clone_values(self, keys: set[Hashable]) -> None:
        for key in keys:
            self._values[key] = self._values[key].clone()
        self._clonable |= keys
