"""Streams whose rows are stored, against the definition: windows by rows, by marks, and of users' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.consumer import Held, replace
from support.extents import FORMS
from support.oracle import evaluate
from support.plain import column, key, plain
from support.rows_oracle import Both, assert_alike, needs_rows
from support.streams import (
    AGGREGATES,
    KEYS,
    MARKS,
    TIMES,
    VALUES,
    Call,
    Case,
    batches,
    come_and_go,
    may_change,
    operator,
    oracle_of,
    reached,
    row_windows,
    scalar,
    step_by_rows,
    time_window,
    updating,
)


def joined(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(a, b, "-")


@st.composite
def queries(
    draw: st.DrawFn,
    time: pa.DataType,
    by: list[str],
    forms: Sequence[str] = FORMS,
    *,
    rows: bool | None = None,
) -> wk.Query:
    drawn = []
    for number in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        emitted = draw(st.booleans()) if rows is None else rows or draw(st.booleans())
        drawn.append((row_windows if emitted else time_window)(draw, time).alias(f"w{number}"))
    aggs = draw(
        st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique_by=lambda each: each.name)
    )
    form = draw(st.sampled_from(forms))
    return wk.query(by=by, time="t", windows=drawn, aggs=aggs, window_columns=form)


@st.composite
def cases(draw: st.DrawFn, order: str | None = None) -> Case:
    time = draw(st.sampled_from(TIMES))
    keys = [draw(st.sampled_from(KEYS)) for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2])))]
    by = [f"k{number}" for number in range(len(keys))]
    query = draw(queries(time, by, rows=True))
    kinds = dict(zip(by, keys, strict=True)) | {"t": (time, st.integers())} | VALUES | MARKS
    schema = pa.schema({name: kind for name, (kind, _) in kinds.items()})
    order = order or draw(st.sampled_from(["in-order", "out-of-order", "out-of-order"]))
    lateness = 0 if order == "in-order" else draw(st.sampled_from([0, 3, 20, 1000]))
    delay = None if order == "in-order" else draw(st.sampled_from([None, None, 0, 7]))
    calls, now = [], draw(st.integers(-30, 30))
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.integers(0, 3)) == 0:
            of = draw(st.none() | st.integers(0, 20))
            calls.append(Call(None, draw(st.integers(0, 30)), draw(st.booleans()), of))
            continue
        delays = [0] if order == "in-order" else [0, 0, 0, 1, 2, 4, 11, 30]
        batch, now = draw(batches(schema, kinds, now, [0, 0, 1, 1, 2, 5, 12], delays))
        calls.append(Call(batch))
    updates = draw(updating(order, lateness, query))
    return Case(query, schema, order, lateness, delay, calls, updates=updates)


def start(case: Case) -> tuple[wk.Operator, Both]:
    return operator(case), oracle_of(case, Both)


def step(op: wk.Operator, oracle: Both, call: Call, time: pa.DataType) -> None:
    """Make a call, and compare what it returns."""
    marked = any(
        isinstance(window, wk.Punctuation) for name in oracle.queries for window in op.queries[name].windows
    )
    if call.batch is not None or not call.mark or not marked:
        step_by_rows(op, oracle, call, time)
        return
    at = reached(oracle) + (call.advance - 15 if oracle.order == "out-of-order" else 0)
    table = oracle.parts[True].table
    given: Any = None
    query, *_ = op.queries.values()  # All of an operator have the same keys.
    if query.by and call.advance % 2 and table.num_rows:
        given = {name: table[name][call.advance % table.num_rows].as_py() for name in query.by}
    group = None if given is None else tuple(key(plain_of(table, given, name)) for name in query.by)
    if not oracle.cutoff_of(at, group):
        return
    expected = oracle.punctuate(at, group)
    oracle.check(op, op.punctuate(scalar(at, time), given), expected)


def plain_of(table: pa.Table, given: dict[str, Any], name: str) -> Any:
    kind = table.schema.field(name).type
    return plain(column([given[name]], kind))[0]


@settings(max_examples=600)
@given(cases())
def test_every_call_returns_what_the_definition_says(case: Case) -> None:
    op, oracle = start(case)
    time = case.schema.field("t").type
    for call in case.calls:
        step(op, oracle, call, time)
    expected = oracle.close()
    oracle.check(op, op.close(), expected)
    stats = op.stats()
    assert (stats.rows, stats.late) == (oracle.rows, len(oracle.late))
    assert (stats.slices, stats.rows_kept) == (0, 0)
    oracle.check_late(op)


@settings(max_examples=250)
@given(cases(), st.data())
def test_queries_come_and_go(case: Case, data: st.DataObject) -> None:
    """Queries that need rows and queries that do not, in one operator: none notices the others."""
    op, oracle = start(case)
    come_and_go(op, oracle, case, data.draw, queries, step)
    expected = oracle.close()
    oracle.check(op, op.close(), expected)
    oracle.check_late(op)


@settings(max_examples=200)
@given(cases(), st.data())
def test_a_restart_changes_nothing(case: Case, data: st.DataObject) -> None:
    """An operator that is put down and taken up again returns what the definition says."""
    op, oracle = start(case)
    time = case.schema.field("t").type
    if data.draw(st.booleans()):
        other = data.draw(queries(time, list(case.query.by), [case.query.window_columns]))
        if case.updates or case.order == "in-order" or not any(map(may_change, other.windows)):
            op.add(other)
            oracle.add("q2", other)
    for call in case.calls:
        if data.draw(st.booleans()):
            before = op.stats()
            op = wk.Operator.restore(op.snapshot(), dict(op.queries))
            again = op.stats()
            assert (before.rows, before.slices, before.rows_kept) == (
                again.rows,
                again.slices,
                again.rows_kept,
            )
            assert (before.splits, before.merges, before.shifts) == (again.splits, again.merges, again.shifts)
        step(op, oracle, call, time)
    expected = oracle.close()
    oracle.check(op, op.close(), expected)


@settings(max_examples=250)
@given(cases("out-of-order"))
def test_with_updates_applied_results_are_those_of_all_rows(case: Case) -> None:
    """With no row too late, the last word on each window is what a batch query says of all rows."""
    op, _ = start(case._replace(lateness=10**5, updates=True))
    time = case.schema.field("t").type
    last: Held = {}
    tables = [case.schema.empty_table()]
    for call in case.calls:
        if call.batch is not None:
            tables.append(call.batch)
            emitted = op.push(call.batch)
        else:
            times = [t for table in tables for t in plain(table["t"]) if t is not None]
            now = max([-40, *times]) - 5
            if op.watermark is not None:
                now = max(now, plain(pa.array([op.watermark.as_py()], op.watermark.type))[0])
            emitted = op.advance(scalar(now, time))
        replace(last, emitted, op.queries, time)
    replace(last, op.close(), op.queries, time)
    everything = pa.concat_tables(tables)
    assert case.query.run(everything).num_rows == len(last)
    assert_final(case, everything, last)


def assert_final(case: Case, everything: pa.Table, last: Held) -> None:
    """Assert that a consumer has the windows of all rows."""
    query, expected = case.query, []
    width = len(query.by)
    if any(isinstance(window, wk.Custom) for window in query.windows):
        # The definition over all rows at once, then the end of the stream.
        _, oracle = start(case._replace(lateness=10**5, delay=None, updates=True))
        emitted = oracle.push(everything) | oracle.close()
        kinds = {window.name: window for window in query.windows}
        for (_, *at, _), values in emitted.items():
            group, (name, begin, end, *ranks) = tuple(at[:width]), at[width:]
            expected.append((group, name, begin, end, ranks[0] if kinds[name].counts_rows else None, values))
    else:
        for found, values in evaluate(query, everything).items():
            group, rest = found[:width], found[width:]
            name, rest = (rest[0], rest[1:]) if len(query.windows) > 1 else (query.windows[0].name, rest)
            ranks = rest[2:] if query.has_ranks else (None,)
            expected.append((group, name, *rest[:2], ranks[0], values))
    got = [(group, name, *each[:3], each[3:]) for (_, group, name, _), each in last.items()]
    assert_alike(expected, got)


@settings(max_examples=150)
@given(cases("out-of-order"), st.data())
def test_functions_that_do_not_commute(case: Case, data: st.DataObject) -> None:
    """Of rows in any order a function of order sees them in the order of time and arrival."""
    joins = wk.aggregate("joins", lift=lambda s: s, combine=joined, lower=lambda states: states)
    plain_windows = [time_window(data.draw, case.schema.field("t").type).alias("time")]
    windows = [*case.query.windows, *plain_windows] if data.draw(st.booleans()) else plain_windows
    query = wk.query(by=list(case.query.by), time="t", windows=windows, aggs=[joins("s").alias("joined")])
    listed = wk.query(
        by=list(case.query.by), time="t", windows=windows, aggs=[wk.collect_list("s").alias("joined")]
    )
    assert needs_rows(query, "out-of-order")
    ops = []
    for each in (query, listed):
        op, _ = start(case._replace(query=each))
        ops.append(op)
    for call in case.calls:
        emitted = [made(op, call) for op in ops]
        compare(emitted, query)
    compare([op.close() for op in ops], query)


def made(op: wk.Operator, call: Call) -> pa.Table:
    if call.batch is not None:
        return op.push(call.batch)
    if op.watermark is None:
        return op.advance(op.watermark or first_time(op))
    return op.advance(op.watermark)


def first_time(op: wk.Operator) -> Any:
    return scalar(-40, op.schema.field("window_end").type)


def compare(emitted: list[pa.Table], query: wk.Query) -> None:
    """Compare a list of values joined by a function with the list of them."""
    names = [name for name in emitted[0].column_names if name != "joined"]
    joins, lists = (
        sorted(table.to_pylist(), key=lambda row: str([row[name] for name in names])) for table in emitted
    )
    # As texts, since a NaN is not itself.
    keys = [[str([row[name] for name in names]) for row in each] for each in (joins, lists)]
    assert keys[0] == keys[1]
    for a, b in zip(joins, lists, strict=True):
        words = b["joined"]
        assert a["joined"] == ("-".join(words) if words else None)
