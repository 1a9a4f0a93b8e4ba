"""Who may ask: with a token configured, its bearer is the administrator and everybody else is anonymous.

A wrong bearer token is refused everywhere; without credentials health and version are answered, all else is forbidden.
"""

from __future__ import annotations

import hmac

from kubesched.apiserver.messages import Request
from kubesched.apiserver.status import Refusal

_OPEN = ("/version", "/healthz", "/livez", "/readyz")


def authenticate(request: Request, token: str | None) -> Refusal | None:
    """None when the request may go on."""
    if token is None:
        return None
    scheme, _, sent = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and sent.strip():
        if hmac.compare_digest(sent.strip().encode(), token.encode()):
            return None
        return Refusal(401, "Unauthorized", "Unauthorized")
    request.user = "system:anonymous"
    if request.path.startswith(_OPEN):
        return None
    return Refusal(403, "Forbidden", f'forbidden: User "system:anonymous" cannot get path "{request.path}"', {})
