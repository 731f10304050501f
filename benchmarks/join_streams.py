#!/usr/bin/env python3
"""Joins of streams as rows come, against joins that keep their order: Li 2008, Figs. 7-6, 7-7, 8-9 and 8-10.

    python benchmarks/join_streams.py                  # some minutes
    python benchmarks/join_streams.py --figures 8-10   # some of it
    python benchmarks/join_streams.py --quick --output target/bench/join_streams.md  # less data: some seconds

*Memory* is the most that a side held after any step: what its operators report, and the Arrow buffers of
rows that wait. *Delay* is the stream's own time from the arrival of the later partner until the pair is
counted, the median over all pairs. Both depend on the data alone. All sides must give the same counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pages
import pyarrow as pa
import pyarrow.compute as pc
from pages import Record

import windowkit as wk

STEP = 100
"""Milliseconds of a stream that arrive in one batch; its watermark follows."""
FLOWS = 20_000
"""Keys: pairs of addresses, of which some have far more packets than others."""
SIDE = pa.schema({"flow": pa.int64(), "ts": pa.int64(), "arrival": pa.int64()})


class Batch(NamedTuple):
    """What arrives of one source in one step: rows, and how far the source is complete then."""

    left: bool
    source: str
    rows: pa.Table
    watermark: int


def source(
    name: str, left: bool, seconds: int, rate: float, delay: int, seed: int
) -> Iterator[tuple[int, Batch]]:
    """Yield the batches of a source with the times at which they arrive: its rows come `delay` ms late."""
    random = np.random.default_rng(seed)
    for begin in range(0, 1000 * seconds, STEP):
        count = random.poisson(rate * STEP / 1000)
        times = np.sort(random.integers(begin, begin + STEP, count))
        flows = (FLOWS * random.random(count) ** 3).astype(np.int64)
        arrival = begin + STEP + delay
        columns = {"flow": flows, "ts": times, "arrival": np.full(count, arrival)}
        yield arrival, Batch(left, name, pa.table(columns, schema=SIDE), begin + STEP)


def arrivals(*sources: Iterator[tuple[int, Batch]]) -> list[tuple[int, Batch]]:
    """Return the batches of several sources in order of arrival."""
    return sorted((each for own in sources for each in own), key=lambda each: (each[0], each[1].source))


class Progress:
    """The watermark of a union of sources: the least of theirs (Meld)."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._of = dict.fromkeys(sources, 0)

    def moved(self, name: str, watermark: int) -> int:
        """Return the union's watermark once a source has this one."""
        self._of[name] = watermark
        return min(self._of.values())


class Buffer:
    """Rows that wait until none can come before them, and then leave in order of time."""

    def __init__(self, time: str) -> None:
        self._time = time
        # With the first and the last time of each table.
        self._waiting = list[tuple[int, int, pa.Table]]()
        self.bytes = 0

    def add(self, rows: pa.Table) -> None:
        """Let rows wait."""
        if rows.num_rows:
            first, last = pc.min_max(rows[self._time]).as_py().values()
            self._waiting.append((first, last, rows))
            self.bytes += rows.nbytes

    def before(self, watermark: int) -> pa.Table | None:
        """Return the rows before a time, in order, and let go of them."""
        ready = [rows for first, _, rows in self._waiting if first < watermark]
        if not ready:
            return None
        parted = [rows for first, last, rows in self._waiting if first < watermark <= last]
        self._waiting = [each for each in self._waiting if each[0] >= watermark]
        self.bytes = sum(rows.nbytes for _, _, rows in self._waiting)
        for rows in parted:
            # A slice would hold the memory of all rows.
            self.add(rows.filter(pc.greater_equal(rows[self._time], watermark)))
        rows = pa.concat_tables(ready)
        return rows.filter(pc.less(rows[self._time], watermark)).sort_by(self._time)


class Join:
    """A join of two streams that takes rows as they come (OA-Join), and a count of pairs behind it."""

    def __init__(self, join: wk.Join) -> None:
        self.op = join.operator(SIDE, SIDE)
        self.pairs, self.most, self.delays = 0, 0, list[Any]()
        # Pairs by the minute of their left row; only bands tell that time.
        counted = wk.query(by=[], time="ts", windows=wk.tumbling(60_000), aggs=[wk.count().alias("pairs")])
        self.count = counted.operator(order="out-of-order", schema=self.op.schema)
        self.counts = list[pa.Table]()

    def step(self, now: int, batch: Batch, watermark: int) -> None:
        """Take what has arrived."""
        self.push(now, batch.left, batch.rows)
        self.advance(now, batch.left, watermark)
        self.look()

    def push(self, now: int, left: bool, rows: pa.Table | None) -> None:
        """Hand rows to the join."""
        if rows is not None and rows.num_rows:
            self.emit(now, self.op.push_left(rows) if left else self.op.push_right(rows))

    def advance(self, now: int, left: bool, watermark: int) -> None:
        """Hand progress to the join, and the join's own to the count."""
        self.emit(now, self.op.advance_left(watermark) if left else self.op.advance_right(watermark))
        own = self.op.watermarks.left
        if own is not None:
            self.ready(now, own.as_py())

    def emit(self, now: int, pairs: pa.Table) -> None:
        """Take pairs from the join."""
        self.hand_on(now, pairs)

    def ready(self, now: int, watermark: int) -> None:
        """Learn how far pairs are complete."""
        self.counts.append(self.count.advance(watermark))

    def hand_on(self, now: int, pairs: pa.Table | None) -> None:
        """Count pairs."""
        if pairs is None or not pairs.num_rows:
            return
        self.pairs += pairs.num_rows
        later = pc.max_element_wise(pairs["arrival"], pairs["arrival_right"])
        self.delays.append(pc.subtract(now, later).to_numpy())
        self.counts.append(self.count.push(pairs))

    @property
    def bytes(self) -> int:
        """What is held now."""
        return self.op.stats().bytes + self.count.stats().bytes

    def look(self) -> None:
        """Note how much is held."""
        self.most = max(self.most, self.bytes)

    def end(self, now: int) -> None:
        """Take the end of both sides."""
        self.emit(now, self.op.close())
        self.ready(now, 2**40)

    def answer(self) -> list[tuple[int, int]]:
        """Return the pairs of each minute."""
        rows = (row for table in self.counts for row in table.to_pylist())
        return sorted((row["window_start"], row["pairs"]) for row in rows)


class OutputBuffered(Join):
    """A join whose pairs are sorted by the left time before they are handed on (OPOB-Join)."""

    def __init__(self, join: wk.Join) -> None:
        super().__init__(join)
        self.buffer = Buffer("ts")

    def emit(self, now: int, pairs: pa.Table) -> None:
        """Let pairs wait."""
        self.buffer.add(pairs)

    def ready(self, now: int, watermark: int) -> None:
        """Hand on the pairs that no other can precede."""
        self.look()
        self.hand_on(now, self.buffer.before(watermark))
        super().ready(now, watermark)

    @property
    def bytes(self) -> int:
        """What is held now, with the pairs that wait."""
        return super().bytes + self.buffer.bytes


class InputBuffered(Join):
    """A join whose left rows wait until all their partners are there (OPIB-Join)."""

    def __init__(self, join: wk.Join) -> None:
        super().__init__(join)
        assert join.within is not None
        self.reach = int(join.within[1])  # type: ignore[arg-type]
        self.buffer, self.left, self.right = Buffer("ts"), 0, 0

    def step(self, now: int, batch: Batch, watermark: int) -> None:
        """Take what has arrived: of the right side at once, of the left side once it is ready."""
        if batch.left:
            self.buffer.add(batch.rows)
            self.left = watermark
        else:
            self.push(now, False, batch.rows)
            self.right = watermark
            self.advance(now, False, watermark)
        ready = min(self.left, self.right - self.reach)
        self.look()
        if ready > 0:
            self.push(now, True, self.buffer.before(ready))
            self.advance(now, True, ready)
        self.look()

    def end(self, now: int) -> None:
        """Take the end of both sides."""
        self.push(now, True, self.buffer.before(2**40))
        super().end(now)

    @property
    def bytes(self) -> int:
        """What is held now, with the left rows that wait."""
        return super().bytes + self.buffer.bytes


class InOrder(Join):
    """In-order processing (§8.2): the sources of a side are merged in order before the join sees them."""

    def __init__(self, join: wk.Join) -> None:
        super().__init__(join)
        self.buffers = {True: Buffer("ts"), False: Buffer("ts")}

    def step(self, now: int, batch: Batch, watermark: int) -> None:
        """Let rows wait for those of the other sources."""
        buffer = self.buffers[batch.left]
        buffer.add(batch.rows)
        self.look()
        super().step(now, batch._replace(rows=buffer.before(watermark) or SIDE.empty_table()), watermark)

    def end(self, now: int) -> None:
        """Take the end of both sides."""
        for left, buffer in self.buffers.items():
            self.push(now, left, buffer.before(2**40))
        super().end(now)

    @property
    def bytes(self) -> int:
        """What is held now, with the rows that wait."""
        return super().bytes + sum(buffer.bytes for buffer in self.buffers.values())


class Figure(NamedTuple):
    """An experiment: what varies, over which values, by which join and data, and what its sides are."""

    title: str
    varies: str
    values: Sequence[int]
    join: Callable[[int], wk.Join]
    data: Callable[[int, int], list[tuple[int, Batch]]]
    sides: dict[str, type[Join]]


def band(reach: int) -> wk.Join:
    """Q7-2: packets of a flow in both directions, within some seconds."""
    return wk.join(by="flow", left_time="ts", right_time="ts", within=(1000 * reach, 1000 * reach))


def tumbling(seconds: int) -> Callable[[int], wk.Join]:
    """Q8-3 and Q8-4: packets of a flow in both directions, in the same window."""
    return lambda _: wk.join(by="flow", left_time="ts", right_time="ts", windows=wk.tumbling(1000 * seconds))


FIGURES = {
    "7-6": Figure(
        "Figs. 7-6 and 7-7: a band join and a count of pairs each minute, by the reach of the band",
        "reach, s",
        (1, 3, 5, 7, 9),
        band,
        lambda _, scale: arrivals(
            source("M1", True, 120 // scale, 1000, 0, 1), source("M2", False, 120 // scale, 1000, 0, 2)
        ),
        {"as they come": Join, "sorted output": OutputBuffered, "waiting input": InputBuffered},
    ),
    "8-9": Figure(
        "Fig. 8-9: a join by windows of 10 seconds, by how far one source of each side is behind the other",
        "skew, s",
        (0, 20, 50, 100),
        tumbling(10),
        lambda skew, scale: arrivals(
            *(
                source(name, name in "AB", 200 // scale, 500, 1000 * skew * (name in "BD"), seed)
                for seed, name in enumerate("ABCD")
            )
        ),
        {"as they come": Join, "in order": InOrder},
    ),
    "8-10": Figure(
        "Fig. 8-10: a join by windows of a minute, by how late a sparse source of the right side is",
        "delay, s",
        (0, 2, 5, 10),
        tumbling(60),
        lambda delay, scale: arrivals(
            source("M1", True, 150 // scale, 1000, 0, 1),
            source("M2", False, 150 // scale, 1000, 0, 2),
            source("C", False, 150 // scale, 1, 1000 * delay, 3),
        ),
        {"as they come": Join, "in order": InOrder},
    ),
}


def measured(figure: Figure, value: int, scale: int) -> dict[str, Record]:
    """Run all sides over the same arrivals."""
    steps = figure.data(value, scale)
    found, answers = dict[str, Record](), dict[str, Any]()
    for name, side in figure.sides.items():
        this = side(figure.join(value))
        progress = {
            left: Progress([*{b.source for _, b in steps if b.left is left}]) for left in (True, False)
        }
        began = time.process_time()
        for now, batch in steps:
            this.step(now, batch, progress[batch.left].moved(batch.source, batch.watermark))
        this.end(steps[-1][0])
        seconds = time.process_time() - began
        answers[name] = this.answer()
        delays = np.concatenate(this.delays) if this.delays else np.zeros(1)
        found[name] = {
            "pairs": this.pairs,
            "bytes": this.most,
            "delay": float(np.median(delays)) / 1000,
            "seconds": round(seconds, 3),
        }
    if len({str(answer) for answer in answers.values()}) > 1:
        sys.exit(f"the sides differ at {value}: {answers}")
    return found


def main() -> None:
    """Measure, and write a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", nargs="+", choices=[*FIGURES], default=[*FIGURES])
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    pages.add_arguments(parser, "join_streams")
    options = parser.parse_args()
    if options.quick and options.output == pages.FOLDER / "join_streams.md":
        parser.error("--quick: give --output, too, as less data does not belong on the page of the whole")
    if not options.page:
        records = [each for each in pages.read(options.output)[1] if each["figure"] not in options.figures]
        for name in options.figures:
            for value in FIGURES[name].values:
                sides = measured(FIGURES[name], value, 10 if options.quick else 1)
                print(name, value, sides, flush=True)
                records.append({"figure": name, "value": value, "sides": sides})
        pages.keep(options.output, pages.machine(["pyarrow"]), records)
    pages.write(options.output, page)


def claims(records: Sequence[Record]) -> list[str]:
    """Return what the last record of each figure, that of the most disorder or the widest band, shows."""
    last = {record["figure"]: record["sides"] for record in records}

    def ratio(figure: str, side: str, unit: str) -> str:
        return f"{last[figure][side][unit] / last[figure]['as they come'][unit]:.1f}"

    return [
        "Figs. 7-6 and 7-7, as in the paper: at the widest band, sorting the pairs takes "
        f"{ratio('7-6', 'sorted output', 'bytes')} times the memory and "
        f"{ratio('7-6', 'sorted output', 'seconds')} times the CPU time; letting left rows wait takes no "
        "less memory. Both delay pairs by about the reach of the band.",
        "Fig. 8-9: the further one source of each side is behind the other, the more rows have to be held "
        "until it has caught up, as many either way. The paper's join takes up to 20 % more memory than rows "
        f"that wait in order, and calls it structure; here these take {ratio('8-9', 'in order', 'bytes')} "
        "times the memory of the join, as they wait in Arrow buffers without any, while the join has found "
        f"their partners meanwhile; but in order takes {ratio('8-9', 'in order', 'seconds')} times the CPU "
        "time.",
        "Fig. 8-10: the paper's join in order takes more memory the later a sparse source is. Here both take "
        "the same, as the rows of a window of a minute outweigh what waits for ten seconds; but it delays "
        "all pairs of the join in order, and none of one that takes rows as they come.",
    ]


def page(output: object, facts: Record, records: Sequence[Record]) -> str:
    """Return the page."""
    lines = [
        "# Joins of streams: rows as they come, and in order",
        "",
        "Written by `benchmarks/join_streams.py`. The experiments are those of Li, *Window Queries over Data "
        "Streams* (2008), in shape: packets of flows in two streams are joined, and pairs are counted by the "
        "minute. All sides run windowkit's operators; they differ in where rows wait. *As they come* "
        "(OA-Join, OOP): nowhere but in the join. *Sorted output* (OPOB-Join): pairs are sorted by the time "
        "of their left row. *Waiting input* (OPIB-Join): left rows go into the join when all of their "
        "partners are there, which has the same effect. *In order* (IOP): each input of the join waits for "
        "the slowest of its sources, and is sorted.",
        "",
        *pages.listed(facts),
        "",
        "*MB* is the most that was held after any step: what the operators report, and the Arrow buffers of "
        "rows that wait. *Delay* is the stream's own time from the arrival of the later partner until the "
        "pair is counted, the median over all pairs. Both depend on the data alone. *CPU s* is one run.",
        "",
    ]
    lines += [f"- {claim}" for claim in claims(records)] + [""]
    for name, figure in FIGURES.items():
        own = [record for record in records if record["figure"] == name]
        heads = [f"{side}: {unit}" for unit in ("MB", "delay, s", "CPU s") for side in figure.sides]
        lines += [f"## {figure.title}", "", pages.header(figure.varies, "pairs", *heads, left=0)]
        for record in own:
            sides = [record["sides"][side] for side in figure.sides]
            cells = [f"{side['bytes'] / 1e6:.2f}" for side in sides]
            cells += [f"{side[unit]:.1f}" for unit in ("delay", "seconds") for side in sides]
            lines.append(pages.row(record["value"], f"{sides[0]['pairs']:,}", *cells))
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
