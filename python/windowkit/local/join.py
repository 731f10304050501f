"""Evaluate joins in this process: two tables of Arrow data in, one out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.frames import Passing, untyped, whole_schema
from windowkit.arrow.given import is_relation, refuse_spark, refuse_twice
from windowkit.arrow.moments import in_one_unit
from windowkit.arrow.results import apart, apart_schema, joined
from windowkit.arrow.source import Source
from windowkit.errors import InvalidValue
from windowkit.language.durations import Measure
from windowkit.language.expressions import hinting
from windowkit.language.join import Join
from windowkit.language.lines import text_of
from windowkit.language.windows import time_type, units
from windowkit.local.query import checked_threads, lent, warn_of_times

__all__ = [
    "Band",
    "Side",
    "batches",
    "bound",
    "described",
    "explain",
    "origins_of",
    "refuse_sparks",
    "run",
    "schema",
    "schema_of_result",
    "shaped",
    "time_of",
]

Result = TypeVar("Result", pa.Table, pa.RecordBatch)

WINDOW: Final = ("window_start", "window_end")

BOTH: Final = "; left and right both are Spark DataFrames, or neither is"
IN_SPARK: Final = "join.run(left, right) returns a DataFrame"
KINDS: Final = {
    "inner": "pairs of partners",
    "left": "pairs of partners, and left rows without a partner",
    "right": "pairs of partners, and right rows without a partner",
    "full": "pairs of partners, and rows of both sides without a partner",
    "semi": "left rows that have a partner, once",
    "anti": "left rows without a partner",
}


def run(
    join: Join,
    left: Any,
    right: Any,
    *,
    threads: int | None = None,
    validate: bool | None = None,
    form: str = "pyarrow",
) -> Any:
    """Evaluate `join`; see `windowkit.Join.run`."""
    refuse_sparks(left, right, BOTH)
    count = checked_threads(threads)
    # Rows retract those that are equal in all columns: then frames do not pass unread.
    library = "pyarrow" if join.has_weight else form
    passing = (
        Passing(
            "left",
            untyped(left, [*join.left_by, join.left_time]),
            library,
            [*join.left_by, join.left_time],
            join.left_columns,
        ),
        Passing(
            "right",
            untyped(right, [*join.right_by, join.right_time]),
            library,
            [*join.right_by, join.right_time],
            columns_of_right(join),
        ),
    )
    planned, made = started(join, passing[0].rows, passing[1].rows, count, validate)
    # Not as an iterator, which would end if a handler of signals raised StopIteration.
    batches = [pa.record_batch(batch) for batch in made.rest()]
    table = shaped(pa.Table.from_batches(batches, pa.schema(planned.output_schema)), join)
    origins = origins_of(planned, join)
    found = [
        {
            origin[1]: values
            for origin, values in zip(origins, table.columns, strict=True)
            if origin is not None and origin[0] is of_left
        }
        for of_left in (True, False)
    ]
    passed = [side.passed(columns) for side, columns in zip(passing, found, strict=True)]
    # Without a left row, its keys are those of the right one.
    shared = list(zip(join.left_by, join.right_by, strict=True)) if join.how in ("right", "full") else []
    times = dict(zip(origins, table.schema.types, strict=True))
    return joined(table, form, origins, left, right, passed, shared, times.get((True, join.left_time)))


def batches(
    join: Join, left: Any, right: Any, *, threads: int | None = None, validate: bool | None = None
) -> pa.RecordBatchReader:
    """Evaluate `join` batch by batch; see `windowkit.Join.batches`."""
    refuse_sparks(left, right, f"; batches are of one process; {IN_SPARK}")
    planned, made = started(join, left, right, checked_threads(threads), validate)
    return lent(schema_of_result(planned, join), made, lambda batch: shaped(pa.record_batch(batch), join))


def started(
    join: Join, left: Any, right: Any, threads: int, validate: bool | None
) -> tuple[_native.Join, _native.Batches]:
    """Return `join` bound to two tables, and its result, of which no batch is made yet."""
    refuse_twice({"left": left, "right": right})
    left = untyped(left, [*join.left_by, join.left_time])
    right = untyped(right, [*join.right_by, join.right_time])
    weights = [tuple(filter(None, [each])) for each in (join.left_weight, join.right_weight)]
    chosen = read((*join.left_by, *weights[0]), join.left_time, join.left_columns)
    own = Source("left", left, chosen, validate=validate)
    if is_relation(left):
        # A connection of DuckDB has one open result, and the right side may be another one of it.
        own = Source("left", own.table(), validate=False)
    columns = columns_of_right(join)
    chosen = read((*join.right_by, *weights[1]), join.right_time, columns)
    other = Source("right", right, chosen, validate=validate)
    left_schema, right_schema = in_one_unit(
        own.schema, join.left_time, other.schema, join.right_time, time_of(join)
    )
    own.align(left_schema)
    other.align(right_schema)
    planned = bound(join, own.schema, other.schema)
    own.time(join.left_time, time_of(join))
    other.time(join.right_time, time_of(join))
    with own, other:
        made = planned.run(own, other, threads)
    for source, time in ((own, join.left_time), (other, join.right_time)):
        warn_of_times(source, time, "; rows without a time have no partner")
    return planned, made


def columns_of_right(join: Join) -> tuple[str, ...] | None:
    """Return the columns of the right side that the result has; None for all but those of the keys."""
    return () if join.how in ("semi", "anti") else join.right_columns


def read(by: tuple[str, ...], time: str, columns: tuple[str, ...] | None) -> list[str] | None:
    """Return the columns of a side that are read; None for all."""
    return None if columns is None else list(dict.fromkeys([*by, time, *columns]))


def schema(join: Join, left: Any, right: Any) -> pa.Schema:
    """Return the schema of the result; see `windowkit.Join.schema`."""
    refuse_sparks(left, right, f"; it has no schema in this process; {IN_SPARK}, which has the schema")
    of_left, of_right = [*join.left_by, join.left_time], [*join.right_by, join.right_time]
    own = whole_schema(untyped(left, of_left), of_left, "left")
    other = whole_schema(untyped(right, of_right), of_right, "right")
    return schema_of_result(bound(join, own, other), join)


def shaped(result: Result, join: Join) -> Result:
    """Return a result of the core with its windows in two columns."""
    return result if join.windows is None else apart(result, windows_of(result.schema))


def schema_of_result(planned: _native.Join, join: Join) -> pa.Schema:
    """Return the schema of what `shaped` returns."""
    schema = pa.schema(planned.output_schema)
    return schema if join.windows is None else apart_schema(schema, windows_of(schema))


def windows_of(schema: pa.Schema) -> dict[int, str]:
    """Return which column of the core holds windows; see `edges` of `windowkit.arrow.results`.

    It is the last one, or comes right before weights or shares of keys.
    """
    return {len(schema) - (2 if schema.names[-1] in ("weight", "shed_share") else 1): "window"}


def origins_of(planned: _native.Join, join: Join) -> list[tuple[bool, str] | None]:
    """Return where columns of what `shaped` returns come from; see `_native.Join.origins`."""
    origins = planned.origins
    # Windows are one column there, and two here; no other column after these is of a side.
    return [*origins, *([] if join.windows is None else [None])]


@dataclass(frozen=True)
class Side:
    """A side of a join: its schema, keys and time, and those of its columns that the result has."""

    schema: pa.Schema
    by: tuple[str, ...]
    time: str
    columns: tuple[str, ...] | None
    weight: str | None = None


@dataclass(frozen=True)
class Band:
    """How far a join reaches before and after a row, and which of the ends it includes."""

    before: Measure
    after: Measure
    closed: str


def bound(
    join: Join, left: pa.Schema, right: pa.Schema, *, early: bool = False, sheds: bool = False
) -> _native.Join:
    """Check `join` against the schemas of its sides, which have times of one unit in it.

    If `early`, rows without a partner are in the result at once, and retracted once they have one. If
    it `sheds`, keys may be dropped, and results say which share is left.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It does not fit.
    """
    left, right = in_one_unit(left, join.left_time, right, join.right_time, time_of(join))
    within = None
    if join.within is not None:
        within = Band(*join.within, join.closed)
    with hinting(left, right):
        planned = _native.Join(
            Side(left, join.left_by, join.left_time, join.left_columns, join.left_weight),
            Side(right, join.right_by, join.right_time, join.right_columns, join.right_weight),
            within,
            join.windows,
            join.how,
            join.suffix,
            early,
            sheds,
        )
    if join.windows is not None:
        refuse_names(planned)
    return planned


def refuse_names(planned: _native.Join) -> None:
    """Refuse columns of the sides that are called as those of windows are.

    Raises
    ------
    InvalidValue
    """
    for name, origin in zip(pa.schema(planned.output_schema).names, planned.origins, strict=True):
        if origin is not None and name in WINDOW:
            side = "left" if origin[0] else "right"
            raise InvalidValue(
                f"windows: the result has a column {name!r}, and so would the {side} side; rename its column "
                f"{origin[1]!r}, or choose others by {side}_columns"
            )


def time_of(join: Join) -> pa.DataType:
    """Return a type of times that a join fits, for sides that have none."""
    if join.windows is not None:
        return time_type([join.windows])
    return pa.int64() if any(map(counts_units, join.within or ())) else pa.timestamp("us")


def counts_units(length: Measure) -> bool:
    """Whether a length is a number of units of an integer column: 0 fits any."""
    return isinstance(length, int) and length > 0


def refuse_sparks(left: Any, right: Any, instead: str) -> None:
    """Refuse DataFrames of Spark, of either side."""
    refuse_spark("left", left, instead)
    refuse_spark("right", right, instead)


def explain(join: Join, left: Any = None, right: Any = None) -> str:
    """Describe how `join` is evaluated; see `windowkit.Join.explain`.

    Examples
    --------
    >>> import windowkit as wk
    >>> join = wk.join(
    ...     by={"src": "dst"},
    ...     left_time="sent",
    ...     right_time="seen",
    ...     within=("2 minutes", "0 seconds"),
    ...     how="left",
    ... )
    >>> print(join.explain())
    join by src = dst over sent and seen: within (2 minutes, 0 seconds), left
    partners: right rows from 2 minutes before the time of a left row to that time, with both ends
    result: pairs of partners, and left rows without a partner
    tables
      rows of both sides are stored, and sorted by key and time unless each key's rows are in order
      a sweep over both finds the partners of each row
    streams
      left rows are stored until the right side is complete beyond their time
      right rows are stored until the left side is complete beyond 2 minutes after their time
    """
    lines = [
        *described(join),
        "tables",
        "  rows of both sides are stored, and sorted by key and time unless each key's rows are in order",
        "  a sweep over both finds the partners of each row",
        "streams",
        *stored(join),
    ]
    if left is not None:
        lines += ["output", *(f"  {each.name}: {each.type}" for each in schema(join, left, right))]
    return text_of(lines)


def described(join: Join) -> list[str]:
    """Return the lines of `explain` that do not depend on where it is evaluated."""
    where = "that are in one window with a left row, once for each such window"
    if join.within is not None:
        before, after = join.within
        first = f"{before} before the time of a left row" if units(before) else "the time of a left row"
        last = f"{after} after it" if units(after) else "that time"
        ends = {"both": "both ends", "left": "the first end only", "right": "the last end only"}
        where = f"from {first} to {last}, with {ends.get(join.closed, 'neither end')}"
    weights = {"left": join.left_weight, "right": join.right_weight}
    retracting = [
        f"weights: a {side} row whose {name} is -1 retracts one that is equal in all columns"
        for side, name in weights.items()
        if name is not None
    ]
    return [f"join {join}", f"partners: right rows {where}", *retracting, f"result: {KINDS[join.how]}"]


def stored(join: Join) -> list[str]:
    """Describe how long operators store rows."""
    if join.within is None:
        return ["  rows are stored until the other side is complete beyond the end of their last window"]
    before, after = (f"{each} after their time" if units(each) else "their time" for each in join.within)
    return [
        f"  left rows are stored until the right side is complete beyond {after}",
        f"  right rows are stored until the left side is complete beyond {before}",
    ]
