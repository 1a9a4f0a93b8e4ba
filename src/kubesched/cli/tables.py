"""Columns of tables that hold names: of pods, nodes and plugins. A name is read, copied and searched for as a whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table


def add_names(table: Table, header: str, names: Iterable[str], **more: Any) -> None:
    """A column that is never narrower than its names: others give way, and at last the table is wider than the
    terminal (print it with `crop=False`)."""
    table.add_column(header, no_wrap=True, min_width=widest(header, *names), **more)


def console() -> Console:
    """For standard output. Where no terminal is wrapped to, nothing is: the reader may be a program."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return Console()
    return Console(width=_ENDLESS)


def widest(*words: str) -> int:
    return max(map(cell_len, words))


def full_width(table: Table, console: Console) -> int:
    """What it takes where nothing is wrapped."""
    return console.measure(table, options=console.options.update(width=_ENDLESS)).maximum


_ENDLESS: Final = 1 << 20
