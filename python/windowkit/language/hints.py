"""What other libraries call it: names that users of pandas, Polars, Spark, Flink and SQL look for here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

__all__ = ["Hinting", "here", "hint", "in_text", "unknown"]

SLIDING: Final = 'wk.sliding("10 minutes", "1 minute")'
TUMBLING: Final = 'wk.tumbling("10 minutes")'
CALLED: Final = {
    # Windows.
    **dict.fromkeys(("hop", "hopping", "slide", "sliding_window"), SLIDING),
    **dict.fromkeys(("tumble", "resample", "date_trunc", "time_bucket", "tumbling_window"), TUMBLING),
    **dict.fromkeys(("window", "group_by_dynamic"), f"{TUMBLING} or {SLIDING}"),
    **dict.fromkeys(("cumulate", "cumulative"), 'wk.landmark("10 minutes", period="1 day")'),
    "expanding": 'wk.sum("v").over("unbounded"), or for windows wk.landmark("10 minutes", period="1 day")',
    **dict.fromkeys(("session_window", "sessions"), 'wk.session("30 minutes")'),
    **dict.fromkeys(("count_window", "row_window"), "wk.tumbling(rows=100)"),
    "all": "wk.global_window()",
    # Queries.
    **dict.fromkeys(("groupby", "group_by", "groupBy", "select", "sql"), "wk.query(by=...)"),
    **dict.fromkeys(("watermark", "with_watermark", "withWatermark"), 'progress=wk.delay("10 seconds")'),
    **dict.fromkeys(("trigger", "triggers"), "wk.emit(wk.rows(100) | wk.every('1 minute'))"),
    **dict.fromkeys(("col", "column"), "the name of the column as a str"),
    "filter": 'wk.sum("v").where("valid")',
    **dict.fromkeys(("interval_join", "join_where", "band_join", "merge"), "wk.join"),
    **dict.fromkeys(("dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark"), "wk.distinct"),
    # Functions.
    **dict.fromkeys(("std", "stdev"), "wk.stddev"),
    "std_pop": "wk.stddev_pop",
    "var": "wk.variance",
    **dict.fromkeys(("nunique", "n_unique", "countDistinct", "distinct_count"), "wk.count_distinct"),
    **dict.fromkeys(
        ("approx_n_unique", "approx_distinct", "approx_nunique", "approxCountDistinct"),
        "wk.approx_count_distinct",
    ),
    **dict.fromkeys(("percentile", "quantile_cont", "quantile_disc", "percentile_cont"), "wk.quantile"),
    **dict.fromkeys(("percentile_approx", "approx_percentile", "kll", "tdigest"), "wk.approx_quantile"),
    **dict.fromkeys(("min_by", "minBy", "argmin", "idxmin"), "wk.arg_min"),
    **dict.fromkeys(("max_by", "maxBy", "argmax", "idxmax"), "wk.arg_max"),
    **dict.fromkeys(("asof", "merge_asof", "join_asof", "asof_join", "point_in_time"), "wk.rolling(...).at"),
    **dict.fromkeys(("lag", "shift", "previous"), 'wk.last("v").over("1 row", closed="left")'),
    **dict.fromkeys(("lead", "next", "following"), 'wk.first("v").over(after="1 row", closed="right")'),
    **dict.fromkeys(("cumsum", "cum_sum", "running_sum"), 'wk.sum("v").over("unbounded rows")'),
    **dict.fromkeys(("cummax", "cum_max"), 'wk.max("v").over("unbounded rows")'),
    **dict.fromkeys(("cummin", "cum_min"), 'wk.min("v").over("unbounded rows")'),
    **dict.fromkeys(("row_number", "cumcount", "cum_count"), 'wk.count().over("unbounded rows")'),
    **dict.fromkeys(("len", "size", "n", "count_all", "row_count"), "wk.count()"),
    "first_value": "wk.first",
    "last_value": "wk.last",
    **dict.fromkeys(("implode", "array_agg", "list", "list_agg"), "wk.collect_list"),
    **dict.fromkeys(("set", "unique"), "wk.collect_set"),
    **dict.fromkeys(("value_counts", "topk", "top", "heavy_hitters"), "wk.top_k or wk.frequent"),
    **dict.fromkeys(("gmean", "prod", "product"), "wk.geometric_mean, or wk.aggregate for one of your own"),
    **dict.fromkeys(("udaf", "udf", "agg", "apply", "reduce"), "wk.aggregate"),
    **dict.fromkeys(
        ("covar_pop", "covar_samp", "cov", "corr", "skewness", "skew", "kurtosis", "kurt", "entropy"),
        "wk.aggregate, for a function of your own",
    ),
    **dict.fromkeys(("hll", "hll_sketch_agg", "HLL"), "wk.hll_sketch, or wk.HyperLogLog"),
    **dict.fromkeys(
        ("rolling_mean", "rolling_sum", "rolling_max", "rolling_min", "rolling_std"),
        "wk.rolling, or for columns the functions of wk.kernels, such as wk.kernels.sliding_mean",
    ),
}
"""By the name elsewhere, what it is here."""
ELSEWHERE: Final = dict.fromkeys(
    ("rank", "dense_rank", "percent_rank", "cume_dist", "ntile"),
    "ranks are no aggregates: take those of Spark, polars.col(...).rank().over(...), or rank() of pandas",
)
"""What there is not, and where it is."""
METHODS: Final = {
    **dict.fromkeys(("filter", "filter_where", "when", "having"), "where"),
    **dict.fromkeys(("rename", "as_", "label_as"), "alias"),
    **dict.fromkeys(("rolling", "window"), "over"),
}
"""Methods of aggregates by their names elsewhere."""


def hint(name: str, public: Iterable[str]) -> str:
    """Return what an error adds that does not know a name of the package: what is probably meant, or nothing.

    Examples
    --------
    >>> hint("nunique", ["count", "sum"])
    '; did you mean wk.count_distinct?'
    >>> hint("tumblng", ["count", "tumbling"])
    '; did you mean wk.tumbling?'
    """
    if name in ELSEWHERE:
        return f"; {ELSEWHERE[name]}"
    meant = CALLED.get(name)
    if meant is None and not name.startswith("_"):
        # Short names that only share letters, as days and delay do, are no slips of the pen.
        close = difflib.get_close_matches(name, public, n=1, cutoff=0.7)
        meant = next((f"wk.{each}" for each in close), None)
    return "" if meant is None else f"; did you mean {meant}?"


def unknown(module: str, name: str, public: Iterable[str]) -> AttributeError:
    """Return what is raised for an attribute that a module of the package does not have.

    Examples
    --------
    >>> unknown("windowkit.kernels", "rolling_mean", ["sliding_mean", "sliding_sum"])
    AttributeError("module 'windowkit.kernels' has no attribute 'rolling_mean'; did you mean 'sliding_mean'?")
    """
    close = [] if name.startswith("_") else difflib.get_close_matches(name, public, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{meant}")


class Hinting:
    """Base of aggregates, whose methods have other names elsewhere."""

    if not TYPE_CHECKING:  # To which any name would be an attribute.

        def __getattr__(self, name: str) -> object:
            meant = METHODS.get(name)
            hint = f"; did you mean .{meant}?" if meant is not None and hasattr(type(self), meant) else ""
            said = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(said, name=name, obj=self)


def here(name: str) -> str:
    """Return the name that a function or a window has here, of one that it has elsewhere, or else that name.

    Examples
    --------
    >>> here("hop"), here("nunique"), here("sum")
    ('sliding', 'count_distinct', 'sum')
    """
    found = re.match(r"wk\.(\w+)", CALLED.get(name, ""))
    return name if found is None else found[1]


def in_text(name: str) -> str:
    """Return what an error adds that does not know a function in text, where no other function is meant.

    Examples
    --------
    >>> in_text("expanding")
    '; did you mean sum(v) over (unbounded) of rolling, or for windows landmark(10 minutes, period=1 day)?'
    >>> in_text("covar_pop"), in_text("nunique")
    ('; did you mean wk.aggregate of Python, for a function of your own?', '')
    """
    meant = CALLED.get(name, "")
    if meant.startswith("wk.aggregate"):
        return f"; did you mean {meant.replace('wk.aggregate', 'wk.aggregate of Python', 1)}?"
    if ").over(" not in meant:
        return ""
    framed = re.sub(r'wk\.(\w+)\("(\w+)"\)\.over\((.*?)\)', r"\1(\2) over (\3) of rolling", meant)
    plain = re.sub(r"wk\.(\w+)", r"\1", framed)
    return f"; did you mean {plain.replace('closed=', 'closed ').replace(chr(34), '')}?"
