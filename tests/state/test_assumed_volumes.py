"""Assumed volume bindings over the index of objects."""

from __future__ import annotations

import pytest

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim
from kubesched.plugins.volume_binding.binding import bound_to, selected_for
from kubesched.state.assumed_volumes import AssumedVolumes, class_of_claim, class_of_volume
from kubesched.state.objects import ObjectIndex
from tests.build import make_pv, make_pvc

VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"


def volume(version: str = "10", storage_class: str = "local", uid: str = "u-pv") -> PersistentVolume:
    return make_pv("pv").storage_class(storage_class).resource_version(version).uid(uid).obj()


def claim(version: str = "5") -> PersistentVolumeClaim:
    return make_pvc("data").resource_version(version).obj()


@pytest.fixture
def objects() -> ObjectIndex:
    index = ObjectIndex()
    index.put(VOLUME, volume())
    index.put(CLAIM, claim())
    return index


@pytest.fixture
def volumes(objects: ObjectIndex) -> AssumedVolumes:
    assumed = AssumedVolumes(objects)
    assumed.assume_volume(bound_to(volume(), claim()))
    assumed.assume_claim(selected_for(claim(), "n1"))
    return assumed


def taken(volumes: AssumedVolumes) -> tuple[bool, bool]:
    """Whether the volume is promised, and whether the claim has its node."""
    pv, pvc = volumes.volume("pv"), volumes.claim("default", "data")
    return pv is not None and pv.spec.claim_ref is not None, pvc is not None and bool(pvc.metadata.annotations)


def test_a_decision_lies_over_what_the_watch_shows(objects: ObjectIndex, volumes: AssumedVolumes) -> None:
    assert taken(volumes) == (True, True)
    assert (objects.get(VOLUME, "pv"), objects.get(CLAIM, "data", "default")) == (volume(), claim())


@pytest.mark.parametrize(
    ("shown", "stands"),
    [
        pytest.param(volume("9"), True, id="older-version"),
        pytest.param(volume("10"), True, id="same-version"),
        pytest.param(volume("11"), False, id="newer-version"),
        pytest.param(volume("100"), False, id="versions-are-numbers"),
        pytest.param(volume("7", uid="other"), False, id="another-volume-of-the-name"),
        pytest.param(volume(""), False, id="no-version-to-compare"),
    ],
)
def test_only_a_newer_version_ends_a_decision(
    objects: ObjectIndex, volumes: AssumedVolumes, shown: PersistentVolume, stands: bool
) -> None:
    objects.put(VOLUME, shown)
    assert taken(volumes) == (stands, True)


def test_a_decision_ends_with_its_object(objects: ObjectIndex, volumes: AssumedVolumes) -> None:
    objects.remove(VOLUME, ("", "pv"))
    objects.remove(CLAIM, ("default", "data"))
    assert volumes.volume("pv") is None
    assert volumes.claim("default", "data") is None
    objects.put(VOLUME, volume("20"))
    assert taken(volumes) == (False, False)


def test_a_decision_can_be_taken_back_and_again(objects: ObjectIndex, volumes: AssumedVolumes) -> None:
    for _ in range(2):
        volumes.forget_volume("pv")
        volumes.forget_claim("default", "data")
    assert taken(volumes) == (False, False)
    assert volumes.volume("pv") is objects.get(VOLUME, "pv")


def test_every_decision_counts_as_a_change_of_the_kind(objects: ObjectIndex, volumes: AssumedVolumes) -> None:
    before = objects.version(VOLUME)
    volumes.forget_volume("pv")
    assert objects.version(VOLUME) == before + 1
    volumes.forget_volume("pv")
    assert objects.version(VOLUME) == before + 1
    volumes.assume_volume(bound_to(volume(), claim()))
    assert objects.version(VOLUME) == before + 2


def free(volumes: AssumedVolumes, storage_class: str) -> list[str]:
    return sorted(each.metadata.name for each in volumes.free_volumes(storage_class))


def naming(volumes: AssumedVolumes, claim: str) -> list[str]:
    return [each.metadata.name for each in volumes.volumes_naming("default", claim)]


def test_volumes_are_found_by_class_or_claim_however_they_change(objects: ObjectIndex, volumes: AssumedVolumes) -> None:
    assert (free(volumes, "local"), naming(volumes, "data")) == ([], ["pv"])
    volumes.forget_volume("pv")
    assert (free(volumes, "local"), naming(volumes, "data")) == (["pv"], [])
    objects.put(VOLUME, volume("11", storage_class="fast"))
    assert (free(volumes, "local"), free(volumes, "fast")) == ([], ["pv"])
    objects.put(VOLUME, make_pv("pv-2").storage_class("fast").claimed_by("data").obj())
    objects.put(VOLUME, make_pv("pv-3").storage_class("fast").claimed_by("data", namespace="b").obj())
    assert (free(volumes, "fast"), naming(volumes, "data")) == (["pv"], ["pv-2"])
    volumes.assume_volume(bound_to(volume("11"), claim()))
    assert (free(volumes, "fast"), naming(volumes, "data")) == ([], ["pv", "pv-2"])
    objects.remove(VOLUME, ("", "pv-2"))
    objects.remove(VOLUME, ("", "pv"))
    assert (free(volumes, "fast"), naming(volumes, "data")) == ([], [])


def test_volumes_from_before_the_first_look_are_found() -> None:
    index = ObjectIndex()
    index.put(VOLUME, volume())
    index.put(VOLUME, make_pv("pv-2").claimed_by("data").obj())
    volumes = AssumedVolumes(index)
    assert (free(volumes, "local"), naming(volumes, "data")) == (["pv"], ["pv-2"])


def test_the_annotation_of_old_names_the_class() -> None:
    old = "volume.beta.kubernetes.io/storage-class"
    assert class_of_volume(make_pv("pv").storage_class("new").annotation(old, "old").obj()) == "old"
    assert class_of_claim(make_pvc("c").storage_class("new").annotation(old, "old").obj()) == "old"
    assert class_of_claim(make_pvc("c").obj()) == ""
