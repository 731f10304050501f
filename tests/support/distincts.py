"""What rows without duplicates are, by the definition: in tables, and in streams after each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.joins import Row


def as_key(key: tuple[Any, ...]) -> tuple[str, ...]:
    """Return a key as `GROUP BY` compares it: null equals null, NaN equals NaN, and -0.0 equals 0.0."""
    return tuple(repr(0.0 if each == 0 and isinstance(each, float) else each) for each in key)


def firsts(rows: list[tuple[int, Row]], within: int) -> list[int]:
    """Return the numbers of rows that are no duplicates, given in the order in which they come."""
    kept = []
    for at, (number, (key, time)) in enumerate(rows):
        others = [
            (other_time, other)
            for other, (_, (own, other_time)) in enumerate(rows)
            if other_time is not None and as_key(own) == as_key(key)
        ]
        is_near = time is not None and any(
            0 < time - other_time <= within or (other_time == time and other < at)
            for other_time, other in others
        )
        if not is_near:
            kept.append(number)
    return kept


@dataclass
class Model:
    """The rows of a stream so far, and what is certain of them."""

    within: int
    rows: list[tuple[int, Row]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    reached: int | None = None
    is_closed: bool = False

    def push(self, rows: list[tuple[int, Row]]) -> None:
        """Add rows with their numbers."""
        for number, (key, time) in rows:
            if time is not None and self.reached is not None and time < self.reached:
                self.late.append(number)
            else:
                self.rows.append((number, (key, time)))

    def results(self) -> list[int]:
        """Return the numbers of the rows that have to be out."""
        certain = {
            number
            for number, (_, time) in self.rows
            if self.is_closed or time is None or (self.reached is not None and time <= self.reached)
        }
        return [number for number in firsts(self.rows, self.within) if number in certain]

    def kept(self) -> int:
        """How many rows have to be held."""
        times = [time for _, (_, time) in self.rows if time is not None]
        is_needed = [self.reached is None or time + self.within >= self.reached for time in times]
        return 0 if self.is_closed else sum(is_needed)
