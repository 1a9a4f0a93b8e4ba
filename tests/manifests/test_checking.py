from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.core import Pod
from kubesched.manifests import ManifestError, decode, load, read
from tests.build import make_node, make_pod, make_pv, make_pvc, make_stateful_set


def test_documents_that_are_right_come_back():
    documents = load([make_pod("a").cpu("1").dict(), make_node("n1").dict()])
    assert [type(decode(document)).__name__ for document in documents] == ["Pod", "Node"]


def test_kinds_without_a_part_in_scheduling_pass():
    documents = load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "v"}})
    assert decode(documents[0]) is None


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        pytest.param(
            make_pod("x").dict() | {"spec": {"priority": "high"}},
            'manifest: Pod default/x: spec.priority: Expected `int | null`, got `str` (value: "high")',
            id="wrong type",
        ),
        pytest.param(
            make_pod("x").label("fine", "1").label("debug", True).dict(),  # type: ignore[arg-type]
            "manifest: Pod default/x: metadata.labels[debug]: Expected `str`, got `bool`; "
            "quote the value to make it a string (value: true)",
            id="label that YAML takes for a boolean",
        ),
        pytest.param(
            make_pod("x").container("c").cpu("lots").dict(),
            "manifest: Pod default/x: spec.containers[0].resources.requests[cpu]: quantities must match the regular "
            "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (value: \"lots\")",
            id="quantity of a container",
        ),
        pytest.param(
            make_pod("x").overhead(memory="1K").dict(),
            'manifest: Pod default/x: spec.overhead[memory]: unable to parse quantity\'s suffix (value: "1K")',
            id="overhead",
        ),
        pytest.param(
            make_node("n1").allocatable(memory="8 Gi").dict(),
            "manifest: Node n1: status.allocatable[memory]: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (value: \"8 Gi\")",
            id="node",
        ),
        pytest.param(
            make_pvc("c").request("1K").dict(),
            "manifest: PersistentVolumeClaim default/c: spec.resources.requests[storage]: unable to parse quantity's "
            'suffix (value: "1K")',
            id="claim",
        ),
        pytest.param(
            make_pv("v").capacity("1K").dict(),
            'manifest: PersistentVolume v: spec.capacity[storage]: unable to parse quantity\'s suffix (value: "1K")',
            id="volume",
        ),
        pytest.param(
            make_stateful_set("s").template(make_pod().cpu("1K")).dict(),
            "manifest: StatefulSet default/s: spec.template.spec.containers[0].resources.requests[cpu]: unable to "
            'parse quantity\'s suffix (value: "1K")',
            id="template",
        ),
        pytest.param(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIStorageCapacity",
                "metadata": {"name": "c", "namespace": "default"},
                "storageClassName": "fast",
                "maximumVolumeSize": "1K",
            },
            "manifest: CSIStorageCapacity default/c: maximumVolumeSize: unable to parse quantity's suffix "
            '(value: "1K")',
            id="single quantity",
        ),
        pytest.param(
            {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}},
            "manifest: PodDisruptionBudget b: apiVersion: this version of PodDisruptionBudget is not known, write it "
            'as policy/v1 (value: "policy/v1beta1")',
            id="version of former times",
        ),
        pytest.param(
            make_pod("x").dict() | {"spec": {"tolerations": 5}},
            "manifest: Pod default/x: spec.tolerations: Expected `array`, got `int` (value: 5)",
            id="no list",
        ),
    ],
)
def test_mistakes_are_named_with_field_and_value(manifest: dict[str, Any], message: str):
    with pytest.raises(ManifestError) as failure:
        load(manifest)
    assert str(failure.value) == message


def test_annotations_are_nobodys_quantities():
    metadata = {"name": "x", "namespace": "default", "annotations": {"capacity": "lots"}}
    assert load({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})


@pytest.mark.parametrize(
    ("first", "second", "double"),
    [
        pytest.param(make_pod("a"), make_pod("a"), True, id="the same"),
        pytest.param(make_pod("a").namespace(""), make_pod("a"), True, id="default namespace left out"),
        pytest.param(make_pod("a"), make_pod("a").namespace("shop"), False, id="another namespace"),
        pytest.param(make_pod("a"), make_pvc("a"), False, id="another kind"),
    ],
)
def test_doubles(first: Any, second: Any, double: bool):
    manifests = [first.dict(), second.dict()]
    if double:
        with pytest.raises(ManifestError) as failure:
            load(manifests)
        assert str(failure.value) == "manifests, item 2: Pod default/a: is already defined in manifests, item 1"
    else:
        assert len(load(manifests)) == 2


def test_the_parts_of_an_error():
    with pytest.raises(ManifestError) as failure:
        load("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {priority: high}\n")
    error = failure.value
    assert (error.source.name, error.source.document) == ("text", 1)
    assert (error.obj, error.field, error.value) == ("Pod default/x", "spec.priority", "high")


def test_long_values_are_cut():
    manifest = make_pod("x").dict() | {"spec": {"priority": "high" * 100}}
    with pytest.raises(ManifestError) as failure:
        load(manifest)
    assert len(str(failure.value)) < 350


def test_yaml_numbers_are_good_quantities():
    pod = decode(
        read(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
            "spec: {containers: [{name: c, resources: {requests: {cpu: 1, memory: 1e3, example.com/gpu: 0.5}}}]}\n"
        )[0]
    )
    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].resources.requests == {"cpu": 1, "memory": 1000, "example.com/gpu": 0.5}
