"""The merge rule of each extension point, with plugins made for the purpose."""

from __future__ import annotations

import numpy as np
import pytest

from kubesched.framework import CycleState, CycleStateError, Plugin, PostFilterResult, PreFilterResult, Status, Verdicts
from kubesched.framework.results import Diagnosis
from kubesched.framework.runtime.build import PluginSetupError, build_runtime, check_plugin
from kubesched.framework.runtime.calling import PluginFailure
from kubesched.framework.runtime.filtering import nodes_to_find
from kubesched.framework.runtime.scoring import best_rows
from kubesched.framework.status import Code
from kubesched.state.pod_info import PodInfo
from tests.build import make_node, make_pod
from tests.harness import Harness


def plugin(name, **methods):
    """A plugin class with these methods."""
    return type(name, (Plugin,), {"name": name, **methods})


def pre_filter(name, answer, **more):
    return plugin(name, pre_filter=lambda self, state, pod, nodes: answer, **more)


def scalar_filter(name, rejects):
    """Rejects the nodes whose names are given, with its own name as reason."""

    def method(self, state, pod, node):
        self.asked = [*getattr(self, "asked", []), node.name]
        return Status.unschedulable(name) if node.name in rejects else None

    return plugin(name, filter=method)


def nodes(*names):
    return [make_node(name).capacity(cpu=8, memory="16Gi", pods=110).obj() for name in names]


async def cluster(*plugins, names=("n1", "n2", "n3"), settings=None):
    harness = Harness(*plugins, settings=settings)
    harness.apply(*nodes(*names))
    await harness.settle()
    return harness, harness.runtimes["default-scheduler"]


def fits_of(runtime, pod=None):
    """(names that fit, diagnosis) of one PreFilter and Filter step."""
    state, evaluation = runtime.begin(PodInfo((pod or make_pod("p")).obj()))
    fits = runtime.find_fits(state, evaluation)
    infos = runtime.handle.state.nodes.infos
    return [infos[row].name for row in fits.rows], fits.diagnosis


# -- PreFilter


async def test_pre_filter_results_are_intersected():
    _, runtime = await cluster(
        pre_filter("A", PreFilterResult(frozenset({"n1", "n2"}))),
        pre_filter("B", PreFilterResult(frozenset({"n2", "n3"}))),
    )
    assert fits_of(runtime)[0] == ["n2"]


NOTHING_LEFT = {
    "one plugin": ({"A": set()}, "node(s) didn't satisfy plugin A"),
    "several": ({"A": {"n1"}, "B": {"n2"}}, "node(s) didn't satisfy plugin(s) [A B] simultaneously"),
    "by name, whatever their order": (
        {"B": {"n1"}, "A": {"n2"}},
        "node(s) didn't satisfy plugin(s) [A B] simultaneously",
    ),
}


@pytest.mark.parametrize(("answers", "message"), NOTHING_LEFT.values(), ids=NOTHING_LEFT)
async def test_an_empty_intersection_names_the_plugins_and_waits_for_their_events(answers, message):
    plugins = [pre_filter(name, PreFilterResult(frozenset(names))) for name, names in answers.items()]
    _, runtime = await cluster(*plugins)
    names, diagnosis = fits_of(runtime)
    assert names == []
    assert diagnosis.pre_filter_message == message
    assert diagnosis.unschedulable_plugins == answers.keys()


async def test_who_narrowed_the_nodes_before_a_rejection_is_waited_for_as_well():
    _, runtime = await cluster(
        pre_filter("A", PreFilterResult(frozenset({"n1"}))), pre_filter("B", Status.unschedulable("no"))
    )
    _, diagnosis = fits_of(runtime)
    assert diagnosis.unschedulable_plugins == {"A", "B"}


async def test_names_of_nodes_that_do_not_exist_leave_nothing():
    harness, runtime = await cluster(pre_filter("A", PreFilterResult(frozenset({"ghost"}))))
    names, diagnosis = fits_of(runtime)
    assert names == [] and diagnosis.unschedulable_plugins == {"A"}
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.port.events[-1].note.startswith("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A].")


async def test_unschedulable_goes_on_and_unresolvable_stops():
    asked = []

    def recording(name, status):
        def method(self, state, pod, nodes):
            asked.append(name)
            return status

        return plugin(name, pre_filter=method)

    _, runtime = await cluster(
        recording("A", Status.unschedulable("first")),
        recording("B", Status.unresolvable("second")),
        recording("C", None),
    )
    _, diagnosis = fits_of(runtime)
    assert asked == ["A", "B"]
    assert diagnosis.pre_filter_message == "second"
    assert diagnosis.unschedulable_plugins == {"B"}


async def test_skip_leaves_out_filter_add_pod_and_remove_pod():
    def never(self, *args):
        raise AssertionError("must not be called")

    skipping = pre_filter("A", Status.skip(), filter=never, add_pod=never, remove_pod=never)
    _, runtime = await cluster(skipping)
    state, evaluation = runtime.begin(PodInfo(make_pod("p").obj()))
    assert len(runtime.find_fits(state, evaluation).rows) == 3
    info = runtime.handle.state.nodes.infos[0]
    runtime.fresh.add_pod(state, PodInfo(make_pod("other").obj()), info)
    runtime.fresh.remove_pod(state, PodInfo(make_pod("other").obj()), info)


PRE_FILTER_FAILURES = {
    "an error": (Status.error("boom"), 'running PreFilter plugin "A": boom'),
    "wait makes no sense here": (Status.wait("hm"), 'running PreFilter plugin "A": hm'),
    "nor does pending": (Status.pending("hm"), 'running PreFilter plugin "A": hm'),
}


async def test_success_may_be_said_aloud():
    success = Status(Code.SUCCESS)

    def says_so(self, *args):
        return success

    points = ("pre_enqueue", "pre_filter", "filter", "pre_score", "reserve", "permit", "pre_bind")
    harness, _ = await cluster(plugin("A", score=lambda self, *args: 1, **dict.fromkeys(points, says_so)))
    harness.apply(make_pod("p").obj())
    await harness.settle()
    assert [pod for pod, _ in harness.port.binds()] == ["p"]


@pytest.mark.parametrize(("status", "message"), PRE_FILTER_FAILURES.values(), ids=PRE_FILTER_FAILURES)
async def test_a_failing_pre_filter_fails_the_attempt(status, message):
    _, runtime = await cluster(pre_filter("A", status))
    with pytest.raises(PluginFailure) as caught:
        fits_of(runtime)
    assert str(caught.value) == message


# -- Filter


async def test_the_first_plugin_that_rejects_a_node_is_recorded():
    harness, _ = await cluster(scalar_filter("A", {"n1"}), scalar_filter("B", {"n1", "n2"}), scalar_filter("C", {"n3"}))
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.port.events[-1].note.startswith("0/3 nodes are available: 1 A, 1 B, 1 C.")
    assert harness.queue.parked.get(pod.metadata.uid).unschedulable_plugins == {"A", "B", "C"}


async def test_scalar_filters_see_only_what_vector_filters_let_pass():
    scalar = scalar_filter("A", set())
    vector = plugin(
        "B",
        filter_rows=lambda self, state, pod, nodes: Verdicts.where(
            np.array([info.name == "n2" for info in nodes]), Status.unschedulable("B")
        ),
    )
    harness, runtime = await cluster(scalar, vector)
    assert fits_of(runtime)[0] == ["n1", "n3"]
    assert sorted(harness.plugin("A").asked) == ["n1", "n3"]


async def test_a_plugin_that_raises_fails_the_pods_attempt_and_nothing_else():
    def explode(self, state, pod, node):
        if pod.metadata.name == "bad":
            raise RuntimeError("bug")

    harness, _ = await cluster(plugin("A", filter=explode))
    bad, good = make_pod("bad").obj(), make_pod("good").obj()
    harness.apply(bad, good)
    await harness.settle()
    assert harness.node_of(good)
    assert harness.waits_in(bad) == "backoff"
    assert harness.port.event_reasons("bad") == ["FailedScheduling"]
    assert harness.port.events[0].note == 'running "A" filter plugin: RuntimeError: bug'


SAMPLES = {
    "few nodes: all": (99, 0, 99),
    "a hundred: at least a hundred": (100, 0, 100),
    "adaptive": (1_000, 0, 420),
    "adaptive, minimum share": (6_000, 0, 300),
    "adaptive, minimum count": (150, 0, 100),
    "explicit": (1_000, 40, 400),
    "explicit, minimum count": (1_000, 5, 100),
    "explicit, everything": (1_000, 100, 1_000),
}


@pytest.mark.parametrize(("count", "percentage", "wanted"), SAMPLES.values(), ids=SAMPLES)
def test_how_many_nodes_are_enough(count, percentage, wanted):
    assert nodes_to_find(count, percentage) == wanted


async def test_scalar_filters_stop_at_the_sample_and_start_where_they_left_off():
    names = [f"n{i:03}" for i in range(150)]
    harness, runtime = await cluster(scalar_filter("A", set()), names=names)
    first, _ = fits_of(runtime)
    assert len(first) == 100
    second, _ = fits_of(runtime)
    assert len(second) == 100 and set(first) | set(second) == set(names)
    assert len(harness.plugin("A").asked) == 200


async def test_vector_filters_alone_consider_all_nodes_unless_told_otherwise():
    names = [f"n{i:03}" for i in range(300)]
    _, runtime = await cluster(names=names)
    assert len(fits_of(runtime)[0]) == 300
    _, runtime = await cluster(names=names, settings={"percentageOfNodesToScore": 50})
    assert len(fits_of(runtime)[0]) == 150


async def test_if_none_fits_every_node_has_a_status():
    names = [f"n{i:03}" for i in range(150)]
    _, runtime = await cluster(scalar_filter("A", set(names)), names=names)
    found, diagnosis = fits_of(runtime)
    assert found == []
    assert all(diagnosis.node_statuses.get(name) is not None for name in names)


# -- nominated pods

NOMINATED = {
    "lower priority gives way": (5, []),
    "equal priority gives way": (10, []),
    "higher priority does not": (20, ["n1"]),
}


@pytest.mark.parametrize(("priority", "fits"), NOMINATED.values(), ids=NOMINATED)
async def test_nominated_pods_of_equal_or_higher_priority_count(priority, fits):
    harness = Harness()
    harness.apply(make_node("n1").capacity(cpu=2, pods=10).obj())
    await harness.settle()
    promised = make_pod("promised").priority(10).cpu("2").obj()
    harness.state.nominator.nominate(PodInfo(promised), "n1")
    runtime = harness.runtimes["default-scheduler"]
    assert fits_of(runtime, make_pod("p").priority(priority).cpu("1"))[0] == fits


async def test_both_with_and_without_the_nominated_pods_must_pass():
    """A pod that only fits *because* of a nominated pod must not rely on it."""

    def wants_company(self, state, pod, node):
        return None if node.pods or pod.metadata.name != "p" else Status.unschedulable("alone")

    harness, runtime = await cluster(plugin("A", filter=wants_company), names=("n1",))
    harness.state.nominator.nominate(PodInfo(make_pod("promised").obj()), "n1")
    found, diagnosis = fits_of(runtime)
    assert found == []
    status = diagnosis.node_statuses.get("n1")
    assert status is not None and status.reasons == ("alone",)


async def test_the_nominated_node_is_tried_first_and_taken():
    harness, runtime = await cluster(scalar_filter("A", set()))
    pod = make_pod("p").nominated("n3")
    assert fits_of(runtime, pod)[0] == ["n3"]
    assert harness.plugin("A").asked == ["n3"]


async def test_other_nodes_are_tried_when_the_nominated_one_does_not_fit():
    _, runtime = await cluster(scalar_filter("A", {"n3"}))
    assert fits_of(runtime, make_pod("p").nominated("n3"))[0] == ["n1", "n2"]


# -- PostFilter


def post_filter(name, answer):
    return plugin(name, post_filter=lambda self, state, pod, diagnosis: answer)


def only(point, *names):
    """Settings under which these plugins alone run at the point."""
    enabled = [{"name": name} for name in names]
    plugins = {point: {"enabled": enabled, "disabled": [{"name": "*"}]}}
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}


NO_A, NO_B = Status.unschedulable("no a"), Status.unschedulable("no b")
POST_FILTERS = {
    "success ends it": ([(PostFilterResult("n1"), None), (None, NO_B)], "n1", "Success", ()),
    "reasons are joined": ([(None, NO_A), (None, NO_B)], None, "Unschedulable", ("no a", "no b")),
    "unresolvable ends it": (
        [(None, Status.unresolvable("never")), (None, NO_B)],
        None,
        "UnschedulableAndUnresolvable",
        ("never",),
    ),
    "an error ends it": ([(None, Status.error("boom")), (None, NO_B)], None, "Error", ("boom",)),
    "the last word on nomination stands": (
        [(PostFilterResult(""), NO_A), (None, NO_B)],
        "",
        "Unschedulable",
        ("no a", "no b"),
    ),
}


@pytest.mark.parametrize(("answers", "node", "code", "reasons"), POST_FILTERS.values(), ids=POST_FILTERS)
async def test_post_filter_plugins_in_order(answers, node, code, reasons):
    plugins = [post_filter(name, answer) for name, answer in zip("AB", answers, strict=True)]
    _, runtime = await cluster(*plugins, settings=only("postFilter", "A", "B"))
    state, _ = runtime.begin(PodInfo(make_pod("p").obj()))
    result, status = await runtime.post_filter(state, Diagnosis())
    assert (result.nominated_node if result is not None else None) == node
    assert (status.code.text, status.reasons) == (code, reasons)


async def test_a_profile_without_post_filter_plugins_is_legal():
    harness, _ = await cluster(settings=only("postFilter"))
    harness.apply(make_pod("p").cpu("100").obj())
    await harness.settle()
    assert harness.port.events[-1].note == "0/3 nodes are available: 3 Insufficient cpu."


async def test_without_nodes_there_is_no_post_filter():
    def never(self, state, pod, diagnosis):
        raise AssertionError("must not be called")

    harness = Harness(plugin("A", post_filter=never))
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.port.events[-1].note == "no nodes available to schedule pods"
    harness.apply(*nodes("n1"))
    await harness.pass_time(2)
    assert harness.node_of(pod) == "n1"


# -- scoring


def scorer(name, score, **more):
    return plugin(name, score=lambda self, state, pod, node: score(node), **more)


def totals_of(runtime):
    state, evaluation = runtime.begin(PodInfo(make_pod("p").obj()))
    fits = runtime.find_fits(state, evaluation)
    totals = runtime.totals(state, fits)
    infos = runtime.handle.state.nodes.infos
    return {infos[row].name: int(total) for row, total in zip(fits.rows, totals, strict=True)}


def weighted(**weights):
    enabled = [{"name": name, "weight": weight} for name, weight in weights.items()]
    plugins = {
        point: {"enabled": enabled if point == "score" else [], "disabled": [{"name": "*"}]}
        for point in ("score", "preScore")
    }
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}


async def test_scores_are_weighted_and_summed():
    by_name = {"n1": 10, "n2": 20, "n3": 30}
    _, runtime = await cluster(
        scorer("A", lambda node: by_name[node.name]), scorer("B", lambda node: 1), settings=weighted(A=2, B=5)
    )
    assert totals_of(runtime) == {"n1": 25, "n2": 45, "n3": 65}


async def test_normalize_score_brings_scores_into_range():
    def normalize(self, state, pod, nodes, scores):
        return scores * 100 // scores.max()

    by_name = {"n1": 10, "n2": 500, "n3": 1000}
    _, runtime = await cluster(
        scorer("A", lambda node: by_name[node.name], normalize_score=normalize), settings=weighted(A=1)
    )
    assert totals_of(runtime) == {"n1": 1, "n2": 50, "n3": 100}


OUT_OF_RANGE = {"too high": 101, "negative": -1}


@pytest.mark.parametrize("score", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
async def test_scores_out_of_range_are_refused(score):
    _, runtime = await cluster(scorer("A", lambda node: score), settings=weighted(A=1))
    with pytest.raises(PluginFailure, match=f'plugin "A" returns an invalid score {score}, it should in the range'):
        totals_of(runtime)


BAD_SCORES = {
    "a status": (Status.error("boom"), 'running Score plugins: plugin "A" failed with: boom'),
    "no number": ("high", "score of node n1 is 'high', want an int"),
    "nothing": (None, "score of node n1 is None, want an int"),
}


@pytest.mark.parametrize(("score", "message"), BAD_SCORES.values(), ids=BAD_SCORES)
async def test_a_failing_score_fails_the_attempt(score, message):
    _, runtime = await cluster(scorer("A", lambda node: score), settings=weighted(A=1))
    with pytest.raises(PluginFailure) as caught:
        totals_of(runtime)
    assert message in str(caught.value)


async def test_pre_score_skip_leaves_the_score_out():
    skipping = scorer("A", lambda node: 1 / 0, pre_score=lambda self, state, pod, nodes: Status.skip())
    settings = weighted(A=1, B=1)
    settings["profiles"][0]["plugins"]["preScore"]["enabled"] = [{"name": "A"}]
    _, runtime = await cluster(skipping, scorer("B", lambda node: 7), settings=settings)
    assert totals_of(runtime) == {"n1": 7, "n2": 7, "n3": 7}


async def test_a_single_feasible_node_is_taken_without_scoring():
    harness, _ = await cluster(scorer("A", lambda node: 1 / 0), names=("n1",), settings=weighted(A=1))
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.node_of(pod) == "n1"


def test_best_rows_are_all_that_share_the_highest_total():
    rows = np.array([3, 5, 8])
    assert best_rows(rows, np.array([7, 9, 9])).tolist() == [5, 8]


async def test_ties_are_broken_by_seeded_chance():
    async def choices(seed):
        harness = Harness(seed=seed)
        harness.apply(*nodes(*(f"n{i}" for i in range(8))))
        pods = [make_pod(f"p{i}").obj() for i in range(6)]
        harness.apply(*pods)
        await harness.settle()
        return [harness.node_of(pod) for pod in pods]

    assert await choices(1) == await choices(1)
    assert await choices(1) != await choices(2)


# -- CycleState


def test_reading_an_absent_key_names_it():
    state = CycleState(PodInfo(make_pod("p").obj()))
    with pytest.raises(CycleStateError, match='reading "PreFilterA" from cycleState: not found'):
        state.read("PreFilterA", dict)


def test_reading_a_wrong_type_names_key_and_types():
    state = CycleState(PodInfo(make_pod("p").obj()))
    state.write("PreFilterA", [1])
    with pytest.raises(CycleStateError, match='reading "PreFilterA" from cycleState: expected dict, found list'):
        state.read("PreFilterA", dict)


def test_a_clone_shares_what_has_no_clone_of_its_own():
    class Counts(list[int]):
        def clone(self):
            return Counts(self)

    state = CycleState(PodInfo(make_pod("p").obj()))
    shared, cloned = object(), Counts([1])
    state.write("shared", shared)
    state.write("cloned", cloned)
    twin = state.clone()
    twin.read("cloned", Counts).append(2)
    assert twin.read("shared", object) is shared
    assert state.read("cloned", Counts) == [1]


async def test_a_missing_key_is_an_error_of_the_plugin_that_read_it():
    _, runtime = await cluster(plugin("A", filter=lambda self, state, pod, node: state.read("PreFilterA", dict)))
    with pytest.raises(PluginFailure) as caught:
        fits_of(runtime)
    assert str(caught.value) == 'running "A" filter plugin: reading "PreFilterA" from cycleState: not found'


# -- making plugins

MISSHAPEN = {
    "no name": (plugin(""), "has no `name`"),
    "no point": (plugin("A"), "serves no extension point"),
    "wrong parameters": (
        plugin("A", filter=lambda self, pod: None),
        r"filter must accept filter\(self, state, pod, node\)",
    ),
    "not callable": (plugin("A", reserve=3), "reserve is not a method"),
}


@pytest.mark.parametrize(("cls", "message"), MISSHAPEN.values(), ids=MISSHAPEN)
def test_a_misshapen_plugin_is_refused_at_registration(cls, message):
    with pytest.raises(PluginSetupError, match=message):
        check_plugin(cls)


def test_a_coroutine_where_a_cycle_cannot_wait_is_refused():
    async def method(self, state, pod, node):
        return None

    with pytest.raises(PluginSetupError, match="filter must not be a coroutine"):
        check_plugin(plugin("A", filter=method))


async def test_an_unknown_plugin_is_named():
    harness = Harness()
    handle = harness.runtimes["default-scheduler"].handle
    with pytest.raises(PluginSetupError, match='plugin "Nope" is not registered'):
        build_runtime(handle, {}, {"filter": [("Nope", 0)]}, lambda name: None)
