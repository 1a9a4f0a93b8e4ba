"""Replays recordings and prints how it went.

    python -m tests.recordings [-v] [SCENARIO ...]

Without names: every scenario of the API server and of kubectl. With -v each difference is told. A scenario is ok when
all its exchanges are equal but those listed in known_differences.txt.
"""

from __future__ import annotations

import asyncio
import sys

from tests.recordings.replay import live_scenarios, replay, replay_live
from tests.recordings.scenario import known_differences, scenarios


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")


def main(arguments: list[str]) -> int:
    verbose = "-v" in arguments
    wanted = [a for a in arguments if not a.startswith("-")]
    total = equal = 0
    names = [n for n in scenarios() if (any(n.startswith(w) for w in wanted) if wanted else n[0] != "b")]
    live = live_scenarios(scenarios())
    lived = asyncio.run(replay_live(live)) if any(scenario.name in names for scenario in live) else {}
    for name in names:
        outcomes = lived[name] if name in lived else asyncio.run(replay(scenarios()[name]))
        reasons = known_differences().get(name, {})
        good = sum(outcome.equal for outcome in outcomes)
        total, equal = total + len(outcomes), equal + good
        fine = all(outcome.equal != (outcome.exchange.index in reasons) for outcome in outcomes)
        tell(f"{'ok  ' if fine else 'FAIL'} {name}: {good} of {len(outcomes)} exchanges equal")
        for index, reason in reasons.items():
            tell(f"       #{index} is known to differ: {reason}")
        if verbose:
            for outcome in outcomes:
                if not outcome.equal and outcome.exchange.index not in reasons:
                    tell(f"  {outcome.exchange.title}")
                    for difference in outcome.differences[:8]:
                        tell(f"      {difference}")
    tell(f"{equal} of {total} exchanges equal")
    return 0 if equal == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
