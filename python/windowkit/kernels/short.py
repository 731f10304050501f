"""The short forms of `windowkit.kernels.sliding`: one a function, so that each has its own help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import pyarrow as pa

from windowkit.kernels.functions import sliding
from windowkit.language.durations import Partial

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Options(TypedDict, total=False):
    """What `sliding` takes besides the column, the windows and the function."""

    algorithm: str
    min_periods: int | None
    partial: Partial
    segments: Any
    validate: bool


class VarianceOptions(Options, total=False):
    """What sliding variances take: these options, and the degrees of freedom."""

    ddof: int


F = TypeVar("F", bound=Callable[..., pa.Array])


def short(function: F) -> F:
    """Show the keywords that a short form passes on, as `help` and notebooks read them, where they are."""
    own = inspect.signature(function)
    *named, options = own.parameters.values()
    kinds = VarianceOptions if "Variance" in options.annotation else Options
    passed = [inspect.signature(sliding).parameters[name] for name in kinds.__annotations__]
    function.__signature__ = own.replace(parameters=[*named, *passed])  # type: ignore[attr-defined]
    return function


@short
def sliding_sum(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the sum of the values in each window: exact for integers, compensated for floats.

    `sliding` with ``agg="sum"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_sum(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [6, 5, 2]
    """
    return sliding(array, size, slide, agg="sum", **options)


@short
def sliding_mean(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the mean of the values in each window.

    `sliding` with ``agg="mean"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_mean(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [3.0, 2.5, 1.0]
    """
    return sliding(array, size, slide, agg="mean", **options)


@short
def sliding_min(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the least value in each window; NaN is the greatest.

    `sliding` with ``agg="min"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_min(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [2, 1, 1]
    """
    return sliding(array, size, slide, agg="min", **options)


@short
def sliding_max(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the greatest value in each window; NaN is the greatest.

    `sliding` with ``agg="max"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_max(pa.array([2.0, 4.0, None, 1.0, float("nan")]), 3).to_pylist()
    [4.0, 4.0, nan]
    """
    return sliding(array, size, slide, agg="max", **options)


@short
def sliding_count(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the number of values in each window that are not null.

    `sliding` with ``agg="count"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_count(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [2, 2, 2]
    """
    return sliding(array, size, slide, agg="count", **options)


@short
def sliding_var(array: Any, size: int, slide: int = 1, **options: Unpack[VarianceOptions]) -> pa.Array:
    """Return the variance of the values in each window, null of `ddof` values or fewer.

    `sliding` with ``agg="var"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_var(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [2.0, 4.5, 0.0]
    """
    return sliding(array, size, slide, agg="var", **options)


@short
def sliding_std(array: Any, size: int, slide: int = 1, **options: Unpack[VarianceOptions]) -> pa.Array:
    """Return the standard deviation of the values in each window, null of `ddof` values or fewer.

    `sliding` with ``agg="std"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_std(pa.array([2, 4, None, 1, 1]), 2).to_pylist()
    [1.4142135623730951, None, None, 0.0]
    """
    return sliding(array, size, slide, agg="std", **options)


@short
def sliding_argmin(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the row of the first of the least values in each window.

    `sliding` with ``agg="argmin"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_argmin(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [0, 3, 3]
    """
    return sliding(array, size, slide, agg="argmin", **options)


@short
def sliding_argmax(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the row of the first of the greatest values in each window.

    `sliding` with ``agg="argmax"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_argmax(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [1, 1, 3]
    """
    return sliding(array, size, slide, agg="argmax", **options)


@short
def sliding_first(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the first value in each window that is not null, of any type.

    `sliding` with ``agg="first"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_first(pa.array([2, 4, None, 1, 1]), 3).to_pylist()
    [2, 4, 1]
    """
    return sliding(array, size, slide, agg="first", **options)


@short
def sliding_last(array: Any, size: int, slide: int = 1, **options: Unpack[Options]) -> pa.Array:
    """Return the last value in each window that is not null, of any type.

    `sliding` with ``agg="last"``, which says what the parameters and errors are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sliding_last(pa.array(["a", "b", None, "c"]), 3).to_pylist()
    ['b', 'c']
    """
    return sliding(array, size, slide, agg="last", **options)
