"""Data as it is given: what has an Arrow interface, its schema, and its batches, none of which is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from windowkit.arrow.columns import without_numbers
from windowkit.arrow.datasets import is_dataset, of_dataset
from windowkit.arrow.validation import MALFORMED, imported
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type
from windowkit.language.foreign import class_name, is_a, is_spark, kind, native

__all__ = ["TABLE", "accepted", "is_ibis", "is_lazy", "is_relation", "legible", "reader_of"]
__all__ += ["refuse_spark", "refuse_twice", "schema_of"]

TABLE: Final = (
    "anything with an Arrow interface (__arrow_c_stream__ or __arrow_c_array__) that holds a table, "
    "like a pyarrow Table, RecordBatchReader or Dataset, or a Polars, pandas, DuckDB or Ibis table"
)
WITHOUT_SPARK: Final = {
    "batch": TABLE,
    "slices": "a table that query.slices returned",
    "schema": f"a pyarrow.Schema, or {TABLE}",
}
"""What the arguments of operators are, which take no Spark DataFrames."""
BATCH: Final = 1 << 16
"""The rows of a batch that a LazyFrame makes: several are on their way at a time."""
INSTEAD: Final = {
    (
        "pyarrow",
        "Scanner",
    ): "give the dataset itself, of which only what is read is scanned, or scanner.to_reader()",
    ("pyarrow", "RecordBatchFileReader"): "use reader.read_all(), with validate=True if it is not trusted",
    ("pyspark", "DataFrame"): "call .to_spark() on it first",
    ("builtins", "dict"): "make it a table with pyarrow.table(...)",
    ("builtins", "list"): (
        "make it a table, of dicts with pyarrow.Table.from_pylist, of batches with "
        "pyarrow.Table.from_batches, of tables whose columns or types may differ with "
        "pyarrow.concat_tables(..., promote_options='permissive')"
    ),
    ("builtins", "generator"): (
        "make it a reader with pyarrow.RecordBatchReader.from_batches(schema, ...), where all batches have "
        "one schema"
    ),
}


def schema_of(data: Any, argument: str = "data") -> pa.Schema:
    """Return the schema that `data` is or has; errors call it `argument`."""
    if isinstance(data, pa.Schema):
        return legible(argument, data)
    if hasattr(data, "__arrow_c_schema__") and not isinstance(data, pa.Field | pa.DataType):
        return legible(argument, imported(argument, data, "__arrow_c_schema__", pa.schema))
    data = native(data)
    if is_ibis(data):
        # Its Arrow stream has all rows.
        return legible(argument, data.schema().to_pyarrow())
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
    data = native(data)
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
    if is_dataset(data):
        return of_dataset(data, None, argument)
    if is_lazy(data):
        return of_lazy(data, argument)
    if is_a(data, "pyarrow", "MetadataRecordBatchReader"):
        # Of Flight.
        return data.to_reader()
    try:
        if hasattr(data, "__arrow_c_stream__"):
            if is_a(data, "pandas", "DataFrame"):
                data = without_numbers(data)
            reader = imported(argument, data, "__arrow_c_stream__", pa.RecordBatchReader.from_stream)
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


def refuse_spark(argument: str, data: Any, instead: str) -> None:
    """Refuse a DataFrame of Spark, which this process does not hold; `instead` follows that it is given."""
    if is_spark(data):
        raise InvalidType(f"{argument}: a Spark DataFrame is given{instead}")


def refuse_twice(given: Mapping[str, Any]) -> None:
    """Refuse one reader for two arguments: the first of them would leave nothing to the other."""
    (first, data), (second, other) = given.items()
    is_reader = isinstance(data, pa.RecordBatchReader) or is_a(data, "pyarrow", "MetadataRecordBatchReader")
    if is_reader and data is other:
        raise InvalidValue(
            f"{second}: it is the same reader as {first}, and a reader is read once; give both a table, for "
            "instance that of reader.read_all()"
        )


def is_lazy(data: object) -> bool:
    """Whether `data` is a LazyFrame of Polars."""
    return is_a(data, "polars", "LazyFrame")


def of_lazy(data: Any, argument: str) -> pa.RecordBatchReader:
    """Return the batches of a LazyFrame, which is evaluated as they are read, by Polars' streaming engine.

    What Polars raises then is raised as it is, of which a C stream would keep only the text.

    Raises
    ------
    InvalidType
        This Polars does not collect in batches.
    """
    import polars as pl

    if not hasattr(data, "collect_batches"):
        raise InvalidType(
            f"{argument}: a polars LazyFrame is given, and Polars {pl.__version__} cannot collect it in "
            "batches; install a newer Polars, or call .collect() on it first"
        )
    schema = reader_of(pl.DataFrame(schema=data.collect_schema()), argument).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for frame in data.collect_batches(lazy=True, chunk_size=BATCH):
            yield from reader_of(frame, argument)

    return pa.RecordBatchReader.from_batches(schema, batches())


def is_ibis(data: object) -> bool:
    """Whether `data` is a table of Ibis, whichever its backend."""
    return is_a(data, "ibis", "Table")


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
