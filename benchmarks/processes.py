"""What a process has used, as Linux counts it: CPU of all its threads, dead ones included, and its memory's peak."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STOP_S: Final = 15.0


class Process:
    """A child with its output in a file. A context manager: it is asked to end, then made to."""

    def __init__(self, command: Sequence[str], log: Path, *, environment: dict[str, str] | None = None) -> None:
        self.log = log
        self._output: IO[bytes] = log.open("wb")
        self.process = subprocess.Popen(
            command, stdout=self._output, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._output.close()

    @property
    def cpu_s(self) -> float:
        """User and system time so far."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def peak_mb(self) -> float:
        return self._memory_mb("VmHWM")

    @property
    def resident_mb(self) -> float:
        return self._memory_mb("VmRSS")

    def check(self) -> None:
        if (code := self.process.poll()) is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.process.args!r} ended with {code}:\n{tail}")

    def until_quiet(self, *, quiet_s: float = 0.5, timeout_s: float = 120.0) -> None:
        """Until it has used next to no CPU for a while."""
        deadline = time.monotonic() + timeout_s
        before = self.cpu_s
        while time.monotonic() < deadline:
            time.sleep(quiet_s)
            self.check()
            now = self.cpu_s
            if now > 0.1 and now - before <= 0.03 * quiet_s:
                return
            before = now
        raise TimeoutError(f"{self.process.args!r} is still busy after {timeout_s:g} s")

    def _memory_mb(self, name: str) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        return 0.0


def machine() -> dict[str, Any]:
    """What a result was measured on."""
    model = next((line.partition(":")[2].strip() for line in _cpu_info() if line.startswith("model name")), "")
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpu": model or platform.processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
    }


def _cpu_info() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
