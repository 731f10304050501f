#!/usr/bin/env python3
"""Rolling aggregates in Spark, and features as of labels: windowkit beside Spark's own ways.

    python benchmarks/rolling_spark.py                            # about twelve minutes
    python benchmarks/rolling_spark.py --cells '16 keys' --rows 100000
    python benchmarks/rolling_spark.py --record                   # keep the records, write the page

Rows lie 10 ms apart, shuffled; asked are the sum and the maximum of the ten minutes up to each row. With 16
keys, Spark's own frame takes time in proportion to the 3,750 rows of each frame, so there are fewer rows.
Point in time: three aggregates of the minute, the ten minutes and the hour up to each label. One key: of the
second up to each row, with and without `split`; Spark reports how long each task of the last stage ran.
Before any clock runs, all sides must agree on fewer rows. On `local[2]` two tasks run at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import goals
import numpy as np
import pages
import pyarrow as pa
from goals import Cells, Goal
from pages import Record
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from spark_session import session

import windowkit as wk

CHECKED = 100_000
"""Rows of which all sides must give the same; enough for one key to be cut."""
TREE = "spark.sql.window.segmentTree.enabled"
STEP = 10_000
"""Microseconds from row to row."""
BEGIN = 1_704_067_200_000_000
"""Of the first row: microseconds since 1970."""


@dataclass(frozen=True)
class Cell:
    """What is asked of how many rows."""

    name: str
    keys: int
    rows: int
    seconds: int
    """How long frames are, the longest of labels."""
    sides: tuple[str, ...]
    labels: int = 0
    is_slow: bool = False
    """Whether the rows on which the sides are compared have to do as a warm-up."""


@dataclass(frozen=True)
class Data:
    """The rows of a cell."""

    frame: DataFrame
    files: str
    """A folder of Parquet files with the same rows."""
    labels: DataFrame | None


BATCH = 10_000
"""Rows of a batch that is made in Python, as Spark makes them by default."""

FLOORS = ("there and back", "back")
"""What any function of Python's takes that is given the rows, or gives as many: nothing is computed."""

CELLS = (
    Cell("16 keys", 16, 1_000_000, 600, ("windowkit", "frame", "tree", *FLOORS), is_slow=True),
    Cell(
        "1,024 keys",
        1_024,
        4_000_000,
        600,
        ("windowkit", "scan", "frame", "tree", "frame of files", *FLOORS, "sorted"),
    ),
    Cell(
        "point in time",
        1_024,
        4_000_000,
        3_600,
        ("windowkit", "join", "stretches", "there"),
        200_000,
        is_slow=True,
    ),
    Cell("one key", 1, 3_000_000, 1, ("split", "whole", "frame")),
)
NAMES = {
    "windowkit": "windowkit",
    "scan": "windowkit, scan of Parquet",
    "frame": "Spark's frame",
    "tree": "Spark's frame, segment tree",
    "frame of files": "Spark's frame, of Parquet",
    "join": "Spark, join by key and aggregate",
    "stretches": "Spark, join by key and stretch and aggregate",
    "there and back": "rows to Python and back, unchanged",
    "sorted": "rows to Python and back, in order by Spark's shuffle and sort",
    "there": "rows to Python, and none back",
    "back": "as many rows, with two results, from Python",
    "split": "windowkit, split=True",
    "whole": "windowkit, split=False",
}


def rolling(cell: Cell) -> wk.Rolling:
    """Return what windowkit is asked."""
    over = f"{cell.seconds} seconds"
    return wk.rolling(
        by="key", time="ts", aggs=[wk.sum("v").over(over).alias("a"), wk.max("v").over(over).alias("b")]
    )


def framed(cell: Cell, frame: DataFrame) -> DataFrame:
    """Answer by Spark's own frame."""
    by_time = Window.partitionBy("key").orderBy(sf.unix_micros("ts"))
    window = by_time.rangeBetween(-cell.seconds * 1_000_000, 0)
    return frame.select("*", sf.sum("v").over(window).alias("a"), sf.max("v").over(window).alias("b"))


FEATURES = wk.rolling(
    by="key",
    time="ts",
    aggs=[
        wk.sum("v").over("1 minute").alias("a"),
        wk.count("v").over("10 minutes").alias("b"),
        wk.max("v").over("1 hour").alias("c"),
    ],
)


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
    assert data.labels is not None
    found = data.labels.join(data.frame, sf.expr(f"key = of and {near}"), "left")
    return of_labels(found, "of").select("id", "of", "asked", "a", "b", "c")


def stretched(cell: Cell, data: Data) -> DataFrame:
    """Answer by Spark's equi-join of keys and stretches of time, as long as the longest frame."""
    assert data.labels is not None
    width = cell.seconds * 1_000_000
    last = f"unix_micros(asked) div {width}"
    copied = data.labels.selectExpr("*", f"explode(array({last}, {last} - 1)) as stretch")
    placed = data.frame.selectExpr("*", f"unix_micros(ts) div {width} as place")
    near = f"ts >= timestampadd(SECOND, -{cell.seconds}, asked) and ts <= asked"
    found = copied.join(placed, sf.expr(f"key = of and stretch = place and {near}"), "left")
    return of_labels(found, "of").select("id", "of", "asked", "a", "b", "c")


Side = Callable[[Cell, Data], DataFrame]


def own(cell: Cell, data: Data) -> DataFrame:
    """Answer by windowkit."""
    if data.labels is not None:
        return FEATURES.at(data.labels, data.frame, by="of", time="asked")
    return rolling(cell).run(data.frame)


def of_files(data: Data) -> DataFrame:
    """Return the rows as Spark reads them from Parquet."""
    return data.frame.sparkSession.read.parquet(data.files)


def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return rows as they are."""
    yield from batches


def taken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return no row of those given."""
    for batch in batches:
        yield batch[:0]


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
    counts = data.frame.sparkSession.range(0, 4, 1, 4).selectExpr(f"id * 0 + {cell.rows // 4} count")
    return counts.mapInArrow(given, "key long, ts timestamp, v double, a double, b double")


SIDES: Mapping[str, Side] = {
    "there and back": lambda cell, data: data.frame.mapInArrow(passed, data.frame.schema),
    "sorted": lambda cell, data: (
        data.frame.repartition("key").sortWithinPartitions("key", "ts").mapInArrow(passed, data.frame.schema)
    ),
    "there": lambda cell, data: data.frame.mapInArrow(taken, data.frame.schema),
    "back": back,
    "windowkit": own,
    "scan": lambda cell, data: wk.spark.scan(data.frame.sparkSession, data.files, rolling(cell)),
    "frame": lambda cell, data: framed(cell, data.frame),
    "tree": lambda cell, data: framed(cell, data.frame),
    "frame of files": lambda cell, data: framed(cell, of_files(data)),
    "join": joined,
    "stretches": stretched,
    "split": lambda cell, data: rolling(cell).run(data.frame, split=True),
    "whole": lambda cell, data: rolling(cell).run(data.frame, split=False),
}


def times_as_fast(cell: str, of: str, side: str = "windowkit") -> Callable[[Sequence[Record]], Cells]:
    """Return what records say of how much longer a side of Spark takes than one of windowkit."""

    def cells(records: Sequence[Record]) -> Cells:
        seconds = {
            name: median(each["seconds"] for each in own)
            for name in (of, side)
            if (own := [each for each in records if (each.get("cell"), each["side"]) == (cell, name)])
        }
        yield NAMES[of], seconds[of] / seconds[side] if len(seconds) == 2 else None

    return cells


GOALS = (
    Goal("16 keys, Spark's frame", "≥", 100, times_as_fast("16 keys", "frame")),
    Goal("16 keys, its segment tree", "≥", 20, times_as_fast("16 keys", "tree")),
    Goal("1,024 keys, Spark's frame", "≥", 4, times_as_fast("1,024 keys", "frame")),
    Goal("1,024 keys, from Parquet", "≥", 6, times_as_fast("1,024 keys", "frame", "scan")),
    Goal("point in time, join by key", "≥", 10, times_as_fast("point in time", "join")),
    Goal("point in time, join by key and stretch", "≥", 10, times_as_fast("point in time", "stretches")),
)


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        new = measured(options)
        if not options.record:
            return
        # Records of other cells and sides stay.
        again = {(record["cell"], record["side"]) for record in new}
        records = new + [
            record
            for record in pages.read(options.output)[1]
            if (record["cell"], record["side"]) not in again
        ]
        places = {(cell.name, side): at for cell in CELLS for at, side in enumerate(cell.sides)}
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
    add("--profile", default="release", help="how the core was built, for the page; default: %(default)s")
    add("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "rolling-spark")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> list[Record]:
    """Check and measure all sides of all cells."""
    folder = Path(tempfile.mkdtemp())
    (folder / "events").mkdir()
    # Small partitions stay apart, as large ones would.
    spark = session(
        eventLog_enabled=True,
        eventLog_dir=(folder / "events").as_uri(),
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
            records += of_cell(spark, shorter, options.repeats, folder)
    finally:
        spark.stop()
    tasks = tasks_of(folder / "events")
    return [record | {"tasks": tasks[group_of(record)]} for record in records]


def group_of(record: Record) -> str:
    """Return the name of the job group of a turn."""
    return f"{record['cell']}, {record['side']}, {record['turn']}"


def of_cell(spark: SparkSession, cell: Cell, repeats: int, folder: Path) -> list[Record]:
    """Check and measure the sides of a cell."""
    data = data_of(spark, cell, folder)
    few = replace(cell, rows=min(cell.rows, CHECKED), labels=min(cell.labels, CHECKED // 20))
    check(spark, few, data_of(spark, few, folder))
    print(f"{cell.name}, {cell.rows:,} rows: the sides agree", flush=True)
    records = []
    # The first turn does not count.
    for turn in range(int(cell.is_slow), repeats + 1):
        for name in cell.sides:
            record = {"cell": cell.name, "side": name, "turn": turn, "rows": cell.rows}
            spark.conf.set(TREE, name == "tree")
            # Jobs that a plan asks for are not those of the turn before.
            spark.sparkContext.setJobGroup("plans", "plans")
            begin = time.perf_counter()
            result = SIDES[name](cell, data)
            spark.sparkContext.setJobGroup(group_of(record), name)
            result.write.format("noop").mode("overwrite").save()
            seconds = round(time.perf_counter() - begin, 3)
            if turn > 0:
                records.append(record | {"seconds": seconds})
            print(f"{cell.name}, {name}: {seconds:.2f} s", flush=True)
    data.frame.unpersist()
    return records


def check(spark: SparkSession, cell: Cell, data: Data) -> None:
    """Stop unless all sides give the same rows."""
    wanted = None
    for name in cell.sides:
        if name in (*FLOORS, "there", "sorted"):
            continue
        spark.conf.set(TREE, name == "tree")
        # Whole values, whose sums are exact in any order.
        got = {tuple(row) for row in SIDES[name](cell, data).collect()}
        wanted = wanted or got
        if got != wanted or len(got) != (cell.labels or cell.rows):
            sys.exit(f"{name} is not {cell.sides[0]} in {cell.name}")
    data.frame.unpersist()


def data_of(spark: SparkSession, cell: Cell, folder: Path) -> Data:
    """Return ``key``, ``ts`` and ``v``, cached; and labels ``id``, ``of``, ``asked``, if there are any."""
    frame = spark.range(0, cell.rows, 1, 4).selectExpr(
        f"pmod(xxhash64(id), {cell.keys}) key",
        f"timestamp_micros({BEGIN} + id * {STEP}) ts",
        "double(pmod(hash(id), 1000)) v",
    )
    frame = frame.repartition(4, sf.xxhash64("ts")).cache()
    frame.count()
    files = str(folder / f"{cell.name} {cell.rows}")
    if any("scan" in side or "files" in side for side in cell.sides):
        frame.write.mode("overwrite").parquet(files)
    labels = None
    if cell.labels:
        apart = cell.rows * STEP // cell.labels
        labels = spark.range(0, cell.labels, 1, 4).selectExpr(
            "id", f"pmod(xxhash64(id, 7), {cell.keys}) of", f"timestamp_micros({BEGIN} + id * {apart}) asked"
        )
        labels = labels.repartition(4, sf.xxhash64("asked")).cache()
        labels.count()
    return Data(frame, files, labels)


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
    rows = {record["cell"]: record["rows"] for record in records}
    turns = Counter((record["cell"], record["side"]) for record in records).values()
    about = {
        "16 keys": "the sum and the maximum of the ten minutes up to each row, 3,750 rows of its key",
        "1,024 keys": "the same, about 58 rows",
        "point in time": "of 200,000 labels, with random keys and evenly in time, the sum of the minute up "
        "to each, the count of ten minutes, and the maximum of an hour",
        "one key": "the sum and the maximum of the second up to each row",
    }
    lines = [
        "# Rolling aggregates in Spark",
        "",
        "Written by `benchmarks/rolling_spark.py`. Rows are 10 ms apart and shuffled, cached, and for `scan` "
        "in Parquet files; results are written to Spark's `noop`. `local[2]`, four shuffle partitions, which "
        f"adaptive execution does not join; the core is of the {facts['profile']} profile. Times are medians "
        f"of {min(turns)} turns or more.",
        "",
        *pages.listed(facts),
        "",
        *(["## Goals", "", *goals.table(GOALS, records), ""] if set(rows) - {"one key"} else []),
    ]
    for cell in rows:
        own = [record for record in records if record["cell"] == cell]
        lines += [f"## {cell[0].upper()}{cell[1:]}, {rows[cell]:,} rows", "", f"Asked is {about[cell]}.", ""]
        lines += by_task(own) if cell == "one key" else by_side(own)
    return "\n".join(lines[:-1]) + "\n"


def by_side(records: Sequence[Record]) -> list[str]:
    """Return a table of the jobs of a cell."""
    seconds: dict[str, list[float]] = {}
    for record in records:
        seconds.setdefault(record["side"], []).append(record["seconds"])
    jobs = {side: median(each) for side, each in seconds.items()}
    lines = [pages.header("side", "job, s", "/ windowkit")]
    lines += [
        pages.row(NAMES[side], f"{job:.2f}", f"{job / jobs['windowkit']:.1f}" if "windowkit" in jobs else "")
        for side, job in jobs.items()
    ]
    return [*lines, "", *limits(records[0]["cell"], jobs)]


def limits(cell: str, jobs: Mapping[str, float]) -> list[str]:
    """Return what handing rows over takes, beside what the whole job would take at the goals."""
    lines = []
    asked = {"16 keys": [("tree", 20), ("frame", 100)], "1,024 keys": [("frame", 4)]}
    asked["point in time"] = [("stretches", 10)]
    floor = next((side for side in ("there and back", "there") if side in jobs), None)
    if floor is not None and "windowkit" in jobs:
        goals_of = [
            f"{times} times as fast as {NAMES[side]}, it would be {jobs[side] / times:.2f} s"
            for side, times in asked[cell]
            if side in jobs
        ]
        lines += [
            f"Windowkit's job takes {jobs['windowkit']:.2f} s. To hand {NAMES[floor]}, takes "
            f"{jobs[floor]:.2f} s alone; the job hands packed rows over twice more, for the shuffle. "
            f"{'; '.join(goals_of)}.",
            "",
        ]
    if "back" in jobs and "scan" in jobs:
        lines += [
            "A scan reads the files in Python, so that rows are handed over once, with their results: that "
            f"takes {jobs['back']:.2f} of its {jobs['scan']:.2f} s. Six times as fast as Spark's frame, it "
            f"would be {jobs['frame'] / 6:.2f} s.",
            "",
        ]
    return lines


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
