"""`kubesched queue`: which pods wait, where, for what, and until when."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubesched.cli import asking
from kubesched.cli.explain import show_data

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    #: A queue, and a pod in it.
    _Waiting = tuple[str, Mapping[str, Any]]


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "queue",
        help="show the queues of a scheduler",
        description="Show the queues of a running scheduler (--server, --kubeconfig, $KUBECONFIG), or a dump of them "
        "as /debug/queue gives it, in order of turn.",
    )
    parser.add_argument("dump", nargs="?", metavar="FILE", help="a dump instead of a running scheduler; - is stdin")
    parser.add_argument("-f", "--filename", metavar="FILE", help="the same")
    parser.add_argument("--pod", metavar="[NAMESPACE/]NAME", help="only this pod")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    parser.add_argument("-v", "--verbosity", type=int, default=0, metavar="N", help="log level, as klog counts them")
    asking.add_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    dump, namespace = _dump(args)
    if args.pod:
        dump = _only(dump, args.pod if "/" in args.pod else f"{namespace}/{args.pod}")
    if args.output == "table":
        show(dump)
    else:
        show_data(dump, args.output)
    return 0


def _dump(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """With the namespace of pods that are named without one."""
    from kubesched import logs
    from kubesched.api.errors import KubeschedError

    if args.dump and args.filename:
        raise KubeschedError("one dump, please: FILE or -f")
    if filename := args.dump or args.filename:
        if asking.is_meant(args):
            raise KubeschedError("a dump (-f) or a running scheduler (--server, --kubeconfig): one of them")
        return _read(filename), "default"
    if not asking.is_possible(args):
        raise KubeschedError(
            "whose queues? Name a scheduler (--server, --kubeconfig, $KUBECONFIG, ~/.kube/config) or a dump "
            "(FILE, - for stdin)"
        )
    logs.setup("text", args.verbosity)
    connection = asking.connection(args)
    return asking.ask(connection, "/debug/queue"), connection.namespace


def show(dump: Mapping[str, Any], console: Console | None = None) -> None:
    from kubesched.cli import tables
    from kubesched.cli.tables import full_width

    console = console or tables.console()
    waiting = [(queue, pod) for queue in _QUEUES for pod in dump.get(queue, ())]
    if waiting:
        table = _table(waiting)
        if full_width(table, console) - _longest_reason(waiting) + _REASON_MIN <= console.width:
            console.print(table)
        else:
            for queue, pod in waiting:
                console.print(_lines(queue, pod), markup=False, highlight=False, soft_wrap=True)
    counts = ", ".join(f"{len(dump.get(queue, ()))} {name}" for queue, name in _COUNTED.items())
    console.print(f"{counts}, {dump.get('binding', 0)} being bound.", highlight=False)
    if not dump.get("leads", True):
        console.print(
            "This is a standby, which tries no pods: ask the scheduler that holds the lease.", highlight=False
        )


def _table(waiting: Iterable[_Waiting]) -> Table:
    """One line a pod, but for the reason, which may take several."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(expand=False)
    for column in ("queue", "pod", "priority", "attempts", "since", "waits for"):
        table.add_column(column, justify="right" if column in ("priority", "attempts") else "left", no_wrap=True)
    table.add_column("why", overflow="fold")
    for queue, pod in waiting:
        row = (
            queue,
            pod["pod"],
            pod["priority"],
            pod["attempts"],
            pod["since"],
            _waits_for(queue, pod),
            pod["message"],
        )
        table.add_row(*(escape(str(each)) for each in row))
    return table


def _longest_reason(waiting: Iterable[_Waiting]) -> int:
    from rich.cells import cell_len

    return max(cell_len(line) for _, pod in waiting for line in ("why", *str(pod["message"]).splitlines()))


def _lines(queue: str, pod: Mapping[str, Any]) -> str:
    """For a terminal on which the table has no room: names stay whole, the reason has a line of its own."""
    facts = f"priority {pod['priority']}, attempts {pod['attempts']}, since {pod['since']}"
    lines = [f"{pod['pod']}: {facts}", f"waits for {_waits_for(queue, pod)}", *str(pod["message"]).splitlines()]
    return "\n".join(f"{queue if number == 0 else '':<{_QUEUE_WIDTH}}{line}" for number, line in enumerate(lines))


def _waits_for(queue: str, pod: Mapping[str, Any]) -> str:
    if queue == "active":
        return "its turn"
    if queue == "backoff":
        return f"its backoff, until {pod['backoffUntil']}"
    return f"events for {', '.join(pod['rejectedBy'])}"


def _only(dump: Mapping[str, Any], pod: str) -> dict[str, Any]:
    queues = {queue: [each for each in dump.get(queue, ()) if each["pod"] == pod] for queue in _QUEUES}
    return {name: dump[name] for name in ("time", "leads") if name in dump} | queues


def _read(filename: str) -> dict[str, Any]:
    import json

    from kubesched.api.errors import KubeschedError

    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text()
        dump = json.loads(text)
    except (OSError, ValueError) as error:
        raise KubeschedError(f"cannot read the dump {filename}: {error}") from error
    if not isinstance(dump, dict) or not all(isinstance(dump.get(queue, []), list) for queue in _QUEUES):
        raise KubeschedError(f"{filename} is no dump of a scheduler's queues, as /debug/queue gives it")
    return dump


_QUEUES = ("active", "backoff", "unschedulable", "gated")
_QUEUE_WIDTH = max(map(len, _QUEUES)) + 2
#: Columns that a reason needs to be readable in a table.
_REASON_MIN = 24
_COUNTED = {
    "active": "active",
    "backoff": "in backoff",
    "unschedulable": "unschedulable",
    "gated": "gated",
    "inFlight": "in flight",
}
