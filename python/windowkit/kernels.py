"""Sliding windows over one column: Arrow in, Arrow out, for user-defined functions and notebooks.

>>> import pyarrow as pa
>>> from windowkit import kernels
>>> kernels.sliding_sum(pa.array([1, 2, 3, 4]), 2).to_pylist()
[3, 5, 7]
>>> kernels.sliding_mean(pa.array([1, 2, 3, 4]), 3, partial="start").to_pylist()
[1.0, 1.5, 2.0, 3.0]

A column is anything with an Arrow interface (``__arrow_c_array__`` or ``__arrow_c_stream__``: a pyarrow Array or
ChunkedArray, a Polars Series), a numpy array or a pandas Series. Chunks are joined first, which copies them; one
chunk is read where it lies. Results are pyarrow Arrays. The GIL is released around all work.

Nulls are skipped, NaN is the greatest value and -0.0 equals 0.0, as in Spark. Which algorithm answers, and what
each can do, is in the document "Kernels"; `explain` says it for one call.
"""

from __future__ import annotations

import operator
from typing import Any, Final, Literal, TypeAlias, overload

import pyarrow as pa

from windowkit import _native
from windowkit._window import Window
from windowkit.durations import Duration, Length, length
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
    ddof: int = 1,
) -> pa.Array:
    """Aggregate windows of `size` rows, one every `slide` rows.

    Window k holds the rows from ``k * slide`` to ``k * slide + size`` (exclusive), for every integer k for which
    it lies within the array (Theodorakis et al., *Hammer Slide*, ADMS 2018, section 2.1). `partial` lets windows
    reach over an end of the array, as long as they hold a row of it.

    Parameters
    ----------
    array : column
        Any column, see the module.
    size, slide : int
        Rows, at least 1. A slide beyond the size samples: rows between two windows are in none.
    agg : str
        One of `FUNCTIONS`. ``"var"`` and ``"std"`` take off `ddof` degrees of freedom; ``"argmin"`` and
        ``"argmax"`` are rows of `array`, the first of equal values; ``"first"`` and ``"last"`` are those of the
        values that are not null.
    algorithm : str
        One of `ALGORITHMS`; all have the same answers, and ``"auto"`` chooses by the rule that `explain` names.
    min_periods : int, optional
        Windows with fewer values that are not null are null; at most `size`. By default 1, as in SQL, and 0 for a
        count; pandas and Polars have `size`.
    partial : {"none", "start", "end", "both"}
        Which ends windows may reach over. ``"none"`` gives full windows only. At slide 1, ``"start"`` gives one
        value per row, of the window that ends with it, as pandas, Polars and SQL's ``ROWS BETWEEN size - 1
        PRECEDING AND CURRENT ROW`` do; ``"end"`` the same, of the window that begins with it.
    segments : optional
        Groups of neighbouring rows that windows never cross: integer offsets, one more than there are groups, the
        first 0 and the last the number of rows; or a run-end encoded array of as many rows, whose runs are the
        groups. Windows begin anew in each group, and answers follow each other group by group; `extents` says
        which belong to which.
    ddof : int
        For ``"var"`` and ``"std"``: degrees of freedom taken off.

    Returns
    -------
    pyarrow.Array
        An answer per window. Sums: int64, of unsigned integers uint64, float64, decimal128 with ten more digits,
        or duration. Means: float64, decimal128 with four more digits, or duration. Variances: float64. Counts and
        rows: int64. Extrema, first and last have the type of the values, dictionaries decoded for extrema.

    Raises
    ------
    InvalidType
        The function means nothing for the type, or an argument is of a wrong type.
    InvalidValue
        An argument is out of its range, or `algorithm` cannot answer `agg`.
    Overflow
        The true sum of a window does not fit its type; never because of another window.

    Notes
    -----
    O(1) amortised per row and window, whatever the size. Float sums are compensated: the error of a window is at
    most that of Kahan's sum over it, and nothing a window does not hold can touch it.

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
    return pa.array(_native.sliding(_column("array", array), windows, question, _groups(segments)))


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
    ddof: int = 1,
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
    ddof: int = 1,
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
    ddof: int = 1,
) -> pa.Array | pa.RecordBatch:
    """Aggregate windows over sorted times, whatever the gaps between them.

    Without `slide` there is a window per row: the rows at most `size` before it and those at its own time, as in
    SQL's ``RANGE BETWEEN size PRECEDING AND CURRENT ROW``. With `slide` windows begin at fixed distances, at
    ``start_time + k * slide`` for every integer k, hold the times from their start to `size` later (exclusive),
    and those that hold no row are left out, as in `windowkit.sliding`.

    Parameters
    ----------
    array : column
    times : column
        Of timestamps, dates, durations or integers, as long as `array`, none null, none before the one before it
        in its group.
    size, slide : str, datetime.timedelta or int
        Positive lengths as `windowkit.sliding` takes them; integers if times are integers. A slide beyond the size
        samples.
    agg, algorithm, segments, ddof
        As in `sliding`.
    closed : {"both", "right", "left", "neither"}
        Without `slide`: whether a window holds the time exactly `size` before its row ("both", "left"), and those
        at the row's own time ("both", "right"). SQL has "both", the default; pandas and Polars have "right".
    start_time : str, datetime.timedelta or int, optional
        With `slide`: a time at which a window begins, counted from 1970-01-01 00:00:00 UTC.
    min_periods : int, optional
        As in `sliding`, without a greatest value.

    Returns
    -------
    pyarrow.Array or pyarrow.RecordBatch
        Without `slide` an answer per row. With `slide` a row per window: ``start``, ``end``, ``value``, and before
        them, with `segments`, ``segment``, the number of the group.

    Raises
    ------
    InvalidType, InvalidValue, Overflow
        As in `sliding`; also for times that are null, step back or are not as many as values, and for windows
        beyond the range of times.

    Notes
    -----
    O(1) amortised per row and window. With `slide`, rows are first reduced to a partial per pane, the time between
    two neighbouring ends of windows.

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
    result = _native.sliding_by(
        _column("array", array), _column("times", times), windows, question, _groups(segments)
    )
    return pa.array(result) if slide is None else pa.record_batch(result)


def extents(
    rows: int, size: int, slide: int = 1, *, partial: Partial = "none", segments: Any = None
) -> pa.RecordBatch:
    """Return which rows each window of `sliding` holds, in the order of its answers.

    Parameters
    ----------
    rows : int
        Number of rows.
    size, slide, partial, segments
        As in `sliding`.

    Returns
    -------
    pyarrow.RecordBatch
        A row per window: ``segment``, the number of its group (0 without `segments`), ``start``, its first row, and
        ``end``, the row after its last. All int64.

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
    if not 0 <= count <= LARGEST:
        raise InvalidValue(f"rows: {count} is no number of rows; it is at least 0 and below 2**63")
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
    """Say which algorithm answers a call of `sliding`, or with `times` of `sliding_by`, and why. Nothing is answered.

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
    question = _question(agg, algorithm, None, 1)
    column, groups = _column("array", array), _groups(segments)
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


SHORT: Final = """{summary} of windows of `size` rows; `sliding` with ``agg="{agg}"``.

    Parameters
    ----------
    array, size, slide, algorithm, min_periods, partial, segments{ddof}
        As in `sliding`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_{agg}(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    {example}
"""
