"""Times of two tables in one unit: the finer of theirs, in which both are whole numbers."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = ["in_one_unit", "timed"]

UNITS: Final = ("s", "ms", "us", "ns")


def timed(schema: pa.Schema, time: str, kind: pa.DataType) -> pa.Schema:
    """Return a schema whose time column is of type `kind` if it has none, being of nothing but nulls.

    Such is a day without events, as most libraries have it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> timed(pa.schema({"t": pa.null()}), "t", pa.timestamp("us")).field("t").type
    TimestampType(timestamp[us])
    """
    places = schema.get_all_field_indices(time)
    if len(places) != 1 or not pa.types.is_null(schema.field(places[0]).type):
        return schema
    return schema.set(places[0], schema.field(places[0]).with_type(kind))


def in_one_unit(
    one: pa.Schema, time: str, other: pa.Schema, its_time: str, kind: pa.DataType
) -> tuple[pa.Schema, pa.Schema]:
    """Return two schemas whose time columns have the finer of their units, if only the units differ.

    A time column of nulls takes the type of the other, or where both are, `kind`.

    Timestamps of several zones, of which each is a moment, stay in their zones. What differs in more than its
    unit, or is not there, stays as it is: the core refuses it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> events, labels = (pa.schema({"t": pa.timestamp(unit)}) for unit in ("us", "ns"))
    >>> events, labels = in_one_unit(events, "t", labels, "t", pa.int64())
    >>> events.field("t").type, labels.field("t").type
    (TimestampType(timestamp[ns]), TimestampType(timestamp[ns]))
    """
    places = one.get_all_field_indices(time), other.get_all_field_indices(its_time)
    if not all(len(found) == 1 for found in places):
        return one, other
    if pa.types.is_null(one.field(time).type):
        other = timed(other, its_time, kind)
    one = timed(one, time, other.field(its_time).type)
    other = timed(other, its_time, one.field(time).type)
    kinds = one.field(time).type, other.field(its_time).type
    is_comparable = all(map(pa.types.is_duration, kinds)) or (
        all(map(pa.types.is_timestamp, kinds)) and (kinds[0].tz is None) == (kinds[1].tz is None)
    )
    if not is_comparable or kinds[0].unit == kinds[1].unit:
        return one, other
    unit = max((kind.unit for kind in kinds), key=UNITS.index)
    return in_unit(one, places[0][0], unit), in_unit(other, places[1][0], unit)


def in_unit(schema: pa.Schema, at: int, unit: str) -> pa.Schema:
    """Return a schema whose times, at a place, are in a unit."""
    field = schema.field(at)
    kind = pa.duration(unit) if pa.types.is_duration(field.type) else pa.timestamp(unit, field.type.tz)
    return schema.set(at, field.with_type(kind))
