"""`Window`, the aggregate of rows that come in at one end and leave at the other; see `windowkit.kernels`."""

from __future__ import annotations

import math
import numbers
from datetime import date, time, timedelta
from typing import Any, Literal, NoReturn

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.validation import checked, foreign_column, refusing
from windowkit.errors import InvalidType, InvalidValue
from windowkit.kernels.arguments import COLUMNS, FUNCTIONS, LARGEST, freedom_of
from windowkit.language.checks import as_given, integer, text
from windowkit.language.foreign import from_library, kind

__all__ = ["Window"]


class Window:
    """The aggregate of a window over a stream, kept up to date as rows enter and leave it.

    Rows enter at the back and leave at the front, in the order they came. `query` gives the aggregate of the
    rows in between, nulls skipped, in constant time. Nothing is ever subtracted: a value that has left
    the window, even an infinity, does not affect a floating-point answer.

    Parameters
    ----------
    agg : str
        ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, ``"count"``, ``"var"``, ``"std"``, ``"argmin"``,
        ``"argmax"``, ``"first"`` or ``"last"``. ``argmin`` and ``argmax`` give the number of a row, counted
        from the first row that ever entered, which is 0.
    type : pyarrow.DataType or str
        Of the values, like ``pa.float64()`` or ``"float64"``: integers, floats, decimal128 and durations for
        all functions, where durations have no variance; booleans, dates, times and timestamps for the
        functions that compare or pick; any type for ``count``.
    algorithm : {"daba", "two_stacks"}
        ``"daba"`` bounds the time of every single operation (DABA Lite: at most 3 combines per insert, 2 per
        evict, 1 per query). ``"two_stacks"`` bounds only their average, at less work in total: an
        occasional evict takes O(rows in the window).
    ddof : int, optional
        For ``"var"`` and ``"std"`` only, which are over the number of values less this; 1 if not given.

    Raises
    ------
    InvalidValue
        The function or the algorithm is unknown, or `ddof` is negative or given for another function.
    InvalidType
        The function is not defined for the type.

    Notes
    -----
    Types of answers are those of `windowkit.kernels.sliding`: sums of integers are 64 bits wide, and a true
    sum that does not fit raises `Overflow` when it is requested, which leaves the window as it was. NaN is
    the greatest value; -0.0 equals 0.0, and an extremum that is zero may have either sign; of equal extrema
    `argmin` and `argmax` give the oldest. Float sums are kept in two
    float64, so that they err by at most ``2**-53 * abs(sum) + n * 2**-103 * sum(abs(x))``, means and
    variances accordingly.

    Memory is one partial aggregate per value, from 8 bytes (extrema) to 40 (variances); a growing window
    never copies what it holds. References: Tangwongsan, Hirzel, Schneider, "In-Order Sliding-Window
    Aggregation in Worst-Case Constant Time", VLDB Journal 30, 2021; Theodorakis et al., "Hammer Slide", ADMS
    2018, section 3.

    A window may be shared by threads, whose calls then take turns. It cannot be copied or pickled.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> window = wk.kernels.Window("max", pa.int64())
    >>> window.insert(3)
    >>> window.insert(pa.array([1, None, 2]))
    >>> window.query()
    <pyarrow.Int64Scalar: 3>
    >>> window.evict()
    >>> window.query().as_py(), len(window)
    (2, 3)
    """

    def __init__(
        self,
        agg: str,
        type: pa.DataType | str,  # noqa: A002
        *,
        algorithm: Literal["daba", "two_stacks"] = "daba",
        ddof: int | None = None,
    ) -> None:
        self._agg = text("agg", agg, f"allowed are the names {', '.join(FUNCTIONS)}")
        self._algorithm = text("algorithm", algorithm, "allowed are 'daba' and 'two_stacks'")
        freedom = freedom_of(agg, ddof)
        self._type = _data_type(type)
        self._native = _native.StreamWindow(agg, self._type, algorithm, freedom)
        self._result_type = pa.field(_Named(self._native.result_type)).type

    @property
    def agg(self) -> str:
        """The function."""
        return self._agg

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self._type

    @property
    def result_type(self) -> pa.DataType:
        """The type of the answers."""
        return self._result_type

    @property
    def algorithm(self) -> str:
        """The algorithm that maintains the window."""
        return self._algorithm

    @property
    def null_count(self) -> int:
        """How many of the rows in the window are null."""
        return self._native.null_count

    def __len__(self) -> int:
        """Return how many rows are in the window, nulls included."""
        return len(self._native)

    def __repr__(self) -> str:
        return f"<Window {self._agg}({self._type}), {len(self)} rows, {self._algorithm}>"

    def __reduce__(self) -> NoReturn:
        """Refuse: a shallow copy would share its rows with the original, unseen."""
        raise InvalidType(
            "window: a Window cannot be copied or pickled; create another one and insert the same rows"
        )

    def insert(self, values: Any, *, validate: bool = False) -> None:
        """Add a row, or many, at the back.

        Parameters
        ----------
        values : scalar, or column
            A Python value or pyarrow scalar is one row, ``None`` a null. A column is as many rows as it is
            long: a pyarrow Array or ChunkedArray, a Polars or pandas Series, a pandas Index, a numpy array,
            or anything else with ``__arrow_c_array__`` or ``__arrow_c_stream__``.
        validate : bool, default False
            As for `windowkit.kernels.sliding`.

        Raises
        ------
        InvalidType
            The values are not of the window's type; columns are not cast.
        InvalidValue
            A Python value that the type cannot hold, or a malformed column.

        Notes
        -----
        Takes O(1) per row.

        Examples
        --------
        >>> from windowkit.kernels import Window
        >>> window = Window("max", pa.int64())
        >>> window.insert(3)
        >>> window.insert(pa.array([7, None]))
        >>> len(window), window.query().as_py()
        (3, 7)
        """
        if self._native.insert_number(values):
            return
        chunks = _chunks(values, validate)
        self._native.insert(self._one(values) if chunks is None else self._whole(chunks))

    def evict(self, n: int = 1) -> None:
        """Evict the `n` oldest rows.

        Raises
        ------
        InvalidValue
            The window has fewer rows; none is evicted then.

        Notes
        -----
        Takes O(n).

        Examples
        --------
        >>> from windowkit.kernels import Window
        >>> window = Window("max", pa.int64())
        >>> window.insert(pa.array([7, 3, 5]))
        >>> window.evict(2)
        >>> window.query().as_py()
        5
        """
        self._native.evict(_count("n", n))

    def query(self) -> pa.Scalar:
        """Return the aggregate of the rows in the window.

        Returns
        -------
        pyarrow.Scalar
            Of type `result_type`; null where there is no value (or one, for variances with ``ddof=1``),
            except for counts. A scalar, since it is exact for every type, nanoseconds included;
            ``.as_py()`` makes it a Python value.

        Raises
        ------
        Overflow
            The true answer does not fit `result_type`. The window stays as it is.

        Examples
        --------
        >>> from windowkit.kernels import Window
        >>> window = Window("mean", pa.float64())
        >>> window.query().as_py() is None
        True
        >>> window.insert(pa.array([1.0, 2.0]))
        >>> window.query().as_py()
        1.5
        """
        return pa.array(self._native.query())[0]

    def slide(
        self, values: Any, size: int, *, min_periods: int | None = None, validate: bool = False
    ) -> pa.Array:
        """Add rows one after the other, keep the `size` newest, and answer after each.

        For batches of one stream: the window continues from batch to batch, so the concatenated answers are
        those of `windowkit.kernels.sliding` over the whole stream with ``partial="start"``.

        Parameters
        ----------
        values : column
            As for `insert`.
        size : int
            The most rows that the window has from now on. Of a window with more, the oldest are evicted
            first.
        min_periods : int, optional
            Windows with fewer values than this are null. Default: 1, and 0 for counts, as in SQL; pandas and
            Polars have `size`.
        validate : bool, default False
            As for `windowkit.kernels.sliding`.

        Returns
        -------
        pyarrow.Array
            As long as `values`; each answer is for the window that ends with the row.

        Raises
        ------
        InvalidValue
            `size` is less than 1, or `min_periods` negative or more than `size`.
        InvalidType, Overflow
            As for `insert` and `query`. The window stays as it is.

        Notes
        -----
        If a signal handler raises meanwhile (Ctrl-C), the call has either taken effect or left the window as
        it was, as `insert`, `evict` and `clear` have: `calls` tells which, and `last` returns the answers. A
        call notices a signal between 65,536 rows.

        Examples
        --------
        >>> import pyarrow as pa
        >>> window = Window("mean", pa.float64())
        >>> for batch in (pa.array([1.0, 2.0]), pa.array([6.0, 1.0])):
        ...     print(window.slide(batch, size=3).to_pylist())
        [1.0, 1.5]
        [3.0, 3.0]
        """
        chunks = _chunks(values, validate)
        if chunks is None:
            raise InvalidType(f"values: {kind(values)} is not a column; {COLUMNS}")
        size = _count("size", size)
        if size < 1:
            raise InvalidValue(f"size: {size} is given; a window has at least 1 row")
        usual = 0 if self._agg == "count" else 1
        least = usual if min_periods is None else _count("min_periods", min_periods)
        if least > size:
            raise InvalidValue(f"min_periods: {least}; a window of {size} rows never has so many values")
        return pa.array(self._native.slide(self._whole(chunks), size, least))

    @property
    def calls(self) -> int:
        """The number of changes that have taken effect: rows that were added or removed.

        If a signal handler raises (Ctrl-C) in `insert`, `evict`, `slide` or `clear`, this tells whether the
        call has taken effect, as `windowkit.Operator.calls` does.
        """
        return self._native.calls

    def last(self) -> pa.Array:
        """Return the answers of the last `slide` once more: if an interrupt came before you had them.

        The window keeps them until the next one.

        Raises
        ------
        InvalidValue
            There was none yet.

        Examples
        --------
        >>> window = Window("sum", pa.int64())
        >>> before = window.calls
        >>> try:
        ...     answers = window.slide(pa.array([1, 2, 4]), size=2)
        ... except KeyboardInterrupt:
        ...     if window.calls == before:
        ...         raise
        ...     answers = window.last()
        >>> answers.to_pylist(), window.last().to_pylist()
        ([1, 3, 6], [1, 3, 6])
        """
        answers = self._native.last()
        if answers is None:
            raise InvalidValue("last: this window has not answered a slide yet")
        return pa.array(answers)

    def _whole(self, chunks: list[Any]) -> Any:
        """Return chunks in one piece, so that what is wrong in the last leaves the window as it was."""
        if not chunks:
            return pa.array([], self._type)
        if len(chunks) == 1:
            return chunks[0]
        # What joins them trusts them.
        with refusing("values"):
            return pa.concat_arrays([checked("values", chunk, full=True) for chunk in chunks])

    def clear(self) -> None:
        """Remove all rows. The next row is numbered after the last, as if all had been evicted."""
        self._native.clear()

    def _one(self, value: Any) -> pa.Array:
        """Return a Python value or pyarrow scalar as an array of the window's type."""
        if isinstance(value, pa.Scalar):
            if value.is_valid and value.type != self._type:
                raise InvalidType(f"values: {value.type} in a window over {self._type}; cast them first")
            value = value if value.is_valid else None
        elif isinstance(value, list | tuple) and not pa.types.is_nested(self._type):
            raise InvalidType(f"values: {kind(value)} is neither a value nor a column; {COLUMNS}")
        elif isinstance(value, bool) and not pa.types.is_boolean(self._type):
            raise InvalidType(f"values: {value} in a window over {self._type}; cast it first")
        elif pa.types.is_integer(self._type) and not hasattr(value, "__index__"):
            # pyarrow would drop a fraction.
            raise InvalidType(f"values: {as_given(value)} is not {self._type}; allowed are whole numbers")
        try:
            array = pa.array([value], self._type)
        except MemoryError:
            raise
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            if isinstance(error, OverflowError) or isinstance(value, _kindred(self._type)):
                raise InvalidValue(
                    f"values: {as_given(value):.60} does not fit {self._type} ({error})"
                ) from error
            raise InvalidType(f"values: {as_given(value):.60} is not {self._type} ({error})") from error
        is_given = value is not None and not isinstance(value, pa.Scalar)
        # pyarrow makes an infinity of what is too great.
        if pa.types.is_floating(self._type) and is_given and math.isinf(array[0].as_py()) > math.isinf(value):
            raise InvalidValue(f"values: {as_given(value):.60} is out of the range of {self._type}")
        return array


def _kindred(kind: pa.DataType) -> tuple[type, ...]:
    """Return the Python classes that values of a type have, so that one which is refused is out of range."""
    if pa.types.is_temporal(kind):
        return (date, time, timedelta, int)
    return (numbers.Number,)


class _Named:
    """A type as what pyarrow takes for a field: `pyarrow.DataType` itself takes no capsule."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def __arrow_c_schema__(self) -> object:
        return self._kind.__arrow_c_schema__()


def _count(name: str, value: Any) -> int:
    """Return an argument that counts something."""
    return integer(name, value, f"allowed are whole numbers from 0 to {LARGEST}", 0, LARGEST)


def _data_type(kind: Any) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        try:
            return pa.type_for_alias(kind)
        except ValueError as error:
            raise InvalidValue(f"type: {kind!r} is not the name of a pyarrow type") from error
    raise InvalidType(f"type: {as_given(kind)}; allowed is a pyarrow DataType or its name, like 'float64'")


def _chunks(values: Any, validate: bool) -> list[pa.Array] | None:
    """Return the arrays of a column, checked; none if it is not a column."""
    values = from_library("values", values)
    if not hasattr(values, "__arrow_c_array__") and not hasattr(values, "__arrow_c_stream__"):
        return None
    column = foreign_column("values", values, validate)
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]
