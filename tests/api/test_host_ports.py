from __future__ import annotations

import pytest

from kubesched.api.core import Pod
from kubesched.api.host_ports import HostPort, conflict, host_ports
from tests.build import make_pod


@pytest.mark.parametrize(
    ("pod", "ports"),
    [
        pytest.param(make_pod().obj(), [], id="none"),
        pytest.param(make_pod().host_port(8080, ip="10.0.0.1").obj(), [("10.0.0.1", "TCP", 8080)], id="all said"),
        pytest.param(make_pod().host_port(8080, protocol=None).obj(), [("0.0.0.0", "TCP", 8080)], id="only the port"),
        pytest.param(make_pod().host_port(0).obj(), [], id="port 0 is none"),
        pytest.param(
            make_pod().container("a").host_port(1).container("b").host_port(2, protocol="UDP").obj(),
            [("0.0.0.0", "TCP", 1), ("0.0.0.0", "UDP", 2)],
            id="two containers",
        ),
        # BR-23
        pytest.param(
            make_pod().container().sidecar().host_port(9000).obj(), [("0.0.0.0", "TCP", 9000)], id="sidecars count"
        ),
        pytest.param(make_pod().container().init_container().host_port(9000).obj(), [], id="init containers do not"),
    ],
)
def test_host_ports(pod: Pod, ports: list[tuple[str, str, int]]):
    assert list(host_ports(pod)) == ports


EXISTING = HostPort("10.0.0.1", "TCP", 8080)


@pytest.mark.parametrize(
    ("one", "other", "conflicting"),
    [
        # BR-22
        pytest.param(EXISTING, HostPort("10.0.0.2", "TCP", 8080), False, id="another address"),
        pytest.param(EXISTING, HostPort("10.0.0.1", "UDP", 8080), False, id="another protocol"),
        pytest.param(EXISTING, HostPort("10.0.0.1", "TCP", 8081), False, id="another port"),
        pytest.param(EXISTING, HostPort("0.0.0.0", "TCP", 8080), True, id="all addresses"),
        pytest.param(EXISTING, EXISTING, True, id="the same"),
        pytest.param(
            HostPort("0.0.0.0", "TCP", 8080), HostPort("0.0.0.0", "UDP", 8080), False, id="all, other protocol"
        ),
    ],
)
def test_conflict_goes_both_ways(one: HostPort, other: HostPort, conflicting: bool):
    assert conflict(one, other) is conflicting
    assert conflict(other, one) is conflicting


def test_prints_for_people():
    assert str(EXISTING) == "TCP 10.0.0.1:8080"
