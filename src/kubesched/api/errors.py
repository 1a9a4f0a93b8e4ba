"""The exceptions of kubesched, from the root down to what the API can answer.

    KubeschedError
    ├── DecodeError        an object that is not what its kind says
    ├── QuantityError      a text that is no Kubernetes quantity
    ├── SelectorError      a label or field selector that cannot be parsed
    ├── ApiError           the API server answered, and said no
    └── TransportError     no answer: connection refused, reset, timed out, cut in the middle

Parts above add their own below the same root.
"""

from __future__ import annotations

from typing import Any


class KubeschedError(Exception):
    """Root of everything that kubesched raises on purpose."""


class DecodeError(KubeschedError):
    """One object could not be read. `path` is the field's path (`spec.priority`), empty for the whole document."""

    def __init__(self, kind: str, namespace: str, name: str, path: str, problem: str) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.path = path
        self.problem = problem
        which = f" {namespace}/{name}" if namespace else f" {name}" if name else ""
        where = f"{path}: " if path else ""
        super().__init__(f"cannot decode {kind}{which}: {where}{problem}")


class QuantityError(KubeschedError, ValueError):
    """The message is the original's, so that it can go into an API answer as it is."""


class SelectorError(KubeschedError, ValueError):
    """The message is the original's, so that it can go into an API answer as it is."""


class ApiError(KubeschedError):
    """A `Status` that says Failure; `str(error)` is the server's own message."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        super().__init__(message)

    @property
    def retry_after_s(self) -> int:
        """Seconds that the server asks to wait before another try; 0 when it does not say."""
        seconds = self.details.get("retryAfterSeconds", 0)
        return seconds if isinstance(seconds, int) else 0


class TransportError(KubeschedError):
    """The request may or may not have been carried out: the caller must look before it repeats a write."""
