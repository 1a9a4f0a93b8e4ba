"""What compiled modules must keep to, as far as it can be seen in their sources; ARCHITECTURE.md says why."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import hatch_build
import pytest

from kubesched.plugins.registry import IN_TREE

PACKAGE = Path(hatch_build.__file__).parent / "src" / "kubesched"
HOT = hatch_build.hot_modules(PACKAGE)


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_every_pattern_names_something() -> None:
    assert [pattern for pattern in (*hatch_build.HOT, *hatch_build.PURE) if not list(PACKAGE.glob(pattern))] == []
    assert {name_of(path) for path in HOT}.isdisjoint(hatch_build.PURE)
    assert len(HOT) > 90


@pytest.mark.parametrize("path", HOT, ids=name_of)
def test_one_name_is_for_exceptions_of_one_type(path: Path) -> None:
    """mypyc gives the variable the type of the first `except`, and the others fail the assignment."""
    for function in ast.walk(ast.parse(path.read_text())):
        types: dict[str, set[str]] = defaultdict(set)
        for each in ast.walk(function) if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ():
            if isinstance(each, ast.ExceptHandler) and each.name and each.type:
                types[each.name].add(ast.unparse(each.type))
        assert [name for name, caught in types.items() if len(caught) > 1] == []


@pytest.mark.parametrize("path", HOT, ids=name_of)
def test_no_property_is_cached_by_its_decorator(path: Path) -> None:
    """mypyc makes a plain property of it, which is worked out anew whenever it is asked for."""
    assert "cached_property" not in path.read_text()


@pytest.mark.parametrize("path", HOT, ids=name_of)
def test_classes_are_what_mypyc_makes_of_them(path: Path) -> None:
    """It passes over the options of structs, and over what classes do otherwise than the `dict` they derive from."""
    for each in ast.walk(ast.parse(path.read_text())):
        if isinstance(each, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in each.bases}
            assert not (each.keywords and "msgspec.Struct" in bases), each.name
            assert bases.isdisjoint({"dict", "list", "set", "str", "int"}), each.name


@pytest.mark.parametrize("plugin", IN_TREE.values(), ids=IN_TREE)
def test_in_tree_plugins_may_be_derived_from(plugin: type) -> None:
    path = PACKAGE / Path(*plugin.__module__.split(".")[1:]).with_suffix(".py")
    (found,) = [
        each
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.ClassDef) and each.name == plugin.__name__
    ]
    is_open = "mypyc_attr(allow_interpreted_subclasses=True)" in map(ast.unparse, found.decorator_list)
    assert is_open == (path in HOT)
