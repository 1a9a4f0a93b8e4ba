"""The one seam to the network: a `Request` value in, a `Response` or a `Stream` of bytes out.

`HttpTransport` is the real one (aiohttp, HTTP/1.1); tests of the layers above may bring their own. It knows TLS,
proxies and connection pools; it knows neither Kubernetes nor credentials beyond "this header, this certificate".
Whatever goes wrong below HTTP leaves here as a `TransportError` with its cause chained.

Watches live in a pool of their own, so that neither can starve the other.
"""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import aiohttp
from yarl import URL

from kubesched.api.errors import TransportError
from kubesched.client.certificates import ClientCertificate, TlsContexts
from kubesched.client.kubeconfig import ClusterConfig

_CONNECT_TIMEOUT_S: Final = 30.0
_IDLE_CONNECTION_S: Final = 60.0  # below the 90 s after which API servers and load balancers hang up
_WATCH_BUFFER_BYTES: Final = 1 << 20


class NotSentError(TransportError):
    """The request was certainly not carried out, because it was never sent."""


class ConnectError(NotSentError):
    """No connection was made."""


@dataclass(slots=True)
class Request:
    method: str
    target: str  # path and query, percent-encoded
    headers: Mapping[str, str] | tuple[tuple[str, str], ...]
    body: bytes | None = None
    timeout_s: float = 30.0  # for the whole exchange; of a stream: until its headers are here
    certificate: ClientCertificate | None = field(default=None, repr=False)


@dataclass(slots=True)
class Response:
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

    `pool_size` bounds the connections for calls (not for streams): it should not be below the number of binds that
    are sent at the same time.
    """

    def __init__(self, cluster: ClusterConfig, tls: TlsContexts | None = None, *, pool_size: int = 64) -> None:
        self._base = cluster.server
        self._tls = tls or (TlsContexts(cluster) if cluster.is_tls else None)
        self._server_hostname = cluster.tls_server_name or None
        self._proxy = cluster.proxy_url or _proxy_of_environment(cluster)
        self._pool_size = pool_size
        self._calls: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._open: set[_HttpStream] = set()

    async def send(self, request: Request) -> Response:
        if self._calls is None:
            self._calls = _session(self._pool_size)
        with _AsTransportErrors(request):
            response = await self._start(self._calls, request, aiohttp.ClientTimeout(total=request.timeout_s))
            async with response:
                return Response(response.status, response.headers, await response.read())

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
        """Ends all connections, streams too."""
        sessions = [session for session in (self._calls, self._streams) if session is not None]
        self._calls = self._streams = None
        for stream in list(self._open):
            stream.close()
        for session in sessions:
            await session.close()

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
    """TCP keep-alive: a peer that vanished without a word is noticed within about a minute."""
    family, kind, protocol = address[0], address[1], address[2]
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_NODELAY", 1)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _proxy_of_environment(cluster: ClusterConfig) -> str:
    """HTTP(S)_PROXY and NO_PROXY, as client-go honours them."""
    if cluster.is_loopback or urllib.request.proxy_bypass(cluster.host):
        return ""
    return urllib.request.getproxies().get("https" if cluster.is_tls else "http", "")


class _AsTransportErrors:
    """Turns what aiohttp and the system raise into our exceptions. (A generator would cost more than the JSON.)"""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, asyncio.CancelledError):
            return
        request = self._request
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            raise ConnectError(f"{_what(request)}: {error}") from error
        if isinstance(error, TimeoutError):
            raise TransportError(f"{_what(request)}: no answer within {request.timeout_s:g} s") from error
        if isinstance(error, aiohttp.ClientError | OSError):
            raise TransportError(f"{_what(request)}: {error or type(error).__name__}") from error


def _what(request: Request) -> str:
    path, _, _ = request.target.partition("?")
    return f"{request.method} {path}"
