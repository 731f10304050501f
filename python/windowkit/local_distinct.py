"""Remove duplicates in this process: a row is one if the row before it, by key and time, is near."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windowkit import _native, local_rolling
from windowkit._columns import is_a, is_spark
from windowkit.aggregates import max as latest
from windowkit.distinct import Distinct
from windowkit.engines import Engine, register
from windowkit.errors import InvalidType
from windowkit.local import OTHERWISE, Source, checked_threads, reader_of
from windowkit.results import form_of, plainly
from windowkit.rolling import rolling
from windowkit.windows.base import counted

__all__ = ["bound", "refuse_spark", "run"]


def run(
    distinct: Distinct,
    data: Any,
    *,
    threads: int | None = None,
    validate: bool | None = None,
    result: str | None = None,
) -> Any:
    """Evaluate `distinct`; see `windowkit.Distinct.run`."""
    refuse_spark("data", data)
    count, form = checked_threads(threads), form_of(data, result)
    # A DataFrame that is returned as one is filtered as it is.
    own = form != "pyarrow" and is_a(data, form, "DataFrame")
    source = Source("data", data, [*distinct.by, distinct.time] if own else None, validate=validate)
    planned = bound(distinct, source.schema)
    with source:
        table = pa.Table.from_batches(reader_of(source), source.schema)
    rows = is_first(distinct, planned.within, table, count)
    if own:
        return data.filter(rows.to_numpy()) if form == "polars" else data[rows.to_numpy()]
    # pyarrow does not filter all types of its own.
    kept = planned.filter(table, rows.combine_chunks())
    return plainly(pa.RecordBatchReader.from_stream(kept).read_all(), form)


def is_first(distinct: Distinct, within: int, table: pa.Table, threads: int) -> pa.ChunkedArray:
    """Return which rows are no duplicates, of those `within` so many units of time of another."""
    columns = list(dict.fromkeys([*distinct.by, distinct.time]))
    name = "before"
    while name in columns:
        name += "_"
    before = latest(distinct.time).over("1 row", closed="left").alias(name)
    rolled = rolling(by=distinct.by, time=distinct.time, aggs=before)
    given = table.select(columns)
    planned = local_rolling.bound(rolled, given.schema)
    results = local_rolling.results(planned, given, threads)
    time, last = units(given[distinct.time]), units(results[name])
    # It is never negative, but may be more than 63 bits hold: as unsigned integers they do not overflow.
    apart = pc.subtract(bits(time), bits(last))
    is_far = pc.greater(apart, pa.scalar(within, pa.uint64()))
    return pc.if_else(pc.or_(pc.is_null(last), pc.is_null(time)), True, is_far)


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
    return _native.Distinct(schema, list(distinct.by), distinct.time, counted(distinct.within))


def refuse_spark(argument: str, data: Any) -> None:
    """Refuse a DataFrame of Spark, which this process does not hold."""
    if is_spark(data):
        raise InvalidType(
            f"{argument}: a Spark DataFrame is given; duplicates are removed in one process. Collect what "
            f"fits there with {argument}.toArrow(), or have Spark call it for each key: "
            f"{argument}.groupBy(keys).applyInPandas(lambda a: distinct.run(a), {argument}.schema)"
        )


register(
    Engine(
        takes=lambda _: True,
        calls={"distinct": run},
        options=("threads", "validate", "result"),
        otherwise=OTHERWISE,
    )
)
