"""The compiled build beside the sources that it was made from. `make test-compiled` runs these; others skip them."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import hatch_build
import pytest

import kubesched
from kubesched import build

ROOT = Path(hatch_build.__file__).parent
PACKAGE = Path(kubesched.__file__).parent

pytestmark = pytest.mark.skipif(build.kind() == "pure", reason="this is the pure build")


def test_all_of_the_hot_path_is_compiled_and_nothing_else() -> None:
    loaded = {}
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__main__.py":
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
            loaded[path] = str(importlib.import_module(name).__file__)
    compiled = {path for path, file in loaded.items() if not file.endswith(".py")}
    assert compiled == set(hatch_build.hot_modules(PACKAGE))


def odd_answers(**environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.packaging.odd_answers"],
        cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.timeout(600)
def test_odd_answers_of_plugins_are_taken_alike() -> None:
    with odd_answers() as ours, odd_answers(PYTHONPATH=str(ROOT / "src")) as theirs:
        told = [json.loads(process.communicate()[0]) for process in (theirs, ours)]
    pure, compiled = told
    assert len(compiled) > 1000
    differing = {case: (said, pure[case]) for case, said in compiled.items() if said != pure[case]}
    assert differing == {}
