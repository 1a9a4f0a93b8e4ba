"""What every controller is: it watches kinds, gathers keys of what may have to be done, and settles them one by one.

`Controller.offer` turns a change into keys (`keys_of`); the queue of keys is worked off a turn of the loop later, so a
burst of changes costs one look at each object. `settle(key)` compares what is with what is wanted and writes as any
client would. A refusal is logged and tried again later; nothing a controller does can fail the write it reacts to.

Controllers run in the server's process and read the store without copying it; they never suspend.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from kubesched.apiserver import deleting, metadata, writing
from kubesched.apiserver.controllers.owners import OwnerIndex
from kubesched.apiserver.label_selectors import as_label_selector, selector_test
from kubesched.apiserver.resources import BY_PATH, Resource, core
from kubesched.apiserver.status import Refusal
from kubesched.apiserver.store import DELETED, Change, Json, Stored
from kubesched.clock import Timer

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

log = logging.getLogger("kubesched.apiserver")

PODS, NODES, EVENTS = core("pods"), core("nodes"), core("events")
RETRY_S = 1.0
RETRY_MAX_S = 30.0
#: How long objects are settled in a row before clients are served again.
TURN_S = 0.005
_EVENTS_REMEMBERED = 1000


def apps(plural: str) -> Resource:
    return BY_PATH["apps", "v1", plural]


class Controller:
    """`name` is what switches it, as kube-controller-manager calls it; `component` is what its events are signed with;
    `watched` are the resources whose changes it is told."""

    name: ClassVar[str]
    component: ClassVar[str] = ""
    watched: ClassVar[tuple[Resource, ...]]

    def __init__(self, api: Api, owners: OwnerIndex) -> None:
        self.api = api
        self.owners = owners
        self._due: dict[str, None] = {}
        self._work: Timer | None = None
        self._timers: dict[str, Timer] = {}
        self._failures: dict[str, int] = {}
        self._told: dict[tuple[str, str, str], str] = {}

    # What a controller says.

    def keys_of(self, change: Change) -> Iterable[str]:
        """The keys of the objects that the change may concern."""
        raise NotImplementedError

    def settle(self, key: str) -> None:
        """Brings one object to what is wanted."""
        raise NotImplementedError

    def existing(self) -> Iterable[str]:
        """What is to be looked at when the controller starts: every object of the first watched kind."""
        return list(self.api.store.of(self.watched[0]).items)

    # How it is run.

    def start(self) -> None:
        for resource in self.watched:
            self.api.store.of(resource).add_watcher(self)
        for key in self.existing():
            self.enqueue(key)

    def stop(self) -> None:
        for resource in self.watched:
            self.api.store.of(resource).remove_watcher(self)
        for timer in (self._work, *self._timers.values()):
            if timer is not None:
                timer.cancel()
        self._work = None
        self._timers.clear()
        self._due.clear()

    def offer(self, change: Change) -> None:
        for key in self.keys_of(change):
            self.enqueue(key)

    def enqueue(self, key: str) -> None:
        self._due[key] = None
        if self._work is None:
            self._work = self.api.clock.call_later(0.0, self._turn)

    def enqueue_later(self, key: str, delay_s: float) -> None:
        """Looks at the object again after a while; the last call for a key counts."""
        earlier = self._timers.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        self._timers[key] = self.api.clock.call_later(delay_s, self._ring, key)

    def _ring(self, key: str) -> None:
        self._timers.pop(key, None)
        self.enqueue(key)

    def _turn(self) -> None:
        self._work = None
        until = self.api.clock.monotonic() + TURN_S
        for key in list(self._due):
            if self.api.clock.monotonic() > until:
                break
            del self._due[key]
            try:
                self.settle(key)
                self._failures.pop(key, None)
            except Refusal as refusal:
                self._again(key)
                log.info("controller was refused controller=%s object=%s reason=%s", self.name, key, refusal.message)
            except Exception:
                self._again(key)
                log.exception("controller failed controller=%s object=%s", self.name, key)
        if self._due and self._work is None:
            self._work = self.api.clock.call_later(0.0, self._turn)

    def _again(self, key: str) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.enqueue_later(key, min(RETRY_S * 2 ** (failures - 1), RETRY_MAX_S))

    # What it can do.

    def find(self, resource: Resource, key: str) -> Stored | None:
        return self.api.store.of(resource).items.get(key)

    def create(self, resource: Resource, document: Json) -> Json:
        created, _ = writing.create_object(self.api, resource, _complete(resource, document), manager=self._manager)
        return created

    def update(self, resource: Resource, stored: Stored, document: Json, subresource: str = "") -> Stored | None:
        """Writes a changed copy of the object; its version now (None when the write ended it)."""
        old = stored.document()
        _, result = writing.update_object(self.api, resource, stored, old, document, subresource, manager=self._manager)
        return result

    def update_status(self, resource: Resource, stored: Stored, document: Json) -> Stored | None:
        return self.update(resource, stored, document, "status")

    def delete(self, resource: Resource, stored: Stored, grace_s: int | None = None) -> None:
        deleting.delete_object(self.api, resource, stored, deleting.Options(grace_s=grace_s))

    def event(self, about: Json, type_: str, reason: str, message: str) -> None:
        """A core event about an object; one that is repeated is counted up."""
        meta, now = about["metadata"], self.api.now()
        told = (meta.get("uid", ""), reason, message)
        earlier = self.find(EVENTS, self._told.get(told, ""))
        if earlier is not None:
            again = earlier.document()
            again["count"], again["lastTimestamp"] = again.get("count", 1) + 1, now
            self.update(EVENTS, earlier, again)
            return
        name = f"{meta['name']}.{int(self.api.clock.now() * 1e9) + self.api.chance.randrange(1 << 20):x}"
        namespace = meta.get("namespace") or "default"
        involved = {"kind": about["kind"], "name": meta["name"], "uid": meta.get("uid", "")}
        involved |= {"apiVersion": about["apiVersion"], "resourceVersion": meta.get("resourceVersion", "")}
        if meta.get("namespace"):
            involved["namespace"] = namespace
        document = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "source": {"component": self.component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": type_,
            "eventTime": None,
            "reportingComponent": self.component,
            "reportingInstance": "",
        }
        self.create(EVENTS, document)
        if len(self._told) >= _EVENTS_REMEMBERED:
            self._told.clear()
        self._told[told] = f"{namespace}/{name}"

    @property
    def _manager(self) -> str:
        return "kube-controller-manager" if self.api.profile.track_fields else ""


class PodOwner(Controller):
    """A controller of pods: it looks at an owner when the owner, or a pod that has it or might be adopted, changes."""

    owner: ClassVar[Resource]

    def __init__(self, api: Api, owners: OwnerIndex) -> None:
        super().__init__(api, owners)
        self._selectors: dict[str, Callable[[Mapping[str, str]], bool]] = {}

    def keys_of(self, change: Change) -> Iterator[str]:
        stored = change.stored
        if stored.body.startswith(self.owner.prefix):
            if change.type == DELETED:
                self._selectors.pop(stored.uid, None)
            yield stored.key
            return
        before = self.owners.controller_of(change.previous) if change.previous is not None else None
        after = self.owners.controller_of(stored)
        for reference in {before, after} - {None}:
            assert reference is not None
            if reference.kind == self.owner.kind:
                yield f"{stored.namespace}/{reference.name}"
        if after is None and stored.labels and change.type != DELETED:
            yield from self._adopters(stored)

    def _adopters(self, pod: Stored) -> Iterator[str]:
        """Owners whose selector matches a pod that nobody controls."""
        for owner in self.api.store.of(self.owner).scan(pod.namespace):
            matches = self._selectors.get(owner.uid)
            if matches is None:
                selector = as_label_selector(owner.document()["spec"].get("selector"))
                matches = self._selectors[owner.uid] = selector_test(selector)
            if matches(pod.labels):
                yield owner.key

    def own_pods(self, owner: Json) -> list[tuple[Stored, Json]]:
        """The owner's pods, those just adopted included; pods that no longer match are let go."""
        return self.owners.claim(PODS, owner, owner["spec"].get("selector"))

    def create_pod(self, owner: Json, pod: Json) -> Json:
        """Creates a pod of the owner and tells; a refusal is told too, and raised."""
        try:
            created = self.create(PODS, pod)
        except Refusal as refusal:
            self.event(owner, "Warning", "FailedCreate", f"Error creating: {refusal.message}")
            raise
        self.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {created['metadata']['name']}")
        return created

    def delete_pod(self, owner: Json, pod: Stored) -> None:
        self.delete(PODS, pod)
        self.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")


def condition(document: Json, type_: str) -> Json | None:
    found = (document.get("status") or {}).get("conditions") or ()
    return next((c for c in found if c["type"] == type_), None)


def is_ready(pod: Json) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def ready_for_s(pod: Json, now_s: float) -> float:
    """How long the pod has been ready; -1 when it is not."""
    ready = condition(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return -1.0
    since = ready.get("lastTransitionTime")
    return max(now_s - metadata.epoch(since), 0.0) if since else 0.0


def is_available(pod: Json, min_ready_s: int, now_s: float) -> bool:
    ready_s = ready_for_s(pod, now_s)
    return ready_s >= 0 and ready_s >= min_ready_s


def amount(value: object, total: int, *, up: bool) -> int:
    """A number, or a percentage of `total`."""
    if isinstance(value, str) and value.endswith("%"):
        hundredths = total * int(value[:-1])
        return -(-hundredths // 100) if up else hundredths // 100
    return int(value)  # type: ignore[call-overload, no-any-return]


def _complete(resource: Resource, document: Json) -> Json:
    return {"kind": resource.kind, "apiVersion": resource.api_version, **document}


def with_condition(document: Json, new: Json) -> None:
    """Puts a condition into the status; its transition time stays when its status stays."""
    status = document.setdefault("status", {})
    old = condition(document, new["type"])
    if old is not None and old["status"] == new["status"] and "lastTransitionTime" in old:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    others = [c for c in status.get("conditions") or () if c["type"] != new["type"]]
    status["conditions"] = [*others, new]
