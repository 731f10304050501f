"""Distinct values counted in little memory, in the format of Apache DataSketches and of Spark's functions."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.validation import foreign_column
from windowkit.errors import InvalidType
from windowkit.language.checks import a_type, integer

__all__ = ["HyperLogLog"]

ACCEPTED: Final = (
    "allowed is a column: anything with an Arrow interface (__arrow_c_array__ or __arrow_c_stream__), like a "
    "pyarrow Array or ChunkedArray or a Polars Series, or what pyarrow.array takes, like a list, a numpy "
    "array or a pandas Series"
)


class HyperLogLog:
    """A sketch that estimates how many distinct values a column has.

    It is Apache DataSketches' HLL sketch to the bit: values are hashed as Spark's `hll_sketch_agg` hashes
    them, and sketches can be exchanged as bytes in both directions. A sketch takes 4 bytes a value at first,
    and at most `2**precision` bytes.

    Parameters
    ----------
    precision : int, default 12
        The logarithm to the base 2 of the number of registers, from 4 to 21; Spark's `lgConfigK`. The
        relative standard error of an estimate is 0.83 / sqrt(2**precision), of merged sketches 1.04 /
        sqrt(2**precision): 1.3 % and 1.6 % by default.

    Raises
    ------
    InvalidValue, InvalidType
        The precision is not an integer from 4 to 21.

    See Also
    --------
    HyperLogLog.from_bytes : Reads a sketch that Spark, or another DataSketches library, made.

    Notes
    -----
    Integers, booleans, dates, times, timestamps and durations are counted as 64-bit integers; floats as
    doubles, where all NaNs are one value, as are both zeros; strings by their UTF-8 bytes. Nulls are not
    counted, and, as in Spark, neither are empty strings and empty binary. An `int32` 5 and an `int64` 5 are
    one value; a `float64` 5.0 is another.

    The algorithm is HyperLogLog [1]_ with the running estimate of [2]_ and [3]_.

    References
    ----------
    .. [1] Flajolet, Fusy, Gandouet, Meunier. HyperLogLog: the analysis of a near-optimal cardinality
       estimation algorithm. AofA 2007.
    .. [2] Cohen. All-distances sketches, revisited: HIP estimators for massive graphs analysis. PODS 2014.
    .. [3] Ting. Streamed approximate counting of distinct elements. KDD 2014.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> sketch = wk.HyperLogLog().update(pa.array(["a", "b", None, "a"]))
    >>> round(sketch.estimate())
    2
    >>> sketch.merge(wk.HyperLogLog().update(["b", "c"]))
    HyperLogLog(precision=12, estimate=3)
    >>> wk.HyperLogLog.from_bytes(sketch.to_bytes())
    HyperLogLog(precision=12, estimate=3)
    """

    __slots__ = ("_native",)
    _native: _native.HyperLogLog

    def __init__(self, precision: int = 12) -> None:
        self._native = _native.HyperLogLog(whole("precision", precision, "4 to 21"))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview | pa.Buffer | pa.Scalar) -> HyperLogLog:
        """Read a sketch in the format of Apache DataSketches.

        Parameters
        ----------
        data : bytes-like or pyarrow binary scalar
            A sketch of any mode and type: what `to_bytes` gives, what Spark's `hll_sketch_agg`, `hll_union`
            and `hll_union_agg` give, or what the `serialize` methods of Apache's libraries give.

        Returns
        -------
        HyperLogLog
            A sketch that holds what the bytes hold.

        Raises
        ------
        InvalidValue
            The bytes are not such a sketch, or are damaged. The format has no checksum, but the lengths,
            counts and sums in it must agree; only damage to the coupons of a sketch of few values and slight
            damage to the running estimate remain undetected.
        InvalidType
            `data` is not bytes.

        Examples
        --------
        >>> sketch = HyperLogLog(10).update(range(100_000))
        >>> HyperLogLog.from_bytes(sketch.to_bytes()).estimate() == sketch.estimate()
        True
        """
        try:
            view = memoryview(data.as_py() if isinstance(data, pa.Scalar) else data)
        except (OverflowError, TypeError, ValueError):
            # Some times have no values in Python.
            raise InvalidType(f"data: {a_type(data)} was given; allowed are bytes") from None
        read = cls.__new__(cls)
        read._native = _native.HyperLogLog.from_bytes(view.tobytes())
        return read

    @property
    def precision(self) -> int:
        """The logarithm to the base 2 of the number of registers; merging may lower it."""
        return self._native.precision

    @property
    def relative_error(self) -> float:
        """The relative standard error of an estimate; 0 while values are few enough to keep all hashes."""
        return self._native.relative_error

    @property
    def nbytes(self) -> int:
        """The memory that the sketch takes, in bytes."""
        return self._native.nbytes

    def update(self, values: Any, *, validate: bool = False) -> HyperLogLog:
        """Count the values of a column.

        Parameters
        ----------
        values : column
            A pyarrow Array or ChunkedArray, a Polars Series, or anything else with an Arrow interface; or
            what `pyarrow.array` takes. Dictionaries are decoded, chunks read one after the other.
        validate : bool, default False
            Look at every value before, and refuse malformed data: strings that are not UTF-8, wrong counts of
            nulls. For columns from a file or another process; lengths, offsets, views and codes of
            dictionaries are always checked.

        Returns
        -------
        HyperLogLog
            The sketch itself.

        Raises
        ------
        InvalidType
            `values` is not a column, or of a type that is not counted, like decimals and lists. Nothing is
            counted then.
        InvalidValue
            It is malformed. Without `validate`, chunks before the malformed one stay counted.

        Notes
        -----
        O(1) per value; the GIL is released.

        Examples
        --------
        >>> round(HyperLogLog().update([1.5, float("nan"), 0.0, -0.0, None]).estimate())
        3
        """
        self._native.update(foreign_column("values", column(values), validate))
        return self

    def merge(self, other: HyperLogLog) -> HyperLogLog:
        """Merge another sketch, as if this one had counted its values too.

        Parameters
        ----------
        other : HyperLogLog
            A sketch, of any precision. As in DataSketches' unions, the result has the lower precision of the
            two once the other has registers; its estimate no longer depends on the order of values, at a
            slightly larger error.

        Returns
        -------
        HyperLogLog
            The sketch itself.

        Raises
        ------
        InvalidType
            `other` is not a HyperLogLog.

        Examples
        --------
        >>> round(HyperLogLog().update([1, 2]).merge(HyperLogLog(8).update([2, 3])).estimate())
        3
        """
        if not isinstance(other, HyperLogLog):
            raise InvalidType(f"other: {a_type(other)} was given; allowed is a HyperLogLog")
        self._native.merge(other._native)
        return self

    def estimate(self) -> float:
        """Return the estimated number of distinct values.

        Examples
        --------
        >>> HyperLogLog().estimate()
        0.0
        """
        return self._native.estimate()

    def bounds(self, stddevs: int = 2) -> tuple[float, float]:
        """Return bounds of the true number of distinct values.

        Parameters
        ----------
        stddevs : int, default 2
            The confidence, 1, 2 or 3: as standard deviations of a normal distribution: 68 %, 95 % or 99.7 %.

        Returns
        -------
        lower, upper : float
            The true number lies between them, at that confidence.

        Raises
        ------
        InvalidValue, InvalidType
            `stddevs` is not 1, 2 or 3.

        Examples
        --------
        >>> lower, upper = HyperLogLog().update(range(10_000)).bounds()
        >>> lower < 10_000 < upper
        True
        """
        return self._native.bounds(whole("stddevs", stddevs, "1, 2 and 3"))

    def to_bytes(self, bits: int = 8) -> bytes:
        """Return the sketch in the format of Apache DataSketches.

        Parameters
        ----------
        bits : {8, 6, 4}
            The size of registers: 8 bits are Spark's choice; 4 take half of the bytes. No estimate depends on
            it.

        Returns
        -------
        bytes
            At most 40 bytes more than the registers, and, with registers of 4 bits, than 4 bytes for each of
            a few exceptions.

        Raises
        ------
        InvalidValue, InvalidType
            `bits` is not 8, 6 or 4.

        Examples
        --------
        >>> sketch = HyperLogLog(12).update(range(100_000))
        >>> len(sketch.to_bytes())
        4136
        """
        return self._native.to_bytes(whole("bits", bits, "8, 6 and 4"))

    def copy(self) -> HyperLogLog:
        """Return an independent copy.

        Examples
        --------
        >>> sketch = HyperLogLog().update(["a"])
        >>> sketch.copy().update(["b"])
        HyperLogLog(precision=12, estimate=2)
        >>> sketch
        HyperLogLog(precision=12, estimate=1)
        """
        copied = type(self).__new__(type(self))
        copied._native = self._native.copy()
        return copied

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> HyperLogLog:
        return self.copy()

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        # Spark's workers get sketches that way.
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"HyperLogLog(precision={self.precision}, estimate={self.estimate():.0f})"


def whole(name: str, value: object, allowed: str) -> int:
    """Return `value` if it is an integer that the native core can take."""
    return integer(name, value, f"allowed are the integers {allowed}", 0, 2**32 - 1)


def column(values: Any) -> Any:
    """Return what has an Arrow interface: `values`, or a pyarrow array of them."""
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return values
    if values is None or isinstance(values, str | bytes | dict):
        raise InvalidType(f"values: {a_type(values)} was given; {ACCEPTED}")
    try:
        return pa.array(values)
    except MemoryError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidType(f"values: {a_type(values)} was given ({error}); {ACCEPTED}") from error
