"""Evaluate a query in this process: Arrow data in, Arrow data out, with the GIL released around all work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit._columns import is_a, is_spark
from windowkit.checks import a_type, integer
from windowkit.engines import Engine, register
from windowkit.errors import InvalidType
from windowkit.query import Query
from windowkit.validation import checked, from_elsewhere

__all__ = ["OTHERWISE", "batches", "plan", "run", "schema", "schema_of"]

OTHERWISE: Final = "without a Spark DataFrame; only Spark has routes and partitions"
"""What errors say of options that are for Spark."""
ACCEPTED: Final = (
    "data is anything with an Arrow interface (__arrow_c_stream__ or __arrow_c_array__) that holds a table, "
    "like a pyarrow Table or RecordBatchReader, a Polars, pandas or DuckDB table, or a Spark DataFrame"
)
INSTEAD: Final = {
    ("polars", "LazyFrame"): "call .collect() on it first",
    ("pyarrow", "Dataset"): "use dataset.scanner(columns=query.inputs).to_reader()",
    ("pyarrow", "Scanner"): "use scanner.to_reader()",
    ("pyspark", "DataFrame"): "call .to_spark() on it first",
    ("builtins", "dict"): "make it a table with pyarrow.table(data)",
    ("builtins", "list"): "make it a table with pyarrow.Table.from_batches or pyarrow.Table.from_pylist",
}


def run(query: Query, data: Any, *, threads: int | None = None, validate: bool | None = None) -> pa.Table:
    """Evaluate `query`; see `windowkit.Query.run`."""
    count = checked_threads(threads)
    source = Source("data", data, query.inputs, validate=validate)
    planned = plan(query, source.schema)
    with source:
        return pa.RecordBatchReader.from_stream(planned.run(source, count)).read_all()


def batches(
    query: Query, data: Any, *, threads: int | None = None, validate: bool | None = None
) -> pa.RecordBatchReader:
    """Evaluate `query` batch by batch; see `windowkit.Query.batches`."""
    count = checked_threads(threads)
    source = Source("data", data, query.inputs, validate=validate)
    planned = plan(query, source.schema)
    with source:
        result = planned.batches(source, count)
    # As an iterator the core raises its own exceptions, of which a C stream would keep only the text.
    return pa.RecordBatchReader.from_batches(pa.schema(result.schema), map(pa.record_batch, result))


def schema(query: Query, data: Any) -> pa.Schema:
    """Return the schema of the result; see `windowkit.Query.schema`."""
    return pa.schema(plan(query, schema_of(data)).output_schema)


def plan(query: Query, schema: pa.Schema) -> _native.Plan:
    """Check `query` against the schema of its input.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query does not fit.
    """
    return _native.Plan(
        schema,
        list(query.by),
        query.time,
        [window.bound() for window in query.windows],
        [
            (each.function, list(each.columns), each.name, each.filter, list(each.parameters), each.user)
            for each in query.aggs
        ],
        query.max_windows,
    )


def schema_of(data: Any) -> pa.Schema:
    """Return the schema that `data` is or has."""
    if isinstance(data, pa.Schema):
        return data
    if hasattr(data, "__arrow_c_schema__") and not isinstance(data, pa.Field | pa.DataType):
        return pa.schema(data)
    return reader_of(data).schema


def reader_of(data: Any) -> pa.RecordBatchReader:
    """Return the batches of `data`, none of them read yet.

    Raises
    ------
    InvalidType
        `data` has no Arrow interface, or is a column rather than a table.
    """
    # What small pushes bring comes first: looking through an object's classes takes microseconds.
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if is_spark(data):
        raise InvalidType(
            "data: a Spark DataFrame has no batches or schema in this process; use query.run(data), or "
            "query.run(data).schema"
        )
    for kind in type(data).__mro__:
        instead = INSTEAD.get((kind.__module__.split(".")[0], kind.__name__))
        if instead is not None:
            why = "has no Arrow interface"
            if hasattr(data, "__arrow_c_stream__"):
                why = "would be collected into this process"
            raise InvalidType(f"data: a {kind.__module__.split('.')[0]} {kind.__name__} {why}; {instead}")
    if isinstance(data, pa.RecordBatchReader):
        return data
    if is_a(data, "pyarrow", "MetadataRecordBatchReader"):
        # Of Flight.
        return data.to_reader()
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    except pa.ArrowInvalid as error:
        # Only what pyarrow says of arrays that are not tables; the data's own failures pass.
        if re.search("non-struct type|imported as RecordBatch", str(error)) is None:
            raise
        raise InvalidType(f"data: {a_type(data)} is a column, not a table ({error}); {ACCEPTED}") from None
    raise InvalidType(f"data: {a_type(data)} has no Arrow interface; {ACCEPTED}")


def narrowed(data: Any, columns: Sequence[str]) -> Any:
    """Return `data` with no more than `columns`, where the others would be converted for nothing.

    What is Arrow already stays as it is, and so does data that lacks one of the columns: it is refused later,
    with the names of those there are.
    """
    kind = (type(data).__module__.split(".")[0].lstrip("_"), type(data).__name__)
    if kind in (("pandas", "DataFrame"), ("polars", "DataFrame")):
        names = list(data.columns)
        return data[list(columns)] if all(names.count(name) == 1 for name in columns) else data
    if kind == ("duckdb", "DuckDBPyRelation") and set(columns) <= set(data.columns):
        return data.select(*('"' + name.replace('"', '""') + '"' for name in columns))
    return data


def checked_threads(threads: int | None) -> int:
    """Return the number of threads to use: all usable cores by default."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    # More than there can be rows for is as good as any; the core takes a machine word.
    return min(integer("threads", threads, "threads is an int of at least 1, or None", 1), 2**31)


class Source:
    """Data as a stream that is checked, and remembers why it failed.

    The Arrow C stream carries errors as text. An error that its consumer raises within ``with source:``
    because the data failed is replaced by the data's own exception.

    Parameters
    ----------
    argument : str
        What errors call the data.
    data : Arrow data
    columns : sequence of str, optional
        The only ones that are read.
    validate : bool, optional
        Look at every value; by default where `from_elsewhere` says so.
    """

    def __init__(
        self,
        argument: str,
        data: Any,
        columns: Sequence[str] | None = None,
        *,
        validate: bool | None = None,
    ) -> None:
        self._argument, self._full = argument, from_elsewhere(data, validate)
        if isinstance(data, pa.Table | pa.RecordBatch):
            checked(argument, data, self._full)
        self._reader = reader_of(data if columns is None else narrowed(data, columns))
        self._may_fail = not isinstance(data, pa.Table | pa.RecordBatch)
        self._failure: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._reader.schema

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        stream = self._reader
        if self._may_fail:
            stream = pa.RecordBatchReader.from_batches(self.schema, self._batches())
        return stream.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._reader:
                yield checked(self._argument, batch, self._full)
        except (Exception, KeyboardInterrupt) as failure:
            self._failure = failure
            raise

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and self._failure is not None:
            raise self._failure from None


register(
    Engine(
        takes=lambda _: True,
        calls={"run": run, "batches": batches, "schema": schema},
        options=("threads", "validate"),
        otherwise=OTHERWISE,
    )
)
