"""How two configurations differ in what they do: plugins and weights by extension point, args, all other fields.

Compared is what is in force, not what is written: a plugin that `multiPoint` brings and one that is named at the
extension point are the same here, and an absent field is its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kubesched.config.catalog import IN_TREE, PluginInfo
from kubesched.config.dump import to_dict
from kubesched.config.expand import WEIGHTED_POINT, expand
from kubesched.config.types import Configuration, Profile


class Difference(msgspec.Struct, frozen=True):
    """One difference. `profile` is empty for what concerns all of them; None in `before` or `after` means absent."""

    profile: str
    #: An extension point, `args`, or a field's path.
    place: str
    #: A plugin, a path within args, or empty.
    what: str
    before: Any
    after: Any


def differences(
    before: Configuration, after: Configuration, known: Mapping[str, PluginInfo] = IN_TREE
) -> list[Difference]:
    """Profiles are matched by name, two single ones whatever their names; in the order of the API's fields."""
    return list(_differences(before, after, known))


def _differences(before: Configuration, after: Configuration, known: Mapping[str, PluginInfo]) -> Iterator[Difference]:
    old, new = to_dict(before), to_dict(after)
    for data in (old, new):
        data.pop("profiles")
    for path, was, now in _changes("", old, new):
        yield Difference("", path, "", was, now)
    for name, first, second in _matched(before.profiles, after.profiles):
        yield from _profile(name, first, second, known)


def _matched(
    before: tuple[Profile, ...], after: tuple[Profile, ...]
) -> Iterator[tuple[str, Profile | None, Profile | None]]:
    if len(before) == len(after) == 1:
        yield after[0].scheduler_name, before[0], after[0]
        return
    old = {profile.scheduler_name: profile for profile in before}
    new = {profile.scheduler_name: profile for profile in after}
    for name in dict.fromkeys((*old, *new)):
        yield name, old.get(name), new.get(name)


def _profile(
    name: str, before: Profile | None, after: Profile | None, known: Mapping[str, PluginInfo]
) -> Iterator[Difference]:
    if before is None or after is None:
        yield Difference(name, "profile", "", before and before.scheduler_name, after and after.scheduler_name)
        return
    for field in ("scheduler_name", "percentage_of_nodes_to_score"):
        was, now = getattr(before, field), getattr(after, field)
        if was != now:
            yield Difference(name, msgspec.structs.fields(Profile)[_FIELDS.index(field)].encode_name, "", was, now)
    old, new = expand(before, known), expand(after, known)
    for point in _ORDER:
        yield from _point(name, point, old[point], new[point])
    was_args, now_args = _args(before), _args(after)
    for plugin in sorted(was_args.keys() & now_args.keys()):
        for path, was, now in _changes(plugin, was_args[plugin], now_args[plugin]):
            yield Difference(name, "args", path, was, now)


def _point(
    profile: str, point: str, before: tuple[tuple[str, int], ...], after: tuple[tuple[str, int], ...]
) -> Iterator[Difference]:
    old, new = dict(before), dict(after)
    for plugin in dict.fromkeys((*old, *new)):
        was, now = old.get(plugin), new.get(plugin)
        if was != now:
            weighted = point == WEIGHTED_POINT
            yield Difference(profile, point, plugin, _shown(was, weighted=weighted), _shown(now, weighted=weighted))
    stayed = [plugin for plugin in old if plugin in new]
    order = [plugin for plugin in new if plugin in old]
    if stayed != order and point != WEIGHTED_POINT:  # a sum does not care
        yield Difference(profile, point, "order", stayed, order)


def _shown(weight: int | None, *, weighted: bool) -> str | None:
    if weight is None:
        return None
    return f"weight {weight}" if weighted else "on"


def _args(profile: Profile) -> dict[str, Any]:
    data = to_dict(Configuration(profiles=(profile,)))["profiles"][0].get("pluginConfig", ())
    return {row["name"]: row["args"] for row in data}


def _changes(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _changes(f"{path}.{key}" if path else key, before.get(key), after.get(key))
    elif before != after:
        yield path, before, after


_FIELDS = Profile.__struct_fields__
#: In the order in which a pod passes them.
_ORDER = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit", "preBind",
    "bind", "postBind",
)  # fmt: skip
