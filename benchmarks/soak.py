"""Whether memory is flat: streams and batches for an hour, with whatever may happen to them.

Some operators live as long as the run does: of queries, of joins of two streams, and of streams without
duplicates. In turn each gets rows, of keys that come and go, some of them late or without a time; queries are
added and removed, late rows taken, calls refused or interrupted, and user-defined functions raise. Now and
then an operator is replaced by one restored from its snapshot. Between them, tables are aggregated by the
batch engine, and kernels, sketches and partitioners get their share.

Every ten seconds the resident memory of the process is noted, and what operators say that they hold. After a
warm-up, a line is fitted to either; the run fails if one of them rises by more than the bound allows.
Everything is on one thread.

    python benchmarks/soak.py --minutes 60 --record
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pages
import pyarrow as pa
import pyarrow.compute as pc
from soak_sides import Sides, sides

import windowkit as wk
from windowkit import kernels

T = TypeVar("T")

ROWS = 4_000
"""Of a batch."""
SPAN = 1_000
"""Of the times of a batch."""
EVERY = 10
"""Seconds between samples."""
SHOWN = 300
"""Seconds between the samples that the page shows."""
WARM_UP = 1 / 6
"""Of the run, in which memory may still grow."""
BOUND = 16
"""MiB that memory may grow by in an hour."""


class Injected(Exception):  # noqa: N818 (its name says what it is)
    """What a user-defined function raises."""


class Stop(BaseException):
    """What a signal raises; not an Exception, which a user-defined function would be said to have raised."""


class Trouble:
    """Failures of user-defined functions, and signals in the middle of calls."""

    def __init__(self, random: Random) -> None:
        self.random, self.armed, self.failing = random, False, 0
        self.interrupted = self.failed = self.refused = 0

    def tick(self) -> None:
        """Fail, if this call of a user-defined function is the one to fail."""
        self.failing -= 1
        if self.failing == 0:
            raise Injected

    def handle(self, number: int, frame: object) -> None:
        """Interrupt the call that is made."""
        if self.armed:
            raise Stop

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Handle signals here."""
        before = signal.signal(signal.SIGALRM, self.handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, before)

    def surely(self, call: Callable[[], T], op: Any = None) -> T:
        """Make a call until it takes effect; what a signal took of a call of `op` is asked for again."""
        while True:
            chance = self.random.random()
            made = 0 if op is None else op.calls
            try:
                if chance < 0.1:
                    self.failing = self.random.randint(1, 30)
                    return call()
                if chance < 0.2:
                    return self.interrupting(call)
                return call()
            except Stop:
                self.interrupted += 1
                if op is not None and op.calls > made:
                    return op.last()
            except wk.InvalidValue as error:
                if not isinstance(error.__cause__, Injected):
                    raise
                self.failed += 1
            finally:
                self.failing = 0

    def interrupting(self, call: Callable[[], T]) -> T:
        """Return the result of a call, unless a signal ends it."""
        # What is raised within a callback of the garbage collector is not raised by the call.
        gc.disable()
        signal.setitimer(signal.ITIMER_REAL, 10 ** self.random.uniform(-5, -1.5))
        try:
            self.armed = True
            # From CPython 3.11 on, no signal is handled between the call's return and the next line's end.
            result = call()
            self.armed = False
        finally:
            self.armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            gc.enable()
        return result

    def refuse(self, call: Callable[[], object]) -> None:
        """Make a call that is refused."""
        try:
            call()
        except wk.WindowKitError:
            self.refused += 1
        else:
            raise AssertionError("it was not refused")


def total(trouble: Trouble) -> wk.Aggregate:
    """Return a sum that fails at times."""

    def combine(a: pa.Array, b: pa.Array) -> pa.Array:
        trouble.tick()
        return pc.add(a, b)

    return wk.aggregate("total", lift=lambda i: i, combine=combine, lower=lambda s: s, commutative=True)("i")


def joined(trouble: Trouble) -> wk.Aggregate:
    """Return a function that depends on the order of rows, so that these are kept."""

    def combine(a: pa.Array, b: pa.Array) -> pa.Array:
        trouble.tick()
        return pc.binary_join_element_wise(a, b, "")

    def lift(i: pa.Array) -> pa.Array:
        return pc.cast(pc.bit_wise_and(i, 7), pa.string())

    return wk.aggregate("joined", lift=lift, combine=combine, lower=lambda s: s)("i")


class Shifts(wk.ContextFree):
    """A user's windows: of 70 units and of 150, by turns."""

    longest = 150

    def next_edge(self, t: int) -> int:
        """Return the first edge after a time."""
        return min(edge for window in self.near(t, t + 400) for edge in window if edge > t)

    def windows(self, since: int, until: int) -> list[tuple[int, int]]:
        """Return the windows that end in a stretch of time."""
        return [(start, end) for start, end in self.near(since, until) if since < end <= until]

    @staticmethod
    def near(since: int, until: int) -> Iterator[tuple[int, int]]:
        """Yield the windows around it."""
        for number in range(since // 200 - 2, until // 200 + 2):
            yield 200 * number, 200 * number + 70
            yield 200 * number + 30, 200 * number + 180


class Kind(NamedTuple):
    """A kind of stream: a query, those that come and go, how rows come, and whether keys return."""

    query: wk.Query
    others: list[wk.Query]
    order: str = "out-of-order"
    returning: bool = False
    processing: bool = False


def kinds(trouble: Trouble) -> dict[str, Kind]:
    """Return the kinds of streams."""

    def asked(windows: Any, *aggs: wk.Aggregate, by: Any = "k", time: str = "t") -> wk.Query:
        return wk.query(by=by, time=time, windows=windows, aggs=list(aggs))

    count, user = wk.count(), [total(trouble), joined(trouble)]
    sums = [wk.sum("i"), wk.avg("v"), wk.min("v"), wk.stddev("v").where("b"), wk.first("s")]
    holistic = [wk.median("v"), wk.count_distinct("i"), wk.max("s"), wk.approx_count_distinct("s")]
    texts = [wk.arg_max("s", by="v"), wk.mode("i"), wk.collect_list("s").where("b")]
    return {
        "slices": Kind(
            asked([wk.sliding(600, 60), wk.tumbling(1000)], count, *sums),
            [asked(wk.sliding(5000, 500), *holistic), asked(wk.landmark(100, period=2000), *sums)],
        ),
        "sessions": Kind(
            asked(wk.session(15), count, *holistic),
            [asked(wk.tumbling(50), *sums), asked(wk.sliding(90, 30), *texts)],
        ),
        "two keys": Kind(asked(wk.sliding(300, 50), count, *texts, by=["k", "s"]), []),
        # Windows by rows wait for the rows of a key for ever; so keys return.
        "rows": Kind(
            asked([wk.tumbling(rows=7), wk.sliding("20 rows", "2 rows")], count, *sums),
            [asked(wk.sliding("5 rows", 100), *texts), asked(wk.tumbling(rows=50), *holistic)],
            returning=True,
        ),
        "users'": Kind(asked(wk.custom(Shifts()), count, *user), [asked(wk.sliding(300, 100), *user)]),
        "marks": Kind(asked(wk.punctuation("done"), count, *sums), [], returning=True),
        "in order": Kind(
            asked(wk.sliding(500, 10), count, *sums),
            [asked(wk.session(20), wk.m4("v")), asked(wk.tumbling(rows=20), *user)],
            order="in-order",
            returning=True,
        ),
        "processing time": Kind(
            asked(wk.tumbling("1 millisecond"), count, *sums, time=wk.PROCESSING_TIME),
            [],
            order="in-order",
            processing=True,
        ),
    }


class Rows:
    """Rows of any turn."""

    def __init__(self, seed: int) -> None:
        self.numbers = np.random.default_rng(seed)

    def table(self, turn: int, kind: Kind) -> pa.Table:
        """Return the rows of a turn, whose keys are others than those of a hundred turns later."""
        numbers = self.numbers
        times = turn * SPAN + np.sort(numbers.integers(0, SPAN, ROWS))
        if kind.order == "out-of-order":
            times -= np.where(numbers.random(ROWS) < 0.3, numbers.integers(0, SPAN // 2, ROWS), 0)
            times -= np.where(numbers.random(ROWS) < 0.01, numbers.integers(0, 20 * SPAN, ROWS), 0)
        keys = numbers.integers(0, 40, ROWS) if kind.returning else 5 * turn + numbers.integers(0, 500, ROWS)
        integers = numbers.integers(-1000, 1000, ROWS)
        floats = np.where(numbers.random(ROWS) < 0.01, np.nan, numbers.random(ROWS))
        columns = {
            "k": pc.binary_join_element_wise("a key that is a text ", pc.cast(keys, pa.string()), ""),
            "t": pa.array(times, mask=numbers.random(ROWS) < 0.001),
            "i": pa.array(integers, mask=numbers.random(ROWS) < 0.1),
            "v": pa.array(floats, mask=numbers.random(ROWS) < 0.1),
            "s": pc.binary_join_element_wise("some text of ", pc.cast(integers % 50, pa.string()), ""),
            "b": pa.array(numbers.random(ROWS) < 0.5),
            "done": pa.array(numbers.random(ROWS) < 0.01),
        }
        return pa.table({name: each for name, each in columns.items() if name != "t" or not kind.processing})


class Stream:
    """An operator that lives as long as the run, and what happens to it."""

    def __init__(self, kind: Kind, rows: Rows, trouble: Trouble) -> None:
        self.kind, self.rows, self.trouble, self.random = kind, rows, trouble, trouble.random
        self.turn = self.pushed = self.windows = self.restored = 0
        options: dict[str, Any] = {}
        if kind.order == "out-of-order":
            options = {
                "progress": wk.delay(SPAN // 2),
                "allowed_lateness": SPAN // 2,
                "late_limit": 10 * ROWS,
            }
        if kind.processing:
            options = {"clock": self.clock}
        schema = rows.table(0, kind).schema
        self.op = kind.query.operator(order=kind.order, schema=schema, **options)

    def clock(self) -> int:
        """Return the time of this turn."""
        return self.turn * SPAN

    def step(self) -> None:
        """Give the operator rows, and do something else to it."""
        self.turn += 1
        op, surely, batch = self.op, self.trouble.surely, self.rows.table(self.turn, self.kind)
        self.windows += surely(lambda: op.push(batch), op).num_rows
        self.pushed += batch.num_rows
        choice = self.random.randrange(16)
        if choice < 2:
            self.change()
        elif choice == 2:
            surely(op.take_late, op)
        elif choice == 3:
            self.restore()
        elif choice == 4 and not self.kind.processing:
            end = (self.turn + 1) * SPAN
            self.windows += surely(lambda: op.advance(end), op).num_rows
        elif choice == 5:
            self.refused()
        stats = self.op.stats()
        # A late row counts once for each query that lacks it.
        assert stats.rows <= self.pushed <= stats.rows + stats.late, "rows are lost or counted twice"

    def change(self) -> None:
        """Add a query or remove one."""
        op, others = self.op, {f"other{at}": query for at, query in enumerate(self.kind.others)}
        present = sorted(others.keys() & op.queries.keys())
        absent = sorted(others.keys() - op.queries.keys())
        if present and (not absent or self.random.random() < 0.5):
            name = self.random.choice(present)

            # A removal, or an addition, that is interrupted may have been made.
            def remove() -> None:
                if name in op.queries:
                    op.remove(name)

            self.trouble.surely(remove)
        elif absent:
            name = self.random.choice(absent)

            def add() -> None:
                if name not in op.queries:
                    op.add(others[name], name=name)

            self.trouble.surely(add)

    def restore(self) -> None:
        """Replace the operator by one that is restored from its snapshot."""
        op, surely = self.op, self.trouble.surely
        snapshot, queries = surely(op.snapshot), dict(op.queries)
        options: dict[str, Any] = {"clock": self.clock} if self.kind.processing else {}
        self.op = surely(lambda: wk.Operator.restore(snapshot, queries, **options))
        self.restored += 1

    def refused(self) -> None:
        """Make calls that are refused."""
        op, refuse = self.op, self.trouble.refuse
        batch = self.rows.table(self.turn, self.kind)
        refuse(lambda: op.push(batch.drop_columns(["v"])))
        refuse(lambda: op.push(pa.table({"t": ["x"]})))
        refuse(lambda: op.remove("none of these"))
        refuse(lambda: op.add(self.kind.query, name=next(iter(op.queries))))
        damaged = bytearray(op.snapshot())
        damaged[self.random.randrange(len(damaged))] ^= 1
        refuse(lambda: wk.Operator.restore(bytes(damaged), dict(op.queries)))
        if self.kind.order == "in-order" and not self.kind.processing:
            refuse(lambda: op.push(self.rows.table(self.turn - 2, self.kind)))


class Batches:
    """What is not a stream: tables, kernels, sketches and partitioners."""

    def __init__(self, kinds: dict[str, Kind], rows: Rows, trouble: Trouble) -> None:
        self.rows, self.trouble, self.turn = rows, trouble, 0
        self.kinds = [kind for kind in kinds.values() if not kind.processing]
        self.sketch = wk.HyperLogLog(12)
        self.partitioner = wk.partition.Partitioner(workers=8)

    def step(self) -> None:
        """Do one of each."""
        self.turn += 1
        surely, refuse, random = self.trouble.surely, self.trouble.refuse, self.trouble.random
        kind = random.choice(self.kinds)
        query = random.choice([kind.query, *kind.others])
        table = pa.concat_tables([self.rows.table(self.turn + at, kind) for at in range(4)])
        surely(lambda: query.run(table, threads=1))
        # A reader that nobody reads to its end.
        next(iter(query.batches(table, threads=1)))
        huge = pa.table({"k": ["a", "a"], "t": [1, 1], "i": [2**63 - 1, 1]})
        sums = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("i"))
        refuse(lambda: sums.run(huge, threads=1))
        refuse(lambda: query.run(table.drop_columns(["t"]), threads=1))
        values = table["v"]
        surely(lambda: kernels.sliding(values, 60, agg=random.choice(["sum", "max", "std", "mean"])))
        refuse(lambda: kernels.sliding(table["s"], 60, agg="std"))
        self.sketch.update(table["k"])
        self.sketch = wk.HyperLogLog.from_bytes(self.sketch.to_bytes()).merge(self.sketch)
        refuse(lambda: wk.HyperLogLog.from_bytes(b"none"))
        self.partitioner.assign(table["k"])
        if self.turn % 50 == 0:
            self.sketch = wk.HyperLogLog(12)
            self.partitioner = wk.partition.Partitioner.restore(self.partitioner.snapshot(), workers=8)
            self.partitioner.reset()


def resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def slope(samples: list[pages.Record], of: str) -> float:
    """Return by how much something grows in an hour, by the line with the least squared errors."""
    kept = [each for each in samples if each["seconds"] >= WARM_UP * samples[-1]["seconds"]]
    return float(np.polyfit([each["seconds"] / 3600 for each in kept], [each[of] for each in kept], 1)[0])


def soak(minutes: float, seed: int) -> list[pages.Record]:
    """Run for some time, and return the samples."""
    trouble, rows = Trouble(Random(seed)), Rows(seed)
    named = kinds(trouble)
    streams: dict[str, Stream | Sides] = {name: Stream(kind, rows, trouble) for name, kind in named.items()}
    streams |= sides(lambda turn: rows.table(turn, named["slices"]), SPAN, 10 * ROWS, trouble)
    batches = Batches(named, rows, trouble)
    began, samples = time.monotonic(), list[pages.Record]()
    with trouble.handling():
        while not samples or samples[-1]["seconds"] < 60 * minutes:
            for stream in streams.values():
                stream.step()
            batches.step()
            seconds = time.monotonic() - began
            if seconds < len(samples) * min(EVERY, 60 * minutes / 20):
                continue
            gc.collect()
            held = {name: stream.op.stats().bytes / 2**20 for name, stream in streams.items()}
            record = {
                "seconds": round(seconds, 1),
                "turns": batches.turn,
                "resident": round(resident() / 2**20, 2),
                "held": round(sum(held.values()), 3),
                "arrow": round(pa.total_allocated_bytes() / 2**20, 3),
                "rows": sum(stream.pushed for stream in streams.values()),
                "windows": sum(stream.windows for stream in streams.values()),
                "restored": sum(stream.restored for stream in streams.values()),
                "interrupted": trouble.interrupted,
                "failed": trouble.failed,
                "refused": trouble.refused,
                "each": {name: round(size, 3) for name, size in held.items()},
            }
            samples.append(record)
            print(record, flush=True)
    return samples


def verdict(samples: list[pages.Record], bound: float) -> tuple[str, bool]:
    """Return by how much memory grows, in words, and whether that is within the bound."""
    rises = {"resident": slope(samples, "resident"), "held by operators": slope(samples, "held")}
    said = ", ".join(f"{what} {rise:+.1f} MiB an hour" for what, rise in rises.items())
    return f"{said}; allowed is {bound:g}", max(rises.values()) <= bound


def page(output: Path, facts: pages.Record, samples: list[pages.Record]) -> str:
    """Return the page."""
    said, _ = verdict(samples, facts["bound"])
    last = samples[-1]
    lines = [
        "# An hour's soak",
        "",
        "Written by `benchmarks/soak.py`, whose head says what is done: streams of eleven kinds and tables, "
        "with keys and queries that come and go, late rows, restarts, and errors.",
        "",
        *pages.listed(facts),
        "",
        f"**Memory, by least squares after the first {WARM_UP * last['seconds'] / 60:.0f} minutes: {said}.**",
        "",
        f"In {last['seconds'] / 60:.0f} minutes {last['rows']:,} rows were pushed and {last['windows']:,} "
        f"windows and rows of joins returned. {last['restored']:,} operators were restored from snapshots, "
        f"{last['interrupted']:,} calls were interrupted, {last['failed']:,} failed as a user-defined "
        f"function raised, and {last['refused']:,} were refused.",
        "",
        "MiB; *resident* is the whole process, *held* is `stats().bytes` of all operators, *Arrow* what "
        "pyarrow has allocated. A turn is a batch of rows for each stream, and a table for the batch engine.",
        "",
        pages.header("minutes", "turns", "resident", "held", "Arrow", left=0),
    ]
    shown = -1.0
    for each in samples:
        if each["seconds"] // SHOWN > shown:
            shown = each["seconds"] // SHOWN
            cells = (f"{each[of]:.1f}" for of in ("resident", "held", "arrow"))
            lines.append(pages.row(f"{each['seconds'] / 60:.0f}", f"{each['turns']:,}", *cells))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, and fail if memory grows."""
    parser = argparse.ArgumentParser(description="Whether memory is flat.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--bound", type=float, default=BOUND, help="MiB an hour that memory may grow by")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="keep the samples, and write the page")
    pages.add_arguments(parser, "soak")
    options = parser.parse_args()
    if options.page:
        pages.write(options.output, page)
        return
    samples = soak(options.minutes, options.seed)
    said, flat = verdict(samples, options.bound)
    print(said)
    if options.record:
        facts = pages.machine(["pyarrow", "numpy"]) | {
            "settings": f"one thread, seed {options.seed}, samples every {EVERY} s",
            "bound": options.bound,
        }
        pages.keep(options.output, facts, samples)
        pages.write(options.output, page)
    sys.exit(0 if flat else 1)


if __name__ == "__main__":
    # Signals interrupt the main thread alone.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
