"""`HttpExtender`: a scheduler extender behind HTTP or HTTPS, with kube-scheduler v1.36's payloads.

A call is one POST of JSON to `urlPrefix/verb`, answered with 200 and JSON. What is sent has the field names of the
original (`Pod`, `Nodes`, `NodeNames`, ...); in what is answered the case of field names does not count, as in Go. Pods
and nodes are sent whole, as the API server sent them to us (`documents`).

Everything that goes wrong is an `ExtenderError` that names the extender and the call. When no answer came it is an
`ExtenderUnreachableError`, a `TransportError`, too: whether a bind took effect is unknown then. What follows from a
failure (an `ignorable` extender is passed over, ...) is the caller's business.

Scores are not held to 0..10: whatever integer comes back is multiplied by the weight, as in the original.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from kubesched.api.core import Container, Pod
from kubesched.api.errors import KubeschedError, TransportError
from kubesched.client.certificates import TlsContexts
from kubesched.client.kubeconfig import ClusterConfig, KubeconfigError, PemSource
from kubesched.client.rest import default_user_agent
from kubesched.client.transport import HttpTransport, Request
from kubesched.clock import Clock
from kubesched.config import Extender as ExtenderConfig
from kubesched.config import ExtenderTLSConfig
from kubesched.framework.extender import ExtenderFilterResult, Victims
from kubesched.state.node_info import NodeInfo

log = logging.getLogger("kubesched.client")

#: Taken where `httpTimeout` is 0.
DEFAULT_TIMEOUT_S = 5.0
#: Calls at a time: binds run beside each other, all else one by one.
_CONNECTIONS = 16

_encode = msgspec.json.Encoder().encode


class ExtenderError(KubeschedError):
    """An extender failed, or answered something that cannot be."""


class ExtenderUnreachableError(ExtenderError, TransportError):
    """No whole answer came; what was asked for may have been done."""


class WholeDocuments(Protocol):
    """Objects of the state as JSON with all their fields."""

    def pod(self, pod: Pod) -> bytes: ...

    def node(self, name: str) -> bytes: ...


def extenders_of(
    configs: Sequence[ExtenderConfig], documents: WholeDocuments, clock: Clock
) -> tuple[HttpExtender, ...]:
    """In the order in which they are asked: as configured, ignorable ones last. ExtenderError for bad certificates."""
    ordered = sorted(configs, key=lambda config: config.ignorable)
    return tuple(HttpExtender(config, documents, clock) for config in ordered)


class HttpExtender:
    """Implements `framework.extender.Extender`. Connections are made on first use."""

    def __init__(self, config: ExtenderConfig, documents: WholeDocuments, clock: Clock) -> None:
        self.name = config.url_prefix
        self.ignorable = config.ignorable
        self.weight = config.weight
        self._config = config
        self._documents = documents
        self._timeout_s = config.http_timeout.seconds or DEFAULT_TIMEOUT_S
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        url = urlsplit(config.url_prefix)
        self._path = url.path.rstrip("/")
        cluster = _cluster(config, f"{url.scheme}://{url.netloc}")
        try:
            tls = _tls(cluster, config.tls_config, clock) if cluster.is_tls else None
        except KubeconfigError as error:
            raise ExtenderError(f"couldn't build extenders: {config.url_prefix}: {error}") from error
        self._transport = HttpTransport(cluster, tls, pool_size=_CONNECTIONS)
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": default_user_agent(),
        }

    def __repr__(self) -> str:
        return f"HttpExtender({self.name!r})"

    async def close(self) -> None:
        await self._transport.close()

    def is_interested(self, pod: Pod) -> bool:
        """It manages all pods, or a resource that some container or init container asks for."""
        if not self._managed:
            return True
        return any(self._asks_for_managed(c) for c in (*pod.spec.containers, *pod.spec.init_containers))

    def is_filter(self) -> bool:
        return bool(self._config.filter_verb)

    def is_prioritizer(self) -> bool:
        return bool(self._config.prioritize_verb)

    def is_binder(self) -> bool:
        return bool(self._config.bind_verb)

    def supports_preemption(self) -> bool:
        return bool(self._config.preempt_verb)

    async def filter(self, pod: Pod, nodes: list[NodeInfo]) -> ExtenderFilterResult:
        verb = self._config.filter_verb
        answer = await self._call(verb, self._args(pod, nodes))
        result = self._read(verb, answer, _FilterResult)
        if result.error:
            raise ExtenderError(f"extender {self.name}: {verb}: {result.error}")
        if self._config.node_cache_capable and result.node_names is not None:
            names = result.node_names
        else:
            names = [self._name_of(verb, item) for item in self._read(verb, result.nodes, _NodeList).items or ()]
        known = {node.name for node in nodes}
        for name in names:
            if name not in known:
                raise ExtenderError(
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                )
        return ExtenderFilterResult(
            names, dict(result.failed_nodes or {}), dict(result.failed_and_unresolvable_nodes or {})
        )

    async def prioritize(self, pod: Pod, nodes: list[NodeInfo]) -> dict[str, int]:
        verb = self._config.prioritize_verb
        answer = await self._call(verb, self._args(pod, nodes))
        scores: dict[str, int] = {}
        for item in self._read(verb, answer, list[Any] | None) or ():
            entry = self._read(verb, item, _HostPriority)
            scores[entry.host] = scores.get(entry.host, 0) + entry.score
        return scores

    async def bind(self, pod: Pod, node_name: str) -> None:
        verb = self._config.bind_verb
        metadata = pod.metadata
        names = {"PodName": metadata.name, "PodNamespace": metadata.namespace, "PodUID": metadata.uid}
        answer = await self._call(verb, _encode({**names, "Node": node_name}))
        result = self._read(verb, answer, _BindingResult)
        if result.error:
            raise ExtenderError(f"extender {self.name}: {verb}: {result.error}")

    async def process_preemption(
        self, pod: Pod, victims: dict[str, Victims], nodes: list[NodeInfo]
    ) -> dict[str, Victims]:
        verb = self._config.preempt_verb
        body: dict[str, Any] = {
            "Pod": msgspec.Raw(self._documents.pod(pod)),
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": None,
        }
        body["NodeNameToMetaVictims" if self._config.node_cache_capable else "NodeNameToVictims"] = self._shown(victims)
        answer = await self._call(verb, _encode(body))
        result = self._read(verb, answer, _PreemptionResult)
        infos = {node.name: node for node in nodes}
        chosen: dict[str, Victims] = {}
        for name, item in (result.node_name_to_meta_victims or {}).items():
            left = self._read(verb, item, _MetaVictims)
            if name not in infos:
                raise ExtenderError(f'extender {self.name}: {verb}: node "{name}" is no candidate')
            pods = tuple(self._victim(self._read(verb, pod, _MetaPod).uid, infos[name]) for pod in left.pods or ())
            chosen[name] = Victims(pods, left.num_pdb_violations)
        return chosen

    # -- what is sent

    def _args(self, pod: Pod, nodes: list[NodeInfo]) -> bytes:
        """ExtenderArgs: names of nodes for an extender that knows the nodes itself, else the nodes."""
        names: list[str] | None = None
        listed: dict[str, Any] | None = None
        if self._config.node_cache_capable:
            names = [node.name for node in nodes]
        else:
            listed = {"metadata": {}, "items": [msgspec.Raw(self._documents.node(node.name)) for node in nodes]}
        return _encode({"Pod": msgspec.Raw(self._documents.pod(pod)), "Nodes": listed, "NodeNames": names})

    def _shown(self, victims: Mapping[str, Victims]) -> dict[str, Any]:
        def pod(victim: Pod) -> Any:
            if self._config.node_cache_capable:
                return {"UID": victim.metadata.uid}
            return msgspec.Raw(self._documents.pod(victim))

        return {
            name: {"Pods": [pod(victim) for victim in each.pods], "NumPDBViolations": each.violation_count}
            for name, each in victims.items()
        }

    def _asks_for_managed(self, container: Container) -> bool:
        resources = container.resources
        return not (self._managed.isdisjoint(resources.requests) and self._managed.isdisjoint(resources.limits))

    async def _call(self, verb: str, body: bytes) -> Any:
        """The decoded answer."""
        target = f"{self._path}/{verb}"
        try:
            answer = await self._transport.send(Request("POST", target, self._headers, body, self._timeout_s))
        except TransportError as error:
            raise ExtenderUnreachableError(f"extender {self.name}: {verb}: {error}") from error
        if answer.status != 200:
            url = f"{self.name.rstrip('/')}/{verb}"
            what = f"failed {verb} with extender at URL {url}, code {answer.status}"
            raise (ExtenderUnreachableError if answer.status >= 500 else ExtenderError)(what)
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ExtenderError(f"extender {self.name}: {verb}: the answer is no JSON: {error}") from error

    # -- what is answered

    def _read(self, verb: str, data: Any, kind: Any) -> Any:
        """`data` as a `kind`, the case of field names aside; null is an object without fields, as in Go."""
        try:
            return msgspec.convert({} if data is None and isinstance(kind, type) else _without_case(data), kind)
        except msgspec.ValidationError as error:
            raise ExtenderError(f"extender {self.name}: {verb}: the answer makes no sense: {error}") from error

    def _name_of(self, verb: str, item: Any) -> str:
        metadata = self._read(verb, item, _Named).metadata
        name: str = self._read(verb, metadata, _Named).name
        return name

    def _victim(self, uid: str, node: NodeInfo) -> Pod:
        info = node.pods.get(uid)
        if info is None:
            raise ExtenderError(
                f"extender: {self.name} claims to preempt pod (UID: {uid}) on node: {node.name}, "
                "but the pod is not found on that node"
            )
        return info.pod


def _lower(name: str) -> str:
    return name.replace("_", "")


class _FilterResult(msgspec.Struct, rename=_lower):
    nodes: Any = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str | None = None


class _HostPriority(msgspec.Struct, rename=_lower):
    host: str = ""
    score: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] = 0


class _BindingResult(msgspec.Struct, rename=_lower):
    error: str | None = None


class _PreemptionResult(msgspec.Struct, rename=_lower):
    node_name_to_meta_victims: dict[str, Any] | None = None


class _MetaVictims(msgspec.Struct, rename=_lower):
    pods: list[Any] | None = None
    num_pdb_violations: int = 0


class _MetaPod(msgspec.Struct, rename=_lower):
    uid: str = ""


class _NodeList(msgspec.Struct, rename=_lower):
    items: list[Any] | None = None


class _Named(msgspec.Struct, rename=_lower):
    metadata: Any = None
    name: str = ""


def _without_case(data: Any) -> Any:
    """The names of an object's fields in lower case, nulls left out; not those of objects inside it."""
    if isinstance(data, dict):
        return {name.lower(): value for name, value in data.items() if value is not None}
    return data


def _cluster(config: ExtenderConfig, server: str) -> ClusterConfig:
    """As the original: `enableHTTPS` without an authority to trust trusts any."""
    tls = config.tls_config or ExtenderTLSConfig()
    ca = _pem(tls.ca_data, tls.ca_file)
    insecure = tls.insecure or (config.enable_https and ca is None)
    if server.startswith("https://") and insecure:
        log.warning("the certificate of an extender is not verified extender=%s", config.url_prefix)
    return ClusterConfig(server, ca=ca, insecure_skip_tls_verify=insecure, tls_server_name=tls.server_name)


def _tls(cluster: ClusterConfig, tls: ExtenderTLSConfig | None, clock: Clock) -> TlsContexts:
    tls = tls or ExtenderTLSConfig()
    return TlsContexts(cluster, _pem(tls.cert_data, tls.cert_file), _pem(tls.key_data, tls.key_file), clock=clock)


def _pem(data: bytes, path: str) -> PemSource | None:
    return PemSource(data=data, path="" if data else path) if data or path else None
