"""Late rows that an operator holds until they are taken, of which it holds only so many."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence


class LateRows:
    """The numbers of late rows that an operator must hold, and how many there were and are dropped."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.held: list[int] = []
        # Of the call that came to the limit: some of these are held.
        self.among: list[int] = []
        self.some = self.count = self.dropped = 0

    def copy(self) -> LateRows:
        other = copy.copy(self)
        other.held = list(self.held)
        return other

    def room(self) -> int:
        """Return how many more rows are held."""
        assert self.limit is not None
        return max(self.limit - len(self.held) - self.some, 0)

    def add(self, rows: Sequence[int]) -> None:
        """Let a call have these late rows."""
        room = len(rows) if self.limit is None else self.room()
        self.count += len(rows)
        if len(rows) <= room:
            self.held += rows
            return
        if room:
            self.among, self.some = list(rows), room
        self.dropped += len(rows) - room

    def lose(self, count: int) -> None:
        """Let a call have late rows that cannot be held, as they are in slices."""
        self.count += count
        self.dropped += count

    def take(self, rows: Sequence[int]) -> None:
        """Assert that these are the rows that are held, and begin anew."""
        more = Counter(rows)
        more.subtract(self.held)
        assert min(more.values(), default=0) >= 0, f"{rows} lack some of {self.held}"
        assert more.total() == self.some, f"{rows} are not {self.held} and {self.some} others"
        assert +more <= Counter(self.among), f"{rows} are not {self.held} and some of {self.among}"
        self.held, self.among, self.some = [], [], 0
