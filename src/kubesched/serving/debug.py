"""`/debug/pprof/`: what the process is doing right now. Only where profiling is on.

profile?seconds=30   where the time goes: stacks sampled from outside, folded, one `a;b;c count` a line, as flame
                     graph tools read them; costs the process next to nothing
goroutine            the stack of every task and thread
heap                 how many objects of which type there are
cmdline              the command line
"""

from __future__ import annotations

import asyncio
import collections
import gc
import io
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Final

from kubesched.serving.answers import Answer, Asked, not_found, text

ROOT: Final = "/debug/pprof/"
_SECONDS_MAX: Final = 300.0
_SAMPLES_PER_S: Final = 100
_DEPTH_MAX: Final = 100
_TYPES_SHOWN: Final = 100

_PROFILES: Final = {
    "cmdline": "the command line of this process",
    "goroutine": "the stack of every task and thread",
    "heap": "how many objects of which type there are",
    "profile": "where the time goes: sampled stacks, folded; ?seconds=30",
}


class Profiles:
    def __init__(self) -> None:
        self._is_sampling = False

    async def answer(self, asked: Asked) -> Answer:
        match asked.path.removeprefix(ROOT).rstrip("/"):
            case "":
                return self._index()
            case "cmdline":
                return text("\x00".join(sys.argv))
            case "goroutine":
                return text(stacks())
            case "heap":
                return text(object_counts())
            case "profile":
                return await self._profile(asked)
            case _:
                return not_found()

    def _index(self) -> Answer:
        rows = "".join(f"<tr><td><a href='{name}'>{name}</a></td><td>{says}</td></tr>\n"
                       for name, says in _PROFILES.items())  # fmt: skip
        page = (
            f"<html>\n<head>\n<title>{ROOT}</title>\n</head>\n<body>\n{ROOT}\n<table>\n{rows}</table>\n</body>\n</html>"
        )
        return text(page, content_type="text/html; charset=utf-8")

    async def _profile(self, asked: Asked) -> Answer:
        try:
            seconds = float(asked.parameter("seconds", "30"))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _SECONDS_MAX:
            return text(f"seconds must be a number above 0, and at most {_SECONDS_MAX:g}\n", 400)
        if self._is_sampling:
            return text("Could not enable CPU profiling: cpu profiling already in use\n", 500)
        self._is_sampling = True
        try:
            return text(await asyncio.to_thread(sample, seconds))
        finally:
            self._is_sampling = False


def sample(seconds: float) -> str:
    """Looks at the stacks of all other threads, once at least; to be called on a thread of its own."""
    counts: collections.Counter[str] = collections.Counter()
    me = threading.get_ident()
    end_s = time.monotonic() + seconds
    while True:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != me:
                counts[f"{names.get(ident, ident)};{_folded(frame)}"] += 1
        if time.monotonic() >= end_s:
            break
        time.sleep(1 / _SAMPLES_PER_S)
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def stacks() -> str:
    out = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        out.write(f"task {task.get_name()}:\n")
        task.print_stack(file=out, limit=_DEPTH_MAX)
        out.write("\n")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        out.write(f"thread {names.get(ident, ident)}:\n")
        traceback.print_stack(frame, limit=_DEPTH_MAX, file=out)
        out.write("\n")
    return out.getvalue()


def object_counts() -> str:
    counts = collections.Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    lines = [f"gc collections={[each['collections'] for each in gc.get_stats()]} tracked objects={counts.total()}"]
    lines += [f"{count:>10} {name}" for name, count in counts.most_common(_TYPES_SHOWN)]
    return "\n".join(lines) + "\n"


def _folded(frame: FrameType | None) -> str:
    parts: list[str] = []
    while frame is not None and len(parts) < _DEPTH_MAX:
        code = frame.f_code
        parts.append(f"{frame.f_globals.get('__name__', '?')}.{code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(parts))
