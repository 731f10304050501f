"""Evaluate rolling aggregates in this process: Arrow data in, its rows, or labels, with more columns out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.computing import Computing, computing
from windowkit.arrow.frames import columns_schema, is_frame, outlined, untyped, whole_schema
from windowkit.arrow.given import is_relation, refuse_spark, refuse_twice, schema_of
from windowkit.arrow.moments import in_one_unit, timed
from windowkit.arrow.reading import as_read, read_types
from windowkit.arrow.results import widened
from windowkit.arrow.source import Source, columns_read, opened
from windowkit.language.aggregation import Framed
from windowkit.language.expressions import hinting
from windowkit.language.lines import text_of
from windowkit.language.rolling import Rolling
from windowkit.local.explain import partial, properties_of, sizes
from windowkit.local.query import checked_threads, warn_of_times

__all__ = ["Labels", "at", "bound", "explain", "results", "run", "schema"]

AT_ONCE: Final = "; rows without a time share one moment, before all times"
EMPTY: Final = "; frames of labels without a time are empty"
IN_NONE: Final = "; events without a time are in no frame"


def run(
    rolling: Rolling,
    data: Any,
    *,
    threads: int | None = None,
    validate: bool | None = None,
    form: str = "pyarrow",
) -> Any:
    """Evaluate `rolling`; see `windowkit.Rolling.run`."""
    count = checked_threads(threads)
    compute = computing("data", rolling.expressions)
    given = untyped(data, rolling.placing)
    # A frame that is returned as one keeps its columns.
    given = outlined("data", given, columns_read(rolling, compute)) if is_frame(data, form) else given
    source = Source("data", given, validate=validate)
    source.time(rolling.time, time_of(rolling))
    planned = bound(rolling, source.schema, compute=compute)
    table = source.table()
    warn_of_times(source, rolling.time, AT_ONCE)
    own = {each.name: each.aggregate for each in rolling.aggs}
    rows = as_read(table)
    if compute is not None:
        # What is computed is not in the result.
        rows = as_read(compute(rows, compute.schema(rows.schema)))
    return widened(with_columns(table, answers(planned, rows, count)), form, data, own)


def at(
    rolling: Rolling,
    labels: Any,
    events: Any,
    *,
    by: tuple[str, ...],
    time: str,
    threads: int | None = None,
    validate: bool | None = None,
    form: str = "pyarrow",
) -> Any:
    """Evaluate `rolling` for labels; see `windowkit.Rolling.at`."""
    refuse_twice({"labels": labels, "events": events})
    count = checked_threads(threads)
    refuse_spark("events", events, "; labels and events both are Spark DataFrames, or neither is")
    if is_relation(labels):
        # A connection of DuckDB has one open result, and the events may be another one of it.
        labels = Source("labels", labels, validate=validate).table()
    fitting, source = opened(rolling, untyped(events, rolling.by), validate, "events")
    asks = untyped(labels, [*by, time])
    asks = outlined("labels", asks, [*by, time]) if is_frame(labels, form) else asks
    own = Source("labels", asks, validate=validate)
    given, asking = in_one_unit(
        source.given, fitting.time, read_types(own.schema), str(time), time_of(rolling)
    )
    if given is not source.given:
        source.align(given)
    source.time(str(fitting.time), time_of(rolling))
    fitting = fitting.resolved(source.given.names)
    planned = bound(fitting, source.schema, Labels(asking, tuple(map(str, by)), str(time)))
    table = own.table()
    with source:
        asked = Source("labels", as_read(table), schema=asking)
        asked.time(str(time), time_of(rolling))
        table = with_columns(table, answers(planned, source, count, asked.table()))
    warn_of_times(asked, time, EMPTY)
    warn_of_times(source, rolling.time, IN_NONE)
    return widened(table, form, labels, {each.name: each.aggregate for each in rolling.aggs}, events)


def answers(planned: _native.Rolling, rows: Any, threads: int, labels: Any = None) -> pa.Table:
    """Return the results of rows; or those of labels, if there are any, of these rows."""
    return pa.RecordBatchReader.from_stream(planned.run(rows, threads, labels)).read_all()


def with_columns(table: pa.Table, columns: pa.Table) -> pa.Table:
    """Return a table with more columns."""
    for field, column in zip(columns.schema, columns.columns, strict=True):
        table = table.append_column(field, column)
    return table


def results(planned: _native.Rolling, data: Any, threads: int, labels: pa.Table | None = None) -> pa.Table:
    """Return a table with the results of its rows; or labels with theirs, of the rows of `data`."""
    table = data if labels is None else labels
    asked = None if labels is None else as_read(labels)
    rows = as_read(data) if isinstance(data, pa.Table) else data
    return with_columns(table, answers(planned, rows, threads, asked))


def schema(rolling: Rolling, data: Any) -> pa.Schema:
    """Return the schema of the result; see `windowkit.Rolling.schema`."""
    compute = computing("data", rolling.expressions)
    read = columns_read(rolling, compute)
    data = untyped(data, rolling.placing)
    own = schema_of(data) if read is None else whole_schema(data, read)
    given = timed(own, str(rolling.time), time_of(rolling))
    result = pa.schema(bound(rolling, given, compute=compute).plan.output_schema)
    # The input's fields as they were, with what Arrow's interface may not carry.
    return pa.schema([*given, *list(result)[-len(rolling.aggs) :]], given.metadata)


@dataclass(frozen=True)
class Labels:
    """What rows that ask for results have: a schema, keys, and a time."""

    schema: pa.Schema
    by: tuple[str, ...]
    time: str


def bound(
    rolling: Rolling,
    schema: pa.Schema,
    labels: Labels | None = None,
    *,
    compute: Computing | None = None,
) -> _native.Rolling:
    """Check `rolling` against the schema of its input; and that of labels, with their keys and time, if any.

    Columns that `compute` adds are not in that schema.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It does not fit.
    """
    schema = timed(read_types(schema), str(rolling.time), time_of(rolling))
    rolling = rolling.resolved(schema.names).plain
    if compute is not None:
        schema = read_types(compute.schema(schema))
    own = [each.aggregate.resolved(schema.names).alias(each.name) for each in rolling.aggs]
    frames = [each.frame for each in rolling.aggs]
    with hinting(schema, *([] if labels is None else [labels.schema])):
        return _native.Rolling(schema, rolling.by, rolling.time, own, frames, labels)


def explain(rolling: Rolling, data: Any = None) -> str:
    """Describe how `rolling` is evaluated; see `windowkit.Rolling.explain`.

    Examples
    --------
    >>> import windowkit as wk
    >>> rolling = wk.rolling(
    ...     by="device",
    ...     time="ts",
    ...     aggs=[wk.mean("v").over("10 minutes"), wk.max("v").over("9 rows"), wk.median("v").over("9 rows")],
    ... )
    >>> print(rolling.explain())
    rolling by device over ts
    rows, of each key
      stored until all have arrived, and sorted by time, then by arrival: once for all frames
      partials of each row: sum(v), count(v), max(v), values(v)
    frames
      10 minutes: from 10 minutes before to its time, with both ends; rows at one time have the same
      9 rows: from 9 rows before to the row itself, without the start
    aggregates from partials of frames
      avg(v) OVER (10 minutes): sum(v) and count(v); algebraic, associative, commutative
      max(v) OVER (9 rows): max(v); distributive, associative, commutative
      median(v) OVER (9 rows): values(v); holistic, associative, commutative, invertible
    """
    if data is None:
        rolling = rolling.plain
        planned = bound(rolling, assumed(rolling))
    else:
        compute = computing("data", rolling.expressions)
        given = columns_schema(untyped(data, rolling.placing), columns_read(rolling, compute))
        planned = bound(rolling, given, compute=compute)
    lines = described(rolling, planned.plan)
    if data is not None:
        results = list(pa.schema(planned.plan.output_schema))[-len(rolling.aggs) :]
        lines += [
            "output, after the columns of the input",
            *(f"  {each.name}: {each.type}" for each in results),
        ]
    return text_of(lines)


def described(rolling: Rolling, planned: _native.Plan) -> list[str]:
    """Return the lines of `explain` that do not depend on the data."""
    numbers = sizes([each.aggregate for each in rolling.aggs], planned)
    stored = [
        partial(each.kind, each.columns, each.condition, size)
        for each, size in zip(planned.partials, numbers, strict=True)
    ]
    frames = dict.fromkeys(each.frame for each in rolling.aggs)
    return [
        f"rolling by {', '.join(rolling.by) or 'nothing'} over {rolling.time}",
        f"rows, of {'each key' if rolling.by else 'all rows'}",
        "  stored until all have arrived, and sorted by time, then by arrival: once for all frames",
        f"  partials of each row: {', '.join(stored)}",
        "frames",
        *(f"  {frame}: {frame.meaning}" for frame in frames),
        "aggregates from partials of frames",
        *(
            f"  {each.name}: {' and '.join(stored[at] for at in sources)}; {properties_of(properties)}"
            for each, sources, properties in zip(
                rolling.aggs, planned.sources, planned.properties, strict=True
            )
        ),
    ]


def assumed(rolling: Rolling) -> pa.Schema:
    """Return a schema that it fits: what is stored does not depend on which."""
    fields = dict.fromkeys(rolling.inputs, pa.float64())
    fields |= {
        each.aggregate.condition: pa.bool_() for each in rolling.aggs if each.aggregate.condition is not None
    }
    fields[rolling.time] = time_of(rolling)
    return pa.schema(fields)


def time_of(rolling: Rolling) -> pa.DataType:
    """Return a type of times that frames fit, for rows that have none."""
    return pa.int64() if any(map(counts_units, rolling.aggs)) else pa.timestamp("us")


def counts_units(framed: Framed) -> bool:
    """Return whether a frame fits integer times only."""
    frame = framed.frame
    return any(isinstance(each, int) and each > 0 for each in (frame.before, frame.after, frame.tail))
