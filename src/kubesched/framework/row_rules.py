"""`RowJudge` and `RowRate`: rules for one pod that are asked about many rows of the node table in one call.

What `judge` and `rate` of a plugin return is a function of one node. If it is one of these besides, the rows that
changed since the last pod of its kind go through a loop over the table's memory, in which a row takes some nanoseconds
once it is compiled. Both answers, of the loop and of the function, must be those of the plugin's columns. A class is
one of the two, not both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubesched.build import i64, mypyc_attr
from kubesched.state.node_info import NodeInfo

if TYPE_CHECKING:
    from kubesched.build import vec


@mypyc_attr(allow_interpreted_subclasses=True)
class RowJudge:
    def __call__(self, node: NodeInfo) -> Any:
        """None where the pod fits, or a Status."""
        raise NotImplementedError

    def doubtful(self, rows: vec[i64]) -> list[int]:
        """Those of the rows where the pod may not fit: each of them is judged by itself. The others take it."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RowRate:
    def __call__(self, node: NodeInfo) -> Any:
        """The raw score."""
        raise NotImplementedError

    def rate_rows(self, rows: vec[i64], points: vec[i64]) -> None:
        """Put the raw score of each row at its place in `points`, which is at least as long as `rows`.

        Every place must be written: what is there before means nothing.
        """
        raise NotImplementedError
