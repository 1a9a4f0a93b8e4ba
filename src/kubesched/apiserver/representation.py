"""Which form of an answer the client accepts: the object, its metadata alone, or a table for kubectl."""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.apiserver.messages import Request
from kubesched.apiserver.status import Refusal

OBJECT, METADATA, TABLE = "object", "metadata", "table"

_KINDS = {"PartialObjectMetadata": METADATA, "PartialObjectMetadataList": METADATA, "Table": TABLE}


@dataclass(frozen=True, slots=True)
class Form:
    """`api_version` is that of the Table or PartialObjectMetadata answer."""

    kind: str = OBJECT
    api_version: str = ""


PLAIN = Form()


def accepted(request: Request) -> Form:
    """The first acceptable form of the Accept header. Raises a 406 when there is none."""
    header = request.headers.get("accept", "")
    if not header or header in ("*/*", "application/json"):
        return PLAIN
    for media_range in header.split(","):
        media, *parameters = (part.strip() for part in media_range.split(";"))
        if media not in ("application/json", "*/*", "application/*"):
            continue
        named = dict(p.split("=", 1) for p in parameters if "=" in p)
        wanted = named.get("as")
        if wanted is None:
            return PLAIN
        kind = _KINDS.get(wanted)
        if kind and named.get("g") == "meta.k8s.io" and named.get("v") in ("v1", "v1beta1"):
            return Form(kind, f"meta.k8s.io/{named['v']}")
    raise Refusal(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
    )
