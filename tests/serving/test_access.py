"""Who may ask, and how it is found out: certificates, proxies, tokens, what is remembered, and what fails closed."""

from __future__ import annotations

import json
import ssl

import aiohttp
import pytest

from kubesched.apiserver import Answer
from kubesched.serving import Unauthorized
from kubesched.serving.authentication import Authenticator, ClientCas
from tests.serving import pki
from tests.serving.rig import port


def client_context(served, certificate):
    context = served.trust()
    context.load_cert_chain(certificate)
    return context


async def test_a_yes_and_a_no_are_remembered_for_their_time(tmp_path):
    async with port(tmp_path, authorization_webhook_cache_unauthorized_ttl=3.0) as served:
        for _ in range(3):
            assert (await served.ask("/metrics", token="token-low")).status == 403
        assert len(served.reviews_of("TokenReview")) == 1
        assert len(served.reviews_of("SubjectAccessReview")) == 1
        served.clock.advance(4)
        assert (await served.ask("/metrics", token="token-low")).status == 403
        assert len(served.reviews_of("TokenReview")) == 1
        assert len(served.reviews_of("SubjectAccessReview")) == 2
        served.clock.advance(7)
        assert (await served.ask("/metrics", token="token-low")).status == 403
        assert len(served.reviews_of("TokenReview")) == 2


async def test_a_user_whom_the_api_server_allows_gets_in(tmp_path):
    async with port(tmp_path) as served:

        async def allow(request, proceed):
            if request.path.endswith("/subjectaccessreviews"):
                spec = json.loads(request.body)["spec"]
                allowed = spec["user"] == "lowpriv" and spec["nonResourceAttributes"]["path"] == "/metrics"
                return Answer(201, json.dumps({"status": {"allowed": allowed, "reason": "as the test says"}}).encode())
            return await proceed()

        served.api.intercept(allow)
        assert (await served.ask("/metrics", token="token-low")).status == 200
        refused = await served.ask("/configz", token="token-low")
        assert refused.status == 403
        message = 'forbidden: User "lowpriv" cannot get path "/configz": as the test says'
        assert json.loads(refused.body)["message"] == message


@pytest.mark.parametrize("kind", ["tokenreviews", "subjectaccessreviews"])
async def test_nobody_is_let_in_while_the_api_server_cannot_be_asked(tmp_path, kind):
    async with port(tmp_path) as served:

        async def fail(request, proceed):
            if request.path.endswith(kind):
                body = {"kind": "Status", "status": "Failure", "message": "no luck", "reason": "InternalError"}
                return Answer(500, json.dumps({**body, "code": 500}).encode())
            return await proceed()

        served.api.intercept(fail)
        got = await served.ask("/metrics", token="token-low")
        assert got.status == (401 if kind == "tokenreviews" else 500)
        assert (await served.ask("/healthz")).status == 200
        served.api.interceptors.pop()
        assert (await served.ask("/metrics", token="token-admin")).status == 200
        name = "authn" if kind == "tokenreviews" else "authz"
        assert served.harness.metrics.value(f"apiserver_delegated_{name}_request_total", "500") == 1


async def test_a_certificate_names_user_and_groups(tmp_path):
    users = pki.authority("users")
    (tmp_path / "ca.pem").write_bytes(users.pem)
    operator = users.client(tmp_path, "operator", "system:masters")
    guest = users.client(tmp_path, "guest")
    async with port(tmp_path, client_ca_file=str(tmp_path / "ca.pem")) as served:
        assert (await served.ask("/metrics", context=client_context(served, operator))).status == 200
        refused = await served.ask("/metrics", context=client_context(served, guest))
        assert refused.status == 403 and 'User \\"guest\\"' in refused.body
        assert served.reviews_of("SubjectAccessReview")[-1]["spec"]["groups"] == ["system:authenticated"]
        assert served.reviews_of("TokenReview") == []


async def test_a_certificate_of_a_stranger_is_refused(tmp_path):
    (tmp_path / "ca.pem").write_bytes(pki.authority("users").pem)
    stranger = pki.authority("users").client(tmp_path, "operator", "system:masters")
    async with port(tmp_path, client_ca_file=str(tmp_path / "ca.pem")) as served:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
            await served.ask("/healthz", context=client_context(served, stranger))
        assert (await served.ask("/healthz")).status == 200


@pytest.mark.parametrize(
    "proxy_name, status", [("front-proxy", 403), ("somebody", 401)], ids=["trusted proxy", "another name"]
)
async def test_headers_count_from_a_trusted_proxy_only(tmp_path, proxy_name, status):
    proxies = pki.authority("proxies")
    (tmp_path / "proxies.pem").write_bytes(proxies.pem)
    certificate = proxies.client(tmp_path, proxy_name)
    said = {
        "X-Remote-User": "jane", "X-Remote-Group": "ops", "X-Remote-Extra-Scopes": "all", "X-Remote-Uid": "7"
    }  # fmt: skip
    async with port(
        tmp_path,
        requestheader_client_ca_file=str(tmp_path / "proxies.pem"),
        requestheader_allowed_names=("front-proxy",),
        requestheader_uid_headers=("x-remote-uid",),
    ) as served:
        got = await served.ask("/metrics", headers=said, context=client_context(served, certificate))
        assert got.status == status
        if status == 403:
            spec = served.reviews_of("SubjectAccessReview")[-1]["spec"]
            assert (spec["user"], spec["groups"]) == ("jane", ["ops", "system:authenticated"])
            assert (spec["extra"], spec["uid"]) == ({"scopes": ["all"]}, "7")
        forged = await served.ask("/metrics", headers={**said, "X-Remote-Group": "system:masters"})
        assert forged.status == 403 and "system:anonymous" in forged.body


async def test_the_cluster_says_whom_to_trust(tmp_path):
    """The authorities of kube-system/extension-apiserver-authentication count, and are looked at again."""
    users, other = pki.authority("users"), pki.authority("other")
    operator = users.client(tmp_path, "operator", "system:masters")
    second = other.client(tmp_path, "second", "system:masters")

    def published(pem):
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {"client-ca-file": pem.decode()},
        }

    async with port(tmp_path) as served:
        served.api.load([published(users.pem)])
        await served.serving.look_up()
        assert (await served.ask("/metrics", context=client_context(served, operator))).status == 200
        served.api.load([published(users.pem + other.pem)])
        await served.serving.look_up()
        assert (await served.ask("/metrics", context=client_context(served, second))).status == 200


async def test_always_allowed_paths_may_be_prefixes(tmp_path):
    async with port(tmp_path, authorization_always_allow_paths=("/healthz", "/metrics/*")) as served:
        assert (await served.ask("/metrics/slis")).status == 200
        assert (await served.ask("/metrics")).status == 403
        assert (await served.ask("/statusz")).status == 403


async def test_without_anybody_to_ask_only_open_paths_are_answered():
    from kubesched.clock import ManualClock
    from kubesched.serving import Authorizer, User

    clock = ManualClock()
    with pytest.raises(Unauthorized):
        await Authenticator(None, clock).user({"authorization": "Bearer x"}, None)
    anonymous = await Authenticator(None, clock, cas=ClientCas()).user({}, None)
    authorizer = Authorizer(None, clock)
    assert (await authorizer.access(anonymous, "get", "/healthz")).allowed
    assert not (await authorizer.access(anonymous, "get", "/metrics")).allowed
    assert (await authorizer.access(User("root", ("system:masters",)), "get", "/metrics")).allowed
