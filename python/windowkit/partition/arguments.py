"""What the functions of partitioning are given: keys, windows, numbers; checked, and as the core takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from windowkit.arrow.validation import checked, foreign_column, imported, refusing
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, boolean, integer, number
from windowkit.language.durations import Duration, Length, Measure, Months, period
from windowkit.language.durations import Rows as RowCount
from windowkit.language.durations import rows as number_of_rows
from windowkit.language.foreign import is_spark
from windowkit.language.windows import Tumbling, Window, tumbling

if TYPE_CHECKING:
    from windowkit._native import PartitionWindow

METHODS: Final = ("waterfill", "shuffle", "hash", "partial-key", "cm", "am", "cam", "lm")
"""The names that `Partitioner` understands, besides the paper's abbreviations."""
MOST_WORKERS: Final = 2**16


@dataclass(frozen=True)
class Rows:
    """Windows that count rows; see `rows`."""

    size: int


def rows(size: int) -> Rows:
    """Return windows of `size` rows each, by the order of rows.

    Raises
    ------
    InvalidType, InvalidValue
        `size` is not an int, or is below 1.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> shuffle = wk.partition.Partitioner(3, "shuffle", window=rows(4))
    >>> workers = shuffle.assign(pa.array(range(8)))
    >>> workers[:4] == workers[4:]
    True
    """
    return Rows(checked_integer("size", size, 1, 2**62, "a number of rows"))


def table_of(keys: Any, times: Any = None, *, validate: bool = False) -> pa.Table:
    """Return keys, and times if there are any as the last column, as a table with chunks in step, checked."""
    full = boolean("validate", validate)
    columns = columns_of(keys, full)
    if times is not None:
        column = column_of("times", times, full)
        if len(column) != len(columns[0]):
            raise InvalidValue(
                f"times: {len(column)} times for {len(columns[0])} keys; every row has one time"
            )
        columns = [*columns, column]
    return pa.table(columns, names=[f"column {position}" for position in range(len(columns))])


def columns_of(keys: Any, validate: bool) -> list[Any]:
    """Return the columns of keys, as arrays or chunked arrays, checked."""
    if is_spark(keys):
        raise InvalidType(
            "keys: a Spark DataFrame has no rows in this process; windowkit.spark partitions DataFrames"
        )
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return [column_of("keys", keys, validate)]
    if isinstance(keys, dict):
        # pyarrow would read its names as a column.
        names = list(keys)
        if not names:
            raise InvalidValue("keys: there are no columns; keys are one column or several")
        columns = [column_of(f"keys[{name!r}]", keys[name], validate) for name in names]
        if len({len(column) for column in columns}) > 1:
            lengths = ", ".join(
                f"{name!r}: {len(column)}" for name, column in zip(names, columns, strict=True)
            )
            raise InvalidValue(f"keys: columns have different lengths ({lengths}); a row has a key in each")
        return columns
    if isinstance(keys, set | frozenset):
        raise InvalidType(f"keys: {a_type(keys)} has no order of rows; keys are a column or several")
    if isinstance(keys, list | tuple) and any(isinstance(each, pa.Array | pa.ChunkedArray) for each in keys):
        raise InvalidType(
            f"keys: {a_type(keys)} of arrays is not a column; several columns are a record batch, a "
            "table, or a dict of names and columns"
        )
    table = keys
    if not isinstance(keys, pa.Table | pa.RecordBatch):
        # A pandas DataFrame has columns, a Series has none.
        if not hasattr(keys, "columns") or not hasattr(keys, "__arrow_c_stream__"):
            return [column_of("keys", keys, validate)]
        table = imported("keys", keys, "__arrow_c_stream__", pa.table)
    if table.num_columns == 0:
        raise InvalidValue("keys: there are no columns; keys are one column or several")
    return list(checked("keys", table, validate).columns)


def column_of(argument: str, values: Any, validate: bool = False) -> Any:
    """Return a column as an array or chunked array, checked."""
    if isinstance(values, pa.ChunkedArray):
        if argument == "keys":
            return checked(argument, values, validate)
        # What joins chunks trusts them.
        with refusing(argument):
            return checked(argument, values, validate or values.num_chunks > 1).combine_chunks()
    if isinstance(values, pa.Array):
        return checked(argument, values, validate)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return column_of(argument, foreign_column(argument, values, validate), validate)
    is_column = hasattr(values, "__array__") or hasattr(values, "__len__")
    # One value of numpy is an array without dimensions.
    if isinstance(values, str | bytes) or not is_column or getattr(values, "shape", None) == ():
        raise InvalidType(
            f"{argument}: {a_type(values)} is not a column; it is an Arrow array, or an object "
            "with the Arrow interface"
        )
    try:
        column = pa.array(values)
    except (pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError) as error:
        raise InvalidType(
            f"{argument}: {a_type(values)} is not a column that Arrow can hold ({error})"
        ) from error
    return checked(argument, column, validate)


def checked_counts(argument: str, values: Any) -> list[int]:
    """Return a column of counts."""
    column = column_of(argument, values)
    if not pa.types.is_integer(column.type) and len(column):
        raise InvalidType(f"{argument}: it is {column.type}; counts are integers")
    return [checked_integer(argument, count, 0, 2**62, "a count") for count in column.to_pylist()]


@dataclass(frozen=True)
class WindowLength:
    """How long the windows of a partitioner are, and where they begin."""

    size: Measure
    offset: Duration | int = 0


def window_length(window: Tumbling | Length | Rows | None) -> WindowLength | None:
    """Return the length of a window as it is given."""
    if window is None:
        return None
    if isinstance(window, Rows):
        return WindowLength(number_of_rows(rows(window.size).size))
    window = tumbling_window(window)
    assert not isinstance(window.size, Months)
    assert not isinstance(window.start_time, Months | RowCount)
    return WindowLength(window.size, window.start_time or 0)


def tumbling_window(window: Tumbling | Length) -> Tumbling:
    """Return a tumbling window of a fixed length, of what `windowkit.tumbling` takes."""
    if not isinstance(window, Window):
        # By the name that it has here.
        period("window", window)
        window = tumbling(window)
    if not isinstance(window, Tumbling):
        raise InvalidType(
            f"window: {window} has windows that overlap, or that end key by key; allowed are tumbling windows"
        )
    if window.is_local:
        raise InvalidType(
            f"window: {window} is of a calendar; allowed are tumbling windows of a fixed length"
        )
    return window


def shown_window(window: PartitionWindow) -> Tumbling | Rows:
    """Return the window that was given, of what the core says of it."""
    if window.counts_rows:
        return Rows(window.size)
    if not window.is_duration:
        return tumbling(window.size, start_time=window.offset or None)
    start = f"{window.offset} nanoseconds" if window.offset else None
    return tumbling(f"{window.size} nanoseconds", start_time=start)


def checked_workers(workers: int) -> int:
    """Return a number of workers."""
    return checked_integer("workers", workers, 1, MOST_WORKERS, "a number of workers")


def checked_candidates(candidates: int | None, workers: int) -> int:
    """Return a number of candidates: 2 by default, or the one worker there is."""
    if candidates is None:
        return min(2, workers)
    return checked_integer("candidates", candidates, 1, MOST_WORKERS, "a number of workers")


def checked_seed(seed: int) -> int:
    """Return a seed."""
    return checked_integer("seed", seed, 0, 2**64 - 1, "an unsigned 64-bit integer")


def checked_integer(argument: str, value: Any, least: int, most: int, what: str) -> int:
    """Return an int within bounds; `what` says in words what it is."""
    return integer(argument, value, f"it is {what}, an int from {least} to {most}", least, most)


def checked_fraction(argument: str, value: Any) -> float:
    """Return a number in [0, 1]."""
    return number(argument, value, "it is a number in [0, 1]", 0, 1)
