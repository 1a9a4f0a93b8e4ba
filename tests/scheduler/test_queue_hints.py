"""Queueing hints over all recorded cases: how often pods are woken in vain, against the real scheduler.

That each single answer is right is held in tests/conformance; here it is counted.
"""

from __future__ import annotations

from kubesched import Cluster
from tests.conformance import hints, packed


def test_fewer_pods_are_woken_in_vain_than_by_the_original_and_none_is_missed():
    theirs = ours = missed_by_them = missed_by_us = 0
    for plugin in hints.plugins():
        for case in packed.cases(plugin, "hints"):
            if hints.needs_devices(case):
                continue
            cluster = Cluster(case["objects"])

            def wakes(name, case=case, cluster=cluster):
                return cluster.queueing_hint(name, case["pod"], case["event"]) == "Queue"

            they_wake = case["expect"]["hint"] in ("Queue", "Error")
            if not case["fitsAfter"]:
                theirs += they_wake
                ours += wakes(case["plugin"])
            elif case["plugin"] in case["rejectedBy"]:
                missed_by_them += not case["expect"]["requeued"]
                missed_by_us += not any(map(wakes, case["rejectedBy"]))
    assert ours <= 0.6 * theirs, f"woken in vain: {ours}, by the original: {theirs}"
    assert missed_by_them >= 5 and missed_by_us == 0
