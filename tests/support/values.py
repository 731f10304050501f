"""Values of every type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from support.plain import INTEGER_TYPES

DECIMALS = [Decimal(value) for value in ("1", "-2", "3", "0", "3", "-2")]
INTEGERS = [1, 3, None, 0, 3, 127]
FLOATS = [1.5, float("nan"), None, -0.25, float("inf"), -0.0]
BYTES = [b"b", b"", None, b"a\0", b"a long one, beyond twelve bytes", b"\xff"]
TEXTS = ["b", "", None, "a\0", "a long one, beyond twelve bytes", "\N{GRINNING FACE}"]
FIXED = [b"abc", b"ab\0", None, b"\xff\0\0", b"abc", b"zzz"]
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, INTEGERS) for kind in INTEGER_TYPES),
    *((pa.type_for_alias(f"float{bits}"), FLOATS) for bits in (16, 32, 64)),
    *((pa.decimal128(*digits), [*DECIMALS[:5], None]) for digits in ((5, 0), (18, 4), (28, 10), (38, 6))),
    (pa.bool_(), [True, False, None, False, True, True]),
    (pa.date32(), INTEGERS),
    (pa.date64(), [None if days is None else days * 86_400_000 for days in INTEGERS]),
    *((pa.timestamp(unit, zone), INTEGERS) for unit in ("s", "ms", "us", "ns") for zone in (None, "+05:30")),
    *((pa.duration(unit), INTEGERS) for unit in ("s", "ms", "us", "ns")),
    *((pa.time32(unit), INTEGERS) for unit in ("s", "ms")),
    *((pa.time64(unit), INTEGERS) for unit in ("us", "ns")),
    *((kind, TEXTS) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, BYTES) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), FIXED),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    (pa.dictionary(pa.uint8(), pa.large_string()), TEXTS),
    (pa.dictionary(pa.int64(), pa.int16()), INTEGERS),
    (pa.dictionary(pa.int16(), pa.binary(3)), FIXED),
]
NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None] * 6),
    (pa.list_(pa.int32()), [[1], [], None, [1], [1, None], [2]]),
    (pa.large_list(pa.string()), [["a"], [], None, ["a"], ["a", "b"], ["b"]]),
    (pa.struct([("x", pa.int32()), ("y", pa.string())]), [{"x": 1, "y": "a"}, None, {"x": 1, "y": "a"}] * 2),
    (pa.month_day_nano_interval(), [(1, 2, 3), (1, 2, 4), None, (1, 2, 3), (0, 0, 0), (-1, 0, 3)]),
]


def name_of(value: object) -> str:
    return str(value) if isinstance(value, pa.DataType) else ""
