"""Processing time: rows have the time of the operator's clock."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk

QUERY = wk.query(by="k", time=wk.PROCESSING_TIME, windows=wk.tumbling("1 second"), aggs=wk.sum("v"))
SECOND = 1_000_000


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now: Any = 0

    def __call__(self) -> Any:
        return self.now


def rows(*values: int) -> pa.Table:
    return pa.table({"k": ["a"] * len(values), "v": pa.array(values, pa.int64())})


def test_windows_advance_with_the_clock() -> None:
    clock = Clock()
    op = QUERY.operator(clock=clock)
    assert op.push(rows(1, 2)).num_rows == 0
    clock.now = SECOND // 2
    assert op.push(rows(4)).num_rows == 0
    clock.now = SECOND - 1
    assert op.advance().num_rows == 0
    clock.now = SECOND
    emitted = op.push(rows(8))
    assert emitted["sum(v)"].to_pylist() == [7]
    assert emitted.schema.field("window_start").type == pa.timestamp("us", "UTC")
    clock.now = 5 * SECOND
    assert op.advance()["sum(v)"].to_pylist() == [8]
    assert op.advance().num_rows == 0


def test_windows_by_rows_and_by_a_call() -> None:
    clock = Clock()
    windows = [wk.tumbling(rows=2), wk.punctuation("done")]
    query = wk.query(by=[], time=wk.PROCESSING_TIME, windows=windows, aggs=wk.count().alias("n"))
    op = query.operator(clock=clock, schema=pa.schema({"done": pa.bool_()}))
    emitted = op.push(pa.table({"done": [False, False, False]}))
    assert emitted["n"].to_pylist() == [2]
    clock.now = 7
    assert op.punctuate()["n"].to_pylist() == [3]


def test_a_clock_that_is_set_back_stands_still() -> None:
    clock = Clock()
    op = QUERY.operator(clock=clock)
    clock.now = 3 * SECOND
    op.push(rows(1))
    clock.now = SECOND
    op.push(rows(2))
    assert op.watermark.cast(pa.int64()).as_py() == 3 * SECOND
    assert op.close()["sum(v)"].to_pylist() == [3]


def test_triggers_go_by_the_clock_that_stands_still() -> None:
    """Also those of a query that comes after the clock was set back: no tick is passed twice."""
    clock = Clock()
    clock.now = 67
    op = QUERY.operator(clock=clock)
    op.push(rows(1))
    clock.now = 61
    every = wk.every("9 microseconds", of="processing time")
    whole = replace(QUERY, windows=(wk.global_window(),))
    op.add(whole, name="early", emit=wk.emit(early=every, refinement="accumulating"))
    op.push(rows(2))
    clock.now = 68
    assert op.push(rows(3)).num_rows == 0
    clock.now = 72
    assert op.push(rows(4))["sum(v)"].to_pylist() == [7]


def test_the_system_s_clock_is_the_default() -> None:
    op = QUERY.operator()
    op.push(rows(1))
    (row,) = op.close().to_pylist()
    assert (row["window_end"] - row["window_start"]).total_seconds() == 1
    assert row["window_start"].year >= 2026


def test_a_restart_goes_on_where_the_clock_was() -> None:
    clock = Clock()
    op = QUERY.operator(clock=clock)
    clock.now = 3 * SECOND
    op.push(rows(1))
    again = wk.Operator.restore(op.snapshot(), pickle.loads(pickle.dumps(QUERY)), clock=clock)
    clock.now = 2 * SECOND
    again.push(rows(2))
    clock.now = 4 * SECOND
    assert again.advance()["sum(v)"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("emitted", "error", "says"),
    [
        (1.5, wk.InvalidType, "clock: it returned 1.5, a float; expected microseconds as an int"),
        (True, wk.InvalidType, "clock: it returned True, a bool"),
        (2**62, wk.InvalidValue, "clock: it returned 4611686018427387904; allowed are"),
    ],
)
def test_clocks_are_checked(emitted: object, error: type[Exception], says: str) -> None:
    clock = Clock()
    op = QUERY.operator(clock=clock)
    op.push(rows(1))
    before = op.snapshot()
    clock.now = emitted
    for call in (lambda: op.push(rows(2)), op.advance):
        with pytest.raises(error, match=re.escape(says)):
            call()
    assert op.snapshot() == before


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: QUERY.run(rows(1)), wk.InvalidValue, "time: PROCESSING_TIME is given for run"),
        (lambda: QUERY.batches(rows(1)), wk.InvalidValue, "time: PROCESSING_TIME is given for batches"),
        (
            lambda: QUERY.operator(order="out-of-order"),
            wk.InvalidValue,
            "order: 'out-of-order' is given over",
        ),
        (lambda: QUERY.operator(clock=5), wk.InvalidType, "clock: 5 is an int"),  # type: ignore[arg-type]
        (lambda: QUERY.operator(schema=rows(1)).advance(5), wk.InvalidValue, "watermark: 5 is given over"),
        (
            lambda: QUERY.operator(schema=pa.schema({"processing_time": pa.int64()})),
            wk.InvalidValue,
            "batch: it has a column 'processing_time'",
        ),
        (
            lambda: wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.count()).operator(clock=int),
            wk.InvalidValue,
            "clock: it is given for a query over a column of times",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(call: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        call()
