"""Rows of Parquet files in Spark's types, as tasks read them: batches of row groups.

INT96 is an instant. Timestamps of nanoseconds, which Spark refuses, are floored to its microseconds; that
moves no row into another window, whose edges are whole microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from windowkit.errors import InvalidType, InvalidValue
from windowkit.files.listing import File, Part, check_unchanged, constants, gone, partition_expression
from windowkit.spark.parquet.groups import DAMAGED, check, leaves, rows_of_batch, size, unreadable, within
from windowkit.spark.parquet.legacy import (
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
from windowkit.spark.parquet.pruning import Chosen, pruned
from windowkit.spark.parquet.types import conformed, is_readable

__all__ = ["Reader", "fragment", "int96_in", "unopened"]

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
        It is not a Parquet file, or has duplicate column names.
    """
    opened = unopened(filesystem, file, partitioned)
    try:
        opened.ensure_complete_metadata()
        names = opened.physical_schema.names
    except FileNotFoundError as error:
        raise gone(file) from error
    except DAMAGED as error:
        raise unreadable(file.path, error) from error
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidValue(
            f"paths: {file.path!r} has {names.count(twice[0])} columns {twice[0]!r}; column names of a "
            "file must be unique"
        )
    return opened


def unopened(filesystem: fs.FileSystem, file: File, partitioned: pa.Schema | None) -> ds.ParquetFileFragment:
    """Return a file as a fragment that knows what its directories say, if `partitioned` is given."""
    holds = None if partitioned is None else partition_expression(file, partitioned)
    return FORMAT.make_fragment(file.path, filesystem, partition_expression=holds)


def int96_in(opened: ds.ParquetFileFragment) -> list[str]:
    """Return the columns that have times of INT96, also within structs, lists and maps."""
    stored = opened.metadata.schema
    paths = [leaf.path for leaf in map(stored.column, range(len(stored))) if leaf.physical_type == "INT96"]
    return [name for name in opened.physical_schema.names if any(map(is_in(name), paths))]


def is_in(name: str) -> Callable[[str], bool]:
    """Return whether the path of what is stored is that of a column, or of what is within it."""
    return lambda path: path == name or path.startswith(f"{name}.")


@dataclass(frozen=True)
class Reader:
    """How files of a table are read.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
    schema : pyarrow.Schema
        The columns to read, in Spark's types.
    partitioned : pyarrow.Schema
        Columns that are values of each file, in that order.
    chosen : Chosen, optional
        Which rows, by columns of `schema`.
    settings : Reading
        By the session's settings; by default as without.
    """

    filesystem: fs.FileSystem
    schema: pa.Schema
    partitioned: pa.Schema
    chosen: Chosen | None = None
    settings: Reading = READING

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of a file.

        Raises
        ------
        InvalidType
            A column has another type in this file, which is not a narrower one of the same kind.
        InvalidValue
            The file cannot be read, or is no longer what it was when it was found.
        """
        check_unchanged(self.filesystem, part.file)
        opened = fragment(self.filesystem, part.file, self.partitioned)
        try:
            yield from self.of(opened, part)
        except DAMAGED as error:
            # If a file was rewritten meanwhile, its old footer describes bytes that no longer exist.
            check_unchanged(self.filesystem, part.file)
            raise unreadable(part.file.path, error) from error
        check_unchanged(self.filesystem, part.file)

    def of(self, opened: ds.ParquetFileFragment, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of a file that is open."""
        schema, chosen = self.schema, self.chosen
        constant = constants(part.file, self.partitioned)
        own = opened.physical_schema
        for field in schema:
            if field.name not in constant:
                check_column(field, own, part.file)
        groups = within(opened, part)
        opened = opened.subset(row_group_ids=groups)
        there = [name for name in schema.names if name in own.names and name not in constant]
        # Times of INT96 that have not been found to be as they are read.
        doubtful = [name for name in int96_in(opened) if name in there]
        if doubtful:
            check_setting(opened, doubtful, part.file, self.settings)
        old = of_old_calendar(opened, there, doubtful, self.settings)
        # By the old calendar's statistics, rows that are to be refused might be left out unseen.
        if chosen is not None and groups and not any(has_days(schema.field(name).type) for name in old):
            opened = pruned(opened, schema, chosen)
        for batch in stored(opened, there):
            if doubtful and not all(is_near(batch.column(name)) for name in doubtful):
                check_int96(self.filesystem, part.file, opened, doubtful)
                doubtful = []
            rows = completed(batch, schema, constant)
            check_calendar(rows.select(old), part.file)
            if chosen is None:
                yield rows
            else:
                yield from pa.Table.from_batches([rows]).filter(chosen.rows).to_batches()


def stored(opened: ds.ParquetFileFragment, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the row groups of a file, as they are there, in batches of few rows and bytes.

    A scanner of pyarrow decodes a row group before it hands out its first batch; a row group of wide rows may
    be larger than memory. Sizes are those of the footer, where strings that a dictionary holds count little.
    """
    metadata = opened.metadata
    columns = leaves(metadata, names)
    check(opened, names)
    with opened.open() as source:
        for group in opened.row_groups:
            wide = size(metadata, group.id, columns) > WIDE_GROUP
            file = pq.ParquetFile(
                source,
                metadata=metadata,
                coerce_int96_timestamp_unit=UNIT,
                pre_buffer=not wide,
                buffer_size=PIECE_BYTES if wide else 0,
                # Where there is a checksum, damage is found rather than read as other values.
                page_checksum_verification=True,
            )
            rows = rows_of_batch(source, metadata, group.id, columns)
            yield from file.iter_batches(rows, row_groups=[group.id], columns=names, use_threads=False)


def check_column(field: pa.Field, own: pa.Schema, file: File) -> None:
    """Refuse a column that a file, whose columns are `own`, has in another type or case."""
    if field.name not in own.names:
        others = [each.name for each in own if each.name.lower() == field.name.lower()]
        if others:
            raise InvalidValue(
                f"query: column {field.name!r} is {others[0]!r} in {file.path!r}; files of one scan must "
                "use the same case"
            )
    elif not is_readable(own.field(field.name).type, field.type):
        raise InvalidType(
            f"query: column {field.name!r} is {own.field(field.name).type} in {file.path!r} and {field.type} "
            "in others; files of one scan must have the same types, or narrower integers and floats than "
            "the first; with merge_schema=True the widest of all files counts"
        )


def completed(batch: pa.RecordBatch, schema: pa.Schema, constant: dict[str, pa.Scalar]) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`: those of directories added, those the file lacks null."""
    columns = []
    for field in schema:
        if field.name in constant:
            columns.append(pa.repeat(constant[field.name], batch.num_rows))
        elif field.name in batch.schema.names:
            columns.append(conformed(batch.column(field.name), field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
