"""Making a profile's runtime: configuration and registry in, checked plugins in order out.

What can be wrong with a plugin is found here, before anything runs: an unknown name, a point it does not serve, a
method that takes other arguments than the contract says, a constructor that raises. All of it becomes
`PluginSetupError`.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubesched.api.errors import KubeschedError
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin
from kubesched.framework.runtime.runtime import PluginSet, Runtime, close_plugin

#: Extension point (as the configuration spells it) -> methods that serve it; any one of them makes a plugin eligible.
POINT_METHODS: Mapping[str, tuple[str, ...]] = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("less",),
    "preFilter": ("pre_filter",),
    "filter": ("filter", "filter_rows"),
    "postFilter": ("post_filter",),
    "preScore": ("pre_score",),
    "score": ("score", "score_rows"),
    "reserve": ("reserve",),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind",),
    "postBind": ("post_bind",),
}

#: Parameters of each method, without self.
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "pre_enqueue": ("pod",),
    "less": ("a", "b"),
    "pre_filter": ("state", "pod", "nodes"),
    "add_pod": ("state", "pod", "other", "node"),
    "remove_pod": ("state", "pod", "other", "node"),
    "filter": ("state", "pod", "node"),
    "filter_rows": ("state", "pod", "nodes"),
    "post_filter": ("state", "pod", "diagnosis"),
    "post_filter_preview": ("state", "pod", "diagnosis"),
    "pre_score": ("state", "pod", "nodes"),
    "score": ("state", "pod", "node"),
    "score_rows": ("state", "pod", "nodes"),
    "score_scale": ("state", "pod", "raw"),
    "normalize_rows": ("state", "pod", "raw", "scale"),
    "normalize_score": ("state", "pod", "nodes", "scores"),
    "reserve": ("state", "pod", "node_name"),
    "unreserve": ("state", "pod", "node_name"),
    "permit": ("state", "pod", "node_name"),
    "pre_bind_pre_flight": ("state", "pod", "node_name"),
    "pre_bind": ("state", "pod", "node_name"),
    "bind": ("state", "pod", "node_name"),
    "post_bind": ("state", "pod", "node_name"),
    "close": (),
}
_ASYNC_ALLOWED = frozenset({"post_filter", "pre_bind", "bind", "post_bind"})


class PluginSetupError(KubeschedError):
    """A plugin cannot be used; the message names it and says why."""


def check_plugin(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points the class serves, as the configuration spells them; raises PluginSetupError."""
    if not (inspect.isclass(plugin) and issubclass(plugin, Plugin)):
        raise PluginSetupError(f"{plugin!r} is not a subclass of kubesched.framework.Plugin")
    if not isinstance(plugin.name, str) or not plugin.name:
        raise PluginSetupError(f"plugin class {plugin.__qualname__} has no `name`")
    for method, parameters in _PARAMETERS.items():
        found = getattr(plugin, method, None)
        if found is not None:
            _check_signature(plugin, method, found, parameters)
    if hasattr(plugin, "normalize_rows") and not hasattr(plugin, "score_scale"):
        raise PluginSetupError(f"plugin {plugin.name}: normalize_rows needs score_scale beside it")
    if hasattr(plugin, "score_scale") and not hasattr(plugin, "normalize_rows"):
        raise PluginSetupError(f"plugin {plugin.name}: score_scale needs normalize_rows beside it")
    if unknown := set(plugin.sign_ignores) - ANY_DIFFERENCE:
        raise PluginSetupError(
            f"plugin {plugin.name}: sign_ignores names {', '.join(map(repr, sorted(unknown)))}, "
            f"want some of {', '.join(map(repr, sorted(ANY_DIFFERENCE)))}"
        )
    points = frozenset(
        point for point, methods in POINT_METHODS.items() if any(hasattr(plugin, method) for method in methods)
    )
    if not points:
        raise PluginSetupError(f"plugin {plugin.name} serves no extension point: it has none of their methods")
    return points


def build_runtime(
    handle: Handle,
    registry: Mapping[str, type[Plugin]],
    points: Mapping[str, Sequence[tuple[str, int]]],
    args: Callable[[str], Any],
    *,
    percentage_of_nodes: int = 0,
    keep: bool = True,
) -> Runtime:
    """`points`: per extension point, spelled as in the configuration, (name, weight) pairs; `args` of a name."""
    made: dict[str, Plugin] = {}

    def plugin(name: str, point: str) -> Plugin:
        if name not in made:
            made[name] = _make(name, registry, args(name), handle)
        if not any(hasattr(made[name], method) for method in POINT_METHODS[point]):
            raise PluginSetupError(f'plugin "{name}" does not extend {point} plugin')
        return made[name]

    def at(point: str) -> list[Plugin]:
        return [plugin(name, point) for name, _ in points.get(point, ())]

    try:
        plugins = PluginSet(
            pre_enqueue=at("preEnqueue"),
            queue_sort=at("queueSort"),
            pre_filter=at("preFilter"),
            filter=at("filter"),
            post_filter=at("postFilter"),
            pre_score=at("preScore"),
            score=[(plugin(name, "score"), weight or 1) for name, weight in points.get("score", ())],
            reserve=at("reserve"),
            permit=at("permit"),
            pre_bind=at("preBind"),
            bind=at("bind"),
            post_bind=at("postBind"),
        )
        if len(plugins.queue_sort) != 1:
            raise PluginSetupError(
                f'profile "{handle.profile_name}" needs exactly one queue sort plugin, has {len(plugins.queue_sort)}'
            )
    except BaseException:
        for each in made.values():
            close_plugin(each)
        raise
    runtime = Runtime(handle, plugins, percentage_of_nodes=percentage_of_nodes, keep=keep)
    handle.runtime = runtime
    return runtime


def _make(name: str, registry: Mapping[str, type[Plugin]], args: Any, handle: Handle) -> Plugin:
    factory = registry.get(name)
    if factory is None:
        raise PluginSetupError(f'plugin "{name}" is not registered')
    try:
        return factory(args, handle)
    except KubeschedError as error:
        raise PluginSetupError(f'initializing plugin "{name}": {error}') from error
    except Exception as fault:
        raise PluginSetupError(
            f'initializing plugin "{name}": {type(fault).__name__}: {fault}{_raised_at(factory, fault)}'
        ) from fault


def _raised_at(factory: type[Plugin], fault: BaseException) -> str:
    """The last place in the plugin's own file."""
    code = getattr(factory.__init__, "__code__", None)
    if code is None:
        return ""
    lines = [at.lineno for at in traceback.extract_tb(fault.__traceback__) if at.filename == code.co_filename]
    return f" ({code.co_filename}, line {lines[-1]})" if lines else ""


def _check_signature(plugin: type[Plugin], method: str, found: Any, parameters: tuple[str, ...]) -> None:
    where = f"plugin {plugin.name}: {method}"
    if not callable(found):
        raise PluginSetupError(f"{where} is not a method")
    if inspect.iscoroutinefunction(found) and method not in _ASYNC_ALLOWED:
        raise PluginSetupError(f"{where} must not be a coroutine: a scheduling cycle never waits")
    wanted = f"{method}({', '.join(('self', *parameters))})"
    try:
        inspect.signature(found).bind(None, *parameters)
    except TypeError as error:
        raise PluginSetupError(f"{where} must accept {wanted}: {error}") from None
