#!/usr/bin/env python3
"""From a thousand to a million keys in Spark: windowkit and Spark's own, over Parquet files.

    python benchmarks/keys_spark.py                                        # an hour
    python benchmarks/keys_spark.py --keys 1000000 --only tumbling         # some of it
    python benchmarks/keys_spark.py --record                               # keep records, and write the page

Rows, keys and questions are those of ``keys.py``. Both sides read the same files, in ``local[2]``, and write
to Spark's ``noop`` sink. Before any clock runs, they must agree on fewer rows. They are then timed in turns,
of which every other one is in reverse.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import goals
import keys
import pages
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import turns
from goals import Cells, Goal
from keys import Cell
from pages import Record
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from spark_session import seconds, session

import windowkit as wk

FILES = 4
WARM = 8
"""Turns of the first cell that do not count; of others, one does not."""


def windowkit(cell: Cell, rows: DataFrame, others: DataFrame) -> DataFrame:
    """Answer by the planner's choice."""
    by, reach = cell.by, cell.reach
    if cell.work == "rolling":
        aggs = [wk.sum("v").over(10 * reach).alias("s"), wk.max("v").over(10 * reach).alias("m")]
        return wk.rolling(by=by, time="t", aggs=aggs).run(rows)
    if cell.work == "join":
        band = (reach / 2, reach / 2)
        join = wk.join(by=by, left_time="t", right_time="u", within=band, right_columns=["u", "w"])
        return join.run(rows, others)
    if cell.work == "distinct":
        return wk.distinct(by, time="t", within=reach).run(rows)
    return keys.query(cell).run(rows)


def spark_own(cell: Cell, rows: DataFrame, others: DataFrame) -> DataFrame:
    """Answer by Spark's own windows, frames and joins."""
    by, reach = cell.by, f"{keys.micros(cell.reach)} microseconds"
    sums = [sf.sum("v").alias("s"), sf.max("v").alias("m")]
    in_order = Window.partitionBy(*by).orderBy("t")
    if cell.work == "session":
        return rows.groupBy(*by, sf.session_window("t", reach)).agg(*sums)
    if cell.work == "rolling":
        micros = Window.partitionBy(*by).orderBy(sf.unix_micros("t"))
        frame = micros.rangeBetween(-10 * keys.micros(cell.reach), Window.currentRow)
        return rows.select("*", sf.sum("v").over(frame).alias("s"), sf.max("v").over(frame).alias("m"))
    if cell.work == "join":
        # By stretches of time, too: by key alone it takes minutes where keys are few.
        half, length = keys.micros(cell.reach) // 2, keys.micros(cell.reach)
        t, u = sf.unix_micros("t"), sf.unix_micros("u")
        each = sf.sequence(sf.floor((t - half) / length), sf.floor((t + half) / length))
        left = rows.withColumn("stretch", sf.explode(each))
        joined = left.join(others.withColumn("stretch", sf.floor(u / length)), [*by, "stretch"])
        return joined.where(u.between(t - half, t + half)).drop("stretch")
    if cell.work == "distinct":
        before = sf.lag("t").over(in_order)
        is_first = sf.coalesce(sf.col("t") > before + sf.expr(f"interval {reach}"), sf.expr("true"))
        return rows.select("*", is_first.alias("is_first")).where("is_first").drop("is_first")
    size = f"{keys.micros(keys.SIZE)} microseconds"
    slides = keys.SLIDES if cell.work == "sliding" else 1
    slide = f"{keys.micros(keys.SIZE) // slides} microseconds"
    return rows.groupBy(*by, sf.window("t", size, slide)).agg(*sums)


SIDES: dict[str, Callable[[Cell, DataFrame, DataFrame], DataFrame]] = {
    "windowkit": windowkit,
    "Spark": spark_own,
}


def read(spark: SparkSession, cell: Cell, rows: int, options: argparse.Namespace) -> list[DataFrame]:
    """Write the rows of a cell, and those that they are joined with, and return them as Spark reads them."""
    frames = []
    for side, table in zip(("rows", "others"), keys.tables(cell, rows, options.seed), strict=True):
        folder = Path(options.folder) / f"{cell.kind}-{cell.keys}-{rows}" / side
        if not folder.exists():
            folder.mkdir(parents=True)
            part, instant = -(-rows // FILES), pa.timestamp("us", "UTC")
            times = [each.name for each in table.schema if pa.types.is_timestamp(each.type)]
            for name in times:
                at = table.schema.get_field_index(name)
                table = table.set_column(at, name, table[name].cast(instant))
            for number in range(FILES):
                pq.write_table(table.slice(number * part, part), folder / f"{number}.parquet")
        frames.append(spark.read.parquet(str(folder)))
    return frames


def check(spark: SparkSession, cell: Cell, options: argparse.Namespace) -> None:
    """Stop unless both sides give the same sums, rows and largest values."""
    few = min(options.rows, keys.CHECKED_ROWS)
    small = cell._replace(keys=max(1, cell.keys * few // options.rows))
    frames, found = read(spark, small, few, options), {}
    for name in options.sides:
        got: pa.Table = SIDES[name](small, *frames).toArrow()
        columns = [each for each in ("s", "m", "v", "w") if each in got.column_names]
        found[name] = got.num_rows, *(sum(got[each].to_pylist()) for each in columns)
    if len(set(found.values())) > 1:
        sys.exit(f"the sides differ in {cell}: {found}")


def measured(options: argparse.Namespace) -> Iterator[Record]:
    """Check and measure all cells."""
    kinds = [kind for kind in keys.KINDS if kind in options.kinds]
    cells = [Cell(work, count, kind) for kind in kinds for count in options.keys for work in keys.WORKS]
    cells = [cell for cell in cells if any(each in str(cell) for each in options.only)]
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        for cell in cells:
            check(spark, cell, options)
        print(f"the sides agree on all {len(cells)} cells", flush=True)
        for cell in cells:
            frames = read(spark, cell, options.rows, options)
            asks = {name: partial(SIDES[name], cell, *frames) for name in options.sides}
            times: dict[str, list[float]] = {name: [] for name in asks}
            # Spark compiles what it runs often: the turns of the first cell come sooner and sooner.
            warm = 1 if cell is not cells[0] else WARM
            for turn in range(options.repeats + warm):
                for name, ask in [*asks.items()][:: -1 if turn % 2 else 1]:
                    took = seconds(ask)
                    if turn >= warm:
                        times[name].append(took)
            print(f"{cell}: { {name: median(each) for name, each in times.items()} }", flush=True)
            yield {**cell._asdict(), "seconds": times}
    spark.stop()


def against_spark(records: list[Record]) -> Cells:
    """Return how many times as fast as Spark's own each cell is."""
    for record in records:
        own = keys.times(record)
        if own.keys() == SIDES.keys():
            yield f"{record['work']}, {record['keys']:,}, {record['kind']}", own["Spark"] / own["windowkit"]


def page(_: object, facts: Record, records: list[Record]) -> str:
    """Return the page."""
    columns = turns.Columns(records)
    lines = [
        "# From a thousand to a million keys in Spark",
        "",
        f"Written by `benchmarks/keys_spark.py`. {facts['rows']:,} rows, keys and questions of "
        f"[keys](keys.md), in {FILES} Parquet files, which both sides read; `local[2]`, to the `noop` sink. "
        "Spark's own joins are by key and stretch of time. A time is the median of "
        f"{facts['repeats']} turns, planning included.",
        "",
        *pages.listed(facts),
        "",
        *goals.table([Goal("times as fast as Spark's own", "≥", 0.97, against_spark)], records),
        "",
        pages.header("work", "keys", "kind", *columns.heads, left=3),
    ]
    for record in records:
        cells = record["work"], f"{record['keys']:,}", record["kind"]
        lines.append(pages.row(*cells, *columns.of(record)))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, default=4_000_000)
    add(
        "--keys",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[1_024, 65_536, 1_000_000],
    )
    add("--kinds", nargs="*", choices=keys.KINDS, default=["int64", "text of 13"])
    add("--only", nargs="*", default=[""], metavar="TEXT", help="only cells with one of these in their names")
    add("--sides", nargs="*", choices=SIDES, default=list(SIDES))
    add("--repeats", type=int, default=3)
    add("--seed", type=int, default=0)
    add("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "keys-spark")
    options = parser.parse_args()
    if not options.page:
        facts = pages.machine(["pyarrow"], Spark=pyspark.__version__)
        turns.keep(options, facts | {"rows": options.rows, "repeats": options.repeats}, measured(options))
    if options.page or options.record:
        pages.write(options.output, page)


if __name__ == "__main__":
    main()
