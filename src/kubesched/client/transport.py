"""The one seam to the network: a `Request` value in, a `Response` or a `Stream` of bytes out.

`HttpTransport` is the real one: `http1` for calls, aiohttp for streams and through proxies. Tests of the layers above
may bring their own. It knows TLS, proxies and connection pools; it knows neither Kubernetes nor credentials beyond
"this header, this certificate". What goes wrong below HTTP leaves here as a `TransportError` with its cause chained.

Streams live in a pool of their own, and so does each lane of less urgent calls: none can starve another.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from kubesched.api.errors import TransportError
from kubesched.client.certificates import ClientCertificate, TlsContexts
from kubesched.client.http1 import (
    DisconnectedError,
    Pool,
    header_lines,
    length_line,
    notice_death,
    request_line,
)
from kubesched.client.http1_answers import ProtocolError
from kubesched.client.kubeconfig import ClusterConfig

_CONNECT_TIMEOUT_S: Final = 30.0
_IDLE_CONNECTION_S: Final = 60.0  # below the 90 s after which API servers and load balancers hang up
_LANE_POOL_SIZE: Final = 64
_WATCH_BUFFER_BYTES: Final = 1 << 20
_HEADERS_KEPT: Final = 32


class NotSentError(TransportError):
    """The request was certainly not carried out, because it was never sent."""


class ConnectError(NotSentError):
    """No connection was made."""


class Request(msgspec.Struct):
    method: str
    target: str  # path and query, percent-encoded
    headers: Mapping[str, str] | tuple[tuple[str, str], ...]
    body: bytes | None = None
    timeout_s: float = 30.0  # for the whole exchange; of a stream: until its headers are here
    certificate: ClientCertificate | None = None
    pool: str = ""  # requests of different pools do not wait for each other's connections

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.target}>"  # headers and bodies may hold secrets


class Response(msgspec.Struct):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def close(self) -> None:
        """Nothing to do: it is all here. For those who handle both this and a `Stream`."""


class Stream(Protocol):
    """A response whose body comes bit by bit."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """Everything that has arrived, at least one byte; b"" at the clean end. Raises `TransportError` when cut."""

    async def read_all(self) -> bytes: ...

    def close(self) -> None:
        """Hangs up. A pending `read` raises `TransportError`. May be called twice."""


class Transport(Protocol):
    async def send(self, request: Request) -> Response: ...

    async def open(self, request: Request) -> Stream: ...

    async def close(self) -> None: ...


class HttpTransport:
    """Connections to one API server; opened on first use, on the running event loop.

    `pool_size` bounds the connections for calls (not for streams, nor for other pools): it should not be below the
    number of binds that are sent at the same time.
    """

    def __init__(self, cluster: ClusterConfig, tls: TlsContexts | None = None, *, pool_size: int = 64) -> None:
        self._base = cluster.server
        parts = urlsplit(cluster.server)
        self._address = parts.hostname or ""
        self._port = parts.port or (443 if cluster.is_tls else 80)
        self._host, self._prefix = parts.netloc, parts.path.rstrip("/")
        self._tls = tls or (TlsContexts(cluster) if cluster.is_tls else None)
        self._server_hostname = cluster.tls_server_name or None
        self._proxy = cluster.proxy_url or _proxy_of_environment(cluster)
        self._pool_size = pool_size
        self._headers_sent: dict[tuple[tuple[str, str], ...], bytes] = {}
        self._pools: dict[str, tuple[ssl.SSLContext | None, Pool]] = {}
        self._by_proxy: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._open: set[_HttpStream] = set()

    async def send(self, request: Request) -> Response:
        if self._proxy:
            return await self._send_by_proxy(request)
        body = request.body
        line = request_line(request.method, self._prefix + request.target)
        head = line + self._header_lines(request.headers) + length_line(body)
        try:
            answer = await self._pool(request).exchange(request.method, head, body, request.timeout_s)
        except Exception as error:
            known = _as_transport_error(error, request)
            if known is None:
                raise
            raise known from error
        return Response(answer.status, answer.headers, answer.body)

    async def open(self, request: Request) -> Stream:
        if self._streams is None:
            self._streams = _session(0)
        unlimited = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S)
        with _AsTransportErrors(request):
            async with asyncio.timeout(request.timeout_s):
                response = await self._start(self._streams, request, unlimited)
        stream = _HttpStream(response, request, self._open)
        self._open.add(stream)
        return stream

    async def close(self) -> None:
        """Ends all connections; calls and streams under way end with a `TransportError`."""
        for _, pool in self._pools.values():
            pool.close()
        sessions = [session for session in (self._by_proxy, self._streams) if session is not None]
        self._pools, self._by_proxy, self._streams = {}, None, None
        for stream in list(self._open):
            stream.close()
        for session in sessions:
            await session.close()

    def _header_lines(self, headers: Mapping[str, str] | tuple[tuple[str, str], ...]) -> bytes:
        """Most requests have the headers of one before, in the very same tuple."""
        pairs = headers if isinstance(headers, tuple) else tuple(headers.items())
        known = self._headers_sent.get(pairs)
        if known is None:
            if len(self._headers_sent) >= _HEADERS_KEPT:
                self._headers_sent.clear()
            known = self._headers_sent[pairs] = header_lines(self._host, pairs)
        return known

    def _pool(self, request: Request) -> Pool:
        """The connections of the request's pool; new ones when certificates have changed."""
        tls = self._tls.context(request.certificate) if self._tls is not None else None
        known = self._pools.get(request.pool)
        if known is not None:
            if known[0] is tls:
                return known[1]
            known[1].retire()
        pool = Pool(
            self._address,
            self._port,
            limit=_LANE_POOL_SIZE if request.pool else self._pool_size,
            idle_s=_IDLE_CONNECTION_S,
            tls=tls,
            server_hostname=self._server_hostname,
        )
        self._pools[request.pool] = (tls, pool)
        return pool

    async def _send_by_proxy(self, request: Request) -> Response:
        if self._by_proxy is None:
            self._by_proxy = _session(self._pool_size)
        with _AsTransportErrors(request):
            response = await self._start(self._by_proxy, request, aiohttp.ClientTimeout(total=request.timeout_s))
            async with response:
                return Response(response.status, response.headers, await response.read())

    async def _start(
        self, session: aiohttp.ClientSession, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        options: dict[str, Any] = {}
        if self._tls is not None:
            options["ssl"] = self._tls.context(request.certificate)
            options["server_hostname"] = self._server_hostname
        if self._proxy:
            options["proxy"] = self._proxy
        return await session.request(
            request.method,
            URL(self._base + request.target, encoded=True),
            headers=request.headers,
            data=request.body,
            timeout=timeout,
            allow_redirects=False,
            **options,
        )


class _HttpStream:
    """Stays in `siblings`, the open streams of its transport, until it is closed."""

    def __init__(self, response: aiohttp.ClientResponse, request: Request, siblings: set[_HttpStream]) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._request = request
        self._siblings = siblings

    async def read(self) -> bytes:
        with _AsTransportErrors(self._request):
            return await self._response.content.readany()

    async def read_all(self) -> bytes:
        with _AsTransportErrors(self._request):
            async with asyncio.timeout(self._request.timeout_s):
                return await self._response.read()

    def close(self) -> None:
        self._siblings.discard(self)
        self._response.close()


def _session(limit: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=limit, keepalive_timeout=_IDLE_CONNECTION_S, socket_factory=_socket_that_notices_death
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=True,
        skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
        read_bufsize=_WATCH_BUFFER_BYTES,
    )


def _socket_that_notices_death(address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setblocking(False)
    notice_death(made)
    return made


def _proxy_of_environment(cluster: ClusterConfig) -> str:
    """HTTP(S)_PROXY and NO_PROXY, as client-go honours them."""
    if cluster.is_loopback or urllib.request.proxy_bypass(cluster.host):
        return ""
    return urllib.request.getproxies().get("https" if cluster.is_tls else "http", "")


class _AsTransportErrors:
    """Turns what aiohttp and the system raise into our exceptions."""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        known = _as_transport_error(error, self._request) if isinstance(error, Exception) else None
        if known is not None:
            raise known from error


def _as_transport_error(error: Exception, request: Request) -> TransportError | None:
    """With its cause chained; None if it is none of those."""
    made = _transport_error(error, request)
    if made is not None:
        made.__cause__ = error  # compiled, `raise ... from` would not
    return made


def _transport_error(error: Exception, request: Request) -> TransportError | None:
    what = f"{request.method} {request.target.partition('?')[0]}"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return ConnectError(f"{what}: {error}")
    if isinstance(error, DisconnectedError | ProtocolError | aiohttp.ClientError):
        return TransportError(f"{what}: {error or type(error).__name__}")
    if isinstance(error, TimeoutError) and not error.errno:
        return TransportError(f"{what}: no answer within {request.timeout_s:g} s")
    return ConnectError(f"{what}: {error}") if isinstance(error, OSError) else None
