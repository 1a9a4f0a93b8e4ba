"""Ports for servers that must be told theirs beforehand or come back on the same one, and one where nobody listens.

Wherever a server may choose, give it port 0. A free port of the range that the system chooses from can be somebody
else's a moment later, be it only as the near end of a connection.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

#: Below what Linux (32768 and up) and macOS (49152 and up) give to those who do not care.
_RANGE = (12_000, 30_000)
_chance = random.SystemRandom()  # runs beside each other must not try the same ones


def free_port() -> int:
    while True:
        port = _chance.randrange(*_RANGE)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port that is taken and not listened on: whoever connects is refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
