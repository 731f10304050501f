"""Aggregate functions of the language. Names and semantics are SQL's, as Spark has them.

Nulls are skipped, NaN is greater than every number, and what has no values is null (a count is 0). Default
names of output columns are Spark's: ``sum("v")`` makes a column ``sum(v)``, ``mean("v")`` one ``avg(v)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from windowkit.errors import InvalidType, InvalidValue
from windowkit.windows import checked_name, quoted, read_call, unquoted

__all__ = [
    "Aggregate",
    "avg",
    "count",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "parse",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
]

# What a user writes -> (function of the core, what the default output name says).
SPELLINGS: Final = {
    "count": ("count", "count"),
    "sum": ("sum", "sum"),
    "min": ("min", "min"),
    "max": ("max", "max"),
    "avg": ("mean", "avg"),
    "mean": ("mean", "avg"),
    "variance": ("var_samp", "variance"),
    "var_samp": ("var_samp", "var_samp"),
    "var_pop": ("var_pop", "var_pop"),
    "stddev": ("stddev_samp", "stddev"),
    "stddev_samp": ("stddev_samp", "stddev_samp"),
    "stddev_pop": ("stddev_pop", "stddev_pop"),
    "first": ("first", "first"),
    "last": ("last", "last"),
}
FUNCTIONS: Final = frozenset(
    {function for function, _ in SPELLINGS.values()} | {"count_all", "first_valid", "last_valid"}
)
AGGREGATE_FORMS: Final = (
    f"aggregates are count(*) and f(column) for f of {', '.join(SPELLINGS)}, where first and last also take "
    "ignore_nulls as in first(column, ignore_nulls), each optionally followed by 'as name'"
)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate function of one column, and the name of its output.

    Made by `count`, `sum` and the other functions of this module. ``str(aggregate)`` is a text form, and
    `parse` reads it back.

    Parameters
    ----------
    function : str
        What the core calls it: count_all, count, sum, min, max, mean, var_samp, var_pop, stddev_samp,
        stddev_pop, first, last, first_valid or last_valid.
    column : str or None
        The column it reads; None for count_all, and only there.
    name : str
        The output column.
    """

    function: str
    column: str | None
    name: str

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise InvalidValue(
                f"function: {self.function!r} is unknown; functions are {', '.join(sorted(FUNCTIONS))}"
            )
        if (self.column is None) != (self.function == "count_all"):
            raise InvalidValue(
                f"column: {self.column!r} is not for {self.function}; only count_all has no column"
            )

    def alias(self, name: str) -> Aggregate:
        """Return the same aggregate under another output name.

        Raises
        ------
        InvalidType, InvalidValue
            `name` is no string, or empty.

        Examples
        --------
        >>> max("v").alias("peak").name
        'peak'
        """
        return replace(self, name=checked_name("alias", name))

    def __str__(self) -> str:
        """Return the text form, followed by `` as <alias>`` where there is one."""
        if self.column is None:
            return "count(*)" if self.name == "count(1)" else f"count(*) as {quoted(self.name)}"
        function = self.function.removesuffix("_valid")
        option = "" if function == self.function else ", ignore_nulls"
        names = [named for core, named in SPELLINGS.values() if core == function]
        for named in names:
            if self.name == f"{named}({self.column})":
                return f"{named}({quoted(self.column)}{option})"
        return f"{names[-1]}({quoted(self.column)}{option}) as {quoted(self.name)}"


def count(column: str = "*") -> Aggregate:
    """Count rows, or the values of a column.

    Parameters
    ----------
    column : str, default "*"
        A column of any type, whose values that are not null are counted (NaN is a value); ``"*"`` counts
        rows.

    Returns
    -------
    Aggregate
        An int64 that is never null, named ``count(1)`` for rows and else ``count(<column>)``. Distributive;
        8 bytes per slice.

    Examples
    --------
    >>> count().name, count("v").name
    ('count(1)', 'count(v)')
    """
    if column == "*":
        return Aggregate("count_all", None, "count(1)")
    return _aggregate("count", column)


def sum(column: str) -> Aggregate:
    """Sum of the values of a numeric column.

    Parameters
    ----------
    column : str
        Integers, floats, decimals or durations.

    Returns
    -------
    Aggregate
        ``sum(<column>)``: int64 of signed integers, uint64 of unsigned ones, float64 of floats, a duration
        of durations, and decimal(p + 10, s), at most 38 digits, of decimal(p, s). Null without values.
        Distributive; 16 bytes per slice of integers, which are summed exactly: a window whose sum does not
        fit raises `windowkit.Overflow` when the query runs, and no other does.

    Examples
    --------
    >>> sum("v").name
    'sum(v)'
    """
    return _aggregate("sum", column)


def min(column: str) -> Aggregate:
    """Least value of a column.

    Parameters
    ----------
    column : str
        Any type with an order: numbers, decimals, booleans, dates, times, timestamps, durations, strings and
        binary (by bytes). NaN is greater than every number.

    Returns
    -------
    Aggregate
        ``min(<column>)`` of the column's type; null without values. Distributive; one value per slice.

    Examples
    --------
    >>> min("v").name
    'min(v)'
    """
    return _aggregate("min", column)


def max(column: str) -> Aggregate:
    """Greatest value of a column.

    Parameters
    ----------
    column : str
        As for `min`. NaN is greater than every number.

    Returns
    -------
    Aggregate
        ``max(<column>)`` of the column's type; null without values. Distributive; one value per slice.

    Examples
    --------
    >>> max("v").alias("peak").name
    'peak'
    """
    return _aggregate("max", column)


def mean(column: str) -> Aggregate:
    """Arithmetic mean of the values of a numeric column.

    Parameters
    ----------
    column : str
        Integers, floats, decimals or durations.

    Returns
    -------
    Aggregate
        ``avg(<column>)``: float64; of decimal(p, s) a decimal(p + 4, s + 4), at most 38 digits, and of
        durations a duration, both rounded half away from zero. Null without values. Algebraic: the sum and
        the count, which it shares with `sum` and `count` of the same column.

    Examples
    --------
    >>> mean("v").name
    'avg(v)'
    """
    return _aggregate("mean", column)


def avg(column: str) -> Aggregate:
    """Arithmetic mean, by its SQL name; the same as `mean`.

    Examples
    --------
    >>> avg("v") == mean("v")
    True
    """
    return mean(column)


def variance(column: str) -> Aggregate:
    """Sample variance, by Spark's other name; `var_samp` with the output name ``variance(<column>)``.

    Examples
    --------
    >>> variance("v").name, variance("v").function
    ('variance(v)', 'var_samp')
    """
    return _aggregate("variance", column)


def var_samp(column: str) -> Aggregate:
    """Variance of the values of a numeric column as a sample: squared deviations over n - 1.

    Parameters
    ----------
    column : str
        Integers, floats, or decimals.

    Returns
    -------
    Aggregate
        ``var_samp(<column>)``: float64, null of fewer than two values. Algebraic: count, mean and squared
        deviations, merged pairwise without cancellation (Chan, Golub and LeVeque 1979) and shared by all
        variances and standard deviations of the column; 24 bytes per slice.

    Examples
    --------
    >>> var_samp("v").name
    'var_samp(v)'
    """
    return _aggregate("var_samp", column)


def var_pop(column: str) -> Aggregate:
    """Variance of the values of a numeric column as a population: squared deviations over n.

    Parameters
    ----------
    column : str
        Integers, floats, or decimals.

    Returns
    -------
    Aggregate
        ``var_pop(<column>)``: float64, 0 of one value, null of none. Storage as for `var_samp`.

    Examples
    --------
    >>> var_pop("v").name
    'var_pop(v)'
    """
    return _aggregate("var_pop", column)


def stddev(column: str) -> Aggregate:
    """Sample standard deviation, by its SQL name; `stddev_samp` with the output name ``stddev(<column>)``.

    Examples
    --------
    >>> stddev("v").name, stddev("v").function
    ('stddev(v)', 'stddev_samp')
    """
    return _aggregate("stddev", column)


def stddev_samp(column: str) -> Aggregate:
    """Square root of `var_samp`: standard deviation as a sample.

    Parameters
    ----------
    column : str
        Integers, floats, or decimals.

    Returns
    -------
    Aggregate
        ``stddev_samp(<column>)``: float64, null of fewer than two values. Storage as for `var_samp`.

    Examples
    --------
    >>> stddev_samp("v").name
    'stddev_samp(v)'
    """
    return _aggregate("stddev_samp", column)


def stddev_pop(column: str) -> Aggregate:
    """Square root of `var_pop`: standard deviation as a population.

    Parameters
    ----------
    column : str
        Integers, floats, or decimals.

    Returns
    -------
    Aggregate
        ``stddev_pop(<column>)``: float64, 0 of one value, null of none. Storage as for `var_samp`.

    Examples
    --------
    >>> stddev_pop("v").name
    'stddev_pop(v)'
    """
    return _aggregate("stddev_pop", column)


def first(column: str, ignore_nulls: bool = False) -> Aggregate:
    """Value of the earliest row, by the query's time column.

    Parameters
    ----------
    column : str
        Any type that `min` takes.
    ignore_nulls : bool, default False
        Whether to take the earliest value that is not null, rather than the earliest row's.

    Returns
    -------
    Aggregate
        ``first(<column>)`` of the column's type. Of several earliest rows it is the first in row order; in
        Spark, where rows have none, any of them. Distributive, but not commutative; a time and a value
        per slice.

    Examples
    --------
    >>> print(first("v", ignore_nulls=True).alias("opening"))
    first(v, ignore_nulls) as opening
    """
    return _by_time("first", column, ignore_nulls)


def last(column: str, ignore_nulls: bool = False) -> Aggregate:
    """Value of the latest row, by the query's time column.

    Parameters
    ----------
    column : str
        Any type that `min` takes.
    ignore_nulls : bool, default False
        Whether to take the latest value that is not null, rather than the latest row's.

    Returns
    -------
    Aggregate
        ``last(<column>)`` of the column's type. Of several latest rows it is the last in row order; in
        Spark, where rows have none, any of them. Distributive, but not commutative; a time and a value
        per slice.

    Examples
    --------
    >>> last("v").name
    'last(v)'
    """
    return _by_time("last", column, ignore_nulls)


def parse(text: str) -> Aggregate:
    """Read an aggregate from its text form.

    Parameters
    ----------
    text : str
        ``count(*)`` or ``function(column)`` with a function of this module, in any case; ``first`` and
        ``last`` take ``ignore_nulls`` as a second argument; an optional ``as name`` follows. A column or name
        that is more than words stands in backticks.

    Returns
    -------
    Aggregate
        ``parse(str(aggregate)) == aggregate`` holds for every aggregate.

    Raises
    ------
    InvalidValue
        `text` is no aggregate.

    Examples
    --------
    >>> parse("sum(v) as total") == sum("v").alias("total")
    True
    >>> parse("first(v, ignore_nulls)").function
    'first_valid'
    """
    call = read_call("aggregate", text, AGGREGATE_FORMS)
    refused = InvalidValue(f"aggregate: {text!r} is no aggregate; {AGGREGATE_FORMS}")
    if call.function not in SPELLINGS:
        raise refused
    # A column that is named `*` or `1` stands in backticks; bare they count rows, as in SQL.
    if call.function == "count" and list(call.arguments) in ([], ["*"], ["1"]):
        aggregate = count()
    else:
        options = call.arguments[1:]
        if not call.arguments or options not in ([], ["ignore_nulls"]):
            raise refused
        column = checked_name("aggregate", unquoted("aggregate", call.arguments[0]))
        if call.function in ("first", "last"):
            aggregate = _by_time(call.function, column, bool(options))
        elif options:
            raise refused
        else:
            aggregate = _aggregate(call.function, column)
    return aggregate if call.name is None else aggregate.alias(call.name)


def _aggregate(spelling: str, column: str) -> Aggregate:
    function, named = SPELLINGS[spelling]
    return Aggregate(function, checked_name("column", column), f"{named}({column})")


def _by_time(function: str, column: str, ignore_nulls: bool) -> Aggregate:
    if not isinstance(ignore_nulls, bool):
        raise InvalidType(
            f"ignore_nulls: {ignore_nulls!r} is a {type(ignore_nulls).__name__}; it is True or False"
        )
    aggregate = _aggregate(function, column)
    return replace(aggregate, function=f"{function}_valid") if ignore_nulls else aggregate
