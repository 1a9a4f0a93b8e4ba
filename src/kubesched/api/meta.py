"""What every object carries, and the base of all structs of `kubesched.api`.

Structs are for reading: only what scheduling reads is declared, unknown fields are dropped while decoding. Nothing is
ever written back from them, since a document made from a struct would erase what the struct does not know.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, TypeAlias, dataclass_transform

import msgspec
from msgspec import field

#: The API's integers: a server refuses anything else, and what computes with them may rely on it.
Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False, repr_omit_defaults=True):
    """A piece of an API object: immutable, compared by value, named as in Python (`hostPort` is `host_port`).

    Sequences are tuples and maps are dicts that nobody changes. `gc=False` holds because API objects have no cycles.
    """


class OwnerReference(Struct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    generation: Int64 = 0
    generate_name: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, at most one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Object(Struct):
    """Base of all kinds. Names and uids are at hand without the detour through `metadata`."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, or just the name of an object without namespace."""
        metadata = self.metadata
        return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


class PartialObject(Object):
    """An object of any kind of which only the metadata matters, such as a watch bookmark."""

    api_version: str = ""
    kind: str = ""


class Condition(Struct):
    """One shape for the conditions of all kinds."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    last_heartbeat_time: str | None = None
    observed_generation: Int64 = 0


class LocalObjectReference(Struct):
    name: str = ""


class ObjectReference(Struct):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class StatusCause(Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: Int32 = 0


class ListMeta(Struct):
    resource_version: str = ""
    continue_: str = field(name="continue", default="")
    remaining_item_count: Int64 | None = None


class Status(Struct):
    """The API server's answer where there is no object to give: every error, and some deletions."""

    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: Int32 = 0


def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time, with any number of fractional digits. ValueError if it is none."""
    try:
        parsed = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise ValueError(f"{text!r} is not an RFC 3339 time") from None
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time: it names no time zone")
    return parsed.timestamp()


def format_time(seconds: float) -> str:
    """`2026-01-15T08:00:00Z`: Kubernetes' Time, to the second (cut, not rounded)."""
    return _second(math.floor(seconds))


def format_micro_time(seconds: float) -> str:
    """`2026-01-15T08:00:00.000000Z`: Kubernetes' MicroTime, always six digits, as leases and events want it."""
    whole = math.floor(seconds)
    micros = round((seconds - whole) * 1_000_000)
    if micros == 1_000_000:
        whole, micros = whole + 1, 0
    return f"{_second(whole)[:-1]}.{micros:06d}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
