"""`python -m tests.conformance [--family F] [--case NAME] [--hints] [-v]`"""

from __future__ import annotations

import argparse
import sys

from tests.conformance import hints, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--family", help="only this family of cases")
    parser.add_argument("--case", help="only the case of this name")
    parser.add_argument("--hints", action="store_true", help="queueing hints instead of decisions")
    parser.add_argument("-v", "--verbose", action="store_true", help="every mismatch, and what each family leaves out")
    args = parser.parse_args()
    if args.hints:
        return hints.run(args.case, verbose=args.verbose)
    return run.run(args.family, args.case, verbose=args.verbose)


sys.exit(main())
