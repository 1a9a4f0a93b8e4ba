"""How commands find the way to a running scheduler, and what of the command line makes no sense."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cli import asking
from kubesched.cli.main import main
from kubesched.client.kubeconfig import ClientConfig, PemSource
from tests.build import make_node, make_pod

CLUSTER = {
    "server": "https://api.example:6443",
    "certificate-authority-data": "Y2x1c3Rlcg==",
    "tls-server-name": "api.internal",
    "proxy-url": "http://proxy.example:3128",
}
OF_CLUSTER = PemSource(data=b"cluster")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home without a kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    content = {
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "c", "cluster": CLUSTER}],
        "users": [{"name": "me", "user": {"token": "mine"}}, {"name": "you", "user": {"token": "yours"}}],
        "contexts": [
            {"name": "lab", "context": {"cluster": "c", "user": "me", "namespace": "shop"}},
            {"name": "other", "context": {"cluster": "c", "user": "you"}},
        ],
    }
    path = tmp_path / "some.conf"
    path.write_text(yaml.safe_dump(content))
    (tmp_path / "ca.pem").write_text("a certificate")
    return path


def connected(*arguments: str) -> ClientConfig:
    parser = argparse.ArgumentParser()
    asking.add_flags(parser)
    return asking.connection(parser.parse_args(arguments))


WAYS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "a kubeconfig alone: a scheduler on this machine": (
        ["--kubeconfig={conf}"],
        {"server": "https://127.0.0.1:10259", "ca": OF_CLUSTER, "token": "mine", "proxy": "", "namespace": "shop"},
    ),
    "a server: the cluster's authority and proxy hold, the name of the API server does not": (
        ["--kubeconfig={conf}", "--server=https://s.example:10259/"],
        {
            "server": "https://s.example:10259",
            "ca": OF_CLUSTER,
            "name": "",
            "proxy": "http://proxy.example:3128",
            "insecure": False,
        },
    ),
    "a server without scheme": (["--server=s.example:10259"], {"server": "https://s.example:10259", "token": ""}),
    "another context": (["--kubeconfig={conf}", "--context=other"], {"token": "yours", "namespace": "default"}),
    "another authority": (
        ["--kubeconfig={conf}", "--certificate-authority={home}/ca.pem"],
        {"ca": PemSource(path="{home}/ca.pem"), "insecure": False},
    ),
    "no verification": (
        ["--kubeconfig={conf}", "--insecure-skip-tls-verify"],
        {"ca": None, "insecure": True, "token": "mine"},
    ),
}


@pytest.mark.parametrize(("arguments", "expected"), WAYS.values(), ids=WAYS)
def test_where_to_and_as_whom(arguments, expected, kubeconfig):
    home = str(kubeconfig.parent)
    found = connected(*(each.format(conf=kubeconfig, home=home) for each in arguments))
    cluster = found.cluster
    known = {
        "server": cluster.server,
        "ca": cluster.ca,
        "name": cluster.tls_server_name,
        "proxy": cluster.proxy_url,
        "insecure": cluster.insecure_skip_tls_verify,
        "token": found.user.token,
        "namespace": found.namespace,
    }
    if isinstance(expected.get("ca"), PemSource) and expected["ca"].path:
        expected = {**expected, "ca": PemSource(path=expected["ca"].path.format(home=home))}
    assert {name: known[name] for name in expected} == expected


def test_the_kubeconfig_that_everybody_uses_counts_when_none_is_named(kubeconfig, home, monkeypatch):
    assert connected("--server", "https://s").user.token == ""
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(kubeconfig.read_text())
    assert connected("--server", "https://s").user.token == "mine"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert connected("--context", "other").user.token == "yours"


@pytest.mark.parametrize("command", [["queue"], ["explain", "web"]], ids=["queue", "explain"])
def test_a_kubeconfig_in_the_environment_is_enough_to_ask(command, kubeconfig, monkeypatch, capsys):
    asked = []

    def ask(connection: ClientConfig, path: str) -> dict[str, Any]:
        asked.append((connection.cluster.server + path, connection.user.token))
        return {"pod": "shop/web", "queue": "bound"}

    monkeypatch.setattr(asking, "ask", ask)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setattr("sys.stdin", io.StringIO('{"active": [], "binding": 7}'))
    assert main(command) == 0
    path = "/debug/queue" if command == ["queue"] else "/debug/pods/shop/web"
    assert asked == [(f"https://127.0.0.1:10259{path}", "mine")]
    capsys.readouterr()
    if command == ["queue"]:
        assert main(["queue", "-"]) == 0
        assert "7 being bound" in capsys.readouterr().out and len(asked) == 1


def test_nobody_waits_for_a_dump_to_be_typed(capsys):
    assert main(["queue"]) == 2
    said = "Name a scheduler (--server, --kubeconfig, $KUBECONFIG, ~/.kube/config) or a dump (FILE, - for"
    assert said in capsys.readouterr().err


WRONG = {
    "no pod": (["explain", "--server", "https://s"], "name one pod"),
    "two pods": (["explain", "a", "--pod", "b", "--server", "https://s"], "name one pod"),
    "nothing to ask": (["explain", "web"], "explain from manifests (-f), or ask a running scheduler"),
    "both": (["explain", "web", "-f", "objects.yaml", "--server", "https://s"], "one of them"),
    "a plugin of one's own": (
        ["explain", "web", "--server", "https://s", "--plugin", "a.py:B"],
        "--config, --plugin and --details go with -f",
    ),
    "two dumps": (["queue", "a.json", "-f", "b.json"], "one dump"),
    "a dump and a scheduler": (["queue", "-f", "dump.json", "--server", "https://s"], "one of them"),
    "no such kubeconfig": (["explain", "web", "--kubeconfig", "nowhere.conf"], "nowhere.conf does not exist"),
    "no such context": (["queue", "--kubeconfig", "{conf}", "--context", "x"], "no context named 'x'"),
    "no such authority": (
        ["queue", "--server", "https://s", "--certificate-authority", "nowhere.pem"],
        "--certificate-authority: nowhere.pem does not exist",
    ),
    "an authority and none": (
        ["queue", "--server", "https://s", "--certificate-authority", "x", "--insecure-skip-tls-verify"],
        "exclude each other",
    ),
    "no URL": (["queue", "--server", "ftp://s"], "--server: 'ftp://s' is no http or https URL"),
    "no port": (["queue", "--server", "https://s:many"], "is no http or https URL"),
    "a query": (["queue", "--server", "https://s/?a=b"], "is no http or https URL"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG)
def test_what_makes_no_sense_is_one_line(arguments, says, kubeconfig, capsys):
    assert main([each.format(conf=kubeconfig) for each in arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_an_authority_that_is_none_is_said(kubeconfig, capsys):
    authority = str(kubeconfig.parent / "ca.pem")
    assert main(["queue", "--server", "https://127.0.0.1:1", "--certificate-authority", authority]) == 2
    error = capsys.readouterr().err
    assert authority in error and error.count("\n") == 1


def test_offline_too_a_pod_is_named_without_a_flag_and_with_a_namespace(tmp_path, capsys):
    file = tmp_path / "objects.yaml"
    node, pod = make_node("n1").capacity(cpu=4, pods=10), make_pod("web").namespace("shop")
    file.write_text(yaml.safe_dump_all([node.dict(), pod.dict()]))
    assert main(["explain", "web", "-n", "shop", "-f", str(file)]) == 0
    assert "shop/web: would go to n1" in capsys.readouterr().out
