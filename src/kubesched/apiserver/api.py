"""The API itself, without HTTP: it takes a `Request` to the handler of its verb and turns refusals into answers.

`Api` holds what all handlers share: the store, the clock, chance, the open watches. Handlers are plain coroutines
`(api, request) -> Reply`; the ones that write read, decide and commit without suspending in between.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping

from kubesched.apiserver import (
    admission,
    binding,
    components,
    deleting,
    discovery,
    eviction,
    patching,
    reading,
    reviews,
    scale,
    status,
    writing,
)
from kubesched.apiserver.authentication import (
    Accounts,
    authenticate,
    authorize,
    authorize_path,
    refuse_impersonation,
)
from kubesched.apiserver.messages import Answer, DropConnection, Reply, Request, answer_refusal, answer_text
from kubesched.apiserver.metadata import timestamp
from kubesched.apiserver.resources import Resource, core
from kubesched.apiserver.routing import route
from kubesched.apiserver.status import PlainNotFound, Refusal
from kubesched.apiserver.store import Store, Stored
from kubesched.apiserver.watch import Watch
from kubesched.clock import Chance, Clock

log = logging.getLogger("kubesched.apiserver")

Handler = Callable[["Api", Request], Awaitable[Reply]]

_HANDLERS: dict[str, Handler] = {
    "get": reading.get,
    "list": reading.list_,
    "watch": reading.watch,
    "create": writing.create,
    "update": writing.replace,
    "patch": patching.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}
_SUBRESOURCES: dict[str, dict[str, Handler]] = {
    "status": {"get": reading.get, "update": writing.replace, "patch": patching.patch},
    "resize": {"get": reading.get, "update": writing.replace, "patch": patching.patch},
    "ephemeralcontainers": {"get": reading.get, "update": writing.replace, "patch": patching.patch},
    "approval": {"get": reading.get, "update": writing.replace, "patch": patching.patch},
    "finalize": {"update": writing.finalize},
    "binding": {"create": binding.bind},
    "token": {"create": reviews.service_account_token},
    "eviction": {"create": eviction.evict},
    "scale": {"get": scale.get, "update": scale.replace, "patch": scale.patch},
}


class Api:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        profile: admission.Profile,
        *,
        anonymous: bool = True,
        checks: Mapping[str, components.Check] | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.chance = chance
        self.profile = profile
        self.accounts: Accounts = {}
        self.anonymous = anonymous
        self.watches: set[Watch] = set()
        #: The components of the control plane, in the order in which they are told.
        self.components = {**(checks or {}), "etcd-0": components.store_check(store)}
        #: The certificate that clients trust, for the pods to read; "" without TLS.
        self.ca_pem = ""

    async def handle(self, request: Request) -> Reply:
        """The reply to one request. Only DropConnection and cancellation get out."""
        try:
            reply = await self._dispatch(request)
            return writing.with_warnings(request, reply) if isinstance(reply, Answer) else reply
        except Refusal as refusal:
            return answer_refusal(refusal)
        except PlainNotFound:
            return answer_text("404 page not found\n", 404)
        except DropConnection:
            raise
        except Exception as error:
            log.exception("request failed method=%s path=%s", request.method, request.path)
            return answer_refusal(status.internal(f"{type(error).__name__}: {error}"))

    async def _dispatch(self, request: Request) -> Reply:
        account = authenticate(request, self.accounts, anonymous=self.anonymous)
        found = discovery.answer(request)
        if found is not None:
            authorize_path(request, account)
            return found
        try:
            route(request)
        except PlainNotFound:
            authorize_path(request, account)
            raise
        refuse_impersonation(request, account)
        authorize(request, account)
        if request.target.deprecated:
            request.warnings.append(request.target.deprecated)
        writing.check_options(request)
        if request.subresource:
            handler = _SUBRESOURCES.get(request.subresource, {}).get(request.verb)
            if handler is None:
                return await reading.unreachable_kubelet(self, request)
            return await handler(self, request)
        if request.target.plural == "bindings":
            return await binding.bind(self, request)
        if request.target.plural == "componentstatuses":
            return await components.answer(self, request)
        handler = _HANDLERS[request.verb]
        if not request.target.is_stored:
            return await reviews.review(self, request, account)
        return await handler(self, request)

    def find(self, request: Request) -> Stored:
        """The object that the request names. Raises the 404."""
        return self.require(request.target, request.namespace, request.name)

    def require(self, resource: Resource, namespace: str, name: str) -> Stored:
        stored = self.store.of(resource).get(namespace, name)
        if stored is None:
            raise status.not_found(resource, name)
        return stored

    def get(self, plural: str, namespace: str, name: str) -> Stored | None:
        """An object of the core group, None when there is none."""
        return self.store.of(core(plural)).get(namespace, name)

    def now(self) -> str:
        return timestamp(self.clock.now())

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.chance.randrange(1 << 128), version=4))
