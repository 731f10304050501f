"""Types of Parquet columns as Spark has them.

Spark sees no Arrow schema in a Parquet file: dictionaries are plain there, durations integers, unsigned
integers the next larger signed ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "UTC",
    "WIDENED",
    "conformed",
    "has_instants",
    "has_nanos",
    "is_readable",
    "kind_in_spark",
    "plain",
]

UTC: Final = pa.timestamp("us", "UTC")
PLAIN: Final = (pa.bool_(), pa.float32(), pa.float64(), pa.date32())
UNSIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
WIDENED: Final = {
    *((narrow, wide) for at, narrow in enumerate(INTEGERS) for wide in INTEGERS[at + 1 :]),
    *((narrow, pa.float64()) for narrow in (pa.int8(), pa.int16(), pa.int32(), pa.float32())),
}
"""From what a file has to what the table has, where Spark widens without loss."""
INTERVAL: Final = (pa.int64(), pa.duration("us"))
"""Of an interval a file's own type says nothing."""
UNMARKED: Final = (pa.binary(), pa.string())
"""A string may not be marked as one."""


def kind_in_spark(kind: pa.DataType) -> pa.DataType | None:
    """Return the Arrow type of what Spark reads from a Parquet column of this type; None if it does not.

    Examples
    --------
    >>> kind_in_spark(pa.dictionary(pa.int8(), pa.large_string()))
    DataType(string)
    >>> kind_in_spark(pa.uint32())
    DataType(int64)
    """
    is_a = pa.types
    kind = plain(kind)
    if kind in INTEGERS or kind in PLAIN:
        return kind
    if kind in UNSIGNED:
        return UNSIGNED[kind]
    if is_a.is_null(kind):
        # What has nulls only is stored as integers, and read as such.
        return pa.int32()
    if is_a.is_date64(kind):
        return pa.date32()
    if is_a.is_duration(kind):
        return pa.int64()
    if is_a.is_timestamp(kind):
        return UTC if kind.tz is not None else pa.timestamp("us")
    if kind == pa.time64("us"):
        # As pyspark has TIME.
        return pa.time64("ns")
    if is_a.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return pa.string()
    if kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or is_a.is_fixed_size_binary(kind):
        return pa.binary()
    if not is_a.is_nested(kind):
        return None
    inner = [kind_in_spark(field.type) for field in fields_in(kind)]
    if None in inner:
        return None
    if is_a.is_map(kind):
        return pa.map_(*inner)
    if is_a.is_struct(kind):
        return pa.struct([(field.name, found) for field, found in zip(kind, inner, strict=True)])
    return pa.list_(pa.field("element", inner[0]))


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of dictionaries, and of what is stored of types of Arrow's extensions."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    return plain(kind.value_type) if pa.types.is_dictionary(kind) else kind


def fields_in(kind: pa.DataType) -> list[pa.Field]:
    """Return what a nested type is made of: of a map its keys and its items."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(at) for at in range(kind.num_fields)]


def has(kind: pa.DataType, is_one: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type is one of some, or a struct, list or map in which one is."""
    kind = plain(kind)
    if pa.types.is_nested(kind):
        return any(has(field.type, is_one) for field in fields_in(kind))
    return is_one(kind)


def has_instants(kind: pa.DataType) -> bool:
    """Whether columns of a type have dates or instants, also within structs, lists and maps.

    Times without zone are none: Spark 2, which had another calendar, did not write them.
    """
    is_a = pa.types
    return has(kind, lambda own: is_a.is_date(own) or (is_a.is_timestamp(own) and own.tz is not None))


def has_nanos(kind: pa.DataType) -> bool:
    """Whether columns of a type have timestamps of nanoseconds, also within structs, lists and maps."""
    return has(kind, lambda own: pa.types.is_timestamp(own) and own.unit == "ns")


def is_readable(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark reads a column of a file as a type of its own without loss."""
    read, is_duration = kind_in_spark(stored), pa.types.is_duration
    if pa.types.is_nested(stored) and has(stored, is_duration) and has(wanted, is_duration):
        # Of their unit, which Spark does not see; only columns are read without it.
        return False
    if read is None or (read, wanted) in WIDENED or alike(read, wanted):
        return read is not None
    if (read, wanted) == UNMARKED:
        return not pa.types.is_fixed_size_binary(plain(stored))
    # By a setting of Spark's, nanoseconds are integers.
    return wanted == pa.int64() and stored in (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))


def alike(read: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark reads one of its types as another: times with and without zone as each other."""
    is_a = pa.types
    if read == wanted or (read, wanted) == INTERVAL:
        return True
    if is_a.is_timestamp(read) and is_a.is_timestamp(wanted):
        return True
    if read.id != wanted.id or not is_a.is_nested(read) or read.num_fields != wanted.num_fields:
        return False
    inner = list(zip(fields_in(read), fields_in(wanted), strict=True))
    # The names inside maps and lists mean nothing.
    named = not is_a.is_struct(read) or all(one.name == other.name for one, other in inner)
    return named and all(alike(one.type, other.type) for one, other in inner)


def conformed(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column in Spark's type."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns" and pa.types.is_timestamp(wanted):
        # A cast would round times before 1970 up.
        column = pc.floor_temporal(column, unit="microsecond")
    if pa.types.is_duration(column.type):
        # Spark does not see the unit.
        column = column.cast(pa.int64())
    if pa.types.is_string(wanted) and kind_in_spark(column.type) == pa.binary():
        # A cast would refuse what is not UTF-8, which Spark and tasks read of columns of strings, too.
        return column.cast(pa.binary()).view(wanted)
    return column.cast(wanted)
