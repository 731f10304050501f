"""A look at some rows before a job: how many rows a slice has, where Spark shows them at little cost.

Spark tells nothing of a DataFrame's values before a job runs, and which route is the fastest depends on them.
So where rows are in memory or in columnar files, filtered and projected at most, the first rows of one
partition are looked at, in a job of one task: a few, and in another job more of them, where the few do not
tell. What a few rows show of many is what `estimate` is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as spark
from pyspark.sql.functions import lit, monotonically_increasing_id

from windowkit.spark.jobs import Job, sql
from windowkit.spark.routes import panes
from windowkit.spark.routes.rule import PANES_FROM, Expected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Seen", "estimate", "looked"]

FEW: Final = 1 << 11
"""Rows that are looked at to begin with: a job that returns so many takes hardly longer than an empty one."""
ROWS: Final = 1 << 14
"""Rows that are looked at where the few do not tell."""
SURE: Final = 1 << 6
"""Slices that two halves share from which the size of their pool is known: within a quarter, mostly."""
LEAST: Final = 1 << 20
"""Rows, as Spark estimates their number, from which a look can save more than it takes."""
LEAST_BYTES: Final = 1 << 20
"""Bytes of files from which they may hold so many rows: how well these are compressed nobody tells."""
ENOUGH: Final = 1 << 8
"""Rows that tell something."""
CHANCE: Final = 3
"""Slices that two halves may share by chance, as at the edge between them."""
NARROW: Final = ("Project", "Filter", "SubqueryAlias", "View")
FILES: Final = ("ParquetFileFormat", "OrcFileFormat")
MANY: Final = 8
"""Partitions from which one of them is little to read beforehand."""
DEAR: Final = {
    "PLAN_EXPRESSION": "a subquery",
    "PYTHON_UDF": "a user's function",
    "SCALA_UDF": "a user's function",
}
"""Patterns, as Spark calls them, of expressions that a look is not to evaluate."""
NEWLINE: Final = "\n"
POSITION: Final = (1 << 33) - 1
"""Of `monotonically_increasing_id` the bits that count the rows of a partition."""


@dataclass(frozen=True)
class Seen:
    """What was seen of neighbouring rows, and of the two halves of them.

    Parameters
    ----------
    rows, slices : int
    halves : tuple of int
        Slices of each half; those that both have are slices of both.
    times : tuple of tuple of int
        Of each half, the times that a tenth of its rows are not after, and nine tenths.
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
    def tells(self) -> bool:
        """Whether more rows would hardly tell more: which route is taken, or how many slices there are."""
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
        one pool of slices, whose size two samples tell by what they share (as Lincoln and Petersen count
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
    """Look at rows of a job that route "catalyst-panes" could run; or say why not.

    Costs a Spark job of one task, or two of them, which read the columns of keys and time of the first rows
    of a partition; of a whole partition, though one of many, where rows are filtered.
    """
    if not hasattr(job.frame, "_jdf"):
        return "Spark Connect does not tell where rows are from"
    try:
        return estimated(job)
    except (PySparkException, Py4JError) as error:
        # The rows fail, and then so does the action, or this Spark has other plans than those known here.
        return f"a look at rows failed: {str(error).strip().partition(NEWLINE)[0]}"


def estimated(job: Job) -> Expected | str:
    plan = job.columns._jdf.queryExecution().withCachedData()
    nodes = list(narrow(plan))
    jvm = job.frame.sparkSession._jvm
    assert jvm is not None
    reason = dear(nodes, jvm.org.apache.spark.sql.catalyst.trees.TreePattern)
    if reason is not None:
        return reason
    count = job.most_rows
    if kind_of(nodes[-1]) == "LogicalRelation":
        if int(str(nodes[-1].stats().sizeInBytes())) < LEAST_BYTES:
            return "there are few bytes"
        count = max(count, LEAST)
    if count < LEAST:
        return "there are few rows"
    rows = sliced(job)
    if "Filter" in map(kind_of, nodes):
        told = filtered_rows(rows)
        if isinstance(told, str):
            return told
    else:
        told = first_rows(rows)
    if told is None:
        return "few rows are left of those that were looked at"
    # In order of time, a partition is as long as the pane, or longer; else slices are all over it.
    most = count if told.is_in_order else count / rows.rdd.getNumPartitions()
    density = sum(1 / period for period, _ in panes.families(job))
    return Expected(
        estimate(told, density, most),
        f"estimated from {told.rows:,} rows, in {told.slices:,} slices",
    )


def first_rows(rows: DataFrame) -> Seen | None:
    """Look at the first rows there are: Spark reads no more of them."""
    told = None
    for limit in (FEW, ROWS):
        taken = rows.limit(limit).collect()
        told = seen(seer()(taken))
        if told is None or told.tells or len(taken) < limit:
            break
    return told


def filtered_rows(rows: DataFrame) -> Seen | str | None:
    """Look at rows that a filter leaves: of one partition, lest Spark reads them all in search of some."""
    first = rows.where((monotonically_increasing_id().bitwiseAND(lit(POSITION))) < ROWS).rdd
    partitions = first.getNumPartitions()
    if partitions < MANY:
        return f"rows are filtered, and one of {partitions} partitions would be much to read beforehand"
    return seen(rows.sparkSession.sparkContext.runJob(first, seer(), [partitions // 2]))


def seen(told: list[Any]) -> Seen | None:
    return Seen(*told[0]) if told else None


def sliced(job: Job) -> DataFrame:
    """Return the slice of each row, as a hash, and its time, as a number in the unit of panes."""
    kind = job.type_of(job.query.time)
    time = f"bigint({job.time})"
    if isinstance(kind, spark.DateType):
        time = f"bigint(unix_date({job.time}))"
    elif job.is_timestamp:
        time = f"unix_micros(cast({job.time} as timestamp))"
    starts = [sql.pane(period, offset, spark.LongType(), time) for period, offset in panes.families(job)]
    pane = panes.latest(starts)
    # Rows without a time, which a limit is to count, are told apart where they are looked at.
    return job.columns.selectExpr(f"xxhash64({', '.join([*job.keys, pane])}) as slice", f"{time} as time")


def narrow(plan: Any) -> Iterator[Any]:
    """Yield the nodes of an analysed plan down to the first that is no projection or filter, with it."""
    while kind_of(plan) in NARROW:
        yield plan
        plan = plan.children().head()
    yield plan


def kind_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def dear(nodes: list[Any], patterns: Any) -> str | None:
    """Say why rows of an analysed plan, of which these are `narrow`, are not at hand; None if they are."""
    for pattern, what in DEAR.items():
        if nodes[0].containsPattern(getattr(patterns, pattern)()):
            return f"a look at rows would run {what} of the plan"
    source = nodes[-1]
    name = kind_of(source)
    if name == "InMemoryRelation":
        loaded = source.cacheBuilder().isCachedColumnBuffersLoaded()
        return None if loaded else "rows are to be cached, but are not yet"
    if name == "LogicalRelation" and kind_of(source.relation()) == "HadoopFsRelation":
        stored = kind_of(source.relation().fileFormat())
        return None if stored in FILES else "rows are read from files that are no columns"
    return None if name == "Range" else f"a look at rows would run a part of the plan, its {name}"


def seer() -> Any:
    """Return a function that looks at rows; it pickles by value, so that workers need nothing for it."""
    enough = ENOUGH

    def see(rows: Iterator[Any]) -> list[Any]:
        both = [row for row in rows if row[1] is not None]
        if len(both) < enough:
            return []
        middle = len(both) // 2
        halves = [both[:middle], both[middle:]]
        slices = [{row[0] for row in half} for half in halves]
        times = [sorted(row[1] for row in half) for half in halves]
        ends = [(half[len(half) // 10], half[-1 - len(half) // 10]) for half in times]
        return [(len(both), len(slices[0] | slices[1]), tuple(map(len, slices)), tuple(ends))]

    return see
