"""Columns of every type, drawn: with nulls, in chunks, read at offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.oracle_types import functions_of, is_number
from support.plain import INTEGER_TYPES, column

WORDS = st.sampled_from(
    ["", "a", "b", "ab", "a\0", "long enough not to be inlined", "é", "\N{GRINNING FACE}"]
)
FLOATS = st.integers(-5, 5).map(float) | st.sampled_from(
    [float("nan"), float("inf"), float("-inf"), -0.0, 0.1, 1e6, -1e-6]
)
KEYS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-1, 2)),
    (pa.int8(), st.integers(-128, -126)),
    (pa.uint64(), st.integers(2**64 - 3, 2**64 - 1)),
    (pa.string(), WORDS),
    (pa.large_string(), WORDS),
    (pa.string_view(), WORDS),
    (pa.dictionary(pa.int8(), pa.string()), WORDS),
    (pa.dictionary(pa.int32(), pa.large_string()), WORDS),
    (pa.bool_(), st.booleans()),
    (pa.float64(), FLOATS),
    (pa.float32(), st.sampled_from([float("nan"), 0.0, -0.0, 1.5])),
    (pa.date32(), st.integers(-1, 1)),
    (pa.decimal128(10, 2), st.sampled_from([Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99")])),
    (pa.binary(), st.sampled_from([b"", b"\0", b"\0\0", b"\xff"])),
    (pa.binary(2), st.sampled_from([b"\0\0", b"ab"])),
    (pa.timestamp("us", "UTC"), st.integers(-1, 1)),
    (pa.time64("ns"), st.integers(0, 2)),
    (pa.duration("s"), st.integers(-1, 1)),
]
TIMES = [
    *(
        pa.timestamp(unit, zone)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin")
    ),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.date32(),
    *INTEGER_TYPES,
]
INTEGERS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (kind, st.integers(low, high) | st.integers(max(low, -3), 3))
    for bits in (8, 16, 32, 64)
    for kind, low, high in [
        (pa.type_for_alias(f"int{bits}"), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
        (pa.type_for_alias(f"uint{bits}"), 0, 2**bits - 1),
    ]
]
NUMBERS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *INTEGERS,
    (pa.float64(), FLOATS | st.floats(-1e6, 1e6)),
    (pa.float32(), st.floats(-1e6, 1e6, width=32) | st.sampled_from([float("nan"), float("-inf")])),
    (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2, allow_nan=False)),
    (pa.decimal128(38, 3), st.decimals(-(10**9), 10**9, places=3, allow_nan=False)),
]


OTHERS = [(kind, values) for kind, values in KEYS if not is_number(kind)]


def columns_of(
    draw: st.DrawFn, kind: pa.DataType, values: st.SearchStrategy[Any], rows: int
) -> pa.ChunkedArray:
    """Draw a column, its nulls, its chunks (some empty), and the offsets at which their buffers are read."""
    nullable = draw(st.booleans())
    drawn = draw(st.lists(values | st.none() if nullable else values, min_size=rows, max_size=rows))
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=3)))
    chunks = []
    for low, high in zip([0, *cuts], [*cuts, rows], strict=True):
        offset = draw(st.sampled_from([0, 0, 1, 9]))
        padded = column([None] * offset + drawn[low:high] + [None], kind)
        chunks.append(padded.slice(offset, high - low))
    return pa.chunked_array(chunks, kind)


@dataclass
class Drawn:
    """Random rows: the time ``t`` about `base`, keys, values ``v``, and booleans ``f`` for filters."""

    draw: st.DrawFn
    rows: int
    time_type: pa.DataType
    base: int = 0
    by: list[str] = field(default_factory=list)
    columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)

    def add(self, name: str, kind: pa.DataType, values: st.SearchStrategy[Any]) -> None:
        """Draw a column."""
        self.columns[name] = columns_of(self.draw, kind, values, self.rows)

    def asked(self) -> list[wk.Aggregate]:
        """Draw functions of the values."""
        functions = st.lists(st.sampled_from(functions_of(self.columns["v"].type)), min_size=1, max_size=5)
        aggs = [function("v") for function in self.draw(functions)]
        return [*aggs, wk.count()] if self.draw(st.booleans()) else aggs

    def filtered(self, aggs: list[wk.Aggregate]) -> list[wk.Aggregate]:
        """Draw which of them are of some of the rows."""
        return [self.draw(st.sampled_from([each, each, each.where("f")])) for each in aggs]

    def table(self) -> pa.Table:
        """Return the columns in any order."""
        return pa.table(
            {name: self.columns[name] for name in self.draw(st.permutations(sorted(self.columns)))}
        )


def drawn_rows(
    draw: st.DrawFn,
    values: list[tuple[pa.DataType, st.SearchStrategy[Any]]],
    keys: list[int],
    bases: list[int],
) -> Drawn:
    """Draw rows, with values of one of these types, so many keys, and times about one of `bases`."""
    made = Drawn(draw, draw(st.integers(0, 25)), draw(st.sampled_from(TIMES)))
    if not pa.types.is_integer(made.time_type) and made.time_type.bit_width == 64:
        made.base = draw(st.sampled_from(bases))
    low = 0 if pa.types.is_unsigned_integer(made.time_type) else -40
    near = st.sampled_from([made.base + 5, made.base + 10])
    made.add("t", made.time_type, st.integers(made.base + low, made.base + 60) | near)
    made.by = [f"k{number}" for number in range(draw(st.sampled_from(keys)))]
    for name in made.by:
        made.add(name, *draw(st.sampled_from(KEYS)))
    made.add("v", *draw(st.sampled_from(values)))
    made.add("f", pa.bool_(), st.booleans())
    return made
