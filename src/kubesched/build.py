"""Which build runs: `compiled`, when the hot path went through mypyc (`hatch_build.py`), or `pure`.

The sources lie beside compiled modules, which Python prefers. Only files are looked at here, nothing is imported.

`mypyc_attr` is for classes that plugins from outside may derive from; a compiled class allows that only when told so.
`i64` and its like are the machine's integers: loops over numbers are compiled to what C would make of them. Where
nothing is compiled they are ints.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from librt.vecs import vec as vec
    from mypy_extensions import i32 as i32
    from mypy_extensions import i64 as i64
    from mypy_extensions import mypyc_attr as mypyc_attr
    from mypy_extensions import u8 as u8
else:
    i32 = i64 = u8 = int

    def mypyc_attr(**_: Any) -> Any:
        return lambda cls: cls


def kind() -> Literal["compiled", "pure"]:
    one_of_all = Path(__file__).parent / "api" / "quantity"
    is_compiled = any(one_of_all.with_name(one_of_all.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)
    return "compiled" if is_compiled else "pure"
