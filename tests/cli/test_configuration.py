"""The configuration through the command: exit codes, messages and `--write-config-to`, as recorded and beyond."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubesched.cli.main import main
from kubesched.config import FeatureGates, dump, load
from tests.config import test_fields, test_invalid
from tests.config.test_recorded import DEFAULTED, IN_OUR_WORDS, INVALID, ON_SEVERAL_LINES, with_kubeconfig


def run(folder: Path, text: str | bytes, *more: str) -> int:
    file = folder / "sched.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return main(["--config", str(file), *more])


@pytest.mark.parametrize("case", DEFAULTED, ids=[case["name"] for case in DEFAULTED])
def test_write_config_to_writes_what_the_original_writes(case, tmp_path, capsys):
    out = tmp_path / "out.yaml"
    assert run(tmp_path, with_kubeconfig(case["input"]), "--write-config-to", str(out)) == 0, capsys.readouterr().err
    expected = yaml.safe_load(case["output"])
    # The recorder put a kubeconfig of its own into the configuration.
    expected["clientConnection"]["kubeconfig"] = "" if "clientConnection:" in case["input"] else "KUBECONFIG"
    assert yaml.safe_load(out.read_text()) == expected


@pytest.mark.parametrize("case", INVALID, ids=[case["name"] for case in INVALID])
def test_recorded_exit_code_and_message(case, tmp_path, capsys):
    code = run(tmp_path, with_kubeconfig(case["input"]), "--write-config-to", str(tmp_path / "out.yaml"))
    told = capsys.readouterr().err
    assert code == case["exitCode"], told
    assert "Traceback" not in told
    if case["exitCode"]:
        expected = ON_SEVERAL_LINES.get(case["name"]) or [IN_OUR_WORDS.get(case["name"], case["message"])]
        lines = [line for line in told.splitlines() if line.startswith("kubesched: ")]
        assert len(lines) == len(expected)
        assert all(message in line for message, line in zip(expected, lines, strict=True))
        assert not (tmp_path / "out.yaml").exists()
    else:
        assert yaml.safe_load((tmp_path / "out.yaml").read_text())["profiles"]


@pytest.mark.parametrize("case", test_invalid.CASES, ids=[case[0] for case in test_invalid.CASES])
def test_our_own_bad_inputs_end_with_1_and_a_line_a_problem(case, tmp_path, capsys):
    _, text, problems = case
    assert run(tmp_path, text) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told
    lines = [line for line in told.splitlines() if line.startswith("kubesched: ")]
    assert len(lines) == len(problems)
    for line, (number, message) in zip(lines, problems, strict=True):
        assert message in line
        assert line.startswith(f"kubesched: {tmp_path / 'sched.yaml'}{f':{number}' if number else ''}: ")


def test_there_are_enough_of_them():
    assert len(test_invalid.CASES) >= 30


def test_every_field_comes_out_again_keys_too(tmp_path, capsys):
    """Keys are left out of everything that is shown, but not of a file that will be loaded again."""
    out = tmp_path / "out.yaml"
    gates = "--feature-gates=StorageCapacityScoring=true"
    assert run(tmp_path, test_fields.WHOLE, gates, "--write-config-to", str(out)) == 0, capsys.readouterr().err
    again = load(out, gates=FeatureGates({"StorageCapacityScoring": True}))
    assert again == test_fields.CONFIG
    assert out.read_text() == dump(test_fields.CONFIG, with_keys=True)


def test_without_a_configuration_the_defaults_are_written(tmp_path):
    out = tmp_path / "out.yaml"
    assert main(["--write-config-to", str(out)]) == 0
    assert yaml.safe_load(out.read_text()) == yaml.safe_load(dump(load()))


def test_what_cannot_be_written(tmp_path, capsys):
    assert main(["--write-config-to", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"kubesched: --write-config-to {tmp_path}: Is a directory")


def test_a_process_of_its_own(tmp_path):
    (tmp_path / "sched.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "kubesched", "--config=sched.yaml"],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("kubesched: sched.yaml:1: ")
    assert "change apiVersion to kubescheduler.config.k8s.io/v1. Since v1beta3: " in line
