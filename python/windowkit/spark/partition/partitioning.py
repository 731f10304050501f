"""How rows are partitioned, once that is decided: applied to DataFrames, and explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark
from pyspark.sql.functions import col, expr, lit, monotonically_increasing_id, pmod, xxhash64

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.aggregates import count
from windowkit.language.lines import text_of
from windowkit.language.query import Query
from windowkit.language.windows import Tumbling
from windowkit.partition import Partitioner
from windowkit.spark.jobs import bound, identifier, sql
from windowkit.spark.partition import codes, exchange
from windowkit.spark.partition.histogram import Histogram
from windowkit.spark.partition.placement import POINTS, Placement, points
from windowkit.spark.partition.row_by_row import Decide
from windowkit.spark.shipping import shipped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


__all__ = ["PARTITION", "Partitioning", "key_code", "key_positions", "window_code"]

PARTITION: Final = "windowkit partition"
CODE: Final = "windowkit code"
POINT: Final = "windowkit point"
WINDOW: Final = "windowkit window"
GOLDEN: Final = 1_327_217_885
"""2^31 divided by the golden ratio, odd: its multiples modulo 2^31 spread evenly (Weyl's sequence)."""


@dataclass(frozen=True)
class Partitioning:
    """How rows are partitioned; made by `windowkit.spark.partitioning`, and bound to no DataFrame.

    Parameters
    ----------
    partitions : int
        How many there are.
    keys : tuple of str
        The columns by which rows are grouped.
    types : tuple of DataType
        Of the keys: their hashes depend on them.
    method, way, reason : str
        `reason` says why `way`.
    window : Tumbling or None
        Of which each is balanced by itself; None: all rows together.
    time : str or None
        The time column that windows are of.
    counted : Histogram or None
        How many rows the keys have; None if nothing was counted.
    placement : Placement or None
        Of the planned way of "waterfill".
    loads : tuple of int
        Rows that each partition is expected to get; () if nothing was counted.
    fullest : tuple of float
        Of each window that was counted, or of all rows: the expected load of the fullest partition over the
        mean.
    astray : float
        Rows that the content of split keys is expected to send to other partitions than planned, in the worst
        partition and as a part of a partition's mean load.
    spread : tuple of str or None
        The columns whose content distinguishes the rows of a split key; None: their position does.
    partitioner : callable or None
        Of the streaming way: returns the partitioner of a task.
    ordered : bool
        Whether rows are taken as they come, which is the same each time, rather than sorted.
    """

    partitions: int
    keys: tuple[str, ...]
    types: tuple[spark.DataType, ...]
    method: str
    way: str
    reason: str
    window: Tumbling | None = None
    time: str | None = None
    counted: Histogram | None = None
    placement: Placement | None = None
    loads: tuple[int, ...] = ()
    fullest: tuple[float, ...] = ()
    astray: float = 0.0
    spread: tuple[str, ...] | None = None
    partitioner: Callable[[], Partitioner] | None = None
    ordered: bool = False

    def repartition(self, df: DataFrame) -> DataFrame:
        """Return `df` in exactly `partitions` partitions, lazily.

        Parameters
        ----------
        df : DataFrame
            The one that was counted, or another with the same keys: yesterday's histogram serves today's
            rows, and that of a batch serves a stream.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            `df` lacks a column, or has a key of another type; or it streams, and rows would need sorting.
        """
        if self.way == "planned" and self.method == "shuffle":
            return df.repartition(self.partitions)
        return self.numbered(df).drop(PARTITION).toDF(*df.columns)

    def numbered(self, df: DataFrame) -> DataFrame:
        """Return `df` in its partitions, by names i0, i1, ..., with their numbers in `PARTITION`."""
        rows = codes.numbered(df)
        if self.way == "planned" and self.method == "shuffle":
            placed = rows.repartition(self.partitions)
            return placed.withColumn(PARTITION, expr("spark_partition_id()"))
        if self.way == "streaming":
            decided = decide(self, df, rows)
        elif self.placement is not None and self.placement.is_split and self.spread is None:
            decided = by_position(self, df, rows)
        else:
            decided = rows.withColumn(PARTITION, by_content(self, df, codes.by_number))
        return exchange.by_id(decided, self.partitions, PARTITION)

    def partition_id(self, df: DataFrame) -> Column:
        """Return the partition of each row of `df` as a Column of ints; rows stay where they are.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            As `repartition`; or the partition of a row is not a function of its columns.
        """
        allowed = "a column is made of the methods 'waterfill' and 'hash' in the planned way, by content"
        if self.way == "streaming":
            raise InvalidValue(f"way: 'streaming' decides in the order of rows; {allowed}")
        if self.method == "shuffle":
            raise InvalidValue(f"method: 'shuffle' takes partitions in turn; {allowed}")
        if self.placement is not None and self.placement.is_split and self.spread is None:
            raise InvalidValue(f"spread: 'position' is not a function of the row; {allowed}")
        return by_content(self, df, codes.by_name(df))

    def explain(self) -> str:
        """Describe how rows are partitioned, and why."""
        return text_of(lines(self))


def key_positions(made: Partitioning, df: DataFrame) -> list[int]:
    """Return where in `df` the keys are.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        They are not there, or of other types, and so of other hashes.
    """
    found = [codes.position("keys", name, df) for name in made.keys]
    for name, kind, at in zip(made.keys, made.types, found, strict=True):
        there = df.schema.fields[at].dataType
        if there.simpleString() != kind.simpleString():
            raise InvalidType(
                f"keys: column {name!r} has type {there.simpleString()}; this partitioning is of keys of "
                f"type {kind.simpleString()}"
            )
    return found


def key_code(made: Partitioning, df: DataFrame, reference: codes.Reference) -> Column:
    """Return the hash of a row's key, and of its window if each window is to be balanced.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        `df` lacks a column, or a column has a type without a hash, or one that the window does not fit.
    """
    columns = [reference(at) for at in key_positions(made, df)]
    start = window_start(made, df, reference)
    if start is not None:
        columns.append(start)
    return codes.key_code(zip(made.keys, made.types, strict=True), columns)


def window_code(made: Partitioning, df: DataFrame, reference: codes.Reference) -> Column | None:
    """Return the hash of a row's window; None if windows do not matter."""
    start = window_start(made, df, reference)
    return None if start is None else xxhash64(start)


def window_start(made: Partitioning, df: DataFrame, reference: codes.Reference) -> Column | None:
    """Return where a row's window starts: null for a row without time, which is in a window of such rows."""
    if made.window is None or made.time is None:
        return None
    at = codes.position("time", made.time, df)
    query = Query((), made.time, (made.window,), (count().alias("rows"),))
    ((period, offset),) = bound(df, query).plan.edges
    kind = df.schema.fields[at].dataType
    if isinstance(kind, spark.DayTimeIntervalType):
        raise InvalidType(
            f"time: column {made.time!r} has type {kind.simpleString()}, which Catalyst cannot round to "
            "windows; time is a timestamp, a date or an integer"
        )
    # Spark's window() would drop rows without time.
    zero = "0" if isinstance(kind, spark.IntegralType) else f"cast('1970-01-01' as {kind.simpleString()})"
    name = codes.name_of(at, df, reference)
    return expr(f"if({name} is null, null, {sql.pane(period, offset, kind, f'coalesce({name}, {zero})')})")


def by_content(made: Partitioning, df: DataFrame, reference: codes.Reference) -> Column:
    """Return the partition of a row, a pure function of its columns."""
    code = key_code(made, df, reference)
    if made.method == "hash":
        return pmod(code, lit(made.partitions)).cast("int")
    assert made.placement is not None, made.method
    at = [codes.position("spread", name, df) for name in made.spread or ()]
    window = window_code(made, df, reference) if made.placement.windows else None
    return made.placement.at(code, points(codes.content(df, at, reference)), window)


def by_position(made: Partitioning, df: DataFrame, rows: DataFrame) -> DataFrame:
    """Return `rows` with their partitions, those of a split key by their position among the sorted rows."""
    assert made.placement is not None
    if df.isStreaming:
        raise InvalidValue(
            "spread: 'position' needs sorted rows, and a stream is not sorted; name columns that "
            "distinguish the rows of a split key"
        )
    # Sorted by all there is, so that rows that trade places when a task runs again are equal rows.
    content = codes.content(df, range(len(df.columns)), codes.by_number)
    coded = rows.withColumn(CODE, key_code(made, df, codes.by_number))
    window = window_code(made, df, codes.by_number)
    if window is not None:
        coded = coded.withColumn(WINDOW, window)
        window = col(WINDOW)
    in_order = coded.sortWithinPartitions(col(CODE), content)
    turn = monotonically_increasing_id().bitwiseAND(lit(POINTS - 1)) * lit(GOLDEN)
    # In a column of its own: each mention of a counter would count by itself, and only rows that reach it.
    pointed = in_order.withColumn(POINT, turn.bitwiseAND(lit(POINTS - 1)))
    return pointed.withColumn(PARTITION, made.placement.at(col(CODE), col(POINT), window)).drop(
        CODE, POINT, WINDOW
    )


def decide(made: Partitioning, df: DataFrame, rows: DataFrame) -> DataFrame:
    """Return `rows` with the partitions that a partitioner of each task decides on."""
    assert made.partitioner is not None
    at = None if made.time is None else codes.position("time", made.time, df)
    if not made.ordered and not df.isStreaming:
        content = codes.content(df, range(len(df.columns)), codes.by_number)
        rows = rows.sortWithinPartitions(*([] if at is None else [codes.by_number(at)]), content)
    schema = spark.StructType([*rows.schema.fields, spark.StructField(PARTITION, spark.IntegerType())])
    description = f"partitioning by {', '.join(map(identifier, made.keys))}, method {made.method}"
    task = Decide(made.partitioner, tuple(key_positions(made, df)), at)
    return rows.mapInArrow(shipped(task, description), schema)


def lines(made: Partitioning) -> list[str]:
    """Return the lines of `Partitioning.explain`."""
    keys = ", ".join(map(identifier, made.keys))
    text = [f"{made.partitions:,} partitions by {keys}, method {made.method}"]
    if made.window is not None and made.time is not None:
        text.append(f"  in each window, {made.window} over {identifier(made.time)}")
    text.append(f"way: {made.way}, {made.reason}")
    if made.way == "streaming":
        order = "as they come" if made.ordered else "sorted, so that a task that runs again decides alike"
        return [
            *text,
            "  decided row by row in Rust, inside one mapInArrow; each task of each micro-batch starts anew",
            f"  order of rows: {order}; those of a stream as they come",
            f"exchange: {exchange.way()}",
        ]
    if made.method == "shuffle":
        return [*text, "  partitions in turn, by Spark's own repartition(n)"]
    if made.method == "hash":
        text.append(f"  hash of the key modulo {made.partitions:,}, in Catalyst; no row enters Python")
    else:
        assert made.counted is not None, made.method
        assert made.placement is not None, made.method
        text += plan_lines(made, made.counted, made.placement)
    return [*text, f"exchange: {exchange.way()}"]


def plan_lines(made: Partitioning, counted: Histogram, placed: Placement) -> list[str]:
    heavy = sum(each.rows for each in counted.heavy)
    part = f", {heavy / counted.rows:.1%} of the rows" if counted.rows else ""
    of = "" if counted.fraction == 1 else f", estimated from {counted.fraction:.2%} of them"
    mean = counted.rows / made.partitions
    within = " (in one window or another)" if counted.windows else ""
    split = [shares for shares in placed.heavy if len(shares.parts) > 1]
    text = [
        f"  counted by Catalyst: {counted.rows:,} rows{of}; heavy keys: {len(counted.heavy):,}{part}",
        f"  placed: {len(placed.buckets):,} buckets of hashes; heavy keys apart from their bucket: "
        f"{len(placed.heavy):,}",
        f"  keys that are split{within}: {len(split):,}, "
        f"over {sum(len(s.parts) for s in split):,} partitions in all",
    ]
    if mean:
        most = max(made.loads)
        text.append(
            f"  expected rows of a partition: {mean:,.0f}, of the fullest {most:,} ({most / mean:.3f} times)"
        )
    if counted.windows and made.fullest:
        text.append(
            f"  windows: {len(counted.windows):,}; fullest partition of a window: {median(made.fullest):.3f} "
            f"times its mean in the middle one, {max(made.fullest):.3f} times in the worst"
        )
    if split:
        by = "position among the sorted rows of a task"
        if made.spread is not None:
            by = f"content of {', '.join(map(identifier, made.spread))}"
        text.append(f"  rows of a split key are distinguished by {by}")
        if made.astray:
            text.append(
                f"    by content, {made.astray:.2%} of a partition's rows are expected to be misplaced"
            )
    return [*text, "  applied as an expression in Catalyst; no row enters Python"]
