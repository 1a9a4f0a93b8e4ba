"""Finding plugins from outside: `--plugin FILE:CLASS`, `--plugin MODULE:CLASS`, and installed entry points.

What is found is checked against the contract at once. An entry point makes a plugin known, so that a configuration can
enable it; one named on the command line runs in every profile unless the configuration names it somewhere itself.
Packages are installed for all kinds of reasons: one that is broken stops a start only if the configuration names its
plugin.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType

from kubesched.config import PluginInfo
from kubesched.framework.plugin import Plugin as PluginClass
from kubesched.framework.runtime.build import PluginSetupError, check_plugin
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.profiles import plugin_info

log = logging.getLogger("kubesched.app")

ENTRY_POINT_GROUP = "kubesched.plugins"


@dataclass(slots=True)
class Outside:
    """Plugins that are not ours."""

    #: Of the command line.
    named: dict[str, type[PluginClass]]
    #: Those and all of installed packages, by plugin name.
    classes: dict[str, type[PluginClass]]
    #: Entry points that cannot be used, by their names, and why.
    broken: dict[str, str]

    @property
    def infos(self) -> list[PluginInfo]:
        """For a configuration that may name them."""
        faulty = [PluginInfo(name, frozenset(), fault=why) for name, why in self.broken.items()]
        known = {*self.classes, *IN_TREE}
        return [plugin_info(each) for each in self.classes.values()] + [
            info for info in faulty if info.name not in known
        ]

    def tell(self) -> None:
        """To be called when the configuration has turned out to need none that is broken."""
        for why in self.broken.values():
            log.warning("going on without a plugin of an installed package: %s", why)


def find(specs: Iterable[str]) -> Outside:
    """The plugins of `--plugin` options and of installed packages. Raises PluginSetupError naming the option."""
    named = load_named(specs)
    installed = _EntryPoints()
    return Outside(named, merged(installed.classes, named), installed.broken)


def load_named(specs: Iterable[str]) -> dict[str, type[PluginClass]]:
    """The classes of `--plugin` options by plugin name; raises PluginSetupError naming the option."""
    classes: dict[str, type[PluginClass]] = {}
    for spec in specs:
        plugin = _load(spec)
        try:
            _add(plugin, classes)
        except PluginSetupError as error:
            raise PluginSetupError(f"--plugin {spec}: {error}") from None
    return classes


def load_entry_points() -> dict[str, type[PluginClass]]:
    """The classes that installed packages offer as `kubesched.plugins`; of a broken one there is a warning."""
    found = _EntryPoints()
    Outside({}, found.classes, found.broken).tell()
    return found.classes


@dataclass(slots=True)
class _EntryPoints:
    classes: dict[str, type[PluginClass]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
            try:
                _add(entry_point.load(), self.classes)
            except PluginSetupError as error:
                self.broken[entry_point.name] = f"{_origin(entry_point)}: {error}"
            except (Exception, SystemExit) as error:  # whatever a module does when it is imported
                self.broken[entry_point.name] = f"{_origin(entry_point)}: {type(error).__name__}: {error}"


def _origin(entry_point: metadata.EntryPoint) -> str:
    package = f" of {entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist is not None else ""
    return f"entry point {entry_point.name} = {entry_point.value}{package}"


def _add(plugin: type[PluginClass], classes: dict[str, type[PluginClass]]) -> None:
    check_plugin(plugin)
    if plugin.name in IN_TREE:
        raise PluginSetupError(f"a plugin named {plugin.name} is among those of kube-scheduler")
    if plugin.name in classes:
        raise PluginSetupError(f"a plugin named {plugin.name} was given already")
    classes[plugin.name] = plugin


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
