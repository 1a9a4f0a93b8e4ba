"""`kubesched COMMAND`: one module a command, each with `add_parser` and `run`.

Exit codes: 0 all went well, 1 something failed while running (or a pod does not fit, where a command asks that), 2 the
command line or an input file is wrong; `run` ends with 1 then, as kube-scheduler does. Expected failures are one line
on standard error, never a traceback. Flags without a command are for `run`, so that the program can stand in for
kube-scheduler on its command line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from kubesched.cli import apiserver, config, explain, queue, run

_COMMANDS = (run, explain, queue, config, apiserver)


def main(argv: Sequence[str] | None = None) -> int:
    # NumPy is used for columns, never for matrices: the threads that its library would start for those only cost time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = list(sys.argv[1:] if argv is None else argv)
    return _guarded(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "run":
        return run.main(arguments[1:])
    if arguments and arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version"):
        return run.main(arguments)
    parser = argparse.ArgumentParser(
        prog="kubesched",
        description="The Kubernetes scheduler in Python: decides as kube-scheduler v1.36 does, and explains why.",
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return _run(parser.parse_args(arguments))


def _run(args: argparse.Namespace) -> int:
    from kubesched.api.errors import KubeschedError

    try:
        code: int = args.run(args)
        return code
    except KubeschedError as error:
        print(f"kubesched: {error}", file=sys.stderr)
        return 2 if getattr(error, "is_usage", True) else 1


def _guarded(command: Callable[[], int]) -> int:
    _open_standard_streams()
    try:
        code = command()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:
        # A disk that is full, a folder that is not there: the system says it in a line.
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        print(f"kubesched: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _open_standard_streams() -> None:
    """Whoever closed one of them would have a socket of ours take its number, and texts go there."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _drop_output() -> None:
    """What is left in the buffer cannot be written, and must not be tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Version(argparse.Action):
    """Prints the version; reads the package's metadata only when asked."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        from kubesched import build

        print(f"kubesched {version('kubesched')} build={build.kind()} (decides as kube-scheduler v1.36)")
        parser.exit()
