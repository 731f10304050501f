"""What early results cost: a stream of 1,024 keys and 60 windows a row, with and without emission policies.

All policies take turns, round by round, so that a ratio compares runs under the same conditions. The rows in
are what is counted: a policy that fires more often emits more rows of results in the same time.

    python benchmarks/emission.py
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np
import pages
import pyarrow as pa

import windowkit as wk

GOAL = 20.0
"""Million rows a second, with a result of each key after every 1,000 of its rows."""

LAZY = "none, store='lazy'"
POLICIES: dict[str, wk.Emission | None] = {
    "none": None,
    LAZY: None,
    "no trigger": wk.emit(),
    "every 1,000 rows, accumulating": wk.emit(wk.rows(1000)),
    "every 1,000 rows, discarding": wk.emit(wk.rows(1000), "discarding"),
    "every 1,000 rows, retracting": wk.emit(wk.rows(1000), "retracting"),
    "every minute of event time": wk.emit(wk.every(60)),
    "at half of each window": wk.emit(wk.at(0.5)),
}
BASE = "none"


def batches(rows: int, keys: int, size: int, seed: int) -> list[pa.Table]:
    """Return rows in order, 1,024 a second, in batches."""
    random = np.random.default_rng(seed)
    table = pa.table(
        {
            "t": np.arange(rows) // 1024,
            "k": random.integers(0, keys, rows),
            "v": random.integers(0, 1000, rows),
        }
    )
    return [table.slice(at, size) for at in range(0, rows, size)]


def measured(name: str, given: list[pa.Table]) -> tuple[float, int, float]:
    """Return how long a stream takes, how many rows of results it emits, and what it holds for each slice."""
    query = wk.query(by="k", time="t", windows=wk.sliding(600, 10), aggs=[wk.sum("v"), wk.count()])
    op = query.operator(emit=POLICIES[name], store="lazy" if name == LAZY else "auto")
    began, emitted = time.perf_counter(), 0
    for batch in given:
        emitted += op.push(batch).num_rows
    seconds, stats = time.perf_counter() - began, op.stats()
    return seconds, emitted, stats.bytes / stats.slices


def page(output: object, facts: pages.Record, records: list[pages.Record]) -> str:
    """Return the page."""
    base = next(record for record in records if record["policy"] == BASE)
    triggered = next(record for record in records if record["policy"] == "every 1,000 rows, accumulating")
    speed = rate(triggered)
    lines = [
        "# What early results cost",
        "",
        "Written by `benchmarks/emission.py`: a stream in order by 1,024 keys, with the sum and the count of "
        "sliding windows of 600 s by 10 s, so 60 windows a row. But for the lazy store, running totals over "
        "the slices answer them. The policies take turns. Figures are medians; *time* is relative to the "
        "same round without a policy, and *bytes a slice* all that the operator holds at the end, as "
        "`Operator.stats` has it.",
        "",
        *pages.listed(facts),
        "",
        f"**A result of each key after every 1,000 of its rows: {speed:.1f} million rows a second in; the "
        f"goal is {GOAL:g}.**",
        "",
        pages.header("policy", "million rows/s in", "time", "rows of results", "bytes a slice"),
    ]
    for record in records:
        ratios = [own / other for own, other in zip(record["seconds"], base["seconds"], strict=True)]
        cells = (
            f"{rate(record):.1f}",
            f"{median(ratios):.2f}",
            f"{record['emitted']:,}",
            f"{record['held']:.0f}",
        )
        lines.append(pages.row(record["policy"], *cells))
    return "\n".join(lines) + "\n"


def rate(record: pages.Record) -> float:
    """Return million rows a second."""
    return float(record["rows"] / median(record["seconds"]) / 1e6)


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description="What early results cost.")
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--keys", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=65_536, help="rows in a call")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    pages.add_arguments(parser, "emission")
    options = parser.parse_args()
    if not options.page:
        given = batches(options.rows, options.keys, options.batch, options.seed)
        records = {
            name: pages.Record(policy=name, rows=options.rows, seconds=[], emitted=0) for name in POLICIES
        }
        for _ in range(options.rounds):
            for name in POLICIES:
                seconds, emitted, held = measured(name, given)
                records[name]["held"] = held
                records[name]["seconds"].append(seconds)
                records[name]["emitted"] = emitted
        for name, record in records.items():
            print(f"{name}: {rate(record):.1f} million rows/s, {record['emitted']:,} results", flush=True)
        facts = pages.machine(["pyarrow", "numpy"]) | {
            "settings": f"{options.rows:,} rows in batches of {options.batch:,}, {options.keys:,} keys, "
            f"{options.rounds} rounds, seed {options.seed}"
        }
        pages.keep(options.output, facts, list(records.values()))
    pages.write(options.output, page)


if __name__ == "__main__":
    main()
