"""Pack the recorded `/metrics` text of kube-scheduler for the tests: `python tests/data/pack_metrics.py`.

Reads `../shared/recordings/scheduler-metrics.txt` beside the repository, writes `tests/data/metrics/recorded.txt.gz`.
A test holds the packed copy against the original wherever that is at hand.
"""

import gzip
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT.parent / "shared" / "recordings" / "scheduler-metrics.txt"
PACKED = ROOT / "tests" / "data" / "metrics" / "recorded.txt.gz"


def main() -> None:
    PACKED.parent.mkdir(parents=True, exist_ok=True)
    PACKED.write_bytes(gzip.compress(SOURCE.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
