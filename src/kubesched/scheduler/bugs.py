"""What must not happen, should it happen nevertheless.

A bug that one object or one plugin brings to light costs that pod its attempt, never the others theirs: the places that
work through things one after the other catch it and go on. It is told with its traceback, marked `is_bug`, and the
tests fail when any is logged.
"""

from __future__ import annotations

import logging

from kubesched.framework.status import Status

log = logging.getLogger("kubesched.scheduler")


def as_bug(error: BaseException, pod: str) -> Status:
    """Logs the bug, and says what the attempt for the pod failed with."""
    tell(error, "an attempt met a bug, the pod will be tried again pod=%s", pod)
    return Status.error(f"{type(error).__name__}: {error}")


def tell(error: BaseException, text: str, *args: object) -> None:
    log.error(f"{text} error=%s: %s", *args, type(error).__name__, error, exc_info=error, extra={"is_bug": True})
