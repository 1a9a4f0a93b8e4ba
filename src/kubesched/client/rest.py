"""Requests to a Kubernetes API server: JSON in, JSON out, and exceptions that mean something.

An answer of the server that says no is an `ApiError` with the server's own message; no answer is a `TransportError`.
The client retries in two cases only, in which the server itself has said that the request was not carried out: once
with fresh credentials after a 401, and after the time it asks for when it answers 429 or 5xx with Retry-After.
Everything else is the caller's decision.

Calls share a token bucket (`clientConnection.qps` and `burst`); watches do not take from it. Bodies are JSON, whatever
the configuration's `contentType` says: every API server speaks it, and we decode it faster than protobuf.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeVar

import msgspec

from kubesched.api.codec import MALFORMED
from kubesched.api.errors import ApiError
from kubesched.client.auth import Credentials, credentials_of
from kubesched.client.certificates import TlsContexts
from kubesched.client.kubeconfig import ClientConfig
from kubesched.client.rate import TokenBucket
from kubesched.client.request_metrics import NO_ANSWER, RequestMetrics
from kubesched.client.transport import HttpTransport, Request, Response, Stream, Transport
from kubesched.clock import Clock

log = logging.getLogger("kubesched.client")

JSON: Final = "application/json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"

_RETRIES: Final = 10
_RETRY_AFTER_MAX_S: Final = 60.0
_HEADERS_KEPT: Final = 16
_REASONS: Final = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
                   410: "Gone", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable",
                   504: "Timeout"}  # fmt: skip

encode: Final = msgspec.json.Encoder().encode
Guard = Callable[[], None]
HeaderPairs = tuple[tuple[str, str], ...]
A = TypeVar("A", Response, Stream)


def connect(
    config: ClientConfig,
    clock: Clock,
    *,
    qps: float = 50.0,
    burst: int = 100,
    pool_size: int = 64,
    timeout_s: float = 30.0,
    metrics: RequestMetrics | None = None,
) -> ApiClient:
    """A client for a configuration. Opens no connection yet; `KubeconfigError` where certificates cannot be used."""
    user = config.user
    tls = (
        TlsContexts(config.cluster, user.client_certificate, user.client_key, clock=clock)
        if config.cluster.is_tls
        else None
    )
    return ApiClient(
        HttpTransport(config.cluster, tls, pool_size=pool_size),
        credentials_of(config, clock, connect=HttpTransport),
        clock,
        limiter=TokenBucket(qps, burst, clock),
        extra_headers=user.impersonate,
        timeout_s=timeout_s,
        metrics=metrics,
    )


class ApiClient:
    def __init__(
        self,
        transport: Transport,
        credentials: Credentials,
        clock: Clock,
        *,
        limiter: TokenBucket | None = None,
        extra_headers: tuple[tuple[str, str], ...] = (),
        timeout_s: float = 30.0,
        user_agent: str = "",
        pool: str = "",
        metrics: RequestMetrics | None = None,
    ) -> None:
        self._transport = transport
        self._credentials = credentials
        self._clock = clock
        self._limiter = limiter
        self._extra_headers = extra_headers
        self._timeout_s = timeout_s
        self._user_agent = user_agent or default_user_agent()
        self._pool = pool
        self._metrics = metrics
        self._headers_made: dict[tuple[str, str], HeaderPairs] = {}

    def lane(self, purpose: str, limiter: TokenBucket | None) -> ApiClient:
        """The same server for another purpose: with a limit, a few connections and a user agent of its own."""
        return ApiClient(
            self._transport,
            self._credentials,
            self._clock,
            limiter=limiter,
            extra_headers=self._extra_headers,
            timeout_s=self._timeout_s,
            user_agent=f"{self._user_agent}/{purpose}",
            pool=purpose,
            metrics=self._metrics,
        )

    async def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        timeout_s: float | None = None,
        guard: Guard | None = None,
    ) -> bytes:
        """One call; answers the body of a 2xx. `target` is a path with its encoded query.

        `guard` is called directly before each sending, after all waiting; what it raises ends the call unsent.
        """
        limiter, metrics = self._limiter, self._metrics
        if limiter is not None:
            waited_s = 0.0 if limiter.take_at_once() else await self._wait_for_turn(limiter)
            if metrics is not None:
                metrics.waited(method, waited_s)
        request = Request(method, target, (), body, timeout_s or self._timeout_s, pool=self._pool)
        response = await self._exchange(request, "" if body is None else content_type, self._send, guard)
        if response.status >= 300:
            raise error_of(response.status, response.headers, response.body)
        return response.body

    async def get(self, target: str) -> bytes:
        return await self.request("GET", target)

    async def watch(self, target: str) -> Stream:
        """An open stream; the caller closes it. Not counted by the rate limit."""
        stream = await self._exchange(Request("GET", target, (), None, self._timeout_s), "", self._open, None)
        if stream.status == 200:
            return stream
        try:
            body = await stream.read_all()
        finally:
            stream.close()
        raise error_of(stream.status, stream.headers, body)

    async def close(self) -> None:
        await self._transport.close()

    async def _send(self, request: Request) -> Response:
        metrics = self._metrics
        if metrics is None:
            return await self._transport.send(request)
        started_s = self._clock.monotonic()
        code, received = NO_ANSWER, 0
        try:
            response = await self._transport.send(request)
            code, received = str(response.status), len(response.body)
            return response
        finally:
            took_s = self._clock.monotonic() - started_s
            metrics.answered(code, request.method, took_s, len(request.body or b""), received)

    async def _open(self, request: Request) -> Stream:
        code = NO_ANSWER
        try:
            stream = await self._transport.open(request)
            code = str(stream.status)
            return stream
        finally:
            if self._metrics is not None:
                self._metrics.opened(code, request.method)

    async def _wait_for_turn(self, limiter: TokenBucket) -> float:
        since_s = self._clock.monotonic()
        await limiter.take()
        return self._clock.monotonic() - since_s

    async def _exchange(
        self,
        request: Request,
        content_type: str,
        send: Callable[[Request], Awaitable[A]],
        guard: Guard | None,
    ) -> A:
        """Sends until the answer is final: no more than once too often with stale credentials, ten times too early."""
        was_refused = False
        for attempt in range(_RETRIES + 1):
            grant = await self._credentials.grant()
            request.headers = self._headers(content_type, grant.authorization)
            request.certificate = grant.certificate
            if guard is not None:
                guard()
            answer = await send(request)
            status = answer.status
            if status < 300:
                return answer
            if status == 401 and not was_refused and self._credentials.refused(grant):
                was_refused = True
                pause_s: float | None = 0.0
            else:
                pause_s = _retry_after_s(status, answer.headers)
            if pause_s is None or attempt == _RETRIES:
                return answer
            answer.close()
            if pause_s:
                log.info(
                    "the API server asks to wait method=%s path=%s code=%d retry_after_s=%g",
                    request.method, request.target.partition("?")[0], status, pause_s,
                )  # fmt: skip
                await self._clock.sleep(pause_s)
        raise AssertionError("unreachable")

    def _headers(self, content_type: str, authorization: str) -> HeaderPairs:
        """Those of nearly all requests are one of very few tuples."""
        known = self._headers_made.get((content_type, authorization))
        if known is not None:
            return known
        pairs: HeaderPairs = (("Accept", JSON), ("User-Agent", self._user_agent))
        if content_type:
            pairs += (("Content-Type", content_type),)
        if authorization:
            pairs += (("Authorization", authorization),)
        if len(self._headers_made) >= _HEADERS_KEPT:
            self._headers_made.clear()  # tokens come and go
        made = self._headers_made[content_type, authorization] = (*pairs, *self._extra_headers)
        return made


def error_of(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error that an answer means: its `Status` where it has one, else made up from code and text."""
    try:
        status = msgspec.json.decode(body)
    except MALFORMED:
        status = None
    details: dict[str, Any] = {}
    if isinstance(status, dict) and status.get("kind") == "Status":
        reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
        details = told if isinstance(told := status.get("details"), dict) else {}
        code = told if isinstance(told := status.get("code"), int) and told >= 400 else code
    else:
        reason, message = _REASONS.get(code, "Unknown"), body[:200].decode("utf-8", "replace").strip()
    pause_s = _retry_after_s(code, headers)
    if pause_s and "retryAfterSeconds" not in details:
        details = {**details, "retryAfterSeconds": int(pause_s)}
    return ApiError(
        code, reason or _REASONS.get(code, "Unknown"), message or f"the API server answered {code}", details
    )


def default_user_agent() -> str:
    """`kubesched/0.1.0 (linux/x86_64) python/3.12.1`; up to the first `/` it is our name in managedFields."""
    try:
        release = version("kubesched")
    except PackageNotFoundError:
        release = "unknown"
    system = f"{platform.system().lower()}/{platform.machine()}"
    return f"kubesched/{release} ({system}) python/{platform.python_version()}"


def _retry_after_s(code: int, headers: Mapping[str, str]) -> float | None:
    """How long to wait before the same request may be sent again; None when the server did not offer that."""
    if code != 429 and code < 500:
        return None
    text = headers.get("Retry-After", "")
    return min(float(text), _RETRY_AFTER_MAX_S) if text.isascii() and text.isdigit() else None
