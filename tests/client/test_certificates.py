"""TLS with real certificates: whom we trust, who we are, and what happens when files are replaced."""

from __future__ import annotations

import base64
import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubesched.api.errors import TransportError
from kubesched.client.certificates import ClientCertificate, TlsContexts
from kubesched.client.kubeconfig import ClusterConfig, KubeconfigError, PemSource
from kubesched.client.transport import HttpTransport, Request
from kubesched.clock import ManualClock
from tests.client.wire import WireServer, answering


class Authority:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key.public_key(), None)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Chain and key, PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signed = self._sign(subject, key.public_key(), name)
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return signed.public_bytes(serialization.Encoding.PEM), encoded

    def _sign(self, subject, public_key, dns_name):
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=dns_name is None, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        )
        if dns_name is None:
            usage = dict.fromkeys(
                ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                 "encipher_only", "decipher_only"), False,
            )  # fmt: skip
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        else:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns_name)]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("lab CA")


@pytest.fixture(scope="module")
def stranger() -> Authority:
    return Authority("another CA")


@pytest.fixture
def server_tls(authority, tmp_path) -> ssl.SSLContext:
    """A server called api.lab that wants client certificates of the same authority."""
    chain, key = authority.issue("api.lab")
    (tmp_path / "server.crt").write_bytes(chain)
    (tmp_path / "server.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    context.load_verify_locations(cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def ask(server, *, certificate=None, tls=None, **cluster):
    """Who the server thinks we are."""
    config = ClusterConfig(server.url, **cluster)
    transport = HttpTransport(config, tls(config) if tls else None)
    try:
        response = await transport.send(Request("GET", "/", {}, certificate=certificate))
        assert response.body == b"ok"
    finally:
        await transport.close()
    peer = server.seen[-1].peer_certificate
    return subject_of(peer) if peer else None


async def test_the_server_is_verified_by_authority_and_name(authority, server_tls):
    async with WireServer(*[answering(200, b"ok")] * 3, tls=server_tls) as server:
        ca = PemSource(data=authority.pem)
        assert await ask(server, ca=ca, tls_server_name="api.lab") is None
        with pytest.raises(TransportError, match=r"(?i)certificate"):
            await ask(server, ca=ca)  # it is not called 127.0.0.1
        with pytest.raises(TransportError, match=r"(?i)certificate"):
            await ask(server, ca=ca, tls_server_name="other.lab")


async def test_a_strange_server_is_not_trusted_unless_told_so(stranger, server_tls):
    async with WireServer(*[answering(200, b"ok")] * 3, tls=server_tls) as server:
        with pytest.raises(TransportError, match=r"(?i)certificate"):
            await ask(server, ca=PemSource(data=stranger.pem), tls_server_name="api.lab")
        with pytest.raises(TransportError, match=r"(?i)certificate"):
            await ask(server, tls_server_name="api.lab")  # nor by the system's authorities
        assert await ask(server, insecure_skip_tls_verify=True) is None


async def test_client_certificates_from_kubeconfig_and_from_a_plugin(authority, server_tls):
    own, granted = authority.issue("me"), ClientCertificate(*authority.issue("plugin-user"))
    options = {"ca": PemSource(data=authority.pem), "tls_server_name": "api.lab"}

    def tls(config):
        return TlsContexts(config, PemSource(data=own[0]), PemSource(data=own[1]))

    async with WireServer(*[answering(200, b"ok")] * 3, tls=server_tls) as server:
        assert await ask(server, tls=tls, **options) == "me"
        assert await ask(server, tls=tls, certificate=granted, **options) == "plugin-user"
        assert await ask(server, certificate=granted, **options) == "plugin-user"


async def test_a_new_certificate_is_shown_on_a_new_connection(authority, server_tls):
    first, second = (ClientCertificate(*authority.issue(name)) for name in ("first", "second"))
    async with WireServer(*[answering(200, b"ok")] * 5, tls=server_tls) as server:
        cluster = ClusterConfig(server.url, ca=PemSource(data=authority.pem), tls_server_name="api.lab")
        transport = HttpTransport(cluster)
        for certificate in (first, first, second, second):
            await transport.send(Request("GET", "/", {}, certificate=certificate))
        stream = await transport.open(Request("GET", "/", {}, certificate=second))
        assert await stream.read_all() == b"ok"
        names = [subject_of(seen.peer_certificate) for seen in server.seen]
        assert names == ["first", "first", "second", "second", "second"]
        assert server.connections == 3, "two for calls, one for the stream"
        await transport.close()


def subject_of(certificate):
    return dict(pair for name in certificate["subject"] for pair in name)["commonName"]


def test_contexts_are_shared_so_that_connections_are(authority):
    contexts = TlsContexts(ClusterConfig("https://x", ca=PemSource(data=authority.pem)))
    granted = ClientCertificate(*authority.issue("a"))
    assert contexts.context() is contexts.context()
    assert len(contexts.context().get_ca_certs()) == 1, "the system's authorities are not trusted beside the given one"
    assert contexts.context(granted) is contexts.context(ClientCertificate(granted.chain, granted.key))
    assert contexts.context(granted) is not contexts.context()


def test_replaced_files_are_used_within_a_minute_and_broken_ones_never(authority, tmp_path, caplog):
    clock = ManualClock()
    files = {name: tmp_path / name for name in ("ca", "crt", "key")}
    chain, key = authority.issue("first")
    for name, content in (("ca", authority.pem), ("crt", chain), ("key", key)):
        files[name].write_bytes(content)
    cluster = ClusterConfig("https://x", ca=PemSource(path=str(files["ca"])))
    contexts = TlsContexts(cluster, PemSource(path=str(files["crt"])), PemSource(path=str(files["key"])), clock=clock)
    first = contexts.context()

    clock.advance(60)
    assert contexts.context() is first, "nothing has changed"

    chain, key = authority.issue("second")
    replace(files["crt"], chain)  # the key does not fit yet
    clock.advance(60)
    assert contexts.context() is first
    assert "going on with the old one" in caplog.text
    replace(files["key"], key)
    assert contexts.context() is first, "not looked at before its time"
    clock.advance(60)
    second = contexts.context()
    assert second is not first
    clock.advance(60)
    assert contexts.context() is second


def replace(path, content):
    """As secret mounts do it: a new file under the old name."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def test_material_that_cannot_be_used_is_refused_at_once(authority, tmp_path):
    chain, key = authority.issue("a")
    good = ClusterConfig("https://x", ca=PemSource(data=authority.pem))
    with pytest.raises(KubeconfigError, match="certificate-authority-data: not a PEM certificate"):
        TlsContexts(ClusterConfig("https://x", ca=PemSource(data=b"nonsense")))
    (tmp_path / "ca.crt").write_bytes(base64.b64encode(authority.pem))
    with pytest.raises(KubeconfigError, match=r"ca\.crt: not a PEM certificate"):
        TlsContexts(ClusterConfig("https://x", ca=PemSource(path=str(tmp_path / "ca.crt"))))
    with pytest.raises(KubeconfigError, match="client certificate and key cannot be used"):
        TlsContexts(good, PemSource(data=chain), PemSource(data=authority.issue("b")[1]))
    with pytest.raises(KubeconfigError, match=r"cannot read .*gone: No such file"):
        TlsContexts(good, PemSource(path=str(tmp_path / "gone")), PemSource(data=key))
