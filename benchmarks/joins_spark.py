#!/usr/bin/env python3
"""Band joins in Spark: windowkit, Spark's own join by key, and Spark's join by key and stretch of time.

    python benchmarks/joins_spark.py                          # about twelve minutes
    python benchmarks/joins_spark.py --record                 # keep the records, and write the page
    python benchmarks/joins_spark.py --keys 1000 --sides windowkit,binned

The tables are those of `benchmarks/joins.py`, in no order, in Parquet files and then cached, and the band is
so wide that a row has one partner on average. Spark compares all rows of a key. Its users avoid that by
stretches of time as long as the band: a left row is copied into each stretch that its band touches, and the
join is by key and stretch. Before any clock runs, all sides must agree on fewer rows; as these are too few
for windowkit to read the files in tasks by itself, it is asked to. Of keys with many rows, Spark's own join
takes too long.

Then the job of windowkit over cached rows is run again, cut short after each step, and what was made so far
dropped. What one adds to the whole is the difference of neighbours, in seconds and in CPU seconds: of the
JVM, which also collects garbage and compiles, and of Python's workers.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import goals
import pages
import pyarrow as pa
from goals import Cells, Goal
from joins import CHECKED_ROWS, Cell, tables
from pages import Record
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_session import readers, seconds, session

import windowkit as wk
from windowkit.spark.routes import buckets, joins, packed
from windowkit.spark.shipping import shipped

FEW = 50
"""Rows of a key up to which Spark can be asked to compare all with all."""
FILES, CACHED = "files", "cached"
"""Where rows are."""
Side = Callable[[Cell, DataFrame, DataFrame], DataFrame]
Read = Callable[[], list[DataFrame]]


def join_of(cell: Cell) -> wk.Join:
    """Return what windowkit is asked."""
    return wk.join(
        by={"key": "other"}, left_time="ts", right_time="seen", within=cell.band, right_columns=["seen", "w"]
    )


def joined(cell: Cell, left: DataFrame, right: DataFrame, route: str | None = None) -> DataFrame:
    """Answer by windowkit."""
    return join_of(cell).run(left, right, route=route)


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


def answered(side: Side, cell: Cell, read: Read) -> DataFrame:
    """Read both sides, and answer."""
    return side(cell, *read())


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        records = measured(options)
        if not options.record:
            return
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
    add("--record", action="store_true", help="keep the records, and write the page")
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
            for place, read in frames(spark, cell, options.rows, options.seed):
                sides = {
                    name: partial(answered, SIDES[name], cell, read)
                    for name in sides_of(cell, options.rows, options)
                }
                spent = timed(spark, sides, options.repeats)
                times = {name: [each[0] for each in own] for name, own in spent.items()}
                record: Record = {"keys": cell.keys, "rows": place, "seconds": times}
                record["readers"] = readers(join_of(cell).explain(*read()))
                each = ", ".join(f"{name} {median(own):.2f} s" for name, own in times.items())
                print(f"{cell.keys:,} keys, {place}: {each}", flush=True)
                if place == CACHED and "windowkit" in sides:
                    record["steps"] = timed(spark, steps(cell, *read()), options.repeats)
                    print(*by_step(record["steps"]), sep="\n", flush=True)
                records.append(record)
        return records
    finally:
        spark.stop()


def sides_of(cell: Cell, rows: int, options: argparse.Namespace) -> list[str]:
    """Return the sides that can be asked."""
    return [name for name in options.sides if name != "spark" or rows <= FEW * cell.keys]


Made = Callable[[], DataFrame]
Spent = list[float]
"""Seconds, CPU seconds of the JVM, and of Python's workers."""


def timed(spark: SparkSession, made: Mapping[str, Made], repeats: int) -> dict[str, list[Spent]]:
    """Return what each turn of some jobs took."""
    spent: dict[str, list[Spent]] = {name: [] for name in made}
    for turn in range(repeats + 1):
        for name, make in made.items():
            before = cpu(spark)
            took = seconds(make)
            cpus = (round(now - then, 3) for now, then in zip(cpu(spark), before, strict=True))
            # The first turn does not count.
            if turn > 0:
                spent[name].append([took, *cpus])
    return spent


def cpu(spark: SparkSession) -> tuple[float, float]:
    """Return the CPU seconds of the JVM so far, and those of Python's workers."""
    parents, times = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a process is in parentheses, and may hold blanks.
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(path.parent.name)
        parents[process] = int(fields[1])
        # With those of children that have ended.
        times[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    (jvm,) = (spark.sparkContext._gateway.proc.pid,)  # type: ignore[union-attr]
    workers, found = 0.0, [jvm]
    for parent in found:
        own = [process for process, of in parents.items() if of == parent]
        workers += sum(times[process] for process in own)
        found += own
    return times[jvm], workers


@dataclass(frozen=True)
class Dropped:
    """Runs a task, or nothing, and yields none of what it makes."""

    task: Any = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        for _ in batches if self.task is None else self.task(batches):
            pass
        return
        yield


STEPS = {
    "read": "both sides out of Spark's cache",
    "+ rows to Python": "as Arrow",
    "+ pack": "rows by bucket of keys, LZ4",
    "+ chunks to the JVM": "bytes",
    "+ shuffle, sort": "Spark's, of chunks",
    "+ chunks to Python": "bytes",
    "+ unpack, join": "LZ4, and the sweep over both sides of each bucket",
    "+ rows to the JVM": "the result, as Arrow",
    "+ plan": "the whole job: checks, and expressions for Spark",
}


def steps(cell: Cell, left: DataFrame, right: DataFrame) -> dict[str, Made]:
    """Return windowkit's job, cut short after each of its steps."""
    sides = joins.prepared(left, right, join_of(cell))
    packs, join = joins.packs_of(sides, None)
    task = joins.Joined(join, tuple((pack.query, pack.schema) for pack in packs), sides.leads)
    schema = joined(cell, left, right).schema

    def each(tasks: Sequence[Any]) -> list[DataFrame]:
        return [
            rows.frame.mapInArrow(shipped(own, "a step"), packed.CHUNKS)
            for rows, own in zip(sides.rows, tasks, strict=True)
        ]

    def packing(tasks: Sequence[Any]) -> DataFrame:
        made = each(tasks)
        return made[0].unionAll(made[1])

    def joining(task: Any) -> DataFrame:
        return chunks().mapInArrow(shipped(task, "a step"), schema)

    def chunks() -> DataFrame:
        return buckets.united(each(packs), None, spread=True)

    made: list[Made] = [
        lambda: sides.rows[0].frame.unionAll(sides.rows[1].frame),
        lambda: packing([Dropped(), Dropped()]),
        lambda: packing([Dropped(pack) for pack in packs]),
        lambda: packing(packs),
        chunks,
        lambda: joining(Dropped()),
        lambda: joining(Dropped(task)),
        # Made anew each time, as Spark does not repeat the shuffles of a DataFrame that it ran before.
        lambda: joining(task),
        partial(joined, cell, left, right),
    ]
    return dict(zip(STEPS, made, strict=True))


def by_step(steps: Mapping[str, list[Spent]]) -> list[str]:
    """Return a table of jobs that were cut short."""
    lines = [
        pages.header("job", "", "seconds", "more", "CPU s of the JVM", "more", "of Python", "more", left=2)
    ]
    before = [0.0] * 3
    for name, turns in steps.items():
        now = [median(each) for each in zip(*turns, strict=True)]
        each = [
            f"{text:.2f}" for pair in zip(now, before, strict=True) for text in (pair[0], pair[0] - pair[1])
        ]
        lines.append(pages.row(name, STEPS[name], *each))
        before = now
    return lines


def limits(record: Record) -> list[str]:
    """Return what the steps say of how fast the job can become."""
    steps = {
        name: [median(each) for each in zip(*turns, strict=True)] for name, turns in record["steps"].items()
    }
    names = list(STEPS)
    whole, jvm, workers = steps[names[-1]]
    handed, *handed_cpu = steps[names[1]]
    lines = [
        f"Of the {jvm + workers:.1f} CPU seconds of the whole job, {workers:.1f} are those of Python's "
        f"workers, which pack rows, unpack and join them. {sum(handed_cpu):.1f} are needed before a row is "
        "packed: Spark reads its cache, and makes Arrow data of the rows."
    ]
    if "binned" in record["seconds"]:
        aim = median(record["seconds"]["binned"]) / 3
        lines[0] += (
            f" To hand over both sides takes {handed:.1f} of the {whole:.1f} s; three times as fast as "
            f"Spark by key and stretch, the whole job would take {aim:.1f} s."
        )
    return lines


def frames(spark: SparkSession, cell: Cell, rows: int, seed: int) -> Iterator[tuple[str, Read]]:
    """Yield how to have the two sides, of four files each, and then cached in four partitions."""
    made = [spark.createDataFrame(table).repartition(4) for table in tables(cell, rows, seed)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{name}" for name in ("left", "right")]
        for frame, path in zip(made, paths, strict=True):
            frame.write.parquet(path)
        yield FILES, lambda: [spark.read.parquet(path) for path in paths]
        # Where they are rows of this process, Spark compares all of them whenever it plans.
        held = [spark.read.parquet(path).repartition(4).cache() for path in paths]
        for frame in held:
            frame.count()
        yield CACHED, lambda: held
        for frame in held:
            frame.unpersist()


def check(spark: SparkSession, cell: Cell, options: argparse.Namespace) -> None:
    """Stop unless all sides give the same rows."""
    rows = min(options.rows, CHECKED_ROWS)
    wanted = None
    for place, read in frames(spark, cell, rows, options.seed):
        # Few rows are read from files only if that is asked for.
        own_route = partial(joined, route="scan") if place == FILES else joined
        # Few rows can be compared with all of their key.
        for name in options.sides:
            side = own_route if name == "windowkit" else SIDES[name]
            got = sorted(map(tuple, answered(side, cell, read).collect()))
            wanted = got if wanted is None else wanted
            if got != wanted or not got:
                sys.exit(f"{name} is not {options.sides[0]} in {cell}, {place}")


def against_best(records: Sequence[Record]) -> Cells:
    """Yield how many times as long as windowkit the best of Spark's joins takes over files."""
    for record in records:
        if record["rows"] != FILES:
            continue
        times = {side: median(seconds) for side, seconds in record["seconds"].items()}
        if len(times) > 1 and "windowkit" in times:
            best = min(seconds for side, seconds in times.items() if side != "windowkit")
            yield f"{record['keys']:,} keys", best / times["windowkit"]


GOALS = [Goal("from Parquet, times as fast as the better of Spark's joins", "≥", 3.0, against_best)]


def page(output: object, facts: Record, records: Sequence[Record]) -> str:
    """Return the page."""
    sides = [side for side in NAMES if any(side in record["seconds"] for record in records)]
    peers = [side for side in sides if side != "windowkit"]
    heads = [
        *(f"{NAMES[side]}, s" for side in sides),
        *(f"{NAMES[peer]} / windowkit" for peer in peers if "windowkit" in sides),
    ]
    lines = [
        "# Band joins in Spark",
        "",
        f"Written by `benchmarks/joins_spark.py`. {facts['rows']:,} rows on each side, in four Parquet files "
        "or cached, in no order: a random bigint key, a timestamp_ntz, about one a millisecond, and a random "
        "double. The band is so wide that a row has one partner on average. `local[2]`, four shuffle "
        f"partitions, written to Spark's `noop`; the core is of the {facts['profile']} profile.",
        "",
        *pages.listed(facts),
        "",
        "By key, Spark joins by the key and filters by the times. By key and stretch, left rows are copied "
        "into the stretches of time that their band touches, which are as long as the band. A time is the "
        f"median of {facts['repeats']} turns, planning included. By key alone, Spark would make thousands of "
        "pairs for each row of 1,000 keys, and is not asked. "
        + next((record["readers"] for record in records if record["rows"] == FILES), ""),
        "",
        *goals.table(GOALS, records),
        "",
        pages.header("keys", "rows", *heads, left=2),
    ]
    for record in records:
        times = {side: median(own) for side, own in record["seconds"].items()}
        ratios = [
            f"{times[peer] / times['windowkit']:.1f}" if peer in times else ""
            for peer in peers
            if "windowkit" in times
        ]
        each = (f"{times[side]:.2f}" if side in times else "" for side in sides)
        lines.append(pages.row(f"{record['keys']:,}", record["rows"], *each, *ratios))
    for record in records:
        if "steps" in record:
            lines += [
                "",
                f"## Where the time goes, {record['keys']:,} keys",
                "",
                "windowkit's job over cached rows, cut short after each of its steps, and what each step "
                "adds, in seconds and in CPU seconds, of which two cores have two a second.",
                "",
                *by_step(record["steps"]),
                "",
                *limits(record),
            ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
