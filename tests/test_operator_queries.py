"""Queries that come and go while a stream runs, and the slices they share."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support import local_oracle
from support.oracle import extents
from support.plain import in_units, plain
from support.stream_oracle import assert_same, results
from support.streams import Call, Case, cases, come_and_go, queries, start, step
from windowkit.streams.queried import first_end


@settings(max_examples=200)
@given(cases(), st.data())
def test_queries_come_and_go(case: Case, data: st.DataObject) -> None:
    """An added query has its own windows, from then on; a removed one none; others do not notice."""
    op, oracle = start(case)
    come_and_go(op, oracle, case, data.draw, queries, step)
    assert_same(oracle.close(), results(op, op.close()))


def test_a_late_row_within_a_slice_that_is_older_than_an_edge_inside_it() -> None:
    """What was a slice before a query came stays one, also for late rows: its edges cut what is later."""
    schema = pa.schema({"t": pa.int64()})
    query = wk.query(by=[], time="t", windows=wk.session(13), aggs=wk.count())
    op = query.operator(order="out-of-order", progress=wk.delay(0), store="lazy", schema=schema)
    op.push(pa.table({"t": [-13, -8]}, schema=schema))
    op.add(wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.count()))
    op.push(pa.table({"t": [-12]}, schema=schema))
    assert [plain(op.slices()[name]) for name in ("t_first", "t_last")] == [[-13], [-8]]
    op.advance(4)
    sessions = op.advance(6)
    (session,) = sessions.to_pylist()
    assert (session["window_start"], session["window_end"], session["count(1)"]) == (-13, 5, 3)


COARSE = [wk.session(5), wk.session(12), wk.tumbling(30), wk.sliding(20, 7), wk.global_window()]
FINE = [wk.tumbling(3), wk.session(2), wk.sliding(5, 2), wk.band(8, 17), wk.landmark(4, start=6)]
ROWS = pa.schema({"t": pa.int64(), "v": pa.int64()})


@settings(max_examples=300)
@given(
    st.sampled_from(COARSE),
    st.lists(st.sampled_from(FINE), min_size=1, max_size=2),
    st.lists(st.lists(st.integers(0, 25), min_size=1, max_size=8), min_size=2, max_size=6),
    st.sampled_from(["lazy", "eager"]),
)
def test_late_rows_find_their_slices_whatever_was_added(
    window: wk.Window, fine: list[wk.Window], pushed: list[list[int]], store: str
) -> None:
    """The edges of a query that is added cut nothing of the time before it, where late rows still come."""
    aggs = [wk.collect_list("v"), wk.max("v")]
    query = wk.query(by=[], time="t", windows=window, aggs=aggs)
    case = Case(query, ROWS, "out-of-order", 1000, None, [], store)
    op, oracle = start(case)
    for number, times in enumerate(pushed):
        if number in range(1, len(fine) + 1):
            other = wk.query(by=[], time="t", windows=fine[number - 1], aggs=wk.count().alias(f"n{number}"))
            oracle.add(op.add(other), other)
        shifted = [t + 6 * number for t in times]
        batch = pa.table({"t": shifted, "v": [10 * number + at for at in range(len(times))]}, schema=ROWS)
        step(op, oracle, Call(batch, 0), pa.int64())
        step(op, oracle, Call(None, 12), pa.int64())
    assert_same(oracle.close(), results(op, op.close()))


@settings(max_examples=60)
@given(
    st.sampled_from(
        [wk.landmark(17, start=3), wk.landmark(8, period=48), wk.band(5, 99), wk.global_window()]
    ),
    st.sampled_from([wk.sliding(3, 1), wk.tumbling(2), wk.session(1)]),
    st.integers(0, 2**32),
    st.sampled_from([0, 10]),
    st.sampled_from(["lazy", "eager"]),
)
def test_windows_that_reach_far_back_over_many_slices(
    far: wk.Window, near: wk.Window, seed: int, lateness: int, store: str
) -> None:
    """Slices that became one, as no window needs them apart, hide no window that is still to come."""
    query = wk.query(by=["k"], time="t", windows=[far, near], aggs=[wk.sum("v"), wk.last("v")])
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64()})
    order = "out-of-order" if lateness else "in-order"
    op, oracle = start(Case(query, schema, order, lateness, None, [], store))
    random, now = Random(seed), 0
    for _ in range(8):
        times = []
        for _ in range(random.randint(1, 40)):
            now += random.randint(0, 2)
            times.append(now - (random.randint(0, 12) if lateness and random.random() < 0.2 else 0))
        # Keys that fall silent in the middle of a window.
        batch = pa.table(
            {"k": [t // 30 % 3 for t in times], "t": times, "v": list(range(len(times)))}, schema=schema
        )
        step(op, oracle, Call(batch, 0), pa.int64())
        if lateness:
            step(op, oracle, Call(None, 13), pa.int64())
    assert_same(oracle.close(), results(op, op.close()))


def edges_of(window: wk.Window, times: list[int], time: pa.DataType) -> set[int]:
    """Return every start and end of a window that has one of the rows."""
    edges = set()
    for start_of, end, *_ in extents(window, range(len(times)), times, time, {}):
        edges |= {start_of, end}
    # Windows without rows have edges too, where rows lie on both sides.
    if isinstance(window, wk.Band):
        edges |= {in_units(window.start, time), in_units(window.end, time)}
    elif window.is_local:
        edges |= local_oracle.edges(window, times, time)
    elif isinstance(window, wk.Landmark):
        every = in_units(window.every, time)
        first = None if window.start is None else in_units(window.start, time)
        offset = in_units(window.start_time or 0, time) if first is None else first
        for t in times:
            near = (t - offset) // every * every + offset
            edges |= {
                edge
                for edge in (near, near + every, first)
                if edge is not None and (first is None or first <= edge)
            }
    elif not isinstance(window, wk.Session | wk.Global):
        assert isinstance(window, wk.Tumbling | wk.Sliding), f"the oracle has no {window.kind}"
        size = in_units(window.size, time)
        slide = size if isinstance(window, wk.Tumbling) else in_units(window.slide, time)
        offset = in_units(window.start_time or 0, time)
        for t in times:
            first = (t - offset) // slide * slide + offset
            for k in range(-2, 3):
                edges |= {first + k * slide, first + k * slide + size % slide}
    return edges


@settings(max_examples=150)
@given(cases())
def test_slice_edges_are_window_edges(case: Case) -> None:
    """Slices are as few as can be, at all times: none begins or ends but where a window does."""
    op, oracle = start(case)
    time = case.schema.field("t").type
    for call in case.calls:
        step(op, oracle, call, time)
        slices = op.slices()
        keys = [plain(slices[name]) for name in case.query.by]
        begin, end, first, last = (plain(slices[name]) for name in ("t_start", "t_end", "t_first", "t_last"))
        assert op.stats().slices == slices.num_rows
        assert first_end(op) == min(end, default=None)
        columns = [plain(oracle.table[name]) for name in case.query.by]
        for row in range(slices.num_rows):
            group = [str(column[row]) for column in keys]
            # Windows that take a late row, or put it elsewhere, may or may not have slices of their own.
            taken = {
                window: [
                    time
                    for other, time in oracle.taken["q1", window.name].items()
                    if all(same_key(str(c[other]), g) for c, g in zip(columns, group, strict=True))
                ]
                for window in case.query.windows
            }
            by_any = [time for own in taken.values() for time in own]
            assert {first[row], last[row]} <= set(by_any)
            of_each = [edges_of(window, own, time) for window, own in taken.items()]
            edges = set[int]().union(*of_each, *(edges_of(window, by_any, time) for window in taken))
            # Before the first edge of all that share it, and after the last, a slice is as long as its rows.
            if all(any(edge <= first[row] for edge in own) for own in of_each) or begin[row] != first[row]:
                assert begin[row] <= first[row]
                assert begin[row] in edges, (begin[row], sorted(edges))
            if all(any(edge > last[row] for edge in own) for own in of_each) or end[row] != last[row]:
                assert last[row] < end[row]
                assert end[row] in edges, (end[row], sorted(edges))


def same_key(one: str, other: str) -> bool:
    zeros = ("0.0", "-0.0")
    return one == other or (one in zeros and other in zeros)


def pushed(op: wk.Operator, times: list[Any]) -> list[dict[str, Any]]:
    return op.push(pa.table({"t": pa.array(times, pa.int64()), "v": pa.array([1] * len(times))})).to_pylist()


def test_memory_does_not_follow_the_rows() -> None:
    query = wk.query(by=[], time="t", windows=[wk.sliding(1000, 100)], aggs=[wk.sum("v"), wk.first("v")])
    op = query.operator()
    sizes = []
    for batch in range(60):
        pushed(op, list(range(batch * 40_000, (batch + 1) * 40_000)))
        sizes.append(op.stats().bytes)
    assert op.stats().slices == 10
    assert max(sizes[30:]) <= max(sizes[:30])


def test_a_merged_session_is_told_as_an_update_that_covers_what_it_replaces() -> None:
    query = wk.query(by=[], time="t", windows=wk.session(10), aggs=wk.sum("v"))
    op = query.operator(order="out-of-order", allowed_lateness=100)
    pushed(op, [0, 20])
    emitted = op.advance(50).to_pylist()
    assert [(row["window_start"], row["window_end"]) for row in emitted] == [
        (0, 10),
        (20, 30),
    ]
    assert pushed(op, [10]) == [{"window_start": 0, "window_end": 30, "sum(v)": 3, "update": True}]
    assert op.stats().merges == 1


def test_a_session_that_late_rows_open_again_is_an_update_when_it_is_over() -> None:
    query = wk.query(by=[], time="t", windows=wk.session(10), aggs=wk.sum("v"))
    op = query.operator(order="out-of-order", allowed_lateness=100)
    pushed(op, [0])
    assert op.advance(12).num_rows == 1
    assert pushed(op, [9]) == []
    assert op.advance(30).to_pylist() == [{"window_start": 0, "window_end": 19, "sum(v)": 2, "update": True}]


def test_late_rows_of_one_batch_are_no_session_that_was_told() -> None:
    """The first of them would be a session that is over; with the second it is not, and was never emitted."""
    windows = [wk.session(8).alias("wide"), wk.session(1).alias("narrow")]
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.sum("v"))
    op = query.operator(order="out-of-order", allowed_lateness=100)
    pushed(op, [30])
    op.advance(10)
    assert [row["window_name"] for row in pushed(op, [0, 5])] == ["narrow", "narrow"]
    emitted = op.advance(20).to_pylist()
    assert [(row["window_start"], row["window_end"], row["update"]) for row in emitted] == [(0, 13, False)]


def test_queries_share_partials_and_slices() -> None:
    one = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    two = wk.query(by=[], time="t", windows=wk.tumbling(20), aggs=[wk.sum("v"), wk.max("v")])
    op = one.operator()
    pushed(op, [1])
    assert op.schema.names == ["window_start", "window_end", "sum(v)", "update"]
    assert op.add(two, name="wide") == "wide"
    assert op.schema.names == ["query_name", *one.columns, "max(v)", "update"]
    assert op.schema.field("max(v)").nullable
    emitted = pushed(op, [15, 25, 45])
    assert [(row["query_name"], row["window_start"], row["sum(v)"], row["max(v)"]) for row in emitted] == [
        ("q1", 0, 1, None),
        ("q1", 10, 1, None),
        ("q1", 20, 1, None),
        ("wide", 20, 1, 1),
    ]
    op.remove("q1")
    assert list(op.queries) == ["wide"]
    assert [row["query_name"] for row in op.close().to_pylist()] == ["wide"]


@pytest.mark.parametrize("keys", [10_000])
def test_keys_without_slices_are_forgotten(keys: int) -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    op = query.operator()
    held = []
    for batch in range(12):
        table = pa.table({"k": range(batch * keys, (batch + 1) * keys), "t": [batch * 100] * keys})
        emitted = op.push(table)
        assert emitted.num_rows == (keys if batch else 0)
        assert (
            sorted(emitted["k"].to_pylist())
            == list(range((batch - 1) * keys, batch * keys))[: emitted.num_rows]
        )
        held.append(op.stats().bytes)
    assert op.stats().keys == keys
    assert max(held[6:]) <= max(held[:6])


@pytest.mark.parametrize("key", [None, "a"])
def test_a_query_that_is_added_later_has_the_punctuations_that_were_put_before(key: str | None) -> None:
    """It has them whether or not its windows share slices with those of the queries that were there."""
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "m": pa.bool_(), "n": pa.bool_()})
    aggs = wk.count().alias("rows")
    first = wk.query(by="k", time="t", windows=wk.punctuation("m", at="start"), aggs=aggs)
    op = first.operator(order="out-of-order", schema=schema)
    op.punctuate(10, key)
    alike = wk.query(by="k", time="t", windows=wk.punctuation("n"), aggs=aggs)
    other = wk.query(
        by="k", time="t", windows=[wk.punctuation("n"), wk.sliding(14, "3 rows", order="arrival")], aggs=aggs
    )
    op.add(alike, name="alike")
    # Windows of another lateness share no slices with those of the others.
    op.add(other, name="other", allowed_lateness=5)
    rows = {"t": [3, 9, 10], "m": [False] * 3, "n": [False, False, True]}
    found = [op.push(pa.table({"k": [k] * 3, **rows}).cast(schema)) for k in ("a", "b")]
    found.append(op.close())
    windows: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in (row for each in found for row in each.to_pylist()):
        if row["query_name"] != "q1" and row["window_name"] in (None, "w0", wk.punctuation("n").name):
            extent = (row["window_start"], row["window_end"])
            windows.setdefault((row["query_name"], row["k"]), []).append(extent)
    cut, whole = [(3, 9), (10, 10)], [(3, 10)]
    of_b = cut if key is None else whole
    assert {name: sorted(extents) for name, extents in windows.items()} == {
        ("alike", "a"): cut,
        ("other", "a"): cut,
        ("alike", "b"): of_b,
        ("other", "b"): of_b,
    }


@pytest.mark.parametrize(("key", "cut"), [("a", ["a"]), (None, ["a", "b"])])
def test_a_punctuation_cuts_the_slices_of_its_keys(key: str | None, cut: list[str]) -> None:
    query = wk.query(by="k", time="t", windows=wk.punctuation("m"), aggs=wk.count())
    op = query.operator(order="out-of-order")
    op.push(pa.table({"k": ["a", "b"] * 2, "t": [1, 2, 8, 9], "m": [False] * 4}))
    op.punctuate(5, key=key)
    whole, parts = [("a", 1, 8), ("b", 2, 9)], [("a", 1, 1), ("a", 8, 8), ("b", 2, 2), ("b", 9, 9)]
    expected = [each for each in whole if each[0] not in cut] + [each for each in parts if each[0] in cut]
    slices = op.slices().select(["k", "t_first", "t_last"]).to_pylist()
    assert sorted(tuple(each.values()) for each in slices) == sorted(expected)


def test_a_column_is_null_where_that_of_one_query_may_be() -> None:
    counts = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("x"))
    sums = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("v").alias("x"))

    def rows(time: int) -> pa.Table:
        return pa.table({"t": [time], "v": pa.array([None], pa.int64())})

    op = counts.operator()
    op.push(rows(0))
    assert not op.schema.field("x").nullable
    op.add(sums)
    assert op.schema.field("x").nullable
    assert op.push(rows(10))["x"].to_pylist() == [1]
    assert op.close().select(["query_name", "x"]).to_pylist() == [
        {"query_name": "q1", "x": 1},
        {"query_name": "q2", "x": None},
    ]


def test_results_have_room_for_what_a_stream_adds() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("update"))
    with pytest.raises(wk.InvalidValue, match="aggs: results would have two columns 'update'"):
        query.operator()
    op = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count()).operator()
    with pytest.raises(wk.InvalidValue, match="aggs: results would have two columns 'update'"):
        op.add(query)
    with pytest.raises(
        wk.InvalidValue, match=r"by: .* two columns 'update', one of which an operator adds; rename the key"
    ):
        wk.query(by="update", time="t", windows=wk.tumbling(10), aggs=wk.count()).operator()
