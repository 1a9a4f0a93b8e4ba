"""`kubesched apiserver`: the embedded API server on its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesched.apiserver import Server


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "apiserver",
        help="serve an in-memory Kubernetes API for tests and demos",
        description="Serve an in-memory Kubernetes API over HTTP, with kubelets and controllers beside it. Point "
        "kubectl or a scheduler at it. Nothing is kept unless --save says where.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=_port, default=8001, help="port to listen on, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument("--load", action="append", default=[], type=Path, metavar="FILE|DIR", help="start with these")
    parser.add_argument("--save", type=Path, metavar="FILE|DIR", help="write the cluster back here at the end")
    parser.add_argument(
        "--controllers",
        default="*",
        metavar="LIST",
        help="controllers to run, comma separated, as kube-controller-manager takes them: '*' is all, '-name' all but "
        "that one (default: %(default)s)",
    )
    parser.add_argument(
        "--default-admission",
        action="store_true",
        help="have all of the original's admission plugins on: new nodes are tainted until ready, pods get an account "
        "and its token, field owners are kept for all objects",
    )
    parser.add_argument("--no-node-simulator", action="store_true", help="leave bound pods Pending")
    parser.add_argument("--kubeconfig-out", type=Path, metavar="FILE", help="write a kubeconfig for clients")
    parser.add_argument("--tls", action="store_true", help="serve HTTPS with a certificate made on the spot")
    parser.add_argument("--token", help="bearer token that requests must carry")
    parser.add_argument("-v", "--verbosity", type=int, default=0, metavar="N", help="log level, as klog counts them")
    parser.add_argument("--logging-format", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: want 0 to 65535")
    return int(text)


def run(args: argparse.Namespace, started: Callable[[Server], None] = lambda server: None) -> int:
    """Serves until told to stop; `started` is called once clients can connect."""
    import asyncio
    import logging

    from kubesched import logs
    from kubesched.api.errors import KubeschedError
    from kubesched.apiserver import ServeOptions, chosen, serve

    logs.setup(args.logging_format, args.verbosity)
    controllers = tuple(word.strip() for word in args.controllers.split(",") if word.strip())
    try:
        chosen(controllers)
    except ValueError as error:
        raise KubeschedError(f"--controllers: {error}") from error
    if args.token and not args.tls:
        logging.getLogger("kubesched.apiserver").warning(
            "--token without --tls: kubectl and whatever else is made with client-go sends no token over HTTP"
        )
    options = ServeOptions(
        host=args.host,
        port=args.port,
        load=tuple(args.load),
        save=args.save,
        controllers=controllers,
        default_admission=args.default_admission,
        node_simulator=not args.no_node_simulator,
        kubeconfig_out=args.kubeconfig_out,
        tls=args.tls,
        token=args.token,
    )

    def announce(server: Server) -> None:
        print(f"serving {server.url}", flush=True)
        if args.kubeconfig_out is not None:
            print(f"kubectl --kubeconfig {args.kubeconfig_out} get nodes", flush=True)
        started(server)

    asyncio.run(serve(options, announce))
    return 0
