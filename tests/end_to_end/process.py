"""`kubesched run` as a process of its own, against an embedded server of the test."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from kubesched.apiserver import Server, write_kubeconfig

#: Client-side limits out of the way.
FAST = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"qps": 5000, "burst": 5000},
    "leaderElection": {"leaderElect": False},
}


class SchedulerProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[str] = []
        self._more = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def wait_for(self, text: str) -> str:
        """The first line of the log that contains `text`."""
        seen = 0
        while True:
            self._more.clear()
            for line in self.lines[seen:]:
                if text in line:
                    return line
            seen = len(self.lines)
            assert not self._reader.done(), "the scheduler ended:\n" + "\n".join(self.lines[-30:])
            await self._more.wait()

    async def ended(self) -> int:
        """The exit code, once all it has said is in `lines`."""
        code = await self._process.wait()
        await self._reader
        return code

    async def kill(self) -> None:
        self._process.kill()
        await self.ended()

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def terminate(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return await self.ended()

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self.lines.append(line.decode().rstrip())
                self._more.set()
        finally:
            # Once this task counts as done, so that who waits sees it.
            asyncio.get_running_loop().call_soon(self._more.set)


@asynccontextmanager
async def running_scheduler(
    server: Server, folder: Path, *arguments: str, config: dict[str, Any] = FAST
) -> AsyncIterator[SchedulerProcess]:
    """A scheduler with its log at hand; killed at the end if it still runs."""
    kubeconfig, config_file = folder / "kubeconfig", folder / "config.yaml"
    write_kubeconfig(server, kubeconfig)
    connection = {**config.get("clientConnection", {}), "kubeconfig": str(kubeconfig)}
    config_file.write_text(yaml.safe_dump({**config, "clientConnection": connection}))
    scheduler = await start_scheduler(["--config", str(config_file), "--secure-port=0", *arguments])
    try:
        yield scheduler
    finally:
        if scheduler.is_running:
            await scheduler.kill()


async def start_scheduler(arguments: Sequence[str]) -> SchedulerProcess:
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesched", "run", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    return SchedulerProcess(started)
