"""`python -m benchmarks.offline`: `Cluster.run()`, every pending pod of a loaded snapshot in virtual time, and
`Cluster.capacity()`, how many more of the first of them would fit."""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks import workload as workloads
from kubesched import Cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", nargs="*", default=["basic"])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--limit", type=int, default=20_000, help="count no more that would fit than so many")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    print(
        f"{'workload':<30}{'nodes':>8}{'pods':>8}{'load s':>9}{'run s':>9}{'placed':>8}{'more fit':>10}{'ms each':>9}"
    )
    for name in args.workload:
        for _ in range(args.repeat):
            row = measure(name, args.nodes, args.pods, args.limit)
            print(
                f"{name:<30}{args.nodes:>8}{args.pods:>8}{row['load_s']:>9.2f}{row['run_s']:>9.2f}{row['placed']:>8}"
                f"{row['capacity']:>10}{row['capacity_ms']:>9.3f}",
                flush=True,
            )


def measure(name: str, nodes: int, pods: int, limit: int) -> dict[str, Any]:
    """CPU seconds of loading, of running, and of counting how many more would fit."""
    wanted = workloads.load(name, {"nodes": nodes, "pods": pods})
    documents = [
        document
        for operation in wanted.operations
        if operation.name.startswith("create")
        for document in workloads.documents(operation.options, 0)
    ]
    started = time.process_time()
    cluster = Cluster(documents)
    loaded = time.process_time()
    result = cluster.run()
    ended = time.process_time()
    more = cluster.capacity(documents[-1], limit)
    return {
        "load_s": loaded - started,
        "run_s": ended - loaded,
        "placed": len(result.placements),
        "capacity": more.count,
        "capacity_ms": (time.process_time() - ended) / max(more.count, 1) * 1e3,
    }


if __name__ == "__main__":
    main()
