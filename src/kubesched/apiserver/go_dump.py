"""The diff that kube-apiserver prints when a pod's spec may not change: Go's indented dump of the two, as a diff.

The dump follows the server's internal type: field names in Go's spelling, absent fields spelled out, the flags for the
host's namespaces inside SecurityContext.
"""

from __future__ import annotations

import difflib
import json
from typing import Any

from kubesched.apiserver.schema import Struct, struct
from kubesched.apiserver.store import Json

_ACRONYMS = {
    "dnsPolicy": "DNSPolicy", "dnsConfig": "DNSConfig", "tty": "TTY", "uid": "UID", "ip": "IP", "hostIP": "HostIP",
    "setHostnameAsFQDN": "SetHostnameAsFQDN", "os": "OS", "httpGet": "HTTPGet", "tcpSocket": "TCPSocket",
    "grpc": "GRPC",
}  # fmt: skip
_HOST = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_LEADING = (
    "volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy", "terminationGracePeriodSeconds",
    "activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName", "automountServiceAccountToken",
    "nodeName", "securityContext", "imagePullSecrets", "hostname", "subdomain", "setHostnameAsFQDN", "affinity",
    "schedulerName", "tolerations", "hostAliases", "priorityClassName", "priority", "preemptionPolicy", "dnsConfig",
    "readinessGates", "runtimeClassName", "overhead", "enableServiceLinks", "topologySpreadConstraints", "os",
    "schedulingGates", "resourceClaims", "resources", "hostnameOverride",
)  # fmt: skip


def spec_diff(before: Json, after: Json) -> str:
    lines = list(difflib.unified_diff(_dump(before), _dump(after), n=3, lineterm=""))
    return "".join(line[:1] + line[1:] + "\n" for line in lines[2:])


def _dump(spec: Json) -> list[str]:
    type_ = struct("io.k8s.api.core.v1.PodSpec")
    assert type_ is not None
    shown: Json = {}
    for name in _LEADING:
        field = type_.fields.get(name)
        if field is None:
            continue
        shown[_go_name(name)] = _value(field.type, spec.get(name), field.pointer)
        if name == "securityContext":
            host = {
                _go_name(h): spec.get(h, None if h in ("shareProcessNamespace", "hostUsers") else False) for h in _HOST
            }
            inner = shown["SecurityContext"]
            shown["SecurityContext"] = {**host, **(inner if isinstance(inner, dict) else {})}
    return json.dumps(shown, indent=1, ensure_ascii=False).splitlines()


def _value(type_: str, value: Any, pointer: bool) -> Any:
    if type_.startswith("#"):
        found = struct(type_[1:])
        assert found is not None
        if value is None and pointer:
            return None
        return _struct(found, value or {})
    if value is None:
        if pointer or type_.startswith(("[]", "map:")) or type_ in ("time", "any"):
            return None
        return {"string": "", "bool": False}.get(type_, 0)
    if type_.startswith("[]"):
        return [_value(type_[2:], item, False) for item in value]
    return value


def _struct(type_: Struct, value: Json) -> Json:
    return {_go_name(f.name): _value(f.type, value.get(f.name), f.pointer) for f in type_.fields.values()}


def _go_name(name: str) -> str:
    return _ACRONYMS.get(name) or name[:1].upper() + name[1:]
