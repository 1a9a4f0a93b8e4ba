"""One explanation against one recorded decision, field by field."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

Doc = dict[str, Any]

#: What the original has at a point and says nothing of interest: it may be left out.
_OPTIONAL = frozenset({"DynamicResources"})


@dataclass
class Comparison:
    """`not_compared` maps a field to the missing plugins that would decide it."""

    mismatches: list[str] = field(default_factory=list)
    not_compared: dict[str, set[str]] = field(default_factory=dict)

    def leave_out(self, path: str, plugin: str) -> None:
        self.not_compared.setdefault(path, set()).add(plugin)

    def hold(self, path: str, got: Any, want: Any) -> None:
        if got != want:
            self.mismatches.append(f"{path}: got {got!r}, want {want!r}")


def compare(got: Doc, want: Doc, missing: Collection[str], post_filters: Collection[str]) -> Comparison:
    """`missing`: plugins of the profile that are not built. `post_filters`: those of them at PostFilter."""
    found = Comparison()
    left_out = {"messageWithPreemption", "preemption"} if post_filters else set()
    for key in sorted(left_out & want.keys()):
        for plugin in post_filters:
            found.leave_out(key, plugin)
    for key in sorted((got.keys() | want.keys()) - left_out):
        if key in _SPECIAL:
            _SPECIAL[key](found, got.get(key), want.get(key), missing)
        else:
            found.hold(key, got.get(key), want.get(key))
    return found


def _pre_enqueue(found: Comparison, got: Any, want: Any, missing: Collection[str]) -> None:
    if want and want["plugin"] in missing:
        found.leave_out("preEnqueue", want["plugin"])
    else:
        found.hold("preEnqueue", got, want)


def _pre_filter(found: Comparison, got: Any, want: Any, missing: Collection[str]) -> None:
    if got is None or want is None:
        found.hold("preFilter", got, want)
        return
    status = want["status"]
    if status and status.get("plugin") in missing:
        found.leave_out("preFilter.status", status["plugin"])
    else:
        found.hold("preFilter.status", got["status"], status)
    found.hold("preFilter.nodeNames", got["nodeNames"], want["nodeNames"])
    _names(found, "preFilter.skipped", got["skipped"], want["skipped"], missing)


def _pre_score_skipped(found: Comparison, got: Any, want: Any, missing: Collection[str]) -> None:
    _names(found, "preScoreSkipped", got or [], want or [], missing)


def _names(found: Comparison, path: str, got: list[str], want: list[str], missing: Collection[str]) -> None:
    for plugin in sorted(set(want) & set(missing)):
        found.leave_out(f"{path}.{plugin}", plugin)
    found.hold(path, _without(got, missing), _without(want, missing))


def _without(names: list[str], missing: Collection[str]) -> list[str]:
    return sorted(name for name in names if name not in missing and name not in _OPTIONAL)


def _filter(found: Comparison, got: Any, want: Any, missing: Collection[str]) -> None:
    if got is None or want is None:
        found.hold("filter", got, want)
        return
    found.hold("filter: nodes", sorted(got), sorted(want))
    for node, status in want.items():
        if status and status.get("plugin") in missing:
            found.leave_out("filter", status["plugin"])
        found.hold(f"filter.{node}", got.get(node), status)


def _filter_by_plugin(found: Comparison, got: Any, want: Any, missing: Collection[str]) -> None:
    if got is None or want is None:
        found.hold("filterByPlugin", got, want)
        return
    for plugin in sorted(got.keys() | want.keys()):
        if plugin in missing:
            found.leave_out(f"filterByPlugin.{plugin}", plugin)
        else:
            for node in sorted({*got.get(plugin, {}), *want.get(plugin, {})}):
                path = f"filterByPlugin.{plugin}.{node}"
                found.hold(path, _cell(got, plugin, node), _cell(want, plugin, node))


def _cell(table: Doc, plugin: str, node: str) -> Any:
    return table.get(plugin, {}).get(node, "absent")


def _volumes(found: Comparison, got: Any, want: Any, missing: Collection[str]) -> None:
    if "VolumeBinding" in missing:
        found.leave_out("volumes", "VolumeBinding")
    else:
        found.hold("volumes", got, want)


def _scores(found: Comparison, got: Any, want: Any, missing: Collection[str]) -> None:
    if got is None or want is None:
        found.hold("scores", got, want)
        return
    found.hold("scores: nodes", sorted(got), sorted(want))
    for node in sorted(got.keys() & want.keys()):
        ours, theirs = got[node]["plugins"], want[node]["plugins"]
        for plugin in sorted(ours.keys() | theirs.keys()):
            if plugin in missing:
                found.leave_out(f"scores.{plugin}", plugin)
            elif plugin not in _OPTIONAL or plugin in ours:
                found.hold(f"scores.{node}.{plugin}", ours.get(plugin), theirs.get(plugin))
        found.hold(f"scores.{node}.total", got[node]["total"], want[node]["total"])


_SPECIAL = {
    "preEnqueue": _pre_enqueue,
    "preFilter": _pre_filter,
    "preScoreSkipped": _pre_score_skipped,
    "filter": _filter,
    "filterByPlugin": _filter_by_plugin,
    "volumes": _volumes,
    "scores": _scores,
}


def decision(outcome: Any, want: Doc, missing: Collection[str], post_filters: Collection[str]) -> Iterator[str]:
    """What `schedule` came to against what the record lets it come to."""
    preemption = want.get("preemption") or {}
    if "preEnqueue" in want:
        if outcome.result.value != "Gated":
            yield f"decision: got {outcome.result.value} ({outcome}), want Gated"
    elif "best" in want:
        if outcome.node not in want["best"]:
            yield f"decision: got {outcome}, want one of {want['best']}"
    elif "candidates" in preemption:
        yield from _preempting(outcome, preemption) if not missing else ()
    else:
        message = want["message"] if post_filters else want.get("messageWithPreemption", want["message"])
        same = outcome.message.startswith(message) if post_filters else outcome.message == message
        if outcome.node or not same:
            yield f"decision: got {outcome}, want {message}"


def _preempting(outcome: Any, preemption: Doc) -> Iterator[str]:
    allowed = preemption.get("nominatedNodeAnyOf") or [preemption["nominatedNode"]]
    if outcome.node not in allowed:
        yield f"decision: got {outcome}, want one of {allowed} after preemption"
        return
    victims = sorted(preemption["candidates"][outcome.node]["victims"])
    if sorted(outcome.victims) != victims:
        yield f"decision: got victims {sorted(outcome.victims)}, want {victims}"
