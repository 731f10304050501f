"""Hashes of keys and of rows, as Catalyst expressions, and which columns can be hashed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark
from pyspark.sql.functions import col, lit, xxhash64

from windowkit.errors import InvalidType, UnknownColumn
from windowkit.spark.jobs import identifier, position_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "Reference",
    "by_name",
    "by_number",
    "content",
    "key_code",
    "numbered",
    "position",
    "distinguishing",
]

Reference = Callable[[int], "Column"]
"""Gives the column at a position of a DataFrame."""

DISTINGUISHING: Final[tuple[type[spark.DataType], ...]] = (
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.DoubleType,
    spark.FloatType,
    spark.LongType,
    spark.DecimalType,
    spark.IntegerType,
    spark.DayTimeIntervalType,
    spark.StringType,
    spark.BinaryType,
    spark.DateType,
    spark.ShortType,
    spark.ByteType,
    spark.BooleanType,
)
"""Types that are cheap to read and hash, first those whose values seldom repeat."""
ENOUGH: Final = 4
"""Columns that distinguish the rows of a split key, unless the caller names them."""


def numbered(frame: DataFrame) -> DataFrame:
    """Return `frame` under names that no user's name can be confused with: i0, i1, ..."""
    return frame.toDF(*(f"i{at}" for at in range(len(frame.columns))))


def by_number(at: int) -> Column:
    """Return a column of a frame that is `numbered`."""
    return col(f"i{at}")


def by_name(frame: DataFrame) -> Reference:
    """Return a reference to columns by the names they have in `frame`, for expressions that users get."""
    return lambda at: col(identifier(frame.columns[at]))


def name_of(at: int, frame: DataFrame, reference: Reference) -> str:
    """Return the name by which `reference` refers to the column at `at` of `frame`, as SQL writes it."""
    return f"i{at}" if reference is by_number else identifier(frame.columns[at])


def position(argument: str, column: str, frame: DataFrame) -> int:
    """Return where a column is.

    Raises
    ------
    UnknownColumn, InvalidValue
        There is no such column, or there are several.
    """
    found = position_of(column, frame.columns, frame, argument)
    if found is None:
        there = ", ".join(map(repr, frame.columns)) or "none"
        raise UnknownColumn(f"{argument}: no column {column!r}; columns of df are {there}")
    return found


def key_code(types: Iterable[tuple[str, spark.DataType]], columns: list[Column]) -> Column:
    """Return the 64-bit hash of key columns: equal for keys that Spark's ``groupBy`` holds to be equal.

    Null is a value like any other, all NaN are one, and -0.0 is 0.0, as in ``groupBy``.

    Raises
    ------
    InvalidType
        Spark groups by what it cannot hash, or by another equality than that of bytes.
    """
    for name, kind in types:
        if not is_hashable(kind):
            raise InvalidType(
                f"keys: column {name!r} has type {kind.simpleString()}; keys are of types that Spark groups "
                "by and hashes, with strings compared byte by byte (UTF8_BINARY)"
            )
    return xxhash64(*columns)


def is_hashable(kind: spark.DataType) -> bool:
    if isinstance(kind, spark.StringType):
        return bool(kind == spark.StringType())
    if isinstance(kind, spark.ArrayType):
        return is_hashable(kind.elementType)
    if isinstance(kind, spark.StructType):
        return all(is_hashable(field.dataType) for field in kind.fields)
    if isinstance(kind, spark.AtomicType | spark.NullType):
        return type(kind).__name__ not in ("VariantType", "GeographyType", "GeometryType")
    return False


def content(frame: DataFrame, positions: Iterable[int], reference: Reference) -> Column:
    """Return a 64-bit hash of a row's columns; of types without a hash, that of their values as strings."""
    columns = []
    for at in positions:
        kind = frame.schema.fields[at].dataType
        columns.append(reference(at) if is_hashable(kind) else reference(at).cast("string"))
    return xxhash64(*columns) if columns else lit(0).cast("bigint")


def distinguishing(frame: DataFrame, keys: Iterable[int]) -> list[str]:
    """Return the names of a few columns that should distinguish rows of one key, cheap ones first."""
    taken = set(keys)
    ranked = []
    lowered = [name.lower() for name in frame.columns]
    for at, field in enumerate(frame.schema.fields):
        if at not in taken and isinstance(field.dataType, DISTINGUISHING) and lowered.count(lowered[at]) == 1:
            rank = next(i for i, kind in enumerate(DISTINGUISHING) if isinstance(field.dataType, kind))
            ranked.append((rank, at))
    return [frame.columns[at] for _, at in sorted(ranked)[:ENOUGH]]
