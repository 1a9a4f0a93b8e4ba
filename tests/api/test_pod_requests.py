from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.errors import QuantityError
from kubesched.api.pod_requests import (
    NON_MISSING_REQUESTS,
    is_resize_infeasible,
    node_share,
    pending_requests,
    pod_requests,
)
from tests.build import PodBuilder, make_pod

GI = 1024**3
MI = 1024**2


@pytest.mark.parametrize(
    ("pod", "requests"),
    [
        pytest.param(make_pod(), {}, id="nothing asked for"),
        pytest.param(
            make_pod().container(requests={"cpu": "100m", "memory": "1Gi"}).container(requests={"cpu": "0.5"}),
            {"cpu": 600, "memory": GI},
            id="containers add up",
        ),
        pytest.param(make_pod().requests(**{"example.com/gpu": 0}), {"example.com/gpu": 0}, id="a request of zero"),
        pytest.param(
            make_pod().container(requests={"cpu": "1.0001"}).container(requests={"cpu": "1.0001"}),
            {"cpu": 2001},
            id="rounded once, at the end",
        ),
        # BR-01, BR-02
        pytest.param(make_pod().container().memory("50E").container().memory("50E"), {"memory": 10**20}, id="huge"),
        pytest.param(make_pod().cpu("9223372036854775807"), {"cpu": (2**63 - 1) * 1000}, id="huge cpu"),
        # BR-10
        pytest.param(
            make_pod()
            .init_container(requests={"cpu": 3})
            .init_container(requests={"cpu": 2})
            .container(requests={"cpu": 1})
            .container(requests={"cpu": 1}),
            {"cpu": 3000},
            id="init containers: the maximum",
        ),
        pytest.param(
            make_pod()
            .init_container(requests={"cpu": 3, "memory": "1Gi"})
            .container(requests={"cpu": 2, "memory": "4Gi"}),
            {"cpu": 3000, "memory": 4 * GI},
            id="init containers: each resource by itself",
        ),
        # BR-11
        pytest.param(
            make_pod()
            .sidecar(requests={"cpu": "100m"})
            .init_container(requests={"cpu": "500m"})
            .sidecar(requests={"cpu": "200m"})
            .container(requests={"cpu": "250m"}),
            {"cpu": 600},
            id="sidecars count under the init containers behind them",
        ),
        pytest.param(
            make_pod()
            .init_container(requests={"cpu": "500m"})
            .sidecar(requests={"cpu": "100m"})
            .sidecar(requests={"cpu": "200m"})
            .container(requests={"cpu": "250m"}),
            {"cpu": 550},
            id="sidecars do not count under those before them",
        ),
        pytest.param(
            make_pod().container(requests={"cpu": "250m"}).overhead(cpu="50m", memory="10Mi"),
            {"cpu": 300, "memory": 10 * MI},
            id="overhead",
        ),
        pytest.param(
            make_pod()
            .container(requests={"cpu": 1, "example.com/gpu": 1})
            .pod_requests(cpu=3, **{"hugepages-2Mi": "4Mi"}),
            {"cpu": 3000, "example.com/gpu": 1, "hugepages-2Mi": 4 * MI},
            id="pod-level requests take the place of the sum",
        ),
        pytest.param(
            make_pod().container(requests={"cpu": 5}).pod_requests(cpu=3).overhead(cpu=1),
            {"cpu": 4000},
            id="overhead comes on top of pod-level requests",
        ),
        pytest.param(
            make_pod().container(requests={"example.com/gpu": 1}).pod_requests(**{"example.com/gpu": 4}),
            {"example.com/gpu": 1},
            id="other resources have no pod level",
        ),
    ],
)
def test_of_the_spec(pod: PodBuilder, requests: dict[str, int]):
    assert pod_requests(pod.obj()) == requests
    assert pending_requests(pod.obj()) == requests


def test_pods_of_one_template_have_one_share():
    one, twin = (make_pod(name).container(requests={"cpu": "100m"}).container().obj() for name in ("one", "twin"))
    assert node_share(one) is node_share(twin)
    assert pending_requests(one) is pending_requests(twin) is node_share(one).requests
    assert node_share(one) == ({"cpu": 100}, 200, 400 * MI)


def resized(spec: str, *, actual: str | None, allocated: str | None, reason: str = "") -> PodBuilder:
    """A running pod of one container whose cpu is being changed."""
    pod = make_pod().container("app", requests={"cpu": spec}).node("n1").phase("Running")
    pod.container_status(
        "app",
        actual=None if actual is None else {"cpu": actual},
        allocated=None if allocated is None else {"cpu": allocated},
    )
    return pod.condition("PodResizePending", reason=reason) if reason else pod


@pytest.mark.parametrize(
    ("pod", "cpu_milli"),
    [
        # BR-13
        pytest.param(resized("1", actual="1", allocated="3"), 3000, id="shrinking: what is allocated"),
        pytest.param(resized("3", actual="1", allocated="1", reason="Deferred"), 3000, id="growing: what is wanted"),
        pytest.param(resized("3", actual="2", allocated="1", reason="Infeasible"), 2000, id="infeasible: not the spec"),
        pytest.param(resized("1", actual="3", allocated="2"), 3000, id="what is really there"),
        pytest.param(resized("1", actual="1", allocated="1"), 1000, id="done"),
        pytest.param(resized("1", actual=None, allocated="3"), 1000, id="a status without resources says nothing"),
        pytest.param(
            make_pod()
            .container("app", requests={"cpu": 1})
            .init_container("prep", requests={"cpu": 2})
            .container_status("prep", actual={"cpu": "8"}, init=True),
            2000,
            id="plain init containers are not resized",
        ),
        pytest.param(
            make_pod()
            .container("app", requests={"cpu": 1})
            .sidecar("proxy", requests={"cpu": 2})
            .container_status("proxy", actual={"cpu": "8"}, init=True),
            9000,
            id="sidecars are",
        ),
        pytest.param(
            make_pod().container(requests={"cpu": 1}).pod_requests(cpu=2).pod_status_resources(actual={"cpu": 4}),
            4000,
            id="pod level: what is really there",
        ),
        pytest.param(
            make_pod()
            .container(requests={"cpu": 1})
            .pod_requests(cpu=2)
            .pod_status_resources(actual={"cpu": 1}, allocated={"cpu": 3}),
            3000,
            id="pod level: what is allocated",
        ),
        pytest.param(
            make_pod().container(requests={"cpu": 1}).pod_requests(cpu=2).pod_status_resources(allocated={"cpu": 4}),
            2000,
            id="pod level: allocated alone says nothing",
        ),
        pytest.param(
            make_pod()
            .container(requests={"cpu": 1})
            .pod_requests(cpu=9)
            .pod_status_resources(actual={"cpu": 2}, allocated={"cpu": 3})
            .condition("PodResizePending", reason="Infeasible"),
            3000,
            id="pod level: infeasible",
        ),
    ],
)
def test_on_a_node_a_resize_counts_with_its_maximum(pod: PodBuilder, cpu_milli: int):
    assert pod_requests(pod.obj(), use_status_resources=True)["cpu"] == cpu_milli
    assert node_share(pod.obj()).requests["cpu"] == cpu_milli


def test_statuses_are_left_alone_unless_asked_for():
    assert pod_requests(resized("1", actual="1", allocated="3").obj()) == {"cpu": 1000}


FULL = (
    make_pod()
    .container(requests={"cpu": 1, "memory": "1Gi"})
    .pod_requests(cpu=3)
    .overhead(cpu="250m")
    .pod_status_resources(actual={"cpu": 4})
)


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        pytest.param({}, {"cpu": 3250, "memory": GI}, id="none"),
        pytest.param({"skip_pod_level_resources": True}, {"cpu": 1250, "memory": GI}, id="containers only"),
        pytest.param({"skip_container_level_resources": True}, {"cpu": 3250}, id="pod level only"),
        pytest.param({"exclude_overhead": True}, {"cpu": 3000, "memory": GI}, id="without overhead"),
        pytest.param({"use_status_resources": True}, {"cpu": 4250, "memory": GI}, id="with statuses"),
        pytest.param(
            {"use_status_resources": True, "in_place_pod_level_resources": False},
            {"cpu": 3250, "memory": GI},
            id="with the statuses of containers only",
        ),
    ],
)
def test_options(options: dict[str, Any], requests: dict[str, int]):
    assert pod_requests(FULL.obj(), **options) == requests


@pytest.mark.parametrize(
    ("pod", "requests"),
    [
        pytest.param(make_pod(), {"cpu": 100, "memory": 200 * MI}, id="one container that names nothing"),
        pytest.param(
            make_pod().container(requests={"cpu": 0}).container(requests={"memory": "1Gi"}),
            {"cpu": 100, "memory": 200 * MI + GI},
            id="a request of zero is named",
        ),
        pytest.param(
            make_pod().init_container(requests={"cpu": 2}).container(),
            {"cpu": 2000, "memory": 200 * MI},
            id="init containers too",
        ),
        pytest.param(
            make_pod().sidecar().container(), {"cpu": 200, "memory": 400 * MI}, id="each container, sidecars among them"
        ),
    ],
)
def test_assumed_for_containers_that_name_nothing(pod: PodBuilder, requests: dict[str, int]):
    assert pod_requests(pod.obj(), non_missing_container_requests=NON_MISSING_REQUESTS) == requests


@pytest.mark.parametrize(
    ("pod", "nonzero"),
    [
        pytest.param(make_pod(), (100, 200 * MI), id="nothing asked for"),
        pytest.param(make_pod().cpu(1), (1000, 200 * MI), id="memory assumed"),
        pytest.param(make_pod().requests(cpu=1, memory="1Gi"), (1000, GI), id="nothing to assume"),
        pytest.param(make_pod().requests(cpu=0, memory=0), (0, 0), id="zero is not missing"),
        pytest.param(
            make_pod().container().container(requests={"cpu": 1}), (1100, 400 * MI), id="by container, not by pod"
        ),
        pytest.param(
            make_pod().container().container().pod_requests(cpu=1, memory="1Gi"), (1000, GI), id="pod-level requests"
        ),
        pytest.param(
            make_pod().container(requests={"memory": "1Gi"}).container().pod_requests(cpu=1),
            (1000, GI),
            id="pod-level requests: what some container names is not assumed for others",
        ),
        pytest.param(
            make_pod().container().container().pod_requests(cpu=1),
            (1000, 400 * MI),
            id="pod-level requests: what the whole pod leaves out is",
        ),
        pytest.param(
            make_pod()
            .container("app", requests={"cpu": 1, "memory": "1Gi"})
            .container_status("app", actual={"cpu": 2})
            .condition("PodResizePending", reason="Infeasible"),
            (2000, 200 * MI),
            id="infeasible resize that leaves a resource without any report",
        ),
    ],
)
def test_nonzero_share(pod: PodBuilder, nonzero: tuple[int, int]):
    share = node_share(pod.obj())
    assert (share.nonzero_cpu_milli, share.nonzero_memory_bytes) == nonzero


def test_node_share_without_the_pod_level_gate():
    pod = make_pod().cpu(1).pod_requests(cpu=3, memory="3Gi").obj()
    assert node_share(pod, pod_level_resources=False) == ({"cpu": 1000}, 1000, 200 * MI)


def test_claims_on_the_allocatable_of_a_node():
    builder = make_pod().cpu(1)
    builder._in("status")["nodeAllocatableResourceClaimStatuses"] = [
        {"resourceClaimName": "c", "resources": {"cpu": "500m", "memory": "1Gi"}}
    ]
    assert pod_requests(builder.obj()) == {"cpu": 1000}
    assert pod_requests(builder.obj(), use_claim_statuses=True) == {"cpu": 1500, "memory": GI}


def test_only_the_first_resize_condition_counts():
    pod = make_pod().condition("PodResizePending", reason="Deferred").condition("PodResizePending", reason="Infeasible")
    assert not is_resize_infeasible(pod.obj())


def test_a_bad_quantity_is_an_error_of_ours():
    with pytest.raises(QuantityError):
        pod_requests(make_pod().cpu("lots").obj())
