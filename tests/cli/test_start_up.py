"""`import kubesched` and `--help` load nothing heavy, and what is wrong is said in one line."""

from __future__ import annotations

import os
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
    "misspelt field": (
        "cluster.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {contaners: [{name: c, image: i}]}",
    ),
    "name that is none": ("cluster.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: A_b}"),
    "class that is not there": (
        "cluster.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {priorityClassName: nope, containers: [{name: c, image: i}]}",
    ),
}


@pytest.mark.parametrize(
    "command", [("run", "--embedded", "--until-settled"), ("apiserver", "--port", "0")], ids=" ".join
)
@pytest.mark.parametrize(("name", "content"), BROKEN_FILES.values(), ids=BROKEN_FILES)
def test_a_broken_manifest_is_named(name, content, command, tmp_path):
    (tmp_path / name).write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "kubesched", *command, "--load", name],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == (1 if command[0] == "run" else 2), done.stderr
    assert name in done.stderr
    assert "Traceback" not in done.stderr


WIDGETS = "\n---\n".join(f"apiVersion: foo.io/v1\nkind: Widget\nmetadata: {{name: {name}}}" for name in ("w1", "w2"))


def test_kinds_of_other_people_in_a_dump_are_left_out(tmp_path):
    (tmp_path / "cluster.yaml").write_text(WIDGETS)
    done = subprocess.run(
        [sys.executable, "-m", "kubesched", "run", "--embedded", "--until-settled", "--load", "cluster.yaml"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "kind=foo.io/v1/Widget count=2" in done.stderr


def test_they_are_not_left_out_of_a_cluster_that_is_to_be_saved(tmp_path):
    (tmp_path / "cluster.yaml").write_text(WIDGETS)
    done = subprocess.run(
        [sys.executable, "-m", "kubesched", "apiserver", "--port=0", "--load=cluster.yaml", "--save=cluster.yaml"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, (tmp_path / "cluster.yaml").read_text()) == (2, WIDGETS)
    assert 'cluster.yaml, document 1: no kind "Widget" is known in version "foo.io/v1"' in done.stderr


PLUGIN = """
from kubesched.framework import Plugin

class Raises(Plugin):
    name = "Raises"

    def __init__(self, args, handle):
        raise ValueError("no token")

    def score(self, state, pod, node):
        return 1

class TooHigh(Plugin):
    name = "TooHigh"

    def score(self, state, pod, node):
        return 1000
"""
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: 4, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 8, example.com/thing-with-a-long-name: 1}}}]}
"""


def explain(pod, *arguments, folder):
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "plugins.py").write_text(PLUGIN)
    return subprocess.run(
        [sys.executable, "-m", "kubesched", "explain", pod, "-f", "cluster.yaml", *arguments],
        capture_output=True, text=True, check=False, cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
    )  # fmt: skip


def test_a_plugin_that_raises_when_it_is_made_is_named_with_its_line(tmp_path):
    done = explain("web", "--plugin", "plugins.py:Raises", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'kubesched: initializing plugin "Raises": ValueError: no token (plugins.py, line 8)\n'


def test_an_attempt_that_fails_is_no_success(tmp_path):
    done = explain("web", "--plugin", "plugins.py:TooHigh", folder=tmp_path)
    assert done.returncode == 1
    assert "invalid score 1000" in done.stdout


def test_programs_read_messages_in_one_line(tmp_path):
    done = explain("large", folder=tmp_path)
    message = "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient example.com/thing-with-a-long-name."
    assert (done.returncode, message in done.stdout) == (0, True), done.stdout


FLAGS_NAMED = {
    "kubeconfig": (["--kubeconfig", "nowhere"], "--kubeconfig: nowhere does not exist"),
    "kubeconfig of the file": (
        ["--config", "config.yaml"],
        "config.yaml: clientConnection.kubeconfig: nowhere does not exist",
    ),
    "kubeconfig to write": (
        ["--embedded", "--kubeconfig-out", "nowhere/x"],
        "--kubeconfig-out nowhere/x: No such file or directory",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), FLAGS_NAMED.values(), ids=FLAGS_NAMED)
def test_a_file_that_is_not_there_is_told_with_who_names_it(arguments, message, tmp_path):
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "clientConnection: {kubeconfig: nowhere}"
    )
    done = subprocess.run(
        [sys.executable, "-m", "kubesched", "run", *arguments],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert f"kubesched: {message}\n" in done.stderr


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
