"""`/statusz` and `/flagz`: text for people, and JSON or YAML for programs that name the exact kind and version."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

from kubesched.clock import Clock
from kubesched.serving.answers import Answer, Asked, failure, plain

COMPONENT: Final = "kube-scheduler"
BINARY_VERSION: Final = "1.36"
GROUP: Final = "config.k8s.io"
_VERSIONS: Final = ("v1beta1", "v1alpha1")
_DEPRECATED: Final = "v1alpha1"
_NOT_ACCEPTABLE: Final = "only the following media types are accepted: application/json, application/yaml, text/plain"
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
_LISTED_PATHS: Final = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")


class Statusz:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_s = clock.now()
        self._started_mono_s = clock.monotonic()

    def answer(self, asked: Asked) -> Answer:
        return negotiate(asked, "Statusz", self._text, self._document)

    def _document(self) -> dict[str, Any]:
        return {
            "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started_s)),
            "uptimeSeconds": int(self._clock.monotonic() - self._started_mono_s),
            "goVersion": runtime_version(),
            "binaryVersion": BINARY_VERSION,
            "emulationVersion": BINARY_VERSION,
            "paths": list(_LISTED_PATHS),
        }

    def _text(self) -> str:
        up_s = int(self._clock.monotonic() - self._started_mono_s)
        lines = {
            "Started": time.strftime("%a %b %e %H:%M:%S UTC %Y", time.gmtime(self._started_s)),
            "Up": f"{up_s // 3600} hr {up_s // 60 % 60:02d} min {up_s % 60:02d} sec",
            "Go version": runtime_version(),
            "Binary version": BINARY_VERSION,
            "Emulation version": BINARY_VERSION,
            "Paths": " ".join(_LISTED_PATHS),
        }
        return _headed("statusz", [f"{name}  {value}" for name, value in lines.items()], gap=True)


class Flagz:
    def __init__(self, flags: Mapping[str, str]) -> None:
        self._flags = dict(sorted(flags.items()))

    def answer(self, asked: Asked) -> Answer:
        return negotiate(asked, "Flagz", self._text, lambda: {"flags": self._flags})

    def _text(self) -> str:
        return _headed("flagz", [f"{name} {value}" for name, value in self._flags.items()])


def negotiate(asked: Asked, kind: str, as_text: Any, as_document: Any) -> Answer:
    """The first media type that can be given; JSON and YAML only where kind, version and group are named."""
    accept = asked.headers.get("accept", "")
    for item in accept.split(",") if accept.strip() else ["*/*"]:
        media_type, _, rest = item.strip().partition(";")
        given = dict(pair.strip().split("=", 1) for pair in rest.split(";") if "=" in pair)
        if media_type in ("text/plain", "text/*", "*/*"):
            return plain(as_text())
        if media_type not in ("application/json", "application/yaml"):
            continue
        version = given.get("v", "")
        if given.get("as") != kind or given.get("g") != GROUP or version not in _VERSIONS:
            continue
        head = {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": COMPONENT}}
        document = {**head, **as_document()}
        if media_type == "application/json":
            body = msgspec.json.encode(document)
        else:
            body = yaml.safe_dump(document, sort_keys=False).encode()
        notice = f'299 - "This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."'
        headers = {"Warning": notice} if version == _DEPRECATED else {}
        return Answer(200, body, f"{media_type};g={GROUP};v={version};as={kind}", headers)
    return failure(406, "NotAcceptable", _NOT_ACCEPTABLE)


def runtime_version() -> str:
    """What stands where the original names its Go version."""
    return f"python{platform.python_version()}"


def _headed(page: str, lines: list[str], *, gap: bool = False) -> str:
    return "\n".join(["", f"{COMPONENT} {page}", _WARNING, *([""] if gap else []), *lines, ""])
