"""The schedule of a CronJob: whether it can be read, in the words of the parser that the original uses."""

from __future__ import annotations

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


class _Fault(Exception):
    pass


def schedule_fault(schedule: str) -> str:
    """What is wrong with it, "" when nothing is."""
    if schedule.startswith("@"):
        known = schedule in _DESCRIPTORS or schedule.startswith("@every ")
        return "" if known else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for field, (first, last, names) in zip(fields, _FIELDS, strict=True):
            for part in field.split(","):
                _check(part, first, last, names)
    except _Fault as fault:
        return str(fault)
    return ""


def _check(part: str, first: int, last: int, names: dict[str, int]) -> None:
    """One of `*`, `n`, `n-m`, each with an optional `/step`."""
    range_, *steps = part.split("/")
    if len(steps) > 1:
        raise _Fault(f"too many slashes: {part}")
    low, *highs = range_.split("-")
    if low in ("*", "?"):
        begin, end = first, last
    else:
        if len(highs) > 1:
            raise _Fault(f"too many hyphens: {part}")
        begin = _number(low, names)
        end = _number(highs[0], names) if highs else last if steps else begin
    step = _number(steps[0], {}) if steps else 1
    if begin < first:
        raise _Fault(f"beginning of range ({begin}) below minimum ({first}): {part}")
    if end > last:
        raise _Fault(f"end of range ({end}) above maximum ({last}): {part}")
    if begin > end:
        raise _Fault(f"beginning of range ({begin}) beyond end of range ({end}): {part}")
    if step == 0:
        raise _Fault(f"step of range should be a positive number: {part}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not text.lstrip("+-").isdecimal():
        raise _Fault(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if text.startswith("-"):
        raise _Fault(f"negative number ({text}) not allowed: {text}")
    return int(text)
