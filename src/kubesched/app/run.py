"""`kubesched run`: a scheduler beside a real API server, or with one embedded in the same process.

Ends with 0 when asked to stop (SIGINT, SIGTERM) or, with `until_settled`, when nothing more can be scheduled; with 1
when something broke.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from kubesched import manifests
from kubesched.apiserver import Server, write_kubeconfig
from kubesched.app.flags import Flags
from kubesched.app.live import LiveOptions, LiveScheduler
from kubesched.app.options import files
from kubesched.app.options import load as load_options
from kubesched.app.reload import Reloader
from kubesched.app.settling import settled
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, PemSource, UserConfig, load
from kubesched.clock import RealClock

log = logging.getLogger("kubesched.app")


@dataclass(slots=True)
class RunOptions:
    live: LiveOptions
    #: The command line, for what is not in the configuration.
    flags: Flags = field(default_factory=Flags)
    kubeconfig: str = ""
    context: str | None = None
    master: str = ""
    embedded: bool = False
    load: tuple[Path, ...] = ()
    port: int = 0
    node_simulator: bool = True
    kubeconfig_out: Path | None = None
    until_settled: bool = False
    #: Called when the scheduler runs, with the embedded server if there is one.
    on_started: Callable[[LiveScheduler, Server | None], None] = field(default=lambda _live, _server: None)
    #: Called once nothing more can be scheduled.
    on_settled: Callable[[LiveScheduler], None] = field(default=lambda _live: None)


async def run(options: RunOptions) -> int:
    """Runs to the end; the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if not options.embedded:
        connection = load(options.kubeconfig or None, context=options.context)
        if options.master:
            connection = replace(connection, cluster=replace(connection.cluster, server=options.master.rstrip("/")))
        return await _run_live(connection, options, stop, None)
    server = Server(port=options.port, node_simulator=options.node_simulator)
    for path in options.load:
        count = server.load(document.manifest for document in manifests.load(path))
        log.info("objects loaded path=%s count=%d", path, count)
    async with server:
        if options.kubeconfig_out is not None:
            write_kubeconfig(server, options.kubeconfig_out)
        return await _run_live(connection_to(server), options, stop, server)


def connection_to(server: Server) -> ClientConfig:
    """How a client in this process reaches an embedded server."""
    ca = PemSource(data=server.ca_pem) if server.ca_pem else None
    return ClientConfig(
        ClusterConfig(server.url, ca=ca), UserConfig(token=server.token or ""), source="embedded server"
    )


async def _run_live(connection: ClientConfig, options: RunOptions, stop: asyncio.Event, server: Server | None) -> int:
    live = LiveScheduler(connection, options.live, clock=RealClock())
    work = asyncio.create_task(_start_and_run(live, options, server), name="scheduler")
    reloading = _reload_when_asked(live, options)
    ends = [work, asyncio.create_task(stop.wait(), name="signals")]
    if options.until_settled:
        ends.append(asyncio.create_task(_settle(live, options), name="settled"))
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        log.info("stopping")
        await live.stop()
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            log.error("the scheduler ended with an error error=%s", error, exc_info=error)
            return 1
        return 0
    finally:
        for task in (*ends, *reloading):
            task.cancel()
        await asyncio.gather(*ends, *reloading, return_exceptions=True)


def _reload_when_asked(live: LiveScheduler, options: RunOptions) -> list[asyncio.Task[None]]:
    """Serve SIGHUP where there is something to load again, and look at the files if that is wanted."""
    paths = files(options.flags)
    if not paths:
        return []
    reloader = Reloader(live, lambda: load_options(options.flags, options.live.gates), paths, live.clock)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.request)
    tasks = [asyncio.create_task(reloader.run(), name="reload")]
    if options.flags.reload_on_change:
        tasks.append(asyncio.create_task(reloader.watch_files(), name="watch of files"))
    return tasks


async def _settle(live: LiveScheduler, options: RunOptions) -> None:
    await settled(live.scheduler)
    options.on_settled(live)


async def _start_and_run(live: LiveScheduler, options: RunOptions, server: Server | None) -> None:
    await live.start()
    options.on_started(live, server)
    await live.run()
