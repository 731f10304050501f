"""Keys with too many rows for one task: cut by time into pieces, with a halo as long as the longest frame.

A row of such a key is answered in one piece, and read in those before and after it whose frames it may be in.
How many rows keys have, and how their times are distributed, is looked up in Spark jobs before that of the
result. By time a halo is as long as frames are. By rows it must have enough of them, whatever their times:
they are counted exactly, in one more job, and stage 2 verifies that they are there (`pack_pieces`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import col, count, lit, percentile_approx, when
from pyspark.sql.functions import sum as total

from windowkit.language.durations import Duration, Measure, Rows
from windowkit.language.rolling import Rolling
from windowkit.spark.groups import aggregated
from windowkit.spark.jobs import Job
from windowkit.spark.partition import codes, histogram, lookup
from windowkit.spark.shipping import shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "HEAVY",
    "Cut",
    "Piece",
    "Reach",
    "cut",
    "cuts_of",
    "halos",
    "integers",
    "moments",
    "places",
    "reach",
]

HEAVY: Final = "heavy"
"""Name of the column that says which heavy key a row has; null for others."""
SHARE: Final = 0.5
"""A key is cut that has more rows than so many partitions have on average."""
PIECES: Final = 4
"""A piece has about as many rows as a partition, divided by this, so that pieces can be dealt out evenly."""
LEAST: Final = 1 << 24
"""Rows, as Spark estimates their number, from which heavy keys are sought unasked, which takes seconds."""
FEWEST: Final = 1 << 15
"""Rows that a piece has at least, so that its chunks are worth their headers."""
HALO: Final = 0.5
"""The most rows that halos may have in all, relative to those of their key; fewer pieces have fewer halos."""
QUANTILES: Final = 512
"""Of the times of a heavy key; pieces and halos by rows begin and end at some of them."""
ACCURACY: Final = 10_000
TIMELESS: Final = -(2**63)
"""The moment of rows without time, as the core has it: before all others."""
NANOSECONDS: Final = {pa.date32(): 86_400 * 10**9}
"""Of the unit of a type; that of all others is a microsecond."""


@dataclass(frozen=True)
class Reach:
    """How far frames reach from a row, at most: in units of its time, and in rows."""

    before: int = 0
    after: int = 0
    rows_before: int = 0
    rows_after: int = 0


@dataclass(frozen=True)
class Piece:
    """A stretch of the time of a heavy key.

    Parameters
    ----------
    start, end : int or None
        Rows of ``[start, end)`` are answered; None where there is no bound.
    first, past : int or None
        Rows of ``[first, past)`` are read.
    before, after : int
        So many rows must be read before `start`, and from `end` on.
    bucket : int
        Where it is answered, among the buckets of all partitions.
    """

    start: int | None
    end: int | None
    first: int | None
    past: int | None
    before: int = 0
    after: int = 0
    bucket: int = 0


@dataclass(frozen=True)
class Cut:
    """Rows with a column `HEAVY`, and the pieces of each heavy key, numbered through."""

    rows: DataFrame
    keys: tuple[tuple[Piece, ...], ...]


def reach(rolling: Rolling, kind: pa.DataType) -> Reach | None:
    """Return how far frames reach, for a time column of this type; None if one has no bound."""
    found = Reach()
    for frame in (each.frame for each in rolling.aggs):
        if frame.before is None or frame.after is None:
            return None
        before, after = units(frame.before, kind), units(frame.after, kind)
        if frame.by_rows:
            rows_before, rows_after = max(found.rows_before, before), max(found.rows_after, after)
            found = replace(found, rows_before=rows_before, rows_after=rows_after)
        else:
            before += 0 if frame.tail is None else units(frame.tail, kind) - 1
            found = replace(found, before=max(found.before, before), after=max(found.after, after))
    return found


def units(measure: Measure, kind: pa.DataType) -> int:
    """Return a length in units of a time column, or its number of rows."""
    if isinstance(measure, Duration):
        return measure.nanoseconds // NANOSECONDS.get(kind, 1000)
    return measure.count if isinstance(measure, Rows) else measure


def cut(rows: DataFrame, checked: Job, rolling: Rolling, partitions: int, each: int) -> Cut | None:
    """Look for keys with too many rows, and cut them by time; None if there are none, or they cannot be cut.

    Parameters
    ----------
    rows : DataFrame
        All columns, c0, c1, ... by their positions in the frame of `checked`.
    checked : Job
    rolling : Rolling
    partitions, each : int
        Partitions of the shuffle, and the buckets of each.

    Notes
    -----
    Two Spark jobs over keys and times, or three if a frame is by rows, and one more if `histogram` needs it.
    """
    farthest = reach(rolling, checked.schema.field(rolling.time).type)
    if farthest is None or partitions == 1:
        return None
    mean = None
    if rolling.by:
        types = [(name, checked.type_of(name)) for name in rolling.by]
        code = codes.key_code(types, [col(f"c{checked.positions[name]}") for name in rolling.by])
        counted = histogram.histogram(rows, code, partitions)
        mean = counted.rows / partitions
        heavy = [each.code for each in counted.heavy if each.rows > SHARE * mean]
        if not heavy:
            return None
        is_heavy, number = lookup.found(heavy, range(len(heavy)), code)
        marked = rows.withColumn(HEAVY, when(is_heavy, number).cast("int"))
    else:
        marked = rows.withColumn(HEAVY, lit(0))
    moment = col(f"c{checked.positions[rolling.time]}")
    times = marked.where(col(HEAVY).isNotNull()).select(HEAVY, moment.alias("time"))
    known = distribution(times)
    found = {}
    for key, (number_of_rows, quantiles) in known.items():
        wanted = round(number_of_rows / ((mean or number_of_rows / partitions) / PIECES))
        most = dealt(min(wanted, number_of_rows // FEWEST, QUANTILES), partitions)
        starts = cuts_of(quantiles, number_of_rows, most, farthest)
        if starts:
            found[key] = starts
    if not found:
        return None
    cells: dict[int, list[int]] = {}
    if farthest.rows_before or farthest.rows_after:
        cells = counts(times, {key: sorted(set(known[key][1])) for key in found})
    keys = []
    for key in range(max(known) + 1):
        number_of_rows, quantiles = known.get(key, (0, []))
        starts = found.get(key, [])
        own = halos(starts, sorted(set(quantiles)), cells.get(key, []), farthest)
        keys.append([(piece, number_of_rows / len(own)) for piece in own])
    return Cut(marked, placed(keys, partitions, each))


def dealt(most: int, partitions: int) -> int:
    """Return how many pieces to cut, at most: as many for each partition, if there are enough for all.

    Examples
    --------
    >>> dealt(17, 4), dealt(9, 8), dealt(3, 4)
    (16, 8, 3)
    """
    return most - most % partitions if most > partitions else most


def distribution(times: DataFrame) -> dict[int, tuple[int, list[int]]]:
    """Return the rows of each heavy key, and quantiles of its times, from the least to the greatest."""
    shares = [at / QUANTILES for at in range(QUANTILES + 1)]
    quantiles = percentile_approx("time", shares, ACCURACY).alias("quantiles")
    table = aggregated(times, [HEAVY], [count(lit(1)).alias("rows"), quantiles]).toArrow()
    return {
        key: (rows, [] if moments is None else integers(moments).to_pylist())
        for key, rows, moments in zip(
            table[HEAVY].to_pylist(),
            table["rows"].to_pylist(),
            (each.values for each in table["quantiles"]),
            strict=True,
        )
    }


def integers(times: pa.Array) -> pa.Array:
    """Return times in their unit."""
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    return times.cast(pa.int64())


def cuts_of(quantiles: Sequence[int], rows: int, most: int, farthest: Reach) -> list[int]:
    """Return where to cut a key with these quantiles of times: into `most` pieces, or fewer.

    Examples
    --------
    >>> cuts_of(range(0, 101), 1_000, 4, Reach(before=5))
    [25, 50, 75]
    >>> cuts_of(range(0, 101), 1_000, 64, Reach(before=5))
    [12, 25, 37, 50, 62, 75, 87]
    >>> cuts_of(range(0, 101), 1_000, 64, Reach(rows_before=600))
    []
    """

    def share(start: int) -> float:
        near = bisect_left(quantiles, start + farthest.after) - bisect_left(
            quantiles, start - farthest.before
        )
        return max(near / len(quantiles), (farthest.rows_before + farthest.rows_after) / rows)

    while most > 1 and quantiles:
        last = len(quantiles) - 1
        starts = sorted({quantiles[at * last // most] for at in range(1, most)} - {quantiles[0]})
        if sum(map(share, starts)) <= HALO:
            return starts
        most //= 2
    return []


def halos(
    starts: Sequence[int], edges: Sequence[int], counted: Sequence[int], farthest: Reach
) -> list[Piece]:
    """Return the pieces that begin at `starts`, and before the first of them.

    Parameters
    ----------
    edges, counted : sequence of int
        Times, `starts` among them, and how many rows are before the first of them, between two, and from the
        last one on; not needed unless frames are by rows.

    Examples
    --------
    >>> for piece in halos([10, 20], [0, 10, 15, 20], [0, 2, 9, 9, 5], Reach(before=3, rows_before=11)):
    ...     print(piece.first, piece.start, piece.end, piece.past)
    None None 10 10
    None 10 20 20
    10 20 None None
    """
    before_edge = list(accumulate(counted))
    pieces = []
    for start, end in zip([None, *starts], [*starts, None], strict=True):
        first, past, before, after = start, end, 0, 0
        if start is not None:
            first = start - farthest.before
            if farthest.rows_before:
                enough = before_edge[bisect_left(edges, start)] - farthest.rows_before
                # The last edge that has enough rows between it and the start, if one has.
                at = next((at for at in reversed(range(len(edges))) if before_edge[at] <= enough), None)
                first = None if at is None else min(first, edges[at])
                before = 0 if first is None else farthest.rows_before
        if end is not None:
            past = end + farthest.after
            if farthest.rows_after:
                enough = before_edge[bisect_left(edges, end)] + farthest.rows_after
                later = next((at for at in range(len(edges)) if before_edge[at] >= enough), None)
                past = None if later is None else max(past, edges[later])
                after = 0 if past is None else farthest.rows_after
        pieces.append(Piece(start, end, first, past, before, after))
    return pieces


def placed(
    keys: Iterable[Sequence[tuple[Piece, float]]], partitions: int, each: int
) -> tuple[tuple[Piece, ...], ...]:
    """Return pieces, given with their rows, in buckets: the largest first, where the fewest rows are."""
    loads = [(0.0, 0, partition) for partition in range(partitions)]
    buckets: dict[tuple[int, int], int] = {}
    keys = list(keys)
    ranked = sorted(
        ((rows, key, at) for key, own in enumerate(keys) for at, (_, rows) in enumerate(own)),
        key=lambda piece: (-piece[0], piece[1:]),
    )
    for rows, key, at in ranked:
        load, held, partition = min(loads)
        loads[loads.index((load, held, partition))] = (load + rows, held + 1, partition)
        buckets[key, at] = partition * each + held % each
    return tuple(
        tuple(replace(piece, bucket=buckets[key, at]) for at, (piece, _) in enumerate(own))
        for key, own in enumerate(keys)
    )


def counts(times: DataFrame, edges: dict[int, list[int]]) -> dict[int, list[int]]:
    """Return the rows of heavy keys before the first of these times, between two, and from the last on."""
    found = times.mapInArrow(
        shipped(Count(edges), "count of the rows of heavy keys"), "heavy int, cell int, n bigint"
    )
    table = aggregated(found, [HEAVY, "cell"], [total("n").alias("n")]).toArrow()
    result = {key: [0] * (len(own) + 1) for key, own in edges.items()}
    for row in table.to_pylist():
        result[row[HEAVY]][row["cell"]] = row["n"]
    return result


@dataclass(frozen=True)
class Count:
    """Counts rows between the edges of their heavy key."""

    edges: dict[int, list[int]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield counts of a partition of rows, which are a heavy key and a time."""
        for batch in batches:
            which, times = batch.column(0), moments(batch.column(1))
            for key, edges in self.edges.items():
                own = times.filter(pc.equal(which, key))
                ends = [*places(own.take(pc.sort_indices(own)), edges), len(own)]
                numbers = [end - start for start, end in zip([0, *ends], ends, strict=False)]
                cells = [at for at, number in enumerate(numbers) if number]
                yield pa.record_batch(
                    {
                        HEAVY: pa.array([key] * len(cells), pa.int32()),
                        "cell": pa.array(cells, pa.int32()),
                        "n": pa.array([numbers[at] for at in cells], pa.int64()),
                    }
                )


def moments(times: pa.Array) -> pa.Array:
    """Return times in their unit, and that of rows without time."""
    return integers(times).fill_null(TIMELESS)


def places(times: pa.Array, edges: Iterable[int]) -> list[int]:
    """Return how many of some times in order, without nulls, are before each of `edges`."""
    if not len(times):
        return [0 for _ in edges]
    held = memoryview(times.buffers()[1]).cast("q")[times.offset : times.offset + len(times)]
    return [bisect_left(held, edge) for edge in edges]
