"""Who asks, and what they may: bearer tokens name accounts, accounts have rules.

Without accounts everybody is the administrator. With them, a wrong bearer token is refused everywhere; a request
without one is anonymous, which may ask for health and version only (or is refused too, when anonymous access is off).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kubesched.apiserver.messages import Request
from kubesched.apiserver.roles import Attributes, Rule, held
from kubesched.apiserver.selection import parse_fields
from kubesched.apiserver.status import Refusal

OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY_PATHS = ("/api", "/apis", "/openapi")
_PATH_VERBS = {"GET": "get", "HEAD": "head", "POST": "post", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}


class Decision(NamedTuple):
    """`reason` names the role that allows it, "" when none has to."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """A user. Members of `system:masters` may do anything, others what `roles` say of them and their own rules."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""
    rules: tuple[Rule, ...] = field(default=())

    def decide(self, asked: Attributes) -> Decision:
        if "system:masters" in self.groups:
            return Decision(True)
        for role, subject in held(self.name, self.groups, asked.namespace):
            if any(rule.covers(asked) for rule in role.rules):
                return Decision(True, role.reason(subject))
        return Decision(any(rule.covers(asked) for rule in self.rules))

    def allows_path(self, path: str) -> bool:
        if "system:masters" in self.groups or path in OPEN_PATHS or path.startswith(("/livez/", "/readyz/")):
            return True
        return "system:authenticated" in self.groups and path.startswith(_DISCOVERY_PATHS)


ADMIN = Account("system:admin", ("system:masters", "system:authenticated"))
ANONYMOUS = Account("system:anonymous", ("system:unauthenticated",))
Accounts = Mapping[str, Account]
"""By bearer token."""


def authenticate(request: Request, accounts: Accounts, *, anonymous: bool = True) -> Account:
    """The account that the request is made with. Raises the 401."""
    if not accounts:
        return ADMIN
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() == "bearer" and token:
        for known, account in accounts.items():
            if hmac.compare_digest(token.encode(), known.encode()):
                return _impersonated(request, account, accounts)
        raise _unauthorized()
    if not anonymous:
        raise _unauthorized()
    return ANONYMOUS


def authorize_path(request: Request, account: Account) -> None:
    """For paths that address no resource. Raises the 403."""
    if not account.allows_path(request.path):
        verb = _PATH_VERBS.get(request.method, request.method.lower())
        text = f'forbidden: User "{account.name}" cannot {verb} path "{request.path}"'
        raise Refusal(403, "Forbidden", text, {})


def authorize(request: Request, account: Account) -> None:
    """For a routed request. Raises the 403."""
    resource = request.target
    full = f"{resource.plural}/{request.subresource}" if request.subresource else resource.plural
    name = request.name or _selected_name(request)
    if not account.decide(Attributes(request.verb, resource.group, full, request.namespace, name)).allowed:
        raise _forbidden(request, account, request.verb, full, name)


def _selected_name(request: Request) -> str:
    """The one name that a list or watch asks for: rules about names count for it too."""
    selector = request.query.get("fieldSelector", "")
    if "metadata.name" not in selector or request.verb not in ("list", "watch", "deletecollection"):
        return ""
    try:
        terms = parse_fields(selector)
    except Refusal:
        return ""  # refused when it is read, if the account gets that far
    return next((value for name, negated, value in terms if name == "metadata.name" and not negated), "")


def _impersonated(request: Request, account: Account, accounts: Accounts) -> Account:
    wanted = request.headers.get("impersonate-user")
    if wanted is None:
        return account
    if "system:masters" not in account.groups:
        request.impersonates = True
        return account
    return next((a for a in accounts.values() if a.name == wanted), Account(wanted))


def _unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def _forbidden(request: Request, account: Account, verb: str, full: str, name: str) -> Refusal:
    resource = request.target
    details = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    which = f'{resource.qualified} "{name}"' if name else resource.qualified
    where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
    text = (
        f'{which} is forbidden: User "{account.name}" cannot {verb} resource "{full}" in API group '
        f'"{resource.group}" {where}'
    )
    return Refusal(403, "Forbidden", text, details)


def refuse_impersonation(request: Request, account: Account) -> None:
    """An account that may not speak for others, and tries."""
    if request.impersonates:
        verb = f"impersonate-on:user-info:{request.verb}"
        raise _forbidden(request, account, verb, request.target.plural, request.name)
