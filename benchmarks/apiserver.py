"""Load figures of the embedded API server: `python -m benchmarks.apiserver [--nodes N] [--pods N] [--watchers N]`.

The server runs in a process of its own, its clients here. Rates are per second of the server's CPU time, so that they
tell one core whatever else the machine does; wall time is told beside. Each pod created and each pod bound is delivered
to every watcher. Memory is the server's resident set, its history of changes included.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

encode = msgspec.json.encode
_TICKS = os.sysconf("SC_CLK_TCK")
_IN_FLIGHT = 32
_JSON = {"Content-Type": "application/json"}


class Served:
    """The server's process, as seen from outside (Linux)."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self._folder = Path("/proc") / str(pid)

    def cpu_s(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_bytes(self) -> int:
        line = next(li for li in (self._folder / "status").read_text().splitlines() if li.startswith("VmRSS"))
        return int(line.split()[1]) * 1024


class Watchers:
    """Open watches on pods that count what is delivered."""

    def __init__(self, session: aiohttp.ClientSession, url: str, count: int) -> None:
        self.delivered = 0
        self._wanted = 0
        self._reached = asyncio.Event()
        self._tasks = [asyncio.create_task(self._read(session, url)) for _ in range(count)]

    async def until(self, delivered: int) -> None:
        self._wanted = delivered
        self._reached.clear()
        if self.delivered < delivered:
            await self._reached.wait()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, session: aiohttp.ClientSession, url: str) -> None:
        no_limit = aiohttp.ClientTimeout(total=None)
        async with session.get(url + "/api/v1/pods?watch=true&resourceVersion=0", timeout=no_limit) as response:
            async for chunk in response.content.iter_any():
                self.delivered += chunk.count(b"\n")
                if self.delivered >= self._wanted:
                    self._reached.set()


async def main(nodes: int, pods: int, watchers: int) -> None:
    async with serving() as server, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        print(f"{'':<34} {'per CPU s':>10} {'CPU s':>8} {'wall s':>8}")
        path = f"{server.url}/api/v1/nodes"
        await timed(server, f"create {nodes} nodes", nodes, lambda: send(session, path, map(node, range(nodes))))
        path = f"{server.url}/api/v1/namespaces/default/pods"
        before = server.memory_bytes()
        await timed(server, f"create {pods} pods", pods, lambda: send(session, path, map(pod, range(pods))))
        per_pod = (server.memory_bytes() - before) / pods
        watching = Watchers(session, server.url, watchers)
        await watching.until(pods * watchers)

        async def bind() -> None:
            await send_each(session, ((f"{path}/p{n}/binding", binding(n, nodes)) for n in range(pods)))
            await watching.until(2 * pods * watchers)

        used = await timed(server, f"bind {pods} pods, {watchers} watchers", pods, bind)
        print(f"{'  deliveries of them':<34} {pods * watchers / used:>10.0f}")
        await watching.close()
        print(f"{'memory per pod':<34} {per_pod:>10.0f} bytes")
        print(f"{'memory in all':<34} {server.memory_bytes() / 2**20:>10.0f} MiB")


async def timed(server: Served, what: str, count: int, work: Callable[[], Awaitable[None]]) -> float:
    cpu_s, wall_s = server.cpu_s(), time.monotonic()
    await work()
    used, took = server.cpu_s() - cpu_s, time.monotonic() - wall_s
    print(f"{what:<34} {count / max(used, 1 / _TICKS):>10.0f} {used:>8.2f} {took:>8.2f}", flush=True)
    return max(used, 1 / _TICKS)


async def send(session: aiohttp.ClientSession, path: str, bodies: map[bytes]) -> None:
    await send_each(session, ((path, body) for body in bodies))


async def send_each(session: aiohttp.ClientSession, requests: object) -> None:
    queue = iter(requests)  # type: ignore[call-overload]

    async def work() -> None:
        for path, body in queue:
            async with session.post(path, data=body, headers=_JSON) as response:
                if response.status != 201:
                    raise SystemExit(await response.text())
                await response.read()

    await asyncio.gather(*(work() for _ in range(_IN_FLIGHT)))


def node(number: int) -> bytes:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"n{number}", "topology.kubernetes.io/zone": f"z{number % 3}"}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    return encode({"metadata": {"name": f"n{number}", "labels": labels}, "status": status})


def pod(number: int) -> bytes:
    requests = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    spec = {"containers": [{"name": "c", "image": "registry.example/app:1", "resources": requests}]}
    return encode({"metadata": {"name": f"p{number}", "labels": {"app": f"a{number % 100}"}}, "spec": spec})


def binding(number: int, nodes: int) -> bytes:
    return encode({"metadata": {"name": f"p{number}"}, "target": {"kind": "Node", "name": f"n{number % nodes}"}})


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    arguments = ("-m", "kubesched", "apiserver", "--port", "0", "--no-node-simulator", "--controllers", "")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        yield Served(line.removeprefix("serving ").strip(), process.pid)
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="load figures of the embedded API server")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--watchers", type=int, default=20)
    options = parser.parse_args()
    asyncio.run(main(options.nodes, options.pods, options.watchers))
