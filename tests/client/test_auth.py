from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from urllib.parse import parse_qs

import pytest

from kubesched.client.auth import (
    CredentialError,
    Credentials,
    ExecCredentials,
    OidcCredentials,
    TokenFile,
    credentials_of,
)
from kubesched.client.kubeconfig import (
    ClientConfig,
    ClusterConfig,
    ExecPlugin,
    KubeconfigError,
    OidcProvider,
    UserConfig,
)
from kubesched.clock import ManualClock
from tests.client.doubles import MemoryTransport, reply, until

TLS = ClusterConfig("https://lab:6443", tls_server_name="api.lab")
V1 = "client.authentication.k8s.io/v1"


async def header(credentials: Credentials) -> str:
    return (await credentials.grant()).authorization


@pytest.mark.parametrize(
    ("user", "server", "expected"),
    [
        pytest.param(UserConfig(), "https://h", "", id="anonymous"),
        pytest.param(UserConfig(token="t"), "https://h", "Bearer t", id="token"),
        pytest.param(UserConfig(username="u", password="p"), "https://h", "Basic dTpw", id="password"),
        pytest.param(UserConfig(token="t"), "http://h:80", "", id="not over plain http, as client-go"),
        pytest.param(UserConfig(token="t"), "http://127.0.0.1:8001", "Bearer t", id="but to a loopback address"),
        pytest.param(UserConfig(token="t"), "http://localhost", "Bearer t", id="or to localhost"),
        pytest.param(UserConfig(token="t"), "http://[::1]:80", "Bearer t", id="or to ::1"),
    ],
)
async def test_fixed_credentials(user, server, expected, caplog):
    credentials = credentials_of(ClientConfig(ClusterConfig(server), user), ManualClock())
    grant = await credentials.grant()
    assert grant.authorization == expected
    assert not credentials.refused(grant), "there is nothing else to try"
    dropped = not expected and user.token != ""
    assert ("not sent over plain http" in caplog.text) == dropped


def test_a_token_that_would_break_the_header_is_refused():
    with pytest.raises(KubeconfigError, match="characters that no token has") as caught:
        credentials_of(ClientConfig(TLS, UserConfig(token="s3cret\r\nX: y")), ManualClock())
    assert "s3cret" not in str(caught.value)


class TestTokenFile:
    async def test_read_again_once_a_minute(self, tmp_path):
        clock, path = ManualClock(), tmp_path / "token"
        path.write_text("one\n")
        credentials = TokenFile(path, clock)
        assert await header(credentials) == "Bearer one"
        path.write_text("two")
        clock.advance(59)
        assert await header(credentials) == "Bearer one"
        clock.advance(1)
        assert await header(credentials) == "Bearer two"

    async def test_read_again_at_once_when_refused(self, tmp_path):
        path = tmp_path / "token"
        path.write_text("one")
        credentials = TokenFile(path, ManualClock())
        grant = await credentials.grant()
        path.write_text("two")
        assert credentials.refused(grant)
        assert await header(credentials) == "Bearer two"
        # A late refusal of the old token says nothing about the new one.
        path.write_text("three")
        assert credentials.refused(grant)
        assert await header(credentials) == "Bearer two"

    @pytest.mark.parametrize("broken", ["missing", "empty", "two lines", "no text"])
    async def test_a_file_between_two_versions_leaves_the_last_token_in_use(self, tmp_path, broken, caplog):
        clock, path = ManualClock(), tmp_path / "token"
        path.write_text("one")
        credentials = TokenFile(path, clock)
        await credentials.grant()
        path.unlink()
        if broken != "missing":
            path.write_bytes({"empty": b"", "two lines": b"a\nX-Other: b", "no text": b"\xff\xfe"}[broken])
        clock.advance(60)
        assert await header(credentials) == "Bearer one"
        assert "going on with the last token" in caplog.text

    async def test_without_a_token_ever_it_says_which_file(self, tmp_path):
        with pytest.raises(CredentialError, match=f"cannot read the token file {tmp_path}/token: No such file"):
            await TokenFile(tmp_path / "token", ManualClock()).grant()

    async def test_a_token_beside_the_file_is_the_start(self, tmp_path):
        config = ClientConfig(TLS, UserConfig(token="first", token_file=str(tmp_path / "token")))
        assert await header(credentials_of(config, ManualClock())) == "Bearer first"


def plugin(tmp_path, body, **changes):
    """An exec plugin that counts its runs in `runs`, keeps what it was told in `info`, and then does `body`."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, os, sys, pathlib\n"
        "here = pathlib.Path(__file__).parent\n"
        "runs = here / 'runs'\n"
        "n = len(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text('x' * n)\n"
        "(here / 'info').write_text(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "def give(**status): print(json.dumps({'kind': 'ExecCredential', "
        f"'apiVersion': '{V1}', 'status': status}}))\n" + body
    )
    options = {
        "command": sys.executable, "args": (str(script),), "env": (), "api_version": V1, "interactive_mode": "Never",
        "provide_cluster_info": False, "install_hint": "",
    }  # fmt: skip
    return ExecPlugin(**{**options, **changes})


def runs(tmp_path) -> int:
    return len((tmp_path / "runs").read_text())


class TestExecPlugin:
    async def test_a_token_is_kept_until_it_expires_or_is_refused(self, tmp_path):
        clock = ManualClock()
        body = "give(token=f't{n}', expirationTimestamp='2026-01-01T01:00:00Z' if n == 1 else None)"
        credentials = ExecCredentials(plugin(tmp_path, body), TLS, clock)
        assert [await header(credentials) for _ in range(3)] == ["Bearer t1"] * 3
        clock.advance(3599)
        assert await header(credentials) == "Bearer t1"
        clock.advance(1)
        grant = await credentials.grant()
        assert grant.authorization == "Bearer t2"
        assert credentials.refused(grant)
        assert await header(credentials) == "Bearer t3"
        assert credentials.refused(grant), "refused again, but it is the new one that counts"
        assert await header(credentials) == "Bearer t3"
        assert runs(tmp_path) == 3

    async def test_many_requests_wait_for_one_run(self, tmp_path):
        credentials = ExecCredentials(plugin(tmp_path, "give(token=f't{n}')"), TLS, ManualClock())
        assert set(await asyncio.gather(*(header(credentials) for _ in range(20)))) == {"Bearer t1"}
        assert runs(tmp_path) == 1

    async def test_a_client_certificate(self, tmp_path):
        body = "give(clientCertificateData='CERT', clientKeyData='KEY')"
        grant = await ExecCredentials(plugin(tmp_path, body), TLS, ManualClock()).grant()
        assert grant.authorization == ""
        assert grant.certificate is not None
        assert (grant.certificate.chain, grant.certificate.key) == (b"CERT", b"KEY")
        assert "KEY" not in repr(grant)

    @pytest.mark.parametrize("cluster_info", [False, True])
    @pytest.mark.parametrize(
        ("mode", "terminal", "interactive"),
        [("Never", True, False), ("IfAvailable", True, True), ("IfAvailable", False, False), ("Always", True, True)],
    )
    async def test_what_it_is_told(self, tmp_path, mode, terminal, interactive, cluster_info):
        made = plugin(
            tmp_path, "give(token=os.environ['EXTRA'])", interactive_mode=mode,
            provide_cluster_info=cluster_info, env=(("EXTRA", "from-env"),),
        )  # fmt: skip
        assert await header(ExecCredentials(made, TLS, ManualClock(), is_terminal=terminal)) == "Bearer from-env"
        spec: dict[str, object] = {"interactive": interactive}
        if cluster_info:
            spec["cluster"] = {"server": "https://lab:6443", "tls-server-name": "api.lab"}
        info = json.loads((tmp_path / "info").read_text())
        assert info == {"kind": "ExecCredential", "apiVersion": V1, "spec": spec}

    @pytest.mark.parametrize(
        ("body", "changes", "message"),
        [
            pytest.param("sys.exit(3)", {}, "failed with exit code 3", id="exit code"),
            pytest.param("print('s3cret')", {}, "did not print JSON", id="no JSON"),
            pytest.param("print('[]')", {}, "did not print an ExecCredential", id="no credential"),
            pytest.param("give(token='s3cret')", {"api_version": "x/v2"}, "answered with apiVersion", id="version"),
            pytest.param("give()", {}, "neither a token nor a certificate", id="nothing"),
            pytest.param("give(token='s3cret\\nX: y')", {}, "characters that no token has", id="line break"),
            pytest.param("give(token=5)", {}, "a field that is no string", id="number"),
            pytest.param("give(clientCertificateData='s3cret')", {}, "certificate without key", id="no key"),
            pytest.param(
                "give(token='s3cret', expirationTimestamp='soon')", {}, "'soon', which is not RFC 3339", id="time"
            ),
            pytest.param(
                "",
                {"command": "/nowhere/login", "install_hint": "get it from X"},
                "No such file.*\nget it from X",
                id="missing",
            ),
            pytest.param("", {"interactive_mode": "Always"}, "needs a terminal", id="no terminal"),
        ],
    )
    async def test_failures_are_named_and_hide_secrets(self, tmp_path, body, changes, message):
        credentials = ExecCredentials(plugin(tmp_path, body, **changes), TLS, ManualClock(), is_terminal=False)
        with pytest.raises(CredentialError, match=message) as caught:
            await credentials.grant()
        assert "s3cret" not in str(caught.value)

    async def test_a_failing_plugin_is_not_run_for_every_request(self, tmp_path):
        clock = ManualClock()
        credentials = ExecCredentials(plugin(tmp_path, "give(token='ok') if n > 1 else sys.exit(1)"), TLS, clock)
        for _ in range(3):
            with pytest.raises(CredentialError):
                await credentials.grant()
        assert runs(tmp_path) == 1
        clock.advance(5)
        assert await header(credentials) == "Bearer ok"

    async def test_a_cancelled_request_ends_the_plugin(self, tmp_path):
        body = "(here / 'pid').write_text(str(os.getpid())); import time; time.sleep(60)"
        credentials = ExecCredentials(plugin(tmp_path, body), TLS, ManualClock())
        task = asyncio.create_task(credentials.grant())
        pid = tmp_path / "pid"
        await until(lambda: pid.exists() and bool(pid.read_text()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


def jwt(expires_at: float, mark: str) -> str:
    claims = json.dumps({"exp": int(expires_at), "mark": mark}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.sig"


class TestOidc:
    def make(self, clock, transport, id_token, refresh_token="r1"):
        provider = OidcProvider("https://issuer/realm", "client", "secret", id_token, refresh_token, None)
        self.connected: list[str] = []

        def connect(cluster):
            self.connected.append(cluster.server)
            return transport

        return OidcCredentials(provider, connect, clock)

    async def test_renewed_a_minute_before_it_expires(self):
        clock = ManualClock()
        old, new = jwt(clock.now() + 600, "old"), jwt(clock.now() + 7200, "new")
        transport = MemoryTransport(
            [
                reply(body={"token_endpoint": "https://tokens.issuer/token"}),
                reply(body={"id_token": new, "refresh_token": "r2"}),
            ]
        )
        credentials = self.make(clock, transport, old)
        clock.advance(539)
        assert await header(credentials) == f"Bearer {old}"
        clock.advance(1)
        assert await header(credentials) == f"Bearer {new}"
        assert self.connected == ["https://issuer", "https://tokens.issuer"]
        discovery, renewal = transport.sent
        assert (discovery.method, discovery.target) == ("GET", "/realm/.well-known/openid-configuration")
        assert (renewal.method, renewal.target) == ("POST", "/token")
        assert parse_qs((renewal.body or b"").decode()) == {
            "grant_type": ["refresh_token"],
            "refresh_token": ["r1"],
            "client_id": ["client"],
            "client_secret": ["secret"],
        }
        assert transport.closed == 2
        assert credentials.refused(await credentials.grant()), "the next one is asked for with r2"
        transport.answers[:] = [reply(body={"token_endpoint": "https://t/"}), reply(body={"id_token": new})]
        await credentials.grant()
        assert parse_qs((transport.sent[-1].body or b"").decode())["refresh_token"] == ["r2"]

    async def test_without_refresh_token_it_ends_with_the_id_token(self):
        clock = ManualClock()
        credentials = self.make(clock, MemoryTransport([reply(500)]), jwt(clock.now() + 600, "x"), refresh_token="")
        assert not credentials.refused(await credentials.grant())
        clock.advance(600)
        with pytest.raises(CredentialError, match="no refresh token"):
            await credentials.grant()

    async def test_an_issuer_that_says_no(self):
        credentials = self.make(ManualClock(), MemoryTransport([reply(503, b"down")]), "")
        with pytest.raises(CredentialError, match=r"answered GET https://issuer/realm/.* with 503"):
            await credentials.grant()
