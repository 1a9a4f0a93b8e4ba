"""The packed recordings that the tests of this folder share."""

import gzip
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data" / "config"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "conformance"


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of `tests/data/config/NAME.jsonl.gz`; see `tests/data/pack_config.py` for what they hold."""
    text = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]
