"""Aggregate functions of the language. Names and semantics are SQL's, as Spark has them.

Nulls are skipped, NaN is greater than every number, and what has no values is null (a count is 0). Default
names of output columns are Spark's: ``sum("v")`` makes a column ``sum(v)``, ``mean("v")`` one ``avg(v)``.
An expression of Polars, pyarrow or Spark may stand in place of a column's name: see `windowkit.expr`.
"""

from __future__ import annotations

from windowkit.language.aggregation import Aggregate, make, parse
from windowkit.language.checks import boolean
from windowkit.language.expressions import Column
from windowkit.language.functions import AGGREGATE_FORMS

__all__ = [
    "AGGREGATE_FORMS",
    "Aggregate",
    "approx_count_distinct",
    "approx_quantile",
    "arg_max",
    "arg_min",
    "avg",
    "collect_list",
    "collect_rows",
    "collect_set",
    "count",
    "count_distinct",
    "first",
    "frequent",
    "geometric_mean",
    "hll_sketch",
    "last",
    "m4",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "mode",
    "parse",
    "quantile",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_k",
    "var_pop",
    "var_samp",
    "variance",
]


def count(column: Column = "*") -> Aggregate:
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
    if isinstance(column, str) and column == "*":
        return Aggregate("count_all", (), "count(1)")
    return make("count", column)


def sum(column: Column) -> Aggregate:
    """Sum of the values of a numeric column.

    Parameters
    ----------
    column : str or expression
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
    return make("sum", column)


def min(column: Column) -> Aggregate:
    """Smallest value of a column.

    Parameters
    ----------
    column : str or expression
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
    return make("min", column)


def max(column: Column) -> Aggregate:
    """Greatest value of a column.

    Parameters
    ----------
    column : str or expression
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
    return make("max", column)


def mean(column: Column) -> Aggregate:
    """Arithmetic mean of the values of a numeric column.

    Parameters
    ----------
    column : str or expression
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
    return make("mean", column)


def avg(column: Column) -> Aggregate:
    """Arithmetic mean, by its SQL name; the same as `mean`.

    Examples
    --------
    >>> avg("v") == mean("v")
    True
    """
    return mean(column)


def variance(column: Column) -> Aggregate:
    """Sample variance, by Spark's other name; `var_samp` with the output name ``variance(<column>)``.

    Examples
    --------
    >>> variance("v").name, variance("v").function
    ('variance(v)', 'var_samp')
    """
    return make("variance", column)


def var_samp(column: Column) -> Aggregate:
    """Variance of the values of a numeric column as a sample: squared deviations over n - 1.

    Parameters
    ----------
    column : str or expression
        Integers, floats, or decimals.

    Returns
    -------
    Aggregate
        ``var_samp(<column>)``: float64, null for fewer than two values. Algebraic: count, mean (in two
        parts) and squared deviations, merged pairwise without cancellation (Chan, Golub and LeVeque 1979)
        and shared by all variances and standard deviations of the column; 32 bytes per slice.

    Examples
    --------
    >>> var_samp("v").name
    'var_samp(v)'
    """
    return make("var_samp", column)


def var_pop(column: Column) -> Aggregate:
    """Variance of the values of a numeric column as a population: squared deviations over n.

    Parameters
    ----------
    column : str or expression
        Integers, floats, or decimals.

    Returns
    -------
    Aggregate
        ``var_pop(<column>)``: float64, 0 for one value, null for none. Storage as for `var_samp`.

    Examples
    --------
    >>> var_pop("v").name
    'var_pop(v)'
    """
    return make("var_pop", column)


def stddev(column: Column) -> Aggregate:
    """Sample standard deviation, by its SQL name; `stddev_samp` with the output name ``stddev(<column>)``.

    Examples
    --------
    >>> stddev("v").name, stddev("v").function
    ('stddev(v)', 'stddev_samp')
    """
    return make("stddev", column)


def stddev_samp(column: Column) -> Aggregate:
    """Square root of `var_samp`: standard deviation as a sample.

    Parameters
    ----------
    column : str or expression
        Integers, floats, or decimals.

    Returns
    -------
    Aggregate
        ``stddev_samp(<column>)``: float64, null for fewer than two values. Storage as for `var_samp`.

    Examples
    --------
    >>> stddev_samp("v").name
    'stddev_samp(v)'
    """
    return make("stddev_samp", column)


def stddev_pop(column: Column) -> Aggregate:
    """Square root of `var_pop`: standard deviation as a population.

    Parameters
    ----------
    column : str or expression
        Integers, floats, or decimals.

    Returns
    -------
    Aggregate
        ``stddev_pop(<column>)``: float64, 0 for one value, null for none. Storage as for `var_samp`.

    Examples
    --------
    >>> stddev_pop("v").name
    'stddev_pop(v)'
    """
    return make("stddev_pop", column)


def first(column: Column, ignore_nulls: bool = False) -> Aggregate:
    """Value of the earliest row, by the query's time column.

    Parameters
    ----------
    column : str or expression
        Any type, structs, lists, maps and intervals included.
    ignore_nulls : bool, default False
        Whether to take the earliest value that is not null, rather than the earliest row's.

    Returns
    -------
    Aggregate
        ``first(<column>)`` of the column's type. Of several earliest rows it is the first in row order; in
        Spark, where rows have no order, any of them. Distributive, but not commutative; a time and a value
        per slice.

    Examples
    --------
    >>> print(first("v", ignore_nulls=True).alias("opening"))
    first(v, ignore_nulls) as opening
    """
    return make("first", column, option=ignore_nulls)


def last(column: Column, ignore_nulls: bool = False) -> Aggregate:
    """Value of the latest row, by the query's time column.

    Parameters
    ----------
    column : str or expression
        Any type, structs, lists, maps and intervals included.
    ignore_nulls : bool, default False
        Whether to take the latest value that is not null, rather than the latest row's.

    Returns
    -------
    Aggregate
        ``last(<column>)`` of the column's type. Of several latest rows it is the last in row order; in
        Spark, where rows have no order, any of them. Distributive, but not commutative; a time and a value
        per slice.

    Examples
    --------
    >>> last("v").name
    'last(v)'
    """
    return make("last", column, option=ignore_nulls)


def min_count(column: Column) -> Aggregate:
    """How often the smallest value of a column occurs.

    Parameters
    ----------
    column : str or expression
        Any type that `min` takes.

    Returns
    -------
    Aggregate
        ``min_count(<column>)``: int64, null without values. -0.0 equals 0.0. Algebraic; a value and a count
        per slice (Tangwongsan et al. 2015, §2).

    Examples
    --------
    >>> min_count("v").name
    'min_count(v)'
    """
    return make("min_count", column)


def max_count(column: Column) -> Aggregate:
    """How often the greatest value of a column occurs.

    Parameters
    ----------
    column : str or expression
        Any type that `max` takes.

    Returns
    -------
    Aggregate
        ``max_count(<column>)``: int64, null without values. NaN equals NaN. Algebraic; a value and a count
        per slice (Tangwongsan et al. 2015, §2).

    Examples
    --------
    >>> max_count("v").name
    'max_count(v)'
    """
    return make("max_count", column)


def arg_min(column: Column, by: Column) -> Aggregate:
    """Value of a column in the row where another column is smallest: Spark's ``min_by``.

    Parameters
    ----------
    column : str or expression
        Any type; the value may be null.
    by : str or expression
        Any type that `min` takes. Rows where it is null are skipped.

    Returns
    -------
    Aggregate
        ``min_by(<column>, <by>)`` of the column's type, null without rows. Of several such rows it is the
        earliest, and of several earliest the first in row order; in Spark any of them. Distributive; two
        values and a time per slice.

    Examples
    --------
    >>> arg_min("price", by="distance").name
    'min_by(price, distance)'
    """
    return make("arg_min", column, by)


def arg_max(column: Column, by: Column) -> Aggregate:
    """Value of a column in the row where another column is greatest: Spark's ``max_by``.

    Parameters
    ----------
    column : str or expression
        Any type; the value may be null.
    by : str or expression
        Any type that `max` takes. Rows where it is null are skipped; NaN is greatest.

    Returns
    -------
    Aggregate
        ``max_by(<column>, <by>)`` of the column's type, null without rows. Ties as for `arg_min`.

    Examples
    --------
    >>> arg_max("v", by="t2").name
    'max_by(v, t2)'
    """
    return make("arg_max", column, by)


def m4(column: Column, times: bool = False) -> Aggregate:
    """Smallest, greatest, first and last value of a column: what a line chart of a window shows.

    Parameters
    ----------
    column : str or expression
        Any type that `min` takes. Nulls are skipped.
    times : bool, default False
        Whether to return the time of each as well, so that the four can be drawn where they lie.

    Returns
    -------
    Aggregate
        ``m4(<column>)``: a struct of ``min``, ``max``, ``first`` and ``last`` of the column's type, each
        followed by ``min_time`` and so on if `times`, of the time column's type; null without values. The
        time of an extremum is that of its first occurrence; in Spark of any. Algebraic (Jugel et al. 2014),
        and stored as `min`, `max`, `first` and `last` are.

    Examples
    --------
    >>> print(m4("v", times=True).alias("line"))
    m4(v, times) as line
    """
    return make("m4", column, option=times)


def median(column: Column) -> Aggregate:
    """Exact median of the values of a column; `quantile` of 0.5.

    Parameters
    ----------
    column : str or expression
        Numbers, durations or timestamps.

    Returns
    -------
    Aggregate
        ``median(<column>)``, of the type and at the cost of `quantile`.

    Examples
    --------
    >>> median("v").name
    'median(v)'
    """
    return make("median", column)


def quantile(column: Column, q: float, discrete: bool = False) -> Aggregate:
    """Exact quantile of the values of a column: Spark's ``percentile``.

    Parameters
    ----------
    column : str or expression
        Numbers, durations or timestamps; any type that `min` takes if `discrete`.
    q : float
        From 0, the least value, to 1, the greatest.
    discrete : bool, default False
        Whether to take a value that is there, the least whose share of values at or below it is at least `q`
        (SQL's ``percentile_disc``), rather than interpolate between the two nearest.

    Returns
    -------
    Aggregate
        ``percentile(<column>, <q>, 1)``: float64; of durations a duration, truncated as Spark's is, and of
        timestamps a timestamp, rounded down.
        If `discrete` ``quantile_disc(<column>, <q>)`` of the column's type. NaN is greater than every number.
        Null without values. Holistic: a slice stores its distinct values, sorted, with their counts (Traub
        et al. 2019, §5.4.1), shared by all quantiles, `count_distinct`, `mode`, `top_k`, `frequent` and
        `collect_set` of the column. O(log n) work per row and O(log n) per window, however many overlap.

    Raises
    ------
    InvalidType, InvalidValue
        `q` is not a number from 0 to 1.

    Examples
    --------
    >>> quantile("v", 0.9).name
    'percentile(v, 0.9, 1)'
    >>> quantile("v", 0.9, discrete=True).name
    'quantile_disc(v, 0.9)'
    """
    return make("quantile_disc" if boolean("discrete", discrete) else "quantile", column, numbers=(q,))


def approx_quantile(column: Column, q: float) -> Aggregate:
    """Approximate quantile of the values of a column, for when exact ones need too much memory.

    Parameters
    ----------
    column : str or expression
        Any type that `min` takes, but decimals, strings and binary.
    q : float
        From 0 to 1.

    Returns
    -------
    Aggregate
        ``approx_quantile(<column>, <q>)`` of the column's type: a value whose rank is, with 99 % confidence,
        within 1.33 % of the number of values from the requested one; exact up to some 200 values. Null
        without values. Algebraic: a KLL sketch per slice (Karnin, Lang and Liberty 2016; Apache DataSketches
        with k = 200) of some 5 kB at most, shared by all approximate quantiles of the column. Which of the
        values within the error is returned is not specified.

    Raises
    ------
    InvalidType, InvalidValue
        `q` is not a number from 0 to 1.

    Examples
    --------
    >>> approx_quantile("v", 0.99).name
    'approx_quantile(v, 0.99)'
    """
    return make("approx_quantile", column, numbers=(q,))


def count_distinct(column: Column) -> Aggregate:
    """Exact number of distinct values of a column.

    Parameters
    ----------
    column : str or expression
        Any type that `min` takes. NaN equals NaN, -0.0 equals 0.0, null does not count as a value.

    Returns
    -------
    Aggregate
        ``count(DISTINCT <column>)``: an int64 that is never null. Holistic; stored as for `quantile`.

    Examples
    --------
    >>> count_distinct("v").name
    'count(DISTINCT v)'
    """
    return make("count_distinct", column)


def approx_count_distinct(column: Column, log2_k: int = 12) -> Aggregate:
    """Estimated number of distinct values of a column, for when exact ones need too much memory.

    Parameters
    ----------
    column : str or expression
        Numbers but decimals, booleans, dates, times, timestamps, durations, strings or binary. Equality is
        defined as for `windowkit.HyperLogLog`: as in Spark, an empty string does not count as a value.
    log2_k : int, default 12
        Logarithm to the base 2 of the number of registers, from 4 to 21: Spark's ``lgConfigK``.

    Returns
    -------
    Aggregate
        ``approx_count_distinct(<column>, <log2_k>)``: an int64 that is never null. Exact, but for collisions
        of hashes, up to 3/32 of ``2**log2_k`` values (384 by default; 7 below 256 registers); beyond, with a
        relative standard error of 1.04 / sqrt(2**log2_k): 1.6 % by default. Algebraic: the HyperLogLog
        sketch of Apache DataSketches (Flajolet et al. 2007), some 8 bytes per value at first and
        ``2**log2_k`` bytes at most per slice, shared with `hll_sketch` of the same column and size. The
        estimate depends on the values alone, not on their order: it is that of Spark's
        ``hll_sketch_estimate`` of two such sketches' ``hll_union``.

    Raises
    ------
    InvalidType, InvalidValue
        `log2_k` is not a whole number from 4 to 21.

    Examples
    --------
    >>> approx_count_distinct("v").name
    'approx_count_distinct(v, 12)'
    """
    return make("approx_count_distinct", column, numbers=(log2_k,))


def hll_sketch(column: Column, log2_k: int = 12) -> Aggregate:
    """Sketch of the distinct values of a column: what Spark's ``hll_sketch_agg`` makes.

    Parameters
    ----------
    column, log2_k
        As for `approx_count_distinct`.

    Returns
    -------
    Aggregate
        ``hll_sketch_agg(<column>, <log2_k>)``: binary that is never null, in the format of Apache
        DataSketches (compact, without a running estimate, coupons ascending): the same bytes for the same
        values. `windowkit.HyperLogLog.from_bytes` reads them, and so do Spark's ``hll_union_agg`` and
        ``hll_sketch_estimate``. Storage as for `approx_count_distinct`. A batch of results holds at most 2^31
        bytes; more, as of many windows with `log2_k` near 21, raise `Overflow`.

    Raises
    ------
    InvalidType, InvalidValue
        `log2_k` is not a whole number from 4 to 21.

    Examples
    --------
    >>> hll_sketch("v", log2_k=10).name
    'hll_sketch_agg(v, 10)'
    """
    return make("hll_sketch", column, numbers=(log2_k,))


def mode(column: Column) -> Aggregate:
    """Most frequent value of a column, and the smallest of several: Spark's ``mode(column, true)``.

    Parameters
    ----------
    column : str or expression
        Any type that `min` takes.

    Returns
    -------
    Aggregate
        ``mode(<column>)`` of the column's type; null without values. Holistic; stored as for `quantile`.

    Examples
    --------
    >>> mode("v").name
    'mode(v)'
    """
    return make("mode", column)


def top_k(column: Column, k: int) -> Aggregate:
    """Most frequent values of a column, with how often each occurs.

    Parameters
    ----------
    column : str or expression
        Any type that `min` takes. NaN equals NaN, -0.0 equals 0.0, null does not count as a value.
    k : int
        How many values, 1 or more; where a window has fewer, all of them.

    Returns
    -------
    Aggregate
        ``top_k(<column>, <k>)``: a list of structs of ``value``, of the column's type, and ``count``, an
        int64: the most frequent first, and of equally frequent ones the least. Empty without values, and
        never null. Exact. Holistic; stored as for `quantile`. O(log n) work per row and O(k log n) per
        window, however many overlap; in a stream whose store is not lazy, and keeps numbers, times and
        decimals in runs, a window costs as much as these have distinct values.

    Raises
    ------
    InvalidType, InvalidValue
        `k` is not a whole number from 1 to 2147483647.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> data = pa.table({"t": [1, 2, 3, 4, 5], "ip": ["b", "a", "c", "b", "a"]})
    >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.top_k("ip", 2))
    >>> query.run(data)["top_k(ip, 2)"][0].as_py()
    [{'value': 'a', 'count': 2}, {'value': 'b', 'count': 2}]
    """
    return make("top_k", column, numbers=(k,))


def frequent(column: Column, share: float) -> Aggregate:
    """Values of a column that make up at least a share of all: its heavy hitters.

    Parameters
    ----------
    column : str or expression
        As for `top_k`.
    share : float
        Above 0, up to 1. A value is in the result if its count, divided in float64 by the number of values of
        the window that are not null, is at least `share`: 3 of 30 values are a share of 0.1.

    Returns
    -------
    Aggregate
        ``frequent(<column>, <share>)``: a list like that of `top_k`, of at most ``1 / share`` values. Exact,
        whereas Li (2008, §6.2) estimates them. It costs as much as `top_k` of as many values as are found.

    Raises
    ------
    InvalidType, InvalidValue
        `share` is not a number above 0, up to 1.

    Examples
    --------
    >>> print(frequent("ip", share=0.05).alias("heavy"))
    frequent(ip, 0.05) as heavy
    """
    return make("frequent", column, numbers=(share,))


def collect_list(column: Column) -> Aggregate:
    """All values of a column that are not null, in order of time.

    Parameters
    ----------
    column : str or expression
        Any type.

    Returns
    -------
    Aggregate
        ``collect_list(<column>)``: a list of the column's type, empty without values and never null. Values
        of one time are in row order; in Spark in any. Holistic: a slice stores its values with their times,
        and a window costs as much as its list is long.

    Examples
    --------
    >>> collect_list("v").name
    'collect_list(v)'
    """
    return make("collect_list", column)


def collect_rows(*columns: Column) -> Aggregate:
    """All rows, in order of time, as structs of their columns.

    Parameters
    ----------
    *columns : str
        The columns that a row is made of, of any type, each once. All columns of the input, in its order, if
        none are named; with `windowkit.PROCESSING_TIME` its column of times is the last of them.

    Returns
    -------
    Aggregate
        ``collect_rows(<column>, ...)``, or ``collect_rows()`` of all: a list of structs, whose fields are
        called as the columns and have their types, empty without rows and never null. Every row is in it,
        also one whose columns are all null. Rows of one time are in row order; in Spark in any. Holistic: a
        slice stores its rows with their times, and a window costs as much as its list is long.

    Raises
    ------
    InvalidType, InvalidValue
        A name is not a str, is empty, or occurs twice.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> data = pa.table({"t": [7, 2, 12], "ip": ["a", "b", "a"], "status": [200, 404, 500]})
    >>> wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.collect_rows("ip", "status")).run(data)[
    ...     "collect_rows(ip, status)"
    ... ][0].as_py()
    [{'ip': 'b', 'status': 404}, {'ip': 'a', 'status': 200}]
    >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.collect_rows())
    >>> query.run(data)["collect_rows()"][1].as_py()
    [{'t': 12, 'ip': 'a', 'status': 500}]
    """
    return make("collect_rows", *columns)


def collect_set(column: Column) -> Aggregate:
    """Distinct values of a column, ascending.

    Parameters
    ----------
    column : str or expression
        Any type that `min` takes.

    Returns
    -------
    Aggregate
        ``collect_set(<column>)``: a list of the column's type, empty without values and never null. Holistic;
        stored as for `quantile`; a window costs as much as its list is long.

    Examples
    --------
    >>> collect_set("v").name
    'collect_set(v)'
    """
    return make("collect_set", column)


def geometric_mean(column: Column) -> Aggregate:
    """Geometric mean of the values of a numeric column: the n-th root of their product.

    Parameters
    ----------
    column : str or expression
        Integers, floats or decimals.

    Returns
    -------
    Aggregate
        ``geometric_mean(<column>)``: float64; 0 if a value is 0, NaN if one is negative, null without values.
        Algebraic: the sum of logarithms and the count.

    Examples
    --------
    >>> geometric_mean("v").name
    'geometric_mean(v)'
    """
    return make("geometric_mean", column)
