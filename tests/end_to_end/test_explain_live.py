"""`kubesched explain` and `kubesched queue` ask a scheduler that runs, over its HTTPS port, where pods are and why."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.apiserver import Account, Answer, Server
from kubesched.app.flags import Flags
from kubesched.app.live import LiveOptions
from kubesched.app.secure_serving import SecureServing, health_checks
from kubesched.cli.main import main
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, UserConfig
from kubesched.framework import Plugin, Status
from tests.build import PodBuilder, make_node, make_pod
from tests.end_to_end.cluster import LiveCluster, loaded, scheduling
from tests.extender_server import ExtenderServer

ACCOUNTS = {
    "token-own": Account("kube-scheduler", ("system:masters", "system:authenticated")),
    "token-admin": Account("admin", ("system:masters", "system:authenticated")),
    "token-low": Account("low", ("system:authenticated",)),
}
NODES = [
    make_node("n1").capacity(cpu=8, memory="8Gi", pods=20, **{"example.com/held": 5}).label("disk", "ssd"),
    make_node("n2").capacity(cpu=2, memory="8Gi", pods=20).label("disk", "hdd"),
]


class Breaks(Plugin):
    """Fails over one pod."""

    name = "Breaks"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        if pod.metadata.name == "broken":
            raise RuntimeError("no idea")
        return None


class Holds(Plugin):
    """Holds one pod in Permit."""

    name = "Holds"

    def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status | None, float]:
        return (Status.wait(), 600.0) if pod.metadata.name == "held" else (None, 0.0)


@dataclass
class Asked(LiveCluster):
    """A cluster whose scheduler serves its port; `folder` holds the kubeconfigs and the certificate."""

    port: int
    folder: Path

    def __init__(self, server: Server, live: Any, port: int, folder: Path) -> None:
        super().__init__(server, live)
        self.port, self.folder = port, folder

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def flags(self, token: str = "token-admin") -> list[str]:
        kubeconfig = write_kubeconfig(self.folder / f"{token}.conf", self.server.url, token)
        authority = self.folder / "certs" / "kube-scheduler.crt"
        return ["--server", self.url, "--kubeconfig", str(kubeconfig), "--certificate-authority", str(authority)]

    def report(self, name: str) -> dict[str, Any]:
        return self.live.scheduler.pod_report("default", name) or {}


def write_kubeconfig(path: Path, server: str, token: str) -> Path:
    named = {"name": "it"}
    content = {
        "kind": "Config",
        "current-context": "it",
        "clusters": [named | {"cluster": {"server": server}}],
        "users": [named | {"user": {"token": token}}],
        "contexts": [named | {"context": {"cluster": "it", "user": "it"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


@asynccontextmanager
async def serving(folder: Path, *builders: Any, settings: dict[str, Any] | None = None) -> AsyncIterator[Asked]:
    """The scheduler's clock is the real one; a pod that fails waits long."""
    async with Server(accounts=ACCOUNTS, node_simulator=False) as server:
        server.load([builder.dict() for builder in (*NODES, *builders)])
        what = loaded({"podInitialBackoffSeconds": 600, "podMaxBackoffSeconds": 600, **(settings or {})}, Breaks, Holds)
        connection = ClientConfig(ClusterConfig(server.url), UserConfig(token="token-own"))
        options = LiveOptions(config=what.config, registry=what.registry, seed=1)
        async with scheduling(server, options, connection=connection) as live:
            port = SecureServing(
                Flags(bind_address="127.0.0.1", secure_port=0, cert_dir=str(folder / "certs")),
                live.scheduler,
                live.metrics,
                live.clock,
                configuration=lambda: live.config,
                checks=health_checks(synced=lambda: True, stopping=lambda: False),
                authentication=live.client.lane("authentication", None),
                authorization=live.client.lane("authorization", None),
                cluster=live.client.lane("debugging", None),
            )
            await port.start()
            try:
                yield Asked(server, live, port.port, folder)
            finally:
                await port.stop()


def said(text: str) -> list[str]:
    """The lines of the command, which shares its standard error with the log of the scheduler."""
    return [line for line in text.splitlines() if line.startswith("kubesched: ")]


async def run(*arguments: str) -> int:
    """The command, beside the scheduler that it asks."""
    return await asyncio.to_thread(main, list(arguments))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig but those that are named, and a wide terminal."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "250")


# -- a pod in each place


def web() -> PodBuilder:
    return make_pod("web")


@dataclass(frozen=True)
class Case:
    """`pod` is asked about once it is in `queue`."""

    pod: PodBuilder
    queue: str
    says: tuple[str, ...]
    tells: dict[str, Any]
    others: tuple[Any, ...] = ()


PLACES = {
    "unschedulable": Case(
        web().cpu(4).node_selector({"disk": "hdd"}),
        "unschedulable",
        (
            "default/web: unschedulable, tried once, since ",
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector.",
            "Preemption is not helpful for scheduling",
            "NodeResourcesFit",
            "NodeAdd",
            "tried next: when one of these events comes; without any, after ",
        ),
        {"attempts": 1, "rejectedBy": ["NodeAffinity", "NodeResourcesFit"], "leads": True},
    ),
    "gated": Case(
        web().gate("quota"),
        "gated",
        ("default/web: held back by SchedulingGates: waiting for scheduling gates: [quota]", "SchedulingGates"),
        {"gatedBy": "SchedulingGates", "attempts": 0},
    ),
    "error backoff": Case(
        make_pod("broken"),
        "error backoff",
        (
            "default/broken: in backoff after an error, tried once",
            "no idea",
            "tried next: when its backoff is over, at ",
        ),
        {"attempts": 1, "rejectedBy": []},
    ),
    "waiting in Permit": Case(
        make_pod("held").node_selector({"disk": "ssd"}),
        "waiting on permit",
        ("default/held: has a place on node n1 and waits in Permit for Holds (until ",),
        {"node": "n1", "stage": "Permit", "attempts": 1},
    ),
    "bound": Case(
        web().node_selector({"disk": "ssd"}),
        "bound",
        ("default/web: bound to node n1 since ", "(schedulerName default-scheduler)"),
        {"node": "n1"},
    ),
    "bound by another": Case(
        web().node("n2").scheduler("other"),
        "bound",
        ("default/web: bound to node n2 (schedulerName other)",),
        {"node": "n2", "profile": "other"},
    ),
    "another scheduler's": Case(
        web().scheduler("other"),
        "foreign",
        ("default/web: another scheduler's to place: schedulerName other; this one serves default-scheduler",),
        {"profile": "other", "profiles": ["default-scheduler"]},
    ),
    "ended": Case(
        web().node("n1").phase("Succeeded"),
        "ended",
        ("default/web: has ended (Succeeded) on node n1",),
        {"phase": "Succeeded", "node": "n1"},
    ),
    "nominated": Case(
        web().cpu(8).priority(10),
        "unschedulable",
        ("nominated for node n1", "preemption: makes room on n1"),
        {"nominatedNode": "n1"},
        (make_pod("low").cpu(8).node("n1").finalizer("example.com/slow"),),
    ),
}


@pytest.mark.parametrize("case", PLACES.values(), ids=PLACES)
async def test_a_pod_in_each_place(case, tmp_path, capsys):
    name = case.pod.dict()["metadata"]["name"]
    unknown_to_it = case.queue in ("foreign", "ended")
    async with serving(tmp_path, *case.others, case.pod) as cluster:
        await cluster.until(lambda: unknown_to_it or cluster.report(name).get("queue") == case.queue)
        assert await run("explain", name, *cluster.flags()) == 0
        text = capsys.readouterr().out
        assert await run("explain", name, *cluster.flags(), "-o", "json") == 0
        told = json.loads(capsys.readouterr().out)
    assert told["queue"] == case.queue and told["pod"] == f"default/{name}"
    assert {key: told.get(key) for key in case.tells} == case.tells
    for words in case.says:
        assert words in text, text


async def test_pods_while_a_cycle_waits_for_an_extender(tmp_path, capsys):
    """One is in flight, one comes next, and one was woken by an event and has its backoff to wait for."""
    resource = "example.com/held"
    async with ExtenderServer() as extender:
        let_go = asyncio.Event()

        async def slow(body: dict[str, Any]) -> Any:
            await let_go.wait()
            if body["Pod"]["metadata"]["name"] == "last":
                await extender.never()
            return {"nodenames": body["NodeNames"]}

        extender.answers["filter"] = slow
        settings = {
            "extenders": [
                {
                    "urlPrefix": extender.url,
                    "filterVerb": "filter",
                    "nodeCacheCapable": True,
                    "httpTimeout": "120s",
                    "managedResources": [{"name": resource}],
                }
            ]
        }
        async with serving(tmp_path, make_pod("big").cpu(16), settings=settings) as cluster:
            await cluster.until(lambda: cluster.report("big").get("queue") == "unschedulable")
            cluster.load(make_pod("first").requests(**{resource: 1}))
            await cluster.until(lambda: len(extender.seen) == 1)
            cluster.load(make_pod("last").requests(**{resource: 1}), make_pod("next").priority(-1))
            cluster.load(make_node("n3").capacity(cpu=32, pods=20).taint("not", "for-it"))
            assert await run("explain", "first", *cluster.flags()) == 0
            assert "default/first: being scheduled now, attempt 1" in capsys.readouterr().out
            let_go.set()
            await cluster.until(lambda: len(extender.seen) == 2 and cluster.report("big").get("queue") == "backoff")
            assert await run("explain", "big", *cluster.flags()) == 0
            text = capsys.readouterr().out
            assert "default/big: in backoff after a rejection, tried once" in text
            assert "or before, when nothing else is to do" in text
            assert await run("explain", "next", *cluster.flags()) == 0
            text = capsys.readouterr().out
            assert "default/next: in the active queue at place 1, not tried yet" in text and "tried next: next" in text
            assert await run("queue", *cluster.flags()) == 0
            assert "1 active, 1 in backoff, 0 unschedulable, 0 gated, 1 in flight" in capsys.readouterr().out


async def test_a_pod_whose_bind_call_is_under_way(tmp_path, capsys):
    async with serving(tmp_path) as cluster:
        asked, let_go = asyncio.Event(), asyncio.Event()

        async def slow_binds(request, proceed):
            if request.path.endswith("/binding"):
                asked.set()
                await let_go.wait()
            return await proceed()

        cluster.server.intercept(slow_binds)
        cluster.load(make_pod("web").node_selector({"disk": "ssd"}))
        await asyncio.wait_for(asked.wait(), 30)
        assert await run("explain", "web", *cluster.flags()) == 0
        assert "default/web: is being bound to node n1 (Bind)" in capsys.readouterr().out
        let_go.set()
        assert await cluster.bound("web") == ["n1"]


# -- how it is asked


async def test_namespaces(tmp_path, capsys):
    async with serving(tmp_path, make_pod("web").namespace("shop").gate("g"), make_pod("web").node("n1")) as cluster:
        for arguments in (["web", "-n", "shop"], ["shop/web"], ["--pod", "web", "-n", "shop"]):
            assert await run("explain", *arguments, *cluster.flags()) == 0
            assert "shop/web: held back" in capsys.readouterr().out
        assert await run("queue", "--pod", "shop/web", "-o", "json", *cluster.flags()) == 0
        assert [pod["pod"] for pod in json.loads(capsys.readouterr().out)["gated"]] == ["shop/web"]


async def test_the_shape_is_that_of_the_offline_explanation_where_both_say_the_same(tmp_path, capsys):
    from kubesched import Cluster

    pod = make_pod("web").cpu(4).node_selector({"disk": "hdd"})
    async with serving(tmp_path, pod) as cluster:
        await cluster.until(lambda: cluster.report("web").get("queue") == "unschedulable")
        assert await run("explain", "web", *cluster.flags(), "-o", "json") == 0
        live = json.loads(capsys.readouterr().out)["lastAttempt"]
    offline = Cluster([*(node.dict() for node in NODES), pod.dict()]).explain("web").to_dict()
    assert live["message"] == offline["message"]
    assert live["messageWithPreemption"] == offline["messageWithPreemption"]
    nodes = live["rejected"]
    assert sorted((each["plugin"], each["code"], each["reasons"], each["nodes"]) for each in nodes) == sorted(
        (each["plugin"], each["code"], each["reasons"], 1) for each in offline["filter"].values()
    )


async def test_a_standby_says_so(tmp_path, capsys):
    async with serving(tmp_path, make_pod("web").gate("g")) as cluster:
        await cluster.until(lambda: cluster.report("web").get("queue") == "gated")
        cluster.live.scheduler.has_started = False
        assert await run("explain", "web", *cluster.flags()) == 0
        assert "ask the scheduler that holds the lease" in capsys.readouterr().out
        assert await run("queue", *cluster.flags()) == 0
        assert "ask the scheduler that holds the lease" in capsys.readouterr().out


# -- when it cannot be told


def with_low(cluster: Asked) -> list[str]:
    return cluster.flags("token-low")


def with_nonsense(cluster: Asked) -> list[str]:
    return cluster.flags("token-nonsense")


def without_kubeconfig(cluster: Asked) -> list[str]:
    return ["--server", cluster.url, "--insecure-skip-tls-verify"]


def without_authority(cluster: Asked) -> list[str]:
    return cluster.flags()[:-2]


def at_the_api_server(cluster: Asked) -> list[str]:
    return ["--server", cluster.server.url, "--kubeconfig", cluster.flags()[3]]


def with_tls_where_there_is_none(cluster: Asked) -> list[str]:
    return ["--server", cluster.server.url.replace("http://", "https://"), "--insecure-skip-tls-verify"]


REFUSALS: dict[str, tuple[Callable[[Asked], list[str]], str]] = {
    "may not": (with_low, 'forbidden: User "low" cannot get path "{path}"; asked as context it of '),
    "bad token": (with_nonsense, "the scheduler does not accept the credentials of context it of "),
    "nobody": (without_kubeconfig, 'forbidden: User "system:anonymous" cannot get path "{path}"; asked as nobody'),
    "unknown authority": (without_authority, "the certificate is not trusted: "),
    "the API server": (at_the_api_server, "not served there: enableProfiling is off, or it is no port of kubesched"),
    "no TLS": (with_tls_where_there_is_none, "cannot reach the scheduler: "),
}


@pytest.mark.parametrize(("flags", "says"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize(
    ("command", "path"),
    [(["explain", "web"], "/debug/pods/default/web"), (["queue"], "/debug/queue")],
    ids=["explain", "queue"],
)
async def test_what_goes_wrong_is_one_line_with_the_url(flags, says, command, path, tmp_path, capsys):
    async with serving(tmp_path, make_pod("web").gate("g")) as cluster:
        given = flags(cluster)
        assert await run(*command, *given) == 1
    told = capsys.readouterr()
    assert told.out == "" and "Traceback" not in told.err
    (line,) = said(told.err)
    assert line.startswith(f"kubesched: {given[1]}{path}: ")
    assert says.format(path=path) in line


async def test_a_pod_that_is_nowhere(tmp_path, capsys):
    async with serving(tmp_path) as cluster:
        assert await run("explain", "nobody", *cluster.flags()) == 1
        assert said(capsys.readouterr().err) == [
            f"kubesched: {cluster.url}/debug/pods/default/nobody: there is no pod default/nobody: "
            "neither this scheduler nor the API server knows it"
        ]


async def test_an_api_server_that_cannot_be_asked_about_a_strange_pod(tmp_path, capsys):
    async with serving(tmp_path) as cluster:

        async def refuse(request, proceed):
            if request.method == "GET" and request.path.endswith("/pods/stranger"):
                return Answer(500, b'{"kind":"Status","status":"Failure","message":"etcd is away","code":500}')
            return await proceed()

        cluster.server.intercept(refuse)
        assert await run("explain", "stranger", *cluster.flags()) == 1
        assert said(capsys.readouterr().err) == [
            f"kubesched: {cluster.url}/debug/pods/default/stranger: this scheduler does not know pod default/stranger, "
            "and could not ask the API server: etcd is away"
        ]


async def test_nobody_listens(tmp_path, capsys):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        url = f"https://127.0.0.1:{bound.getsockname()[1]}"
        assert await run("explain", "web", "--server", url) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"kubesched: {url}/debug/pods/default/web: cannot reach the scheduler: ")
    assert told.count("\n") == 1


async def test_without_profiling_it_is_not_served(tmp_path, capsys):
    async with serving(tmp_path, settings={"enableProfiling": False}) as cluster:
        assert await run("explain", "web", *cluster.flags()) == 1
        assert "enableProfiling is off" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/debug/queue", "/debug/pods/default/web"])
def test_the_role_for_people_allows_what_the_commands_ask(path):
    role = yaml.safe_load((Path(__file__).resolve().parents[2] / "deploy" / "debugging" / "rbac.yaml").read_text())
    (rule,) = role["rules"]
    assert rule["verbs"] == ["get"]
    assert any(path == url or (url.endswith("*") and path.startswith(url[:-1])) for url in rule["nonResourceURLs"])
