"""A kubeconfig that points clients at an embedded server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

#: For clients that ask for a user name over HTTPS when they have no credentials, as kubectl does.
_ANYONE: Final = "anyone"


class Reachable(Protocol):
    """What a kubeconfig needs to know of a server."""

    token: str | None
    ca_pem: bytes | None

    @property
    def url(self) -> str: ...

    @property
    def is_open(self) -> bool: ...


def kubeconfig(server: Reachable) -> dict[str, Any]:
    """The kubeconfig as a document: one cluster, one user, one context, all named kubesched."""
    cluster: dict[str, Any] = {"server": server.url}
    if server.ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(server.ca_pem).decode()
    token = server.token or (_ANYONE if server.is_open and server.url.startswith("https:") else "")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubesched", "cluster": cluster}],
        "users": [{"name": "kubesched", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "kubesched", "context": {"cluster": "kubesched", "user": "kubesched"}}],
        "current-context": "kubesched",
    }


def write_kubeconfig(server: Reachable, path: str | Path) -> None:
    """Writes the kubeconfig, readable by its owner only."""
    target = Path(path)
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(kubeconfig(server), sort_keys=False), encoding="utf-8")
