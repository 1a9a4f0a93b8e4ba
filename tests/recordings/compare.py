"""Compares an answer with the recorded one: everything must be equal but what cannot be, and that must correspond.

Uids, versions, generated names and times of two servers differ; their relations do not. `Correspondence` holds what
stands for what: the same recorded uid is always the same uid here, a version that grew there grew here, one that stayed
stayed. Times may be apart by a little more than the shift between the two runs.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_NUMBER = re.compile(r"\d+")
_AGE = re.compile(r"\d+[smhdy](?:\d+[smhd])?")
_QUOTED_DOCUMENT = re.compile(r'"\{(?:[^"\\]|\\.)*\}"')
TIME_TOLERANCE_S = 3.0
PLACEHOLDER = re.compile(r"^<[a-z:-]+>$")


@dataclass
class Correspondence:
    """What a recorded value is on this server."""

    uids: dict[str, str] = field(default_factory=dict)
    revisions: dict[int, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    time_shift_s: float = 0.0
    #: What a recorded version stood for before the store had to move on under it.
    earlier: set[tuple[int, int]] = field(default_factory=set)

    def forget(self, recorded: int) -> None:
        """The next version that stands for `recorded` may be another one."""
        if recorded in self.revisions:
            self.earlier.add((recorded, self.revisions.pop(recorded)))

    def uid(self, recorded: str, actual: str) -> bool:
        if recorded in self.uids:
            return self.uids[recorded] == actual
        if actual in self.uids.values():
            return False
        self.uids[recorded] = actual
        return True

    def revision(self, recorded: int, actual: int) -> bool:
        """True when `actual` can stand for `recorded`: the same as before, and in the same order as all others."""
        if (recorded, actual) in self.earlier:
            return True
        if recorded in self.revisions:
            return self.revisions[recorded] == actual
        known = sorted(self.revisions)
        at = bisect_left(known, recorded)
        if at > 0 and self.revisions[known[at - 1]] > actual:
            return False
        if at < len(known) and self.revisions[known[at]] < actual:
            return False
        self.revisions[recorded] = actual
        return True

    def known_revision(self, recorded: int) -> int:
        """The version here that stands for a recorded one which may not have been seen itself."""
        if recorded in self.revisions:
            return self.revisions[recorded]
        known = sorted(self.revisions)
        at = bisect_left(known, recorded)
        if at == 0:
            return recorded if not known else min(recorded, self.revisions[known[0]])
        below = known[at - 1]
        if at == len(known):
            far = recorded - below > 10_000  # a version of the far future stays one
            return recorded + self.revisions[below] if far else self.revisions[below]
        return self.revisions[below]

    def translate(self, value: Any, key: str = "") -> Any:
        """A part of a recorded request as it must be sent here."""
        if isinstance(value, dict):
            if "op" in value and str(value.get("path", "")).endswith("/resourceVersion"):
                return {**value, "value": self.translate(value.get("value"), "resourceVersion")}
            return {name: self.translate(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self.translate(part) for part in value]
        if not isinstance(value, str):
            return value
        if key == "resourceVersion" and value.isdecimal() and value != "0":
            return str(self.known_revision(int(value)))
        if key == "continue":
            return self._translate_token(value)
        text = _UUID.sub(lambda found: self.uids.get(found.group(), found.group()), value)
        return self.names.get(text, text)

    def translate_path(self, path: str) -> str:
        return "/".join(self.names.get(part, part) for part in path.split("/"))

    def _translate_token(self, token: str) -> str:
        content = token_content(token)
        if content is None:
            return token
        if content["rv"] > 0:
            content["rv"] = self.known_revision(content["rv"])
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


@dataclass(frozen=True)
class Difference:
    path: str
    recorded: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.path or '(whole)'}: recorded {_short(self.recorded)}, here {_short(self.actual)}"


MISSING = "(missing)"


class Comparison:
    """Compares bodies under one correspondence. `ownership` also compares managedFields."""

    def __init__(self, known: Correspondence, *, ownership: bool = False) -> None:
        self.known = known
        self._ignored = [path for path in ignored_paths() if not (ownership and path[-1] == "managedFields")]
        self.differences: list[Difference] = []

    def equal(self, recorded: Any, actual: Any, path: tuple[str, ...] = ()) -> bool:
        """Whether `actual` corresponds; what does not is added to `differences`."""
        before = len(self.differences)
        self._compare(recorded, actual, path)
        return len(self.differences) == before

    def _compare(self, recorded: Any, actual: Any, path: tuple[str, ...]) -> None:
        if any(_covers(pattern, path) for pattern in self._ignored):
            return
        if _is_cut(recorded):
            return
        if isinstance(recorded, dict) and isinstance(actual, dict):
            for name in [*recorded, *(n for n in actual if n not in recorded)]:
                self._compare(recorded.get(name, MISSING), actual.get(name, MISSING), (*path, name))
        elif isinstance(recorded, list) and isinstance(actual, list):
            self._compare_lists(recorded, actual, path)
        elif not self._same_scalar(recorded, actual, path):
            self.differences.append(Difference(".".join(path), recorded, actual))

    def _compare_lists(self, recorded: list[Any], actual: list[Any], path: tuple[str, ...]) -> None:
        cut = next((i for i, item in enumerate(recorded) if _is_cut(item)), None)
        if cut is not None:
            left_out = recorded[cut].get("_cut_items") if isinstance(recorded[cut], dict) else None
            head, tail = recorded[:cut], recorded[cut + 1 :]
            if isinstance(left_out, int) and len(actual) != len(head) + left_out + len(tail):
                self.differences.append(
                    Difference(".".join((*path, "length")), len(recorded) - 1 + left_out, len(actual))
                )
                return
            pairs = [*zip(head, actual, strict=False)]
            pairs += [*zip(tail, actual[len(actual) - len(tail) :], strict=False)] if tail else []
        else:
            if len(recorded) != len(actual):
                self.differences.append(Difference(".".join((*path, "length")), len(recorded), len(actual)))
            pairs = [*zip(recorded, actual, strict=False)]
        for index, (one, other) in enumerate(pairs):
            self._compare(one, other, (*path, str(index)))

    def _same_scalar(self, recorded: Any, actual: Any, path: tuple[str, ...]) -> bool:
        if type(recorded) is not type(actual) or recorded == MISSING or actual == MISSING:
            return False
        if not isinstance(recorded, str):
            return bool(recorded == actual)
        if PLACEHOLDER.match(recorded):
            return True
        key = path[-1] if path else ""
        if key == "resourceVersion" and recorded.isdecimal() and actual.isdecimal():
            return self.known.revision(int(recorded), int(actual))
        if key == "continue":
            return self._same_token(recorded, actual)
        if recorded == actual and not _UUID.fullmatch(recorded) and not _TIME.fullmatch(recorded):
            return True
        if self.known.names.get(recorded) == actual:
            return True
        return self._same_text(recorded, actual, cell="cells" in path)

    def _same_text(self, recorded: str, actual: str, *, cell: bool) -> bool:
        """Texts that are equal but for uids, times, versions and generated names inside them."""
        if cell and _AGE.search(recorded) and _AGE.search(actual) and _masked(recorded, _AGE) == _masked(actual, _AGE):
            return True
        one, other = _embedded(recorded), _embedded(actual)
        if one is not None and other is not None:
            return (one[0], one[2]) == (other[0], other[2]) and not self._apart(one[1], other[1])
        if _skeleton(recorded) != _skeleton(self._renamed(actual)):
            return False
        if not all(self.known.uid(a, b) for a, b in zip(_UUID.findall(recorded), _UUID.findall(actual), strict=True)):
            return False
        if not all(self._same_time(a, b) for a, b in zip(_TIME.findall(recorded), _TIME.findall(actual), strict=True)):
            return False
        numbers = zip(_NUMBER.findall(_bare(recorded)), _NUMBER.findall(_bare(self._renamed(actual))), strict=True)
        return all(a == b or self.known.revision(int(a), int(b)) for a, b in numbers)

    def _apart(self, recorded: Any, actual: Any) -> bool:
        """Whether two documents told inside a message differ."""
        before = len(self.differences)
        same = self.equal(recorded, actual)
        del self.differences[before:]
        return not same

    def _renamed(self, actual: str) -> str:
        for recorded_name, name in self.known.names.items():
            actual = actual.replace(name, recorded_name)
        return actual

    def _same_time(self, recorded: str, actual: str) -> bool:
        apart = _epoch(actual) - _epoch(recorded) - self.known.time_shift_s
        return recorded == actual or abs(apart) <= TIME_TOLERANCE_S

    def _same_token(self, recorded: str, actual: str) -> bool:
        one, other = token_content(recorded), token_content(actual)
        if one is None or other is None:
            return recorded == actual
        same_version = one["rv"] == other["rv"] or (one["rv"] > 0 and self.known.revision(one["rv"], other["rv"]))
        return bool(same_version) and one["start"].lstrip("/") == other["start"].lstrip("/")


def token_content(token: str) -> dict[str, Any] | None:
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except ValueError:
        return None
    return content if isinstance(content, dict) and "rv" in content else None


def ignored_paths() -> list[tuple[str, ...]]:
    text = Path(__file__).with_name("ignored_paths.txt").read_text()
    return [tuple(line.split(".")) for line in text.splitlines() if line and not line.startswith("#")]


def _covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_covers(pattern[1:], path[i:]) for i in range(len(path) + 1))
    return bool(path) and pattern[0] in ("*", path[0]) and _covers(pattern[1:], path[1:])


def _is_cut(value: Any) -> bool:
    return isinstance(value, dict) and bool({"_cut", "_cut_items", "_protobuf_bytes"} & value.keys())


def _embedded(text: str) -> tuple[str, Any, str] | None:
    """A message that holds a whole document as a quoted string: what is before, the document, what is after."""
    found = _QUOTED_DOCUMENT.search(text)
    if found is None:
        return None
    try:
        return text[: found.start()], json.loads(json.loads(found.group())), text[found.end() :]
    except ValueError:
        return None


def _masked(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub("~", text)


def _bare(text: str) -> str:
    return _TIME.sub("~", _UUID.sub("~", text))


def _skeleton(text: str) -> str:
    return _NUMBER.sub("0", _bare(text))


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) and value == MISSING else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:300] + f"… ({len(text)})"
