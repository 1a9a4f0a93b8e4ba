"""Several profiles in one process, pods of other schedulers, and plugins from outside that misbehave."""

from __future__ import annotations

import logging

import msgspec
import pytest

from kubesched import config
from kubesched.framework import Plugin, Status
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import loaded, running

#: One node is nearly full, the other empty.
NODES = [make_node(name).capacity(cpu=10, memory="10Gi", pods=10) for name in ("full", "empty")]
FILLER = make_pod("filler").cpu("8").memory("8Gi").node("full")


def packing(name: str, strategy: str, weight: int = 10) -> dict[str, object]:
    return {
        "schedulerName": name,
        "plugins": {
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": weight}]},
        },
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
            "type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}}],
    }  # fmt: skip


async def test_two_profiles_place_the_same_pod_differently():
    profiles = [packing("packs", "MostAllocated"), packing("spreads", "LeastAllocated")]
    pods = [make_pod(name).scheduler(name).cpu("1") for name in ("packs", "spreads")]
    async with running({"profiles": profiles}, *NODES, FILLER, *pods) as cluster:
        assert await cluster.bound("packs", "spreads") == ["full", "empty"]


async def test_two_profiles_differ_in_weights_alone():
    """NodeResourcesFit likes the empty node, NodeAffinity the full one; who weighs more decides."""

    def weighing(name: str, fit: int, affinity: int) -> dict[str, object]:
        enabled = [{"name": "NodeResourcesFit", "weight": fit}, {"name": "NodeAffinity", "weight": affinity}]
        return {
            "schedulerName": name,
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": enabled}},
        }

    def pod(name: str):
        likes_full = ("kubernetes.io/hostname", "In", ["full"])
        return make_pod(name).scheduler(name).cpu("1").preferred_node_affinity(1, likes_full)

    profiles = [weighing("room", 10, 1), weighing("wish", 1, 10)]
    async with running({"profiles": profiles}, *NODES, FILLER, pod("room"), pod("wish")) as cluster:
        assert await cluster.bound("room", "wish") == ["empty", "full"]


async def test_pods_of_other_schedulers_are_counted_but_left_alone():
    """BR-127."""
    node = make_node("n1").capacity(cpu=4, pods=10)
    foreign = [
        make_pod("theirs").scheduler("other").cpu("1"),
        make_pod("placed").scheduler("other").cpu("3").node("n1"),
    ]
    async with running({}, node, *foreign, make_pod("ours").cpu("2")) as cluster:
        assert "Insufficient cpu" in await cluster.condition("ours")
        assert [pod.metadata.name for pod in cluster.live.scheduler.handlers.pending.values()] == ["ours"]
        pod = cluster.pod("theirs")
        assert not pod["spec"].get("nodeName")
        assert not pod["status"].get("conditions")
        await cluster.bind("theirs", "n1")
        cluster.load(make_pod("small").cpu("1"))
        assert "Insufficient cpu" in await cluster.condition("small")


# -- plugins from outside


class RackArgs(msgspec.Struct, frozen=True, rename="camel"):
    rack_label: str
    free_seats: int = 3


class Rack(Plugin):
    name = "Rack"
    args_type = RackArgs

    def filter(self, state, pod, node):
        return None if self.args.rack_label == "rack" else Status.unschedulable("wrong args")


class Raises(Plugin):
    name = "Raises"

    def filter(self, state, pod, node):
        if pod.metadata.name == "unlucky":
            raise ZeroDivisionError("nothing to share")


async def test_args_are_decoded_into_the_plugins_own_struct():
    profiles = [{"pluginConfig": [{"name": "Rack", "args": {"rackLabel": "rack"}}]}]
    async with running({"profiles": profiles}, *NODES, make_pod("p"), plugins=(Rack,)) as cluster:
        await cluster.bound("p")
        [plugin] = [p for p in cluster.live.scheduler.runtimes["default-scheduler"].plugins.all() if p.name == "Rack"]
        assert plugin.args == RackArgs("rack", 3)


WRONG_ARGS = {
    "unknown field": ({"rackLabel": "r", "seats": 1}, "seats", 'unknown field "seats"'),
    "wrong case": (
        {"rackLabel": "r", "FreeSeats": 1},
        "FreeSeats",
        'unknown field "FreeSeats" (did you mean "freeSeats"?)',
    ),
    "wrong type": (
        {"rackLabel": "r", "freeSeats": "5"},
        "freeSeats",
        'cannot unmarshal string "5" into a field of type int64',
    ),
    "missing": ({}, "rackLabel", "rackLabel: Required value"),
    "a list": ([], "", "cannot unmarshal array"),
}


@pytest.mark.parametrize(("args", "field", "message"), WRONG_ARGS.values(), ids=WRONG_ARGS)
def test_args_of_outside_plugins_are_held_to_the_same_strictness(args, field, message):
    profiles = [{"pluginConfig": [{"name": "Rack", "args": args}]}]
    with pytest.raises(config.ConfigError) as caught:
        loaded({"profiles": profiles}, Rack)
    [error] = caught.value.errors
    assert error.path == f"profiles[0].pluginConfig[0].args{'.' if field else ''}{field}"
    assert message in error.message
    assert "plugin Rack" in error.message


def test_a_plugin_whose_args_have_no_default_must_be_given_some():
    with pytest.raises(config.ConfigError) as caught:
        loaded({}, Rack)
    [error] = caught.value.errors
    assert error.path == "profiles[0].pluginConfig"
    assert "plugin Rack needs args: Object missing required field `rackLabel`" in str(error)


async def test_a_plugin_that_raises_fails_that_pod_only(caplog):
    caplog.set_level(logging.ERROR)
    pods = [make_pod("unlucky"), make_pod("lucky")]
    async with running({}, *NODES, *pods, plugins=(Raises,)) as cluster:
        told = await cluster.condition("unlucky")
        assert told.startswith("SchedulerError: ")
        assert 'running "Raises" filter plugin' in told and "ZeroDivisionError: nothing to share" in told
        await cluster.bound("lucky")
    [record] = [r for r in caplog.records if r.exc_info and "plugin=Raises" in r.getMessage()][:1]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
