"""ImageLocality."""

from __future__ import annotations

import pytest

from kubesched.plugins import image_locality
from tests.build import PodBuilder, make_node, make_pod
from tests.plugins.rig import Rig, registered

MIB = 1024 * 1024


def running(*images: str) -> PodBuilder:
    pod = make_pod()
    for image in images:
        pod.container(image=image)
    return pod


def points(total_mib: float, containers: int = 1) -> int:
    """100 * (total - 23) / (1000 * containers - 23), cut; by hand in MiB."""
    return int(100 * (min(max(total_mib, 23), 1000 * containers) - 23) // (1000 * containers - 23))


@pytest.mark.parametrize(
    ("images", "pod", "raw"),
    [
        pytest.param({"n1": {"a:1": 500}}, running("a:1"), [points(125), 0, 0, 0], id="on-one-of-four"),
        pytest.param(
            {name: {"a:1": 500} for name in ("n1", "n2", "n3", "n4")}, running("a:1"), [points(500)] * 4, id="on-all"
        ),
        pytest.param({"n1": {"a:1": 80}}, running("a:1"), [0, 0, 0, 0], id="20-mib-after-scaling-are-nothing"),
        pytest.param({"n1": {"a:1": 160}}, running("a:1"), [1, 0, 0, 0], id="40-mib-are-something"),
        pytest.param({"n1": {"a:1": 4000}}, running("a:1"), [100, 0, 0, 0], id="at-the-ceiling"),
        pytest.param({"n1": {"a:1": 9000}}, running("a:1"), [100, 0, 0, 0], id="beyond-the-ceiling"),
        pytest.param({"n1": {"a:1": 500}}, running("b:1"), [0, 0, 0, 0], id="another-image"),
        pytest.param(
            {"n1": {"a:1": 500, "b:1": 900}, "n2": {"a:1": 500}},
            running("a:1", "b:1"),
            [points(250 + 225, 2), points(250, 2), 0, 0],
            id="two-containers",
        ),
        pytest.param(
            {"n1": {"a:1": 500}}, running("a:1", "a:1"), [points(250, 2), 0, 0, 0], id="named-twice-counts-twice"
        ),
        pytest.param(
            {"n1": {"a:1": 500}},
            running("b:1").init_container(image="a:1"),
            [points(125, 2), 0, 0, 0],
            id="init-containers-count",
        ),
        pytest.param(
            {"n1": {"a:1": 500, "v:1": 1200}},
            running("a:1").image_volume("v:1"),
            [points(425), 0, 0, 0],
            id="image-volumes-add-no-ceiling",
        ),
        pytest.param({"n1": {"nginx:latest": 500}}, running("nginx"), [points(125), 0, 0, 0], id="no-tag-means-latest"),
        pytest.param({"n1": {"nginx": 500}}, running("nginx"), [0, 0, 0, 0], id="as-the-node-spells-it"),
    ],
)
def test_score(images: dict[str, dict[str, int]], pod: PodBuilder, raw: list[int]) -> None:
    nodes = []
    for name in ("n1", "n2", "n3", "n4"):
        node = make_node(name)
        for image, size_mib in images.get(name, {}).items():
            node.image(image, size_mib * MIB)
        nodes.append(node)
    rig = Rig(nodes)
    assert list(rig.raw(rig.plugin("ImageLocality"), pod).values()) == raw
    table = rig.state.nodes
    assert [image_locality.score(pod.obj(), info.name, table) for info in table.infos] == raw


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        pytest.param("nginx", "nginx:latest", id="bare"),
        pytest.param("nginx:1", "nginx:1", id="tag"),
        pytest.param("registry:5000/nginx", "registry:5000/nginx:latest", id="port-is-no-tag"),
        pytest.param("registry:5000/nginx:1", "registry:5000/nginx:1", id="port-and-tag"),
        pytest.param("nginx@sha256:0a", "nginx@sha256:0a", id="digest"),
        pytest.param("", ":latest", id="empty"),
    ],
)
def test_names(name: str, normalized: str) -> None:
    assert image_locality.normalized(name) == normalized


def test_all_names_of_an_image_count() -> None:
    rig = Rig([make_node("n1").image("a:1", 4000 * MIB, "a@sha256:0a"), make_node("n2")])
    assert rig.raw(rig.plugin("ImageLocality"), running("a@sha256:0a")) == {"n1": 100, "n2": 0}


def test_score_follows_nodes_that_come_and_go() -> None:
    rig = Rig([make_node("n1"), make_node("n2").image("a:1", 500 * MIB)])
    plugin = rig.plugin("ImageLocality")
    assert rig.raw(plugin, running("a:1")) == {"n1": 0, "n2": points(250)}
    rig.state.set_node(make_node("n3").image("a:1", 500 * MIB).obj())
    assert rig.raw(plugin, running("a:1")) == {"n1": 0, "n2": points(1000 / 3), "n3": points(1000 / 3)}
    rig.state.remove_node("n1")
    assert rig.raw(plugin, running("a:1")) == {"n2": points(500), "n3": points(500)}
    rig.state.set_node(make_node("n2").obj())
    assert rig.raw(plugin, running("a:1")) == {"n2": 0, "n3": points(250)}


def test_of_two_images_with_one_name_the_first_counts() -> None:
    rig = Rig([make_node("n1").image("a:1", 500 * MIB).image("a:1", 900 * MIB), make_node("n2")])
    assert rig.raw(rig.plugin("ImageLocality"), running("a:1")) == {"n1": points(250), "n2": 0}


def test_an_image_is_as_large_as_the_first_of_its_nodes_says_now() -> None:
    rig = Rig([make_node("n1").image("a:1", 500 * MIB), make_node("n2")])
    plugin = rig.plugin("ImageLocality")
    rig.state.set_node(make_node("n1").image("a:1", 900 * MIB).obj())
    assert rig.raw(plugin, running("a:1")) == {"n1": points(450), "n2": 0}
    rig.state.set_node(make_node("n2").image("a:1", 300 * MIB).obj())
    rig.state.set_node(make_node("n1").image("a:1", 100 * MIB).obj())
    assert rig.raw(plugin, running("a:1")) == {"n1": points(900), "n2": points(900)}, "while another node has it"


def test_sums_never_wrap() -> None:
    rig = Rig([make_node("n1").image("a:1", 2**63 - 1), make_node("n2")])
    assert rig.raw(rig.plugin("ImageLocality"), running("a:1", "a:1", "a:1")) == {"n1": 100, "n2": 0}


def test_no_change_turns_around_what_is_only_scored() -> None:
    assert registered(Rig().plugin("ImageLocality")) == set()
