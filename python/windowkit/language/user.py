"""Aggregate functions of users' own, over Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.aggregation import UserFunction
from windowkit.language.checks import a_type, as_given, boolean, checked_name

__all__ = ["UserFunction", "aggregate"]


def aggregate(
    name: str,
    *,
    lift: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    invert: Callable[[Any, Any], Any] | None = None,
    identity: Any = None,
    commutative: bool = False,
) -> UserFunction:
    """Define an aggregate function by what it does to whole Arrow arrays.

    Each function takes and returns pyarrow arrays (or anything that ``pyarrow.array`` takes, such as a NumPy
    array), one entry per row or slice, and is called a handful of times per batch of rows or windows, never
    once per window. All must also work on empty arrays: such a call determines types.

    Parameters
    ----------
    name : str
        How results and errors name it.
    lift : callable
        ``lift(values, ...)`` returns the states of single rows, of any one type, such as a struct. It gets an
        array per column, without the rows in which any of them is null.
    combine : callable
        ``combine(a, b)`` returns the states of the rows of each pair of states, where the rows of ``a`` come
        before those of ``b`` in time (and then in row order), unless it is commutative. It must be
        associative.
    lower : callable
        ``lower(states)`` returns the results.
    invert : callable, optional
        ``invert(whole, part)`` removes the beginning of ``combine(part, rest)``, so that ``rest`` is left.
        It must be exact. Windows that overlap are then answered by the difference of two running states, in
        fewer calls; these run over the slices of many keys, whose combination must fit the state.
    identity : object, optional
        A state, as a Python value or Arrow scalar, of no rows. Without it windows without rows are null.
    commutative : bool, default False
        Whether ``combine(a, b)`` equals ``combine(b, a)``. If so, states are stored instead of rows.

    Returns
    -------
    UserFunction
        Called with one or more columns it makes an aggregate, named ``<name>(<columns>)``.

    Raises
    ------
    InvalidType, InvalidValue
        `name` is not a name, or another argument is invalid. What a function raises when a
        query runs, or a wrong length or type that it returns, raises `windowkit.InvalidValue` with its name,
        and the exception it raised as cause.

    Notes
    -----
    O(log n) calls of `combine` per batch of n windows, with O(log w) combinations per window of w slices
    (Traub et al. 2019, §5.4.1, for lift, combine and lower).

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> import windowkit as wk
    >>> norm = wk.aggregate(
    ...     "norm",
    ...     lift=lambda v: pc.multiply(v, v),
    ...     combine=pc.add,
    ...     lower=pc.sqrt,
    ...     commutative=True,
    ... )
    >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=norm("v"))
    >>> query.run(pa.table({"t": [1, 2, 11], "v": [3.0, 4.0, 5.0]}))["norm(v)"].to_pylist()
    [5.0, 5.0]
    """
    checked = checked_name("name", name)
    functions = {"lift": lift, "combine": combine, "lower": lower}
    if invert is not None:
        functions["invert"] = invert
    for argument, function in functions.items():
        if not callable(function):
            raise InvalidType(
                f"{argument}: {as_given(function)} is {a_type(function)}; {argument} is a function of arrays"
            )
    boolean("commutative", commutative)
    if "(" in checked or ")" in checked:
        raise InvalidValue(f"name: {name!r} has a parenthesis; names of outputs add one with the columns")
    return UserFunction(checked, lift, combine, lower, invert, identity, commutative)
