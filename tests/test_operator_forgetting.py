"""What an operator over a long stream holds: keys that are over are gone, slices few, rows shown once."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64(), "done": pa.bool_()})


def rows(keys: list[int], times: list[int], done: bool = False) -> pa.Table:
    return pa.table([keys, times, [1] * len(keys), [done] * len(keys)], schema=SCHEMA)


def spelled(name: str = "spelled") -> wk.UserFunction:
    """Return a function that depends on the order of rows: rows are stored for it."""
    return wk.aggregate(
        name,
        lift=lambda v: pc.cast(v, pa.string()),
        combine=lambda a, b: pc.binary_join_element_wise(a, b, ""),
        lower=lambda states: states,
    )


def held(op: wk.Operator, batches: int, keys: int, lateness: int) -> list[int]:
    """Push batches of ever new keys; return the bytes held after each."""
    sizes = []
    for batch in range(batches):
        own = [batch * keys + number for number in range(keys)]
        op.push(rows(own * 2, [batch * 100] * keys + [batch * 100 + 5] * keys, done=True))
        op.advance(batch * 100 + 99)
        sizes.append(op.stats().bytes)
    assert op.stats().rows == 2 * batches * keys
    return sizes


@pytest.mark.parametrize(
    "window",
    [wk.tumbling(50), wk.sliding(60, 20), wk.session(10), wk.landmark(10, period=100)],
    ids=str,
)
def test_keys_of_windows_over_time_are_forgotten(window: wk.Window) -> None:
    query = wk.query(by="k", time="t", windows=window, aggs=spelled()("v"))
    op = query.operator(order="out-of-order", allowed_lateness=20, schema=SCHEMA)
    sizes = held(op, 40, 1000, 20)
    assert max(sizes[20:]) <= 1.2 * max(sizes[:20])
    assert op.stats().keys <= 2000


@pytest.mark.parametrize(
    "window",
    [
        wk.tumbling(rows=2),
        wk.sliding(20, "1 rows"),
        wk.punctuation("done"),
        wk.between("done", "done"),
        wk.session(2, at_most=5),
    ],
    ids=str,
)
def test_of_keys_of_windows_by_rows_a_count_is_left(window: wk.Window) -> None:
    query = wk.query(by="k", time="t", windows=window, aggs=wk.sum("v"))
    op = query.operator(order="out-of-order", allowed_lateness=20, schema=SCHEMA)
    sizes = held(op, 40, 1000, 20)
    assert op.stats().rows_kept <= 4000
    assert (sizes[-1] - sizes[19]) / 20_000 <= 450


def test_keys_with_many_rows_at_once_are_small_once_they_are_idle() -> None:
    """An incomplete window of three rows is left of each, and no room for all rows that there were."""
    op = wk.query(by="k", time="t", windows=wk.tumbling(rows=10), aggs=wk.sum("v")).operator(schema=SCHEMA)
    for batch in range(100):
        keys = [10 * batch + number // 83 for number in range(830)]
        op.push(rows(keys, [830 * batch + number for number in range(830)]))
    stats = op.stats()
    assert stats.keys == 1000
    # 2,150 with room for the 83 rows.
    assert stats.bytes < 600 * stats.keys


def test_a_key_that_was_forgotten_comes_back() -> None:
    """Its windows over time are those of a new key, and its ranks and numbers go on."""
    windows = [
        wk.tumbling(50).alias("time"),
        wk.tumbling(rows=2).alias("rows"),
        wk.punctuation("done").alias("marks"),
    ]
    query = wk.query(by="k", time="t", windows=windows, aggs=[wk.sum("v"), spelled()("v").alias("text")])
    op = query.operator(order="out-of-order", allowed_lateness=20, schema=SCHEMA)
    held(op, 12, 1000, 20)
    emitted = op.push(rows([7, 7, 99_999], [1200, 1210, 1211])).to_pylist()
    assert emitted == []
    emitted = [row for row in op.advance(1260).to_pylist() if row["k"] == 7]
    assert [
        (
            row["window_name"],
            row["window_rows_start"],
            row["window_rows_end"],
            row["window_number"],
            row["text"],
        )
        for row in emitted
    ] == [
        ("time", None, None, None, "11"),
        ("rows", 2, 4, None, "11"),
    ]
    emitted = [row for row in op.close().to_pylist() if row["k"] == 7]
    assert [(row["window_name"], row["window_number"]) for row in emitted] == [("marks", 2)]


def test_keys_that_are_forgotten_come_back_as_new_ones() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(50), aggs=spelled()("v").alias("text"))
    op = query.operator(order="out-of-order", allowed_lateness=0, schema=SCHEMA)
    held(op, 20, 1000, 0)
    op.push(rows([19_999, 3, 3, 50_000, 3], [2000, 2001, 2003, 2002, 2002]))
    op = wk.Operator.restore(op.snapshot(), query)
    emitted = {row["k"]: row["text"] for row in op.advance(2050).to_pylist()}
    assert emitted == {19_999: "1", 3: "111", 50_000: "1"}


@pytest.mark.parametrize("store", ["lazy", "eager"])
@pytest.mark.parametrize(
    "windows",
    [
        [wk.landmark(10, start=0)],
        [wk.landmark(10, period=5000)],
        [wk.global_window(), wk.tumbling(10)],
        [wk.band(100, 10_000), wk.sliding(30, 10)],
        [wk.landmark(70, start=0), wk.sliding(30, 7), wk.session(4)],
    ],
    ids=str,
)
def test_slices_that_no_window_needs_apart_are_one(windows: list[wk.Window], store: str) -> None:
    windows = [window.alias(f"w{number}") for number, window in enumerate(windows)]
    query = wk.query(by=[], time="t", windows=windows, aggs=[wk.sum("v"), wk.max("t"), wk.median("t")])
    op = query.operator(order="out-of-order", allowed_lateness=20, store=store, schema=SCHEMA)
    most, emitted = 0, []
    for start in range(0, 6000, 50):
        times = list(range(start, start + 50, 3))
        emitted += op.push(rows([1] * len(times), times)).to_pylist()
        emitted += op.advance(start + 40).to_pylist()
        most = max(most, op.stats().slices)
    assert most <= 60
    emitted += op.close().to_pylist()
    every = [t for start in range(0, 6000, 50) for t in range(start, start + 50, 3)]
    for row in emitted:
        within = [t for t in every if row["window_start"] <= t < row["window_end"]]
        if row.get("window_name", "w0") == "w0" and isinstance(windows[0], wk.Global):
            within = every
        if row.get("window_name") == "w2":
            continue
        expected = (len(within), max(within), statistics.median(within))
        assert (row["sum(v)"], row["max(t)"], row["median(t)"]) == expected


class Counting(wk.ContextAware):
    """Windows of three rows; counts the rows that it is shown."""

    columns = ("v",)
    shown = 0

    def open(self) -> Any:
        return Counted()


class Counted:
    def __init__(self) -> None:
        self.began = 0

    def notify(self, first: int, times: pa.Array, v: pa.Array) -> Iterable[object]:
        Counting.shown += len(times)
        while self.began + 3 <= first + len(times):
            yield wk.Add(self.began, self.began + 3)
            self.began += 3

    def finish(self, rows: int) -> Iterable[object]:
        return []


class Locked(Counting):
    """Windows whose opened objects cannot be pickled."""

    def open(self) -> Any:
        opened = Counted()
        opened.lock = lambda: None  # type: ignore[attr-defined]
        return opened


def shown_of(definition: wk.ContextAware, order: str, late: int) -> tuple[int, list[dict[str, Any]]]:
    """Push 2,000 rows, one at a time, and then late ones; return the rows shown and what was emitted."""
    Counting.shown = 0
    query = wk.query(by="k", time="t", windows=wk.custom(definition), aggs=[wk.sum("v"), wk.min("t")])
    lateness = 0 if order == "in-order" else 10_000
    op = query.operator(order=order, allowed_lateness=lateness, schema=SCHEMA)
    emitted = []
    for t in range(2000):
        emitted += op.push(rows([1], [2 * t])).to_pylist()
        if order == "out-of-order":
            emitted += op.advance(2 * t).to_pylist()
    for number in range(late):
        emitted += op.push(rows([1], [3900 - 2 * number - 1])).to_pylist()
    emitted += op.close().to_pylist()
    return Counting.shown, emitted


def test_rows_in_order_are_shown_once() -> None:
    shown, emitted = shown_of(Counting(), "in-order", 0)
    assert shown == 2000
    assert [row["min(t)"] for row in emitted] == list(range(0, 3996, 6))


@pytest.mark.parametrize(("definition", "most"), [(Counting(), 2000 + 10 * 200), (Locked(), 11 * 2010)])
def test_rows_from_a_copy_before_a_late_one_are_shown_again(definition: wk.ContextAware, most: int) -> None:
    shown, emitted = shown_of(definition, "out-of-order", 10)
    assert 2000 < shown <= most
    last = {row["window_number"]: row["min(t)"] for row in emitted}
    times = sorted([*range(0, 4000, 2), *(3900 - 2 * number - 1 for number in range(10))])
    assert sorted(last.values()) == times[: len(times) - len(times) % 3 : 3]


def test_a_call_that_fails_leaves_what_was_shown_out() -> None:
    """A context that was shown rows that were taken back is not used any more."""
    query = wk.query(by="k", time="t", windows=wk.custom(Counting()), aggs=wk.sum("v"))
    op = query.operator(schema=SCHEMA)
    op.push(rows([1] * 4, [1, 2, 3, 4]))
    huge = rows([1, 1], [5, 6]).set_column(2, "v", pa.array([2**63 - 1, 2**63 - 1]))
    with pytest.raises(wk.Overflow):
        op.push(huge)
    emitted = op.push(rows([1, 1, 1], [5, 6, 7])).to_pylist()
    assert [(row["window_start"], row["sum(v)"], row["window_number"]) for row in emitted] == [(4, 3, 1)]


def test_a_closed_operator_holds_nothing_of_any_kind() -> None:
    """Also where one query is answered from slices, of a window that never ends, and another from rows."""
    windows = [wk.global_window().alias("all"), wk.sliding("4 rows", "2 rows").alias("four")]
    queries = [wk.query(by="k", time="t", windows=[window], aggs=wk.median("v")) for window in windows]
    op = queries[0].operator(order="out-of-order", allowed_lateness=50, schema=SCHEMA)
    op.add(queries[1])
    op.push(rows([1] * 1000, list(range(1000))))
    assert op.close().num_rows > 0
    assert (op.stats().slices, op.stats().rows_kept, op.slices().num_rows) == (0, 0, 0)
    assert len(op.snapshot()) < 10_000


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (wk.tumbling(rows=2), [1 + 2, 4 + 8]),
        (wk.sliding("2 rows", 10), [8 + 16]),
        (wk.punctuation("done"), [1 + 2, 4 + 8 + 16]),
    ],
    ids=str,
)
def test_rows_that_the_watermark_is_behind_are_kept(window: wk.Window, expected: list[int]) -> None:
    """No row comes before those of a query that came late; yet their windows have not been emitted."""
    op = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v")).operator(
        order="out-of-order", schema=SCHEMA
    )
    op.push(rows([0], [100]))
    op.advance(50)
    op.add(wk.query(by="k", time="t", windows=window, aggs=wk.sum("v")), name="late")
    op.remove("q1")
    columns = [[0] * 5, [101, 101, 101, 102, 103], [1, 2, 4, 8, 16], [False, True, False, False, True]]
    op.push(pa.table(columns, schema=SCHEMA))
    assert op.advance(60).num_rows == 0
    assert op.advance(200)["sum(v)"].to_pylist() == expected
