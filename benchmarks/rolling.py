#!/usr/bin/env python3
"""Rolling aggregates of every row, or as of labels: windowkit, DuckDB and Polars, in one process.

    python benchmarks/rolling.py                          # about an hour, most of it Polars with 16 keys
    python benchmarks/rolling.py --only "sum and max" "1,024 keys"   # the cells that have goals, some minutes
    python benchmarks/rolling.py --record                 # keep the records, and write the page

Rows lie 10 ms apart, in order of time or in no order, with random int64 keys and random float64 values; asked
are aggregates of the ten minutes of its key up to each row, both ends included; and, in point in time, three
aggregates up to each of fewer labels, of the minute, the ten minutes and the hour. All sides read the same
columns in memory, have the same number of threads, and give every row with its results as Arrow. Before any
clock runs, they must agree on fewer rows. They are then timed in turns. At last windowkit is asked for less,
on one thread, to see where its CPU time goes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import product
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import goals
import numpy as np
import pages
import pyarrow as pa
import pyarrow.compute as pc
import turns
from goals import Cells, Goal
from pages import Record

import windowkit as wk

if TYPE_CHECKING:
    import polars as pl

SIZE = timedelta(minutes=10)
CHECKED_ROWS = 100_000
SHOPS = 1_000
ASKED = ("sum and max", "median", "distinct")
AT = "point in time"
LABELED = 1_024
"""With how many keys there are labels: with few, peers take hours."""
ORDERS = ("time", "none")


class Cell(NamedTuple):
    """What is asked of how many keys, and in which order rows come."""

    asked: str
    keys: int
    order: str

    def __str__(self) -> str:
        return f"{self.asked}, {self.keys:,} keys, {'order of time' if self.order == 'time' else 'no order'}"


Side = Callable[[str], pa.Table]
STEPS = {
    "keys, order, and back": wk.count().over("1 row"),
    "frames of ten minutes": wk.count().over(SIZE),
    "sum": wk.sum("v").over(SIZE),
    "max": wk.max("v").over(SIZE),
    "median": wk.median("v").over(SIZE),
    "distinct": wk.count_distinct("shop").over(SIZE),
}
"""What windowkit is asked for to see where its time goes: each has what the first two have, and more."""


def windowkit(table: pa.Table, threads: int) -> Side:
    """Answer by one rolling aggregation."""
    labels = labels_of(table)

    def answer(asked: str) -> pa.Table:
        if asked == AT:
            over = [
                wk.sum("v").over("1 minute").alias("a"),
                wk.count("v").over("10 minutes").alias("b"),
                wk.max("v").over("1 hour").alias("c"),
            ]
            return wk.rolling(by="key", time="ts", aggs=over).at(labels, table, threads=threads)
        aggs = {
            "sum and max": [wk.sum("v").over(SIZE).alias("a"), wk.max("v").over(SIZE).alias("b")],
            "median": [wk.median("v").over(SIZE).alias("a")],
            "distinct": [wk.count_distinct("shop").over(SIZE).alias("a")],
        }[asked]
        return wk.rolling(by="key", time="ts", aggs=aggs).run(table, threads=threads)

    return answer


def duckdb(table: pa.Table, threads: int) -> Side:
    """Answer by RANGE frames; for labels, by those of labels and events together: joins take longer."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}; SET preserve_insertion_order = false")
    connection.register("data", table)
    connection.register("labels", labels_of(table))
    both = "SELECT NULL::BIGINT id, key, ts, v FROM data UNION ALL SELECT id, key, ts, NULL v FROM labels"

    def over(what: str, length: str) -> str:
        return f"{what} OVER (w RANGE BETWEEN INTERVAL {length} PRECEDING AND CURRENT ROW)"

    def answer(asked: str) -> pa.Table:
        if asked == AT:
            return connection.sql(
                f"SELECT * EXCLUDE v FROM (SELECT *, {over('sum(v)', '1 MINUTE')} a, "
                f"{over('count(v)', '10 MINUTE')} b, {over('max(v)', '1 HOUR')} c "
                f"FROM ({both}) WINDOW w AS (PARTITION BY key ORDER BY ts)) WHERE id IS NOT NULL"
            ).to_arrow_table()
        results = {
            "sum and max": "sum(v) OVER w AS a, max(v) OVER w AS b",
            "median": "median(v) OVER w AS a",
            "distinct": "count(DISTINCT shop) OVER w AS a",
        }[asked]
        frame = "RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW"
        window = f"WINDOW w AS (PARTITION BY key ORDER BY ts {frame})"
        return connection.sql(f"SELECT *, {results} FROM data {window}").to_arrow_table()

    return answer


def polars(table: pa.Table, threads: int) -> Side:
    """Answer by ``rolling`` over sorted rows, with the sort, or by ``rolling_*_by`` where that is faster."""
    import polars as pl

    if pl.thread_pool_size() != threads:
        sys.exit(f"polars: it has {pl.thread_pool_size()} threads; set POLARS_MAX_THREADS={threads}")
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)

    def answer(asked: str) -> pa.Table:
        if asked == "distinct":
            # There is no rolling_n_unique_by.
            return by_rolling(frame, [pl.col("shop").n_unique().alias("a")])
        value = pl.col("v")
        by = {"window_size": SIZE, "closed": "both"}
        results = {
            "sum and max": [
                value.rolling_sum_by("ts", **by).over("key").alias("a"),
                value.rolling_max_by("ts", **by).over("key").alias("b"),
            ],
            "median": [value.rolling_median_by("ts", **by).over("key").alias("a")],
        }[asked]
        return frame.with_columns(results).to_arrow()

    return answer


def by_rolling(frame: pl.DataFrame, results: list[pl.Expr]) -> pa.Table:
    """Return the rows of a frame, sorted, with results of groups around each."""
    ordered = frame.sort("key", "ts")
    answers = ordered.rolling("ts", period=SIZE, closed="both", group_by="key").agg(results)
    return ordered.hstack(answers.drop("key", "ts")).to_arrow()


SIDES: dict[str, Callable[[pa.Table, int], Side]] = {
    "windowkit": windowkit,
    "duckdb": duckdb,
    "polars": polars,
}


def measured(options: argparse.Namespace) -> Iterator[Record]:
    """Check and measure all cells."""
    cells = [Cell(asked, keys, order) for keys in options.keys for asked in ASKED for order in ORDERS]
    cells += [Cell(AT, keys, order) for keys in options.keys if keys >= LABELED for order in ORDERS]
    cells = [cell for cell in cells if any(text in str(cell) for text in options.only)]
    for cell in cells:
        rows = min(options.rows, CHECKED_ROWS)
        check(
            cell, rows_of(rows, max(1, cell.keys * rows // options.rows), cell.order, options.seed), options
        )
    print(f"the sides agree on all {len(cells)} cells", flush=True)
    for cell in cells:
        table = rows_of(options.rows, cell.keys, cell.order, options.seed)
        sides = {name: SIDES[name](table, options.threads) for name in sides_of(cell, options)}
        asks = {name: partial(side, cell.asked) for name, side in sides.items()}
        seconds, results = turns.timed(cell, asks, options.repeats)
        assert results == (labels_of(table) if cell.asked == AT else table).num_rows
        yield {**cell._asdict(), "seconds": seconds}
    if "windowkit" in options.sides:
        for keys, order in product(options.keys, ORDERS):
            steps = by_step(rows_of(options.rows, keys, order, options.seed), options.repeats)
            yield {"steps": steps, "keys": keys, "order": order}
            print(f"{keys:,} keys, order {order}, CPU s: {steps}", flush=True)


def by_step(table: pa.Table, repeats: int) -> dict[str, list[float]]:
    """Return CPU seconds of windowkit on one thread."""
    seconds: dict[str, list[float]] = {}
    for name, aggregate in STEPS.items():
        rolling = wk.rolling(by="key", time="ts", aggs=aggregate.alias("a"))
        for turn in range(repeats + 1):
            begin = time.process_time()
            rolling.run(table, threads=1)
            # The first turn does not count.
            if turn > 0:
                seconds.setdefault(name, []).append(round(time.process_time() - begin, 3))
    return seconds


def sides_of(cell: Cell, options: argparse.Namespace) -> list[str]:
    """Return the sides that can be asked."""
    # Polars joins a label with one event at most, or with all in a range.
    return [name for name in options.sides if cell.asked != AT or name != "polars"]


def labels_of(table: pa.Table) -> pa.Table:
    """Return ``id``, ``key`` and ``ts`` of labels, a twentieth as many as rows and evenly in time."""
    count = table.num_rows // 20
    keys = np.random.default_rng(1).integers(0, 1 + pc.max(table["key"]).as_py(), count)
    begin = pc.min(table["ts"]).cast(pa.int64()).as_py()
    times = pa.array(begin + 200_000 * np.arange(count)).cast(pa.timestamp("us"))
    return pa.table({"id": np.arange(count), "key": keys, "ts": times})


def rows_of(rows: int, keys: int, order: str, seed: int) -> pa.Table:
    """Return ``key``, ``ts``, ``v`` and ``shop``."""
    random = np.random.default_rng(seed)
    begin = np.datetime64("2024-01-01", "us").astype(np.int64)
    places = np.arange(rows, dtype=np.int64)
    if order == "none":
        random.shuffle(places)
    return pa.table(
        {
            "key": random.integers(0, keys, rows),
            "ts": pa.array(begin + 10_000 * places).cast(pa.timestamp("us")),
            "v": random.random(rows),
            "shop": random.integers(0, SHOPS, rows),
        }
    )


def check(cell: Cell, table: pa.Table, options: argparse.Namespace) -> None:
    """Stop unless all sides give the same, to nine digits."""
    expected: pa.Table | None = None
    for name in sides_of(cell, options):
        # Times differ, so that rows can be told apart by them.
        got = SIDES[name](table, options.threads)(cell.asked).sort_by("ts")
        expected = expected or got
        for column in set(got.column_names) - set(table.column_names):
            mine, other = (each[column].cast(pa.float64()) for each in (expected, got))
            worst = pc.max(pc.abs(pc.subtract(mine, other))).as_py()
            if mine.is_null() != other.is_null():
                sys.exit(f"{name} is not {options.sides[0]} in {cell}: {column} has other nulls")
            if worst > 1e-9 * max(1, pc.max(pc.abs(mine)).as_py()):
                sys.exit(f"{name} is not {options.sides[0]} in {cell}: {column} differs by {worst}")


def times_as_fast(
    peer: str, asked: tuple[str, ...], keys: tuple[int, ...]
) -> Callable[[list[Record]], Cells]:
    """Return what records say of how much longer a peer takes."""

    def cells(records: list[Record]) -> Cells:
        for record in records:
            seconds = record["seconds"]
            if record["asked"] in asked and record["keys"] in keys and {peer, "windowkit"} <= set(seconds):
                cell = Cell(record["asked"], record["keys"], record["order"])
                yield str(cell), median(seconds[peer]) / median(seconds["windowkit"])

    return cells


HOLDING = ("median", "distinct")
GOALS = (
    Goal("sum and max, DuckDB", "≥", 10, times_as_fast("duckdb", ASKED[:1], (16, 1_024))),
    Goal("sum and max, Polars", "≥", 1.5, times_as_fast("polars", ASKED[:1], (16, 1_024))),
    Goal("median and distinct, 1,024 keys, DuckDB", "≥", 10, times_as_fast("duckdb", HOLDING, (1_024,))),
    Goal("median and distinct, 1,024 keys, Polars", "≥", 3, times_as_fast("polars", HOLDING, (1_024,))),
    Goal("point in time, DuckDB", "≥", 3, times_as_fast("duckdb", (AT,), (1_024,))),
)


def page(output: object, facts: Record, records: list[Record]) -> str:
    """Return the page."""
    steps = [record for record in records if "steps" in record]
    records = [record for record in records if "steps" not in record]
    lines = [
        "# Rolling aggregates: windowkit, DuckDB and Polars",
        "",
        f"Written by `benchmarks/rolling.py`. {facts['rows']:,} rows 10 ms apart: a random int64 key, a "
        f"timestamp[us], a random float64 v, a random int64 shop of {SHOPS:,}; asked are aggregates of the "
        "ten minutes of its key up to each row, both ends included. One process, "
        f"{facts['threads']} threads on every side; the core is of the {facts['profile']} profile.",
        "",
        *pages.listed(facts),
        "",
        "DuckDB is asked by a RANGE frame, Polars by `rolling_sum_by(...).over(key)` and its like, and, for "
        "distinct values, by `rolling` over rows that it sorts. Every side gives all rows with their results "
        f"as Arrow. A time is the median of {facts['repeats']} turns.",
        "",
        *goals.table(GOALS, records),
        "",
    ]
    lines += table_of([record for record in records if record["asked"] != AT])
    labeled = [record for record in records if record["asked"] == AT]
    if labeled:
        lines += [
            "",
            f"Point in time: {facts['rows'] // 20:,} labels with random keys, evenly in time; asked are the "
            "sum of the minute up to each, the count of ten minutes, and the maximum of an hour. DuckDB is "
            "asked by RANGE frames over labels and events together; its joins take longer.",
            "",
            *table_of(labeled),
        ]
    if steps:
        lines += ["", *where_time_goes(steps, facts["rows"])]
    return "\n".join(lines) + "\n"


def where_time_goes(steps: list[Record], rows: int) -> list[str]:
    """Return the lines of a section on windowkit's own time."""
    lines = [
        "## Where the time goes",
        "",
        "CPU seconds of windowkit on one thread. Every frame needs what the first column has: to read keys "
        "and times, put rows in order by key, and put results back into the order of the rows. The second "
        "has the frames, too, and each of the others also an aggregate.",
        "",
        pages.header("keys", "order of rows", *STEPS, left=2),
    ]
    for record in steps:
        each = (f"{median(record['steps'][name]):.2f}" for name in STEPS)
        lines.append(pages.row(f"{record['keys']:,}", record["order"], *each))
    of = {name: median(seconds) for name, seconds in steps[-2]["steps"].items()}
    first, second, *_ = STEPS
    whole = of["sum"] + of["max"] - of[second]

    def each_row(name: str) -> str:
        return f"{(of[name] - of[second]) / rows * 1e9:.0f} ns"

    return [
        *lines,
        "",
        f"With {steps[-2]['keys']:,} keys in order of time, {of[first] / whole:.0%} of the time of sum and "
        f"max is for order, {(of[second] - of[first]) / whole:.0%} for frames, and the rest for the "
        f"aggregates: {each_row('sum')} and {each_row('max')} a row. Even if these took nothing, it would be "
        f"no more than {whole / of[second]:.1f} times as fast. Frames of about "
        f"{round(60_000 / steps[-2]['keys'])} rows give DuckDB little to do, whose time grows with them; "
        f"ours hardly does. A median takes {each_row('median')} a row, in which one value enters a multiset "
        f"and another one leaves it; distinct values take {each_row('distinct')}.",
    ]


def table_of(records: list[Record]) -> list[str]:
    """Return the lines of a table."""
    if not records:
        return []
    columns = turns.Columns(records)
    return [
        pages.header("asked", "keys", "order of rows", *columns.heads, left=3),
        *(
            pages.row(record["asked"], f"{record['keys']:,}", record["order"], *columns.of(record))
            for record in records
        ),
    ]


if __name__ == "__main__":
    given = turns.arguments(__doc__, "rolling", SIDES, rows=4_000_000, keys=[16, 1024])
    turns.main(given, measured, page)
