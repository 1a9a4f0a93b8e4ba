"""Command lines as kube-scheduler reads them (the syntax of Go's pflag), for the flags that `app.flags` lists.

`--name=value` or `--name value`; a boolean takes its value after `=` only; `_` in a name counts as `-`; lists are
separated by commas and may be given several times; the first error ends it, in pflag's words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Final

from kubesched.app.flags import DEPRECATED, FlagError, Flags, Spec, check, shown_default, specs

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_HELP_COLUMNS: Final = 110


def parse(arguments: Sequence[str]) -> Flags:
    """Raises FlagError. `-h`, `--help` and `--version` are the caller's business."""
    known = {spec.name: spec for spec in specs()}
    by_letter = {spec.short: spec for spec in known.values() if spec.short}
    values: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument.startswith("--") and len(argument) > 2:
            name, given, text = argument[2:].partition("=")
            spec = known.get(name.replace("_", "-"))
            if spec is None:
                raise FlagError(f"unknown flag: --{name}{_similar(name, known)}")
        elif argument.startswith("-") and len(argument) > 1 and argument != "--":
            spec, text = by_letter.get(argument[1]), argument[2:]
            if spec is None:
                raise FlagError(f"unknown shorthand flag: '{argument[1]}' in {argument}")
            given, text = ("=" if text else ""), text.removeprefix("=")
        else:
            raise FlagError(f'"kubesched run" does not take any arguments, got "{argument}"')
        if not given:
            if spec.kind == "bool":
                text = "true"
            elif rest:
                text = rest.pop(0)
            else:
                raise FlagError(f"flag needs an argument: --{spec.name}")
        value = _value(spec, text)
        is_more = spec.kind == "strings" and spec.attribute in values
        values[spec.attribute] = values[spec.attribute] + value if is_more else value
    flags = Flags(changed=frozenset(name.replace("_", "-") for name in values), **values)
    check(flags)
    return flags


def help_text() -> str:
    """All flags by group, as the original shows its own."""
    lines = [
        "Usage: kubesched run [FLAGS]   (or kubesched FLAGS)",
        "",
        "Runs the scheduler against the API server of a kubeconfig (or of the pod it runs in), or with an embedded API",
        "server in the same process. Flags are those of kube-scheduler v1.36 and some of our own.",
    ]
    group = ""
    for spec in specs():
        if spec.group != group:
            group = spec.group
            lines += ["", f"{group} flags:"]
        letter = f"-{spec.short}, " if spec.short else "    "
        kind = "" if spec.kind == "bool" else f" {spec.kind}"
        head = f"  {letter}--{spec.name}{kind}"
        default = shown_default(spec)
        text = f"DEPRECATED: {spec.help}" if spec.group == DEPRECATED else spec.help
        if spec.effect != "as said":
            text += f" ({spec.effect})"
        if default and default not in ("false", "-1"):
            text += f" (default {default})"
        lines.append(head)
        lines += textwrap.wrap(text, _HELP_COLUMNS, initial_indent=" " * 10, subsequent_indent=" " * 10)
    return "\n".join(lines) + "\n"


def _value(spec: Spec, text: str) -> Any:
    try:
        return _READERS[spec.kind](spec, text)
    except ValueError as error:
        name = f"-{spec.short}, --{spec.name}" if spec.short else f"--{spec.name}"
        raise FlagError(f'invalid argument "{text}" for "{name}" flag: {error}') from None


def _bool(spec: Spec, text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def _int(spec: Spec, text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if not -(2**31) <= value < 2**31:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def _float(spec: Spec, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None
    if not abs(value) <= 3.4e38:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": value out of range')
    return value


def _duration(spec: Spec, text: str) -> float:
    from kubesched.config import DurationError, parse_duration

    try:
        return parse_duration(text).seconds
    except DurationError as error:
        raise ValueError(str(error)) from None


def _strings(spec: Spec, text: str) -> tuple[str, ...]:
    return (text,) if spec.many else tuple(item.strip() for item in text.split(",") if item.strip())


def _string(spec: Spec, text: str) -> str:
    return text


_READERS: Final = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "duration": _duration,
    "strings": _strings,
    "string": _string,
}


def _similar(name: str, known: dict[str, Spec]) -> str:
    import difflib

    close = difflib.get_close_matches(name.replace("_", "-"), known, n=1, cutoff=0.8)
    return f" (did you mean --{close[0]}?)" if close else ""
