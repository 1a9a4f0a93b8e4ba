"""`kubesched run`: schedule, against a kubeconfig or with an embedded control plane."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesched.apiserver import Server
    from kubesched.app.live import LiveScheduler
    from kubesched.app.run import RunOptions


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="schedule pods, on a real cluster or an embedded one",
        description="Run the scheduler against the API server of a kubeconfig (or of the pod it runs in), or with an "
        "embedded API server in the same process.",
    )
    cluster = parser.add_argument_group("which cluster")
    cluster.add_argument("--kubeconfig", default="", metavar="FILE", help="kubeconfig of the API server")
    cluster.add_argument("--context", metavar="NAME", help="context of the kubeconfig to use")
    cluster.add_argument("--master", default="", metavar="URL", help="address of the API server, over the kubeconfig's")
    cluster.add_argument("--embedded", action="store_true", help="serve a control plane in this process")
    embedded = parser.add_argument_group("with --embedded")
    embedded.add_argument("--load", action="append", default=[], type=Path, metavar="FILE|DIR", help="start with these")
    embedded.add_argument("--port", type=int, default=0, help="port of the API server (default: a free one)")
    embedded.add_argument("--kubeconfig-out", type=Path, metavar="FILE", help="write a kubeconfig for kubectl")
    embedded.add_argument("--no-node-simulator", action="store_true", help="leave bound pods Pending")
    embedded.add_argument(
        "--until-settled", action="store_true", help="end, and show the placements, when nothing more can be scheduled"
    )
    behaviour = parser.add_argument_group("behaviour")
    behaviour.add_argument("--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration v1")
    behaviour.add_argument("--feature-gates", default="", metavar="A=true,B=false")
    behaviour.add_argument(
        "--plugin", action="append", default=[], metavar="FILE:CLASS|MODULE:CLASS", help="a plugin of your own"
    )
    behaviour.add_argument("--seed", type=int, help="seed of all chance, to repeat a run")
    parser.add_argument("-v", "--verbosity", type=int, default=0, metavar="N", help="log level, as klog counts them")
    parser.add_argument("--logging-format", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import asyncio

    from kubesched import logs
    from kubesched.api.errors import KubeschedError
    from kubesched.app.run import run as run_app

    if not args.embedded and (args.load or args.until_settled or args.kubeconfig_out):
        raise KubeschedError("--load, --until-settled and --kubeconfig-out go with --embedded")
    logs.setup(args.logging_format, args.verbosity)
    options = _options(args)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(run_app(options))
    return uvloop.run(run_app(options))


def _options(args: argparse.Namespace) -> RunOptions:
    """Everything that can be wrong with configuration and plugins is found here, before anything starts."""
    from kubesched import config
    from kubesched.app import plugin_loading
    from kubesched.app.live import LiveOptions
    from kubesched.app.run import RunOptions
    from kubesched.plugins.registry import IN_TREE
    from kubesched.scheduler.profiles import plugin_info

    gates = config.parse_feature_gates(args.feature_gates)
    named = plugin_loading.load_named(args.plugin)
    outside = plugin_loading.merged(plugin_loading.load_entry_points(), named)
    configuration = config.load(args.config, plugins=[plugin_info(plugin) for plugin in outside.values()], gates=gates)
    return RunOptions(
        live=LiveOptions(
            config=config.enable_everywhere(configuration, named),
            registry=plugin_loading.merged(IN_TREE, outside),
            gates=gates,
            seed=args.seed,
        ),
        kubeconfig=args.kubeconfig or configuration.client_connection.kubeconfig,
        context=args.context,
        master=args.master,
        embedded=args.embedded,
        load=tuple(args.load),
        port=args.port,
        node_simulator=not args.no_node_simulator,
        kubeconfig_out=args.kubeconfig_out,
        until_settled=args.until_settled,
        on_started=_tell_how_to_connect if args.embedded and not args.until_settled else lambda _live, _server: None,
        on_settled=_show_placements,
    )


def _tell_how_to_connect(live: LiveScheduler, server: Server | None) -> None:
    assert server is not None
    print(f"\nThe API server listens on {server.url}. Try:\n")
    print(f"    kubectl --server {server.url} get pods --all-namespaces -o wide\n")
    print("End with Ctrl-C.\n", flush=True)


def _show_placements(live: LiveScheduler) -> None:
    from kubesched.cli.placements import show

    show(live.state, live.scheduler.queue)
