#!/usr/bin/env python3
"""From sixteen to ten million keys, numbers and text: windowkit, DuckDB and Polars, in one process.

    python benchmarks/keys.py                                        # an hour or so
    python benchmarks/keys.py --keys 1024,1000000 --only tumbling    # some of it
    python benchmarks/keys.py --record                               # keep the records, and write the page

Rows are 10 ms apart, each of a random key. Keys are int64, text of 13 or of 36 bytes, or two columns. All
sides read the same columns in memory, have the same number of threads, and give their answer as Arrow. Before
any clock runs, they must agree on fewer rows. They are then timed in turns. The operator gets the same rows
in batches, in order; what it holds of a key is measured when each key has one row.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any, Final, NamedTuple

import goals
import numpy as np
import pages
import pyarrow as pa
import pyarrow.compute as pc
import turns
from goals import Cells, Goal
from pages import Record

import windowkit as wk

CHECKED_ROWS: Final = 100_000
BATCH_ROWS: Final = 65_536
APART: Final = timedelta(milliseconds=10)
SIZE: Final = timedelta(minutes=10)
SLIDES: Final = 12
CROWDED: Final = 100_000
KINDS: Final = ("int64", "text of 13", "text of 36", "two columns")
WORKS: Final = ("tumbling", "sliding", "session", "rolling", "join", "distinct")
STREAMED: Final = ("tumbling", "sliding", "session")
AGGREGATES: Final = [wk.sum("v").alias("s"), wk.max("v").alias("m")]


class Cell(NamedTuple):
    """What is asked, and of which keys."""

    work: str
    keys: int
    kind: str

    def __str__(self) -> str:
        return f"{self.work}, {self.keys:,} keys, {self.kind}"

    @property
    def by(self) -> list[str]:
        """The columns of the key."""
        return ["k", "j"] if self.kind == "two columns" else ["k"]

    @property
    def reach(self) -> timedelta:
        """How long a key waits for its next row, on average: gaps, frames and bands are of such lengths."""
        return APART * self.keys

    @property
    def has_crowded_keys(self) -> bool:
        """Whether all pairs of rows of a key are so many that others join by stretches of time, too."""
        return self.keys < CROWDED

    @property
    def windows(self) -> wk.Window:
        """The windows that are asked for."""
        if self.work == "session":
            return wk.session(self.reach)
        return wk.tumbling(SIZE) if self.work == "tumbling" else wk.sliding(SIZE, SIZE / SLIDES)


def query(cell: Cell) -> wk.Query:
    """Return the query of a cell."""
    return wk.query(by=cell.by, time="t", windows=cell.windows, aggs=AGGREGATES)


Side = Callable[[Cell], pa.Table]


def windowkit(rows: pa.Table, others: pa.Table, threads: int) -> Side:
    """Answer by one call."""

    def answer(cell: Cell) -> pa.Table:
        by, reach = cell.by, cell.reach
        if cell.work == "rolling":
            frames = [each.over(10 * reach) for each in (wk.sum("v"), wk.max("v"))]
            aggs = [each.alias(name) for each, name in zip(frames, ("s", "m"), strict=True)]
            return wk.rolling(by=by, time="t", aggs=aggs).run(rows, threads=threads)
        if cell.work == "join":
            band = (reach / 2, reach / 2)
            join = wk.join(by=by, left_time="t", right_time="u", within=band, right_columns=["u", "w"])
            return join.run(rows, others, threads=threads)
        if cell.work == "distinct":
            return wk.distinct(by, time="t", within=reach).run(rows, threads=threads)
        return query(cell).run(rows, threads=threads)

    return answer


def duckdb(rows: pa.Table, others: pa.Table, threads: int) -> Side:
    """Answer by SQL over the Arrow tables."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}; SET preserve_insertion_order = false")
    connection.register("rows", rows)
    connection.register("others", others)

    def answer(cell: Cell) -> pa.Table:
        by, reach, size = ", ".join(cell.by), micros(cell.reach), micros(SIZE)
        slide = size // SLIDES
        panes = f"SELECT {by}, epoch_us(t) // {{}} AS p, sum(v) AS s, max(v) AS m FROM rows GROUP BY ALL"
        half = reach // 2
        near = f"u >= t - INTERVAL {half} MICROSECONDS AND u <= t + INTERVAL {half} MICROSECONDS"
        first, last = (f"(epoch_us(t) {sign} {half}) // {reach}" for sign in "-+")
        asked = {
            "tumbling": panes.format(size),
            "sliding": (
                f"SELECT {by}, p - o AS p, sum(s) AS s, max(m) AS m FROM ({panes.format(slide)}), "
                f"range({SLIDES}) AS each(o) GROUP BY ALL"
            ),
            "session": (
                f"SELECT {by}, number, sum(v) AS s, max(v) AS m FROM (SELECT *, sum(begins) OVER "
                f"(PARTITION BY {by} ORDER BY t ROWS UNBOUNDED PRECEDING) AS number FROM (SELECT *, "
                f"CASE WHEN epoch_us(t) - lag(epoch_us(t)) OVER (PARTITION BY {by} ORDER BY t) <= {reach} "
                f"THEN 0 ELSE 1 END AS begins FROM rows)) GROUP BY {by}, number"
            ),
            "rolling": (
                f"SELECT *, sum(v) OVER f AS s, max(v) OVER f AS m FROM rows WINDOW f AS (PARTITION BY {by} "
                f"ORDER BY t RANGE BETWEEN INTERVAL {10 * reach} MICROSECONDS PRECEDING AND CURRENT ROW)"
            ),
            "join": (
                f"SELECT {by}, t, v, u, w FROM (SELECT *, unnest(range({first}, {last} + 1)) AS place "
                f"FROM rows) JOIN (SELECT *, epoch_us(u) // {reach} AS place FROM others) "
                f"USING ({by}, place) WHERE {near}"
                if cell.has_crowded_keys
                else f"SELECT rows.*, u, w FROM rows JOIN others USING ({by}) WHERE {near}"
            ),
            "distinct": (
                f"SELECT * FROM rows QUALIFY coalesce(epoch_us(t) - lag(epoch_us(t)) "
                f"OVER (PARTITION BY {by} ORDER BY t) > {reach}, true)"
            ),
        }[cell.work]
        return connection.sql(asked).to_arrow_table()

    return answer


def polars(rows: pa.Table, others: pa.Table, threads: int) -> Side:
    """Answer by lazy queries on the streaming engine; by the one in memory where that is faster."""
    import polars as pl

    if pl.thread_pool_size() != threads:
        sys.exit(f"polars: it has {pl.thread_pool_size()} threads; set POLARS_MAX_THREADS={threads}")
    frame, other = pl.from_arrow(rows), pl.from_arrow(others)
    assert isinstance(frame, pl.DataFrame)
    assert isinstance(other, pl.DataFrame)
    aggregates = [pl.col("v").sum().alias("s"), pl.col("v").max().alias("m")]

    def answer(cell: Cell) -> pa.Table:
        by, reach = cell.by, cell.reach
        if cell.work == "rolling":
            frames = {"window_size": 10 * reach, "closed": "both"}
            value = pl.col("v")
            results = [value.rolling_sum_by("t", **frames), value.rolling_max_by("t", **frames)]
            named = [each.over(by).alias(name) for each, name in zip(results, ("s", "m"), strict=True)]
            return frame.with_columns(named).to_arrow()
        lazy = frame.lazy()
        if cell.work == "tumbling":
            asked = lazy.group_by(*by, pl.col("t").dt.truncate(SIZE).alias("p")).agg(aggregates)
        elif cell.work == "sliding":
            panes = lazy.group_by(*by, pl.col("t").dt.truncate(SIZE / SLIDES).alias("p")).agg(aggregates)
            starts = pl.concat(
                [panes.with_columns(pl.col("p") - each * SIZE / SLIDES) for each in range(SLIDES)]
            )
            asked = starts.group_by(*by, "p").agg(pl.col("s").sum(), pl.col("m").max())
        elif cell.work == "session":
            ordered = lazy.sort(*by, "t")
            keys = pl.any_horizontal([pl.col(each) != pl.col(each).shift() for each in by])
            begins = keys | (pl.col("t").diff() > pl.lit(reach))
            numbered = ordered.with_columns(number=begins.fill_null(True).cum_sum())
            asked = numbered.group_by("number").agg(*(pl.col(each).first() for each in by), *aggregates)
        elif cell.work == "join":
            ends = lazy.with_columns(first=pl.col("t") - reach / 2, last=pl.col("t") + reach / 2)
            near = pl.col("u") >= pl.col("first"), pl.col("u") <= pl.col("last")
            if cell.has_crowded_keys:
                placed = [pl.col(each).dt.epoch("us") // micros(reach) for each in ("first", "last", "u")]
                copied = ends.with_columns(place=pl.int_ranges(placed[0], placed[1] + 1)).explode("place")
                right = other.lazy().with_columns(place=placed[2])
                joined = copied.join(right, on=[*by, "place"]).filter(*near)
            else:
                pairs = [pl.col(each) == pl.col(f"{each}_right") for each in by]
                right = other.lazy().rename({each: f"{each}_right" for each in by})
                joined = ends.join_where(right, *pairs, *near)
            asked = joined.select(*frame.columns, "u", "w")
        else:
            pauses = pl.col("t").diff().over(by) > pl.lit(reach)
            asked = lazy.filter(pauses.fill_null(True))
        return asked.collect(engine="streaming").to_arrow()

    return answer


SIDES: dict[str, Callable[[pa.Table, pa.Table, int], Side]] = {
    "windowkit": windowkit,
    "duckdb": duckdb,
    "polars": polars,
}


def micros(length: timedelta) -> int:
    """Return a length in the unit of the time columns."""
    return length // timedelta(microseconds=1)


def tables(cell: Cell, rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return rows, and those that they are joined with."""
    random = np.random.default_rng(seed)
    begin = np.datetime64("2024-01-01", "us").astype(np.int64)
    times = pa.array(begin + micros(APART) * np.arange(rows)).cast(pa.timestamp("us"))

    def side(time: str, value: str) -> pa.Table:
        columns = keys_of(random.integers(0, cell.keys, rows), cell.kind)
        return pa.table({**columns, time: times, value: random.integers(0, 1000, rows)})

    return side("t", "v"), side("u", "w")


def keys_of(numbers: np.ndarray, kind: str) -> dict[str, Any]:
    """Return keys of a kind, by column."""
    if kind == "int64":
        return {"k": numbers}
    if kind == "two columns":
        return {"k": pc.binary_join_element_wise("u", text(numbers // 16, 6), ""), "j": numbers % 16}
    # As people have them: 13 bytes as a name and a number, 36 as a UUID, of which the end differs.
    prefix = "user-" if kind == "text of 13" else "3f2b8c1e-77aa-4d0c-9e51-0000"
    return {"k": pc.binary_join_element_wise(prefix, text(numbers, 8), "")}


def text(numbers: np.ndarray, width: int) -> pa.Array:
    """Return numbers as text of so many digits."""
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def check(cell: Cell, options: argparse.Namespace) -> None:
    """Stop unless all sides give the same sums, rows and largest values."""
    few = min(options.rows, CHECKED_ROWS)
    small = cell._replace(keys=max(1, cell.keys * few // options.rows))
    found = {}
    for name in options.sides:
        got = SIDES[name](*tables(small, few, options.seed), options.threads)(small)
        columns = [each for each in ("s", "m", "v", "w") if each in got.column_names]
        found[name] = got.num_rows, *(round(pc.sum(got[each].cast(pa.float64())).as_py()) for each in columns)
    if len(set(found.values())) > 1:
        sys.exit(f"the sides differ in {cell}: {found}")


def measured(options: argparse.Namespace) -> Iterator[Record]:
    """Check and measure all cells."""
    cells = [Cell(work, keys, kind) for work in WORKS for kind in KINDS for keys in options.keys]
    cells = [cell for cell in cells if any(each in str(cell) for each in options.only)]
    for cell in cells:
        check(cell, options)
    print(f"the sides agree on all {len(cells)} cells", flush=True)
    for cell in cells:
        rows, others = tables(cell, options.rows, options.seed)
        asks = {name: partial(SIDES[name](rows, others, options.threads), cell) for name in options.sides}
        seconds, results = turns.timed(cell, asks, options.repeats)
        record = {**cell._asdict(), "results": results, "seconds": seconds}
        if cell.work in STREAMED:
            record["stream"] = [streamed(cell, rows) for _ in range(options.repeats)]
        if cell.work == "tumbling":
            record["held"] = held(cell, options.seed)
        yield record


def streamed(cell: Cell, rows: pa.Table) -> float:
    """Return the seconds in which an operator takes rows in order, and returns their windows."""
    op = query(cell).operator(schema=rows.schema)
    batches = [rows.slice(at, BATCH_ROWS) for at in range(0, len(rows), BATCH_ROWS)]
    gc.collect()
    begin = time.perf_counter()
    for batch in batches:
        op.push(batch)
    op.close()
    return round(time.perf_counter() - begin, 4)


def held(cell: Cell, seed: int) -> dict[str, float]:
    """Return the bytes that an operator and its snapshot have of a key: with one row, and once it is over."""
    count = min(cell.keys, 1_000_000)
    numbers = np.arange(count)
    keys = keys_of(numbers, cell.kind)

    def window(number: int) -> pa.Table:
        times = numbers % 1000 + number * micros(SIZE)
        return pa.table({**keys, "t": pa.array(times).cast(pa.timestamp("us")), "v": numbers})

    rows = window(2)
    op = query(cell._replace(work="tumbling")).operator(order="out-of-order", schema=rows.schema)
    empty = len(op.snapshot())
    # By the third window, an operator knows how sparse keys are.
    for earlier in (0, 1):
        op.push(window(earlier))
    op.advance(rows["t"][0].as_py())

    def now(more: str) -> dict[str, float]:
        snapshot = len(op.snapshot()) - empty
        return {"operator" + more: op.stats().bytes / count, "snapshot" + more: snapshot / count}

    op.push(rows)
    bytes_of_keys = pa.table(keys).nbytes
    live = now("")
    op.advance(rows["t"][0].as_py() + 2 * SIZE)
    op.push(rows.slice(0, 0))
    over = {
        "operator, over": op.stats().bytes / count,
        "snapshot, over": (len(op.snapshot()) - empty) / count,
    }
    return {"key": bytes_of_keys / count, **live, **over}


def times(record: Record) -> dict[str, float]:
    """Return the median of each side's turns."""
    return {side: median(seconds) for side, seconds in record["seconds"].items()}


def against_best(at_least: int) -> Callable[[list[Record]], Cells]:
    """Return what records of so many keys say of the better of the peers."""

    def cells(records: list[Record]) -> Cells:
        for record in records:
            own = times(record)
            peers = [seconds for side, seconds in own.items() if side != "windowkit"]
            if record["keys"] >= at_least and peers and "windowkit" in own:
                yield name_of(record), min(peers) / own["windowkit"]

    return cells


def against_few(records: list[Record]) -> Cells:
    """Yield how much longer a row of a million keys takes than one of 1,024."""
    few = {(record["work"], record["kind"]): record for record in records if record["keys"] == 1_024}
    for record in records:
        other = few.get((record["work"], record["kind"]))
        if record["keys"] == 1_000_000 and other:
            yield name_of(record), times(record)["windowkit"] / times(other)["windowkit"]


def rates(rows: int, *kinds: str) -> Callable[[list[Record]], Cells]:
    """Return what records say of the millions of rows a second of streams of many keys."""

    def cells(records: list[Record]) -> Cells:
        for record in records:
            if (
                record["kind"] in kinds
                and record["work"] == "tumbling"
                and record["keys"] in (65_536, 1_000_000)
            ):
                yield name_of(record), rows / median(record["stream"]) / 1e6

    return cells


def bytes_of(what: str) -> Callable[[list[Record]], Cells]:
    """Return what records say of the bytes of a key, without those of its value and of its two partials."""

    def cells(records: list[Record]) -> Cells:
        for record in records:
            if "held" in record and record["keys"] >= 65_536:
                own = record["held"]
                beside = 0 if what.endswith("over") else own["key"] + 16
                # What the operator itself has, a key's share of it included, is less than a tenth of a byte.
                yield name_of(record), max(0, round(own[what] - beside, 1))

    return cells


def name_of(record: Record) -> str:
    """Return the name of a record's cell."""
    return str(Cell(record["work"], record["keys"], record["kind"]))


def goals_of(rows: int) -> list[Goal]:
    """Return the goals of a page of so many rows."""
    return [
        Goal("times as fast as the better of DuckDB and Polars", "≥", 1, against_best(0)),
        Goal("the same, a million keys and more", "≥", 2, against_best(1_000_000)),
        Goal("a row of a million keys, over one of 1,024", "≤", 4, against_few),
        Goal("stream, int64, 65,536 and a million keys", "≥", 12, rates(rows, "int64"), " M rows/s"),
        Goal("stream, text, 65,536 and a million keys", "≥", 8, rates(rows, *KINDS[1:3]), " M rows/s"),
        Goal("bytes of a key with one slice, beside the key and partials", "≤", 64, bytes_of("operator"), ""),
        Goal("the same in a snapshot", "≤", 40, bytes_of("snapshot"), ""),
        Goal("bytes of a key that is over", "≤", 0, bytes_of("operator, over"), ""),
        Goal("the same in a snapshot", "≤", 0, bytes_of("snapshot, over"), ""),
    ]


def page(output: object, facts: Record, records: list[Record]) -> str:
    """Return the page."""
    columns, rows = turns.Columns(records), facts["rows"]
    lines = [
        "# From sixteen to ten million keys: windowkit, DuckDB and Polars",
        "",
        f"Written by `benchmarks/keys.py`. {rows:,} rows 10 ms apart, each of a random key: int64, text of "
        "13 or of 36 bytes, or text and int64 in two columns; a timestamp[us], a random int64. One process, "
        f"{facts['threads']} threads on every side; the core is of the {facts['profile']} profile.",
        "",
        *pages.listed(facts),
        "",
        "Asked are sum and max of tumbling windows of ten minutes, of windows of ten minutes every 50 "
        "seconds, of sessions that end after as long a pause as a key takes to its next row on average, and "
        "of frames of ten times that length; a band join with one partner a row on average; and the rows "
        f"that come after such a pause. A time is the median of {facts['repeats']} turns. A stream is one "
        f"operator on one thread, which gets the rows in order, {BATCH_ROWS:,} at a time.",
        "",
        *goals.table(goals_of(rows), records),
        "",
        "## Tables and streams",
        "",
        pages.header(
            "work", "keys", "kind", "results", *columns.heads, "ns a row", "stream, M rows/s", left=3
        ),
    ]
    for record in records:
        own, stream = times(record), record.get("stream")
        per_row = f"{own['windowkit'] / rows * 1e9:.0f}" if "windowkit" in own else ""
        rate = f"{rows / median(stream) / 1e6:.1f}" if stream else ""
        cells = record["work"], f"{record['keys']:,}", record["kind"], f"{record['results']:,}"
        lines.append(pages.row(*cells, *columns.of(record), per_row, rate))
    holding = [record for record in records if "held" in record]
    if holding:
        names = list(holding[0]["held"])
        lines += [
            "",
            "## Bytes of a key",
            "",
            "What an operator of tumbling windows, and its snapshot, have of a key with one row, of which 16 "
            "bytes are its two partials; and once its window is over. At most a million keys are pushed. "
            "*key* is what the key itself takes in Arrow.",
            "",
            pages.header("keys", "kind", *names, left=2),
        ]
        for record in holding:
            numbers = (f"{record['held'][name]:.1f}" for name in names)
            lines.append(pages.row(f"{record['keys']:,}", record["kind"], *numbers))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    every = [16, 1_024, 65_536, 1_000_000, 10_000_000]
    given = turns.arguments(__doc__, "keys", SIDES, rows=4_000_000, keys=every)
    turns.main(given, measured, page)
