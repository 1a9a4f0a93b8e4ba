"""An `Explanation` as tables for people: what stands in the way, in groups and numbers, and who scores what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kubesched.cli import tables
from kubesched.cli.tables import add_names, full_width, widest
from kubesched.framework.results import PostFilterPreview
from kubesched.scheduler.explanation import Explanation

#: Nodes named one by one in a group; the rest is counted.
_NODES_NAMED = 10
#: Nodes whose scores are shown, the best ones, so many side by side.
_NODES_SCORED = 5

_GIB, _MIB = 1 << 30, 1 << 20


def show(explanation: Explanation, console: Console | None = None) -> None:
    console = console or tables.console()
    for part in _parts(explanation, console):
        console.print(part, crop=False)


def _parts(explanation: Explanation, console: Console) -> Iterable[RenderableType]:
    yield _headline(explanation)
    if explanation.nodes_by_reason():
        yield _rejections(explanation)
    if explanation.scores:
        yield _scores(explanation, console)
    if explanation.volumes:
        yield _volumes(explanation.volumes)
    if explanation.preemption is not None:
        yield from _preemption(explanation.preemption)


def _headline(explanation: Explanation) -> Text:
    text = Text(f"{explanation.pod}: ", style="bold")
    if explanation.pre_enqueue is not None:
        held = f"held back by {explanation.pre_enqueue.plugin}: {explanation.message}"
        return text.append(held, style="yellow")
    if explanation.error is not None:
        return text.append(f"the attempt fails: {explanation.error}", style="red")
    if not explanation.fits:
        return text.append(explanation.message, style="red")
    assert explanation.best is not None
    fitting = len(explanation.scores or ())
    best = explanation.best[0] if len(explanation.best) == 1 else f"one of {', '.join(explanation.best)}"
    return text.append(f"would go to {best} ({fitting} of {explanation.node_count} nodes fit)", style="green")


def _rejections(explanation: Explanation) -> Table:
    table = Table(title="Nodes that do not fit", title_justify="left", expand=False)
    table.add_column("nodes", justify="right")
    groups = list(explanation.nodes_by_reason())
    table.add_column("why", overflow="fold", min_width=widest("why", *(status.plugin for status, _ in groups)))
    named = [name for _, names in groups for name in names[:_NODES_NAMED]]
    table.add_column("where", overflow="fold", min_width=widest("where", *(f"{name}:" for name in named)))
    for status, names in groups:
        why = "\n".join(status.reasons)
        lines = [_named(name, explanation.details.get(name, {}).get(status.plugin)) for name in names[:_NODES_NAMED]]
        if len(names) > _NODES_NAMED:
            lines.append(f"and {len(names) - _NODES_NAMED} more")
        said_by = f"\n[dim]{status.plugin}[/dim]" if status.plugin else ""
        table.add_row(str(len(names)), f"{escape(why)}{said_by}", escape("\n".join(lines)), end_section=True)
    return table


def _named(node_name: str, facts: Mapping[str, Any] | None) -> str:
    return f"{node_name}: {'; '.join(_facts(facts))}" if facts else node_name


def _facts(facts: Mapping[str, Any]) -> Iterable[str]:
    """Each fact in words; what has no words of its own comes as `name: value`."""
    holder = facts.get("pod")
    for name, value in facts.items():
        match name, value:
            case "port", str() if isinstance(holder, str):
                yield f"{value} is held by {holder}"
            case "pod", str() if "port" in facts:
                continue
            case "taint", {"key": key, "effect": effect}:
                yield f"{key}={value['value']}:{effect}" if value.get("value") else f"{key}:{effect}"
            case _, {"asked": asked, "used": used, "capacity": capacity}:
                yield f"{name} asked {amount(name, asked)}, used {amount(name, used)} of {amount(name, capacity)}"
            case "constraints", list():
                yield from map(_spread, value)
            case "repelledBy" | "unwanted", {"pod": pod}:
                yield f"{'repelled by' if name == 'repelledBy' else 'must not be near'} {pod} ({_term(value)})"
            case "wants", list():
                yield from (f"wants pods that match {_term(term)}" for term in value)
            case _, dict():
                yield from _labels(value)
            case _, list() | tuple():
                yield f"{name}: {', '.join(map(str, value))}"
            case _:
                yield f"{name}: {value}"


def _spread(facts: Mapping[str, Any]) -> str:
    """`topology.kubernetes.io/zone=a has 2 pods, the emptiest has 0, at most 1 apart (b: 0, a: 2)`"""
    key = facts["topologyKey"]
    if "missingLabel" in facts:
        return f"lacks the label {key}"
    domains = ", ".join(f"{domain}: {pods}" for domain, pods in facts["domains"].items())
    if facts["domainCount"] > len(facts["domains"]):
        domains += f", {facts['domainCount'] - len(facts['domains'])} more"
    return (
        f"{key}={facts['domain']} has {facts['pods']} pods, the emptiest has {facts['lowest']}, "
        f"at most {facts['maxSkew']} apart ({domains})"
    )


def _term(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if name != "pod" and value not in (None, ""))


def _labels(differing: Mapping[str, Any]) -> Iterable[str]:
    for key, value in differing.items():
        match value:
            case {"asked": asked, "has": has}:
                yield f"{key}={asked} asked, {'absent' if has is None else f'has {has}'}"
            case _:
                yield f"{key}: {value}"


def amount(resource: str, value: int) -> str:
    """cpu comes in thousandths and is shown in cores, memory in bytes and shown in binary units."""
    if resource == "cpu":
        return f"{value / 1000:g}"
    if resource == "memory" or resource == "ephemeral-storage" or resource.startswith("hugepages-"):
        for unit, size in (("Gi", _GIB), ("Mi", _MIB), ("Ki", 1024)):
            if value >= size:
                return f"{value / size:.4g}{unit}"
    return str(value)


def _scores(explanation: Explanation, console: Console) -> Table:
    """The best nodes side by side, as many as there is room for."""
    assert explanation.scores is not None
    names = sorted(explanation.scores, key=lambda name: (-explanation.total(name), name))
    shown = min(len(names), _NODES_SCORED)
    while shown > 1 and full_width(_score_table(explanation, names, shown), console) > console.width:
        shown -= 1
    return _score_table(explanation, names, shown)


def _score_table(explanation: Explanation, names: Sequence[str], count: int) -> Table:
    assert explanation.scores is not None
    title = "Scores: weight x normalized (raw)"
    if len(names) > count:
        title += f", the best {count} of {len(names)} nodes" if count > 1 else f", the best of {len(names)} nodes"
    shown = names[:count]
    plugins = explanation.scores[shown[0]]
    table = Table(title=title, title_justify="left", expand=False, show_footer=True)
    add_names(table, "plugin", plugins, footer="total")
    for name in shown:
        style = "green" if name in (explanation.best or ()) else ""
        total = str(explanation.total(name))
        add_names(table, name, (), footer=total, justify="right", style=style, footer_style=style)
    for plugin in plugins:
        scores = [explanation.scores[name][plugin] for name in shown]
        table.add_row(plugin, *(_score(score.weight, score.normalized, score.raw) for score in scores))
    return table


def _score(weight: int, normalized: int, raw: int) -> str:
    text = str(normalized) if weight == 1 else f"{weight}x{normalized}"
    return text if raw == normalized else f"{text} ({raw})"


def _volumes(volumes: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title="Volumes", title_justify="left", expand=False)
    add_names(table, "node", volumes)
    table.add_column("bound", overflow="fold")
    table.add_column("provisioned", overflow="fold")
    for name, plan in volumes.items():
        bound = ", ".join(f"{claim} to {volume}" for claim, volume in plan["bind"].items())
        table.add_row(name, bound or "-", ", ".join(plan["provision"]) or "-")
    return table


def _preemption(preview: PostFilterPreview) -> Iterable[RenderableType]:
    if not preview.candidates:
        if preview.status.is_error:
            yield Text("preemption: not tried, for it is the pod itself that is rejected")
        elif preview.status.message:
            yield Text(f"preemption: {preview.status.message}")
        return
    because = f" ({preview.because})" if preview.because else ""
    yield Text(f"preemption: would make room on {_either(preview.nominated_nodes)}{because}", style="yellow")
    table = Table(title="Where preemption would help", title_justify="left", expand=False)
    add_names(table, "node", (candidate.node_name for candidate in preview.candidates))
    victims = (victim for candidate in preview.candidates for victim in candidate.victims)
    table.add_column("victims, the most important first", overflow="fold", min_width=widest("victims,", *victims))
    table.add_column("broken budgets", justify="right")
    for candidate in preview.candidates:
        style = "green" if candidate.node_name in preview.nominated_nodes else ""
        table.add_row(
            candidate.node_name,
            "\n".join(candidate.victims),
            str(candidate.violation_count),
            style=style,
            end_section=True,
        )
    yield table


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
