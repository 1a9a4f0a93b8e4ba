"""Finding plugins from outside: `--plugin FILE:CLASS`, `--plugin MODULE:CLASS`, and installed entry points.

What is found is checked against the contract at once. An entry point makes a plugin known, so that a configuration can
enable it; one named on the command line runs in every profile unless the configuration names it somewhere itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zlib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType

from kubesched.framework.plugin import Plugin as PluginClass
from kubesched.framework.runtime.build import PluginSetupError, check_plugin

ENTRY_POINT_GROUP = "kubesched.plugins"


def load_named(specs: Iterable[str]) -> dict[str, type[PluginClass]]:
    """The classes of `--plugin` options by plugin name; raises PluginSetupError naming the option."""
    return _by_name((f"--plugin {spec}", _load(spec)) for spec in specs)


def load_entry_points() -> dict[str, type[PluginClass]]:
    """The classes that installed packages offer as `kubesched.plugins`; PluginSetupError names the package."""
    found = []
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        origin = f"entry point {entry_point.name} = {entry_point.value}"
        try:
            found.append((origin, entry_point.load()))
        except Exception as error:
            raise PluginSetupError(f"{origin}: {type(error).__name__}: {error}") from error
    return _by_name(found)


def _by_name(found: Iterable[tuple[str, type[PluginClass]]]) -> dict[str, type[PluginClass]]:
    classes: dict[str, type[PluginClass]] = {}
    for origin, plugin in found:
        try:
            check_plugin(plugin)
        except PluginSetupError as error:
            raise PluginSetupError(f"{origin}: {error}") from None
        if plugin.name in classes:
            raise PluginSetupError(f"{origin}: a plugin named {plugin.name} was given already")
        classes[plugin.name] = plugin
    return classes


def _load(spec: str) -> type[PluginClass]:
    where, colon, class_name = spec.rpartition(":")
    if not colon or not where or not class_name:
        raise PluginSetupError(f"--plugin {spec}: want FILE:CLASS or MODULE:CLASS")
    try:
        module = _load_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except FileNotFoundError:
        raise PluginSetupError(f"--plugin {spec}: no such file: {where}") from None
    except ModuleNotFoundError as error:
        hint = f", or name the file: {where}.py:{class_name}" if Path(f"{where}.py").is_file() else ""
        raise PluginSetupError(
            f"--plugin {spec}: importing {where}: ModuleNotFoundError: {error} (modules are looked for where Python "
            f"does, PYTHONPATH adds folders{hint})"
        ) from error
    except Exception as error:
        raise PluginSetupError(f"--plugin {spec}: importing {where}: {type(error).__name__}: {error}") from error
    try:
        found: type[PluginClass] = getattr(module, class_name)
    except AttributeError:
        raise PluginSetupError(f"--plugin {spec}: {where} has no {class_name}") from None
    return found


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(path)
    name = f"kubesched_plugin_{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module, before = importlib.util.module_from_spec(spec), sys.modules.get(name)
    sys.modules[name] = module
    try:
        # Not by the loader: what it has compiled counts for a file of the same size and second, too, and a reload comes
        # at any time.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except BaseException:
        if before is not None:
            sys.modules[name] = before
        else:
            del sys.modules[name]
        raise
    return module


def merged(*registries: Mapping[str, type[PluginClass]]) -> dict[str, type[PluginClass]]:
    """One registry of several; raises PluginSetupError when a name is taken twice."""
    together: dict[str, type[PluginClass]] = {}
    for registry in registries:
        for name, plugin in registry.items():
            if name in together and together[name] is not plugin:
                raise PluginSetupError(f"plugin name {name} is taken twice")
            together[name] = plugin
    return together
