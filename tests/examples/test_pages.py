"""The example plugins do what their pages say, started as their pages say."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "plugins"

#: What `make run` does with LOAD and ARGS.
MAKE = {
    "run": ["run", "--embedded", "--load", "$(LOAD)", "--until-settled", "$(ARGS)"],
    "serve": ["run", "--embedded", "--load", "$(LOAD)", "$(ARGS)"],
}


def test_the_makefile_is_as_assumed():
    text = (ROOT / "Makefile").read_text()
    for arguments in MAKE.values():
        assert f"$(BIN)/kubesched {' '.join(arguments)}\n" in text
    assert "LOAD ?= examples/cluster\n" in text


def test_make_alone_tells_all_there_is():
    text = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z][a-z0-9-]*):(?!=)", text, re.MULTILINE)
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None and sorted(phony[1].split()) == sorted(targets)
    done = subprocess.run(["make", "-C", str(ROOT), "--no-print-directory"], capture_output=True, text=True, check=True)
    assert [line.split()[1] for line in done.stdout.splitlines()] == targets


def command(name: str, target: str = "run") -> list[str]:
    """The arguments of kubesched behind the `make` command of a page."""
    page = (EXAMPLES / name / "README.md").read_text()
    block = re.search(rf"^    make {target} (?:.*\\\n)*.*$", page, re.MULTILINE)
    assert block is not None
    words = shlex.split(block[0].replace("\\\n", " "))
    given = dict(word.split("=", 1) for word in words[2:])
    arguments: list[str] = []
    for word in MAKE[target]:
        if word == "$(ARGS)":
            arguments += shlex.split(given["ARGS"])
        else:
            arguments.append(given.get("LOAD", "examples/cluster") if word == "$(LOAD)" else word)
    return arguments


async def run(arguments: list[str]) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesched", *arguments, "--secure-port=0", cwd=ROOT,
        env={**os.environ, "COLUMNS": "250"}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    assert "Traceback" not in output.decode(), output.decode()
    return output.decode()


def placed(output: str) -> dict[str, str]:
    return dict(re.findall(r"pod scheduled pod=default/(\S+) node=(\S+)", output))


async def test_my_custom_plugins():
    output = await run(command("my_custom_plugins"))
    nodes = placed(output)
    # The one big node has GPUs and a taint; among the others the emptiest one wins.
    assert {nodes[f"web-{number}"] for number in (1, 2, 3)} <= {"worker-a1", "worker-a2", "worker-b1", "worker-b2"}
    config = (EXAMPLES / "my_custom_plugins" / "config.yaml").read_text()
    assert len(config.splitlines()) == 10
    assert config.rstrip() in (ROOT / "README.md").read_text()


async def test_gpu_packing():
    output = await run(command("gpu_packing"))
    nodes = placed(output)
    assert len({nodes[f"train-{number}"] for number in (1, 2, 3)}) == 1
    assert nodes["train-1"].startswith("h200")
    assert nodes["infer-1"] == nodes["infer-2"]
    assert nodes["infer-1"].startswith("l4")
    assert nodes["web-1"] == "plain"
    reasons = "1 Insufficient example.com/gpu, 4 node(s) had no GPU of a wished model."
    assert f"0/5 nodes are available: {reasons}" in output
    assert reasons in (EXAMPLES / "gpu_packing" / "README.md").read_text()


async def test_price_aware():
    nodes = placed(await run(command("price_aware")))
    assert {nodes[f"batch-{number}"] for number in (1, 2, 3)} == {"node-b"}
    assert nodes["settled"] == "node-a"


async def test_maintenance_window():
    output = await run(command("maintenance_window"))
    nodes = placed(output)
    assert (nodes["short"], nodes["endless"], nodes["daemon"]) == ("steady", "steady", "serviced")
    assert "1 node(s) were in or too close to their maintenance window" in output


async def test_coscheduling():
    nodes = placed(await run(command("coscheduling")))
    groups = [{name for name in nodes if name.startswith(group)} for group in ("ring", "mesh")]
    assert sorted(map(len, groups)) == [0, 3]


@pytest.mark.parametrize(
    "name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name[0] != "_")
)
def test_each_has_a_page_a_configuration_and_uses_the_public_api_only(name):
    folder = EXAMPLES / name
    assert (folder / "README.md").is_file()
    assert (folder / "config.yaml").is_file()
    imported = set(re.findall(r"^\s*(?:from|import) (kubesched\S*)", (folder / "plugin.py").read_text(), re.MULTILINE))
    assert imported == {"kubesched.framework"}
