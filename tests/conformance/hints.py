"""Queueing hints against recorded ones: fewer vain wake-ups than the original, and none missed that helps.

1. the original queues and the pod fits after the event: the same plugin says Queue;
2. the pod fits, the original does not requeue, and `plugin` is among those that rejected it: one of these says Queue;
3. the pod does not fit and the original says Skip or does not listen: not Queue;
4. the pod does not fit and the original queues: as we like.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from kubesched import Cluster
from tests.conformance import packed
from tests.conformance.packed import Case


def wrong_hint(case: Case) -> Iterator[str]:
    """What is wrong with our answer."""
    cluster = Cluster(case["objects"])

    def says_queue(plugin: str) -> bool:
        return cluster.queueing_hint(plugin, case["pod"], case["event"]) == "Queue"

    expect: dict[str, Any] = case["expect"]
    original_queues = expect["hint"] in ("Queue", "Error")
    if case["fitsAfter"] and original_queues:
        if not says_queue(case["plugin"]):
            yield "the pod fits after the event and the original wakes it: must be Queue"
    elif case["fitsAfter"] and not expect["requeued"] and case["plugin"] in case["rejectedBy"]:
        if not any(map(says_queue, case["rejectedBy"])):
            yield f"the pod fits after the event: one of {case['rejectedBy']} must say Queue"
    elif not case["fitsAfter"] and not original_queues and says_queue(case["plugin"]):
        yield "the pod does not fit and the original leaves it alone: must not be Queue"


def needs_devices(case: Case) -> bool:
    """Whether the answer is about the allocation of devices, which is not built yet."""
    return case["plugin"] == "DynamicResources" and bool(case["pod"]["spec"].get("resourceClaims"))


def plugins() -> list[str]:
    return [name for name in packed.families("hints") if name != "events"]


def run(name: str | None = None, *, verbose: bool = False) -> int:
    logging.getLogger("kubesched").setLevel(logging.CRITICAL)
    failed = 0
    for plugin in plugins():
        cases = [case for case in packed.cases(plugin, "hints") if name in (None, case["name"])]
        judged = [case for case in cases if not needs_devices(case)]
        wrong = {case["name"]: problems for case in judged if (problems := list(wrong_hint(case)))}
        failed += len(wrong)
        if cases:
            print(f"{'FAIL' if wrong else 'ok  '} {plugin:<34} {len(judged) - len(wrong)}/{len(judged)}")
        for case_name, problems in wrong.items():
            print(f"       {case_name}: {'; '.join(problems)}")
        if len(judged) < len(cases):
            print(f"       not judged: {len(cases) - len(judged)} cases of pods with resource claims")
    return int(failed > 0)
