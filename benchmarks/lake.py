#!/usr/bin/env python3
"""A query over the same rows in a Parquet, a Delta and two Iceberg tables, whose files tasks read.

    PYTHONPATH=python:tests .venv/lake/bin/python benchmarks/lake.py             # some minutes
    PYTHONPATH=python:tests .venv/lake/bin/python benchmarks/lake.py --record    # and write the page

`make lake` makes the environment. Tables have 40 files; in every tenth file of Delta and Iceberg, one row in
50 is deleted: by deletion vectors in Delta and in Iceberg's format 3, by position deletes in its format 2.
The Parquet table has the rows that are left. Each side plans and runs `query.run(table)`, 60 windows a row
and 1,024 keys, written to Spark's ``noop`` sink; and plans it alone. Sides take turns, each round beginning
with another one, after two rounds to warm up.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import goals
import pages
import pyspark
from goals import Cells, Goal
from pages import Record
from pyspark.sql import DataFrame, SparkSession
from spark_session import seconds, session

import windowkit as wk
from support.lake import FORMATS, JARS

FILES = 40
EACH_OF = 10
"""Of so many files one has rows that are deleted."""
WARM = 2
QUERY = wk.query(
    by="k", time="ts", windows=wk.sliding("10 minutes", "10 seconds"), aggs=[wk.sum("v"), wk.max("v")]
)
MERGE_ON_READ = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))
TABLES = {
    "Delta, deletion vectors": ("spark_catalog", "delta", "'delta.enableDeletionVectors' = 'true'"),
    "Iceberg, position deletes": ("ice", "iceberg", f"'format-version' = '2', {MERGE_ON_READ}"),
    "Iceberg, deletion vectors": ("ice", "iceberg", f"'format-version' = '3', {MERGE_ON_READ}"),
}
PLAIN = "Parquet"


def made(spark: SparkSession, rows: int, folder: Path) -> dict[str, Callable[[], DataFrame]]:
    """Write all tables; return how each is read."""
    each = rows // FILES
    spark.range(0, rows, 1, FILES).selectExpr(
        "pmod(hash(id), 1024) k", "timestamp_micros(1700000000000000 + id * 10000) ts", "rand(7) v", "id"
    ).createOrReplaceTempView("made")
    deleted = f"id div {each} % {EACH_OF} = 0 and id % 50 = 7"
    spark.sql(f"select * from made where not ({deleted})").write.parquet(str(folder / "plain"))
    sides: dict[str, Callable[[], DataFrame]] = {PLAIN: lambda: spark.read.parquet(str(folder / "plain"))}
    for number, (name, (catalog, kind, properties)) in enumerate(TABLES.items()):
        table = f"{catalog}.default.t{number}"
        spark.sql(
            f"create table {table} (k int, ts timestamp, v double, id bigint) using {kind} "
            f"tblproperties ({properties})"
        )
        spark.sql(f"insert into {table} select * from made")
        spark.sql(f"delete from {table} where {deleted}")
        text = str(QUERY.explain(spark.table(table), route="scan"))
        if f" of {FILES // EACH_OF} files are deleted" not in text:
            raise SystemExit(f"{name} is not as it should be:\n{text}")
        sides[name] = lambda table=table: spark.table(table)  # type: ignore[misc]
    return sides


def asked(read: Callable[[], DataFrame]) -> DataFrame:
    """Answer by the tasks that read the files."""
    return QUERY.run(read(), route="scan")


def measured(options: argparse.Namespace) -> tuple[Record, list[Record]]:
    """Measure, and return what it depends on, and the times of each table."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        own = {"spark.sql.warehouse.dir": f"{folder}/own", "spark.sql.catalog.ice.warehouse": f"{folder}/ice"}
        spark = session(more=FORMATS | own)
        sides = made(spark, options.rows, folder)
        names = list(sides)
        runs: dict[str, list[float]] = {name: [] for name in names}
        plans: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(-WARM, options.repeats):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                began = time.perf_counter()
                asked(sides[name])
                plan = round(time.perf_counter() - began, 4)
                result = seconds(partial(asked, sides[name]))
                if turn >= 0:
                    plans[name].append(plan)
                    runs[name].append(result)
        spark.stop()
    for name in names:
        print(
            f"{name}: {median(runs[name]):.3f} s, planned in {1e3 * median(plans[name]):.0f} ms", flush=True
        )
    facts = pages.machine(["pyarrow"], Spark=pyspark.__version__, jars=" ".join(JARS))
    facts |= {"rows": options.rows, "repeats": options.repeats}
    return facts, [{"table": name, "seconds": runs[name], "planned": plans[name]} for name in names]


def compared(records: list[Record]) -> Cells:
    """Yield how long each table takes, in times of plain Parquet."""
    times = {record["table"]: median(record["seconds"]) for record in records}
    return [(name, own / times[PLAIN]) for name, own in times.items() if name != PLAIN]


def page(_: Path, facts: Record, records: list[Record]) -> str:
    """Return the page."""
    lines = [
        "# Delta and Iceberg tables, against plain Parquet",
        "",
        f"Written by `benchmarks/lake.py --record`, whose head says what is measured: {facts['rows']:,} rows "
        f"in {FILES} files, of which {FILES // EACH_OF} have deleted rows. Medians of {facts['repeats']} "
        "runs, planning included.",
        "",
        *pages.listed(facts),
        "",
        *goals.table([Goal("time of plain Parquet", "≤", 1.2, compared)], records),
        "",
        pages.header("table", "s", "of which planning, ms", "of plain Parquet"),
    ]
    ratios = dict(compared(records))
    for record in records:
        name = record["table"]
        ratio = f"{ratios[name]:.2f}×" if name in ratios else ""
        times = f"{median(record['seconds']):.3f}", f"{1e3 * median(record['planned']):.0f}"
        lines.append(pages.row(name, *times, ratio))
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "lake")
    options = parser.parse_args()
    if not options.page:
        facts, records = measured(options)
        if not options.record:
            return
        pages.keep(options.output, facts, records)
    pages.write(options.output, page)


if __name__ == "__main__":
    main()
