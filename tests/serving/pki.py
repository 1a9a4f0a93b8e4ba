"""Authorities and certificates for tests."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubesched.tls import self_signed


@dataclass
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def client(self, folder: Path, name: str, *groups: str) -> Path:
        """A file with certificate and key of a user."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        certificate = _builder(x509.Name(subject), self.certificate.subject, key).sign(self.key, hashes.SHA256())
        path = folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + _pem_of(key))
        return path


def authority(name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    basic = x509.BasicConstraints(ca=True, path_length=None)
    certificate = _builder(subject, subject, key).add_extension(basic, critical=True).sign(key, hashes.SHA256())
    return Authority(certificate, key)


def write_pair(folder: Path, *hosts: str) -> tuple[Path, Path, bytes]:
    """Files of a server's certificate and key, and the authority to trust."""
    made = self_signed(hosts or ("127.0.0.1", "localhost"))
    folder.mkdir(parents=True, exist_ok=True)
    cert, key = folder / "tls.crt", folder / "tls.key"
    cert.write_bytes(made.certificate_pem)
    key.write_bytes(made.key_pem)
    return cert, key, made.ca_pem


def trusting(ca_pem: bytes, client: Path | None = None, *, check_hostname: bool = True) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca_pem.decode())
    context.check_hostname = check_hostname
    if client is not None:
        context.load_cert_chain(client)
    return context


def _builder(subject, issuer, key):
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
