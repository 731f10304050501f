"""Jobs by the route that is chosen for them, and `explain`, which says which and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from windowkit.errors import InvalidValue
from windowkit.language import fills
from windowkit.language.aggregates import Aggregate
from windowkit.language.conditions import Condition
from windowkit.language.expressions import Expression
from windowkit.language.lines import text_of
from windowkit.language.pushdown import Split
from windowkit.language.query import Query
from windowkit.language.windows import days_of_utc
from windowkit.spark.jobs import Job, filtered, identifier, job, narrowed, split_of
from windowkit.spark.partition import Partitioning
from windowkit.spark.routes import three_stages
from windowkit.spark.routes.rule import ROUTES, Choice, Refusals, choose, depends, expected, merit
from windowkit.spark.routes.sample import looked
from windowkit.spark.shipping import Metrics, observed_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["aggregate", "explain", "unfiltered"]


def aggregate(
    df: DataFrame,
    query: Query | None = None,
    route: str | None = None,
    *,
    rows_per_slice: float | None = None,
    metrics: Metrics | None = None,
    partitioner: str | Partitioning | None = None,
    n: int | None = None,
    keys: str | Sequence[str] | None = None,
    aggs: Aggregate | Sequence[Aggregate] | None = None,
    where: str | Expression | None = None,
) -> DataFrame:
    """Evaluate a query in Spark, lazily.

    Parameters
    ----------
    df : DataFrame
        A batch DataFrame, classic or Connect. Columns are found by name: exactly, or else in any case as
        ``spark.sql.caseSensitive`` has it. A name is that of a column, not a path into a struct.
    query : Query, optional
        Of timestamps, with or without zone, dates or integers (whose windows keep the type: bigint for all
        integers). Spark's times are microseconds, so no length may be finer.
    route : str, optional
        ``"scan"``, ``"catalyst"``, ``"catalyst-panes"``, ``"packed"`` or ``"rows"``. By default a rule
        chooses, and `windowkit.spark.explain` says why. With ``"scan"``, tasks read the files of `df`
        themselves, as they do by default where `df` is a read of Parquet files or of a table of Delta or
        Iceberg, and has many rows; files elsewhere than on the machine need the setting
        ``spark.windowkit.tables`` of the session to be ``true``, and ``false`` has Spark read all files.
    rows_per_slice : float, optional
        A hint for that rule: about how many rows of one key lie between neighbouring edges of windows (of a
        session: within a gap). Without it, if the rule depends on this number and `df` is itself cached and
        has a million rows or more, some rows are sampled, in one or two Spark jobs of one task. With `route`,
        only `explain` mentions it.
    metrics : Metrics, optional
        Counts rows, slices and windows while the result is computed.
    partitioner : str or Partitioning, optional
        Evaluate in three stages instead: rows are partitioned by this method of `repartition`, each partition
        aggregates its own rows, and what a split key has in several partitions is joined (Katsipoulakis et
        al. 2017, Fig. 3). Not with `route`, nor, without a query, with ``first`` and ``last``.
    n : int, optional
        Partitions, where `partitioner` names a method.
    keys : str or sequence of str, optional
        Instead of `query`, with `aggs` and `partitioner`: a plain group-by of these columns, without windows.
    aggs : Aggregate or sequence of Aggregate, optional
        What that computes.
    where : str or Expression, optional
        Which windows are returned: a condition in SQL on the columns of the result. The result is that of
        ``.where(...)`` on it, but what the condition says of rows is applied to `df` before anything else,
        where Spark prunes partitions and skips files by it; see `windowkit.Query.run`.

    Returns
    -------
    DataFrame
        One row per key and window that has rows (without a query: per key), in no order: what Spark's own
        ``groupBy`` by keys and ``window(...)`` returns, with its types and nullability, and, if the query has
        ``window_columns="struct"``, all its names. ``first`` and ``last`` are by time.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query does not fit `df`, `df` is streaming, or `route` is unknown or cannot evaluate the query.
        No Spark job has started then. An integer or decimal sum that overflows fails the action that runs it,
        whatever ``spark.sql.ansi.enabled`` says.

    Notes
    -----
    One pass over the rows; O(slices + windows) in Python, where slices are per key and pane between
    neighbouring window edges (Li 2008, §6.2). Spark's own costs O(rows x windows that contain a row).

    Examples
    --------
    >>> import windowkit as wk
    >>> window = wk.sliding("10 minutes", "1 second")
    >>> query = wk.query(by="device", time="ts", windows=window, aggs=wk.sum("v"))
    >>> df.transform(wk.spark.aggregate, query)
    DataFrame[device: string, window_start: timestamp, window_end: timestamp, sum(v): double]
    >>> wk.spark.aggregate(df, keys="device", aggs=wk.sum("v"), partitioner="waterfill", n=8)
    DataFrame[device: string, sum(v): double]
    """
    if query is None:
        if keys is None or aggs is None or partitioner is None or route is not None:
            raise InvalidValue(
                "query: None is given; give a query, or keys, aggs and partitioner without a route"
            )
        if where is not None:
            raise InvalidValue(f"where: {where!r} is given without a query; call .where(...) of the result")
        return three_stages.grouped(df, keys, aggs, partitioner, n)
    if keys is not None or aggs is not None:
        raise InvalidValue(
            f"{'aggs' if keys is None else 'keys'}: given with a query, which has its own; give a query, or "
            "keys and aggs"
        )
    checked = job(df, query, metrics)
    chosen = None if where is None else split_of(where, query, checked)
    made = windows(checked, chosen, route, rows_per_slice, partitioner, n)
    return made if chosen is None else filtered(made, chosen.condition)


def unfiltered(df: DataFrame, query: Query, where: Condition) -> DataFrame:
    """Return what `aggregate` does before it filters windows, which is left to what comes after."""
    checked = job(df, query)
    return windows(checked, split_of(where, query, checked))


def windows(
    checked: Job,
    chosen: Split | None = None,
    route: str | None = None,
    rows_per_slice: float | None = None,
    partitioner: str | Partitioning | None = None,
    n: int | None = None,
) -> DataFrame:
    """Return the windows of a job, of the rows of which a condition on results may hold."""
    metrics = checked.metrics
    checked = checked if chosen is None else narrowed(checked, chosen.rows)
    check_stages(route, partitioner, n)
    if metrics is not None and partitioner is not None:
        raise InvalidValue("metrics: they are given with a partitioner, but three stages are not counted")
    if partitioner is not None:
        return three_stages.run(three_stages.staged(checked, partitioner, n))
    choice = choice_of(checked, route, rows_per_slice)
    result = choice.route.run(choice.job)
    return observed_count(metrics, "windows out", result)


def check_stages(route: str | None, partitioner: str | Partitioning | None, n: int | None) -> None:
    """Refuse a number of partitions without a partitioner, and a route with one."""
    if partitioner is None:
        if n is not None:
            raise InvalidValue(f"n: {n!r} is given without a partitioner; n is its number of partitions")
    elif route is not None:
        raise InvalidValue(
            f"route: {route!r} is given with a partitioner; a job has a route or three stages, not both"
        )


def explain(
    df: DataFrame,
    query: Query,
    route: str | None = None,
    *,
    rows_per_slice: float | None = None,
    partitioner: str | Partitioning | None = None,
    n: int | None = None,
    where: str | Expression | None = None,
) -> str:
    """Describe how `aggregate` evaluates a query: which route, why, who reads the rows, and what runs where.

    Parameters
    ----------
    df, query, route, rows_per_slice, partitioner, n, where
        As for `aggregate`, which raises the same errors.

    Returns
    -------
    str
        Lines of text, with the Catalyst expressions under the names of `df`. If tasks do not read the files
        of `df`, ``scan: refused`` says why; ``scan: possible`` says from how many rows on they would, or
        `route` is another one.
    """
    checked = job(
        df, query, streams="query.explain(df) and windowkit.spark.explain_stream take streaming ones"
    )
    lines = described(query, checked.schema.field(query.time).type)
    if where is not None:
        chosen = split_of(where, query, checked)
        lines += chosen.described()
        checked = narrowed(checked, chosen.rows)
    check_stages(route, partitioner, n)
    if partitioner is not None:
        return text_of(lines + three_stages.explain(three_stages.staged(checked, partitioner, n)))
    choice = choice_of(checked, route, rows_per_slice)
    return text_of([*lines, *reasons(choice), *choice.route.explain(choice.job)])


def choice_of(checked: Job, route: str | None, rows_per_slice: float | None) -> Choice:
    """Return the route to take, from a sample of rows where it depends on them."""
    refusals = Refusals.of(checked)
    if depends(refusals, route, rows_per_slice):
        known = looked(checked)
    else:
        known = "the route does not depend on it" if route is None else "the route was requested"
    return choose(refusals, route, expected(rows_per_slice, known))


def described(query: Query, time: pa.DataType) -> list[str]:
    """Return the lines of `explain` that describe the query, over a time column of this type."""
    keys = ", ".join(map(identifier, query.by)) or "nothing"
    return [
        f"query by {keys} over {identifier(query.time)}",
        *(f"  window: {window}{days_of_utc(window, time)}" for window in query.windows),
        *fills.described(query.fill),
        *(f"  answer: {aggregate}" for aggregate in query.aggs),
    ]


def reasons(choice: Choice) -> list[str]:
    """Return the lines of `explain` that say which route is taken, and why not another."""
    lines = [f"route: {choice.route.name}, {choice.why}", f"  expected: {choice.expected}"]
    for other in ROUTES:
        if other is not choice.route:
            reason = choice.refusals[other]
            told = merit(choice.refusals, other) if reason is None else f"refused, as {reason}"
            lines.append(f"  {other.name}: {told}")
    return lines
