"""Signatures: pods have the same one exactly where every plugin signs them alike, however few were asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.core import Pod
from kubesched.clock import ManualClock
from kubesched.framework import Plugin
from kubesched.framework.plugin import AFFINITY, METADATA, REQUESTS, Reads
from kubesched.framework.runtime.build import PluginSetupError, check_plugin
from kubesched.framework.runtime.metering import Meter
from kubesched.framework.runtime.signing import Signature, Signing
from kubesched.metrics import Metrics
from kubesched.plugins.registry import IN_TREE
from kubesched.state.pod_info import PodInfo
from tests.build import make_pod
from tests.plugins.rig import Rig

ZONE = "topology.kubernetes.io/zone"

#: What may be different between two pods, by what it counts as; None for what nobody ignores.
DIFFERENCES: dict[str, tuple[str | None, Callable[[Any], Any]]] = {
    "label": (METADATA, lambda pod: pod.label("app", "web")),
    "namespace": (METADATA, lambda pod: pod.namespace("other")),
    "annotation": (METADATA, lambda pod: pod.annotation("note", "1")),
    "owner": (METADATA, lambda pod: pod.owner("ReplicaSet", "web")),
    "cpu": (REQUESTS, lambda pod: pod.cpu("2")),
    "limits": (REQUESTS, lambda pod: pod.limits(cpu="4")),
    "pod-level": (REQUESTS, lambda pod: pod.pod_requests(cpu="3")),
    "overhead": (REQUESTS, lambda pod: pod.overhead(cpu="1m")),
    "node affinity": (AFFINITY, lambda pod: pod.node_affinity_name("n1")),
    "preference": (AFFINITY, lambda pod: pod.preferred_node_affinity(5, ("disk", "In", ["ssd"]))),
    "pod affinity": (AFFINITY, lambda pod: pod.pod_affinity(ZONE, {"app": "web"})),
    "init": (None, lambda pod: pod.init_container("init", requests={"cpu": "7"})),
    "sidecar": (None, lambda pod: pod.sidecar("side", requests={"cpu": "7"})),
    "image": (None, lambda pod: pod.image("nginx")),
    "port": (None, lambda pod: pod.host_port(80)),
    "selector": (None, lambda pod: pod.node_selector({"disk": "ssd"})),
    "toleration": (None, lambda pod: pod.toleration("dedicated", "gpu")),
    "spread": (None, lambda pod: pod.spread(ZONE, labels={"app": "web"})),
    "claim": (None, lambda pod: pod.pvc("data")),
    "priority": (None, lambda pod: pod.priority(5)),
    "token": (None, lambda pod: pod.volume("token-x7")),
}


def pod_with(*differences: str) -> Pod:
    builder = make_pod("p").cpu("1").label("tier", "front")
    for name in differences:
        builder = DIFFERENCES[name][1](builder)
    made: Pod = builder.obj()
    return made


class Signer:
    """The signing of a profile, and the long way to the same."""

    def __init__(self, *plugins: type[Plugin], features: dict[str, bool] | None = None) -> None:
        self.rig = Rig(features=features)
        meter = Meter("default-scheduler", Metrics(), ManualClock())
        made = [self.rig.plugin(name) for name in sorted(IN_TREE)] + [
            plugin(None, self.rig.handle) for plugin in plugins
        ]
        self.signers = [plugin for plugin in made if plugin.filter_reads is not None or plugin.score_reads is not None]
        self.signing = Signing("default-scheduler", self.signers, meter)

    def signature(self, pod: Pod) -> Signature:
        return self.signing.signature(PodInfo(pod), self.signing.versions())

    def signs(self, pod: Pod) -> list[Any]:
        return [plugin.sign(pod) for plugin in self.signers]


@settings(max_examples=150, deadline=None)
@given(
    pods=st.lists(st.lists(st.sampled_from(list(DIFFERENCES)), unique=True, max_size=4).map(sorted), max_size=12),
    devices=st.booleans(),
)
def test_signatures_are_the_same_where_all_signs_are(pods: list[list[str]], devices: bool) -> None:
    signer = Signer(features={"DRAExtendedResource": devices})
    seen: list[tuple[Signature, list[Any]]] = []
    for differences in pods:
        pod = pod_with(*differences)
        signature, signs = signer.signature(pod), signer.signs(pod)
        for other, theirs in seen:
            assert (signature is other) == (signs == theirs)
            same = {p.name for p, a, b in zip(signer.signers, signs, theirs, strict=True) if a is not None and a == b}
            assert signer.signing.alike(signature, other) == same
        refused = {plugin.name for plugin, sign in zip(signer.signers, signs, strict=True) if sign is None}
        assert signer.signing.unsigned(signature) == refused
        assert signature.is_whole == (not refused)
        seen.append((signature, signs))


@pytest.mark.parametrize("name", sorted(IN_TREE))
def test_what_a_plugin_says_to_ignore_makes_no_difference_to_its_sign(name: str) -> None:
    plugin = Rig(features={"DRAExtendedResource": True, "NodeDeclaredFeatures": True}).plugin(name)
    for others in ([], ["spread"], ["claim", "init"], ["label", "pod affinity"]):
        plain = pod_with(*others)
        for difference, (part, _) in DIFFERENCES.items():
            if part in plugin.sign_ignores and difference not in others:
                assert plugin.sign(pod_with(*others, difference)) == plugin.sign(plain), difference


class Counted(Plugin):
    name = "Counted"
    filter_reads = Reads()
    signs_template = True
    sign_ignores = frozenset({METADATA, REQUESTS})

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.asked_count = 0

    def sign(self, pod: Pod) -> Any:
        self.asked_count += 1
        return ()


@pytest.mark.parametrize(
    ("difference", "asks"),
    [("label", False), ("cpu", False), ("limits", False), ("node affinity", True), ("init", True), ("token", False)],
)
def test_who_ignores_the_difference_is_not_asked(difference: str, asks: bool) -> None:
    signer = Signer(Counted)
    signer.signature(pod_with())
    assert signer.signers[-1].asked_count == 1
    signer.signature(pod_with(difference))
    assert signer.signers[-1].asked_count == 1 + asks


def test_a_sign_of_ones_own_ignores_nothing_until_it_says_so() -> None:
    class Heir(Counted):
        name = "Heir"

        def sign(self, pod: Pod) -> Any:
            super().sign(pod)
            return pod.metadata.labels.get("app")

    signer = Signer(Heir)
    assert signer.signature(pod_with()) is not signer.signature(pod_with("label"))


class Versioned(Counted):
    """Signs with a word that changes."""

    name = "Versioned"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.word = "a"

    def sign_version(self) -> str:
        return self.word

    def sign(self, pod: Pod) -> Any:
        super().sign(pod)
        return self.word


@pytest.mark.parametrize("difference", [None, "label", "cpu"])
def test_a_new_version_is_asked_for_and_nothing_else(difference: str | None) -> None:
    signer = Signer(Counted, Versioned)
    counted, versioned = signer.signers[-2:]
    first = signer.signature(pod_with())
    versioned.word = "b"
    second = signer.signature(pod_with(difference) if difference else pod_with())
    assert first is not second
    assert (counted.asked_count, versioned.asked_count) == (1, 2)
    versioned.word = "a"
    if difference != "cpu":
        assert signer.signature(pod_with()) is first


def test_pods_that_are_signed_one_by_one_share_what_the_others_say_of_the_template() -> None:
    class Named(Plugin):
        name = "Named"
        filter_reads = Reads()

        def sign(self, pod: Pod) -> Any:
            return pod.metadata.name

    signer = Signer(Counted, Named)
    signatures = [signer.signature(make_pod(name).cpu("1").obj()) for name in ("p1", "p2", "p1")]
    assert signatures[0] is signatures[2] is not signatures[1]
    assert signer.signers[-2].asked_count == 1


def test_what_is_to_be_ignored_has_a_name() -> None:
    class Odd(Counted):
        sign_ignores = frozenset({"labels"})

        def filter(self, state: Any, pod: Pod, node: Any) -> None: ...

    with pytest.raises(PluginSetupError, match="plugin Counted: sign_ignores names 'labels', want some of 'affinity'"):
        check_plugin(Odd)


def test_what_is_remembered_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_TEMPLATES_MAX", "_SIGNATURES_MAX", "_PARTS_MAX"):
        monkeypatch.setattr(f"kubesched.framework.runtime.signing.{name}", 3)
    signer = Signer()
    pods = [make_pod("p").cpu(f"{number}m").label("app", str(number % 4)).obj() for number in range(1, 12)]
    signatures = [signer.signature(pod) for pod in pods]
    assert len(set(signatures)) == len(pods)
    for pod, signature in zip(pods, signatures, strict=True):
        again = signer.signature(pod)
        assert again is signer.signature(pod)
        others = [other for other in signatures if other is not signature]
        assert all(again is not other for other in others)
