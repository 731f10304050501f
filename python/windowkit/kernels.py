"""Sliding windows over one column: Arrow in, Arrow out, for user-defined functions and notebooks.

>>> import pyarrow as pa
>>> from windowkit import kernels
>>> kernels.sliding_sum(pa.array([1, 2, 3, 4]), 2).to_pylist()
[3, 5, 7]
>>> kernels.sliding_mean(pa.array([1, 2, 3, 4]), 3, partial="start").to_pylist()
[1.0, 1.5, 2.0, 3.0]

A column is anything with an Arrow interface (``__arrow_c_array__`` or ``__arrow_c_stream__``: a pyarrow
Array or ChunkedArray, a Polars Series), a numpy array, masked or not, or a pandas Series or Index. Chunks
are joined first, which copies them; one chunk is read where it lies. A call takes up to 2**32 - 1 rows.
Results are pyarrow Arrays. The GIL is released around all work.

Nulls are skipped, NaN is the greatest value and -0.0 equals 0.0, as in Spark: of both zeros an extreme may
be either. Which algorithm answers, and
what each can do, is in the document "Kernels"; `explain` says it for one call.
"""

from __future__ import annotations

import operator
from typing import Any, Final, Literal, TypeAlias, overload

import pyarrow as pa
import pyarrow.compute as pc

from windowkit import _native
from windowkit._columns import from_library, is_table, kind
from windowkit._window import Window
from windowkit.durations import Duration, Length, Rows, length
from windowkit.errors import InvalidType, InvalidValue

__all__ = [
    "ALGORITHMS",
    "FUNCTIONS",
    "Window",
    "explain",
    "extents",
    "sliding",
    "sliding_argmax",
    "sliding_argmin",
    "sliding_by",
    "sliding_count",
    "sliding_first",
    "sliding_last",
    "sliding_max",
    "sliding_mean",
    "sliding_min",
    "sliding_std",
    "sliding_sum",
    "sliding_var",
]

Partial: TypeAlias = Literal["none", "start", "end", "both"]
"""Which ends of the array, or of its group, windows may reach over."""

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

LARGEST: Final = 2**63 - 1

MOST_ROWS: Final = 2**32 - 1


def sliding(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    agg: str,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
    ddof: int | None = None,
) -> pa.Array:
    """Aggregate windows of `size` rows, one every `slide` rows.

    Window k holds the rows from ``k * slide`` to ``k * slide + size`` (exclusive), for every integer k for
    which it lies within the array (Theodorakis et al., *Hammer Slide*, ADMS 2018, section 2.1). `partial`
    lets windows reach over an end of the array, as long as they hold a row of it.

    Parameters
    ----------
    array : column
        Any column, see the module.
    size, slide : int
        Rows, at least 1. A slide beyond the size samples: rows between two windows are in none.
    agg : str
        One of `FUNCTIONS`. ``"var"`` and ``"std"`` take off `ddof` degrees of freedom; ``"argmin"`` and
        ``"argmax"`` are rows of `array`, the first of equal values; ``"first"`` and ``"last"`` are those of
        the values that are not null.
    algorithm : str
        One of `ALGORITHMS`; all have the same answers, but for the rounding of floats and the sign of a zero
        that is an extreme. ``"auto"`` chooses by the rule that `explain` names.
    min_periods : int, optional
        Windows with fewer values that are not null are null; at most `size`. By default 1, as in SQL, and 0
        for a count; pandas and Polars have `size`.
    partial : {"none", "start", "end", "both"}
        Which ends windows may reach over. ``"none"`` gives full windows only. At slide 1, ``"start"`` gives
        one value per row, of the window that ends with it, as pandas, Polars and SQL's ``ROWS BETWEEN size
        - 1 PRECEDING AND CURRENT ROW`` do; ``"end"`` the same, of the window that begins with it.
    segments : optional
        Groups of neighbouring rows that windows never cross: integer offsets (a list, range or column), one
        more than there are groups, the first 0 and the last the number of rows; or a run-end encoded array
        of as many rows, whose runs are the groups. Windows begin anew in each group, and answers follow each
        other group by group; `extents` says which belong to which.
    ddof : int, optional
        For ``"var"`` and ``"std"`` only: degrees of freedom taken off; 1 if not given.

    Returns
    -------
    pyarrow.Array
        An answer per window. Sums: int64, of unsigned integers uint64, float64, decimal128 with ten more
        digits, or duration. Means: float64, decimal128 with four more digits, or duration, of which halves
        of the last digit or unit are rounded away from zero. Variances: float64. Counts and rows: int64.
        Extrema, first and last have the type of the values: of runs, that of the values that they encode,
        and so of dictionaries for extrema.

    Raises
    ------
    InvalidType
        The function means nothing for the type, or an argument is of a wrong type.
    InvalidValue
        An argument is out of its range, there are 2**32 rows or more, or `algorithm` cannot answer `agg`.
    Overflow
        The true sum, or the mean of decimals, of a window does not fit its type; never because of another
        window.

    Notes
    -----
    O(1) amortised per row and window, whatever the size.

    Float sums are compensated: the error of a window is at most that of Kahan's sum over it, and nothing a
    window does not hold can touch it. Sums and means of integers and decimals are exact until the answer is
    rounded once; their variances are of the values as float64, which is exact up to 2**53 only: take a value
    near them off larger ones first, as it leaves variances as they are.

    A sum, mean or variance of finite values is infinite only if the true one is beyond the range of float64,
    and never NaN. A call takes up to 2**32 - 1 rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> values = pa.array([3, 1, None, 5, 4])
    >>> sliding(values, 2, agg="max").to_pylist()
    [3, 1, 5, 5]
    >>> sliding(values, 2, agg="max", min_periods=2).to_pylist()
    [3, None, None, 5]
    >>> sliding(values, 2, agg="max", partial="start").to_pylist()
    [3, 3, 1, 5, 5]
    >>> sliding(values, 2, agg="sum", segments=[0, 2, 5]).to_pylist()
    [4, 5, 9]
    """
    windows = (_length("size", size), _length("slide", slide), _name("partial", partial))
    question = _question(agg, algorithm, min_periods, ddof)
    return pa.array(_native.sliding(_values(array), windows, question, _groups(segments)))


@overload
def sliding_by(
    array: Any,
    times: Any,
    size: Length,
    slide: None = None,
    *,
    agg: str,
    closed: Closed | None = None,
    start_time: None = None,
    algorithm: str = "auto",
    min_periods: int | None = None,
    segments: Any = None,
    ddof: int | None = None,
) -> pa.Array: ...


@overload
def sliding_by(
    array: Any,
    times: Any,
    size: Length,
    slide: Length,
    *,
    agg: str,
    closed: None = None,
    start_time: Length | None = None,
    algorithm: str = "auto",
    min_periods: int | None = None,
    segments: Any = None,
    ddof: int | None = None,
) -> pa.RecordBatch: ...


def sliding_by(
    array: Any,
    times: Any,
    size: Length,
    slide: Length | None = None,
    *,
    agg: str,
    closed: Closed | None = None,
    start_time: Length | None = None,
    algorithm: str = "auto",
    min_periods: int | None = None,
    segments: Any = None,
    ddof: int | None = None,
) -> pa.Array | pa.RecordBatch:
    """Aggregate windows over sorted times, whatever the gaps between them.

    Without `slide` there is a window per row: the rows at most `size` before it and those at its own time,
    as in SQL's ``RANGE BETWEEN size PRECEDING AND CURRENT ROW``. With `slide` windows begin at fixed
    distances, at ``start_time + k * slide`` for every integer k, hold the times from their start to `size`
    later (exclusive), and those that hold no row are left out, as in `windowkit.sliding`.

    Parameters
    ----------
    array : column
    times : column
        Of timestamps, dates, durations or integers, as long as `array`, none null, none before the one
        before it in its group.
    size, slide : str, datetime.timedelta, numpy.timedelta64 or int
        Positive lengths as `windowkit.sliding` takes them; integers if times are integers. A slide beyond
        the size samples.
    agg, algorithm, segments, ddof
        As in `sliding`.
    closed : {"both", "right", "left", "neither"}
        Without `slide`: whether a window holds the time exactly `size` before its row ("both", "left"), and
        those at the row's own time ("both", "right"). SQL has "both", the default; pandas and Polars have
        "right".
    start_time : str, datetime.timedelta, numpy.timedelta64 or int, optional
        With `slide`: a time at which a window begins, counted from 1970-01-01 00:00:00 UTC.
    min_periods : int, optional
        As in `sliding`, without a greatest value.

    Returns
    -------
    pyarrow.Array or pyarrow.RecordBatch
        Without `slide` an answer per row. With `slide` a row per window: ``start``, ``end``, ``value``, and
        before them, with `segments`, ``segment``, the number of the group.

    Raises
    ------
    InvalidType, InvalidValue, Overflow
        As in `sliding`; also for times that are null, step back or are not as many as values, and for windows
        beyond the range of times.

    Notes
    -----
    O(1) amortised per row and window. With `slide`, rows are first reduced to a partial per pane, the time
    between two neighbouring ends of windows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> times = pa.array([0, 3, 4, 9, 9])
    >>> values = pa.array([1, 2, 3, 4, 5])
    >>> sliding_by(values, times, 5, agg="sum").to_pylist()
    [1, 3, 6, 12, 12]
    >>> sliding_by(values, times, 5, agg="sum", closed="right").to_pylist()
    [1, 3, 6, 9, 9]
    >>> for window in sliding_by(values, times, 6, 3, agg="sum").to_pylist():
    ...     print(window)
    {'start': -3, 'end': 3, 'value': 1}
    {'start': 0, 'end': 6, 'value': 6}
    {'start': 3, 'end': 9, 'value': 5}
    {'start': 6, 'end': 12, 'value': 9}
    {'start': 9, 'end': 15, 'value': 9}
    """
    windows = _timed(size, slide, start_time, closed)
    question = _question(agg, algorithm, min_periods, ddof)
    result = _native.sliding_by(_values(array), _column("times", times), windows, question, _groups(segments))
    return pa.array(result) if slide is None else pa.record_batch(result)


def extents(
    rows: int, size: int, slide: int = 1, *, partial: Partial = "none", segments: Any = None
) -> pa.RecordBatch:
    """Return which rows each window of `sliding` holds, in the order of its answers.

    Parameters
    ----------
    rows : int
        Number of rows, at most 2**32 - 1, which is what a call takes.
    size, slide, partial, segments
        As in `sliding`.

    Returns
    -------
    pyarrow.RecordBatch
        A row per window: ``segment``, the number of its group (0 without `segments`), ``start``, its first
        row, and ``end``, the row after its last. All int64.

    Examples
    --------
    Keys of groups, repeated for the windows of each:

    >>> import pyarrow as pa
    >>> keys = pa.array(["a", "b"])
    >>> windows = extents(5, 2, segments=[0, 2, 5])
    >>> windows.to_pydict()
    {'segment': [0, 1, 1], 'start': [0, 2, 3], 'end': [2, 4, 5]}
    >>> keys.take(windows["segment"]).to_pylist()
    ['a', 'b', 'b']
    """
    windows = (_length("size", size), _length("slide", slide), _name("partial", partial))
    count = _integer("rows", rows)
    if not 0 <= count <= MOST_ROWS:
        raise InvalidValue(f"rows: {count} is no number of rows of a call; it is at least 0 and below 2**32")
    return pa.record_batch(_native.extents(count, windows, _groups(segments)))


def explain(
    array: Any,
    size: Length,
    slide: Length | None = None,
    *,
    agg: str,
    times: Any = None,
    algorithm: str = "auto",
    partial: Partial = "none",
    segments: Any = None,
) -> str:
    """Say which algorithm answers a call of `sliding`, or with `times` of `sliding_by`, and why.

    Parameters
    ----------
    array, size, slide, agg, algorithm, partial, segments
        As in `sliding`, or `sliding_by`.
    times : column, optional
        As in `sliding_by`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> explain(pa.array([1.5, 2.5]), 2, agg="sum")
    'two_stacks_simd: windows overlap, and begin at equal distances'
    >>> explain(pa.array([1.5, 2.5]), 2, 2, agg="sum")
    'tumbling: windows do not overlap'
    """
    question = _question(agg, algorithm, None, None)
    column, groups = _values(array), _groups(segments)
    if times is None:
        rolling = (
            _length("size", size),
            _length("slide", 1 if slide is None else slide),
            _name("partial", partial),
        )
        name, reason = _native.explain_sliding(column, rolling, question, groups)
    else:
        timed = _timed(size, slide, None, None)
        name, reason = _native.explain_sliding_by(column, _column("times", times), timed, question, groups)
    return f"{name}: {reason}"


def sliding_sum(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the sum of the values in each window: exact for integers, compensated for floats.

    `sliding` with ``agg="sum"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_sum(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [6, 5, 2]
    """
    return sliding(
        array,
        size,
        slide,
        agg="sum",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def sliding_mean(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the mean of the values in each window.

    `sliding` with ``agg="mean"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_mean(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [3.0, 2.5, 1.0]
    """
    return sliding(
        array,
        size,
        slide,
        agg="mean",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def sliding_min(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the least value in each window; NaN is the greatest.

    `sliding` with ``agg="min"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_min(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [2, 1, 1]
    """
    return sliding(
        array,
        size,
        slide,
        agg="min",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def sliding_max(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the greatest value in each window; NaN is the greatest.

    `sliding` with ``agg="max"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_max(pa.array([2.0, 4.0, None, 1.0, float("nan")]), 3).to_pylist()
    [4.0, 4.0, nan]
    """
    return sliding(
        array,
        size,
        slide,
        agg="max",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def sliding_count(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the number of values in each window that are not null.

    `sliding` with ``agg="count"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_count(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [2, 2, 2]
    """
    return sliding(
        array,
        size,
        slide,
        agg="count",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def sliding_var(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
    ddof: int = 1,
) -> pa.Array:
    """Return the variance of the values in each window, null of `ddof` values or fewer.

    `sliding` with ``agg="var"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_var(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [2.0, 4.5, 0.0]
    """
    return sliding(
        array,
        size,
        slide,
        agg="var",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
        ddof=ddof,
    )


def sliding_std(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
    ddof: int = 1,
) -> pa.Array:
    """Return the standard deviation of the values in each window, null of `ddof` values or fewer.

    `sliding` with ``agg="std"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_std(pa.array([2, 4, None, 1, 1]), 2).to_pylist()
    [1.4142135623730951, None, None, 0.0]
    """
    return sliding(
        array,
        size,
        slide,
        agg="std",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
        ddof=ddof,
    )


def sliding_argmin(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the row of the first of the least values in each window.

    `sliding` with ``agg="argmin"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_argmin(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [0, 3, 3]
    """
    return sliding(
        array,
        size,
        slide,
        agg="argmin",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def sliding_argmax(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the row of the first of the greatest values in each window.

    `sliding` with ``agg="argmax"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_argmax(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [1, 1, 3]
    """
    return sliding(
        array,
        size,
        slide,
        agg="argmax",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def sliding_first(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the first value in each window that is not null, of any type.

    `sliding` with ``agg="first"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_first(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [2, 4, 1]
    """
    return sliding(
        array,
        size,
        slide,
        agg="first",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def sliding_last(
    array: Any,
    size: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    min_periods: int | None = None,
    partial: Partial = "none",
    segments: Any = None,
) -> pa.Array:
    """Return the last value in each window that is not null, of any type.

    `sliding` with ``agg="last"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_last(pa.array(["a", "b", None, "c"]), 3).to_pylist()
    ['b', 'c']
    """
    return sliding(
        array,
        size,
        slide,
        agg="last",
        algorithm=algorithm,
        min_periods=min_periods,
        partial=partial,
        segments=segments,
    )


def _column(argument: str, data: Any) -> Any:
    """Return `data` as something with an Arrow interface that is one column."""
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return data
    if is_table(data):
        raise InvalidType(f"{argument}: a {kind(data)} is a table; give one of its columns")
    data = from_library(argument, data)
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        return data
    raise InvalidType(
        f"{argument}: a {kind(data)} has no Arrow interface; allowed are a pyarrow Array or ChunkedArray, a "
        "Polars or pandas Series, a pandas Index, a numpy array, or anything with __arrow_c_array__ or "
        "__arrow_c_stream__ (for a list, pyarrow.array makes one)"
    )


def _values(array: Any) -> Any:
    """Return the column to aggregate, runs decoded."""
    column = _column("array", array)
    is_arrow = isinstance(column, pa.Array | pa.ChunkedArray)
    return pc.run_end_decode(column) if is_arrow and pa.types.is_run_end_encoded(column.type) else column


def _groups(segments: Any) -> Any:
    """Return `segments` as an Arrow array of offsets, or of runs."""
    if segments is None:
        return None
    if isinstance(segments, list | tuple | range):
        return pa.array([_integer("segments", offset, LARGEST) for offset in segments], pa.int64())
    return _column("segments", segments)


def _question(
    agg: str, algorithm: str, min_periods: int | None, ddof: int | None
) -> tuple[str, int, str, int | None]:
    least = None if min_periods is None else _integer("min_periods", min_periods)
    if least is not None and not 0 <= least <= LARGEST:
        raise InvalidValue(f"min_periods: {least} is no number of values; it is at least 0 and at most size")
    freedom = 1 if ddof is None else _integer("ddof", ddof)
    if not 0 <= freedom < 2**31:
        raise InvalidValue(f"ddof: {freedom} is no number of values; it is at least 0, and mostly 1")
    if ddof is not None and agg in FUNCTIONS and agg not in ("var", "std"):
        raise InvalidValue(f"ddof: {freedom} was given with agg {agg!r}; only 'var' and 'std' have one")
    return (_name("agg", agg), freedom, _name("algorithm", algorithm), least)


def _timed(
    size: Length, slide: Length | None, start_time: Length | None, closed: str | None
) -> tuple[int, int | None, int, str, bool]:
    """Return lengths in nanoseconds, or in units of integer times."""
    if slide is None and start_time is not None:
        raise InvalidValue(
            f"start_time: {start_time!r} was given without a slide; windows that end with a row have no phase"
        )
    if slide is not None and closed is not None:
        raise InvalidValue(
            f"closed: {closed!r} was given with a slide; windows that begin at fixed distances hold their "
            "start, and not their end"
        )
    given = {"size": size, "slide": slide, "start_time": start_time}
    lengths: dict[str, Duration | int] = {}
    for name, value in given.items():
        if value is None:
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
                f"{name}: {given[name]!r} is {kinds[1]}, but size is {kinds[0]}; both are of one kind"
            )
    units = {name: _units(value) for name, value in lengths.items()}
    for name in ("size", "slide"):
        if units.get(name, 1) <= 0:
            raise InvalidValue(f"{name}: {given[name]!r} is not positive; a {name} is greater than zero")
    ends = "both" if closed is None else _name("closed", closed)
    return (units["size"], units.get("slide"), units.get("start_time", 0), ends, is_time)


def _units(value: Duration | int) -> int:
    return value.nanoseconds if isinstance(value, Duration) else value


def _length(argument: str, value: Any) -> int:
    """Return a number of rows."""
    rows = _integer(argument, value, LARGEST)
    if rows < 1:
        raise InvalidValue(f"{argument}: {rows} is too small; a {argument} is at least 1 row")
    return rows


def _integer(argument: str, value: Any, largest: int | None = None) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidType(f"{argument}: {value!r} is a {type(value).__name__}; it takes an int")
    number = operator.index(value)
    if largest is not None and abs(number) > largest:
        raise InvalidValue(f"{argument}: {number} is out of range; an int of at most {largest} is allowed")
    return number


def _name(argument: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidType(f"{argument}: {value!r} is a {type(value).__name__}; it takes a string")
    return value
