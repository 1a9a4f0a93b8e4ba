"""The embedded API server: `Api` behind real HTTP/1.1, with the hooks that tests need.

    async with Server(node_simulator=False) as server:
        server.load(documents)
        ... use server.url ...

One aiohttp server, one handler: paths of the API need no router. Small answers go out whole; a watch is a chunked
stream that writes whatever has gathered since its last write.
"""

from __future__ import annotations

import asyncio
import logging
import os
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from aiohttp import hdrs, web

from kubesched.api.errors import KubeschedError
from kubesched.apiserver import loading, probing, saving
from kubesched.apiserver.admission import Profile
from kubesched.apiserver.api import Api
from kubesched.apiserver.authentication import ADMIN, Accounts
from kubesched.apiserver.bootstrap import bootstrap
from kubesched.apiserver.controllers import Controllers
from kubesched.apiserver.messages import (
    JSON,
    Answer,
    DropConnection,
    Interceptor,
    Reply,
    Request,
    Stream,
    answer_refusal,
    finish_json,
)
from kubesched.apiserver.namespace_cleaner import NamespaceCleaner
from kubesched.apiserver.node_simulator import NodeSimulator
from kubesched.apiserver.representation import YAML, as_yaml, wants_yaml
from kubesched.apiserver.status import Refusal
from kubesched.apiserver.store import Json, Store
from kubesched.clock import Chance, Clock, RealClock
from kubesched.manifests import Document
from kubesched.tls import ServerCertificate, server_context

log = logging.getLogger("kubesched.apiserver")

BODY_LIMIT_BYTES = 3 << 20
GZIP_FROM_BYTES = 128 << 10
SHUTDOWN_S = 1.0


class ListenError(KubeschedError):
    """The address or port is taken, or none of this machine's."""

    is_usage = False


class Server:
    """`port` 0 takes a free one. With a `certificate` it serves TLS. `token` is that of the
    administrator, `accounts` are others by their token; with neither, everybody is the administrator.

    `node_simulator` marks bound pods Running and ends deleted ones; `namespace_cleaner` empties namespaces that are
    deleted; `controllers` names those of `controllers.CONTROLLERS` that run. `history` bounds how many changes of each
    kind are kept for watches and pages. `chance` seeds uids and generated names. `components` is where the health of
    other components is looked for, by name, when somebody asks for component statuses.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        clock: Clock | None = None,
        chance: Chance | None = None,
        node_simulator: bool = True,
        namespace_cleaner: bool = True,
        controllers: Collection[str] = (),
        certificate: ServerCertificate | None = None,
        token: str | None = None,
        accounts: Accounts | None = None,
        anonymous: bool = True,
        history: int = 20_000,
        profile: Profile | None = None,
        components: Mapping[str, str] = probing.TARGETS,
    ) -> None:
        self.host = host
        self.port = port
        self.store = Store(history_limit=history)
        self.clock = clock or RealClock()
        self._accounts = dict(accounts or {})
        self.interceptors: list[Interceptor] = []
        checks = {name: probing.probe(url) for name, url in components.items()}
        self.api = Api(
            self.store, self.clock, chance or Chance(), profile or Profile(), anonymous=anonymous, checks=checks
        )
        self.token = token
        self.ca_pem = certificate.ca_pem if certificate else None
        self._tls = server_context(certificate) if certificate else None
        if certificate:
            self.api.ca_pem = certificate.ca_pem.decode()
        #: What plays the rest of a cluster in this process.
        self.players: list[NodeSimulator | NamespaceCleaner | Controllers] = [Controllers(self.api, controllers)]
        if node_simulator:
            self.players.append(NodeSimulator(self.api))
        if namespace_cleaner:
            self.players.append(NamespaceCleaner(self.api))
        self._runner: web.ServerRunner | None = None
        bootstrap(self.api)
        self._first = saving.present(self)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Nobody is asked who they are: everybody is the administrator."""
        return not self.api.accounts

    @property
    def token(self) -> str | None:
        """The administrator's token. A new one counts at once; watches that are open stay so."""
        return self._token

    @token.setter
    def token(self, token: str | None) -> None:
        self._token = token
        self.api.accounts = {**self._accounts, token: ADMIN} if token else self._accounts

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        site = web.TCPSite(runner, self.host, self.port, ssl_context=self._tls, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            # asyncio repeats the address in what it says.
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
            raise ListenError(f"cannot listen on {self.host}:{self.port}: {why}") from error
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self._runner = runner
        for player in self.players:
            player.start()
        log.info("API server serves url=%s", self.url)

    async def stop(self) -> None:
        for player in self.players:
            player.stop()
        self.cut_watches()
        if self._runner is not None:
            assert self._runner.server is not None
            open_ = [handler.transport for handler in self._runner.server.connections]
            await self._runner.cleanup()
            self._runner = None
            for transport in open_:  # a TLS connection would wait for its client to say goodbye
                if transport is not None:
                    transport.abort()
            await asyncio.sleep(0)

    def load(self, documents: Iterable[Json]) -> int:
        """Takes objects in as they are in a manifest or a dump, status included; how many there were."""
        return loading.load(self.api, documents)

    def load_documents(self, documents: Iterable[Document], *, leave_out_unknown: bool) -> int:
        """The same from files; an object that is wrong is a ManifestError, which says where it is."""
        return loading.load_documents(self.api, documents, leave_out_unknown=leave_out_unknown)

    def save(self, path: Path) -> int:
        """Writes what was made since the server came up as manifests, to a file or a folder; how many objects."""
        return saving.save(self.store, path, first=self._first)

    def compact(self, revision: int | None = None) -> None:
        """Forgets history up to `revision` (all of it): watches and pages from before get 410."""
        self.store.compact(revision)

    def cut_watches(self) -> None:
        """Ends every open watch stream, as a server that goes away does."""
        for watch in list(self.api.watches):
            watch.close()

    def intercept(self, interceptor: Interceptor) -> None:
        """Puts a test's function between clients and handlers; the last one added is asked first."""
        self.interceptors.append(interceptor)

    async def handle(self, request: Request) -> Reply:
        """One request without HTTP."""
        return await self._proceed(request, len(self.interceptors))

    async def _proceed(self, request: Request, remaining: int) -> Reply:
        if remaining == 0:
            return await self.api.handle(request)
        interceptor = self.interceptors[remaining - 1]
        return await interceptor(request, lambda: self._proceed(request, remaining - 1))

    async def _serve(self, raw: web.BaseRequest) -> web.StreamResponse:
        try:
            request = await _read(raw)
            reply = await self.handle(request)
        except Refusal as refusal:
            request, reply = Request(raw.method, raw.path), answer_refusal(refusal)
        except DropConnection:
            if raw.transport is not None:
                raw.transport.abort()
            return web.Response(status=500)
        if isinstance(reply, Stream):
            return await _stream(raw, reply)
        return _response(request, reply)


async def _read(raw: web.BaseRequest) -> Request:
    query = raw.query
    headers = {name.lower(): value for name, value in raw.headers.items()}
    body = b""
    if raw.body_exists:
        if (raw.content_length or 0) <= BODY_LIMIT_BYTES:
            try:
                body = await raw.content.read()
            except (ConnectionError, web.RequestPayloadError):  # the client hung up halfway through
                raise DropConnection from None
        if len(body) > BODY_LIMIT_BYTES or (raw.content_length or 0) > BODY_LIMIT_BYTES:
            text = f"Request entity too large: limit is {BODY_LIMIT_BYTES}"
            raise Refusal(413, "RequestEntityTooLarge", text)
    first: dict[str, Any] = {name: query[name] for name in query} if query else {}
    return Request(raw.method, raw.rel_url.raw_path, first, headers, body)


def _response(request: Request, answer: Answer) -> web.Response:
    body = answer.body
    headers = {"Cache-Control": "no-cache, private", **answer.headers}
    content_type = answer.content_type
    if content_type.startswith(JSON) and body:
        if answer.status < 300 and wants_yaml(request):
            body, content_type = as_yaml(body), YAML
        else:
            body = finish_json(request, body)
    if len(body) > GZIP_FROM_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        body = packer.compress(body) + packer.flush()
        headers["Content-Encoding"] = "gzip"
        headers["Vary"] = "Accept-Encoding"
    if content_type:
        headers[hdrs.CONTENT_TYPE] = content_type
    if request.method == "HEAD":
        body = b""
    return web.Response(status=answer.status, body=body, headers=headers)


async def _stream(raw: web.BaseRequest, reply: Stream) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Cache-Control": "no-cache, private", hdrs.CONTENT_TYPE: reply.content_type})
    response.enable_chunked_encoding()
    if raw.transport is not None:
        reply.watch.on_drop = raw.transport.abort
    try:
        await response.prepare(raw)
        while lines := await reply.watch.gathered():
            await response.write(lines)
        await response.write_eof()
    except (TimeoutError, ConnectionError):
        log.debug("watch ended by its client path=%s", raw.path)
    finally:
        reply.on_end()
    return response
