"""What tests of joins share: rows, drawn, and the definition of a join, evaluated naively."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.tables import KEYS, TIMES, columns_of

KINDS = ("inner", "left", "right", "full", "semi", "anti")
TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

Row = tuple[tuple[Any, ...], int | None]
"""Keys and time of a row."""
Found = tuple[int | None, int | None, tuple[int, int] | None]
"""A row of a result: the rows of the left and the right side by their numbers, and the window."""


def joined(left: list[Row], right: list[Row], how: str, band: tuple[int, int]) -> list[Found]:
    """Return the result of a join within ``left + band[0] <= right <= left + band[1]``, in its order."""
    low, high = band
    ones, others = ([(key, time, None) for key, time in rows] for rows in (left, right))
    return nested(ones, others, how, lambda own, other: own + low <= other <= own + high)


def joined_by_windows(
    left: list[Row], right: list[Row], how: str, extents: Callable[[int], list[tuple[int, int]]]
) -> list[Found]:
    """Return the result of a join by windows, `extents` of a time: that of rows with one row per window."""

    def exploded(rows: list[Row]) -> list[tuple[tuple[Any, ...], int | None, Any, int]]:
        found = []
        for number, (key, time) in enumerate(rows):
            windows = [] if time is None else extents(time)
            found += [(key, time, extent, number) for extent in windows or [None]]
        return found

    ones, others = exploded(left), exploded(right)
    results = nested([row[:3] for row in ones], [row[:3] for row in others], how, lambda *_: True, True)

    def number(rows: list[Any], at: int | None) -> int | None:
        return None if at is None else rows[at][3]

    return [(number(ones, own), number(others, other), extent) for own, other, extent in results]


def nested(left: list[Any], right: list[Any], how: str, near: Any, by_windows: bool = False) -> list[Found]:
    """Join rows ``(key, time, window)`` of two sides by comparing each with each."""
    found: list[Found] = []
    met = set()
    for at, (key, time, extent) in enumerate(left):
        partners = [
            (other_time, number)
            for number, (other, other_time, its) in enumerate(right)
            if time is not None and other_time is not None and equal(key, other)
            if (extent == its and extent is not None if by_windows else near(time, other_time))
        ]
        met |= {number for _, number in partners}
        if how in ("inner", "left", "right", "full"):
            found += [(at, number, extent) for _, number in sorted(partners)]
        if (how in ("left", "full", "anti") and not partners) or (how == "semi" and partners):
            found.append((at, None, extent))
    if how in ("right", "full"):
        found += [(None, number, row[2]) for number, row in enumerate(right) if number not in met]
    return found


def equal(key: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two keys are equal: null equals nothing, and NaN itself."""
    pairs = zip(key, other, strict=True)
    return all(a is not None and b is not None and (a == b or (a != a and b != b)) for a, b in pairs)


def sliding(size: int, slide: int) -> Callable[[int], list[tuple[int, int]]]:
    """Return the definition of sliding windows: those of a time."""

    def extents(time: int) -> list[tuple[int, int]]:
        starts = range((time - size) // slide * slide, time + 1, slide)
        return [(start, start + size) for start in starts if start <= time < start + size]

    return extents


@dataclass(frozen=True)
class Squares(wk.ContextFree):
    """Windows that begin at some squares and their negatives; neighbours overlap, or leave a gap."""

    every: int
    longest = 40

    @property
    def all(self) -> list[tuple[int, int]]:
        """Start and end of each."""
        return [(n * abs(n), (n + 2) * abs(n + 2) - 1) for n in range(-7, 7, self.every)]

    def next_edge(self, t: int) -> int:
        """Return the first edge after a time, or a time without windows."""
        return min((edge for window in self.all for edge in window if edge > t), default=t + 10**6)

    def windows(self, since: int, until: int) -> list[tuple[int, int]]:
        """Return the windows that end in a stretch, in no order."""
        return [window for window in reversed(self.all) if since < window[1] <= until]

    def of(self, time: int) -> list[tuple[int, int]]:
        """Return the windows of a time."""
        return [(start, end) for start, end in self.all if start <= time < end]


@dataclass
class Case:
    """Two sides, and a join of them, drawn."""

    left: pa.Table
    right: pa.Table
    keys: int
    time: pa.DataType
    within: tuple[int, int]
    closed: str
    how: str

    @property
    def join(self) -> wk.Join:
        """The join, with numbers of rows as results."""
        before, after = (length(each, self.time) for each in self.within)
        return wk.join(
            by={f"k{at}": f"q{at}" for at in range(self.keys)},
            left_time="t",
            right_time="u",
            within=(before, after),
            closed=self.closed,
            how=self.how,
            left_columns="left",
            right_columns="right" if self.how not in ("semi", "anti") else None,
        )

    @property
    def band(self) -> tuple[int, int]:
        """The distances at which rows are partners."""
        before, after = self.within
        return (
            -before + (self.closed in ("right", "neither")),
            after - (self.closed in ("left", "neither")),
        )

    @property
    def rows(self) -> tuple[list[Row], list[Row]]:
        """Keys and times of both sides."""
        return plain(self.left, "k", "t", self.keys), plain(self.right, "q", "u", self.keys)


def length(units: int, kind: pa.DataType) -> Any:
    """Return a length of so many units of a type of times."""
    if pa.types.is_integer(kind):
        return units
    return f"{units} {'days' if pa.types.is_date(kind) else UNITS[kind.unit]}"


def plain(table: pa.Table, key: str, time: str, keys: int) -> list[Row]:
    """Return keys and times of rows, times as integers."""
    times = table[time]
    if not pa.types.is_integer(times.type):
        times = times.cast(pa.int32() if pa.types.is_date32(times.type) else pa.int64())
    columns = [values(table[f"{key}{at}"]) for at in range(keys)]
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    return list(zip(rows, times.to_pylist(), strict=True))


def values(keys: pa.ChunkedArray) -> list[Any]:
    """Return keys as Python's values; of times of day, which have nanoseconds, as integers."""
    return (keys.cast(pa.int64()) if pa.types.is_time64(keys.type) else keys).to_pylist()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw two sides with keys and times of any type, ties, nulls and chunks, and a join of them."""
    time = draw(st.sampled_from(TIMES))
    kinds = [draw(st.sampled_from(KEYS)) for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2])))]
    moments = st.integers(0, 12)
    if time in (pa.int64(), pa.timestamp("ns"), pa.duration("us")) and draw(st.booleans()):
        # Those at the limits, and none between: what is so far away must not wrap around.
        moments = st.integers(0, 2).flatmap(lambda d: st.sampled_from([d - 2**63, 2**63 - 1 - d, d]))

    def side(key: str, name: str, number: str) -> pa.Table:
        count = draw(st.sampled_from([0, 1, 5, 15]))
        columns = {}
        for at, (kind, values) in enumerate(kinds):
            own = draw(st.sampled_from(TEXTS)) if kind in TEXTS else kind
            columns[f"{key}{at}"] = columns_of(draw, own, values, count)
        columns[name] = columns_of(draw, time, moments, count)
        return pa.table(columns | {number: pa.array(range(count), pa.int32())})

    within = draw(st.tuples(st.sampled_from([0, 0, 1, 3, 100]), st.sampled_from([0, 0, 2, 3, 100])))
    closed = draw(st.sampled_from(["both", "both", "left", "right", "neither"]))
    if sum(within) - {"both": 0, "neither": 2}.get(closed, 1) < 0:
        closed = "both"
    left, right = side("k", "t", "left"), side("q", "u", "right")
    return Case(left, right, len(kinds), time, within, closed, draw(st.sampled_from(KINDS)))


def numbers(result: pa.Table) -> list[tuple[int | None, int | None]]:
    """Return the numbers of the rows of both sides that a result has."""
    left = result["left"].to_pylist()
    right = result["right"].to_pylist() if "right" in result.column_names else [None] * len(result)
    return list(zip(left, right, strict=True))


Extents = Callable[[int], list[tuple[int, int]]]


@st.composite
def windowed(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, wk.Window, Extents, str]:
    """Draw two sides with integer times, windows with their definition, and a kind of join."""
    size = draw(st.integers(1, 8))
    slide, start = draw(st.integers(1, size)), draw(st.integers(-9, 5))
    defined = Squares(draw(st.sampled_from([1, 2])))
    # Most times are in several windows; with a band, or those with gaps, some are in none.
    window, extents = draw(
        st.sampled_from(
            [
                (wk.sliding(size, slide), sliding(size, slide)),
                (wk.tumbling(size), sliding(size, size)),
                (
                    wk.band(start, start + size),
                    lambda time: [(start, start + size)] if start <= time < start + size else [],
                ),
                (wk.custom(defined), defined.of),
            ]
        )
    )

    def side(key: str, time: str, number: str) -> pa.Table:
        rows = draw(st.lists(st.tuples(st.sampled_from("ab") | st.none(), st.integers(-9, 9) | st.none())))
        keys, times = [row[0] for row in rows], [row[1] for row in rows]
        columns = {key: pa.array(keys, pa.string()), time: pa.array(times, pa.int32())}
        return pa.table(columns | {number: pa.array(range(len(rows)), pa.int64())})

    sides = side("k0", "t", "left"), side("q0", "u", "right")
    return *sides, window, extents, draw(st.sampled_from(KINDS))


def of_windows(windows: wk.Window, how: str) -> wk.Join:
    """Return a join of what `windowed` draws, with numbers of rows as results."""
    return wk.join(
        by={"k0": "q0"},
        left_time="t",
        right_time="u",
        windows=windows,
        how=how,
        left_columns="left",
        right_columns=None if how in ("semi", "anti") else "right",
    )


def extents_of(result: pa.Table) -> list[tuple[int, int] | None]:
    """Return the windows of a result."""
    edges = (result[name].to_pylist() for name in ("window_start", "window_end"))
    return [None if start is None else (start, end) for start, end in zip(*edges, strict=True)]
