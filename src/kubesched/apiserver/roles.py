"""The roles that a cluster has from its first second, and who holds them: of all the original's, those that accounts of
this server can be subject to. They count without being stored as objects; `Account.rules` comes on top of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

AUTHENTICATION = "extension-apiserver-authentication"
_READ = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a request does, as rules see it; a subresource is `pods/binding`, what there is not is ""."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is allowed: verbs on resources of API groups (`*` is anything), of these names only if there are any."""

    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    groups: tuple[str, ...] = ("",)
    names: tuple[str, ...] = ()

    def covers(self, asked: Attributes) -> bool:
        facts = ((self.verbs, asked.verb), (self.groups, asked.group), (self.resources, asked.resource))
        return all("*" in allowed or fact in allowed for allowed, fact in facts) and (
            not self.names or asked.name in self.names
        )


@dataclass(frozen=True, slots=True)
class Role:
    """A role and its binding to users and groups: in one namespace, or everywhere when that is ""."""

    name: str
    binding: str
    rules: tuple[Rule, ...]
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    namespace: str = ""

    def subject(self, user: str, groups: tuple[str, ...]) -> str:
        """By what the account holds the role, "" when it does not."""
        if user in self.users:
            return f'User "{user}"'
        return next((f'Group "{group}"' for group in groups if group in self.groups), "")

    def reason(self, subject: str) -> str:
        if self.namespace:
            where = f'RoleBinding "{self.binding}/{self.namespace}" of Role'
        else:
            where = f'ClusterRoleBinding "{self.binding}" of ClusterRole'
        return f'RBAC: allowed by {where} "{self.name}" to {subject}'


def held(user: str, groups: tuple[str, ...], namespace: str) -> Iterator[tuple[Role, str]]:
    """The roles that an account has in a namespace ("" for the cluster's own objects), and by what."""
    for role in ROLES:
        subject = role.subject(user, groups) if role.namespace in ("", namespace) else ""
        if subject:
            yield role, subject


_SCHEDULER, _CONTROLLER_MANAGER = "system:kube-scheduler", "system:kube-controller-manager"

ROLES = (
    Role(
        "system:basic-user",
        "system:basic-user",
        (
            Rule(("create",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), ("authorization.k8s.io",)),
            Rule(("create",), ("selfsubjectreviews",), ("authentication.k8s.io",)),
        ),
        groups=("system:authenticated",),
    ),
    Role(
        "system:kube-scheduler",
        "system:kube-scheduler",
        (
            Rule(("create", "patch", "update"), ("events",), ("", "events.k8s.io")),
            Rule(("create",), ("leases",), ("coordination.k8s.io",)),
            Rule(("get", "update"), ("leases",), ("coordination.k8s.io",), ("kube-scheduler",)),
            Rule(_READ, ("nodes",)),
            Rule(("delete", *_READ), ("pods",)),
            Rule(("create",), ("bindings", "pods/binding")),
            Rule(("patch", "update"), ("pods/status",)),
            Rule(_READ, ("replicationcontrollers", "services")),
            Rule(_READ, ("replicasets",), ("apps", "extensions")),
            Rule(_READ, ("statefulsets",), ("apps",)),
            Rule(_READ, ("poddisruptionbudgets",), ("policy",)),
            Rule(_READ, ("persistentvolumeclaims", "persistentvolumes")),
            Rule(("create",), ("tokenreviews",), ("authentication.k8s.io",)),
            Rule(("create",), ("subjectaccessreviews",), ("authorization.k8s.io",)),
            Rule(_READ, ("csinodes",), ("storage.k8s.io",)),
            Rule(_READ, ("namespaces",)),
            Rule(_READ, ("csidrivers",), ("storage.k8s.io",)),
            Rule(_READ, ("csistoragecapacities",), ("storage.k8s.io",)),
            Rule(_READ, ("volumeattachments",), ("storage.k8s.io",)),
            Rule(_READ, ("deviceclasses", "resourceslices"), ("resource.k8s.io",)),
            Rule(("patch", "update", *_READ), ("resourceclaims",), ("resource.k8s.io",)),
            Rule(("patch", "update"), ("resourceclaims/status",), ("resource.k8s.io",)),
            Rule(("update",), ("pods/finalizers",)),
        ),
        users=(_SCHEDULER,),
    ),
    Role(
        "system:volume-scheduler",
        "system:volume-scheduler",
        (
            Rule(("patch", "update", *_READ), ("persistentvolumes",)),
            Rule(_READ, ("storageclasses",), ("storage.k8s.io",)),
            Rule(("patch", "update", *_READ), ("persistentvolumeclaims",)),
        ),
        users=(_SCHEDULER,),
    ),
    Role(
        "extension-apiserver-authentication-reader",
        "system::extension-apiserver-authentication-reader",
        (Rule(_READ, ("configmaps",), names=(AUTHENTICATION,)),),
        users=(_CONTROLLER_MANAGER, _SCHEDULER),
        namespace="kube-system",
    ),
    Role(
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        (Rule(("create", "update", *_READ), ("leases",), ("coordination.k8s.io",)),),
        users=(_SCHEDULER,),
        namespace="kube-system",
    ),
)
