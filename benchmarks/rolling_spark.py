#!/usr/bin/env python3
"""Rolling aggregates in Spark, and features as of labels: windowkit beside Spark's own ways.

    python benchmarks/rolling_spark.py                            # about ten minutes
    python benchmarks/rolling_spark.py --cells '16 keys' --rows 100000
    python benchmarks/rolling_spark.py --record                   # keep the records, write the page

Rows lie 10 ms apart, shuffled, in Parquet files that all sides read, or cached where a cell says so. Asked
are the sum and the maximum of the ten minutes up to each row. With 16 keys, Spark's own frame takes time in
proportion to the 3,750 rows of each frame, so there are fewer rows, and still fewer of which the median and
the number of distinct values are asked. Point in time: three aggregates of the minute, the ten minutes and
the hour up to each label. Last value: that of the last row up to each label, against the sort-merge as-of
join that Spark has since 4.3. One key: of the second up to each row, with and without `split`; Spark reports
how long each task of the last stage ran.

windowkit is called as users call it, so that Spark reads tables that are small, such as the labels; the page
says where it does. Before any clock runs, all sides must agree on fewer rows, of which windowkit's tasks are
told to read the files. A side that takes longer than `--once` seconds has only one turn. On `local[2]` two
tasks run at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import goals
import numpy as np
import pages
import pyarrow as pa
from goals import Cells, Goal
from pages import Record
from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as sf
from spark_session import readers, seconds, session

import windowkit as wk

CHECKED = 100_000
"""Rows of which all sides must give the same, at most; enough for one key to be cut."""
TREE = "spark.sql.window.segmentTree.enabled"
AS_OF = "spark.sql.join.asofJoin.enabled"
STEP = 10_000
"""Microseconds from row to row."""
BEGIN = 1_704_067_200_000_000
"""Of the first row: microseconds since 1970."""
SUM_AND_MAX = (wk.sum("v"), wk.max("v"))


def rolling(over: str, *aggs: wk.Aggregate) -> wk.Rolling:
    """Return what windowkit is asked of each row, as columns a and b."""
    named = [each.over(over).alias(name) for name, each in zip("ab", aggs, strict=False)]
    return wk.rolling(by="key", time="ts", aggs=named)


@dataclass(frozen=True)
class Cell:
    """What is asked of how many rows."""

    name: str
    keys: int
    rows: int
    seconds: int
    """How long frames are, the longest of labels."""
    asked: wk.Rolling
    about: str
    """What that is, on the page."""
    sides: tuple[str, ...]
    labels: int = 0
    is_cached: bool = False


@dataclass(frozen=True)
class Data:
    """The rows of a cell, ``key``, ``ts`` and ``v``; and labels, ``id``, ``of`` and ``asked``."""

    spark: SparkSession
    folder: Path
    cached: DataFrame | None = None

    @property
    def events(self) -> DataFrame:
        """The rows, cached or to be read from files."""
        return self.read("events") if self.cached is None else self.cached

    @property
    def labels(self) -> DataFrame:
        """The labels, to be read from files."""
        return self.read("labels")

    def read(self, name: str) -> DataFrame:
        """Return files as Spark reads them."""
        return self.spark.read.parquet(str(self.folder / name))


BATCH = 10_000
"""Rows of a batch that is made in Python, as Spark makes them by default."""

FLOORS = ("back", "there and back", "sorted")
"""What any function of Python's takes that gives as many rows, or is given them: nothing is computed."""

FEATURES = wk.rolling(
    by="key",
    time="ts",
    aggs=[
        wk.sum("v").over("1 minute").alias("a"),
        wk.count("v").over("10 minutes").alias("b"),
        wk.max("v").over("1 hour").alias("c"),
    ],
)
CELLS = (
    Cell(
        "16 keys",
        16,
        1_000_000,
        600,
        rolling("10 minutes", *SUM_AND_MAX),
        "the sum and the maximum of the ten minutes up to each row, 3,750 rows of its key",
        ("windowkit", "frame", "tree", "back"),
    ),
    Cell(
        "1,024 keys",
        1_024,
        4_000_000,
        600,
        rolling("10 minutes", *SUM_AND_MAX),
        "the same, about 58 rows",
        ("windowkit", "frame", "tree", "back"),
    ),
    Cell(
        "1,024 keys, cached",
        1_024,
        4_000_000,
        600,
        rolling("10 minutes", *SUM_AND_MAX),
        "the same of cached rows, which Spark hands to Python's workers",
        ("windowkit", "frame", "there and back", "sorted"),
        is_cached=True,
    ),
    Cell(
        "median and distinct, 16 keys",
        16,
        300_000,
        600,
        rolling("10 minutes", wk.median("v"), wk.count_distinct("v")),
        "the median and the number of distinct values of the ten minutes up to each row; Spark has no "
        "`count(distinct ...)` over frames, and is asked for the size of `collect_set`",
        ("windowkit", "frame"),
    ),
    Cell(
        "point in time",
        1_024,
        4_000_000,
        3_600,
        FEATURES,
        "of 200,000 labels, with random keys and evenly in time, the sum of the minute up to each, the count "
        "of ten minutes, and the maximum of an hour",
        ("windowkit", "join", "stretches"),
        200_000,
    ),
    Cell(
        "last value",
        1_024,
        4_000_000,
        0,
        rolling("unbounded", wk.last("v")),
        "of as many labels, the value of the last row of its key up to each, however old; Spark's side is "
        f"`left asof join` in SQL, with `{AS_OF}`",
        ("windowkit", "as-of"),
        200_000,
    ),
    Cell(
        "one key, cached",
        1,
        3_000_000,
        1,
        rolling("1 second", *SUM_AND_MAX),
        "the sum and the maximum of the second up to each row",
        ("split", "whole", "frame"),
        is_cached=True,
    ),
)
NAMES = {
    "windowkit": "windowkit",
    "frame": "Spark's frame",
    "tree": "Spark's frame, segment tree",
    "join": "Spark, join by key and aggregate",
    "stretches": "Spark, join by key and stretch and aggregate",
    "as-of": "Spark's as-of join",
    "back": "as many rows, with two results, from Python",
    "there and back": "rows to Python and back, unchanged",
    "sorted": "rows to Python and back, in order by Spark's shuffle and sort",
    "split": "windowkit, split=True",
    "whole": "windowkit, split=False",
}
OWN: dict[str, Callable[[WindowSpec], Column]] = {
    "sum": lambda frame: sf.sum("v").over(frame),
    "max": lambda frame: sf.max("v").over(frame),
    # Spark refuses `median` and `count_distinct` over frames.
    "median": lambda frame: sf.percentile("v", sf.lit(0.5)).over(frame),
    "count_distinct": lambda frame: sf.size(sf.collect_set("v").over(frame)),
}
"""Spark's own functions over frames, by the names of windowkit's."""


def framed(cell: Cell, data: Data) -> DataFrame:
    """Answer by Spark's own frame."""
    by_time = Window.partitionBy("key").orderBy(sf.unix_micros("ts"))
    frame = by_time.rangeBetween(-cell.seconds * 1_000_000, 0)
    answers = (OWN[each.aggregate.function](frame).alias(each.name) for each in cell.asked.aggs)
    return data.events.select("*", *answers)


def of_labels(joined: DataFrame, by: str) -> DataFrame:
    """Return the features of labels that were joined with the events of their longest frame."""
    near = "ts >= timestampadd(SECOND, -{}, asked)"
    return joined.groupBy("id", "asked", by).agg(
        sf.expr(f"sum(v) filter (where {near.format(60)}) as a"),
        sf.expr(f"count(v) filter (where {near.format(600)}) as b"),
        sf.expr("max(v) as c"),
    )


def joined(cell: Cell, data: Data) -> DataFrame:
    """Answer by Spark's equi-join, a filter and an aggregate."""
    near = f"ts >= timestampadd(SECOND, -{cell.seconds}, asked) and ts <= asked"
    found = data.labels.join(data.events, sf.expr(f"key = of and {near}"), "left")
    return of_labels(found, "of").select("id", "of", "asked", "a", "b", "c")


def stretched(cell: Cell, data: Data) -> DataFrame:
    """Answer by Spark's equi-join of keys and stretches of time, as long as the longest frame."""
    width = cell.seconds * 1_000_000
    last = f"unix_micros(asked) div {width}"
    copied = data.labels.selectExpr("*", f"explode(array({last}, {last} - 1)) as stretch")
    placed = data.events.selectExpr("*", f"unix_micros(ts) div {width} as place")
    near = f"ts >= timestampadd(SECOND, -{cell.seconds}, asked) and ts <= asked"
    found = copied.join(placed, sf.expr(f"key = of and stretch = place and {near}"), "left")
    return of_labels(found, "of").select("id", "of", "asked", "a", "b", "c")


def as_of(cell: Cell, data: Data) -> DataFrame:
    """Answer by Spark's as-of join."""
    latest = "{labels} left asof join {events} match_condition (asked >= ts) on of = key"
    text = f"select id, of, asked, v a from {latest}"
    return data.spark.sql(text, labels=data.labels, events=data.events)


def own(cell: Cell, data: Data, route: str | None = None) -> DataFrame:
    """Answer by windowkit."""
    if cell.labels:
        return cell.asked.at(data.labels, data.events, by="of", time="asked", route=route)
    return cell.asked.run(data.events, route=route)


def explained(cell: Cell, data: Data) -> str:
    """Return how windowkit answers."""
    if cell.labels:
        return wk.spark.explain_as_of(data.labels, data.events, cell.asked, by="of", time="asked")
    return cell.asked.explain(data.events)


def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return rows as they are."""
    yield from batches


def given(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return as many rows as the only one that is given says, with results."""
    zeros = pa.array(np.zeros(BATCH))
    for batch in batches:
        columns = {
            "key": zeros.cast(pa.int64()),
            "ts": zeros.cast(pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
        made = pa.RecordBatch.from_pydict(columns | dict.fromkeys(("v", "a", "b"), zeros))
        for _ in range(batch.column(0)[0].as_py() // BATCH):
            yield made


def back(cell: Cell, data: Data) -> DataFrame:
    """Make as many rows as windowkit gives, in four tasks."""
    counts = data.spark.range(0, 4, 1, 4).selectExpr(f"id * 0 + {cell.rows // 4} count")
    return counts.mapInArrow(given, "key long, ts timestamp, v double, a double, b double")


SIDES: Mapping[str, Callable[[Cell, Data], DataFrame]] = {
    "windowkit": own,
    "frame": framed,
    "tree": framed,
    "join": joined,
    "stretches": stretched,
    "as-of": as_of,
    "back": back,
    "there and back": lambda cell, data: data.events.mapInArrow(passed, data.events.schema),
    "sorted": lambda cell, data: (
        data.events.repartition("key")
        .sortWithinPartitions("key", "ts")
        .mapInArrow(passed, data.events.schema)
    ),
    "split": lambda cell, data: cell.asked.run(data.events, split=True),
    "whole": lambda cell, data: cell.asked.run(data.events, split=False),
}


def medians(records: Sequence[Record], cell: str) -> dict[str, float]:
    """Return the seconds of each side of a cell."""
    seconds: dict[str, list[float]] = {}
    for record in records:
        if record["cell"] == cell:
            seconds.setdefault(record["side"], []).append(record["seconds"])
    return {side: median(each) for side, each in seconds.items()}


def times_as_fast(cell: str, *of: str) -> Callable[[Sequence[Record]], Cells]:
    """Return what records say of how much longer than windowkit the fastest of some sides of Spark takes."""

    def cells(records: Sequence[Record]) -> Cells:
        seconds = medians(records, cell)
        if {"windowkit", *of} <= seconds.keys():
            best = min(of, key=lambda side: seconds[side])
            yield NAMES[best], seconds[best] / seconds["windowkit"]

    return cells


GOALS = (
    Goal("16 keys, Spark's frame", "≥", 60, times_as_fast("16 keys", "frame")),
    Goal(
        "16 keys, the better of frame and segment tree", "≥", 3.5, times_as_fast("16 keys", "frame", "tree")
    ),
    Goal("1,024 keys, Spark's frame", "≥", 5, times_as_fast("1,024 keys", "frame")),
    Goal("1,024 keys, cached, Spark's frame", "≥", 4, times_as_fast("1,024 keys, cached", "frame")),
    Goal("median and distinct", "≥", 100, times_as_fast("median and distinct, 16 keys", "frame")),
    Goal("point in time, the better join", "≥", 10, times_as_fast("point in time", "join", "stretches")),
    Goal("last value, as-of join", "≥", 2, times_as_fast("last value", "as-of")),
)


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        new = measured(options)
        if not options.record:
            return
        # Records of other cells and sides stay.
        places = {(cell.name, side): at for cell in CELLS for at, side in enumerate(cell.sides)}
        others = places.keys() - {(record["cell"], record["side"]) for record in new}
        kept = (each for each in pages.read(options.output)[1] if (each["cell"], each["side"]) in others)
        records = [*new, *kept]
        cells = [cell.name for cell in CELLS]
        records.sort(key=lambda each: (cells.index(each["cell"]), places[each["cell"], each["side"]]))
        facts = pages.machine(["pyspark", "pyarrow"]) | {"profile": options.profile}
        pages.keep(options.output, facts, records)
    pages.write(options.output, page)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--cells", nargs="*", metavar="NAME", help="only these: " + ", ".join(cell.name for cell in CELLS))
    add("--rows", type=int, default=10**9, help="at most so many in each cell")
    add("--sides", type=lambda text: text.split(","), default=list(SIDES), help="comma-separated")
    add("--repeats", type=int, default=3, help="times each side is timed; default: %(default)s")
    add("--once", type=float, default=30, help="seconds; a side that takes longer has one turn, and no other")
    add("--profile", default="release", help="how the core was built, for the page; default: %(default)s")
    add("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "rolling-spark")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> list[Record]:
    """Check and measure all sides of all cells."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        log = folder / "log"
        log.mkdir()
        # Small partitions stay apart, as large ones would.
        spark = session(
            more={AS_OF: "true"},
            eventLog_enabled=True,
            eventLog_dir=log.as_uri(),
            eventLog_compress=False,
            sql_adaptive_coalescePartitions_enabled=False,
        )
        records: list[Record] = []
        try:
            for cell in CELLS:
                if options.cells and cell.name not in options.cells:
                    continue
                shorter = replace(
                    cell,
                    rows=min(cell.rows, options.rows),
                    labels=min(cell.labels, options.rows // 20),
                    sides=tuple(side for side in cell.sides if side in options.sides),
                )
                records += of_cell(spark, shorter, options, folder)
        finally:
            spark.stop()
        tasks = tasks_of(log)
    return [record | {"tasks": tasks[group_of(record)]} for record in records]


def group_of(record: Record) -> str:
    """Return the name of the job group of a turn."""
    return f"{record['cell']}, {record['side']}, {record['turn']}"


def of_cell(spark: SparkSession, cell: Cell, options: argparse.Namespace, folder: Path) -> list[Record]:
    """Check and measure the sides of a cell."""
    # With enough labels and rows, but not so many that Spark's frames take long.
    few = min(cell.rows // 10, CHECKED)
    check(spark, replace(cell, rows=few, labels=min(cell.labels, few // 20)), folder / f"{cell.name}, few")
    print(f"{cell.name}, {cell.rows:,} rows: the sides agree", flush=True)
    records = []
    with data_of(spark, cell, folder / cell.name) as data:
        read = readers(explained(cell, data))
        last: dict[str, float] = {}
        for turn in range(options.repeats + 1):
            for name in cell.sides:
                if last.get(name, 0) > options.once:
                    continue
                record = {"cell": cell.name, "side": name, "turn": turn, "rows": cell.rows}
                spark.conf.set(TREE, name == "tree")
                spark.sparkContext.setJobGroup(group_of(record), name)
                last[name] = seconds(partial(SIDES[name], cell, data))
                # The first turn does not count, but for those that have no other.
                if turn > 0 or last[name] > options.once:
                    records.append(record | {"seconds": last[name], "readers": read})
                print(f"{cell.name}, {name}: {last[name]:.2f} s", flush=True)
    return records


def check(spark: SparkSession, cell: Cell, folder: Path) -> None:
    """Stop unless all sides give the same rows."""
    # Few rows are read from files only if that is asked for.
    sides = {**SIDES} if cell.is_cached else {**SIDES, "windowkit": partial(own, route="scan")}
    wanted = None
    with data_of(spark, cell, folder) as data:
        for name in (side for side in cell.sides if side not in FLOORS):
            spark.conf.set(TREE, name == "tree")
            # Whole values, whose sums are exact in any order.
            got = {tuple(row) for row in sides[name](cell, data).collect()}
            wanted = wanted or got
            if got != wanted or len(got) != (cell.labels or cell.rows):
                sys.exit(f"{name} is not {cell.sides[0]} in {cell.name}")


@contextmanager
def data_of(spark: SparkSession, cell: Cell, folder: Path) -> Iterator[Data]:
    """Write the rows of a cell to four files, or cache them; and write its labels, if there are any."""
    events = spark.range(0, cell.rows, 1, 4).selectExpr(
        f"pmod(xxhash64(id), {cell.keys}) key",
        f"timestamp_micros({BEGIN} + id * {STEP}) ts",
        "double(pmod(hash(id), 1000)) v",
    )
    events = events.repartition(4, sf.xxhash64("ts"))
    if cell.is_cached:
        events.cache().count()
        yield Data(spark, folder, events)
        events.unpersist()
        return
    events.write.parquet(str(folder / "events"))
    if cell.labels:
        apart = cell.rows * STEP // cell.labels
        labels = spark.range(0, cell.labels, 1, 4).selectExpr(
            "id", f"pmod(xxhash64(id, 7), {cell.keys}) of", f"timestamp_micros({BEGIN} + id * {apart}) asked"
        )
        labels.repartition(4, sf.xxhash64("asked")).write.parquet(str(folder / "labels"))
    yield Data(spark, folder)


def tasks_of(folder: Path) -> dict[str, list[float]]:
    """Return, of the last stage of each job group, how many seconds its tasks ran that had work."""
    groups: dict[str, int] = {}
    seconds: dict[int, list[float]] = {}
    lines = (line for path in folder.rglob("*") if path.is_file() for line in path.read_text().splitlines())
    for line in lines:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            group = event["Properties"].get("spark.jobGroup.id")
            if group is not None:
                groups[group] = max(*event["Stage IDs"], groups.get(group, 0))
        elif event["Event"] == "SparkListenerTaskEnd":
            took = event["Task Metrics"]["Executor Run Time"] / 1000
            seconds.setdefault(event["Stage ID"], []).append(took)
    return {group: seconds.get(stage, []) for group, stage in groups.items()}


def page(output: object, facts: Record, records: Sequence[Record]) -> str:
    """Return the page."""
    lines = [
        "# Rolling aggregates in Spark",
        "",
        "Written by `benchmarks/rolling_spark.py`. Rows are 10 ms apart and shuffled, in four Parquet files "
        "that all sides read, or cached where the title says so; results are written to Spark's `noop`. "
        "`local[2]`, four shuffle partitions, which adaptive execution does not join; the core is of the "
        f"{facts['profile']} profile. Times are medians of turns, planning included; one with * is of a "
        "single turn, without warming up.",
        "",
        *pages.listed(facts),
        "",
        "## Goals",
        "",
        *goals.table(GOALS, records),
        "",
    ]
    for cell in CELLS:
        own = [record for record in records if record["cell"] == cell.name]
        if own:
            title = f"## {cell.name[0].upper()}{cell.name[1:]}, {own[0]['rows']:,} rows"
            lines += [title, "", f"Asked is {cell.about}.", ""]
            lines += by_task(own) if cell.keys == 1 else by_side(cell, own)
    return "\n".join(lines[:-1]) + "\n"


def by_side(cell: Cell, records: Sequence[Record]) -> list[str]:
    """Return a table of the jobs of a cell, and what handing rows over takes of them."""
    jobs = medians(records, cell.name)
    turns = Counter(record["side"] for record in records)
    ours = jobs.get("windowkit")
    lines = [pages.header("side", "job, s", "/ windowkit")]
    for side, job in jobs.items():
        ratio = "" if ours is None else f"{job / ours:.1f}"
        lines.append(pages.row(NAMES[side], f"{job:.2f}{'*' if turns[side] == 1 else ''}", ratio))
    if not cell.is_cached:
        lines += ["", records[0]["readers"]]
    if ours is not None and "back" in jobs:
        lines[-1] += (
            f" To hand over as many rows with results, from Python, takes {jobs['back']:.2f} of windowkit's "
            f"{ours:.2f} s."
        )
    if ours is not None and "there and back" in jobs:
        lines += [
            "",
            f"To hand rows to Python and back, unchanged, takes {jobs['there and back']:.2f} s alone; "
            f"windowkit's job, of {ours:.2f} s, hands packed rows over twice more, for the shuffle.",
        ]
    return [*lines, ""]


def by_task(records: Sequence[Record]) -> list[str]:
    """Return a table of the jobs of one key, and of their tasks."""
    lines = [
        "With `split=True` the time includes the jobs that look for the key and its times. Tasks are those "
        "of the last stage; the last column is the longest of them, divided by the shortest.",
        "",
        pages.header("side", "job, s", "tasks, s", "longest / shortest"),
    ]
    for name in dict.fromkeys(record["side"] for record in records):
        own = [record for record in records if record["side"] == name]
        job = median(record["seconds"] for record in own)
        each = [sorted(record["tasks"]) for record in own]
        ranked = [median(times) for times in zip(*each, strict=True)]
        spread = median(times[-1] / max(times[0], 0.001) for times in each)
        lines.append(
            pages.row(
                NAMES[name], f"{job:.2f}", ", ".join(f"{took:.2f}" for took in ranked), f"{spread:,.2f}"
            )
        )
    return [*lines, ""]


if __name__ == "__main__":
    main()
