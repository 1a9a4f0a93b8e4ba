"""One plugin's opinion of one event: would it want a pod that it rejected tried again?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubesched.api import kinds
from kubesched.api.core import Node, Pod
from kubesched.api.kinds import Kind
from kubesched.framework import events
from kubesched.framework.events import ActionType, ClusterEvent, QueueingHint
from kubesched.framework.runtime.runtime import Runtime
from kubesched.manifests import Source, decode
from kubesched.manifests.reading import Document
from kubesched.offline.errors import OfflineError
from kubesched.scheduler.cluster_events import node_update_events, pod_update_events
from kubesched.scheduler.queue.hints import HintTable
from kubesched.state.node_table import node_changes

#: The scheduler's names of what can happen: "UpdateNodeTaint".
_ACTIONS = {
    "".join(word.capitalize() for word in str(action.name).split("_")): action
    for action in ActionType
    if action.name not in ("UPDATE", "ALL", "UPDATE_OTHER")
} | {"Update": ActionType.UPDATE_OTHER}


def answer(runtime: Runtime, plugin: str, pod: Pod, event: Mapping[str, Any]) -> str | None:
    """ "Queue", "Skip", or None where the plugin listens to none of the event's actions. A hint that fails means Queue:
    the pod is then tried again. A plugin that is not in the profile listens to nothing."""
    asked = [each for each in runtime.plugins.all() if each.name == plugin]
    table = HintTable(asked)
    said = None
    for happened, old, new in _occurrences(pod, event):
        for hint in table.listeners(happened).get(plugin, ()):
            if hint is None or _says_queue(hint, pod, old, new):
                return QueueingHint.QUEUE.value
            said = QueueingHint.SKIP.value
    return said


def _says_queue(hint: Any, pod: Pod, old: Any, new: Any) -> bool:
    try:
        return hint(pod, old, new) is QueueingHint.QUEUE
    except Exception:
        return True


def _occurrences(pod: Pod, event: Mapping[str, Any]) -> Iterator[tuple[ClusterEvent, Any, Any]]:
    """The event as the handlers would raise it, with the objects that a hint gets to see."""
    name, action = event.get("resource"), event.get("action")
    try:
        kind = kinds.by_name(str(name))
    except KeyError:
        raise OfflineError(f"event.resource: {name!r} is no kind that scheduling knows") from None
    old, new = (_object(kind, event.get(side), side) for side in ("old", "new"))
    resource = _resource(kind, pod, new or old)
    actions = event.get("actionTypes")
    if actions is None:
        found = list(_actions(resource, str(action), old, new))
    else:
        found = [_action(each) for each in actions]
    for each in found:
        sees_old = None if each is ActionType.ADD else old
        sees_new = None if each is ActionType.DELETE else new
        yield ClusterEvent(resource, each), sees_old, sees_new


def _object(kind: Kind, manifest: Any, side: str) -> Any | None:
    if manifest is None:
        return None
    if not isinstance(manifest, Mapping):
        raise OfflineError(f"event.{side}: a manifest is wanted, this is {manifest!r}")
    document = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
    return decode(Document(Source(f"event.{side}"), document))


def _resource(kind: Kind, pod: Pod, obj: Any) -> str:
    if kind is not kinds.POD:
        return kind.kind
    if obj.metadata.uid == pod.metadata.uid:
        return events.TARGET_POD
    return events.ASSIGNED_POD if obj.spec.node_name else events.UNSCHEDULED_POD


def _actions(resource: str, action: str, old: Any, new: Any) -> Iterator[ActionType]:
    if action in ("Add", "Delete"):
        yield _ACTIONS[action]
    elif action != "Update" or old is None or new is None:
        raise OfflineError(f"event.action: want Add, Delete, or Update with old and new, this is {action!r}")
    elif isinstance(new, Node):
        yield from (event.action for event in node_update_events(node_changes(old, new), new))
    elif isinstance(new, Pod):
        if resource == events.ASSIGNED_POD and not old.spec.node_name:
            yield ActionType.ADD
        elif resource == events.UNSCHEDULED_POD:
            if old.status.nominated_node_name and old.status.nominated_node_name != new.status.nominated_node_name:
                yield ActionType.DELETE
        else:
            yield from (event.action for event in pod_update_events(resource, old, new))
    else:
        yield ActionType.UPDATE_OTHER


def _action(name: Any) -> ActionType:
    try:
        return _ACTIONS[name]
    except KeyError:
        raise OfflineError(f"event.actionTypes: {name!r} is not among {', '.join(_ACTIONS)}") from None
