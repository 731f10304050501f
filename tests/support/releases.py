"""Snapshots as each release made them, of operators, sketches and partitioners, and what follows from them.

``python -m support.releases`` in `tests` makes those of the windowkit that is installed, and with ``next``
only those that no release has. Rows follow from their number, so that those after a snapshot are the same
whenever it is restored.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support.consumer import Held, replace
from support.failing import COMMUTATIVE, ORDERED, Rising, Terms
from support.holding import Definition, windows_of
from support.oracle_aggregates import Among, Close, RootClose
from support.plain import column
from support.releases_sides import SIDES, FollowedSides
from support.streams import AGGREGATES, MARKS, POOLS, VALUES, Threshold, scalar
from windowkit.partition import Partitioner, rows

FOLDER = Path(__file__).parents[1] / "data" / "snapshots"
NEXT = FOLDER / "next"
"""What no release has yet."""
ROWS, BATCH = 120, 12
"""Of a stream, and of a call; the snapshot is made after half of them."""


class Stream(NamedTuple):
    """An operator of queries by keys of a type over times of a type."""

    queries: list[tuple[list[wk.Window], list[wk.Aggregate]]]
    order: str = "out-of-order"
    time: pa.DataType = pa.int64()
    keys: tuple[pa.DataType, list[Any]] | None = (pa.string(), ["a", "b", None])
    store: str = "auto"
    weighted: bool = False
    """Whether some rows are taken back by rows of the next call."""
    options: Mapping[str, Any] = MappingProxyType({})
    """Of the operator."""


def named(*aggs: wk.Aggregate) -> list[wk.Aggregate]:
    return [each.alias(f"a{number}") for number, each in enumerate(aggs)]


OTHERS = (
    *("top_k", "frequent", "collect_rows", "last_valid", "m4_times", "quantile_disc"),
    *("var_pop", "var_samp", "stddev_pop", "approx_count_distinct", "hll_sketch"),
)
"""Functions that are not in the snapshots of releases, or added to them by `SKETCHES`."""
EVERY = [each for each in AGGREGATES if each.function not in OTHERS]
SKETCHES = [wk.approx_count_distinct("s"), wk.approx_quantile("i", 0.5)]
SUMS = named(wk.count(), wk.sum("i"), wk.sum("f"), wk.mean("i"))
STREAMS = {
    "tumbling-in-order": Stream([([wk.tumbling(10)], SUMS)], order="in-order"),
    "every-function": Stream(
        [([wk.sliding(20, 7).alias("a"), wk.session(3).alias("b")], named(*EVERY, *SKETCHES))]
    ),
    "eager": Stream([([wk.sliding(30, 2)], [*SUMS, wk.max("i")])], store="eager"),
    "running-totals": Stream([([wk.sliding(30, 2)], SUMS)], order="in-order", store="eager"),
    "landmarks": Stream(
        [
            (
                [wk.landmark(9, start=4).alias("start"), wk.landmark(5, period=20).alias("period")],
                [wk.sum("i"), wk.first("s")],
            ),
            ([wk.band(10, 60).alias("band"), wk.global_window().alias("all")], [wk.count().alias("n")]),
        ]
    ),
    "rows": Stream([([wk.tumbling(rows=7).alias("a"), wk.punctuation("n").alias("b")], named(*ORDERED))]),
    "determined-by-rows": Stream(
        [
            (
                [
                    wk.sliding("5 rows", "2 rows", partial="end").alias("count"),
                    wk.sliding("2 rows", 5).alias("last rows"),
                    wk.sliding(5, "2 rows").alias("last time"),
                    wk.punctuation("m", at="start").alias("marks"),
                ],
                SUMS,
            )
        ]
    ),
    "windows-of-users": Stream(
        [
            (
                [
                    wk.custom(Terms()).alias("a"),
                    wk.custom(Rising()).alias("b"),
                    wk.custom(Threshold()).alias("c"),
                ],
                SUMS,
            )
        ]
    ),
    "functions-of-users": Stream([([wk.sliding(20, 5), wk.session(4)], named(*COMMUTATIVE, *ORDERED))]),
    "both-engines": Stream(
        [([wk.session(3)], SUMS), ([wk.tumbling(rows=4)], SUMS), ([wk.tumbling(25)], SUMS)],
    ),
    "zoned-times": Stream(
        [([wk.sliding("20 seconds", "7 seconds")], SUMS)], time=pa.timestamp("us", "UTC"), keys=None
    ),
    "dates": Stream(
        [([wk.tumbling("1 week"), wk.session("3 days")], [wk.count(), wk.max("d"), wk.mode("d")])],
        time=pa.date32(),
        keys=(pa.dictionary(pa.int8(), pa.string()), ["x", "y", None]),
    ),
    "keys-of-floats": Stream(
        [([wk.tumbling(10)], SUMS)], order="in-order", keys=(pa.float64(), [0.5, -0.0, float("nan")])
    ),
    "weights": Stream(
        [([wk.sliding(20, 7), wk.tumbling(9)], [*SUMS, wk.median("i").alias("middle")])], weighted=True
    ),
    "early-accumulating": Stream(
        [([wk.sliding(20, 7), wk.session(3)], SUMS)],
        options={"emit": wk.emit(wk.rows(2).then(wk.every(4)).repeat(), "accumulating")},
    ),
    "early-retracting": Stream(
        [([wk.sliding(20, 7).alias("a"), wk.tumbling(rows=5).alias("b")], SUMS)],
        options={"emit": wk.emit(wk.rows(3) | wk.on("m"), "retracting")},
    ),
    # Of so much memory that nothing is dropped.
    "shedding": Stream([([wk.sliding(20, 7)], SUMS)], options={"shed": wk.shed("1 GB", seed=7)}),
}


UNITS = {pa.timestamp("us", "UTC"): 10**6}
"""A second, or the unit of the time column."""


def schema_of(stream: Stream) -> pa.Schema:
    kinds = {"t": stream.time} | {name: kind for name, (kind, _) in (VALUES | MARKS).items()}
    kinds |= {"w": pa.int8()} if stream.weighted else {}
    return pa.schema(kinds if stream.keys is None else {"k": stream.keys[0], **kinds})


def is_taken_back(row: int) -> bool:
    """Whether a row is taken back by one of the next call, if rows have weights."""
    return row % 8 == 0 and row % 29 != 17 and row + BATCH < ROWS


def batches(stream: Stream) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield rows, mostly in order, with nulls here and there; and those of them that count in the end."""
    schema = schema_of(stream)
    unit = UNITS.get(stream.time, 1)
    earlier = schema.empty_table()
    for first in range(0, ROWS, BATCH):
        columns: dict[str, list[Any]] = {name: [] for name in schema.names}
        for row in range(first, first + BATCH):
            back = 0 if stream.order == "in-order" else [0, 0, 0, 3, 0, 0, 11, 0][row % 8]
            for at, (name, values) in enumerate(columns.items()):
                if name == "t":
                    values.append(None if row % 29 == 17 else (row * 3 // 4 - 20 - back) * unit)
                elif name == "k":
                    assert stream.keys is not None
                    values.append(stream.keys[1][row * row % 7 % 3])
                elif name == "w":
                    values.append(1)
                else:
                    pool = POOLS.get(name, [False, True, False, False])
                    values.append(None if name != "n" and (row + at) % 13 == 5 else pool[row * 7 % len(pool)])
        arrays = {name: column(values, schema.field(name).type) for name, values in columns.items()}
        batch = pa.table(arrays, schema=schema)
        if not stream.weighted:
            yield batch, batch
            continue
        remain = [not is_taken_back(row) for row in range(first, first + BATCH)]
        yield pa.concat_tables([batch, earlier]), batch.filter(pa.array(remain))
        earlier = batch.filter(pa.array([not each for each in remain]))
        earlier = earlier.set_column(len(schema) - 1, "w", pa.array([-1] * len(earlier), pa.int8()))


class Followed:
    """A stream that is followed by its definition and by a consumer."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.schema = stream, schema_of(stream)
        by = [] if stream.keys is None else ["k"]
        lateness: dict[str, Any] = {}
        weight = "w" if stream.weighted else None
        if stream.order == "out-of-order":
            lateness = {"allowed_lateness": 1000 if pa.types.is_integer(stream.time) else "1000 days"}
        first, *others = (
            wk.query(by=by, time="t", windows=windows, aggs=aggs, weight=weight)
            for windows, aggs in stream.queries
        )
        self.op = first.operator(
            order=stream.order, schema=self.schema, store=stream.store, **lateness, **stream.options
        )
        # In units of any time column it is more than a row is late. It is given the rows that remain.
        self.definition = Definition(
            "q1",
            dataclasses.replace(first, weight=None),
            self.schema,
            order=stream.order,
            allowed_lateness=10**12 if lateness else 0,
        )
        for other in others:
            self.definition.add(self.op.add(other), other)
        self.held: Held = {}

    def go(self, beginning: int, end: int) -> None:
        """Push some of the batches; where rows are out of order, each is followed by a watermark."""
        for batch, counted in list(batches(self.stream))[beginning:end]:
            self.take(self.op.push(batch))
            self.definition.push(counted)
            if self.stream.order == "out-of-order" and self.definition.latest is not None:
                behind = self.definition.latest - 15 * UNITS.get(self.stream.time, 1)
                self.take(self.op.advance(scalar(behind, self.stream.time)))
                self.definition.advance(behind)

    def close(self) -> None:
        self.take(self.op.close())
        self.definition.close()

    def take(self, emitted: pa.Table) -> None:
        replace(self.held, emitted, self.op.queries, self.stream.time)

    def windows(self) -> list[Any]:
        """Return what the consumer holds, as JSON does."""
        return plainly(windows_of(self.held))


def plainly(value: Any) -> Any:
    """Return a value of an oracle as JSON has it."""
    if isinstance(value, Close):
        return value.value
    if isinstance(value, RootClose):
        return math.sqrt(value.square.value)
    if isinstance(value, Among):
        return {"any of": plainly(value.values)}
    if isinstance(value, list | tuple):
        return [plainly(each) for each in value]
    return {name: plainly(each) for name, each in value.items()} if isinstance(value, dict) else value


COUNTS = {"few": 5, "some": 100, "many": 5000}
"""Distinct values of sketches: as a list, as a set and as registers."""
PARTITIONERS: dict[str, dict[str, Any]] = {
    "waterfill": {"method": "waterfill"},
    "partial-key": {"method": "partial-key", "seed": 3},
    "cam": {"method": "cam", "cardinality": "filter", "window": rows(1000)},
    "lm": {"method": "lm", "cardinality": "exact"},
}


def keys_of(first: int, end: int) -> pa.Array:
    """Return keys, few of which are frequent."""
    return pa.array([f"key {row * row % 97 % (1 + row % 40)}" for row in range(first, end)])


def partitioner(options: dict[str, Any]) -> Partitioner:
    made = Partitioner(4, **options)
    made.assign(keys_of(0, 600))
    return made


def make(folder: Path) -> None:
    """Write the snapshots of the windowkit that is installed, and what must follow from them."""
    folder.mkdir(parents=True)
    make_operators(folder, set())
    for name, count in COUNTS.items():
        for bits in (8, 6, 4):
            sketch = wk.HyperLogLog(12)
            sketch.update(pa.array([f"value {number}" for number in range(count)]))
            (folder / f"{name}-of-{bits}-bits.hll").write_bytes(sketch.to_bytes(bits))
    for name, options in PARTITIONERS.items():
        made = partitioner(options)
        (folder / f"{name}.partitioner").write_bytes(made.snapshot())
        write(folder / f"{name}.workers.json", made.assign(keys_of(600, 900)).to_pylist())


def make_operators(folder: Path, known: set[str]) -> None:
    """Write the snapshots of operators, but for those that are known."""
    for name in (name for name in STREAMS if name not in known):
        followed = Followed(STREAMS[name])
        followed.go(0, ROWS // BATCH // 2)
        (folder / f"{name}.operator").write_bytes(followed.op.snapshot())
        followed.go(ROWS // BATCH // 2, ROWS // BATCH)
        followed.close()
        followed.definition.check(followed.held)
        write(folder / f"{name}.json", plainly(followed.definition.final_windows()[0]))
    for name in (name for name in SIDES if name not in known):
        sides = FollowedSides(name)
        sides.go_half()
        (folder / f"{name}.sides").write_bytes(sides.op.snapshot())
        write(folder / f"{name}.json", sides.rest())


def known_names() -> set[str]:
    """Return the names of the operators of which some release has snapshots."""
    return {path.stem for path in FOLDER.glob("[0-9]*/*") if path.suffix in (".operator", ".sides")}


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["next"]:
        NEXT.mkdir(exist_ok=True)
        make_operators(NEXT, known_names())
    else:
        make(FOLDER / wk.__version__)
