"""Arrow values as plain Python: integers for all that is a time, so that nothing is rounded or localised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

UNIT_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY_NANOSECONDS = 86_400 * 10**9
NAN = "NaN"
INTEGER_TYPES = [pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]


def plain(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the values of a column; temporal ones as integers in the column's unit."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain(column.cast(kind.value_type))
    if pa.types.is_struct(kind):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [row for chunk in chunks for row in plain_structs(chunk)]
    if pa.types.is_list(kind):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [row for chunk in chunks for row in plain_lists(chunk)]
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        # A view, and not a cast: a date64 casts to whole days.
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [value for chunk in chunks for value in chunk.view(width).to_pylist()]
    return [float(value) if isinstance(value, float) else value for value in column.to_pylist()]


def plain_structs(structs: pa.StructArray) -> list[dict[str, Any] | None]:
    fields = [plain(field) for field in structs.flatten()]
    names = [structs.type.field(at).name for at in range(structs.type.num_fields)]
    valid = structs.is_valid().to_pylist()
    return [
        dict(zip(names, values, strict=True)) if there else None
        for there, *values in zip(valid, *fields, strict=True)
    ]


def plain_lists(lists: pa.ListArray) -> list[list[Any] | None]:
    values, ends = plain(lists.flatten()), [0]
    for length in lists.value_lengths().to_pylist():
        ends.append(ends[-1] + (length or 0))
    valid = lists.is_valid().to_pylist()
    return [
        values[low:high] if there else None for there, low, high in zip(valid, ends, ends[1:], strict=False)
    ]


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return an array whose `plain` values these are."""
    if pa.types.is_dictionary(kind):
        return column(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(values, kind)


def key(value: Any) -> Any:
    """Return what groups equal keys: NaN equals NaN, and -0.0 equals 0.0."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value


def nan_last(value: Any) -> Any:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


def in_units(measure: Any, time_type: pa.DataType) -> int:
    """Return a window's length, or place, in the units of its time column, exactly."""
    if isinstance(measure, int):
        return measure
    units, rest = divmod(measure.nanoseconds, nanoseconds_per_unit(time_type))
    assert rest == 0, "a test's windows fit the unit of its column"
    return units


def nanoseconds_per_unit(time_type: pa.DataType) -> int:
    if pa.types.is_date32(time_type):
        return DAY_NANOSECONDS
    if pa.types.is_date64(time_type):
        return UNIT_NANOSECONDS["ms"]
    return UNIT_NANOSECONDS[time_type.unit]


def same(mine: Any, wanted: Any, tolerance: float = 1e-12) -> bool:
    """Return whether two answers are equal, floats but for rounding."""
    if isinstance(mine, float) and isinstance(wanted, float):
        if math.isnan(mine) or math.isnan(wanted):
            return math.isnan(mine) and math.isnan(wanted)
        return mine == wanted or math.isclose(mine, wanted, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(mine, tuple | list) and isinstance(wanted, tuple | list) and len(mine) == len(wanted):
        # What is within was picked, and not computed: exactly, but for NaN.
        return all(same(one, other, 0.0) for one, other in zip(mine, wanted, strict=True))
    return bool(mine == wanted)


def assert_near(one: Any, other: Any) -> None:
    """Equal but for the last digits of floats.

    Joins of variances are rounded. Their order follows from the tree above the slices, which a restart builds
    anew.
    """
    if isinstance(one, float) and isinstance(other, float):
        assert (
            one == other or math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-9) or repr(one) == repr(other)
        )
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert_near(list(one.values()), list(other.values()))
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, others in zip(one, other, strict=True):
            assert_near(mine, others)
    else:
        assert repr(one) == repr(other)
