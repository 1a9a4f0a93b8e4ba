"""The packed recordings are those of the folder they were packed from, where that is at hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.data.pack_recordings import pack
from tests.recordings.scenario import PACKED, scenarios

SOURCE = Path(__file__).parents[3] / "shared" / "recordings"


@pytest.mark.skipif(not SOURCE.is_dir(), reason="the recordings are not beside the repository")
def test_packed_copy_is_the_source() -> None:
    wanted = {name: gzip.decompress(content) for name, content in pack(SOURCE).items()}
    assert {path.name: gzip.decompress(path.read_bytes()) for path in PACKED.glob("*.gz")} == wanted


def test_all_families_are_there() -> None:
    names = scenarios()
    assert {name[0] for name in names} == {"a", "b", "c", "d"}
    assert sum(len(s.exchanges) for s in names.values()) > 1500
