"""Window aggregation over Arrow data, in this process and inside Spark.

>>> import pyarrow as pa
>>> import windowkit as wk
>>> query = wk.query(
...     by="device",
...     time="t",
...     windows=wk.sliding(10, 5),
...     aggs=[wk.count().alias("n"), wk.max("v").alias("peak")],
... )
>>> table = pa.table({"device": ["a", "a", "a"], "t": [3, 6, 14], "v": [1.5, 4.0, 2.5]})
>>> for row in query.run(table).sort_by([("peak", "ascending"), ("n", "ascending")]).to_pylist():
...     print(row)
{'device': 'a', 'window_start': -5, 'window_end': 5, 'n': 1, 'peak': 1.5}
{'device': 'a', 'window_start': 10, 'window_end': 20, 'n': 1, 'peak': 2.5}
{'device': 'a', 'window_start': 0, 'window_end': 10, 'n': 2, 'peak': 4.0}
{'device': 'a', 'window_start': 5, 'window_end': 15, 'n': 2, 'peak': 4.0}

A query is written once and runs on any Arrow data of this process (pyarrow, Polars, pandas, DuckDB) and on
Spark DataFrames. Importing this package needs neither Spark nor any of these but pyarrow.
"""

import typing as _typing
from importlib import import_module as _import_module

from windowkit.engines.process import InProcess as _InProcess
from windowkit.engines.spark import Spark as _Spark
from windowkit.engines.spark import SparkStreams as _SparkStreams
from windowkit.errors import (
    InternalError,
    InvalidType,
    InvalidValue,
    Overflow,
    UnknownColumn,
    WindowKitError,
)
from windowkit.hyperloglog import HyperLogLog
from windowkit.language.aggregates import (
    Aggregate,
    approx_count_distinct,
    approx_quantile,
    arg_max,
    arg_min,
    avg,
    collect_list,
    collect_rows,
    collect_set,
    count,
    count_distinct,
    first,
    frequent,
    geometric_mean,
    hll_sketch,
    last,
    m4,
    max,
    max_count,
    mean,
    median,
    min,
    min_count,
    mode,
    quantile,
    stddev,
    stddev_pop,
    stddev_samp,
    sum,
    top_k,
    var_pop,
    var_samp,
    variance,
)
from windowkit.language.aggregation import Framed
from windowkit.language.distinct import Distinct, distinct
from windowkit.language.durations import Duration, Length, Rows, rows
from windowkit.language.emission import Emission, emit
from windowkit.language.engines import register as _register
from windowkit.language.events import at, every, on
from windowkit.language.expressions import Expression, expr
from windowkit.language.frames import Frame
from windowkit.language.hints import hint as _hint
from windowkit.language.join import Join, join
from windowkit.language.processing import PROCESSING_TIME
from windowkit.language.progress import Delay, delay
from windowkit.language.query import Query, query
from windowkit.language.rolling import Rolling, rolling
from windowkit.language.shedding import Shed, shed
from windowkit.language.triggers import Trigger
from windowkit.language.user import UserFunction, aggregate
from windowkit.language.windows import (
    Add,
    Band,
    Between,
    ContextAware,
    ContextFree,
    Custom,
    Global,
    Landmark,
    Punctuation,
    Remove,
    Session,
    Shift,
    Sliding,
    Tumbling,
    Window,
    band,
    between,
    custom,
    global_window,
    landmark,
    punctuation,
    session,
    sliding,
    tumbling,
)
from windowkit.streams.distinct import DistinctOperator
from windowkit.streams.join import JoinOperator
from windowkit.streams.operator import Operator

_register(_InProcess(), _SparkStreams(), _Spark())


if _typing.TYPE_CHECKING:
    # Imported when they are first used, but seen by type checkers and editors from the start.
    from windowkit import kernels as kernels
    from windowkit import partition as partition
    from windowkit import plot as plot
    from windowkit import spark as spark

    __version__: str

__all__ = [
    "PROCESSING_TIME",
    "Add",
    "Aggregate",
    "Band",
    "Between",
    "ContextAware",
    "ContextFree",
    "Custom",
    "Delay",
    "Distinct",
    "DistinctOperator",
    "Duration",
    "Emission",
    "Expression",
    "Frame",
    "Framed",
    "Global",
    "HyperLogLog",
    "InternalError",
    "InvalidType",
    "InvalidValue",
    "Join",
    "JoinOperator",
    "Landmark",
    "Length",
    "Operator",
    "Overflow",
    "Punctuation",
    "Query",
    "Remove",
    "Rolling",
    "Rows",
    "Session",
    "Shed",
    "Shift",
    "Sliding",
    "Trigger",
    "Tumbling",
    "UnknownColumn",
    "UserFunction",
    "Window",
    "WindowKitError",
    "aggregate",
    "approx_count_distinct",
    "approx_quantile",
    "arg_max",
    "arg_min",
    "at",
    "avg",
    "band",
    "between",
    "collect_list",
    "collect_rows",
    "collect_set",
    "count",
    "count_distinct",
    "custom",
    "delay",
    "distinct",
    "emit",
    "every",
    "expr",
    "first",
    "frequent",
    "geometric_mean",
    "global_window",
    "hll_sketch",
    "join",
    "landmark",
    "last",
    "m4",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "mode",
    "on",
    "punctuation",
    "quantile",
    "query",
    "rolling",
    "rows",
    "session",
    "shed",
    "sliding",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_k",
    "tumbling",
    "var_pop",
    "var_samp",
    "variance",
]


# Not in `__all__`, by which `from windowkit import *` would import them: they need time, or pyspark.
_LAZY = ("kernels", "partition", "plot", "spark")


if not _typing.TYPE_CHECKING:  # To which any name would be one of the package.

    def __getattr__(name: str) -> object:
        if name in _LAZY:
            return _import_module(f"windowkit.{name}")
        if name == "__version__":
            return _import_module("windowkit._native").__version__
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_hint(name, __dir__())}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY, "__version__"])
