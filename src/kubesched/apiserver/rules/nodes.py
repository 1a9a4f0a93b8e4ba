"""Nodes: podCIDRs, taints, capacities; the status that registers with the node is taken as sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.base import Rules
from kubesched.apiserver.rules.pod_validation import TAINT_EFFECTS, not_negative
from kubesched.apiserver.status import Cause, duplicate, required, unsupported
from kubesched.apiserver.store import Json

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def default(node: Json) -> None:
    spec, status = node["spec"], node["status"]
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def admit(api: Api, resource: Resource, node: Json) -> None:
    if api.profile.taint_nodes:
        taints = node["spec"].setdefault("taints", [])
        if not any((t["key"], t["effect"]) == tuple(_NOT_READY_TAINT.values()) for t in taints):
            taints.append(dict(_NOT_READY_TAINT))


def validate(node: Json) -> list[Cause]:
    causes, seen = [], set()
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        where, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        if not key:
            causes.append(required(f"{where}.key"))
        if not effect:
            causes.append(required(f"{where}.effect"))
        elif effect not in TAINT_EFFECTS:
            causes.append(unsupported(f"{where}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            value = {
                "Key": key,
                "Value": taint.get("value", ""),
                "Effect": effect,
                "TimeAdded": taint.get("timeAdded"),
            }
            found = duplicate(where, value)
            text = f"{found.text}: taints must be unique by key and effect pair"
            causes.append(Cause(found.reason, text, where))
        seen.add((key, effect))
    for group in ("capacity", "allocatable"):
        for name, value in (node["status"].get(group) or {}).items():
            causes += not_negative(value, f"status.{group}.{name}")
    return causes


RULES = Rules(default=default, admit=admit, validate=validate, update_checks=2)
