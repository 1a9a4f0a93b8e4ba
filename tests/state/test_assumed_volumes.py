"""Assumed volume bindings over the index of objects."""

from __future__ import annotations

import random

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


@pytest.mark.parametrize("seed", range(5))
def test_indexes_equal_a_recount_through_random_histories(seed: int) -> None:
    chance = random.Random(seed)
    index = ObjectIndex()
    volumes = AssumedVolumes(index)
    for version in range(300):
        name = f"pv{chance.randrange(8)}"
        shown = make_pv(name).storage_class(chance.choice(["a", "b"])).resource_version(str(version))
        match chance.randrange(6):
            case 0:
                index.remove(VOLUME, ("", name))
            case 1 if (known := volumes.volume(name)) is not None:
                volumes.assume_volume(bound_to(known, make_pvc(f"c{chance.randrange(3)}").obj()))
            case 2:
                volumes.forget_volume(name)
            case 3:
                index.put(VOLUME, shown.claimed_by(f"c{chance.randrange(3)}").obj())
            case _:
                index.put(VOLUME, shown.obj())
        assert volumes.findings() == []
        known_names = [each.metadata.name for each in index.list(VOLUME)]
        seen = [volume for name in known_names if (volume := volumes.volume(name)) is not None]
        assert len(seen) == len(known_names)
        for storage_class in ("a", "b"):
            expected = [v for v in seen if v.spec.claim_ref is None and v.spec.storage_class_name == storage_class]
            assert free(volumes, storage_class) == sorted(v.metadata.name for v in expected)
        for claim_name in ("c0", "c1", "c2"):
            owned = [v for v in seen if v.spec.claim_ref is not None and v.spec.claim_ref.name == claim_name]
            assert naming(volumes, claim_name) == sorted(v.metadata.name for v in owned)


def test_the_self_check_sees_what_was_missed(objects: ObjectIndex, volumes: AssumedVolumes) -> None:
    assert volumes.findings() == []
    objects._kinds[VOLUME]["", "new"] = make_pv("new").claimed_by("x").obj()
    objects._kinds[VOLUME]["", "free"] = make_pv("free").obj()
    del objects._kinds[CLAIM]["default", "data"]
    assert volumes.findings() == [
        "the index of free volumes differs from a recount",
        "the index of volumes by claim differs from a recount",
        "PersistentVolumeClaim data is still as assumed though the watch has gone on",
    ]


def test_the_annotation_of_old_names_the_class() -> None:
    old = "volume.beta.kubernetes.io/storage-class"
    assert class_of_volume(make_pv("pv").storage_class("new").annotation(old, "old").obj()) == "old"
    assert class_of_claim(make_pvc("c").storage_class("new").annotation(old, "old").obj()) == "old"
    assert class_of_claim(make_pvc("c").obj()) == ""
