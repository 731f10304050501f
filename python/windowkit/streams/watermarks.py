"""Times and keys as an operator takes and returns them: watermarks and punctuations in the column's type."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given, whole
from windowkit.language.durations import Duration, duration
from windowkit.language.foreign import is_a

__all__ = ["in_time", "one_key", "scalar", "time_type"]

REFUSALS: Final = (pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)
"""What pyarrow raises of Python values that are not of a type: its other exceptions are among these."""

MEANT: Final = {
    "watermark": "its watermark",
    "time": "the time of a punctuation",
    "start": "where a stretch of it starts",
    "end": "where it ends",
}


def in_time(argument: str, time: Any, kind: pa.DataType) -> int:
    """Return a time in the units of a type of times."""
    given = time
    if not isinstance(time, pa.Scalar) and pa.types.is_integer(kind):
        units = whole(time)
        if units is None:
            raise InvalidType(
                f"{argument}: {as_given(time)} is {a_type(time)}; the time column is an "
                f"integer, and so is {MEANT[argument]}"
            )
        if not -(2**63) <= units < 2**63:
            raise InvalidValue(
                f"{argument}: {as_given(units)} is out of range; allowed are integers of 64 bits"
            )
        return units
    if pa.types.is_duration(kind) and (
        isinstance(time, str | datetime.timedelta | Duration) or is_a(time, "numpy", "timedelta64")
    ):
        return in_units(argument, duration(argument, time), kind)
    try:
        scalar = given if isinstance(given, pa.Scalar) else pa.scalar(given)
        is_day = pa.types.is_date32(kind) and pa.types.is_integer(scalar.type)
        cast = (scalar.cast(pa.int32()) if is_day else scalar).cast(kind)
    except REFUSALS as error:
        raise InvalidType(
            f"{argument}: {as_given(time)} is not a time of type {kind} ({error}); {allowed_times(kind)}"
        ) from error
    refuse_unlike(argument, time, scalar, kind)
    if not cast.is_valid:
        raise InvalidValue(f"{argument}: it is null; allowed are times")
    return int(cast.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py())


def scalar(units: int, kind: pa.DataType) -> pa.Scalar:
    """Return a time of a type."""
    return pa.scalar(units, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)


def allowed_times(kind: pa.DataType) -> str:
    """Return what may be given for a time of a type."""
    if pa.types.is_timestamp(kind):
        zone = (
            "without a zone or an offset, as the time column has none"
            if kind.tz is None
            else "with a zone or an offset (add Z or an offset such as +01:00 to a string), as the time "
            f"column is in {kind.tz}"
        )
        return f"allowed are times {zone}, as exact as the time column"
    if pa.types.is_date(kind):
        return "allowed are dates without a time of day"
    return "allowed is what the time column can hold"


def refuse_unlike(argument: str, given: object, scalar: pa.Scalar, kind: pa.DataType) -> None:
    """Refuse what Arrow casts to a type of times, and in doing so adds a zone or takes a time of day away."""
    is_zoned = pa.types.is_timestamp(scalar.type) and scalar.type.tz is not None
    why = None
    if pa.types.is_timestamp(kind) and (pa.types.is_timestamp(scalar.type) or pa.types.is_date(scalar.type)):
        if is_zoned != (kind.tz is not None):
            why = "has a zone" if is_zoned else "has no zone"
    elif pa.types.is_date(kind) and pa.types.is_timestamp(scalar.type) and scalar.is_valid:
        if is_zoned:
            why = "has a zone"
        elif scalar.cast(kind).cast(scalar.type) != scalar:
            why = "has a time of day"
    if why is not None:
        raise InvalidType(f"{argument}: {as_given(given)} {why}; {allowed_times(kind)}")


def in_units(argument: str, given: Duration, kind: pa.DataType) -> int:
    """Return a duration in the units of a type of durations."""
    per_unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
    count, rest = divmod(given.nanoseconds, per_unit)
    if rest:
        raise InvalidType(f"{argument}: {given.text!r} is not a time of type {kind}; {allowed_times(kind)}")
    return count


def refuse_key(key: Any, by: Sequence[object], none: str, instead: str) -> None:
    """Refuse a key where there are no columns of keys."""
    if not by:
        raise InvalidValue(f"key: {as_given(key)} is given, but {none} (by=[]); {instead}")


def refuse_timeless(key: Any, watermark: Any) -> None:
    """Refuse a key that is complete, and not up to when."""
    if watermark is None:
        raise InvalidValue(
            f"watermark: none is given for the key {as_given(key)}; a key is complete up to a time, as in "
            "advance(time, key=...)"
        )


def one_key(key: Any, by: Sequence[str], schema: pa.Schema, whose: str = "the queries are") -> pa.RecordBatch:
    """Return a key as a batch of one row of the key columns."""
    if isinstance(key, Mapping):
        if sorted(key) != sorted(by):
            raise InvalidValue(f"key: it has {sorted(key)}; the columns of a key are {sorted(by)}")
        values = [key[name] for name in by]
    elif len(by) == 1:
        values = [key]
    elif isinstance(key, tuple) and len(key) == len(by):
        values = list(key)
    else:
        raise InvalidValue(
            f"key: {as_given(key)} is given; {whose} by {list(by)}, so that a key is a mapping of "
            f"these, or a tuple of {len(by)} values in that order"
        )
    return one_row("key", values, [schema.field(name) for name in by])


def one_row(argument: str, values: Sequence[Any], fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """Return a batch of one row of these columns."""
    columns = []
    for value, field in zip(values, fields, strict=True):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        try:
            column = pa.array([value], kind)
            why = None if is_kept(value, column) else f"it would become {as_given(column[0].as_py())}"
        except REFUSALS as error:
            column, why = None, str(error)
        if why is not None:
            raise InvalidType(
                f"{argument}: {as_given(value)} is not a value of column {field.name!r}, whose type is "
                f"{field.type} ({why})"
            )
        columns.append(column.cast(field.type))
    return pa.record_batch(columns, schema=pa.schema(fields))


def is_kept(given: Any, column: pa.Array) -> bool:
    """Whether a column of one value has all of it: pyarrow cuts off what the type has no room for."""
    kind = column.type
    if isinstance(given, pa.Scalar):
        return given.type == kind or is_kept(given.as_py(), column)
    if pa.types.is_struct(kind) and isinstance(given, Mapping):
        fields = {field.name: column.field(at) for at, field in enumerate(kind)}
        return all(name in fields and is_kept(value, fields[name]) for name, value in given.items())
    if is_list(kind) and isinstance(given, Sequence):
        elements = column.flatten()
        return all(is_kept(value, elements.slice(at, 1)) for at, value in enumerate(given))
    if pa.types.is_integer(kind):
        return given is None or bool(column[0].as_py() == given)
    if isinstance(given, datetime.datetime):
        if not pa.types.is_timestamp(kind) or (given.tzinfo is None) != (kind.tz is None):
            return False
        return bool(kind.unit == "ns" or column[0].as_py() == given)
    if isinstance(given, datetime.time | datetime.timedelta):
        return str(kind).endswith("[ns]") or bool(column[0].as_py() == given)
    return True


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def time_type(schema: pa.Schema, name: str) -> pa.DataType:
    """Return the type of the times of a column, as watermarks have it."""
    kind = schema.field(name).type
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return pa.int64() if pa.types.is_integer(kind) else kind
