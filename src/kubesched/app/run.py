"""`kubesched run`: a scheduler beside a real API server, or with one embedded in the same process.

    version and settings ─► own HTTPS port ─► watches ─► caches synced ─► leader election ─► scheduling

Ends with 0 when asked to stop (SIGINT, SIGTERM) or, with `until_settled`, when nothing more can be scheduled; with 1
when something broke, when its port is taken (before anything is watched), and when the lease is lost. Asked to stop, it
begins no new cycle, lets binds in flight end, releases the lease and flushes events; asked twice, it ends at once.
SIGUSR2 writes queue and cache to the log and compares them with the API server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import yaml

from kubesched import build, manifests
from kubesched.api.errors import KubeschedError
from kubesched.apiserver import CONTROLLERS, Server, write_kubeconfig
from kubesched.app.dumps import dump_and_compare
from kubesched.app.flags import Flags
from kubesched.app.garbage import collect_rarely, keep_all
from kubesched.app.live import LeaseLostError, LiveOptions, LiveScheduler
from kubesched.app.options import files
from kubesched.app.options import load as load_options
from kubesched.app.reload import Reloader
from kubesched.app.secure_serving import SecureServing, health_checks
from kubesched.app.settling import settled
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, KubeconfigError, PemSource, UserConfig, load
from kubesched.client.rest import ApiClient, connect
from kubesched.clock import Clock, RealClock
from kubesched.metrics import LimitError, Limits, parse_allowed

log = logging.getLogger("kubesched.app")

#: Signals that come within this time ask for one stop.
_SAME_REQUEST_S = 0.5


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
    asked_to_stop = _StopRequest(stop, RealClock())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_stop)
    if not options.embedded:
        connection = _connection(options)
        return await _run_live(connection, options, stop, None)
    server = Server(port=options.port, node_simulator=options.node_simulator, controllers=tuple(CONTROLLERS))
    for path in options.load:
        count = server.load_documents(manifests.load(path), leave_out_unknown=True)
        log.info("objects loaded path=%s count=%d", path, count)
    async with server:
        if options.kubeconfig_out is not None:
            try:
                write_kubeconfig(server, options.kubeconfig_out)
            except OSError as error:
                raise KubeschedError(f"--kubeconfig-out {options.kubeconfig_out}: {error.strerror or error}") from None
        return await _run_live(connection_to(server), options, stop, server)


def _connection(options: RunOptions) -> ClientConfig:
    try:
        return load(options.kubeconfig or None, context=options.context, server=options.master)
    except KubeconfigError as error:
        if not options.kubeconfig:
            raise
        named_by = f"{options.flags.config}: clientConnection.kubeconfig" if options.flags.config else "--kubeconfig"
        raise KubeschedError(f"{named_by}: {error}") from error


def connection_to(server: Server) -> ClientConfig:
    """How a client in this process reaches an embedded server."""
    ca = PemSource(data=server.ca_pem) if server.ca_pem else None
    return ClientConfig(
        ClusterConfig(server.url, ca=ca), UserConfig(token=server.token or ""), source="embedded server"
    )


async def _run_live(connection: ClientConfig, options: RunOptions, stop: asyncio.Event, server: Server | None) -> int:
    _log_settings(options)
    collect_rarely()
    live = LiveScheduler(connection, options.live, clock=RealClock())
    live.metrics.limits = _limits(options.flags)
    serving = _serving(live, options)
    if serving is not None:
        try:
            await serving.start()
        except BaseException:
            await serving.stop()
            await live.stop()
            raise
    work = asyncio.create_task(_start_and_run(live, options, server), name="scheduler")
    reloading = [*_reload_when_asked(live, options), _dump_when_asked(live)]
    ends = [work, asyncio.create_task(stop.wait(), name="signals")]
    if options.until_settled:
        ends.append(asyncio.create_task(_settle(live, options), name="settled"))
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        log.info("stopping")
        await live.stop()
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            if isinstance(error, LeaseLostError):
                log.error("ending, because somebody else may schedule now error=%s", error)
            else:
                log.error("the scheduler ended with an error error=%s", error, exc_info=error)
            return 1
        log.info("stopped")
        return 0
    finally:
        for task in (*ends, *reloading):
            task.cancel()
        await asyncio.gather(*ends, *reloading, return_exceptions=True)
        if serving is not None:
            await serving.stop()


class _StopRequest:
    """SIGINT or SIGTERM: stop in order; asked once more, end at once.

    What comes right behind the first is the same request: `timeout` signals a process and its group, a terminal all of
    a pipeline.
    """

    def __init__(self, stop: asyncio.Event, clock: Clock) -> None:
        self._stop = stop
        self._clock = clock
        self._asked_at_s = 0.0

    def __call__(self) -> None:
        now_s = self._clock.monotonic()
        if not self._stop.is_set():
            self._asked_at_s = now_s
            self._stop.set()
        elif now_s - self._asked_at_s >= _SAME_REQUEST_S:
            log.error("asked to stop again, ending at once")
            os._exit(1)


def _log_settings(options: RunOptions) -> None:
    config = options.live.config
    log.info(
        "starting kubesched version=%s build=%s python=%s profiles=%s",
        version("kubesched"), build.kind(), platform.python_version(),
        ",".join(profile.scheduler_name for profile in config.profiles),
    )  # fmt: skip
    lease = f"{config.leader_election.resource_namespace}/{config.leader_election.resource_name}"
    log.info(
        "settings leader_elect=%s lease=%s secure_port=%d qps=%g burst=%d initial_backoff_s=%d max_backoff_s=%d",
        config.leader_election.leader_elect, lease, _port(options),
        config.client_connection.qps, config.client_connection.burst,
        config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds,
    )  # fmt: skip


def _port(options: RunOptions) -> int:
    """0: none. With an embedded server only if it was asked for, so that several may run side by side."""
    if options.embedded and "secure-port" not in options.flags.changed:
        return 0
    return options.flags.secure_port


def _limits(flags: Flags) -> Limits:
    items = list(flags.allow_metric_labels)
    try:
        if flags.allow_metric_labels_manifest:
            content = yaml.safe_load(Path(flags.allow_metric_labels_manifest).read_text(encoding="utf-8"))
            items += [f"{key}={values}" for key, values in (content or {}).items()]
        return Limits(flags.disabled_metrics, parse_allowed(items))
    except (OSError, yaml.YAMLError, AttributeError) as error:
        raise KubeschedError(f"--allow-metric-labels-manifest {flags.allow_metric_labels_manifest}: {error}") from error
    except LimitError as error:
        raise KubeschedError(str(error)) from error


def _serving(live: LiveScheduler, options: RunOptions) -> SecureServing | None:
    """The own port, with the connections that reviews go over."""
    if not _port(options):
        return None
    flags = options.flags

    def client(kubeconfig: str) -> ApiClient:
        if kubeconfig:
            return connect(load(kubeconfig), live.clock)
        return live.client.lane("authentication", None)

    return SecureServing(
        flags,
        live.scheduler,
        live.metrics,
        live.clock,
        configuration=lambda: live.config,
        checks=health_checks(
            synced=lambda: live.is_synced,
            stopping=lambda: live.is_stopping,
            election=live.election.finding if live.election is not None else None,
        ),
        authentication=client(flags.authentication_kubeconfig),
        authorization=client(flags.authorization_kubeconfig),
        cluster=live.client.lane("debugging", None),
    )


async def _dump(live: LiveScheduler) -> None:
    try:
        await dump_and_compare(live.client, live.scheduler, live.clock)
    except KubeschedError as error:
        log.error("could not compare the cache with the API server error=%s", error)


def _reload_when_asked(live: LiveScheduler, options: RunOptions) -> list[asyncio.Task[None]]:
    """Serve SIGHUP where there is something to load again, and look at the files if that is wanted."""
    paths = files(options.flags)
    if not paths:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(
            signal.SIGHUP, log.warning, "nothing to load again: neither --config nor --plugin files"
        )
        return []
    reloader = Reloader(live, lambda: load_options(options.flags, options.live.gates), paths, live.clock)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.request)
    tasks = [asyncio.create_task(reloader.run(), name="reload")]
    if options.flags.reload_on_change:
        tasks.append(asyncio.create_task(reloader.watch_files(), name="watch of files"))
    return tasks


def _dump_when_asked(live: LiveScheduler) -> asyncio.Task[None]:
    asked = asyncio.Event()

    async def serve() -> None:
        while True:
            await asked.wait()
            asked.clear()
            await _dump(live)

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, asked.set)
    return asyncio.create_task(serve(), name="dumps")


async def _settle(live: LiveScheduler, options: RunOptions) -> None:
    await settled(live.scheduler)
    options.on_settled(live)


async def _start_and_run(live: LiveScheduler, options: RunOptions, server: Server | None) -> None:
    await live.start()
    keep_all()
    options.on_started(live, server)
    await live.run()
