"""User-defined functions and windows that fail on demand, and the oracles for their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import windowkit as wk


class InjectedError(Exception):
    """The exception that a user-defined function raises on demand."""


class Failure:
    """When user-defined functions fail: at one of their next calls, or not at all."""

    def __init__(self) -> None:
        self.left: int | None = None

    def tick(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise InjectedError


FAILURE = Failure()


def ticking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that may fail."""

    def ticked(*arrays: pa.Array) -> Any:
        FAILURE.tick()
        return function(*arrays)

    return ticked


def without_beginning(whole: pa.Array, part: pa.Array) -> pa.Array:
    pairs = zip(whole.to_pylist(), part.to_pylist(), strict=True)
    return pa.array([text[len(beginning) :] for text, beginning in pairs], pa.string())


def function(name: str, lift: Any, combine: Any, **properties: Any) -> Any:
    if "invert" in properties:
        properties["invert"] = ticking(properties["invert"])
    lower = ticking(lambda states: states)
    return wk.aggregate(name, lift=ticking(lift), combine=ticking(combine), lower=lower, **properties)


def text(values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pc.cast(values, pa.string()), "", ";")


def joined(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(a, b, "")


def text_of(values: Sequence[int]) -> str | None:
    return "".join(f"{value};" for value in values) or None


COMMUTATIVE = [
    function("total", lambda v: v, pc.add, invert=pc.subtract, identity=0, commutative=True)("i"),
    function("peak", lambda v: v, pc.max_element_wise, commutative=True)("i"),
]
ORDERED = [
    function("joined", text, joined)("i"),
    function("cut", text, joined, invert=without_beginning)("i"),
]
MEANINGS: dict[str, Callable[[list[int]], Any]] = {
    "total": sum,
    "peak": lambda values: max(values, default=None),
    "joined": text_of,
    "cut": text_of,
}
"""What the functions are of values in the order of time and arrival."""


class Terms(wk.ContextFree):
    """Windows of seven units and of fifteen, by turns, with gaps between them and overlaps."""

    longest = 15

    def next_edge(self, t: int) -> int:
        FAILURE.tick()
        return min(edge for window in self.near(t, t + 40) for edge in window if edge > t)

    def windows(self, since: int, until: int) -> list[tuple[int, int]]:
        FAILURE.tick()
        return [(start, end) for start, end in self.near(since, until) if since < end <= until]

    @staticmethod
    def near(since: int, until: int) -> Iterator[tuple[int, int]]:
        for number in range(since // 20 - 2, until // 20 + 2):
            yield 20 * number, 20 * number + 7
            yield 20 * number + 3, 20 * number + 18


class Rising(wk.ContextAware):
    """Windows of each row with the one before it, if the value rises."""

    columns = ("i",)

    def open(self) -> Risen:
        FAILURE.tick()
        return Risen()


class Risen:
    def __init__(self) -> None:
        self.last: int | None = None

    def notify(self, first: int, times: pa.Array, i: pa.Array) -> Iterable[object]:
        FAILURE.tick()
        for rank, value in enumerate(i.to_pylist(), first):
            if value is not None and self.last is not None and value > self.last:
                yield wk.Add(rank - 1, rank + 1)
            self.last = value

    def finish(self, rows: int) -> Iterable[object]:
        FAILURE.tick()
        return []
