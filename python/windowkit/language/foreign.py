"""What counts as a column: foreign classes distinguished by name, so that no library is imported for it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa

from windowkit.errors import InvalidType
from windowkit.language.checks import article

__all__ = ["class_name", "from_library", "is_a", "is_spark", "kind", "library_of", "native", "wrapped"]


def kind(data: object) -> str:
    """Return what messages call `data`: its class, with an article."""
    return "None" if data is None else class_name(type(data))


def class_name(of: type) -> str:
    """Return what messages call a class: its name, after that of its library, with an article."""
    library = of.__module__.split(".")[0].lstrip("_")
    return article(of.__name__ if library == "builtins" else f"{library} {of.__name__}")


def is_a(data: object, library: str, *names: str) -> bool:
    """Whether `data` is of one of these classes, or of a class made of them.

    `isinstance`, but for classes whose library need not be installed: only who has it can have such data.
    """
    return any(
        each.__name__ in names and each.__module__.split(".")[0] == library for each in type(data).__mro__
    )


def is_spark(data: object) -> bool:
    """Whether `data` is a Spark DataFrame, classic or Connect."""
    # Small pushes ask this, and a union of classes would be made each time.
    return not isinstance(data, (pa.RecordBatch, pa.Table)) and any(
        each.__name__ == "DataFrame" and each.__module__.split(".")[:2] == ["pyspark", "sql"]
        for each in type(data).__mro__
    )


def native(data: Any) -> Any:
    """Return the table that a frame of narwhals holds, and all else as it is."""
    return data.to_native() if is_a(data, "narwhals", "DataFrame", "LazyFrame") else data


def wrapped(made: Any, data: Any) -> Any:
    """Return a table as a frame of narwhals, of the version of its interface that `data` is of.

    If `data` is not of narwhals, the table is returned as it is.
    """
    if native(data) is data:
        return made
    module = type(data).__module__.split(".")
    # As in narwhals.stable.v1.
    versioned = ".".join(module[:3] if module[1] == "stable" else module[:1])
    return import_module(versioned).from_native(made, pass_through=True)


def library_of(data: object) -> str:
    """Return which library's names errors give to the types of `data`: spark, polars or pyarrow."""
    if is_spark(data):
        return "spark"
    return "polars" if is_a(data, "polars", "DataFrame", "LazyFrame", "Series", "Schema") else "pyarrow"


def is_table(data: object) -> bool:
    """Whether `data` has columns.

    The class is inspected: an object may need work, or a warning, to say which columns it has.
    """
    return (
        isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
        or hasattr(type(data), "columns")
        or "columns" in getattr(data, "__dict__", {})
    )


def from_library(argument: str, data: Any) -> Any:
    """Return numpy arrays, pandas Series, indexes and arrays as pyarrow's, and all else but tables as it is.

    A NaN of pandas is a missing value, one of numpy a number; what a mask of numpy covers is null.
    """
    if is_table(data):
        raise InvalidType(f"{argument}: {kind(data)} is a table; give one of its columns")
    is_array = is_a(data, "numpy", "ndarray") and data.ndim > 0
    if not is_array and not is_a(data, "pandas", "Series", "Index", "ExtensionArray"):
        return data
    try:
        return pa.array(data)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidType(f"{argument}: pyarrow cannot convert {kind(data)} to an array ({error})") from error
