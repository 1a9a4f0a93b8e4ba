"""The inbox: everything that changes the scheduler's picture of the cluster, in order of arrival.

Watches, finished API calls, timers and plugins post here; the scheduler applies what is there between two cycles.
Nothing else writes the state, so a cycle reads it without locks or copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kubesched.scheduler import bugs


class Inbox:
    """`on_post` is called when there is something to apply where there was nothing before."""

    def __init__(self, on_post: Callable[[], None]) -> None:
        self._notes: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._on_post = on_post

    def post(self, apply: Callable[..., None], *args: Any) -> None:
        """Have `apply(*args)` called before the next cycle."""
        notes = self._notes
        notes.append((apply, args))
        if len(notes) == 1:
            self._on_post()

    def apply_all(self) -> None:
        """Apply what is there, and what is posted meanwhile; what cannot be applied does not stop the rest."""
        notes = self._notes
        while notes:
            apply, args = notes.popleft()
            try:
                apply(*args)
            except Exception as error:
                bugs.tell(error, "news could not be applied, going on without it news=%.300r", args)

    def __len__(self) -> int:
        return len(self._notes)
