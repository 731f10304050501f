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


def one_per_interval(rows: list[tuple[int, Row]], within: int) -> list[int]:
    """Return the numbers of rows that are left, one per interval, given in the order in which they come."""
    kept = {number for number, (_, time) in rows if time is None}
    last: dict[tuple[str, ...], int] = {}
    timed = [(time, at, number, key) for at, (number, (key, time)) in enumerate(rows) if time is not None]
    for time, _, number, key in sorted(timed, key=lambda row: row[:2]):
        own = as_key(key)
        if own not in last or time - last[own] > within:
            kept.add(number)
            last[own] = time
    return [number for number, _ in rows if number in kept]


LEFT = {"first": firsts, "interval": one_per_interval}
"""What is left, by `per`."""


@dataclass
class Sources:
    """The sources of a stream that have not ended: complete up to a delay before each latest row."""

    delay: int
    latest: dict[Any, int | None] = field(default_factory=dict)
    """None of those that were announced, and have had no rows."""
    ended: int | None = None

    def see(self, source: Any, time: int) -> None:
        before = self.latest.get(source)
        self.latest[source] = time if before is None else max(before, time)

    def end(self, source: Any) -> None:
        latest = self.latest.pop(source)
        if latest is not None:
            self.ended = max_of(self.ended, latest - self.delay)

    @property
    def watermark(self) -> int | None:
        if not self.latest:
            return self.ended
        each = [latest for latest in self.latest.values() if latest is not None]
        return min(each) - self.delay if len(each) == len(self.latest) else None


def max_of(*times: int | None) -> int | None:
    """Return the latest of the times that there are."""
    return max((time for time in times if time is not None), default=None)


@dataclass
class Model:
    """The rows of a stream so far, and what is certain of them."""

    within: int
    per: str = "first"
    rows: list[tuple[int, Row]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    reached: int | None = None
    marks: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Up to when keys are complete by themselves."""
    is_closed: bool = False

    def reached_of(self, key: tuple[Any, ...]) -> int | None:
        """Up to when a key is complete."""
        return max_of(self.reached, self.marks.get(as_key(key)))

    def advance(self, time: int | None) -> None:
        """Declare the stream complete up to a time, if it is not further."""
        self.reached = max_of(self.reached, time)

    def advance_key(self, time: int, key: tuple[Any, ...]) -> None:
        """Declare a key complete up to a time."""
        self.marks[as_key(key)] = time

    def push(self, rows: list[tuple[int, Row]]) -> None:
        """Add rows with their numbers."""
        for number, (key, time) in rows:
            reached = self.reached_of(key)
            if time is not None and reached is not None and time < reached:
                self.late.append(number)
            else:
                self.rows.append((number, (key, time)))

    def is_certain(self, key: tuple[Any, ...], time: int | None) -> bool:
        """Whether no row that is still to come can matter to a row."""
        reached = self.reached_of(key)
        return self.is_closed or time is None or (reached is not None and time <= reached)

    def results(self) -> list[int]:
        """Return the numbers of the rows that have to be out."""
        certain = {number for number, (key, time) in self.rows if self.is_certain(key, time)}
        return [number for number in LEFT[self.per](self.rows, self.within) if number in certain]

    def kept(self) -> int:
        """How many rows have to be held."""
        return sum(not self.is_certain(key, time) for _, (key, time) in self.rows)

    def ahead(self) -> int:
        """How many keys are complete further than the stream."""
        return sum(self.reached is None or mark > self.reached for mark in self.marks.values())
