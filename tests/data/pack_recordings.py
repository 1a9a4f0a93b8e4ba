"""Packs the recordings of a real API server into tests/data/recordings: one file a family, one scenario a line.

    python tests/data/pack_recordings.py FOLDER

FOLDER holds `<scenario>.json` files (their README tells the format). The family is the first letter of the scenario:
a kubectl, b the scheduler, c the API server, d admission. The packed files are what the tests read; a test holds them
against the folder where it is there.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path

TARGET = Path(__file__).parent / "recordings"


def pack(folder: Path) -> dict[str, bytes]:
    """The content of each packed file, by its name."""
    families: dict[str, list[bytes]] = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_bytes())
        line = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        families[path.name[0]].append(line)
    return {
        f"{family}.jsonl.gz": gzip.compress(b"\n".join(lines) + b"\n", compresslevel=9, mtime=0)
        for family, lines in sorted(families.items())
    }


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for name, content in pack(Path(sys.argv[1])).items():
        (TARGET / name).write_bytes(content)


if __name__ == "__main__":
    main()
