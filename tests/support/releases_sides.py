"""Joins of streams, and streams without duplicates, of which snapshots of releases are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support import distincts, join_streams
from support.joins import Case, Row, of_windows, plain, sliding
from support.plain import column
from support.streams import scalar

ROWS, BATCH = 96, 6
"""Of a side, and of a call; the snapshot is made after half of them."""
KEYS: dict[pa.DataType, list[Any]] = {
    pa.string(): ["a", "b", None],
    pa.dictionary(pa.int8(), pa.string()): ["x", "y", None],
    pa.float64(): [0.5, -0.0, float("nan")],
}


def schema_of(kind: pa.DataType, time: pa.DataType, names: tuple[str, str, str]) -> pa.Schema:
    return pa.schema(dict(zip(names, (kind, time, pa.int32()), strict=True)))


class Sides(NamedTuple):
    """An operator, of one stream or two, and its definition."""

    kind: pa.DataType
    time: pa.DataType
    of: Callable[[tuple[pa.Schema, ...]], tuple[wk.Join | wk.Distinct, Any]]
    """A join, or what duplicates are, and its model, by the schemas of streams."""


def band(how: str, closed: str = "both") -> Callable[..., Any]:
    def of(schemas: tuple[pa.Schema, ...]) -> tuple[wk.Join, Any]:
        left, right = (schema.empty_table() for schema in schemas)
        case = Case(left, right, 1, schemas[0].field("t").type, (4, 9), closed, how)
        return case.join, join_streams.of_band(case)

    return of


def windows(window: wk.Window, extents: Any, how: str) -> Callable[..., Any]:
    return lambda _: (of_windows(window, how), join_streams.by_windows(how, extents))


SIDES = {
    "join-full": Sides(pa.string(), pa.int64(), band("full")),
    "join-semi": Sides(pa.float64(), pa.date32(), band("semi")),
    "join-anti-of-times": Sides(
        pa.dictionary(pa.int8(), pa.string()), pa.timestamp("us", "UTC"), band("anti", "left")
    ),
    "join-by-windows": Sides(pa.string(), pa.int32(), windows(wk.sliding(6, 4), sliding(6, 4), "left")),
    "distinct": Sides(
        pa.string(), pa.int64(), lambda _: (wk.distinct("k0", time="t", within=1), distincts.Model(1))
    ),
    "distinct-per-interval": Sides(
        pa.string(),
        pa.date32(),
        lambda _: (
            wk.distinct("k0", time="t", within="3 days", per="interval"),
            distincts.Model(3, "interval"),
        ),
    ),
    "distinct-of-floats": Sides(
        pa.float64(), pa.int16(), lambda _: (wk.distinct("k0", time="t", within=2), distincts.Model(2))
    ),
}


class FollowedSides:
    """An operator that is followed by its definition."""

    def __init__(self, name: str) -> None:
        sides = SIDES[name]
        names = [("k0", "t", "left")] + ([("q0", "u", "right")] if name.startswith("join") else [])
        self.schemas = tuple(schema_of(sides.kind, sides.time, each) for each in names)
        self.of, self.model = sides.of(self.schemas)
        self.op: Any = self.of.operator(*self.schemas)
        self.out: Counter[Any] = Counter()
        self.late: list[list[int]] = [[] for _ in self.schemas]

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot."""
        kind = wk.JoinOperator if isinstance(self.of, wk.Join) else wk.DistinctOperator
        self.op = kind.restore(snapshot, self.of)  # type: ignore[arg-type]

    def rows(self, side: int, first: int) -> tuple[pa.Table, list[tuple[int, Row]]]:
        """Return rows, some out of order or late or without a time, and what they are to the model."""
        schema = self.schemas[side]
        numbers = range(first, first + BATCH)
        back = [[0, 0, 3, 0, 7, 0, 25][(row + side) % 7] for row in numbers]
        times = [
            None if row % 23 == 11 else max(row * (4 + side) // 5 - late, 0)
            for row, late in zip(numbers, back, strict=True)
        ]
        keys = [KEYS[schema.types[0]][(row * row + side) % 7 % 3] for row in numbers]
        columns = [
            column(values, kind) for values, kind in zip([keys, times, numbers], schema.types, strict=True)
        ]
        table = pa.Table.from_arrays(columns, schema=schema)
        return table, list(zip(numbers, plain(table, schema.names[0][0], schema.names[1], 1), strict=True))

    def go(self, beginning: int, end: int) -> None:
        """Push rows of all sides, each batch followed by a watermark."""
        suffixes = ("_left", "_right") if len(self.schemas) > 1 else ("",)
        for first in range(beginning, end, BATCH):
            for side, suffix in enumerate(suffixes):
                table, rows = self.rows(side, first)
                self.take(getattr(self.op, f"push{suffix}")(table))
                at = max(first * 4 // 5 - 6, 0)
                if len(suffixes) > 1:
                    self.model.push(side, rows)
                    self.model.reached[side], late = at, self.model.late[side]
                else:
                    self.model.push(rows)
                    self.model.reached, late = at, self.model.late
                self.take(getattr(self.op, f"advance{suffix}")(scalar(at, self.schemas[side].types[1])))
                self.late[side] += getattr(self.op, f"take_late{suffix}")().column(2).to_pylist()
                assert self.late[side] == late
        assert self.out == Counter(self.model.results())

    def go_half(self) -> None:
        self.go(0, ROWS // 2)

    def rest(self) -> list[Any]:
        """Go on to the end; return what the results of the second half are, by the model."""
        before = Counter(self.model.results())
        assert self.out == before
        self.go(ROWS // 2, ROWS)
        self.model.is_closed = True
        self.take(self.op.close())
        assert self.out == Counter(self.model.results())
        return sorted((Counter(self.model.results()) - before).elements(), key=repr)

    def take(self, emitted: pa.Table) -> None:
        if len(self.schemas) > 1:
            self.out += join_streams.found(emitted)
        else:
            self.out.update(emitted["left"].to_pylist())
