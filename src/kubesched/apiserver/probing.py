"""One look at the health port of another component: a GET as the original's prober sends it, and what came of it.

It waits for the network without holding up the loop, trusts any certificate (components make their own), and words
what goes wrong as the original does, because people search for those words.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from functools import partial

import aiohttp

from kubesched.apiserver.components import Check, Health

SCHEDULER, CONTROLLER_MANAGER = "scheduler", "controller-manager"
TARGETS = {
    SCHEDULER: "https://127.0.0.1:10259/healthz",
    CONTROLLER_MANAGER: "https://127.0.0.1:10257/healthz",
}
"""Where the original looks, whatever ports the components were given."""

TIMEOUT_S = 20.0
"""As long as the original waits for a component that takes the connection and says nothing."""

_BODY_LIMIT_BYTES = 10 << 10
_DEADLINE = "context deadline exceeded (Client.Timeout exceeded while {})"
_HEADERS = {"User-Agent": "kube-probe/1.36", "Accept": "*/*"}


def probe(url: str, timeout_s: float = TIMEOUT_S) -> Check:
    """The check of the component that serves its health at `url`."""
    return partial(_probe, url, timeout_s)


async def _probe(url: str, timeout_s: float) -> Health:
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=_HEADERS) as session:
        try:
            response = await session.get(url)
        except (aiohttp.ClientError, OSError) as error:
            return Health(False, f'Get "{url}": {_fault(error)}')
        try:
            body = await _beginning(response.content)
        except TimeoutError:
            return Health(None, error=_DEADLINE.format("reading body"))
        except (aiohttp.ClientError, OSError):
            return Health(None, error="unexpected EOF")
        finally:
            response.close()
    if response.status >= 400:
        return Health(False, f"HTTP probe failed with statuscode: {response.status}")
    return Health(True, body.decode("utf-8", "replace"))


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    body = b""
    while len(body) < _BODY_LIMIT_BYTES and (more := await content.read(_BODY_LIMIT_BYTES - len(body))):
        body += more
    return body


def _fault(error: Exception) -> str:
    """Why there was no answer, in the words of Go's HTTP client."""
    match error:
        case TimeoutError():
            return _DEADLINE.format("awaiting headers")
        case aiohttp.ClientConnectorDNSError():
            unknown = error.errno == socket.EAI_NONAME
            return f"dial tcp: lookup {error.host}: {'no such host' if unknown else error.os_error.strerror}"
        case aiohttp.ClientConnectorSSLError(os_error=ssl.SSLError(reason="WRONG_VERSION_NUMBER")):
            return "tls: first record does not look like a TLS handshake"
        case aiohttp.ClientConnectorSSLError():
            return f"tls: {error.os_error}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError(errno=errno.ECONNRESET):
            return "EOF"
        case aiohttp.ClientConnectorError(errno=int(number)):
            words = os.strerror(number)
            return f"dial tcp {_address(error)}: connect: {words[:1].lower()}{words[1:]}"
    return str(error)


def _address(error: aiohttp.ClientConnectorError) -> str:
    host = f"[{error.host}]" if ":" in str(error.host) else error.host
    return f"{host}:{error.port}"
