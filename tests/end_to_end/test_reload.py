"""Another configuration without a restart: under load, with broken files, with profiles that come and go."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kubesched import config
from kubesched.apiserver import Server
from kubesched.app.flags import Flags
from kubesched.app.options import Loaded, files, load
from kubesched.app.plugin_loading import merged
from kubesched.app.reload import Reloader
from kubesched.clock import ManualClock
from kubesched.config import FeatureGates
from kubesched.framework import Plugin, Status
from kubesched.framework.runtime.build import PluginSetupError
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.profiles import plugin_info
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import FAST, LiveCluster, running
from tests.end_to_end.process import running_scheduler
from tests.extender_server import ExtenderServer

PODS = 2000


class Prefers(Plugin):
    """Full score for nodes whose name begins with a letter."""

    letter = ""

    def score_rows(self, state, pod, nodes):
        names = [nodes.table.infos[row].name for row in np.arange(nodes.table.row_count)[nodes.index].tolist()]
        return np.array([100 * name.startswith(self.letter) for name in names], dtype=np.int64)


class PrefersA(Prefers):
    name = "PrefersA"
    letter = "a"


class PrefersB(Prefers):
    name = "PrefersB"
    letter = "b"


PLUGINS = (PrefersA, PrefersB)


def weighing(a: int, b: int, **more: Any) -> dict[str, Any]:
    score = {
        "disabled": [{"name": "*"}],
        "enabled": [{"name": "PrefersA", "weight": a}, {"name": "PrefersB", "weight": b}],
    }
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": {"score": score}}], **more}


class Reloading:
    """A `Reloader` on a file, for a cluster of the test."""

    def __init__(self, cluster: LiveCluster, file: Path) -> None:
        self.file = file
        self.reloader = Reloader(cluster.live, self._load, (file,), ManualClock())

    def write(self, settings: dict[str, Any] | str) -> None:
        head = {"apiVersion": config.API_VERSION, "kind": config.KIND, **FAST}
        self.file.write_text(settings if isinstance(settings, str) else yaml.safe_dump({**head, **settings}))

    async def to(self, settings: dict[str, Any] | str) -> bool:
        self.write(settings)
        return await self.reloader.reload()

    def _load(self) -> Loaded:
        infos = [plugin_info(plugin) for plugin in PLUGINS]
        registry = merged(IN_TREE, {plugin.name: plugin for plugin in PLUGINS})
        return Loaded(config.load(self.file, plugins=infos), registry)


def nodes(*names: str) -> list[Any]:
    return [make_node(name).capacity(cpu=10_000, memory="1Ti", pods=10 * PODS) for name in names]


async def test_under_load(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    async with running(weighing(2, 1), *nodes("a1", "a2", "b1", "b2"), plugins=PLUGINS) as cluster:
        reloading = Reloading(cluster, tmp_path / "config.yaml")
        names = [f"p{number}" for number in range(PODS)]
        half = PODS // 2

        def placed() -> dict[str, str]:
            return {p.pod.pod.metadata.name: p.node_name for p in cluster.live.state.placements.values()}

        cluster.load(*(make_pod(name).cpu("10m") for name in names[:half]))
        await cluster.until(lambda: len(placed()) > half // 4)
        waiting = len(cluster.live.scheduler.queue.active)
        assert waiting, "all pods were placed before the reload"
        before = set(placed())
        assert await reloading.to(weighing(1, 2))
        after = set(placed())
        cluster.load(*(make_pod(name).cpu("10m") for name in names[half:]))
        await cluster.until(lambda: len(placed()) == PODS and not cluster.live.scheduler.binding_count)

        nodes_of = placed()
        assert set(nodes_of) == set(names)
        assert {nodes_of[name][0] for name in before} == {"a"}
        assert {nodes_of[name][0] for name in nodes_of.keys() - after} == {"b"}
        assert "configuration reloaded profiles=default-scheduler" in caplog.text

        # A broken file changes nothing, and says so.
        running_config = cluster.live.config
        broken = yaml.safe_dump({"apiVersion": config.API_VERSION, "kind": config.KIND, "parallelism": 0})
        assert not await reloading.to(broken)
        assert not await reloading.to("a: [")
        reloading.file.unlink()
        assert not await reloading.reloader.reload()
        assert cluster.live.config is running_config
        assert "parallelism: Invalid value: 0" in caplog.text
        assert caplog.text.count("not reloaded, going on with the configuration that runs") == 3
        cluster.load(make_pod("last"))
        assert (await cluster.bound("last"))[0][0] == "b"


async def test_what_cannot_be_built_changes_nothing(tmp_path, caplog):
    async with running(weighing(2, 1), *nodes("a1", "b1"), plugins=PLUGINS) as cluster:
        reloading = Reloading(cluster, tmp_path / "config.yaml")
        extender = {"urlPrefix": "https://127.0.0.1:1", "filterVerb": "f", "enableHTTPS": True}
        bad = {**extender, "tlsConfig": {"caData": "bm8="}}
        assert not await reloading.to(weighing(1, 2, extenders=[bad]))
        assert "couldn't build extenders" in caplog.text
        cluster.load(make_pod("p"))
        assert await cluster.bound("p") == ["a1"]


async def test_waiting_pods_are_tried_by_the_new_rules(tmp_path):
    tainted = make_node("a1").capacity(cpu=4, pods=10).taint("dedicated", effect="NoSchedule")
    async with running({}, tainted, make_pod("p")) as cluster:
        await cluster.condition("p", "untolerated taint")
        disabled = {"filter": {"disabled": [{"name": "TaintToleration"}]}}
        reloading = Reloading(cluster, tmp_path / "config.yaml")
        assert await reloading.to({"profiles": [{"plugins": disabled}]})
        assert await cluster.bound("p") == ["a1"]


async def test_profiles_come_and_go(tmp_path):
    pods = [make_pod(name).scheduler(name) for name in ("one", "two")]
    async with running({"profiles": [{"schedulerName": "one"}]}, *nodes("a1"), *pods) as cluster:
        await cluster.bound("one")
        assert [pod.metadata.name for pod in cluster.live.scheduler.handlers.pending.values()] == []
        reloading = Reloading(cluster, tmp_path / "config.yaml")
        assert await reloading.to({"profiles": [{"schedulerName": "two"}]})
        assert await cluster.bound("two") == ["a1"]
        cluster.load(make_pod("late").scheduler("one"), make_pod("later").scheduler("two"))
        await cluster.bound("later")
        assert not cluster.pod("late")["spec"].get("nodeName")


async def test_parked_pods_of_a_profile_that_goes_are_left_to_others(tmp_path):
    profiles = [{"schedulerName": "stays"}, {"schedulerName": "goes"}]
    pods = [make_pod(name).scheduler(name).cpu("99") for name in ("stays", "goes")]
    async with running({"profiles": profiles}, make_node("n1").capacity(cpu=1, pods=10), *pods) as cluster:
        for name in ("stays", "goes"):
            await cluster.condition(name)
        assert await Reloading(cluster, tmp_path / "config.yaml").to({"profiles": profiles[:1]})
        cluster.load(make_node("n2").capacity(cpu=200, pods=10))
        assert await cluster.bound("stays") == ["n2"]
        assert not cluster.pod("goes")["spec"].get("nodeName")
        assert cluster.live.scheduler.handlers.pending == {}


async def test_an_extender_that_comes_by_reload_gets_whole_objects(tmp_path):
    document = make_node("a1").capacity(cpu=4, pods=10).dict()
    document["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 10250}}
    async with ExtenderServer() as server, running({}, make_pod("early")) as cluster:
        cluster.server.load([document])
        await cluster.bound("early")
        server.answers["filter"] = lambda body: {"nodes": body["Nodes"]}
        reloading = Reloading(cluster, tmp_path / "config.yaml")
        assert await reloading.to({"extenders": [{"urlPrefix": server.url, "filterVerb": "filter"}]})
        cluster.load(make_pod("late"))
        await cluster.bound("late")
        [body] = server.asked("filter")
        assert body["Nodes"]["items"][0]["status"]["daemonEndpoints"]


class Holds(Plugin):
    """Holds every pod in Permit until somebody allows it."""

    name = "Holds"

    def permit(self, state, pod, node_name):
        return Status.wait(), 900.0


async def test_pods_held_by_permit_stay_held_and_can_be_let_go(tmp_path):
    async with running({}, *nodes("a1"), make_pod("held"), plugins=(Holds,)) as cluster:
        handle = cluster.live.scheduler.runtimes["default-scheduler"].handle
        await cluster.until(lambda: len(handle.waiting_pods) == 1)
        assert await Reloading(cluster, tmp_path / "config.yaml").to({})
        after = cluster.live.scheduler.runtimes["default-scheduler"].handle
        assert after is not handle
        [waiting] = after.waiting_pods
        waiting.allow("Holds")
        assert await cluster.bound("held") == ["a1"]


async def test_what_needs_a_restart_is_said(tmp_path, caplog):
    async with running({}, *nodes("a1")) as cluster:
        settings = {"clientConnection": {"qps": 1}, "podMaxBackoffSeconds": 60, "leaderElection": {"leaderElect": True}}
        assert await Reloading(cluster, tmp_path / "config.yaml").to(settings)
        assert "take effect at the next start only fields=leader_election,client_connection" in caplog.text


def changed_file(tmp_path: Path) -> tuple[Path, Any]:
    file = tmp_path / "c.yaml"
    file.write_text("a")
    return file, lambda: file.write_text("aa")


def turned_link(tmp_path: Path) -> tuple[Path, Any]:
    """As a kubelet brings a new version of a mounted ConfigMap."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "c.yaml").write_text("a")
    os.symlink("v1", tmp_path / "data")

    def turn() -> None:
        os.symlink("v2", tmp_path / "new")
        os.replace(tmp_path / "new", tmp_path / "data")

    return tmp_path / "data" / "c.yaml", turn


@pytest.mark.parametrize("prepare", [changed_file, turned_link], ids=["written", "link turned"])
async def test_changes_of_a_file_are_noticed(prepare, tmp_path):
    class Running:
        config = config.load()
        adopted = 0

        async def adopt(self, config: Any, registry: Any) -> None:
            self.adopted += 1

    file, change = prepare(tmp_path)
    clock, scheduler = ManualClock(), Running()
    reloader = Reloader(scheduler, lambda: Loaded(config.load(), IN_TREE), (file,), clock)
    tasks = [asyncio.create_task(reloader.run()), asyncio.create_task(reloader.watch_files())]

    async def pass_time() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            clock.advance(2.5)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    await pass_time()
    assert scheduler.adopted == 0
    change()
    await pass_time()
    assert scheduler.adopted == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


PLUGIN_FILE = """
from kubesched.framework import Plugin

class Favourite(Plugin):
    name = "Favourite"

    def score(self, state, pod, node):
        return 100 if node.name == "{node}" else 0
"""


def test_plugin_files_are_read_again_modules_are_not(tmp_path):
    file = tmp_path / "favourite.py"
    file.write_text(PLUGIN_FILE.format(node="a"))
    flags = Flags(plugin=(f"{file}:Favourite",))
    first = load(flags, FeatureGates()).registry["Favourite"]
    assert files(flags) == (file,)
    file.write_text(PLUGIN_FILE.format(node="b"))
    second = load(flags, FeatureGates()).registry["Favourite"]
    for plugin, node in ((first, "a"), (second, "b")):
        assert plugin(None, None).score(None, None, make_node(node).obj().metadata) == 100  # type: ignore[arg-type]
    file.write_text("class Favourite(")
    with pytest.raises(PluginSetupError, match="SyntaxError"):
        load(flags, FeatureGates())
    assert sys.modules[second.__module__].Favourite is second
    assert files(Flags(plugin=("some.module:Plugin",))) == ()


async def test_sighup_reloads_a_process(tmp_path):
    """From a configuration that leaves the node out to one that does not; the process goes on."""
    only_b = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b"]}]}]}}}  # fmt: skip
    profile = {"pluginConfig": [{"name": "NodeAffinity", "args": only_b}]}
    async with Server(node_simulator=False) as server:
        server.load([node.dict() for node in nodes("a1")] + [make_pod("p").dict()])
        async with running_scheduler(server, tmp_path, config={**FAST_FILE, "profiles": [profile]}) as scheduler:
            await scheduler.wait_for("pod does not fit pod=default/p")
            file = tmp_path / "config.yaml"
            text = file.read_text()
            file.write_text("profiles: 5")
            scheduler.send_signal(signal.SIGHUP)
            await scheduler.wait_for("not reloaded")
            written = yaml.safe_load(text)
            written["profiles"] = [{"schedulerName": "default-scheduler"}]
            file.write_text(yaml.safe_dump(written))
            scheduler.send_signal(signal.SIGHUP)
            await scheduler.wait_for("configuration reloaded")
            await scheduler.wait_for("pod scheduled pod=default/p node=a1")
            assert await scheduler.terminate() == 0


FAST_FILE = {"apiVersion": config.API_VERSION, "kind": config.KIND, **FAST}
