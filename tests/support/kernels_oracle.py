"""Windows by their definition, one after the other, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa

EXACT = Context(prec=200)


def rolling(
    rows: int, size: int, slide: int, partial: str, segments: Sequence[int] | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the rows of each window, by trying every window there could be."""
    offsets = [0, rows] if segments is None else segments
    for begin, end in pairwise(offsets):
        length = end - begin
        for k in range(-(size // slide) - 1, length // slide + 1):
            start, stop = k * slide, k * slide + size
            if min(stop, length) <= max(start, 0):
                continue  # It holds no row.
            if (start < 0 and partial not in ("start", "both")) or (
                stop > length and partial not in ("end", "both")
            ):
                continue
            yield begin + max(start, 0), begin + min(stop, length)


def row_ending(
    times: Sequence[int], size: int, closed: str, segments: Sequence[int] | None = None
) -> Iterator[list[int]]:
    """Yield the rows of each row's window."""
    offsets = [0, len(times)] if segments is None else segments
    for begin, end in pairwise(offsets):
        for row in range(begin, end):
            yield [
                other
                for other in range(begin, end)
                if (0 if closed in ("both", "right") else 1)
                <= times[row] - times[other]
                <= (size if closed in ("both", "left") else size - 1)
            ]


def key(value: Any) -> tuple[bool, Any]:
    """Order as Spark does: NaN is the greatest."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0 if is_nan else value)


def evaluate(
    agg: str, values: Sequence[Any], rows: Sequence[int], kind: pa.DataType, least: int | None, ddof: int = 1
) -> Any:
    """Return the answer of one window over `rows` of `values`."""
    valid = [row for row in rows if values[row] is not None]
    inside = [values[row] for row in valid]
    if len(valid) < (least or 0):
        return None
    if agg == "count":
        return len(valid)
    if not valid:
        return None
    if agg in ("min", "max"):
        return (min if agg == "min" else max)(inside, key=key)
    if agg in ("argmin", "argmax"):
        return (min if agg == "argmin" else max)(valid, key=lambda row: key(values[row]))
    if agg in ("first", "last"):
        return inside[0 if agg == "first" else -1]
    if agg in ("var", "std"):
        if len(valid) <= ddof:
            return None
        if not all(math.isfinite(value) for value in inside):
            return math.nan
        # Exact, in integers of one unit: fractions take ten times as long.
        ratios = [value.as_integer_ratio() for value in inside]
        unit = math.lcm(*(below for _, below in ratios))
        scaled = [above * (unit // below) for above, below in ratios]
        squares = len(valid) * sum(value * value for value in scaled) - sum(scaled) ** 2
        variance = float(Fraction(squares, len(valid) * (len(valid) - ddof) * unit**2))
        return math.sqrt(variance) if agg == "std" else variance
    if pa.types.is_floating(kind):
        total = math.fsum(inside) if all(map(math.isfinite, inside)) else sum(inside)
        return total if agg == "sum" else total / len(valid)
    if pa.types.is_decimal(kind):
        total = sum(inside, Decimal(0))
        if agg == "sum":
            return total
        unit = Decimal(1).scaleb(-min(kind.scale + 4, 38))
        return EXACT.divide(total, Decimal(len(valid))).quantize(unit, ROUND_HALF_UP, EXACT)
    total = sum(inside)
    if agg == "sum":
        return total
    if pa.types.is_duration(kind):
        return int(Fraction(total, len(valid)).__abs__() + Fraction(1, 2)) * (1 if total >= 0 else -1)
    return float(Fraction(total, len(valid)))
