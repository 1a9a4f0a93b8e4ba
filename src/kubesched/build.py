"""Which build runs: `compiled`, when the hot path went through mypyc (`hatch_build.py`), or `pure`.

The sources lie beside compiled modules, which Python prefers. Only files are looked at here, nothing is imported.

`mypyc_attr` is for classes that plugins from outside may derive from; a compiled class allows that only when told so.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_: Any) -> Any:
        return lambda cls: cls


def kind() -> Literal["compiled", "pure"]:
    one_of_all = Path(__file__).parent / "api" / "quantity"
    is_compiled = any(one_of_all.with_name(one_of_all.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)
    return "compiled" if is_compiled else "pure"
