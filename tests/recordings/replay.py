"""Replays a recorded scenario, request by request, against an embedded server over HTTP and compares the answers.

The server runs on a manual clock that is moved along the recorded times, so that watches time out, bookmarks come and
waits for future versions end when they did in the recording, without waiting. What the scenario found in place (its
recorder made it without recording that) comes from `setups.py`.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import yaml
from yarl import URL

from kubesched.apiserver import DEFAULT_PROFILE, Account, Profile, Request, Server
from kubesched.apiserver.messages import Proceed, Reply
from kubesched.apiserver.watch import Watch
from kubesched.clock import Chance, ManualClock
from tests.recordings.compare import Comparison, Correspondence, Difference
from tests.recordings.others import Others
from tests.recordings.scenario import Exchange, Scenario
from tests.recordings.setups import LIVE_BOOT, Setup, live_setup, setup_of

#: Only ever waited for when something hangs.
_PATIENCE_S = 60.0
OWNERSHIP = frozenset({"c03-create-defaults", "c09-update-status", "c10-patch-lists", "c14-apply"})
_SENT_HEADERS = ("accept", "content-type", "user-agent", "authorization", "accept-encoding", "impersonate-user")
_STEP_S = 0.5
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_TOKEN_VOLUME = "kube-api-access-"
#: Where the recorded server looked for other components.
_TARGETS = {
    "scheduler": "https://127.0.0.1:10259/healthz",
    "controller-manager": "https://127.0.0.1:10257/healthz",
}
_COMPARED_HEADERS = ("content-type", "retry-after", "warning")


@dataclass
class Outcome:
    """How one exchange went; equal when nothing differs."""

    exchange: Exchange
    differences: list[Difference] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.differences


@dataclass
class _Answer:
    status: int
    headers: dict[str, str]
    text: str


async def replay(scenario: Scenario) -> list[Outcome]:
    """Replays one scenario that was recorded on a server of its own."""
    setup = setup_of(scenario)
    with _deserted(_TARGETS) as targets:
        run = _Replay(
            scenario,
            setup,
            _ReplayClock(setup.boot),
            Profile(track_fields=scenario.name in OWNERSHIP),
            components=targets,
        )
        run.clock.advance(setup.start - setup.boot)
        async with run.server, aiohttp.ClientSession(auto_decompress=True) as session:
            return await run.play(session)


async def replay_live(scenarios: Iterable[Scenario]) -> dict[str, list[Outcome]]:
    """Replays the scenarios that were recorded one after the other on the live cluster, in that order."""
    scenarios = list(scenarios)
    clock = _ReplayClock(LIVE_BOOT)
    first = _Replay(scenarios[0], live_setup(scenarios[0], clock.now()), clock, DEFAULT_PROFILE)
    others = Others.of(scenarios, first.server, first.known)
    outcomes = {}
    async with first.server, aiohttp.ClientSession(auto_decompress=True) as session:
        for scenario in scenarios:
            run = _Replay(scenario, live_setup(scenario, clock.now()), clock, DEFAULT_PROFILE, first, others)
            clock.advance(max(run.setup.start - clock.now(), 0.0))
            outcomes[scenario.name] = await run.play(session)
    return outcomes


@contextmanager
def _deserted(targets: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The targets on ports where nobody listens, as it was there; on those of the recording somebody may, here."""
    with ExitStack() as held:
        found = {}
        for name, target in targets.items():
            port = held.enter_context(socket.socket())
            port.bind(("127.0.0.1", 0))
            found[name] = str(URL(target).with_port(port.getsockname()[1]))
        yield found


def live_scenarios(scenarios: Mapping[str, Scenario]) -> list[Scenario]:
    """d01, then the scenarios of kubectl, as they were recorded."""
    live = [scenario for scenario in scenarios.values() if scenario.profile == "default"]
    return sorted(live, key=lambda scenario: (scenario.name[0] != "d", scenario.name))


class _ReplayClock(ManualClock):
    """Tells who sleeps. `stirred` is set when somebody begins to, or the server has answered."""

    def __init__(self, start: float) -> None:
        super().__init__(start)
        self.stirred = asyncio.Event()
        self._sleepers: dict[object, float] = {}

    async def sleep(self, seconds: float) -> None:
        sleeper = object()
        self._sleepers[sleeper] = self.monotonic() + seconds
        self.stirred.set()
        try:
            await super().sleep(seconds)
        finally:
            del self._sleepers[sleeper]

    def sleepers(self) -> set[object]:
        """Those who would sleep on if the clock stood still."""
        return {sleeper for sleeper, until_s in self._sleepers.items() if until_s > self.monotonic()}


class _Replay:
    """One scenario, on a server of its own or on that of the run before."""

    def __init__(
        self,
        scenario: Scenario,
        setup: Setup,
        clock: _ReplayClock,
        profile: Profile,
        earlier: _Replay | None = None,
        others: Others | None = None,
        components: Mapping[str, str] = _TARGETS,
    ) -> None:
        self.scenario = scenario
        self.setup = setup
        self.clock = clock
        self.others = others
        self.known: Correspondence = earlier.known if earlier is not None else Correspondence(time_shift_s=0.0)
        self.outcomes = [Outcome(exchange) for exchange in scenario.exchanges]
        self.t0_s = scenario.exchanges[0].t_ms / 1000
        self.server: Server = (
            earlier.server
            if earlier is not None
            else Server(
                clock=clock,
                chance=Chance(0),
                node_simulator=False,
                namespace_cleaner=False,
                profile=profile,
                components=components,
                **self._access(),
            )
        )
        if earlier is None:
            self.server.intercept(self._stir)
        for name, target in components.items():
            self.known.names.setdefault(URL(_TARGETS[name]).authority, URL(target).authority)

    async def play(self, session: aiohttp.ClientSession) -> list[Outcome]:
        server = self.server
        watches: list[tuple[Outcome, asyncio.Task[_Answer]]] = []
        for outcome in self.outcomes:
            exchange = outcome.exchange
            await self._advance_to(exchange.t_ms / 1000)
            if self.others is not None:
                self.others.before(exchange, self.clock.now())
            self.setup.before(exchange.index, server, self.known)
            watching, waiting = set(server.api.watches), self._waiting()
            task = asyncio.create_task(self._send(session, server.url, exchange))
            answered = await self._settled(task, waiting)
            if exchange.is_watch and exchange.query.get("timeoutSeconds", "1") != "x":
                watches.append((outcome, task))
                self._leave_with_command(exchange, server.api.watches - watching)
                continue
            while not answered:
                self.clock.advance(1.0)
                answered = await self._settled(task, waiting)
            self._judge(outcome, task.result())
        for at_s, act in self.setup.later:
            await self._advance_to(at_s)
            act(server)
        if self.others is not None:
            await self._advance_to(self.others.last_at(self.clock.now()) - self.setup.start + self.t0_s)
        else:
            await self._advance_to(self.clock.now() - self.setup.start + self.t0_s + 100)
        server.cut_watches()
        for outcome, task in watches:
            self._judge(outcome, await task)
        return self.outcomes

    async def _stir(self, request: Request, proceed: Proceed) -> Reply:
        try:
            return await proceed()
        finally:
            self.clock.stirred.set()

    def _leave_with_command(self, exchange: Exchange, opened: set[Watch]) -> None:
        """A watch of a command ends with the command, or with the last event if it waits for that."""
        end_ms = self.scenario.command_end(exchange)
        if exchange.stream_t_ms and exchange.stream and exchange.stream[-1].get("type") == "DELETED":
            end_ms = exchange.stream_t_ms[-1] + 1
        if end_ms is not None:
            for watch in opened:
                at_s = self.setup.start + end_ms / 1000 - self.t0_s
                self.clock.call_later(max(at_s - self.clock.now(), 0.0), watch.close)

    def _access(self) -> dict[str, Any]:
        """The accounts of the recorded servers, in the scenarios about them; elsewhere everybody may do anything."""
        if not self.scenario.name.startswith(("c02", "a", "d")):
            return {}
        low = Account("lowpriv", uid="low")
        scheduler = Account("system:kube-scheduler", uid="sched")
        admin = Account("admin", ("system:masters", "system:authenticated"), uid="admin")
        accounts = {"<token:admin>": admin, "<token:kube-scheduler>": scheduler, "<token:lowpriv>": low}
        return {"accounts": accounts, "anonymous": self.scenario.name != "c02b-no-anonymous"}

    async def _advance_to(self, at_s: float) -> None:
        """Moves the clock in small steps, so that streams end between the events that surround their end."""
        target = self.setup.start + at_s - self.t0_s
        while self.clock.now() < target:
            step_s = min(_STEP_S, target - self.clock.now())
            at = self.others.next_at() if self.others is not None else None
            if at is not None:
                step_s = min(step_s, max(at - self.clock.now(), 0.0))
            self.clock.advance(step_s)
            if self.others is not None:
                self.others.until(self.clock.now())
            await asyncio.sleep(0)

    async def _settled(self, task: asyncio.Task[_Answer], waiting: set[object]) -> bool:
        """Waits until the answer is there (True) or the request waits for time to pass (False).

        `waiting` did so before the request was sent.
        """
        async with asyncio.timeout(_PATIENCE_S):
            while not task.done():
                if self._waiting() - waiting:
                    return False
                self.clock.stirred.clear()
                stirred = asyncio.ensure_future(self.clock.stirred.wait())
                await asyncio.wait([task, stirred], return_when=asyncio.FIRST_COMPLETED)
                stirred.cancel()
        return True

    def _waiting(self) -> set[object]:
        """What only the clock can end: open watches, and requests for a version of the future."""
        return {watch for watch in self.server.api.watches if not watch.closed} | self.clock.sleepers()

    async def _send(self, session: aiohttp.ClientSession, url: str, exchange: Exchange) -> _Answer:
        headers = {n: v for n, v in exchange.headers.items() if n in _SENT_HEADERS}
        headers.setdefault("accept-encoding", "identity")
        if "if-none-match" in exchange.headers:
            sent = exchange.headers["if-none-match"]
            if exchange.status == 304 and sent not in self.known.names:  # known from before the recording began
                self.known.names[sent] = await self._tag_of(session, url + exchange.path, headers)
            headers["if-none-match"] = self.known.names.get(sent, sent)
        elif exchange.status == 304:  # by its date, which was not recorded
            headers["if-none-match"] = await self._tag_of(session, url + exchange.path, headers)
        body = self.setup.bodies.get(exchange.index) or _body(self.known, exchange)
        if body is None:
            headers.pop("content-type", None)
        query = [
            (name, str(part))
            for name, value in self.known.translate(exchange.query).items()
            for part in (value if isinstance(value, list) else [value])
        ]
        path = self.known.translate_path(exchange.path)
        skip = {"Content-Type"} if "content-type" not in headers else set()
        address = URL(url + path, encoded=True).update_query(query)
        data = None if body is None else io.BytesIO(body)
        async with session.request(
            exchange.method, address, data=data, headers=headers, skip_auto_headers=skip | {"User-Agent"}
        ) as response:
            text = (await response.read()).decode("utf-8", "replace")
            return _Answer(response.status, {n.lower(): v for n, v in response.headers.items()}, text)

    @staticmethod
    async def _tag_of(session: aiohttp.ClientSession, address: str, headers: dict[str, str]) -> str:
        async with session.get(address, headers=headers) as response:
            return response.headers.get("etag", "")

    def _judge(self, outcome: Outcome, answer: _Answer) -> None:
        exchange = outcome.exchange
        if "etag" in exchange.answer_headers and "etag" in answer.headers:
            self.known.names.setdefault(exchange.answer_headers["etag"], answer.headers["etag"])
        comparison = Comparison(self.known, ownership=self.scenario.name in OWNERSHIP)
        comparison.equal(exchange.status, answer.status, ("status code",))
        for name in _COMPARED_HEADERS:
            if name == "content-type" and _json_will_do(exchange, answer):
                continue
            comparison.equal(_header(exchange.answer_headers, name), _header(answer.headers, name), ("header", name))
        if exchange.stream is not None:
            compare_streams(comparison, exchange, _lines(answer.text), live=self.others is not None)
        elif isinstance(exchange.answer, str):
            text = exchange.answer
            if not exchange.path.startswith("/openapi") and "verbose" not in exchange.query:
                if exchange.answer_headers.get("content-type") == "application/yaml":
                    comparison.equal(*(yaml.load(t, Loader=yaml.BaseLoader) for t in (text, answer.text)))
                elif text.startswith('{"type"'):
                    comparison.equal(_lines(text), _lines(answer.text), ("stream",))
                else:
                    comparison.equal(text, answer.text, ("text",))
        elif exchange.answer is not None:
            recorded = exchange.answer
            try:
                actual: Any = json.loads(answer.text)
            except ValueError:
                actual = answer.text
            self._learn_names(recorded, actual)
            comparison.equal(recorded, actual)
        outcome.differences = comparison.differences

    def _learn_names(self, recorded: Any, actual: Any) -> None:
        if not (isinstance(recorded, dict) and isinstance(actual, dict)):
            return
        one, other = recorded.get("metadata") or {}, actual.get("metadata") or {}
        address, other_address = ((document.get("spec") or {}).get("clusterIP") for document in (recorded, actual))
        if address and other_address:
            self.known.names.setdefault(address, other_address)
        for part, other_part in zip(_volumes(recorded), _volumes(actual), strict=False):
            if part.startswith(_TOKEN_VOLUME) and other_part.startswith(_TOKEN_VOLUME):
                self.known.names.setdefault(part, other_part)
        if one.get("generateName") and one.get("generateName") == other.get("generateName"):
            self.known.names.setdefault(one["name"], other["name"])


def compare_streams(comparison: Comparison, exchange: Exchange, actual: list[Any], *, live: bool = False) -> None:
    """Events in order; of bookmarks only that they come where they came, and tell no older version than the events.

    On the `live` cluster the moment of a bookmark between others' writes is chance: there only their number counts.
    """
    recorded = exchange.stream or []
    if recorded and "type" not in recorded[0]:
        comparison.equal(recorded, actual, ("stream",))
        return
    if live:
        comparison.equal(
            [s for s in _shape(recorded) if s != "bookmark"], [s for s in _shape(actual) if s != "bookmark"]
        )
        plain = [sum(not _counts(event) for event in events) for events in (recorded, actual)]
        comparison.equal(True, abs(plain[0] - plain[1]) <= 1, ("stream", "bookmarks"))
    else:
        comparison.equal(_shape(recorded), _shape(actual), ("stream", "types"))
    ours = [event for event in actual if _counts(event)]
    theirs = [event for event in recorded if _counts(event)]
    for index, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        comparison.equal(one, other, ("stream", str(index)))
    last = 0
    for event in actual:
        version = int((event.get("object") or {}).get("metadata", {}).get("resourceVersion") or 0)
        if event.get("type") == "BOOKMARK":
            comparison.equal(True, version >= last, ("stream", "bookmark version"))
        else:
            last = max(last, version)


def _counts(event: Any) -> bool:
    """Everything but plain bookmarks, which tell a version that depends on what else the server did."""
    return event.get("type") != "BOOKMARK" or "annotations" in event["object"]["metadata"]


def _shape(events: list[Any]) -> list[str]:
    """The types of events, plain bookmarks in a row told once (one more or less is a matter of milliseconds)."""
    shape: list[str] = []
    for event in events:
        plain = not _counts(event)
        name = "bookmark" if plain else event.get("type", "?")
        if not (plain and shape and shape[-1] == "bookmark"):
            shape.append(name)
    return shape


def _volumes(document: Any) -> list[str]:
    return [volume["name"] for volume in (document.get("spec") or {}).get("volumes") or () if "name" in volume]


def _json_will_do(exchange: Exchange, answer: _Answer) -> bool:
    """Whether the client takes JSON as well as the protobuf it got there, of which only the size was recorded."""
    got = exchange.answer_headers.get("content-type", "")
    taken = [part.strip() for part in exchange.headers.get("accept", "").split(",")]
    return got == _PROTOBUF and "application/json" in taken and answer.headers.get("content-type") in taken


def _lines(text: str) -> list[Any]:
    try:
        return [json.loads(line) for line in text.splitlines() if line]
    except ValueError:
        return [text]


def _header(headers: dict[str, str], name: str) -> str:
    value = headers.get(name, "")
    return value.replace(' || 299 - "', ', 299 - "')


def _body(known: Correspondence, exchange: Exchange) -> bytes | None:
    body = exchange.body
    if body is None:
        return None
    if isinstance(body, str) and exchange.body_is_text:
        return known.translate(body).encode()  # type: ignore[no-any-return]
    if exchange.headers.get("content-type", "").endswith("yaml") and isinstance(body, str):
        return body.encode()
    return _expanded(json.dumps(known.translate(body))).encode()


def _expanded(text: str) -> str:
    """A text from which the recorder cut a long run of one character, made long again."""
    return re.sub(r"(.)<cut: (\d+) characters>", lambda found: found.group(1) * int(found.group(2)), text)
