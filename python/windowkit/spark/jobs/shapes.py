"""The columns that hold the windows of a result: a struct, as Spark has it, a start and an end, or a day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql import types as spark

from windowkit.language.query import Query
from windowkit.language.window_columns import HALF_A_DAY, Day, day_of
from windowkit.spark.jobs.job import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["in_shape", "shaped", "shaped_schema"]

QUOTED: Final = re.compile(r"[\w(), .*+-]+", re.ASCII)
"""Names that are found by what SQL writes with backticks."""
EPOCH: Final = "timestamp_ntz '1970-01-01 00:00:00'"
MICROSECOND: Final = "interval '0 00:00:00.000001' day to second"


def date_of(start: str, kind: spark.DataType, day: Day) -> str:
    """Return the day on which a window begins, of its start of some type, as SQL writes it; see `Day`."""
    if isinstance(kind, spark.DateType):
        return start
    if isinstance(kind, spark.TimestampType):
        # Spark's casts are by the clocks of the session, which may show a time twice.
        start = f"{EPOCH} + {MICROSECOND} * unix_micros({start})"
        if day.zone is not None:
            start = f"convert_timezone('UTC', {literal(day.zone)}, {start})"
    return f"to_date({start} + {MICROSECOND} * {(HALF_A_DAY - day.shift) // 1000}L)"


def shaped(result: DataFrame, query: Query) -> DataFrame:
    """Return a result with its windows in the columns that the query asks for, of one that has structs."""
    if query.window_columns == "struct":
        return result
    nested = query.nested.columns
    # Quoted in any case, as a column may be called as a literal is.
    numbered, names = result, list(map(quoted, nested))
    if len({name.lower() for name in nested}) < len(nested) or not all(map(QUOTED.fullmatch, nested)):
        # Such names would be ambiguous, or not be found, so columns go by numbers.
        names = [f"o{position}" for position in range(len(nested))]
        numbered = result.toDF(*names)
    window = cast(spark.StructType, result.schema[min(extents(query))].dataType)
    return numbered.selectExpr(*in_shape(names, query, window["start"].dataType))


def in_shape(values: Sequence[str], query: Query, time: spark.DataType) -> Iterator[str]:
    """Yield the columns of a result as SQL, of those of one that has structs, whose windows are of `time`."""
    at = extents(query)
    for position, (value, name) in enumerate(zip(values, query.nested.columns, strict=True)):
        if position not in at or query.window_columns == "struct":
            yield f"{value} as {quoted(name)}"
        elif query.window_columns == "date":
            yield f"{date_of(f'{value}.start', time, day_of(query.windows))} as window_date"
        else:
            yield from (f"{value}.`{edge}` as {at[position]}_{edge}" for edge in ("start", "end"))


def shaped_schema(schema: spark.StructType, query: Query) -> spark.StructType:
    """Return the schema of what `shaped` returns of a result with this one."""
    at, made = extents(query), spark.StructType()
    for position, field in enumerate(schema.fields):
        if position not in at or query.window_columns == "struct":
            made.add(field)
            continue
        start, end = cast(spark.StructType, field.dataType).fields
        if query.window_columns == "date":
            made.add("window_date", spark.DateType(), field.nullable or start.nullable)
            continue
        for edge in (start, end):
            made.add(f"{at[position]}_{edge.name}", edge.dataType, field.nullable or edge.nullable)
    return made


def extents(query: Query) -> dict[int, str]:
    """Return which columns of a result are structs of starts and ends, and what their parts are called."""
    at = query.nested.columns.index(query.window_column, len(query.by))
    return {at: "window"} | ({at + 1: "window_rows"} if query.has_ranks else {})
