"""The form of results: windows as structs or as two columns, and tables of pyarrow and other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import pyarrow as pa

from windowkit.arrow.given import is_ibis, is_lazy, is_relation
from windowkit.arrow.validation import refusing
from windowkit.errors import InvalidType, InvalidValue, WindowKitError
from windowkit.language.aggregation import Aggregate
from windowkit.language.checks import one_of
from windowkit.language.expressions import Expression
from windowkit.language.foreign import is_a
from windowkit.language.query import Query

if TYPE_CHECKING:
    import polars

__all__ = [
    "FORMS",
    "MADE_AS",
    "NULLABLE",
    "apart",
    "apart_schema",
    "edges",
    "finished",
    "dated",
    "dated_schema",
    "flat",
    "flat_schema",
    "form_of",
    "formed",
    "joined",
    "plainly",
    "widened",
]

Result = TypeVar("Result", pa.Table, pa.RecordBatch)

FORMS: Final = ("pyarrow", "pandas", "polars", "polars-lazy", "duckdb", "ibis")
MADE_AS: Final = {"polars-lazy": "polars", "duckdb": "pyarrow", "ibis": "pyarrow"}
"""Forms that are made of another one; see `finished`."""
EXTENTS: Final = ("window", "session_window")
RANKS: Final = pa.struct([pa.field(edge, pa.int64(), nullable=False) for edge in ("start", "end")])
NULLABLE: Final = {
    pa.bool_(): "boolean",
    **{getattr(pa, f"int{bits}")(): f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): f"UInt{bits}" for bits in (8, 16, 32, 64)},
}
"""What pandas calls a type whose plain columns hold no nulls: they would become floats, or objects."""
MASKED: Final = {
    **NULLABLE,
    pa.float32(): "Float32",
    pa.float64(): "Float64",
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), "string"),
}
"""The types of tables whose columns have pandas.NA for null."""

OBJECTS: Final = 1 << 18
"""How many are made at once, some hundredths of a second."""
UNHELD: Final = "pandas does not hold its values (result='pyarrow' does)"


@contextmanager
def in_pandas() -> Iterator[None]:
    """Make of Arrow data what pandas has; what is refused then is the result's fault.

    Raises
    ------
    InvalidValue
        A value or type is not one of pandas: a time of day of nanoseconds, a year after 9999, a union.
    """
    with refusing("result", UNHELD):
        try:
            yield
        except (pa.ArrowException, WindowKitError):
            raise
        except ValueError as error:
            # Some of pyarrow's are plain.
            raise InvalidValue(f"result: {UNHELD}: {error}") from error


def form_of(data: Any, result: str | None = None) -> str:
    """Return the form that a result has: the one asked for, or else that of the data.

    Raises
    ------
    InvalidType, InvalidValue
        `result` is not one of `FORMS`, or its library is not installed.
    """
    if result is None:
        own = {
            "pandas": is_a(data, "pandas", "DataFrame"),
            "polars": is_a(data, "polars", "DataFrame"),
            "polars-lazy": is_lazy(data),
            "duckdb": is_relation(data),
            "ibis": is_ibis(data),
        }
        return next((form for form, is_own in own.items() if is_own), FORMS[0])
    form = one_of("result", result, FORMS)
    library = form.partition("-")[0]
    try:
        import_module(library)
    except ImportError as error:
        raise InvalidValue(
            f"result: {form!r} is given, but {library} cannot be imported ({error}); install it, or use one "
            f"of the other forms, {', '.join(map(repr, FORMS))}"
        ) from None
    return form


def finished(made: Any, form: str, data: Any) -> Any:
    """Return a result in a form, of one in the form that `MADE_AS` says, or in that form itself.

    Raises
    ------
    InvalidType
        The library has no type for a column.
    """
    if form == "polars-lazy":
        return made.lazy()
    if form == "duckdb":
        return relation(made, data)
    if form == "ibis":
        import ibis

        with in_library("Ibis", ValueError, KeyError, NotImplementedError, ibis.common.exceptions.IbisError):
            return ibis.memtable(made)
    return made


@contextmanager
def in_library(library: str, *refusals: type[Exception]) -> Iterator[None]:
    """Make of Arrow data what a library has, by calls that refuse types by these exceptions."""
    try:
        yield
    except refusals as error:
        raise InvalidType(
            f"result: {library} does not take the result ({error}); use result='pyarrow'"
        ) from error


def relation(table: pa.Table, data: Any) -> Any:
    """Return a table as a relation of DuckDB, on the connection of `data` if that is one, too."""
    import duckdb

    with in_library("DuckDB", duckdb.Error):
        if is_relation(data):
            # DuckDB finds the table by the name of this variable, which no table of the user has. The other
            # name is that of `data`, unused.
            _windowkit_result = table
            return data.query("_windowkit_data", "SELECT * FROM _windowkit_result")
        return duckdb.from_arrow(table)


def formed(table: pa.Table, form: str, query: Query, data: Any, time: pa.DataType) -> Any:
    """Return the result of `query` over `data`, whose times are of type `time`, in a form.

    Keys get the types of their columns in `data` (categories, and pandas' own types), if that is a table of
    the same library, and aggregates whose values are of a column of categories get its categories. Otherwise
    columns have the types that the library gives to those of Arrow.

    Raises
    ------
    InvalidType
        Polars has no type for a column.
    InvalidValue
        pandas does not hold a value.
    """
    if form == "pandas":
        with in_pandas():
            return pandas_of(table, query, data)
    return polars_of(table, query, data, time) if form == "polars" else table


def polars_of(table: pa.Table, query: Query, data: Any, time: pa.DataType) -> Any:
    import polars as pl

    frame = polars_frame(table, time)
    if is_a(data, "polars", "DataFrame", "LazyFrame"):
        given = data.collect_schema()
        kinds = {key: given[key] for key in query.by if not isinstance(key, Expression)}
        kinds |= own_kinds(frame, own(query), given)
        frame = frame.with_columns(
            pl.col(name).cast(kind) for name, kind in kinds.items() if frame.schema[name] != kind
        )
    return frame


def own_kinds(
    frame: polars.DataFrame, aggs: Mapping[str, Aggregate], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the types of aggregates that hold categories, also in lists: as the data has them."""
    import polars as pl

    def kind_of(kind: Any, columns: Sequence[str]) -> Any:
        if isinstance(kind, pl.Categorical):
            return given[columns[0]]
        if isinstance(kind, pl.List):
            return pl.List(kind_of(kind.inner, columns))
        if isinstance(kind, pl.Struct):
            # The fields of rows are columns; those of counted values hold one.
            fields = {
                field.name: kind_of(field.dtype, [field.name] if field.name in columns else columns)
                for field in kind.fields
            }
            return pl.Struct(fields)
        return kind

    plainly_named = {
        name: each.columns or list(given)
        for name, each in aggs.items()
        if each.user is None and not any(isinstance(column, Expression) for column in each.columns)
    }
    kinds = {name: kind_of(frame.schema[name], columns) for name, columns in plainly_named.items()}
    return {name: kind for name, kind in kinds.items() if kind != frame.schema[name]}


def polars_frame(table: pa.Table, time: pa.DataType | None = None) -> polars.DataFrame:
    """Return a table as a DataFrame of Polars, which has no zones that are offsets.

    Moments in such are shown in the zone of times of type `time` if that has a name, else in UTC.
    """
    import polars as pl

    zone = getattr(time, "tz", None)
    zone = "UTC" if zone is None or is_offset(zone) else zone
    kinds = [in_zone(kind, zone) for kind in table.schema.types]
    if kinds != table.schema.types:
        table = table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))
    for field in table.schema:
        if is_unknown_to_polars(field.type):
            raise InvalidType(
                f"result: column {field.name!r} has type {field.type}, which Polars does not have; use "
                "result='pyarrow' or result='pandas'"
            )
    # Chunks stay as they are: to join them would be to copy them.
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def is_offset(zone: str) -> bool:
    """Whether a zone of Arrow is an offset, not the name of one."""
    return zone[:1] in ("+", "-")


def in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    """Return a type in which moments are in a zone, where theirs is an offset.

    Examples
    --------
    >>> print(in_zone(pa.list_(pa.timestamp("s", "+05:30")), "UTC"), in_zone(pa.int8(), "UTC"))
    list<item: timestamp[s, tz=UTC]> int8
    """
    types = pa.types
    if types.is_timestamp(kind) and kind.tz is not None and is_offset(kind.tz):
        return pa.timestamp(kind.unit, zone)

    def within(field: pa.Field) -> pa.Field:
        return field.with_type(in_zone(field.type, zone))

    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, in_zone(kind.value_type, zone), kind.ordered)
    if types.is_struct(kind):
        return pa.struct(map(within, kind))
    if types.is_list(kind):
        return pa.list_(within(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(within(kind.value_field))
    return kind


def is_unknown_to_polars(kind: pa.DataType) -> bool:
    """Whether a type is, or contains, one that Polars does not have: it may panic over it."""
    types = pa.types
    if types.is_dictionary(kind):
        return is_unknown_to_polars(kind.value_type)
    if types.is_interval(kind) or types.is_union(kind) or types.is_decimal256(kind):
        return True
    if types.is_run_end_encoded(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return True
    return any(is_unknown_to_polars(kind.field(at).type) for at in range(kind.num_fields))


def own(query: Query) -> dict[str, Aggregate]:
    """Return the aggregates of a query by their columns in its result."""
    return {each.name: each for each in query.aggs}


def categories(schema: pa.Schema, aggs: Mapping[str, Aggregate]) -> dict[str, str]:
    """Return the aggregates whose values are categories of a column of the data, each with that column."""
    return {
        name: each.columns[0]
        for name, each in aggs.items()
        if each.user is None
        and pa.types.is_dictionary(schema.field(name).type)
        and not isinstance(each.columns[0], Expression)
    }


def widened(table: pa.Table, form: str, data: Any, aggs: Mapping[str, Aggregate], events: Any = None) -> Any:
    """Return the rows of `data` with the columns of `aggs`, as `table` has them, in a form.

    If `data` is of the library of that form, its own columns stay as they are, and so does its index. What is
    aggregated are columns of `events`, if there are any, and else of `data`.
    """
    if form == "pyarrow":
        return table
    results = table.select(list(aggs))
    if form == "polars":
        import polars as pl

        frame = data if is_a(data, "polars", "DataFrame") else polars_frame(table.drop_columns(list(aggs)))
        source = frame if events is None else events
        new = polars_frame(results)
        kinds = own_kinds(new, aggs, source.schema) if is_a(source, "polars", "DataFrame") else {}
        return frame.hstack(new.with_columns(pl.col(name).cast(kind) for name, kind in kinds.items()))
    import pandas as pd

    with in_pandas():
        frame = data if is_a(data, "pandas", "DataFrame") else frame_of(table.drop_columns(list(aggs)))
        source = frame if events is None else events
        given = source.dtypes.to_dict() if is_a(source, "pandas", "DataFrame") else {}
        on_arrow = any(isinstance(kind, pd.ArrowDtype) for kind in [*given.values(), *frame.dtypes])
        of = categories(results.schema, aggs)
        masked = of_masked(given, aggs)
        columns = {
            name: pandas_array(values, given.get(of.get(name, "")), on_arrow, masked.get(name))
            for name, values in zip(results.column_names, results.columns, strict=True)
        }
        return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)


def of_masked(given: Mapping[str, Any], aggs: Mapping[str, Aggregate]) -> dict[str, Any]:
    """Return aggregates of columns whose nulls are ``pandas.NA``, as are those of their results: by types."""
    import pandas as pd

    kinds = {name: [given.get(column) for column in each.columns] for name, each in aggs.items()}
    masked = {
        name: [kind for kind in each if getattr(kind, "na_value", None) is pd.NA]
        for name, each in kinds.items()
    }
    return {name: each[0] for name, each in masked.items() if each}


def pandas_array(values: pa.ChunkedArray, own: Any, on_arrow: bool, masked: Any = None) -> Any:
    """Return values as a column of pandas, of the type `own` if there is one, or alike the type `masked`."""
    import pandas as pd

    if isinstance(own, pd.CategoricalDtype):
        return series(values).astype(own).array
    if own is not None and hasattr(own, "__from_arrow__"):
        return own.__from_arrow__(values)
    if own is not None and pa.types.is_null(values.type):
        return series(values).astype(own).array
    if own is None and on_arrow and not pa.types.is_dictionary(values.type):
        return pd.ArrowDtype(values.type).__from_arrow__(values)
    kinds = MASKED if masked is not None else NULLABLE if values.null_count else {}
    kind = kinds.get(values.type)
    if kind == "string" and isinstance(masked, pd.StringDtype):
        # There are several, which differ in how they are stored.
        kind = masked
    if own is None and kind is not None:
        return pd.api.types.pandas_dtype(kind).__from_arrow__(values)
    return series(values).array


def frame_of(table: pa.Table) -> Any:
    """Return a table with the types that pandas gives to those of Arrow."""
    import pandas as pd

    if table.schema.pandas_metadata:
        # It says what the index is.
        return table.to_pandas()
    columns = zip(table.column_names, table.columns, strict=True)
    return pd.DataFrame({name: series(values) for name, values in columns}, pd.RangeIndex(len(table)))


def series(values: pa.ChunkedArray) -> Any:
    """Return values as pandas holds them; objects are made a part at a time, as a signal waits for each part.

    What becomes numbers is copied as a whole, which takes little.
    """
    import pandas as pd

    if len(values) <= OBJECTS or values.slice(0, 0).to_pandas().dtype != object:
        return values.to_pandas()
    parts = [values.slice(at, OBJECTS).to_pandas() for at in range(0, len(values), OBJECTS)]
    return pd.concat(parts, ignore_index=True)


def pandas_of(table: pa.Table, query: Query, data: Any) -> Any:
    import pandas as pd

    given = data.dtypes.to_dict() if is_a(data, "pandas", "DataFrame") else {}
    read = list(given) if query.reads_all else query.named
    # Those that are computed in place of a column are not of its type.
    given = {name: kind for name, kind in given.items() if name not in map(str, query.expressions)}
    on_arrow = any(isinstance(given.get(name), pd.ArrowDtype) for name in read)
    of = categories(table.schema, own(query))
    masked = of_masked(given, own(query))
    extents = edges(table.schema, len(query.by)) if query.window_columns == "struct" else {}

    includes_end = all(window.includes_end for window in query.windows)

    def column(at: int, name: str, values: pa.ChunkedArray) -> Any:
        if at in extents:
            # Ranks always end before that of the next row.
            return intervals(values, "both" if includes_end and extents[at] == "window" else "left")
        is_key = at < len(query.by)
        kind = given.get(name if is_key else of.get(name, ""))
        return pandas_array(values, kind, on_arrow, None if is_key else masked.get(name))

    columns = zip(table.column_names, table.columns, strict=True)
    return pd.DataFrame({name: column(at, name, values) for at, (name, values) in enumerate(columns)})


def intervals(windows: pa.ChunkedArray, closed: Literal["left", "both"] = "left") -> Any:
    """Return windows as intervals of pandas."""
    import pandas as pd

    start, end = (pd.Index(moments(edge).to_pandas()) for edge in windows.flatten())
    return pd.arrays.IntervalArray.from_arrays(start, end, closed=closed)


def plainly(table: pa.Table, form: str) -> Any:
    """Return a table in a form, with the types that its library gives to those of Arrow."""
    if form == "pyarrow":
        return table
    if form == "polars":
        return polars_frame(table)
    with in_pandas():
        return frame_of(table)


def joined(
    table: pa.Table,
    form: str,
    origins: Sequence[tuple[bool, str] | None],
    left: Any,
    right: Any,
    passed: Sequence[Mapping[str, Any]] = ({}, {}),
    shared: Sequence[tuple[str, str]] = (),
    time: pa.DataType | None = None,
) -> Any:
    """Return the result of a join in a form.

    Columns keep the types that they have in `left` and `right`, of which `origins` says where each comes from
    (whether from the left side, and by which name; None for windows), if these are tables of that library.
    What has `passed`, of the left side and of the right one, takes the place of what `table` has. A left key
    that is `shared` also holds values of the right key beside it: if that has another type, which may have
    other categories, the result has the values alone. Times of the left side are of type `time`.
    """
    if form == "pyarrow":
        return table
    mixed = {own for own, other in shared if type_in(left, form, own) != type_in(right, form, other)}
    of = [None if origin is None else (left if origin[0] else right, origin[1]) for origin in origins]
    own = {
        name: passed[0 if origin[0] else 1][origin[1]]
        for name, origin in zip(table.column_names, origins, strict=True)
        if origin is not None and origin[1] in passed[0 if origin[0] else 1]
    }
    if form == "polars":
        import polars as pl

        frame = polars_frame(table, time)
        kinds = {
            name: origin[0].schema[origin[1]]
            for name, origin in zip(table.column_names, of, strict=True)
            if name not in own and origin is not None and is_a(origin[0], "polars", "DataFrame")
        }
        # Types that differ within a struct are no keys of one join.
        kinds |= {name: pl.String() for name in mixed & kinds.keys() if isinstance(kinds[name], pl.Enum)}
        return frame.with_columns(
            *(pl.col(name).cast(kind) for name, kind in kinds.items() if frame.schema[name] != kind),
            *(values.alias(name) for name, values in own.items()),
        )
    import pandas as pd

    frames = [data for data in (left, right) if is_a(data, "pandas", "DataFrame")]
    on_arrow = any(isinstance(kind, pd.ArrowDtype) for data in frames for kind in data.dtypes)

    def column(name: str, values: pa.ChunkedArray, origin: tuple[Any, str] | None) -> Any:
        if name in own:
            return own[name]
        kind = None if origin is None else type_in(origin[0], "pandas", origin[1])
        if name in mixed and isinstance(kind, pd.CategoricalDtype):
            plain = getattr(values.type, "value_type", values.type)
            return pandas_array(values.cast(plain), None, on_arrow)
        # Plain columns of pandas have no room for nulls, where rows have no partner.
        is_open = hasattr(kind, "__from_arrow__") or isinstance(kind, pd.CategoricalDtype)
        is_open = is_open or pa.types.is_null(values.type)
        return pandas_array(values, kind if is_open or not values.null_count else None, on_arrow)

    columns = zip(table.column_names, table.columns, of, strict=True)
    with in_pandas():
        return pd.DataFrame({name: column(name, values, origin) for name, values, origin in columns})


def type_in(data: Any, library: str, column: str) -> Any:
    """Return the type of a column in a table of a library; None if `data` is of another one."""
    if not is_a(data, library, "DataFrame"):
        return None
    return data.schema[column] if library == "polars" else data.dtypes.get(column)


def moments(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates as timestamps, since pandas has no intervals of dates, and all else as it is."""
    if pa.types.is_date(times.type):
        return times.cast(pa.timestamp("s" if pa.types.is_date32(times.type) else "ms"))
    return times


def edges(schema: pa.Schema, keys: int) -> dict[int, str]:
    """Return which columns hold starts and ends, and what the names of their parts begin with.

    After the keys nothing but the names of queries and windows comes before the windows.
    """
    # No generator, in which what a handler of signals raises would be told as ignored.
    at = keys
    while schema.field(at).name not in EXTENTS:
        at += 1
    found = {at: "window"}
    if at + 1 < len(schema):
        ranks = schema.field(at + 1)
        # An aggregate of this name, which may be a struct too, has other fields.
        if ranks.name == "window_rows" and ranks.type == RANKS:
            found[at + 1] = ranks.name
    return found


def flat(result: Result, keys: int) -> Result:
    """Return a result of so many keys with two columns for each that holds starts and ends; no copies."""
    return apart(result, edges(result.schema, keys))


def apart(result: Result, extents: Mapping[int, str]) -> Result:
    """Return a result with two columns for some that hold starts and ends, by what their names begin with."""
    columns: list[Any] = []
    for at, column in enumerate(result.columns):
        columns += column.flatten() if at in extents else [column]
    return type(result).from_arrays(columns, schema=apart_schema(result.schema, extents))


def dated(result: Result, keys: int, days: Callable[[pa.Array], pa.Array]) -> Result:
    """Return a result of so many keys with the days of windows, which `days` makes of their starts."""
    schema, columns = dated_schema(result.schema, keys), list(result.columns)
    (at,) = edges(result.schema, keys)
    starts = columns[at].flatten()[0]
    if isinstance(result, pa.Table):
        columns[at] = pa.chunked_array(map(days, starts.chunks), pa.date32())
    else:
        columns[at] = days(starts)
    return type(result).from_arrays(columns, schema=schema)


def dated_schema(schema: pa.Schema, keys: int) -> pa.Schema:
    """Return the schema of what `dated` returns."""
    (at,) = edges(schema, keys)
    return schema.set(at, pa.field("window_date", pa.date32(), schema.field(at).nullable)).remove_metadata()


def flat_schema(schema: pa.Schema, keys: int) -> pa.Schema:
    """Return the schema of what `flat` returns."""
    return apart_schema(schema, edges(schema, keys))


def apart_schema(schema: pa.Schema, extents: Mapping[int, str]) -> pa.Schema:
    """Return the schema of what `apart` returns."""
    fields: list[pa.Field] = []
    for at, field in enumerate(schema):
        parts = field.type if at in extents else ()
        fields += [
            pa.field(f"{extents[at]}_{part.name}", part.type, field.nullable or part.nullable)
            for part in parts
        ] or [field]
    return pa.schema(fields)
