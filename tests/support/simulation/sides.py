"""Operators of one stream or two, of which each row is a result or has partners, simulated."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from support.failing import FAILURE
from support.joins import Row, plain
from support.plain import column
from support.simulation.disturbances import assert_like
from support.simulation.run import Run
from support.simulation.step import KEYS_OF, STEPS, Step
from support.streams import scalar

ATTEMPTS = ["snapshot", "snapshot", "restart", "kill", "check", "refused"]
LATEST = 100
"""A time that all types can hold, and watermarks after it."""


class Side(NamedTuple):
    """A stream of rows."""

    name: str
    """What the names of its calls end with."""
    schema: pa.Schema
    """Keys, a time, and the number of the row."""

    @property
    def keys(self) -> list[str]:
        return self.schema.names[:-2]

    @property
    def time(self) -> str:
        return self.schema.names[-2]


class Saved(NamedTuple):
    """A snapshot of the operator, and what the definition and the consumer were then."""

    snapshot: bytes | None
    model: Any
    out: Counter[Any]
    late: tuple[list[int], ...]
    marks: list[Any]


class SideRun(Run):
    """An operator whose rows have numbers, of which the results consist."""

    model: Any
    saved: Saved

    def __init__(self, random: Random, log: Callable[[str], None], sides: list[Side]) -> None:
        super().__init__(log)
        self.random, self.sides = random, sides
        self.number, self.now = random.randint(5, STEPS), 0
        # Keys and times of all rows that were drawn, by side and number.
        self.rows: list[list[Row]] = [[] for _ in sides]
        self.out, self.late = Counter[Any](), tuple(list[int]() for _ in sides)
        # What was announced of results to come.
        self.marks: list[Any] = []
        self.op = self.new()
        self.saved = self.save(None)

    @abstractmethod
    def new(self) -> Any:
        """Return the operator that the run begins with."""

    @abstractmethod
    def push(self, side: int, rows: list[tuple[int, Row]]) -> None:
        """Let the definition take rows."""

    @abstractmethod
    def advance(self, side: int, at: int) -> None:
        """Let the definition advance."""

    @abstractmethod
    def reached(self, side: int) -> int | None:
        """Return up to when a side is complete."""

    @abstractmethod
    def were_late(self, side: int) -> list[int]:
        """Return the numbers of the rows of a side that were late."""

    @abstractmethod
    def announced(self) -> Any:
        """Return what the operator says of results to come."""

    @abstractmethod
    def take(self, emitted: pa.Table) -> None:
        """Let the consumer take a result."""

    def next(self) -> Step:
        side = self.random.choice(self.sides)
        kind = self.random.choice(["push"] * 12 + ["advance"] * 5 + ["take_late"] + ATTEMPTS)
        if kind in ATTEMPTS:
            return Step(kind)
        at = self.sides.index(side)
        argument = {"push": self.batch, "advance": self.watermark}.get(kind, lambda _: None)(at)
        return Step(kind + side.name, argument)

    def batch(self, at: int) -> pa.Table:
        """Return rows in two chunks, some of them late and some without a time."""
        random, side = self.random, self.sides[at]
        columns: dict[str, list[Any]] = {name: [] for name in side.schema.names}
        for _ in range(random.choice([0, 1, 2, 3, 5, 8, 13])):
            self.now = min(self.now + random.choice([0, 0, 0, 0, 1, 1, 3]), LATEST)
            time = max(self.now - random.choice([0, 0, 0, 1, 4, 11, 30]), 0)
            *keys, of_time, number = columns.values()
            for values, name in zip(keys, side.keys, strict=True):
                values.append(random.choice(KEYS_OF[str(side.schema.field(name).type)]))
            of_time.append(time if random.random() >= 0.05 else None)
            number.append(len(self.rows[at]) + len(number))
        arrays = [column(columns[field.name], field.type) for field in side.schema]
        batch = pa.Table.from_arrays(arrays, schema=side.schema)
        self.rows[at] += plain(batch, side.keys[0][0] if side.keys else "", side.time, len(side.keys))
        cut = random.randint(0, batch.num_rows)
        return pa.concat_tables([batch.slice(0, cut), batch.slice(cut)])

    def watermark(self, at: int) -> int:
        """Return a time around that of the latest rows, not before the watermark."""
        least = self.reached(at)
        return max(self.now - 12 + self.random.randint(0, 15), 0 if least is None else least)

    def call(self, step: Step) -> Any:
        op, argument, made = self.op, step.argument, getattr(self.op, step.kind)
        at = next((at for at, side in enumerate(self.sides) if step.kind.endswith(side.name)), 0)
        kind = step.kind.removesuffix(self.sides[at].name)
        match kind:
            case "push":
                as_reader = self.disturbances.random.random() < 0.7
                emitted = self.surely(lambda: made(failing(argument) if as_reader else argument))
                numbers = argument.column(argument.num_columns - 1).to_pylist()
                self.push(at, [(number, self.rows[at][number]) for number in numbers])
            case "advance":
                time = self.sides[at].schema.field(self.sides[at].time).type
                emitted = self.surely(lambda: made(scalar(argument, time)))
                self.advance(at, argument)
            case "take_late":
                late = self.surely(made)
                self.late[at].extend(late.column(late.num_columns - 2).to_pylist())
                return late
            case "close":
                emitted, self.model.is_closed = self.surely(made), True
        assert emitted.schema == op.schema
        self.take(emitted)
        return emitted

    def save(self, snapshot: bytes | None) -> Saved:
        late = tuple(map(list, self.late))
        return Saved(snapshot, copy.deepcopy(self.model), self.out.copy(), late, list(self.marks))

    def go_back(self) -> None:
        snapshot, model, out, late, marks = self.saved
        self.op = self.new() if snapshot is None else self.restored(snapshot)
        self.model, self.out, self.marks = copy.deepcopy(model), out.copy(), list(marks)
        self.late = tuple(map(list, late))

    def noted(self) -> Callable[[], None]:
        before, marks = self.op.stats(), self.announced()

        def assert_same() -> None:
            assert_like(self.op.stats(), before)
            assert self.announced() == marks

        return assert_same

    def refusals(self) -> list[Callable[[], object]]:
        op, side = self.op, self.sides[0]
        push, advance = getattr(op, f"push{side.name}"), getattr(op, f"advance{side.name}")
        calls: list[Callable[[], object]] = [
            lambda: push(side.schema.empty_table().drop_columns(side.time)),
            lambda: push(pa.RecordBatchReader.from_batches(side.schema, iter([None]))),
            lambda: advance("no time"),
            lambda: self.restored(op.snapshot()[:-1]),
        ]
        reached = self.reached(0)
        if reached is not None:
            behind = scalar(reached - 1, side.schema.field(side.time).type)
            calls.append(lambda: advance(behind))
        return calls

    def finish(self) -> None:
        self.call(Step("close"))
        self.check()
        for at, side in enumerate(self.sides):
            self.call(Step(f"take_late{side.name}"))
            assert self.late[at] == self.were_late(at)


def failing(rows: pa.Table) -> pa.RecordBatchReader:
    """Return rows as a reader that may fail at any batch."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows.to_batches():
            FAILURE.tick()
            yield batch

    return pa.RecordBatchReader.from_batches(rows.schema, batches())
