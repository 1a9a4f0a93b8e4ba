"""Where the CPU of the compiled build goes: what `perf` has recorded, by compiled function.

    perf record -F 799 --call-graph dwarf,24576 -o scheduler.data -p PID -- sleep 10
    python -m benchmarks.compiled_profile scheduler.data > benchmarks/profiles/basic-5000-compiled.txt

Compiled frames are hidden from profilers of Python, interpreted ones from this: both together show all of it. Samples
before the first decision (imports, lists) are left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from collections.abc import Iterator

_SHOWN = 60
_SAMPLE = re.compile(r"\s*[\d.]+:\s*$")
_FRAME = re.compile(r"\s*[0-9a-f]+ (?P<symbol>.+) \((?P<object>[^()]*)\)$")
#: mypyc names a function after its module, class and name; a coroutine is a class with one method.
_COMPILED = re.compile(r"CPyDef_(?P<module>\w+?)___(?P<name>\w+)")
_COROUTINE = re.compile(r"(?P<name>\w+?)(?:_(?P<cls>[A-Z]\w*))?_gen_____mypyc_generator_helper__")

Stack = list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="what `perf record` wrote")
    parser.add_argument("--since", default="find_fits", help="leave out samples before the first one in here")
    args = parser.parse_args()
    stacks = list(_stacks(args.data))
    first = next((k for k, stack in enumerate(stacks) if any(args.since in symbol for symbol, _ in stack)), 0)
    _show(stacks[first:])


def _stacks(data: str) -> Iterator[Stack]:
    """(symbol, file) of each frame, the innermost first."""
    told = subprocess.run(
        ["perf", "script", "-i", data, "-F", "time,ip,sym,dso"], capture_output=True, text=True, check=True
    )
    stack: Stack = []
    for line in told.stdout.splitlines():
        if _SAMPLE.match(line):
            stack = []
        elif frame := _FRAME.match(line):
            stack.append((frame["symbol"], frame["object"]))
        elif not line.strip() and stack:
            yield stack
            stack = []


def _show(stacks: list[Stack]) -> None:
    places: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for stack in stacks:
        places[next((_file(path) for _, path in stack if path != "inlined"), "?")] += 1
        functions.update({name for symbol, _ in stack if (name := _function(symbol))})
    print(f"{len(stacks)} samples\n\nin which file the instruction was")
    for place, count in places.most_common(10):
        print(f"{100 * count / len(stacks):6.1f}%  {place}")
    print("\ncompiled functions, with what they call")
    for function, count in functions.most_common(_SHOWN):
        print(f"{100 * count / len(stacks):6.1f}%  {function}")


def _file(path: str) -> str:
    return path.rsplit("/", 1)[-1].strip("[]").split(".", 1)[0]


def _function(symbol: str) -> str:
    """`Class.method (module)`, or "" for what is not compiled from Python."""
    found = _COMPILED.match(symbol)
    if found is None:
        return ""
    name = found["name"].replace("____", "._").replace("___", ".")
    if coroutine := _COROUTINE.fullmatch(found["name"]):
        name = f"async {coroutine['cls']}.{coroutine['name']}" if coroutine["cls"] else f"async {coroutine['name']}"
    return f"{name} ({found['module']})"


if __name__ == "__main__":
    main()
