"""Spans of time as kubectl shows them: `42s`, `5m10s`, `3h`, `2d4h`, `2y333d`."""

from __future__ import annotations


def human(seconds: float) -> str:
    """The two most telling units of a span, fewer when it is long."""
    s = int(seconds)
    if s < -1:
        return "<invalid>"
    if s < 0:
        return "0s"
    if s < 120:
        return f"{s}s"
    minutes = s // 60
    if minutes < 10:
        return f"{minutes}m" + (f"{s % 60}s" if s % 60 else "")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h" + (f"{minutes % 60}m" if minutes % 60 else "")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return f"{days}d" + (f"{hours % 24}h" if hours % 24 else "")
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    if years < 8:
        return f"{years}y" + (f"{rest}d" if rest else "")
    return f"{years}y"
