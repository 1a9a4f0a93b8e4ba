"""A cluster written back as manifests, and made again from them."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from kubesched.apiserver import Server
from kubesched.apiserver.resources import core
from kubesched.apiserver.store import Change
from kubesched.apiserver.writing import create_object
from kubesched.cli import apiserver as command
from kubesched.cli.main import main
from kubesched.manifests import read_path
from tests.apiserver.lively import Json, Lively, workload

APPS = "/apis/apps/v1/namespaces/default"


FROM_THE_START = {
    f"{plural} {key}" for (_, plural), collection in Server().store.collections.items() for key in collection.items
}


def load(path: Path) -> Server:
    server = Server(node_simulator=False)
    server.load(document.manifest for document in read_path(path))
    return server


def bare(server: Server) -> dict[str, Json]:
    """Every object but those that every cluster has, and without what a run adds."""
    found = {}
    for (_, plural), collection in server.store.collections.items():
        if plural in ("events", "leases"):
            continue
        for key, stored in collection.items.items():
            document = stored.document()
            del document["metadata"]["resourceVersion"]
            found[f"{plural} {key}"] = document
    return {name: document for name, document in found.items() if name not in FROM_THE_START}


@pytest.mark.parametrize("target", ["cluster.yaml", "cluster.json", "folder"])
def test_round_trip(tmp_path: Path, target: str) -> None:
    cluster = Lively()
    cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "web", replicas=2))
    cluster.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    cluster.run()
    path = tmp_path / "kept" / target
    count = cluster.server.save(path)
    assert all(file.read_bytes().endswith(b"\n") for file in (path.iterdir() if path.is_dir() else [path]))
    again = load(path)
    assert count > 10
    assert bare(again) == bare(cluster.server)
    assert again.api.get("namespaces", "", "team") is not None
    assert "managedFields" not in "".join(p.read_text() for p in [path] if p.is_file())


def test_objects_that_are_gone_leave_the_folder(tmp_path: Path) -> None:
    cluster = Lively(controllers=())
    cluster.ok("POST", f"{APPS}/deployments", workload("Deployment", "web"))
    cluster.server.save(tmp_path)
    assert (tmp_path / "deployments.yaml").exists()
    cluster.ok("DELETE", f"{APPS}/deployments/web")
    cluster.server.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["nodes.yaml"]


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["apiserver", *arguments])


def test_unknown_controllers_end_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apiserver", "--controllers", "*,-nope"]) == 2
    assert capsys.readouterr().err.startswith('kubesched: --controllers: "-nope" is not a known controller')


def test_a_port_that_is_taken_ends_the_command_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["apiserver", "--port", str(port)]) == 1
    assert capsys.readouterr().err == f"kubesched: cannot listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_a_token_that_clients_will_not_send_is_told(tls: bool, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = parsed("--port", "0", "--token", "x", *["--tls"][: int(tls)])
    assert command.run(arguments, lambda server: os.kill(os.getpid(), signal.SIGTERM)) == 0
    assert capsys.readouterr().err.count("--token without --tls: ") == int(not tls)


def test_command_keeps_its_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs of the command on one folder: what the first was told the second still knows, over TLS."""
    kept, kubeconfig = tmp_path / "kept", tmp_path / "kubeconfig"
    arguments = ("--port", "0", "--load", str(kept), "--save", str(kept), "--tls", "--kubeconfig-out", str(kubeconfig))
    names: list[list[str]] = []

    def stop_after(server: Server) -> None:
        names.append([s.name for s in server.store.collections["", "nodes"].items.values()])
        server.load([{"kind": "Node", "apiVersion": "v1", "metadata": {"name": f"n{len(names)}"}}])
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)

    for _ in range(2):
        assert command.run(parsed(*arguments), stop_after) == 0
    assert names == [[], ["n1"]]
    assert "serving https://127.0.0.1:" in capsys.readouterr().out
    assert "certificate-authority-data" in kubeconfig.read_text()


def test_command_with_default_admission() -> None:
    """Pods get an account's token as soon as the controllers have made the account."""
    seen: list[Json] = []

    def look(server: Server) -> None:
        server.store.collections["", "serviceaccounts"].add_watcher(Then(server))

    class Then:
        def __init__(self, server: Server) -> None:
            self._server = server

        def offer(self, change: Change) -> None:
            if change.stored.namespace == "default":
                asyncio.get_running_loop().call_soon(self._create)

        def _create(self) -> None:
            pod = {
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            document = {"kind": "Pod", "apiVersion": "v1", **pod}
            made, _ = create_object(self._server.api, core("pods"), document)
            seen.append(made)
            os.kill(os.getpid(), signal.SIGTERM)

    assert command.run(parsed("--port", "0", "--default-admission"), look) == 0
    (made,) = seen
    assert made["spec"]["serviceAccountName"] == "default"
    assert made["spec"]["volumes"][0]["name"].startswith("kube-api-access-")
    assert made["spec"]["containers"][0]["volumeMounts"][0]["readOnly"] is True
