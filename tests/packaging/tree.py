"""A copy of what a wheel is built from, to build in without touching ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hatch_build

ROOT = Path(hatch_build.__file__).parent
#: The one module that is compiled in the small tree: enough to see that what is compiled ends up where it belongs.
ONE_MODULE = "api/quantity.py"
_SMALL = ("py.typed", "build.py", "api/__init__.py", "api/errors.py", ONE_MODULE)


def whole_tree(folder: Path) -> Path:
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def small_tree(folder: Path) -> Path:
    """Compiles in a few seconds."""
    package = whole_tree(folder) / "src" / "kubesched"
    shutil.rmtree(package)
    (package / "api").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in _SMALL:
        shutil.copy(ROOT / "src" / "kubesched" / name, package / name)
    return folder


def built(tree: Path, what: str, **environment: str) -> tuple[Path, str]:
    """`what`: wheel or sdist. What was made, and what was said meanwhile."""
    out = tree / "out"
    program = f"from hatchling.build import build_{what} as build; print(build({str(out)!r}))"
    inherited = {name: value for name, value in os.environ.items() if name not in ("CC", "KUBESCHED_PURE")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tree, env={**inherited, **environment}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    said = done.stdout.rstrip().rpartition("\n")
    return out / said[2], said[0] + done.stderr
