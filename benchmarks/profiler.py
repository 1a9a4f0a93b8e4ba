"""Where the CPU of a program goes: `python -m benchmarks.profiler FILE MODULE [ARGUMENT ...]`.

Samples the main thread as it uses CPU, from SIGUSR1 on, and writes two lists of shares when the program ends: functions
with all that they call, and lines by themselves. It costs a few per cent, evenly, where cProfile makes small functions
look dear. Time in the kernel and in C counts for the Python line that comes next.
"""

from __future__ import annotations

import atexit
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

_EVERY_S: Final = 0.001  # the kernel may make it a tick, mostly 4 ms
_SHOWN: Final = 100


class Sampler:
    def __init__(self, out: Path) -> None:
        self._out = out
        self._with_callees: Counter[CodeType] = Counter()
        self._lines: Counter[tuple[CodeType, int]] = Counter()
        self._samples = 0
        signal.signal(signal.SIGUSR1, self._start)
        signal.signal(signal.SIGPROF, self._sample)
        atexit.register(self._write)

    def _start(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        if frame is None:
            return
        self._samples += 1
        self._lines[frame.f_code, frame.f_lineno] += 1
        seen = set()
        while frame is not None:
            seen.add(frame.f_code)
            frame = frame.f_back
        self._with_callees.update(seen)

    def _write(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        total = max(self._samples, 1)
        with self._out.open("w") as out:
            print(f"{self._samples} samples\n\nwith what they call", file=out)
            for code, count in self._with_callees.most_common(_SHOWN):
                print(f"{count / total:7.1%}  {code.co_qualname} ({_place(code)})", file=out)
            print("\nlines by themselves", file=out)
            for (code, line), count in self._lines.most_common(_SHOWN):
                print(f"{count / total:7.1%}  {code.co_qualname} ({_place(code)}:{line})", file=out)


def _place(code: CodeType) -> str:
    return "/".join(Path(code.co_filename).parts[-2:])


if __name__ == "__main__":
    Sampler(Path(sys.argv[1]))
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
