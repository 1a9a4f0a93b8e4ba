"""The extender client over real connections: what is sent, what is understood, what is an error."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from kubesched.api import kinds
from kubesched.api.changes import Delete, Replace, Upsert
from kubesched.api.errors import KubeschedError, TransportError
from kubesched.client.documents import Documents
from kubesched.client.extender import ExtenderError, HttpExtender, extenders_of
from kubesched.clock import RealClock
from kubesched.config import Duration, ExtenderTLSConfig, ManagedResource
from kubesched.config import Extender as ExtenderConfig
from kubesched.framework.extender import Victims
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo
from tests.build import make_node, make_pod
from tests.extender_server import ExtenderServer
from tests.serving.pki import authority

POD = make_pod("web").cpu("1")
NODES = [make_node(name).capacity(cpu=4, memory="8Gi", pods=10) for name in ("n1", "n2", "n3")]
VICTIM = make_pod("victim").node("n1")


def whole(builder: Any) -> bytes:
    """A document with fields that the scheduler does not know."""
    document = builder.dict()
    document["spec"]["inventedInTheFuture"] = {"deep": [1, None]}
    document["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    return json.dumps(document).encode()


def documents_of(*builders: Any) -> Documents:
    documents = Documents()
    documents.want(pods=True, placed_pods=True, nodes=True)
    documents.take([Upsert(kinds.of(each.obj()), each.obj(), whole(each)) for each in builders])
    return documents


def infos() -> list[NodeInfo]:
    state = ClusterState()
    for node in NODES:
        state.set_node(node.obj())
    state.set_pod(VICTIM.obj())
    return list(state.nodes.infos)


@asynccontextmanager
async def connected(server: ExtenderServer, **settings: Any) -> AsyncIterator[HttpExtender]:
    config = ExtenderConfig(url_prefix=server.url, filter_verb="filter", prioritize_verb="prioritize",
                            preempt_verb="preempt", bind_verb="bind", weight=1)  # fmt: skip
    extender = HttpExtender(msgspec.structs.replace(config, **settings), documents_of(POD, VICTIM, *NODES), RealClock())
    try:
        yield extender
    finally:
        await extender.close()


# -- what is sent


async def test_whole_nodes_and_pods_are_sent():
    async with ExtenderServer() as server, connected(server) as extender:
        server.answers["filter"] = lambda body: {"Nodes": {"items": body["Nodes"]["items"][:2]}}
        result = await extender.filter(POD.obj(), infos())
        assert result.node_names == ["n1", "n2"]
        [body] = server.asked("filter")
        assert set(body) == {"Pod", "Nodes", "NodeNames"}
        assert body["NodeNames"] is None
        assert body["Pod"]["spec"]["inventedInTheFuture"] == {"deep": [1, None]}
        assert "managedFields" not in body["Pod"]["metadata"]
        assert [node["metadata"]["name"] for node in body["Nodes"]["items"]] == ["n1", "n2", "n3"]
        assert all(node["spec"]["inventedInTheFuture"] for node in body["Nodes"]["items"])


async def test_who_knows_the_nodes_gets_names_only():
    async with ExtenderServer() as server, connected(server, node_cache_capable=True) as extender:
        server.answers["filter"] = lambda body: {
            "NodeNames": ["n3"],
            "FailedNodes": {"n1": "full", "n2": "too full"},
            "FailedAndUnresolvableNodes": {"n2": "broken"},
        }
        server.answers["prioritize"] = lambda body: [{"Host": name, "Score": 7} for name in body["NodeNames"]]
        result = await extender.filter(POD.obj(), infos())
        assert (result.node_names, result.failed, result.unresolvable) == (
            ["n3"],
            {"n1": "full", "n2": "too full"},
            {"n2": "broken"},
        )
        assert await extender.prioritize(POD.obj(), infos()[:2]) == {"n1": 7, "n2": 7}
        assert [(body["Nodes"], body["NodeNames"]) for _, body in server.seen] == [
            (None, ["n1", "n2", "n3"]),
            (None, ["n1", "n2"]),
        ]


async def test_bind():
    async with ExtenderServer() as server, connected(server) as extender:
        server.answers["bind"] = lambda body: {}
        await extender.bind(POD.obj(), "n2")
        uid = POD.obj().metadata.uid
        assert server.asked("bind") == [{"PodName": "web", "PodNamespace": "default", "PodUID": uid, "Node": "n2"}]


@pytest.mark.parametrize("names_only", [False, True], ids=["pods", "uids"])
async def test_preemption(names_only):
    victim = VICTIM.obj()
    async with ExtenderServer() as server, connected(server, node_cache_capable=names_only) as extender:
        server.answers["preempt"] = lambda body: {
            "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": victim.metadata.uid}], "NumPDBViolations": 1}}
        }
        asked = {"n1": Victims((victim,), 2), "n2": Victims((victim,), 0)}
        assert await extender.process_preemption(POD.obj(), asked, infos()) == {"n1": Victims((victim,), 1)}
        [body] = server.asked("preempt")
        sent = body["NodeNameToMetaVictims" if names_only else "NodeNameToVictims"]
        assert body["NodeNameToVictims" if names_only else "NodeNameToMetaVictims"] is None
        assert {name: each["NumPDBViolations"] for name, each in sent.items()} == {"n1": 2, "n2": 0}
        [shown] = sent["n1"]["Pods"]
        if names_only:
            assert shown == {"UID": victim.metadata.uid}
        else:
            assert shown["spec"]["inventedInTheFuture"]
            assert shown["spec"]["nodeName"] == "n1"


# -- what is understood

ANSWERS = {
    "as Go serves the struct": ({"NodeNames": ["n1"]}, ["n1"]),
    "lower case": ({"nodenames": ["n1"]}, ["n1"]),
    "camel case": ({"nodeNames": ["n1"], "failedNodes": None, "error": ""}, ["n1"]),
    "empty object": ({}, []),
    "null": (None, []),
    "null names": ({"nodenames": None}, []),
    "empty names": ({"nodenames": []}, []),
    "nodes although names were sent": ({"nodes": {"Items": [{"metadata": {"name": "n2"}}]}}, ["n2"]),
    "fields that nobody knows": ({"nodenames": ["n1"], "version": 3}, ["n1"]),
}


@pytest.mark.parametrize(("answer", "names"), ANSWERS.values(), ids=ANSWERS)
async def test_answers_to_filter(answer, names):
    async with ExtenderServer() as server, connected(server, node_cache_capable=True) as extender:
        server.answers["filter"] = lambda body: json.dumps(answer).encode()
        assert (await extender.filter(POD.obj(), infos())).node_names == names


SCORES = {
    "any case": ([{"host": "n1", "score": 3}, {"HOST": "n2", "Score": 0}], {"n1": 3, "n2": 0}),
    "beyond the range": ([{"Host": "n1", "Score": 11}, {"Host": "n2", "Score": -1}], {"n1": 11, "n2": -1}),
    "unknown node": ([{"Host": "n9", "Score": 5}], {"n9": 5}),
    "the same node twice": ([{"Host": "n1", "Score": 5}, {"Host": "n1", "Score": 2}], {"n1": 7}),
    "nothing": (None, {}),
}


@pytest.mark.parametrize(("answer", "scores"), SCORES.values(), ids=SCORES)
async def test_answers_to_prioritize(answer, scores):
    async with ExtenderServer() as server, connected(server) as extender:
        server.answers["prioritize"] = lambda body: json.dumps(answer).encode()
        assert await extender.prioritize(POD.obj(), infos()) == scores


BAD = {
    "error": ("filter", {"Error": "no license"}, "no license"),
    "not JSON": ("filter", b"<html>", "the answer is no JSON"),
    "empty body": ("filter", b"", "the answer is no JSON"),
    "not UTF-8": ("filter", b'{"error": "\xff\xfe"}', "the answer is no JSON"),
    "nested without end": ("filter", b"[" * 100_000, "the answer is no JSON"),
    "a list": ("filter", [], "makes no sense"),
    "names are numbers": ("filter", {"NodeNames": [1]}, "makes no sense"),
    "a node that was not asked about": ("filter", {"NodeNames": ["n9"]}, '"n9" which is not found in the input'),
    "500": ("filter", 500, "failed filter with extender at URL"),
    "404": ("filter", 404, "code 404"),
    "201": ("filter", 201, "code 201"),
    "score is a text": ("prioritize", [{"Host": "n1", "Score": "5"}], "makes no sense"),
    "score is a fraction": ("prioritize", [{"Host": "n1", "Score": 1.5}], "makes no sense"),
    "score beyond 64 bits": ("prioritize", [{"Host": "n1", "Score": 2**63}], "makes no sense"),
    "scores are an object": ("prioritize", {"n1": 5}, "makes no sense"),
    "bind error": ("bind", {"error": "node is locked"}, "node is locked"),
    "victim of another node": (
        "preempt",
        {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": VICTIM.obj().metadata.uid}]}}},
        "but the pod is not found on that node",
    ),
    "no candidate": ("preempt", {"NodeNameToMetaVictims": {"n9": {"Pods": []}}}, '"n9" is no candidate'),
}


async def call(extender: HttpExtender, verb: str) -> Any:
    if verb == "bind":
        return await extender.bind(POD.obj(), "n1")
    if verb == "preempt":
        return await extender.process_preemption(POD.obj(), {"n1": Victims((VICTIM.obj(),))}, infos())
    return await (extender.filter if verb == "filter" else extender.prioritize)(POD.obj(), infos())


@pytest.mark.parametrize(("verb", "answer", "message"), BAD.values(), ids=BAD)
async def test_what_is_an_error(verb, answer, message):
    async with ExtenderServer() as server, connected(server, node_cache_capable=True) as extender:
        server.answers[verb] = lambda body: answer
        with pytest.raises(ExtenderError) as caught:
            await call(extender, verb)
        assert message in str(caught.value)
        # After a definite no nobody needs to look whether the call took effect.
        assert isinstance(caught.value, TransportError) == (answer == 500)


async def test_no_answer_within_the_time_leaves_the_outcome_open():
    async with ExtenderServer() as server, connected(server, http_timeout=Duration.of(0.05)) as extender:
        server.answers["bind"] = lambda body: server.never()
        with pytest.raises(TransportError, match=r"no answer within 0\.05 s"):
            await extender.bind(POD.obj(), "n1")


async def test_nobody_there():
    async with ExtenderServer() as server:
        gone = server
    async with connected(gone) as extender:
        with pytest.raises(TransportError, match="filter: POST /scheduler/filter"):
            await extender.filter(POD.obj(), infos())


# -- TLS


def tls(server: ExtenderServer, **settings: Any) -> ExtenderTLSConfig:
    assert server.certificate is not None
    return ExtenderTLSConfig(**{"ca_data": server.certificate.ca_pem, **settings})


TLS: dict[str, tuple[dict[str, Any] | None, bool, str]] = {
    "authority as data": ({}, True, ""),
    "server name": ({"server_name": "extender.example"}, True, ""),
    "wrong server name": ({"server_name": "other.example"}, True, "certificate"),
    "not trusted": ({"ca_data": b""}, False, "certificate"),
    "told not to verify": ({"ca_data": b"", "insecure": True}, True, ""),
    "https without an authority, as the original": ({"ca_data": b""}, True, ""),
    "no tlsConfig": (None, True, ""),
}


@pytest.mark.parametrize(("settings", "enable", "refused"), TLS.values(), ids=TLS)
async def test_tls(settings, enable, refused):
    async with ExtenderServer(tls=True) as server:
        config = None if settings is None else tls(server, **settings)
        async with connected(server, tls_config=config, enable_https=enable) as extender:
            server.answers["bind"] = lambda body: {}
            if refused:
                with pytest.raises(TransportError, match=refused):
                    await extender.bind(POD.obj(), "n1")
            else:
                await extender.bind(POD.obj(), "n1")
                assert len(server.seen) == 1


async def test_certificates_from_files(tmp_path):
    async with ExtenderServer(tls=True) as server:
        assert server.certificate is not None
        files = {
            "ca_file": server.certificate.ca_pem,
            "cert_file": server.certificate.certificate_pem,
            "key_file": server.certificate.key_pem,
        }
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        paths: dict[str, Any] = {name: str(tmp_path / name) for name in files}
        async with connected(server, tls_config=ExtenderTLSConfig(**paths), enable_https=True) as extender:
            server.answers["bind"] = lambda body: {}
            await extender.bind(POD.obj(), "n1")


@pytest.mark.parametrize("given", ["data", "files", "none"])
async def test_client_certificates(given, tmp_path):
    ca = authority("clients")
    path = ca.client(tmp_path, "scheduler")
    ways: dict[str, dict[str, Any]] = {
        "data": {"cert_data": path.read_bytes(), "key_data": path.read_bytes()},
        "files": {"cert_file": str(path), "key_file": str(path)},
        "none": {},
    }
    own = ways[given]
    async with (
        ExtenderServer(tls=True, client_ca=ca.pem) as server,
        connected(server, tls_config=tls(server, **own), enable_https=True) as extender,
    ):
        server.answers["bind"] = lambda body: {}
        if not own:
            with pytest.raises(TransportError):
                await extender.bind(POD.obj(), "n1")
            return
        await extender.bind(POD.obj(), "n1")
        assert server.asked_by == ["scheduler"]


def test_certificates_that_are_none_are_found_at_the_start():
    config = ExtenderConfig(url_prefix="https://127.0.0.1:1", tls_config=ExtenderTLSConfig(ca_data=b"no PEM"))
    with pytest.raises(ExtenderError, match="couldn't build extenders"):
        extenders_of([config], Documents(), RealClock())


def test_ignorable_extenders_are_asked_last():
    names = ["http://a", "http://b", "http://c"]
    configs = [ExtenderConfig(url_prefix=name, ignorable=name != "http://b") for name in names]
    made = extenders_of(configs, Documents(), RealClock())
    assert [extender.name for extender in made] == ["http://b", "http://a", "http://c"]


# -- whom it is interested in

GPU = "example.com/gpu"
PODS = {
    "nothing": (make_pod("p"), False),
    "another resource": (make_pod("p").requests(**{"example.com/other": 1}), False),
    "requests it": (make_pod("p").requests(**{GPU: 1}), True),
    "requests none of it": (make_pod("p").requests(**{GPU: 0}), True),
    "a limit only": (make_pod("p").limits(**{GPU: 1}), True),
    "an init container": (make_pod("p").init_container(requests={GPU: 1}), True),
    "the second container": (make_pod("p").container().container(requests={GPU: 1}), True),
}


@pytest.mark.parametrize(("pod", "interested"), PODS.values(), ids=PODS)
def test_interest(pod, interested):
    config = ExtenderConfig(url_prefix="http://x", managed_resources=(ManagedResource(GPU, True),))
    assert HttpExtender(config, Documents(), RealClock()).is_interested(pod.obj()) is interested


def test_who_manages_nothing_is_interested_in_all():
    assert HttpExtender(ExtenderConfig(url_prefix="http://x"), Documents(), RealClock()).is_interested(POD.obj())


# -- documents


def test_documents_follow_the_changes():
    documents = documents_of(POD, *NODES)
    changed = make_node("n1").label("a", "b")
    documents.take([Upsert(kinds.NODE, changed.obj(), whole(changed)), Delete(kinds.NODE, NODES[1].obj())])
    assert json.loads(documents.node("n1"))["metadata"]["labels"]["a"] == "b"
    with pytest.raises(KubeschedError, match="n2"):
        documents.node("n2")
    documents.take([Replace(kinds.NODE, (NODES[2].obj(),), "9", (), (whole(NODES[2]),))])
    with pytest.raises(KubeschedError, match="n1"):
        documents.node("n1")
    assert documents.node("n3")


def test_documents_of_placed_pods_are_kept_only_for_who_wants_them():
    documents = Documents()
    assert documents.want(pods=True, nodes=True) == {"Pod", "Node"}
    documents.take([Upsert(kinds.POD, POD.obj(), whole(POD))])
    assert documents.pod(POD.obj())
    bound = POD.copy().node("n1")
    documents.take([Upsert(kinds.POD, bound.obj(), whole(bound))])
    with pytest.raises(KubeschedError, match="web"):
        documents.pod(POD.obj())
    assert documents.want(pods=True) == set()
    assert documents.want(placed_pods=True) == {"Pod"}


def test_the_document_of_an_assumed_pod_names_its_node():
    assumed = POD.copy().node("n2").obj()
    assert json.loads(documents_of(POD).pod(assumed))["spec"]["nodeName"] == "n2"
