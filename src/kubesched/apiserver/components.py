"""ComponentStatuses: how the scheduler, the controller manager and the store are at this moment.

They are not stored. Each get and list asks the components, all of them at once, and only the request that asked waits
for them. What asks a component is a `Check` that the server gives; nothing here knows of networks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubesched.apiserver import status, table
from kubesched.apiserver.messages import Answer, Reply, Request, answer_json
from kubesched.apiserver.representation import METADATA, TABLE, Form, accepted
from kubesched.apiserver.selection import select
from kubesched.apiserver.store import Json, Store

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api


@dataclass(frozen=True, slots=True)
class Health:
    """`healthy` None: it could not be found out, and `error` says why."""

    healthy: bool | None
    message: str = ""
    error: str = ""

    def condition(self) -> Json:
        texts = {"message": self.message, "error": self.error}
        return {
            "type": "Healthy",
            "status": {True: "True", False: "False", None: "Unknown"}[self.healthy],
            **{name: text for name, text in texts.items() if text},
        }


Check = Callable[[], Awaitable[Health]]


def store_check(store: Store) -> Check:
    """The store is a part of this process: it is well as long as it tells where it is."""

    async def check() -> Health:
        return Health(store.revision >= 0, "ok")

    return check


async def answer(api: Api, request: Request) -> Reply:
    """get and list."""
    if request.verb == "watch":
        raise status.method_not_supported(request.target, "watch")
    form = accepted(request)
    if request.name:
        check = api.components.get(request.name)
        if check is None:
            raise status.internal(f"Component not found: {request.name}")
        return _one(api, request, form, await _ask(request.name, check))
    selection = select(
        request.target, "", request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    )
    found = await asyncio.gather(*(_ask(name, check) for name, check in api.components.items()))
    return _list(api, request, form, [component for component in found if selection.matches(component)])


@dataclass(frozen=True, slots=True)
class _Component:
    """A component as selectors see it: it has a name, and nothing else to select by."""

    name: str
    health: Health
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()

    @property
    def item(self) -> Json:
        return {"metadata": {"name": self.name}, "conditions": [self.health.condition()]}


async def _ask(name: str, check: Check) -> _Component:
    return _Component(name, await check())


def _one(api: Api, request: Request, form: Form, component: _Component) -> Answer:
    document = {"kind": request.target.kind, "apiVersion": request.target.api_version, **component.item}
    if form.kind == TABLE:
        return _table(api, request, form, [document])
    if form.kind == METADATA:
        head = {"kind": "PartialObjectMetadata", "apiVersion": form.api_version}
        return answer_json({**head, "metadata": document["metadata"]})
    return answer_json(document)


def _list(api: Api, request: Request, form: Form, components: list[_Component]) -> Answer:
    head = {"kind": request.target.kind, "apiVersion": request.target.api_version}
    if form.kind == TABLE:
        return _table(api, request, form, [{**head, **component.item} for component in components])
    items = [component.item for component in components]
    if form.kind == METADATA:
        head = {"kind": "PartialObjectMetadata", "apiVersion": form.api_version}
        items = [{**head, "metadata": item["metadata"]} for item in items]
    return answer_json(
        {"kind": head["kind"] + "List", "apiVersion": head["apiVersion"], "metadata": {}, "items": items}
    )


def _table(api: Api, request: Request, form: Form, documents: list[Json]) -> Answer:
    rows = table.Table(request.target, api.clock.now(), request.query.get("includeObject"), form.api_version)
    return answer_json(rows.document(documents, {}))
