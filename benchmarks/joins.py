#!/usr/bin/env python3
"""Band joins: windowkit, DuckDB and Polars, in one process.

    python benchmarks/joins.py                            # some minutes
    python benchmarks/joins.py --keys 1000 --only order   # some of it
    python benchmarks/joins.py --record                   # keep the records, and write the page

Both sides have random int64 keys, a timestamp for about each millisecond, in order of time or in no order,
and a random float64 value. The band is so wide that a row has one partner on average. All sides read the same
columns in memory, have the same number of threads, and give the columns of both sides as Arrow. Before any
clock runs, they must agree on fewer rows. They are then timed in turns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from statistics import median
from typing import NamedTuple

import goals
import numpy as np
import pages
import pyarrow as pa
import turns
from goals import Cells, Goal
from pages import Record

import windowkit as wk

CHECKED_ROWS = 100_000
ORDERS = ("time", "none")


class Cell(NamedTuple):
    """How many keys there are, and in which order rows come."""

    keys: int
    order: str

    def __str__(self) -> str:
        return f"{self.keys:,} keys, {'order of time' if self.order == 'time' else 'no order'}"

    @property
    def band(self) -> tuple[timedelta, timedelta]:
        """How far it reaches back and ahead: a row of each key comes about every `keys` milliseconds."""
        before = self.keys // 2
        return timedelta(milliseconds=before), timedelta(milliseconds=self.keys - 1 - before)


Side = Callable[[Cell], pa.Table]


def windowkit(left: pa.Table, right: pa.Table, threads: int) -> Side:
    """Answer by one join."""

    def answer(cell: Cell) -> pa.Table:
        join = wk.join(
            by={"key": "other"},
            left_time="ts",
            right_time="seen",
            within=cell.band,
            right_columns=["seen", "w"],
        )
        return join.run(left, right, threads=threads)

    return answer


def duckdb(left: pa.Table, right: pa.Table, threads: int) -> Side:
    """Answer by SQL."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}; SET preserve_insertion_order = false")
    connection.register("lefts", left)
    connection.register("rights", right)

    def answer(cell: Cell) -> pa.Table:
        before, after = (
            f"INTERVAL {round(each / timedelta(milliseconds=1))} MILLISECOND" for each in cell.band
        )
        return connection.sql(
            f"SELECT key, ts, v, seen, w FROM lefts JOIN rights ON key = other AND seen >= ts - {before} "
            f"AND seen <= ts + {after}"
        ).to_arrow_table()

    return answer


def polars(left: pa.Table, right: pa.Table, threads: int) -> Side:
    """Answer by ``join_where``."""
    import polars as pl

    if pl.thread_pool_size() != threads:
        sys.exit(f"polars: it has {pl.thread_pool_size()} threads; set POLARS_MAX_THREADS={threads}")
    frame, other = pl.from_arrow(left), pl.from_arrow(right)
    assert isinstance(frame, pl.DataFrame)
    assert isinstance(other, pl.DataFrame)

    def answer(cell: Cell) -> pa.Table:
        before, after = cell.band
        # With the ends of the band as columns it is a little faster than with sums in the condition.
        ends = frame.lazy().with_columns(first=pl.col("ts") - before, last=pl.col("ts") + after)
        joined = ends.join_where(
            other.lazy(),
            pl.col("key") == pl.col("other"),
            pl.col("seen") >= pl.col("first"),
            pl.col("seen") <= pl.col("last"),
        )
        return joined.select("key", "ts", "v", "seen", "w").collect().to_arrow()

    return answer


SIDES: dict[str, Callable[[pa.Table, pa.Table, int], Side]] = {
    "windowkit": windowkit,
    "duckdb": duckdb,
    "polars": polars,
}


def measured(options: argparse.Namespace) -> Iterator[Record]:
    """Check and measure all cells."""
    cells = [Cell(keys, order) for keys in options.keys for order in ORDERS]
    cells = [cell for cell in cells if any(text in str(cell) for text in options.only)]
    for cell in cells:
        check(cell, options)
    print(f"the sides agree on all {len(cells)} cells", flush=True)
    for cell in cells:
        left, right = tables(cell, options.rows, options.seed)
        sides = {name: SIDES[name](left, right, options.threads) for name in options.sides}
        asks = {name: partial(side, cell) for name, side in sides.items()}
        seconds, results = turns.timed(cell, asks, options.repeats)
        yield {**cell._asdict(), "results": results, "seconds": seconds}


def tables(cell: Cell, rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return ``key``, ``ts`` and ``v``, and ``other``, ``seen`` and ``w``."""
    random = np.random.default_rng(seed)
    begin = np.datetime64("2024-01-01", "us").astype(np.int64)

    def side(names: Sequence[str]) -> pa.Table:
        places = random.integers(0, rows, rows)
        if cell.order == "time":
            places.sort()
        columns = (
            random.integers(0, cell.keys, rows),
            pa.array(begin + 1_000 * places).cast(pa.timestamp("us")),
            random.random(rows),
        )
        return pa.table(dict(zip(names, columns, strict=True)))

    return side(("key", "ts", "v")), side(("other", "seen", "w"))


def check(cell: Cell, options: argparse.Namespace) -> None:
    """Stop unless all sides give the same rows."""
    left, right = tables(cell, min(options.rows, CHECKED_ROWS), options.seed)
    expected: pa.Table | None = None
    for name in options.sides:
        got = SIDES[name](left, right, options.threads)(cell)
        got = got.sort_by([(column, "ascending") for column in got.column_names])
        expected = expected or got
        if not got.cast(expected.schema).equals(expected):
            sys.exit(f"{name} is not {options.sides[0]} in {cell}")


def against_best(records: list[Record]) -> Cells:
    """Yield how many times as long as windowkit the best of its peers takes."""
    for record in records:
        times = {side: median(seconds) for side, seconds in record["seconds"].items()}
        best = min(seconds for side, seconds in times.items() if side != "windowkit")
        yield f"{record['keys']:,} keys, order: {record['order']}", best / times["windowkit"]


GOALS = [Goal("times as fast as the better of DuckDB and Polars", "≥", 3.0, against_best)]


def page(output: object, facts: Record, records: list[Record]) -> str:
    """Return the page."""
    columns = turns.Columns(records)
    lines = [
        "# Band joins: windowkit, DuckDB and Polars",
        "",
        f"Written by `benchmarks/joins.py`. {facts['rows']:,} rows on each side, about one a millisecond: a "
        "random int64 key, a timestamp[us], a random float64. The band is so wide that a row has one partner "
        f"on average. One process, {facts['threads']} threads on every side; the core is of the "
        f"{facts['profile']} profile.",
        "",
        *pages.listed(facts),
        "",
        "DuckDB is asked by a join in SQL, Polars by `join_where`. Every side gives the columns of both "
        f"tables as Arrow. A time is the median of {facts['repeats']} turns.",
        "",
        *goals.table(GOALS, records),
        "",
        pages.header("keys", "order of rows", "results", *columns.heads, left=2),
    ]
    lines += [
        pages.row(f"{record['keys']:,}", record["order"], f"{record['results']:,}", *columns.of(record))
        for record in records
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    given = turns.arguments(__doc__, "joins", SIDES, rows=2_000_000, keys=[1_000, 100_000], of="of each side")
    turns.main(given, measured, page)
