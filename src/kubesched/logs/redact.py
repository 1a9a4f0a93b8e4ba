"""The last look at a line before it leaves the process: what must not be in a log is taken out.

Code must not log credentials in the first place; this is the net below it, for texts that come from elsewhere (an
exception of a TLS library, an answer of an API server, a user's plugin). It errs on the side of removing too much.
"""

import re

_REMOVED = "<redacted>"

# Each alternative keeps what tells the reader that something was there, and drops the rest.
_SECRETS = re.compile(
    r"""
    (?P<pem>-----BEGIN\ [A-Z ]*PRIVATE\ KEY-----)(?s:.*?)(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
  | (?P<jwt>)\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?
  | (?P<scheme>\b(?:(?i:bearer)|Basic)\ )[A-Za-z0-9+/=._~-]{10,}
  | (?P<userinfo>\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/@"']+:[^\s/@"']+(?=@)
  | (?P<key>(?i:\b[\w-]*(?:password|passwd|token|api-?key|authorization|client-key-data|keyData|private-?key))
     ["']?\s?[=:]\s?)(?!<redacted>)(?i:(?:bearer|basic)\ )?(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}&)]+)
    """,
    re.VERBOSE,
)
# A line without any of these, in whatever case, holds nothing that the expression above could match.
_HINTS = ("key", "token", "pass", "auth", "bearer", "basic", "eyj", "://")


def redact(text: str) -> str:
    """`text` without bearer tokens, JWTs, private keys, passwords and credentials in URLs."""
    folded = text.casefold()
    for hint in _HINTS:
        if hint in folded:
            return _SECRETS.sub(_keep_what_it_was, text)
    return text


def _keep_what_it_was(match: re.Match[str]) -> str:
    return (match.group(match.lastgroup) if match.lastgroup else "") + _REMOVED
