"""How many rows the keys of a DataFrame have: loads of hash buckets and the heavy keys, made by Catalyst.

The planned way of `windowkit.spark.repartition` decides on this. The set of keys never leaves the executors:
keys are grouped by their 64-bit hash where the rows are, the groups by cell of hashes, and a cell tells its
rows and its heaviest key. Two heavy keys in one cell hide each other, and what is left of a cell shows that;
such cells, if any, are asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import col, count, lit, pmod, shiftright, struct
from pyspark.sql.functions import max as maximum
from pyspark.sql.functions import sum as total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Heavy", "Histogram", "histogram"]

BUCKETS: Final = 64
"""Of each partition: so many that buckets without a heavy key are small beside a partition's load."""
MOST_BUCKETS: Final = 1 << 17
FEWEST_CELLS: Final = 1 << 15
"""Least number of cells in which heaviest keys are sought: a bucket is one cell or several."""
SHARE: Final = 32
"""A key is heavy that has more than one in so many of the rows of a partition."""
MOST_HEAVY: Final = 4096
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
    """

    code: int
    rows: int
    lumps: float | None


@dataclass(frozen=True)
class Histogram:
    """Rows of hash buckets, and heavy keys.

    Parameters
    ----------
    loads : tuple of int
        Rows of each bucket, those of heavy keys included; bucket ``pmod(code, len(loads))``.
    heavy : tuple of Heavy
        Heaviest first.
    fraction : float
        Of the rows, that were counted; counts are scaled to all.
    """

    loads: tuple[int, ...]
    heavy: tuple[Heavy, ...]
    fraction: float

    @property
    def rows(self) -> int:
        """Number of all rows, estimated if they were sampled."""
        return sum(self.loads)


def buckets(partitions: int) -> int:
    """Return the number of buckets for so many partitions: a power of two."""
    return min(MOST_BUCKETS, BUCKETS * (1 << (partitions - 1).bit_length()))


def histogram(
    rows: DataFrame,
    code: Column,
    partitions: int,
    *,
    content: Column | None = None,
    sample: float | None = None,
    cells: int | None = None,
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
        A 64-bit hash by which rows of a split key would be told apart; `Heavy.lumps` says how well it does.
    sample : float, optional
        Fraction of the rows to count. If None, a small one is tried, and all rows are counted if that has too
        few.
    cells : int, optional
        A power of two, at least `buckets`.

    Notes
    -----
    One Spark job for each fraction, and one more if heavy keys hide each other.

    Lumps are estimated as the second moment of the frequencies of rows, by sums of random signs (Alon, Matias
    and Szegedy 1996, §2.2); the signs are bits of a row's hash.
    """
    rows = rows.select(code.alias("code"), *([] if content is None else [content.alias("row")]))
    cells = max(buckets(partitions), FEWEST_CELLS) if cells is None else cells
    signs = [] if content is None else [f"s{bit}" for bit in range(SIGNS)]
    if sample is None:
        counted = counts(rows, partitions, PART, cells, signs)
        if sum(counted.loads) * PART >= ENOUGH * partitions:
            return counted
    return counts(rows, partitions, sample or 1.0, cells, signs)


def counts(rows: DataFrame, partitions: int, fraction: float, cells: int, signs: list[str]) -> Histogram:
    """Count a fraction of `rows`, which have a ``code``, and a ``row`` if there are `signs`."""
    if fraction < 1:
        rows = rows.sample(fraction=fraction, seed=42)
    bits = (shiftright(col("row"), bit).bitwiseAND(lit(1)) for bit in range(len(signs)))
    keys = rows.groupBy("code").agg(
        count(lit(1)).alias("rows"), *(total(bit).alias(sign) for bit, sign in zip(bits, signs, strict=True))
    )
    cell = pmod(col("code"), lit(cells)).cast("int").alias("cell")
    facts = ["rows", "code", *signs]
    found = (
        keys.groupBy(cell)
        .agg(total("rows").alias("load"), maximum(struct(*facts)).alias("top"))
        .select("cell", "load", "top.*")
        .toArrow()
    )
    mean = pc.sum(found["load"]).as_py() / partitions if found.num_rows else 0.0
    rest = pc.subtract(found["load"], found["rows"])
    # No cell keeps a partition's fill to itself, nor much more than others have without a heavy key.
    hides = pc.greater(rest, min(max(mean / 8, 4 * mean * partitions / cells), mean))
    hidden = found["cell"].filter(hides)
    tops = found.filter(pc.and_not(pc.greater(found["rows"], mean / SHARE), hides)).select(facts)
    if len(hidden):
        again = keys.where(cell.isin(hidden.to_pylist()) & (col("rows") > mean / SHARE))
        tops = pa.concat_tables([tops, again.select(*facts).toArrow().cast(tops.schema)])
    tops = tops.sort_by([("rows", "descending"), ("code", "ascending")]).slice(0, MOST_HEAVY)
    heavy = tuple(scaled(row, fraction, signs) for row in tops.to_pylist())
    loads = [0] * buckets(partitions)
    for at, load in zip(found["cell"].to_pylist(), found["load"].to_pylist(), strict=True):
        loads[at % len(loads)] += load
    loads = [round(load / fraction) for load in loads]
    # Rows that were counted twice, and are computed anew each time, need not agree to the last.
    least = [0] * len(loads)
    for each in heavy:
        least[each.code % len(loads)] += each.rows
    return Histogram(tuple(map(max, loads, least)), heavy, fraction)


def scaled(row: dict[str, int], fraction: float, signs: list[str]) -> Heavy:
    """Return a heavy key of all rows, from its counts in a sample of them."""
    seen = row["rows"]
    rows = round(seen / fraction)
    if not signs:
        return Heavy(row["code"], rows, None)
    moment = sum((2 * row[sign] - seen) ** 2 for sign in signs) / len(signs)
    if moment <= DISTINCT * seen:
        # As it would be if no two rows were equal.
        return Heavy(row["code"], rows, float(rows))
    # Of a lump of c rows the sample has about c * fraction, and a variance of its own.
    return Heavy(row["code"], rows, (moment - (1 - fraction) * seen) / fraction**2)
