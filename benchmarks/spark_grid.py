"""Spark's own windows against windowkit's, over a grid of keys, windows and functions.

Every cell aggregates the same rows (a key, a timestamp 10 ms after the last, a random double), cached or in a
Parquet file, and writes to Spark's ``noop`` sink. A window is what each side makes of it by itself: in Spark
a struct, in windowkit two columns. Sides, measured one after the other in each round, which begins with
another side each time, so that none always follows the same one:

spark
    Spark's own ``groupBy(key, window(...)).agg(sum(v), max(v))``.
windowkit
    ``query.run(df)``, by the route the planner chooses after sampling rows, which takes a part of it.
hinted
    ``query.run(df, rows_per_slice=...)`` with the number there are: what a caller knows, or can count.
catalyst-panes, packed, rows
    ``query.run(df, route=...)``, where the route takes the query.
spark parquet
    Spark's own over ``spark.read.parquet``.
windowkit parquet
    ``query.run(spark.read.parquet(...))`` of the same file, by the route the planner chooses: tasks read it
    by themselves if it is large.
identity
    The job of route "catalyst-panes" with stage 2 replaced by a function that yields the slices it is given:
    stage 1, the shuffle and the way of the slices into Python and back. It cannot yield the windows, so where
    there are more windows than slices it is a bound from below that no stage 2 reaches.
premade
    The same with a function that takes the slices and yields one batch again and again, of the columns of the
    real result and until there are as many rows (shared out by slices): all of the job but the work of stage
    2. Stage 2 is judged by this one.

Spark's own takes minutes in some cells; there its two sides are run once, without warming up, and marked so.
They come after all other cells of as many keys, and few keys after many, because what was timed right after
minutes of Spark's own was slower than the same route elsewhere in the cell. A cell has the more rounds the
shorter they are.

    python benchmarks/spark_grid.py --cells '16 keys*' --repeats 5 --record
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import goals
import pages
import pyarrow as pa
import pyarrow.parquet
import pyspark
import turns
from plots import plot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_goals import GOALS, ROUTES, behind, stage_2
from spark_session import seconds, session

import windowkit as wk
from windowkit.local.query import shaped_schema
from windowkit.spark.jobs import sql
from windowkit.spark.jobs.job import job
from windowkit.spark.jobs.reference import result_schema
from windowkit.spark.routes import panes, planner, rule

OWN_SIDES = ("spark", "spark parquet")
SIDES = ("spark", "windowkit", "hinted", *ROUTES, "spark parquet", "windowkit parquet", "identity", "premade")
MOST_ROUNDS = 9
BATCH_ROWS = 65_536
ROW_GROUP = 1 << 20
START = 1_700_000_000_000_000


@dataclass(frozen=True)
class Cell:
    """One number of keys and one window; `spark_seconds` is about what Spark's own takes with 4 M rows."""

    keys: int
    label: str
    window: wk.Window
    per_row: str
    spark_seconds: float
    answers: str = "sum, max"

    @property
    def name(self) -> str:
        """What ``--cells`` patterns match."""
        more = "" if self.answers == "sum, max" else f", {self.answers}"
        return f"{self.keys} keys, {self.label}{more}"


TUMBLING = ("tumbling 10 min", wk.tumbling("10 minutes"), "1")
BY_MINUTE = ("10 min by 1 min", wk.sliding("10 minutes", "1 minute"), "10")
BY_TEN = ("10 min by 10 s", wk.sliding("10 minutes", "10 seconds"), "60")
BY_SECOND = ("10 min by 1 s", wk.sliding("10 minutes", "1 second"), "600")
SESSION = ("session 30 s", wk.session("30 seconds"), "1")
ANSWERS: dict[str, list[wk.Aggregate]] = {
    "sum, max": [wk.sum("v"), wk.max("v")],
    "median": [wk.median("v")],
    "M4": [wk.m4("v", times=True)],
    "count distinct": [wk.count_distinct("n")],
    "HyperLogLog": [wk.approx_count_distinct("n")],
}
"""What cells ask for; Spark's own functions are those that `windowkit.spark.reference` takes."""
OWN = {"HyperLogLog": ["hll_sketch_estimate(hll_sketch_agg(n))"]}
"""But for these: the reference unites each sketch with itself, too, so that no order matters to estimates."""
CELLS = (
    Cell(16, *TUMBLING, 0.5),
    Cell(16, *BY_MINUTE, 1.5),
    Cell(16, *BY_TEN, 8),
    Cell(16, *BY_SECOND, 460),
    Cell(16, *SESSION, 3),
    Cell(1024, *TUMBLING, 0.5),
    Cell(1024, *BY_MINUTE, 3),
    Cell(1024, *BY_TEN, 30),
    Cell(1024, *SESSION, 3),
    Cell(1_000_000, *TUMBLING, 5),
    Cell(1_000_000, *BY_MINUTE, 40),
    Cell(1_000_000, *BY_TEN, 250),
    Cell(1_000_000, *SESSION, 6),
    Cell(16, *BY_MINUTE, 47, "median"),
    Cell(16, *BY_TEN, 186, "median"),
    Cell(16, *BY_MINUTE, 4, "M4"),
    Cell(16, *BY_TEN, 13, "M4"),
    Cell(16, *BY_MINUTE, 10, "count distinct"),
    Cell(16, *BY_TEN, 60, "count distinct"),
    Cell(16, *BY_MINUTE, 11, "HyperLogLog"),
    Cell(16, *BY_TEN, 70, "HyperLogLog"),
)


@dataclass
class Measured:
    """What was measured of a cell, and the sides that are left, of which each run is long."""

    result: dict[str, Any]
    long: dict[str, Callable[[], DataFrame]]

    def run_long(self) -> None:
        """Run what is left, once each."""
        while self.long:
            name, side = self.long.popitem()
            self.result["seconds"][name] = [seconds(side)]
            print(json.dumps(self.result), flush=True)


def main() -> None:
    """Measure the cells asked for; write JSON lines and a table."""
    options = arguments()
    if not options.page:
        spark = session()
        turns.keep(options, machine(spark) | {"repeats": options.repeats}, measured(spark, options))
        spark.stop()
    if options.page or options.record:
        pages.write(options.output, page)


def measured(spark: SparkSession, options: argparse.Namespace) -> Iterator[pages.Record]:
    """Measure all cells, those of as many keys together."""
    cells = [cell for cell in CELLS if any(fnmatch.fnmatch(cell.name, form) for form in options.cells)]
    for keys in sorted({cell.keys for cell in cells}, reverse=True):
        frame, found = rows(spark, options.rows, keys), list[Measured]()
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/rows.parquet"
            write(frame, path)
            for cell in (cell for cell in cells if cell.keys == keys):
                found.append(measure(frame, path, cell, options))
                print(json.dumps(found[-1].result), flush=True)
            for each in found:
                each.run_long()
        frame.unpersist()
        yield from (each.result for each in found)


def draw(results: list[dict[str, Any]], facts: pages.Record, path: Path) -> None:
    """Draw Spark's times as multiples of windowkit's, over DataFrames and over files."""
    medians = {
        str(result["cell"]): {side: statistics.median(times) for side, times in result["seconds"].items()}
        for result in results
    }
    pairs = {
        "a cached DataFrame": ("spark", "windowkit"),
        "a Parquet file": ("spark parquet", "windowkit parquet"),
    }
    measured = {cell: sides for cell, sides in medians.items() if {*chain(*pairs.values())} <= set(sides)}
    if measured:
        ratios = {
            of: [sides[theirs] / sides[ours] for sides in measured.values()]
            for of, (theirs, ours) in pairs.items()
        }
        title = f"Spark {facts['versions']['Spark']}, local[2], {results[0]['rows']:,} rows"
        plot(list(measured), ratios, title, path)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Spark's own windows against windowkit's.")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument(
        "--repeats", type=int, default=3, help="least number of measured runs of each side; the median counts"
    )
    parser.add_argument("--seconds", type=float, default=60, help="for more rounds, where they fit in")
    parser.add_argument("--cells", nargs="+", default=["*"], help="patterns of names, like '1024 keys*'")
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument(
        "--once-over",
        type=float,
        default=20,
        help="run Spark's sides once if they take longer",
    )
    parser.add_argument(
        "--skip-spark-over",
        type=float,
        default=float("inf"),
        help="leave out Spark's sides if they take longer",
    )
    parser.add_argument("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "spark")
    return parser.parse_args()


def rows(spark: SparkSession, count: int, keys: int) -> DataFrame:
    frame = spark.range(0, count, 1, 4).select(
        sf.pmod(sf.hash("id"), sf.lit(keys)).alias("k"),
        sf.timestamp_micros(sf.col("id") * 10_000 + START).alias("ts"),
        sf.rand(7).alias("v"),
        sf.pmod(sf.hash("id", sf.lit(1)), sf.lit(1000)).alias("n"),
    )
    frame = frame.cache()
    frame.count()
    return frame


def write(frame: DataFrame, path: str) -> None:
    """Write the rows, in their order, to one file of row groups as Spark's own writer makes them."""
    target = pa.parquet.ParquetWriter(path, frame.limit(0).toArrow().schema)
    with target:
        for first in range(0, frame.count(), ROW_GROUP):
            micros = sf.unix_micros("ts") - sf.lit(START)
            part = frame.where((micros >= first * 10_000) & (micros < (first + ROW_GROUP) * 10_000))
            target.write_table(part.orderBy("ts").toArrow())


def measure(frame: DataFrame, path: str, cell: Cell, options: argparse.Namespace) -> Measured:
    """Run every side of a cell in turn, but those that are long, and return all times."""
    query = wk.query(by="k", time="ts", windows=cell.window, aggs=ANSWERS[cell.answers])
    checked = job(frame, query)
    spark = frame.sparkSession
    assert isinstance(cell.window, wk.Tumbling | wk.Sliding | wk.Session)
    window = sf.expr(sql.window(cell.window, "ts"))
    texts = OWN.get(cell.answers) or [
        sql.aggregate(each.function, list(each.columns), "ts", None, each.parameters) for each in query.aggs
    ]
    answers = list(map(sf.expr, texts))

    def own(frame: DataFrame) -> DataFrame:
        return frame.groupBy("k", window).agg(*answers)

    windows = query.run(frame).count()
    result: dict[str, Any] = {"cell": cell.name, "keys": cell.keys, "window": cell.label}
    result |= {"windows per row": cell.per_row, "rows": options.rows, "windows": windows}
    result["answers"] = cell.answers
    result["route"] = planner.choice_of(checked, None, None).route.name
    over_files = job(spark.read.parquet(path), query)
    result["route of files"] = planner.choice_of(over_files, None, None).route.name
    sides: dict[str, Callable[[], DataFrame]] = {
        "spark": lambda: own(frame),
        "windowkit": lambda: query.run(frame),
        "spark parquet": lambda: own(spark.read.parquet(path)),
        "windowkit parquet": lambda: query.run(spark.read.parquet(path)),
    }
    for route in rule.ROUTES:
        if route.refusal(checked) is None:
            sides[route.name] = partial(query.run, frame, route=route.name)
    if "catalyst" not in sides and panes.ROUTE.refusal(checked) is None:
        slices = panes.slices(checked).count()
        hint = options.rows / slices
        result |= {
            "slices": slices,
            "hinted": rule.choose(rule.Refusals.of(checked), None, rule.expected(hint)).route.name,
        }
        sides["hinted"] = lambda: query.run(frame, rows_per_slice=hint)
        sides["identity"] = lambda: panes.slices(checked).mapInArrow(
            lambda batches: batches, panes.slices(checked).schema
        )
        made = shaped_schema(pa.schema(checked.plan.output_schema), query)
        premade = Premade(made, windows / slices)
        sides["premade"] = lambda: panes.slices(checked).mapInArrow(premade, result_schema(checked))
    seconds_of_spark = cell.spark_seconds * options.rows / 4_000_000
    sides = {name: sides[name] for name in SIDES if name in sides and name in options.sides}
    long: dict[str, Callable[[], DataFrame]] = {}
    if seconds_of_spark > min(options.once_over, options.skip_spark_over):
        long = {name: sides.pop(name) for name in OWN_SIDES if name in sides}
    if seconds_of_spark > options.skip_spark_over:
        long.clear()
    result["seconds"] = in_turn(sides, options)
    return Measured(result, long)


def in_turn(sides: dict[str, Callable[[], DataFrame]], options: argparse.Namespace) -> dict[str, list[float]]:
    """Run sides once to warm up, and then in rounds, and return all times of these."""
    for side in sides.values():
        seconds(side)
    began = time.perf_counter()
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    rounds = options.repeats
    for number in range(MOST_ROUNDS):
        if number >= rounds:
            break
        first = number * len(names) // MOST_ROUNDS
        for name in names[first:] + names[:first]:
            times[name].append(seconds(sides[name]))
        rounds = max(rounds, int(options.seconds / (time.perf_counter() - began) * (number + 1)))
    return times


class Premade:
    """Stands for stage 2: takes slices, and yields `ratio` times as many rows, all of one batch."""

    def __init__(self, schema: pa.Schema, ratio: float) -> None:
        self.schema = schema
        self.ratio = ratio

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches without computing any."""
        rest = round(sum(batch.num_rows for batch in batches) * self.ratio)
        batch = pa.RecordBatch.from_arrays([ones(kind) for kind in self.schema.types], schema=self.schema)
        while rest > 0:
            yield batch.slice(0, rest)
            rest -= BATCH_ROWS


def ones(kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        return pa.StructArray.from_arrays([ones(field.type) for field in fields], fields=fields)
    return pa.repeat(pa.scalar(1), BATCH_ROWS).cast(kind)


def machine(
    spark: SparkSession, settings: str = "local[2], 4 shuffle partitions, 4 GB heap, adaptive execution on"
) -> pages.Record:
    """Return what the figures depend on."""
    java = spark.sql("select java_method('java.lang.System', 'getProperty', 'java.version')").first()
    assert java is not None
    facts = pages.machine(["pyarrow"], Spark=pyspark.__version__, Java=java[0])
    return facts | {"settings": settings}


def page(output: Path, facts: pages.Record, results: list[pages.Record]) -> str:
    """Return the page: what was measured, on what, and a table; and draw its picture."""
    names = [cell.name for cell in CELLS]
    results = sorted(results, key=lambda result: names.index(result["cell"]))
    draw(results, facts, output.with_suffix(".png"))
    repeats = facts["repeats"]
    lines = [
        "# Spark: windowkit against Spark's own windows",
        "",
        f"Written by `benchmarks/spark_grid.py --record --repeats {repeats}`, whose head says what each side "
        f"is. {results[0]['rows']:,} rows 10 ms apart, cached or in one Parquet file, written to `noop`; "
        "windows are structs in Spark, and two columns in windowkit. "
        f"Seconds, planning included; medians of {repeats} to {MOST_ROUNDS} runs, sides in turn, after one "
        "to warm up. A figure with * is of one run, without warming up, because Spark's own takes long "
        "there.",
        "",
        *pages.listed(facts),
        "",
        "## Goals",
        "",
        "The worst cell counts; the median of all cells stands beside it. *windowkit* is `query.run` as "
        "users call it, without a hint, over the cached rows; *from Parquet*, it is that over a read of the "
        "file, and Spark's own reads the same file.",
        "",
        *goals.table(GOALS, results),
        "",
        "## Against Spark's own",
        "",
        "| keys | window | answers | windows per row | windows out | Spark | windowkit | times faster "
        "| Spark, Parquet | windowkit, Parquet | times faster |",
        "|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for result in results:
        times = result["seconds"]
        lines.append(
            pages.row(
                *cell_of(result),
                result["windows per row"],
                f"{result['windows']:,}",
                *compared(times, "spark", "windowkit", repeats),
                *compared(times, "spark parquet", "windowkit parquet", repeats),
            )
        )
    lines += [
        "",
        "## Routes",
        "",
        "Which [route](../internals/routes.md) is chosen, what it costs to choose, and how long each route "
        "takes. All columns but *of Parquet* are of cached rows.",
        "",
        "- *slices*: how many there are, where Catalyst makes them. Fewer slices mean less to move.",
        "- *of Parquet*, *unhinted*, *hinted*: the route that the planner chooses for the file, for cached "
        "rows, and if `rows_per_slice=` says how many slices there are.",
        "- *behind*: how much longer the choice before it takes than the fastest route, with the sample of "
        "rows that the planner may take. *choice*: the same of the unhinted choice without that sample.",
        f"- {', '.join(f'*{route}*' for route in ROUTES)}: seconds of the route if `route=` forces it.",
        "- *identity*: seconds of catalyst-panes if its last stage, stage 2, hands back the slices that it "
        "is given: what it takes to make them, to shuffle them, and to move them into Python and back.",
        "- *premade*: the same if stage 2 returns windows that were made before: all of the job but the work "
        "of making windows. *stage 2*: catalyst-panes as a multiple of that; 1.00 if making windows costs "
        "nothing.",
        "",
        "Seconds are medians. *behind*, *choice* and *stage 2* compare the quickest run of each side, as "
        "what disturbs a run mostly adds to it: runs of one route often differ by more than routes do.",
        "",
        "| keys | window | answers | slices | of Parquet | unhinted | behind | choice | hinted | behind "
        f"| {' | '.join(ROUTES)} | identity | premade | stage 2 |",
        "|--:|---|---|--:|---|---|--:|--:|---|--:|" + "--:|" * (len(ROUTES) + 3),
    ]
    for result in results:
        times = result["seconds"]
        stage = stage_2(result)
        lines.append(
            pages.row(
                *cell_of(result),
                f"{result['slices']:,}" if "slices" in result else "",
                result["route of files"],
                result["route"],
                percent(behind(result, "windowkit")),
                percent(behind(result, result["route"])),
                result.get("hinted", ""),
                percent(behind(result, "hinted")),
                *(shown(median(times.get(side))) for side in (*ROUTES, "identity", "premade")),
                "" if stage is None else f"{stage:.2f}",
            )
        )
    return "\n".join(lines) + "\n"


def cell_of(result: dict[str, Any]) -> tuple[str, str, str]:
    return f"{result['keys']:,}", result["window"], result["answers"]


def compared(times: dict[str, list[float]], spark: str, ours: str, repeats: int) -> tuple[str, str, str]:
    """Return what Spark's own takes, what ours takes, and the ratio."""
    theirs, own = median(times.get(spark)), median(times.get(ours))
    once = "*" if theirs is not None and len(times[spark]) < repeats else ""
    ratio = "" if theirs is None or own is None else times_faster(theirs / own)
    return shown(theirs) + once, shown(own), ratio


def percent(multiple: float | None) -> str:
    """Return by how many parts of a hundred a time is more than another."""
    return "" if multiple is None else f"{100 * (multiple - 1):.0f} %"


def median(runs: list[float] | None) -> float | None:
    return statistics.median(runs) if runs else None


def times_faster(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 20 else f"{ratio:.0f}"


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main()
