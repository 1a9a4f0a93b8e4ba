"""The certificate that is served: from files, which may be replaced at any time, or made on the spot.

Without `cert_file` and `cert_dir` a self-signed one is made in memory. With `cert_dir` it is `kube-scheduler.crt` and
`kube-scheduler.key` in there, made if they are missing; the file holds the authority too, so that a client that trusts
the file verifies the server.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubesched.tls import self_signed

log = logging.getLogger("kubesched.serving")

PAIR_NAME: Final = "kube-scheduler"
_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


class CertificateError(Exception):
    """The server's certificate cannot be used; the text names the file."""


@dataclass(frozen=True, slots=True)
class SniCertificate:
    """A certificate for callers that ask for one of these names; without names, for those it is made out to."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()


class ServingCertificates:
    """Makes TLS contexts. `changed` says whether a new one would be another than the last."""

    def __init__(
        self,
        *,
        cert_file: str = "",
        key_file: str = "",
        cert_dir: str = "",
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        sni: Sequence[SniCertificate] = (),
        min_version: str = "",
        cipher_suites: Sequence[str] = (),
    ) -> None:
        self._cert_file, self._key_file = cert_file, key_file
        self._hosts = hosts
        self._sni = tuple(sni)
        self._min_version = _VERSIONS[min_version]
        self._ciphers = ":".join(filter(None, map(openssl_name, cipher_suites)))
        self._in_memory = b""
        self._seen: object = None
        if not cert_file and cert_dir:
            self._cert_file = str(Path(cert_dir) / f"{PAIR_NAME}.crt")
            self._key_file = str(Path(cert_dir) / f"{PAIR_NAME}.key")
            if not (Path(self._cert_file).exists() and Path(self._key_file).exists()):
                self._make_pair(Path(cert_dir))
        elif not cert_file:
            made = self_signed(hosts)
            self._in_memory = made.certificate_pem + made.ca_pem + made.key_pem
            log.info("serving with a self-signed certificate that is kept in memory hosts=%s", ",".join(hosts))

    def context(self, client_cas_pem: bytes = b"") -> ssl.SSLContext:
        """A context with the certificate as it is now; callers may show certificates of these authorities."""
        seen = self._files_state()
        context = self._bare(client_cas_pem)
        self._load(context, self._cert_file, self._key_file)
        by_name = {}
        for entry in self._sni:
            special = self._bare(client_cas_pem)
            self._load(special, entry.cert_file, entry.key_file)
            for name in entry.names or _names_in(entry.cert_file):
                by_name[name.lower()] = special
        if by_name:

            def choose(socket: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
                wanted = (name or "").lower()
                found = by_name.get(wanted) or by_name.get(re.sub(r"^[^.]+", "*", wanted))
                if found is not None:
                    socket.context = found

            context.sni_callback = choose
        self._seen = seen
        return context

    def changed(self) -> bool:
        return self._files_state() != self._seen

    def _bare(self, client_cas_pem: bytes) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._min_version
        context.set_alpn_protocols(["http/1.1"])
        if self._ciphers:
            context.set_ciphers(self._ciphers)
        if client_cas_pem:
            context.verify_mode = ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(cadata=client_cas_pem.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise CertificateError(f"the authorities of client certificates cannot be used: {error}") from error
        return context

    def _load(self, context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
        if self._in_memory and not cert_file:
            with _on_disk(self._in_memory) as path:
                context.load_cert_chain(path)
            return
        try:
            context.load_cert_chain(cert_file, key_file)
        except OSError as error:  # an SSLError is one
            raise CertificateError(f"cannot serve with {cert_file} and {key_file}: {error}") from error

    def _make_pair(self, folder: Path) -> None:
        made = self_signed(self._hosts)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            Path(self._cert_file).write_bytes(made.certificate_pem + made.ca_pem)
            handle = os.open(self._key_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(made.key_pem)
        except OSError as error:
            raise CertificateError(f"cannot keep a certificate in {folder}: {error.strerror or error}") from error
        log.info("made a self-signed certificate file=%s hosts=%s", self._cert_file, ",".join(self._hosts))

    def _files_state(self) -> list[tuple[str, int, int, int]]:
        paths = [self._cert_file, self._key_file, *(path for s in self._sni for path in (s.cert_file, s.key_file))]
        state = []
        for path in paths:
            try:
                about = os.stat(path) if path else None
            except OSError:
                about = None
            if about is not None:
                state.append((path, about.st_mtime_ns, about.st_size, about.st_ino))
        return state


def openssl_name(suite: str) -> str:
    """A cipher suite by its name in Go as OpenSSL has it; empty for those of TLS 1.3, which are always on."""
    if "_WITH_" not in suite:
        return ""
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if cipher.startswith("CHACHA20_POLY1305"):
        cipher = "CHACHA20_POLY1305"
    cipher = re.sub(r"^AES_(\d+)", r"AES\1", cipher).replace("_CBC", "").replace("3DES_EDE", "DES_CBC3")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def _names_in(cert_file: str) -> list[str]:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificates(Path(cert_file).read_bytes())[0]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return list(names.get_values_for_type(x509.DNSName))


@contextlib.contextmanager
def _on_disk(pem: bytes) -> Iterator[str]:
    """`ssl` loads chains from files only; the key is on disk for a moment, readable by its owner."""
    handle, path = tempfile.mkstemp(prefix="kubesched-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        yield path
    finally:
        os.unlink(path)
