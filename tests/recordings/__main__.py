"""Replays recordings and prints how it went.

    python -m tests.recordings [-v] [SCENARIO ...]

Without names: every scenario of the API server and of kubectl. With -v each difference is told.
"""

from __future__ import annotations

import asyncio
import sys

from tests.recordings.replay import replay
from tests.recordings.scenario import scenarios


def main(arguments: list[str]) -> int:
    verbose = "-v" in arguments
    wanted = [a for a in arguments if not a.startswith("-")]
    total = equal = 0
    for name, scenario in scenarios().items():
        if not any(name.startswith(w) for w in wanted) if wanted else name[0] == "b":
            continue
        outcomes = asyncio.run(replay(scenario))
        good = sum(outcome.equal for outcome in outcomes)
        total, equal = total + len(outcomes), equal + good
        print(f"{'ok  ' if good == len(outcomes) else 'FAIL'} {name}: {good} of {len(outcomes)} exchanges equal")
        if verbose:
            for outcome in outcomes:
                if not outcome.equal:
                    print(f"  {outcome.exchange.title}")
                    for difference in outcome.differences[:8]:
                        print(f"      {difference}")
    print(f"{equal} of {total} exchanges equal")
    return 0 if equal == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
