"""What is said of rows that cannot be read: which value, in which row of which file, is not of its type.

Arrow's errors name none of these, so that files are read again, column by column, once reading has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from windowkit.errors import InvalidValue

__all__ = ["UNREADABLE", "failed"]

UNREADABLE: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
"""What Arrow raises for values that are not of a type."""


def failed(
    data: ds.Dataset,
    columns: Mapping[str, ds.Expression],
    kinds: pa.Schema,
    origins: Mapping[str, str],
    error: Exception,
) -> InvalidValue:
    """Return what is raised where reading columns of a dataset, as these types, has failed.

    Parameters
    ----------
    data : pyarrow.dataset.Dataset
    columns : dict of str to Expression
        What is read, by name.
    kinds : Schema
        The types that it has.
    origins : dict of str to str
        What users call a file that is a copy of another.
    error : Exception
        Arrow's own.
    """
    before: dict[str, int] = {}
    for fragment in data.get_fragments():
        path = origins.get(fragment.path, fragment.path)
        for name, column in columns.items():
            own = reading(partial(fragment.scanner, schema=data.schema), column)
            if own is None:
                continue
            kind, there = kinds.field(name).type, fragment.physical_schema
            row = before.get(path, 0)
            try:
                for batch in fragment.scanner(schema=data.schema, columns=[name]).to_batches():
                    if (found := first(batch, column)) is not None:
                        at, value = found
                        return unlike(value, f"column {name!r}, in row {row + at + 1} of {path!r},", kind)
                    row += batch.num_rows
            except UNREADABLE:
                if name in there.names and there.field(name).type != data.schema.field(name).type:
                    return InvalidValue(f"--input: column {name!r} of {path!r} is not read as {kind} ({own})")
            return InvalidValue(f"--input: {path!r} cannot be read ({own})")
        if fragment.path in origins:
            before[path] = before.get(path, 0) + fragment.count_rows()
    return InvalidValue(f"--input: it cannot be read ({error})")


def unlike(value: object, where: str, kind: pa.DataType) -> InvalidValue:
    """Return what is raised for a value that is not of the type that is given for its column."""
    return InvalidValue(
        f"--types: {value!r} in {where} is not read as {kind}; a type that is given holds all values of its "
        "column, as string does, and without --types all of them decide it"
    )


def reading(scanned: Callable[..., ds.Scanner], column: ds.Expression) -> pa.ArrowException | None:
    """Return the error of reading a column, None if there is none."""
    try:
        for _ in scanned(columns={"column": column}).to_batches():
            pass
    except UNREADABLE as error:
        return error
    return None


def first(batch: pa.RecordBatch, column: ds.Expression) -> tuple[int, object] | None:
    """Return the first row, and its value, of which a column cannot be read; None if there is none."""

    def is_read(rows: pa.RecordBatch) -> bool:
        data = ds.dataset(pa.Table.from_batches([rows]))
        return reading(data.scanner, column) is None

    if is_read(batch):
        return None
    at = 0
    while batch.num_rows > 1:
        half = batch.num_rows // 2
        if is_read(batch.slice(0, half)):
            at, batch = at + half, batch.slice(half)
        else:
            batch = batch.slice(0, half)
    return at, batch.column(0)[0].as_py()
