"""The scheduler's own HTTPS port: health, metrics, configuration, debugging, and who may ask for what.

    request ─► TLS ─► Authenticator (who?) ─► Authorizer (may they?) ─► Routes (the answer)

What is answered comes in as functions and values; who is asked about callers comes in as `Reviews`, a protocol that the
application fills with an API server's TokenReview and SubjectAccessReview.
"""

from kubesched.serving.answers import Answer, Asked
from kubesched.serving.authentication import Authenticator, ClientCas, RequestHeaders, Unauthorized
from kubesched.serving.authorization import Authorizer
from kubesched.serving.certificates import CertificateError, ServingCertificates, SniCertificate
from kubesched.serving.health import Check, HealthChecks
from kubesched.serving.identity import Access, ReviewError, Reviews, User
from kubesched.serving.routes import Routes
from kubesched.serving.server import PortTakenError, SecureServer

__all__ = [
    "Access",
    "Answer",
    "Asked",
    "Authenticator",
    "Authorizer",
    "CertificateError",
    "Check",
    "ClientCas",
    "HealthChecks",
    "PortTakenError",
    "RequestHeaders",
    "ReviewError",
    "Reviews",
    "Routes",
    "SecureServer",
    "ServingCertificates",
    "SniCertificate",
    "Unauthorized",
    "User",
]
