"""What Spark itself would do: the oracle of tests, the rival of benchmarks, and the source of schemas."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark
from pyspark.sql.functions import col, expr, lit

from windowkit.aggregates import SPELLINGS, Aggregate
from windowkit.errors import InvalidType
from windowkit.query import Query
from windowkit.spark import sql
from windowkit.spark.job import Job, job
from windowkit.windows import Window, session, sliding, tumbling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["named", "output_schema", "reference"]

SESSION: Final = session("1 second")
TUMBLING: Final = tumbling("1 second")
OVERLAPPING: Final = sliding("2 seconds", "1 second")


def reference(df: DataFrame, query: Query) -> DataFrame:
    """Return what Spark's own ``groupBy(keys, window(...)).agg(...)`` makes of a query.

    Several windows are a union of one such aggregation each; ``first`` and ``last`` are ``min_by`` and
    ``max_by`` the time. A row costs Spark one copy per window that contains it. Integer sums wrap where
    Spark's do: without ANSI mode.

    Parameters
    ----------
    df : DataFrame
        Classic or Connect, with a time column of timestamps, with or without zone.
    query : Query

    Returns
    -------
    DataFrame
        The columns of ``query.run(df)``.

    Raises
    ------
    InvalidType
        The time column holds no timestamps: Spark has no windows over integers, and takes dates for instants.
    UnknownColumn, InvalidType, InvalidValue
        As `aggregate`.
    """
    checked = job(df, query)
    if not checked.is_timestamp:
        raise InvalidType(
            f"time: column {query.time!r} has type {checked.type_of(query.time).simpleString()}; Spark's own "
            "windows are over timestamps"
        )
    return named(grouped(checked, list(query.windows), checked.time), output_schema(checked))


def grouped(checked: Job, windows: list[Window], time: str) -> DataFrame:
    """Return Spark's own aggregation by `windows` over the column or expression `time`, under any names."""

    def one(window: Window) -> DataFrame:
        keys = [col(key) for key in checked.keys]
        frame = checked.rows.groupBy(*keys, expr(sql.window(window, time))).agg(
            *(expr(text) for text in aggregates(checked))
        )
        if len(checked.query.windows) == 1:
            return frame
        frame = frame.toDF(*(f"o{position}" for position in range(len(frame.columns))))
        first, rest = frame.columns[: len(keys)], frame.columns[len(keys) :]
        return frame.select(*first, lit(window.name).alias("window_name"), *rest)

    return reduce(lambda left, right: left.union(right), (one(window) for window in windows))


def aggregates(checked: Job) -> list[str]:
    return [
        sql.aggregate(
            aggregate.function,
            "" if aggregate.column is None else checked.internal(aggregate.column),
            checked.time,
        )
        for aggregate in checked.query.aggs
    ]


def output_schema(checked: Job) -> spark.StructType:
    """Return the schema of the result: names are the query's, all else is what Spark's analysis says.

    Analysis of ``window()`` makes an expression per window that contains a row, so windows that only overlap
    stand for those of the query: what Spark calls nullable depends on no more than that.
    """
    query = checked.query
    time = checked.time
    if not checked.is_timestamp:
        time = f"if({time} is null, null, timestamp_seconds(0))"
    return described(
        checked, grouped(checked, [representative(window) for window in query.windows], time).schema
    )


def described(checked: Job, analysed: spark.StructType) -> spark.StructType:
    """Return what Spark's analysis says of the columns of a result, under the query's names."""
    query = checked.query
    fields = [
        spark.StructField(name, field.dataType, field.nullable, field.metadata)
        for name, field in zip(query.columns, analysed.fields, strict=True)
    ]
    first_aggregate = len(fields) - len(query.aggs)
    for position, aggregate in enumerate(query.aggs, start=first_aggregate):
        if not has_default_name(aggregate):
            fields[position].metadata = {}
    if not checked.is_timestamp:
        window = fields[first_aggregate - 1]
        assert isinstance(window.dataType, spark.StructType)
        measure = checked.type_of(query.time)
        if isinstance(measure, spark.IntegralType):
            measure = spark.LongType()
        window.dataType = spark.StructType(
            [spark.StructField(field.name, measure, field.nullable) for field in window.dataType.fields]
        )
    return spark.StructType(fields)


def representative(window: Window) -> Window:
    kind, _, size, slide, _, _ = window.specification()
    if kind == "session":
        return SESSION
    return OVERLAPPING if 0 < slide < size else TUMBLING


def has_default_name(aggregate: Aggregate) -> bool:
    """Whether Spark would give the name itself, and then says so in the metadata of the column."""
    if aggregate.column is None:
        return aggregate.name == "count(1)"
    return any(
        aggregate.function == core and aggregate.name == f"{spelling}({aggregate.column})"
        for core, spelling in SPELLINGS.values()
    )


def named(frame: DataFrame, schema: spark.StructType) -> DataFrame:
    """Return `frame` under the names and metadata of `schema`."""
    numbered = frame.toDF(*(f"o{position}" for position in range(len(schema))))
    return numbered.select(
        *(
            col(f"o{position}").alias(field.name, metadata=field.metadata)
            for position, field in enumerate(schema.fields)
        )
    )
