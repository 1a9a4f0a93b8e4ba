"""`kubesched run`: schedule, against a kubeconfig or with an embedded control plane.

Takes the flags of kube-scheduler (`app.flags`), and ends as it does: whatever is wrong with them or with the
configuration is found before anything starts, and ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesched.apiserver import Server
    from kubesched.app.flags import Flags
    from kubesched.app.live import LiveScheduler


def add_parser(commands: Any) -> None:
    """For the overview only: the command line of `run` is not argparse's."""
    commands.add_parser("run", help="schedule pods, on a real cluster or an embedded one", add_help=False)


def main(arguments: Sequence[str]) -> int:
    from kubesched.app.flags import FlagError
    from kubesched.cli.flag_parsing import help_text, parse

    if any(argument in ("-h", "--help") for argument in arguments):
        print(help_text(), end="")
        return 0
    try:
        flags = parse(arguments)
    except FlagError as error:
        for line in str(error).splitlines():
            print(f"kubesched: {line}", file=sys.stderr)
        print("Run 'kubesched run --help' for usage.", file=sys.stderr)
        return 1
    return run(flags)


def run(flags: Flags) -> int:
    import asyncio
    import logging
    import signal

    from kubesched import logs
    from kubesched.api.errors import KubeschedError
    from kubesched.app.flags import warnings
    from kubesched.app.options import run_options, write_config
    from kubesched.app.run import run as run_app

    # It may be sent at any time, and must end nothing before there is somebody to serve it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    logs.setup(flags.logging_format, flags.v)
    log = logging.getLogger("kubesched.app")
    for warning in warnings(flags):
        log.warning(warning)
    try:
        options = run_options(flags)
        if flags.write_config_to:
            write_config(options.live.config, flags.write_config_to)
            return 0
        options.on_started = _tell_how_to_connect if flags.embedded and not flags.until_settled else options.on_started
        options.on_settled = _show_placements
        try:
            import uvloop
        except ImportError:
            return asyncio.run(run_app(options))
        return uvloop.run(run_app(options))
    except KubeschedError as error:
        for line in str(error).splitlines():
            print(f"kubesched: {line}", file=sys.stderr)
        return 1


def _tell_how_to_connect(live: LiveScheduler, server: Server | None) -> None:
    assert server is not None
    print(f"\nThe API server listens on {server.url}. Try:\n")
    print(f"    kubectl --server {server.url} get pods --all-namespaces -o wide\n")
    print("End with Ctrl-C.\n", flush=True)


def _show_placements(live: LiveScheduler) -> None:
    from kubesched.cli.placements import show

    show(live.state, live.scheduler.queue)
