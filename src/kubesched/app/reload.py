"""`Reloader`: another configuration without a restart, on SIGHUP or (opt-in) when a file has changed.

    asked ─► read and check everything ─► build plugins and extenders ─► watch what they need ─► swap between two cycles
                    │ wrong                       │ wrong
                    └─────────► say so, and go on with what runs ◄─┘

Everything that a pod waits in stays: the queue, nominations, pods held by Permit. Binding cycles under way end with the
plugins that they began with. Files of `--plugin FILE:CLASS` are read again; modules and entry points are not.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from kubesched.api.errors import KubeschedError
from kubesched.app.options import Loaded
from kubesched.clock import Clock
from kubesched.config import Configuration

log = logging.getLogger("kubesched.app")

#: How often files are looked at.
LOOK_EVERY_S = 2.0

#: Fields that connections, the lease and the port were made from at the start.
_NEEDS_RESTART = ("leader_election", "client_connection", "enable_profiling", "delay_cache_until_active")


class Reloadable(Protocol):
    """Who runs with a configuration: the live scheduler."""

    config: Configuration

    async def adopt(self, config: Configuration, registry: Any) -> None: ...


class Reloader:
    """`load` reads everything anew; `files` are those it reads."""

    def __init__(self, running: Reloadable, load: Callable[[], Loaded], files: tuple[Path, ...], clock: Clock) -> None:
        self._running = running
        self._load = load
        self._files = files
        self._clock = clock
        self._wanted = asyncio.Event()
        self._seen = self._stamps()

    def request(self) -> None:
        """Reload soon; for signal handlers."""
        self._wanted.set()

    async def run(self) -> None:
        """Serves requests until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.reload()

    async def watch_files(self) -> None:
        """Requests a reload when a file has changed, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """One look at the files."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            self.request()

    async def reload(self) -> bool:
        """Whether the scheduler runs with what the files say now."""
        before = self._running.config
        try:
            loaded = self._load()
            await self._running.adopt(loaded.config, loaded.registry)
        except KubeschedError as error:
            for line in str(error).splitlines():
                log.error("not reloaded, going on with the configuration that runs error=%s", line)
            return False
        except Exception as error:
            log.error("not reloaded, because of a bug error=%s", error, exc_info=error)
            return False
        self._seen = self._stamps()
        stale = [name for name in _NEEDS_RESTART if getattr(before, name) != getattr(loaded.config, name)]
        if stale:
            log.warning("changes of these fields take effect at the next start only fields=%s", ",".join(stale))
        log.info("configuration reloaded profiles=%s", ",".join(p.scheduler_name for p in loaded.config.profiles))
        return True

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        """What changes when a file does: also when a link on the way to it is turned, as in a mounted ConfigMap."""
        return [_stamp(path) for path in self._files]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
