"""Queries over streaming DataFrames, and `explain`, which describes what runs and what is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import coalesce, length, lit
from pyspark.sql.functions import sum as total

from windowkit.language.durations import Length
from windowkit.language.expressions import Expression
from windowkit.language.lines import text_of
from windowkit.language.query import Query
from windowkit.spark.jobs import filtered, identifier
from windowkit.spark.routes import LIMITS, catalyst, described, packed, stages
from windowkit.spark.shipping import shipped
from windowkit.spark.streams.bucket import ENTRY_BYTES, EVERY
from windowkit.spark.streams.rule import CATALYST, OPERATOR, store_of
from windowkit.spark.streams.stages import RESULTS, Guarded, Results, processor
from windowkit.spark.streams.streaming import Own, Streaming, streaming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["explain", "stream"]


def stream(
    df: DataFrame,
    query: Query,
    *,
    output_mode: str | None = None,
    allowed_lateness: Length | None = None,
    buckets: int | None = None,
    metrics_name: str | None = None,
    late_rows: bool = False,
    route: str | None = None,
    where: str | Expression | None = None,
) -> DataFrame:
    """Evaluate a query over a streaming DataFrame, exactly once; ``query.run(df)`` is the same.

    Parameters
    ----------
    df : DataFrame
        A streaming DataFrame, classic or Connect, with a watermark on the query's time column
        (``df.withWatermark``). For the route ``"operator"`` its session keeps state in RocksDB.
    query : Query
        Any window, aggregate and filter; and an emission policy, but for ``at_most`` and for triggers of
        processing time.
    output_mode : "append" or "update", optional
        What a query without an emission policy returns: each window once it is final (the default), or after
        each batch the windows that its rows changed. Give ``writeStream.outputMode`` the same.
    allowed_lateness : str or datetime.timedelta, optional
        For how long after its end, in event time, a window is returned again when late rows change it.
    buckets : int, optional
        Of keys, in each shuffle partition: state is stored by bucket, and one is in memory at a time. By
        default there are up to 4, and 64 in all.
    metrics_name : str, optional
        A name under which ``observedMetrics`` of the stream's progress count ``rows in``, ``slices``,
        ``bytes packed``, ``windows out`` and ``late``.
    late_rows : bool
        Return late rows, too, in a column ``late_row``: a struct of all columns of `df` and ``late_reason``,
        as `windowkit.Operator.take_late` has it. It is null for results, and the other columns are null for
        late rows. All columns of `df` cross the shuffle then.
    route : "catalyst" or "operator", optional
        Spark's own streaming aggregation, without Python, or operators of windowkit. Spark's computes one
        tumbling window, or in append mode one session, with aggregates that Spark has, in any state store,
        without the options above but for `output_mode`. By default a rule chooses, and `explain` says why.
        A checkpoint goes on with the route that it was begun with.
    where : str or Expression, optional
        Which windows are returned: a condition in SQL on the columns of the result, as of
        `windowkit.Query.run`. Rows of keys for which it cannot hold are left out before they are sent to
        Python and shuffled; they still move the watermark. Where a window may be returned again with nothing
        that withdraws the earlier result, it may only be of keys, and of starts and ends that no row changes.
        A checkpoint belongs to what it says of keys. Not with `late_rows`.

    Returns
    -------
    DataFrame
        A streaming DataFrame with the columns of ``query.run`` over a batch. With an allowed lateness or an
        emission policy it has those of `windowkit.Operator`: also ``update``; ``emission`` and, for policies
        that retract, ``weight``. Write it with ``writeStream``.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query does not fit `df`; `df` is not streaming or has no watermark on the time column; the state
        store does not support the route; or an option is not as described. The running query fails
        with ``InvalidValue`` if the checkpoint is that of another query, of other shuffle partitions or
        buckets, or damaged; and with ``Overflow`` as a batch does.

    Notes
    -----
    Slices (or rows, where slices do not do: `explain` says why) are packed by bucket of keys, as Arrow. Each
    bucket is one group of ``transformWithState``, whose state is a log of what came, with a snapshot every
    ten batches. A batch takes in its rows, and then the
    watermark that earlier batches set; so in append mode results are those of Spark's own windows.

    Examples
    --------
    >>> import windowkit as wk
    >>> query = wk.query(by="device", time="ts", windows=wk.session("30 seconds"), aggs=wk.median("v"))
    >>> wk.spark.stream(df, query)
    Traceback (most recent call last):
    ...
    windowkit.errors.InvalidValue: df: a batch DataFrame is given; query.run takes both, and df is streaming
    """
    made = streaming(
        df,
        query,
        output_mode,
        allowed_lateness,
        buckets,
        metrics_name,
        late_rows=late_rows,
        route=route,
        where=where,
    )
    own = catalyst.stream(made.job, made.identity) if isinstance(made, Own) else run(made)
    return own if made.split is None else filtered(own, made.split.condition)


def run(made: Streaming) -> DataFrame:
    """Return the result of a stream."""
    work = made.work
    limits = replace(LIMITS, chunk=ENTRY_BYTES)
    never = work.rows_instead is not None
    pack = stages.Pack(work.query, work.schema, made.partitions, made.each, never, limits)
    chunks = made.rows.mapInArrow(shipped(Guarded(pack), work.what), packed.CHUNKS)
    if made.metrics_name is not None:
        counts = {"rows in": total("rows"), "slices": total("slices"), "bytes packed": total(length("chunk"))}
        chunks = observed(chunks, made.metrics_name + ", in", counts)
    grouped: Any = chunks.select("bucket", "chunk").groupBy("bucket")
    # pyspark 4.0 has it for pandas alone.
    in_pandas = not hasattr(grouped, "transformWithState")
    evaluated = grouped.transformWithStateInPandas if in_pandas else grouped.transformWithState
    packed_results = evaluated(processor(work, in_pandas=in_pandas), RESULTS, made.mode, "EventTime")
    if made.metrics_name is not None:
        counts = {"windows out": total("windows"), "late": total("late")}
        packed_results = observed(packed_results, made.metrics_name + ", out", counts)
    result: DataFrame = packed_results.mapInArrow(shipped(Results(), work.what), made.result)
    return result


def observed(frame: DataFrame, name: str, counts: dict[str, Any]) -> DataFrame:
    """Return `frame`, with sums of its rows in the progress of the stream."""
    return frame.observe(name, *(coalesce(each, lit(0)).alias(what) for what, each in counts.items()))


def explain(
    df: DataFrame,
    query: Query,
    *,
    output_mode: str | None = None,
    allowed_lateness: Length | None = None,
    buckets: int | None = None,
    metrics_name: str | None = None,
    late_rows: bool = False,
    route: str | None = None,
    where: str | Expression | None = None,
) -> str:
    """Describe how `stream` evaluates a query: what runs where, and what state is stored.

    Parameters
    ----------
    df, query, output_mode, allowed_lateness, buckets, metrics_name, late_rows, route, where
        As for `stream`, which raises the same errors.
    """
    made = streaming(
        df,
        query,
        output_mode,
        allowed_lateness,
        buckets,
        metrics_name,
        late_rows=late_rows,
        route=route,
        where=where,
    )
    head = [
        *described(query, made.job.schema.field(query.time).type),
        *([] if made.split is None else made.split.described()),
        f"stream in {made.mode} mode, each row counted exactly once",
    ]
    if isinstance(made, Own):
        head.append(f"route: {CATALYST}, Spark's own aggregation with its state, as {made.why}")
        if "RocksDB" in store_of(df):
            head.append(f"  {OPERATOR}: possible, and in RocksDB faster over large batches and many keys")
        return text_of([*head, *catalyst.ROUTE.explain(made.job)])
    work = made.work
    keys = ", ".join(map(identifier, query.by))
    of = f"{made.partitions * made.each:,} buckets of {keys}" if keys else "one bucket"
    needs = "rows in order" if made.job.plan.needs_rows else "slices"
    ready = (
        "with rows or an open slice" if work.is_eager else "with rows, or once its first open slice has ended"
    )
    packs = "slices" if work.rows_instead is None else "rows"
    lines = [
        *head,
        f"route: {OPERATOR}, as {made.why}",
        f"  watermark: Spark's, of {identifier(query.time)}; a batch takes in its rows, then the watermark",
        f"  columns: {', '.join(map(identifier, made.result.names))}",
        f"stage 1, in Rust inside one mapInArrow: {packs} of "
        f"{', '.join(map(identifier, work.schema.names))}, packed by bucket",
        *([f"  no slices, as {work.rows_instead}"] if work.rows_instead is not None else []),
        f"shuffle: packed Arrow, {of} in {made.partitions:,} partitions",
        f"stage 2, in Rust inside transformWithState: an operator per bucket, which holds {needs}",
        f"  state: a log of packed {packs} per bucket, with a snapshot every {EVERY} batches",
        f"  a bucket is restored when the watermark moves, {ready}",
        "stage 3, inside one mapInArrow: results as rows",
    ]
    return text_of(lines)
