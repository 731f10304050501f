"""A sample of rows before a job: how many rows a slice has, where they are cached.

Which route is the fastest depends on values, and Spark knows nothing of a DataFrame's values before a job
runs. So of a DataFrame that is cached itself the first rows are read, in a job of one task: a few, and in
another job more of them, where the few do not suffice. Other DataFrames might compute for long before they
have a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from windowkit.spark.jobs import Job, sql
from windowkit.spark.routes import panes
from windowkit.spark.routes.rule import PANES_FROM, Expected

__all__ = ["Seen", "estimate", "looked", "seen"]

FEW: Final = 1 << 11
"""Rows that are read to begin with: a job that returns so many takes hardly longer than an empty one."""
ROWS: Final = 1 << 14
"""Rows that are read where the few do not suffice."""
SURE: Final = 1 << 6
"""Slices that two halves share from which the size of their pool is known: within a quarter, mostly."""
LEAST: Final = 1 << 20
"""Rows, as Spark estimates their number, from which a sample can save more than it takes."""
ENOUGH: Final = 1 << 8
"""Rows from which an estimate is made."""
CHANCE: Final = 3
"""Slices that two halves may share by chance, as at the edge between them."""


@dataclass(frozen=True)
class Seen:
    """What was seen of neighbouring rows, and of their two halves.

    Parameters
    ----------
    rows, slices : int
    halves : tuple of int
        Slices of each half; a slice may be in both.
    times : tuple of tuple of int
        Of each half, the first and the ninth decile of the times of its rows.
    """

    rows: int
    slices: int
    halves: tuple[int, int]
    times: tuple[tuple[int, int], tuple[int, int]]

    @property
    def shared(self) -> int:
        """Slices that both halves have."""
        return sum(self.halves) - self.slices

    @property
    def suffices(self) -> bool:
        """Whether more rows would hardly add: the route is known, or the number of slices there are."""
        return self.rows >= PANES_FROM * self.slices or self.shared >= SURE

    @property
    def is_in_order(self) -> bool:
        """Whether time goes one way from half to half."""
        (first, last), (later_first, later_last) = self.times
        return last <= later_first or later_last <= first


def estimate(seen: Seen, panes_per_time: float, rows: float) -> float:
    """Return how many rows a slice has in a partition of which some neighbouring rows were seen.

    Parameters
    ----------
    seen : Seen
    panes_per_time : float
        In one unit of `Seen.times`.
    rows : float
        Of the partition.

    Returns
    -------
    float
        Never less than was seen. Where the halves share no slices, that is it: rows are in order of time, or
        of keys, and the next ones have slices of their own. Where they do, all rows of a stretch draw from
        one pool of slices, whose size two samples show by what they share (as Lincoln and Petersen count
        fish); the stretch is a pane, if rows are in order of time, or else the partition.
    """
    least = seen.rows / seen.slices
    stretch = rows
    if seen.is_in_order:
        # Between the quantiles lie nine tenths of the rows.
        ends = [end for half in seen.times for end in half]
        span = max((max(ends) - min(ends)) / 0.9 * panes_per_time, 1 / seen.rows)
        stretch = min(rows, seen.rows / min(span, 1))
        # The first pane and the last are cut: their slices were seen, but only a part of their rows.
        least *= 1 + 1 / span if span > 1 else 1
    shared = seen.shared - CHANCE
    if shared <= 0:
        return least
    pool = seen.halves[0] * seen.halves[1] / shared
    stretch = max(stretch, seen.rows)
    # Of `stretch` draws from a pool so many are of different slices, whichever they are.
    return max(least, stretch / (pool * (1 - exp(-stretch / pool))))


def looked(job: Job) -> Expected | str:
    """Sample rows of a job that route "catalyst-panes" could run; or say why not."""
    stored = job.frame.storageLevel
    if not (stored.useMemory or stored.useDisk):
        return "rows are read beforehand only of a DataFrame that is cached itself"
    if job.most_rows < LEAST:
        return "there are few rows"
    found = None
    for limit in (FEW, ROWS):
        try:
            table = sliced(job, limit)
        except PySparkException as error:
            # The rows fail, and then so does the action.
            first, *_ = str(error).strip().splitlines()
            return f"sampling rows failed: {first}"
        found = seen(table)
        if found is None or found.suffices or table.num_rows < limit:
            break
    if found is None:
        return "few of the rows that were read have a time"
    rows = job.most_rows
    if not found.is_in_order and isfinite(rows):
        # Slices are all over a partition; in order of time it is as long as a pane, or longer.
        rows /= job.frame.rdd.getNumPartitions()
    panes_per_time = sum(1 / period for period, _ in panes.families(job))
    return Expected(
        estimate(found, panes_per_time, rows),
        f"estimated from {found.rows:,} rows, in {found.slices:,} slices",
    )


def seen(table: pa.Table) -> Seen | None:
    """Return what neighbouring rows show, which are a slice and a time each; None of too few with a time."""
    rows = table.drop_null()
    if rows.num_rows < ENOUGH:
        return None
    middle = rows.num_rows // 2
    halves = (rows.slice(0, middle), rows.slice(middle))
    first, second = (pc.count_distinct(half["slice"]).as_py() for half in halves)
    early, late = (
        pc.quantile(half["time"], [0.1, 0.9], interpolation="lower").to_pylist() for half in halves
    )
    every = pc.count_distinct(rows["slice"]).as_py()
    return Seen(rows.num_rows, every, (first, second), (tuple(early), tuple(late)))


def sliced(job: Job, limit: int) -> pa.Table:
    """Return slices of the first rows, as hashes, and their times, as numbers in the unit of panes."""
    kind = job.type_of(job.query.time)
    time = f"bigint({job.time})"
    if isinstance(kind, spark.DateType):
        time = f"bigint(unix_date({job.time}))"
    elif job.is_timestamp:
        time = f"unix_micros(cast({job.time} as timestamp))"
    starts = [sql.pane(period, offset, spark.LongType(), time) for period, offset in panes.families(job)]
    slice_of = f"xxhash64({', '.join([*job.keys, panes.latest(starts)])})"
    # Rows without a time count for the limit: Spark would read on and on for others.
    return job.columns.selectExpr(f"{slice_of} as slice", f"{time} as time").limit(limit).toArrow()
