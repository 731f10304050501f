"""Window ids as a column: windowing with nothing but `explode` and `groupBy`."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
from pyspark.sql import functions

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given
from windowkit.language.windows import Window, time_type
from windowkit.spark.shipping import importing

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["wids"]


def wids(window: Window, time: Column | str) -> Column:
    """Return the range of window ids of each row, as `windowkit.Window.wids` does.

    ``explode(sequence(wids.first, wids.last))`` has a row for each window that a row is in, so whatever can
    group by a column can aggregate windows: Li's Bucket operator (2008, §6.1.3.1). `query.run` is faster, as
    it does not copy rows; this is for what it does not do, such as joins of windows, or functions of Spark.

    Parameters
    ----------
    window : Window
        ``tumbling``, ``sliding`` or ``landmark`` with a period, over time or integers, or a ``band``.
    time : str or Column
        The time column.

    Returns
    -------
    Column
        A struct of ``first`` and ``last``, null for a row without a time, or in no window: `explode` drops
        it. O(1) per row, in Python workers, by Arrow.

    Raises
    ------
    InvalidType, InvalidValue
        The windows have no ids, or a row would be in infinitely many: those of a landmark without a period.
        Or pyspark is older than 4.1, the first to have functions over Arrow arrays.

    Notes
    -----
    In a task, errors are those of `windowkit.Window.wids`; Spark raises them as ``PythonException``.

    Examples
    --------
    >>> from pyspark.sql import functions as F
    >>> import windowkit as wk
    >>> wids = wk.spark.wids(wk.sliding("1 minute", "20 seconds"), "ts")
    >>> tagged = df.select("v", wids.alias("w"))
    >>> tagged = tagged.select("v", F.explode(F.sequence("w.first", "w.last")).alias("id"))
    >>> tagged.groupBy("id").agg(F.sum("v").alias("v")).orderBy("id").collect()
    [Row(id=2, v=20.5), Row(id=3, v=20.5), Row(id=4, v=20.5)]
    """
    if not isinstance(window, Window):
        raise InvalidType(f"window: {as_given(window):.60} is {a_type(window)}; it is a window of windowkit")
    # Raises here, and not in a task, where windows have no ids.
    window.wids(pa.array([], time_type([window])))
    if window.is_endless:
        raise InvalidValue(
            f"window: in {window}, a row is in infinitely many windows; allowed are landmarks with a period"
        )
    if not hasattr(functions, "arrow_udf"):
        raise InvalidValue(
            f"wids: pyspark {pyspark.__version__} has no arrow_udf; columns of window ids need pyspark 4.1"
        )
    payload, there = pickle.dumps(window), importing()

    # As of tasks: nothing in it refers to a name of this module.
    def wids(times: pa.Array) -> pa.Array:
        there()
        import pickle

        return pickle.loads(payload).wids(times)

    wids.__annotations__ = {"times": pa.Array, "return": pa.Array}
    column: Column = functions.arrow_udf(wids, "first bigint, last bigint")(time)
    return column
