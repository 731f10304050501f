"""Evaluate a query in this process: Arrow data in, Arrow data out, with the GIL released around all work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.alignment import aligned
from windowkit.arrow.computing import Computing, computing
from windowkit.arrow.reading import as_read, has_deep_structs, read_types, unsliced
from windowkit.arrow.results import flat, flat_schema, form_of, formed
from windowkit.arrow.validation import MALFORMED, TABLES, checked, from_elsewhere, imported, refusing
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.aggregation import Aggregate, UserFunction
from windowkit.language.checks import a_type, integer
from windowkit.language.expressions import hinting
from windowkit.language.fills import of_each
from windowkit.language.foreign import class_name, is_a, is_spark, kind
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling

__all__ = ["aggregates", "batches", "check_mark", "fitted", "plan", "run", "schema"]
__all__ += ["refuse_twice", "schema_of", "shaped", "shaped_schema", "slices", "slices_schema"]

Asked = TypeVar("Asked", Query, Rolling)
Result = TypeVar("Result", pa.Table, pa.RecordBatch)

Bound = tuple[str, list[str], str, str | None, list[float], UserFunction | None]
"""Function, columns, name, filter, parameters and a user's own function, as the native core takes them."""
MARK: Final = b"windowkit.slices"
"""Metadata of the schema of slices: of which query they are."""
TABLE: Final = (
    "anything with an Arrow interface (__arrow_c_stream__ or __arrow_c_array__) that holds a table, "
    "like a pyarrow Table or RecordBatchReader, or a Polars, pandas or DuckDB table"
)
WITHOUT_SPARK: Final = {
    "batch": TABLE,
    "slices": "a table that query.slices returned",
    "schema": f"a pyarrow.Schema, or {TABLE}",
}
"""What the arguments of operators are, which take no Spark DataFrames."""
INSTEAD: Final = {
    ("polars", "LazyFrame"): "call .collect() on it first",
    ("pyarrow", "Dataset"): "use dataset.scanner(columns=query.inputs).to_reader()",
    ("pyarrow", "Scanner"): "use scanner.to_reader()",
    ("pyarrow", "RecordBatchFileReader"): "use reader.read_all(), with validate=True if it is not trusted",
    ("pyspark", "DataFrame"): "call .to_spark() on it first",
    ("builtins", "dict"): "make it a table with pyarrow.table(...)",
    ("builtins", "list"): "make it a table with pyarrow.Table.from_batches or pyarrow.Table.from_pylist",
}


def run(
    query: Query,
    data: Any,
    *,
    threads: int | None = None,
    validate: bool | None = None,
    result: str | None = None,
) -> Any:
    """Evaluate `query`; see `windowkit.Query.run`."""
    count, form = checked_threads(threads), form_of(data, result)
    own, source = opened(query, data, validate)
    planned = plan(own, source.schema)
    with source:
        table = pa.RecordBatchReader.from_stream(planned.run(source, count)).read_all()
    return formed(shaped(table, query), form, query, data)


def batches(
    query: Query, data: Any, *, threads: int | None = None, validate: bool | None = None
) -> pa.RecordBatchReader:
    """Evaluate `query` batch by batch; see `windowkit.Query.batches`."""
    count = checked_threads(threads)
    query, source = opened(query, data, validate)
    planned = plan(query, source.schema)
    with source:
        result = planned.batches(source, count)
    # As an iterator the core raises its own exceptions, of which a C stream would keep only the text.
    # A generator would end with the first of them, as if there were no more batches.
    # Where Python runs no code of its own between batches, no handler of signals runs there.
    made = map(pa.record_batch, result)
    if query.window_columns == "flat":
        made = map(partial(own_batch, query), made)
    return pa.RecordBatchReader.from_batches(shaped_schema(pa.schema(result.schema), query), made)


def own_batch(query: Query, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in the columns that `query` asks for."""
    try:
        return shaped(batch, query)
    except StopIteration as error:
        # As in generators: batches that are missing would not be noticed.
        raise RuntimeError("a handler of signals raised StopIteration") from error


def slices(query: Query, data: Any, *, validate: bool | None = None) -> pa.Table:
    """Aggregate rows to slices; see `windowkit.Query.slices`."""
    mark = mark_of(query)
    query, source = opened(query, data, validate)
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
    return shaped_schema(pa.schema(plan(*fitted(query, schema_of(data))).output_schema), query)


def fitted(query: Query, schema: pa.Schema) -> tuple[Query, pa.Schema]:
    """Return a query and the schema of its input once its expressions are computed."""
    compute, read = computing("data", query.expressions), read_types(schema)
    if compute is None:
        return query, read
    return query.resolved(schema.names).plain, read_types(compute.schema(read))


def shaped(result: Result, query: Query) -> Result:
    """Return a result of the core with its windows in the columns that `query` asks for."""
    return flat(result, len(query.by)) if query.window_columns == "flat" else result


def shaped_schema(schema: pa.Schema, query: Query) -> pa.Schema:
    """Return the schema of what `shaped` returns."""
    return flat_schema(schema, len(query.by)) if query.window_columns == "flat" else schema


def plan(query: Query, schema: pa.Schema, *, of_stream: bool = False) -> _native.Plan:
    """Check `query` against the schema of its input, with its emission policy if it is `of_stream`.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query does not fit.
    """
    policy = query.emit.given() if of_stream and query.emit is not None else None
    query = query.resolved(schema.names)
    with hinting(schema):
        return _native.Plan(
            schema,
            list(query.by),
            query.time,
            [window.bound() for window in query.windows],
            aggregates(query.aggs),
            query.max_windows,
            policy,
            query.weight,
            of_each(query.fill, [each.name for each in query.aggs]),
        )


def aggregates(aggs: Sequence[Aggregate]) -> list[Bound]:
    """Return aggregates as the native core takes them."""
    return [
        (each.function, list(each.columns), each.name, each.condition, list(each.parameters), each.user)
        for each in aggs
    ]


def schema_of(data: Any, argument: str = "data") -> pa.Schema:
    """Return the schema that `data` is or has; errors call it `argument`."""
    if isinstance(data, pa.Schema):
        return legible(argument, data)
    if hasattr(data, "__arrow_c_schema__") and not isinstance(data, pa.Field | pa.DataType):
        return legible(argument, imported(argument, data, "__arrow_c_schema__", pa.schema))
    return legible(argument, reader_of(data, argument).schema)


def legible(argument: str, schema: pa.Schema) -> pa.Schema:
    """Return a schema without the metadata of columns that the core cannot read: bytes that are not UTF-8.

    Nothing here uses them; libraries store serialised values there.

    Raises
    ------
    InvalidValue
        The name of a column is not UTF-8.
    """
    try:
        fields = list(zip(schema.names, schema, strict=True))
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{argument}: {MALFORMED}: the name of a column is not UTF-8 ({error})") from None
    if is_legible(schema.metadata) and all(is_legible(field.metadata) for _, field in fields):
        return schema
    kept = [field if is_legible(field.metadata) else field.remove_metadata() for _, field in fields]
    return pa.schema(kept, schema.metadata if is_legible(schema.metadata) else None)


def is_legible(metadata: Mapping[bytes, bytes] | None) -> bool:
    """Return whether metadata is UTF-8."""
    try:
        for each in (metadata or {}).items():
            b"".join(each).decode()
    except UnicodeDecodeError:
        return False
    return True


def accepted(argument: str) -> str:
    """Return what errors say that an argument is."""
    return f"{argument} is {WITHOUT_SPARK.get(argument, f'{TABLE}, or a Spark DataFrame')}"


def reader_of(data: Any, argument: str = "data") -> pa.RecordBatchReader:
    """Return the batches of `data`, none of them read yet; errors call it `argument`.

    Raises
    ------
    InvalidType
        `data` has no Arrow interface, or is a column rather than a table.
    InvalidValue
        It is malformed.
    """
    # What small pushes bring comes first: looking through an object's classes takes microseconds.
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.Table):
        return data.to_reader()
    if is_spark(data):
        raise InvalidType(
            f"{argument}: a Spark DataFrame has no batches or schema in this process; use "
            f"query.run({argument}), or query.run({argument}).schema"
        )
    for base in type(data).__mro__:
        instead = INSTEAD.get((base.__module__.split(".")[0], base.__name__))
        if instead is not None:
            why = "has no Arrow interface"
            if hasattr(data, "__arrow_c_stream__"):
                why = "would be collected into this process"
            raise InvalidType(f"{argument}: {class_name(base)} {why}; {instead}")
    if isinstance(data, pa.RecordBatchReader):
        return data
    if is_a(data, "pyarrow", "MetadataRecordBatchReader"):
        # Of Flight.
        return data.to_reader()
    try:
        if hasattr(data, "__arrow_c_stream__"):
            reader = imported(argument, data, "__arrow_c_stream__", pa.RecordBatchReader.from_stream)
            if is_a(data, "pandas", "DataFrame"):
                return without_index(reader)
            return with_orders(reader) if is_relation(data) else reader
        if hasattr(data, "__arrow_c_array__"):
            batch = imported(argument, data, "__arrow_c_array__", pa.record_batch)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    except InvalidValue as error:
        # Only what pyarrow says of arrays that are not tables; all other failures pass.
        if re.search("non-struct type|imported as RecordBatch", str(error)) is None:
            raise
        raise InvalidType(
            f"{argument}: {a_type(data)} is a column, not a table ({error.__cause__}); {accepted(argument)}"
        ) from None
    raise InvalidType(f"{argument}: {kind(data)} has no Arrow interface; {accepted(argument)}")


def refuse_twice(given: Mapping[str, Any]) -> None:
    """Refuse one reader for two arguments: the first of them would leave nothing to the other."""
    (first, data), (second, other) = given.items()
    is_reader = isinstance(data, pa.RecordBatchReader) or is_a(data, "pyarrow", "MetadataRecordBatchReader")
    if is_reader and data is other:
        raise InvalidValue(
            f"{second}: it is the same reader as {first}, and a reader is read once; give both a table, for "
            "instance that of reader.read_all()"
        )


def without_index(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the batches of a DataFrame of pandas without an index that has no name, which numbers rows."""
    names = [name for name in reader.schema.names if re.fullmatch("__index_level_[0-9]+__", name) is None]
    if names == reader.schema.names:
        return reader
    return reader.read_all().select(names).to_reader()


def is_relation(data: object) -> bool:
    """Whether `data` is a DuckDB relation, whose class is in one module or the other, by version."""
    return is_a(data, "duckdb", "DuckDBPyRelation") or is_a(data, "_duckdb", "DuckDBPyRelation")


def with_orders(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the batches of a DuckDB relation, whose dictionaries are its enums: these have an order.

    DuckDB compares enums by their order, and does not say in Arrow that they have one.
    """
    if not any(map(pa.types.is_dictionary, reader.schema.types)):
        return reader

    def ordered(kind: pa.DataType) -> pa.DataType:
        is_enum = pa.types.is_dictionary(kind)
        return pa.dictionary(kind.index_type, kind.value_type, ordered=True) if is_enum else kind

    schema = pa.schema([field.with_type(ordered(field.type)) for field in reader.schema])

    def columns(batch: pa.RecordBatch) -> Iterator[pa.Array]:
        for column in batch.columns:
            is_enum = pa.types.is_dictionary(column.type)
            yield (
                pa.DictionaryArray.from_arrays(column.indices, column.dictionary, ordered=True)
                if is_enum
                else column
            )

    batches = (pa.RecordBatch.from_arrays(list(columns(batch)), schema=schema) for batch in reader)
    return pa.RecordBatchReader.from_batches(schema, batches)


def narrowed(data: Any, columns: Sequence[str]) -> Any:
    """Return `data` with no more than `columns`, where the others would be converted for nothing.

    What is Arrow already stays as it is, and so does data that lacks one of the columns: it is refused later,
    with the names of those there are.
    """
    if is_a(data, "pandas", "DataFrame") or is_a(data, "polars", "DataFrame"):
        names = list(data.columns)
        return data[list(columns)] if all(names.count(name) == 1 for name in columns) else data
    if is_relation(data) and set(columns) <= set(data.columns):
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
    schema : pyarrow.Schema, optional
        The schema of the stream that the data belongs to: see `aligned`.
    aggregated : bool
        Whether columns are read in types that the core computes with: see `as_read`.
    compute : Computing, optional
        What adds columns that are computed from these, once they are aligned.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The data has no Arrow interface, or does not fit the schema.
    """

    def __init__(
        self,
        argument: str,
        data: Any,
        columns: Sequence[str] | None = None,
        *,
        validate: bool | None = None,
        schema: pa.Schema | None = None,
        aggregated: bool = False,
        compute: Computing | None = None,
    ) -> None:
        self._argument, self._full = argument, from_elsewhere(data, validate)
        is_arrow = isinstance(data, TABLES)
        names = columns if schema is None else schema.names
        self._data: pa.Table | pa.RecordBatch | pa.RecordBatchReader = (
            data if is_arrow else reader_of(data if names is None else narrowed(data, names), argument)
        )
        given: pa.Schema = self._data.schema
        is_as_known = schema is not None and given.equals(schema, check_metadata=True)
        if is_arrow:
            checked(argument, data, self._full)
        if not is_as_known:
            read = legible(argument, given)
            if read is not given:
                self._data, given = self._data.cast(read), read
        self._schema = read_types(given) if aggregated and not is_as_known else given
        self._is_read = self._schema is not given
        self._has_deep_structs = has_deep_structs(given)
        self._align = None if schema is None or is_as_known else aligned(argument, self._schema, schema)
        if schema is not None and self._align is not None:
            # Whether values may be null, and what else fields say, is up to each batch.
            self._schema = pa.schema(list(zip(schema.names, schema.types, strict=True)))
        self._compute, self._given = compute, self._schema
        self._computed = self._schema if compute is None else compute.schema(self._schema)
        if compute is not None:
            self._schema = read_types(self._computed)
        changes = self._is_read or self._has_deep_structs
        self._may_fail = self._align is not None or changes or compute is not None or not is_arrow
        self._failure: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    @property
    def names(self) -> list[str]:
        """Names of the columns that are there before any is computed."""
        return list(self._given.names)

    @property
    def shortest(self) -> Any:
        """What has the same rows and an Arrow interface: the data itself, if that cannot fail."""
        return self if self._may_fail else self._data

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if self._may_fail:
            batches = self._batches()
            next(batches)
            stream = pa.RecordBatchReader.from_batches(self._schema, batches)
        else:
            stream = reader_of(self._data)
        return stream.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch | None]:
        try:
            # A generator handles signals as it starts, outside of any `try`. So the stream, which turns a
            # KeyboardInterrupt into text, is given one that has started.
            yield None
            if self._compute is None:
                yield from self._aligned()
            elif self._compute.is_by_row:
                for batch in self._aligned():
                    yield as_read(self._compute(batch, self._computed))
            else:
                rows = pa.Table.from_batches(list(self._aligned()), self._given)
                yield from as_read(self._compute(rows, self._computed)).to_batches()
        except BaseException as failure:
            self._note(failure)
            raise

    def _note(self, failure: BaseException) -> None:
        """Remember why the stream failed; what comes first is not yet what a generator makes of it."""
        # Those that handlers of signals raise, too; not the one that closes a generator.
        closes = isinstance(failure, GeneratorExit) and self._is_own(failure.__traceback__)
        if self._failure is None and not closes:
            self._failure = failure

    def _is_own(self, trace: TracebackType | None) -> bool:
        """Return whether an exception comes from these generators, and from no frame below them."""
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        own = (type(self)._batches.__code__, type(self)._aligned.__code__)
        return trace is None or trace.tb_frame.f_code in own

    def _check_types(self, schema: pa.Schema) -> None:
        """Check the schema of a batch: a reader of what a Python function yields need not keep its own."""
        given = self._data.schema
        if schema is given or (schema.names == given.names and schema.types == given.types):
            return
        raise InvalidValue(
            f"{self._argument}: its stream has a batch with columns {described(schema)}, but its schema is "
            f"{described(given)}; all batches of a stream have its columns"
        )

    def _aligned(self) -> Iterator[pa.RecordBatch]:
        try:
            with refusing(self._argument, "its stream failed"):
                for batch in reader_of(self._data):
                    self._check_types(batch.schema)
                    # What casts columns trusts them, and so does what computes others.
                    trusts = self._align is not None or self._is_read or self._compute is not None
                    own = checked(self._argument, batch, self._full or trusts)
                    if self._has_deep_structs:
                        own = unsliced(own)
                    if self._is_read:
                        own = as_read(own)
                    yield own if self._align is None else self._align(own)
        except BaseException as failure:
            self._note(failure)
            raise

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and self._failure is not None:
            raise self._failure from self._failure.__cause__
        refusing(self._argument).__exit__(kind, error, traceback)


def described(schema: pa.Schema) -> str:
    """Return what errors say of a schema."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def opened(asked: Asked, data: Any, validate: bool | None, argument: str = "data") -> tuple[Asked, Source]:
    """Return what is asked and its data, with the columns of its expressions; others are not converted."""
    compute = computing(argument, asked.expressions)
    columns = asked.named if compute is None else compute.reads(asked.named)
    source = Source(
        argument,
        data,
        None if asked.reads_all else columns,
        validate=validate,
        aggregated=True,
        compute=compute,
    )
    return asked if compute is None else asked.resolved(source.names).plain, source
