"""LazyFrames of Polars: results that are computed when they are collected, and what then reaches the input.

Polars asks for some columns of a result, for no more than so many of its rows, and of these for the ones
that meet a condition. Only the aggregates among these columns are computed, and only the columns that they
read are asked of the input. A condition reaches the input where no row of the result depends on the rows that
it leaves out, and where all rows of the result are asked for, not the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from windowkit.arrow.computing import computing, is_by_row
from windowkit.arrow.frames import columns_schema, untyped
from windowkit.arrow.given import is_lazy
from windowkit.arrow.results import formed
from windowkit.arrow.source import Source, columns_read
from windowkit.language.conditions import condition, names_of
from windowkit.language.distinct import Distinct
from windowkit.language.expressions import Expression
from windowkit.language.foreign import is_a, is_spark
from windowkit.language.join import Join
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling
from windowkit.local import join as joins
from windowkit.local import query as queries

if TYPE_CHECKING:
    import polars

    from windowkit.language.engine import Asked

__all__ = ["collected", "scan"]

OF_LEFT: Final = ("inner", "left", "semi", "anti")
"""The joins whose rows each have one left row, so that left rows that are left out take theirs with them."""
OF_RIGHT: Final = ("inner", "right")


@dataclass(frozen=True)
class Side:
    """Data that a result is computed of."""

    data: Any
    decided: frozenset[str] = frozenset()
    """Columns of the result: rows that do not meet a condition on these can be left out of the data."""
    read: frozenset[str] | None = None
    """The columns that are read whichever of the result are wanted; None for all."""
    of: dict[str, str] | None = None
    """Which columns of the result are which columns of the data; by default those of the same name."""

    def rows(self, wanted: Sequence[str], conditions: Sequence[polars.Expr]) -> Any:
        """Return the rows and columns for some columns of a result, in which some conditions hold."""
        if not is_lazy(self.data):
            return self.data
        rows = self.data
        for each in conditions:
            names = each.meta.root_names()
            if names and self.decided.issuperset(names) and is_by_row(each):
                rows = rows.filter(each)
        if self.read is None:
            return rows
        of = {name: name for name in wanted} if self.of is None else self.of
        needed = {of[name] for name in wanted if name in of} | self.read
        return rows.select(name for name in rows.collect_schema() if name in needed)


def scan(
    evaluate: Callable[..., Any], asked: Asked, data: Sequence[Any], options: dict[str, Any]
) -> polars.LazyFrame:
    """Return the result of `evaluate` over data, the first of which is a LazyFrame, as a LazyFrame.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        What is asked does not fit the data.
    """
    from polars.io.plugins import register_io_source

    data = [data[0], *(kept(asked, each, options.get("validate")) for each in data[1:])]
    empties = [emptied(each) for each in data]
    # Whatever does not fit is refused now, and not where the result is collected.
    schema = evaluate(asked, *empties, form="polars", **options).schema
    sides = sides_of(asked, data, empties, options)
    tested = columns_tested(options.get("where"))

    def source(
        columns: list[str] | None, condition: polars.Expr | None, rows: int | None, size: int | None
    ) -> Iterator[polars.DataFrame]:
        if rows == 0:
            return
        named = list(schema) if columns is None else columns
        wanted = named if condition is None else [*named, *condition.meta.root_names()]
        own = narrowed(asked, [*wanted, *tested])
        # Polars hands over a number of rows where it cuts before it filters.
        conditions = conjuncts(condition) if rows is None else []
        inputs = [side.rows(wanted, conditions) for side in sides]
        for frame in frames(evaluate, own, inputs, empties, options):
            if rows is not None:
                frame = frame.head(rows)
                rows -= frame.height
            if condition is not None:
                frame = frame.filter(condition)
            yield from frame.select(named).iter_slices(size or max(frame.height, 1))
            if rows == 0:
                return

    return register_io_source(source, schema=schema, validate_schema=True, is_pure=True)


def frames(
    evaluate: Callable[..., Any],
    asked: Asked,
    inputs: Sequence[Any],
    empties: Sequence[Any],
    options: dict[str, Any],
) -> Iterator[polars.DataFrame]:
    """Yield a result, in parts where neither it nor the rows of the data need be in memory."""
    if isinstance(asked, Query):
        # The types of keys and times are those of the data, whose rows are not needed for that.
        plain, given = queries.fitted(asked, empties[0])
        time = given.field(str(plain.time)).type
        for batch in queries.batches(asked, *inputs, **options):
            yield formed(pa.Table.from_batches([batch]), "polars", asked, empties[0], time)
    else:
        yield evaluate(asked, *map(collected, inputs), form="polars", **options)


def collected(data: Any) -> Any:
    """Return a LazyFrame as a DataFrame, and all else as it is."""
    return data.collect(engine="streaming") if is_lazy(data) else data


def kept(asked: Asked, data: Any, validate: bool | None) -> Any:
    """Return the second data of what is asked as data that can be read several times.

    Of pandas, only all values of a column of objects say which type it has in Arrow: that is found once.
    """
    again = isinstance(data, pa.Table | pa.RecordBatch) or is_lazy(data) or is_spark(data)
    if again or is_a(data, "polars", "DataFrame"):
        return data
    if isinstance(asked, Join):
        read = joins.read(asked.right_by, asked.right_time, joins.columns_of_right(asked))
        data = untyped(data, [*asked.right_by, asked.right_time])
        return Source("right", data, read, validate=validate).table()
    assert isinstance(asked, Rolling), "nothing else is asked of two"
    read = columns_read(asked, computing("events", asked.expressions))
    data = untyped(data, [*asked.by, *asked.placing])
    return Source("events", data, read, validate=validate).table()


def emptied(data: Any) -> Any:
    """Return data without its rows."""
    if is_lazy(data):
        import polars as pl

        return pl.DataFrame(schema=data.collect_schema())
    return data if is_spark(data) else data[:0]


def columns_tested(where: Any) -> set[str]:
    """Return the columns of the result that a condition of the query's own reads."""
    return set() if where is None else set(names_of(condition(where).tree))


def narrowed(asked: Asked, wanted: Sequence[str]) -> Asked:
    """Return what is asked without aggregates that are not wanted; one is left, as there must be one."""
    if isinstance(asked, Join | Distinct):
        return asked
    if isinstance(asked, Rolling):
        framed = tuple(each for each in asked.aggs if each.name in wanted)
        return replace(asked, aggs=framed or asked.aggs[:1])
    aggs = tuple(each for each in asked.aggs if each.name in wanted) or asked.aggs[:1]
    fill = asked.fill
    if fill is not None and not isinstance(fill, str):
        names = [each.name for each in aggs]
        fill = tuple((name, how) for name, how in fill if name in names) or "null"
    # Policies are of streams, and may name aggregates.
    return replace(asked, aggs=aggs, fill=fill, emit=None)


def conjuncts(condition: polars.Expr | None) -> list[polars.Expr]:
    """Return conditions that hold where this one does, and only there.

    Examples
    --------
    >>> import polars as pl
    >>> a, b, c = pl.col("a") > 1, pl.col("b").is_null(), pl.col("c") | pl.col("d")
    >>> [each.meta.root_names() for each in conjuncts(a & b & c)]
    [['a'], ['b'], ['c', 'd']]
    """
    if condition is None:
        return []
    parts = condition.meta.pop()
    if len(parts) == 2:
        for first, second in (parts, parts[::-1]):
            # An expression does not say which operator it has.
            if (first & second).meta.eq(condition):
                return [*conjuncts(first), *conjuncts(second)]
    return [condition]


def sides_of(
    asked: Asked, data: Sequence[Any], empties: Sequence[Any], options: dict[str, Any]
) -> list[Side]:
    """Return the data of what is asked, and which conditions on its result reach them."""
    if isinstance(asked, Join):
        return sides_of_join(asked, data, empties)
    if isinstance(asked, Distinct):
        keys = exact(asked.by, empties[0])
        return [Side(data[0], keys, frozenset([*asked.by, asked.time]))]
    compute = computing("data", asked.expressions)
    read: Sequence[str] | None = asked.named if compute is None else compute.reads(asked.named)
    read = None if asked.reads_all else read
    own = None if read is None else frozenset(read)
    computed = set(map(str, asked.expressions))
    plain = [key for key in asked.by if not isinstance(key, Expression) and key not in computed]
    # Expressions may look at all rows, of any key.
    keys = exact(plain, empties[-1]) if compute is None or compute.is_by_row else frozenset()
    if len(data) == 1:
        return [Side(data[0], keys, own)]
    # A label asks for a result that does not depend on other labels.
    labels, events = empties
    by, time = options["by"], options["time"]
    alike = {key for key, other in zip(by, asked.by, strict=True) if key == other}
    return [
        Side(data[0], frozenset(labels.columns), frozenset([*by, time])),
        Side(data[1], frozenset(key for key in keys & alike if same_type(key, labels, events)), own, {}),
    ]


def sides_of_join(join: Join, data: Sequence[Any], empties: Sequence[Any]) -> list[Side]:
    """Return the sides of a join, and which conditions on its result reach them."""
    # Of columns that pass as they are, only the names matter here.
    left = columns_schema(empties[0], [*join.left_by, join.left_time], "left")
    right = columns_schema(empties[1], [*join.right_by, join.right_time], "right")
    planned = joins.bound(join, left, right)
    names = pa.schema(planned.output_schema).names
    origins = [(name, *of) for name, of in zip(names, planned.origins, strict=True) if of is not None]
    of_left = {name: own for name, is_left, own in origins if is_left}
    of_right = {name: own for name, is_left, own in origins if not is_left}
    # A condition reads columns by the names of the result.
    decided = {name for name, own in of_left.items() if name == own} if join.how in OF_LEFT else set()
    other = {name for name, own in of_right.items() if name == own} if join.how in OF_RIGHT else set()
    if join.how in OF_LEFT:
        # Partners have equal keys.
        alike = {key for key, own in zip(join.left_by, join.right_by, strict=True) if key == own}
        other |= {key for key in exact([*alike & decided], empties[1]) if same_type(key, *empties)}
    # Which names have a suffix must stay.
    both = {*left.names} & {*right.names}
    reads = [{*join.left_by, join.left_time, *both}, {*join.right_by, join.right_time, *both}]
    chosen = (join.left_columns, join.right_columns)
    read = [None if own is not None else frozenset(each) for each, own in zip(reads, chosen, strict=True)]
    return [
        Side(data[0], frozenset(decided), read[0], of_left),
        Side(data[1], frozenset(other), read[1], of_right),
    ]


def exact(keys: Sequence[str], data: Any) -> frozenset[str]:
    """Return the keys that are equal only if they are the same: 0.0 and -0.0 are two values of one key."""
    if not is_a(data, "polars", "DataFrame"):
        return frozenset()
    kinds = data.schema
    return frozenset(key for key in keys if not kinds[key].is_float() and not kinds[key].is_nested())


def same_type(column: str, one: Any, other: Any) -> bool:
    """Return whether columns of two DataFrames of Polars have one type."""
    both = all(is_a(each, "polars", "DataFrame") for each in (one, other))
    return both and bool(one.schema[column] == other.schema[column])
