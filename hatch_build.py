"""Compiles the hot path: the same modules, put through mypyc.

    pip install .                  a wheel with compiled modules beside their sources, where there is a C compiler
    python hatch_build.py FOLDER   a copy of the package in FOLDER, compiled in place (`make compiled`)
    python hatch_build.py          says whether this machine can; ends with 1 and the reason if not

A decision is a hundred short Python functions, none of which stands out: what is left to gain is the interpreter's
share, and this takes it. Nothing depends on it. With KUBESCHED_PURE=1, or where it cannot be compiled, the wheel is
pure Python; an editable install always is, since compiled modules would hide what is edited. ARCHITECTURE.md says what
compiled modules must keep to.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
PACKAGE = "kubesched"

#: mypyc as it was tested, and what the types of the sources come from.
REQUIREMENTS = ["mypy[mypyc]>=2.4,<2.5", "msgspec>=0.19", "numpy>=2.0"]

#: What a decision and a pod's way through the queue run through.
HOT = (
    "api/pod_requests.py",
    "api/quantity.py",
    "client/events.py",
    "client/http1.py",
    "client/http1_answers.py",
    "client/port.py",
    "client/rate.py",
    "client/request_metrics.py",
    "client/rest.py",
    "client/transport.py",
    "clock/*.py",
    "metrics/*.py",
    "state/*.py",
    "framework/cycle_state.py",
    "framework/row_rules.py",
    "framework/waiting.py",
    "framework/runtime/*.py",
    "plugins/*.py",
    "plugins/volume_binding/*.py",
    "preemption/*.py",
    "scheduler/*.py",
    "scheduler/queue/*.py",
    "offline/running.py",
    "offline/world.py",
)
#: What stays as it is.
PURE = (
    # Its methods are functions of `time`; mypyc would put calls of ours around them.
    "clock/real.py",
    # mypyc's coroutines hide their parameters, and plugins are checked for theirs.
    "plugins/default_binder.py",
    "plugins/default_preemption.py",
    "plugins/volume_binding/plugin.py",
    # asyncio.gather answers with a list, whatever its type says.
    "preemption/execution.py",
    # Is referred to weakly.
    "scheduler/queue/last_attempt.py",
)


class CompiledHotPath(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel."""

    def dependencies(self) -> list[str]:
        return [] if obstacle() else REQUIREMENTS

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        if why_not := obstacle():
            self.app.display_warning(f"{PACKAGE} is built as pure Python: {why_not}")
            return
        self._made = tempfile.TemporaryDirectory(prefix=f"{PACKAGE}-")
        # In a process of its own: mypy goes by the current folder.
        compiling = subprocess.run([sys.executable, __file__, self._made.name], check=False)
        if compiling.returncode:
            self.app.display_warning(
                f"{PACKAGE} is built as pure Python: its hot path could not be compiled, see above"
            )
            return
        for path in sorted(Path(self._made.name).rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}")):
            build_data["force_include"][str(path)] = str(path.relative_to(self._made.name))
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["dependencies"].append(runtime_requirement())

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_made"):
            self._made.cleanup()


def obstacle() -> str:
    """Why nothing is compiled here, or ""."""
    if os.environ.get("KUBESCHED_PURE", "0") not in ("", "0"):
        return "KUBESCHED_PURE is set"
    if sys.implementation.name != "cpython":
        return f"mypyc is for CPython, this is {sys.implementation.name}"
    compiler = shlex.split(os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc"))[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler}; CC=... names another)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "the header files of Python are not installed (often a package python3-dev)"
    return ""


def runtime_requirement() -> str:
    """What compiled modules run on besides, the memory behind `state/cells.py`: no older than what they are compiled
    against, whose binary interface they must find."""
    major, minor = metadata.version("librt").split(".")[:2]
    return f"librt>={major}.{minor},<{major}.{int(minor) + 1}"


def compile_into(folder: Path) -> None:
    """Exits with 1 and a message if that fails."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "src" / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    os.chdir(folder)
    hot = [str(path) for path in hot_modules(Path(PACKAGE))]
    with redirect_stdout(StringIO()) as told:
        try:
            extensions = mypycify(
                # No configuration but this: what else the types must be is for `make check`.
                ["--config-file=", "--ignore-missing-imports", *hot],
                # A third faster to compile than 3, and 3 % slower.
                opt_level=os.environ.get("KUBESCHED_OPT_LEVEL", "1"),
                debug_level="0",
                multi_file=True,
                group_name=PACKAGE,
            )
        except SystemExit as failed:
            sys.exit(f"{told.getvalue()}{failed}")
    for extension in extensions:
        extension.extra_compile_args.append("-w")  # what compilers warn of in generated code is nobody's concern
    command = _parallel_build()(Distribution({"name": PACKAGE, "ext_modules": extensions}))
    command.inplace, command.parallel = True, os.cpu_count()
    command.ensure_finalized()
    command.run()
    shutil.rmtree("build")
    shutil.rmtree(".mypy_cache", ignore_errors=True)


def hot_modules(package: Path) -> list[Path]:
    """The files below `package` that are compiled."""
    pure = {path for pattern in PURE for path in package.glob(pattern)} | set(package.rglob("__init__.py"))
    return sorted({path for pattern in HOT for path in package.glob(pattern)} - pure)


def _parallel_build() -> type[Any]:
    from setuptools.command.build_ext import build_ext

    class ParallelBuild(build_ext):
        """All files at a time, not only all extensions: nearly everything is one extension of a hundred files."""

        def build_extensions(self) -> None:
            files = [(Path(source).stat().st_size, source, each) for each in self.extensions for source in each.sources]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = [
                    (each, pool.submit(self._compile, source, each))
                    for _, source, each in sorted(files, key=lambda file: -file[0])
                ]
                for each, objects in made:
                    each.extra_objects += objects.result()
            for each in self.extensions:
                each.sources = []
            super().build_extensions()

        def _compile(self, source: str, extension: Any) -> list[str]:
            objects: list[str] = self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                include_dirs=extension.include_dirs,
                extra_postargs=extension.extra_compile_args,
            )
            return objects

    return ParallelBuild


if __name__ == "__main__":
    if why_not := obstacle():
        sys.exit(f"{PACKAGE} cannot be compiled: {why_not}")
    if len(sys.argv) > 1:
        compile_into(Path(sys.argv[1]).resolve())
