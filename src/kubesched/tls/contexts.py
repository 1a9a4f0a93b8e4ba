"""ssl contexts for both sides of a connection."""

from __future__ import annotations

import os
import ssl
import tempfile

from kubesched.tls.certificates import ServerCertificate


def server_context(certificate: ServerCertificate) -> ssl.SSLContext:
    """A context that serves with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # ssl loads chains from files only; the key is on disk for a moment, readable by its owner.
    handle, path = tempfile.mkstemp(prefix="kubesched-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.certificate_pem + certificate.key_pem)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
    return context


def client_context(ca_pem: bytes) -> ssl.SSLContext:
    """A context that trusts this authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=ca_pem.decode("ascii"))
    return context
