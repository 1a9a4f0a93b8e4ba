"""The shape of a kind's rules. Each part is a function; the defaults do nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.status import Cause
from kubesched.apiserver.store import Json

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api


def _nothing(document: Json) -> None:
    pass


def _no_admission(api: Api, resource: Resource, document: Json) -> None:
    pass


def _no_commit(api: Api, resource: Resource, document: Json) -> None:
    pass


def _valid(document: Json) -> list[Cause]:
    return []


def _no_warnings(document: Json) -> list[str]:
    return []


def _kept(old: Json, new: Json) -> None:
    pass


def _valid_update(old: Json, new: Json) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True)
class Rules:
    """What is particular to a kind.

    `default` fills in what is absent, on create and update. `on_create` sets what only the server may set and asks
    admission for what every pod gets (it may refuse). `admit` is what an optional admission plugin adds to what clients
    create; loaded objects do not pass it. `validate` and `validate_update` tell what is wrong, `warn` what a client
    should know though nothing is wrong. `on_commit` is for what is handed out only when all is well (a cluster IP).
    `on_update` takes over from the old object what a client cannot change. `label_name`: the name is a DNS label;
    `any_name`: only path characters are refused; `group_in_errors` False: the kind alone stands in validation errors.
    `update_checks` and `update_checks_metadata` say how often an update runs through the same checks in the original,
    which tells each fault that often.
    """

    default: Callable[[Json], None] = _nothing
    on_create: Callable[[Api, Resource, Json], None] = _no_admission
    admit: Callable[[Api, Resource, Json], None] = _no_admission
    on_commit: Callable[[Api, Resource, Json], None] = _no_commit
    validate: Callable[[Json], list[Cause]] = _valid
    on_update: Callable[[Json, Json], None] = _kept
    validate_update: Callable[[Json, Json], list[Cause]] = _valid_update
    warn: Callable[[Json], list[str]] = _no_warnings
    label_name: bool = False
    any_name: bool = False
    group_in_errors: bool = True
    update_checks_metadata: int = 1
    update_checks: int = 1

    def error_group(self, resource: Resource) -> str:
        return resource.group if self.group_in_errors else ""


def reset_status(api: Api, resource: Resource, document: Json) -> None:
    """For kinds whose status is an empty object until a controller fills it."""
    document["status"] = {}
