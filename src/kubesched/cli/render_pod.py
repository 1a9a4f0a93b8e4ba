"""What a running scheduler knows about a pod (`/debug/pods`), for people: where it is, why, what would wake it, when it
is tried next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kubesched.cli import tables
from kubesched.cli.tables import add_names

Report = Mapping[str, Any]


def show(report: Report, console: Console | None = None) -> None:
    console = console or tables.console()
    for part in _parts(report):
        console.print(part, highlight=False, crop=False)


def _parts(report: Report) -> Iterable[RenderableType]:
    yield Text(f"{report.get('pod', '?')}: ", style="bold").append(_where(report), style=_style(report))
    if not report.get("leads", True):
        yield Text("asked a standby, which tries no pods: ask the scheduler that holds the lease", style="yellow")
    if report.get("nominatedNode"):
        yield Text(f"nominated for node {report['nominatedNode']}")
    if last := report.get("lastAttempt"):
        yield from _last_attempt(last)
    if report.get("wakes"):
        yield _wakes(report["wakes"])
    if following := _next_try(report.get("nextTry") or {}):
        yield Text(f"tried next: {following}")


def _style(report: Report) -> str:
    return {"bound": "green", "binding": "green", "unschedulable": "red", "error backoff": "red"}.get(
        report.get("queue", ""), "yellow"
    )


def _where(report: Report) -> str:
    node, since = report.get("node", ""), report.get("since", "")
    tried = f"{_times(report.get('attempts', 0))}{f', since {since}' if since else ''}"
    match report.get("queue"):
        case "active":
            return f"in the active queue at place {report.get('position', 0) + 1}, {tried}"
        case "backoff":
            return f"in backoff after a rejection, {tried}"
        case "error backoff":
            return f"in backoff after an error, {tried}"
        case "unschedulable":
            return f"unschedulable, {tried}"
        case "gated":
            return f"held back by {report.get('gatedBy')}: {report.get('message')}"
        case "in flight":
            return f"being scheduled now, attempt {report.get('attempts')}"
        case "waiting on permit":
            held = " and ".join(f"{each['plugin']} (until {each['until']})" for each in report.get("waitsFor", ()))
            return f"has a place on node {node} and waits in Permit for {held}, since {since}"
        case "binding":
            return f"is being bound to node {node}" + (f" ({report['stage']})" if report.get("stage") else "")
        case "bound":
            return f"bound to node {node}" + (f" since {since}" if since else "") + f" ({_profile(report)})"
        case "foreign":
            ours = ", ".join(report.get("profiles", ()))
            return f"another scheduler's to place: {_profile(report)}; this one serves {ours}"
        case "ended":
            return f"has ended ({report.get('phase')})" + (f" on node {node}" if node else "")
        case "not seen yet":
            return "there is such a pod, but the scheduler has not seen it yet"
        case other:
            return str(other)


def _times(attempts: int) -> str:
    return "not tried yet" if not attempts else "tried once" if attempts == 1 else f"tried {attempts} times"


def _profile(report: Report) -> str:
    return f"schedulerName {report.get('profile', '?')}"


def _last_attempt(last: Report) -> Iterable[RenderableType]:
    at = f" ({last['at']})" if last.get("at") else ""
    if "error" in last:
        yield Text(f"last attempt{at} failed: {last['error']}", style="red")
        return
    yield Text(f"last attempt{at}: {last.get('message', '')}")
    if last.get("rejected"):
        table = Table(title="Nodes that did not fit", title_justify="left", expand=False)
        table.add_column("nodes", justify="right")
        table.add_column("why", overflow="fold")
        add_names(table, "said by", (group.get("plugin", "") for group in last["rejected"]))
        for group in last["rejected"]:
            table.add_row(str(group["nodes"]), escape("\n".join(group["reasons"])), escape(group.get("plugin", "")))
        if beyond := last.get("rejectedBeyond"):
            table.add_row(str(beyond), "other reasons", "")
        yield table
    preemption = last.get("preemption") or {}
    if preemption.get("nominatedNode"):
        yield Text(f"preemption: makes room on {preemption['nominatedNode']}", style="yellow")
    if preemption.get("message"):
        yield Text(f"then, of making room: {preemption['message']}")


def _wakes(wakes: Sequence[Report]) -> Table:
    table = Table(title="Events that would wake it", title_justify="left", expand=False)
    add_names(table, "for", (_who(waits["plugin"]) for waits in wakes))
    table.add_column("events", overflow="fold")
    for waits in wakes:
        table.add_row(_who(waits["plugin"]), escape(", ".join(waits["events"])))
    return table


def _who(plugin: str) -> str:
    """A rejection by an extender, which listens to nothing: anything may help."""
    return "anything" if plugin == "*" else escape(plugin)


def _next_try(following: Report) -> str:
    match following:
        case {"at": at, "orBefore": _}:
            return f"when its backoff is over, at {at}, or before, when nothing else is to do"
        case {"at": at}:
            return f"when its backoff is over, at {at}"
        case {"latest": latest}:
            waits = f"; not before {following['notBefore']}, unless idle" if following.get("notBefore") else ""
            return f"when one of these events comes; without any, after {latest}{waits}"
        case {"when": when}:
            return str(when)
    return ""
