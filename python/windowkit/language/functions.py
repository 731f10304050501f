"""The functions of aggregates: how each is written, and which numbers it takes."""

from __future__ import annotations

from typing import Final, NamedTuple

from windowkit.errors import InvalidValue
from windowkit.language import checks

__all__ = ["AGGREGATE_FORMS", "BY_FUNCTION", "FORMS", "FUNCTIONS", "NUMBERS", "Form", "parameter", "shown"]


class Number(NamedTuple):
    """A number that a function takes.

    Parameters
    ----------
    allowed : str
        What may be given, for messages.
    least, most : float
    whole : bool
    beyond : bool
        Whether it must exceed `least`.
    """

    allowed: str
    least: float
    most: float
    whole: bool = False
    beyond: bool = False


NUMBERS: Final = {
    "q": Number("q is a number from 0 to 1 (0.5 is the median)", 0, 1),
    "log2_k": Number("log2_k is a whole number from 4 to 21 (12 is Spark's default)", 4, 21, whole=True),
    "k": Number("k is a whole number from 1 to 2147483647", 1, 2**31 - 1, whole=True),
    "share": Number("share is a number above 0 and at most 1, the part of all values", 0, 1, beyond=True),
}


class Form(NamedTuple):
    """How a function is written.

    Parameters
    ----------
    function : str
        The core's name for it.
    title : str
        Its default output name, of columns ``{0}`` and ``{1}``, or all of its ``{columns}``, and the number
        ``{number}``.
    columns : int
        How many columns it reads.
    several : bool
        Whether it reads any number of columns instead; none are all columns of the input.
    numbers : int
        How many numbers follow the columns.
    option : str
        A word that may come last.
    optional : str
        The core's name for the function if that word is given.
    number : str
        What the number is called, by which `NUMBERS` has what it may be.
    default : float, optional
        The number that is meant where none is written.
    """

    function: str
    title: str
    columns: int = 1
    numbers: int = 0
    option: str = ""
    optional: str = ""
    number: str = "q"
    default: float | None = None
    several: bool = False


# By what a user writes. Default names are Spark's where Spark has the function.
FORMS: Final = {
    "count": Form("count", "count({0})"),
    "sum": Form("sum", "sum({0})"),
    "min": Form("min", "min({0})"),
    "max": Form("max", "max({0})"),
    "min_count": Form("min_count", "min_count({0})"),
    "max_count": Form("max_count", "max_count({0})"),
    "arg_min": Form("arg_min", "min_by({0}, {1})", columns=2),
    "arg_max": Form("arg_max", "max_by({0}, {1})", columns=2),
    "avg": Form("mean", "avg({0})"),
    "mean": Form("mean", "avg({0})"),
    "geometric_mean": Form("geometric_mean", "geometric_mean({0})"),
    "variance": Form("var_samp", "variance({0})"),
    "var_samp": Form("var_samp", "var_samp({0})"),
    "var_pop": Form("var_pop", "var_pop({0})"),
    "stddev": Form("stddev_samp", "stddev({0})"),
    "stddev_samp": Form("stddev_samp", "stddev_samp({0})"),
    "stddev_pop": Form("stddev_pop", "stddev_pop({0})"),
    "first": Form("first", "first({0})", option="ignore_nulls", optional="first_valid"),
    "last": Form("last", "last({0})", option="ignore_nulls", optional="last_valid"),
    "m4": Form("m4", "m4({0})", option="times", optional="m4_times"),
    "median": Form("median", "median({0})"),
    "quantile": Form("quantile", "percentile({0}, {number}, 1)", numbers=1),
    "quantile_disc": Form("quantile_disc", "quantile_disc({0}, {number})", numbers=1),
    "approx_quantile": Form("approx_quantile", "approx_quantile({0}, {number})", numbers=1),
    "count_distinct": Form("count_distinct", "count(DISTINCT {0})"),
    "approx_count_distinct": Form(
        "approx_count_distinct",
        "approx_count_distinct({0}, {number})",
        numbers=1,
        number="log2_k",
        default=12,
    ),
    "hll_sketch": Form("hll_sketch", "hll_sketch_agg({0}, {number})", numbers=1, number="log2_k", default=12),
    "mode": Form("mode", "mode({0})"),
    "top_k": Form("top_k", "top_k({0}, {number})", numbers=1, number="k"),
    "frequent": Form("frequent", "frequent({0}, {number})", numbers=1, number="share"),
    "collect_list": Form("collect_list", "collect_list({0})"),
    "collect_rows": Form("collect_rows", "collect_rows({columns})", columns=0, several=True),
    "collect_set": Form("collect_set", "collect_set({0})"),
}
BY_FUNCTION: Final = {
    function: form for form in FORMS.values() for function in (form.function, form.optional) if function
}
FUNCTIONS: Final = frozenset({*BY_FUNCTION, "count_all"})
OF_TWO: Final = " and ".join(name for name, form in FORMS.items() if form.columns == 2)
AGGREGATE_FORMS: Final = (
    f"aggregates are count(*) and f(column) for f of {', '.join(FORMS)}, where {OF_TWO} take a "
    "second column, collect_rows any number of columns, by default all, quantile, quantile_disc and "
    "approx_quantile a number from 0 to 1, approx_count_distinct and hll_sketch, if given, a whole one "
    "from 4 to 21, top_k a whole one from 1, frequent a number above 0, up to 1, first and last a last "
    "word as in first(column, ignore_nulls), and m4 one as in m4(column, times); each optionally followed "
    "by 'where column' and 'as name'"
)


def parameter(name: str, value: float) -> float:
    """Return a parameter of a function, one of `NUMBERS`."""
    limits = NUMBERS[name]
    given = checks.number(name, value, limits.allowed, limits.least, limits.most)
    if (limits.whole and not given.is_integer()) or (limits.beyond and given == limits.least):
        raise InvalidValue(f"{name}: {checks.as_given(value)} is out of range; {limits.allowed}")
    return given


def shown(number: float, form: Form) -> str:
    """Return a number of a function as names and text forms show it."""
    return str(int(number)) if NUMBERS[form.number].whole else repr(float(number))
