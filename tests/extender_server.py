"""A real scheduler extender over HTTP or HTTPS, whose answers a test sets by verb."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

from kubesched.tls import self_signed, server_context

Answer = Callable[[dict[str, Any]], Any]


class ExtenderServer:
    """`async with ExtenderServer() as extender`. `answers[verb]` gets the request and gives what to answer: data for
    JSON, bytes as they are, an int for a bare status code, or an awaitable of one of these. `seen` lists the requests
    as (verb, body), `asked_by` the common names of the certificates they came with. With a `client_ca` nobody else is
    served."""

    def __init__(self, *, tls: bool = False, client_ca: bytes = b"") -> None:
        self.answers: dict[str, Answer] = {}
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.certificate = self_signed(["localhost", "127.0.0.1", "extender.example"]) if tls else None
        self.asked_by: list[str] = []
        self.url = ""
        self._client_ca = client_ca
        self._runner: web.AppRunner | None = None
        self._released = asyncio.Event()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{prefix}/{verb}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        context: ssl.SSLContext | None = server_context(self.certificate) if self.certificate else None
        if context is not None and self._client_ca:
            context.load_verify_locations(cadata=self._client_ca.decode())
            context.verify_mode = ssl.CERT_REQUIRED
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{port}/scheduler"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._released.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def never(self) -> Any:
        """An answer that does not come before the server ends."""
        await self._released.wait()

    def asked(self, verb: str) -> list[dict[str, Any]]:
        return [body for each, body in self.seen if each == verb]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb = request.match_info["verb"]
        body = await request.json()
        self.seen.append((verb, body))
        assert request.transport is not None
        if certificate := request.transport.get_extra_info("peercert"):
            self.asked_by.append(dict(pair for part in certificate["subject"] for pair in part)["commonName"])
        assert request.content_type == "application/json"
        given = self.answers[verb](body)
        if isinstance(given, Awaitable):
            given = await given
        if isinstance(given, int):
            return web.Response(status=given, text="no")
        if isinstance(given, bytes):
            return web.Response(body=given)
        return web.Response(text=json.dumps(given), content_type="application/json")
