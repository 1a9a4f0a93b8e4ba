"""kubesched: the Kubernetes scheduler in Python.

    from kubesched import Cluster                   # offline: explain, schedule, run
    from kubesched.framework import Plugin, Status  # plugins

Names are imported when they are first used: `import kubesched` by itself loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesched.offline import Cluster, Outcome, Run
    from kubesched.scheduler.explanation import Explanation

__all__ = ["Cluster", "Explanation", "Outcome", "Run"]

_HOMES = {
    "Cluster": "kubesched.offline",
    "Explanation": "kubesched.scheduler.explanation",
    "Outcome": "kubesched.offline",
    "Run": "kubesched.offline",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
