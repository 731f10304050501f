"""The sides of kernels.py: rolling aggregates over one column, each library asked as it answers fastest.

A side is bound to a column and offers ways to answer a cell; where it has several, all of them are timed
once, and the fastest stands for the side. Columns are handed over in the form a library reads without a copy,
and in float64 where it would make one itself, before any clock runs. Answers are left in the form the library
gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import bottleneck
import numbagg
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import windowkit as wk

Run = Callable[[], Any]


@dataclass(frozen=True)
class Cell:
    """A function over a column, in windows of so many rows."""

    function: str
    dtype: str
    size: int
    slide: int = 1
    column: str = "random"
    """Which column of `columns` it is over."""
    partial: str = "none"
    """Whether there are full windows only, or (``"start"``) one per row."""

    @property
    def least(self) -> int:
        """How many values a window has to have: the same number is asked of each side.

        Full windows without nulls have all of theirs, which lets a library answer its first windows for
        nothing. Where windows may be short, or nulls in them, one value is enough, as in SQL.
        """
        return self.size if self.partial == "none" and self.column != "10 % nulls" else 1

    def full(self, answers: np.ndarray) -> np.ndarray:
        """Return those of one answer per row that are asked for."""
        return answers if self.partial == "start" else answers[self.size - 1 :]

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.function} {self.dtype}"


class Side(Protocol):
    """A library bound to a column."""

    name: str

    def __init__(self, column: Column) -> None: ...

    def ways(self, cell: Cell) -> Mapping[str, Run]:
        """Return how to answer `cell`; nothing if the library cannot."""
        ...

    def answer(self, result: Any, cell: Cell) -> np.ndarray:
        """Return the answers for full windows as float64, NaN where null, for the check before the clock."""
        ...


class Column:
    """The values of a cell, in the forms that sides take."""

    def __init__(self, array: pa.Array) -> None:
        self.arrow = array
        self.has_nulls = array.null_count > 0
        dense = pc.fill_null(array, 0) if self.has_nulls else array
        self.numpy = dense.to_numpy()
        self.float = self.numpy.astype(np.float64)
        if self.has_nulls:
            self.float[pc.is_null(array).to_numpy(zero_copy_only=False)] = np.nan

    def __len__(self) -> int:
        return len(self.arrow)


class Memcpy:
    """The column's bytes copied: once to memory in use, once to new memory, as a kernel's answers are."""

    name = "memcpy"

    def __init__(self, column: Column) -> None:
        self.source = column.numpy
        self.target = np.empty_like(self.source)

    def ways(self, cell: Cell) -> Mapping[str, Run]:
        return {"numpy.copyto": lambda: np.copyto(self.target, self.source)}

    def answer(self, result: Any, cell: Cell) -> np.ndarray:
        raise NotImplementedError("a copy answers nothing")


class FreshMemcpy(Memcpy):
    """A copy into memory that the operating system has to hand out first."""

    name = "memcpy, new memory"

    def ways(self, cell: Cell) -> Mapping[str, Run]:
        return {"ndarray.copy": lambda: self.source.copy()}


class Windowkit:
    """The side the others are compared with."""

    name = "windowkit"
    algorithm = "auto"

    def __init__(self, column: Column) -> None:
        self.array = column.arrow

    def ways(self, cell: Cell) -> Mapping[str, Run]:
        return {
            self.algorithm: lambda: wk.kernels.sliding(
                self.array,
                cell.size,
                cell.slide,
                agg=cell.function,
                algorithm=self.algorithm,
                min_periods=cell.least,
                partial=cell.partial,
            )
        }

    def answer(self, result: pa.Array, cell: Cell) -> np.ndarray:
        return pc.cast(result, pa.float64()).to_numpy(zero_copy_only=False)


def algorithm_side(algorithm: str) -> type[Windowkit]:
    """Return windowkit with one algorithm by name."""
    return type(f"Windowkit_{algorithm}", (Windowkit,), {"name": algorithm, "algorithm": algorithm})


class Polars:
    """`Series.rolling_*`, which reads the column's own type; slides are gathered from all rows."""

    name = "Polars"

    def __init__(self, column: Column) -> None:
        self.series = pl.from_arrow(column.arrow)
        self.wide = self.series.cast(pl.Int64) if self.series.dtype.is_integer() else self.series
        self.float = self.series.cast(pl.Float64)

    def ways(self, cell: Cell) -> Mapping[str, Run]:
        def way(series: pl.Series) -> Run:
            method = getattr(series, f"rolling_{cell.function}")
            if cell.slide == 1:
                return lambda: method(cell.size, min_samples=cell.least)
            return lambda: method(cell.size, min_samples=cell.least).gather_every(cell.slide, cell.size - 1)

        def rows(series: pl.Series) -> Run:
            whole = len(series) // cell.size
            # A view: the windows are the rows of a matrix.
            matrix = series[: whole * cell.size].reshape((whole, cell.size))
            return getattr(matrix.arr, cell.function)

        if cell.slide == cell.size:
            exact = self.wide if cell.function == "sum" else self.series
            return {"rolling, gathered": way(exact), "reshape and arr": rows(exact)}
        if self.series.dtype == pl.Float64:
            return {"its own type": way(self.series)}
        # Sums stay in the type of the values, in which those of int32 would wrap.
        own = {"as int64": way(self.wide)} if cell.function == "sum" else {"its own type": way(self.series)}
        return own | {"as float64": way(self.float)}

    def answer(self, result: pl.Series, cell: Cell) -> np.ndarray:
        answers = result.cast(pl.Float64).to_numpy()
        return cell.full(answers) if cell.slide == 1 else answers


class Pandas:
    """`Series.rolling`, by its Cython and its numba engine; slides by its own `step`."""

    name = "pandas"

    def __init__(self, column: Column) -> None:
        self.values = column.float
        self.series = pd.Series(column.float)

    def ways(self, cell: Cell) -> Mapping[str, Run]:
        # Windows end with the rows 0, step, 2 step, ...: nulls in front make the first full one such a row.
        before = -(cell.size - 1) % cell.slide
        series = pd.Series(np.concatenate([np.full(before, np.nan), self.values])) if before else self.series
        rolling = series.rolling(cell.size, min_periods=cell.least, step=cell.slide)
        method = getattr(rolling, cell.function)
        return {
            "engine='cython'": lambda: method(engine="cython"),
            "engine='numba'": lambda: method(engine="numba", engine_kwargs={"nopython": True, "nogil": True}),
        }

    def answer(self, result: pd.Series, cell: Cell) -> np.ndarray:
        answers = result.to_numpy()
        return cell.full(answers) if cell.slide == 1 else answers[-(-(cell.size - 1) // cell.slide) :]


class Bottleneck:
    """`bottleneck.move_*`, slide 1 only."""

    name = "bottleneck"

    def __init__(self, column: Column) -> None:
        self.column = column

    def ways(self, cell: Cell) -> Mapping[str, Run]:
        if cell.slide != 1:
            return {}
        method = getattr(bottleneck, f"move_{cell.function}")
        options = {"ddof": 1} if cell.function == "std" else {}
        ways = {"as float64": lambda: method(self.column.float, cell.size, min_count=cell.least, **options)}
        # Sums of int32 wrap in its own type.
        exact = cell.function in ("min", "max")
        if exact and not self.column.has_nulls and self.column.numpy.dtype != np.float64:
            ways["its own type"] = lambda: method(
                self.column.numpy, cell.size, min_count=cell.least, **options
            )
        return ways

    def answer(self, result: np.ndarray, cell: Cell) -> np.ndarray:
        return cell.full(result)


class Numbagg:
    """`numbagg.move_*`, slide 1, without min and max."""

    name = "numbagg"

    def __init__(self, column: Column) -> None:
        self.values = column.float

    def ways(self, cell: Cell) -> Mapping[str, Run]:
        if cell.slide != 1 or cell.function not in ("sum", "mean", "std"):
            return {}
        method = getattr(numbagg, f"move_{cell.function}")
        return {"as float64": lambda: method(self.values, window=cell.size, min_count=cell.least)}

    def answer(self, result: np.ndarray, cell: Cell) -> np.ndarray:
        return cell.full(result)


ALGORITHMS = ("two_stacks_simd", "two_stacks", "subtract_on_evict", "recalculate", "tumbling")
PEERS: tuple[type[Side], ...] = (Polars, Pandas, Bottleneck, Numbagg)
COPIES: tuple[type[Side], ...] = (Memcpy, FreshMemcpy)
SIDES: dict[str, type[Side]] = {
    side.name: side for side in (Windowkit, *COPIES, *(algorithm_side(name) for name in ALGORITHMS), *PEERS)
}


# The time-based query.


def trace(path: Any, rows: int) -> pa.Table:
    """Return the cluster trace's rows after its begin, repeated with their own gaps up to `rows` rows.

    Columns are ``ts`` (timestamp[us], in order) and ``cpu_request`` (float64 with its nulls).
    """
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["ts", "cpu_request"]).sort_by("ts")
    begin = pa.scalar(0, table["ts"].type)
    table = table.filter(pc.greater(table["ts"], begin))
    times = table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    repeats = -(-rows // len(times))
    # The next repetition starts one mean gap after the last row.
    span = times[-1] - times[0] + (times[-1] - times[0]) // len(times)
    all_times = (np.arange(repeats, dtype=np.int64)[:, None] * span + times[None, :]).reshape(-1)[:rows]
    values = pa.concat_arrays([table["cpu_request"].combine_chunks()] * repeats)[:rows]
    return pa.table({"ts": pa.array(all_times).cast(pa.timestamp("us")), "cpu_request": values})


def timed_ways(table: pa.Table, seconds: int) -> dict[str, dict[str, Run]]:
    """Return, side by side, how the mean of the last 64 s is asked every so many seconds."""
    times = table["ts"].combine_chunks()
    values = table["cpu_request"].combine_chunks()
    frame = pl.from_arrow(table).with_columns(pl.col("ts").set_sorted())
    every, period = f"{seconds}s", "64s"

    def sliding_by(algorithm: str) -> Run:
        return lambda: wk.kernels.sliding_by(
            values, times, "64 seconds", f"{seconds} seconds", agg="mean", algorithm=algorithm
        )

    def dynamic(of: pl.LazyFrame, *aggregates: pl.Expr) -> pl.LazyFrame:
        offset = f"-{64 - seconds}s"
        return of.group_by_dynamic("ts", every=every, period=period, offset=offset).agg(*aggregates)

    col = pl.col
    panes = (
        frame.lazy()
        .group_by_dynamic("ts", every=every)
        .agg(s=col("cpu_request").sum(), n=col("cpu_request").count())
    )
    over_panes = dynamic(panes, col("s").sum(), col("n").sum()).select("ts", v=col("s") / col("n"))
    over_rows = dynamic(frame.lazy(), col("cpu_request").mean())
    polars = {
        "group_by_dynamic over panes": over_panes.collect,
        "group_by_dynamic over rows": over_rows.collect,
    }
    if 64 // seconds > 8:
        # Rows are copied into each of their windows: minutes.
        del polars["group_by_dynamic over rows"]
    ways = {"windowkit": {"auto": sliding_by("auto")}}
    for name in ("two_stacks", "recalculate"):
        ways[name] = {name: sliding_by(name)}
    return ways | {"Polars": polars}


def row_ending_ways(
    times: pa.Array, values: pa.Array, seconds: int, function: str
) -> dict[str, dict[str, Run]]:
    """Return, side by side, how windows of so many seconds that end with a row are asked.

    Times are distinct: of equal ones pandas leaves those out that follow.
    """
    frame = pl.DataFrame({"ts": pl.from_arrow(times), "v": pl.from_arrow(values)})
    frame = frame.with_columns(pl.col("ts").set_sorted())
    series = pd.Series(values.to_numpy(zero_copy_only=False), index=pd.DatetimeIndex(times.to_pandas()))
    rolling = series.rolling(f"{seconds}s", min_periods=1, closed="right")
    rolled = getattr(pl.col("v"), f"rolling_{function}_by")
    plan = frame.lazy().select(rolled("ts", window_size=f"{seconds}s", closed="right", min_samples=1))

    def own(algorithm: str) -> Run:
        return lambda: wk.kernels.sliding_by(
            values, times, f"{seconds} seconds", agg=function, closed="right", algorithm=algorithm
        )

    return {
        "windowkit": {"auto": own("auto")},
        "two_stacks": {"two_stacks": own("two_stacks")},
        "Polars": {"rolling_*_by": lambda: plan.collect()["v"]},
        "pandas": {"engine='cython'": getattr(rolling, function)},
    }
