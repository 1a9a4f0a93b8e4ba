"""Replays recordings and prints how it went.

    python -m tests.recordings [-v] [SCENARIO ...]

Without names: every scenario of the API server and of kubectl. Those of the live cluster (a, d) are replayed together.
With -v each exchange is told. A scenario is ok when all its exchanges are equal but those in known_differences.txt.
"""

from __future__ import annotations

import asyncio
import sys

from tests.recordings.replay import Outcome, live_scenarios, replay, replay_live
from tests.recordings.scenario import known_differences, scenarios


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")


def main(arguments: list[str]) -> int:
    verbose = "-v" in arguments
    wanted = [a for a in arguments if not a.startswith("-")]
    names = [n for n in scenarios() if (any(n.startswith(w) for w in wanted) if wanted else n[0] != "b")]
    live = live_scenarios(scenarios())
    lived = asyncio.run(replay_live(live)) if any(scenario.name in names for scenario in live) else {}
    total = equal = failed = 0
    for name in names:
        outcomes = lived[name] if name in lived else asyncio.run(replay(scenarios()[name]))
        reasons = known_differences().get(name, {})
        good = sum(outcome.equal for outcome in outcomes)
        total, equal = total + len(outcomes), equal + good
        fine = all(outcome.equal != (outcome.exchange.index in reasons) for outcome in outcomes)
        failed += not fine
        tell(f"{'ok  ' if fine else 'FAIL'} {name}: {good} of {len(outcomes)} exchanges equal")
        for outcome in outcomes:
            tell_exchange(outcome, reasons.get(outcome.exchange.index), verbose=verbose)
    tell(f"{equal} of {total} exchanges equal ({100 * equal / max(total, 1):.1f} %), {failed} scenarios failed")
    return 1 if failed else 0


def tell_exchange(outcome: Outcome, reason: str | None, *, verbose: bool) -> None:
    if outcome.equal and reason is None:
        if verbose:
            tell(f"       ok    {outcome.exchange.title}")
    elif not outcome.equal and reason is not None:
        tell(f"       known {outcome.exchange.title}: {reason}")
    else:
        tell(f"       FAIL  {outcome.exchange.title}{': is equal now' if outcome.equal else ''}")
        for difference in outcome.differences[:8]:
            tell(f"             {difference}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
