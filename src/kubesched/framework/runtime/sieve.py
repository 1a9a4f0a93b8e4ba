"""`Sieve`: the rows still in the race while one attempt filters, and which status took each of the others out.

It starts from what is kept or from a few rows, and only ever gets smaller. Rows are listed, and codes per row made,
when somebody asks: an attempt for which nothing but the kept verdicts counts needs neither.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.plugin import Plugin, Verdicts
from kubesched.framework.runtime.kept_verdicts import KeptVerdicts
from kubesched.framework.status import Status


class Sieve:
    """The rows still in the race, and which status took each of the others out."""

    __slots__ = ("_kept", "_late", "_row_count", "_rows", "_verdicts", "narrowed")

    def __init__(self, verdicts: KeptVerdicts, row_count: int) -> None:
        self._verdicts = verdicts
        self._row_count = row_count
        self._kept = False
        self._late: NDArray[np.int32] | None = None
        self._rows: NDArray[np.intp] | None = None
        #: True once `rows` is no longer what the kept verdicts alone would say.
        self.narrowed = False

    @property
    def rows(self) -> NDArray[np.intp]:
        if self._rows is None:
            self._rows = np.flatnonzero(self._verdicts.fits[: self._row_count])
        return self._rows

    def pass_kept(self) -> None:
        self._kept = True

    def pass_rows(self, rows: NDArray[np.intp]) -> None:
        self._rows = rows
        self.narrowed = True

    def reject(self, said: Verdicts, plugin: Plugin) -> None:
        """Take out what a plugin rejects among the current rows."""
        bad = said.why != 0
        if bad.any():
            codes = self._verdicts.encode(plugin, said)
            assert not isinstance(codes, int)
            self._codes()[self.rows[bad]] = codes[bad]
            self.narrow(self.rows[~bad])

    def reject_row(self, row: int, status: Status) -> None:
        self._codes()[row] = self._verdicts.status_id(status)

    def override(self, rows: NDArray[np.intp], said: Verdicts) -> None:
        """Verdicts that stand above all earlier ones where they reject."""
        bad = rows[said.why != 0]
        if len(bad):
            ids = np.array([self._verdicts.status_id(status) for status in said.statuses], dtype=np.int32)
            codes = self._codes()
            codes[bad] = ids[said.why[said.why != 0]]
            self.narrow(self.rows[codes[self.rows] == 0])

    def narrow(self, rows: NDArray[np.intp]) -> None:
        self.narrowed |= len(rows) != len(self.rows)
        self._rows = rows

    def rejected_behind(self, ahead: Collection[str]) -> NDArray[np.intp]:
        """The rows that kept filters reject, but none of those named `ahead`, and nothing that came later either."""
        rejected = ~self._verdicts.fits[: self._row_count]
        if self._late is not None:
            rejected &= self._late == 0
        rejected &= ~self._verdicts.rejected_by(ahead, self._row_count)
        return np.flatnonzero(rejected)

    def codes(self) -> NDArray[np.int32]:
        """Per row of the table the id of the status that took it out, in the verdicts' `statuses`."""
        late = self._codes()
        if not self._kept:
            return late
        codes = self._verdicts.first_rejections(self._row_count)
        np.copyto(codes, late, where=late != 0)
        return codes

    def _codes(self) -> NDArray[np.int32]:
        if self._late is None:
            self._late = np.zeros(self._row_count, dtype=np.int32)
        return self._late
