"""How commands ask a running scheduler: its own HTTPS port, with the credentials of a kubeconfig.

The same for `kubesched explain` and `kubesched queue`, and the same as kubectl has it: `--server` says where, the
kubeconfig says as whom, and its authority of the cluster holds unless `--certificate-authority` names another. The
scheduler has the API server review who asks and whether they may. (An API server's proxy to pods passes no credentials
on: whoever comes through it is nobody to the scheduler.)
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubesched.api.errors import ApiError, KubeschedError, TransportError

if TYPE_CHECKING:
    from kubesched.client.kubeconfig import ClientConfig

#: A scheduler on the same machine, or the end of `kubectl port-forward`.
DEFAULT_SERVER: Final = "https://127.0.0.1:10259"
_TIMEOUT_S: Final = 15.0


class AskError(KubeschedError):
    """The scheduler cannot be reached, or says no; the message names the URL."""

    is_usage = False


class BadServerError(KubeschedError):
    """What the command line says of the server makes no sense."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a running scheduler")
    group.add_argument(
        "--server",
        metavar="URL",
        help=f"its port; without it {DEFAULT_SERVER}: on the same machine, or with kubectl port-forward",
    )
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="who asks; else $KUBECONFIG, the pod's service account, ~/.kube/config, nobody",
    )
    group.add_argument("--context", metavar="NAME", help="of the kubeconfig, instead of its current one")
    group.add_argument("--certificate-authority", metavar="FILE", help="who has signed the scheduler's certificate")
    group.add_argument("--insecure-skip-tls-verify", action="store_true", help="do not verify that certificate")


def is_meant(args: argparse.Namespace) -> bool:
    """Whether the command line speaks of a running scheduler."""
    return bool(args.server or args.kubeconfig or args.context)


def is_possible(args: argparse.Namespace) -> bool:
    """Whether a scheduler can be asked: one is meant, or there is a kubeconfig to ask one on this machine with."""
    return is_meant(args) or _has_ambient_kubeconfig()


def connection(args: argparse.Namespace) -> ClientConfig:
    """Where to, and as whom. Raises KubeconfigError and BadServerError."""
    from dataclasses import replace

    from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, PemSource, UserConfig, load

    server = _server(args.server or DEFAULT_SERVER)
    if args.kubeconfig or args.context or _has_ambient_kubeconfig():
        found = load(args.kubeconfig, context=args.context)
    else:
        found = ClientConfig(ClusterConfig(server), UserConfig(), source="nobody: no kubeconfig was found")
    cluster = replace(found.cluster, server=server, tls_server_name="")
    if cluster.is_loopback:
        cluster = replace(cluster, proxy_url="")
    if args.certificate_authority and args.insecure_skip_tls_verify:
        raise BadServerError("--certificate-authority and --insecure-skip-tls-verify exclude each other")
    if args.certificate_authority:
        path = Path(args.certificate_authority)
        if not path.is_file():
            raise BadServerError(f"--certificate-authority: {path} does not exist")
        cluster = replace(cluster, ca=PemSource(path=str(path)), insecure_skip_tls_verify=False)
    elif args.insecure_skip_tls_verify:
        cluster = replace(cluster, ca=None, insecure_skip_tls_verify=True)
    return replace(found, cluster=cluster)


def ask(connection: ClientConfig, path: str) -> dict[str, Any]:
    """GET a JSON object. Raises AskError."""
    import asyncio
    import json

    url = connection.cluster.server + path
    try:
        answer = json.loads(asyncio.run(_get(connection, path)))
    except ApiError as error:
        raise AskError(f"{url}: {_refusal(error, connection)}") from error
    except TransportError as error:
        raise AskError(f"{url}: {_no_answer(error)}") from error
    except ValueError as error:
        raise AskError(f"{url}: the answer is no JSON; is it a scheduler's port?") from error
    if not isinstance(answer, dict):
        raise AskError(f"{url}: the answer is no JSON object; is it a scheduler's port?")
    return answer


async def _get(connection: ClientConfig, path: str) -> bytes:
    from kubesched.client.rest import connect
    from kubesched.clock import RealClock

    client = connect(connection, RealClock(), timeout_s=_TIMEOUT_S)
    try:
        return await client.get(path)
    finally:
        await client.close()


def _refusal(error: ApiError, connection: ClientConfig) -> str:
    if error.code == 401:
        return f"the scheduler does not accept the credentials of {connection.source or 'the command line'}"
    if error.code == 403:
        return f"{error.message}; asked as {connection.source}"
    if error.code == 404 and error.details.get("kind") != "pods":
        return "not served there: enableProfiling is off, or it is no port of kubesched"
    return error.message


def _no_answer(error: TransportError) -> str:
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"the certificate is not trusted: {cause.verify_message.rstrip('.')}; name its authority with "
                "--certificate-authority, or say --insecure-skip-tls-verify"
            )
        cause = cause.__cause__ or cause.__context__
    return f"cannot reach the scheduler: {error}"


def _server(text: str) -> str:
    import urllib.parse

    server = text if "://" in text else f"https://{text}"
    try:
        parts = urllib.parse.urlsplit(server)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or parts.query or parts.fragment:
        raise BadServerError(f"--server: {text!r} is no http or https URL")
    return server.rstrip("/")


def _has_ambient_kubeconfig() -> bool:
    from kubesched.client.kubeconfig import SERVICE_ACCOUNT_DIR

    in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT_DIR / "token").exists()
    return bool(os.environ.get("KUBECONFIG")) or in_pod or Path("~/.kube/config").expanduser().exists()
