"""Running cases through `Cluster` and summing up."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kubesched import Cluster, config
from kubesched.api.errors import KubeschedError
from kubesched.plugins.registry import IN_TREE
from tests.conformance import packed
from tests.conformance.compare import Comparison, compare, decision
from tests.conformance.packed import Case
from tests.conformance.stand_ins import stand_ins


@dataclass
class Tally:
    """Of a family: how many cases pass, what is wrong with the others, what could not be compared."""

    family: str
    passed: int = 0
    failed: dict[str, list[str]] = field(default_factory=dict)
    #: (field, missing plugin) -> number of cases
    not_compared: Counter[tuple[str, str]] = field(default_factory=Counter)


def run_case(case: Case) -> Comparison:
    """The explanation, and then the decision itself, against the record."""
    missing, post_filters = missing_plugins(case)
    cluster = Cluster(case["objects"], config=case.get("config"), plugins=stand_ins(missing, case["expect"]))
    want = case["expect"]
    try:
        found = compare(cluster.explain(case["pod"]).to_dict(), want, missing, post_filters)
        if not case["pod"]["spec"].get("nodeName"):
            found.mismatches += decision(cluster.schedule(case["pod"]), want, missing, post_filters)
    except KubeschedError as error:
        return Comparison([f"raised {type(error).__name__}: {error}"])
    return found


def missing_plugins(case: Case) -> tuple[set[str], set[str]]:
    """The plugins of the pod's profile that are not built yet; all of them, and those at PostFilter."""
    loaded = config.load(case.get("config"))
    profile = loaded.profile(case["pod"]["spec"]["schedulerName"])
    assert profile is not None
    points = config.expand(profile)
    missing = {name for plugins in points.values() for name, _ in plugins if name not in IN_TREE}
    return missing, missing & {"DefaultPreemption"} & {name for name, _ in points["postFilter"]}


def run_family(family: str, cases: Iterable[Case]) -> Tally:
    tally = Tally(family)
    for case in cases:
        found = run_case(case)
        if found.mismatches:
            tally.failed[case["name"]] = found.mismatches
        else:
            tally.passed += 1
        for path, plugins in found.not_compared.items():
            for plugin in plugins:
                tally.not_compared[path, plugin] += 1
    return tally


def run(family: str | None = None, name: str | None = None, *, verbose: bool = False) -> int:
    """Prints what came of it; 1 when anything differs."""
    logging.getLogger("kubesched").setLevel(logging.CRITICAL)
    chosen = [each for each in packed.families() if family in (None, each)]
    if not chosen:
        sys.exit(f"no family {family}; there are {', '.join(packed.families())}")
    tallies = []
    for each in chosen:
        tally = run_family(each, (case for case in packed.cases(each) if name in (None, case["name"])))
        if tally.passed or tally.failed:
            tallies.append(tally)
            _print_family(tally, verbose)
    _print_sum(tallies)
    return int(any(tally.failed for tally in tallies) or not tallies)


def _print_family(tally: Tally, verbose: bool) -> None:
    total = tally.passed + len(tally.failed)
    print(f"{'ok  ' if not tally.failed else 'FAIL'} {tally.family:<26} {tally.passed}/{total}", flush=True)
    for name, mismatches in tally.failed.items():
        shown = mismatches if verbose else mismatches[:3]
        for mismatch in shown:
            print(f"       {name}: {mismatch}")
        if len(shown) < len(mismatches):
            print(f"       {name}: and {len(mismatches) - len(shown)} more (-v shows them)")
    if verbose:
        for (path, plugin), count in sorted(tally.not_compared.items()):
            print(f"       not compared in {count} cases: {path} ({plugin} is missing)")


def _print_sum(tallies: list[Tally]) -> None:
    passed = sum(tally.passed for tally in tallies)
    failed = sum(len(tally.failed) for tally in tallies)
    print(f"\n{passed} of {passed + failed} cases agree with kube-scheduler v1.36.2")
    not_compared: Counter[tuple[str, str]] = Counter()
    for tally in tallies:
        not_compared += tally.not_compared
    if not_compared:
        print("not compared, because a plugin is not built yet (its recorded answers were used instead):")
        for (path, plugin), count in sorted(not_compared.items()):
            print(f"  {path:<48} {count:>4} cases  {plugin} is missing")
