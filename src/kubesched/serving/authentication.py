"""Who is it? A client certificate, the headers of a trusted proxy, a bearer token; else anonymous.

In this order, as in kube-scheduler v1.36. Whoever shows something that does not hold is refused, also where anonymous
callers are welcome. Tokens are reviewed by the API server; what it says yes to is remembered for a while.

TLS has verified that a client's certificate comes from one of the authorities that are trusted at all. Which of them it
was decides what it is good for, and is told by its issuer: chains with intermediates are not followed.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubesched.clock import Clock
from kubesched.serving.identity import ANONYMOUS, AUTHENTICATED, ReviewError, Reviews, User

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

log = logging.getLogger("kubesched.serving")

_REMEMBERED_MAX: Final = 4096


class Unauthorized(Exception):
    """What was shown does not hold."""


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Which headers of a trusted proxy name the user; the names are lower case."""

    username: tuple[str, ...] = ("x-remote-user",)
    group: tuple[str, ...] = ("x-remote-group",)
    uid: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    #: Common names of proxies that are trusted; empty: every certificate of the authority.
    allowed_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientCas:
    """Authorities as PEM: of users' certificates, and of the certificates of proxies."""

    users: bytes = b""
    proxies: bytes = b""

    @property
    def pem(self) -> bytes:
        return b"\n".join(part for part in (self.users, self.proxies) if part)


class Authenticator:
    """`cas` and `headers` may be replaced while it is in use."""

    def __init__(
        self,
        reviews: Reviews | None,
        clock: Clock,
        *,
        cas: ClientCas | None = None,
        headers: RequestHeaders | None = None,
        remember_s: float = 10.0,
    ) -> None:
        self.cas = cas or ClientCas()
        self.headers = headers or RequestHeaders()
        self._reviews = reviews
        self._clock = clock
        self._remember_s = remember_s
        self._known: OrderedDict[bytes, tuple[float, User]] = OrderedDict()

    async def user(self, headers: Mapping[str, str], certificate_der: bytes | None) -> User:
        """Raises `Unauthorized`."""
        if certificate_der is not None:
            found = self._by_certificate(headers, certificate_der)
            if found is not None:
                return found
        scheme, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and token:
            return await self._by_token(token)
        return ANONYMOUS

    def _by_certificate(self, headers: Mapping[str, str], der: bytes) -> User | None:
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        certificate = x509.load_der_x509_certificate(der)
        names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        common_name = names[0] if names else ""
        is_proxy = issued_by(certificate, self.cas.proxies) and common_name in (
            self.headers.allowed_names or (common_name,)
        )
        if is_proxy and (found := self._by_headers(headers)) is not None:
            return found
        if issued_by(certificate, self.cas.users):
            organisations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            return User(common_name, (*(str(each.value) for each in organisations), AUTHENTICATED))
        if not is_proxy:
            raise Unauthorized
        return None

    def _by_headers(self, headers: Mapping[str, str]) -> User | None:
        rules = self.headers
        name = next((headers[header] for header in rules.username if headers.get(header)), "")
        if not name:
            return None
        groups = [
            group.strip() for header in rules.group for group in headers.get(header, "").split(",") if group.strip()
        ]
        if AUTHENTICATED not in groups:
            groups.append(AUTHENTICATED)
        uid = next((headers[header] for header in rules.uid if headers.get(header)), "")
        extra = {
            header.removeprefix(prefix): (value,)
            for prefix in rules.extra_prefixes
            for header, value in headers.items()
            if header.startswith(prefix)
        }
        return User(name, tuple(groups), uid, extra)

    async def _by_token(self, token: str) -> User:
        key = hashlib.sha256(token.encode()).digest()  # the token itself is not kept
        now_s = self._clock.monotonic()
        known = self._known.get(key)
        if known is not None:
            if known[0] > now_s:
                return known[1]
            del self._known[key]
        if self._reviews is None:
            raise Unauthorized
        try:
            user = await self._reviews.token(token)
        except ReviewError as error:
            log.warning("could not have a token reviewed error=%s", error)
            raise Unauthorized from error
        if user is None:
            raise Unauthorized
        self._known[key] = (self._clock.monotonic() + self._remember_s, user)
        while len(self._known) > _REMEMBERED_MAX:
            self._known.popitem(last=False)
        return user


def issued_by(certificate: Certificate, authorities_pem: bytes) -> bool:
    """Whether one of the authorities has signed the certificate itself."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    if not authorities_pem:
        return False
    for authority in x509.load_pem_x509_certificates(authorities_pem):
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False
