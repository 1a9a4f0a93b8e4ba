"""Recorded scenarios, read from the packed copy in tests/data/recordings."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_VERSION = re.compile(r'"resourceVersion": "(\d+)"')
PACKED = Path(__file__).parent.parent / "data" / "recordings"


@dataclass(frozen=True)
class Exchange:
    """One request and the real server's answer. `stream` holds the events of a watch, as JSON documents."""

    index: int
    step: str
    t_ms: int
    method: str
    path: str
    query: dict[str, Any]
    headers: dict[str, str]
    body: Any
    body_is_text: bool
    status: int
    answer_headers: dict[str, str]
    answer: Any
    stream: list[Any] | None
    stream_ended: bool
    stream_t_ms: tuple[int, ...] = ()

    @property
    def is_watch(self) -> bool:
        return self.stream is not None

    @property
    def newest_version(self) -> int:
        """The highest resourceVersion that the answer tells."""
        return max((int(v) for v in _VERSION.findall(json.dumps([self.answer, self.stream]))), default=0)

    @property
    def title(self) -> str:
        return f"#{self.index} {self.method} {self.path} [{self.step}]"


@dataclass(frozen=True)
class Scenario:
    name: str
    profile: str
    exchanges: tuple[Exchange, ...]
    commands: tuple[tuple[int, int], ...] = ()

    def command_end(self, exchange: Exchange) -> int | None:
        """When the command that sent the request ended (ms), None when no command did."""
        running = [(start, end) for start, end in self.commands if start <= exchange.t_ms <= end]
        return max(running)[1] if running else None


@cache
def scenarios() -> dict[str, Scenario]:
    """All scenarios with exchanges, by name."""
    found: dict[str, Scenario] = {}
    for path in sorted(PACKED.glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            document = json.loads(line)
            if b"openshift" in line:
                document = _undownstream(document)
            if document["exchanges"]:
                found[document["scenario"]] = _scenario(document)
    return found


def _undownstream(value: Any) -> Any:
    """Without the traces of the downstream tree from which the recorded server was built (its readme names them)."""
    if isinstance(value, dict):
        return {name: _undownstream(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_undownstream(part) for part in value if not _is_downstream(part)]
    if isinstance(value, str) and "openshift" in value and value.startswith("{"):
        try:
            return json.dumps(_undownstream(json.loads(value)))
        except ValueError:
            return value
    return value


def _is_downstream(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    named = [value.get(part) or {} for part in ("configMap", "metadata", "object")]
    return any("openshift" in json.dumps(part)[:400] for part in named)


@cache
def known_differences() -> dict[str, dict[int, str]]:
    """Exchanges that are known not to be equal, by scenario and index, with the reason."""
    found: dict[str, dict[int, str]] = {}
    for line in Path(__file__).with_name("known_differences.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, index, reason = line.split(" ", 2)
            found.setdefault(name, {})[int(index)] = reason
    return found


def _scenario(document: dict[str, Any]) -> Scenario:
    exchanges = tuple(_exchange(index, raw) for index, raw in enumerate(document["exchanges"]))
    commands = tuple((c["t_ms"], c["t_ms"] + c["ms"]) for c in document.get("commands") or () if "ms" in c)
    return Scenario(document["scenario"], document["profile"], exchanges, commands)


def _from_wire(raw: str) -> dict[str, Any]:
    """An answer recorded as the bytes that came over the connection."""
    head, _, body = raw.partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        text = "".join(_chunks(body))
        return {"status": int(status.split()[1]), "headers": headers, "stream": text.splitlines()}
    is_json = headers.get("content-type") == "application/json"
    return {"status": int(status.split()[1]), "headers": headers, "body": json.loads(body) if is_json else body}


def _chunks(body: str) -> list[str]:
    chunks: list[str] = []
    while True:
        size, _, body = body.partition("\r\n")
        length = int(size, 16)
        if length == 0:
            return chunks
        chunks.append(body[:length])
        body = body[length + 2 :]


def _exchange(index: int, raw: dict[str, Any]) -> Exchange:
    request, response = raw["request"], raw["response"]
    if "raw" in response:
        response = _from_wire(response["raw"])
    stream = response.get("stream")
    return Exchange(
        index,
        raw.get("step", ""),
        raw.get("t_ms", 0),
        request["method"],
        request["path"],
        request.get("query") or {},
        request.get("headers") or {},
        request.get("body"),
        bool(request.get("body_is_text")),
        response.get("status", 0),
        response.get("headers") or {},
        response.get("body"),
        [json.loads(line) if isinstance(line, str) else line for line in stream] if stream is not None else None,
        bool(response.get("stream_ended", True)),
        tuple(response.get("stream_t_ms") or ()),
    )
