"""How long a call goes on after Ctrl-C: millions of rows in one call, and a signal at a random moment of it.

Each call is first made as a whole, and timed. Then it is made again and again, with a timer that raises the
signal after a random share of that time. What counts is the time from the signal to the exception. A call
that ends before its signal says nothing, and is made again.

    python benchmarks/interrupts.py --record
"""

from __future__ import annotations

import argparse
import gc
import signal
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pages
import pyarrow as pa
import pyarrow.compute as pc

import windowkit as wk
from windowkit import kernels, partition

LIMITS = (0.1, 0.25)
"""Seconds in which a call should have noticed the signal, and in which it has to."""

Call = Callable[[], object]


class Stop(BaseException):
    """What the signal raises; not an Exception, as users' functions raise."""


def stop(number: int, frame: object) -> None:
    """Handle the signal."""
    raise Stop


class Cells:
    """The calls that are interrupted, by name; each is made from scratch, as what it is made on changes."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows, self.random = rows, np.random.default_rng(seed)

    def all(self) -> dict[str, Callable[[], Call]]:
        """Return them all."""
        sliding, sums = wk.sliding(600, 60), [wk.sum("v"), wk.max("v")]
        by_rows, session = wk.sliding("100 rows", "10 rows"), wk.session(2)
        mine = wk.aggregate("mine", lift=lambda v: v, combine=pc.add, lower=lambda s: s, commutative=True)
        few, many = 16, self.rows // 20
        return {
            "run, sliding, many keys": lambda: self.run(many, sliding, *sums),
            "run, sessions": lambda: self.run(many, session, *sums),
            "run, median": lambda: self.run(few, sliding, wk.median("v")),
            "run, user-defined function": lambda: self.run(few, sliding, mine("v")),
            "run, lists of rows": lambda: self.run(1, wk.sliding(100, 10), wk.collect_rows("v")),
            "run, one key, windows of one unit": lambda: self.run(1, wk.tumbling(1), *sums),
            "run, one key, by rows": lambda: self.run(1, by_rows, *sums),
            "push, in order": lambda: self.push(few, sliding, *sums, order="in-order"),
            "push, out of order, many keys": lambda: self.push(many, sliding, *sums),
            "push, out of order, sessions": lambda: self.push(many, session, *sums),
            "push, out of order, by rows": lambda: self.push(few, by_rows, *sums),
            "push, out of order, median": lambda: self.push(few, sliding, wk.median("v")),
            "push, whose delay is a share": self.delayed,
            "push, before which keys are shed": self.shed,
            "advance": lambda: self.later(lambda op: lambda: op.advance(self.rows), sliding, *sums),
            "close": lambda: self.later(lambda op: op.close, sliding, *sums),
            "close, by rows": lambda: self.later(lambda op: op.close, by_rows, *sums),
            "peek": lambda: self.later(lambda op: op.peek, sliding, *sums),
            "snapshot": lambda: self.later(lambda op: op.snapshot, sliding, *sums),
            "restore": lambda: self.later(self.restore, sliding, *sums),
            "join.run": self.join,
            "join, push": self.push_left,
            "join, close": lambda: self.of_join(lambda op: op.close),
            "join, snapshot": lambda: self.of_join(lambda op: op.snapshot),
            "join, restore": lambda: self.of_join(self.restored),
            "distinct.run": self.distinct,
            "rolling.run": self.rolling,
            "distinct, push": lambda: self.of_distinct(0, lambda op, rows: lambda: op.push(rows)),
            "distinct, advance": lambda: self.of_distinct(1, lambda op, _: lambda: op.advance(self.rows)),
            "kernel, deviation": lambda: self.kernel(agg="std", size=10_000),
            "kernel, maximum": lambda: self.kernel(agg="max", size=100),
            "kernels.Window.slide": self.slide,
            "HyperLogLog.update": self.sketch,
            "Partitioner.assign": self.partition,
        }

    def table(self, keys: int, disorder: int) -> pa.Table:
        """Return rows, about ten a unit of time, that are so much out of order."""
        times = np.arange(self.rows) // 10 + self.random.integers(0, disorder + 1, self.rows)
        columns = {"t": times, "k": self.random.integers(0, keys, self.rows)}
        return pa.table(columns | {"v": self.random.integers(0, 1000, self.rows)})

    def query(self, window: wk.Window, *aggs: wk.Aggregate) -> wk.Query:
        """Return the query of a cell."""
        return wk.query(by="k", time="t", windows=window, aggs=list(aggs))

    def run(self, keys: int, window: wk.Window, *aggs: wk.Aggregate) -> Call:
        """Return a batch job."""
        asked, table = self.query(window, *aggs), self.table(keys, self.rows // 10)
        return lambda: asked.run(table)

    def push(self, keys: int, window: wk.Window, *aggs: wk.Aggregate, order: Any = "out-of-order") -> Call:
        """Return a push of all rows at once."""
        op = self.query(window, *aggs).operator(order=order)
        table = self.table(keys, 0 if order == "in-order" else self.rows // 20)
        return lambda: op.push(table)

    def later(self, call: Callable[[wk.Operator], Call], *query: Any) -> Call:
        """Return a call of an operator that has a quarter of the rows: all their windows fit into memory."""
        op = self.query(*query).operator(order="out-of-order")
        op.push(self.table(self.rows // 200, self.rows // 20)[: self.rows // 4])
        return call(op)

    def delayed(self) -> Call:
        """Return a push to an operator whose watermark follows from how far rows are behind."""
        query = self.query(wk.sliding(600, 60), wk.sum("v"))
        op = query.operator(order="out-of-order", progress=wk.delay(share=0.9))
        table = self.table(16, self.rows // 20)
        return lambda: op.push(table)

    def shed(self) -> Call:
        """Return the call that drops what the one before it left, as that is far too much."""
        query = self.query(wk.sliding(600, 60), wk.sum("v"))
        op = query.operator(order="out-of-order", shed=wk.shed("10 MB"))
        table = self.table(self.rows // 20, self.rows // 20)[: self.rows // 4]
        op.push(table)
        return lambda: op.push(table[:1])

    def restore(self, op: wk.Operator) -> Call:
        """Return a restart of an operator."""
        snapshot, queries = op.snapshot(), op.queries
        return lambda: wk.Operator.restore(snapshot, queries)

    BAND = wk.join(by="k", left_time="t", right_time="t", within=5, how="full", right_columns="v")
    DISTINCT = wk.distinct("k", time="t", within=100)

    def join(self) -> Call:
        """Return the join of two tables."""
        sides = [self.table(self.rows // 200, self.rows // 20) for _ in range(2)]
        return lambda: self.BAND.run(*sides)

    def push_left(self) -> Call:
        """Return a push of half of the rows to a join that has the others."""
        left, right = (self.table(self.rows // 200, self.rows // 20)[: self.rows // 4] for _ in range(2))
        op = self.BAND.operator(left, right)
        op.push_right(right)
        return lambda: op.push_left(left)

    def of_join(self, call: Callable[[wk.JoinOperator], Call]) -> Call:
        """Return a call of a join of streams whose rows wait for partners."""
        rows = self.table(self.rows // 200, self.rows // 20)[: self.rows // 4]
        op = self.BAND.operator(rows, rows)
        op.push_left(rows)
        return call(op)

    def restored(self, op: wk.JoinOperator) -> Call:
        """Return a restart of a join of streams."""
        snapshot = op.snapshot()
        return lambda: wk.JoinOperator.restore(snapshot, self.BAND)

    def distinct(self) -> Call:
        """Return a table without its duplicates."""
        table = self.table(self.rows // 200, self.rows // 20)
        return lambda: self.DISTINCT.run(table)

    def rolling(self) -> Call:
        """Return a table with aggregates of the rows around each one."""
        aggs = [wk.sum("v").over(600), wk.median("v").over(60)]
        asked = wk.rolling(by="k", time="t", aggs=aggs)
        table = self.table(self.rows // 200, self.rows // 20)
        return lambda: asked.run(table)

    def of_distinct(self, pushes: int, call: Callable[[wk.DistinctOperator, pa.Table], Call]) -> Call:
        """Return a call of a stream without duplicates, after so many pushes."""
        rows = self.table(self.rows // 200, self.rows // 20)[: self.rows // 2]
        op = self.DISTINCT.operator(rows)
        for _ in range(pushes):
            op.push(rows)
        return call(op, rows)

    def kernel(self, **options: Any) -> Call:
        """Return windows over an array."""
        values = pa.array(self.random.random(self.rows))
        return lambda: kernels.sliding(values, **options)

    def slide(self) -> Call:
        """Return windows over a stream."""
        window, values = kernels.Window("max", pa.float64()), pa.array(self.random.random(self.rows))
        return lambda: window.slide(values, 1000)

    def sketch(self) -> Call:
        """Return an update of a sketch."""
        sketch, values = wk.HyperLogLog(), pa.array(self.random.integers(0, 1 << 60, 4 * self.rows))
        return lambda: sketch.update(values)

    def partition(self) -> Call:
        """Return an assignment of rows to workers."""
        partitioner, keys = partition.Partitioner(8), pa.array(self.random.integers(0, 1 << 20, self.rows))
        return lambda: partitioner.assign(keys)


def measured(name: str, made: Callable[[], Call], trials: int, random: np.random.Generator) -> pages.Record:
    """Return how long a call takes, and how long it goes on after each signal."""
    call = made()
    began = time.perf_counter()
    call()
    whole = time.perf_counter() - began
    call, late = made(), list[float]()
    while len(late) < trials:
        after = whole * random.uniform(0.02, 0.8)
        # What is raised within a callback of the garbage collector is not raised by the call.
        gc.disable()
        began = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            call()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Stop:
            late.append(time.perf_counter() - began - after)
            # A signal that came late may have found that the call had taken effect.
            call = made()
        else:
            # The machine was faster this time.
            whole = min(whole, time.perf_counter() - began)
            call = made()
        finally:
            gc.enable()
    return {"call": name, "whole": whole, "late": late}


def page(output: object, facts: pages.Record, records: list[pages.Record]) -> str:
    """Return the page."""
    soon, at_last = (sum(max(each["late"]) <= limit for each in records) for limit in LIMITS)
    lines = [
        "# How soon calls notice Ctrl-C",
        "",
        "Written by `benchmarks/interrupts.py`: each call is made with a signal at a random moment of it. "
        "*After the signal* is the time until the exception is raised. In that time a push also rolls back "
        "what it has done, which takes the longer, the more it was, or commits it, where the signal comes "
        "too late to end it.",
        "",
        *pages.listed(facts),
        "",
        f"**Of {len(records)} calls, {soon} never took more than {LIMITS[0]:g} s to notice it, and {at_last} "
        f"never more than {LIMITS[1]:g} s.**",
        "",
        pages.header("call", "whole (s)", "after the signal, median (s)", "worst (s)"),
    ]
    for each in records:
        cells = (each["whole"], median(each["late"]), max(each["late"]))
        lines.append(pages.row(each["call"], *(f"{cell:.3f}" for cell in cells)))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and print or write a page."""
    parser = argparse.ArgumentParser(description="How soon calls notice a signal.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="in a call")
    parser.add_argument("--trials", type=int, default=9, help="signals for each call")
    parser.add_argument("--cells", nargs="*", help="only calls with one of these in their names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "interrupts")
    options = parser.parse_args()
    if options.page:
        pages.write(options.output, page)
        return
    signal.signal(signal.SIGALRM, stop)
    random, records = np.random.default_rng(options.seed), list[pages.Record]()
    for name, made in Cells(options.rows, options.seed).all().items():
        if options.cells is None or any(part in name for part in options.cells):
            records.append(measured(name, made, options.trials, random))
            late = sorted(records[-1]["late"])
            said = f"noticed after {late[0]:.3f} to {late[-1]:.3f} s"
            print(f"{name}: {records[-1]['whole']:.3f} s whole; {said}", flush=True)
    if options.record:
        facts = pages.machine(["pyarrow", "numpy"]) | {
            "settings": f"{options.rows:,} rows in a call, {options.trials} signals each, seed {options.seed}"
        }
        pages.keep(options.output, facts, records)
        pages.write(options.output, page)


if __name__ == "__main__":
    main()
