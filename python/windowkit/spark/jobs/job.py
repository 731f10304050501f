"""A job: one query checked against one Spark DataFrame, without running anything in Spark.

Every route starts from `Job.rows`, the DataFrame reduced to the columns the query reads, under names of our
own (``c0``, ``c1``, ...): no name of the user's, whatever its dots, backticks or case, is ever resolved by
Spark again, and none can collide with a name a route invents.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import types as spark

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type
from windowkit.language.engines import naming
from windowkit.language.foreign import is_spark
from windowkit.language.query import Query
from windowkit.language.window_columns import WindowColumns
from windowkit.language.windows import time_type
from windowkit.local.query import plan
from windowkit.spark.jobs.computing import computed
from windowkit.spark.shipping import Metrics, observed_nulls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from windowkit._native import Plan

__all__ = ["Job", "bound", "columns_at", "identifier", "job", "literal", "position_of", "quoted"]

ROW_BYTES: Final = 24
"""What Spark estimates for a row of two longs."""
PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""Names that SQL may write without backticks."""
FARTHEST: Final = 2**62
"""Microseconds from 1970 (146,000 years): windows, at most half as long, fit around such a time."""

ARROW: Final[dict[type[spark.DataType], pa.DataType]] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.NullType: pa.null(),
}


@dataclass(frozen=True)
class Job:
    """A query that fits a DataFrame.

    Parameters
    ----------
    query : Query
        With its windows in one column, as Spark has them.
    frame : DataFrame
        The input.
    positions : dict of str to int
        Where in `frame` each of ``query.inputs`` is.
    schema : pyarrow.Schema
        Of ``query.inputs``, in that order and by those names.
    plan : Plan
        The core's, for `schema`.
    metrics : Metrics, optional
        What counts while the job runs.
    window_columns : {"flat", "struct", "date"}
        As the query was given.
    """

    query: Query
    frame: DataFrame
    positions: dict[str, int]
    schema: pa.Schema
    plan: Plan
    metrics: Metrics | None = field(default=None, kw_only=True)
    window_columns: WindowColumns = field(kw_only=True)

    @property
    def asked(self) -> Query:
        """The query, with its windows in the columns that were asked for."""
        return replace(self.query, window_columns=self.window_columns)

    def type_of(self, column: str) -> spark.DataType:
        """Return the Spark type of one of ``query.inputs``."""
        return self.frame.schema.fields[self.positions[column]].dataType

    def internal(self, column: str) -> str:
        """Return the name in `rows` of one of ``query.inputs``."""
        return f"c{self.query.inputs.index(column)}"

    @property
    def keys(self) -> list[str]:
        """Names in `rows` of the key columns."""
        return [self.internal(column) for column in self.query.by]

    @property
    def time(self) -> str:
        """Name in `rows` of the time column."""
        return self.internal(self.query.time)

    @property
    def is_timestamp(self) -> bool:
        """Whether Spark's own ``window()`` takes the time column as it is."""
        return isinstance(self.type_of(self.query.time), spark.TimestampType | spark.TimestampNTZType)

    @cached_property
    def columns(self) -> DataFrame:
        """Return the columns the query reads, by internal names."""
        return columns_at(self.frame, [self.positions[column] for column in self.query.inputs])

    @cached_property
    def most_rows(self) -> float:
        """About how many rows there are, by Spark's estimate of their bytes; infinite if it has none."""
        if not hasattr(self.columns, "_jdf"):
            return inf
        try:
            plan = self.columns._jdf.queryExecution().withCachedData()
            # It may have more digits than Python makes integers of.
            return float(str(plan.stats().sizeInBytes())) / ROW_BYTES
        except Py4JError:
            return inf  # This Spark has other plans than those known here.

    @cached_property
    def rows(self) -> DataFrame:
        """Return the columns the query reads, by internal names, of the rows that have a time."""
        return self.columns.where(self.has_time)

    @cached_property
    def bounded_rows(self) -> DataFrame:
        """Return `rows`, for expressions on times that would overflow at the ends of int64.

        A timestamp there fails the action: Catalyst would name neither column nor remedy in ANSI mode, and
        wrap without. The core checks times itself; the expressions on dates and integers cannot wrap.
        """
        return self.columns.where(self.has_bounded_time)

    def read(self, *, bounded: bool = False) -> DataFrame:
        """Return `rows`, or `bounded_rows`; with metrics, those are counted that have no time."""
        every = observed_nulls(self.metrics, self.columns, self.time)
        return every.where(self.has_bounded_time if bounded else self.has_time)

    @property
    def has_time(self) -> str:
        """Of which of the columns rows are read."""
        return f"{self.time} is not null"

    @property
    def has_bounded_time(self) -> str:
        """As `has_time`, with an error for times that are too far away.

        The watermark of a stream begins at 1970, so that times before all others are late there.
        """
        if not self.is_timestamp:
            return self.has_time
        kind = self.type_of(self.query.time).simpleString()
        least, most = (f"cast(timestamp_micros({sign}{FARTHEST}) as {kind})" for sign in ("-", ""))
        message = (
            f"windowkit.errors.Overflow: time: column {identifier(self.query.time)} holds a time too close "
            "to the limit of int64 for its windows; allowed are times within "
            f"{FARTHEST} microseconds of 1970"
        )
        raised = f"raise_error({literal(message)})"
        early = f"{self.time} >= {least}"
        if not self.frame.isStreaming:
            early = f"if({self.time} < {least}, {raised}, true)"
        return f"{self.has_time} and {early} and if({self.time} > {most}, {raised}, true)"


def job(
    frame: DataFrame,
    query: Query,
    metrics: Metrics | None = None,
    *,
    streams: str = "query.run(df) and windowkit.spark.stream(df, query) take streaming ones",
    of_side: str = "",
) -> Job:
    """Check `query` against the schema of `frame`; starts no Spark job.

    Parameters
    ----------
    frame, query, metrics
    streams : str
        What is there for streams in its stead.
    of_side : str
        Which side of a join it is; errors name the arguments of that.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query does not fit; or `frame` is not a DataFrame, or is a streaming one.
    """
    check_frame(frame)
    check_query(query)
    check_metrics(metrics)
    check_batch(frame, "df", streams)
    return replace(bound(frame, query, of_side), metrics=metrics)


def check_batch(frame: DataFrame, argument: str, streams: str) -> None:
    """Refuse a streaming DataFrame; `streams` says what is there for these."""
    if frame.isStreaming:
        raise InvalidValue(
            f"{argument}: a streaming DataFrame is given; {argument} is a batch DataFrame, for instance that "
            f"of foreachBatch, and {streams}"
        )


def check_frame(df: object, what: str = "a Spark DataFrame") -> None:
    """Refuse what is not a DataFrame."""
    if not is_spark(df):
        raise InvalidType(f"df: {a_type(df)} is given; df is {what}")


def check_query(query: object) -> None:
    """Refuse what is not a query."""
    if not isinstance(query, Query):
        raise InvalidType(f"query: {a_type(query)} is given; query is a windowkit.Query")


def check_metrics(metrics: object) -> None:
    """Refuse what is neither counts of rows nor None."""
    if metrics is not None and not isinstance(metrics, Metrics):
        raise InvalidType(f"metrics: {a_type(metrics)} is given; it is wk.spark.Metrics(), or None")


def bound(frame: DataFrame, query: Query, of_side: str = "") -> Job:
    """Check `query` against the schema of a DataFrame, which may be streaming.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query does not fit.
    """
    window_columns, query = query.window_columns, query.nested
    for window in query.windows:
        if window.counts_arrivals:
            raise InvalidValue(
                f"windows: {window} counts rows in the order of arrival, which rows of a DataFrame do not "
                "have: Spark reads and shuffles them in any order; allowed are windows by time, or a "
                "column of row numbers as the time"
            )
    names = frame.columns
    # What reads all columns reads those that are there before any is computed.
    query = query.resolved(names)
    expressions = query.expressions
    if expressions:
        frame = computed(frame, expressions, [name for name in query.named if name not in expressions])
        query, names = query.plain, frame.columns
    positions = {
        column: position
        for column in query.inputs
        if (position := position_of(column, names, frame, argument_of(column, query, of_side))) is not None
    }
    frame = with_types(frame, {positions[name]: kind for name, kind in needed(query) if name in positions})
    # The zone moves no instant, but users' own windows and functions see it, as they do in Spark's functions.
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    read = {
        column: arrow_type(
            column, frame.schema.fields[at].dataType, argument_of(column, query, of_side), zone
        )
        for column, at in positions.items()
    }
    # The other columns only have to be named where the core says which columns there are.
    others = [(name, pa.null()) for at, name in enumerate(names) if at not in positions.values()]
    with naming("spark"):
        planned = plan(query, pa.schema([*read.items(), *others]))
    schema = pa.schema(list(read.items()))
    return Job(query, frame, positions, schema, planned, window_columns=window_columns)


def needed(query: Query) -> Iterator[tuple[str, str]]:
    """Yield columns that have to be of some type, in which those of nothing but nulls are given to Spark."""
    yield from ((each.condition, "boolean") for each in query.aggs if each.condition is not None)
    if any(each is not None for window in query.windows for each in window.lengths().values()):
        kind = time_type(query.windows)
        if not pa.types.is_duration(kind):
            yield query.time, "bigint" if pa.types.is_integer(kind) else "timestamp"


def with_types(frame: DataFrame, kinds: Mapping[int, str]) -> DataFrame:
    """Return a DataFrame whose columns at some positions have these types, where they are of type void."""
    fields, names = frame.schema.fields, frame.columns
    voids = {at: kind for at, kind in kinds.items() if isinstance(fields[at].dataType, spark.NullType)}
    if not voids:
        return frame
    numbered = frame.toDF(*(f"i{at}" for at in range(len(names))))
    typed = (f"cast(i{at} as {voids[at]}) as i{at}" if at in voids else f"i{at}" for at in range(len(names)))
    return numbered.selectExpr(*typed).toDF(*names)


def argument_of(column: str, query: Query, of_side: str) -> str:
    """Return what errors call the argument that names a column: of a query or, with a side, of a join."""
    if column in query.by:
        return f"by, of the {of_side} side" if of_side else "by"
    if column == query.time:
        return f"{of_side}_time" if of_side else "time"
    return "query"


def position_of(column: str, names: list[str], frame: DataFrame, argument: str = "query") -> int | None:
    """Return where `column` is: an exact match, or else the only one in any case unless Spark minds case."""
    found = [position for position, name in enumerate(names) if name == column]
    if not found and frame.sparkSession.conf.get("spark.sql.caseSensitive") == "false":
        found = [position for position, name in enumerate(names) if name.lower() == column.lower()]
    if len(found) > 1:
        raise InvalidValue(
            f"{argument}: column {column!r} is ambiguous, as the columns of df are "
            f"{', '.join(map(repr, names))}; columns that are read have names that are not repeated"
        )
    return found[0] if found else None


def arrow_type(column: str, kind: spark.DataType, argument: str = "query", zone: str = "UTC") -> pa.DataType:
    """Return the type in which Spark sends `kind` to a worker, in a session of this zone, and takes it back.

    Raises
    ------
    InvalidType
        Spark cannot, or not without loss: types that become another one on the way, and strings that are
        compared by another order than that of their bytes.
    """
    if type(kind) in ARROW:
        return ARROW[type(kind)]
    if isinstance(kind, spark.TimestampType):
        return pa.timestamp("us", zone)
    if isinstance(kind, spark.StringType) and kind == spark.StringType():
        return pa.string()
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.DayTimeIntervalType) and kind == spark.DayTimeIntervalType():
        return pa.duration("us")
    if type(kind).__name__ == "TimeType" and kind == type(kind)():  # of pyspark 4.1 and later
        return pa.time64("ns")
    if isinstance(kind, spark.ArrayType):
        return pa.list_(
            pa.field("element", arrow_type(column, kind.elementType, argument, zone), kind.containsNull)
        )
    if isinstance(kind, spark.MapType):
        value = pa.field("value", arrow_type(column, kind.valueType, argument, zone), kind.valueContainsNull)
        key = pa.field("key", arrow_type(column, kind.keyType, argument, zone), nullable=False)
        return pa.map_(key, value)
    if isinstance(kind, spark.StructType):
        return pa.struct(
            [
                pa.field(field.name, arrow_type(column, field.dataType, argument, zone), field.nullable)
                for field in kind.fields
            ]
        )
    raise InvalidType(
        f"{argument}: column {column!r} has type {kind.simpleString()}, which Spark does not exchange with "
        "Arrow as it is; cast it first, for example intervals to INTERVAL DAY TO SECOND, strings to "
        "UTF8_BINARY"
    )


def columns_at(frame: DataFrame, positions: Sequence[int], called: Sequence[str] | None = None) -> DataFrame:
    """Return the columns of `frame` at these positions, as ``c0``, ``c1``, ... or as they are to be called.

    Expressions are strings here and elsewhere, as each method of a Column is some twenty calls of the JVM.
    Where pyspark makes Columns of strings, as to sort by them, ``frame[name]`` is one call.
    """
    names = frame.columns
    new = [f"c{at}" for at in range(len(positions))] if called is None else list(map(quoted, called))
    in_any_case = Counter(name.lower() for name in names)
    own = [f"`{names[at]}`" for at in positions]
    if not all(in_any_case[names[at].lower()] == 1 and PLAIN.fullmatch(names[at]) for at in positions):
        # Spark's parser would find another column by such a name, or none.
        frame = frame.toDF(*(f"i{at}" for at in range(len(names))))
        own = [f"i{at}" for at in positions]
    return frame.selectExpr(*(f"{each} as {name}" for each, name in zip(own, new, strict=True)))


def identifier(name: str) -> str:
    """Return `name` as SQL writes it."""
    return name if PLAIN.fullmatch(name) else quoted(name)


def quoted(name: str) -> str:
    """Return `name` in backticks, as SQL takes it for a name whatever it is."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a string as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
