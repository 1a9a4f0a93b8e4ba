"""What the scheduler asks at its start, against what kube-scheduler v1.36 was recorded asking (scenario b02)."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

from kubesched import config
from kubesched.apiserver import Server
from kubesched.app.live import LiveOptions, LiveScheduler
from kubesched.app.run import connection_to
from kubesched.plugins.registry import IN_TREE
from tests.end_to_end.process import FAST

DATA = Path(__file__).resolve().parents[1] / "data" / "recordings" / "b.jsonl.gz"
#: Watched there and not here: devices are not allocated here, and the ConfigMap is read every minute instead.
ONLY_THERE = {"/apis/resource.k8s.io/v1/resourceslices", "/api/v1/namespaces/kube-system/configmaps"}


def recorded_watches(scenario):
    for line in gzip.decompress(DATA.read_bytes()).splitlines():
        document = json.loads(line)
        if document["scenario"] == scenario:
            requests = [exchange["request"] for exchange in document["exchanges"]]
            return {
                request["path"]: request["query"]
                for request in requests
                if "watch" in (request.get("query") or {}) and "kube-scheduler" in request["headers"]["user-agent"]
            }
    raise AssertionError(f"{scenario} is not packed")


async def test_it_watches_what_the_original_watches_in_the_same_way():
    theirs = recorded_watches("b02-startup-json")
    ours = {}
    async with Server(node_simulator=False) as server:

        async def note(request, proceed):
            if request.query.get("watch"):
                ours[request.path] = dict(request.query)
            return await proceed()

        server.intercept(note)
        scheduler = LiveScheduler(connection_to(server), LiveOptions(config.load(FAST), IN_TREE, seed=1))
        await scheduler.start()
        await scheduler.stop()
    assert theirs.keys() - ours.keys() == ONLY_THERE
    assert ours.keys() - theirs.keys() == set()
    assert len(ours) == 17
    for path, query in ours.items():
        theirs_query = {
            name: value for name, value in theirs[path].items() if name not in ("timeout", "timeoutSeconds")
        }
        assert {name: value for name, value in query.items() if name in theirs_query} == theirs_query, path
        assert 300 <= int(query["timeoutSeconds"]) <= 600
    await asyncio.sleep(0)
