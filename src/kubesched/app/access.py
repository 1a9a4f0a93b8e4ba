"""What the API server knows about callers of our own port: reviews of tokens and of access, and whom it trusts.

The bodies are those that kube-scheduler v1.36 was recorded sending. The cluster's authentication configuration (which
authorities sign the certificates of users and of proxies) is looked up at the start and again every minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kubesched.api.errors import ApiError, KubeschedError
from kubesched.client.request_metrics import NO_ANSWER
from kubesched.client.rest import ApiClient, encode
from kubesched.clock import Clock
from kubesched.metrics import Metrics
from kubesched.serving import Access, ClientCas, RequestHeaders, ReviewError, User

log = logging.getLogger("kubesched.app")

LOOK_UP_EVERY_S: Final = 60.0
_TIMEOUT_S: Final = 10.0
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews?timeout=10s"
_CLUSTER_AUTHENTICATION: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class ApiReviews:
    """A `kubesched.serving.Reviews` that asks an API server."""

    def __init__(self, authentication: ApiClient, authorization: ApiClient, clock: Clock, metrics: Metrics) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self._clock = clock
        self._metrics = metrics

    async def token(self, token: str) -> User | None:
        review = {
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "spec": {"token": token},
            "status": {"user": {}},
        }
        status = await self._post(self._authentication, _TOKEN_REVIEWS, review, self._metrics.delegated_authentication)
        if not status.get("authenticated"):
            return None
        user = status.get("user") or {}
        extra = {name: tuple(values) for name, values in (user.get("extra") or {}).items()}
        return User(user.get("username", ""), tuple(user.get("groups") or ()), user.get("uid", ""), extra)

    async def access(self, user: User, verb: str, path: str) -> Access:
        spec: dict[str, Any] = {
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.name,
            "groups": list(user.groups),
        }
        if user.extra:
            spec["extra"] = {name: list(values) for name, values in user.extra.items()}
        if user.uid:
            spec["uid"] = user.uid
        review = {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": spec,
            "status": {"allowed": False},
        }
        status = await self._post(self._authorization, _ACCESS_REVIEWS, review, self._metrics.delegated_authorization)
        return Access(bool(status.get("allowed")), status.get("reason") or "")

    async def _post(
        self, client: ApiClient, target: str, review: Mapping[str, Any], count: Callable[[str, float], None]
    ) -> Mapping[str, Any]:
        """The review's status; raises ReviewError."""
        started_s = self._clock.monotonic()
        code = NO_ANSWER
        try:
            answer = await client.request("POST", target, encode(review), timeout_s=_TIMEOUT_S)
            code = "201"
            status: Mapping[str, Any] = msgspec.json.decode(answer).get("status") or {}
            return status
        except ApiError as error:
            code = str(error.code)
            raise ReviewError(error.message) from error
        except KubeschedError as error:
            raise ReviewError(str(error)) from error
        except (msgspec.DecodeError, AttributeError) as error:
            raise ReviewError("the API server's review cannot be read") from error
        finally:
            count(code, self._clock.monotonic() - started_s)


class ClusterAuthentication(NamedTuple):
    """What the cluster publishes in kube-system/extension-apiserver-authentication."""

    cas: ClientCas
    headers: RequestHeaders


async def look_up(client: ApiClient) -> ClusterAuthentication:
    """Raises ApiError and TransportError."""
    data: Mapping[str, str] = msgspec.json.decode(await client.get(_CLUSTER_AUTHENTICATION)).get("data") or {}

    def names(key: str) -> tuple[str, ...]:
        text = data.get(key, "")
        try:
            return tuple(map(str, msgspec.json.decode(text))) if text else ()
        except (msgspec.DecodeError, TypeError):
            log.warning("ignoring a list that cannot be read configmap=extension-apiserver-authentication key=%s", key)
            return ()

    def headers(key: str) -> tuple[str, ...]:
        return tuple(name.lower() for name in names(key))

    return ClusterAuthentication(
        ClientCas(data.get("client-ca-file", "").encode(), data.get("requestheader-client-ca-file", "").encode()),
        RequestHeaders(
            username=headers("requestheader-username-headers"),
            group=headers("requestheader-group-headers"),
            uid=headers("requestheader-uid-headers"),
            extra_prefixes=headers("requestheader-extra-headers-prefix"),
            allowed_names=names("requestheader-allowed-names"),
        ),
    )
