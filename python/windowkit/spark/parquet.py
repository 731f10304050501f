"""Parquet columns as Spark reads them: types, and batches of row groups in these types.

Spark sees no Arrow schema in a Parquet file: dictionaries are plain there, durations integers, unsigned
integers the next larger signed ones, INT96 an instant. Timestamps of nanoseconds, which Spark refuses, are
floored to its microseconds; that moves no row into another window, whose edges are whole microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from windowkit.errors import InvalidType, InvalidValue
from windowkit.spark.files import File, Part

__all__ = ["Chosen", "batches", "footer", "kind_in_spark", "readable", "schema_of"]

BATCH_ROWS: Final = 1 << 16
BATCH_BYTES: Final = 32 << 20
"""Rows of a batch, and about their bytes at most."""
WIDE_GROUP: Final = 64 << 20
"""Bytes of the columns of a row group from which they are read piece by piece rather than at once."""
PIECE_BYTES: Final = 4 << 20
INT96: Final = "us"
FORMAT: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit=INT96)
UTC: Final = pa.timestamp("us", "UTC")

PLAIN: Final = (pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.null())
WIDENED: Final = {
    (pa.int8(), pa.int16()),
    (pa.int8(), pa.int32()),
    (pa.int8(), pa.int64()),
    (pa.int16(), pa.int32()),
    (pa.int16(), pa.int64()),
    (pa.int32(), pa.int64()),
    (pa.int8(), pa.float64()),
    (pa.int16(), pa.float64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
}
"""From what a file has to what the table has, where Spark widens without loss."""


@dataclass(frozen=True)
class Chosen:
    """Which rows are read.

    Parameters
    ----------
    rows : pyarrow.dataset.Expression
        What holds of each of them.
    groups : pyarrow.dataset.Expression
        What holds of them as far as statistics of row groups are to be asked: pyarrow takes a group whose
        least and greatest value are one for a group of that value, which may have NaN beside it.
    """

    rows: ds.Expression
    groups: ds.Expression


def fragment(
    filesystem: fs.FileSystem, file: File, known: dict[str, pa.Scalar] | None = None
) -> ds.ParquetFileFragment:
    """Open a file, of all whose rows `known` holds.

    Raises
    ------
    InvalidValue
        It is no Parquet file.
    """
    holds = ds.scalar(True)
    for name, value in (known or {}).items():
        holds &= ds.field(name) == value if value.is_valid else ds.field(name).is_null()
    opened = FORMAT.make_fragment(file.path, filesystem, partition_expression=holds)
    try:
        opened.ensure_complete_metadata()
    except FileNotFoundError as error:
        raise InvalidValue(
            f"paths: {file.path!r} is there no longer; files of a scan stay until it is done"
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise InvalidValue(f"paths: {file.path!r} cannot be read as Parquet: {error}") from error
    return opened


def schema_of(opened: ds.ParquetFileFragment) -> pa.Schema:
    """Return the schema of a file with its own types, but INT96 as the instants they are."""
    stored = opened.metadata.schema
    columns = [stored.column(at) for at in range(len(stored))]
    instants = {column.path for column in columns if column.physical_type == "INT96"}
    fields = [field.with_type(UTC) if field.name in instants else field for field in opened.physical_schema]
    return pa.schema(fields)


def footer(filesystem: fs.FileSystem, file: File) -> pa.Schema:
    """Return the schema of a file."""
    return schema_of(fragment(filesystem, file))


def readable(column: str, kind: pa.DataType, where: str) -> pa.DataType:
    """Return `kind_in_spark`, or raise what says which column of which file it is."""
    found = kind_in_spark(kind)
    if found is None:
        raise InvalidType(
            f"query: column {column!r} is {kind} in {where}, which Spark does not read from Parquet; read it "
            "with pyarrow and query.run(table), or write the column as another type"
        )
    return found


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
    if isinstance(kind, pa.BaseExtensionType):
        return kind_in_spark(kind.storage_type)
    if is_a.is_dictionary(kind):
        return kind_in_spark(kind.value_type)
    if is_a.is_signed_integer(kind) or kind in PLAIN:
        return kind
    if is_a.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if is_a.is_date64(kind):
        return pa.date32()
    if is_a.is_duration(kind):
        return pa.int64()
    if is_a.is_timestamp(kind):
        return UTC if kind.tz is not None else pa.timestamp("us")
    if is_a.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return pa.string()
    if kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or is_a.is_fixed_size_binary(kind):
        return pa.binary()
    if is_a.is_struct(kind):
        inner = [(kind.field(at).name, kind_in_spark(kind.field(at).type)) for at in range(kind.num_fields)]
        return None if any(has_none(found) for _, found in inner) else pa.struct(inner)
    if is_a.is_map(kind):
        key, item = kind_in_spark(kind.key_type), kind_in_spark(kind.item_type)
        return None if has_none(key) or has_none(item) else pa.map_(key, item)
    if is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind):
        element = kind_in_spark(kind.value_type)
        return None if has_none(element) else pa.list_(pa.field("element", element))
    return None


def has_none(kind: pa.DataType | None) -> bool:
    return kind is None


def batches(
    filesystem: fs.FileSystem,
    part: Part,
    schema: pa.Schema,
    chosen: Chosen | None,
    partitioned: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part of a file.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
    part : Part
    schema : pyarrow.Schema
        The columns to read, in Spark's types.
    chosen : Chosen, optional
        Which rows, by columns of `schema`.
    partitioned : pyarrow.Schema
        Columns that are values of ``part.file``, in that order.

    Raises
    ------
    InvalidType
        A column has another type in this file, which is not a narrower one of the same kind.
    InvalidValue
        The file cannot be read.
    """
    constant = {
        field.name: pa.scalar(value, field.type)
        for field, value in zip(partitioned, part.file.values, strict=True)
    }
    opened = fragment(filesystem, part.file, constant)
    own = schema_of(opened)
    for field in schema:
        if field.name not in constant:
            check_column(field, own, part.file)
    groups = [group for group in range(opened.num_row_groups) if lies_in(opened, group, part)]
    opened = opened.subset(row_group_ids=groups)
    if chosen is not None and groups:
        opened = pruned(opened, own, schema, chosen.groups, constant)
    if not opened.row_groups:
        return
    legacy = is_legacy(opened.metadata.metadata or {})
    there = [name for name in schema.names if name in own.names and name not in constant]
    try:
        for batch in stored(opened, there):
            rows = conformed(batch, schema, own, constant)
            if legacy:
                check_calendar(rows, part.file)
            if chosen is None:
                yield rows
            else:
                yield from pa.Table.from_batches([rows]).filter(chosen.rows).to_batches()
    except (pa.ArrowException, OSError) as error:
        raise InvalidValue(f"paths: {part.file.path!r} cannot be read: {error}") from error


def stored(opened: ds.ParquetFileFragment, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the row groups of a file, as they are there, in batches of few rows and bytes.

    A scanner of pyarrow decodes a row group before it hands out its first batch; a row group of wide rows may
    be larger than memory. Sizes are those of the footer, where texts that a dictionary holds count little.
    """
    for group in opened.row_groups:
        columns = opened.metadata.row_group(group.id)
        each = (columns.column(at) for at in range(columns.num_columns))
        size = sum(
            column.total_uncompressed_size
            for column in each
            if column.path_in_schema in names or column.path_in_schema.split(".")[0] in names
        )
        wide = size > WIDE_GROUP
        with opened.open() as source:
            file = pq.ParquetFile(
                source,
                metadata=opened.metadata,
                coerce_int96_timestamp_unit=INT96,
                pre_buffer=not wide,
                buffer_size=PIECE_BYTES if wide else 0,
            )
            rows = min(max(BATCH_BYTES * columns.num_rows // max(size, 1), 1), BATCH_ROWS)
            yield from file.iter_batches(rows, row_groups=[group.id], columns=names, use_threads=False)


def check_column(field: pa.Field, own: pa.Schema, file: File) -> None:
    """Refuse a column that a file has in another type, or that it has twice or in another case."""
    found = [each for each in own if each.name == field.name]
    if not found:
        others = [each.name for each in own if each.name.lower() == field.name.lower()]
        if others:
            raise InvalidValue(
                f"query: column {field.name!r} is {others[0]!r} in {file.path!r}; files of one scan name "
                "columns alike"
            )
        return
    kind = readable(field.name, found[0].type, repr(file.path))
    if len(found) > 1 or (kind != field.type and (kind, field.type) not in WIDENED):
        raise InvalidType(
            f"query: column {field.name!r} is {found[0].type} in {file.path!r} and {field.type} in others; "
            "files of one scan have the same types, or narrower integers and floats than the first; with "
            "merge_schema=True the widest of all files counts"
        )


def is_legacy(said: dict[bytes, bytes]) -> bool:
    """Whether Spark wrote a file by the calendar of old Java, whose days before 1582 are others."""
    version = said.get(b"org.apache.spark.version", b"").split(b".")[0]
    marks = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
    return any(mark in said for mark in marks) or (version.isdigit() and int(version) < 3)


def check_calendar(rows: pa.RecordBatch, file: File) -> None:
    """Refuse times of a file of the old calendar from before 1900, when all zones have the new one."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            least = pc.min(column)
            if least.is_valid and pc.year(least).as_py() < 1900:
                raise InvalidValue(
                    f"query: column {field.name!r} has {least} in {file.path!r}, which was written by the "
                    "calendar of Spark 2 (datetimeRebaseModeInWrite=LEGACY); scan reads times from 1900 on "
                    "of such files, and query.run(spark.read.parquet(path)) all"
                )


def lies_in(opened: ds.ParquetFileFragment, group: int, part: Part) -> bool:
    """Whether the middle of a row group lies in the part, so that each is in exactly one."""
    columns = opened.metadata.row_group(group)
    first, size = None, 0
    for at in range(columns.num_columns):
        column = columns.column(at)
        begins = column.data_page_offset
        if column.has_dictionary_page:
            begins = min(begins, column.dictionary_page_offset)
        first = begins if first is None else min(first, begins)
        size += column.total_compressed_size
    return part.start <= (first or 0) + size // 2 < part.end


def pruned(
    opened: ds.ParquetFileFragment,
    own: pa.Schema,
    schema: pa.Schema,
    chosen: ds.Expression,
    constant: dict[str, pa.Scalar],
) -> ds.ParquetFileFragment:
    """Leave out row groups whose statistics say that no row is chosen.

    Only where the file has the types that the expression was written for: statistics of others would be
    compared with values of another unit or width.
    """
    stored = [field for field in schema if field.name not in constant]
    if any(field.name not in own.names or own.field(field.name).type != field.type for field in stored):
        return opened
    return opened.subset(filter=chosen, schema=schema)


def conformed(
    batch: pa.RecordBatch, schema: pa.Schema, own: pa.Schema, constant: dict[str, pa.Scalar]
) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`: those of directories added, those the file lacks null."""
    columns = []
    for field in schema:
        if field.name in constant:
            columns.append(pa.repeat(constant[field.name], batch.num_rows))
        elif field.name in own.names:
            columns.append(plain(batch.column(field.name), field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column in Spark's type."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # A cast would round times before 1970 up.
        column = pc.floor_temporal(column, unit="microsecond")
    return column.cast(wanted)
