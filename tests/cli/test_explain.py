"""`kubesched explain`: tables for people, JSON and YAML for machines."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from kubesched import Cluster
from kubesched.cli.main import main
from kubesched.cli.render_explanation import amount, show
from tests.build import make_node, make_pod, make_pv, make_pvc, make_storage_class
from tests.conformance import packed

OBJECTS = [
    make_node("n1").capacity(cpu="4", memory="8Gi").label("disk", "ssd").dict(),
    make_node("n2").capacity(cpu="4", memory="8Gi").taint("dedicated", "gpu").dict(),
    make_node("n3").capacity(cpu="4", memory="8Gi").label("disk", "ssd").dict(),
    make_node("n4").capacity(cpu="4", memory="8Gi").label("disk", "hdd").dict(),
    make_pod("busy").cpu("3500m").host_port(80).node("n1").dict(),
]
WEB = make_pod("web").cpu("1").memory("1536Mi").host_port(80).node_selector({"disk": "ssd"})


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*OBJECTS, WEB.dict()]))
    return file


def table(pod: object, *objects: object) -> str:
    return shown(Cluster([*OBJECTS, *objects]), pod, 240)  # type: ignore[list-item]


def shown(cluster: Cluster, pod: object, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    show(cluster.explain(pod), console)  # type: ignore[arg-type]
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


class TestTable:
    def test_where_to_why_not_elsewhere_and_with_what_numbers(self) -> None:
        text = table(WEB.dict())
        assert "default/web: would go to n3 (1 of 4 nodes fit)" in text
        assert "n1: TCP/80 is held by default/busy" in text
        assert "n2: dedicated=gpu:NoSchedule" in text
        assert "n4: disk=ssd asked, has hdd" in text
        assert "TaintToleration" in text
        assert "3x100 (0)" in text

    def test_numbers_of_what_is_short(self) -> None:
        text = table(make_pod("big").cpu("2500m").memory("9Gi").dict())
        assert "cpu asked 2.5, used 3.5 of 4" in text
        assert "memory asked 9Gi, used 0 of 8Gi" in text

    def test_what_preemption_would_do(self) -> None:
        filler = [make_pod(f"low-{name}").cpu("3").node(name).dict() for name in ("n3", "n4")]
        text = table(make_pod("vip").cpu("3").priority(10).dict(), *filler)
        assert "preemption: would make room on one of n1, n3, n4" in text
        assert "default/low-n3" in text

    def test_why_the_winner_won(self) -> None:
        nodes = [make_node(name).capacity(cpu="4").dict() for name in ("a", "b")]
        low = [make_pod(f"low-{n}").cpu("4").priority(p).node(n).dict() for n, p in (("a", 5), ("b", 1))]
        console = Console(file=io.StringIO(), width=240)
        show(Cluster([*nodes, *low]).explain(make_pod("vip").cpu("3").priority(10).dict()), console)
        text: str = console.file.getvalue()  # type: ignore[attr-defined]
        assert "preemption: would make room on b (lowest highest priority among victims)" in text

    def test_the_pod_whose_anti_affinity_repels(self) -> None:
        hermit = make_pod("hermit").node("n3").pod_anti_affinity("kubernetes.io/hostname", {"app": "web"})
        text = table(make_pod("p").label("app", "web").dict(), hermit.dict())
        assert "n3: repelled by default/hermit (topologyKey kubernetes.io/hostname, selector app=web" in text

    def test_the_spread_constraint_with_the_counts_by_domain(self) -> None:
        placed = make_pod("one").label("app", "s").node("n3").dict()
        asked = make_pod("p").label("app", "s").spread("disk", {"app": "s"}).dict()
        text = table(asked, placed)
        assert "n3: disk=ssd has 1 pods, the emptiest has 0, at most 1 apart (hdd: 0, ssd: 1)" in text
        assert "n2: lacks the label disk" in text or "n2: dedicated=gpu:NoSchedule" in text

    def test_what_the_pod_itself_is_rejected_for_leaves_preemption_out(self) -> None:
        text = table(make_pod("p").pvc("missing").dict())
        assert 'persistentvolumeclaim "missing" not found' in text
        assert "preemption: not tried, for it is the pod itself that is rejected" in text

    def test_preemption_that_helps_nobody(self) -> None:
        assert "4 Preemption is not helpful for scheduling" in table(make_pod("huge").cpu("64").dict())

    def test_gates_errors_and_volumes(self) -> None:
        assert "held back by SchedulingGates: waiting for scheduling gates: [quota]" in table(
            make_pod("held").gate("quota").dict()
        )
        late = make_storage_class("late").provisioner("csi.example.com").wait_for_first_consumer().dict()
        claims = [make_pvc(name).storage_class("late").request("1Gi").dict() for name in ("a", "b")]
        volume = make_pv("disk").storage_class("late").capacity("1Gi").dict()
        text = table(make_pod("db").pvc("a").pvc("b").dict(), late, *claims, volume)
        assert "a to disk" in text or "b to disk" in text

    def test_many_nodes_are_counted(self) -> None:
        nodes = [make_node(f"small-{number:02}").capacity(cpu="1").dict() for number in range(30)]
        text = table(make_pod("big").cpu("3").dict(), *nodes)
        assert "and 20 more" in text

    @pytest.mark.parametrize("width", [60, 80, 200])
    def test_names_stay_whole_on_any_terminal(self, width: int) -> None:
        names = [f"ip-10-0-12-{number}.eu-central-1.compute.internal" for number in range(3)]
        nodes = [make_node(name).capacity(cpu="4").dict() for name in names]
        low = [make_pod(f"worker-5c9c8f7b6d-{number}").cpu("3").node(name).dict() for number, name in enumerate(names)]
        vip = make_pod("vip").cpu("3").priority(10).dict()
        text = shown(Cluster([*nodes, *low]), vip, width)
        rejected, _, helps = text.partition("Where preemption would help")
        assert all(f" {name}: " in rejected for name in names) and "NodeResourcesFit" in rejected
        assert all(f" {name} " in helps for name in names)
        assert all(f" default/worker-5c9c8f7b6d-{number} " in helps for number in range(3))
        scores = shown(Cluster(nodes), vip, width).partition("Scores: ")[2]
        assert " NodeResourcesBalancedAllocation " in scores
        seen = [name for name in names if f" {name} " in scores]
        assert seen == (names if width == 200 else names[:1])
        assert ("the best of 3 nodes" in scores) == (width < 200)

    @pytest.mark.parametrize("family", ["kitchen-sink", "preempt-pdb", "volume-wait", "volume-limits"])
    def test_every_recorded_decision_can_be_shown(self, family: str) -> None:
        for case in packed.cases(family):
            console = Console(file=io.StringIO(), width=100)
            show(Cluster(case["objects"], config=case.get("config")).explain(case["pod"]), console)
            assert console.file.getvalue().startswith(f"{case['pod']['metadata']['namespace']}/")  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("resource", "value", "text"),
        [
            ("cpu", 2500, "2.5"),
            ("cpu", 100, "0.1"),
            ("memory", 1610612736, "1.5Gi"),
            ("memory", 5 << 20, "5Mi"),
            ("memory", 100, "100"),
            ("hugepages-2Mi", 4 << 20, "4Mi"),
            ("example.com/gpu", 3, "3"),
        ],
    )
    def test_amounts(self, resource: str, value: int, text: str) -> None:
        assert amount(resource, value) == text


class TestCommand:
    def test_json_is_the_recorded_shape(self, cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "-f", str(cluster), "--pod", "web", "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found == Cluster(cluster).explain("web").to_dict()
        assert found["best"] == ["n3"]

    def test_yaml_with_details(self, cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "-f", str(cluster), "--pod", "default/web", "-o", "yaml", "--details"]) == 0
        found = yaml.safe_load(capsys.readouterr().out)
        assert found["pod"] == "default/web"
        assert found["details"]["n1"]["NodePorts"] == {"port": "TCP/80", "pod": "default/busy"}

    def test_a_pod_from_a_file_and_from_stdin(
        self, cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pod = make_pod("new").cpu("1")
        file = tmp_path / "pod.json"
        file.write_bytes(pod.json())
        assert main(["explain", "-f", str(cluster), "--pod", str(file)]) == 0
        assert "default/new: would go to" in capsys.readouterr().out
        monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(pod.dict())))
        assert main(["explain", "-f", str(cluster), "--pod", "-"]) == 0
        assert "default/new: would go to" in capsys.readouterr().out

    def test_a_plugin_from_a_file(self, cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "never.py"
        file.write_text(
            "from kubesched.framework import Plugin, Status\n"
            "class Never(Plugin):\n"
            "    name = 'Never'\n"
            "    def filter(self, state, pod, node):\n"
            "        return Status.unschedulable('not today')\n"
        )
        assert main(["explain", "-f", str(cluster), "--pod", "web", "--plugin", f"{file}:Never"]) == 0
        assert "1 not today" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            pytest.param(["--pod", "nobody"], "no pod default/nobody in the cluster", id="no such pod"),
            pytest.param(["--pod", "web", "--config", "nowhere.yaml"], "nowhere.yaml", id="no such config"),
        ],
    )
    def test_what_is_wrong_is_one_line(
        self, cluster: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
    ) -> None:
        assert main(["explain", "-f", str(cluster), *arguments]) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1
