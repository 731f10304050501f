"""Rows of Parquet files in Spark's types, as tasks read them: batches of row groups.

`survey` has found that Spark's reader would read these files in the same way. INT96 is an instant. Timestamps
of nanoseconds, which Spark refuses, are floored to its microseconds; that moves no row into another window,
whose edges are whole microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from windowkit.errors import InvalidValue
from windowkit.files.listing import File, Part, check_unchanged, constants, gone, partition_expression
from windowkit.spark.parquet.groups import DAMAGED, check, leaves, rows_of_batch, size, unreadable, within
from windowkit.spark.parquet.naming import BY_NAME, Naming
from windowkit.spark.parquet.pruning import Chosen, pruned
from windowkit.spark.parquet.types import conformed

__all__ = ["Reader", "fragment", "int96_in"]

WIDE_GROUP: Final = 64 << 20
"""Bytes of the columns of a row group from which they are read piece by piece rather than at once."""
PIECE_BYTES: Final = 4 << 20
UNIT: Final = "us"
"""In which INT96 is read."""
FORMAT: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit=UNIT)
NEAR: Final = (-2_208_988_800_000_000, 7_258_118_400_000_000)
"""From 1900 to 2200, in microseconds: INT96 times there are not looked at twice."""


def fragment(
    filesystem: fs.FileSystem, file: File, partitioned: pa.Schema | None = None
) -> ds.ParquetFileFragment:
    """Open a file; where `partitioned` is given, its fragment knows what directories say of these columns.

    Raises
    ------
    InvalidValue
        It is not a Parquet file, or has duplicate column names.
    """
    holds = None if partitioned is None else partition_expression(file, partitioned)
    opened = FORMAT.make_fragment(file.path, filesystem, partition_expression=holds)
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


def int96_in(opened: ds.ParquetFileFragment) -> list[str]:
    """Return the columns that have times of INT96, also within structs, lists and maps."""
    stored = opened.metadata.schema
    every = map(stored.column, range(len(stored)))
    paths = [f"{leaf.path}." for leaf in every if leaf.physical_type == "INT96"]
    names: list[str] = opened.physical_schema.names
    return [name for name in names if any(path.startswith(f"{name}.") for path in paths)]


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
    naming : Naming
        How these columns are found in files.
    """

    filesystem: fs.FileSystem
    schema: pa.Schema
    partitioned: pa.Schema
    chosen: Chosen | None = None
    naming: Naming = BY_NAME

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of a file.

        Raises
        ------
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
        opened = opened.subset(row_group_ids=within(opened, part))
        called = self.naming.there(opened.physical_schema)
        there = [called[name] for name in schema.names if name in called and name not in constant]
        unseen = [stored for stored in int96_in(opened) if stored in there]
        if chosen is not None and opened.num_row_groups:
            opened = pruned(opened, schema, chosen, self.naming)
        for first, batch in stored(opened, there):
            if unseen and not all(is_near(batch.column(name)) for name in unseen):
                check_int96(opened, unseen)
                unseen = []
            rows = completed(batch, schema, constant, called)
            if part.file.deleted is not None:
                rows = part.file.deleted.left(rows, first)
            if chosen is None:
                yield rows
            else:
                yield from pa.Table.from_batches([rows]).filter(chosen.rows).to_batches()


def stored(opened: ds.ParquetFileFragment, names: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield these columns of the row groups of a file, as they are there, in batches of few rows and bytes.

    With each batch comes the number of its first row in the file.

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
            first = sum(metadata.row_group(before).num_rows for before in range(group.id))
            for batch in file.iter_batches(rows, row_groups=[group.id], columns=names, use_threads=False):
                yield first, batch
                first += batch.num_rows


def is_near(column: pa.Array) -> bool:
    """Whether a column has times of some centuries around ours only; of nested times that is not known."""
    if not pa.types.is_timestamp(column.type):
        return False
    ends = pc.min_max(column.cast(pa.int64()))
    return not ends["min"].is_valid or (NEAR[0] <= ends["min"].as_py() and ends["max"].as_py() < NEAR[1])


def check_int96(opened: ds.ParquetFileFragment, names: list[str]) -> None:
    """Refuse times of INT96 that do not fit microseconds of 64 bits: look at all again, in seconds.

    INT96 has a day of 32 bits, and a time of day. pyarrow takes the day, counted from 4713 BC, for one
    without a sign, and lets microseconds wrap; seconds hold every day. A second look is as dear as the first,
    so that it is taken only where a time is found that few tables have. What comes out between 1900 and 2200
    and is wrong was written for a time around 66,000 BC.
    """
    groups, own = [group.id for group in opened.row_groups], opened.physical_schema
    with opened.open() as source:
        file = pq.ParquetFile(source, metadata=opened.metadata, coerce_int96_timestamp_unit="s")
        for batch in file.iter_batches(row_groups=groups, columns=names, use_threads=False):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if not is_held(column, own.field(name).type):
                    raise InvalidValue(
                        f"query: column {name!r} has a time of INT96 in {opened.path!r} that is before 4713 "
                        "BC or after the year 294246; tasks read those between, and Spark's reader all: use "
                        "spark.read.parquet(path), and run it with route='packed'"
                    )


def is_held(column: pa.Array, kind: pa.DataType) -> bool:
    """Whether all values of a column fit a type."""
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def completed(
    batch: pa.RecordBatch, schema: pa.Schema, constant: dict[str, pa.Scalar], called: Mapping[str, str]
) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`: those of directories added, those the file lacks null.

    `called` says what the file calls columns.
    """
    columns = []
    for field in schema:
        if field.name in constant:
            columns.append(pa.repeat(constant[field.name], batch.num_rows))
        elif field.name in called:
            columns.append(conformed(batch.column(called[field.name]), field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
