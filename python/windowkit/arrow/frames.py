"""Frames of pandas and Polars of which some columns are read: of the others, rows are taken, as they are.

A frame may hold what Arrow does not: objects of several types, complex numbers, two columns of one name. To
convert text takes longer than to aggregate it, too. So whatever is not read is never made Arrow data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from windowkit.arrow.columns import names_of, part, values_at
from windowkit.arrow.datasets import is_dataset, schema_of_dataset
from windowkit.arrow.given import reader_of, schema_of
from windowkit.arrow.results import NULLABLE
from windowkit.arrow.validation import is_held
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.foreign import is_a, native

__all__ = [
    "Passing",
    "columns_of",
    "columns_schema",
    "has_each",
    "held_part",
    "is_frame",
    "outlined",
    "untyped",
    "whole_schema",
]

STREAM: Final = "__arrow_c_stream__"


def is_frame(data: object, library: str | None = None) -> bool:
    """Whether `data` is a DataFrame of one of the two libraries, or of `library`."""
    libraries = ("pandas", "polars") if library is None else (library,)
    return any(is_a(data, each, "DataFrame") for each in libraries)


def has_each(data: Any, columns: Iterable[str]) -> bool:
    """Whether a frame has each of some columns once: otherwise it is refused, with the names it has."""
    names = names_of(data)
    return all(names.count(name) == 1 for name in columns)


def outlined(argument: str, data: Any, read: Sequence[str] | None) -> Any:
    """Return a frame as Arrow data, in which columns that are not `read` are of type null.

    If all are read, or some are not there, `data` is returned as it is. A column of pandas whose name is no
    text, such as 5, is left out where the column that has its text as name is read.

    Notes
    -----
    O(columns) for those that are not read.

    Examples
    --------
    >>> import pandas as pd
    >>> outlined("data", pd.DataFrame({"z": [1j, 2j], "v": [1, 2]}), ["v"]).schema.types
    [DataType(null), DataType(int64)]
    """
    if read is None or not is_frame(data) or not has_each(data, read):
        return data
    table = reader_of(columns_of(data, read), argument).read_all()
    names = [str(name) for name in names_of(data) if name in read or str(name) not in read]
    nulls = pa.nulls(table.num_rows)
    columns = [table.column(name) if name in table.column_names else nulls for name in names]
    return pa.Table.from_arrays(columns, names=names)


def untyped(data: Any, columns: Iterable[str]) -> Any:
    """Return a frame of pandas in which some columns are without a type, where pandas had to give them one.

    To a column of nothing but missing values, of a file or of an empty list, pandas gives floats, or
    categories of which there are none; in Arrow, such is a column of nulls. All other data is returned as it
    is.

    Notes
    -----
    O(1) for columns whose first value is there.

    Examples
    --------
    >>> import pandas as pd
    >>> untyped(pd.DataFrame({"t": [None], "v": [None]}, dtype=float), ["t"]).dtypes.to_dict()
    {'t': dtype('O'), 'v': dtype('float64')}
    """
    data = native(data)
    if not is_frame(data, "pandas"):
        return data
    names = list(data.columns)
    missing = [name for name in {*columns} if names.count(name) == 1 and has_no_type(data[name])]
    if not missing:
        return data
    import pandas as pd

    made = data.copy(deep=False)
    for name in missing:
        made[name] = pd.Series([None] * len(data), data.index, dtype=object)
    return made


def has_no_type(values: Any) -> bool:
    """Whether a Series has nothing but missing values, and a type that does not say of what."""
    kind = values.dtype
    if is_a(kind, "pandas", "CategoricalDtype"):
        return not len(kind.categories)
    # Types of pandas' own, and of Arrow, are chosen.
    if not is_a(kind, "numpy", "dtype") or kind.kind != "f":
        return False
    return not values[:1].notna().any() and bool(values.isna().all())


def columns_schema(data: Any, read: Sequence[str] | None, argument: str = "data") -> pa.Schema:
    """Return the schema that `data` is or has, in which columns of a frame that are not `read` are null.

    Of a dataset, the types of other columns are those of a file.
    """
    if is_dataset(data):
        return schema_of_dataset(data, read, argument)
    return schema_of(outlined(argument, data, read), argument)


def whole_schema(data: Any, read: Sequence[str], argument: str = "data") -> pa.Schema:
    """Return the schema that `data` is or has; of a frame, columns are null of which Arrow holds nothing.

    Raises
    ------
    InvalidType, InvalidValue
        One of these is `read`.

    Examples
    --------
    >>> import pandas as pd
    >>> whole_schema(pd.DataFrame({"z": [1j, 2j], "v": [1, 2]}), ["v"]).types
    [DataType(null), DataType(int64)]
    """
    if not is_frame(data) or not has_each(data, read):
        return schema_of(data, argument)
    try:
        return schema_of(data, argument)
    except (InvalidType, InvalidValue):
        held = schema_of(held_part(data, read), argument)
    names = list(map(str, names_of(data)))
    return pa.schema(
        [held.field(name) if name in held.names else pa.field(name, pa.null()) for name in names]
    )


def held_part(frame: Any, read: Collection[str]) -> Any:
    """Return a frame without the columns of which Arrow holds nothing, but with those that are `read`.

    Notes
    -----
    Each column is converted by itself: this is for frames that are not converted as a whole.
    """
    names = list(map(str, names_of(frame)))
    kept = [
        at
        for at, name in enumerate(names)
        if name in read or (names.count(name) == 1 and is_held(part(frame, [at]), STREAM))
    ]
    return part(frame, kept)


def columns_of(frame: Any, read: Iterable[str]) -> Any:
    """Return some columns of a frame, each of which it has once."""
    names = names_of(frame)
    return part(frame, [names.index(name) for name in read])


class Passing:
    """A side of a join, as rows for the core: of a frame, with what says which rows of it are to be taken.

    Parameters
    ----------
    argument : str
        What errors call it.
    data : Arrow data
    library : str
        That of the result: only its own frames pass.
    read : sequence of str
        The columns that are read.
    chosen : sequence of str, optional
        The columns that the result has; by default all.

    Raises
    ------
    InvalidValue
        The result would have two columns of one name.
    """

    def __init__(
        self, argument: str, data: Any, library: str, read: Sequence[str], chosen: Sequence[str] | None
    ) -> None:
        self._data = data
        self._names: list[str] = []
        self.rows = outlined(argument, data, read) if is_frame(data, library) else data
        if self.rows is data:
            return
        twice = [str(name) for name in names_of(data) if name not in read and str(name) in read]
        if twice and chosen is None:
            raise InvalidValue(
                f"{argument}: it has two columns {twice[0]!r}; rename one of them, or choose others by "
                f"{argument}_columns"
            )
        others = [name for name in map(str, names_of(data)) if name not in read]
        self._names = others if chosen is None else [name for name in others if name in chosen]
        if self._names:
            # The first of the columns without values has room for the numbers of the rows.
            place = self.rows.column_names.index(self._names[0])
            numbers = pc.indices_nonzero(pa.repeat(True, self.rows.num_rows))
            self.rows = self.rows.set_column(place, self._names[0], numbers.cast(pa.int64()))

    def passed(self, result: Mapping[str, pa.ChunkedArray]) -> dict[str, Any]:
        """Return the columns that pass, given those of the result of the core by their names here."""
        if not any(name in result for name in self._names):
            return {}
        numbers = result[self._names[0]]
        return {name: taken(self._data, name, numbers) for name in self._names}


def taken(frame: Any, name: str, rows: pa.ChunkedArray) -> Any:
    """Return the values of a column in rows of these numbers, and none where there is no number.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"z": [1j, 2j], "v": [1, 2]})
    >>> rows = pa.chunked_array([[1, None]])
    >>> print(*taken(frame, "v", rows))
    2 <NA>
    """
    if is_frame(frame, "polars"):
        import polars as pl

        return frame.get_column(name).gather(pl.Series(rows))
    import pandas as pd

    values = values_at(frame, list(map(str, names_of(frame))).index(name))
    # Types that are neither pandas' own nor those of times, which have no wrapper of their own either.
    is_plain = hasattr(values.dtype, "numpy_dtype") and not hasattr(values.dtype, "__from_arrow__")
    if is_plain and rows.null_count and values.dtype.kind in "biu":
        # Plain integers and booleans have no room for nulls.
        values = pd.array(values, dtype=NULLABLE[pa.from_numpy_dtype(values.dtype.numpy_dtype)])
        is_plain = False
    made = values.take(rows.fill_null(-1).to_numpy(), allow_fill=rows.null_count > 0)
    if not is_plain:
        return made
    made = made.to_numpy()
    if made.dtype == object:
        made[rows.is_null().to_numpy()] = None
    return made
