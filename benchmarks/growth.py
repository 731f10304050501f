"""How the time of a stream's work grows with its rows, for every operator and order of rows.

Rows come in calls of a fixed size, n of them, twice and four times as many, and nothing ends before the
stream does: so all of them are held. Twice the rows of n should take twice the time, or a little more, as
what is held outgrows the caches; what is quadratic takes four times as much. Time is that of the processor.

    python benchmarks/growth.py --record
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pages
import pyarrow as pa

import windowkit as wk

ORDERS: Final = ("ascending", "descending", "random", "inwards")
"""In which order the times of a stream's rows come; inwards: from both ends by turns."""
KEYS: Final = {"one key": 1, "many keys": 1 << 20}
"""Of how many keys rows are drawn."""
TIMES: Final = (1, 2, 4)
LINEAR: Final = 1.5
"""Above this, twice the rows take so much more than twice the time that it has to be explained."""

SUMS: Final = [wk.sum("v").alias("s"), wk.max("v").alias("m")]
WINDOWS: Final = {
    "tumbling": wk.tumbling(100),
    "sliding by 10": wk.sliding(100, 10),
    "session": wk.session(3),
    "session of at most": wk.session(3, at_most=1000),
    "by rows": wk.tumbling(rows=10),
    "by rows, every 5": wk.sliding("10 rows", "5 rows"),
    "of rows by time": wk.sliding("10 rows", 50),
    "landmark": wk.landmark(50, period=200),
    "punctuation": wk.punctuation("mark"),
    "between": wk.between("mark", "mark"),
    "global": wk.global_window(),
}
BAND: Final = wk.join(by="k", left_time="t", right_time="t", within=1, how="full", right_columns="v")
DISTINCT: Final = wk.distinct("k", time="t", within=2)

Step = Callable[[pa.Table], object]


def rows(count: int, order: str, keys: int, seed: int) -> pa.Table:
    """Return rows, one a unit of time, in an order."""
    random, times = np.random.default_rng(seed), np.arange(count)
    if order == "descending":
        times = times[::-1]
    elif order == "random":
        random.shuffle(times)
    elif order == "inwards":
        times = np.where(times % 2 == 0, times // 2, count - 1 - times // 2)
    return pa.table(
        {
            "t": times,
            "k": random.integers(0, keys, count),
            "v": random.integers(0, 1000, count),
            "mark": random.random(count) < 0.1,
        }
    )


def queries() -> Iterator[tuple[str, Callable[[pa.Schema], tuple[Step, Step]]]]:
    """Yield operators: a name, and what returns how one takes rows and how it ends."""

    def of(windows: wk.Window, **options: Any) -> Callable[[pa.Schema], tuple[Step, Step]]:
        def made(schema: pa.Schema) -> tuple[Step, Step]:
            asked = wk.query(by="k", time="t", windows=windows, aggs=SUMS)
            op = asked.operator(order="out-of-order", schema=schema, **options)
            return op.push, lambda _: op.close()

        return made

    for name, windows in WINDOWS.items():
        yield name, of(windows)
    early = wk.emit(early=wk.rows(100), refinement="retracting")
    yield "sliding, early results", of(WINDOWS["sliding by 10"], emit=early)
    yield "session, early results", of(WINDOWS["session"], emit=early)


def sides() -> Iterator[tuple[str, Callable[[pa.Schema], tuple[Step, Step]]]]:
    """Yield joins and duplicates, as `queries` does."""

    def of(join: wk.Join) -> Callable[[pa.Schema], tuple[Step, Step]]:
        def made(schema: pa.Schema) -> tuple[Step, Step]:
            op = join.operator(schema, schema)

            def push(rows: pa.Table) -> None:
                op.push_left(rows)
                op.push_right(rows)

            return push, lambda _: op.close()

        return made

    def distinct(schema: pa.Schema) -> tuple[Step, Step]:
        op = DISTINCT.operator(schema)
        return op.push, lambda _: op.close()

    yield "join, band", of(BAND)
    yield "distinct", distinct


def seconds(make: Callable[[pa.Schema], tuple[Step, Step]], table: pa.Table, call: int) -> float:
    """Return how long it takes until the stream has ended."""
    push, end = make(table.schema)
    parts = [table.slice(at, call) for at in range(0, table.num_rows, call)]
    gc.collect()
    began = time.process_time()
    for part in parts:
        push(part)
    end(table)
    return time.process_time() - began


def page(output: object, facts: pages.Record, records: list[pages.Record]) -> str:
    """Return the page."""
    doublings = [growth for each in records for growth in growths(each["seconds"])]
    beyond = [each for each in records if max(growths(each["seconds"])) > 2 * LINEAR]
    lines = [
        "# How work grows with a stream",
        "",
        "Written by `benchmarks/growth.py`: a stream of n rows, of twice and of four times as many, in "
        "calls of a fixed size. Nothing ends before the stream does, so that all rows are held, in whatever "
        "order their times come; *inwards* is from both ends by turns. A column says how many times as long "
        "twice the rows take: 2 is linear, 4 quadratic.",
        "",
        *pages.listed(facts),
        "",
        f"**Of {len(doublings)} doublings, {sum(growth <= 2 * LINEAR for growth in doublings)} take at most "
        f"{2 * LINEAR:g} times as long.**"
        + (f" The others: {', '.join(sorted({each['operator'] for each in beyond}))}." if beyond else ""),
        "",
        pages.header("operator", "keys", "order of times", "n (ms)", "2n / n", "4n / 2n"),
    ]
    for each in records:
        first, second = growths(each["seconds"])
        cells = f"{each['seconds'][0] * 1000:.0f}", f"{first:.1f}", f"{second:.1f}"
        lines.append(pages.row(each["operator"], each["keys"], each["order"], *cells))
    return "\n".join(lines) + "\n"


def growths(taken: list[float]) -> list[float]:
    """Return how many times as long each takes as the one before."""
    return [after / before for before, after in pairwise(taken)]


def main() -> None:
    """Measure, and print or write a page."""
    parser = argparse.ArgumentParser(description="How work grows with the rows of a stream.")
    parser.add_argument("--rows", type=int, default=40_000, help="the least number of them")
    parser.add_argument("--call", type=int, default=40, help="rows of a call")
    parser.add_argument("--repeats", type=int, default=3, help="of which the best counts")
    parser.add_argument("--cells", nargs="*", help="only operators with one of these in their names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "growth")
    options = parser.parse_args()
    if options.page:
        pages.write(options.output, page)
        return
    records = list[pages.Record]()
    for name, make in (*queries(), *sides()):
        if options.cells is not None and not any(part in name for part in options.cells):
            continue
        for (keys, count), order in ((each, order) for each in KEYS.items() for order in ORDERS):
            tables = [rows(options.rows * times, order, count, options.seed) for times in TIMES]
            taken = [
                min(seconds(make, table, options.call) for _ in range(options.repeats)) for table in tables
            ]
            records.append({"operator": name, "keys": keys, "order": order, "seconds": taken})
            shown = ", ".join(f"{growth:.2f}" for growth in growths(taken))
            print(f"{name}, {keys}, {order}: {taken[0] * 1000:.0f} ms, times {shown}", flush=True)
    if options.record:
        facts = pages.machine(["pyarrow", "numpy"]) | {
            "settings": f"n is {options.rows:,}, {options.call} rows in a call, "
            f"the best of {options.repeats}, seed {options.seed}"
        }
        pages.keep(options.output, facts, records)
        pages.write(options.output, page)


if __name__ == "__main__":
    main()
