"""What an operator that keeps rows does with slices, what it forgets, and what it refuses."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support import samples
from support.plain import plain
from support.refusals import Fragile, RefusalError, unchanged

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64(), "done": pa.bool_()})
ENDLESS = ("session by gap", "growing rows")


def rows(times: list[int], values: list[int] | None = None, done: list[bool] | None = None) -> pa.Table:
    count = len(times)
    columns = [["a"] * count, times, values or [1] * count, done or [False] * count]
    return pa.table(columns, schema=SCHEMA)


def by_rows(*aggs: wk.Aggregate, size: int = 3, slide: int | None = None) -> wk.Query:
    window = wk.sliding(wk.rows(size), wk.rows(slide or size))
    return wk.query(by="k", time="t", windows=window, aggs=list(aggs))


def out_of_order(query: wk.Query, lateness: int = 1000) -> wk.Operator:
    return query.operator(order="out-of-order", allowed_lateness=lateness, schema=SCHEMA)


def latest() -> wk.Aggregate:
    """A function that depends on the order, so that rows in disorder are stored."""
    return wk.aggregate("latest", lift=lambda v: v, combine=lambda _, later: later, lower=lambda s: s)("v")


@settings(max_examples=200)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=8), min_size=1, max_size=3),
    st.sampled_from(["session", "tumbling", "rows", "sliding"]),
    st.integers(2, 7),
    st.booleans(),
)
def test_there_are_as_many_slices_as_windows_need(
    batches: list[list[int]], kind: str, size: int, is_stored: bool
) -> None:
    """Between two neighbouring rows there is a cut where a window begins or ends, and nowhere else."""
    window = {
        "session": wk.session(size),
        "tumbling": wk.tumbling(size),
        "rows": wk.tumbling(rows=size),
        "sliding": wk.sliding(2 * size + 1, size),
    }[kind]
    query = wk.query(by="k", time="t", windows=window, aggs=latest() if is_stored else wk.sum("v"))
    op = out_of_order(query)
    for times in batches:
        op.push(rows(times))
        op.advance(100)
    at = sorted(t for times in batches for t in times)
    is_cut: Callable[[int], bool] = {
        "session": lambda n: at[n] - at[n - 1] > size,
        "tumbling": lambda n: at[n] // size != at[n - 1] // size,
        "rows": lambda n: n % size == 0,
        "sliding": lambda n: any(t % size in (0, 1) for t in range(at[n - 1] + 1, at[n] + 1)),
    }[kind]
    assert op.stats().slices == sum(n == 0 or is_cut(n) for n in range(len(at)))
    assert (op.stats().rows_kept > 0) == ((is_stored or kind == "rows") and len(at) > 0)


def test_a_late_row_shifts_one_row_per_later_slice() -> None:
    """Traub et al. 2019, §5.2: the last row of each slice moves to the next."""
    op = out_of_order(by_rows(wk.sum("v"), size=3))
    op.push(rows([1, 3, 5, 7, 9, 11, 13, 15, 17], list(range(9))))
    op.advance(17)
    before = op.stats()
    assert (before.slices, before.shifts, before.recomputations) == (3, 0, 0)
    emitted = op.push(rows([2], [100]))
    after = op.stats()
    # 5 and 11 move on into slices that there are, and 17 into one that it is the first row of.
    assert (after.slices, after.shifts, after.splits, after.merges) == (4, 3, 0, 0)
    # The new slice is of a row that was in another.
    assert after.recomputations == 1
    assert emitted["sum(v)"].to_pylist() == [0 + 100 + 1, 2 + 3 + 4, 5 + 6 + 7]


def test_a_late_row_within_the_last_slice_shifts_nothing() -> None:
    op = out_of_order(by_rows(wk.sum("v"), size=3))
    op.push(rows([1, 3, 5, 7, 9]))
    op.advance(9)
    op.push(rows([8]))
    assert (op.stats().shifts, op.stats().recomputations) == (0, 0)


def test_rows_in_disorder_wait_for_the_watermark() -> None:
    """They are in no slice before it reaches them, and whoever looks sees them nevertheless."""
    op = out_of_order(by_rows(wk.sum("v"), size=3))
    op.push(rows([1, 9, 17], [1, 9, 17]))
    op.push(rows([13, 5, 3, 15, 7, 11], [13, 5, 3, 15, 7, 11]))
    stats = op.stats()
    assert (stats.rows_kept, stats.slices, stats.shifts) == (9, 1, 0)
    assert op.peek()["sum(v)"].to_pylist() == [1 + 3 + 5, 7 + 9 + 11, 13 + 15 + 17]
    # Looking changes nothing, though it may take room.
    assert replace(op.stats(), bytes=0) == replace(stats, bytes=0)
    for each in (op, wk.Operator.restore(op.snapshot(), dict(op.queries))):
        assert each.advance(4)["sum(v)"].to_pylist() == []
        assert each.push(rows([2], [2]))["sum(v)"].to_pylist() == [1 + 2 + 3]
        assert each.advance(12)["sum(v)"].to_pylist() == [5 + 7 + 9]
        assert each.close()["sum(v)"].to_pylist() == [11 + 13 + 15]


def test_rows_wait_no_longer_once_a_users_code_may_refuse_them() -> None:
    """Those of all keys are put in their places by the next call, whatever rows it brings."""

    def lift(values: pa.Array) -> pa.Array:
        if 13 in values.to_pylist():
            raise ValueError("thirteen")
        return values

    careful = wk.aggregate("careful", lift=lift, combine=pc.add, lower=lambda sums: sums)
    op = out_of_order(by_rows(wk.sum("v"), size=3))
    op.push(rows([1, 9, 17], [1, 9, 17]))
    op.push(rows([13, 5, 3], [13, 5, 3]))
    assert op.stats().slices == 1
    op.add(by_rows(careful("v"), size=3), name="careful")
    other = rows([2], [2]).set_column(0, "k", pa.array(["other"], SCHEMA.field("k").type))
    with pytest.raises(wk.InvalidValue, match="careful: lift failed with ValueError"):
        op.push(other)
    op.remove("careful")
    op.push(other)
    assert op.close()["sum(v)"].to_pylist() == [1 + 3 + 5, 9 + 13 + 17]


@pytest.mark.parametrize(
    ("aggregate", "recomputed"),
    [
        (wk.sum("v"), 0),
        (wk.count(), 0),
        (wk.max("v"), 0),
        (wk.stddev("v"), 3),
        (wk.median("v"), 3),
    ],
)
def test_functions_are_mended_as_they_can_be(aggregate: wk.Aggregate, recomputed: int) -> None:
    """Fig. 6: invert, or nothing if the row was not the extremum, or recompute."""
    op = out_of_order(by_rows(aggregate, size=3))
    # In each slice the first row is the greatest: what moves on is not the maximum.
    op.push(rows([1, 3, 5, 7, 9, 11, 13, 15, 17, 19], [9, 5, 1, 9, 5, 1, 9, 5, 1, 9]))
    op.advance(19)
    op.push(rows([2], [0]))
    assert (op.stats().shifts, op.stats().recomputations) == (3, recomputed)


def test_an_extremum_that_moves_on_is_looked_for_again() -> None:
    """§6.3.2."""
    op = out_of_order(by_rows(wk.max("v"), size=3))
    op.push(rows([1, 3, 5, 7, 9, 11, 13], [1, 5, 9, 1, 5, 2, 3]))
    op.advance(13)
    emitted = op.push(rows([2], [0]))
    assert (op.stats().shifts, op.stats().recomputations) == (2, 1)
    assert emitted["max(v)"].to_pylist() == [5, 9]


def test_a_late_mark_splits_a_slice() -> None:
    """Fig. 5."""
    query = wk.query(by="k", time="t", windows=wk.punctuation("done"), aggs=wk.sum("v"))
    op = out_of_order(query)
    op.push(rows([1, 3, 5, 7, 9], [1, 2, 4, 8, 16]))
    op.advance(9)
    assert (op.stats().slices, op.stats().splits) == (1, 0)
    emitted = op.push(rows([4], [32], [True]))
    assert (op.stats().slices, op.stats().splits) == (2, 1)
    assert [*emitted["sum(v)"].to_pylist(), *op.close()["sum(v)"].to_pylist()] == [35, 28]


def test_a_window_that_is_told_by_later_rows_splits_a_slice() -> None:
    """In order only windows like these split (Fig. 5): where one begins is known once it ends."""
    query = wk.query(by="k", time="t", windows=wk.sliding("2 rows", 10), aggs=wk.sum("v"))
    op = query.operator(schema=SCHEMA)
    op.push(rows([1, 2, 3, 4], [1, 2, 4, 8]))
    assert op.stats().splits == 0
    assert op.push(rows([11]))["sum(v)"].to_pylist() == [12]
    assert op.stats().splits == 1


def test_slices_of_a_query_that_is_gone_are_merged() -> None:
    op = out_of_order(by_rows(wk.sum("v"), size=100))
    op.add(by_rows(wk.sum("v"), size=2), name="fine")
    op.push(rows(list(range(10))))
    assert op.stats().slices == 5
    op.remove("fine")
    assert (op.stats().slices, op.stats().merges) == (1, 4)


def test_rows_are_kept_only_for_queries_that_need_them() -> None:
    by_time = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    op = by_time.operator(schema=SCHEMA)
    op.push(rows([1, 2]))
    assert op.stats().rows_kept == 0
    op.add(by_rows(wk.sum("v"), size=2), name="rows")
    emitted = op.push(rows([3, 4, 5, 11]))
    # Rows from before it was added are not the new query's.
    assert op.stats().rows_kept <= 2
    assert [(row["query_name"], row["window_start"], row["sum(v)"]) for row in emitted.to_pylist()] == [
        ("q1", 0, 5),
        ("rows", 3, 2),
        ("rows", 5, 2),
    ]
    op.remove("rows")
    assert op.stats().rows_kept == 0
    assert op.close().to_pylist()[0]["sum(v)"] == 1


@pytest.mark.parametrize(
    "window",
    [
        # Of sessions by a gap, one may last as long as the stream, as a window after a landmark does.
        *(window for name, window in samples.by_rows("done").items() if name not in ENDLESS),
        wk.tumbling(rows=7),
        wk.sliding("20 rows", "3 rows"),
        wk.sliding("10 rows", 15),
        wk.sliding(40, "6 rows"),
        wk.sliding(40, "6 rows", order="arrival"),
        wk.between("done", "done", exclusive=True),
        wk.session(2, at_most=5),
    ],
    ids=str,
)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_memory_does_not_follow_the_rows(window: wk.Window, order: str) -> None:
    """What no window to come can need is forgotten."""
    query = wk.query(
        by="k",
        time="t",
        windows=window,
        aggs=[wk.sum("v"), wk.first("v"), wk.collect_list("v"), wk.collect_rows()],
    )
    lateness = 0 if order == "in-order" else 50
    op = query.operator(order=order, allowed_lateness=lateness, schema=SCHEMA)
    held, kept, slices = [], [], []
    for batch in range(120):
        start = batch * 500
        times = list(range(start, start + 500))
        op.push(rows(times, times, [t % 5 == 3 for t in times]))
        if order == "out-of-order":
            op.advance(start + 450)
        stats = op.stats()
        held.append(stats.bytes)
        kept.append(stats.rows_kept)
        slices.append(stats.slices)
    assert max(kept) <= 900
    assert max(held[60:]) <= 1.25 * max(held[:60])
    assert max(slices[60:]) <= max(slices[:60])


IN_ORDER = {
    "tumbling": (wk.tumbling(rows=7), lambda n: n % 7 == 0),
    "sliding": (wk.sliding("7 rows", "3 rows"), lambda n: n % 3 in (0, 1) and n not in (1, 4)),
    "growing": (wk.landmark("5 rows"), lambda n: n % 5 == 0),
    "up to marks": (wk.punctuation("done"), lambda n: n % 25 == 4),
    "from marks": (wk.punctuation("done", at="start"), lambda n: n % 25 == 3),
    "between": (wk.between("done", "done"), lambda n: n % 25 in (3, 4)),
    "sessions": (wk.session(2, at_most=6), lambda n: n % 6 == 0),
}


@settings(max_examples=100)
@given(
    st.sampled_from(list(IN_ORDER)), st.integers(0, 80), st.lists(st.integers(1, 20), min_size=1), st.data()
)
def test_in_order_no_rows_are_kept(kind: str, count: int, sizes: list[int], data: st.DataObject) -> None:
    """Traub et al. 2019, §5.1, Fig. 4: slices are cut where a window may begin or end, and nowhere else."""
    window, is_cut = IN_ORDER[kind]
    # A window over all rows so far needs the first of them, whatever else has ended.
    query = wk.query(by="k", time="t", windows=[window, wk.landmark("1000 rows")], aggs=latest())
    op = query.operator(schema=SCHEMA)
    table = rows(list(range(count)), list(range(count)), [n % 25 == 3 for n in range(count)])
    emitted, at = 0, 0
    for size in sizes:
        emitted += op.push(table.slice(at, size)).num_rows
        at = min(at + size, count)
        stats = op.stats()
        assert (stats.rows_kept, stats.slices) == (0, sum(n == 0 or is_cut(n) for n in range(at)))
        if data.draw(st.booleans()):
            op = wk.Operator.restore(op.snapshot(), dict(op.queries))
    assert "rows are stored" not in op.explain()
    assert emitted + op.close().num_rows == query.run(table.slice(0, at)).num_rows


def test_of_a_key_in_order_a_count_is_left() -> None:
    """A key that is over keeps a rank and a position, whatever its window type."""
    # One of the others is always open.
    for window, _ in (IN_ORDER[kind] for kind in ("tumbling", "up to marks", "between", "sessions")):
        schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64(), "done": pa.bool_()})
        op = wk.query(by="k", time="t", windows=window, aggs=wk.sum("v")).operator(schema=schema)
        held = []
        for start in range(0, 40_000, 10_000):
            keys = list(range(start, start + 10_000)) * 7
            times = [start + n // 10_000 for n in range(70_000)]
            op.push(pa.table([keys, times, times, [True] * 70_000], schema))
            held.append(op.stats().bytes)
        assert (held[-1] - held[0]) / 30_000 <= 200


def test_slices_are_as_few_as_edges() -> None:
    """No slice begins but where a window begins or ends: of those that need no rows, and of those that do."""
    windows = [wk.sliding("6 rows", "4 rows"), wk.tumbling(10), wk.punctuation("done")]
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.sum("v"))
    op = out_of_order(query)
    done = [t in (4, 17) for t in range(20)]
    op.push(rows(list(range(20)), done=done))
    firsts = plain(op.slices()["t_first"])
    by_rank = {start for k in range(5) for start in (4 * k, 4 * k + 6)}
    assert firsts == [0, 10, *sorted((by_rank | {0, 5, 18}) & set(range(20)))]


class Refusing(wk.ContextAware):
    """Windows of two rows, unless a value is 13."""

    columns = ("v",)

    def open(self) -> Refusing:
        return self

    def notify(self, first: int, times: pa.Array, v: pa.Array) -> Iterable[object]:
        if 13 in v.to_pylist():
            raise RefusalError("not today")
        return [wk.Add(at, at + 2) for at in range(0, len(v) - 1, 2)]

    def finish(self, rows: int) -> Iterable[object]:
        return []


def test_a_window_that_raises_changes_nothing() -> None:
    query = wk.query(by="k", time="t", windows=wk.custom(Refusing()).alias("mine"), aggs=wk.sum("v"))
    op = query.operator(schema=SCHEMA)
    assert op.push(rows([1, 2, 3], [1, 2, 4]))["sum(v)"].to_pylist() == [3]
    unchanged(
        op, lambda: op.push(rows([4, 5], [13, 1])), wk.InvalidValue, "mine: notify failed with RefusalError"
    )
    assert op.push(rows([4, 5], [8, 16]))["sum(v)"].to_pylist() == [12]


@pytest.mark.parametrize("where", ["lift", "combine", "lower"])
def test_a_function_that_raises_changes_nothing(where: str) -> None:
    user = Fragile(where)
    op = out_of_order(by_rows(user.total("v"), wk.sum("v"), size=4))
    op.push(rows([1, 3, 9], [1, 2, 4]))
    op.advance(9)
    user.broken = True
    before = op.stats()
    with pytest.raises(wk.InvalidValue, match=f"total: {where} failed with RefusalError"):
        op.push(rows([2, 4, 10], [8, 16, 32]))
    user.broken = False
    assert replace(op.stats(), bytes=before.bytes) == before
    emitted = op.push(rows([2, 4, 10], [8, 16, 32]))
    assert (emitted["total(v)"].to_pylist(), emitted["sum(v)"].to_pylist()) == ([27], [27])


def test_an_overflow_changes_nothing() -> None:
    op = out_of_order(by_rows(wk.sum("v"), size=2))
    op.push(rows([1], [2**63 - 1]))
    op.advance(50)
    unchanged(op, lambda: op.push(rows([2], [1])), wk.Overflow, "the sum of a window")
    assert op.push(rows([2], [-1]))["sum(v)"].to_pylist() == [2**63 - 2]


def test_rows_out_of_order_are_refused_unless_announced() -> None:
    op = by_rows(wk.sum("v")).operator(schema=SCHEMA)
    op.push(rows([3, 8]))
    unchanged(op, lambda: op.push(rows([9, 7])), wk.InvalidValue, "row 1 has time 7 in column 't'")
    unchanged(op, lambda: op.push(rows([7])), wk.InvalidValue, "row 0 has time 7 in column 't'")


def test_rows_that_no_window_takes_are_handed_out() -> None:
    op = out_of_order(by_rows(wk.sum("v"), size=2), lateness=5)
    op.push(rows([1, 20]))
    op.advance(20)
    assert op.push(rows([14, 15, 19]))["update"].to_pylist() == [True, False]
    assert op.late == 1
    assert op.take_late()["t"].to_pylist() == [14]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda op: op.punctuate("soon"),
            wk.InvalidType,
            "time: 'soon' is a str; the time column is an integer",
        ),
        (lambda op: op.punctuate(2**63), wk.InvalidValue, "time: 9223372036854775808 is out of range"),
        (
            lambda op: op.punctuate(2**63 - 1),
            wk.Overflow,
            "punctuate: 9223372036854775807 is too close to the limit",
        ),
        (lambda op: op.punctuate(3), wk.InvalidValue, "punctuate: 3 is before 10 in column 't'"),
        (
            lambda op: op.punctuate(30, key=5),
            wk.InvalidType,
            "key: 5 is not a value of column 'k', whose type",
        ),
        (
            lambda op: op.punctuate(30, key={"x": "a"}),
            wk.InvalidValue,
            "key: it has ['x']; the columns of a key are ['k']",
        ),
    ],
)
def test_punctuations_are_checked(call: Any, error: type[Exception], says: str) -> None:
    query = wk.query(by="k", time="t", windows=wk.punctuation("done"), aggs=wk.sum("v"))
    op = query.operator(schema=SCHEMA)
    op.push(rows([1, 10]))
    unchanged(op, lambda: call(op), error, says)


def test_punctuation_needs_a_window_that_it_tells() -> None:
    op = by_rows(wk.sum("v")).operator(schema=SCHEMA)
    with pytest.raises(
        wk.InvalidValue, match="punctuate: no window of this operator is bounded by punctuation"
    ):
        op.punctuate(5)
    op.close()
    with pytest.raises(wk.InvalidValue, match="punctuate: the operator is closed"):
        op.punctuate(5)
    two = wk.query(by=["k", "v"], time="t", windows=wk.punctuation("done"), aggs=wk.count())
    with pytest.raises(wk.InvalidValue, match=r"key: 'a' is given; the queries are by \['k', 'v'\]"):
        two.operator(schema=SCHEMA).punctuate(5, key="a")


def test_a_late_punctuation_cuts_a_window_in_two() -> None:
    query = wk.query(by="k", time="t", windows=wk.punctuation("done"), aggs=wk.sum("v"))
    op = out_of_order(query)
    op.push(rows([1, 3, 5], [1, 2, 4], [False, False, True]))
    emitted = op.advance(10).to_pylist()
    assert [(row["window_number"], row["sum(v)"], row["update"]) for row in emitted] == [(0, 7, False)]
    emitted = op.punctuate(3).to_pylist()
    assert [(row["window_number"], row["sum(v)"], row["update"]) for row in emitted] == [
        (0, 3, True),
        (1, 4, False),
    ]
    # After the rows of its time that had come, and before those that come later.
    emitted = op.push(rows([3], [8])).to_pylist()
    assert [(row["window_number"], row["sum(v)"], row["update"]) for row in emitted] == [(1, 12, True)]


class Growing(wk.ContextAware):
    """One window of all rows, taken back when a value is below zero."""

    columns = ("v",)

    def open(self) -> Grown:
        return Grown()


class Grown:
    rows = 0

    def notify(self, first: int, times: pa.Array, v: pa.Array) -> Iterable[object]:
        before, self.rows = self.rows, first + len(v)
        if min(v.to_pylist()) < 0:
            return [wk.Remove(0, before)]
        return [wk.Shift(0, before, to=(0, self.rows))] if before else [wk.Add(0, self.rows)]

    def finish(self, rows: int) -> Iterable[object]:
        return []


def test_a_window_that_is_taken_back_comes_without_a_window() -> None:
    query = wk.query(by="k", time="t", windows=wk.custom(Growing()), aggs=wk.sum("v"))
    op = query.operator(schema=SCHEMA)
    emitted = [op.push(rows([t], [v])).to_pylist() for t, v in enumerate([1, 2, -4])]
    shown = [
        [(row["window_end"], row["window_number"], row["sum(v)"], row["update"]) for row in each]
        for each in emitted
    ]
    assert shown == [[(0, 0, 1, False)], [(1, 0, 3, True)], [(None, 0, None, True)]]


def test_explain_says_for_which_queries_rows_are_kept() -> None:
    op = by_rows(wk.sum("v"), wk.max("v")).operator(order="out-of-order", schema=SCHEMA)
    emitted = op.explain()
    assert "store rows: yes (§5.1, Fig. 4)" in emitted
    assert "take rows out: by inversion (§5.2, Fig. 6)" in emitted
    assert "rows are stored for q1" in emitted
    assert "store:" not in emitted
    op.add(wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v")))
    assert "store: lazy" in op.explain()


@pytest.mark.parametrize(
    ("order", "window", "aggs", "store"),
    [
        (
            "in-order",
            wk.sliding(40, 10),
            [wk.sum("v"), wk.count()],
            "store: eager (§5.2)\n  windows overlap: each is",
        ),
        (
            "in-order",
            wk.sliding(40, 10),
            [wk.sum("v"), wk.max("v")],
            "store: eager (§5.2)\n  windows overlap: where",
        ),
        ("in-order", wk.sliding(40, 10), [wk.max("v")], "store: lazy (§5.2)\n  few window types"),
        ("in-order", wk.sliding(30, 10), [wk.sum("v")], "store: lazy (§5.2)\n  few window types"),
        ("in-order", wk.session(4), [wk.sum("v")], "store: lazy (§5.2)\n  few window types"),
        ("out-of-order", wk.sliding(40, 10), [wk.sum("v")], "store: lazy (§5.2)\n  few window types"),
    ],
    ids=str,
)
def test_totals_are_kept_where_they_are_read_often(
    order: Any, window: wk.Window, aggs: list[wk.Aggregate], store: str
) -> None:
    query = wk.query(by="k", time="t", windows=window, aggs=aggs)
    assert store in query.operator(order=order, schema=SCHEMA).explain()
    lazy = query.operator(order=order, schema=SCHEMA, store="lazy").explain()
    assert "store: lazy (§5.2)\n  as requested" in lazy


def test_an_operator_does_not_wait_for_itself() -> None:
    """A function that calls the operator that it runs in gets an error, another thread its turn."""
    ops: list[wk.Operator] = []
    tried: list[str] = []

    def total(a: pa.Array, b: pa.Array) -> pa.Array:
        for op in ops:
            with pytest.raises(wk.InvalidValue) as raised:
                op.stats()
            tried.append(str(raised.value))
        return pc.add(a, b)

    aggregate = wk.aggregate("total", lift=lambda v: v, combine=total, lower=lambda s: s, commutative=True)
    op = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=aggregate("v")).operator(schema=SCHEMA)
    ops.append(op)
    op.push(rows([1, 2, 3]))
    assert tried
    assert tried[0].startswith("stats: the operator was called by a function that it was itself calling")
    others = threading.Thread(target=lambda: tried.append(f"{op.stats().rows} rows"))
    others.start()
    others.join(10)
    assert tried[-1] == "3 rows"


def test_damaged_contents_are_refused() -> None:
    op = out_of_order(by_rows(wk.sum("v"), wk.first("v")))
    op.push(rows([1, 2, 5, 3]))
    whole = op.snapshot()
    other = by_rows(wk.sum("v"), wk.last("v"))
    with pytest.raises(
        wk.InvalidValue, match=re.escape("queries: query 'q1' differs from the one in the snapshot")
    ):
        wk.Operator.restore(whole, other)
    with pytest.raises(wk.InvalidValue, match="snapshot: it is damaged: its checksum does not match"):
        wk.Operator.restore(whole[:-1] + bytes([whole[-1] ^ 1]), by_rows(wk.sum("v"), wk.first("v")))
    again = wk.Operator.restore(whole, by_rows(wk.sum("v"), wk.first("v")))
    assert again.snapshot() == whole


@pytest.mark.parametrize("filtered", [False, True])
def test_a_user_s_inverse_takes_rows_out(filtered: bool) -> None:
    """A late row moves one row from each slice to the next: by the inverse, with nulls and a filter, too."""
    calls = {"lift": 0, "invert": 0}

    def counted(name: str, values: pa.Array) -> pa.Array:
        calls[name] += len(values)
        return values

    total = wk.aggregate(
        "total",
        lift=lambda v: counted("lift", pc.fill_null(v, 0)),
        combine=pc.add,
        lower=lambda states: states,
        invert=lambda whole, part: counted("invert", pc.subtract(whole, part)),
        commutative=True,
    )
    answer = total("v").where("keep") if filtered else total("v")
    query = wk.query(by=[], time="t", windows=wk.tumbling(rows=10), aggs=[answer.alias("s")])
    schema = pa.schema({"t": pa.int64(), "v": pa.int64(), "keep": pa.bool_()})

    def made(times: list[int]) -> pa.Table:
        values = [None if t % 5 == 0 else t for t in times]
        return pa.table({"t": times, "v": values, "keep": [t % 3 != 0 for t in times]}, schema=schema)

    op = query.operator(order="out-of-order", schema=schema)
    op.push(made(list(range(0, 400, 2))))
    lifted = calls["lift"]
    late = [t * 40 + 1 for t in range(9, -1, -1)]
    for t in late:
        op.push(made([t]))
    emitted = op.close()["s"].to_pylist()
    times = sorted([*range(0, 400, 2), *late])
    taken = [0 if t % 5 == 0 or (filtered and t % 3 == 0) else t for t in times]
    assert emitted == [sum(taken[at : at + 10]) for at in range(0, len(taken), 10)][: len(emitted)]
    assert len(emitted) == len(times) // 10
    # Each late row moves a row over every edge behind it; a slice of ten rows is not lifted again.
    moved = op.stats().shifts
    assert moved > 50
    assert calls["invert"] > 0
    assert calls["lift"] - lifted < 4 * (moved + len(late))
