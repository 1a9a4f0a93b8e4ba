"""The recorded cases, from `tests/data/conformance`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "data" / "conformance"

Case = dict[str, Any]


def families(folder: str = "") -> list[str]:
    """Names of what lies in a folder: families of cases, or plugins in `hints`."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in (FOLDER / folder).glob("*.jsonl.gz"))


def cases(family: str, folder: str = "") -> Iterator[Case]:
    with gzip.open(FOLDER / folder / f"{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
