"""`Fitting`: the rows that fit, for plugins that ask about them and for scales."""

from __future__ import annotations

from kubesched.framework.runtime.kept_verdicts import KeptVerdicts
from kubesched.state.node_table import Bools, Ints, NodeSet


class Fitting:
    """As of one moment; good until the verdicts say that others fit (`fits_changed`), for it looks at their arrays."""

    __slots__ = ("_count", "_fits", "_nodes", "_whole", "is_whole")

    def __init__(self, whole: NodeSet, verdicts: KeptVerdicts) -> None:
        self._whole = whole
        self._count = verdicts.fit_count
        self.is_whole = self._count == len(whole)
        self._fits: Bools | None = None if self.is_whole else verdicts.fits[whole.index]
        self._nodes: NodeSet | None = whole if self._fits is None else None

    @property
    def nodes(self) -> NodeSet:
        if self._nodes is None:
            assert self._fits is not None
            self._nodes = NodeSet.where(self._whole.table, self._fits, self._count)
        return self._nodes

    @property
    def size_bytes(self) -> int:
        return 0 if self.is_whole or self._nodes is None else self._nodes.size_bytes

    def of(self, column: Ints, *, is_uniform: bool) -> Ints:
        """Of scores of all rows, those of the rows that fit. `is_uniform`: all are the same."""
        if self._fits is None:
            return column
        if is_uniform:
            return column[: self._count]
        return column.take(self.nodes.rows())
