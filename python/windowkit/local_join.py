"""Evaluate joins in this process: two tables of Arrow data in, one out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from windowkit import _native
from windowkit._columns import is_spark
from windowkit.engines import Engine, register
from windowkit.errors import InvalidType
from windowkit.join import Join
from windowkit.local import OTHERWISE, Source, checked_threads, is_relation, reader_of, schema_of
from windowkit.results import form_of, joined
from windowkit.windows.base import counted

__all__ = ["batches", "bound", "run", "schema"]


def run(
    join: Join,
    left: Any,
    *,
    right: Any,
    threads: int | None = None,
    validate: bool | None = None,
    result: str | None = None,
) -> Any:
    """Evaluate `join`; see `windowkit.Join.run`."""
    refuse_spark(left, right)
    count, form = checked_threads(threads), form_of(left, result)
    planned, made = started(join, left, right, count, validate)
    batches = [pa.record_batch(batch) for batch in made]
    table = pa.Table.from_batches(batches, pa.schema(planned.output_schema))
    return joined(table, form, planned.origins, left, right)


def batches(
    join: Join, left: Any, *, right: Any, threads: int | None = None, validate: bool | None = None
) -> pa.RecordBatchReader:
    """Evaluate `join` batch by batch; see `windowkit.Join.batches`."""
    refuse_spark(left, right)
    planned, made = started(join, left, right, checked_threads(threads), validate)
    return pa.RecordBatchReader.from_batches(pa.schema(planned.output_schema), map(pa.record_batch, made))


def started(
    join: Join, left: Any, right: Any, threads: int, validate: bool | None
) -> tuple[_native.Join, _native.Batches]:
    """Return `join` bound to two tables, and its result, of which no batch is made yet."""
    own = Source("left", left, read(join.left_by, join.left_time, join.left_columns), validate=validate)
    if is_relation(left):
        # A connection of DuckDB has one open result, and the right side may be another one of it.
        with own:
            own = Source("left", pa.Table.from_batches(reader_of(own), own.schema), validate=False)
    # All but the columns of the keys, unless it is said which.
    columns = () if join.how in ("semi", "anti") else join.right_columns
    other = Source("right", right, read(join.right_by, join.right_time, columns), validate=validate)
    planned = bound(join, own.schema, other.schema)
    with own, other:
        return planned, planned.run(own, other, threads)


def read(by: tuple[str, ...], time: str, columns: tuple[str, ...] | None) -> list[str] | None:
    """Return the columns of a side that are read; None for all."""
    return None if columns is None else list(dict.fromkeys([*by, time, *columns]))


def schema(join: Join, left: Any, right: Any) -> pa.Schema:
    """Return the schema of the result; see `windowkit.Join.schema`."""
    refuse_spark(left, right)
    return pa.schema(bound(join, schema_of(left, "left"), schema_of(right, "right")).output_schema)


def bound(join: Join, left: pa.Schema, right: pa.Schema) -> _native.Join:
    """Check `join` against the schemas of its sides.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It does not fit.
    """
    within = None
    if join.within is not None:
        before, after = map(counted, join.within)
        within = (before, after, join.closed)
    return _native.Join(
        (left, list(join.left_by), join.left_time, join.left_columns),
        (right, list(join.right_by), join.right_time, join.right_columns),
        within,
        None if join.windows is None else join.windows.bound(),
        join.how,
        join.suffix,
    )


def refuse_spark(left: Any, right: Any) -> None:
    """Refuse DataFrames of Spark, which this process does not hold."""
    for argument, data in (("left", left), ("right", right)):
        if is_spark(data):
            raise InvalidType(
                f"{argument}: a Spark DataFrame is given; a join runs in one process. Collect what fits "
                f"there with {argument}.toArrow(), or have Spark call it for each key: left.groupBy(keys)"
                ".cogroup(right.groupBy(keys)).applyInPandas(lambda a, b: join.run(a, b), schema)"
            )


register(
    Engine(
        takes=lambda _: True,
        calls={"join": run, "join_batches": batches, "join_schema": schema},
        options=("right", "threads", "validate", "result"),
        otherwise=OTHERWISE,
    )
)
