"""Columns of Parquet files by their footers, without Spark.

Spark writes a schema of its own into the footer, as JSON, and where that is there it is the table's: it alone
says which integers are intervals, and how strings are compared.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from windowkit.errors import InvalidType, InvalidValue
from windowkit.files.listing import File, Source, is_like_others
from windowkit.spark.jobs import arrow_type
from windowkit.spark.parquet.reading import fragment, int96_in
from windowkit.spark.parquet.types import UTC, WIDENED, kind_in_spark

__all__ = ["check_directories", "in_spark", "schema_of"]

SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
SURE: Final = (pa.int32(), pa.int64(), pa.date32(), pa.string(), pa.null())
"""What Spark, too, takes directories for, where `is_like_others` does not say otherwise."""
NULLABLE: Final = {"nullable", "containsNull", "valueContainsNull"}
UNREADABLE: Final = (AttributeError, KeyError, PySparkException, RecursionError, TypeError, ValueError)
"""What Python and pyspark raise for JSON, or what it says, that is no schema."""


def check_directories(source: Source) -> None:
    """Refuse directories that Spark would not read, or type in another way.

    Raises
    ------
    InvalidValue
        There are such directories.
    """
    advice = "without Spark, values of directories name=value are integers, dates and strings"
    for at, field in enumerate(source.partitioned):
        values = {file.values[at] for file in source.files} - {None}
        if field.type not in SURE or is_like_others(field, values):
            raise InvalidValue(
                f"paths: directories say {field.name}={min(values)}, which Spark may type in "
                f"several ways; {advice}; wk.spark.scan without filesystem= types them as Spark does"
            )


def schema_of(source: Source, merge_schema: bool) -> StructType:
    """Return the columns of files: of the first, or of all, and then those of directories.

    Raises
    ------
    InvalidType, InvalidValue
        Files cannot be read, or have a column in several types.
    """
    columns: dict[str, tuple[StructField, str]] = {}
    for file in source.files if merge_schema else source.files[:1]:
        for field in fields_of(source.filesystem, file):
            known, first = columns.setdefault(field.name, (field, file.path))
            if known.dataType == field.dataType:
                continue
            had, read = (arrow_type(each.name, each.dataType, "merge_schema") for each in (known, field))
            if (had, read) in WIDENED:
                columns[field.name] = field, file.path
            elif (read, had) not in WIDENED:
                raise InvalidType(
                    f"merge_schema: column {field.name!r} is {had} in {first!r} and {read} in {file.path!r}; "
                    "files of one scan must have the same types, or narrower integers and floats"
                )
    of_files = [field for field, _ in columns.values() if field.name not in source.partitioned.names]
    return StructType(
        [*of_files, *(StructField(each.name, in_spark(each.type)) for each in source.partitioned)]
    )


def fields_of(filesystem: fs.FileSystem, file: File) -> list[StructField]:
    """Return the columns of a file that Spark reads."""
    opened = fragment(filesystem, file)
    said = fields_said(opened, file)
    if said is not None:
        return said
    instants = int96_in(opened)
    kinds = {field.name: kind_in_spark(field.type) for field in opened.physical_schema}
    # Within structs and lists instants are not distinguished from other times.
    kinds |= {name: UTC if pa.types.is_timestamp(kinds[name]) else None for name in instants}
    return [StructField(name, in_spark(kind)) for name, kind in kinds.items() if kind is not None]


def in_spark(kind: pa.DataType) -> Any:
    """Return the Spark type of one of those that `kind_in_spark` returns."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def fields_said(opened: ds.ParquetFileFragment, file: File) -> list[StructField] | None:
    """Return the columns of Spark's schema in a footer; None if there is none, or none that can be read."""

    def known(found: dict[str, Any]) -> dict[str, Any]:
        if found.get("type") == "udt":
            # To read it, pyspark would import the class that the file names.
            raise InvalidType(
                f"paths: {file.path!r} has a user-defined type; cast such columns in Spark first"
            )
        # Spark reads all that is in files as what may be null, whatever it was when it was written.
        return found | dict.fromkeys(NULLABLE & found.keys(), True)

    metadata = opened.metadata.metadata or {}
    try:
        said = json.loads(metadata.get(SCHEMA, b"null"), object_hook=known)
        if not isinstance(said, dict):
            return None
        return list(StructType.fromJson(said).fields)
    except InvalidType:
        raise
    except UNREADABLE:
        # Spark 1 wrote another form; Spark takes the file's columns of what it cannot read, either.
        return None
