"""Small kinds of the cluster: namespaces, config maps, secrets, priority classes, disruption budgets."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.base import Rules, reset_status
from kubesched.apiserver.status import Cause, forbidden, forbidden_field, invalid_value, quoted
from kubesched.apiserver.store import Json, decode

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITY_CLASSES = ("system-node-critical", "system-cluster-critical")


DATA_LIMIT_BYTES = 1 << 20
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_LIMIT = 253
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def _default_namespace(namespace: Json) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}


def _create_namespace(api: Api, resource: Resource, namespace: Json) -> None:
    finalizers = namespace["spec"].get("finalizers") or []
    namespace["spec"] = {"finalizers": finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def _keep_namespace(old: Json, new: Json) -> None:
    new["spec"] = old["spec"]


NAMESPACE = Rules(default=_default_namespace, on_create=_create_namespace, on_update=_keep_namespace, label_name=True)


def _immutable_data(old: Json, new: Json) -> list[Cause]:
    if not old.get("immutable"):
        return []
    changed = ["immutable"] if not new.get("immutable") else []
    changed += [name for name in ("data", "binaryData") if old.get(name) != new.get(name)]
    return [forbidden_field(name, "field is immutable when `immutable` is set") for name in changed]


def _default_secret(secret: Json) -> None:
    plain = secret.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(value.encode()).decode() for name, value in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    secret.setdefault("type", "Opaque")


def _check_config_map(document: Json) -> list[Cause]:
    texts, binaries = document.get("data") or {}, document.get("binaryData") or {}
    causes = _check_keys(texts, "data")
    causes += [
        invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData") for key in texts if key in binaries
    ]
    causes += _check_keys(binaries, "binaryData")
    size_bytes = sum(len(text.encode()) for text in texts.values()) + _decoded_bytes(binaries)
    return causes + _check_size(size_bytes, "[]")


def _check_secret(document: Json) -> list[Cause]:
    data = document.get("data") or {}
    return _check_keys(data, "data") + _check_size(_decoded_bytes(data), "data")


def _check_keys(data: Json, path: str) -> list[Cause]:
    return [invalid_value(f"{path}[{key}]", key, text) for key in data if (text := _key_fault(key))]


def _key_fault(key: str) -> str:
    if len(key) > _KEY_LIMIT:
        return f"must be no more than {_KEY_LIMIT} bytes"
    if not _KEY.fullmatch(key):
        return _KEY_TEXT
    if key == ".":
        return "must not be '.'"
    if key.startswith(".."):
        return "must not be '..'" if key == ".." else "must not start with '..'"
    return ""


def _decoded_bytes(data: Json) -> int:
    return sum(len(text) * 3 // 4 - text.count("=") for text in data.values())


def _check_size(size_bytes: int, path: str) -> list[Cause]:
    if size_bytes <= DATA_LIMIT_BYTES:
        return []
    return [Cause("FieldValueTooLong", f"Too long: may not be more than {DATA_LIMIT_BYTES} bytes", path)]


CONFIG_MAP = Rules(validate=_check_config_map, validate_update=_immutable_data)
SECRET = Rules(default=_default_secret, validate=_check_secret, validate_update=_immutable_data)


def _default_priority_class(document: Json) -> None:
    document.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _create_priority_class(api: Api, resource: Resource, document: Json) -> None:
    if not document.get("globalDefault"):
        return
    for stored in api.store.of(resource).items.values():
        if decode(stored.body).get("globalDefault"):
            raise forbidden(
                resource,
                document["metadata"].get("name", ""),
                f"PriorityClass {stored.name} is already marked as default. Only one default can exist",
            )


def _check_priority_class(document: Json) -> list[Cause]:
    name, value = document["metadata"].get("name", ""), document.get("value", 0)
    if name in SYSTEM_PRIORITY_CLASSES:
        return []
    causes = []
    if name.startswith("system-"):
        text = "priority class names with 'system-' prefix are reserved for system use only. error: "
        causes.append(forbidden_field("metadata.name", f"{text}{name} is not a known system priority class"))
    if value > HIGHEST_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        causes.append(forbidden_field("value", text))
    if document.get("preemptionPolicy") not in ("PreemptLowerPriority", "Never"):
        from kubesched.apiserver.status import unsupported

        causes.append(
            unsupported("preemptionPolicy", document.get("preemptionPolicy"), ("Never", "PreemptLowerPriority"))
        )
    return causes


def _update_priority_class(old: Json, new: Json) -> list[Cause]:
    causes = []
    if old.get("value", 0) != new.get("value", 0):
        causes.append(forbidden_field("value", "may not be changed in an update."))
    if old.get("preemptionPolicy") != new.get("preemptionPolicy"):
        causes.append(invalid_value("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    return causes


PRIORITY_CLASS = Rules(
    default=_default_priority_class,
    on_create=_create_priority_class,
    validate=_check_priority_class,
    validate_update=_update_priority_class,
)


def _create_budget(api: Api, resource: Resource, document: Json) -> None:
    document["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


def _check_budget(document: Json) -> list[Cause]:
    spec = document["spec"]
    causes = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": _go_selector(spec.get("selector")),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        text = f"Invalid value: {quoted(shown)}: minAvailable and maxUnavailable cannot be both set"
        causes.append(Cause("FieldValueInvalid", text, "spec"))
    for name in ("minAvailable", "maxUnavailable"):
        causes += _check_share(spec.get(name), f"spec.{name}")
    return causes


def _go_selector(selector: Any) -> Any:
    return selector


def _check_share(value: Any, path: str) -> list[Cause]:
    if isinstance(value, int) and value < 0:
        return [invalid_value(path, value, "must be greater than or equal to 0")]
    if isinstance(value, str):
        if not value.endswith("%") or not value[:-1].isdecimal():
            text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
            return [invalid_value(path, value, text + "regex used for validation is '[0-9]+%')")]
        if int(value[:-1]) > 100:
            return [invalid_value(path, value, "must not be greater than 100%")]
    return []


POD_DISRUPTION_BUDGET = Rules(on_create=_create_budget, validate=_check_budget)

__all__ = [
    "CONFIG_MAP", "NAMESPACE", "POD_DISRUPTION_BUDGET", "PRIORITY_CLASS", "SECRET", "SYSTEM_PRIORITY_CLASSES",
    "reset_status",
]  # fmt: skip
