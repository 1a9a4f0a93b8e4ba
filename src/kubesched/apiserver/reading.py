"""get, list and watch."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from kubesched.apiserver import status, table, views
from kubesched.apiserver.messages import Answer, Reply, Request, Stream, answer_json
from kubesched.apiserver.representation import METADATA, OBJECT, TABLE, Form, accepted
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.schema import struct_of, zero
from kubesched.apiserver.selection import Selection, select
from kubesched.apiserver.status import Refusal, bad_request, invalid
from kubesched.apiserver.store import Collection, Gone, Json, Stored, decode, encode
from kubesched.apiserver.watch import Render, Watch, error_line, event_line

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

FUTURE_VERSION_WAIT_S = 3.0
BOOKMARK_INTERVAL_S = 60.0
BOOKMARK_BEFORE_END_S = 2.0
DEFAULT_WATCH_S = 1800.0

_EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


async def get(api: Api, request: Request) -> Reply:
    form = accepted(request)
    await _reach(api, _not_older_than(request))
    stored = api.find(request)
    return answer_object(api, request, stored, form)


def answer_object(api: Api, request: Request, stored: Stored, form: Form, code: int = 200) -> Answer:
    """One stored object in the form asked for."""
    resource = request.target
    if form.kind == OBJECT:
        return Answer(code, views.body(resource, stored))
    if form.kind == METADATA:
        return Answer(code, _metadata_body(form, stored))
    document = views.document(resource, stored)
    rows = table.Table(resource, api.clock.now(), request.query.get("includeObject"), form.api_version)
    return answer_json(rows.document([document], {"resourceVersion": document["metadata"]["resourceVersion"]}), code)


async def list_(api: Api, request: Request) -> Reply:
    form = accepted(request)
    resource, collection = request.target, api.store.of(request.target)
    selection = _selection(request)
    _check_list_options(request)
    revision = _revision(request.query.get("resourceVersion", ""))
    match = request.query.get("resourceVersionMatch", "")
    limit = max(request.number("limit") or 0, 0)
    token = request.query.get("continue", "")
    start, at, current = "", None, 0
    if token:
        if revision:
            raise bad_request("specifying resource version is not allowed when using continue")
        token_revision, start = _parse_token(token, request.namespace)
        at = token_revision if token_revision > 0 else None
    elif match == "Exact":
        await _reach(api, revision)
        at = revision
    else:
        await _reach(api, revision)
        if revision == 0 and request.query.get("resourceVersion") == "0":
            limit = 0
    current = api.store.revision if at is None else at
    try:
        found, more = _page(collection, selection, start, at, limit)
    except Gone:
        if not token:
            raise status.expired("The resourceVersion for the provided list is too old.") from None
        raise status.expired(_EXPIRED_CONTINUE, {"continue": _token(-1, start, request.namespace)}) from None
    metadata: Json = {"resourceVersion": str(current)}
    if more:
        metadata["continue"] = _token(current, found[-1].key + "\0", request.namespace)
        if not selection.filters:
            metadata["remainingItemCount"] = more
    return _list_answer(api, request, resource, found, metadata, form)


def _list_answer(
    api: Api, request: Request, resource: Resource, found: list[Stored], metadata: Json, form: Form
) -> Answer:
    if form.kind == TABLE:
        rows = table.Table(resource, api.clock.now(), request.query.get("includeObject"), form.api_version)
        return answer_json(rows.document([views.document(resource, s) for s in found], metadata))
    if form.kind == METADATA:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": form.api_version, "metadata": metadata}
        return Answer(body=_with_items(head, [_metadata_body(form, s) for s in found]))
    head = {"kind": resource.kind + "List", "apiVersion": resource.api_version, "metadata": metadata}
    return Answer(body=_with_items(head, [views.item(resource, s) for s in found]))


def _with_items(head: Json, items: list[bytes]) -> bytes:
    return encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"


def _page(
    collection: Collection, selection: Selection, start: str, at: int | None, limit: int
) -> tuple[list[Stored], int]:
    """The objects of one page, and how many more there are (1 for "some" when a selector is used)."""
    if at is None and selection.node:
        objects = [s for s in collection.on_node(selection.node) if s.key >= start and selection.matches(s)]
    elif at is None and selection.name and selection.namespace:
        one = collection.get(selection.namespace, selection.name)
        objects = [one] if one is not None and one.key >= start and selection.matches(one) else []
    elif not selection.filters:
        return collection.page(selection.namespace, start, limit, at)
    else:
        objects = []
        wanted = limit + 1 if limit else 0
        for stored in collection.scan(selection.namespace, start, at):
            if not selection.matches(stored):
                continue
            objects.append(stored)
            if wanted and len(objects) == wanted:
                break
    if limit and len(objects) > limit:
        return objects[:limit], len(objects) - limit
    return objects, 0


async def watch(api: Api, request: Request) -> Reply:
    form = accepted(_without_stream_parameter(request))
    resource, collection = request.target, api.store.of(request.target)
    initial_events = _check_watch_options(request)
    selection = _selection(request)
    asked = request.query.get("resourceVersion", "")
    try:
        revision = _revision(asked)
    except Refusal as refusal:
        raise status.internal(refusal.message.removeprefix("invalid resource version: ")) from None
    timeout_s = request.number("timeoutSeconds")
    bookmarks = request.flag("allowWatchBookmarks")
    render, form_key = _renderer(api, request, resource, form)
    stream = Watch(collection, selection, form_key, render)
    if initial_events is None:
        with_initial, end_marked = revision == 0, asked == "0" and bookmarks
    else:
        with_initial, end_marked = initial_events, initial_events and bookmarks
    if with_initial:
        await _reach(api, revision)
        stream.open(api.store.revision)
        stream.initial([s for s in collection.scan(selection.namespace) if selection.matches(s)])
        revision = api.store.revision
        if end_marked:
            stream.push(_bookmark(api, resource, form, revision, {"k8s.io/initial-events-end": "true"}))
    else:
        try:
            missed = collection.changes_after(revision) if revision else []
        except Gone as gone:
            text = f"too old resource version: {gone.asked} ({gone.oldest})"
            if resource.kind == "Event":  # events are watched without a cache between, which words it differently
                text = "The resourceVersion for the provided watch is too old."
            stream.push(error_line(Refusal(410, "Expired", text).document()))
            stream.close()
            return Stream(stream, lambda: None)
        stream.open(revision)
        for change in missed:
            stream.offer(change)
    return _timed(api, request, resource, collection, form, stream, revision, timeout_s, bookmarks)


def _timed(
    api: Api,
    request: Request,
    resource: Resource,
    collection: Collection,
    form: Form,
    stream: Watch,
    start_revision: int,
    timeout_s: int | None,
    bookmarks: bool,
) -> Stream:
    """Ends the stream in time, and sends bookmarks once a minute and shortly before the end."""
    life_s = float(timeout_s) if timeout_s else DEFAULT_WATCH_S * (1 + api.chance.random())
    timers = [api.clock.call_later(life_s, stream.close)]

    def mark() -> None:
        revision = max(start_revision, api.store.revision)
        stream.push(_bookmark(api, resource, form, revision, None))

    def mark_again() -> None:
        mark()
        timers.append(api.clock.call_later(BOOKMARK_INTERVAL_S, mark_again))

    if bookmarks:
        timers.append(api.clock.call_later(BOOKMARK_INTERVAL_S, mark_again))
        if life_s > BOOKMARK_BEFORE_END_S:
            timers.append(api.clock.call_later(life_s - BOOKMARK_BEFORE_END_S, mark))

    def end() -> None:
        stream.close()
        for timer in timers:
            timer.cancel()
        api.watches.discard(stream)

    api.watches.add(stream)
    return Stream(stream, end)


def _renderer(api: Api, request: Request, resource: Resource, form: Form) -> tuple[Render, Hashable]:
    if form.kind == OBJECT:
        return (lambda stored: views.body(resource, stored)), resource.api_version
    if form.kind == METADATA:
        return (lambda stored: _metadata_body(form, stored)), f"metadata {form.api_version}"
    rows = table.Table(resource, api.clock.now(), request.query.get("includeObject"), form.api_version)
    first = True

    def render(stored: Stored) -> bytes:
        nonlocal first
        document = views.document(resource, stored)
        metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
        body = rows.document([document], metadata, columns=first, now=api.clock.now())
        first = False
        return encode(body)

    return render, object()  # cells tell ages, and only the first event has columns: never shared


# Their spec.replicas, which may be absent, is a plain number inside the original, where bookmarks are made.
_COUNTED = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})


def _bookmark(api: Api, resource: Resource, form: Form, revision: int, annotations: Json | None) -> bytes:
    metadata: Json = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    if form.kind == METADATA:
        body: Json = {"kind": "PartialObjectMetadata", "apiVersion": form.api_version, "metadata": metadata}
    elif form.kind == TABLE:
        body = {
            "kind": "Table",
            "apiVersion": form.api_version,
            "metadata": {"resourceVersion": str(revision)},
            "columnDefinitions": None,
            "rows": [{"cells": [], "object": {"kind": "PartialObjectMetadata", "metadata": metadata}}],
        }
    else:
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        type_ = struct_of(resource.group, resource.version, resource.kind)
        if type_ is not None:
            body = {**zero(type_), **body}
            if resource.kind in _COUNTED:
                body["spec"]["replicas"] = 0
    return event_line("BOOKMARK", encode(body))


def _metadata_body(form: Form, stored: Stored) -> bytes:
    document = stored.document()
    return encode({"kind": "PartialObjectMetadata", "apiVersion": form.api_version, "metadata": document["metadata"]})


def _without_stream_parameter(request: Request) -> Request:
    if ";stream=watch" in request.headers.get("accept", ""):
        headers = dict(request.headers)
        headers["accept"] = headers["accept"].replace(";stream=watch", "")
        return Request(request.method, request.path, request.query, headers)
    return request


def _selection(request: Request) -> Selection:
    fields = request.query.get("fieldSelector", "")
    if request.name:
        fields = f"{fields},metadata.name={request.name}" if fields else f"metadata.name={request.name}"
    return select(request.target, request.namespace, request.query.get("labelSelector", ""), fields)


def _revision(text: str) -> int:
    if not text:
        return 0
    if not text.isdecimal():
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: '
            f'parsing "{text}": invalid syntax'
        )
    return int(text)


def _not_older_than(request: Request) -> int:
    return _revision(request.query.get("resourceVersion", ""))


async def _reach(api: Api, revision: int) -> None:
    """Waits a little for a version of the future; raises the original's 504 when it does not come."""
    if revision <= api.store.revision:
        return
    await api.clock.sleep(FUTURE_VERSION_WAIT_S)
    if revision > api.store.revision:
        raise Refusal(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {revision}, current: {api.store.revision}",
            {
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
            {"Retry-After": "1"},
        )


def _check_list_options(request: Request) -> None:
    match = request.query.get("resourceVersionMatch", "")
    asked = request.query.get("resourceVersion", "")
    causes = []
    if match:
        if not asked:
            causes.append(
                status.forbidden_field(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            )
        if request.query.get("continue"):
            causes.append(
                status.forbidden_field(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
                )
            )
        if match not in ("Exact", "NotOlderThan"):
            causes.append(status.unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and asked == "0":
            causes.append(
                status.forbidden_field(
                    "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                )
            )
    if "sendInitialEvents" in request.query:
        causes.append(status.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)


def _check_watch_options(request: Request) -> bool | None:
    """Whether initial events are asked for (None: not said)."""
    match = request.query.get("resourceVersionMatch", "")
    said = request.query.get("sendInitialEvents")
    causes = []
    if said is not None:
        if match != "NotOlderThan":
            causes.append(
                status.forbidden_field(
                    "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                )
            )
        if match and match != "NotOlderThan":
            causes.append(status.unsupported("resourceVersionMatch", match, ("NotOlderThan",)))
    elif match:
        causes.append(
            status.forbidden_field(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        )
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)
    return None if said is None else request.flag("sendInitialEvents")


def _token(revision: int, start: str, namespace: str) -> str:
    """A continue token; `start` is relative to the namespace that is listed."""
    relative = start[len(namespace) + 1 :] if namespace else start
    slash = "/" if revision > 0 else ""  # a token for an inconsistent rest has none
    content: dict[str, Any] = {"v": "meta.k8s.io/v1", "rv": revision, "start": slash + relative}
    return base64.urlsafe_b64encode(encode(content)).rstrip(b"=").decode()


def _parse_token(token: str, namespace: str) -> tuple[int, str]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise bad_request("invalid continue token: continue key is not valid: illegal base64 data") from None
    try:
        content = decode(raw)
        revision, start = int(content["rv"]), str(content["start"])
    except Exception:
        first = raw[:1].decode("latin-1")
        shown = first if first.isprintable() and ord(first) < 0x80 else f"\\u{ord(first):04x}"
        fault = f"invalid character '{shown}' looking for beginning of value"
        raise bad_request(f"invalid continue token: continue key is not valid: {fault}") from None
    relative = start.removeprefix("/")
    return revision, f"{namespace}/{relative}" if namespace else relative


async def unreachable_kubelet(api: Api, request: Request) -> Reply:
    """log, exec, proxy and the like: there is no kubelet behind this server."""
    stored = api.find(request)
    if request.subresource == "log" and not stored.document()["spec"].get("nodeName"):
        return Answer(204, b"", "")
    streams = request.subresource in ("exec", "attach", "portforward")
    if streams and not stored.document()["spec"].get("nodeName"):
        raise bad_request(f"pod {stored.name} does not have a host assigned")
    raise status.internal("no preferred addresses found; known addresses: []")
