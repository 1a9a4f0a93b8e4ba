"""`import kubesched` and `--help` load nothing heavy, and what is wrong is said in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "msgspec", "aiohttp", "yaml", "rich", "prometheus_client", "cryptography", "asyncio", "uvloop")

LIGHT = {
    "import": "import kubesched",
    "help": "from kubesched.cli.main import main; main(['--help'])",
    "run --help": "from kubesched.cli.main import main; main(['run', '--help'])",
    "apiserver --help": "from kubesched.cli.main import main; main(['apiserver', '--help'])",
    "explain --help": "from kubesched.cli.main import main; main(['explain', '--help'])",
    "queue --help": "from kubesched.cli.main import main; main(['queue', '--help'])",
    "version": "from kubesched.cli.main import main; main(['--version'])",
}


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT)
def test_nothing_heavy_is_imported(code):
    program = f"""
import sys
try:
    {code}
except SystemExit as end:
    assert not end.code, end.code
loaded = [name for name in {HEAVY!r} if name in sys.modules]
sys.exit(f'loaded: {{loaded}}' if loaded else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


WRONG = {
    "no command": ([], 2, "the following arguments are required: COMMAND"),
    "unknown command": (["frobnicate"], 2, "invalid choice: 'frobnicate'"),
    "load without embedded": (["run", "--load", "x"], 1, "go with --embedded"),
    "config is missing": (["run", "--config", "nowhere.yaml"], 1, "nowhere.yaml"),
    "kubeconfig is missing": (["run", "--kubeconfig", "nowhere.conf"], 1, "nowhere.conf"),
    "manifest is missing": (["run", "--embedded", "--load", "nowhere"], 1, "nowhere"),
    "unknown gate": (["run", "--embedded", "--feature-gates", "Nope=true"], 1, "Nope"),
    "gate without value": (["run", "--embedded", "--feature-gates", "Nope"], 1, "missing bool value for Nope"),
}


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_without_a_traceback(arguments, code, message, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "kubesched", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


BROKEN_FILES = {
    "broken yaml": ("cluster.yaml", "a: [1,\nb: }"),
    "not a manifest": ("cluster.yaml", "just text"),
    "no kind": ("cluster.yaml", "apiVersion: v1\nmetadata: {name: x}"),
    "odd quantity": (
        "cluster.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: many}}",
    ),
    "binary": ("cluster.yaml", "\x00\x01\x02"),
}


@pytest.mark.parametrize(("name", "content"), BROKEN_FILES.values(), ids=BROKEN_FILES)
def test_a_broken_manifest_is_named(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "kubesched", "run", "--embedded", "--until-settled", "--load", name],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_an_early_sighup_ends_nothing():
    """Sent while the configuration is being read, before there is a handler for it."""
    program = """
import os, signal, sys
from kubesched.app import options

def run_options(flags, load=options.run_options):
    os.kill(os.getpid(), signal.SIGHUP)
    return load(flags)

options.run_options = run_options
from kubesched.cli.main import main
sys.exit(main(["--config", "nowhere.yaml"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, "nowhere.yaml" in done.stderr) == (1, True), done.stderr


def test_placements_show_names_whole_however_narrow_the_terminal():
    from io import StringIO

    from rich.console import Console

    from kubesched.cli.placements import show
    from tests.build import make_node, make_pod
    from tests.harness import Harness

    harness, name = Harness(), "a-pod-of-a-deployment-with-quite-a-long-name-7c5ddbdf54-x2x9z"
    node = f"node-{'of-a-pool-' * 4}1"
    harness.state.set_node(make_node(node).zone("europe-west1-b").obj())
    harness.state.set_pod(make_pod(name).node(node).obj())
    out = StringIO()
    show(harness.state, harness.scheduler.queue, Console(file=out, width=80))
    assert all(text in out.getvalue() for text in (node, f"default/{name}", "europe-west1-b"))
