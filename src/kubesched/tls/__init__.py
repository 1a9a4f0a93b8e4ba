"""Certificates made on the spot, and the ssl contexts that use them.

A `ServerCertificate` is a private certificate authority and one server certificate signed by it; clients trust the
authority's certificate. `cryptography` is imported only when one is made.
"""

from kubesched.tls.certificates import ServerCertificate, self_signed
from kubesched.tls.contexts import client_context, server_context

__all__ = ["ServerCertificate", "client_context", "self_signed", "server_context"]
