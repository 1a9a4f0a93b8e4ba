"""Answers that no API server gives, to a bind, a status patch and an event: no pod is lost, and none bound twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubesched.apiserver import Answer
from kubesched.client.rest import error_of
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import running

SUCCESSES = {
    "a page": Answer(200, b"<html>welcome</html>", "text/html"),
    "nothing": Answer(200, b""),
    "no content": Answer(204, b""),
    "a pod": Answer(201, b'{"kind":"Pod"}'),
    "a list": Answer(200, b"[]"),
    "null": Answer(201, b"null"),
    "a failure": Answer(200, b'{"kind":"Status","status":"Failure"}'),
}
REFUSALS = {
    "moved": Answer(301, b"", headers={"Location": "/elsewhere"}),
    "moved to nowhere": Answer(307, b"", headers={"Location": "http://127.0.0.1:1/"}),
    "a teapot": Answer(418, b"teapot", "text/plain"),
    "a page": Answer(404, b"<h1>no</h1>", "text/html"),
    "no text": Answer(500, b"\xff\xfe\x00", "text/plain"),
    "a code that is none": Answer(999, b""),
    "a status with odd fields": Answer(503, b'{"kind":"Status","code":"x","message":5,"reason":[],"details":7}'),
    "a status nested without end": Answer(400, b'{"kind":"Status","details":' + b"[" * 50_000),
}


class Once:
    """Answers the first request to a path in its own way; where `stores`, after it was carried out."""

    def __init__(self, ending: str, answer: Answer, *, stores: bool = False) -> None:
        self.ending = ending
        self.answer: Answer | None = answer
        self.stores = stores
        self.count = 0
        self.stored = 0

    async def __call__(self, request: Any, proceed: Any) -> Any:
        if request.method == "GET" or not request.path.endswith(self.ending):
            return await proceed()
        self.count += 1
        answer, self.answer = self.answer, None
        if answer is not None and not self.stores:
            return answer
        reply = await proceed()
        self.stored += reply.status < 300
        return answer or reply


@pytest.mark.parametrize("stores", [False, True], ids=["not stored", "stored"])
@pytest.mark.parametrize("answer", SUCCESSES.values(), ids=SUCCESSES)
async def test_a_bind_that_somebody_else_says_was_fine(answer: Answer, stores: bool) -> None:
    settings = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
    async with running(settings, make_node("n1").capacity(cpu="4", pods="9")) as cluster:
        odd = Once("/binding", answer, stores=stores)
        cluster.server.intercept(odd)
        cluster.load(make_pod("a").cpu("1"))
        # When it was not stored the attempt fails, and what it held is given back for the next one.
        await cluster.until(lambda: odd.stored == 1 or bool(cluster.live.scheduler.queue.backoff))
        assert odd.stored == (1 if stores else 0)
        if stores:
            assert await cluster.bound("a") == ["n1"]
        assert odd.count == 1


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
def test_any_refusal_is_an_error_with_its_code(answer: Answer) -> None:
    error = error_of(answer.status, answer.headers, answer.body)
    assert error.code == answer.status
    assert isinstance(error.message, str)
    assert error.message
    assert isinstance(error.details, dict)


@pytest.mark.parametrize("ending", ["/binding", "/events", "/status"])
async def test_refusals_stop_nobody(ending: str) -> None:
    answers = iter([*REFUSALS.values(), *SUCCESSES.values()])

    async def odd(request: Any, proceed: Any) -> Any:
        if request.method != "GET" and request.path.endswith(ending) and (answer := next(answers, None)):
            return answer
        return await proceed()

    async with running({}, make_node("n1").capacity(cpu="40", pods="90")) as cluster:
        cluster.server.intercept(odd)
        names = [f"p{number}" for number in range(len(REFUSALS) + len(SUCCESSES) + 3)]
        cluster.load(*(make_pod(name).cpu("1" if ending != "/status" else "99") for name in names))
        if ending == "/events":
            await cluster.bound(*names)
        elif ending == "/status":
            await cluster.condition(names[-1], "Insufficient cpu")
        else:
            await cluster.bound(*names[-3:])
        state = cluster.live.state
        queue = cluster.live.scheduler.queue
        await cluster.until(lambda: not any(placement.assumed for placement in state.placements.values()))
        known = {placement.pod.uid for placement in state.placements.values()}
        known |= {pod.uid for where in (queue.active, queue.backoff, queue.parked) for pod in where}
        assert known == {f"uid-default-{name}" for name in names}


def test_what_a_status_says_of_itself_counts() -> None:
    body = json.dumps({"kind": "Status", "code": 409, "reason": "Conflict", "message": "m", "details": {"name": "x"}})
    error = error_of(500, {}, body.encode())
    assert (error.code, error.reason, error.message, error.details) == (409, "Conflict", "m", {"name": "x"})
