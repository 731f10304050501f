"""Parquet files as Spark reads them: batches of row groups in Spark's types (`windowkit.spark.kinds`).

INT96 is an instant. Timestamps of nanoseconds, which Spark refuses, are floored to its microseconds; that
moves no row into another window, whose edges are whole microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from windowkit.directories import Value
from windowkit.errors import InvalidType, InvalidValue
from windowkit.files import File, Part, Source, check_unchanged, constants, said
from windowkit.spark.instants import (
    READING,
    UNIT,
    Reading,
    check_calendar,
    check_int96,
    check_setting,
    has_days,
    is_near,
    of_old_calendar,
)
from windowkit.spark.kinds import (
    UTC,
    WIDENED,
    Column,
    Kind,
    alike,
    check_once,
    columns_told,
    kind_in_spark,
    numbered,
    readable,
)
from windowkit.spark.pruning import Chosen, pruned

__all__ = [
    "WIDENED",
    "batches",
    "footer",
    "fragment",
    "has_numbers",
    "kind_in_spark",
    "left_over",
    "readable",
    "schema_of",
]

BATCH_ROWS: Final = 1 << 16
BATCH_BYTES: Final = 32 << 20
"""Rows of a batch, and about their bytes at most."""
WIDE_GROUP: Final = 64 << 20
"""Bytes of the columns of a row group from which they are read piece by piece rather than at once."""
PIECE_BYTES: Final = 4 << 20
FORMAT: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit=UNIT)


def fragment(
    filesystem: fs.FileSystem, file: File, partitioned: pa.Schema | None = None
) -> ds.ParquetFileFragment:
    """Open a file; where `partitioned` is given, its fragment knows what directories say of these columns.

    Raises
    ------
    InvalidValue
        It is no Parquet file.
    """
    opened = unopened(filesystem, file, partitioned)
    try:
        opened.ensure_complete_metadata()
    except FileNotFoundError as error:
        raise InvalidValue(
            f"paths: {file.path!r} is there no longer; files of a scan stay until it is done"
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise InvalidValue(f"paths: {file.path!r} cannot be read as Parquet: {error}") from error
    return opened


def unopened(filesystem: fs.FileSystem, file: File, partitioned: pa.Schema | None) -> ds.ParquetFileFragment:
    """Return a file as a fragment that knows what its directories say, if `partitioned` is given."""
    holds = None if partitioned is None else said(file, partitioned)
    return FORMAT.make_fragment(file.path, filesystem, partition_expression=holds)


def left_over(source: Source, chosen: Chosen | None, schema: pa.Schema) -> Source:
    """Return a source without the files whose directories say that none of their rows is chosen.

    `schema` has the columns that `chosen` reads. No file is opened.
    """
    if chosen is None or not source.partitioned.names:
        return source
    alike: dict[tuple[Value, ...], list[File]] = {}
    for file in source.files:
        alike.setdefault(file.values, []).append(file)
    fragments = [unopened(source.filesystem, files[0], source.partitioned) for files in alike.values()]
    every = pa.schema(list({field.name: field for field in [*schema, *source.partitioned]}.values()))
    kept = ds.FileSystemDataset(fragments, every, FORMAT, source.filesystem).get_fragments(
        filter=chosen.groups
    )
    paths = {fragment.path for fragment in kept}
    left = {file for files in alike.values() if files[0].path in paths for file in files}
    return replace(source, files=tuple(file for file in source.files if file in left))


def schema_of(opened: ds.ParquetFileFragment) -> pa.Schema:
    """Return the schema of a file with its own types, but INT96 as the instants they are."""
    stored = opened.metadata.schema
    leaves = iter([stored.column(at).physical_type == "INT96" for at in range(len(stored))])
    return pa.schema([field.with_type(with_instants(field.type, leaves)) for field in opened.physical_schema])


def with_instants(kind: pa.DataType, leaves: Iterator[bool]) -> pa.DataType:
    """Return a type with instants where the next of `leaves`, in order, say that INT96 are stored."""
    is_a = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        stored = with_instants(kind.storage_type, leaves)
        return kind if stored == kind.storage_type else stored

    def inside(field: pa.Field) -> pa.Field:
        return field.with_type(with_instants(field.type, leaves))

    if is_a.is_struct(kind):
        return pa.struct([inside(kind.field(at)) for at in range(kind.num_fields)])
    if is_a.is_map(kind):
        return pa.map_(inside(kind.key_field), inside(kind.item_field))
    if is_a.is_fixed_size_list(kind):
        return pa.list_(inside(kind.value_field), kind.list_size)
    if is_a.is_large_list(kind):
        return pa.large_list(inside(kind.value_field))
    if is_a.is_list(kind):
        return pa.list_(inside(kind.value_field))
    return UTC if next(leaves) else kind


def footer(filesystem: fs.FileSystem, file: File) -> list[Column]:
    """Return the columns of a file as Spark finds them: by the schema that it wrote, if that is there.

    Raises
    ------
    InvalidValue
        It cannot be read, or has a name twice.
    """
    return told(fragment(filesystem, file), file)


def told(opened: ds.ParquetFileFragment, file: File) -> list[Column]:
    """Return the columns of an open file as Spark finds them."""
    own = schema_of(opened)
    check_once(own.names, repr(file.path))
    return columns_told(own, opened.metadata.metadata)


def has_numbers(filesystem: fs.FileSystem, file: File) -> set[str]:
    """Return the columns to which Spark's schema in a file gives numbers."""
    return numbered(fragment(filesystem, file).metadata.metadata)


def batches(
    filesystem: fs.FileSystem,
    part: Part,
    schema: pa.Schema,
    chosen: Chosen | None,
    partitioned: pa.Schema,
    reading: Reading = READING,
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
    reading : Reading
        By the session's settings; by default as without.

    Raises
    ------
    InvalidType
        A column has another type in this file, which is not a narrower one of the same kind.
    InvalidValue
        The file cannot be read, or is no longer what it was when it was found.
    """
    constant = constants(part.file, partitioned)
    check_unchanged(filesystem, part.file)
    opened = fragment(filesystem, part.file, partitioned)
    own = schema_of(opened)
    check_once(own.names, repr(part.file.path))
    # What Spark's schema says counts in the file that the table's columns are from, and there only.
    columns = {column.name: column.type for column in columns_told(own, None)}
    for field in schema:
        if field.name not in constant:
            check_column(field, own, columns, part.file)
    groups = [group for group in range(opened.num_row_groups) if lies_in(opened, group, part)]
    opened = opened.subset(row_group_ids=groups)
    there = [name for name in schema.names if name in own.names and name not in constant]
    # Times of INT96 that have not been found to be as they are read.
    doubtful = [name for name in there if own.field(name) != opened.physical_schema.field(name)]
    if doubtful:
        check_setting(opened, doubtful, part.file, reading)
    old = of_old_calendar(opened, there, doubtful, reading)
    # By the old calendar's statistics, rows that are to be refused might be left out unseen.
    if chosen is not None and groups and not any(has_days(schema.field(name).type) for name in old):
        opened = pruned(opened, own, schema, chosen)
    try:
        for batch in stored(opened, there):
            if doubtful and not all(is_near(batch.column(name)) for name in doubtful):
                check_int96(filesystem, part.file, opened, doubtful)
                doubtful = []
            rows = conformed(batch, schema, own, constant)
            check_calendar(rows.select(old), part.file)
            if chosen is None:
                yield rows
            else:
                yield from pa.Table.from_batches([rows]).filter(chosen.rows).to_batches()
    except (pa.ArrowException, OSError) as error:
        # Of a file that was written anew meanwhile the footer tells of bytes that are not there.
        check_unchanged(filesystem, part.file)
        raise InvalidValue(f"paths: {part.file.path!r} cannot be read: {error}") from error
    check_unchanged(filesystem, part.file)


def stored(opened: ds.ParquetFileFragment, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the row groups of a file, as they are there, in batches of few rows and bytes.

    A scanner of pyarrow decodes a row group before it hands out its first batch; a row group of wide rows may
    be larger than memory. Sizes are those of the footer, where texts that a dictionary holds count little.
    """
    with opened.open() as source:
        for group in opened.row_groups:
            columns = opened.metadata.row_group(group.id)
            each = (columns.column(at) for at in range(columns.num_columns))
            size = sum(
                column.total_uncompressed_size
                for column in each
                if column.path_in_schema in names or column.path_in_schema.split(".")[0] in names
            )
            wide = size > WIDE_GROUP
            file = pq.ParquetFile(
                source,
                metadata=opened.metadata,
                coerce_int96_timestamp_unit=UNIT,
                pre_buffer=not wide,
                buffer_size=PIECE_BYTES if wide else 0,
            )
            rows = min(max(BATCH_BYTES * columns.num_rows // max(size, 1), 1), BATCH_ROWS)
            yield from file.iter_batches(rows, row_groups=[group.id], columns=names, use_threads=False)


def check_column(field: pa.Field, own: pa.Schema, columns: dict[str, Kind], file: File) -> None:
    """Refuse a column that a file has in another type or case; `columns` are those it has by itself."""
    if field.name not in own.names:
        others = [each.name for each in own if each.name.lower() == field.name.lower()]
        if others:
            raise InvalidValue(
                f"query: column {field.name!r} is {others[0]!r} in {file.path!r}; files of one scan name "
                "columns alike"
            )
        return
    found = columns.get(field.name, own.field(field.name).type)
    kind = readable(field.name, found, repr(file.path))
    if not alike(kind, field.type) and (kind, field.type) not in WIDENED:
        raise InvalidType(
            f"query: column {field.name!r} is {found} in {file.path!r} and {field.type} in others; "
            "files of one scan have the same types, or narrower integers and floats than the first; with "
            "merge_schema=True the widest of all files counts"
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
