"""Where there are many keys, those whose sessions end are found by time, while they are few.

Of a few keys each is looked at, so that operators of a few must have the same results.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "gap": pa.int64()})
KEYS, FEW = 300, 50
WINDOWS: dict[str, Callable[[], Any]] = {
    "session": lambda: wk.session(40),
    "two": lambda: [wk.session(15), wk.session(60)],
    "and sliding": lambda: [wk.session(30), wk.sliding(80, 20)],
    "and landmark": lambda: [wk.session(30), wk.landmark(50, start=0)],
    "at most": lambda: wk.session(30, at_most=100),
    "gaps of a column": lambda: wk.session("gap"),
}
OPTIONS: list[dict[str, Any]] = [
    {"order": "in-order"},
    {"order": "out-of-order"},
    {"order": "out-of-order", "allowed_lateness": 50},
    {"order": "out-of-order", "updates": False},
]


class Both:
    """An operator of all keys, and operators of a few of them each."""

    def __init__(self, windows: Any, options: dict[str, Any]) -> None:
        self.query = wk.query(by="k", time="t", windows=windows, aggs=[wk.count().alias("n"), wk.sum("t")])
        self.all = self.query.operator(schema=SCHEMA, **options)
        # Landmarks merge slices once there are many, and a late row that one of several windows takes divides
        # an operator, each part of which has slices of its own.
        several = [str(window) for window in windows] if isinstance(windows, list) else []
        may_divide = len(several) > 1 and options["order"] != "in-order"
        self.has_same_slices = not may_divide and not any("landmark" in name for name in several)
        self.few = [self.query.operator(schema=SCHEMA, **options) for _ in range(KEYS // FEW)]

    def call(self, one: Callable[[wk.Operator, range], pa.Table]) -> pa.Table:
        """Call the operator of all keys and those of a few, `one` with the keys of each; they must agree."""
        whole = one(self.all, range(KEYS))
        parts = [one(op, range(at * FEW, at * FEW + FEW)) for at, op in enumerate(self.few)]
        by = [(name, "ascending") for name in whole.column_names]
        assert whole.sort_by(by).equals(pa.concat_tables(parts).sort_by(by))
        has_rows = any(op.stats().rows_kept > 0 for op in (self.all, *self.few))
        # When rows are dropped depends on how many there are.
        if not has_rows and self.has_same_slices:
            assert self.all.stats().slices == sum(op.stats().slices for op in self.few)
        return whole

    def restore(self) -> None:
        self.all = wk.Operator.restore(self.all.snapshot(), self.query)


def rows(of: list[tuple[int, int, int]]) -> pa.Table:
    keys, times, gaps = zip(*of, strict=True) if of else ((), (), ())
    return pa.table({"k": keys, "t": times, "gap": gaps}, schema=SCHEMA)


def of_key(key: int, call: Callable[[wk.Operator], pa.Table]) -> Callable[[wk.Operator, range], pa.Table]:
    """Return what calls an operator if it has this key."""
    return lambda op, keys: call(op) if key in keys else op.push(rows([]))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("windows", list(WINDOWS))
def test_many_keys_have_the_results_of_few(windows: str, options: dict[str, Any]) -> None:
    is_ordered, rng = options["order"] == "in-order", random.Random(windows)
    both, now = Both(WINDOWS[windows](), options), 0
    for step in range(150):
        # Now and then all keys, whose sessions end together; and mostly a few, so that keys are found.
        some = 30 if step % 40 < 5 else rng.choice([0, 1, 2, 5])
        busy = range(KEYS) if step % 40 == 0 else rng.sample(range(KEYS), some)
        spread, delay = (rng.choice([1, 30]), 0) if is_ordered else (30, 25)
        given = [(key, now + rng.randrange(spread) - delay, rng.randint(5, 50)) for key in busy]
        given.sort(key=lambda row: row[1] if is_ordered else row[0])
        now = max([now, *(time for _, time, _ in given)])
        until = now if is_ordered else now - 20

        def push(op: wk.Operator, keys: range, given: list[tuple[int, int, int]] = given) -> pa.Table:
            return op.push(rows([row for row in given if row[0] in keys]))

        def push_and_advance(op: wk.Operator, keys: range, until: int = until) -> pa.Table:
            # Rows in order move the watermark of the operator that has them.
            return pa.concat_tables([push(op, keys), op.advance(until)])

        both.call(push_and_advance)
        key, what = rng.randrange(KEYS), rng.randrange(12)
        if what == 0 and not is_ordered:
            ahead = now + rng.randrange(60)
            both.call(of_key(key, lambda op, key=key, ahead=ahead: op.advance(ahead, key=key)))
        elif what == 1 and not is_ordered:
            both.call(of_key(key, lambda op, key=key: op.end_key(key)))
        elif what == 2:
            both.call(lambda op, _: op.peek())
        elif what == 3:
            both.restore()
        now += rng.choice([0, 1, 10, 30, 30, 100])
    both.call(lambda op, _: op.close())
