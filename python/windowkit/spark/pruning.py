"""Row groups of a Parquet file of which statistics rule out every row.

pyarrow asks statistics by itself, too, but it takes a group whose least and greatest fraction are one for a
group of that value, which may have NaN beside it: writers leave NaN out of statistics. And what it compares
is what is stored, where expressions here are of Spark's types. So what is known of a row group is told here,
in Spark's types and as far as it is sure, and pyarrow only finds out whether an expression can hold then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from windowkit.spark.comparisons import stored

__all__ = ["Chosen", "pruned", "untold"]

FORMAT: Final = ds.ParquetFileFormat()
SYSTEM: Final = fs.LocalFileSystem()
PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Chosen:
    """Which rows are read.

    Parameters
    ----------
    rows : pyarrow.dataset.Expression
        What holds of each of them.
    groups : pyarrow.dataset.Expression
        What holds of them as far as statistics of row groups are to be asked.
    columns : tuple of str
        What `groups` reads.
    floats : bool
        Whether what holds of fractions in `groups` holds of no NaN, so that ends of fractions, which tell
        nothing of NaN, may be asked.
    """

    rows: ds.Expression
    groups: ds.Expression
    columns: tuple[str, ...]
    floats: bool


@dataclass(frozen=True)
class Leaf:
    """A column as it is stored: its number, its path through structs, its type in the file and in Spark."""

    number: int
    path: tuple[str, ...]
    kind: pa.DataType
    wanted: pa.DataType


def pruned(
    opened: ds.ParquetFileFragment, own: pa.Schema, schema: pa.Schema, chosen: Chosen
) -> ds.ParquetFileFragment:
    """Leave out row groups whose statistics say that no row is chosen.

    Parameters
    ----------
    opened : pyarrow.dataset.ParquetFileFragment
        A file, which knows what its directories say.
    own : pyarrow.Schema
        Of the file.
    schema : pyarrow.Schema
        Columns to read, in Spark's types, of files and of directories.
    chosen : Chosen
    """
    leaves = leaves_of(opened, own, schema, chosen.columns)
    lacking = ds.scalar(True)
    for name in set(chosen.columns) - set(own.names) - said(opened):
        lacking &= ds.field(name).is_null()
    fragments = [
        FORMAT.make_fragment(
            str(group.id),
            SYSTEM,
            partition_expression=opened.partition_expression
            & lacking
            & known(opened.metadata.row_group(group.id), leaves, chosen.floats),
        )
        for group in opened.row_groups
    ]
    # No file is opened: what is known of fragments is all that is asked.
    left = ds.FileSystemDataset(fragments, schema, FORMAT, SYSTEM).get_fragments(filter=chosen.groups)
    return opened.subset(row_group_ids=[int(fragment.path) for fragment in left])


def said(opened: ds.ParquetFileFragment) -> set[str]:
    """Return the columns of which directories say what they have."""
    return set(ds.get_partition_keys(opened.partition_expression))


def untold(opened: ds.ParquetFileFragment, own: pa.Schema, schema: pa.Schema, chosen: Chosen) -> set[str]:
    """Return the columns of a file that a filter reads and of which statistics of no row group tell ends."""
    leaves = leaves_of(opened, own, schema, chosen.columns)
    told = {
        leaf.path[0]
        for leaf in leaves
        for group in opened.row_groups
        if ends(opened.metadata.row_group(group.id), leaf, chosen.floats) is not None
    }
    return (set(chosen.columns) & set(own.names)) - said(opened) - told


def leaves_of(
    opened: ds.ParquetFileFragment, own: pa.Schema, schema: pa.Schema, columns: tuple[str, ...]
) -> list[Leaf]:
    """Return the columns of a file that statistics may tell something of."""
    every = [each for field in own for each in inside(field.type, (field.name,))]
    if len(every) != len(opened.metadata.schema):
        return []
    given = said(opened)
    found = []
    for number, (path, kind) in enumerate(every):
        if path is None or path[0] in given or path[0] not in columns or path[0] not in schema.names:
            continue
        wanted = schema.field(path[0]).type
        for name in path[1:]:
            wanted = wanted.field(name).type
        found.append(Leaf(number, path, kind, wanted))
    return found


def inside(
    kind: pa.DataType, path: tuple[str, ...] | None
) -> Iterator[tuple[tuple[str, ...] | None, pa.DataType]]:
    """Yield the columns in which Parquet stores a type, in order; those within lists have no path."""
    is_a = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if is_a.is_struct(kind):
        for field in kind:
            yield from inside(field.type, None if path is None else (*path, field.name))
    elif is_a.is_map(kind):
        yield from inside(kind.key_type, None)
        yield from inside(kind.item_type, None)
    elif is_a.is_nested(kind):
        yield from inside(kind.value_type, None)
    else:
        yield path, kind.value_type if is_a.is_dictionary(kind) else kind


def known(group: pq.RowGroupMetaData, leaves: list[Leaf], floats: bool) -> ds.Expression:
    """Return what holds of every row of a row group."""
    holds = ds.scalar(True)
    for leaf in leaves:
        field = ds.field(*leaf.path)
        told = group.column(leaf.number).statistics
        nulls = None if told is None or not told.has_null_count else told.null_count
        if nulls is not None and nulls == group.num_rows:
            holds &= field.is_null()
            continue
        if nulls == 0 and (floats or not pa.types.is_floating(leaf.wanted)):
            # An expression may take NaN for a null.
            holds &= field.is_valid()
        found = ends(group, leaf, floats)
        if found is None:
            continue
        low, high = found
        one = low.equals(high)
        for each in [field == low] if one else [field >= low, field <= high]:
            # pyarrow takes a bound beside nulls into account in this form, one by one.
            holds &= each if nulls == 0 else each | field.is_null()
    return holds


def ends(group: pq.RowGroupMetaData, leaf: Leaf, floats: bool) -> tuple[pa.Scalar, pa.Scalar] | None:
    """Return between which values those of a column lie in Spark's type; None if that is not known."""
    if pa.types.is_floating(leaf.wanted) and not floats:
        return None
    column = group.column(leaf.number)
    told = column.statistics
    if told is None or not told.has_min_max or column.physical_type == "INT96":
        return None
    low, high = (value_of(each, leaf.kind) for each in (told.min_raw, told.max_raw))
    if low is None or high is None or low > high:
        return None
    scalars = scalar_of(low, leaf.wanted), scalar_of(high, leaf.wanted)
    return None if scalars[0] is None or scalars[1] is None else (scalars[0], scalars[1])


def value_of(raw: Any, kind: pa.DataType) -> Any:
    """Return an end as Spark has it, integers in its units; None if it says nothing."""
    is_a = pa.types
    if is_a.is_floating(kind):
        return None if isnan(raw) else raw
    if is_a.is_unsigned_integer(kind):
        # Stored as the signed integer of the same bits.
        return raw % 2**kind.bit_width
    if is_a.is_timestamp(kind):
        return raw * 10**6 // PER_SECOND[kind.unit]
    if is_a.is_decimal(kind) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if isinstance(raw, bytes) and kind in (pa.string(), pa.large_string(), pa.string_view()):
        try:
            return raw.decode()
        except UnicodeDecodeError:
            # Cut within a character.
            return None
    return raw


def scalar_of(value: Any, wanted: pa.DataType) -> pa.Scalar | None:
    """Return an end as a value of Spark's type; None if it is none."""
    is_a = pa.types
    if is_a.is_date(wanted) or is_a.is_timestamp(wanted) or is_a.is_decimal(wanted):
        width = 32 if is_a.is_date(wanted) else 64
        if not is_a.is_decimal(wanted) and not -(2 ** (width - 1)) <= value < 2 ** (width - 1):
            return None
        return stored([value], wanted)[0]
    if is_a.is_floating(wanted):
        return pa.scalar(float(value), wanted)
    fitting = (is_a.is_integer, is_a.is_boolean, is_a.is_string, is_a.is_binary)
    return pa.scalar(value, wanted) if any(each(wanted) for each in fitting) else None
