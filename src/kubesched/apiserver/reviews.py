"""Kinds that are asked, not stored: who am I, may I, is this token good, and tokens for service accounts.

The answers follow the accounts that the server knows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kubesched.apiserver import bodies, metadata
from kubesched.apiserver.authentication import ADMIN, Account
from kubesched.apiserver.messages import Reply, Request, answer_json
from kubesched.apiserver.roles import Attributes, Rule, held
from kubesched.apiserver.status import Cause, bad_request, invalid
from kubesched.apiserver.store import Json

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_TOKEN_LIFETIME_S = 3600
_AUDIENCE = "https://kubernetes.default.svc"
_KEY_URLS = ["/.well-known", "/.well-known/*"]
_DISCOVERY_URLS = [
    "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
    "/version/",
]  # fmt: skip
_OPEN_URLS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]


async def review(api: Api, request: Request, account: Account) -> Reply:
    """Answers a *Review."""
    resource = request.target
    document = bodies.object_of(request, resource.kind, resource.api_version)
    if resource.namespaced:
        document["metadata"].setdefault("namespace", request.namespace)
    if resource.plural == "selfsubjectreviews":
        document["metadata"]["creationTimestamp"] = api.now()
    if resource.plural == "selfsubjectrulesreviews":
        namespace = (document.get("spec") or {}).get("namespace", "")
        document["metadata"], document["status"] = {}, _rules(account, namespace)
        return answer_json({**document, "spec": {}}, 201)
    document["status"] = _ANSWERS[resource.plural](api, document.get("spec") or {}, account)
    return answer_json(document, 201)


def _user(account: Account) -> Json:
    user: Json = {"username": account.name}
    if account.uid:
        user["uid"] = account.uid
    return {**user, "groups": list(account.groups)}


def _whoami(api: Api, spec: Json, account: Account) -> Json:
    return {"userInfo": _user(account)}


def _token(api: Api, spec: Json, account: Account) -> Json:
    token = spec.get("token")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    found = api.accounts.get(token)
    if found is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _user(found), "audiences": [_AUDIENCE]}


def _own_access(api: Api, spec: Json, account: Account) -> Json:
    return _decided(account, spec)


def _access(api: Api, spec: Json, account: Account) -> Json:
    if ("resourceAttributes" in spec) == ("nonResourceAttributes" in spec):
        text = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid("", "authorization.k8s.io", "", [Cause("FieldValueInvalid", text, "spec.resourceAttributes")])
    if not spec.get("user") and not spec.get("groups"):
        text = 'Invalid value: "": at least one of user or group must be specified'
        raise invalid("", "authorization.k8s.io", "", [Cause("FieldValueInvalid", text, "spec.user")])
    user = spec.get("user", "")
    known = next((a for a in (*api.accounts.values(), ADMIN) if a.name == user), Account(user, ()))
    groups = tuple(spec.get("groups") or ())
    return _decided(replace(known, groups=(*known.groups, *groups)), spec)


def _decided(account: Account, spec: Json) -> Json:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return {"allowed": account.allows_path(path.get("path", ""))}
    asked = spec.get("resourceAttributes") or {}
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource += f"/{asked['subresource']}"
    decision = account.decide(
        Attributes(
            asked.get("verb", ""), asked.get("group", ""), resource, asked.get("namespace", ""), asked.get("name", "")
        )
    )
    return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}


def _rules(account: Account, namespace: str) -> Json:
    if "system:masters" in account.groups:
        resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        return {"resourceRules": resources, "nonResourceRules": [_urls(["*"], ["*"])], "incomplete": False}
    rules = [rule for role, _ in held(account.name, account.groups, namespace) for rule in role.rules]
    urls = [_urls(["get"], _OPEN_URLS), _urls(["get"], _KEY_URLS), _urls(["get"], _DISCOVERY_URLS)]
    rows = [_row(rule) for rule in (*rules, *account.rules)]
    return {"resourceRules": rows, "nonResourceRules": urls, "incomplete": False}


def _row(rule: Rule) -> Json:
    row = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
    return {**row, "resourceNames": list(rule.names)} if rule.names else row


def _urls(verbs: list[str], urls: list[str]) -> Json:
    return {"verbs": verbs, "nonResourceURLs": urls}


_ANSWERS = {
    "selfsubjectreviews": _whoami,
    "tokenreviews": _token,
    "selfsubjectaccessreviews": _own_access,
    "subjectaccessreviews": _access,
    "localsubjectaccessreviews": _access,
}


async def service_account_token(api: Api, request: Request) -> Reply:
    """POST serviceaccounts/<name>/token: an opaque token that names its account; nobody checks it here."""
    asked = bodies.object_of(request, "TokenRequest", "authentication.k8s.io/v1")
    stored = api.find(request)
    spec = asked.get("spec") or {}
    lifetime_s = spec.get("expirationSeconds") or _TOKEN_LIFETIME_S
    return answer_json(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": stored.name,
                "namespace": stored.namespace,
                "uid": stored.uid,
                "creationTimestamp": api.now(),
            },
            "spec": {
                "audiences": spec.get("audiences") or [_AUDIENCE],
                "expirationSeconds": lifetime_s,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {
                "token": f"kubesched.{stored.namespace}.{stored.name}.{api.new_uid()}",
                "expirationTimestamp": metadata.timestamp(api.clock.now() + lifetime_s),
            },
        },
        201,
    )
