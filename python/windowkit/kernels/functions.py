"""Sliding windows of rows or of time over one column, which rows they hold, and how they are answered."""

from __future__ import annotations

from typing import Any, overload

import pyarrow as pa

from windowkit import _native
from windowkit.errors import InvalidValue
from windowkit.kernels.arguments import (
    MOST_ROWS,
    ByRows,
    Closed,
    column_of,
    groups_of,
    question_of,
    rows_of,
    timed_of,
    values_of,
)
from windowkit.language.checks import as_given, integer, text
from windowkit.language.durations import Length, Partial


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
    validate: bool = False,
) -> pa.Array:
    """Aggregate windows of `size` rows, one every `slide` rows.

    Window k holds the rows from ``k * slide`` to ``k * slide + size`` (exclusive), for every integer k for
    which it lies within the array (Theodorakis et al., *Hammer Slide*, ADMS 2018, section 2.1). `partial`
    lets windows extend beyond an end of the array, as long as they hold a row of it.

    Parameters
    ----------
    array : column
        Any column; see `windowkit.kernels`.
    size, slide : int
        Rows, at least 1. A slide greater than the size samples: rows between two windows are in none.
    agg : str
        One of `FUNCTIONS`. ``"var"`` and ``"std"`` subtract `ddof` degrees of freedom; ``"argmin"`` and
        ``"argmax"`` are rows of `array`, the first of equal values; ``"first"`` and ``"last"`` are those of
        the values that are not null.
    algorithm : str
        One of `ALGORITHMS`; all give the same answers, except for the rounding of floats and the sign of
        a zero that is an extremum. ``"auto"`` chooses by the rule that `explain` names.
    min_periods : int, optional
        Windows with fewer values that are not null are null; at most `size`. By default 1, as in SQL, and 0
        for a count; pandas and Polars have `size`.
    partial : {"none", "start", "end", "both"}
        Beyond which ends windows may extend. ``"none"`` gives full windows only. At slide 1, ``"start"``
        gives one value per row, of the window that ends with it, as pandas, Polars and SQL's ``ROWS BETWEEN
        size - 1 PRECEDING AND CURRENT ROW`` do; ``"end"`` the same, of the window that begins with it.
    segments : optional
        Groups of neighbouring rows that windows never cross: integer offsets (a list, range or column), one
        more than there are groups, the first 0 and the last the number of rows; or a run-end encoded array of
        as many rows, whose runs are the groups. Windows start anew in each group, and answers come group by
        group; `extents` says which belong to which.
    ddof : int, optional
        For ``"var"`` and ``"std"`` only: degrees of freedom to subtract; 1 if not given.
    validate : bool, default False
        Look at every value of the columns, and refuse malformed data: strings that are not UTF-8, wrong
        counts of nulls. For columns from a file or another process; lengths, offsets, views and codes of
        dictionaries are always checked.

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
        The function is not defined for the type, or an argument is of a wrong type.
    InvalidValue
        An argument is out of its range, a column is malformed, there are 2**32 rows or more, or `algorithm`
        cannot answer `agg`.
    Overflow
        The true sum, or the mean of decimals, of a window does not fit its type; never because of another
        window.

    Notes
    -----
    O(1) amortised per row and window, whatever the size.

    Float sums are compensated: the error of a window is at most Kahan's bound for it, and values outside a
    window do not affect it. Sums of integers and decimals are exact, and their means those sums, divided;
    their variances are of the values as float64, which is exact up to 2**53 only: subtract a nearby value
    from larger ones first, which does not change variances.

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
    windows = ByRows(rows_of("size", size), rows_of("slide", slide), text("partial", partial))
    question = question_of(agg, algorithm, min_periods, ddof)
    return pa.array(
        _native.sliding(values_of(array, validate), windows, question, groups_of(segments, validate))
    )


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
    validate: bool = False,
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
    validate: bool = False,
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
    validate: bool = False,
) -> pa.Array | pa.RecordBatch:
    """Aggregate windows over sorted times, whatever the gaps between them.

    Without `slide` there is a window per row: the rows at most `size` before it and those at its own time,
    as in SQL's ``RANGE BETWEEN size PRECEDING AND CURRENT ROW``. With `slide` windows begin at fixed
    distances, at ``start_time + k * slide`` for every integer k, hold the times from their start to `size`
    later (exclusive), and those that hold no row are omitted, as in `windowkit.sliding`.

    Parameters
    ----------
    array : column
        Any column, as in `sliding`.
    times : column
        Timestamps, dates, durations or integers, as many as `array` has rows, without nulls, and ascending
        within each group.
    size, slide : str, datetime.timedelta, numpy.timedelta64 or int
        Positive lengths as `windowkit.sliding` takes them; integers if times are integers. A slide greater
        than the size samples.
    agg, algorithm, segments, ddof, validate
        As in `sliding`.
    closed : "both", "right", "left" or "neither", optional
        Without `slide`: whether a window holds the time exactly `size` before its row ("both", "left"), and
        those at the row's own time ("both", "right"). SQL has "both", the default; pandas and Polars have
        "right".
    start_time : str, datetime.timedelta, numpy.timedelta64 or int, optional
        With `slide`: a time at which a window begins, counted from 1970-01-01 00:00:00 UTC.
    min_periods : int, optional
        As in `sliding`, without an upper limit.

    Returns
    -------
    pyarrow.Array or pyarrow.RecordBatch
        Without `slide` an answer per row. With `slide` a row per window: ``start``, ``end``, ``value``, and
        before them, with `segments`, ``segment``, the number of the group.

    Raises
    ------
    InvalidType, InvalidValue, Overflow
        As in `sliding`; also for times that are null, decrease or are not as many as values, and for windows
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
    windows = timed_of(size, slide, start_time, closed)
    question = question_of(agg, algorithm, min_periods, ddof)
    result = _native.sliding_by(
        values_of(array, validate),
        column_of("times", times, validate),
        windows,
        question,
        groups_of(segments, validate),
    )
    return pa.array(result) if slide is None else pa.record_batch(result)


def extents(
    rows: int,
    size: int,
    slide: int = 1,
    *,
    partial: Partial = "none",
    segments: Any = None,
    validate: bool = False,
) -> pa.RecordBatch:
    """Return which rows each window of `sliding` holds, in the order of its answers.

    Parameters
    ----------
    rows : int
        Number of rows, at most 2**32 - 1, which is what a call takes.
    size, slide, partial, segments, validate
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
    windows = ByRows(rows_of("size", size), rows_of("slide", slide), text("partial", partial))
    count = integer("rows", rows, "it is a number of rows, an int")
    if not 0 <= count <= MOST_ROWS:
        raise InvalidValue(
            f"rows: {as_given(count)} is out of range; a call takes at least 0 and below 2**32 rows"
        )
    return pa.record_batch(_native.extents(count, windows, groups_of(segments, validate)))


def explain(
    array: Any,
    size: Length,
    slide: Length | None = None,
    *,
    agg: str,
    times: Any = None,
    start_time: Length | None = None,
    closed: Closed | None = None,
    algorithm: str = "auto",
    min_periods: int | None = None,
    ddof: int | None = None,
    partial: Partial | None = None,
    segments: Any = None,
    validate: bool = False,
) -> str:
    """Describe which algorithm a call of `sliding`, or with `times` of `sliding_by`, uses, and why.

    Parameters
    ----------
    array, size, slide, agg, algorithm, min_periods, ddof, segments, validate
        As in `sliding`, or `sliding_by`.
    times, start_time, closed
        As in `sliding_by`; the last two only with times.
    partial
        As in `sliding`; only without times.

    Examples
    --------
    >>> import pyarrow as pa
    >>> explain(pa.array([1.5, 2.5]), 2, agg="sum")
    'two_stacks_simd: windows overlap, and begin at equal distances'
    >>> explain(pa.array([1.5, 2.5]), 2, 2, agg="sum")
    'tumbling: windows do not overlap'
    """
    question = question_of(agg, algorithm, min_periods, ddof)
    column, groups = values_of(array, validate), groups_of(segments, validate)
    if times is None:
        for argument, value in (("start_time", start_time), ("closed", closed)):
            if value is not None:
                raise InvalidValue(
                    f"{argument}: {as_given(value)} was given without times; rows have no {argument}"
                )
        rolling = ByRows(
            rows_of("size", size),
            rows_of("slide", 1 if slide is None else slide),
            text("partial", "none" if partial is None else partial),
        )
        name, reason = _native.explain_sliding(column, rolling, question, groups)
    else:
        if partial is not None:
            raise InvalidValue(
                f"partial: {as_given(partial)} was given with times; partial is for windows of a number of "
                "rows"
            )
        timed = timed_of(size, slide, start_time, closed)
        name, reason = _native.explain_sliding_by(
            column, column_of("times", times, validate), timed, question, groups
        )
    return f"{name}: {reason}"
