"""Counts the requests to one API server, as `rest_client_*`.

The series belong to the scheduler's event loop. A client that lives on another thread (lease renewal) passes a `post`
that carries each count over there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from kubesched.metrics import Metrics

#: What stands for the status of a request that got none.
NO_ANSWER: Final = "<error>"

Post = Callable[..., Any]


class RequestMetrics:
    def __init__(self, metrics: Metrics, server: str, post: Post | None = None) -> None:
        self._metrics = metrics
        self._host = urlsplit(server).netloc
        self._post = post

    def answered(self, code: str, method: str, seconds: float, sent: int, received: int) -> None:
        if self._post is None:
            self._metrics.rest_request(code, method, self._host, seconds, sent, received)
        else:
            self._post(self._metrics.rest_request, code, method, self._host, seconds, sent, received)

    def opened(self, code: str, method: str) -> None:
        """A watch: how long it lasts says nothing."""
        if self._post is None:
            self._metrics.rest_stream(code, method, self._host)
        else:
            self._post(self._metrics.rest_stream, code, method, self._host)

    def waited(self, method: str, seconds: float) -> None:
        if self._post is None:
            self._metrics.rest_rate_limited(method, self._host, seconds)
        else:
            self._post(self._metrics.rest_rate_limited, method, self._host, seconds)
