"""From a file, a text or plain data to a `Configuration` that the scheduler can run with, or to a list of faults.

The way of a configuration: read (`document`) → version and kind → strict check (`decode`) → defaults (`defaults`) →
types → validation (`validate`) → could it be built (`build`). Each step sees only what the one before let through, so
that one mistake is reported once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubesched.config.build import build_problems, completed
from kubesched.config.catalog import PluginInfo, with_out_of_tree
from kubesched.config.decode import checked
from kubesched.config.defaults import default_args, defaulted
from kubesched.config.document import MAX_BYTES, Document, read
from kubesched.config.enable import enabled_everywhere
from kubesched.config.errors import ConfigError, FieldError, whole
from kubesched.config.features import FeatureGates
from kubesched.config.hints import hints, lease_hint
from kubesched.config.plugin_args import ARGS
from kubesched.config.types import API_GROUP, API_VERSION, KIND, Configuration
from kubesched.config.validate import validate

log = logging.getLogger(__name__)

_OLDER = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3")
_ARGS_KINDS = {f"{name}Args" for name in ARGS}


def load(
    source: Path | str | bytes | Mapping[str, Any] | None = None,
    *,
    plugins: Iterable[PluginInfo] = (),
    enable: Iterable[str] = (),
    gates: FeatureGates | None = None,
    name: str = "",
    elects: bool = True,
) -> Configuration:
    """The configuration in `source`: a file (`Path`), a text, or plain data; None is the default configuration.

    `plugins` are the plugins from outside that may be named; those in `enable` run in every profile unless the
    configuration enables or disables them somewhere itself. `name` is what messages call the source. Without `elects`
    no word is lost about the lease: there is no election, or the caller looks at it himself (`lease_hint`).
    Raises ConfigError with everything that is wrong; never anything else, whatever the source holds.
    """
    known = with_out_of_tree(plugins)
    gates = FeatureGates() if gates is None else gates
    if source is None:
        document = Document({"apiVersion": API_VERSION, "kind": KIND}, {})
    elif isinstance(source, Mapping):
        document = Document(dict(source), {})
    elif isinstance(source, Path):
        name = name or str(source)
        document = read(_file(source, name), name)
    else:
        document = read(source, name)
    try:
        config = _configuration(document.data, known, tuple(enable), gates)
    except ConfigError as error:
        raise ConfigError((_with_line(e, document.lines) for e in error.errors), name) from error.__cause__
    for hint in [*hints(config, known), lease_hint(config) if elects else ""]:
        if hint:
            log.warning(hint)
    return completed(config, known)


def _file(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise ConfigError([whole(f"open {name}: {text[:1].lower()}{text[1:]}")]) from None


def _configuration(
    data: Any, known: Mapping[str, PluginInfo], enable: tuple[str, ...], gates: FeatureGates
) -> Configuration:
    errors: list[FieldError] = []
    content = enabled_everywhere(checked(_of_our_kind(data), Configuration, "", errors), enable)
    _check_all_args(content, known, gates, errors)
    if errors:
        raise ConfigError(errors)
    content = defaulted(content, known, gates, errors)
    if errors:
        raise ConfigError(errors)
    config = msgspec.convert(content, Configuration)
    errors = validate(config, gates) or build_problems(config, known)
    if errors:
        raise ConfigError(errors)
    return config


def _of_our_kind(data: Any) -> dict[str, Any]:
    """The document without `apiVersion` and `kind`, once these are what they must be."""
    if data is None:
        data = {}
    if not isinstance(data, dict):
        what = "a list" if isinstance(data, list) else "a single value"
        raise ConfigError([whole(f"the document is {what}, not a {KIND}")])
    kind, version = data.get("kind"), data.get("apiVersion")
    for field, value in (("kind", kind), ("apiVersion", version)):
        if value is not None and not isinstance(value, str):
            raise ConfigError([FieldError(field, value, "must be a string", f"{field}: must be a string")])
    if not kind:
        raise ConfigError([whole(f"Object 'Kind' is missing: a configuration begins with `kind: {KIND}`")])
    if not version:
        raise ConfigError([whole(f"Object 'apiVersion' is missing: a configuration has `apiVersion: {API_VERSION}`")])
    if kind != KIND or version != API_VERSION:
        message = f'no kind "{kind}" is registered for version "{version}"'
        field = "kind" if version == API_VERSION else "apiVersion"
        raise ConfigError([FieldError(field, kind, message, message + _what_to_change(kind, version))])
    return {key: value for key, value in data.items() if key not in ("kind", "apiVersion")}


def _what_to_change(kind: str, version: str) -> str:
    group, _, short = version.rpartition("/")
    if kind != KIND:
        return f": the kind must be {KIND}" + (" (policies are profiles now)" if kind == "Policy" else "")
    if group != API_GROUP or short not in _OLDER:
        return f": change apiVersion to {API_VERSION}"
    gone = "healthzBindAddress and metricsBindAddress are gone (use --bind-address and --secure-port); "
    gone += "EBSLimits, GCEPDLimits, AzureDiskLimits and CinderLimits are part of NodeVolumeLimits"
    if short in ("v1beta1", "v1beta2"):
        gone += "; SelectorSpread is part of PodTopologySpread"
    if short.startswith("v1alpha"):
        gone += "; algorithmSource is gone (use profiles)"
    return f": change apiVersion to {API_VERSION}. Since {short}: {gone}"


def _check_all_args(
    content: dict[str, Any], known: Mapping[str, PluginInfo], gates: FeatureGates, errors: list[FieldError]
) -> None:
    """Put the checked, defaulted struct in place of each plugin's args; raw data stays for plugins without a struct."""
    for index, profile in enumerate(content.get("profiles", [])):
        for number, config in enumerate(profile.get("pluginConfig", [])):
            plugin = config.get("name", "")
            kind = ARGS.get(plugin) or (known[plugin].args if plugin in known else None)
            if kind is None:
                continue
            place = f"profiles[{index}].pluginConfig[{number}]"
            problems: list[FieldError] = []
            args = _args(plugin, config.get("args"), kind, problems, gates)
            config["args"] = args
            errors.extend(_placed(error, plugin, place) for error in problems)


def _args(
    plugin: str, data: Any, kind: type[msgspec.Struct], errors: list[FieldError], gates: FeatureGates
) -> msgspec.Struct | None:
    if data is None:
        data = {}
    if isinstance(data, dict):
        fault = _wrong_args_kind(plugin, data)
        if fault:
            errors.append(FieldError("kind", data.get("kind"), fault, fault))
            return None
        data = {key: value for key, value in data.items() if key not in ("kind", "apiVersion")}
    content = checked(data, kind, "", errors)
    if errors:
        return None
    if plugin in ARGS:
        content = default_args(plugin, content, gates)
    try:
        return msgspec.convert(content, kind)
    except (msgspec.ValidationError, ValueError, TypeError) as error:  # rules of a plugin's own struct
        errors.append(FieldError("", None, str(error), str(error)))
        return None


def _wrong_args_kind(plugin: str, data: dict[str, Any]) -> str:
    kind, version = data.get("kind"), data.get("apiVersion")
    wanted = f"{plugin}Args"
    if plugin not in ARGS:  # a plugin from outside names its kind and group as it likes
        return ""
    if version not in (None, "", API_VERSION) or (kind not in (None, "") and kind not in _ARGS_KINDS):
        return f'no kind "{kind or wanted}" is registered for version "{version or API_VERSION}"'
    if kind not in (None, "", wanted):
        return f"args for plugin {plugin} were not of type {wanted}.{API_GROUP}, got {kind}.{API_GROUP}"
    return ""


def _placed(error: FieldError, plugin: str, place: str) -> FieldError:
    """A problem inside a plugin's args as a problem of the configuration, in the original's words."""
    path = f"{place}.args.{error.path}" if error.path else f"{place}.args"
    outer = f"decoding .{place}"
    if error.message.startswith("strict decoding error:"):
        inner = f"strict decoding error: decoding args for plugin {plugin}: {error.message}"
        return FieldError(path, error.value, error.reason, f"strict decoding error: {outer}: {inner}")
    if error.message.startswith("args for plugin "):
        return FieldError(path, error.value, error.reason, f"{outer}: {error.message}")
    message = f"{outer}: decoding args for plugin {plugin}: {error.message}"
    return FieldError(path, error.value, error.reason, message)


def _with_line(error: FieldError, lines: Mapping[str, int]) -> FieldError:
    """`error` with the line of its field, or of the nearest field around it that the file has."""
    path = error.path
    while path and not error.line:
        if path in lines:
            return msgspec.structs.replace(error, line=lines[path])
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return error
