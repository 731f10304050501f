"""What the sliding functions are given: columns, lengths, names; checked, and as the core takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from windowkit.arrow.validation import checked, foreign_column, refusing
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import as_given, integer, text
from windowkit.language.durations import Duration, Length, Rows, length
from windowkit.language.foreign import from_library, kind
from windowkit.language.windows import units

Closed: TypeAlias = Literal["both", "right", "left", "neither"]
"""Which ends of a window that ends with a row belong to it."""

FUNCTIONS: Final = (
    "sum",
    "mean",
    "min",
    "max",
    "count",
    "var",
    "std",
    "argmin",
    "argmax",
    "first",
    "last",
)
"""What `agg` may be."""

ALGORITHMS: Final = (
    "auto",
    "recalculate",
    "subtract_on_evict",
    "two_stacks",
    "two_stacks_simd",
    "tumbling",
)
"""What `algorithm` may be."""

COLUMNS: Final = (
    "allowed are a pyarrow Array or ChunkedArray, a Polars or pandas Series, a pandas Index, a numpy array, "
    "or anything with __arrow_c_array__ or __arrow_c_stream__ (for a list, pyarrow.array makes one)"
)
"""What errors say of columns."""

LARGEST: Final = 2**63 - 1

MOST_ROWS: Final = 2**32 - 1


def column_of(argument: str, data: Any, validate: bool) -> Any:
    """Return `data` as something with an Arrow interface that is one column, checked."""
    data = from_library(argument, data)
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        return foreign_column(argument, data, validate)
    raise InvalidType(f"{argument}: {kind(data)} has no Arrow interface; {COLUMNS}")


def values_of(array: Any, validate: bool) -> Any:
    """Return the column to aggregate, runs decoded."""
    column = column_of("array", array, validate)
    is_arrow = isinstance(column, pa.Array | pa.ChunkedArray)
    if not is_arrow or not pa.types.is_run_end_encoded(column.type):
        return column
    # What decodes them trusts them.
    with refusing("array", "its runs cannot be decoded"):
        return pc.run_end_decode(checked("array", column, full=True))


def groups_of(segments: Any, validate: bool) -> Any:
    """Return `segments` as an Arrow array of offsets, or of runs."""
    if segments is None:
        return None
    if isinstance(segments, list | tuple | range):
        return pa.array(
            [integer("segments", offset, "offsets are ints", -LARGEST, LARGEST) for offset in segments],
            pa.int64(),
        )
    return column_of("segments", segments, validate)


@dataclass(frozen=True)
class Question:
    """What is requested: a function, degrees of freedom, an algorithm, the least number of values."""

    function: str
    ddof: int
    algorithm: str
    min_periods: int | None


@dataclass(frozen=True)
class ByRows:
    """Windows of so many rows, each `slide` rows after the one before."""

    size: int
    slide: int
    partial: str


@dataclass(frozen=True)
class ByTime:
    """Windows over times: one that ends with each row, or with a slide one at each multiple of it."""

    size: Duration | int
    slide: Duration | int | None
    start_time: Duration | int
    closed: str


def question_of(agg: str, algorithm: str, min_periods: int | None, ddof: int | None) -> Question:
    """Return what is requested."""
    least = None
    if min_periods is not None:
        least = integer("min_periods", min_periods, "it is an int of at least 0 and at most size", 0, LARGEST)
    return Question(text("agg", agg), freedom_of(agg, ddof), text("algorithm", algorithm), least)


def freedom_of(agg: str, ddof: int | None) -> int:
    """Return degrees of freedom, which only variances have."""
    if ddof is None:
        return 1
    freedom = integer("ddof", ddof, "it is an int of at least 0", 0, 2**31 - 1)
    if agg in FUNCTIONS and agg not in ("var", "std"):
        raise InvalidValue(f"ddof: {freedom} was given with agg {agg!r}; only 'var' and 'std' have one")
    return freedom


def timed_of(size: Length, slide: Length | None, start_time: Length | None, closed: str | None) -> ByTime:
    """Return windows over times, whose lengths are all durations, or all in units of integer times."""
    if slide is None and start_time is not None:
        raise InvalidValue(
            f"start_time: {as_given(start_time)} was given without a slide; windows that end with a row "
            "have no phase"
        )
    if slide is not None and closed is not None:
        raise InvalidValue(
            f"closed: {as_given(closed)} was given with a slide; windows that begin at fixed distances hold "
            "their start, and not their end"
        )
    given: dict[str, Any] = {"size": size, "slide": slide, "start_time": start_time}
    lengths: dict[str, Duration | int] = {}
    for name, value in given.items():
        if value is None and name != "size":
            continue
        read = length(name, value)
        if isinstance(read, Rows):
            raise InvalidType(f"{name}: {read} is a number of rows; a {name} of time is a duration or an int")
        lengths[name] = read
    is_time = isinstance(lengths["size"], Duration)
    for name, value in lengths.items():
        if isinstance(value, Duration) != is_time:
            kinds = ("a duration", "an int") if is_time else ("an int", "a duration")
            raise InvalidType(
                f"{name}: {as_given(given[name])} is {kinds[1]}, but size is {kinds[0]}; both are of one kind"
            )
    for name in ("size", "slide"):
        if name in lengths and units(lengths[name]) <= 0:
            raise InvalidValue(
                f"{name}: {as_given(given[name])} is not positive; a {name} must be greater than zero"
            )
    ends = "both" if closed is None else text("closed", closed)
    return ByTime(lengths["size"], lengths.get("slide"), lengths.get("start_time", 0), ends)


def rows_of(argument: str, value: Any) -> int:
    """Return a number of rows."""
    rows = integer(argument, value, "a number of rows is an int of at least 1", -LARGEST, LARGEST)
    if rows < 1:
        raise InvalidValue(f"{argument}: {rows} is too small; a {argument} is at least 1 row")
    return rows
