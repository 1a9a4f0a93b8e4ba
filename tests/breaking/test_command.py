"""Where output goes that cannot go anywhere: one line about it, no traceback, and the exit code says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubesched.cli.main import main
from tests.build import make_node, make_pod

FULL = Path("/dev/full")


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.json"
    path.write_bytes(make_node("n1").json() + make_pod("p").json())
    return path


def kubesched(*arguments: str | Path, **streams: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubesched", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(command, text=True, timeout=60, check=False, **streams)  # type: ignore[call-overload,no-any-return]


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk(manifests: Path) -> None:
    with FULL.open("w") as full:
        ended = kubesched("explain", "-f", manifests, "--pod", "p", stdout=full)
    assert (ended.returncode, ended.stderr) == (1, "kubesched: No space left on device\n")


@pytest.mark.parametrize("arguments", [("--version",), ("run", "--help")], ids=" ".join)
def test_nobody_reads_on(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = kubesched(*arguments, stdout=writing)
    os.close(writing)
    assert ended.returncode in (0, 1)
    assert "Traceback" not in ended.stderr


def test_standard_streams_that_are_closed(manifests: Path) -> None:
    """Numbers 0 to 2 would otherwise go to the first files and sockets that are opened."""
    script = '"$0" -m kubesched run --embedded --load "$1" --until-settled <&- >&- 2>&-'
    ended = subprocess.run(["sh", "-c", script, sys.executable, manifests], timeout=60, check=False)
    assert ended.returncode == 0


def test_files_that_cannot_be_written(manifests: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere" / "config"
    ended = kubesched("run", "--embedded", "--load", manifests, "--until-settled", "--kubeconfig-out", nowhere)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"kubesched: --kubeconfig-out {nowhere}: No such file or directory"


@pytest.mark.parametrize("port", ["99999", "-1", "x"])
def test_a_port_that_is_none(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["apiserver", f"--port={port}"])
    assert ended.value.code == 2
    assert "want 0 to 65535" in capsys.readouterr().err
