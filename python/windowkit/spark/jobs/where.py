"""Conditions on results in Spark: what they say of rows, as SQL on the DataFrame that a query reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.functions import coalesce, lit
from pyspark.sql.functions import expr as parsed
from pyspark.sql.types import BooleanType, NullType

from windowkit.errors import InvalidValue, UnknownColumn
from windowkit.language.checks import suggested
from windowkit.language.conditions import Condition, Nested, Opaque, Test, Tree, condition
from windowkit.language.pushdown import Split, split
from windowkit.language.query import Query
from windowkit.spark.jobs.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["filtered", "minds_no_case", "narrowed", "split_of", "sql_of"]

LONG_AGO: Final = "timestamp '0001-01-01'"


def split_of(where: Any, query: Query, job: Job, *, by_time: bool = True) -> Split:
    """Return a condition on the results of a query, and what it says of the rows of its job."""
    asked = replace(job.query, window_columns=query.window_columns)
    return split(
        where if isinstance(where, Condition) else condition(where),
        asked,
        job.schema,
        any_case=minds_no_case(job.frame.sparkSession),
        by_time=by_time,
    )


def minds_no_case(session: SparkSession) -> bool:
    """Whether names of a session are found in any case."""
    return str(session.conf.get("spark.sql.caseSensitive", "false")).lower() != "true"


def narrowed(job: Job, rows: Tree | None) -> Job:
    """Return a job of the rows of which a condition holds, before anything else is done to them.

    Spark finds out by itself which partitions and files these are in.
    """
    if rows is None:
        return job
    kinds = {name: job.schema.field(name).type for name in job.positions}
    names = job.frame.columns
    # As in `columns_at`, Spark is not asked to find columns by names of the user's.
    numbered = job.frame.toDF(*(f"i{at}" for at in range(len(names))))
    condition = sql_of(rows, lambda name: f"i{job.positions[name]}", kinds)
    if job.frame.isStreaming:
        # Rows of all keys move the watermark. Spark would move a filter that does not read the time below
        # that, so this one reads it; there are no such times, and if there were, results are filtered too.
        condition = f"({condition}) or i{job.positions[job.query.time]} < {LONG_AGO}"
    chosen = numbered.where(condition)
    return replace(job, frame=chosen.toDF(*names))


def filtered(result: DataFrame, where: Condition) -> DataFrame:
    """Return the windows of which a condition holds, as Spark evaluates it.

    Raises
    ------
    UnknownColumn, InvalidValue
        Spark cannot evaluate it.
    """
    try:
        # Connect resolves columns when it is asked for the schema, and then not those of a filter.
        (found,) = result.select(coalesce(parsed(where.text))).schema.fields
        made = result.where(where.text)
        if isinstance(found.dataType, BooleanType | NullType):
            # Of an aggregate that selects one row, but is no condition on rows.
            _ = made.select(lit(True)).schema
    except PySparkException as error:
        message = str(error).strip().splitlines()[0]
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            names = [field.name for field in result.schema.fields]
            given = (error.getMessageParameters() or {}).get("objectName", "").strip("`")
            raise UnknownColumn(
                f"where: {where.text!r} names {given!r}, which the result does not have; its columns are "
                f"{', '.join(map(repr, names))}{suggested(given, names)}"
            ) from None
        raise InvalidValue(f"where: Spark does not evaluate {where.text!r}: {message}") from None
    if not isinstance(found.dataType, BooleanType | NullType):
        raise InvalidValue(
            f"where: {where.text!r} is of type {found.dataType.simpleString()}; a condition is true or false"
        )
    return made


def sql_of(tree: Tree, name: Callable[[str], str], kinds: dict[str, pa.DataType]) -> str:
    """Return a condition on rows as SQL, with the literals as they were written.

    Parameters
    ----------
    tree : Nested or Test
    name : callable
        Returns what a column is called.
    kinds : dict of str to pyarrow.DataType
        Of columns.
    """
    assert not isinstance(tree, Opaque), "nothing is said of rows by what is not read"
    if isinstance(tree, Nested) and not tree.members:
        return str(tree)
    if isinstance(tree, Nested):
        return f" {tree.word} ".join(f"({sql_of(each, name, kinds)})" for each in tree.members)
    (column,) = tree.path
    own = replace(tree, path=(name(column),))
    if not tree.shift:
        return str(own)
    return f"{name(column)} {tree.operator} {moved(tree, kinds[column])}"


def moved(test: Test, kind: pa.DataType) -> str:
    """Return a time some distance from a literal, exactly, as SQL of literals only."""
    (value,) = test.values
    if pa.types.is_integer(kind):
        return str(value.given + test.shift)
    if pa.types.is_date(kind):
        # Whole days: windows of dates have no others.
        return f"date_add(cast({value.text} as date), {test.shift // 86_400_000_000_000})"
    micros = test.shift // 1000
    if kind.tz is None:
        return f"cast({value.text} as timestamp_ntz) + interval '{micros}' microsecond"
    # An interval of days would be added by the session's clock.
    return f"timestamp_micros(unix_micros(cast({value.text} as timestamp_ltz)) + {micros})"
