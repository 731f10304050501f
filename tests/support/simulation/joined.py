"""Joins of two streams, simulated."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.distincts import Sources
from support.join_streams import Model, by_windows, check, found, of_band, watermarks
from support.joins import KINDS, Case, Row, length, of_windows, windowed
from support.simulation.setting import drawn
from support.simulation.sides import Side, SideRun
from support.simulation.step import Step
from support.streams import KEYS, TIMES, scalar


def sides(kinds: list[pa.DataType], time: pa.DataType) -> tuple[pa.Schema, pa.Schema]:
    """Return the schemas of both sides, with keys and times of these types, and numbers of rows."""
    left = {f"k{at}": kind for at, kind in enumerate(kinds)} | {"t": time, "left": pa.int32()}
    right = {f"q{at}": kind for at, kind in enumerate(kinds)} | {"u": time, "right": pa.int32()}
    return pa.schema(left), pa.schema(right)


@st.composite
def any_join(draw: st.DrawFn) -> tuple[wk.Join, Model, pa.Schema, pa.Schema]:
    """Draw a join, the model of its results, and the schemas of its sides."""
    if draw(st.sampled_from([False, False, True])):
        *_, windows, extents, how = draw(windowed())
        return of_windows(windows, how), by_windows(how, extents), *sides([pa.string()], pa.int32())
    time = draw(st.sampled_from(TIMES))
    kinds = [draw(st.sampled_from(KEYS))[0] for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    within = draw(st.tuples(*2 * [st.sampled_from([0, 0, 1, 3, 9, 40])]))
    closed = ["both", "both", "left", "right", "neither"] if sum(within) > 1 else ["both"]
    left, right = sides(kinds, time)
    tables = left.empty_table(), right.empty_table()
    ends, how = draw(st.sampled_from(closed)), draw(st.sampled_from(KINDS))
    case = Case(*tables, len(kinds), time, within, ends, how)
    return case.join, of_band(case), left, right


class JoinRun(SideRun):
    """A join of two streams."""

    op: wk.JoinOperator
    model: Model

    def __init__(self, random: Random, log: Callable[[str], None]) -> None:
        self.join, self.model, left, right = drawn(any_join(), random)
        self.delays = [random.choice([None, None, 0, 7]) for _ in range(2)]
        time = left.field("t").type
        waits = random.choice([{}, {}, {"at_most": 3}, {"later": length(5, time)}])
        self.emit = wk.emit(**waits) if waits else None
        super().__init__(random, log, [Side("_left", left), Side("_right", right)])
        log(f"{self.join}, of {left.types} and {right.types}, delays {self.delays}, {self.emit}")

    def new(self) -> wk.JoinOperator:
        kinds = (side.schema.field(side.time).type for side in self.sides)
        left, right = (
            None if delay is None else wk.delay(length(delay, kind))
            for delay, kind in zip(self.delays, kinds, strict=True)
        )
        schemas = [side.schema for side in self.sides]
        return self.join.operator(*schemas, left_progress=left, right_progress=right, emit=self.emit)

    def restored(self, snapshot: bytes) -> wk.JoinOperator:
        return wk.JoinOperator.restore(snapshot, self.join)

    def push(self, side: int, rows: list[tuple[int, Row]]) -> None:
        self.model.push(side, rows)
        delay, known = self.delays[side], self.model
        if delay is not None:
            # Of all rows that the model knows, which goes back to what it was; late ones count, too.
            sources = Sources(delay)
            for number in [*(entry.number for entry in known.sides[side]), *known.late[side]]:
                time = self.rows[side][number][1]
                if time is not None:
                    sources.see(None, time)
            reached = [at for at in (known.reached[side], sources.watermark) if at is not None]
            known.reached[side] = max(reached, default=None)

    def advance(self, side: int, at: int) -> None:
        self.model.reached[side] = at

    def next(self) -> Step:
        """Draw a step; some watermarks are of a key alone."""
        step, at = super().next(), self.random.randrange(2)
        keys = [key for key, _ in self.rows[at] if key and None not in key]
        if not step.kind.startswith("advance") or not keys or self.random.random() < 0.5:
            return step
        key = self.random.choice(keys)
        last = self.model.reach(at, key)
        time = self.now - 12 + self.random.randint(0, 15)
        return Step(f"key{self.sides[at].name}", (key, max(time, 0 if last is None else last)))

    def call(self, step: Step) -> Any:
        """Make a call; see `next`."""
        if not step.kind.startswith("key"):
            return super().call(step)
        at, (key, time) = ("key_left", "key_right").index(step.kind), step.argument
        side, advance = self.sides[at], (self.op.advance_left, self.op.advance_right)[at]
        by = dict(zip(side.keys, key, strict=True))
        emitted = self.surely(lambda: advance(scalar(time, side.schema.field(side.time).type), key=by))
        self.model.ahead[at].append((key, time))
        self.take(emitted)
        return emitted

    def reached(self, side: int) -> int | None:
        return self.model.reached[side]

    def were_late(self, side: int) -> list[int]:
        return self.model.late[side]

    def announced(self) -> Any:
        return self.op.watermarks

    def take(self, emitted: pa.Table) -> None:
        new = found(emitted)
        for before in self.marks:
            check(new, before, (self.rows[0], self.rows[1]))
        self.out += new
        self.marks.append(watermarks(self.op))

    def check(self) -> None:
        stats, results = self.op.stats(), self.model.results()
        assert stats.results == results.total()
        # Some may still be held back.
        assert self.out == results if self.emit is None or self.model.is_closed else self.out <= results
        late = [len(each) for each in self.model.late]
        assert [stats.left_late, stats.right_late] == late
        taken = [len({entry.number for entry in side}) for side in self.model.sides]
        assert [stats.left_rows - late[0], stats.right_rows - late[1]] == taken
        if self.join.how not in ("semi", "anti"):
            assert [stats.left_kept, stats.right_kept] == [self.model.kept(side) for side in (0, 1)]
