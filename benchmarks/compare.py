"""Two sets of results side by side: `python -m benchmarks.compare A.json B.json`.

The runs of a workload are paired in order, as `benchmarks.e2e --beside` makes them: A B A B, so that whatever the
machine did meanwhile it did to both. A ratio is the median of the pairs' ratios, B over A; below 1, B costs less.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_FIGURES: Final = (
    ("cpu_ms_per_pod", "CPU ms/pod"),
    ("pods_per_s", "pods/s"),
    ("peak_mb", "peak MB"),
    ("start_cpu_s", "start CPU s"),
    ("server_cpu_ms_per_pod", "server ms/pod"),
)

Runs = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    args = parser.parse_args()
    a, b = (json.loads(path.read_text()) for path in (args.a, args.b))
    if a["machine"]["cpu"] != b["machine"]["cpu"]:
        print(f"careful, different machines: {a['machine']['cpu']!r} and {b['machine']['cpu']!r}")
    print(f"{'workload':<38}{'figure':<16}{'A':>10}{'B':>10}{'B/A':>8}   pairs")
    for name, title, pairs in paired(a["runs"], b["runs"]):
        ratios = sorted(theirs / ours for ours, theirs in pairs if ours)
        if not ratios:
            continue
        medians = [statistics.median(values) for values in zip(*pairs, strict=True)]
        print(
            f"{name:<38}{title:<16}{medians[0]:>10.4g}{medians[1]:>10.4g}{statistics.median(ratios):>8.3f}"
            f"   {len(ratios)} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def paired(a: Runs, b: Runs) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    """Workload, figure, and its values in the runs of both, by pairs."""
    for name in dict.fromkeys(run["workload"] for run in a):
        ours, theirs = ([run for run in runs if run["workload"] == name] for runs in (a, b))
        for key, title in _FIGURES:
            pairs = [
                (left[key], right[key])
                for left, right in zip(ours, theirs, strict=False)
                if left.get(key) is not None and right.get(key) is not None
            ]
            if pairs:
                yield name, title, pairs


if __name__ == "__main__":
    main()
