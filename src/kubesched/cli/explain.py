"""`kubesched explain`: where would this pod go, or why is it still pending?

From manifests an attempt is made and taken apart (`render_explanation`); a running scheduler is asked what it has done
with the pod and what it waits for (`render_pod`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubesched.cli import asking

if TYPE_CHECKING:
    from kubesched import Explanation


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="say where a pod would go, and why not elsewhere; or why it is still pending",
        description="With -f: take one scheduling attempt apart, on manifests or the dump of a cluster: which plugin "
        "rejects which node and with what numbers, who scores what, and what preemption would do. Changes nothing. "
        "With --server or --kubeconfig: ask a running scheduler where the pod is, what its last attempt came to, which "
        "events would wake it, and when it is tried next.",
    )
    parser.add_argument(
        "name", nargs="?", metavar="POD", help="[NAMESPACE/]NAME; with -f also a manifest, or - for stdin"
    )
    parser.add_argument("--pod", metavar="POD", help="the same")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="of a pod that is named without one")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    parser.add_argument("-v", "--verbosity", type=int, default=0, metavar="N", help="log level, as klog counts them")
    manifests = parser.add_argument_group("manifests")
    manifests.add_argument(
        "-f", "--filename", action="extend", nargs="+", default=[], metavar="FILE|DIR", help="the cluster's objects"
    )
    manifests.add_argument("--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration v1")
    manifests.add_argument(
        "--plugin", action="append", default=[], metavar="FILE:CLASS|MODULE:CLASS", help="a plugin of your own"
    )
    manifests.add_argument("--details", action="store_true", help="json and yaml: also the numbers behind the reasons")
    asking.add_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from kubesched import logs
    from kubesched.api.errors import KubeschedError

    logs.setup("text", args.verbosity)
    if bool(args.name) == bool(args.pod):
        raise KubeschedError(
            "name one pod: kubesched explain POD (before -f, which takes all names after it), or --pod POD"
        )
    if asking.is_meant(args) if args.filename else not asking.is_possible(args):
        raise KubeschedError(
            "explain from manifests (-f), or ask a running scheduler (--server, --kubeconfig): one of them"
        )
    if args.filename:
        return _explain_manifests(args, args.name or args.pod)
    if args.config or args.plugin or args.details:
        raise KubeschedError("--config, --plugin and --details go with -f: a running scheduler has its own")
    return _ask_scheduler(args, args.name or args.pod)


# -- manifests


def _explain_manifests(args: argparse.Namespace, pod: str) -> int:
    from kubesched import Cluster
    from kubesched.app import plugin_loading

    plugins = plugin_loading.load_named(args.plugin)
    available = plugin_loading.load_entry_points() if args.config else {}
    cluster = Cluster(args.filename, config=args.config, plugins=plugins.values(), available=available.values())
    if args.namespace and "/" not in pod and pod != "-" and not Path(pod).exists():
        pod = f"{args.namespace}/{pod}"
    explanation = cluster.explain(sys.stdin.read() if pod == "-" else pod)
    _show(explanation, args.output, details=args.details)
    return 0 if explanation.error is None else 1


def _show(explanation: Explanation, output: str, *, details: bool) -> None:
    if output == "table":
        from kubesched.cli.render_explanation import show

        show(explanation)
    else:
        show_data(explanation.to_dict(details=details), output)


# -- a running scheduler


def _ask_scheduler(args: argparse.Namespace, pod: str) -> int:
    connection = asking.connection(args)
    namespace, _, name = pod.rpartition("/")
    namespace = namespace or args.namespace or connection.namespace
    report = asking.ask(connection, _path(namespace, name))
    if args.output == "table":
        from kubesched.cli.render_pod import show

        show(report)
    else:
        show_data(report, args.output)
    return 0


def _path(namespace: str, name: str) -> str:
    from urllib.parse import quote

    return f"/debug/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"


def show_data(document: Any, output: str) -> None:
    """As JSON or YAML."""
    if output == "json":
        import json

        print(json.dumps(document, indent=2))
    else:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False), end="")
