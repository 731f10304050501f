"""Remove duplicates in this process: a row is one if the row before it, by key and time, is near."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.frames import untyped, whole_schema
from windowkit.arrow.given import refuse_spark
from windowkit.arrow.moments import timed
from windowkit.arrow.reading import as_read
from windowkit.arrow.results import plainly
from windowkit.arrow.source import Source
from windowkit.language.distinct import Distinct
from windowkit.language.expressions import hinting
from windowkit.language.foreign import is_a
from windowkit.language.lines import text_of
from windowkit.language.windows import quoted
from windowkit.local.query import checked_threads, lent
from windowkit.local.selecting import kept

__all__ = ["batches", "bound", "described", "explain", "is_first", "run", "schema"]

IN_SPARK: Final = "distinct.run(data) returns a DataFrame"


def run(
    distinct: Distinct,
    data: Any,
    *,
    threads: int | None = None,
    validate: bool | None = None,
    form: str = "pyarrow",
) -> Any:
    """Evaluate `distinct`; see `windowkit.Distinct.run`."""
    count = checked_threads(threads)
    # A DataFrame that is returned as one is filtered as it is.
    own = form != "pyarrow" and is_a(data, form, "DataFrame")
    source = Source(
        "data",
        untyped(data, [distinct.time]),
        [*distinct.by, distinct.time] if own else None,
        validate=validate,
    )
    source.time(distinct.time, time_of(distinct))
    bound(distinct, source.schema)
    table = source.table()
    rows = is_first(distinct, table, count)
    if own:
        return data.filter(rows.to_numpy()) if form == "polars" else data[rows.to_numpy()]
    return plainly(kept(table, rows), form)


def batches(
    distinct: Distinct, data: Any, *, threads: int | None = None, validate: bool | None = None
) -> pa.RecordBatchReader:
    """Evaluate `distinct` batch by batch; see `windowkit.Distinct.batches`."""
    refuse_spark("data", data, f"; batches are of one process; {IN_SPARK}")
    count = checked_threads(threads)
    source = Source("data", untyped(data, [distinct.time]), validate=validate)
    source.time(distinct.time, time_of(distinct))
    bound(distinct, source.schema)
    table = source.table()
    rows = kept(table, is_first(distinct, table, count))
    return lent(rows.schema, rows.to_batches())


def schema(distinct: Distinct, data: Any) -> pa.Schema:
    """Return the schema of the result; see `windowkit.Distinct.schema`."""
    refuse_spark("data", data, f"; it has no schema in this process; {IN_SPARK}, which has the schema")
    given = timed(
        whole_schema(untyped(data, [distinct.time]), [*distinct.by, distinct.time]),
        distinct.time,
        time_of(distinct),
    )
    bound(distinct, given)
    return given


def is_first(distinct: Distinct, table: pa.Table, threads: int) -> pa.ChunkedArray:
    """Return which rows are no duplicates."""
    given = as_read(table.select(list(dict.fromkeys([*distinct.by, distinct.time]))))
    return pa.chunked_array([pa.array(bound(distinct, given.schema).left(given, threads))])


def units(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as integers of 64 bits."""
    if pa.types.is_dictionary(times.type):
        times = times.cast(times.type.value_type)
    return (times.cast(pa.int32()) if pa.types.is_date32(times.type) else times).cast(pa.int64())


def bits(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return integers as unsigned ones of the same bits."""
    return pa.chunked_array([chunk.view(pa.uint64()) for chunk in values.chunks], pa.uint64())


def bound(distinct: Distinct, schema: pa.Schema) -> _native.Distinct:
    """Check `distinct` against the schema of its input.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It does not fit.
    """
    with hinting(schema):
        return _native.Distinct(schema, distinct.by, distinct.time, distinct.within, distinct.per)


def time_of(distinct: Distinct) -> pa.DataType:
    """Return a type of times that fits, for rows that have none."""
    return pa.int64() if isinstance(distinct.within, int) else pa.timestamp("us")


def explain(distinct: Distinct, data: Any = None) -> str:
    """Describe how `distinct` is evaluated; see `windowkit.Distinct.explain`.

    Examples
    --------
    >>> import windowkit as wk
    >>> print(wk.distinct("id", time="ts", within="10 minutes").explain())
    distinct by id over ts: within 10 minutes
    duplicates: rows at most 10 minutes after another row with their id, or at one time with an earlier one
    tables
      rows are stored, and sorted by key and time unless each key's rows are in order
      a row whose predecessor in that order is near is a duplicate
    streams
      rows are stored, and are results once the watermark reaches their time
      of each key, the time of its last row matters until the watermark is more than 10 minutes after it
    """
    last = "its last row" if distinct.per == "first" else "its last row that is left"
    nearest = "predecessor in that order" if distinct.per == "first" else "last row of its key that is left"
    matters = f"the time of {last} matters until the watermark is more than {distinct.within} after it"
    lines = [
        *described(distinct),
        "tables",
        "  rows are stored, and sorted by key and time unless each key's rows are in order",
        f"  a row whose {nearest} is near is a duplicate",
        "streams",
        "  rows are stored, and are results once the watermark reaches their time",
        f"  of each key, {matters}",
    ]
    if data is not None:
        lines += ["output", *(f"  {each.name}: {each.type}" for each in schema(distinct, data))]
    return text_of(lines)


def described(distinct: Distinct) -> list[str]:
    """Return the lines of `explain` that do not depend on where it is evaluated."""
    keys = f" with their {', '.join(map(quoted, distinct.by))}" if distinct.by else ""
    left = "another row" if distinct.per == "first" else "a row that is left"
    return [
        f"distinct {distinct}",
        f"duplicates: rows at most {distinct.within} after {left}{keys}, or at one time with an earlier one",
    ]
