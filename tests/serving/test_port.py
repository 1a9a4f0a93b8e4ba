"""TLS, health with its parameters, the pages that are ours, and what each says."""

from __future__ import annotations

import json
import ssl

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubesched.app.secure_serving import ServingError
from kubesched.serving.certificates import openssl_name
from tests.build import make_node, make_pod
from tests.harness import Harness
from tests.serving import pki
from tests.serving.rig import port

# -- TLS


async def test_plain_http_is_not_answered(tmp_path):
    async with port(tmp_path) as served, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{served.serving.port}/healthz")


async def test_the_certificate_of_the_folder_is_made_once_and_verifies(tmp_path):
    async with port(tmp_path) as served:
        assert (await served.ask("/healthz")).status == 200
    before = (tmp_path / "certs" / "kube-scheduler.crt").read_bytes()
    assert (tmp_path / "certs" / "kube-scheduler.key").stat().st_mode & 0o077 == 0
    async with port(tmp_path) as served:
        assert (await served.ask("/healthz")).status == 200
    assert (tmp_path / "certs" / "kube-scheduler.crt").read_bytes() == before


async def test_given_files_are_served_and_read_again_when_they_change(tmp_path):
    cert, key, ca = pki.write_pair(tmp_path / "given")
    async with port(tmp_path, tls_cert_file=str(cert), tls_private_key_file=str(key)) as served:
        assert (await served.ask("/healthz", context=pki.trusting(ca))).status == 200
        _, _, new_ca = pki.write_pair(tmp_path / "given")
        assert await served.serving._server.reload_if_changed()
        assert (await served.ask("/healthz", context=pki.trusting(new_ca))).status == 200
        with pytest.raises(aiohttp.ClientError):
            await served.ask("/healthz", context=pki.trusting(ca))


async def test_files_that_make_no_sense_change_nothing(tmp_path, caplog):
    cert, key, ca = pki.write_pair(tmp_path / "given")
    async with port(tmp_path, tls_cert_file=str(cert), tls_private_key_file=str(key)) as served:
        cert.write_text("no certificate")
        assert not await served.serving._server.reload_if_changed()
        assert "keeping the old certificate" in caplog.text
        assert (await served.ask("/healthz", context=pki.trusting(ca))).status == 200


async def test_a_name_that_is_asked_for_gets_its_own_certificate(tmp_path):
    cert, key, ca = pki.write_pair(tmp_path / "special", "localhost")
    async with port(tmp_path, tls_sni_cert_key=(f"{cert},{key}:localhost",)) as served:
        async with aiohttp.ClientSession() as session:
            url = f"https://localhost:{served.serving.port}/healthz"
            assert (await session.get(url, ssl=pki.trusting(ca))).status == 200
        assert (await served.ask("/healthz")).status == 200


async def test_old_versions_of_tls_are_refused(tmp_path):
    async with port(tmp_path, tls_min_version="VersionTLS13") as served:
        context = served.trust()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(aiohttp.ClientError):
            await served.ask("/healthz", context=context)


@pytest.mark.parametrize(
    "go, openssl",
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_AES_128_GCM_SHA256", ""),
    ],
)
def test_cipher_suites_by_their_names_in_go(go, openssl):
    assert openssl_name(go) == openssl
    if openssl:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl)


async def test_a_port_that_is_taken_is_said_with_its_address(tmp_path):
    async with port(tmp_path) as served:
        taken = served.serving.port
        with pytest.raises(ServingError, match=rf"cannot listen on 127\.0\.0\.1:{taken}: Address already in use"):
            async with port(tmp_path / "second", secure_port=taken):
                pass


# -- health


async def test_readiness_follows_syncing_and_shutdown(tmp_path):
    async with port(tmp_path) as served:
        served.is_synced = False
        got = await served.ask("/readyz?verbose")
        assert got.status == 500
        assert got.body == "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n"
        assert (await served.ask("/livez")).status == 200
        served.is_synced = True
        assert (await served.ask("/readyz")).body == "ok"
        served.is_stopping = True
        assert (await served.ask("/readyz")).status == 500
        excluded = await served.ask("/readyz?verbose&exclude=shutdown&exclude=nothing")
        assert excluded.status == 200
        assert excluded.body == (
            "[+]shutdown excluded: ok\n[+]sched-handler-sync ok\n"
            'warn: some health checks cannot be excluded: no matches for "nothing"\nreadyz check passed\n'
        )
        alone = await served.ask("/readyz/shutdown", token="token-admin")
        assert (alone.status, alone.body) == (500, "internal server error: process is shutting down\n")
        assert (await served.ask("/healthz")).status == 200


async def test_a_leader_that_should_have_ended_is_not_alive(tmp_path):
    async with port(tmp_path, with_election=True) as served:
        assert (await served.ask("/healthz?verbose")).body == "[+]leaderElection ok\nhealthz check passed\n"
        served.election = "failed election to renew leadership on lease kube-scheduler"
        for path in ("/healthz", "/livez", "/readyz"):
            assert (await served.ask(path)).status == 500
        slis = (await served.ask("/metrics/slis", token="token-admin")).body
        assert 'kubernetes_healthcheck{name="leaderElection",type="livez"} 0.0' in slis


# -- pages


async def test_resources_of_pods_are_shown_with_their_units(tmp_path):
    harness = Harness()
    harness.apply(make_node("n1").capacity(cpu=8, memory="16Gi", pods=10).obj())
    waiting = make_pod("big").requests(cpu="64", memory="1Gi").priority(7).obj()
    harness.apply(make_pod("small").cpu("250m").node("n1").obj(), waiting)
    await harness.settle()
    async with port(tmp_path, harness=harness) as served:
        got = await served.ask("/metrics/resources", token="token-admin")
    order = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
    rows = {
        tuple(sample.labels[label] for label in order): sample.value
        for family in text_string_to_metric_families(got.body)
        for sample in family.samples
        if sample.name == "kube_pod_resource_request"
    }
    assert rows[("default", "small", "n1", "default-scheduler", "0", "cpu", "cores")] == 0.25
    assert rows[("default", "big", "", "default-scheduler", "7", "cpu", "cores")] == 64
    assert rows[("default", "big", "", "default-scheduler", "7", "memory", "bytes")] == 2**30


async def test_queue_and_cache_can_be_looked_at(tmp_path):
    harness = Harness()
    harness.apply(make_node("n1").capacity(cpu=1, memory="1Gi", pods=10).obj())
    harness.apply(make_pod("big").cpu("64").obj(), make_pod("small").cpu("100m").obj())
    await harness.settle()
    async with port(tmp_path, harness=harness) as served:
        queue = json.loads((await served.ask("/debug/queue", token="token-admin")).body)
        cache = json.loads((await served.ask("/debug/cache", token="token-admin")).body)
    (parked,) = queue["unschedulable"]
    assert parked["pod"] == "default/big" and parked["rejectedBy"] == ["NodeResourcesFit"]
    assert "Insufficient cpu" in parked["message"]
    (node,) = cache["nodes"]
    assert node["pods"] == ["default/small"] and node["requested"]["cpu"] == 100


STRANGE_PODS = {
    "no name": "/debug/pods",
    "a namespace only": "/debug/pods/default",
    "too much": "/debug/pods/default/p/log",
    "a way out": "/debug/pods/default/..%2f..%2fnodes",
    "dots": "/debug/pods/default/%2e%2e",
    "a query": "/debug/pods/default/p%3Fwatch=1",
    "capitals": "/debug/pods/default/P",
    "a line break": "/debug/pods/default/p%0a",
}


@pytest.mark.parametrize("path", STRANGE_PODS.values(), ids=STRANGE_PODS)
async def test_what_is_no_name_of_a_pod_is_asked_of_nobody(tmp_path, path):
    async with port(tmp_path) as served:
        asked = []

        async def note(request, proceed):
            if not request.path.endswith(("reviews", "/extension-apiserver-authentication")):
                asked.append(request.path)
            return await proceed()

        served.api.intercept(note)
        assert (await served.ask(path, token="token-admin")).status == 404
        assert asked == []
        assert (await served.ask("/debug/pods/default/p", token="token-admin")).status == 404
        assert asked == ["/api/v1/namespaces/default/pods/p"]


async def test_a_pod_is_shown_to_those_who_may_only(tmp_path):
    harness = Harness()
    harness.apply(make_pod("p").gate("g").obj())
    await harness.settle()
    async with port(tmp_path, harness=harness) as served:
        refused = [await served.ask("/debug/pods/default/p", token=token) for token in ("", "token-low", "bad")]
        assert [each.status for each in refused] == [403, 403, 401]
        shown = await served.ask("/debug/pods/default/p", token="token-admin")
        assert json.loads(shown.body)["queue"] == "gated"
        assert (await served.ask("/debug/pods/default/p", "DELETE", token="token-admin")).status == 404


async def test_profiles_say_what_the_process_does(tmp_path):
    async with port(tmp_path) as served:
        got = await served.ask("/debug/pprof/profile?seconds=0.05", token="token-admin")
        assert got.status == 200
        stack, count = got.body.splitlines()[0].rsplit(" ", 1)
        assert ";" in stack and int(count) >= 1
        tasks = (await served.ask("/debug/pprof/goroutine", token="token-admin")).body
        assert "task serving certificate:" in tasks and "thread MainThread:" in tasks
        assert "tracked objects=" in (await served.ask("/debug/pprof/heap", token="token-admin")).body
        assert (await served.ask("/debug/pprof/profile?seconds=x", token="token-admin")).status == 400
        assert (await served.ask("/debug/pprof/nothing", token="token-admin")).status == 404


async def test_without_profiling_there_is_nothing_to_debug(tmp_path):
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "enableProfiling": False
    }  # fmt: skip
    async with port(tmp_path, settings=settings) as served:
        for path in ("/debug/pprof/", "/debug/pprof/heap", "/debug/queue", "/debug/cache", "/debug/pods/default/p"):
            assert (await served.ask(path, token="token-admin")).status == 404
