"""Queueing hints against recorded ones: fewer vain wake-ups than the original, and none missed that helps.

1. the original queues and the pod fits after the event: the same plugin says Queue;
2. the pod fits, the original does not requeue, and `plugin` is among those that rejected it: one of these says Queue;
3. the pod does not fit and the original says Skip or does not listen: not Queue;
4. the pod does not fit and the original queues: as we like.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kubesched import Cluster, config
from kubesched.plugins.registry import IN_TREE
from tests.conformance import packed
from tests.conformance.packed import Case


def judge(case: Case) -> Iterator[str]:
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
        if not any(says_queue(plugin) for plugin in case["rejectedBy"] if plugin in IN_TREE):
            yield f"the pod fits after the event: one of {case['rejectedBy']} must say Queue"
    elif not case["fitsAfter"] and not original_queues and says_queue(case["plugin"]):
        yield "the pod does not fit and the original leaves it alone: must not be Queue"


def undecided(case: Case) -> set[str]:
    """The plugins that have a say and are not built yet."""
    return {
        plugin for plugin in (case["plugin"], *case["rejectedBy"]) if plugin in config.IN_TREE.keys() - IN_TREE.keys()
    }


def plugins() -> list[str]:
    return [name for name in packed.families("hints") if name != "events"]


def run(name: str | None = None, *, verbose: bool = False) -> int:
    logging.getLogger("kubesched").setLevel(logging.CRITICAL)
    failed = 0
    for plugin in plugins():
        passed, wrong = 0, {}
        waiting: Counter[str] = Counter()
        for case in packed.cases(plugin, "hints"):
            if name not in (None, case["name"]):
                continue
            if missing := undecided(case):
                waiting.update(missing)
                continue
            problems = list(judge(case))
            passed += not problems
            if problems:
                wrong[case["name"]] = problems
        failed += len(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {plugin:<34} {passed}/{passed + len(wrong)}")
        for case_name, problems in wrong.items():
            print(f"       {case_name}: {'; '.join(problems)}")
        for missing_plugin, count in sorted(waiting.items()):
            print(f"       {count} cases not compared: {missing_plugin} is missing")
    return int(failed > 0)
