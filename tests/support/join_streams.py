"""What joins of two streams have to return after each call, by the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import windowkit as wk
from support.joins import Case, Extents, Found, Row, equal, extents_of, length, numbers

LEFT, RIGHT = 0, 1
INTEGERS: Final = pa.int64()
ORDERS: Final = ("sorted", "reverse", "near", "random")


def arriving(rng: np.random.Generator, table: pa.Table, order: str) -> pa.Table:
    """Return rows with times ``t`` in the order in which they come."""
    times = table["t"].to_numpy()
    ranks = {
        "sorted": times,
        "reverse": -times,
        "near": times + rng.integers(0, len(times) // 2, len(times)),
        "random": rng.random(len(times)),
    }
    return table.take(np.argsort(ranks[order], kind="stable"))


@dataclass(frozen=True)
class Entry:
    """A row of a side, once for each of its windows."""

    number: int
    key: tuple[Any, ...]
    time: int | None
    extent: tuple[int, int] | None


@dataclass
class Model:
    """The rows of both sides so far, and what is certain of the result."""

    how: str
    near: Callable[[int, int], bool]
    last: Callable[[int, Entry], int]
    """The last time that a partner of an entry of a side can have."""
    extents: Extents | None = None
    sides: tuple[list[Entry], list[Entry]] = field(default_factory=lambda: ([], []))
    late: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    reached: list[int | None] = field(default_factory=lambda: [None, None])
    ahead: tuple[list[tuple[tuple[Any, ...], int]], ...] = field(default_factory=lambda: ([], []))
    """Keys that are complete by themselves, and up to when."""
    is_closed: bool = False
    early: bool = False
    """Whether rows without a partner are results at once."""

    def push(self, side: int, rows: list[tuple[int, Row]]) -> None:
        """Add rows with their numbers."""
        for number, (key, time) in rows:
            reached = self.reach(side, key)
            if time is not None and reached is not None and time < reached:
                self.late[side].append(number)
                continue
            windows = None if self.extents is None or time is None else self.extents(time)
            self.sides[side].extend(Entry(number, key, time, each) for each in windows or [None])

    def retract(self, side: int, rows: list[tuple[int, Row]]) -> None:
        """Remove rows that are equal to these, each of which is there or late."""
        for number, (key, time) in rows:
            reached = self.reach(side, key)
            if time is not None and reached is not None and time < reached:
                self.late[side].append(number)
                continue
            windows = None if self.extents is None or time is None else self.extents(time)
            for each in windows or [None]:
                self.sides[side].remove(Entry(number, key, time, each))

    def reach(self, side: int, key: tuple[Any, ...]) -> int | None:
        """Return up to when the rows of a side with a key are complete."""
        marks = [mark for own, mark in self.ahead[side] if equal(own, key)]
        return max([mark for mark in (self.reached[side], *marks) if mark is not None], default=None)

    def keys_ahead(self, side: int) -> int:
        """Return how many keys of a side are complete further than it."""
        last = self.reached[side]
        known: list[tuple[Any, ...]] = []
        for key, mark in self.ahead[side]:
            if (last is None or mark > last) and not any(equal(key, other) for other in known):
                known.append(key)
        return len(known)

    def are_partners(self, left: Entry, right: Entry) -> bool:
        """Whether two entries are partners."""
        if left.time is None or right.time is None or not equal(left.key, right.key):
            return False
        if self.extents is not None:
            return left.extent is not None and left.extent == right.extent
        return self.near(left.time, right.time)

    def is_certain(self, side: int, entry: Entry) -> bool:
        """Whether an entry can have no partner to come."""
        if self.is_closed or entry.time is None or any(each is None for each in entry.key):
            return True
        if self.extents is not None and entry.extent is None:
            return True
        other = self.reach(1 - side, entry.key)
        return other is not None and self.last(side, entry) < other

    def results(self) -> Counter[Found]:
        """Return the rows that have to be out."""
        left, right = self.sides
        found: Counter[Found] = Counter()
        met = set()
        for own in left:
            partners = [at for at, other in enumerate(right) if self.are_partners(own, other)]
            met |= set(partners)
            if self.how in ("inner", "left", "right", "full"):
                found.update((own.number, right[at].number, own.extent) for at in partners)
            elif self.how == "semi" and partners:
                found[own.number, None, own.extent] += 1
            if (
                self.how in ("left", "full", "anti")
                and not partners
                and (self.early or self.is_certain(LEFT, own))
            ):
                found[own.number, None, own.extent] += 1
        if self.how in ("right", "full"):
            for at, other in enumerate(right):
                if at not in met and (self.early or self.is_certain(RIGHT, other)):
                    found[None, other.number, other.extent] += 1
        return found

    def kept(self, side: int) -> int:
        """How many entries of a side have to be stored, of joins whose results have pairs."""
        return sum(not self.is_certain(side, entry) for entry in self.sides[side])


def of_band(case: Case) -> Model:
    """Return the model of a join of rows near in time."""
    low, high = case.band

    def last(side: int, entry: Entry) -> int:
        assert entry.time is not None
        return entry.time + high if side == LEFT else entry.time - low

    return Model(case.how, lambda left, right: left + low <= right <= left + high, last)


def by_windows(how: str, extents: Extents) -> Model:
    """Return the model of a join of rows in one window."""

    def last(_: int, entry: Entry) -> int:
        assert entry.extent is not None
        return entry.extent[1] - 1

    return Model(how, lambda *_: True, last, extents)


def found(result: pa.Table) -> Counter[Found]:
    """Return the rows of a result."""
    extents = extents_of(result) if "window_start" in result.column_names else [None] * len(result)
    return Counter((*pair, extent) for pair, extent in zip(numbers(result), extents, strict=True))


Call = tuple[str, int]
"""A call and its argument: how many rows, or which of the times to come."""


def calls() -> st.SearchStrategy[list[Call]]:
    """Draw calls of an operator."""
    names = ["left", "left", "right", "right", "advance left", "advance right", "restore", "fail"]
    names += ["key left", "key right"]
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 6)), max_size=14)


def key_of(table: pa.Table, keys: int, row: int) -> dict[str, Any]:
    """Return the key of a row as it is given to an operator: the first columns."""
    columns = (table.column(at) for at in range(keys))
    plain = (
        each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in columns
    )
    return {name: column[row] for name, column in zip(table.column_names, plain, strict=False)}


def run(
    join: wk.Join,
    tables: tuple[pa.Table, pa.Table],
    rows: tuple[list[Row], list[Row]],
    model: Model,
    made: list[Call],
    delays: tuple[int | None, int | None] = (None, None),
    time: pa.DataType = INTEGERS,
) -> wk.JoinOperator:
    """Make calls of an operator; after each, compare the results so far with those of the model.

    Where a side has a delay, its watermark is so far behind its latest row.
    """
    follow = [None if each is None else wk.delay(length(each, time)) for each in delays]
    op = join.operator(tables[0].schema, tables[1].schema, left_progress=follow[0], right_progress=follow[1])
    times = sorted({time for side in rows for _, time in side if time is not None}) or [0]
    done, out, marks = [0, 0], Counter[Found](), []
    for name, argument in [*made, ("left", 10**6), ("right", 10**6), ("close", 0)]:
        if name == "close":
            result, model.is_closed = op.close(), True
        elif name == "restore":
            op = wk.JoinOperator.restore(op.snapshot(), join)
            continue
        elif name == "fail":
            refuse(op, tables[0])
            continue
        elif name in ("left", "right"):
            side = ("left", "right").index(name)
            some = slice(done[side], done[side] + argument)
            batch = tables[side].slice(done[side], argument)
            result = op.push_left(batch) if side == LEFT else op.push_right(batch)
            model.push(side, list(enumerate(rows[side]))[some])
            timed = [time for _, time in rows[side][some] if time is not None]
            delay, last = delays[side], model.reached[side]
            if delay is not None and timed:
                reached = max(max(timed) - delay, -(2**63))
                model.reached[side] = reached if last is None else max(reached, last)
            done[side] += argument
        elif name.startswith("key"):
            side = ("key left", "key right").index(name)
            if not rows[side]:
                continue
            row = argument * (len(rows[side]) - 1) // 6
            key, time = rows[side][row][0], times[argument * (len(times) - 1) // 6]
            last, by = model.reach(side, key), key_of(tables[side], len(key), row)
            advance = op.advance_left if side == LEFT else op.advance_right
            if not key or None in key or (last is not None and last > time):
                with pytest.raises(wk.InvalidValue, match=r"key: |watermark: "):
                    advance(time, key=by)
                continue
            result = advance(time, key=by)
            model.ahead[side].append((key, time))
        else:
            side = ("advance left", "advance right").index(name)
            time = times[argument * (len(times) - 1) // 6]
            last = model.reached[side]
            if last is not None and last > time:
                continue
            result = op.advance_left(time) if side == LEFT else op.advance_right(time)
            model.reached[side] = time
        assert result.schema == op.schema
        new = found(result)
        for before in marks:
            check(new, before, rows)
        out += new
        assert out == model.results(), (name, argument)
        stats = op.stats()
        if join.how not in ("semi", "anti"):
            assert (stats.left_kept, stats.right_kept) == (model.kept(LEFT), model.kept(RIGHT))
        ahead = [model.keys_ahead(LEFT), model.keys_ahead(RIGHT)]
        assert [stats.left_keys_ahead, stats.right_keys_ahead] == ahead
        assert [len(op.keys_ahead_left()), len(op.keys_ahead_right())] == ahead
        marks.append(watermarks(op))
    assert op.take_late_left()["left"].to_pylist() == model.late[LEFT]
    assert op.take_late_right()["right"].to_pylist() == model.late[RIGHT]
    return op


def refuse(op: wk.JoinOperator, table: pa.Table) -> None:
    """Make calls that fail, which change nothing."""
    before = op.stats()
    with pytest.raises(wk.UnknownColumn):
        op.push_left(table.drop_columns("left"))
    with pytest.raises(wk.WindowKitError, match="watermark: 'no time'"):
        op.advance_right("no time")
    assert op.stats() == before


def watermarks(op: wk.JoinOperator) -> tuple[int | None, int | None, tuple[int, int] | None]:
    """Return the watermarks of results, as integers."""

    def plain(time: pa.Scalar) -> int:
        if pa.types.is_integer(time.type):
            return int(time.as_py())
        return int(time.cast(pa.int32() if pa.types.is_date32(time.type) else pa.int64()).as_py())

    marks = op.watermarks
    joint = None if marks.joint is None else (plain(marks.joint[0]), plain(marks.joint[1]))
    return *(None if mark is None else plain(mark) for mark in (marks.left, marks.right)), joint


def check(new: Counter[Found], before: Any, rows: tuple[list[Row], list[Row]]) -> None:
    """Check that nothing comes behind watermarks that were announced before."""
    left, right, joint = before
    for own, other, _ in new:
        times = [None if at is None else side[at][1] for at, side in zip((own, other), rows, strict=True)]
        assert left is None or times[0] is None or times[0] >= left
        assert right is None or times[1] is None or times[1] >= right
        if joint is not None and None not in times:
            assert times[0] >= joint[0] or times[1] >= joint[1]
