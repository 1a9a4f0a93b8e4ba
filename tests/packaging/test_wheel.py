"""Wheels as `pip install .` makes them: compiled where that is possible, pure everywhere else, and nothing besides."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import hatch_build
import pytest

from tests.packaging.tree import ONE_MODULE, ROOT, built, small_tree, whole_tree

PURE = "kubesched-0.1.0-py3-none-any.whl"
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))

needs_a_compiler = pytest.mark.skipif(bool(hatch_build.obstacle()), reason=hatch_build.obstacle())


def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def is_pure(wheel: Path) -> bool:
    return not [name for name in contents(wheel) if Path(name).suffix in (".c", ".h", ".o", Path(SUFFIX).suffix)]


def requirements(wheel: Path) -> set[str]:
    """Without the extras."""
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        asked = message_from_bytes(archive.read(path)).get_all("Requires-Dist") or []
    return {line for line in asked if "extra ==" not in line}


@needs_a_compiler
def test_compiled_modules_lie_beside_their_sources(tmp_path: Path) -> None:
    wheel, said = built(small_tree(tmp_path), "wheel")
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheel.name.startswith(f"kubesched-0.1.0-{version}-{version}-"), said
    assert not wheel.name.endswith("-any.whl")
    assert hatch_build.runtime_requirement() in requirements(wheel)
    names = contents(wheel)
    assert f"kubesched/{ONE_MODULE}" in names
    assert {name for name in names if not name.endswith((".py", ".typed")) and ".dist-info/" not in name} == {
        f"kubesched/api/quantity{SUFFIX}",
        f"kubesched__mypyc{SUFFIX}",
    }
    assert not [*tmp_path.rglob("*.c"), *tmp_path.rglob(f"*{SUFFIX}")], "left in the tree"

    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    program = "import kubesched.api.quantity as q; from kubesched import build; print(q.__file__, build.kind())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(installed)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [str(installed / "kubesched" / "api" / f"quantity{SUFFIX}"), "compiled"]


@needs_a_compiler
def test_what_cannot_be_compiled_does_not_fail_the_wheel(tmp_path: Path) -> None:
    wheel, said = built(small_tree(tmp_path), "wheel", CC="false")
    assert wheel.name == PURE
    assert "kubesched is built as pure Python: its hot path could not be compiled, see above" in said
    assert is_pure(wheel)


WITHOUT = {
    "asked for": ({"KUBESCHED_PURE": "1"}, "KUBESCHED_PURE is set"),
    "no compiler": ({"CC": "/nowhere/cc -pthread"}, "there is no C compiler (/nowhere/cc; CC=... names another)"),
}


@pytest.mark.parametrize(("environment", "why"), WITHOUT.values(), ids=WITHOUT)
def test_without_a_compiler_the_wheel_is_pure_and_says_so(
    tmp_path: Path, environment: dict[str, str], why: str
) -> None:
    wheel, said = built(whole_tree(tmp_path), "wheel", **environment)
    assert wheel.name == PURE
    assert f"kubesched is built as pure Python: {why}" in said
    assert is_pure(wheel)


def test_an_editable_install_is_pure(tmp_path: Path) -> None:
    found: dict[str, Any] = {"force_include": {}, "pure_python": True}
    metadata: Any = None
    hook = hatch_build.CompiledHotPath(str(ROOT), {}, None, metadata, str(tmp_path), "wheel")
    hook.initialize("editable", found)
    assert found == {"force_include": {}, "pure_python": True}


def test_a_wheel_asks_for_nothing_more_at_run_time(tmp_path: Path) -> None:
    wheel, _ = built(whole_tree(tmp_path), "wheel", KUBESCHED_PURE="1")
    always = requirements(wheel)
    assert len(always) == 8
    assert not [line for line in always if line.startswith(("mypy", "setuptools", "hatchling", "typing", "librt"))]


def test_a_source_distribution_can_be_built_from(tmp_path: Path) -> None:
    archive, _ = built(whole_tree(tmp_path), "sdist")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "src/kubesched/build.py"} <= names


def test_what_compiling_takes_is_asked_for_only_where_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBESCHED_PURE", "1")
    assert hatch_build.CompiledHotPath.dependencies(None) == []  # type: ignore[arg-type]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    developers = project["optional-dependencies"]["dev"]
    always = project["dependencies"]
    assert set(hatch_build.REQUIREMENTS) <= {*developers, *always}, "what wheels are compiled with is what is tested"
