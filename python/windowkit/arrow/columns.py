"""Columns of DataFrames of pandas and Polars, by their places, and what Arrow would read as something else.

The levels of an index of pandas that have a name are columns, after the others, as they are in Arrow. Those
without a name number rows, and are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from windowkit.errors import InvalidValue
from windowkit.language.foreign import is_a

__all__ = ["is_null", "names_of", "part", "refuse_mixed_times", "values_at", "without_numbers"]


def names_of(frame: Any) -> list[Any]:
    """Return the names of the columns of a DataFrame, as it has them.

    Examples
    --------
    >>> import pandas as pd
    >>> names_of(pd.DataFrame({"v": [1, 2]}, index=pd.Index([3, 4], name="k")))
    ['v', 'k']
    """
    return [*frame.columns, *(str(frame.index.names[level]) for level in levels(frame))]


def levels(frame: Any) -> list[int]:
    """Return which levels of the index of a DataFrame are columns."""
    if not is_a(frame, "pandas", "DataFrame") or is_a(frame.index, "pandas", "RangeIndex"):
        return []
    columns = set(map(str, frame.columns))
    return [
        level for level, name in enumerate(frame.index.names) if name is not None and str(name) not in columns
    ]


def part(frame: Any, places: Sequence[int]) -> Any:
    """Return the columns of a DataFrame at some places of `names_of`, without an index."""
    if is_a(frame, "polars", "DataFrame"):
        return frame[:, list(places)]
    import pandas as pd

    own = len(frame.columns)
    made = frame.iloc[:, [at for at in places if at < own]]
    if is_a(frame.index, "pandas", "RangeIndex"):
        return made
    made = made.copy(deep=False)
    made.index = pd.RangeIndex(len(frame))
    of_index = [at for at in places if at >= own]
    if of_index:
        made.columns = made.columns.to_flat_index()
    for at in of_index:
        made.insert(len(made.columns), names_of(frame)[at], values_at(frame, at))
    return made


def values_at(frame: Any, place: int) -> Any:
    """Return the values of a column of a DataFrame of pandas, at a place of `names_of`."""
    own = len(frame.columns)
    if place < own:
        return frame.iloc[:, place].array
    return frame.index.get_level_values(levels(frame)[place - own]).array


def without_numbers(frame: Any) -> Any:
    """Return a DataFrame of pandas without the levels of its index that are no columns; no copies."""
    import pandas as pd

    index, named = frame.index, levels(frame)
    if is_a(index, "pandas", "RangeIndex") or len(named) == index.nlevels:
        return frame
    made = frame.copy(deep=False)
    others = [level for level in range(index.nlevels) if level not in named]
    made.index = index.droplevel(others) if named else pd.RangeIndex(len(frame))
    return made


def refuse_mixed_times(argument: str, frame: Any, made: Any) -> None:
    """Refuse objects of pandas that are times with a zone and times without one.

    Arrow has one of these for a column: whichever comes first.

    Parameters
    ----------
    argument : str
        What errors call the data.
    frame : pandas.DataFrame
    made : pyarrow.RecordBatchReader
        What it is in Arrow.

    Raises
    ------
    InvalidValue
    """
    names = list(map(str, names_of(frame)))
    for field in made.schema:
        if not pa.types.is_timestamp(field.type) or field.name not in names:
            continue
        values = values_at(frame, names.index(field.name))
        if values.dtype.name != "object":
            continue
        has_zone = [
            (row, getattr(values[row], "tzinfo", None) is not None)
            for row, is_missing in enumerate(is_null(values))
            if not is_missing
        ]
        other = next((row for row, zoned in has_zone if zoned != has_zone[0][1]), None)
        if other is None:
            continue
        first = has_zone[0][0]
        zoned, naive = (first, other) if has_zone[0][1] else (other, first)
        raise InvalidValue(
            f"{argument}: column {field.name!r}: it has times with a zone and times without one; row {zoned} "
            f"has {values[zoned]}, and row {naive} has {values[naive]}: make all of one kind, as by "
            "pandas.to_datetime(column, utc=True), for which those without a zone are of UTC"
        )


def is_null(values: Any) -> Any:
    """Return which values are missing."""
    import pandas as pd

    return pd.isna(values)
