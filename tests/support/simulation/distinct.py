"""Streams without duplicates, simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.distincts import Model, Sources
from support.joins import Row, length
from support.simulation.setting import drawn
from support.simulation.sides import Side, SideRun
from support.simulation.step import Step
from support.streams import KEYS, TIMES, scalar


@st.composite
def any_distinct(draw: st.DrawFn) -> tuple[wk.Distinct, int, pa.Schema]:
    """Draw what duplicates are, and the schema of a stream."""
    time, within = draw(st.sampled_from(TIMES)), draw(st.sampled_from([0, 1, 3, 9, 40]))
    kinds = [draw(st.sampled_from(KEYS))[0] for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    keys = {f"k{at}": kind for at, kind in enumerate(kinds)}
    per = draw(st.sampled_from(["first", "interval"]))
    distinct = wk.distinct(list(keys), time="t", within=length(within, time), per=per)
    return distinct, within, pa.schema(keys | {"t": time, "number": pa.int32()})


class DistinctRun(SideRun):
    """A stream without duplicates."""

    op: wk.DistinctOperator
    model: Model

    def __init__(self, random: Random, log: Callable[[str], None]) -> None:
        self.distinct, within, schema = drawn(any_distinct(), random)
        self.model = Model(within, self.distinct.per)
        self.delay = delay = random.choice([None, None, 0, 7])
        self.progress = None if delay is None else wk.delay(length(delay, schema.field("t").type))
        super().__init__(random, log, [Side("", schema)])
        log(f"{self.distinct}, of {schema.types}, delay {delay}")

    def new(self) -> wk.DistinctOperator:
        return self.distinct.operator(self.sides[0].schema, progress=self.progress)

    def next(self) -> Step:
        """Draw a step; some watermarks are of a key alone."""
        step = super().next()
        keys = [key for key, _ in self.rows[0] if key]
        if step.kind != "advance" or not keys or self.random.random() < 0.5:
            return step
        key = self.random.choice(keys)
        last, time = self.model.reached_of(key), self.now - 12 + self.random.randint(0, 15)
        return Step("key", (key, max(time, 0 if last is None else last)))

    def call(self, step: Step) -> Any:
        """Make a call; see `next`."""
        if step.kind != "key":
            return super().call(step)
        (key, time), side = step.argument, self.sides[0]
        by = dict(zip(side.keys, key, strict=True))
        emitted = self.surely(lambda: self.op.advance(scalar(time, side.schema.field("t").type), key=by))
        self.model.advance_key(time, key)
        self.take(emitted)
        return emitted

    def restored(self, snapshot: bytes) -> wk.DistinctOperator:
        return wk.DistinctOperator.restore(snapshot, self.distinct)

    def push(self, side: int, rows: list[tuple[int, Row]]) -> None:
        self.model.push(rows)
        if self.delay is not None:
            # Of all rows that the model knows, which goes back to what it was; late ones count, too.
            sources = Sources(self.delay)
            for number in [*(number for number, _ in self.model.rows), *self.model.late]:
                _, time = self.rows[0][number]
                if time is not None:
                    sources.see(None, time)
            self.model.advance(sources.watermark)

    def advance(self, side: int, at: int) -> None:
        self.model.advance(at)

    def reached(self, side: int) -> int | None:
        return self.model.reached

    def were_late(self, side: int) -> list[int]:
        return self.model.late

    def announced(self) -> Any:
        return self.op.watermark

    def take(self, emitted: pa.Table) -> None:
        numbers = emitted["number"].to_pylist()
        times = [self.rows[0][number][1] for number in numbers]
        assert all(mark is None or time is None or time >= mark for mark in self.marks for time in times)
        self.out.update(numbers)
        mark = None if self.model.is_closed else self.model.reached
        self.marks.append(mark)

    def check(self) -> None:
        assert self.out == Counter(self.model.results())
        stats = self.op.stats()
        assert (stats.results, stats.late) == (self.out.total(), len(self.model.late))
        assert stats.rows == len(self.model.rows) + len(self.model.late)
        assert stats.rows_kept == self.model.kept()
        assert stats.keys_ahead == self.model.ahead()
