"""Running cases through `Cluster` and summing up."""

from __future__ import annotations

import logging
import sys

from kubesched import Cluster
from kubesched.api.errors import KubeschedError
from tests.conformance import packed
from tests.conformance.compare import differences, wrong_decision
from tests.conformance.packed import Case

#: Mismatches of a case that are shown unless all are asked for.
_SHOWN = 3


def mismatches(case: Case) -> list[str]:
    """Where the explanation differs from the record, and then the decision itself."""
    cluster = Cluster(case["objects"], config=case.get("config"))
    want, pod = case["expect"], case["pod"]
    try:
        found = list(differences(cluster.explain(pod).to_dict(), want))
        if not pod["spec"].get("nodeName"):
            found += wrong_decision(cluster.schedule(pod), want)
    except KubeschedError as error:
        return [f"raised {type(error).__name__}: {error}"]
    return found


def run(family: str | None = None, name: str | None = None, *, verbose: bool = False) -> int:
    """Prints what came of it; 1 when anything differs."""
    logging.getLogger("kubesched").setLevel(logging.CRITICAL)
    if family is not None and family not in packed.families():
        sys.exit(f"no family {family}; there are {', '.join(packed.families())}")
    passed = failed = 0
    for each in packed.families():
        if family not in (None, each):
            continue
        results = {
            case["name"]: mismatches(case) for case in packed.cases(each) if name is None or name == case["name"]
        }
        if results:
            _print_family(each, results, verbose)
        passed += sum(not found for found in results.values())
        failed += sum(bool(found) for found in results.values())
    if passed + failed == 0:
        sys.exit(f"no case {name}")
    print(f"\n{passed} of {passed + failed} cases agree with kube-scheduler v1.36.2 in every field")
    later = sum(1 for each in packed.families("later") for _ in packed.cases(each, "later"))
    print(f"not run: {later} cases of pods with resource claims, since devices are not allocated yet")
    return int(failed > 0)


def _print_family(family: str, results: dict[str, list[str]], verbose: bool) -> None:
    wrong = {name: found for name, found in results.items() if found}
    print(f"{'FAIL' if wrong else 'ok  '} {family:<26} {len(results) - len(wrong)}/{len(results)}", flush=True)
    for name, found in wrong.items():
        shown = found if verbose else found[:_SHOWN]
        for mismatch in shown:
            print(f"       {name}: {mismatch}")
        if len(shown) < len(found):
            print(f"       {name}: and {len(found) - len(shown)} more (-v shows them)")
