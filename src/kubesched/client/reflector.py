"""One kind of object, mirrored: a list and a watch that go on whatever the network and the API server do.

    WATCH_LIST ──(refused)──► LIST            full state, delivered as one Replace
        │ initial events end     │
        ▼                        ▼
      WATCH ◄──(cut, end, silence, busy: same version)──┐
        │ └─────────────────────────────────────────────┘
        └──(410: the version is too old)──► WATCH_LIST

A `Reflector` delivers `Changes` in batches, one call for all that arrived at once, on the event loop. After a Replace
its stream has no gap: it resumes from the last version seen, and when it cannot, it delivers a Replace again, from
which the receiver sees what was deleted meanwhile. `after_failure` is the whole table of what follows which failure; it
holds what client-go's reflector (v1.36) does, except where a comment says otherwise.

Keeps no objects: the receiver does.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from kubesched.api import codec
from kubesched.api.changes import Change, Delete, Replace, Upsert
from kubesched.api.errors import ApiError, DecodeError, KubeschedError, TransportError
from kubesched.api.kinds import Kind
from kubesched.client.rate import Backoff
from kubesched.client.rest import ApiClient
from kubesched.client.transport import NotSentError
from kubesched.client.watch_stream import Bookmark, LineSplitter, Unreadable, WatchDecoder
from kubesched.clock import Chance, Clock

log = logging.getLogger("kubesched.client")

UNFINISHED_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"

Deliver = Callable[[Sequence[Change]], None]


class Phase(enum.Enum):
    WATCH_LIST = "watch-list"
    LIST = "list"
    WATCH = "watch"


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    watch_min_s: int = 300  # the server ends a watch after a random time in this range
    watch_max_s: int = 600
    silence_s: float = 150.0  # bookmarks come about once a minute: two missed in a row mean that nobody is there
    initial_silence_s: float = 30.0  # while the initial events are awaited
    page_size: int = 500
    short_watch_s: float = 1.0  # a watch that ends sooner without an event is reopened with a pause only


class SilenceError(TransportError):
    """Nothing arrived for too long."""


class HistoryLostError(KubeschedError):
    """The server's version is lower than ours: it was restored from a backup."""


@dataclass(frozen=True, slots=True)
class Recovery:
    phase: Phase
    pause: bool
    forget_version: bool = False
    give_up_watch_list: bool = False


class Reflector:
    """`await run()` until cancelled. `deliver` must not block and must not raise."""

    def __init__(
        self,
        client: ApiClient,
        kind: Kind,
        deliver: Deliver,
        *,
        clock: Clock,
        chance: Chance,
        field_selector: str = "",
        keep_documents: bool = False,
        settings: ReflectorSettings | None = None,
    ) -> None:
        """`keep_documents`: changes carry the objects' whole JSON, too."""
        self.kind = kind
        self.phase = Phase.WATCH_LIST
        self.resource_version = ""  # of the last change or bookmark seen
        self._client = client
        self._deliver = deliver
        self._clock = clock
        self._chance = chance
        self._field_selector = field_selector
        self._settings = settings or ReflectorSettings()
        self._keep_documents = keep_documents
        self._decoder = WatchDecoder(kind, keep_documents=keep_documents)
        self._backoff = Backoff(clock, chance)
        self._synced = asyncio.Event()
        self._can_watch_list = True
        self._wants_latest = False  # the version was refused: ask for the current state, not for "any" state
        self._relisted_at_s = float("-inf")
        self._trouble = ""
        self._troubled_since_s = 0.0

    @property
    def has_synced(self) -> bool:
        """The complete set of objects was delivered at least once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        while True:
            try:
                if self.phase is Phase.LIST:
                    await self._list()
                else:
                    await self._watch()
            except (ApiError, TransportError, DecodeError, HistoryLostError) as error:
                await self._recover(error)
            except Exception as error:
                # Whatever it is: a watch that ends without a word leaves a scheduler that believes in the past.
                log.error("the watch met a bug, listing anew kind=%s", self.kind.plural, exc_info=error)
                await self._recover(DecodeError(self.kind.kind, "", "", "", f"{type(error).__name__}: {error}"))

    async def _list(self) -> None:
        """The whole set, in pages; leaves the reflector ready to watch."""
        objects: list[Any] = []
        documents: list[bytes] = []
        errors: list[DecodeError] = []
        paged = not self.resource_version  # as client-go: a list at a known version comes from the cache, whole
        version = self.resource_version or ("" if self._wants_latest else "0")
        token = ""
        while True:
            query = {"fieldSelector": self._field_selector, "continue": token}
            query["resourceVersion"] = "" if token else version
            query["limit"] = str(self._settings.page_size) if paged else ""
            try:
                answer = await self._client.get(self._target(query))
                page = codec.decode_list(self.kind, answer, keep_documents=self._keep_documents)
            except ApiError as error:
                if not token or error.code != 410:
                    raise
                # The snapshot that the pages were cut from is gone: once more, in one piece.
                objects, documents, errors, token, paged = [], [], [], "", False
                continue
            if not page.resource_version:
                raise DecodeError(f"{self.kind.kind}List", "", "", "metadata.resourceVersion", "a list without version")
            objects += page.items
            documents += page.documents
            errors += page.errors
            token = page.continue_token
            if not token:
                break
        self._replace(objects, documents, errors, page.resource_version)

    async def _watch(self) -> None:
        """Follows one stream to its end. In WATCH_LIST its first part is the whole set."""
        settings = self._settings
        is_initial = self.phase is Phase.WATCH_LIST
        stream = await self._client.watch(self._watch_target(is_initial))
        opened_at_s = self._clock.monotonic()
        intake = _Intake(self, {} if is_initial else None)
        watchdog = _Watchdog(
            self._clock, settings.initial_silence_s if is_initial else settings.silence_s, stream.close
        )
        if not is_initial:
            self._recovered()
        splitter = LineSplitter()
        try:
            while chunk := await stream.read():
                watchdog.heard()
                if lines := splitter.feed(chunk):
                    intake.take(lines)
                    if self.phase is Phase.WATCH:
                        watchdog.limit_s = settings.silence_s
        except TransportError as error:
            if watchdog.has_bitten:
                raise SilenceError(f"nothing was received for {watchdog.limit_s:g} s") from error
            lived_s = self._clock.monotonic() - opened_at_s
            if self.phase is Phase.WATCH and (intake.frames or lived_s >= settings.short_watch_s):
                log.debug(
                    "watch cut, resuming kind=%s version=%s error=%s", self.kind.plural, self.resource_version, error
                )
                return
            raise
        finally:
            watchdog.stop()
            stream.close()
        if splitter.pending_bytes:
            log.debug("half an event dropped kind=%s bytes=%d", self.kind.plural, splitter.pending_bytes)
        if self.phase is Phase.WATCH_LIST:
            raise TransportError("the watch ended before all initial events had come")
        if not intake.frames and self._clock.monotonic() - opened_at_s < settings.short_watch_s:
            raise TransportError("the watch ended at once without an event")

    def _replace(
        self, objects: Iterable[Any], documents: Iterable[bytes], errors: Sequence[DecodeError], version: str
    ) -> None:
        for error in errors:
            self._skipped(error)
        unreadable = tuple((error.namespace, error.name) for error in errors)
        change = Replace(self.kind, tuple(objects), version, unreadable, tuple(documents))
        self.resource_version = version
        self.phase = Phase.WATCH
        self._wants_latest = False
        self._relisted_at_s = self._clock.monotonic()
        self._recovered()
        log.info(
            "%s objects=%d version=%s kind=%s",
            "listed again" if self.has_synced else "listed", len(change.objects), version, self.kind.plural,
        )  # fmt: skip
        self._deliver((change,))
        self._synced.set()

    def _skipped(self, error: DecodeError) -> None:
        log.error(
            "skipped an object that cannot be read; what was known of it stays kind=%s object=%s/%s error=%s",
            self.kind.kind, error.namespace, error.name, error,
        )  # fmt: skip

    async def _recover(self, error: KubeschedError) -> None:
        recovery = after_failure(self.phase, error, has_version=bool(self.resource_version))
        self._trouble_with(error)
        if recovery.give_up_watch_list and self._can_watch_list:
            self._can_watch_list = False
            log.info("the API server does not do watch-lists, listing instead kind=%s", self.kind.plural)
        if recovery.forget_version:
            self.resource_version = ""
            self._wants_latest = True
        phase = recovery.phase
        self.phase = Phase.LIST if phase is Phase.WATCH_LIST and not self._can_watch_list else phase
        # Lists that are out of date as soon as they are here must not follow each other without a pause.
        if recovery.pause or self._clock.monotonic() - self._relisted_at_s < 1.0:
            await self._clock.sleep(self._backoff.next_pause_s())

    def _trouble_with(self, error: KubeschedError) -> None:
        """One line when trouble begins or changes; its repetitions are only seen with debug logs."""
        text = f"{self.phase.value}: {_plainly(self.kind, self.phase, error)}"
        if not self._trouble:
            self._troubled_since_s = self._clock.monotonic()
        level = logging.INFO if isinstance(error, SilenceError) else logging.WARNING
        if text == self._trouble:
            level = logging.DEBUG
        self._trouble = text
        log.log(level, "%s kind=%s synced=%s", text, self.kind.plural, str(self.has_synced).lower())

    def _recovered(self) -> None:
        if self._trouble:
            away_s = self._clock.monotonic() - self._troubled_since_s
            log.info("in touch again kind=%s after_s=%.1f", self.kind.plural, away_s)
            self._trouble = ""

    def _watch_target(self, is_initial: bool) -> str:
        settings = self._settings
        timeout_s = settings.watch_min_s + self._chance.randrange(settings.watch_max_s - settings.watch_min_s + 1)
        query = {
            "allowWatchBookmarks": "true",
            "fieldSelector": self._field_selector,
            "resourceVersion": self.resource_version,
            "timeout": f"{timeout_s // 60}m{timeout_s % 60}s",
            "timeoutSeconds": str(timeout_s),
            "watch": "true",
        }
        if is_initial:
            query |= {"resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true"}
        return self._target(query)

    def _target(self, query: dict[str, str]) -> str:
        encoded = urlencode(sorted((name, value) for name, value in query.items() if value))
        return f"{self.kind.path()}?{encoded}" if encoded else self.kind.path()


class _Intake:
    """Takes the lines of one stream: collects the initial set, then passes changes on."""

    __slots__ = ("_initial", "_reflector", "_unreadable", "frames")

    def __init__(self, reflector: Reflector, initial: dict[str, Upsert] | None) -> None:
        self._reflector = reflector
        self._initial = initial
        self._unreadable: dict[str, DecodeError] = {}
        self.frames = 0

    def take(self, lines: Sequence[bytes]) -> None:
        """Whatever came before a bad line is delivered before it is raised."""
        reflector = self._reflector
        decode = reflector._decoder.frame
        changes: list[Change] = []
        try:
            for line in lines:
                frame = decode(line)
                self.frames += 1
                if isinstance(frame, ApiError):
                    raise frame
                if self._initial is not None:
                    self._collect(self._initial, frame)
                elif isinstance(frame, Upsert | Delete):
                    changes.append(frame)
                    reflector.resource_version = frame.obj.metadata.resource_version or reflector.resource_version
                elif isinstance(frame, Bookmark):
                    self._bookmark(frame)
                else:
                    reflector._skipped(frame.error)
                    reflector.resource_version = frame.resource_version or reflector.resource_version
        finally:
            if changes:
                reflector._deliver(changes)

    def _collect(self, initial: dict[str, Upsert], frame: Upsert | Delete | Bookmark | Unreadable) -> None:
        if isinstance(frame, Upsert):
            initial[frame.obj.key] = frame
        elif isinstance(frame, Delete):
            initial.pop(frame.obj.key, None)
            self._unreadable.pop(frame.obj.key, None)
        elif isinstance(frame, Unreadable):
            error = frame.error
            self._unreadable[f"{error.namespace}/{error.name}" if error.namespace else error.name] = error
        elif frame.ends_initial_events:
            self._initial = None
            changes = initial.values()
            documents = [change.document for change in changes] if self._reflector._keep_documents else ()
            self._reflector._replace(
                [change.obj for change in changes], documents, tuple(self._unreadable.values()), frame.resource_version
            )

    def _bookmark(self, frame: Bookmark) -> None:
        known, told = self._reflector.resource_version, frame.resource_version
        # client-go does not look; it would wait for the old future to come again while the world goes on without it.
        if known.isdigit() and told.isdigit() and int(told) < int(known):
            raise HistoryLostError(f"the API server is at version {told}, we have seen {known}: it was set back")
        self._reflector.resource_version = told


def after_failure(phase: Phase, error: KubeschedError, *, has_version: bool) -> Recovery:
    """What to do next. `has_version`: the failed request named the version that we had seen last."""
    code = error.code if isinstance(error, ApiError) else 0
    if isinstance(error, HistoryLostError):
        return Recovery(Phase.WATCH_LIST, pause=False, forget_version=True)

    if phase is Phase.WATCH:
        if code == 410:
            return Recovery(Phase.WATCH_LIST, pause=False)
        if isinstance(error, SilenceError):
            return Recovery(Phase.WATCH, pause=False)
        if isinstance(error, TransportError) or code in (401, 403, 408, 429) or code >= 500:
            return Recovery(Phase.WATCH, pause=True)
        return Recovery(Phase.WATCH_LIST, pause=True)

    if has_version and (code == 410 or _is_version_too_large(error)):
        # The server cannot tell about our version: never mind, the current state will do.
        return Recovery(phase, pause=False, forget_version=True)
    if phase is Phase.LIST:
        return Recovery(Phase.WATCH_LIST, pause=True)

    if isinstance(error, SilenceError):
        # Servers before v1.27 take no notice of sendInitialEvents and never say that they are done.
        return Recovery(Phase.LIST, pause=False, give_up_watch_list=True)
    if isinstance(error, NotSentError) or code in (401, 429):
        return Recovery(Phase.WATCH_LIST, pause=True)
    if isinstance(error, TransportError) or code == 500:
        # Perhaps it is only the stream that fails (a proxy, an etcd that knows no progress requests): try the list.
        return Recovery(Phase.LIST, pause=True)
    return Recovery(Phase.LIST, pause=False, give_up_watch_list=code in (400, 422))


def _is_version_too_large(error: KubeschedError) -> bool:
    if not isinstance(error, ApiError) or error.code != 504:
        return False
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes if isinstance(cause, dict))


def _plainly(kind: Kind, phase: Phase, error: KubeschedError) -> str:
    """The failure in words that tell an operator what to do."""
    if isinstance(error, ApiError) and error.code == 403:
        verb = "list" if phase is Phase.LIST else "watch"
        return (
            f"not allowed to {verb} {kind.qualified}: a ClusterRole must grant the verbs list and watch on resource "
            f"{kind.plural!r} of API group {kind.group!r} ({error})"
        )
    if isinstance(error, ApiError) and error.code == 401:
        return f"the API server does not accept our credentials ({error})"
    if isinstance(error, ApiError) and error.code == 404:
        return f"the API server does not serve {kind.api_version} {kind.plural} ({error})"
    return str(error)


class _Watchdog:
    """Calls `bite` once when `heard` has not been called for `limit_s`. Costs one clock reading a chunk."""

    __slots__ = ("_bite", "_clock", "_heard_at_s", "_timer", "has_bitten", "limit_s")

    def __init__(self, clock: Clock, limit_s: float, bite: Callable[[], None]) -> None:
        self.limit_s = limit_s
        self.has_bitten = False
        self._clock = clock
        self._bite = bite
        self._heard_at_s = clock.monotonic()
        self._timer = clock.call_later(limit_s, self._look)

    def heard(self) -> None:
        self._heard_at_s = self._clock.monotonic()

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left_s = self._heard_at_s + self.limit_s - self._clock.monotonic()
        if left_s > 0:
            self._timer = self._clock.call_later(left_s, self._look)
        else:
            self.has_bitten = True
            self._bite()
