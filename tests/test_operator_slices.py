"""Slices pushed to an operator are as good as their rows: call by call, against rows and the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.plain import plain
from support.stream_oracle import assert_same, results
from support.streams import (
    AGGREGATES,
    VALUES,
    Case,
    cases,
    operator,
    reached,
    scalar,
    scaled,
    start,
    time_window,
)

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64(), "b": pa.bool_()})
PARTLY_LATE = "has rows before and after"


def takes_slices(query: wk.Query, schema: pa.Schema) -> bool:
    return query.operator(order="out-of-order", schema=schema).takes_slices


def is_sliced(window: wk.Window, time: pa.DataType) -> bool:
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count())
    return takes_slices(query, pa.schema({"t": time}))


ENOUGH = [
    each
    for each in AGGREGATES
    if takes_slices(
        wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=each),
        pa.schema({"t": pa.int64(), **{name: kind for name, (kind, _) in VALUES.items()}}),
    )
]
"""Functions that need no rows in order."""


@st.composite
def sliced_windows(draw: st.DrawFn, time: pa.DataType) -> list[wk.Window]:
    drawn = [time_window(draw, time) for _ in range(draw(st.integers(1, 4)))]
    enough = [window for window in drawn if is_sliced(window, time)] or [time_window_of(time)]
    return [window.alias(f"w{number}") for number, window in enumerate(enough)]


def time_window_of(time: pa.DataType) -> wk.Window:
    return wk.sliding(scaled(7, time), scaled(3, time))


@st.composite
def sliced_cases(draw: st.DrawFn) -> Case:
    """Draw streams whose queries slices are enough for."""
    case = draw(cases("out-of-order"))
    aggs = draw(st.lists(st.sampled_from(ENOUGH), min_size=1, max_size=4, unique_by=lambda each: each.name))
    query = wk.query(
        by=case.query.by, time="t", windows=draw(sliced_windows(case.schema.field("t").type)), aggs=aggs
    )
    return case._replace(query=query, delay=None)


@settings(max_examples=60)
@given(sliced_cases(), st.data())
def test_slices_are_as_good_as_their_rows(case: Case, data: st.DataObject) -> None:
    """At every step, also among rows, and after a restart."""
    op, oracle = start(case)
    by_rows, time, untimed = operator(case), case.schema.field("t").type, 0
    has_sessions = any(isinstance(window, wk.Session) for window in case.query.windows)
    for call in case.calls:
        if call.batch is not None:
            expected = oracle.push(call.batch)
            pushed = by_rows.push(call.batch)
            if data.draw(st.booleans()):
                emitted, is_taken = pushed_as_slices(op, case.query, call.batch)
                assert is_taken or has_sessions
                untimed += call.batch["t"].null_count * is_taken
            else:
                emitted = op.push(call.batch)
        else:
            least = -40 if oracle.watermark is None else oracle.watermark
            target = max(least, reached(oracle) - 15 + call.advance)
            expected = oracle.advance(target)
            pushed, emitted = by_rows.advance(scalar(target, time)), op.advance(scalar(target, time))
        assert_same(expected, results(op, emitted))
        assert_same(results(by_rows, pushed), results(op, emitted))
        if data.draw(st.integers(0, 3)) == 0:
            op = wk.Operator.restore(op.snapshot(), case.query)
    assert_same(oracle.close(), results(op, op.close()))
    if any(each.function == "count_all" and each.condition is None for each in case.query.aggs):
        assert op.late == by_rows.late - untimed


def pushed_as_slices(op: wk.Operator, query: wk.Query, rows: pa.Table) -> tuple[pa.Table, bool]:
    """Push slices, or rows where only some rows of a slice are late; return results, and which it was."""
    try:
        return op.push_slices(query.slices(rows)), True
    except wk.InvalidValue as error:
        if PARTLY_LATE not in str(error):
            raise
        return op.push(rows), False


@pytest.mark.parametrize("form", ["pyarrow", "polars"])
def test_slices_that_went_through_polars_are_pushed(form: str) -> None:
    aggs = [wk.sum("v").alias("s"), wk.collect_list("k").alias("ks"), wk.mode("k").alias("m")]
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=aggs)
    rows = pa.table({"k": ["a", "a", "b"], "t": [1, 5, 12], "v": [1, 2, 4]})
    made = query.slices(pl.from_arrow(rows) if form == "polars" else rows)
    for each in (pl.from_arrow(made), made, made.to_reader()):
        op = query.operator(order="out-of-order", schema=rows)
        op.push_slices(each)
        assert op.advance(20).drop_columns("update").equals(query.run(rows))
    other = pl.from_arrow(made.set_column(1, made.field(1).name, made.column(1).cast(pa.int32())))
    with pytest.raises(wk.InvalidValue, match="slices of this query have"):
        query.operator(order="out-of-order", schema=rows).push_slices(other)


def test_early_results_come_for_slices_as_for_rows() -> None:
    policy = wk.emit(wk.rows(1) | wk.every(10), refinement="retracting")
    query = wk.query(by="k", time="t", windows=wk.sliding(20, 5), aggs=wk.sum("v"), emit=policy)
    ops = [query.operator(order="out-of-order", schema=SCHEMA, allowed_lateness=10) for _ in range(2)]
    for times, watermark in [([1, 3, 12], 5), ([7, 22], 21), ([4, 30], 30)]:
        rows = table(times)
        emitted = [ops[0].push(rows), ops[1].push_slices(query.slices(rows))]
        assert emitted[0].num_rows > 0
        emitted += [op.advance(watermark) for op in ops]
        assert emitted[0].equals(emitted[1])
        assert emitted[2].equals(emitted[3])


def table(times: list[int | None]) -> pa.Table:
    values = list(range(len(times)))
    columns = {"k": [f"k{value % 2}" for value in values], "t": times, "v": values}
    return pa.table({**columns, "b": [value % 2 == 0 for value in values]}, SCHEMA)


TUMBLING = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.count().alias("n")])
SESSIONS = wk.query(by="k", time="t", windows=wk.session(5), aggs=wk.sum("v"))


def of(window: Any, **more: Any) -> wk.Query:
    return wk.query(**{"by": "k", "time": "t", "windows": window, "aggs": wk.count(), **more})


REFUSED: dict[str, Callable[[], wk.Operator]] = {
    "in order": lambda: TUMBLING.operator(schema=SCHEMA),
    "follow rows": lambda: TUMBLING.operator(order="out-of-order", schema=SCHEMA, progress=wk.delay(3)),
    "rows of a key in order": lambda: of(wk.tumbling(rows=3)).operator(order="out-of-order", schema=SCHEMA),
    "has a start": lambda: of(wk.landmark(5, start=3)).operator(order="out-of-order", schema=SCHEMA),
    "counts rows": lambda: of(wk.tumbling(5), emit=wk.emit(wk.rows(2))).operator(
        order="out-of-order", schema=SCHEMA
    ),
    "or looks at them": lambda: of(wk.tumbling(5), emit=wk.emit(wk.on("b"))).operator(
        order="out-of-order", schema=SCHEMA
    ),
    "2 queries": lambda: with_two(),
    "is ahead of the stream": lambda: with_a_key_ahead(),
}


def with_two() -> wk.Operator:
    op = TUMBLING.operator(order="out-of-order", schema=SCHEMA)
    op.add(SESSIONS)
    return op


def with_a_key_ahead() -> wk.Operator:
    op = TUMBLING.operator(order="out-of-order", schema=SCHEMA)
    op.advance(10, key="k0")
    return op


@pytest.mark.parametrize("why", REFUSED)
def test_where_slices_are_not_as_good_they_are_refused(why: str) -> None:
    op = REFUSED[why]()
    assert not op.takes_slices
    with pytest.raises(wk.InvalidValue, match=f"slices: .*{why}.*; push rows instead"):
        op.push_slices(TUMBLING.slices(table([1])))
    assert op.stats().rows == 0


def changed(slices: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return slices.set_column(slices.column_names.index(name), name, values)


def test_what_is_no_slice_of_the_query_is_refused_and_nothing_changes() -> None:
    op, slices = TUMBLING.operator(order="out-of-order", schema=SCHEMA), TUMBLING.slices(table([1, 12]))
    other = of(wk.tumbling(10), aggs=wk.max("v")).slices(table([1]))
    good = {"slices of this query have": other.replace_schema_metadata(slices.schema.metadata)}
    good["a slice of this query is within 0 to 10"] = changed(slices, "start", pa.array([3, 0]))
    good["a time is null"] = changed(slices, "start", pa.array([0, None]))
    for message, given_slices in good.items():
        with pytest.raises(wk.InvalidValue, match=message):
            op.push_slices(given_slices)
    with pytest.raises(wk.Overflow):
        op.push_slices(changed(slices, "start", pa.array([0, -(2**63)])))
    sessions = SESSIONS.operator(order="out-of-order", schema=SCHEMA)
    with pytest.raises(wk.InvalidValue, match="slice 0 is from 1 to 0"):
        sessions.push_slices(changed(SESSIONS.slices(table([1])), "last", pa.array([0])))
    assert (op.stats().slices, op.stats().rows, sessions.stats().slices) == (0, 0, 0)
    with pytest.raises(wk.InvalidType, match="slices: "):
        op.push_slices(3)
    with pytest.raises(wk.InvalidValue, match="schema"):
        TUMBLING.operator(order="out-of-order").push_slices(slices)
    with pytest.raises(wk.InvalidValue, match="needs rows in order"):
        of(wk.tumbling(rows=3)).slices(table([1]))
    op.close()
    with pytest.raises(wk.InvalidValue, match="closed"):
        op.push_slices(slices)


@pytest.mark.parametrize(
    "other",
    [
        of(wk.tumbling(10), aggs=wk.min("v")),
        of(wk.tumbling(10), aggs=wk.max("t")),
        of(wk.tumbling(10), aggs=wk.max("v").where("b")),
        of(wk.tumbling(5), aggs=wk.max("v")),
        wk.query(by="t", time="t", windows=wk.tumbling(10), aggs=wk.max("v")),
    ],
)
def test_slices_of_another_query_are_refused(other: wk.Query) -> None:
    query = of(wk.tumbling(10), aggs=wk.max("v"))
    op = query.operator(order="out-of-order", schema=SCHEMA)
    with pytest.raises(
        wk.InvalidValue, match=r"slices: they are of the query by .*, and that of the operator is by"
    ):
        op.push_slices(other.slices(table([1])))
    assert op.stats().slices == 0
    op.push_slices(query.slices(table([1])))
    assert op.close().num_rows == 1


def test_rows_of_late_slices_are_counted() -> None:
    op = TUMBLING.operator(order="out-of-order", schema=SCHEMA)
    op.advance(20)
    op.push_slices(TUMBLING.slices(table([1, 2, 3, 21, 22])))
    stats = op.stats()
    assert (stats.late, stats.rows, stats.late_dropped, op.take_late().num_rows) == (3, 2, 3, 0)
    # Without a count, a slice is one row.
    query = of(wk.tumbling(10), aggs=wk.sum("v"))
    op = query.operator(order="out-of-order", schema=SCHEMA)
    op.advance(20)
    op.push_slices(query.slices(table([1, 2, 3, 21])))
    assert op.late == 2


def test_a_slice_that_is_late_in_part_is_refused_whole() -> None:
    """Of sessions: one row of it alone would be too late, and the other is not."""
    op = SESSIONS.operator(order="out-of-order", schema=SCHEMA)
    op.advance(8)
    slices = SESSIONS.slices(table([1, 50, 4]))
    with pytest.raises(wk.InvalidValue, match=f"rows before 3 are late, .* from 1 to 4 {PARTLY_LATE}"):
        op.push_slices(slices)
    assert (op.late, op.stats().slices) == (0, 0)
    assert op.push(table([1, 50, 4])).num_rows == 0
    assert op.late == 1


def test_no_slices_are_no_rows() -> None:
    nothing = TUMBLING.slices(table([]))
    assert nothing.num_rows == 0
    assert nothing.schema == TUMBLING.slices(table([1])).schema
    op = TUMBLING.operator(order="out-of-order", schema=SCHEMA)
    assert op.push_slices(nothing).num_rows == 0
    assert op.advance(10).num_rows == 0
    assert plain(pa.array([op.watermark.as_py()])) == [10]


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("first", ["rows", "slices"])
def test_slices_reach_engines_that_have_only_some_of_the_windows(first: str, is_restored: bool) -> None:
    """A row that is too late for sessions alone has these apart from then on."""
    aggs = [wk.count().alias("n"), wk.max("t").alias("most")]
    query = wk.query(by=[], time="t", windows=[wk.tumbling(7), wk.session(3)], aggs=aggs)
    op = query.operator(order="out-of-order", schema=pa.schema({"t": pa.int64()}))
    op.advance(18)
    late, rows = pa.table({"t": [14]}), pa.table({"t": [100, 101]})
    assert (op.push(late) if first == "rows" else op.push_slices(query.slices(late))).num_rows == 0
    if is_restored:
        op = wk.Operator.restore(op.snapshot(), query)
    op.push_slices(query.slices(rows))
    found = [(row["window_start"], row["n"], row["most"]) for row in op.close().to_pylist()]
    assert sorted(found) == [(14, 1, 14), (98, 2, 101), (100, 2, 101)]
