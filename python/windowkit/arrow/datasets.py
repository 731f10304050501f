"""Datasets of pyarrow: files that are one table, in the types that hold the values of all of them.

A dataset has the types of its first file. What its other files have is cast to them as it is read, so that
it depends on the order of files whether they are read, and how: a number becomes text where the first file
has text. So the types of the columns that are read are united first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from windowkit.arrow.schemas import united
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.foreign import is_a

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = ["is_dataset", "of_dataset", "schema_of_dataset"]


def is_dataset(data: object) -> bool:
    """Whether `data` is a dataset of pyarrow."""
    return is_a(data, "pyarrow", "Dataset")


def schema_of_dataset(data: ds.Dataset, columns: Collection[str] | None, argument: str) -> pa.Schema:
    """Return the schema of a dataset, in which the types of columns, by default of all, are united.

    Raises
    ------
    InvalidType
        Those of two files cannot be united.
    """
    given = data.schema
    schemas = {each.path: each.physical_schema for each in files_of(data)}
    if len(schemas) < 2:
        return given
    names = dict.fromkeys([*given.names, *(name for schema in schemas.values() for name in schema.names)])
    fields = []
    for name in names:
        with_it = {path: each for path, each in schemas.items() if each.get_field_index(name) >= 0}
        in_files = [each.field(name) for each in with_it.values()]
        own = given.field(name) if name in given.names else in_files[0]
        # Another type than that of the first file was given to the dataset, as that of a directory was.
        is_first = bool(in_files) and own.type == in_files[0].type
        if is_first and (columns is None or name in columns):
            try:
                own = pa.field(name, united(with_it, name, argument))
            except InvalidType as error:
                if columns is not None:
                    raise
                raise InvalidType(
                    f"{error}; all columns are read where they are in the result: give some of them, by "
                    ".scanner(columns=[...]).to_reader() of the dataset"
                ) from None
        fields.append(own)
    return pa.schema(fields, given.metadata)


def of_dataset(data: ds.Dataset, columns: Sequence[str] | None, argument: str) -> pa.RecordBatchReader:
    """Return the batches of a dataset, of no more than these columns, none of them read yet.

    Raises
    ------
    InvalidType
        The types that two files have for a column cannot be united.
    """
    schema = schema_of_dataset(data, columns, argument)
    names = schema.names if columns is None or not {*columns} <= {*schema.names} else list(columns)
    read = pa.schema([schema.field(name) for name in names], schema.metadata)
    is_given = all(
        name in data.schema.names and data.schema.field(name).type == schema.field(name).type
        for name in names
    )
    if not is_given and is_filtered(data):
        raise InvalidValue(
            f"{argument}: a filtered dataset is given, and its files differ: together they have "
            f"{described(read)}; give these types to the dataset before it is filtered, by schema= of "
            "pyarrow.dataset.dataset"
        )
    whole = data if is_given else with_schema(data, schema)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from whole.scanner(columns=names).to_batches()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            path = next((each.path for each in files_of(whole) if fails(each, schema, names)), None)
            of = "" if path is None else f" of {path!r}"
            raise InvalidValue(
                f"{argument}: reading{of} failed: {error}; the dataset has {described(read)}, see schema= of "
                "pyarrow.dataset.dataset"
            ) from error

    return pa.RecordBatchReader.from_batches(read, batches())


def files_of(data: Any) -> list[Any]:
    """Return the files of a dataset, as far as they are known."""
    if is_filtered(data):
        # Their rows are not all of the dataset's.
        return [data.format.make_fragment(path, data.filesystem) for path in getattr(data, "files", ())]
    return [each for each in data.get_fragments() if is_a(each, "pyarrow", "FileFragment")]


def is_filtered(data: ds.Dataset) -> bool:
    """Whether a dataset has only some of its rows: its parts are not to be had then, nor is the filter."""
    try:
        data.get_fragments()
    except ValueError:
        return True
    return False


def with_schema(data: ds.Dataset, schema: pa.Schema) -> ds.Dataset:
    """Return a dataset whose files are read as another schema."""
    import pyarrow.dataset as ds

    if isinstance(data, ds.UnionDataset):
        return ds.UnionDataset(schema, [with_schema(each, schema) for each in data.children])
    if isinstance(data, ds.FileSystemDataset):
        fragments = list(data.get_fragments())
        return ds.FileSystemDataset(
            fragments, schema, data.format, data.filesystem, data.partition_expression
        )
    return data.replace_schema(schema)


def fails(fragment: Any, schema: pa.Schema, names: list[str]) -> bool:
    """Whether a file cannot be read."""
    try:
        for _ in fragment.scanner(schema=schema, columns=names).to_batches():
            pass
    except pa.ArrowException:
        return True
    return False


def described(schema: pa.Schema) -> str:
    """Return what errors say of a schema."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)
