"""Which form of an answer the client accepts: the object, its metadata alone, or a table for kubectl."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from kubesched.apiserver.messages import Request
from kubesched.apiserver.status import Refusal
from kubesched.apiserver.store import decode

YAML = "application/yaml"
OBJECT, METADATA, TABLE = "object", "metadata", "table"

_KINDS = {"PartialObjectMetadata": METADATA, "PartialObjectMetadataList": METADATA, "Table": TABLE}


@dataclass(frozen=True, slots=True)
class Form:
    """`api_version` is that of the Table or PartialObjectMetadata answer."""

    kind: str = OBJECT
    api_version: str = ""
    media: str = "application/json"


PLAIN = Form()
_MEDIA = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def accepted(request: Request) -> Form:
    """The first acceptable form of the Accept header. Raises a 406 when there is none."""
    header = request.headers.get("accept", "")
    if not header or header in ("*/*", "application/json"):
        return PLAIN
    form_asked = False
    for media_range in header.split(","):
        media, *parameters = (part.strip() for part in media_range.split(";"))
        if media not in ("application/json", "*/*", "application/*", YAML):
            continue
        named = dict(p.split("=", 1) for p in parameters if "=" in p)
        wanted = named.get("as")
        if wanted is None:
            return Form(media=YAML) if media == YAML else PLAIN
        form_asked = True
        kind = _KINDS.get(wanted)
        if kind and named.get("g") == "meta.k8s.io" and named.get("v") in ("v1", "v1beta1"):
            return Form(kind, f"meta.k8s.io/{named['v']}")
    if form_asked:
        raise Refusal(406, "NotAcceptable", f"only the following media types are accepted: {_MEDIA}")
    text = f"406: Not Acceptable\n\nAvailable representations: {_MEDIA}"
    raise Refusal(406, "NotAcceptable", text, {})


def wants_yaml(request: Request) -> bool:
    """Whether the client takes YAML before JSON."""
    first = request.headers.get("accept", "").split(",", 1)[0].split(";", 1)[0].strip()
    return first == YAML


def as_yaml(body: bytes) -> bytes:
    """A JSON body as YAML, members in alphabetical order as the original writes them."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(decode(body), Dumper=dumper, default_flow_style=False, width=1 << 20, allow_unicode=True)
    return text.encode()
