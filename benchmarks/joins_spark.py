#!/usr/bin/env python3
"""Band joins in Spark: windowkit, Spark's own join by key, and Spark's join by key and stretch of time.

    python benchmarks/joins_spark.py                          # some minutes
    python benchmarks/joins_spark.py --keys 1000 --sides windowkit,binned

The tables are those of `benchmarks/joins.py`, in no order, cached, and the band is so wide that a row has one
partner on average. Spark compares all rows of a key. Its users avoid that by stretches of time as long as the
band: a left row is copied into each stretch that its band touches, and the join is by key and stretch. Before
any clock runs, all sides must agree on fewer rows; with many rows of a key, Spark's own join takes too long.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from statistics import median

import pages
from joins import CHECKED_ROWS, Cell, tables
from pages import Record
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_session import session

import windowkit as wk

Side = Callable[[Cell, DataFrame, DataFrame], DataFrame]


def joined(cell: Cell, left: DataFrame, right: DataFrame) -> DataFrame:
    """Answer by windowkit."""
    join = wk.join(
        by={"key": "other"}, left_time="ts", right_time="seen", within=cell.band, right_columns=["seen", "w"]
    )
    return join.run(left, right)


def ends(cell: Cell) -> tuple[int, int]:
    """Return how far the band reaches back and ahead, in microseconds."""
    before, after = cell.band
    return before // timedelta(microseconds=1), after // timedelta(microseconds=1)


def own(cell: Cell, left: DataFrame, right: DataFrame) -> DataFrame:
    """Answer by Spark's equi-join and a filter."""
    before, after = ends(cell)
    near = (
        f"seen >= timestampadd(MICROSECOND, -{before}, ts) and seen <= timestampadd(MICROSECOND, {after}, ts)"
    )
    return left.join(right, sf.expr(f"key = other and {near}")).drop("other")


def binned(cell: Cell, left: DataFrame, right: DataFrame) -> DataFrame:
    """Answer by Spark's equi-join of keys and stretches of time, and a filter."""
    before, after = ends(cell)
    width = before + after + 1
    first, last = (
        f"(unix_micros(timestamp(ts)) {reach}) div {width}" for reach in (f"- {before}", f"+ {after}")
    )
    copied = left.selectExpr("*", f"explode(sequence({first}, {last})) as stretch")
    placed = right.selectExpr("*", f"unix_micros(timestamp(seen)) div {width} as place")
    near = (
        f"seen >= timestampadd(MICROSECOND, -{before}, ts) and seen <= timestampadd(MICROSECOND, {after}, ts)"
    )
    found = copied.join(placed, sf.expr(f"key = other and stretch = place and {near}"))
    return found.drop("other", "stretch", "place")


SIDES: dict[str, Side] = {"windowkit": joined, "spark": own, "binned": binned}
NAMES = {"windowkit": "windowkit", "spark": "Spark, by key", "binned": "Spark, by key and stretch"}


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        records = measured(options)
        numbers = {name: getattr(options, name) for name in ("rows", "seed", "repeats", "profile")}
        pages.keep(options.output, pages.machine(["pyspark", "pyarrow"]) | numbers, records)
    pages.write(options.output, page)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, default=2_000_000, help="of each side; default: %(default)s")
    add(
        "--keys",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[1_000, 100_000],
        help="comma-separated",
    )
    add("--sides", type=lambda text: text.split(","), default=list(SIDES), help="comma-separated")
    add("--repeats", type=int, default=3, help="times each side is timed; default: %(default)s")
    add("--profile", default="release", help="how the core was built, for the page; default: %(default)s")
    add("--seed", type=int, default=0)
    pages.add_arguments(parser, "joins-spark")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> list[Record]:
    """Check and measure all cells."""
    cells = [Cell(keys, "none") for keys in options.keys]
    spark = session()
    try:
        for cell in cells:
            check(spark, cell, options)
        print(f"the sides agree on all {len(cells)} cells", flush=True)
        records = []
        for cell in cells:
            left, right = frames(spark, cell, options.rows, options.seed)
            seconds: dict[str, list[float]] = {name: [] for name in options.sides}
            for turn in range(options.repeats + 1):
                for name in options.sides:
                    begin = time.perf_counter()
                    SIDES[name](cell, left, right).write.format("noop").mode("overwrite").save()
                    # The first turn does not count.
                    if turn > 0:
                        seconds[name].append(round(time.perf_counter() - begin, 3))
            records.append({"keys": cell.keys, "seconds": seconds})
            left.unpersist()
            right.unpersist()
            each = ", ".join(f"{name} {median(times):.2f} s" for name, times in seconds.items())
            print(f"{cell.keys:,} keys: {each}", flush=True)
        return records
    finally:
        spark.stop()


def frames(spark: SparkSession, cell: Cell, rows: int, seed: int) -> tuple[DataFrame, DataFrame]:
    """Return the two sides, cached in four partitions."""
    left, right = (spark.createDataFrame(table).repartition(4).cache() for table in tables(cell, rows, seed))
    left.count()
    right.count()
    return left, right


def check(spark: SparkSession, cell: Cell, options: argparse.Namespace) -> None:
    """Stop unless all sides give the same rows."""
    left, right = frames(spark, cell, min(options.rows, CHECKED_ROWS), options.seed)
    wanted = None
    for name in options.sides:
        got = sorted(map(tuple, SIDES[name](cell, left, right).collect()))
        wanted = got if wanted is None else wanted
        if got != wanted or not got:
            sys.exit(f"{name} is not {options.sides[0]} in {cell}")


def page(output: object, facts: Record, records: Sequence[Record]) -> str:
    """Return the page."""
    sides = list(records[0]["seconds"])
    peers = [side for side in sides if side != "windowkit"]
    heads = [
        *(f"{NAMES[side]}, s" for side in sides),
        *(f"{NAMES[peer]} / windowkit" for peer in peers if "windowkit" in sides),
    ]
    lines = [
        "# Band joins in Spark",
        "",
        f"Written by `benchmarks/joins_spark.py`. {facts['rows']:,} rows on each side, cached, in no order: "
        "a random bigint key, a timestamp_ntz, about one a millisecond, and a random double. The band is so "
        "wide that a row has one partner on average. `local[2]`, four shuffle partitions, written to Spark's "
        f"`noop`; the core is of the {facts['profile']} profile.",
        "",
        *pages.listed(facts),
        "",
        "By key, Spark joins by the key and filters by the times. By key and stretch, left rows are copied "
        "into the stretches of time that their band touches, which are as long as the band. A time is the "
        f"median of {facts['repeats']} turns.",
        "",
        pages.header("keys", *heads),
    ]
    for record in records:
        times = {side: median(record["seconds"][side]) for side in sides}
        ratios = [f"{times[peer] / times['windowkit']:.1f}" for peer in peers if "windowkit" in times]
        lines.append(pages.row(f"{record['keys']:,}", *(f"{times[side]:.2f}" for side in sides), *ratios))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
