"""Three stages: partition, partial evaluation, aggregation (Katsipoulakis et al. 2017, Fig. 3).

Rows are partitioned first, then each partition makes slices of its rows, and slices of one key and pane,
which a split key has in several partitions, are joined where windows are made of them. Slices are made by
Catalyst, or, where it cannot hold their partials, in Rust, and packed. Without windows all rows are in one
pane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql.functions import col, lit

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.aggregates import Aggregate
from windowkit.language.checks import a_type, as_given, distinct_names, items
from windowkit.language.expressions import expressions_of
from windowkit.language.query import Query
from windowkit.language.windows import tumbling
from windowkit.spark.jobs import Job, check_frame, computed, identifier, job
from windowkit.spark.partition import PARTITION, Partitioning, codes, numbered, partitioning
from windowkit.spark.routes import packed, panes
from windowkit.spark.routes.rule import Refusals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["explain", "grouped", "run", "staged"]

MOMENT: Final = "windowkit moment"
BY_TIME: Final = ("first", "last", "first_valid", "last_valid")


@dataclass(frozen=True)
class Staged(Job):
    """A job whose rows are partitioned before all else; `unheld` says what Catalyst cannot hold, if so."""

    made: Partitioning
    unheld: str | None

    @cached_property
    def columns(self) -> DataFrame:
        """Return the columns the query reads, in their partitions, for Catalyst with `PARTITION`."""
        placed = self.made.numbered(self.frame)
        columns = [f"i{self.positions[name]} as {self.internal(name)}" for name in self.query.inputs]
        if self.unheld is None:
            columns.append(identifier(PARTITION))
        return placed.selectExpr(*columns)


def staged(checked: Job, partitioner: str | Partitioning, n: int | None) -> Staged:
    """Decide how the rows of a job are partitioned.

    Raises
    ------
    InvalidType, InvalidValue
        The arguments do not fit each other or the job, or its windows are not made of slices.
    """
    query = checked.query
    refusals = Refusals.of(checked)
    unheld = refusals[panes.ROUTE]
    if unheld is not None:
        reason = refusals[packed.ROUTE] or packed.rows_instead(checked)
        if reason is not None:
            raise InvalidValue(f"partitioner: there are no partial aggregates to make, as {reason}")
    if not query.by:
        raise InvalidValue("partitioner: there are no keys; rows are partitioned by keys")
    if isinstance(partitioner, Partitioning):
        if n is not None:
            raise InvalidValue(
                f"n: {n} is given with a Partitioning, which has its own {partitioner.partitions:,}; n goes "
                "with the name of a method"
            )
        if set(partitioner.keys) != set(query.by):
            raise InvalidValue(
                f"partitioner: it is by {', '.join(partitioner.keys)}, the query by {', '.join(query.by)}; "
                "both must have the same keys"
            )
        return Staged(
            *(query, checked.frame, checked.positions, checked.schema, checked.plan, partitioner, unheld),
            window_columns=checked.window_columns,
        )
    if not isinstance(partitioner, str):
        raise InvalidType(
            f"partitioner: {as_given(partitioner)} is {a_type(partitioner)}; partitioner is the name of a "
            "method, or a Partitioning"
        )
    if n is None:
        raise InvalidValue(
            f"n: None is given with partitioner={partitioner!r}; n is the number of partitions"
        )
    rows = numbered(checked.frame)
    read = rows.select(*(col(f"i{checked.positions[name]}").alias(name) for name in query.inputs))
    positions = {name: at for at, name in enumerate(query.inputs)}
    made = partitioning(read, n, query.by, partitioner)
    return Staged(
        *(query, read, positions, checked.schema, checked.plan, made, unheld),
        window_columns=checked.window_columns,
    )


def run(job: Staged) -> DataFrame:
    """Return the windows of a job, lazily."""
    return panes.run(job, (PARTITION,)) if job.unheld is None else packed.run(job)


def explain(job: Staged) -> list[str]:
    """Return the lines of `windowkit.spark.explain` that say what runs where."""
    held = job.unheld is None
    where = "Catalyst" if held else f"Rust, as {job.unheld}"
    _, *slicing, shuffle, windows = panes.explain(job) if held else packed.explain(job)
    return [
        "stage 1, partition: every row, once",
        *(f"  {line}" for line in job.made.explain().splitlines()),
        f"stage 2, partial evaluation, in {where}: each partition makes slices of its own rows",
        *slicing,
        shuffle,
        windows.replace("stage 2", "stage 3, aggregation"),
    ]


def grouped(
    df: DataFrame,
    keys: str | Sequence[str],
    aggs: Aggregate | Sequence[Aggregate],
    partitioner: str | Partitioning,
    n: int | None,
) -> DataFrame:
    """Aggregate without windows; see `windowkit.spark.aggregate`."""
    check_frame(df)
    names = distinct_names("keys", keys)
    wanted = items("aggs", aggs, Aggregate, "an aggregate like windowkit.sum('v'), or a sequence of them")
    for each in wanted:
        if each.function in BY_TIME:
            raise InvalidValue(f"aggs: {each} is by time; a query has a time")
    # One pane holds all moments there are. Keys have names that windows do not take.
    within = {name: f"windowkit key {at}" for at, name in enumerate(names)}
    # Of the rows as they are given: without these keys and this moment.
    wanted = tuple(each.resolved(df.columns) for each in wanted)
    expressions = expressions_of(name for each in wanted for name in each.inputs)
    df = computed(df, expressions, replaces=False)
    aggregates = tuple(each.plain for each in wanted)
    query = Query(tuple(within.values()), MOMENT, (tumbling(1),), aggregates, window_columns="struct")
    keyed = {internal: codes.by_number(codes.position("keys", name, df)) for name, internal in within.items()}
    rows = numbered(df)
    frame = rows.select(*rows.columns, *(column.alias(name) for name, column in keyed.items()))
    frame = frame.toDF(*df.columns, *keyed).withColumn(MOMENT, lit(0).cast("bigint"))
    if isinstance(partitioner, Partitioning) and set(partitioner.keys) == set(names):
        partitioner = replace(partitioner, keys=tuple(within[name] for name in partitioner.keys))
    result = run(staged(job(frame, query), partitioner, n))
    aggregated = result.columns[len(names) + 1 :]
    found = numbered(result).drop(f"i{len(names)}")
    return found.toDF(*names, *aggregated)
