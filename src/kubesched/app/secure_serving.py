"""The scheduler's own HTTPS port, put together from flags, configuration and a live scheduler.

It is up before anything is watched, so that a kubelet sees a living process while the caches fill.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubesched import config
from kubesched.api.core import Pod
from kubesched.api.errors import KubeschedError
from kubesched.app import access, dumps
from kubesched.app.flags import Flags, specs
from kubesched.client.rest import ApiClient
from kubesched.clock import Clock
from kubesched.config import Configuration, Duration
from kubesched.metrics import Metrics
from kubesched.scheduler.scheduler import Scheduler
from kubesched.serving import (
    Answer,
    Asked,
    Authenticator,
    Authorizer,
    CertificateError,
    Check,
    ClientCas,
    HealthChecks,
    PortTakenError,
    RequestHeaders,
    Routes,
    SecureServer,
    ServingCertificates,
    SniCertificate,
    answers,
    debug,
    pages,
    pods,
    resource_metrics,
)

log = logging.getLogger("kubesched.app")

_LOOPBACK = ("localhost", "127.0.0.1")
#: Lists that `/flagz` shows without brackets when they are empty.
_EMPTY_AS_NOTHING = ("feature-gates", "vmodule")


class ServingError(KubeschedError):
    """The port cannot be opened, or what it needs cannot be had."""


class SecureServing:
    """`await start()` before anything is watched; `await stop()` last of all, which closes the two clients."""

    def __init__(
        self,
        flags: Flags,
        scheduler: Scheduler,
        metrics: Metrics,
        clock: Clock,
        *,
        configuration: Callable[[], Configuration],
        checks: HealthChecks,
        authentication: ApiClient,
        authorization: ApiClient,
        cluster: ApiClient,
    ) -> None:
        """`cluster` is asked, with the scheduler's own rights, about pods that the scheduler keeps nothing about."""
        self._flags = flags
        self._clock = clock
        self._authentication, self._authorization = authentication, authorization
        self._own_cas = ClientCas(_pem(flags.client_ca_file), _pem(flags.requestheader_client_ca_file))
        headers = RequestHeaders(
            username=flags.requestheader_username_headers,
            group=flags.requestheader_group_headers,
            uid=flags.requestheader_uid_headers,
            extra_prefixes=flags.requestheader_extra_headers_prefix,
            allowed_names=flags.requestheader_allowed_names,
        )
        reviews = access.ApiReviews(authentication, authorization, clock, metrics)
        self._authenticator = Authenticator(
            reviews,
            clock,
            cas=self._own_cas,
            headers=headers,
            remember_s=flags.authentication_token_webhook_cache_ttl,
        )
        authorizer = Authorizer(
            reviews,
            clock,
            always_allow=flags.authorization_always_allow_paths,
            remember_yes_s=flags.authorization_webhook_cache_authorized_ttl,
            remember_no_s=flags.authorization_webhook_cache_unauthorized_ttl,
        )
        try:
            certificates = ServingCertificates(
                cert_file=flags.tls_cert_file,
                key_file=flags.tls_private_key_file,
                cert_dir=flags.cert_dir,
                hosts=_hosts(flags.bind_address),
                sni=[_sni(item) for item in flags.tls_sni_cert_key],
                min_version=flags.tls_min_version,
                cipher_suites=flags.tls_cipher_suites,
            )
        except CertificateError as error:
            raise ServingError(str(error)) from error
        self._server = SecureServer(
            routes(flags, scheduler, metrics, clock, cluster, configuration=configuration, checks=checks),
            self._authenticator,
            authorizer,
            certificates,
            clock,
            address=flags.bind_address,
            port=flags.secure_port,
            reuse_port=flags.permit_port_sharing,
        )
        self._looking_up: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self) -> None:
        """Raises `ServingError`, also when the cluster must be asked whom to trust and cannot be."""
        try:
            await self._server.start()
        except PortTakenError as error:
            raise ServingError(f"--bind-address, --secure-port: {error}") from error
        except CertificateError as error:
            raise ServingError(str(error)) from error
        if self._flags.authentication_skip_lookup:
            return
        if not self._flags.authentication_tolerate_lookup_failure:
            try:
                await self.look_up()
            except KubeschedError as error:
                raise ServingError(f"cannot read the cluster's authentication configuration: {error}") from error
        self._looking_up = asyncio.create_task(self._keep_looking_up(), name="cluster authentication")

    async def stop(self) -> None:
        if self._looking_up is not None:
            self._looking_up.cancel()
            await asyncio.gather(self._looking_up, return_exceptions=True)
        await self._server.stop()
        await self._authentication.close()
        await self._authorization.close()

    async def _keep_looking_up(self) -> None:
        is_known = True
        while True:
            try:
                await self.look_up()
                is_known = True
            except (KubeschedError, ValueError) as error:
                if is_known:
                    log.warning(
                        "cannot read the cluster's authentication configuration, will try again; client certificates "
                        "of the cluster are not accepted meanwhile error=%s",
                        error,
                    )
                is_known = False
            await self._clock.sleep(access.LOOK_UP_EVERY_S)

    async def look_up(self) -> None:
        """Takes over whom the cluster trusts, now; flags go before. Raises ApiError and TransportError."""
        found = await access.look_up(self._authentication)
        own = self._own_cas
        if not own.proxies and found.cas.proxies:
            self._authenticator.headers = found.headers
        cas = replace(found.cas, users=own.users or found.cas.users, proxies=own.proxies or found.cas.proxies)
        try:
            await self._server.trust(cas)
        except CertificateError as error:
            log.error("ignoring the cluster's authorities of client certificates error=%s", error)


def routes(
    flags: Flags,
    scheduler: Scheduler,
    metrics: Metrics,
    clock: Clock,
    cluster: ApiClient,
    *,
    configuration: Callable[[], Configuration],
    checks: HealthChecks,
) -> Routes:
    """Every path that is answered, and by what."""
    statusz = pages.Statusz(clock)
    flagz = pages.Flagz(flag_texts(flags))
    slis = _Slis(checks, clock)

    async def health(asked: Asked) -> Answer:
        return checks.answer(asked)

    async def all_metrics(asked: Asked) -> Answer:
        if asked.method == "DELETE":
            metrics.reset()
            return answers.plain("metrics reset\n")
        return answers.plain(metrics.render(), content_type=answers.METRICS)

    async def of_resources(asked: Asked) -> Answer:
        return answers.plain(resource_metrics.render(_pods(scheduler)), content_type=answers.METRICS)

    async def of_slis(asked: Asked) -> Answer:
        return answers.plain(slis.render(), content_type=answers.METRICS)

    async def configz(asked: Asked) -> Answer:
        return answers.json({"componentconfig": config.to_dict(configuration())})

    async def show_statusz(asked: Asked) -> Answer:
        return statusz.answer(asked)

    async def show_flagz(asked: Asked) -> Answer:
        return flagz.answer(asked)

    async def queue(asked: Asked) -> Answer:
        return answers.json(dumps.queue_dump(scheduler))

    async def cache(asked: Asked) -> Answer:
        return answers.json(dumps.cache_dump(scheduler))

    async def pod(namespace: str, name: str) -> Answer:
        try:
            report = await dumps.pod_dump(scheduler, cluster, namespace, name)
        except KubeschedError as error:
            return pods.not_known(namespace, name, str(error))
        return pods.no_such_pod(namespace, name) if report is None else answers.json(report)

    found = Routes()
    for group in ("healthz", "livez", "readyz"):
        found.add(f"/{group}", health, and_below=True)
    found.add("/metrics", all_metrics)
    found.add("/metrics/resources", of_resources)
    found.add("/metrics/slis", of_slis)
    found.add("/configz", configz)
    found.add("/statusz", show_statusz)
    found.add("/flagz", show_flagz)
    if configuration().enable_profiling:
        found.add(debug.ROOT, debug.Profiles().answer, and_below=True)
        found.add("/debug/queue", queue)
        found.add("/debug/cache", cache)
        found.add(pods.ROOT, pods.Pods(pod).answer, and_below=True)
    return found


def flag_texts(flags: Flags) -> dict[str, str]:
    """Each flag's value as the original's `/flagz` shows it."""
    texts = {}
    for spec in specs():
        value: Any = getattr(flags, spec.attribute)
        match spec.kind:
            case "bool":
                texts[spec.name] = str(value).lower()
            case "duration":
                texts[spec.name] = str(Duration.of(value))
            case "strings":
                texts[spec.name] = f"[{','.join(value)}]" if value or spec.name not in _EMPTY_AS_NOTHING else ""
            case "float":
                texts[spec.name] = f"{value:g}"
            case _:
                texts[spec.name] = str(value)
    return texts


def health_checks(
    *, synced: Callable[[], bool], stopping: Callable[[], bool], election: Callable[[], str] | None = None
) -> HealthChecks:
    """The original's checks; `election` says what is wrong with the lease, where there is one."""
    watchdog = [] if election is None else [Check("leaderElection", election)]
    return HealthChecks(
        healthz=watchdog,
        livez=watchdog,
        readyz=[
            *watchdog,
            Check("shutdown", lambda: "process is shutting down" if stopping() else ""),
            Check("sched-handler-sync", lambda: "" if synced() else "waiting for handlers to sync"),
        ],
    )


def _pods(scheduler: Scheduler) -> Iterator[tuple[Pod, str]]:
    placements = scheduler.state.placements
    for placement in placements.values():
        yield placement.pod.pod, placement.node_name
    for uid, pod in scheduler.handlers.pending.items():
        if uid not in placements:
            yield pod, ""


def _hosts(bind_address: str) -> list[str]:
    hosts = [*_LOOPBACK, socket.gethostname()]
    if bind_address not in ("", "0.0.0.0", "::"):
        hosts.append(bind_address)
    else:
        with contextlib.suppress(OSError):
            hosts.append(socket.gethostbyname(socket.gethostname()))
    return list(dict.fromkeys(hosts))


def _pem(path: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ServingError(f"cannot read {path}: {error.strerror or error}") from error


def _sni(text: str) -> SniCertificate:
    files, _, names = text.partition(":")
    cert_file, comma, key_file = files.partition(",")
    if not comma:
        raise ServingError(f"--tls-sni-cert-key {text}: want CERT,KEY or CERT,KEY:NAME,...")
    return SniCertificate(cert_file, key_file, tuple(filter(None, names.split(","))))


class _Slis:
    """`/metrics/slis`: the results of the health checks."""

    def __init__(self, checks: HealthChecks, clock: Clock) -> None:
        self._checks = checks
        self._started_s = clock.now()

    def render(self) -> bytes:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import Metric

        for family in self._checks.families:
            yield family.collect()
        start = Metric(
            "process_start_time_seconds", "[ALPHA] Start time of the process since unix epoch in seconds.", "gauge"
        )
        start.add_sample("process_start_time_seconds", {}, self._started_s)
        yield start
