"""Events about pods, on a lane of their own: never in the way of a bind, never a reason for one to fail.

`record` only puts the event into a bounded queue; a few senders work it off with their own rate limit, and where it is
long others help. While the last pods of a backlog are bound nobody helps, for the server's time goes to the binds, and
those events are soon sent afterwards. Where more pods wait than that, events keep pace. When the queue is full the
oldest event goes.

As in client-go's recorder (tools/events, v1.36), an event that repeats one of the last minutes (same type, reason,
action, objects and their versions, whatever the note) is not written anew but makes that one a series: PATCH
`series.count`, at once for the second time, then with the half-hourly refresh and when the series ends. What the server
refuses is not repeated; what did not reach it is tried again later, up to a dozen times.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET

from kubesched.api import kinds
from kubesched.api.errors import ApiError, KubeschedError
from kubesched.api.meta import Object, format_micro_time
from kubesched.client.rest import STRATEGIC_MERGE_PATCH, ApiClient, encode
from kubesched.client.wire import Event, EventName, Reference, SeriesCount
from kubesched.clock import Clock
from kubesched.framework.ports import EventRecord

log = logging.getLogger("kubesched.client")

NOTE_MAX_BYTES: Final = 1024
SERIES_END_S: Final = 6 * 60.0  # without a repetition a series is over, and so is the chance to become one
SERIES_REFRESH_S: Final = 30 * 60.0
_SERIES_MAX: Final = 4096  # the eldest is forgotten first; its next repetition is a new event
_SOON_SENT: Final = 2_500  # so many may wait for the last bind, those of pods that still wait for a node counted in
_EVENTS_A_HELPER: Final = 10
_HELPERS_MAX: Final = 60  # that is on a par with binds, whose pool has 64 connections
_TRIES: Final = 12
_RETRY_PAUSE_S: Final = 10.0
_SWEEP_S: Final = 60.0
_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces"


class EventSink:
    """`host` ends up in `reportingInstance`: `default-scheduler-<host>`. Work begins with `start`, ends with `stop`.

    `to_come` tells how many pods wait to be scheduled now, each of which will have its event.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        *,
        host: str,
        to_come: Callable[[], int] = lambda: 0,
        queue_size: int = 10_000,
        senders: int = 4,
    ) -> None:
        self.dropped = 0  # events that the full queue pushed out
        self.failed = 0  # events that the server refused, or that did not reach it
        self._client = client
        self._clock = clock
        self._host = host
        self._to_come = to_come
        self._queue: deque[_Pending] = deque()
        self._queue_size = queue_size
        self._sender_count = senders
        self._filled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._helpers: set[asyncio.Task[None]] = set()
        self._in_hand = 0
        self._all_done = asyncio.Event()
        self._all_done.set()
        self._series: dict[tuple[Any, ...], _Series] = {}
        self._last_nanos = 0
        self._is_dropping = False

    def start(self) -> None:
        assert not self._tasks, "started twice"
        for number in range(self._sender_count):
            self._tasks.append(asyncio.create_task(self._send_all(), name=f"event sender {number}"))
        self._tasks.append(asyncio.create_task(self._sweep_series(), name="event series"))

    def record(self, event: EventRecord) -> None:
        """Never blocks, never fails."""
        now = self._clock.now()
        key = _key(event)
        known = self._series.get(key)
        if known is not None:
            known.count += 1
            known.last_seen = now
            if known.count == 2:
                self._put(_Pending(known, is_patch=True))
            return
        series = _Series(self._document(event, now), now)
        if len(self._series) >= _SERIES_MAX:
            self._end_series(next(iter(self._series)))
        self._series[key] = series
        self._put(_Pending(series, is_patch=False))

    async def flush(self, timeout_s: float) -> bool:
        """Waits until the queue is worked off; False when time ran out."""
        waiting = asyncio.ensure_future(self._all_done.wait())
        timer = self._clock.call_later(timeout_s, waiting.cancel)
        try:
            await asyncio.wait([waiting])
        finally:
            timer.cancel()
            waiting.cancel()
        return self._all_done.is_set()

    async def stop(self, flush_s: float = 2.0) -> None:
        """Sends what can be sent within `flush_s` and drops the rest."""
        if self._tasks and not await self.flush(flush_s):
            log.warning("stopped before all events were sent left=%d", len(self._queue) + self._in_hand)
        tasks = [*self._tasks, *self._helpers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._queue.clear()

    def _put(self, pending: _Pending) -> None:
        if len(self._queue) >= self._queue_size:
            self._queue.popleft()
            self.dropped += 1
            if not self._is_dropping:
                self._is_dropping = True
                log.warning(
                    "events are made faster than they can be sent, dropping the oldest queued=%d", len(self._queue)
                )
        self._queue.append(pending)
        self._all_done.clear()
        self._filled.set()
        self._call_help()

    def _call_help(self) -> None:
        """One helper more, where the queue is long for those that are there."""
        wanted = min(len(self._queue) // _EVENTS_A_HELPER, _HELPERS_MAX)
        if self._tasks and len(self._helpers) < wanted and not self._can_wait():
            helper = asyncio.create_task(self._help(), name="event helper")
            self._helpers.add(helper)
            helper.add_done_callback(self._helpers.discard)

    def _can_wait(self) -> bool:
        to_come = self._to_come()
        return to_come > 0 and len(self._queue) + to_come <= _SOON_SENT

    async def _send_all(self) -> None:
        while True:
            while not self._queue:
                self._filled.clear()
                if self._is_dropping:
                    self._is_dropping = False
                    log.warning("the event queue is empty again dropped_total=%d", self.dropped)
                await self._filled.wait()
            await self._send_next()
            self._call_help()

    async def _help(self) -> None:
        while self._queue and not self._can_wait():
            await self._send_next()
            self._call_help()

    async def _send_next(self) -> None:
        pending = self._queue.popleft()
        self._in_hand += 1
        try:
            await self._send(pending)
        finally:
            self._in_hand -= 1
            if not self._queue and not self._in_hand:
                self._all_done.set()

    async def _send(self, pending: _Pending) -> None:
        series = pending.series
        try:
            if pending.is_patch:
                await self._patch(series)
            else:
                await self._create(series)
        except ApiError as refused:
            self._give_up(series, str(refused))
        except KubeschedError as lost:
            pending.tries += 1
            if pending.tries >= _TRIES:
                self._give_up(series, str(lost))
            else:
                # Not waited for here: others need the sender, and some of them may get through.
                self._clock.call_later(_RETRY_PAUSE_S, self._put_again, pending)

    def _put_again(self, pending: _Pending) -> None:
        if self._tasks:
            self._put(pending)

    def _give_up(self, series: _Series, reason: str) -> None:
        self.failed += 1
        document = series.document
        log.warning(
            "event not recorded namespace=%s event=%s reason=%s error=%s",
            document.metadata.namespace, document.metadata.name, document.reason, reason,
        )  # fmt: skip

    async def _create(self, series: _Series) -> None:
        document = series.document
        target = f"{_EVENTS}/{document.metadata.namespace}/events"  # `Kind.path` costs as much as the JSON
        try:
            await self._client.request("POST", target, encode(document))
        except ApiError as error:
            if error.code != 409:  # it is there already: an earlier try whose answer was lost
                raise

    async def _patch(self, series: _Series) -> None:
        metadata = series.document.metadata
        series.document.series = SeriesCount(series.count, format_micro_time(series.last_seen))
        series.told = series.count
        patch = encode({"series": series.document.series})
        target = f"{_EVENTS}/{metadata.namespace}/events/{metadata.name}"
        try:
            await self._client.request("PATCH", target, patch, content_type=STRATEGIC_MERGE_PATCH)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._create(series)  # expired on the server, or never got there

    async def _sweep_series(self) -> None:
        while True:
            await self._clock.sleep(_SWEEP_S)
            now = self._clock.now()
            for key, series in list(self._series.items()):
                if now - series.last_seen >= SERIES_END_S:
                    self._end_series(key)
                elif series.count > series.told and now - series.told_at >= SERIES_REFRESH_S:
                    series.told_at = now
                    self._put(_Pending(series, is_patch=True))

    def _end_series(self, key: tuple[Any, ...]) -> None:
        series = self._series.pop(key)
        if series.count > series.told:
            self._put(_Pending(series, is_patch=True))

    def _document(self, event: EventRecord, now: float) -> Event:
        # Two events about one pod may fall into one reading of the clock; their names must differ.
        self._last_nanos = max(int(now * 1_000_000) * 1000, self._last_nanos + 1)
        metadata = event.regarding.metadata
        return Event(
            metadata=EventName(f"{metadata.name}.{self._last_nanos:x}", metadata.namespace or "default"),
            event_time=format_micro_time(now),
            reporting_controller=event.reporting_controller,
            reporting_instance=f"{event.reporting_controller}-{self._host}",
            action=event.action,
            reason=event.reason,
            regarding=_reference(event.regarding),
            related=UNSET if event.related is None else _reference(event.related),
            note=cut_note(event.note),
            type=event.type,
        )


class _Series:
    """An event and its repetitions. `told` is the count that the server knows of or is being sent."""

    __slots__ = ("count", "document", "last_seen", "told", "told_at")

    def __init__(self, document: Event, now: float) -> None:
        self.document = document
        self.count = 1
        self.told = 1
        self.told_at = now
        self.last_seen = now


class _Pending:
    __slots__ = ("is_patch", "series", "tries")

    def __init__(self, series: _Series, *, is_patch: bool) -> None:
        self.series = series
        self.is_patch = is_patch
        self.tries = 0


def cut_note(note: str) -> str:
    """The API takes 1024 bytes."""
    encoded = note.encode()
    if len(encoded) <= NOTE_MAX_BYTES:
        return note
    return encoded[: NOTE_MAX_BYTES - 4].decode(errors="ignore") + " ..."


def _key(event: EventRecord) -> tuple[Any, ...]:
    about = event.regarding.metadata
    key = (
        event.type,
        event.action,
        event.reason,
        event.reporting_controller,
        about.namespace,
        about.name,
        about.uid,
        about.resource_version,
    )
    if event.related is None:
        return key
    other = event.related.metadata
    return (*key, other.namespace, other.name, other.uid, other.resource_version)


def _reference(obj: Object) -> Reference:
    kind, metadata = kinds.of(obj), obj.metadata
    return Reference(
        kind=kind.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=kind.api_version,
        resource_version=metadata.resource_version,
    )
