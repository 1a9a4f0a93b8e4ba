"""Who may do what: the roles that exist from the start, and what reviews say of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubesched.apiserver import Account, Answer, Request, Rule, Server

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
TRUST = f"{CONFIG_MAPS}/extension-apiserver-authentication"
ONLY_IT = "fieldSelector=metadata.name=extension-apiserver-authentication"
ACCOUNTS = {
    "scheduler": Account("system:kube-scheduler"),
    "manager": Account("system:kube-controller-manager"),
    "low": Account("low"),
    "named": Account("named", rules=(Rule(("get",), ("configmaps",), names=("mine",)),)),
    "admin": Account("admin", ("system:masters",)),
}


async def ask(token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    path, _, query = path.partition("?")
    parameters = dict(part.split("=", 1) for part in query.split("&")) if query else {}
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    data = b"" if body is None else json.dumps(body).encode()
    reply = await Server(accounts=ACCOUNTS).handle(Request(method, path, parameters, headers, data))
    assert isinstance(reply, Answer)
    return reply.status, json.loads(reply.body)


ALLOWED = [
    ("scheduler", TRUST, 200),
    ("scheduler", f"{CONFIG_MAPS}?{ONLY_IT}", 200),
    ("manager", TRUST, 200),
    ("admin", TRUST, 200),
    ("low", TRUST, 403),
    ("scheduler", CONFIG_MAPS, 403),
    ("scheduler", f"{CONFIG_MAPS}?fieldSelector=metadata.name!=extension-apiserver-authentication", 403),
    ("scheduler", f"{CONFIG_MAPS}/other", 403),
    ("scheduler", "/api/v1/namespaces/default/configmaps/extension-apiserver-authentication", 403),
    ("scheduler", "/api/v1/pods", 200),
    ("scheduler", "/apis/storage.k8s.io/v1/storageclasses", 200),
    ("scheduler", "/api/v1/secrets", 403),
    ("scheduler", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/any", 404),
    ("scheduler", "/apis/coordination.k8s.io/v1/namespaces/default/leases/any", 403),
    ("scheduler", "/apis/coordination.k8s.io/v1/namespaces/default/leases/kube-scheduler", 404),
    ("named", "/api/v1/namespaces/default/configmaps/mine", 404),
    ("named", "/api/v1/namespaces/default/configmaps/yours", 403),
]


@pytest.mark.parametrize(("token", "path", "status"), ALLOWED, ids=[f"{t} {p}" for t, p, _ in ALLOWED])
async def test_who_may_read_what(token: str, path: str, status: int) -> None:
    assert (await ask(token, "GET", path))[0] == status


async def test_a_refused_list_names_the_one_that_was_asked_for() -> None:
    status, answer = await ask("low", "GET", f"{CONFIG_MAPS}?{ONLY_IT}")
    assert (status, answer["message"]) == (
        403,
        'configmaps "extension-apiserver-authentication" is forbidden: User "low" cannot list resource "configmaps" '
        'in API group "" in the namespace "kube-system"',
    )


async def test_the_cluster_says_whom_other_servers_may_believe() -> None:
    _, found = await ask("admin", "GET", TRUST)
    assert found["kind"] == "ConfigMap" and "data" not in found


REASONS = [
    (
        {"user": "system:kube-scheduler", "resourceAttributes": {"verb": "create", "resource": "pods/binding"}},
        'ClusterRoleBinding "system:kube-scheduler" of ClusterRole "system:kube-scheduler" to User '
        '"system:kube-scheduler"',
    ),
    (
        {
            "user": "system:kube-controller-manager",
            "resourceAttributes": {
                "verb": "get",
                "resource": "configmaps",
                "namespace": "kube-system",
                "name": "extension-apiserver-authentication",
            },
        },
        'RoleBinding "system::extension-apiserver-authentication-reader/kube-system" of Role '
        '"extension-apiserver-authentication-reader" to User "system:kube-controller-manager"',
    ),
    (
        {
            "user": "anybody",
            "groups": ["system:authenticated"],
            "resourceAttributes": {
                "verb": "create",
                "group": "authorization.k8s.io",
                "resource": "selfsubjectaccessreviews",
            },
        },
        'ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" to Group "system:authenticated"',
    ),
]


@pytest.mark.parametrize(("spec", "by"), REASONS, ids=["cluster role", "role", "group"])
async def test_reviews_name_the_role(spec: dict[str, Any], by: str) -> None:
    _, answer = await ask("admin", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert answer["status"] == {"allowed": True, "reason": f"RBAC: allowed by {by}"}


async def test_rules_of_a_namespace() -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    reader = {
        "verbs": ["get", "list", "watch"],
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["extension-apiserver-authentication"],
    }
    for namespace, is_there in (("kube-system", True), ("default", False)):
        _, answer = await ask("scheduler", "POST", path, {"spec": {"namespace": namespace}})
        assert (reader in answer["status"]["resourceRules"]) is is_there
