"""Pack the recorded decisions of the real scheduler for the tests: `python tests/data/pack_conformance.py`.

Reads `../shared/conformance` beside the repository and writes to `tests/data/conformance/`, one case a line as it is:

* `<family>.jsonl.gz`: `cases/`, which must be answered exactly;
* `known-differences/`, `later/`: the folders of these names, likewise by family;
* `hints/<plugin>.jsonl.gz`: queueing-hint decisions by plugin, and `hints/events.jsonl.gz`, who registers which events.

A test holds the packed copies against the originals wherever these are at hand.
"""

import gzip
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "conformance"
PACKED = ROOT / "tests" / "data" / "conformance"


def main() -> None:
    for name, rows in packed(SHARED).items():
        target = PACKED / f"{name}.jsonl.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(encoded(rows), mtime=0))


def packed(shared: Path) -> dict[str, list[Any]]:
    """By the name of the packed file, without suffix."""
    files: dict[str, list[Any]] = {}
    for folder, target in (("cases", ""), ("known-differences", "known-differences/"), ("later", "later/")):
        for path in sorted((shared / folder).glob("*.json")):
            files.setdefault(target + family(path.stem), []).append(json.loads(path.read_text()))
    for path in sorted((shared / "hints" / "cases").glob("*.json")):
        case = json.loads(path.read_text())
        files.setdefault(f"hints/{case['plugin']}", []).append(case)
    files["hints/events"] = [json.loads((shared / "hints" / "events.json").read_text())]
    return files


def family(name: str) -> str:
    """`node-ports-003` is of the family `node-ports`."""
    return name.rpartition("-")[0]


def encoded(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for row in rows).encode()


if __name__ == "__main__":
    main()
