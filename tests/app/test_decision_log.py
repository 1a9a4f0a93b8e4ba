"""One line a decision, with fields that a collector can use."""

from __future__ import annotations

import json
import logging

from kubesched.api.errors import ApiError
from kubesched.logs import JsonFormatter
from tests.build import make_node, make_pod
from tests.harness import Harness


def decisions(caplog):
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    return [line for line in lines if line.get("pod")]


async def test_each_decision_is_one_line_with_its_fields(caplog):
    caplog.set_level(logging.INFO, logger="kubesched")
    harness = Harness()
    harness.apply(*(make_node(f"n{i}").capacity(cpu=1, memory="1Gi", pods=5).obj() for i in range(3)))
    harness.apply(make_pod("fits").cpu("100m").obj())
    await harness.settle()
    harness.apply(make_pod("too-big").cpu(2).obj())
    await harness.settle()
    harness.port.bind_answers.append(ApiError(409, "Conflict", "no luck", {}))
    harness.apply(make_pod("unlucky").cpu("100m").obj())
    await harness.settle()
    fits, too_big, unlucky = decisions(caplog)[:3]
    assert fits["msg"] == "pod scheduled" and fits["pod"] == "default/fits"
    assert (fits["node"], fits["evaluated"], fits["feasible"], fits["attempt"]) == (fits["node"], 3, 3, 1)
    assert fits["node"] in {"n0", "n1", "n2"} and fits["took"]
    assert too_big["msg"] == "pod does not fit" and too_big["pod"] == "default/too-big"
    assert (too_big["evaluated"], too_big["feasible"], too_big["nominated"]) == (3, 0, "-")
    assert too_big["reason"].startswith("0/3 nodes are available: 3 Insufficient cpu.") and too_big["took"]
    assert unlucky["msg"] == "scheduling failed, will retry"
    assert (unlucky["plugin"], unlucky["level"]) == ("DefaultBinder", "ERROR")
    assert "no luck" in unlucky["error"]
    await harness.stop()
