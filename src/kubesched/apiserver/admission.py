"""What the server adds or refuses when objects come in, beyond what the object itself says.

Namespaces must exist and live; a pod's priority comes from its class; tolerations for lost nodes are added. `Profile`
says which of the optional admission plugins of kube-apiserver are on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubesched.apiserver.metadata import generated_suffix
from kubesched.apiserver.resources import BY_PATH, Resource
from kubesched.apiserver.status import Cause, forbidden, not_found
from kubesched.apiserver.store import Json, decode

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_DEFAULT_TOLERATION_SECONDS = 300
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_NAMESPACE_FIELD = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}


@dataclass(frozen=True, slots=True)
class Profile:
    """What of a real server is on that costs something or needs controllers beside it.

    `taint_nodes`: TaintNodesByCondition, every new node is tainted not-ready until a controller takes that away.
    `service_accounts`: ServiceAccount, every pod runs as an account of its namespace and gets its token as a volume.
    `track_fields`: managedFields are kept for all objects, not only for those that were applied.
    """

    taint_nodes: bool = False
    service_accounts: bool = False
    track_fields: bool = False


DEFAULT_PROFILE = Profile(taint_nodes=True, service_accounts=True, track_fields=True)
"""All admission plugins that a real server has on; it needs the controllers beside it."""


def check_namespace(api: Api, resource: Resource, namespace: str, name: str) -> None:
    """Refuses to create in a namespace that is missing or being terminated."""
    found = api.get("namespaces", "", namespace)
    if found is None:
        raise not_found(BY_PATH["", "v1", "namespaces"], namespace)
    if found.fields[0] == "Terminating":
        raise forbidden(
            resource,
            name,
            f"unable to create new content in namespace {namespace} because it is being terminated",
            [Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")],
        )


def resolve_priority(api: Api, resource: Resource, pod: Json) -> None:
    """The admission plugin Priority: value and preemption policy come from the named class, or the default one."""
    spec, name = pod["spec"], pod["metadata"].get("name", "")
    classes = api.store.of(BY_PATH["scheduling.k8s.io", "v1", "priorityclasses"])
    class_name = spec.get("priorityClassName", "")
    value, policy = 0, "PreemptLowerPriority"
    if class_name:
        found = classes.get("", class_name)
        if found is None:
            raise forbidden(resource, name, f"no PriorityClass with name {class_name} was found")
        chosen = found.document()
        value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy", policy)
    else:
        defaults = [d for stored in classes.items.values() if (d := decode(stored.body)).get("globalDefault")]
        if defaults:
            chosen = min(defaults, key=lambda d: d.get("value", 0))
            spec["priorityClassName"] = chosen["metadata"]["name"]
            value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy", policy)
    sent = spec.get("priority")
    if sent is not None and sent != value:
        raise forbidden(
            resource,
            name,
            f"the integer value of priority ({sent}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name",
        )
    sent_policy = spec.get("preemptionPolicy")
    if sent_policy is not None and sent_policy != policy:
        raise forbidden(
            resource,
            name,
            f"the string value of PreemptionPolicy ({sent_policy}) must not be provided in pod spec; priority "
            f"admission controller computed {policy} from the given PriorityClass name",
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy


def give_account(api: Api, resource: Resource, pod: Json) -> None:
    """The admission plugin ServiceAccount: the account must exist; its token is mounted unless one of them opts out."""
    spec, meta = pod["spec"], pod["metadata"]
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    found = api.get("serviceaccounts", meta["namespace"], name)
    if found is None:
        where = f"{meta['namespace']}/{name}"
        text = f'error looking up service account {where}: serviceaccount "{name}" not found'
        raise forbidden(resource, meta.get("name", ""), text)
    account = found.document()
    if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]
    if not spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
        return
    volume = f"kube-api-access-{generated_suffix(api.chance.randrange)}"
    mount = {"name": volume, "readOnly": True, "mountPath": _TOKEN_PATH}
    mounted = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if not any(m.get("mountPath") == _TOKEN_PATH for m in mounts):
            container["volumeMounts"] = [*mounts, mount]
            mounted = True
    if mounted:
        sources = [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": _NAMESPACE_FIELD}]}},
        ]
        projected = {"sources": sources, "defaultMode": 0o644}
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": volume, "projected": projected}]


def tolerate_lost_nodes(spec: Json) -> None:
    """DefaultTolerationSeconds: a pod stays for five minutes on a node that is lost, unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or ())
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_covers(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _DEFAULT_TOLERATION_SECONDS,
                }
            )
    spec["tolerations"] = tolerations


def _covers(toleration: Json, key: str) -> bool:
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")
