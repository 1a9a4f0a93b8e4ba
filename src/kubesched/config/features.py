"""`--feature-gates`: which gates exist, what they default to, and what a command line made of them.

All gates that kube-scheduler v1.36 knows are accepted. Those that the scheduler reads are in `SCHEDULER_GATES`, with
what reads them; the others change nothing, as they change nothing in the original's scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kubesched.config import gates as _recorded
from kubesched.config.errors import ConfigError, FieldError

ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class Gate(msgspec.Struct, frozen=True):
    """`stage` is ALPHA, BETA, DEPRECATED or empty for GA, as the metric `kubernetes_feature_enabled` spells it."""

    name: str
    stage: str
    default: bool
    locked: bool = False


# Gates that the scheduler reads and that cannot be turned off any more.
_LOCKED = frozenset(
    (
        "DRAAdminAccess",
        "DynamicResourceAllocation",
        "InPlacePodVerticalScaling",
        "MatchLabelKeysInPodAffinity",
        "NodeInclusionPolicyInPodTopologySpread",
        "PodSchedulingReadiness",
        "SchedulerQueueingHints",
        "SidecarContainers",
        "VolumeAttributesClass",
    )
)


def _known() -> Iterator[Gate]:
    for names, stage, default in (
        (_recorded.GA_ON, "", True),
        (_recorded.BETA_ON, "BETA", True),
        (_recorded.BETA_OFF, "BETA", False),
        (_recorded.ALPHA_OFF, "ALPHA", False),
        (_recorded.DEPRECATED_ON, "DEPRECATED", True),
        (_recorded.DEPRECATED_OFF, "DEPRECATED", False),
    ):
        for name in names.split():
            yield Gate(name, stage, default, name in _LOCKED)


GATES: Mapping[str, Gate] = {gate.name: gate for gate in sorted(_known(), key=lambda gate: gate.name)}

# What must be on for a gate to be on.
NEEDS: Mapping[str, tuple[str, ...]] = {
    name: tuple(needed.split())
    for name, _, needed in (line.strip().partition(":") for line in _recorded.NEEDS.split("\n"))
    if name
}

# What reads the gate in the original's scheduler: the part or the plugin.
SCHEDULER_GATES: Mapping[str, str] = {
    "DRAAdminAccess": "DynamicResources",
    "DRAConsumableCapacity": "DynamicResources",
    "DRADeviceBindingConditions": "DynamicResources; default and validity of its `bindingTimeout`",
    "DRADeviceTaintRules": "DynamicResources",
    "DRADeviceTaints": "DynamicResources",
    "DRAExtendedResource": "DynamicResources, NodeResourcesFit",
    "DRAListTypeAttributes": "DynamicResources",
    "DRANodeAllocatableResources": "DynamicResources, NodeResourcesFit",
    "DRAPartitionableDevices": "DynamicResources",
    "DRAPrioritizedList": "DynamicResources",
    "DRAResourceClaimDeviceStatus": "DynamicResources; default and validity of its `bindingTimeout`",
    "DRASchedulerFilterTimeout": "DynamicResources; default and validity of its `filterTimeout`",
    "DRAWorkloadResourceClaims": "DynamicResources",
    "DynamicResourceAllocation": "DynamicResources",
    "GangScheduling": "pod groups",
    "GenericWorkload": "pod groups",
    "InPlacePodLevelResourcesVerticalScaling": "requests of pods",
    "InPlacePodVerticalScaling": "requests of pods",
    "MatchLabelKeysInPodAffinity": "InterPodAffinity",
    "MatchLabelKeysInPodTopologySpread": "PodTopologySpread",
    "NodeDeclaredFeatures": "default plugins: NodeDeclaredFeatures is among them",
    "NodeInclusionPolicyInPodTopologySpread": "PodTopologySpread",
    "NominatedNodeNameForExpectation": "binding cycle",
    "OpportunisticBatching": "kept results",
    "PodLevelResources": "requests of pods",
    "PodSchedulingReadiness": "SchedulingGates",
    "SchedulerAsyncAPICalls": "API calls",
    "SchedulerAsyncPreemption": "DefaultPreemption",
    "SchedulerPopFromBackoffQ": "queue",
    "SchedulerQueueingHints": "queue",
    "SidecarContainers": "requests of pods",
    "StorageCapacityScoring": "VolumeBinding; default and validity of its `shape`",
    "TaintTolerationComparisonOperators": "TaintToleration",
    "TopologyAwareWorkloadScheduling": "pod groups",
    "VolumeAttributesClass": "VolumeBinding",
    "VolumeLimitScaling": "NodeVolumeLimits",
    "WorkloadAwarePreemption": "pod groups",
}


class FeatureGates:
    """Which features are on. Immutable; made from the text of `--feature-gates` by `parse_feature_gates`."""

    __slots__ = ("_set",)

    def __init__(self, overrides: Mapping[str, bool] | None = None) -> None:
        """Raises ConfigError for a gate that does not exist, is locked to its default, or lacks what it needs."""
        self._set = dict(overrides or {})
        errors = [error for name, on in self._set.items() if (error := _refused(name, on)) is not None]
        if errors := errors or list(self._lacking()):
            raise ConfigError(errors, "--feature-gates")

    def enabled(self, name: str) -> bool:
        """Raises KeyError for a gate that does not exist: the caller has misspelled it."""
        gate = GATES[name]
        if name in self._set:
            return self._set[name]
        every = {"ALPHA": ALL_ALPHA, "BETA": ALL_BETA}.get(gate.stage)
        if every in self._set and not gate.locked:
            return self._set[every]
        return gate.default

    def _lacking(self) -> Iterator[FieldError]:
        for name, needed in NEEDS.items():
            off = [each for each in needed if not self.enabled(each)]
            if off and self.enabled(name):
                yield _error(
                    name, True, f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"
                )

    @property
    def overrides(self) -> dict[str, bool]:
        """What the command line said."""
        return dict(self._set)

    def __iter__(self) -> Iterator[tuple[Gate, bool]]:
        for gate in GATES.values():
            yield gate, self.enabled(gate.name)

    def __str__(self) -> str:
        """In the form of `--feature-gates`."""
        return ",".join(f"{name}={'true' if on else 'false'}" for name, on in sorted(self._set.items()))


def parse_feature_gates(text: str) -> FeatureGates:
    """`A=true,B=false`, each name with or without `kube:` before it. Raises ConfigError naming every bad item."""
    overrides: dict[str, bool] = {}
    errors: list[FieldError] = []
    for item in text.split(","):
        name, given, value = item.strip().removeprefix("kube:").partition("=")
        name, value = name.strip(), value.strip()
        if not name and not given:
            continue
        if not given:
            errors.append(_error(name, None, f"missing bool value for {name}"))
        elif value in _TRUE or value in _FALSE:
            overrides[name] = value in _TRUE
        else:
            reason = f'strconv.ParseBool: parsing "{value}": invalid syntax'
            errors.append(_error(name, value, f"invalid value of {name}={value}, err: {reason}"))
    errors.extend(error for name, on in overrides.items() if (error := _refused(name, on)) is not None)
    if errors:
        raise ConfigError(errors, "--feature-gates")
    return FeatureGates(overrides)


def _refused(name: str, on: bool) -> FieldError | None:
    if name in (ALL_ALPHA, ALL_BETA):
        return None
    gate = GATES.get(name)
    if gate is None:
        return _error(name, on, f"unrecognized feature gate: {name}")
    if gate.locked and gate.default != on:
        wanted, locked = str(on).lower(), str(gate.default).lower()
        return _error(name, on, f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}")
    return None


def _error(name: str, value: object, message: str) -> FieldError:
    return FieldError(name, value, message, message)
