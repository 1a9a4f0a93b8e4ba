"""The cluster's side of a workload: creates objects, holds the lease back, and watches pods get their nodes.

It reads the watch as bytes and decodes none of it, for it shares the machine with what is measured.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubesched.api.errors import ApiError, TransportError
from kubesched.client.rest import MERGE_PATCH, ApiClient, encode
from kubesched.client.watch_stream import LineSplitter

LEASE: Final = ("kube-system", "kubesched-benchmark")
_TOGETHER: Final = 16  # requests at a time
_UID: Final = re.compile(rb'"uid":"([^"]+)"')
_OWNED: Final = re.compile(rb'"ownerReferences":\[.*?\]')


class Driver:
    """Times are `time.monotonic()`."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.bound_at: dict[bytes, float] = {}
        self.rejected: set[bytes] = set()
        self.measured: set[bytes] = set()
        self._news = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    async def create(self, documents: Iterable[dict[str, Any]], *, per_s: float = 0.0) -> list[bytes]:
        """UIDs of what was created, in order."""
        queue = iter(enumerate(documents))
        uids: dict[int, bytes] = {}
        began = time.monotonic()

        async def work() -> None:
            for number, document in queue:
                if per_s and (ahead_s := began + number / per_s - time.monotonic()) > 0:
                    await asyncio.sleep(ahead_s)
                answer = await self._client.request("POST", collection_of(document), encode(document))
                found = _UID.search(_OWNED.sub(b"", answer))
                uids[number] = found[1] if found else b""

        await asyncio.gather(*(work() for _ in range(_TOGETHER)))
        return [uids[number] for number in sorted(uids)]

    async def delete(self, document: dict[str, Any]) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        target = f"{collection_of(document)}/{document['metadata']['name']}"
        try:
            await self._client.request("DELETE", target, encode(options))
        except ApiError as error:
            if error.code != 404:
                raise

    # -- the lease

    async def hold_lease(self) -> None:
        """Nobody leads until `release_lease`."""
        namespace, name = LEASE
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        spec = {"holderIdentity": "benchmark", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
        lease = {
            "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        }  # fmt: skip
        try:
            await self._client.request("POST", collection_of(lease), encode(lease))
        except ApiError as error:
            if error.code != 409:
                raise
            await self._patch_lease(spec)

    async def release_lease(self) -> None:
        await self._patch_lease({"holderIdentity": "", "leaseDurationSeconds": 1})

    async def _patch_lease(self, spec: dict[str, Any]) -> None:
        namespace, name = LEASE
        target = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        await self._client.request("PATCH", target, encode({"spec": spec}), content_type=MERGE_PATCH)

    # -- what becomes of the pods

    async def watch_pods(self) -> None:
        """From now on."""
        listing = msgspec.json.decode(await self._client.get("/api/v1/pods?limit=1"))
        version = listing["metadata"]["resourceVersion"]
        self._watch = asyncio.create_task(self._follow(version), name="watch of pods")

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    async def until_bound(self, timeout_s: float) -> bool:
        """All measured pods have a node; False when time is over."""
        return await self._until(lambda: self.measured <= self.bound_at.keys(), timeout_s)

    async def until_rejected(self, uids: set[bytes], timeout_s: float) -> bool:
        """All of these have the condition that says why they have no node."""
        return await self._until(lambda: uids <= self.rejected, timeout_s)

    async def event_count(self) -> int:
        listing = msgspec.json.decode(await self._client.get("/apis/events.k8s.io/v1/events?limit=1"))
        return len(listing.get("items") or ()) + (listing["metadata"].get("remainingItemCount") or 0)

    async def _until(self, is_true: Any, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not is_true():
            self._news.clear()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            try:
                await asyncio.wait_for(self._news.wait(), min(left_s, 1.0))
            except TimeoutError:
                if self._watch is not None and self._watch.done():
                    await self._watch
            else:
                await asyncio.sleep(0.05)  # news come in crowds
        return True

    async def _follow(self, version: str) -> None:
        while True:
            stream = await self._client.watch(f"/api/v1/pods?watch=true&resourceVersion={version}")
            splitter = LineSplitter()
            try:
                while chunk := await stream.read():
                    now = time.monotonic()
                    for line in splitter.feed(chunk):
                        self._note(line, now)
                        version = _version(line) or version
                    self._news.set()
            except TransportError:
                pass
            finally:
                stream.close()

    def _note(self, line: bytes, now: float) -> None:
        if b'"nodeName":"' in line:
            uid = _uid(line)
            if uid not in self.bound_at:
                self.bound_at[uid] = now
        elif b'"Unschedulable"' in line:
            self.rejected.add(_uid(line))


def _uid(line: bytes) -> bytes:
    found = _UID.search(_OWNED.sub(b"", line))
    return found[1] if found else b""


def _version(line: bytes) -> str:
    start = line.find(b'"resourceVersion":"')
    return line[start + 19 : line.index(b'"', start + 19)].decode() if start >= 0 else ""


_PLURALS: Final = {
    "Node": ("/api/v1", "nodes", False),
    "Namespace": ("/api/v1", "namespaces", False),
    "Pod": ("/api/v1", "pods", True),
    "Service": ("/api/v1", "services", True),
    "PersistentVolume": ("/api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses", False),
    "CSINode": ("/apis/storage.k8s.io/v1", "csinodes", False),
    "CSIDriver": ("/apis/storage.k8s.io/v1", "csidrivers", False),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
}


def collection_of(document: dict[str, Any]) -> str:
    base, plural, is_namespaced = _PLURALS[document["kind"]]
    namespace = document["metadata"].get("namespace", "default")
    return f"{base}/namespaces/{namespace}/{plural}" if is_namespaced else f"{base}/{plural}"
