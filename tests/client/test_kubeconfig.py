from __future__ import annotations

import base64
import os

import pytest
import yaml

from kubesched.client.kubeconfig import (
    ClusterConfig,
    KubeconfigError,
    PemSource,
    UserConfig,
    exec_cluster_info,
    in_cluster,
    load,
)


def config(**changes):
    """A kubeconfig; `cluster`, `user` and `context` add fields to the only entry of each."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "lab", "user": "me", **changes.pop("context", {})}}],
        "clusters": [{"name": "lab", "cluster": {"server": "https://lab:6443", **changes.pop("cluster", {})}}],
        "users": [{"name": "me", "user": changes.pop("user", {})}],
        **changes,
    }
    return {name: value for name, value in document.items() if value is not ...}


def write(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


def loaded(tmp_path, **changes):
    return load(write(tmp_path / "config", config(**changes)), environ={})


def test_a_plain_one(tmp_path):
    got = loaded(tmp_path, user={"token": "s3cret"}, context={"namespace": "team-a"})
    assert got.cluster == ClusterConfig("https://lab:6443")
    assert got.user.token == "s3cret"
    assert got.namespace == "team-a"
    assert got.source == f"context main of {tmp_path}/config"
    assert "s3cret" not in repr(got)


def test_json_is_yaml_too(tmp_path):
    path = write(tmp_path / "config", '{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k"}}],'
                 '"clusters":[{"name":"k","cluster":{"server":"http://127.0.0.1:8001/"}}]}')  # fmt: skip
    got = load(path, environ={})
    assert got.cluster.server == "http://127.0.0.1:8001"
    assert got.user.token == ""


def test_another_context_on_request(tmp_path):
    document = config()
    document["contexts"].append({"name": "other", "context": {"cluster": "lab2"}})
    document["clusters"].append({"name": "lab2", "cluster": {"server": "https://two"}})
    path = write(tmp_path / "config", document)
    assert load(path, context="other", environ={}).cluster.server == "https://two"


def test_several_files_the_first_to_name_something_wins(tmp_path):
    first = write(tmp_path / "a" / "config", {
        "current-context": "main", "contexts": None,
        "clusters": [{"name": "lab", "cluster": {"server": "https://first", "certificate-authority": "ca.crt"}}],
    })  # fmt: skip
    (tmp_path / "a" / "ca.crt").write_text("CA")
    second = write(tmp_path / "b" / "config", {**config(user={"tokenFile": "token"}), "current-context": "ignored"})
    missing = str(tmp_path / "missing")
    got = load(environ={"KUBECONFIG": os.pathsep.join([missing, "", first, second])})
    assert got.cluster.server == "https://first"
    assert got.cluster.ca == PemSource(path=str(tmp_path / "a" / "ca.crt")), "relative to the file that names it"
    assert got.user.token_file == str(tmp_path / "b" / "token")


def test_the_home_config_is_the_last_resort(tmp_path):
    write(tmp_path / ".kube" / "config", config())
    assert load(environ={"HOME": str(tmp_path)}).cluster.server == "https://lab:6443"
    with pytest.raises(KubeconfigError, match="no API server to talk to"):
        load(environ={"HOME": str(tmp_path / "nowhere")})


def test_everything_about_a_cluster(tmp_path):
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    got = loaded(tmp_path, cluster={
        "certificate-authority-data": base64.b64encode(b"CA").decode(), "tls-server-name": "api.lab",
        "proxy-url": "http://proxy:3128", "extensions": [{"name": "other"}, extension],
    }).cluster  # fmt: skip
    assert got == ClusterConfig(
        "https://lab:6443", PemSource(data=b"CA"), False, "api.lab", "http://proxy:3128", {"audience": "x"}
    )
    assert exec_cluster_info(got) == {
        "server": "https://lab:6443", "tls-server-name": "api.lab", "proxy-url": "http://proxy:3128",
        "certificate-authority-data": base64.b64encode(b"CA").decode(), "config": {"audience": "x"},
    }  # fmt: skip


def test_everything_about_a_user(tmp_path):
    (tmp_path / "me.key").write_text("KEY")
    got = loaded(tmp_path, user={
        "client-certificate-data": base64.b64encode(b"CERT").decode(), "client-certificate": "ignored.crt",
        "client-key": "me.key", "token": "t", "tokenFile": "token",
        "as": "boss", "as-uid": "u1", "as-groups": ["g1", "g2"], "as-user-extra": {"Scopes": ["a", "b"]},
    }).user  # fmt: skip
    assert got.client_certificate == PemSource(data=b"CERT"), "data beats a file"
    assert got.client_key == PemSource(path=str(tmp_path / "me.key"))
    assert (got.token, got.token_file) == ("t", str(tmp_path / "token"))
    assert got.impersonate == (
        ("Impersonate-User", "boss"), ("Impersonate-Uid", "u1"), ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"), ("Impersonate-Extra-scopes", "a"), ("Impersonate-Extra-scopes", "b"),
    )  # fmt: skip


V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


def test_exec_plugins(tmp_path):
    plugin = loaded(tmp_path, user={"exec": {
        "command": "./bin/login", "args": ["--cluster", "lab"], "env": [{"name": "A", "value": "1"}],
        "apiVersion": V1, "interactiveMode": "Never", "provideClusterInfo": True, "installHint": "get it\n",
    }}).user.exec_plugin  # fmt: skip
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/login")
    assert plugin.args == ("--cluster", "lab")
    assert plugin.env == (("A", "1"),)
    assert (plugin.interactive_mode, plugin.provide_cluster_info, plugin.install_hint) == ("Never", True, "get it")
    plugin = loaded(tmp_path, user={"exec": {"command": "login", "apiVersion": V1BETA1, "args": None}}).user.exec_plugin
    assert plugin is not None
    assert (plugin.command, plugin.args, plugin.interactive_mode) == ("login", (), "IfAvailable")


def test_oidc(tmp_path):
    provider = loaded(tmp_path, user={"auth-provider": {"name": "oidc", "config": {
        "idp-issuer-url": "https://issuer/", "client-id": "k", "id-token": "secret-id", "refresh-token": "secret-r",
    }}}).user.oidc  # fmt: skip
    assert provider is not None
    assert (provider.issuer_url, provider.client_id, provider.id_token) == ("https://issuer", "k", "secret-id")
    assert "secret" not in repr(provider)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"current-context": ...}, "current-context is not set", id="no context"),
        pytest.param(
            {"current-context": "x"}, "current-context: no context named 'x'; there are: main", id="unknown context"
        ),
        pytest.param({"current-context": 7}, r"current-context: expected a string \(quote it\), got int", id="number"),
        pytest.param({"kind": "Pod"}, "kind: expected Config, got 'Pod'", id="another kind"),
        pytest.param(
            {"context": {"cluster": "x"}},
            r"contexts\[name=main\].context.cluster: no cluster named 'x'",
            id="unknown cluster",
        ),
        pytest.param(
            {"context": {"cluster": ""}}, r"contexts\[name=main\].context.cluster is not set", id="no cluster"
        ),
        pytest.param(
            {"context": {"user": "x"}}, r"contexts\[name=main\].context.user: no user named 'x'", id="unknown user"
        ),
        pytest.param({"clusters": {"lab": {}}}, "clusters.clusters: expected a list, got dict", id="clusters as a map"),
        pytest.param(
            {"clusters": [{"cluster": {}}]}, r"clusters\[0\].name: expected a string", id="cluster without name"
        ),
        pytest.param({"cluster": {"server": None}}, r"clusters\[name=lab\].cluster.server is not set", id="no server"),
        pytest.param({"cluster": {"server": "ftp://x"}}, "'ftp://x' is not an http or https URL", id="ftp"),
        pytest.param({"cluster": {"server": "https://x:port"}}, "'https://x:port'", id="bad port"),
        pytest.param(
            {"cluster": {"certificate-authority": "gone"}},
            "certificate-authority: .*gone does not exist",
            id="missing CA",
        ),
        pytest.param(
            {"cluster": {"certificate-authority-data": "%"}}, "certificate-authority-data: not base64", id="bad base64"
        ),
        pytest.param(
            {"cluster": {"certificate-authority-data": "QQ==", "insecure-skip-tls-verify": True}},
            "exclude each other",
            id="insecure with CA",
        ),
        pytest.param(
            {"cluster": {"insecure-skip-tls-verify": "yes"}}, "expected true or false, got str", id="text for a flag"
        ),
        pytest.param(
            {"cluster": {"proxy-url": "socks5://p"}},
            "only http and https proxies are supported, got 'socks5'",
            id="socks",
        ),
        pytest.param(
            {"user": {"token": 12345}}, r"users\[name=me\].user.token: expected a string", id="unquoted token"
        ),
        pytest.param(
            {"user": {"token": "a", "username": "b"}}, "more than one way to authenticate", id="token and password"
        ),
        pytest.param(
            {"user": {"client-certificate-data": "QQ=="}}, "client-certificate is set without client-key", id="no key"
        ),
        pytest.param(
            {"user": {"client-key-data": "QQ=="}}, "client-key is set without client-certificate", id="no certificate"
        ),
        pytest.param({"user": {"exec": {"apiVersion": V1}}}, "exec.command is not set", id="no command"),
        pytest.param(
            {"user": {"exec": {"command": "x", "apiVersion": "v1alpha1"}}},
            "apiVersion: 'v1alpha1' is not supported",
            id="old exec",
        ),
        pytest.param(
            {"user": {"exec": {"command": "x", "apiVersion": V1}}}, "interactiveMode must be set", id="v1 without mode"
        ),
        pytest.param(
            {"user": {"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "Maybe"}}},
            "interactiveMode: 'Maybe' is not one of",
            id="bad mode",
        ),
        pytest.param(
            {"user": {"exec": {"command": "x", "apiVersion": V1BETA1, "args": [1]}}},
            "exec.args: expected a list of strings",
            id="args",
        ),
        pytest.param(
            {"user": {"exec": {"command": "x", "apiVersion": V1BETA1, "env": [{"name": "A", "value": 1}]}}},
            r"exec.env\[0\].value: expected a string",
            id="env",
        ),
        pytest.param(
            {"user": {"auth-provider": {"name": "gcp"}}},
            "auth provider 'gcp' is not supported; use an exec plugin",
            id="gcp",
        ),
        pytest.param(
            {"user": {"auth-provider": {"name": "oidc", "config": {}}}},
            "idp-issuer-url is not set",
            id="oidc without issuer",
        ),
        pytest.param({"user": {"as": "a\nb"}}, "a line break in the names", id="impersonation with a line break"),
        pytest.param({"user": {"as-groups": ["g"]}}, "needs `as`", id="groups without user"),
    ],
)
def test_what_cannot_work_is_refused_by_name(tmp_path, changes, message):
    with pytest.raises(KubeconfigError, match=message) as caught:
        loaded(tmp_path, **changes)
    assert str(tmp_path / "config") in str(caught.value)


def test_broken_yaml_names_the_line_and_shows_none_of_it(tmp_path):
    path = write(tmp_path / "config", "users:\n- name: x\n  user: {token: s3cret: y}\n")
    with pytest.raises(KubeconfigError, match="at line 3") as caught:
        load(path, environ={})
    assert "s3cret" not in str(caught.value)


def test_a_file_that_was_asked_for_must_be_there(tmp_path):
    with pytest.raises(KubeconfigError, match="nope does not exist"):
        load(str(tmp_path / "nope"), environ={})
    with pytest.raises(KubeconfigError, match="no kubeconfig found"):
        load(environ={"KUBECONFIG": str(tmp_path / "nope")})


def test_a_server_of_ones_own_takes_the_place_of_the_kubeconfigs(tmp_path):
    path = write(tmp_path / "config", config(cluster={"tls-server-name": "api.internal"}, user={"token": "t"}))
    for got in (
        load(path, server="https://other:6443/"),
        load(context="main", server="https://other:6443", environ={"KUBECONFIG": path}),
    ):
        assert got.cluster == ClusterConfig("https://other:6443")
        assert got.user.token == "t"


def test_a_server_alone_is_told_no_credentials(tmp_path):
    path = write(tmp_path / "config", config(user={"token": "t"}))
    got = load(server="localhost:8080", environ={"KUBECONFIG": path})
    assert got.cluster == ClusterConfig("http://localhost:8080")
    assert (got.user, got.namespace) == (UserConfig(), "default")
    for wrong in ("ftp://x", "https://x:many", "https://"):
        with pytest.raises(KubeconfigError, match=f"--master: '{wrong}'"):
            load(server=wrong)


def test_in_cluster(tmp_path):
    for name, content in (("token", "t"), ("ca.crt", "CA"), ("namespace", "kube-system\n")):
        (tmp_path / name).write_text(content)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    got = in_cluster(environ, tmp_path)
    assert got.cluster.server == "https://[fd00::1]:443"
    assert got.cluster.ca == PemSource(path=str(tmp_path / "ca.crt"))
    assert (got.user.token_file, got.namespace) == (str(tmp_path / "token"), "kube-system")
    with pytest.raises(KubeconfigError, match="not a pod"):
        in_cluster({}, tmp_path)
    (tmp_path / "token").unlink()
    with pytest.raises(KubeconfigError, match="token does not exist"):
        in_cluster(environ, tmp_path)
