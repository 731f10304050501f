"""Columns of every type, drawn: with nulls, in chunks, read at offsets."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from support.oracle_types import is_number
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
