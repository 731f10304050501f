"""Batches as the schema of a stream has them: columns by name, and types that hold the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue, UnknownColumn
from windowkit.language.checks import suggested

__all__ = ["aligned", "are_alike"]

STRINGS: Final = (pa.string(), pa.large_string(), pa.string_view())
BYTES: Final = (pa.binary(), pa.large_binary(), pa.binary_view())
LARGE: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}

Align = Callable[[pa.RecordBatch], pa.RecordBatch]


def aligned(argument: str, given: pa.Schema, own: pa.Schema) -> Align | None:
    """Return what makes batches of the schema `given` batches of the schema `own`; None if they are already.

    Columns are found by name, in any order; others than those of `own` are left out. A column is cast if
    that loses no information: among strings and among binary of any layout, to and from dictionaries, from a
    column of nulls, among integers, floats, decimals, units of time and of durations, between times of
    several zones, and lists of these. Whether a value is lost is checked value by value.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        A column is missing, is there twice, has a type whose values are others, or nulls where the stream
        may have none.

    Notes
    -----
    O(columns) if schemas are equal or differ in their order only, as nothing is copied then.

    Examples
    --------
    >>> own = pa.schema({"k": pa.string(), "t": pa.timestamp("us")})
    >>> align = aligned("batch", pa.schema({"t": pa.timestamp("s"), "k": pa.null(), "x": pa.int8()}), own)
    >>> align(pa.record_batch({"t": pa.array([5], pa.timestamp("s")), "k": [None], "x": [1]})).schema == own
    True
    """
    # The first comes first as it takes less than a microsecond; small batches come often.
    if given.equals(own):
        return None
    required = [at for at, field in enumerate(own) if not field.nullable]
    is_same = given.names == own.names and given.types == own.types
    if is_same and not any(given.field(at).nullable for at in required):
        return None
    positions = []
    for field in own:
        found = given.get_all_field_indices(field.name)
        if not found:
            raise UnknownColumn(
                f"{argument}: no column {field.name!r}, which the stream has; there are "
                f"{', '.join(given.names)}{suggested(field.name, given.names)}"
            )
        if len(found) > 1:
            raise InvalidValue(
                f"{argument}: it has {len(found)} columns {field.name!r}; columns of a stream are found by "
                "name"
            )
        kind = given.field(found[0]).type
        if not casts(kind, field.type):
            also = "; give the operator a schema where a first batch has only nulls"
            raise InvalidType(
                f"{argument}: column {field.name!r} has type {kind}, but that of the stream has "
                f"{field.type}; allowed are types that hold the same values"
                f"{also if pa.types.is_null(field.type) else ''}"
            )
        positions.append(found[0])

    def align(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            cast(f"{argument}: column {field.name!r}", batch.column(at), field.type)
            for at, field in zip(positions, own, strict=True)
        ]
        for at in required:
            if columns[at].null_count:
                raise InvalidValue(
                    f"{argument}: column {own.names[at]!r} has {columns[at].null_count} nulls, but that of "
                    "the stream may have none"
                )
        return pa.RecordBatch.from_arrays(columns, names=own.names)

    return align


def casts(given: pa.DataType, own: pa.DataType) -> bool:
    """Whether values of one type are values of another, if they fit."""
    if given == own or pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given) or pa.types.is_dictionary(own):
        return casts(plain(given), plain(own))
    families = (
        lambda kind: kind in STRINGS,
        lambda kind: kind in BYTES,
        pa.types.is_date,
        pa.types.is_time,
        pa.types.is_duration,
        pa.types.is_decimal,
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    )
    if any(is_one(given) and is_one(own) for is_one in families):
        return True
    if pa.types.is_integer(given):
        return bool(pa.types.is_integer(own) or pa.types.is_float64(own))
    if pa.types.is_floating(given):
        # Fewer digits would be other values, which pyarrow does not check.
        wider = pa.types.is_floating(own) and own.bit_width >= given.bit_width
        return bool(pa.types.is_integer(own) or wider)
    return is_list(given) and is_list(own) and casts(given.value_type, own.value_type)


def are_alike(given: pa.Schema, own: pa.Schema) -> bool:
    """Whether two schemas differ in the layout of strings, of binary and of lists, and in nothing else."""

    def alike(one: pa.DataType, other: pa.DataType) -> bool:
        if is_list(one) and is_list(other):
            return alike(one.value_type, other.value_type)
        return one == other or any(one in layouts and other in layouts for layouts in (STRINGS, BYTES))

    is_other = given.names == own.names and given.types != own.types
    return is_other and len(set(own.names)) == len(own) and all(map(alike, given.types, own.types))


def plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def cast(what: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in another type, with no value changed."""
    if column.type == kind:
        return column
    try:
        if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
            # pyarrow does not decode dictionaries of views.
            values = column.dictionary
            large = LARGE.get(values.type, values.type)
            column = pa.DictionaryArray.from_arrays(column.indices, values.cast(large)).cast(large)
        if not pa.types.is_dictionary(kind) or pa.types.is_null(column.type):
            return column.cast(kind)
        if not pa.types.is_dictionary(column.type):
            column = column.cast(kind.value_type).dictionary_encode()
        codes, values = column.indices.cast(kind.index_type), column.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(codes, values, ordered=kind.ordered)
    except pa.ArrowNotImplementedError as error:
        raise InvalidType(f"{what} has type {column.type}, where the stream has {kind} ({error})") from error
    except pa.ArrowInvalid as error:
        raise InvalidValue(
            f"{what} has a value that {kind} does not hold ({error}); allowed are values that "
            "the cast does not change"
        ) from error
