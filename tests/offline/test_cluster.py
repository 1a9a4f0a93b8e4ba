"""`Cluster`: what goes in, what it answers, and what it holds afterwards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched import Cluster
from kubesched.api.errors import KubeschedError
from kubesched.framework import Plugin, Status
from kubesched.offline import OfflineError, Result
from tests.build import (
    make_deployment,
    make_node,
    make_pdb,
    make_pod,
    make_priority_class,
    make_pv,
    make_pvc,
    make_storage_class,
)

#: What is no manifest at all.
ODD: list[Any] = [5, b"{}", None]
NODES = [make_node(name).capacity(cpu="4", memory="8Gi").dict() for name in ("n1", "n2")]


class TestInput:
    @pytest.mark.parametrize("form", ["dicts", "list", "json", "yaml", "file", "path", "folder", "mix"])
    def test_manifests_come_in_any_form(self, form: str, tmp_path: Path) -> None:
        node, pod = NODES[0], make_pod("web").cpu("1").dict()
        as_list = {"apiVersion": "v1", "kind": "List", "items": [node, pod]}
        text = yaml.safe_dump_all([node, pod])
        file = tmp_path / "all.yaml"
        file.write_text(text)
        forms: dict[str, Any] = {
            "dicts": [node, pod],
            "list": as_list,
            "json": json.dumps(as_list),
            "yaml": text,
            "file": str(file),
            "path": file,
            "folder": tmp_path,
            "mix": [node, json.dumps(pod)],
        }
        cluster = Cluster(forms[form])
        assert cluster.pending == ["default/web"]
        assert cluster.explain("web").best == ("n1",)

    @pytest.mark.parametrize("form", ["dict", "yaml", "file", "name", "full name", "workload", "typed"])
    def test_a_pod_comes_in_any_form(self, form: str, tmp_path: Path) -> None:
        pod = make_pod("web").cpu("1")
        file = tmp_path / "pod.yaml"
        file.write_text(yaml.safe_dump(pod.dict()))
        template = make_pod("t").label("app", "web").cpu("1")
        forms: dict[str, Any] = {
            "dict": pod.dict(),
            "yaml": yaml.safe_dump(pod.dict()),
            "file": str(file),
            "name": "web",
            "full name": "default/web",
            "workload": make_deployment("web").template(template).dict(),
            "typed": pod.obj(),
        }
        waiting = [pod.dict()] if "name" in form else []
        assert Cluster([*NODES, *waiting]).explain(forms[form]).best == ("n1", "n2")

    @pytest.mark.parametrize(
        ("ask", "says"),
        [
            pytest.param(lambda: Cluster("nowhere.yaml"), "nowhere.yaml: no such file or folder", id="no file"),
            pytest.param(lambda: Cluster(ODD[0]), "want a path, a text or objects as dicts, not int", id="number"),
            pytest.param(lambda: Cluster(NODES).schedule(ODD[0]), "objects as dicts, not int", id="scheduled number"),
            pytest.param(lambda: Cluster(NODES).explain(ODD[1]), "objects as dicts, not bytes", id="explained bytes"),
            pytest.param(lambda: Cluster(NODES).capacity(ODD[2]), "objects as dicts, not NoneType", id="no pod"),
            pytest.param(lambda: Cluster([{"kind": "Pod"}]), "apiVersion: is missing", id="no version"),
            pytest.param(
                lambda: Cluster([make_pod("web").cpu("a lot").dict()]),
                "spec.containers[0].resources.requests[cpu]",
                id="quantity",
            ),
            pytest.param(
                lambda: Cluster(NODES, config={"apiVersion": "v1", "kind": "Pod"}), "no kind", id="not a config"
            ),
            pytest.param(lambda: Cluster(NODES, config="no.yaml"), "open no.yaml", id="no config file"),
            pytest.param(lambda: Cluster(NODES).explain("web"), "no pod default/web in the cluster", id="no such pod"),
            pytest.param(lambda: Cluster(NODES).explain(NODES[0]), "something that makes pods", id="not a pod"),
            pytest.param(lambda: Cluster(NODES).explain(NODES), "2 objects (Node n1, Node n2, ...)", id="many"),
            pytest.param(
                lambda: Cluster(NODES).explain(make_pod("web").scheduler("other").dict()),
                "no profile is named 'other', the configuration has 'default-scheduler'",
                id="foreign scheduler",
            ),
            pytest.param(
                lambda: Cluster([*NODES, make_pod("web").node("n1").dict()]).explain("web"),
                "pod default/web is on node n1 already",
                id="placed",
            ),
            pytest.param(
                lambda: Cluster(NODES).schedule(make_pod("web").node("n1").dict()),
                "names its node already (spec.nodeName: 'n1')",
                id="names its node",
            ),
        ],
    )
    def test_what_is_wrong_is_said(self, ask: Any, says: str) -> None:
        with pytest.raises(KubeschedError) as caught:
            ask()
        assert says in str(caught.value)

    def test_extenders_are_refused(self) -> None:
        extender = {"urlPrefix": "http://localhost:8888/", "filterVerb": "filter", "weight": 1}
        with pytest.raises(OfflineError, match=r"extenders\[0\].urlPrefix: 'http://localhost:8888/'.*calls nobody"):
            Cluster(NODES, config=configured(extenders=[extender]))

    @pytest.mark.parametrize("form", ["dict", "yaml", "path"])
    def test_configurations_come_in_any_form(self, form: str, tmp_path: Path) -> None:
        config = configured(profiles=[{"schedulerName": "mine"}])
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        source: Any = {"dict": config, "yaml": yaml.safe_dump(config), "path": file}[form]
        assert Cluster(NODES, config=source).explain(make_pod("web").scheduler("mine").dict()).fits


class TestWhatCounts:
    def test_finished_pods_and_pods_on_missing_nodes_count_nowhere(self) -> None:
        cluster = Cluster(
            [
                NODES[0],
                make_pod("done").cpu("4").node("n1").phase("Succeeded").dict(),
                make_pod("failed").cpu("4").node("n1").phase("Failed").dict(),
                make_pod("lost").cpu("4").node("gone").dict(),
                make_pod("waits").cpu("4").dict(),
            ]
        )
        assert cluster.explain(make_pod("web").cpu("4").dict()).best == ("n1",)
        assert cluster.pending == ["default/waits"]

    def test_priorities_come_from_classes(self) -> None:
        low, high = make_priority_class("low", 1).dict(), make_priority_class("high", 100).dict()
        cluster = Cluster([NODES[0], low, high, make_pod("a").priority_class("low").cpu("3").node("n1").dict()])
        found = cluster.explain(make_pod("b").priority_class("high").cpu("3").dict())
        assert found.preemption is not None
        assert found.preemption.nominated_nodes == ("n1",)

    def test_workloads_become_pods(self) -> None:
        template = make_pod("t").label("app", "web").cpu("1")
        run = Cluster([*NODES, make_deployment("web").replicas(3).template(template).dict()]).run()
        assert len(run.placements) == 3
        assert set(run.placements.values()) <= {"n1", "n2"}


class TestExplain:
    def test_nothing_changes(self) -> None:
        cluster = Cluster([*NODES, make_pod("web").cpu("1").dict()], seed=3)
        twin = Cluster([*NODES, make_pod("web").cpu("1").dict()], seed=3)
        before = cluster.explain("web").to_dict()
        for _ in range(5):
            assert cluster.explain("web").to_dict() == before
        assert cluster.pending == ["default/web"]
        assert cluster.run().placements == twin.run().placements

    def test_details_give_the_numbers_and_the_pod_in_the_way(self) -> None:
        busy = make_pod("busy").cpu("3500m").host_port(80).node("n1").dict()
        found = Cluster([NODES[0], busy]).explain(make_pod("web").cpu("1").host_port(80).dict())
        assert found.details["n1"] == {
            "NodePorts": {"port": "TCP/80", "pod": "default/busy"},
            "NodeResourcesFit": {"cpu": {"asked": 1000, "used": 3500, "capacity": 4000}},
        }
        assert "details" not in found.to_dict()
        assert found.to_dict(details=True)["details"] == found.details

    def test_a_cluster_without_nodes(self) -> None:
        found = Cluster().explain(make_pod("web").dict())
        assert (found.message, found.to_dict()) == (
            "no nodes available to schedule pods",
            {"message": "no nodes available to schedule pods"},
        )

    def test_text_for_people(self) -> None:
        tainted = make_node("n3").capacity(cpu="4").taint("dedicated", "gpu").dict()
        text = str(Cluster([NODES[0], tainted]).explain(make_pod("web").cpu("8").dict()))
        assert "  n1: Insufficient cpu (NodeResourcesFit)" in text
        assert "  n3: node(s) had untolerated taint(s) (TaintToleration)" in text

    def test_a_plugin_from_outside_takes_part(self) -> None:
        class GpuModel(Plugin):
            name = "GpuModel"

            def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
                want = pod.metadata.annotations.get("gpu-model")
                return None if want in (None, node.labels.get("gpu-model")) else Status.unschedulable("wrong GPU model")

            def score(self, state: Any, pod: Any, node: Any) -> int:
                return 100 if node.name == "n2" else 0

        nodes = [make_node(f"n{i}").capacity(cpu="4").label("gpu-model", model).dict() for i, model in enumerate("abb")]
        cluster = Cluster(nodes, plugins=[GpuModel])
        found = cluster.explain(make_pod("train").annotation("gpu-model", "b").dict())
        assert found.best == ("n2",)
        assert found.filter_by_plugin is not None
        assert found.filter_by_plugin["GpuModel"]["n0"] == Status.unschedulable("wrong GPU model").of("GpuModel")
        assert found.scores is not None
        assert found.scores["n2"]["GpuModel"].weighted == 100

    def test_a_plugin_that_raises_is_an_error_with_its_name(self) -> None:
        class Broken(Plugin):
            name = "Broken"

            def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
                raise ZeroDivisionError("oops")

        found = Cluster(NODES, plugins=[Broken]).explain(make_pod("web").dict())
        assert found.error == 'running "Broken" filter plugin: ZeroDivisionError: oops'
        assert not found.fits

    def test_br_139_scores_are_shown_raw_normalised_and_weighted(self) -> None:
        nodes = [make_node(name).capacity(cpu="4", memory="8Gi").label("disk", name).dict() for name in ("n1", "n2")]
        pod = make_pod("web").cpu("1")
        for name, weight in (("n1", 10), ("n2", 5)):
            pod.preferred_node_affinity(weight, ("disk", "In", [name]))
        scores = Cluster(nodes).explain(pod.dict()).scores
        assert scores is not None
        shown = {name: scores[name]["NodeAffinity"] for name in ("n1", "n2")}
        assert {name: (each.raw, each.normalized, each.weighted) for name, each in shown.items()} == {
            "n1": (10, 100, 200),
            "n2": (5, 50, 100),
        }

    def test_br_141_an_explanation_of_many_nodes_is_complete(self) -> None:
        nodes = [make_node(f"n{number}").capacity(cpu="4", memory="8Gi").dict() for number in range(1000)]
        told = Cluster(nodes).explain(make_pod("web").cpu("1").dict())
        assert told.scores is not None and told.filter is not None and told.best is not None
        assert (len(told.scores), len(told.filter), len(told.best)) == (1000, 1000, 1000)


class TestSchedule:
    def test_the_cluster_holds_the_pod_from_then_on(self) -> None:
        cluster = Cluster([NODES[0]])
        first = cluster.schedule(make_pod("a").cpu("3").dict())
        assert (first.node, first.result, bool(first)) == ("n1", Result.SCHEDULED, True)
        assert cluster.placements == {"default/a": "n1"}
        second = cluster.schedule(make_pod("b").cpu("3").dict())
        assert not second
        assert second.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert cluster.pending == ["default/b"]

    def test_other_waiting_pods_are_left_alone(self) -> None:
        cluster = Cluster([NODES[0], make_pod("waits").cpu("1").priority(100).dict()])
        assert cluster.schedule(make_pod("now").cpu("1").dict()).node == "n1"
        assert cluster.pending == ["default/waits"]

    def test_a_gated_pod_stays_where_it_is(self) -> None:
        cluster = Cluster(NODES)
        outcome = cluster.schedule(make_pod("held").gate("quota").dict())
        assert (outcome.result, outcome.message) == (Result.GATED, "waiting for scheduling gates: [quota]")
        assert cluster.run().pending == {"default/held": "waiting for scheduling gates: [quota]"}

    def test_preemption_makes_room(self) -> None:
        low = make_pod("low").cpu("3").node("n1").dict()
        outcome = Cluster([NODES[0], low]).schedule(make_pod("high").cpu("3").priority(10).dict())
        assert (outcome.node, outcome.victims, outcome.attempts) == ("n1", ("default/low",), 2)

    def test_volumes_are_bound_and_provisioned(self) -> None:
        late = make_storage_class("late").provisioner("csi.example.com").wait_for_first_consumer().dict()
        claims = [
            make_pvc(name).storage_class("late").request("1Gi").dict() for name in ("from-volume", "made-to-order")
        ]
        volume = make_pv("small").storage_class("late").capacity("1Gi").dict()
        pod = make_pod("db").pvc("from-volume").pvc("made-to-order").dict()
        cluster = Cluster([*NODES, late, *claims, volume])
        assert cluster.schedule(pod)
        again = cluster.explain(make_pod("db-2").pvc("from-volume").pvc("made-to-order").dict())
        assert again.fits
        assert again.volumes is None  # both claims are bound by now

    def test_same_seed_same_answer(self) -> None:
        nodes = [make_node(f"n{number}").capacity(cpu="4").dict() for number in range(20)]
        pods = [make_pod(f"p{number}").cpu("100m").dict() for number in range(20)]
        runs = [Cluster([*nodes, *pods], seed=seed).run().placements for seed in (1, 1, 2)]
        assert runs[0] == runs[1]
        assert runs[0] != runs[2]


class TestRun:
    def test_in_order_of_priority(self) -> None:
        pods = [make_pod(f"p{priority}").cpu("2").priority(priority).dict() for priority in (1, 3, 2)]
        run = Cluster([NODES[0], *pods]).run()
        assert [(outcome.pod, outcome.node) for outcome in run] == [
            ("default/p3", "n1"),
            ("default/p2", "n1"),
            ("default/p1", ""),
        ]

    def test_preempted_pods_are_told_apart(self) -> None:
        """Higher priorities come first by themselves, so the victim was placed before they were there."""
        cluster = Cluster([NODES[0], make_pod("low").cpu("3").dict()])
        assert cluster.run().placements == {"default/low": "n1"}
        outcome = cluster.schedule(make_pod("high").cpu("3").priority(10).dict())
        assert outcome.victims == ("default/low",)
        assert cluster.placements == {"default/high": "n1"}

    def test_budgets_and_policies_are_heeded(self) -> None:
        low = make_pod("low").label("app", "db").cpu("3").node("n1").dict()
        protected = make_pod("other").cpu("3").node("n2").dict()
        budget = make_pdb("keep").selector({"app": "db"}).allowed(0).dict()
        meek = make_pod("meek").cpu("3").priority(10).preemption_policy("Never").dict()
        cluster = Cluster([*NODES, low, protected, budget, meek])
        assert list(cluster.run().pending) == ["default/meek"]
        bold = cluster.schedule(make_pod("bold").cpu("3").priority(10).dict())
        assert (bold.node, bold.victims) == ("n2", ("default/other",))

    def test_a_pod_wakes_when_another_makes_it_fit(self) -> None:
        wants = make_pod("wants").pod_affinity("zone", {"app": "web"}).priority(100).dict()
        web = make_pod("web").label("app", "web").dict()
        run = Cluster([make_node("n1").capacity(cpu="4").label("zone", "a").dict(), wants, web]).run()
        assert run.placements == {"default/web": "n1", "default/wants": "n1"}
        assert [outcome.attempts for outcome in run] == [1, 2]

    def test_errors_are_given_up_after_a_while(self) -> None:
        class Broken(Plugin):
            name = "Broken"

            def reserve(self, state: Any, pod: Any, node_name: str) -> Status | None:
                return Status.error("no more licences")

        run = Cluster([*NODES, make_pod("web").dict()], plugins=[Broken]).run()
        (outcome,) = run
        assert (outcome.result, outcome.attempts) == (Result.ERROR, 5)
        assert outcome.message == 'running Reserve plugin "Broken": no more licences'
        assert 15.0 <= run.duration_s < 20.0  # 1 + 2 + 4 + 8 seconds of backoff, in whole windows

    def test_a_pod_that_is_being_deleted_is_left_alone(self) -> None:
        run = Cluster([*NODES, make_pod("going").deleting().dict()]).run()
        assert [(each.result, each.message) for each in run.outcomes] == [
            (Result.UNSCHEDULABLE, "the pod is being deleted")
        ]

    def test_a_binding_that_never_ends_is_an_error(self) -> None:
        class Stuck(Plugin):
            name = "Stuck"

            async def pre_bind(self, state: Any, pod: Any, node_name: str) -> None:
                await asyncio.Event().wait()

        outcome = Cluster(NODES, plugins=[Stuck]).schedule(make_pod("web").dict())
        assert (outcome.result, outcome.node) == (Result.ERROR, "")
        assert outcome.message == "a plugin does not let its binding come to an end"

    def test_permit_waits_in_virtual_time(self) -> None:
        class Pair(Plugin):
            """Lets pods go two at a time."""

            name = "Pair"

            def permit(self, state: Any, pod: Any, node_name: str) -> Any:
                waiting = list(self.handle.waiting_pods)
                if not waiting:
                    return Status.wait(), 60.0
                for other in waiting:
                    other.allow(self.name)
                return None, 0.0

        pods = [make_pod(name).dict() for name in ("a", "b", "c")]
        run = Cluster([NODES[0], *pods], plugins=[Pair]).run()
        assert set(run.placements) == {"default/a", "default/b"}
        assert run.pending["default/c"].startswith(
            "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s"
        )
        assert run.duration_s >= 60.0

    def test_a_run_can_be_repeated_with_more(self) -> None:
        cluster = Cluster([NODES[0], make_pod("a").cpu("3").dict(), make_pod("b").cpu("3").dict()])
        assert len(cluster.run().placements) == 1
        assert cluster.run().placements == {}
        assert len(cluster.pending) == 1

    async def test_inside_a_running_loop(self) -> None:
        """As in a notebook. The loop around goes on as if nothing had been."""
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        me, before = asyncio.current_task(), ticks
        cluster = Cluster([*NODES, make_pod("a").cpu("1").dict()])
        assert cluster.schedule(make_pod("b").cpu("1").dict())
        assert len(cluster.run().placements) == 1
        assert (asyncio.current_task(), ticks) == (me, before)
        await asyncio.sleep(0)
        assert ticks == before + 1
        ticking.cancel()


class TestHints:
    @pytest.mark.parametrize(
        ("event", "says"),
        [
            pytest.param({"resource": "Node", "action": "Add", "new": NODES[1]}, "Queue", id="room"),
            pytest.param(
                {"resource": "Node", "action": "Add", "new": make_node("n3").capacity(cpu="1").dict()},
                "Skip",
                id="too small",
            ),
            pytest.param(
                {
                    "resource": "Node",
                    "action": "Update",
                    "old": make_node("n2").capacity(cpu="1", memory="8Gi").dict(),
                    "new": NODES[1],
                },
                "Queue",
                id="grown",
            ),
            pytest.param(
                {"resource": "Service", "action": "Add", "new": {"metadata": {"name": "s", "namespace": "default"}}},
                None,
                id="does not listen",
            ),
            pytest.param(
                {"resource": "Node", "action": "Update", "actionTypes": [], "old": NODES[1], "new": NODES[1]},
                None,
                id="nothing happened",
            ),
        ],
    )
    def test_the_event_is_found_out_from_the_objects(self, event: dict[str, Any], says: str | None) -> None:
        cluster = Cluster([NODES[1]])
        assert cluster.queueing_hint("NodeResourcesFit", make_pod("web").cpu("3").dict(), event) == says

    def test_events_that_make_no_sense_are_refused(self) -> None:
        with pytest.raises(OfflineError, match=r"event\.resource: 'Nodes' is no kind"):
            Cluster(NODES).queueing_hint("NodeName", make_pod("web").dict(), {"resource": "Nodes", "action": "Add"})
        with pytest.raises(OfflineError, match=r"event\.action"):
            Cluster(NODES).queueing_hint(
                "NodeName", make_pod("web").dict(), {"resource": "Node", "action": "Moved", "new": NODES[0]}
            )


def configured(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}
