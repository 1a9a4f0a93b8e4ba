"""`kubesched explain`: where would this pod go, and why not elsewhere?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesched import Explanation


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="say where a pod would go, and why not elsewhere",
        description="Take one scheduling attempt apart: which plugin rejects which node and with what numbers, who "
        "scores what, and what preemption would do. Works on manifests or the dump of a cluster; changes nothing.",
    )
    parser.add_argument(
        "-f", "--filename", action="extend", nargs="+", required=True, metavar="FILE|DIR", help="the cluster's objects"
    )
    parser.add_argument(
        "--pod", required=True, metavar="NAME|FILE", help="a pending pod of the cluster, a manifest, or - for stdin"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration v1")
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE:CLASS|MODULE:CLASS", help="a plugin of your own"
    )
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    parser.add_argument("--details", action="store_true", help="json and yaml: also the numbers behind the reasons")
    parser.add_argument("-v", "--verbosity", type=int, default=0, metavar="N", help="log level, as klog counts them")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from kubesched import Cluster, logs
    from kubesched.app import plugin_loading

    logs.setup("text", args.verbosity)
    plugins = plugin_loading.load_named(args.plugin)
    available = plugin_loading.load_entry_points() if args.config else {}
    cluster = Cluster(args.filename, config=args.config, plugins=plugins.values(), available=available.values())
    explanation = cluster.explain(sys.stdin.read() if args.pod == "-" else args.pod)
    _show(explanation, args.output, details=args.details)
    return 0


def _show(explanation: Explanation, output: str, *, details: bool) -> None:
    if output == "json":
        import json

        print(json.dumps(explanation.to_dict(details=details), indent=2))
    elif output == "yaml":
        import yaml

        print(yaml.safe_dump(explanation.to_dict(details=details), sort_keys=False), end="")
    else:
        from kubesched.cli.render_explanation import show

        show(explanation)
