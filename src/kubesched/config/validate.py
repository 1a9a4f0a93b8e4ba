"""Is a defaulted configuration one that the original would take? Its checks, in its order, with its messages.

Source: `pkg/scheduler/apis/config/validation` and `component-base/config/validation` of Kubernetes v1.36. What the
original only notices when it builds the profiles (a plugin that does not exist, NodeResourcesFit's args) is in `build`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kubesched.api.core import TopologySpreadConstraint
from kubesched.api.selectors import NodeSelectorRequirement, NodeSelectorTerm
from kubesched.config.catalog import REMOVED
from kubesched.config.durations import SECOND_NS
from kubesched.config.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from kubesched.config.features import FeatureGates
from kubesched.config.names import is_extended_resource, label_value_faults, qualified_name_faults
from kubesched.config.plugin_args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kubesched.config.types import (
    API_VERSION,
    ClientConnection,
    Configuration,
    Extender,
    LeaderElection,
    Plugin,
    Profile,
)

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
# The order in which the original walks the extension points here.
_WALK = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)


def validate(config: Configuration, gates: FeatureGates) -> list[FieldError]:
    """Every problem of `config`; an empty list if there is none."""
    return list(_configuration(config, gates))


def _configuration(config: Configuration, gates: FeatureGates) -> Iterator[FieldError]:
    yield from _client_connection(config.client_connection)
    yield from _leader_election(config.leader_election)
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    seen: dict[str, int] = {}
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}]"
        yield from _profile(path, profile, gates)
        name = profile.scheduler_name
        if name in seen:
            # The value is what the original prints there: an empty object in place of the other profile's path.
            first = f'"{name}" is the name of profiles[{seen[name]}] too'
            where = f"{path}.schedulerName"
            yield FieldError(where, name, "Duplicate value", f"{where}: Duplicate value: {{}}: {first}")
        seen[name] = index
    yield from _common_queue_sort(config.profiles)
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    if config.pod_initial_backoff_seconds <= 0:
        yield invalid("podInitialBackoffSeconds", config.pod_initial_backoff_seconds, "must be greater than 0")
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        yield invalid(
            "podMaxBackoffSeconds",
            config.pod_max_backoff_seconds,
            "must be greater than or equal to PodInitialBackoffSeconds",
        )
    yield from _extenders(config.extenders)


def _client_connection(client: ClientConnection) -> Iterator[FieldError]:
    if client.burst < 0:
        yield invalid("clientConnection.burst", client.burst, "must be non-negative")


def _leader_election(election: LeaderElection) -> Iterator[FieldError]:
    if not election.leader_elect:
        return
    for name, duration in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if duration.nanoseconds <= 0:
            yield invalid(f"leaderElection.{name}", duration, "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        # The value is the renew deadline, as in the original.
        yield invalid("leaderElection.leaseDuration", election.renew_deadline, "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')


def _percentage(path: str, percentage: int | None) -> Iterator[FieldError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _profile(path: str, profile: Profile, gates: FeatureGates) -> Iterator[FieldError]:
    if not profile.scheduler_name:
        yield required(f"{path}.schedulerName")
    yield from _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    for point in _WALK:
        yield from _removed_plugins(f"{path}.plugins.{point}", profile.plugins.at(point).enabled)
    seen: set[str] = set()
    for index, config in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        if config.name in seen:
            yield duplicate(where, config.name)
        seen.add(config.name)
        if config.name in REMOVED:
            yield invalid(where, config.name, _removed_reason())
        check = _ARGS.get(config.name)
        if check is not None:
            yield from check(f"{where}.args", config.args, gates)


def _removed_plugins(path: str, enabled: tuple[Plugin, ...]) -> Iterator[FieldError]:
    for index, plugin in enumerate(enabled):
        if plugin.name in REMOVED:
            yield invalid(f"{path}.enabled[{index}]", plugin.name, _removed_reason())


def _removed_reason() -> str:
    return f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'


def _common_queue_sort(profiles: tuple[Profile, ...]) -> Iterator[FieldError]:
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        path = "profiles[0].plugins.queueSort.Enabled"
        yield invalid(path, len(first.enabled), "only one queue sort plugin can be enabled")
    name = first.enabled[0].name if first.enabled else ""
    args = profiles[0].args(name) if name else None
    for index, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first:
            path = f"profiles[{index}].plugins.queueSort"
            yield invalid(path, profile.plugins.queue_sort, "must be the same for all profiles")
        for config in profile.plugin_config:
            if name and config.name == name and config.args != args:
                path = f"profiles[{index}].pluginConfig.args"
                yield invalid(path, config.args, "queueSort must be the same for all profiles")


def _extenders(extenders: tuple[Extender, ...]) -> Iterator[FieldError]:
    seen: set[str] = set()
    binders = 0
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        binders += bool(extender.bind_verb)
        for number, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{number}].name"
            faults = qualified_name_faults(resource.name)
            if not faults and not is_extended_resource(resource.name):
                faults = ["is an invalid extended resource name"]
            yield from (invalid(where, resource.name, fault) for fault in faults)
            if resource.name in seen:
                yield invalid(where, resource.name, "duplicate extender managed resource name")
            seen.add(resource.name)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid("extenders", found, "only one extender can implement bind")


def _default_preemption(path: str, args: DefaultPreemptionArgs, _: FeatureGates) -> Iterator[FieldError]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= percentage <= 100:
        yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == 0 and absolute == 0:
        yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
        yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")


def _dynamic_resources(path: str, args: DynamicResourcesArgs, gates: FeatureGates) -> Iterator[FieldError]:
    if args.filter_timeout is not None:
        where = f"{path}.filterTimeout"
        if not gates.enabled("DRASchedulerFilterTimeout"):
            yield forbidden(where, "DRASchedulingFilterTimeout feature gate is disabled")
        elif args.filter_timeout.nanoseconds < 0:
            yield invalid(where, args.filter_timeout, "must be zero or positive")
    if args.binding_timeout is not None:
        where = f"{path}.bindingTimeout"
        if not binding_timeout_is_read(gates):
            reason = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            yield forbidden(where, reason)
        elif args.binding_timeout.nanoseconds < SECOND_NS:
            yield invalid(where, args.binding_timeout, "must be at least 1 second")


def binding_timeout_is_read(gates: FeatureGates) -> bool:
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")


def _inter_pod_affinity(path: str, args: InterPodAffinityArgs, _: FeatureGates) -> Iterator[FieldError]:
    if not 0 <= args.hard_pod_affinity_weight <= 100:
        yield invalid(f"{path}.hardPodAffinityWeight", args.hard_pod_affinity_weight, "not in valid range [0, 100]")


def _node_affinity(path: str, args: NodeAffinityArgs, _: FeatureGates) -> Iterator[FieldError]:
    if args.added_affinity is None:
        return
    selector = args.added_affinity.required_during_scheduling_ignored_during_execution
    if selector is not None:
        where = f"{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(selector.node_selector_terms):
            yield from _node_selector_term(f"{where}[{index}]", term)
    where = f"{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(args.added_affinity.preferred_during_scheduling_ignored_during_execution):
        if preferred.weight:  # terms without weight are not looked at, as in the original
            yield from _node_selector_term(f"{where}[{index}]", preferred.preference)


def _node_selector_term(path: str, term: NodeSelectorTerm) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.match_expressions):
        yield from _label_requirement(f"{path}.matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.match_fields):
        where = f"{path}.matchFields[{index}]"
        if requirement.operator not in _FIELD_OPERATORS:
            yield unsupported(f"{where}.operator", requirement.operator, _FIELD_OPERATORS)
        elif len(requirement.values) != 1:
            yield invalid(f"{where}.values", requirement.values, "must have one element")


def _label_requirement(path: str, requirement: NodeSelectorRequirement) -> Iterator[FieldError]:
    operator, values = requirement.operator, requirement.values
    if operator not in _NODE_OPERATORS:
        yield unsupported(f"{path}.operator", operator, _NODE_OPERATORS)
        return
    faults = qualified_name_faults(requirement.key)
    if faults:
        yield invalid(f"{path}.key", requirement.key, "; ".join(faults))
    where = f"{path}.values"
    if operator in ("In", "NotIn") and not values:
        yield invalid(where, values, "for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield invalid(where, values, "values set must be empty for exists and does not exist")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield invalid(where, values, "for 'Gt', 'Lt' operators, exactly one value is required")
        for index, value in enumerate(values):
            if not _is_int64(value):
                yield invalid(f"{where}[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
    for index, value in enumerate(values):
        faults = label_value_faults(value)
        if faults:
            yield invalid(f"{where}[{index}][{requirement.key}]", value, "; ".join(faults))


def _is_int64(text: str) -> bool:
    digits = text[1:] if text[:1] in "+-" else text
    return digits.isascii() and digits.isdigit() and len(digits) < 25 and -(2**63) <= int(text) < 2**63


def _balanced_allocation(path: str, args: NodeResourcesBalancedAllocationArgs, _: FeatureGates) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        where = f"{path}.resources[{index}]"
        if resource.name in seen:
            yield duplicate(f"{where}.name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(f"{where}.weight", resource.weight, "must be 1")


def node_resources_fit(path: str, args: NodeResourcesFitArgs) -> Iterator[FieldError]:
    """Checked when the profile is built, with paths that begin at the args (`path` is empty there)."""
    dot = f"{path}." if path else ""
    for index, name in enumerate(args.ignored_resources):
        yield from (invalid(f"{dot}ignoredResources[{index}]", name, fault) for fault in qualified_name_faults(name))
    for index, name in enumerate(args.ignored_resource_groups):
        where = f"{dot}ignoredResourceGroups[{index}]"
        if "/" in name:
            yield invalid(where, name, "resource group name can't contain '/'")
        yield from (invalid(where, name, fault) for fault in qualified_name_faults(name))
    strategy, where = args.scoring_strategy, f"{dot}scoringStrategy"
    if strategy.type not in _STRATEGIES:
        yield unsupported(f"{where}.type", strategy.type, _STRATEGIES)
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            reason = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"{where}.resources[{index}].weight", resource.weight, reason)
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            reason = "must be specified when type is RequestedToCapacityRatio"
            yield required(f"{where}.requestedToCapacityRatio", reason)
        else:
            yield from _shape(f"{where}.requestedToCapacityRatio.shape", ratio.shape)
    elif ratio is not None:
        yield forbidden(f"{where}.requestedToCapacityRatio", "must be nil when type is not RequestedToCapacityRatio")


def _shape(path: str, shape: tuple[UtilizationShapePoint, ...]) -> Iterator[FieldError]:
    if not shape:
        yield required(path, "at least one point must be specified")
        return
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            where = f"{path}[{index}].utilization"
            yield invalid(where, shape[index].utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= 10:
            yield invalid(f"{path}[{index}].score", point.score, "not in valid range [0, 10]")


def _pod_topology_spread(path: str, args: PodTopologySpreadArgs, _: FeatureGates) -> Iterator[FieldError]:
    where = f"{path}.defaultingType"
    if args.defaulting_type not in ("System", "List"):
        yield unsupported(where, args.defaulting_type, ("System", "List"))
    elif args.defaulting_type == "System" and args.default_constraints:
        yield invalid(where, args.defaulting_type, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        where = f"{path}.defaultConstraints[{index}]"
        yield from _spread_constraint(where, constraint)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            yield duplicate(where, f"{{{key[0]}, {key[1]}}}")
        seen.add(key)


def _spread_constraint(path: str, constraint: TopologySpreadConstraint) -> Iterator[FieldError]:
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    key, where = constraint.topology_key, f"{path}.topologyKey"
    if not key:
        yield required(where, "can not be empty")
    else:
        yield from (invalid(where, key, fault) for fault in qualified_name_faults(key))
    action, where = constraint.when_unsatisfiable, f"{path}.whenUnsatisfiable"
    if not action:
        yield required(where, "can not be empty")
    elif action not in ("DoNotSchedule", "ScheduleAnyway"):
        yield unsupported(where, action, ("DoNotSchedule", "ScheduleAnyway"))
    if constraint.label_selector is not None:
        reason = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", reason)


def _volume_binding(path: str, args: VolumeBindingArgs, gates: FeatureGates) -> Iterator[FieldError]:
    if args.bind_timeout_seconds < 0:
        reason = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, reason)
    if gates.enabled("StorageCapacityScoring"):
        yield from _shape(f"{path}.shape", args.shape or ())
    elif args.shape is not None:
        reason = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid(f"{path}.shape", args.shape, reason)


_ARGS: dict[str, Callable[[str, Any, FeatureGates], Iterable[FieldError]]] = {
    "DefaultPreemption": _default_preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "PodTopologySpread": _pod_topology_spread,
    "VolumeBinding": _volume_binding,
}
