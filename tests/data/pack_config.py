"""Pack the recorded configuration cases for the tests: `python tests/data/pack_config.py`.

Reads `../shared/conformance` beside the repository and writes to `tests/data/config/`, one JSON document a line:

* `defaulted.jsonl.gz`, `invalid.jsonl.gz`: the cases of `config/`, as they are;
* `conformance.jsonl.gz`: of every scheduling case with a configuration its `name` and `config`, the `profile` that its
  pod names, and what the recorded decision shows of that profile: the `weights` of score plugins (weighted over
  normalized score) and the `filters` in force.

A test holds the packed copies against the originals wherever these are at hand.
"""

import gzip
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "conformance"
PACKED = ROOT / "tests" / "data" / "config"


def main() -> None:
    PACKED.mkdir(parents=True, exist_ok=True)
    for name, rows in packed(SHARED).items():
        (PACKED / f"{name}.jsonl.gz").write_bytes(gzip.compress(encoded(rows), mtime=0))


def packed(shared: Path) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {
        name: json.loads((shared / "config" / f"{name}.json").read_text())["cases"] for name in ("defaulted", "invalid")
    }
    rows["conformance"] = [
        row
        for folder in ("cases", "known-differences", "later")
        for path in sorted((shared / folder).glob("*.json"))
        if (row := _conformance(json.loads(path.read_text()))) is not None
    ]
    return rows


def encoded(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows).encode()


def _conformance(case: Any) -> Any:
    if not isinstance(case, dict) or "config" not in case:
        return None
    expect = case["expect"]
    weights: dict[str, int] = {}
    for scores in expect.get("scores", {}).values():
        for plugin, score in scores["plugins"].items():
            if score["normalized"]:
                weights[plugin] = score["weighted"] // score["normalized"]
    return {
        "name": case["name"],
        "config": case["config"],
        "profile": case["pod"]["spec"]["schedulerName"],
        "weights": weights,
        "filters": sorted(expect.get("filterByPlugin", {})),
        "skipped": sorted(expect.get("preFilter", {}).get("skipped") or []),
    }


if __name__ == "__main__":
    main()
