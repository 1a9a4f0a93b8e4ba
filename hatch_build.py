"""Compiles the hot path: the same modules, put through mypyc.

    pip install .                  a wheel with compiled modules beside their sources
    python hatch_build.py FOLDER   a copy of the package in FOLDER, compiled in place (`make compiled`)

A decision is a hundred short Python functions, none of which stands out: what is left to gain is the interpreter's
share, and this takes it. Nothing depends on it. With KUBESCHED_PURE=1, or where there is no C compiler, the wheel is
pure Python; an editable install always is, since compiled modules would hide what is edited.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
PACKAGE = "kubesched"

#: What a decision and a pod's way through the queue run through.
HOT = (
    "api/pod_requests.py",
    "api/quantity.py",
    "state/*.py",
    "framework/cycle_state.py",
    "framework/results.py",
    "framework/status.py",
    "framework/runtime/*.py",
    "plugins/*.py",
    "preemption/*.py",
    "scheduler/*.py",
    "scheduler/queue/*.py",
    "offline/running.py",
    "offline/world.py",
)
#: What stays as it is.
PURE = (
    # mypyc's coroutines hide their parameters, and plugins are checked for theirs.
    "plugins/default_binder.py",
    "plugins/default_preemption.py",
    # asyncio.gather answers with a list, whatever its type says.
    "preemption/execution.py",
    # Is referred to weakly.
    "scheduler/queue/last_attempt.py",
)


class CompiledHotPath(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get("KUBESCHED_PURE"):
            return
        folder = Path(self.directory) / "compiled"
        compiled = subprocess.run([sys.executable, str(Path(__file__)), str(folder)], check=False)
        if compiled.returncode:
            self.app.display_warning("kubesched is built as pure Python: its hot path could not be compiled")
            return
        for path in sorted(folder.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}")):
            build_data["force_include"][str(path)] = str(path.relative_to(folder))
        build_data["pure_python"], build_data["infer_tag"] = False, True


def compile_into(folder: Path) -> None:
    """Exits with 1 and a message if that fails."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "src" / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    os.chdir(folder)
    extensions = mypycify(
        ["--strict", "--ignore-missing-imports", *(str(path) for path in _hot_modules())],
        opt_level=os.environ.get("KUBESCHED_OPT_LEVEL", "3"),
        multi_file=True,
    )
    command = build_ext(Distribution({"name": PACKAGE, "ext_modules": extensions}))
    command.inplace, command.parallel = True, os.cpu_count()
    command.ensure_finalized()
    command.run()
    shutil.rmtree("build", ignore_errors=True)
    shutil.rmtree(".mypy_cache", ignore_errors=True)


def _hot_modules() -> list[Path]:
    package = Path(PACKAGE)
    pure = {path for pattern in PURE for path in package.glob(pattern)} | set(package.rglob("__init__.py"))
    return sorted({path for pattern in HOT for path in package.glob(pattern)} - pure)


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]).resolve())
