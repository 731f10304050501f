"""Files and row groups of which directories and statistics rule out every row.

pyarrow uses statistics by itself, too, but it takes a group whose least and greatest fraction are one for a
group of that value, which may have NaN besides: writers leave NaN out of statistics. And what it compares
is what is stored, where expressions here are of Spark's types. So what is known of a row group is stated
here, in Spark's types and as far as it is sure, and pyarrow only finds out whether an expression can hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from windowkit.files.listing import Source, partition_expression
from windowkit.spark.parquet.groups import check
from windowkit.spark.parquet.naming import BY_NAME, Naming
from windowkit.spark.parquet.types import conformed, plain

__all__ = ["Chosen", "left_over", "pruned", "silent"]

FORMAT: Final = ds.ParquetFileFormat()
SYSTEM: Final = fs.LocalFileSystem()


@dataclass(frozen=True)
class Chosen:
    """Which rows are read.

    Parameters
    ----------
    rows : pyarrow.dataset.Expression
        What holds of each of them.
    groups : pyarrow.dataset.Expression
        What holds of them, as tested against statistics of row groups.
    columns : tuple of str
        What `groups` reads.
    floats : bool
        Whether what holds of fractions in `groups` holds of no NaN, so that ends of fractions, which say
        nothing of NaN, may be used.
    """

    rows: ds.Expression
    groups: ds.Expression
    columns: tuple[str, ...]
    floats: bool


def possible(known: Iterable[ds.Expression], schema: pa.Schema, chosen: Chosen) -> list[int]:
    """Return which of several sets of rows may have one that is chosen, by what is known of each."""
    # No file is opened: only what is known of fragments is used.
    fragments = [
        FORMAT.make_fragment(str(number), SYSTEM, partition_expression=holds)
        for number, holds in enumerate(known)
    ]
    left = ds.FileSystemDataset(fragments, schema, FORMAT, SYSTEM).get_fragments(filter=chosen.groups)
    return [int(fragment.path) for fragment in left]


def left_over(source: Source, chosen: Chosen | None, schema: pa.Schema) -> Source:
    """Return a source without the files whose directories say that none of their rows is chosen.

    `schema` has the columns that `chosen` reads.
    """
    if chosen is None or not source.partitioned.names:
        return source
    firsts = list({file.values: file for file in source.files}.values())
    every = pa.schema(list({field.name: field for field in [*schema, *source.partitioned]}.values()))
    left = possible((partition_expression(file, source.partitioned) for file in firsts), every, chosen)
    values = {firsts[at].values for at in left}
    return replace(source, files=tuple(file for file in source.files if file.values in values))


def pruned(
    opened: ds.ParquetFileFragment, schema: pa.Schema, chosen: Chosen, naming: Naming = BY_NAME
) -> ds.ParquetFileFragment:
    """Leave out row groups of a file whose statistics say that no row is chosen.

    Parameters
    ----------
    opened : pyarrow.dataset.ParquetFileFragment
        A file, which knows what its directories say.
    schema : pyarrow.Schema
        Columns to read, in Spark's types, of files and of directories.
    chosen : Chosen
    naming : Naming
        How its columns are found.
    """
    stored = naming.there(opened.physical_schema)
    columns = tested(opened, schema, chosen, stored)
    holds = opened.partition_expression
    given = ds.get_partition_keys(holds)
    for name in chosen.columns:
        if name not in given and name not in stored:
            holds &= ds.field(name).is_null()
    ids = [group.id for group in opened.row_groups]
    groups = (holds & known(opened.metadata.row_group(number), columns, chosen.floats) for number in ids)
    return opened.subset(row_group_ids=[ids[at] for at in possible(groups, schema, chosen)])


def silent(
    opened: ds.ParquetFileFragment, schema: pa.Schema, chosen: Chosen, naming: Naming = BY_NAME
) -> set[str]:
    """Return the columns of a file that a filter reads and of which no row group has statistics."""
    there = naming.there(opened.physical_schema)
    found = {
        field.name
        for number, stored, field in tested(opened, schema, chosen, there)
        for group in opened.row_groups
        if ends(opened.metadata.row_group(group.id).column(number), stored, field.type, chosen.floats)
    }
    given = ds.get_partition_keys(opened.partition_expression)
    return (set(chosen.columns) & set(there)) - set(given) - found


Columns: TypeAlias = list[tuple[int, pa.DataType, pa.Field]]


def tested(
    opened: ds.ParquetFileFragment, schema: pa.Schema, chosen: Chosen, there: Mapping[str, str]
) -> Columns:
    """Return the columns that a filter reads: their numbers and types in the file, and what Spark has.

    `there` says what the file calls columns.

    Raises
    ------
    InvalidValue
        The footer says of one what cannot be.
    """
    check(opened, [there[name] for name in chosen.columns if name in there])
    given = ds.get_partition_keys(opened.partition_expression)
    stored = opened.metadata.schema
    paths = [stored.column(at).path for at in range(len(stored))]
    times = Counter(paths)
    # A column a.b and the field b of a column a have one path.
    numbers = {path: at for at, path in enumerate(paths) if times[path] == 1}
    own = opened.physical_schema
    return [
        (numbers[there[name]], own.field(there[name]).type, schema.field(name))
        for name in chosen.columns
        if there.get(name) in numbers and name in schema.names and name not in given
    ]


def known(group: pq.RowGroupMetaData, columns: Columns, floats: bool) -> ds.Expression:
    """Return what holds of every row of a row group."""
    holds = ds.scalar(True)
    for number, stored, wanted in columns:
        field, column = ds.field(wanted.name), group.column(number)
        found = column.statistics
        nulls = None if found is None or not found.has_null_count else found.null_count
        if nulls is not None and nulls == group.num_rows:
            holds &= field.is_null()
            continue
        if nulls == 0 and (floats or not pa.types.is_floating(wanted.type)):
            # An expression may take NaN for a null.
            holds &= field.is_valid()
        between = ends(column, stored, wanted.type, floats)
        if between is None:
            continue
        low, high = between
        for each in [field == low] if low.equals(high) else [field >= low, field <= high]:
            # pyarrow takes a bound together with nulls into account in this form, one by one.
            holds &= each if nulls == 0 else each | field.is_null()
    return holds


def ends(
    column: pq.ColumnChunkMetaData, stored: pa.DataType, wanted: pa.DataType, floats: bool
) -> tuple[pa.Scalar, pa.Scalar] | None:
    """Return between which values those of a column lie in Spark's type; None if that is not known."""
    found = column.statistics
    if found is None or not found.has_min_max or column.physical_type == "INT96":
        return None
    is_a = pa.types
    if is_a.is_nested(wanted) or is_a.is_time(wanted) or (is_a.is_floating(wanted) and not floats):
        return None
    stored = plain(stored)
    # As values of Python, far times are none.
    as_stored = is_a.is_timestamp(stored) or is_a.is_date32(stored)
    try:
        values = (found.min_raw, found.max_raw) if as_stored else (found.min, found.max)
        low, high = conformed(pa.array(values, stored), wanted)
    except (pa.ArrowException, ValueError, OverflowError):
        # Texts that are cut within a character, say, or times beyond Spark's.
        return None
    # Of NaN that is false.
    return (low, high) if pc.less_equal(low, high).as_py() else None
