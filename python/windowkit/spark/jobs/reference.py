"""What Spark itself would do: the oracle of tests, the rival of benchmarks, and the source of schemas."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import types as spark
from pyspark.sql.functions import col, expr, lit
from pyspark.sql.pandas.types import from_arrow_type

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.aggregates import Aggregate
from windowkit.language.fills import form_of, of_each
from windowkit.language.query import Query
from windowkit.language.windows import Session, Sliding, Tumbling, Window, session, sliding, tumbling
from windowkit.spark.groups import aggregated
from windowkit.spark.jobs import sql
from windowkit.spark.jobs.job import Job, job
from windowkit.spark.jobs.shapes import shaped, shaped_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["named", "output_schema", "own", "reference", "result_schema", "uncounted", "unranked"]

SESSION: Final = session("1 second")
TUMBLING: Final = tumbling("1 second")
OVERLAPPING: Final = sliding("2 seconds", "1 second")
RANKS: Final = spark.StructField(
    "window_rows",
    # Nullable, as they are null with their struct: of windows over time in a query with windows by rows.
    spark.StructType([spark.StructField(name, spark.LongType()) for name in ("start", "end")]),
)

MOST_SAID: Final = 256
SAID: Final[dict[tuple[str | None, ...], tuple[spark.StructField, spark.StructField, spark.StructType]]] = {}
"""What Spark has said of such queries, over such columns, under such settings: to ask it again takes a fourth
of the time in which a query is planned."""


def reference(df: DataFrame, query: Query) -> DataFrame:
    """Return the result of Spark's own ``groupBy(keys, window(...)).agg(...)`` for a query.

    Several windows are a union of one such aggregation each; ``first`` and ``last`` are ``min_by`` and
    ``max_by`` the time. A row costs Spark one copy per window that contains it. Integer sums wrap where
    Spark's do: without ANSI mode.

    Parameters
    ----------
    df : DataFrame
        Classic or Connect, with a time column of timestamps, with or without zone.
    query : Query
        Of windows and functions that Spark has.

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
    query = query.plain
    if query.weight is not None:
        raise InvalidValue(
            f"query: it has weight={query.weight!r}, and Spark's own functions do not support weights; "
            "query.run(df) does"
        )
    if query.fill is not None:
        raise InvalidValue(
            f"query: it has fill={form_of(query.fill)!r}, and Spark's own functions do not make windows "
            "without rows; query.run(df) does"
        )
    for aggregate in query.aggs:
        if aggregate.user is not None:
            raise InvalidValue(f"aggs: {aggregate} is a user's own function, which Spark does not offer")
        if unranked(checked, aggregate):
            kind = checked.type_of(aggregate.columns[0]).simpleString()
            raise InvalidType(
                f"aggs: {aggregate} is of type {kind}; Spark's quantiles are of numbers and intervals"
            )
        if uncounted(checked, aggregate):
            kind = checked.type_of(aggregate.columns[0]).simpleString()
            raise InvalidType(
                f"aggs: {aggregate} is of type {kind}, which Spark's sketches do not take; they take "
                "integers, booleans, dates, timestamps with zone, strings and binary"
            )
    windows = [own_window(window) for window in query.windows]
    if not checked.is_timestamp:
        raise InvalidType(
            f"time: column {query.time!r} has type {checked.type_of(query.time).simpleString()}; Spark's own "
            "windows are over timestamps"
        )
    own = grouped(checked, windows, checked.time)
    numbered = own.toDF(*(f"o{position}" for position in range(len(own.columns))))
    return shaped(named(numbered, output_schema(checked), list(map(col, numbered.columns))), query)


SparkWindow = Tumbling | Sliding | Session
"""Windows that Spark has too, if they count no rows."""


def own_window(window: Window) -> SparkWindow:
    """Return a window that Spark has.

    Raises
    ------
    InvalidValue
        Spark does not offer it.
    """
    is_cut = isinstance(window, Session) and window.at_most is not None
    if not isinstance(window, SparkWindow) or window.counts_rows or is_cut or window.is_local:
        raise InvalidValue(
            f"windows: Spark does not offer {window}; it has tumbling, sliding and session windows over time"
        )
    return window


def grouped(checked: Job, windows: list[SparkWindow], time: str) -> DataFrame:
    """Return Spark's own aggregation by `windows` over the column or expression `time`, under any names."""

    def one(window: SparkWindow) -> DataFrame:
        keys = checked.keys
        groups: list[Column | str] = [*keys, expr(sql.window(window, time, checked.internal))]
        frame = aggregated(
            checked.rows, groups, [expr(own(checked, aggregate)) for aggregate in checked.query.aggs]
        )
        if len(checked.query.windows) == 1:
            return frame
        frame = frame.toDF(*(f"o{position}" for position in range(len(frame.columns))))
        first, rest = frame.columns[: len(keys)], frame.columns[len(keys) :]
        return frame.select(*first, lit(window.name).alias("window_name"), *rest)

    return reduce(lambda left, right: left.union(right), (one(window) for window in windows))


def uncounted(checked: Job, aggregate: Aggregate) -> bool:
    """Whether an aggregate is a sketch of values that Spark's sketches do not take."""
    sketched = aggregate.function in sql.SKETCHES
    return sketched and sql.counted(checked.type_of(aggregate.columns[0]), "") is None


def unranked(checked: Job, aggregate: Aggregate) -> bool:
    """Whether an aggregate is a quantile between times, of which Spark has none."""
    if aggregate.function not in ("median", "quantile"):
        return False
    return isinstance(checked.type_of(aggregate.columns[0]), spark.TimestampType | spark.TimestampNTZType)


def own(checked: Job, aggregate: Aggregate) -> str:
    """Return Spark's own aggregate, by internal names; where Spark has none no more than its type."""
    if aggregate.user is not None:
        kind = pa.schema(checked.plan.output_schema).field(aggregate.name).type
        return f"cast(null as {from_arrow_type(kind).simpleString()})"
    values = [checked.internal(column) for column in aggregate.columns]
    if unranked(checked, aggregate):
        return f"max({values[0]})"
    if uncounted(checked, aggregate):
        values = ["bigint(null)"]
    elif aggregate.function in sql.SKETCHES:
        values = [str(sql.counted(checked.type_of(aggregate.columns[0]), values[0]))]
    if values:
        kind = checked.type_of(aggregate.columns[0])
        values[0] = sql.summed(aggregate.function, kind, values[0])
    where = None if aggregate.condition is None else checked.internal(aggregate.condition)
    given = aggregate.parameters, aggregate.columns
    return sql.aggregate(aggregate.function, values, checked.time, where, *given)


def result_schema(checked: Job) -> spark.StructType:
    """Return the schema of the result, with windows in the columns that were asked for."""
    return shaped_schema(output_schema(checked), checked.asked)


def output_schema(checked: Job) -> spark.StructType:
    """Return the schema of the result, with structs: names are the query's, all else as Spark analyses it."""
    query = checked.query
    window, unnamed, aggregates = analysed(checked)
    inputs = checked.frame.schema.fields
    fields = [inputs[checked.positions[column]] for column in query.by]
    if len(query.windows) > 1:
        fields.append(spark.StructField("window_name", spark.StringType(), False))
    fields += [window, RANKS] if query.has_ranks else [window]
    ways = of_each(query.fill, [each.name for each in query.aggs]) or [""] * len(query.aggs)
    for aggregate, field, fill in zip(query.aggs, aggregates.fields, ways, strict=True):
        has_alias = aggregate.name not in aggregate.default_names
        metadata = field.metadata if has_alias else unnamed.metadata
        nullable = field.nullable or fill == "null"
        fields.append(spark.StructField("", field.dataType, nullable, metadata))
    return spark.StructType(
        [
            spark.StructField(name, field.dataType, field.nullable, field.metadata)
            for name, field in zip(query.columns, fields, strict=True)
        ]
    )


def analysed(checked: Job) -> tuple[spark.StructField, spark.StructField, spark.StructType]:
    """Return what Spark says of a window of a query, of an aggregate without an alias, and of all aggregates.

    Analysis of ``window()`` makes an expression per window that contains a row, so windows that only overlap
    stand for those of the query: what Spark calls nullable depends on no more than that. Aggregates are one
    struct, as each Column costs the driver several calls of the JVM.
    """
    query = checked.query
    time = checked.time
    if not checked.is_timestamp:
        time = f"if({time} is null, null, timestamp_seconds(0))"
    windows = [sql.window(each, time) for each in dict.fromkeys(map(representative, query.windows))]
    aggregates = sql.struct(own(checked, each) for each in query.aggs)
    known = settings(checked.frame.sparkSession)
    inputs = [checked.frame.schema.fields[checked.positions[each]].json() for each in query.inputs]
    asked = (known, aggregates, *windows, *inputs)
    if asked in SAID:
        return SAID[asked]
    facts = [expr("count(1)"), expr(aggregates)]
    frames = (aggregated(checked.rows, [expr(each)], facts) for each in windows)
    window, unnamed, every = reduce(lambda left, right: left.union(right), frames).schema.fields
    assert isinstance(window.dataType, spark.StructType)
    assert isinstance(every.dataType, spark.StructType)
    if not checked.is_timestamp:
        measure = checked.type_of(query.time)
        if isinstance(measure, spark.IntegralType):
            measure = spark.LongType()
        window.dataType = spark.StructType(
            [spark.StructField(field.name, measure, field.nullable) for field in window.dataType.fields]
        )
    said = window, unnamed, every.dataType
    if known is not None:
        while len(SAID) >= MOST_SAID:
            SAID.pop(next(iter(SAID)), None)
        SAID[asked] = said
    return said


def settings(session: SparkSession) -> str | None:
    """Return all settings of a session, by which Spark types what it analyses; None if they are elsewhere."""
    plain = getattr(session, "_jsparkSession", None)
    if plain is None:
        return None
    try:
        return str(plain.sessionState().conf().settings().toString())
    except Py4JError:
        return None  # This Spark has other settings than those known here.


def representative(window: Window) -> SparkWindow:
    """Return a window that Spark offers whose result has the columns of one that it may not offer."""
    if window.is_session:
        return SESSION
    return OVERLAPPING if window.overlaps else TUMBLING


def named(frame: DataFrame, schema: spark.StructType, columns: list[Column]) -> DataFrame:
    """Return these columns of `frame` under the names and metadata of `schema`."""
    return frame.select(
        *(
            column.alias(field.name, metadata=field.metadata)
            for column, field in zip(columns, schema.fields, strict=True)
        )
    )
