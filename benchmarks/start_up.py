"""CPU seconds to start: `python -m benchmarks.start_up`. Each command is run five times; the median counts."""

from __future__ import annotations

import statistics
import subprocess
import sys

_COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import kubesched": ["-c", "import kubesched"],
    "kubesched --help": ["-m", "kubesched", "--help"],
    "import the whole of run": ["-c", "import kubesched.app.run, kubesched.plugins.registry"],
}
_PROGRAM = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""


def main() -> None:
    print(f"{'command':<26} {'CPU s':>6}")
    for name, arguments in _COMMANDS.items():
        print(f"{name:<26} {statistics.median(_cpu_s(arguments) for _ in range(5)):>6.3f}")


def _cpu_s(arguments: list[str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, check=True
    )  # fmt: skip
    return float(done.stdout)


if __name__ == "__main__":
    main()
