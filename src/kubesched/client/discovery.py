"""Finding a custom resource: its kind, and whether it lives in namespaces. It may not be there, or not yet."""

from __future__ import annotations

import msgspec

from kubesched.api import kinds
from kubesched.api.errors import ApiError, DecodeError
from kubesched.api.kinds import Kind
from kubesched.client.rest import ApiClient


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


async def find(client: ApiClient, resource: str) -> Kind | None:
    """The kind of a resource such as "foos.v1.example.com"; None while the server does not serve it.

    ApiError or TransportError when the server cannot be asked.
    """
    plural, version, group = resource.split(".", 2)
    path = f"/apis/{group}/{version}"
    try:
        answer = await client.get(path)
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    try:
        served = msgspec.json.decode(answer, type=_Resources).resources
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError("APIResourceList", "", path, "", str(error)) from error
    found = next((each for each in served if each.name == plural), None)
    return None if found is None else kinds.custom(resource, found.kind, namespaced=found.namespaced)
