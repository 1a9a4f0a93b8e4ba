"""TLS contexts for talking to the API server: whom we trust, and with which certificate we present ourselves.

Contexts are built once and kept. Certificates that come from files are looked at again once a minute, so that a rotated
one is used for the next connection; a half-written or broken new file leaves the old context in use and says so.

Reads certificate files; never opens a connection.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kubesched.client.kubeconfig import ClusterConfig, KubeconfigError, PemSource
from kubesched.clock import Clock, RealClock

log = logging.getLogger("kubesched.client")

_LOOK_AGAIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate chain and its key, both PEM."""

    chain: bytes
    key: bytes = field(repr=False)


class TlsContexts:
    """The contexts for one API server: one per client certificate, the kubeconfig's own or one from an exec plugin."""

    def __init__(
        self,
        cluster: ClusterConfig,
        chain: PemSource | None = None,
        key: PemSource | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._cluster = cluster
        self._chain = chain
        self._key = key
        self._clock = clock or RealClock()
        self._files = [Path(pem.path) for pem in (cluster.ca, chain, key) if pem is not None and pem.path]
        self._stamps = self._file_stamps()
        self._looked_at_s = self._clock.monotonic()
        self._own = self._build(self._own_certificate())
        self._granted: tuple[ClientCertificate, ssl.SSLContext] | None = None

    def context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """The same object for the same certificate, so that connections are shared."""
        if self._files and self._clock.monotonic() - self._looked_at_s >= _LOOK_AGAIN_S:
            self._look_again()
        if certificate is None:
            return self._own
        if self._granted is None or self._granted[0] != certificate:
            self._granted = (certificate, self._build(certificate))
        return self._granted[1]

    def _look_again(self) -> None:
        self._looked_at_s = self._clock.monotonic()
        stamps = self._file_stamps()
        if stamps == self._stamps:
            return
        try:
            self._own = self._build(self._own_certificate())
        except KubeconfigError as error:
            log.error("a certificate file has changed but cannot be used; going on with the old one error=%s", error)
            return
        self._stamps = stamps
        self._granted = None
        log.info("certificates read again files=%s", ",".join(str(path) for path in self._files))

    def _file_stamps(self) -> list[tuple[int, int]]:
        return [(stat.st_mtime_ns, stat.st_ino) for path in self._files if (stat := _stat(path)) is not None]

    def _own_certificate(self) -> ClientCertificate | None:
        if self._chain is None or self._key is None:
            return None
        return ClientCertificate(self._chain.read(), self._key.read())

    def _build(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._cluster.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self._cluster.ca is not None:
            # Only the given authority is trusted, not the system's as well.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                context.load_verify_locations(cadata=self._cluster.ca.read().decode("ascii", "replace"))
            except ssl.SSLError as error:
                origin = self._cluster.ca.path or "certificate-authority-data"
                raise KubeconfigError(f"{origin}: not a PEM certificate: {error.reason or error}") from error
        context.set_alpn_protocols(["http/1.1"])
        if certificate is not None:
            _load_client_certificate(context, certificate)
        return context


def _load_client_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    with _as_file(certificate.chain) as chain, _as_file(certificate.key) as key:
        try:
            # Without the callable an encrypted key would make OpenSSL ask on the terminal.
            context.load_cert_chain(chain, key, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise KubeconfigError(f"the client certificate and key cannot be used: {reason}") from error


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """OpenSSL takes certificates from files only. Where the system can, the file exists in memory alone."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("kubesched-pem")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="kubesched-") as file:  # readable by the owner only
        file.write(content)
        file.flush()
        yield file.name


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
