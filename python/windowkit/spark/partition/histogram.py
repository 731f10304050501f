"""How many rows the keys of a DataFrame have: loads of hash buckets and the heavy keys, made by Catalyst.

The planned way of `windowkit.spark.repartition` decides on this. The set of keys never leaves the executors:
keys are grouped by their 64-bit hash where the rows are, the groups by cell of hashes, and a cell reports its
rows and its heaviest key. Two heavy keys in one cell hide each other, and what is left of a cell shows that;
such cells, if any, are counted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import col, count, lit, pmod, shiftright, struct
from pyspark.sql.functions import max as maximum
from pyspark.sql.functions import sum as total

from windowkit.spark.groups import aggregated
from windowkit.spark.partition.lookup import index

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Heavy", "Histogram", "histogram", "most_windows", "windows"]

BUCKETS: Final = 64
"""Of each partition: so many that buckets without a heavy key are small compared with a partition's load."""
MOST_BUCKETS: Final = 1 << 17
FEWEST_CELLS: Final = 1 << 15
"""Least number of cells in which heaviest keys are sought: a bucket is one cell or several."""
SHARE: Final = 32
"""A key is heavy that has more than one in so many of the rows of a partition."""
MOST_HEAVY: Final = 4096
MOST_HEAVY_OF_WINDOWS: Final = 1 << 14
"""Pairs of key and window, over all windows."""
FEWEST_BUCKETS: Final = 8
"""Of each partition and window: the most windows that can be counted leave so many."""
SIGNS: Final = 8
"""Sums of random signs by which the variety of a heavy key's rows is estimated."""
DISTINCT: Final = 3.27
"""What chi-squared of `SIGNS` degrees of freedom, a degree, exceeds once in a thousand times."""
PART: Final = 0.05
"""Fraction of the rows that is counted first, and suffices if it has `ENOUGH` rows of each partition."""
ENOUGH: Final = 4096
"""A partition's load is then known to 1.6 %, standard deviation; its heavy keys to less."""


@dataclass(frozen=True)
class Heavy:
    """A key that outweighs others.

    Parameters
    ----------
    code : int
        Its hash; two keys of one hash, if ever there are, are one.
    rows : int
    lumps : float or None
        Sum of squares of the numbers of equal rows: `rows` if all differ, ``rows**2`` if all are the same.
    window : int
        Which of the windows it is heavy in.
    """

    code: int
    rows: int
    lumps: float | None
    window: int = 0


@dataclass(frozen=True)
class Histogram:
    """Rows of hash buckets, and heavy keys.

    Parameters
    ----------
    loads : tuple of int
        Rows of each bucket, those of heavy keys included; bucket ``pmod(code, buckets)``, window after
        window.
    heavy : tuple of Heavy
        Heaviest first, relative to their windows.
    fraction : float
        Of the rows, that were counted; counts are scaled to all.
    windows : tuple of int
        Hashes of the windows, if each was counted by itself.
    """

    loads: tuple[int, ...]
    heavy: tuple[Heavy, ...]
    fraction: float
    windows: tuple[int, ...] = ()

    @property
    def buckets(self) -> int:
        """Number of buckets, of each window if there are windows."""
        return len(self.loads) // max(len(self.windows), 1)

    @property
    def rows(self) -> int:
        """Number of all rows, estimated if they were sampled."""
        return sum(self.loads)


def buckets(partitions: int, windows: int = 1) -> int:
    """Return the number of buckets for so many partitions, in each window: a power of two."""
    room = 1 << ((MOST_BUCKETS // windows).bit_length() - 1)
    return min(room, BUCKETS * (1 << (partitions - 1).bit_length()))


def most_windows(partitions: int) -> int:
    """Return how many windows can be counted each by itself, with a few buckets for each partition."""
    return max(MOST_BUCKETS // (FEWEST_BUCKETS * (1 << (partitions - 1).bit_length())), 1)


def windows(rows: DataFrame, window: Column, partitions: int, sample: float | None) -> tuple[int, ...] | None:
    """Return the hashes of the windows that have rows; None if they are more than `most_windows`.

    One Spark job, which reads the time alone.
    """
    most = most_windows(partitions)
    there = rows.select(window.alias("window"))
    if sample is not None and sample < 1:
        there = there.sample(fraction=sample, seed=42)
    found = there.distinct().limit(most + 1).toArrow()["window"].to_pylist()
    return None if len(found) > most else tuple(sorted(found))


def histogram(
    rows: DataFrame,
    code: Column,
    partitions: int,
    *,
    content: Column | None = None,
    sample: float | None = None,
    cells: int | None = None,
    window: Column | None = None,
    windows: tuple[int, ...] = (),
) -> Histogram:
    """Count the rows of keys.

    Parameters
    ----------
    rows : DataFrame
    code : Column
        The 64-bit hash of a row's key.
    partitions : int
        What is heavy is relative to this.
    content : Column, optional
        A 64-bit hash that would distinguish the rows of a split key; `Heavy.lumps` says how well it does.
    sample : float, optional
        Fraction of the rows to count. If None, a small one is tried, and all rows are counted if that has too
        few.
    cells : int, optional
        A power of two, at least `buckets`; of each window.
    window : Column, optional
        The hash of a row's window, to count each of `windows` by itself: what is heavy is relative to the
        rows of its window. `code` is then that of key and window.
    windows : tuple of int
        The hashes there are; rows of any other window count as those of one of them.

    Notes
    -----
    One Spark job for each fraction, and one more if heavy keys hide each other.

    Lumps are estimated as the second moment of the frequencies of rows, by sums of random signs (Alon, Matias
    and Szegedy 1996, §2.2); the signs are bits of a row's hash.
    """
    at = lit(0) if len(windows) < 2 else index(windows, window)
    read = [code.alias("code"), at.alias("at")]
    rows = rows.select(*read, *([] if content is None else [content.alias("row")]))
    number = max(len(windows), 1)
    if cells is None:
        cells = max(buckets(partitions, number), 1 << ((FEWEST_CELLS // number or 1).bit_length() - 1))
    signs = [] if content is None else [f"s{bit}" for bit in range(SIGNS)]
    if sample is None:
        counted = counts(rows, partitions, PART, cells, signs, windows)
        if sum(counted.loads) * PART >= ENOUGH * partitions * number:
            return counted
    return counts(rows, partitions, sample or 1.0, cells, signs, windows)


def counts(
    rows: DataFrame,
    partitions: int,
    fraction: float,
    cells: int,
    signs: list[str],
    windows: tuple[int, ...],
) -> Histogram:
    """Count a fraction of `rows`: a ``code``, a window ``at``, and a ``row`` if there are `signs`."""
    number = max(len(windows), 1)
    if fraction < 1:
        rows = rows.sample(fraction=fraction, seed=42)
    bits = (shiftright(col("row"), bit).bitwiseAND(lit(1)) for bit in range(len(signs)))
    counted = (total(bit).alias(sign) for bit, sign in zip(bits, signs, strict=True))
    keys = aggregated(rows, ["code", "at"], [count(lit(1)).alias("rows"), *counted])
    cell = (col("at") * lit(cells) + pmod(col("code"), lit(cells))).cast("int").alias("cell")
    facts = ["rows", "code", *signs]
    found = (
        aggregated(keys, [cell], [total("rows").alias("load"), maximum(struct(*facts)).alias("top")])
        .select("cell", "load", "top.*")
        .toArrow()
    )
    rows_of = [0] * number
    for at, load in zip(found["cell"].to_pylist(), found["load"].to_pylist(), strict=True):
        rows_of[at // cells] += load
    means = pa.array([total_rows / partitions for total_rows in rows_of], pa.float64())
    found = found.append_column("mean", mean_of(means, found["cell"], cells))
    rest = pc.subtract(found["load"], found["rows"])
    # No cell keeps a partition's fill to itself, nor much more than others have without a heavy key.
    hides = pc.greater(rest, pc.multiply(found["mean"], min(max(1 / 8, 4 * partitions / cells), 1.0)))
    hidden = found.filter(hides)
    facts = [*facts, "cell"]
    tops = found.filter(pc.invert(hides)).select([*facts, "mean"])
    if hidden.num_rows:
        least = pc.min(hidden["mean"]).as_py() / SHARE
        again = keys.where(cell.isin(hidden["cell"].to_pylist()) & (col("rows") > least))
        others = again.select("rows", "code", *signs, cell).toArrow()
        others = others.append_column("mean", mean_of(means, others["cell"], cells)).cast(tops.schema)
        tops = pa.concat_tables([tops, others])
    tops = tops.append_column("weight", pc.divide(tops["rows"].cast(pa.float64()), tops["mean"]))
    tops = tops.filter(pc.greater(tops["weight"], 1 / SHARE))
    most = MOST_HEAVY if number == 1 else MOST_HEAVY_OF_WINDOWS
    tops = tops.sort_by([("weight", "descending"), ("code", "ascending")]).slice(0, most)
    heavy = tuple(scaled(row, fraction, signs, row["cell"] // cells) for row in tops.to_pylist())
    size = buckets(partitions, number)
    loads = [0] * (size * number)
    for at, load in zip(found["cell"].to_pylist(), found["load"].to_pylist(), strict=True):
        loads[at // cells * size + at % size] += load
    loads = [round(load / fraction) for load in loads]
    # Rows that were counted twice, and are computed anew each time, need not agree to the last.
    least_loads = [0] * len(loads)
    for each in heavy:
        least_loads[each.window * size + each.code % size] += each.rows
    return Histogram(tuple(map(max, loads, least_loads)), heavy, fraction, windows)


def mean_of(means: pa.Array, cell: pa.ChunkedArray, cells: int) -> pa.ChunkedArray:
    """Return a partition's mean load in the window of each cell."""
    return pc.take(means, pc.divide(cell, cells))


def scaled(row: dict[str, int], fraction: float, signs: list[str], window: int) -> Heavy:
    """Return a heavy key of all rows, from its counts in a sample of them."""
    seen = row["rows"]
    rows = round(seen / fraction)
    if not signs:
        return Heavy(row["code"], rows, None, window)
    moment = sum((2 * row[sign] - seen) ** 2 for sign in signs) / len(signs)
    if moment <= DISTINCT * seen:
        # As it would be if no two rows were equal.
        return Heavy(row["code"], rows, float(rows), window)
    # Of a lump of c rows the sample has about c * fraction, and a variance of its own.
    return Heavy(row["code"], rows, (moment - (1 - fraction) * seen) / fraction**2, window)
