"""Leader election on a Lease (coordination.k8s.io/v1): one of several schedulers acts, the others stand by.

    stand by ──(lease free, released or not renewed for its duration)──► lead ──(renewals fail for 10 s)──► lost
                                                                          └────(asked to stop)──► release

`LeaseElector` is the protocol, as client-go's (v1.36): what it takes for a sign of life is that the lease *changed*, by
its own monotonic clock, so clocks of machines need not agree. `LeaderElection` runs it on a thread with an event loop
of its own: a scheduling cycle that takes long must not cost the lease. `check` is the guard before each write: it
refuses once the last renewal is older than the renew deadline, even if the thread has not noticed yet (a process that
was stopped and continued), and that is well before anyone else may take the lease.

Who loses the lease ends; there is no way back to standing by.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.api import kinds
from kubesched.api.errors import ApiError, KubeschedError
from kubesched.api.meta import format_micro_time, format_time
from kubesched.client.rest import ApiClient, encode
from kubesched.client.transport import NotSentError
from kubesched.clock import Chance, Clock

log = logging.getLogger("kubesched.client")

_JITTER: Final = 1.2  # a candidate looks every 1 to 2.2 retry periods


class NotLeadingError(NotSentError):
    """The lease is not, or no longer, ours: nothing may be written."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration_s <= self.renew_deadline_s:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline_s <= _JITTER * self.retry_period_s:
            raise ValueError(f"renewDeadline must be greater than retryPeriod*{_JITTER}")
        if self.retry_period_s <= 0:
            raise ValueError("retryPeriod must be greater than zero")

    @property
    def try_timeout_s(self) -> float:
        """One slow call must leave time for another."""
        return self.renew_deadline_s / 2


class LeaseElector:
    """`await acquire()`, then `await hold()` until it returns: the lease is lost. `release()` gives it away early."""

    def __init__(
        self,
        client: ApiClient,
        identity: str,
        clock: Clock,
        chance: Chance,
        settings: LeaseSettings,
        *,
        component: str = "default-scheduler",
    ) -> None:
        self.identity = identity
        self.holder = ""  # who holds the lease, as far as we have seen
        self.leads_until_s = float("-inf")  # monotonic; read by other threads
        self._client = client
        self._clock = clock
        self._chance = chance
        self._settings = settings
        self._component = component
        timeout = f"?timeout={settings.try_timeout_s:g}s"
        self._collection = kinds.LEASE.path(settings.namespace) + timeout
        self._target = kinds.LEASE.path(settings.namespace, settings.name) + timeout
        self._seen: dict[str, Any] | None = None  # the server's document
        self._seen_at_s = 0.0  # when it was first seen like this
        self._may_hold = False  # a write that takes the lease was sent; its answer may have been lost
        self._last_nanos = 0

    def check(self) -> None:
        """May be called from any thread. Raises `NotLeadingError`."""
        if self._clock.monotonic() >= self.leads_until_s:
            raise NotLeadingError(
                f"not the leader: lease {self._settings.namespace}/{self._settings.name} is not held by {self.identity}"
            )

    def overdue_s(self) -> float:
        return max(0.0, self._clock.monotonic() - self.leads_until_s)

    async def acquire(self) -> None:
        """Stands by until the lease is ours."""
        settings = self._settings
        log.info("standing by lease=%s/%s identity=%s", settings.namespace, settings.name, self.identity)
        while not await self._try():
            await self._clock.sleep(settings.retry_period_s * (1.0 + self._chance.random() * _JITTER))
        log.info("became leader lease=%s/%s identity=%s", settings.namespace, settings.name, self.identity)
        await self._tell("became leader")

    async def hold(self, on_lost: Callable[[], None] = lambda: None) -> None:
        """Renews every retry period; returns when no renewal has worked for the renew deadline.

        `on_lost` is called at that moment, before the lease is given up and anything is said about it.
        """
        settings = self._settings
        while (left_s := self.leads_until_s - self._clock.monotonic()) > 0:
            await self._try(left_s)
            left_s = self.leads_until_s - self._clock.monotonic()
            await self._clock.sleep(min(settings.retry_period_s, left_s))
        self.leads_until_s = float("-inf")
        on_lost()
        log.error(
            "lost the lease lease=%s/%s identity=%s renew_deadline_s=%g holder=%s",
            settings.namespace, settings.name, self.identity, settings.renew_deadline_s, self.holder or "-",
        )  # fmt: skip
        await self.release()
        await self._tell("stopped leading")

    async def release(self) -> None:
        """Lets the next one in at once, if the lease is still ours. From here on `check` refuses."""
        self.leads_until_s = float("-inf")
        if not self._may_hold:
            return
        try:
            async with _time_limit(self._clock, self._settings.try_timeout_s):
                lease = await self._get()
                if lease is None or not self._holds(lease):
                    return
                now = format_micro_time(self._clock.now())
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
                await self._send("PUT", self._target, lease)
        except (KubeschedError, TimeoutError) as error:
            log.warning("could not release the lease; it will run out error=%s", str(error) or "timed out")
        else:
            log.info("released the lease lease=%s/%s", self._settings.namespace, self._settings.name)

    async def _try(self, limit_s: float = float("inf")) -> bool:
        """One round: take the lease, or renew it. True when it is ours."""
        asked_at_s = self._clock.monotonic()
        try:
            async with _time_limit(self._clock, min(self._settings.try_timeout_s, limit_s)):
                held = await self._take_or_renew()
        except (KubeschedError, TimeoutError) as error:
            log.warning(
                "could not renew or take the lease lease=%s/%s error=%s",
                self._settings.namespace, self._settings.name, str(error) or "timed out",
            )  # fmt: skip
            return False
        if held:
            # Counted from before the request was sent: nobody else can have seen the renewal earlier.
            self.leads_until_s = asked_at_s + self._settings.renew_deadline_s
        return held

    async def _take_or_renew(self) -> bool:
        if self._seen is not None and self._holds(self._seen) and self._is_alive():
            # Ours, and nothing says otherwise: renew what we know. If it has changed after all, look again.
            try:
                self._note(await self._send("PUT", self._target, self._renewed(self._seen)))
            except ApiError as error:
                log.debug("renewal refused, looking again error=%s", error)
            else:
                return True
        lease = await self._get()
        if lease is None:
            self._note(await self._send("POST", self._collection, self._new()))
            return True
        self._note(lease)
        if not self._holds(lease) and self.holder and self._is_alive():
            return False
        renewed = self._renewed(lease) if self._holds(lease) else self._taken(lease)
        self._note(await self._send("PUT", self._target, renewed))
        return True

    def _holds(self, lease: dict[str, Any]) -> bool:
        return bool(lease["spec"].get("holderIdentity") == self.identity)

    def _is_alive(self) -> bool:
        assert self._seen is not None
        duration_s = self._seen["spec"].get("leaseDurationSeconds") or 0
        return self._clock.monotonic() < self._seen_at_s + float(duration_s)

    def _note(self, lease: dict[str, Any]) -> None:
        """Any change of the lease is a sign of life of its holder."""
        lease.setdefault("spec", {})
        if self._seen is None or self._seen["spec"] != lease["spec"]:
            self._seen_at_s = self._clock.monotonic()
        self._seen = lease
        holder = lease["spec"].get("holderIdentity") or ""
        if holder != self.holder:
            self.holder = holder
            log.info("the lease has a new holder lease=%s/%s holder=%s",
                     self._settings.namespace, self._settings.name, holder or "-")  # fmt: skip

    def _new(self) -> dict[str, Any]:
        now = format_micro_time(self._clock.now())
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._settings.lease_duration_s),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        metadata = {"name": self._settings.name, "namespace": self._settings.namespace}
        return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": spec}

    def _renewed(self, lease: dict[str, Any]) -> dict[str, Any]:
        changes = {
            "leaseDurationSeconds": int(self._settings.lease_duration_s),
            "renewTime": format_micro_time(self._clock.now()),
        }
        return {**lease, "spec": {**lease["spec"], **changes}}

    def _taken(self, lease: dict[str, Any]) -> dict[str, Any]:
        renewed = self._renewed(lease)
        spec = renewed["spec"]
        spec["holderIdentity"] = self.identity
        spec["acquireTime"] = spec["renewTime"]
        spec["leaseTransitions"] = (lease["spec"].get("leaseTransitions") or 0) + 1
        return renewed

    async def _get(self) -> dict[str, Any] | None:
        try:
            lease = msgspec.json.decode(await self._request("GET", self._target))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        lease.setdefault("spec", {})
        return lease  # type: ignore[no-any-return]

    async def _send(self, method: str, target: str, lease: dict[str, Any]) -> dict[str, Any]:
        self._may_hold = True
        return msgspec.json.decode(await self._request(method, target, encode(lease)))  # type: ignore[no-any-return]

    async def _request(self, method: str, target: str, body: bytes | None = None) -> bytes:
        return await self._client.request(method, target, body, timeout_s=self._settings.try_timeout_s)

    async def _tell(self, what: str) -> None:
        """An Event of the core group, as the original writes it. Not worth a retry."""
        now = self._clock.now()
        self._last_nanos = max(int(now * 1_000_000) * 1000, self._last_nanos + 1)
        settings, metadata = self._settings, (self._seen or {}).get("metadata", {})
        event = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": f"{settings.name}.{self._last_nanos:x}", "namespace": settings.namespace},
            "involvedObject": {
                "kind": "Lease",
                "namespace": settings.namespace,
                "name": settings.name,
                "uid": metadata.get("uid", ""),
                "apiVersion": "coordination.k8s.io/v1",
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "reason": "LeaderElection",
            "message": f"{self.identity} {what}",
            "source": {"component": self._component},
            "firstTimestamp": format_time(now),
            "lastTimestamp": format_time(now),
            "count": 1,
            "type": "Normal",
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        try:
            await self._request("POST", f"/api/v1/namespaces/{settings.namespace}/events", encode(event))
        except KubeschedError as error:
            log.debug("leader election event not recorded error=%s", error)


class LeaderElection:
    """An elector on a thread of its own. `make` is called on that thread, since connections belong to an event loop.

    `acquired` and `lost` are awaited on the loop that called `start`.
    """

    def __init__(self, make: Callable[[], tuple[LeaseElector, ApiClient]]) -> None:
        self.acquired = asyncio.Event()
        self.lost = asyncio.Event()
        self._make = make
        self._elector: LeaseElector | None = None
        self._thread: threading.Thread | None = None
        self._its_loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """The guard before each write: a comparison of two numbers. Raises `NotLeadingError`."""
        if self._elector is None:
            raise NotLeadingError("not the leader: the election has not begun")
        self._elector.check()

    def overdue_s(self) -> float:
        """How long ago a leader's last renewal ran out; 0 for whoever leads, and for who never did."""
        if self._elector is None or not self.acquired.is_set():
            return 0.0
        return self._elector.overdue_s()

    @property
    def holder(self) -> str:
        return self._elector.holder if self._elector is not None else ""

    async def stop(self) -> None:
        """Releases the lease if it is ours, ends the thread. Raises what the thread died of, if it did."""
        if self._thread is None:
            return
        if self._its_loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # its loop is closing: it is at its end already
                self._its_loop.call_soon_threadsafe(self._stop.set)
        await self._ended.wait()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        def tell(event: asyncio.Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

        try:
            asyncio.run(self._elect(tell))
        except BaseException as error:
            log.exception("leader election has failed")
            self._failure = error
            tell(self.lost)
        finally:
            tell(self._ended)

    async def _elect(self, tell: Callable[[asyncio.Event], None]) -> None:
        self._its_loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        elector, client = self._make()
        self._elector = elector

        is_lost = False

        def on_lost() -> None:
            nonlocal is_lost
            is_lost = True
            tell(self.lost)

        async def lead() -> None:
            await elector.acquire()
            tell(self.acquired)
            await elector.hold(on_lost)

        leading = asyncio.create_task(lead(), name="leader election")
        stopping = asyncio.create_task(self._stop.wait(), name="leader election stop")
        try:
            await asyncio.wait((leading, stopping), return_when=asyncio.FIRST_COMPLETED)
            if leading.done() or is_lost:
                await leading  # to its end: the lease is given up, and an event says so
            else:
                leading.cancel()
                await asyncio.gather(leading, return_exceptions=True)
                await elector.release()
        finally:
            stopping.cancel()
            await client.close()


@contextlib.asynccontextmanager
async def _time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """`asyncio.timeout` by our clock."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as scope:
        timer = clock.call_later(seconds, lambda: scope.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()
