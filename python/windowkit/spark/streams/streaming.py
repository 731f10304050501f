"""A query that fits a streaming DataFrame, and what a stream of Spark has to be for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type

from windowkit.errors import InvalidValue, UnknownColumn
from windowkit.language.checks import boolean, integer, one_of, text
from windowkit.language.durations import Length, length, rows
from windowkit.language.emission import Emission, emit
from windowkit.language.expressions import Expression
from windowkit.language.fills import refuse_stream
from windowkit.language.progress import of_measure
from windowkit.language.pushdown import Split, refuse_changing
from windowkit.language.query import Query
from windowkit.language.windows import units
from windowkit.local.query import plan
from windowkit.spark.jobs import (
    Job,
    arrow_type,
    bound,
    check_frame,
    check_query,
    columns_at,
    minds_no_case,
    narrowed,
    output_schema,
    position_of,
    split_of,
)
from windowkit.spark.routes.catalyst import DELAY
from windowkit.spark.shipping import in_one_line
from windowkit.spark.streams.rule import CATALYST, PROVIDER, STORE, choose, store_of
from windowkit.spark.streams.work import (
    LATE,
    REASON,
    Work,
    counting,
    has_updates,
    identity,
    is_eager,
    operator_of,
    rows_instead,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MODES", "Own", "Streaming", "streaming"]

MODES: Final = ("append", "update")
MOST_EACH: Final = 4
IN_ALL: Final = 64
"""Buckets that suffice: each costs every batch some milliseconds, and is in memory alone."""


@dataclass(frozen=True)
class Streaming:
    """A query that fits a streaming DataFrame.

    Parameters
    ----------
    job : Job
    read : dict of str to int
        Where in the DataFrame are the columns that only the emission policy reads.
    work : Work
    partitions, each : int
        Shuffle partitions, and how many buckets each of them has.
    metrics_name : str or None
        What Spark's progress calls the counts.
    mode, why : str
        Why Spark's own aggregation is not taken.
    split : Split or None
        The condition on results; the job is of the rows for which it may hold.
    """

    job: Job
    read: dict[str, int]
    work: Work
    partitions: int
    each: int
    metrics_name: str | None
    mode: str
    why: str
    split: Split | None = None

    @property
    def rows(self) -> DataFrame:
        """The columns that are read, by names of our own, of the rows that have a time."""
        positions = [*self.job.positions.items(), *self.read.items()]
        by_name = dict(positions)
        columns = columns_at(self.job.frame, [by_name[name] for name in self.work.schema.names])
        time = self.work.schema.get_field_index(self.job.query.time)
        return columns.where(f"c{time} is not null")

    @property
    def result(self) -> spark.StructType:
        """The schema of the result: that of a batch, with the columns that only operators have."""
        known = {field.name: field for field in output_schema(self.job).fields}
        for own in known.values():
            # No column has a watermark any more: Spark does not know how far these results are complete.
            own.metadata = {name: of for name, of in (own.metadata or {}).items() if name != DELAY}
        streamed = operator_of(self.work.query, self.work.schema, self.work.allowed_lateness).schema
        is_plain = list(self.work.columns) == self.job.query.columns and not self.work.returns_late
        fields = []
        for name in self.work.columns:
            arrow = streamed.field(name)
            field = known.get(name)
            if field is None:
                nullable = arrow.nullable or self.work.returns_late
                field = spark.StructField(name, from_arrow_type(arrow.type), nullable)
            elif self.work.returns_late or (not is_plain and arrow.nullable):
                # Of a late row, or a window that is withdrawn.
                field = spark.StructField(name, field.dataType, True, field.metadata)
            fields.append(field)
        if self.work.returns_late:
            fields.append(self.late)
        return spark.StructType(fields)

    @property
    def late(self) -> spark.StructField:
        """The column of late rows."""
        at = {**self.job.positions, **self.read}
        own = self.job.frame.schema.fields
        columns = [spark.StructField(name, own[at[name]].dataType) for name in self.work.late]
        reason = spark.StructField(REASON, spark.StringType())
        return spark.StructField(LATE, spark.StructType([*columns, reason]))


@dataclass(frozen=True)
class Own:
    """A query over a streaming DataFrame that Spark's own aggregation computes.

    Parameters
    ----------
    job : Job
    mode, why : str
        Why Spark's aggregation is taken.
    identity : str
        What a checkpoint belongs to, as that of `Work`.
    split : Split or None
        As of `Streaming`.
    """

    job: Job
    mode: str
    why: str
    identity: str
    split: Split | None = None


def streaming(
    frame: DataFrame,
    query: Query,
    output_mode: str | None = None,
    allowed_lateness: Length | None = None,
    buckets: int | None = None,
    metrics_name: str | None = None,
    *,
    late_rows: bool = False,
    route: str | None = None,
    where: str | Expression | None = None,
) -> Streaming | Own:
    """Check a query against a streaming DataFrame; starts nothing in Spark.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        See `windowkit.spark.stream`.
    """
    check_frame(frame, "a streaming Spark DataFrame")
    check_query(query)
    if not frame.isStreaming:
        raise InvalidValue("df: a batch DataFrame is given; query.run takes both, and df is streaming")
    if metrics_name is not None:
        allowed = "it is a name for the counts in the stream's progress, or None"
        if not text("metrics_name", metrics_name, allowed):
            raise InvalidValue(f"metrics_name: '' is given; {allowed}")
    mode = one_of("output_mode", "append" if output_mode is None else output_mode, MODES)
    boolean("late_rows", late_rows)
    lateness: Length = 0 if allowed_lateness is None else allowed_lateness
    check_policy(query.emit)
    refuse_stream(query.fill)
    if query.weight is not None and query.emit is None and mode == "update":
        raise InvalidValue(
            f"output_mode: 'update' is given for a query with weight={query.weight!r}, whose windows may "
            "lose all their rows, which no update can say; allowed are 'append', and "
            "emit=windowkit.emit(..., refinement='retracting')"
        )
    job, given_time = bound(frame, query), query.time
    if query.expressions:
        query = query.resolved(frame.columns).plain
    check_watermark(job, given_time)
    check_ends(query, mode)
    # No lateness is what Spark's own aggregation has.
    given = allowed_lateness if units(of_measure("allowed_lateness", lateness)) else None
    only = {"allowed_lateness": given, "buckets": buckets, "metrics_name": metrics_name}
    schema = stable_schema(job)
    choice = choose(job, mode, route, {**only, "late_rows": late_rows})
    chosen = None
    if choice.route == CATALYST:
        if where is not None:
            job, chosen = split_stream(job, query, where, mode)
        settings = {"output_mode": mode, **narrowed_to(chosen)}
        return Own(job, mode, choice.why, identity(query, schema, settings), chosen)
    check_session(frame, choice.why)
    if where is not None:
        if late_rows:
            raise InvalidValue(
                f"where: {where!r} is given with late_rows=True, and late rows are no windows; filter what "
                "is written, by a condition that also takes rows whose late_row is not null"
            )
        job, chosen = split_stream(job, query, where, mode, lateness)
    partitions, each = layout(frame, query, buckets)
    read, schema = read_by(job, query.emit, schema)
    late: tuple[str, ...] = ()
    if late_rows:
        read, schema = with_all(job, read, schema)
        # In the order of `df`, without the columns of expressions, which come last.
        at = {**job.positions, **read}
        late = tuple(sorted((name for name in at if at[name] < len(frame.columns)), key=at.__getitem__))
    more = narrowed_to(chosen)
    own = own_work(query, schema, mode, lateness, partitions, each, late=late, more=more)
    return Streaming(job, read, own, partitions, each, metrics_name, mode, choice.why, chosen)


def narrowed_to(chosen: Split | None) -> dict[str, Any]:
    """Return what a condition on results adds to what a checkpoint belongs to; nothing by default."""
    return {} if chosen is None or chosen.rows is None else {"rows": f"those where {chosen.rows}"}


def split_stream(
    job: Job, query: Query, where: str | Expression, mode: str, lateness: Length = 0
) -> tuple[Job, Split]:
    """Return the job of the rows for which a condition on results may hold, and that condition.

    Raises
    ------
    InvalidType, InvalidValue
        It is none, or may hold of a result that a later one replaces.
    """
    chosen = split_of(where, query, job, by_time=False)
    how = None
    if query.emit is not None and query.emit.refinement != "retracting":
        how = f"its policy is {query.emit.refinement!r}"
    elif query.emit is None and mode == "update":
        how = "output_mode is 'update'"
    elif query.emit is None and has_updates(query, lateness):
        how = "late rows change windows that were returned"
    if how is not None:
        any_case = minds_no_case(job.frame.sparkSession)
        refuse_changing(chosen.condition, query, any_case=any_case, how=how)
    return narrowed(job, chosen.rows), chosen


def own_work(
    query: Query,
    schema: pa.Schema,
    mode: str,
    lateness: Length,
    partitions: int,
    each: int,
    *,
    late: tuple[str, ...] = (),
    more: dict[str, Any] | None = None,
) -> Work:
    """Return what the workers compute."""
    as_spark = mode == "update" and query.emit is None
    # In Spark's update mode, a batch returns the windows that its rows changed.
    effective = replace(query, emit=emit(rows(1))) if as_spark else query
    operator = operator_of(effective, schema, lateness)
    names, planned = operator.schema.names, plan(effective, schema, of_stream=True)
    instead = rows_instead(effective, planned, operator, returns_late=bool(late))
    columns = query.columns
    if has_updates(query, lateness):
        columns = [name for name in names if not (as_spark and name == "emission")]
    return Work(
        effective if instead is not None else counting(effective),
        in_one_line(query),
        schema,
        lateness,
        tuple(columns),
        as_spark,
        is_eager(query, planned.needs_rows, has_policy=query.emit is not None),
        instead,
        identity(
            query,
            schema,
            {
                "allowed_lateness": str(length("allowed_lateness", lateness)),
                "output_mode": mode,
                "spark.sql.shuffle.partitions": partitions if query.by else None,
                "buckets": each,
                # Absent by default, as in the checkpoints of earlier releases.
                **({"late rows": "returned"} if late else {}),
                **(more or {}),
            },
        ),
        late,
    )


def check_watermark(job: Job, given: str) -> None:
    """Refuse a stream whose time column no watermark follows, as none follows an expression, `given`."""
    fields = job.frame.schema.fields
    if DELAY in (fields[job.positions[job.query.time]].metadata or {}):
        return
    others = [field.name for field in fields if DELAY in (field.metadata or {})]
    time = job.query.time
    if isinstance(given, Expression):
        raise InvalidValue(
            f"time: the {given.kind} {time!r} is computed after df.withWatermark, so that no watermark "
            "follows it; give the name of a column that has one, as in time='ts', or compute the column "
            "before df.withWatermark"
        )
    found = f"as {', '.join(map(repr, others))} has" if others else "so that no window would become final"
    raise InvalidValue(
        f"df: its column {time!r} has no watermark, {found}; write df.withWatermark({time!r}, '10 minutes'), "
        "with the delay that rows may have, after the last step that computes the column"
    )


def check_ends(query: Query, mode: str) -> None:
    """Refuse windows of which a stream, which has no end, would never return a result."""
    for window in query.windows:
        if window.ends_with_stream and query.emit is None and mode == "append":
            raise InvalidValue(
                f"windows: {window} becomes final when a stream ends, but streams in Spark do not end; give "
                "output_mode='update', or emit=windowkit.emit(...)"
            )


def check_policy(policy: Emission | None) -> None:
    """Refuse what depends on how often an operator is called, or on its clock."""
    if policy is None:
        return
    if policy.has_clock:
        raise InvalidValue(
            f"emit: {policy!r} depends on the clock, but a stream in Spark computes only when rows arrive or "
            "the watermark moves; use windowkit.every(...) of event time"
        )
    if policy.complete:
        raise InvalidValue(
            f"emit: {policy!r} is given, but a stream in Spark follows Spark's watermark, and does not "
            "measure how late rows are; allowed is complete=False"
        )
    if policy.at_most is not None:
        raise InvalidValue(
            f"emit: {policy!r} is given; at_most limits the calls of an operator; in Spark, options of the "
            "source limit batches, such as maxFilesPerTrigger"
        )


def check_session(frame: DataFrame, why: str) -> None:
    """Refuse a state store that Spark does not combine with state of this kind."""
    store = store_of(frame)
    if "HDFSBacked" in store:
        raise InvalidValue(
            f"df: its session keeps state in {store.rpartition('.')[2]}, and route 'operator', taken as "
            f"{why}, needs RocksDB; call spark.conf.set({STORE!r}, {PROVIDER!r}) before the stream starts"
        )


def layout(frame: DataFrame, query: Query, buckets: int | None) -> tuple[int, int]:
    """Return the shuffle partitions, and how many buckets each of them has."""
    given = None
    if buckets is not None:
        given = integer(
            "buckets", buckets, "it is an int from 1 to 1,024, of each shuffle partition, or None", 1, 1024
        )
    if not query.by:
        return 1, 1
    partitions = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions", None) or 200)
    return partitions, given or min(max(IN_ALL // partitions, 1), MOST_EACH)


def stable_schema(job: Job) -> pa.Schema:
    """Return the schema of ``query.inputs`` that a checkpoint keeps: without the zone of the session.

    A restart may have another, which moves no instant. Only users' own windows and functions see it.
    """
    query = job.query
    if any(window.is_user_defined for window in query.windows):
        return job.schema
    seen = {name for each in query.aggs if each.user is not None for name in each.columns}
    read = ((each.name, each.type) for each in job.schema)
    return pa.schema(
        [(name, kind if name in seen else arrow_type(name, job.type_of(name))) for name, kind in read]
    )


def read_by(job: Job, policy: Emission | None, schema: pa.Schema) -> tuple[dict[str, int], pa.Schema]:
    """Return where the columns are that only the emission policy reads, and the schema of all."""
    read = {}
    for name in () if policy is None else policy.columns:
        if name in job.query.inputs:
            continue
        at = position_of(name, job.frame.columns, job.frame, "emit")
        if at is None:
            columns = ", ".join(map(repr, job.frame.columns))
            raise UnknownColumn(f"emit: no column {name!r}; columns are {columns}")
        read[name] = at
        schema = schema.append(pa.field(name, arrow_type(name, job.frame.schema.fields[at].dataType, "emit")))
    return read, schema


def with_all(job: Job, read: dict[str, int], schema: pa.Schema) -> tuple[dict[str, int], pa.Schema]:
    """Return what `read_by` does, with all other columns of the DataFrame, which late rows have."""
    if LATE in job.query.columns:
        raise InvalidValue(f"late_rows: the query has a column {LATE!r} of its own; give it another name")
    known, others = {*job.positions.values(), *read.values()}, {}
    for at, field in enumerate(job.frame.schema.fields):
        if at in known:
            continue
        if field.name in others or field.name in schema.names or field.name == REASON:
            raise InvalidValue(
                f"late_rows: the columns of late rows would have the name {field.name!r} twice; rename "
                "one, or drop it"
            )
        others[field.name] = at
        kind = arrow_type(field.name, field.dataType, "late_rows")
        schema = schema.append(pa.field(field.name, kind))
    return {**read, **others}, schema
