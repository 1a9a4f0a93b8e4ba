"""Decisions with a real HTTP extender: what it refuses, prefers, evicts and binds, and what follows when it fails."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from tests.build import make_node, make_pod
from tests.end_to_end.cluster import PATIENCE_S, running
from tests.extender_server import ExtenderServer

GPU = "example.com/gpu"
NODES = [make_node(name).capacity(cpu=4, memory="8Gi", pods=10) for name in ("n1", "n2", "n3")]
POD = make_pod("web").cpu("1")


def settings(server: ExtenderServer, **fields: Any) -> dict[str, Any]:
    return {"extenders": [{"urlPrefix": server.url, **fields}]}


def passing(*names: str) -> Any:
    """Answers of filter that leave these nodes, in the shape of the request."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if body["NodeNames"] is not None:
            return {"nodenames": [name for name in body["NodeNames"] if name in names]}
        items = body["Nodes"]["items"]
        return {"nodes": {"items": [node for node in items if node["metadata"]["name"] in names]}}

    return answer


# -- each verb


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("names_only", [False, True], ids=["nodes", "names"])
async def test_filter_and_prioritize(tls, names_only):
    async with ExtenderServer(tls=tls) as server:
        server.answers["filter"] = passing("n1", "n3")
        server.answers["prioritize"] = lambda body: [{"Host": "n1", "Score": 1}, {"Host": "n3", "Score": 10}]
        fields: dict[str, Any] = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5}
        if server.certificate is not None:
            authority = base64.b64encode(server.certificate.ca_pem).decode()
            fields |= {"enableHTTPS": True, "tlsConfig": {"caData": authority}}
        async with running(settings(server, **fields, nodeCacheCapable=names_only), *NODES, POD) as cluster:
            assert await cluster.bound("web") == ["n3"]
        asked = {verb for verb, _ in server.seen}
        assert asked == {"filter", "prioritize"}
        [body] = server.asked("filter")
        assert body["Pod"]["metadata"]["name"] == "web"
        assert body["Pod"]["spec"]["containers"][0]["image"]
        if not names_only:
            assert [node["metadata"]["name"] for node in body["Nodes"]["items"]] == ["n1", "n2", "n3"]


async def test_documents_are_whole_and_follow_the_watch():
    node = make_node("n1").capacity(cpu=4, pods=10)
    document = node.dict()
    document["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 10250}}  # nothing that scheduling reads
    async with ExtenderServer() as server:
        server.answers["filter"] = passing("n1")
        async with running(settings(server, filterVerb="filter"), POD.copy()) as cluster:
            cluster.server.load([document])
            await cluster.bound("web")
            server.answers["filter"] = lambda body: {
                "FailedNodes": {"n1": body["Nodes"]["items"][0]["metadata"]["uid"]}
            }
            pod = make_pod("second").dict()
            pod["spec"]["hostAliases"] = [{"ip": "10.0.0.1", "hostnames": ["a"]}]
            cluster.server.load([pod])
            await cluster.condition("second", document["metadata"]["uid"])
        first, second, *_ = server.asked("filter")
        assert first["Nodes"]["items"][0]["status"]["daemonEndpoints"]
        assert second["Pod"]["spec"]["hostAliases"] == pod["spec"]["hostAliases"]


async def test_bind():
    async with ExtenderServer() as server, running(settings(server, bindVerb="bind"), *NODES) as cluster:

        async def bind(body: dict[str, Any]) -> dict[str, Any]:
            await cluster.bind(body["PodName"], body["Node"])
            return {}

        server.answers["bind"] = bind
        cluster.load(POD)
        [node] = await cluster.bound("web")
        assert [body["Node"] for body in server.asked("bind")] == [node]


async def test_preempt():
    """Of two nodes that would do, the extender leaves the one with the more important victim."""
    nodes = [make_node(name).capacity(cpu=1, pods=10) for name in ("n1", "n2")]
    victims = [make_pod("cheap").cpu("1").node("n1").priority(1), make_pod("dear").cpu("1").node("n2").priority(2)]
    async with ExtenderServer() as server:

        def preempt(body: dict[str, Any]) -> dict[str, Any]:
            shown = body["NodeNameToVictims"]
            assert {name: [pod["metadata"]["name"] for pod in each["Pods"]] for name, each in shown.items()} == {
                "n1": ["cheap"],
                "n2": ["dear"],
            }
            left = {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in shown["n2"]["Pods"]], "NumPDBViolations": 0}
            return {"NodeNameToMetaVictims": {"n2": left}}

        server.answers["preempt"] = preempt
        async with running(settings(server, preemptVerb="preempt"), *nodes, *victims, kubelets=True) as cluster:
            cluster.load(make_pod("web").cpu("1").priority(10))
            assert await cluster.bound("web") == ["n2"]
            assert not cluster.pod("dear")
            assert cluster.pod("cheap")


# -- BR-114: empty answers and errors

REJECTING = {
    "empty object": {},
    "null names": {"nodenames": None},
    "no names": {"nodenames": []},
}


@pytest.mark.parametrize("answer", REJECTING.values(), ids=REJECTING)
async def test_an_empty_answer_leaves_no_node(answer):
    async with ExtenderServer() as server:
        server.answers["filter"] = lambda body: answer
        config = settings(server, filterVerb="filter", nodeCacheCapable=True)
        async with running(config, *NODES, POD) as cluster:
            told = await cluster.condition("web")
            assert told.startswith("Unschedulable: 0/3 nodes are available: 3 node(s) were filtered by extender.")


async def test_reasons_of_the_extender_are_told():
    async with ExtenderServer() as server:
        server.answers["filter"] = lambda body: {
            "FailedNodes": {"n1": "rack is full", "n2": "rack is full"},
            "FailedAndUnresolvableNodes": {"n3": "no such rack"},
        }
        async with running(settings(server, filterVerb="filter", nodeCacheCapable=True), *NODES, POD) as cluster:
            told = await cluster.condition("web")
            assert "0/3 nodes are available: 1 no such rack, 2 rack is full." in told


FAILING: dict[str, tuple[Any, str]] = {
    "error": ({"error": "x marks the spot"}, "x marks the spot"),
    "not JSON": (b"<html>oops", "the answer is no JSON"),
    "500": (500, "code 500"),
    "slow": ("slow", "no answer within 0.05 s"),
}


@pytest.mark.parametrize(("answer", "message"), FAILING.values(), ids=FAILING)
async def test_a_failing_filter_fails_the_attempt_unless_ignorable(answer, message):
    async with ExtenderServer() as server:
        server.answers["filter"] = lambda body: server.never() if answer == "slow" else answer
        config = settings(server, filterVerb="filter", httpTimeout="50ms")
        async with running(config, *NODES, POD) as cluster:
            told = await cluster.condition("web")
            assert told.startswith("SchedulerError: ")
            assert message in told
        config["extenders"][0]["ignorable"] = True
        async with running(config, *NODES, POD) as cluster:
            await cluster.bound("web")


# -- BR-115: ignorable


async def test_an_ignorable_extender_that_is_down_is_passed_over_everywhere():
    async with ExtenderServer() as server:
        pass
    verbs = {"filterVerb": "f", "prioritizeVerb": "s", "preemptVerb": "p", "bindVerb": "b"}
    config = settings(server, **verbs, weight=1, ignorable=True)
    low = [make_pod(f"low-{n}").cpu("4").node(n).priority(0) for n in ("n1", "n2")]
    async with running(config, *NODES[:2], *low, kubelets=True) as cluster:
        cluster.load(make_pod("web").cpu("4").priority(10))
        assert await cluster.bound("web")


async def test_a_binder_that_is_not_ignorable_fails_the_attempt_and_the_pod_is_tried_again():
    async with ExtenderServer() as server, running(settings(server, bindVerb="bind"), *NODES) as cluster:
        answers = iter([{"error": "node is locked"}, {}])

        async def bind(body: dict[str, Any]) -> dict[str, Any]:
            answer = next(answers)
            if not answer:
                await cluster.bind(body["PodName"], body["Node"])
            return answer

        server.answers["bind"] = bind
        cluster.load(POD)
        assert "SchedulerError: " in (told := await cluster.condition("web")) and "node is locked" in told
        await cluster.bound("web")


async def test_a_bind_whose_answer_is_lost_is_looked_after():
    """The extender has bound the pod, but fell silent: the live pod is asked, and nothing is done twice."""
    config = {"bindVerb": "bind", "httpTimeout": "50ms"}
    async with ExtenderServer() as server, running(settings(server, **config), *NODES) as cluster:

        async def bind(body: dict[str, Any]) -> Any:
            await cluster.bind(body["PodName"], body["Node"])
            return await server.never()

        server.answers["bind"] = bind
        cluster.load(POD)
        await cluster.bound("web")
        await cluster.until(lambda: cluster.live.scheduler.binding_count == 0)
        assert len(server.asked("bind")) == 1


# -- BR-117: managed resources


async def test_managed_resources():
    async with ExtenderServer() as server:
        server.answers["filter"] = passing("n2")
        managed = [{"name": GPU, "ignoredByScheduler": True}]
        config = settings(server, filterVerb="filter", managedResources=managed)
        pods = [
            make_pod("a").requests(**{GPU: 3}).limits(**{GPU: 3}),
            make_pod("b").cpu("1"),
            make_pod("c").init_container(requests={GPU: 1}, limits={GPU: 1}),
        ]
        async with running(config, *NODES, *pods) as cluster:
            nodes = await cluster.bound("a", "b", "c")
            assert (nodes[0], nodes[2]) == ("n2", "n2")
        assert {body["Pod"]["metadata"]["name"] for body in server.asked("filter")} == {"a", "c"}


# -- BR-118: the range of scores

SCORES = {
    "within the range": ([("n1", 9), ("n2", 10)], 5, "n2"),
    "beyond it, not cut": ([("n1", 11), ("n2", 10)], 5, "n1"),
    "an unknown node": ([("n9", 10), ("n2", 1)], 5, "n2"),
    "weight counts": ([("n1", 1), ("n2", 0)], 100, "n1"),
    "the largest number": ([("n1", 2**62), ("n2", 0)], 100, "n1"),
}


@pytest.mark.parametrize(("scores", "weight", "node"), SCORES.values(), ids=SCORES)
async def test_scores(scores, weight, node):
    async with ExtenderServer() as server:
        server.answers["prioritize"] = lambda body: [{"Host": host, "Score": score} for host, score in scores]
        config = settings(server, prioritizeVerb="prioritize", weight=weight)
        async with running(config, *NODES[:2], POD) as cluster:
            assert await cluster.bound("web") == [node]


async def test_who_fails_to_prioritize_adds_nothing():
    async with ExtenderServer() as server:
        server.answers["prioritize"] = lambda body: 500
        async with running(settings(server, prioritizeVerb="prioritize", weight=1), *NODES, POD) as cluster:
            await cluster.bound("web")


# -- several extenders, nominated nodes, waiting


async def test_each_extender_sees_what_those_before_it_left():
    async with ExtenderServer() as first, ExtenderServer() as second:
        first.answers["filter"] = passing("n1", "n2")
        second.answers["filter"] = passing("n2", "n3")
        both = [
            {"urlPrefix": second.url, "filterVerb": "filter", "nodeCacheCapable": True, "ignorable": True},
            {"urlPrefix": first.url, "filterVerb": "filter", "nodeCacheCapable": True},
        ]
        async with running({"extenders": both}, *NODES, POD) as cluster:
            assert await cluster.bound("web") == ["n2"]
        assert first.asked("filter")[0]["NodeNames"] == ["n1", "n2", "n3"]
        assert second.asked("filter")[0]["NodeNames"] == ["n1", "n2"]


@pytest.mark.parametrize("refusal", [{"nodenames": []}, {"error": "busy"}], ids=["refused", "failed"])
async def test_when_the_nominated_node_is_refused_all_others_count(refusal):
    pod = POD.copy().dict()
    pod["status"]["nominatedNodeName"] = "n1"
    async with ExtenderServer() as server:
        others = passing("n2")
        server.answers["filter"] = lambda body: refusal if body["NodeNames"] == ["n1"] else others(body)
        async with running(settings(server, filterVerb="filter", nodeCacheCapable=True), *NODES) as cluster:
            cluster.server.load([pod])
            assert await cluster.bound("web") == ["n2"]
        assert [body["NodeNames"] for body in server.asked("filter")] == [["n1"], ["n1", "n2", "n3"]]


async def test_nothing_is_applied_while_an_extender_is_awaited():
    async with ExtenderServer() as server, running(settings(server, filterVerb="filter"), *NODES) as cluster:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(body: dict[str, Any]) -> Any:
            asked.set()
            await go_on.wait()
            return passing("n1")(body)

        server.answers["filter"] = slowly
        cluster.load(POD)
        await asked.wait()
        live = cluster.live
        position = live.state.nodes.journal.position
        cluster.load(make_node("n4").capacity(cpu=4, pods=10), make_pod("running").node("n1"))
        await cluster.until(lambda: len(live.scheduler.inbox) >= 2)
        assert live.state.nodes.journal.position == position
        assert live.state.nodes.row_count == 3
        go_on.set()
        assert await cluster.bound("web", "running") == ["n1", "n1"]
        assert live.state.nodes.row_count == 4


async def test_a_stop_does_not_wait_for_an_extender():
    async with ExtenderServer() as server:
        asked = asyncio.Event()

        async def never(body: dict[str, Any]) -> Any:
            asked.set()
            return await server.never()

        server.answers["filter"] = never
        patient = settings(server, filterVerb="filter", httpTimeout="1h")
        async with running(patient, *NODES, POD) as cluster:
            await asked.wait()
            cluster.load(make_node("n4").capacity(cpu=4, pods=10))
            await cluster.until(lambda: len(cluster.live.scheduler.inbox) >= 1)
            async with asyncio.timeout(PATIENCE_S):
                await cluster.live.stop()
            assert cluster.live.state.nodes.row_count == 4  # what had come in is there, but the attempt is over
            assert cluster.live.scheduler.binding_count == 0
