"""Kinds that are asked, not stored: who am I, may I, is this token good, and tokens for service accounts.

There is one administrator and, with a token configured, everybody else is anonymous; the answers say just that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver import bodies, metadata
from kubesched.apiserver.messages import Reply, Request, answer_json
from kubesched.apiserver.status import Cause, bad_request, invalid
from kubesched.apiserver.store import Json

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

ADMIN = "system:admin"
_ADMIN_GROUPS = ["system:masters", "system:authenticated"]
_TOKEN_LIFETIME_S = 3600


async def review(api: Api, request: Request) -> Reply:
    """Answers a *Review."""
    resource = request.target
    document = bodies.object_of(request, resource.kind, resource.api_version)
    document["status"] = _ANSWERS[resource.plural](api, document.get("spec") or {}, request.user)
    if resource.plural == "selfsubjectreviews":
        document["metadata"]["creationTimestamp"] = api.now()
    return answer_json(document, 201)


def _user(name: str) -> Json:
    return {"username": name, "groups": _ADMIN_GROUPS if name == ADMIN else ["system:unauthenticated"]}


def _whoami(api: Api, spec: Json, user: str) -> Json:
    return {"userInfo": _user(user)}


def _token(api: Api, spec: Json, user: str) -> Json:
    token = spec.get("token")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    if api.token is not None and token == api.token:
        return {"authenticated": True, "user": _user(ADMIN)}
    return {"user": {}, "error": "invalid bearer token"}


def _own_access(api: Api, spec: Json, user: str) -> Json:
    return {"allowed": user == ADMIN}


def _access(api: Api, spec: Json, user: str) -> Json:
    both = "resourceAttributes" in spec and "nonResourceAttributes" in spec
    neither = "resourceAttributes" not in spec and "nonResourceAttributes" not in spec
    if both or neither:
        text = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid("", "authorization.k8s.io", "", [Cause("FieldValueInvalid", text, "spec.resourceAttributes")])
    if not spec.get("user") and not spec.get("groups"):
        text = 'Invalid value: "": at least one of user or group must be specified'
        raise invalid("", "authorization.k8s.io", "", [Cause("FieldValueInvalid", text, "spec.user")])
    return {"allowed": spec.get("user") == ADMIN or "system:masters" in (spec.get("groups") or ())}


def _rules(api: Api, spec: Json, user: str) -> Json:
    everything: Json = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    paths: Json = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    allowed = user == ADMIN
    return {
        "resourceRules": [everything] if allowed else [],
        "nonResourceRules": [paths] if allowed else [],
        "incomplete": False,
    }


_ANSWERS = {
    "selfsubjectreviews": _whoami,
    "tokenreviews": _token,
    "selfsubjectaccessreviews": _own_access,
    "selfsubjectrulesreviews": _rules,
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
                "audiences": spec.get("audiences") or ["https://kubernetes.default.svc.cluster.local"],
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
