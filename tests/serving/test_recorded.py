"""The port against what kube-scheduler v1.36 was recorded answering on its own (scenario b10), request by request."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.serving.rig import port

DATA = Path(__file__).resolve().parents[1] / "data" / "recordings" / "b.jsonl.gz"
TOKENS = {"<token:admin>": "token-admin", "<token:lowpriv>": "token-low", "bad": "bad"}
HEADERS = ("cache-control", "x-content-type-options", "content-type", "warning")
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "clientConnection": {
        "kubeconfig": "<dir>/plain/sched.kc",
        "acceptContentTypes": "application/json",
        "contentType": "application/json",
    },
}
#: Flags of the program that are no settings of the scheduler.
NOT_FLAGS = {"help", "version", "unsupported-kube-api-over-localhost"}


def scenario():
    for line in gzip.decompress(DATA.read_bytes()).splitlines():
        document = json.loads(line)
        if document["scenario"] == "b10-scheduler-endpoints":
            return document
    raise AssertionError("the recording is not packed")


RECORDED = scenario()


def described(exchange):
    request = exchange["request"]
    who = request["headers"].get("authorization", "anonymous").removeprefix("Bearer ")
    accept = request["headers"].get("accept", "")
    query = "?" + "&".join(request["query"]) if request.get("query") else ""
    return f"{request['method']} {request['path']}{query} as {who} {accept}".strip()


def path_of(request):
    query = request.get("query") or {}
    return request["path"] + ("?" + "&".join(f"{key}={value}" for key, value in query.items()) if query else "")


def flags_of_text(body):
    return {line.split(" ", 1)[0] for line in body.splitlines()[3:] if line}


def compare_body(request, recorded, body):
    path, text = request["path"], recorded if isinstance(recorded, str) else None
    if path == "/metrics" and isinstance(recorded, dict) and "_cut" in recorded:
        assert "# TYPE scheduler_schedule_attempts_total counter" in body or "scheduler_pending_pods" in body
    elif path == "/metrics/slis":
        values = re.compile(r"^(# HELP .*|[a-z_]+(?:\{.*\})?) ?.*$", re.M)
        assert {line for line in values.findall(body) if line[0] != "#"} == {
            line for line in values.findall(recorded) if line[0] != "#"
        }
        types = re.compile(r"^# TYPE .*$", re.M)
        assert types.findall(body) == types.findall(recorded)
    elif path == "/statusz" and text:
        mask = re.compile(r"^(Started|Up|Go version)  .*$", re.M)
        assert mask.sub(r"\1", body) == mask.sub(r"\1", text)
        assert re.search(r"^Up  0 hr 00 min \d\d sec$", body, re.M)
    elif path == "/statusz" and recorded.get("kind") == "Statusz":
        ours = json.loads(body)
        assert list(ours) == list(recorded)
        for name in ("kind", "apiVersion", "metadata", "binaryVersion", "emulationVersion", "paths"):
            assert ours[name] == recorded[name]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", ours["startTime"])
    elif path == "/flagz" and text:
        assert body.splitlines()[:3] == text.splitlines()[:3]
        assert flags_of_text(text) - flags_of_text(body) == NOT_FLAGS
        assert "authorization-always-allow-paths [/healthz,/readyz,/livez]" in body.splitlines()
        assert "pod-max-in-unschedulable-pods-duration 5m0s" in body.splitlines()
    elif path == "/flagz" and recorded.get("kind") == "Flagz":
        ours = json.loads(body)
        assert {**ours, "flags": None} == {**recorded, "flags": None}
        assert recorded["flags"].keys() - ours["flags"].keys() == NOT_FLAGS
        own = {"authentication-kubeconfig", "authorization-kubeconfig", "bind-address", "cert-dir", "config",
               "secure-port", "tls-cert-file", "tls-private-key-file"}  # fmt: skip
        same = recorded["flags"].keys() & ours["flags"].keys() - own
        assert {name: ours["flags"][name] for name in same} == {name: recorded["flags"][name] for name in same}
    elif path == "/debug/pprof/":
        assert "<title>/debug/pprof/</title>" in body
    elif text is None and recorded is not None:
        assert json.loads(body) == recorded
    else:
        assert body == (recorded or "")


async def test_every_request_is_answered_as_recorded(tmp_path):
    wrong = []
    async with port(tmp_path, settings=CONFIG) as served:
        for exchange in RECORDED["exchanges"]:
            request, recorded = exchange["request"], exchange["response"]
            headers = {k: v for k, v in request["headers"].items() if k == "accept"}
            token = request["headers"].get("authorization", "").removeprefix("Bearer ")
            got = await served.ask(path_of(request), request["method"], token=TOKENS.get(token, ""), headers=headers)
            try:
                assert got.status == recorded["status"]
                for name in HEADERS:
                    assert got.headers.get(name) == recorded["headers"].get(name), name
                compare_body(request, recorded.get("body"), got.body)
            except AssertionError as error:
                wrong.append(f"{described(exchange)}: {error}")
    assert not wrong, "\n".join(wrong)


async def test_the_reviews_are_those_recorded(tmp_path):
    """Bad tokens are not remembered, good ones are; one access review for each path and user, none for masters."""
    async with port(tmp_path, settings=CONFIG) as served:
        for exchange in RECORDED["exchanges"]:
            request = exchange["request"]
            token = request["headers"].get("authorization", "").removeprefix("Bearer ")
            await served.ask(path_of(request), request["method"], token=TOKENS.get(token, ""))
        recorded = [each["request"] for each in RECORDED["apiserver_exchanges"]]
        tokens = [each["body"] for each in recorded if each["path"].endswith("/tokenreviews")]
        wanted = [{**body, "spec": {"token": TOKENS[body["spec"]["token"]]}} for body in tokens]
        assert served.reviews_of("TokenReview") == wanted
        accesses = served.reviews_of("SubjectAccessReview")
        assert len(accesses) == sum(each["path"].endswith("/subjectaccessreviews") for each in recorded)
        asked = [(each["spec"]["user"], each["spec"]["nonResourceAttributes"]["path"]) for each in accesses]
        assert asked == [
            *(("system:anonymous", path) for path in ("/metrics", "/configz", "/statusz", "/flagz", "/", "/nope")),
            *(("lowpriv", path) for path in ("/metrics", "/configz", "/statusz", "/flagz", "/nope")),
        ]


def test_the_recording_has_what_it_is_about():
    assert len(RECORDED["exchanges"]) >= 40
    assert {described(e).split(" ")[1] for e in RECORDED["exchanges"]} >= {"/healthz", "/metrics", "/configz", "/flagz"}


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_open_to_all(tmp_path, path):
    async with port(tmp_path) as served:
        assert (await served.ask(path)).status == 200
        assert served.reviews == []
