"""Columns of types that the core does not compute with, and as what it reads them: the same values."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from windowkit.arrow.validation import checked, refusing
from windowkit.errors import InvalidType

__all__ = ["as_read", "column_as_read", "has_deep_structs", "read_types", "unsliced"]

DIGITS: Final = 38
"""The digits that a decimal128 has at most."""


def read_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as which a column is read: mostly its own.

    Examples
    --------
    >>> print(read_type(pa.decimal256(38, 2)), read_type(pa.run_end_encoded(pa.int32(), pa.int8())))
    decimal128(38, 2) int8
    """
    if pa.types.is_run_end_encoded(kind):
        return read_type(kind.value_type)
    if pa.types.is_decimal(kind) and kind.bit_width != 128 and kind.precision <= DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def read_types(schema: pa.Schema) -> pa.Schema:
    """Return the schema as which data of this one is read: itself, if no column is read as another type."""
    kinds = [read_type(kind) for kind in schema.types]
    if kinds == schema.types:
        return schema
    fields = [field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)]
    return pa.schema(fields, schema.metadata)


def as_read(data: Any) -> Any:
    """Return a table or batch of pyarrow as it is read: itself, if no column is read as another type."""
    schema = read_types(data.schema)
    if schema is data.schema or schema.equals(data.schema):
        return data
    columns = [column_as_read(name, column) for name, column in zip(schema.names, data.columns, strict=True)]
    return type(data).from_arrays(columns, schema=schema)


def column_as_read(name: str, column: Any) -> Any:
    """Return a column as it is read.

    Raises
    ------
    InvalidType
        pyarrow does not decode runs of values of its type.
    InvalidValue
        The column is malformed.
    """
    if isinstance(column, pa.ChunkedArray):
        kind = read_type(column.type)
        return pa.chunked_array([column_as_read(name, chunk) for chunk in column.chunks], kind)
    if pa.types.is_run_end_encoded(column.type):
        # What decodes runs trusts them.
        checked(f"data: column {name!r}", column, full=True)
        try:
            column = pc.run_end_decode(column)
        except pa.ArrowNotImplementedError as error:
            raise InvalidType(
                f"data: column {name!r} has type {column.type}, whose runs pyarrow does not decode "
                f"({error}); decode them before, or leave the column out"
            ) from error
        return column_as_read(name, column)
    with refusing(f"data: column {name!r}"):
        return column.cast(read_type(column.type))


def has_deep_structs(schema: pa.Schema) -> bool:
    """Return whether a column has structs within structs or within lists of a fixed size.

    Examples
    --------
    >>> deep = pa.struct({"x": pa.struct({"a": pa.int64()})})
    >>> has_deep_structs(pa.schema({"v": deep})), has_deep_structs(pa.schema({"v": deep.field(0).type}))
    (True, False)
    """
    return any(is_deep(kind, within=False) for kind in schema.types)


def is_deep(kind: pa.DataType, *, within: bool) -> bool:
    if not pa.types.is_nested(kind):
        return False
    slices = pa.types.is_struct(kind) or pa.types.is_fixed_size_list(kind)
    return (within and pa.types.is_struct(kind)) or any(
        is_deep(kind.field(at).type, within=slices) for at in range(kind.num_fields)
    )


def unsliced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of which no column is a slice: the core's Arrow slices structs within those twice."""
    columns = [
        pa.concat_arrays([column, column.slice(0, 0)]) if column.offset else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
