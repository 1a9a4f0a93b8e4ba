"""Every field does what its row in the docs says, here or in the test named here; or the row says why it does not."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kubesched.app.live import LiveOptions, LiveScheduler
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, UserConfig
from kubesched.config.reference import page
from kubesched.config.types import POINTS
from kubesched.framework import Plugin, Status
from kubesched.framework.runtime.build import POINT_METHODS
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import loaded
from tests.harness import Harness

TESTS = Path(__file__).resolve().parents[1]
LEASE = "client/test_lease.py::"
LIVE = "end_to_end/test_production.py::test_a_standby_takes_over_from_a_leader_that_ends_dies_or_freezes"
EXTENDERS, EXTENDER = "end_to_end/test_extenders.py::", "client/test_extender.py::"
HERE = "config/test_effects.py::"
MULTI_POINT = HERE + "test_multi_point_enables_a_plugin_everywhere_but_where_it_is_disabled"
PROFILES = "end_to_end/test_profiles.py::"
FINDING = "preemption/test_finding.py::"
BALANCED = "plugins/test_node_resources_balanced_allocation.py::"
_TAKES_OVER = "test_the_second_one_stands_by_and_takes_over_within_a_retry_period_of_a_release"
POINT = HERE + "test_a_plugin_runs_at_the_points_that_enable_it"
FIT = "plugins/test_node_resources_fit.py::"
SPREAD = "plugins/test_pod_topology_spread.py::"
SPREAD_DEFAULTS = SPREAD + "test_default_constraints"
VOLUMES = "plugins/test_volume_binding.py::"

#: Field, or plugin and field of its args -> the test of its effect.
PROVED_BY: dict[str, str] = {
    "leaderElection.leaderElect": LIVE,
    "leaderElection.leaseDuration": LEASE + "test_after_a_crash_it_is_taken_when_nothing_changed_for_its_duration",
    "leaderElection.renewDeadline": LEASE + "test_renewals_failing_for_the_deadline_lose_the_lease",
    "leaderElection.retryPeriod": LEASE + _TAKES_OVER,
    "leaderElection.resourceLock": "cli/test_flags.py::test_flags_are_validated_with_the_rest",
    "leaderElection.resourceName": HERE + "test_the_lease_is_the_one_that_is_named",
    "leaderElection.resourceNamespace": HERE + "test_the_lease_is_the_one_that_is_named",
    "clientConnection.kubeconfig": "cli/test_flags.py::test_an_ignored_kubeconfig_never_means_another_cluster",
    "clientConnection.qps": HERE + "test_requests_are_limited_as_configured",
    "clientConnection.burst": HERE + "test_requests_are_limited_as_configured",
    "enableProfiling": "serving/test_port.py::test_without_profiling_there_is_nothing_to_debug",
    "percentageOfNodesToScore": HERE + "test_how_many_nodes_a_scalar_plugin_is_asked_about",
    "podInitialBackoffSeconds": HERE + "test_pauses_after_failed_attempts",
    "podMaxBackoffSeconds": HERE + "test_pauses_after_failed_attempts",
    "profiles": PROFILES + "test_two_profiles_differ_in_weights_alone",
    "profiles[].schedulerName": PROFILES + "test_pods_of_other_schedulers_are_counted_but_left_alone",
    "profiles[].percentageOfNodesToScore": HERE + "test_how_many_nodes_a_scalar_plugin_is_asked_about",
    **{f"profiles[].plugins.{point}": POINT for point in POINTS if point != "queueSort"},
    "profiles[].plugins.queueSort": HERE + "test_the_order_of_the_queue",
    "profiles[].plugins.multiPoint": MULTI_POINT,
    "profiles[].plugins.preEnqueue.enabled": POINT,
    "profiles[].plugins.preEnqueue.enabled[].name": POINT,
    "profiles[].plugins.preEnqueue.enabled[].weight": PROFILES + "test_two_profiles_differ_in_weights_alone",
    "profiles[].plugins.preEnqueue.disabled": MULTI_POINT,
    "profiles[].plugins.preEnqueue.disabled[].name":
        MULTI_POINT,
    "profiles[].pluginConfig": PROFILES + "test_args_are_decoded_into_the_plugins_own_struct",
    "profiles[].pluginConfig[].name": PROFILES + "test_args_are_decoded_into_the_plugins_own_struct",
    "profiles[].pluginConfig[].args": PROFILES + "test_args_are_decoded_into_the_plugins_own_struct",
    "extenders": EXTENDERS + "test_each_extender_sees_what_those_before_it_left",
    "extenders[].urlPrefix": EXTENDERS + "test_filter_and_prioritize",
    "extenders[].filterVerb": EXTENDERS + "test_filter_and_prioritize",
    "extenders[].preemptVerb": EXTENDERS + "test_preempt",
    "extenders[].prioritizeVerb": EXTENDERS + "test_filter_and_prioritize",
    "extenders[].weight": EXTENDERS + "test_scores",
    "extenders[].bindVerb": EXTENDERS + "test_bind",
    "extenders[].enableHTTPS": EXTENDER + "test_tls",
    "extenders[].tlsConfig.insecure": EXTENDER + "test_tls",
    "extenders[].tlsConfig.serverName": EXTENDER + "test_tls",
    "extenders[].tlsConfig.caData": EXTENDER + "test_tls",
    "extenders[].tlsConfig.caFile": EXTENDER + "test_certificates_from_files",
    "extenders[].tlsConfig.certFile": EXTENDER + "test_client_certificates",
    "extenders[].tlsConfig.keyFile": EXTENDER + "test_client_certificates",
    "extenders[].tlsConfig.certData": EXTENDER + "test_client_certificates",
    "extenders[].tlsConfig.keyData": EXTENDER + "test_client_certificates",
    "extenders[].httpTimeout": EXTENDERS + "test_a_failing_filter_fails_the_attempt_unless_ignorable",
    "extenders[].nodeCacheCapable": EXTENDER + "test_who_knows_the_nodes_gets_names_only",
    "extenders[].managedResources": EXTENDERS + "test_managed_resources",
    "extenders[].managedResources[].name": EXTENDERS + "test_managed_resources",
    "extenders[].managedResources[].ignoredByScheduler": EXTENDERS + "test_managed_resources",
    "extenders[].ignorable": EXTENDERS + "test_an_ignorable_extender_that_is_down_is_passed_over_everywhere",
    "delayCacheUntilActive": "end_to_end/test_production.py::test_caches_may_be_delayed_until_leading",
    "DefaultPreemption.minCandidateNodesPercentage": FINDING + "test_how_many_candidates_are_looked_for",
    "DefaultPreemption.minCandidateNodesAbsolute": FINDING + "test_how_many_candidates_are_looked_for",
    "InterPodAffinity.hardPodAffinityWeight": "plugins/test_inter_pod_affinity.py::test_score",
    "InterPodAffinity.ignorePreferredTermsOfExistingPods": "plugins/test_inter_pod_affinity.py::test_score",
    "NodeAffinity.addedAffinity": "plugins/test_node_affinity.py::test_added_affinity",
    **{f"NodeResourcesBalancedAllocation.resources{rest}": BALANCED + "test_score"
       for rest in ("", "[].name", "[].weight")},
    "NodeResourcesFit.ignoredResources": FIT + "test_ignored_resources",
    "NodeResourcesFit.ignoredResourceGroups": FIT + "test_ignored_resources",
    **{f"NodeResourcesFit.scoringStrategy.{rest}": FIT + "test_score" for rest in (
        "type", "resources", "resources[].name", "resources[].weight", "requestedToCapacityRatio.shape",
        "requestedToCapacityRatio.shape[].utilization", "requestedToCapacityRatio.shape[].score")},
    **{f"PodTopologySpread.{rest}": SPREAD_DEFAULTS for rest in ("defaultingType", "defaultConstraints")},
    **{f"PodTopologySpread.defaultConstraints[].{rest}": SPREAD_DEFAULTS
       for rest in ("maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector")},
    # As in a pod: the same constraints come from pods there.
    **{f"PodTopologySpread.defaultConstraints[].{rest}": SPREAD + "test_filter"
       for rest in ("minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys")},
    "VolumeBinding.bindTimeoutSeconds": "plugins/test_volume_binding_reserve.py::test_nothing_happens_for_too_long",
    **{f"VolumeBinding.{rest}": VOLUMES + "test_score" for rest in ("shape", "shape[].utilization", "shape[].score")},
}  # fmt: skip


def rows() -> dict[str, str]:
    """Field -> effect, as the page has them; a field of args has its plugin before it."""
    found: dict[str, str] = {}
    plugin = ""
    section = ""
    for line in page().splitlines():
        if line.startswith("### "):
            plugin = line[4:].partition(":")[0] + "."
        elif line.startswith("## "):
            section, plugin = line[3:], ""
        elif line.startswith("| `") and section in ("Fields", "Plugin args"):
            cells = [cell.strip() for cell in line.split(" | ")]
            found[plugin + cells[0].strip("|` ")] = cells[-1].strip("| ")
    return found


FIELDS = rows()


def test_every_field_has_a_test_or_a_reason():
    lacking = {
        name: effect
        for name, effect in FIELDS.items()
        if effect and not effect.startswith("no effect, because") and name not in PROVED_BY
    }
    assert lacking == {}
    assert PROVED_BY.keys() - FIELDS.keys() == set()


@pytest.mark.parametrize("test", sorted(set(PROVED_BY.values())))
def test_the_tests_that_are_named_exist(test):
    file, _, name = test.partition("::")
    assert name in functions(file)


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


# -- effects that no other test shows


class Probe(Plugin):
    """Serves every point and notes where it was asked."""

    name = "Probe"
    asked: set[str] = set()

    def _note(self, point: str) -> None:
        self.asked.add(point)

    def pre_enqueue(self, pod):
        self._note("preEnqueue")

    def pre_filter(self, state, pod, nodes):
        self._note("preFilter")

    def filter(self, state, pod, node):
        self._note("filter")

    def post_filter(self, state, pod, diagnosis):
        self._note("postFilter")
        return None, Status.unschedulable()

    def pre_score(self, state, pod, nodes):
        self._note("preScore")

    def score(self, state, pod, node):
        self._note("score")
        return 1

    def reserve(self, state, pod, node_name):
        self._note("reserve")

    def permit(self, state, pod, node_name):
        self._note("permit")

    def pre_bind(self, state, pod, node_name):
        self._note("preBind")

    def bind(self, state, pod, node_name):
        self._note("bind")
        return Status.skip()

    def post_bind(self, state, pod, node_name):
        self._note("postBind")


async def probed(plugins: dict[str, Any]) -> set[str]:
    """Where Probe was asked about a pod that fits and about one that does not."""
    Probe.asked = set()
    harness = Harness(Probe, settings={"profiles": [{"plugins": plugins}]})
    harness.apply(*(make_node(name).capacity(cpu=2, pods=5).obj() for name in ("n1", "n2")))
    harness.apply(make_pod("fits").cpu("1").obj(), make_pod("huge").cpu("9").obj())
    await harness.settle()
    assert harness.port.binds()[0][0] == "fits"
    await harness.stop()
    return Probe.asked


ASKED = set(POINT_METHODS) - {"queueSort"}


@pytest.mark.parametrize("point", sorted(ASKED))
async def test_a_plugin_runs_at_the_points_that_enable_it(point):
    # A Bind plugin has its turn only before those that do not skip.
    more = {"disabled": [{"name": "DefaultBinder"}], "enabled": [{"name": "Probe"}, {"name": "DefaultBinder"}]}
    assert await probed({point: more if point == "bind" else {"enabled": [{"name": "Probe"}]}}) == {point}


@pytest.mark.parametrize("point", ["", *sorted(ASKED - {"bind"})])
async def test_multi_point_enables_a_plugin_everywhere_but_where_it_is_disabled(point):
    before_the_binder = [{"name": "Probe"}, {"name": "DefaultBinder"}]
    plugins: dict[str, Any] = {"multiPoint": {"disabled": [{"name": "DefaultBinder"}], "enabled": before_the_binder}}
    if point:
        plugins[point] = {"disabled": [{"name": "Probe"}]}
    assert await probed(plugins) == ASKED - {point}


class LastNameFirst(Plugin):
    name = "LastNameFirst"

    def less(self, a, b):
        return a.pod.metadata.name > b.pod.metadata.name


async def test_the_order_of_the_queue():
    sorter = {"disabled": [{"name": "*"}], "enabled": [{"name": "LastNameFirst"}]}
    harness = Harness(LastNameFirst, settings={"profiles": [{"plugins": {"queueSort": sorter}}]})
    harness.apply(make_node("n1").capacity(cpu=9, pods=9).obj())
    harness.apply(*(make_pod(name).obj() for name in "bca"))
    await harness.settle()
    assert [name for name, _ in harness.port.binds()] == ["c", "b", "a"]
    await harness.stop()


class Counts(Plugin):
    name = "Counts"
    count = 0

    def filter(self, state, pod, node):
        Counts.count += 1


@pytest.mark.parametrize(
    ("everywhere", "profile", "asked"),
    [(0, None, 150), (70, None, 140), (70, 60, 120), (10, 100, 200)],
    ids=["adapted to the cluster", "for all", "the profile's own", "all of them"],
)
async def test_how_many_nodes_a_scalar_plugin_is_asked_about(everywhere, profile, asked):
    own = {} if profile is None else {"percentageOfNodesToScore": profile}
    settings = {"percentageOfNodesToScore": everywhere, "profiles": [own]}
    harness = Harness(Counts, settings=settings)
    harness.apply(*(make_node(f"n{number}").capacity(cpu=1, pods=9).obj() for number in range(200)))
    harness.apply(make_pod("p").obj())
    Counts.count = 0
    await harness.settle()
    assert Counts.count == (asked if everywhere else max(100, 200 * (50 - 200 // 125) // 100))
    await harness.stop()


class Fails(Plugin):
    name = "Fails"

    def pre_filter(self, state, pod, nodes):
        return Status.error("not today")


async def test_pauses_after_failed_attempts():
    harness = Harness(Fails, settings={"podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 5})
    pod = make_pod("p").obj()
    harness.apply(make_node("n1").capacity(cpu=1, pods=9).obj(), pod)
    await harness.settle()
    pauses = []
    for _ in range(4):
        queued = harness.queue.find(pod.metadata.uid)
        pauses.append(queued.backoff_until - queued.timestamp)
        harness.clock.advance(6)
        harness.queue.flush()
        await harness.settle()
    # Pauses end with whole seconds, as in the original.
    assert all(wanted <= pause <= wanted + 1 for wanted, pause in zip((2, 4, 5, 5), pauses, strict=True)), pauses
    await harness.stop()


def live(settings: dict[str, Any]) -> LiveScheduler:
    connection = ClientConfig(ClusterConfig("http://127.0.0.1:1"), UserConfig())
    what = loaded(settings)
    return LiveScheduler(connection, LiveOptions(config=what.config, registry=what.registry))


async def test_requests_are_limited_as_configured():
    scheduler = live({"clientConnection": {"qps": 3, "burst": 7}})
    limiter = scheduler.client._limiter
    assert limiter is not None
    for _ in range(7):
        await limiter.take()
    started_s = scheduler.clock.monotonic()
    await limiter.take()
    assert 0.2 < scheduler.clock.monotonic() - started_s < 3
    await scheduler.stop()


async def test_the_lease_is_the_one_that_is_named():
    election = {"leaderElect": True, "resourceName": "mine", "resourceNamespace": "here"}
    scheduler = live({"leaderElection": election})
    assert scheduler.election is not None
    settings = scheduler.election._settings
    assert (settings.namespace, settings.name) == ("here", "mine")
    await scheduler.stop()
