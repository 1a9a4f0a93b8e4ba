"""The HTTPS server: takes connections, asks who it is and whether they may, and hands on to the routes.

The listening socket is bound once. When the certificate or the authorities of clients change, a new acceptor with a new
TLS context takes over the same socket; connections that are open go on as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from typing import Final

from aiohttp import hdrs, web

from kubesched.clock import Clock
from kubesched.serving.answers import Answer, Asked, forbidden, text, unauthorized
from kubesched.serving.authentication import Authenticator, ClientCas, Unauthorized
from kubesched.serving.authorization import Authorizer
from kubesched.serving.certificates import CertificateError, ServingCertificates
from kubesched.serving.identity import ReviewError
from kubesched.serving.routes import Routes

log = logging.getLogger("kubesched.serving")

#: How often the files of the certificate are looked at.
CERTIFICATE_LOOK_S: Final = 5.0


class PortTakenError(Exception):
    """The address cannot be listened on."""


class SecureServer:
    def __init__(
        self,
        routes: Routes,
        authenticator: Authenticator,
        authorizer: Authorizer,
        certificates: ServingCertificates,
        clock: Clock,
        *,
        address: str = "0.0.0.0",
        port: int = 10259,
        reuse_port: bool = False,
    ) -> None:
        self._routes = routes
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._certificates = certificates
        self._clock = clock
        self._address = address or "0.0.0.0"
        self.port = port
        self._reuse_port = reuse_port
        self._socket: socket.socket | None = None
        self._runner: web.ServerRunner | None = None
        self._site: web.SockSite | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises `PortTakenError` and `CertificateError`."""
        context = self._certificates.context(self._authenticator.cas.pem)
        self._socket = self._listen()
        self.port = self._socket.getsockname()[1]
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None))
        await self._runner.setup()
        await self._accept(context)
        self._looking = asyncio.create_task(self._follow_files(), name="serving certificate")
        log.info("serving address=%s port=%d", self._address, self.port)

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            self._looking = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def trust(self, cas: ClientCas) -> None:
        """From now on, these authorities of client certificates."""
        if cas == self._authenticator.cas:
            return
        before = self._authenticator.cas
        self._authenticator.cas = cas
        try:
            await self._renew()
        except CertificateError:
            self._authenticator.cas = before
            raise

    async def reload_if_changed(self) -> bool:
        """Takes new files in; keeps what it has, and says so, when they cannot be used."""
        if not self._certificates.changed():
            return False
        try:
            await self._renew()
        except CertificateError as error:
            log.error("keeping the old certificate error=%s", error)
            return False
        log.info("serving with a new certificate")
        return True

    # -- listening

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            # What asyncio does too: a port that only old connections of ours still hold is not taken.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._reuse_port:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.bind((self._address, self.port))
            listening.listen(128)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            where = f"{self._address}:{self.port}"
            raise PortTakenError(f"cannot listen on {where}: {error.strerror or error}") from error
        return listening

    async def _renew(self) -> None:
        if self._runner is not None:
            await self._accept(self._certificates.context(self._authenticator.cas.pem))

    async def _accept(self, context: ssl.SSLContext) -> None:
        assert self._runner is not None and self._socket is not None
        before = self._site
        self._site = web.SockSite(self._runner, self._socket.dup(), ssl_context=context)
        await self._site.start()
        if before is not None:
            await before.stop()

    async def _follow_files(self) -> None:
        while True:
            await self._clock.sleep(CERTIFICATE_LOOK_S)
            await self.reload_if_changed()

    # -- one request

    async def _serve(self, raw: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(raw)
        except Exception as error:
            log.error("a request failed method=%s path=%s error=%s", raw.method, raw.path, error, exc_info=error)
            answer = text("Internal Server Error\n", 500)
        headers = {"Cache-Control": "no-cache, private", **answer.headers, hdrs.CONTENT_TYPE: answer.content_type}
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    async def _answer(self, raw: web.BaseRequest) -> Answer:
        headers = {name.lower(): value for name, value in raw.headers.items()}
        try:
            user = await self._authenticator.user(headers, _peer_certificate(raw))
        except Unauthorized:
            return unauthorized()
        verb = raw.method.lower()
        try:
            access = await self._authorizer.access(user, verb, raw.path)
        except ReviewError as error:
            log.warning("could not have an access reviewed user=%s path=%s error=%s", user.name, raw.path, error)
            return text(f'Internal Server Error: "{raw.path}": {error}\n', 500)
        if not access.allowed:
            log.info("refused a request user=%s verb=%s path=%s", user.name, verb, raw.path)
            return forbidden(user.name, verb, raw.path, access.reason)
        query = {name: raw.query.getall(name) for name in raw.query}
        return await self._routes.answer(Asked(raw.method, raw.path, query, headers))


def _peer_certificate(raw: web.BaseRequest) -> bytes | None:
    tls = raw.transport.get_extra_info("ssl_object") if raw.transport is not None else None
    with contextlib.suppress(ValueError):  # the handshake is over, or there would be no request
        return tls.getpeercert(binary_form=True) if tls is not None else None
    return None
