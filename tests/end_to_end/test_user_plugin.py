"""A plugin of the user's own takes part in a run, by `--plugin` and by entry point."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.build import make_node, make_pod

SOURCE = """
from kubesched.framework import Plugin, Status


class GpuModel(Plugin):
    name = "GpuModel"

    def filter(self, state, pod, node):
        want = pod.metadata.annotations.get("gpu-model")
        return None if want in (None, node.labels.get("gpu-model")) else Status.unschedulable("wrong GPU model")

    def score(self, state, pod, node):
        return 100 if node.name == "favourite" else 0
"""

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "GpuModel", "weight": 100}]}},
        }
    ],
}


async def run(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesched", "run", *arguments, cwd=folder,
        env={**os.environ, "COLUMNS": "200", **(environment or {})},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    nodes = [make_node(name).capacity(cpu=4, memory="8Gi", pods=10) for name in ("plain", "favourite", "old-gpu")]
    nodes.append(make_node("new-gpu").capacity(cpu=4, memory="8Gi", pods=10).label("gpu-model", "h200"))
    pods = [
        make_pod("wants-gpu").annotation("gpu-model", "h200"),
        make_pod("wants-nothing"),
        make_pod("wants-the-impossible").annotation("gpu-model", "z9"),
    ]
    objects = [node.dict() for node in nodes] + [pod.dict() for pod in pods]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    (tmp_path / "gpu_model.py").write_text(SOURCE)
    return tmp_path


SETTLED = ("--embedded", "--load", "cluster.yaml", "--until-settled", "--config", "config.yaml")


def check(code: int, output: str) -> None:
    assert code == 0, output
    assert "pod=default/wants-gpu node=new-gpu" in output
    assert "pod=default/wants-nothing node=favourite" in output
    assert "0/4 nodes are available: 4 wrong GPU model." in output


async def test_by_file(folder):
    check(*await run(folder, *SETTLED, "--plugin", "gpu_model.py:GpuModel"))


async def test_by_file_without_being_named_in_a_configuration(folder):
    code, output = await run(
        folder, "--embedded", "--load", "cluster.yaml", "--until-settled", "--plugin", "gpu_model.py:GpuModel"
    )
    assert code == 0, output
    assert "pod=default/wants-gpu node=new-gpu" in output


async def test_by_entry_point(folder):
    install(folder, "gpu-model", "GpuModel = gpu_model:GpuModel")
    check(*await run(folder, *SETTLED, environment={"PYTHONPATH": str(folder)}))


def install(folder: Path, name: str, entry_points: str) -> None:
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kubesched.plugins]\n{entry_points}\n")


BROKEN = {
    "raises": ("raise RuntimeError('no driver')", "RuntimeError: no driver"),
    "exits": ("raise SystemExit('no licence')", "SystemExit: no licence"),
    "lacks the class": ("", "AttributeError: module 'spoilt' has no attribute 'Spoilt'"),
    "no plugin": ("class Spoilt: pass", "is not a subclass of kubesched.framework.Plugin"),
    "the name of one of ours": (
        SOURCE.replace('"GpuModel"', '"NodeName"').replace("GpuModel", "Spoilt"),
        "a plugin named NodeName is among those of kube-scheduler",
    ),
}


@pytest.mark.parametrize(("source", "message"), BROKEN.values(), ids=BROKEN)
async def test_an_installed_plugin_that_is_broken_matters_only_to_who_wants_it(folder, source, message):
    install(folder, "gpu-model", "GpuModel = gpu_model:GpuModel")
    install(folder, "spoilt-thing", "Spoilt = spoilt:Spoilt")
    (folder / "spoilt.py").write_text(source)
    environment = {"PYTHONPATH": str(folder)}
    code, output = await run(folder, *SETTLED, environment=environment)
    check(code, output)
    told = [line for line in output.splitlines() if "going on without a plugin" in line]
    assert len(told) == 1
    assert "entry point Spoilt = spoilt:Spoilt of spoilt-thing 1.0: " in told[0] and message in told[0]

    profile = {"plugins": {"filter": {"enabled": [{"name": "Spoilt"}]}}}
    (folder / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "profiles": [profile]}))
    code, output = await run(folder, *SETTLED, environment=environment)
    assert code == 1
    assert "config.yaml:7: " in output
    assert 'FilterPlugin "Spoilt" cannot be used: entry point Spoilt = spoilt:Spoilt of spoilt-thing 1.0: ' in output
    assert message in output
    assert "Traceback" not in output


async def test_by_module(folder):
    check(*await run(folder, *SETTLED, "--plugin", "gpu_model:GpuModel", environment={"PYTHONPATH": str(folder)}))


WRONG = {
    "no colon": ("gpu_model.py", "want FILE:CLASS or MODULE:CLASS"),
    "no file": ("missing.py:GpuModel", "no such file: missing.py"),
    "no class": ("gpu_model.py:Nope", "gpu_model.py has no Nope"),
    "no module": ("nowhere.at_all:GpuModel", "ModuleNotFoundError"),
    "not a plugin": ("pathlib:Path", "is not a subclass of kubesched.framework.Plugin"),
    "broken file": ("broken.py:Broken", "SyntaxError"),
    "wrong signature": ("misshapen.py:Misshapen", "filter must accept filter(self, state, pod, node)"),
    "a name of ours": ("namesake.py:Namesake", "a plugin named NodeName is among those of kube-scheduler"),
    "raises when made": ("fussy.py:Fussy", 'initializing plugin "Fussy": ValueError: no license'),
}


@pytest.mark.parametrize(("spec", "message"), WRONG.values(), ids=WRONG)
async def test_what_is_wrong_with_a_plugin_is_said_in_one_line(folder, spec, message):
    (folder / "broken.py").write_text("class Broken(:\n")
    (folder / "misshapen.py").write_text(
        "from kubesched.framework import Plugin\nclass Misshapen(Plugin):\n"
        "    name = 'Misshapen'\n    def filter(self, pod):\n        return None\n"
    )
    (folder / "namesake.py").write_text(
        "from kubesched.framework import Plugin\nclass Namesake(Plugin):\n"
        "    name = 'NodeName'\n    def filter(self, state, pod, node):\n        return None\n"
    )
    (folder / "fussy.py").write_text(
        "from kubesched.framework import Plugin\nclass Fussy(Plugin):\n    name = 'Fussy'\n"
        "    def __init__(self, args, handle):\n        raise ValueError('no license')\n"
        "    def filter(self, state, pod, node):\n        return None\n"
    )
    code, output = await run(folder, "--embedded", "--load", "cluster.yaml", "--plugin", spec)
    assert code == 1
    assert message in output
    assert "Traceback" not in output


async def test_a_plugin_that_always_fails_does_not_keep_a_run_from_its_end(folder: Path) -> None:
    """A typo in the first plugin one writes: the pod is tried a few times, and then the table says why."""
    (folder / "gpu_model.py").write_text(SOURCE.replace("pod.metadata.annotations", "pod.metadata.anotations"))
    short = CONFIG | {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
    (folder / "config.yaml").write_text(yaml.safe_dump(short))
    code, output = await run(folder, *SETTLED, "--plugin", "gpu_model.py:GpuModel")
    assert code == 0, output
    table = output[output.rindex("wants-nothing") :]
    assert "has no attribute 'anotations'" in output
    assert "AttributeError" in table, table
