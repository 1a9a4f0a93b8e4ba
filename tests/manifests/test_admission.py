from __future__ import annotations

import copy
from typing import Any

import pytest

from kubesched.manifests import Admission, ManifestError, PriorityClasses, decode, merge_label_keys, read
from tests.build import (
    HOSTNAME,
    ZONE,
    PodBuilder,
    make_node,
    make_pod,
    make_priority_class,
    make_pvc,
    make_storage_class,
)


def priorities(*builders: Any) -> PriorityClasses:
    return PriorityClasses.of([builder.dict() for builder in builders])


def pod_spec(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


HIGH = make_priority_class("high", 1000)
POLITE = make_priority_class("polite", -5).preemption_policy("Never").global_default()


class TestPriority:
    @pytest.mark.parametrize(
        ("classes", "spec", "resolved"),
        [
            pytest.param([], {}, {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}, id="no class"),
            pytest.param(
                [HIGH],
                {"priorityClassName": "high"},
                {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"},
                id="named",
            ),
            pytest.param(
                [HIGH, POLITE],
                {},
                {"priorityClassName": "polite", "priority": -5, "preemptionPolicy": "Never"},
                id="global default",
            ),
            pytest.param(
                [HIGH, POLITE],
                {"priorityClassName": "high"},
                {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"},
                id="named beats global default",
            ),
            pytest.param(
                [make_priority_class("b", 7).global_default(), POLITE],
                {},
                {"priorityClassName": "polite", "priority": -5, "preemptionPolicy": "Never"},
                id="of two global defaults the lower",
            ),
            pytest.param(
                [],
                {"priorityClassName": "system-node-critical"},
                {
                    "priorityClassName": "system-node-critical",
                    "priority": 2000001000,
                    "preemptionPolicy": "PreemptLowerPriority",
                },
                id="system-node-critical is always there",
            ),
            pytest.param(
                [],
                {"priorityClassName": "system-cluster-critical"},
                {
                    "priorityClassName": "system-cluster-critical",
                    "priority": 2000000000,
                    "preemptionPolicy": "PreemptLowerPriority",
                },
                id="system-cluster-critical too",
            ),
            pytest.param(
                [POLITE],
                {"priority": 7},
                {"priority": 7, "preemptionPolicy": "PreemptLowerPriority"},
                id="a pod that brings its priority keeps it",
            ),
            pytest.param(
                [],
                {"priority": 7, "priorityClassName": "gone", "preemptionPolicy": "Never"},
                {"priority": 7, "priorityClassName": "gone", "preemptionPolicy": "Never"},
                id="even if its class is gone",
            ),
            pytest.param(
                [HIGH],
                {"priorityClassName": "high", "preemptionPolicy": "Never"},
                {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"},
                id="a policy that is said stays",
            ),
        ],
    )
    def test_resolving(self, classes: list[Any], spec: dict[str, Any], resolved: dict[str, Any]):
        pod = pod_spec(**spec)
        before = copy.deepcopy(pod)
        found = priorities(*classes).resolve(pod)
        assert found["spec"] == resolved
        assert pod == before
        assert priorities(*classes).resolve(found) == found

    def test_a_class_that_is_not_there(self):
        documents = read(make_pod("web").priority_class("missing").dict())
        with pytest.raises(ManifestError) as failure:
            Admission.of(documents).admit(documents[0])
        assert str(failure.value) == (
            "manifest: Pod default/web: spec.priorityClassName: no PriorityClass with name missing was found "
            '(value: "missing")'
        )


def expressions(selector: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    return [(each["key"], each["operator"], each["values"]) for each in selector.get("matchExpressions", [])]


class TestLabelKeys:
    def merged(self, builder: PodBuilder) -> dict[str, Any]:
        pod = builder.dict()
        before = copy.deepcopy(pod)
        once = merge_label_keys(pod)
        assert pod == before
        assert merge_label_keys(once) == once
        spec: dict[str, Any] = once["spec"]
        return spec

    def test_spreading(self):
        spec = self.merged(
            make_pod()
            .label("app", "web")
            .label("hash", "1")
            .spread(ZONE, {"app": "web"}, match_label_keys=["hash", "none"])
        )
        selector = spec["topologySpreadConstraints"][0]["labelSelector"]
        assert selector["matchLabels"] == {"app": "web"}
        assert expressions(selector) == [("hash", "In", ["1"])]

    def test_an_empty_selector_becomes_one_that_matches(self):
        spec = self.merged(make_pod().label("hash", "1").spread(ZONE, selector={}, match_label_keys=["hash"]))
        assert expressions(spec["topologySpreadConstraints"][0]["labelSelector"]) == [("hash", "In", ["1"])]

    def test_a_selector_that_is_absent_stays_absent(self):
        spec = self.merged(make_pod().label("hash", "1").spread(ZONE, match_label_keys=["hash"]))
        assert "labelSelector" not in spec["topologySpreadConstraints"][0]

    @pytest.mark.parametrize("sort", ["podAffinity", "podAntiAffinity"])
    @pytest.mark.parametrize("weight", [None, 5])
    def test_affinity(self, sort: str, weight: int | None):
        pod = make_pod().label("hash", "1").label("tier", "2")
        add = pod.pod_affinity if sort == "podAffinity" else pod.pod_anti_affinity
        add(HOSTNAME, {"app": "web"}, weight=weight, match_label_keys=["hash"], mismatch_label_keys=["tier"])
        rules = self.merged(pod)["affinity"][sort]
        if weight is None:
            term = rules["requiredDuringSchedulingIgnoredDuringExecution"][0]
        else:
            term = rules["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]
        assert expressions(term["labelSelector"]) == [("hash", "In", ["1"]), ("tier", "NotIn", ["2"])]

    def test_node_affinity_has_no_part_in_it(self):
        pod = make_pod().label("hash", "1").node_affinity_in(ZONE, ["a"])
        assert self.merged(pod) == pod.dict()["spec"]


class TestStorageClasses:
    @pytest.mark.parametrize(
        ("classes", "claim", "name"),
        [
            pytest.param([make_storage_class("a")], make_pvc("c"), None, id="no default"),
            pytest.param([make_storage_class("a").default()], make_pvc("c"), "a", id="default"),
            pytest.param([make_storage_class("a").default()], make_pvc("c").storage_class("b"), "b", id="said"),
            pytest.param(
                [make_storage_class("a").default()], make_pvc("c").storage_class(""), "", id="none on purpose"
            ),
            pytest.param([make_storage_class("a").default()], make_pvc("c").bound_to("v"), None, id="bound already"),
            pytest.param(
                [make_storage_class("a").default(), make_storage_class("b").default().created("2026-02-01T00:00:00Z")],
                make_pvc("c"),
                "b",
                id="the newest of two",
            ),
            pytest.param(
                [make_storage_class("b").default(), make_storage_class("a").default()],
                make_pvc("c"),
                "a",
                id="the first by name of two of one age",
            ),
            pytest.param(
                [make_storage_class("a").annotation("storageclass.beta.kubernetes.io/is-default-class", "true")],
                make_pvc("c"),
                "a",
                id="marked in the old way",
            ),
            pytest.param(
                [make_storage_class("a").default()],
                make_pvc("c").annotation("volume.beta.kubernetes.io/storage-class", "x"),
                None,
                id="said in the old way",
            ),
        ],
    )
    def test_claims_get_the_default(self, classes: list[Any], claim: Any, name: str | None):
        documents = read([*(each.dict() for each in classes), claim.dict()])
        admitted = Admission.of(documents).admit(documents[-1])
        assert admitted.manifest["spec"].get("storageClassName") == name


class TestAdmission:
    def test_a_pod_gets_everything_at_once(self):
        pod = make_pod("web").label("hash", "1").limits(cpu="1").spread(ZONE, {}, match_label_keys=["hash"])
        manifest = pod.priority_class("high").dict()
        del manifest["metadata"]["uid"]
        documents = read([HIGH.dict(), manifest])
        before = copy.deepcopy(manifest)
        admitted = Admission.of(documents).admit(documents[1])
        spec = admitted.manifest["spec"]
        assert spec["priority"] == 1000
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1"}
        assert expressions(spec["topologySpreadConstraints"][0]["labelSelector"]) == [("hash", "In", ["1"])]
        assert admitted.source == documents[1].source
        assert manifest == before
        assert decode(admitted) is not None

    def test_uids_are_the_same_in_every_run_and_differ_between_objects(self):
        def uid(builder: Any) -> str:
            manifest = builder.dict()
            del manifest["metadata"]["uid"]
            document = read(manifest)[0]
            return str(Admission.of([document]).admit(document).manifest["metadata"]["uid"])

        assert uid(make_pod("a")) == uid(make_pod("a").label("x", "1"))
        different = [make_pod("a"), make_pod("b"), make_pod("a").namespace("shop"), make_pvc("a"), make_node("a")]
        assert len({uid(builder) for builder in different}) == len(different)

    def test_a_uid_that_is_there_stays(self):
        document = read(make_pod("a").uid("u1").dict())[0]
        assert Admission.of([document]).admit(document).manifest["metadata"]["uid"] == "u1"

    def test_admitting_twice_is_admitting_once(self):
        documents = read([HIGH.dict(), make_pod("a").label("h", "1").limits(cpu=1).dict(), make_node("n1").dict()])
        admission = Admission.of(documents)
        for document in documents:
            once = admission.admit(document)
            assert admission.admit(once) == once
