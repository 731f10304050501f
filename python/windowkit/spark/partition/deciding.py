"""Partitioning that weighs imbalance against aggregation cost, over Spark DataFrames.

Two ways. *Planned*: Catalyst counts the rows of keys, Rust decides once, and an expression applies the
decision in the JVM; no row enters Python. *Streaming*: a `windowkit.partition.Partitioner` decides row by
row, in the order in which a task reads them, inside ``mapInArrow``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from windowkit.errors import InvalidValue
from windowkit.language.checks import distinct_names, integer
from windowkit.partition import Partitioner
from windowkit.spark.jobs import arrow_type, check_frame
from windowkit.spark.partition import arguments, codes, histogram, placement
from windowkit.spark.partition.arguments import Asked, ByColumns, Options
from windowkit.spark.partition.partitioning import Partitioning, key_code, key_positions, window_code

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from typing_extensions import Unpack

__all__ = ["Partitioning", "partition_id", "partitioning", "repartition"]

TOLERANCE: Final = 0.01
"""The share of a partition's load that a split by content may misplace; beyond it, position decides."""


def repartition(
    df: DataFrame,
    n: int,
    keys: str | Sequence[str],
    method: str = "waterfill",
    **options: Unpack[Options],
) -> DataFrame:
    """Repartition a DataFrame into exactly `n` partitions of even loads that share few keys.

    Parameters
    ----------
    df : DataFrame
        Classic or Connect, batch or streaming.
    n : int
        Partitions, from 1 to 65,536.
    keys : str or sequence of str
        What rows are grouped by later.
    method : str
        ``"waterfill"`` splits the keys that are heavier than a fair share, and no others. ``"hash"``,
        ``"shuffle"``, ``"partial-key"``, ``"cm"``, ``"am"``, ``"cam"`` and ``"lm"`` are those of
        Katsipoulakis et al. 2017, §2.4 and §4, whose abbreviations are understood too.
    way : str
        ``"planned"``, ``"streaming"``, or ``"auto"``, the default: planned where method and DataFrame allow
        it. The planned way of waterfill runs a Spark job at once, which reads the keys of `df` and counts
        them.
    window : Tumbling, str, datetime.timedelta or int, optional
        Balance the rows of each window of `time`, as `windowkit.tumbling` takes it, not only all together. In
        the planned way of waterfill what is heavy is relative to the rows of its window, and each window has
        a plan of its own; that takes one more job, which reads the time, and where there are more windows
        than a plan has room for (some 16,000 over the partitions), ``"auto"`` takes the streaming way. Rows
        without a time are a window.
    time : str, optional
        The time column of `window`.
    sample : float, optional
        Fraction of the rows to count, for the planned way of waterfill; 1 for all. By default a twentieth,
        unless that is fewer than 4,096 rows for each partition; then all.
    spread : "auto", "position" or sequence of str
        What distinguishes the rows of a split key, for the planned way of waterfill: values of some columns,
        or the position of a row among the sorted rows of its task. ``"auto"``, the default, takes up to four
        columns of plain types, unless their values are found to repeat too much; then it takes the position,
        which costs a local sort.
    ordered : bool
        For the streaming way: a task that runs again reads its rows in the same order, as it does from files.
        By default they are sorted first, as Spark does before its own round-robin partitioning
        (``spark.sql.execution.sortBeforeRepartition``): decisions depend on the order of rows, and must not
        change when a task runs again.
    candidates, cardinality, bias, seed
        Of the streaming way; see `windowkit.partition.Partitioner`, which has the same defaults, but for
        `candidates`: 2, or `n`.

    Returns
    -------
    DataFrame
        The rows and columns of `df`, in `n` partitions, which adaptive execution does not change.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        An argument is not as described above, or would not be read: `sample` and `spread` with the planned
        way of waterfill, `candidates` of a method without them, `window` of shuffle. No Spark job has started
        then, unless ``way="planned"`` is refused for too many windows.

    Notes
    -----
    Planned: Catalyst reads the rows twice, once to count them; the driver gets a few numbers for each of some
    ten thousand cells of hashes, never the keys. Streaming: each task decides for its own rows alone, and in
    Structured Streaming anew in each micro-batch.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.spark.repartition(df, 8, "device").groupBy("device").count()
    DataFrame[device: string, count: bigint]
    """
    return partitioning(df, n, keys, method, **options).repartition(df)


def partition_id(
    df: DataFrame,
    n: int,
    keys: str | Sequence[str],
    method: str = "waterfill",
    **options: Unpack[ByColumns],
) -> Column:
    """Return, as a Column over `df`, the partition that the planned way of `repartition` gives each row.

    Parameters
    ----------
    df, n, keys, method, window, time, sample, spread
        As for `repartition`, with the same defaults. The method is ``"waterfill"`` or ``"hash"``;
        ``spread="auto"`` stays with content, and warns (`UserWarning`) where it repeats so much that
        partitions stay uneven.

    Returns
    -------
    Column
        Ints from 0 to ``n - 1``; never null.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `repartition`, or the partition of a row is not a function of its columns.

    Examples
    --------
    >>> import windowkit as wk
    >>> df.withColumn("part", wk.spark.partition_id(df, 8, "device")).select("device", "part")
    DataFrame[device: string, part: int]
    """
    asked = Asked.of(ByColumns, options)
    made = decided(df, n, keys, method, replace(asked, way="planned"))
    if made.spread is None and asked.spread == "auto":
        made = replace(made, spread=spread_columns(made, df))
        warn_of_repeats(made)
    return made.partition_id(df)


def partitioning(
    df: DataFrame,
    n: int,
    keys: str | Sequence[str],
    method: str = "waterfill",
    **options: Unpack[Options],
) -> Partitioning:
    """Decide how to partition without doing it, to explain the decision or apply it to DataFrames.

    Parameters
    ----------
    df, n, keys, method, way, window, time, sample, spread, ordered, candidates, cardinality, bias, seed
        As for `repartition`, which raises the same errors.

    Returns
    -------
    Partitioning
        What `repartition` does with the same arguments.

    Examples
    --------
    >>> import windowkit as wk
    >>> print(wk.spark.partitioning(df, 8, "device", "hash").explain())
    8 partitions by device, method hash
    way: planned, the first that can
      hash of the key modulo 8, in Catalyst; no row enters Python
    exchange: repartitionById
    """
    return decided(df, n, keys, method, Asked.of(Options, options))


def decided(df: DataFrame, n: int, keys: str | Sequence[str], method: str, asked: Asked) -> Partitioning:
    """Return the decision for options of which it is not known yet whether they fit each other."""
    check_frame(df)
    most = arguments.MOST_PARTITIONS
    integer("n", n, f"n is an int from 1 to {most:,}", 1, most)
    names = distinct_names("keys", keys)
    if not names:
        raise InvalidValue("keys: () is empty; rows are partitioned by at least one column")
    method = arguments.method(method)
    window, columns = asked.checked()
    fields = [df.schema.fields[codes.position("keys", name, df)] for name in names]
    for column in columns or ():
        codes.position("spread", column, df)
    taken, reason = which_way(df, method, asked.way)
    asked.refuse_unread(method, taken)
    types = tuple(field.dataType for field in fields)
    made = Partitioning(
        n,
        names,
        types,
        method,
        taken,
        reason,
        window=window,
        time=asked.time,
        spread=columns,
        ordered=asked.ordered,
    )
    key_code(made, df, codes.by_number)  # It refuses what has no hash.
    if taken == "streaming":
        return streaming(made, df, asked)
    if method != "waterfill":
        return made
    windows: tuple[int, ...] | None = ()
    code = window_code(made, df, codes.by_number)
    if code is not None:
        windows = histogram.windows(codes.numbered(df), code, n, asked.sample)
    if windows is None:
        most = histogram.most_windows(n)
        against = (
            f"there are more than {most:,} windows, the most that a plan for {n:,} partitions has room for"
        )
        if asked.way == "planned":
            raise InvalidValue(
                f"way: 'planned' cannot be used, as {against}; take longer windows, fewer partitions, or "
                "way='streaming'"
            )
        return streaming(replace(made, reason=against, spread=None), df, asked)
    return planned(made, df, asked.sample, asked.spread == "auto", windows)


def streaming(made: Partitioning, df: DataFrame, asked: Asked) -> Partitioning:
    """Leave the decisions to partitioners of the tasks."""
    for field in df.schema.fields:
        arrow_type(field.name, field.dataType, "df")
    partitioner = partial(
        Partitioner,
        made.partitions,
        made.method,
        candidates=min(2, made.partitions) if asked.candidates is None else asked.candidates,
        cardinality=asked.cardinality,
        bias=asked.bias,
        window=made.window,
        seed=asked.seed,
    )
    partitioner()  # It checks its parameters, here rather than in a task.
    return replace(made, way="streaming", partitioner=partitioner)


def which_way(df: DataFrame, method: str, way: str) -> tuple[str, str]:
    """Return the way to take, and why."""
    against = None
    if method not in arguments.PLANNED:
        against = f"{method} decides row by row"
    elif method == "waterfill" and df.isStreaming:
        against = "rows of a stream cannot be counted before they come"
    if way == "auto":
        return ("planned", "the first that can") if against is None else ("streaming", against)
    if way == "planned" and against is not None:
        raise InvalidValue(
            f"way: 'planned' cannot be used, as {against}; ways are {', '.join(map(repr, arguments.WAYS))}"
        )
    if way == "streaming" and method not in arguments.ROW_BY_ROW:
        raise InvalidValue(
            f"way: 'streaming' is for methods with a state, and {method!r} has none; its way is 'planned'"
        )
    return way, "as requested"


def planned(
    made: Partitioning, df: DataFrame, sample: float | None, find: bool, windows: tuple[int, ...]
) -> Partitioning:
    """Count the rows of keys, of each window by itself, and decide where they go."""
    columns = spread_columns(made, df) if find else ()
    at = [codes.position("spread", name, df) for name in columns]
    content = codes.content(df, at, codes.by_number) if find else None
    code = key_code(made, df, codes.by_number)
    counted = histogram.histogram(
        codes.numbered(df),
        code,
        made.partitions,
        content=content,
        sample=sample,
        window=window_code(made, df, codes.by_number),
        windows=windows,
    )
    placed = placement.place(counted, made.partitions)
    made = replace(
        made, counted=counted, placement=placed.placement, loads=placed.loads, fullest=placed.fullest
    )
    if not find:
        return made
    astray = placement.astray(placed.placement, counted, made.partitions)
    return replace(made, astray=astray, spread=None if astray > TOLERANCE else columns)


def warn_of_repeats(made: Partitioning) -> None:
    """Warn if content does not distinguish the rows of split keys, so that partitions stay uneven."""
    if made.placement is None or made.counted is None or made.astray <= TOLERANCE:
        return
    chance = placement.astray(made.placement, made.counted, made.partitions, at_best=True)
    if made.astray > 2 * chance:
        columns = ", ".join(map(repr, made.spread or ())) or "the keys alone"
        part = f"{made.astray:.0%} of a partition's rows"
        warnings.warn(
            f"spread: too few rows of a split key can be distinguished by {columns}, and {part} are "
            "expected to reach other partitions than planned; name columns that differ from row to row, or "
            "call repartition, which can split by position",
            stacklevel=3,
        )


def spread_columns(made: Partitioning, df: DataFrame) -> tuple[str, ...]:
    """Return the columns whose content may distinguish the rows of a split key."""
    return tuple(codes.distinguishing(df, key_positions(made, df)))
