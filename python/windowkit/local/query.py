"""Evaluate a query in this process: Arrow data in, Arrow data out, with the GIL released around all work."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.computing import computing
from windowkit.arrow.frames import columns_schema, untyped
from windowkit.arrow.moments import timed
from windowkit.arrow.reading import read_types
from windowkit.arrow.results import dated, dated_schema, flat, flat_schema, formed
from windowkit.arrow.source import Source, columns_read, opened
from windowkit.errors import InvalidValue
from windowkit.language.checks import integer
from windowkit.language.expressions import Expression, hinting
from windowkit.language.fills import of_each
from windowkit.language.query import Query
from windowkit.language.window_columns import Day, day_of
from windowkit.language.windows import time_type
from windowkit.local.turns import Turns

if TYPE_CHECKING:
    from windowkit.local.where import Where

__all__ = ["batches", "check_mark", "fitted", "lent", "plan", "run", "schema"]
__all__ += [
    "checked_threads",
    "shaped",
    "shaped_schema",
    "slices",
    "slices_schema",
    "stream_plan",
    "warn_of_times",
]

Result = TypeVar("Result", pa.Table, pa.RecordBatch)

IN_NO_WINDOW: Final = ", so that the result has no window; rows without a time are in none"
MARK: Final = b"windowkit.slices"
"""Metadata of the schema of slices: of which query they are."""


def run(
    query: Query,
    data: Any,
    *,
    threads: int | None = None,
    validate: bool | None = None,
    form: str = "pyarrow",
    where: Any = None,
) -> Any:
    """Evaluate `query`; see `windowkit.Query.run`."""
    count = checked_threads(threads)
    own, source = asked(query, data, validate)
    planned = plan(own, source.schema)
    chosen = conditioned(where, own, planned, source)
    with source:
        table = pa.RecordBatchReader.from_stream(planned.run(source, count)).read_all()
    warn_of_times(source, own.time, IN_NO_WINDOW)
    table = shaped(table, query)
    time = source.schema.field(str(own.time)).type
    return formed(table if chosen is None else chosen.windows(table), form, query, data, time)


def conditioned(where: Any, query: Query, planned: _native.Plan, source: Source) -> Where | None:
    """Return the condition on results, if there is one, and have the source leave rows out."""
    if where is None:
        return None
    # It imports pyarrow.dataset, which imports pandas.
    from windowkit.local.where import Where

    result = shaped_schema(pa.schema(planned.output_schema), query)
    chosen = Where(where, query, source.schema, result)
    if chosen.rows is not None:
        source.keep(chosen.rows)
    return chosen


def batches(
    query: Query,
    data: Any,
    *,
    threads: int | None = None,
    validate: bool | None = None,
    where: Any = None,
) -> pa.RecordBatchReader:
    """Evaluate `query` batch by batch; see `windowkit.Query.batches`."""
    count = checked_threads(threads)
    query, source = asked(query, data, validate)
    planned = plan(query, source.schema)
    chosen = conditioned(where, query, planned, source)
    with source:
        result = planned.batches(source, count)
    warn_of_times(source, query.time, IN_NO_WINDOW)
    # As an iterator the core raises its own exceptions, of which a C stream would keep only the text.
    # A generator would end with the first of them, as if there were no more batches.
    return lent(shaped_schema(pa.schema(result.schema), query), result, partial(own_batch, query, chosen))


def warn_of_times(source: Source, time: str, so: str) -> None:
    """Warn if no row that was read has a time, as where text was parsed in another format: `so` follows."""
    if source.rows and source.without_time == source.rows:
        message = f"{source.argument}: none of its {source.rows} rows has a time in column {str(time)!r}{so}"
        # The user's call, which is beyond a number of others that depends on the engine.
        frame, level = sys._getframe(1), 2
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("windowkit."):
            frame, level = frame.f_back, level + 1
        warnings.warn(message, stacklevel=level)


def asked(query: Query, data: Any, validate: bool | None) -> tuple[Query, Source]:
    """Return a query and its data; see `opened`. Rows that all lack a time have one of a type that fits."""
    own, source = opened(query, data, validate)
    source.time(str(own.time), time_type(own.windows, source.schema))
    return own, source


def lent(
    schema: pa.Schema, batches: Iterable[Any], make: Callable[[Any], pa.RecordBatch] | None = None
) -> pa.RecordBatchReader:
    """Return a reader that several threads may read: each batch goes to one of them, as `make` returns it."""
    take = partial(Turns("reader", "make another one").take, "batches")
    return pa.RecordBatchReader.from_batches(schema, _native.Synchronized(iter(batches), take, make))


def own_batch(query: Query, chosen: Where | None, batch: Any) -> pa.RecordBatch:
    """Return a batch of the core in the columns that `query` asks for, of the windows that are chosen."""
    made = shaped(pa.record_batch(batch), query)
    return made if chosen is None else chosen.windows(made)


def slices(query: Query, data: Any, *, validate: bool | None = None) -> pa.Table:
    """Aggregate rows to slices; see `windowkit.Query.slices`."""
    mark = mark_of(query)
    query, source = asked(query, data, validate)
    planned = plan(query, source.schema)
    engine = planned.engine()
    with source:
        for batch in pa.RecordBatchReader.from_stream(source):
            engine.push(batch)
    made = [pa.record_batch(of_keys) for _, of_keys in engine.slices(1)]
    return pa.Table.from_batches(made, pa.schema(planned.slices_schema)).replace_schema_metadata(mark)


def slices_schema(query: Query, schema: pa.Schema) -> pa.Schema:
    """Return the schema of the slices of rows of this schema."""
    return pa.schema(plan(*fitted(query, schema)).slices_schema)


def mark_of(query: Query) -> dict[bytes, bytes]:
    """Return the metadata of slices, which say of which query they are; of users' own functions by name."""
    windows = ", ".join(map(str, query.windows))
    weight = "" if query.weight is None else f", weight {query.weight}"
    aggregates = ", ".join(map(str, query.aggs))
    keys = ", ".join(query.by) or "nothing"
    return {MARK: f"by {keys} over {query.time}: {aggregates} in {windows}{weight}".encode()}


def check_mark(query: Query, slices: pa.Schema) -> None:
    """Refuse slices that are not of a query, as the metadata of their schema says.

    Raises
    ------
    InvalidValue
    """
    wanted, given = mark_of(query)[MARK], (slices.metadata or {}).get(MARK)
    if given is not None and given != wanted:
        raise InvalidValue(
            f"slices: they are of the query {given.decode(errors='replace')}, and that of the operator is "
            f"{wanted.decode()}; slices are pushed to an operator of the query that made them"
        )


def schema(query: Query, data: Any) -> pa.Schema:
    """Return the schema of the result; see `windowkit.Query.schema`."""
    return shaped_schema(pa.schema(plan(*fitted(query, data)).output_schema), query)


def fitted(query: Query, data: Any) -> tuple[Query, pa.Schema]:
    """Return a query and the schema of its input, `data` or its, once its expressions are computed."""
    compute = computing("data", query.expressions)
    schema = columns_schema(untyped(data, query.placing), columns_read(query, compute))
    schema = timed(schema, str(query.time), time_type(query.windows, schema))
    read = read_types(schema)
    if compute is None:
        return query, read
    return query.resolved(schema.names).plain, read_types(compute.schema(read))


def shaped(result: Result, query: Query) -> Result:
    """Return a result of the core with its windows in the columns that `query` asks for."""
    if query.window_columns == "flat":
        return flat(result, len(query.by))
    if query.window_columns == "date":
        return dated(result, len(query.by), partial(days, day_of(query.windows)))
    return result


def days(day: Day, starts: pa.Array) -> pa.Array:
    """Return the days on which windows begin, of their starts."""
    return pa.array(_native.dates(starts, day.zone, day.shift))


def shaped_schema(schema: pa.Schema, query: Query) -> pa.Schema:
    """Return the schema of what `shaped` returns."""
    if query.window_columns == "flat":
        return flat_schema(schema, len(query.by))
    return dated_schema(schema, len(query.by)) if query.window_columns == "date" else schema


def plan(query: Query, schema: pa.Schema, *, of_stream: bool = False) -> _native.Plan:
    """Check `query` against the schema of its input, with its emission policy if it is `of_stream`.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query does not fit.
    """
    policy = query.emit if of_stream else None
    query = query.resolved(schema.names)
    with hinting(schema):
        return _native.Plan(
            schema,
            query.by,
            query.time,
            query.windows,
            query.aggs,
            query.max_windows,
            policy,
            query.weight,
            of_each(query.fill, [each.name for each in query.aggs]),
        )


def stream_plan(query: Query, schema: pa.Schema, expressions: Iterable[Expression]) -> _native.Plan:
    """Check `query` against the schema of a stream, which has the columns of expressions."""
    computed = set(map(str, expressions))
    names = [name for name in schema.names if name not in computed]
    return plan(query.resolved(names).plain, schema, of_stream=True)


def checked_threads(threads: int | None) -> int:
    """Return the number of threads to use: all usable cores by default."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    # More than there can be rows for is as good as any; the core takes a machine word.
    return min(integer("threads", threads, "threads is an int of at least 1, or None", 1), 2**31)
