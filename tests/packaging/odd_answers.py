"""What becomes of odd answers, at every point where plugins are asked: `python -m tests.packaging.odd_answers`.

Prints one JSON document: for each point and answer what an explanation says, who is placed where, who waits for what,
and what was logged. Two builds of kubesched must print the same; see `test_same_as_pure`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections import Counter, namedtuple
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np

from kubesched import Cluster
from kubesched.framework import Code, Plugin, PostFilterResult, PreFilterResult, Reads, Status, Verdicts
from tests.breaking.test_plugins import BESIDE, NODES, PODS, RIGHT, configuration


class Text(str): ...


class Number(int): ...


class Numbered(IntEnum):
    TWO = 2


class MyStatus(Status): ...


class MyVerdicts(Verdicts): ...


Pair = namedtuple("Pair", "status seconds")


class Neither:
    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


async def later(*_: Any) -> None: ...


NO = Status.unschedulable("no")


def verdicts(kind: str) -> Verdicts:
    return Verdicts(np.array([0, 1, 0]).astype(kind), [None, NO])


def raised(error: BaseException) -> Any:
    raise error


#: Made anew each time, so that nothing of one case is left to the next.
ANSWERS: dict[str, Callable[[], Any]] = {
    "True": lambda: True,
    "np.True": lambda: np.True_,
    "np.int64": lambda: np.int64(3),
    "np.int8": lambda: np.int8(3),
    "np.float64": lambda: np.float64(3.7),
    "np.float32": lambda: np.float32(3.7),
    "a float": lambda: 3.7,
    "an int": lambda: 3,
    "a number of its own": lambda: Number(3),
    "an enum's": lambda: Numbered.TWO,
    "a text of its own": lambda: Text("x"),
    "a decimal": lambda: Decimal(3),
    "a fraction": lambda: Fraction(1, 3),
    "bytes": lambda: b"x",
    "2**62": lambda: 2**62,
    "2**63": lambda: 2**63,
    "-2**63": lambda: -(2**63),
    "2**80": lambda: 2**80,
    "infinity": lambda: float("inf"),
    "a complex": lambda: 1j,
    "a list": list,
    "a dict": dict,
    "a function": lambda: later,
    "a coroutine": later,
    "neither true nor false": Neither,
    "a class": lambda: Status,
    "success": lambda: Status(Code.SUCCESS),
    "Status(2)": lambda: Status(2, "x"),  # type: ignore[arg-type]
    "Status(np.int64(2))": lambda: Status(np.int64(2), "x"),  # type: ignore[arg-type]
    "Status(True)": lambda: Status(True, "x"),  # type: ignore[arg-type]
    "Status(text)": lambda: Status("x"),  # type: ignore[arg-type]
    "Status()": lambda: Status(),  # type: ignore[call-arg]
    "a reason that is a number": lambda: Status.unschedulable(5),  # type: ignore[arg-type]
    "a reason that is an exception": lambda: Status.unresolvable(ValueError("odd")),  # type: ignore[arg-type]
    "a reason of its own": lambda: Status.unschedulable(Text("s")),
    "no reason": lambda: Status.unschedulable(),
    "an error that is a number": lambda: Status.error(7),  # type: ignore[arg-type]
    "an error without text": lambda: Status.error(RuntimeError()),
    "pending": lambda: Status.pending("p"),
    "skip": lambda: Status.skip(),
    "a plugin that is a number": lambda: Status(Code.ERROR, "x", plugin=5),  # type: ignore[arg-type]
    "somebody else's": lambda: NO.of("Other"),
    "a status of its own": lambda: MyStatus.unschedulable("mine"),
    "a code": lambda: Code.UNSCHEDULABLE,
    "a wait": lambda: (Status.wait("w"), 1),
    "a wait of np.float64": lambda: (Status.wait("w"), np.float64(1)),
    "a wait of np.int32": lambda: (Status.wait("w"), np.int32(1)),
    "a wait of a text": lambda: (Status.wait("w"), "10"),
    "a wait of True": lambda: (Status.wait("w"), True),
    "a wait of 2**80": lambda: (Status.wait("w"), 2**80),
    "a wait in a tuple of its own": lambda: Pair(Status.wait("w"), 1),
    "a wait in a list": lambda: [Status.wait("w"), 1],
    "a nomination": lambda: (PostFilterResult("n1"), None),
    "a nomination of its own": lambda: (PostFilterResult(Text("n1")), None),
    "a nomination that is a number": lambda: (PostFilterResult(5), NO),  # type: ignore[arg-type]
    "names": lambda: PreFilterResult([Text("n1"), "n3"]),
    "names that are numbers": lambda: PreFilterResult({1, 2}),  # type: ignore[arg-type]
    "verdicts of int8": lambda: verdicts("int8"),
    "verdicts of uint64": lambda: verdicts("uint64"),
    "verdicts of bool": lambda: verdicts("bool"),
    "verdicts of objects": lambda: verdicts("object"),
    "verdicts in a list": lambda: Verdicts([0, 1, 0], [None, NO]),  # type: ignore[arg-type]
    "verdicts of nothing": lambda: Verdicts(None, [None]),  # type: ignore[arg-type]
    "verdicts below 0": lambda: Verdicts(np.array([0, -1, 0]), [None, NO]),
    "verdicts of its own": lambda: MyVerdicts(np.array([0, 1, 0]), [None, NO]),
    "statuses in a tuple": lambda: Verdicts(np.array([0, 1, 0]), (None, NO)),  # type: ignore[arg-type]
    "statuses in a dict": lambda: Verdicts(np.array([0, 1, 0]), {0: None, 1: NO}),  # type: ignore[arg-type]
    "statuses that are errors": lambda: Verdicts(np.array([0, 1, 0]), [None, Status.error("e")]),
    "verdicts by domain": lambda: Verdicts.by_domain(np.array([0, 1]), np.array([0, 1, -1]), [None, NO]),
    "scores in a list": lambda: [np.int8(1), 2.9, True],
    "scores that are texts": lambda: ["1", "2", "3"],
    "scores beyond 64 bits": lambda: [2**63, 1, 1],
    "scores of float64": lambda: np.array([1.5, float("nan"), 2]),
    "scores out of range": lambda: np.array([-1, 101, 3]),
    "scores in two dimensions": lambda: np.ones((3, 1)),
    "scores that skip": lambda: np.arange(6)[::2],
    "a KeyError": lambda: raised(KeyError("x")),
    "a group": lambda: raised(BaseExceptionGroup("g", [ValueError(1)])),
    "an assertion": lambda: raised(AssertionError("a")),
}


def main() -> None:
    log = logging.getLogger("kubesched")
    log.setLevel(logging.INFO)
    log.propagate = False
    told: dict[str, Any] = {}
    for point in RIGHT:
        for name, answer in ANSWERS.items():
            heard = _Heard()
            log.addHandler(heard)
            told[f"{point}: {name}"] = {**_attempt(point, _answering(point, answer)), "log": sorted(heard.lines)}
            log.removeHandler(heard)
    text = json.dumps(told, default=repr, sort_keys=True)
    sys.stdout.write(re.sub(r"took=[0-9.]+m?s|0x[0-9a-f]+", "", text))


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.lines.append(f"{record.levelname} {record.getMessage()} {type(error).__name__}")


def _answering(point: str, answer: Callable[[], Any]) -> type[Plugin]:
    """Twice about each pod: an explanation, and the first attempt."""
    asked: Counter[str] = Counter()

    def method(self: Plugin, *args: Any) -> Any:
        pod = next((each.metadata.name for each in args if hasattr(each, "metadata")), "")
        asked[pod] += 1
        return answer() if asked[pod] <= 2 else RIGHT[point](self, *args)

    methods: dict[str, Any] = {each: RIGHT[each] for each in BESIDE.get(point, ())}
    if point == "sign":
        methods["filter_reads"] = methods["score_reads"] = Reads(row=1)
    return type("Odd", (Plugin,), {"name": "Odd", **methods, point: method})


def _attempt(point: str, plugin: type[Plugin]) -> dict[str, Any]:
    try:
        cluster = Cluster([*NODES, *PODS], config=configuration(point), plugins=[plugin])
        said = cluster.explain("a").to_dict(details=True)
        run = cluster.run()
    except (Exception, asyncio.CancelledError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"explained": said, "placements": run.placements, "pending": run.pending}


if __name__ == "__main__":
    main()
