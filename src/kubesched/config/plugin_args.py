"""The args of the in-tree plugins (`pluginConfig[].args`), complete and defaulted like everything in `types`.

A plugin's args kind is its name with `Args` behind; in a file, `apiVersion` and `kind` may be given or left out.
"""

from __future__ import annotations

from msgspec import field

from kubesched.api.core import NodeAffinity, TopologySpreadConstraint
from kubesched.config.durations import SECOND_NS, Duration
from kubesched.config.types import Int32, Int64, Struct


class UtilizationShapePoint(Struct):
    """Utilization 0..100 maps to score 0..10; values between two points are interpolated."""

    utilization: Int32 = 0
    score: Int32 = 0


class ResourceSpec(Struct):
    name: str = ""
    weight: Int64 = 0


DEFAULT_RESOURCES = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


class RequestedToCapacityRatioParam(Struct):
    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Struct):
    """`type` is LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(Struct):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(Struct):
    """A `filter_timeout` of 0 is no limit. None where the feature gate that reads the field is off."""

    filter_timeout: Duration | None = Duration(10 * SECOND_NS)
    binding_timeout: Duration | None = Duration(600 * SECOND_NS)


class InterPodAffinityArgs(Struct):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Struct):
    added_affinity: NodeAffinity | None = None


class NodeResourcesBalancedAllocationArgs(Struct):
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class NodeResourcesFitArgs(Struct):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = field(default=ScoringStrategy("LeastAllocated", DEFAULT_RESOURCES))


class PodTopologySpreadArgs(Struct):
    """`defaulting_type` is System or List."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class VolumeBindingArgs(Struct):
    """`shape` is None unless the feature gate StorageCapacityScoring is on."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


ARGS: dict[str, type[Struct]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""In-tree plugins that take args, by the plugin's name."""
