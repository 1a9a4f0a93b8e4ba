"""Who we are, request by request: credentials that renew themselves.

`credentials_of` picks one `Credentials` for a `ClientConfig`. Before each request the client asks it for a `Grant`
(an Authorization header, a client certificate, both or neither); after a 401 it hands the refused grant back and, if a
fresh one may differ, tries once more. A running watch was authenticated when it was opened: rotation does not cut it.

Over plain http:// client-go drops all credentials, and so do we, with one warning; the exception is a loopback address,
where a development server may well ask for a token and nobody can listen in.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import sys
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from kubesched.api.meta import parse_time
from kubesched.client.certificates import ClientCertificate
from kubesched.client.kubeconfig import (
    ClientConfig,
    ClusterConfig,
    ExecPlugin,
    KubeconfigError,
    OidcProvider,
    exec_cluster_info,
)
from kubesched.client.transport import NotSentError, Request, Transport
from kubesched.clock import Clock

log = logging.getLogger("kubesched.client")

TOKEN_FILE_MAX_AGE_S: Final = 60.0
_EXEC_TIMEOUT_S: Final = 60.0
_EXEC_FAILURE_HOLD_S: Final = 5.0
_OIDC_EARLY_S: Final = 60.0


class CredentialError(NotSentError):
    """No credentials could be had."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What to present with one request. `authorization` is the header's whole value."""

    authorization: str = field(default="", repr=False)
    certificate: ClientCertificate | None = None


class Credentials(Protocol):
    async def grant(self) -> Grant:
        """What to present now; renewed first where it is due. Raises `CredentialError`."""

    def refused(self, grant: Grant) -> bool:
        """The server answered 401 to `grant`. True when the next `grant()` will have asked the source again."""


def credentials_of(
    config: ClientConfig, clock: Clock, *, connect: Callable[[ClusterConfig], Transport] | None = None
) -> Credentials:
    """The credentials of a configuration. `connect` opens the way to an OIDC issuer."""
    cluster, user = config.cluster, config.user
    if not cluster.is_tls and not cluster.is_loopback:
        if user.token or user.token_file or user.username or user.exec_plugin or user.oidc:
            log.warning(
                "credentials are not sent over plain http: every request is anonymous server=%s", cluster.server
            )
        return FixedCredentials(Grant())
    # The order is client-go's: a token file beats a token, and a token or password in the kubeconfig means that the
    # plugin is never asked.
    if user.token_file:
        return TokenFile(Path(user.token_file), clock, initial=user.token)
    if user.token:
        if not _is_token(user.token):
            raise KubeconfigError(f"{config.source}: the user's token holds characters that no token has")
        return FixedCredentials(Grant(f"Bearer {user.token}"))
    if user.username:
        pair = f"{user.username}:{user.password}".encode()
        return FixedCredentials(Grant(f"Basic {base64.b64encode(pair).decode()}"))
    if user.exec_plugin is not None:
        return ExecCredentials(user.exec_plugin, cluster, clock)
    if user.oidc is not None:
        if connect is None:
            raise KubeconfigError("auth-provider oidc needs a way to reach the issuer")
        return OidcCredentials(user.oidc, connect, clock)
    return FixedCredentials(Grant())


class FixedCredentials:
    """A token, a password or nothing: what the kubeconfig says, for good."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant

    async def grant(self) -> Grant:
        return self._grant

    def refused(self, grant: Grant) -> bool:
        return False


class TokenFile:
    """A token in a file that somebody replaces: read again once a minute, and at once after a 401.

    A file that cannot be read leaves the last token in use: it may be between two versions.
    """

    def __init__(self, path: Path, clock: Clock, *, initial: str = "") -> None:
        self._path = path
        self._clock = clock
        self._grant: Grant | None = Grant(f"Bearer {initial}") if initial else None
        self._read_at_s: float | None = None

    async def grant(self) -> Grant:
        now_s = self._clock.monotonic()
        if self._grant is None or self._read_at_s is None or now_s - self._read_at_s >= TOKEN_FILE_MAX_AGE_S:
            self._read_at_s = now_s
            self._grant = self._read(self._grant)
        return self._grant

    def refused(self, grant: Grant) -> bool:
        if grant is self._grant:
            self._read_at_s = None
        return True

    def _read(self, known: Grant | None) -> Grant:
        try:
            token = self._path.read_text().strip()
            problem = "it is empty" if not token else "" if _is_token(token) else "it holds no token"
        except (OSError, UnicodeDecodeError) as error:
            token, problem = "", str(getattr(error, "strerror", None) or error)
        if problem:
            if known is None:
                raise CredentialError(f"cannot read the token file {self._path}: {problem}")
            log.warning(
                "cannot read the token file, going on with the last token file=%s error=%s", self._path, problem
            )
            return known
        header = f"Bearer {token}"
        return known if known is not None and known.authorization == header else Grant(header)


class ExecCredentials:
    """A program that prints an ExecCredential (client.authentication.k8s.io/v1 or v1beta1).

    Run when first needed, when its `expirationTimestamp` has passed, and after a 401; never twice at the same time.
    A run that failed is not repeated for a few seconds, however many requests ask.
    """

    def __init__(
        self, plugin: ExecPlugin, cluster: ClusterConfig, clock: Clock, *, is_terminal: bool | None = None
    ) -> None:
        self._plugin = plugin
        self._cluster = cluster
        self._clock = clock
        self._is_terminal = sys.stdin is not None and sys.stdin.isatty() if is_terminal is None else is_terminal
        self._grant: Grant | None = None
        self._expires_at: float | None = None
        self._running = asyncio.Lock()
        self._failure: tuple[float, CredentialError] | None = None

    async def grant(self) -> Grant:
        if (grant := self._usable()) is not None:
            return grant
        async with self._running:
            if (grant := self._usable()) is not None:
                return grant
            if self._failure is not None and self._clock.monotonic() - self._failure[0] < _EXEC_FAILURE_HOLD_S:
                raise CredentialError(str(self._failure[1])) from self._failure[1]
            try:
                self._grant, self._expires_at = self._parse(await self._run())
            except CredentialError as error:
                self._failure = (self._clock.monotonic(), error)
                raise
            self._failure = None
            return self._grant

    def refused(self, grant: Grant) -> bool:
        if grant is self._grant:
            self._grant = None
        return True

    def _usable(self) -> Grant | None:
        if self._expires_at is not None and self._clock.now() >= self._expires_at:
            return None
        return self._grant

    async def _run(self) -> bytes:
        plugin = self._plugin
        if plugin.interactive_mode == "Always" and not self._is_terminal:
            raise CredentialError(f"the exec plugin {plugin.command} needs a terminal (interactiveMode: Always)")
        interactive = self._is_terminal and plugin.interactive_mode != "Never"
        spec: dict[str, Any] = {"interactive": interactive}
        if plugin.provide_cluster_info:
            spec["cluster"] = exec_cluster_info(self._cluster)
        info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env={**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
            raise CredentialError(f"cannot run the exec plugin {plugin.command}: {error.strerror}{hint}") from error
        try:
            async with asyncio.timeout(_EXEC_TIMEOUT_S):
                output, _ = await process.communicate()
        except BaseException as error:
            if process.returncode is None:
                process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise CredentialError(
                    f"the exec plugin {plugin.command} did not end within {_EXEC_TIMEOUT_S:g} s"
                ) from error
            raise
        if process.returncode != 0:
            raise CredentialError(f"the exec plugin {plugin.command} failed with exit code {process.returncode}")
        return output

    def _parse(self, output: bytes) -> tuple[Grant, float | None]:
        """The output is a secret: no part of it goes into a message."""
        plugin = self._plugin
        try:
            credential = json.loads(output)
        except ValueError as error:
            raise CredentialError(f"the exec plugin {plugin.command} did not print JSON") from error
        if not isinstance(credential, dict) or credential.get("kind") != "ExecCredential":
            raise CredentialError(f"the exec plugin {plugin.command} did not print an ExecCredential")
        if credential.get("apiVersion") != plugin.api_version:
            raise CredentialError(
                f"the exec plugin {plugin.command} answered with apiVersion {credential.get('apiVersion')!r}, "
                f"the kubeconfig asks for {plugin.api_version!r}"
            )
        status = credential.get("status")
        if not isinstance(status, dict):
            raise CredentialError(f"the exec plugin {plugin.command} printed no status")
        token, chain, key = (status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData"))
        if not all(isinstance(value, str) for value in (token, chain, key)):
            raise CredentialError(f"the exec plugin {plugin.command} printed a status with a field that is no string")
        if bool(chain) != bool(key):
            raise CredentialError(f"the exec plugin {plugin.command} printed a certificate without key, or the reverse")
        if token and not _is_token(token):
            raise CredentialError(f"the exec plugin {plugin.command} printed a token with characters that no token has")
        if not token and not chain:
            raise CredentialError(f"the exec plugin {plugin.command} printed neither a token nor a certificate")
        grant = Grant(
            authorization=f"Bearer {token}" if token else "",
            certificate=ClientCertificate(chain.encode(), key.encode()) if chain else None,
        )
        return grant, self._expiry(status.get("expirationTimestamp"))

    def _expiry(self, stamp: Any) -> float | None:
        if stamp is None:
            return None
        try:
            return parse_time(stamp)
        except (TypeError, ValueError) as error:
            raise CredentialError(
                f"the exec plugin {self._plugin.command} printed expirationTimestamp {stamp!r}, which is not RFC 3339"
            ) from error


class OidcCredentials:
    """`auth-provider: oidc`: the id token, renewed through the issuer a minute before it expires.

    The kubeconfig is not written back: the renewed tokens live in memory only.
    """

    def __init__(self, provider: OidcProvider, connect: Callable[[ClusterConfig], Transport], clock: Clock) -> None:
        self._provider = provider
        self._connect = connect
        self._clock = clock
        self._refresh_token = provider.refresh_token
        self._grant: Grant | None = None
        self._expires_at = 0.0
        self._renewing = asyncio.Lock()
        if provider.id_token:
            self._use(provider.id_token)

    async def grant(self) -> Grant:
        if (grant := self._usable()) is not None:
            return grant
        async with self._renewing:
            if (grant := self._usable()) is not None:
                return grant
            if not self._refresh_token:
                raise CredentialError("the OIDC id token has expired and there is no refresh token")
            return self._use(await self._renew())

    def refused(self, grant: Grant) -> bool:
        if grant is self._grant and self._refresh_token:
            self._grant = None
        return bool(self._refresh_token)

    def _usable(self) -> Grant | None:
        return self._grant if self._clock.now() < self._expires_at - _OIDC_EARLY_S else None

    def _use(self, id_token: str) -> Grant:
        self._grant = Grant(f"Bearer {id_token}")
        self._expires_at = _jwt_expiry(id_token)
        return self._grant

    async def _renew(self) -> str:
        provider = self._provider
        discovery = await self._ask("GET", f"{provider.issuer_url}/.well-known/openid-configuration", None)
        endpoint = discovery.get("token_endpoint")
        if not isinstance(endpoint, str):
            raise CredentialError(f"the OIDC issuer {provider.issuer_url} names no token_endpoint")
        form = {
            "grant_type": "refresh_token",
            "refresh_token": self._refresh_token,
            "client_id": provider.client_id,
            "client_secret": provider.client_secret,
        }
        answer = await self._ask("POST", endpoint, urllib.parse.urlencode(form).encode())
        id_token = answer.get("id_token")
        if not isinstance(id_token, str):
            raise CredentialError(f"the OIDC issuer {provider.issuer_url} answered without an id_token")
        self._refresh_token = answer.get("refresh_token") or self._refresh_token
        return id_token

    async def _ask(self, method: str, url: str, form: bytes | None) -> dict[str, Any]:
        parts = urllib.parse.urlsplit(url)
        transport = self._connect(ClusterConfig(server=f"{parts.scheme}://{parts.netloc}", ca=self._provider.issuer_ca))
        headers = {"Accept": "application/json"}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            response = await transport.send(Request(method, parts.path or "/", headers, form))
        finally:
            await transport.close()
        try:
            answer = json.loads(response.body)
        except ValueError:
            answer = None
        if response.status != 200 or not isinstance(answer, dict):
            raise CredentialError(f"the OIDC issuer answered {method} {url} with {response.status}")
        return answer


def _is_token(text: str) -> bool:
    """Whether it can stand in a header: a line break would begin another one."""
    return text.isascii() and text.isprintable() and " " not in text


def _jwt_expiry(token: str) -> float:
    """The `exp` of a JWT, unverified: the API server verifies. A token without one is taken as good until refused."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return float("inf")
