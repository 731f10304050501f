"""Group-wise punctuation: keys that are complete further than the stream."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support import samples
from windowkit import InvalidType, InvalidValue


def rows(*given: tuple[Any, int]) -> pa.Table:
    keys, times = zip(*given, strict=True)
    return pa.table({"k": keys, "t": times})


def counting(windows: Any, **options: Any) -> wk.Operator:
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.count().alias("n"))
    schema = pa.schema({"k": pa.string(), "t": pa.int64()})
    return query.operator(**{"order": "out-of-order", "schema": schema} | options)


def shown(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return keys, where windows start, counts, and whether these are updates."""
    return [(row["k"], row["window_start"], row["n"], row["update"]) for row in table.to_pylist()]


def test_a_key_is_ahead_of_the_others_until_the_stream_is_there() -> None:
    op = counting(wk.tumbling(10))
    op.push(rows(("a", 1), ("b", 2), ("a", 12)))
    assert shown(op.advance(10, key="a")) == [("a", 0, 1, False)]
    assert op.keys_ahead().to_pylist() == [{"k": "a", "watermark": 10}]
    assert op.stats().keys_ahead == 1
    assert op.watermark is None
    # Its rows are late now, and those of other keys are not.
    assert op.push(rows(("a", 3), ("b", 3))).num_rows == 0
    assert op.take_late().to_pylist() == [{"k": "a", "t": 3, "late_reason": "too late"}]
    assert shown(op.advance(10)) == [("b", 0, 2, False)]
    assert op.keys_ahead().num_rows == op.stats().keys_ahead == 0
    assert shown(op.close()) == [("a", 10, 1, False)]


def test_late_rows_mend_windows_of_a_key_within_its_own_lateness() -> None:
    op = counting(wk.tumbling(10), allowed_lateness=5)
    op.push(rows(("a", 1), ("b", 1)))
    op.advance(12, key="a")
    assert shown(op.push(rows(("a", 2), ("b", 2)))) == [("a", 0, 2, True)]
    op.advance(15, key="a")
    assert op.push(rows(("a", 2), ("b", 2))).num_rows == 0
    assert op.late == 1
    assert shown(op.advance(10)) == [("b", 0, 3, False)]


def test_queries_have_their_own_lateness() -> None:
    op = counting(wk.tumbling(10), allowed_lateness=100)
    op.add(wk.query(by="k", time="t", windows=wk.session(3), aggs=wk.count().alias("n")), allowed_lateness=0)
    op.push(rows(("a", 1), ("b", 1)))
    op.advance(20, key="a")
    late = op.push(rows(("a", 5), ("b", 5)))
    assert [(row["query_name"], row["k"], row["n"]) for row in late.to_pylist()] == [("q1", "a", 2)]
    assert [(row["query_name"], row["k"]) for row in op.take_late().to_pylist()] == [("q2", "a")]


def test_a_key_without_rows_is_remembered() -> None:
    op = counting(wk.tumbling(10))
    assert op.advance(10, key="new").num_rows == 0
    op = wk.Operator.restore(op.snapshot(), dict(op.queries))
    assert op.keys_ahead().to_pylist() == [{"k": "new", "watermark": 10}]
    op.push(rows(("new", 9), ("old", 9)))
    assert op.take_late()["k"].to_pylist() == ["new"]


def test_null_keys_and_keys_of_several_columns() -> None:
    schema = pa.schema({"k": pa.string(), "s": pa.struct({"x": pa.int64()}), "t": pa.int64()})
    query = wk.query(by=["k", "s"], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", schema=schema)
    data = [{"k": None, "s": {"x": 1}, "t": 1}, {"k": None, "s": {"x": 2}, "t": 1}]
    op.push(pa.Table.from_pylist(data, schema))
    emitted = op.advance(10, key={"k": None, "s": {"x": 2}})
    assert [(row["k"], row["s"]["x"]) for row in emitted.to_pylist()] == [(None, 2)]
    op = wk.Operator.restore(op.snapshot(), query)
    assert op.keys_ahead().to_pylist() == [{"k": None, "s": {"x": 2}, "watermark": 10}]
    op = counting(wk.tumbling(10))
    op.push(rows((None, 1), ("a", 1)))
    assert shown(op.advance(10, key={"k": None})) == [(None, 0, 1, False)]


def test_times_are_those_of_the_column() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.count().alias("n"))
    schema = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC")})
    op = query.operator(order="out-of-order", schema=schema)
    op.advance("1970-01-01T00:00:10Z", key="a")
    expected = datetime.datetime(1970, 1, 1, 0, 0, 10, tzinfo=datetime.UTC)
    assert op.keys_ahead()["watermark"].to_pylist() == [expected]


def test_in_order_rows_before_the_mark_of_their_key_are_refused() -> None:
    op = counting(wk.tumbling(10), order="in-order")
    assert op.push(rows(("a", 1), ("b", 2))).num_rows == 0
    assert shown(op.advance(20, key="a")) == [("a", 0, 1, False)]
    with pytest.raises(InvalidValue, match=r"row 1 has time 15 .*before 20, up to which its key is complete"):
        op.push(rows(("b", 12), ("a", 15)))
    assert shown(op.push(rows(("b", 12), ("b", 25), ("a", 25)))) == [("b", 0, 1, False), ("b", 10, 1, False)]
    assert op.keys_ahead().num_rows == 0


WINDOWS = {name: window for name, window in samples.windows().items() if not window.columns}
"""Of rows that have keys and times alone."""


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("lateness", [0, 20])
def test_others_are_as_if_no_key_were_ahead(name: str, lateness: int) -> None:
    """What b gets is what it gets where nothing is said of a, and what a gets in the end is the same, too."""
    batches = [
        rows(("a", 1), ("b", 1), ("a", 6), ("b", 6)),
        rows(("a", 13), ("b", 7), ("b", 2), ("a", 14)),
        rows(("b", 16), ("a", 22)),
    ]
    seen: list[list[Any]] = []
    for marks in ([], [12, 20, 25]):
        op, found = counting(WINDOWS[name], allowed_lateness=lateness), []
        for at, batch in enumerate(batches):
            found += op.push(batch).to_pylist()
            found += op.advance(marks[at], key="a").to_pylist() if marks else []
            found += op.advance(5 * at).to_pylist()
        seen.append(found + op.close().to_pylist())
    plain, ahead = ([row for row in each if row["k"] == "b"] for each in seen)
    assert plain == ahead
    last, final = ({repr(row["n"]) for row in each if row["k"] == "a"} for each in seen)
    assert final >= last


def test_punctuation_of_all_keys_cannot_cut_what_is_final() -> None:
    query = wk.query(by="k", time="t", windows=wk.punctuation("m"), aggs=wk.count().alias("n"))
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "m": pa.bool_()})
    op = query.operator(order="out-of-order", schema=schema)
    op.push(pa.Table.from_pylist([{"k": k, "t": t, "m": False} for k in "ab" for t in (1, 8)], schema))
    op.advance(10, key="a")
    with pytest.raises(InvalidValue, match=r"punctuate: 5 is before 10"):
        op.punctuate(5)
    with pytest.raises(InvalidValue, match=r"punctuate: 5 is before 10"):
        op.punctuate(5, key="a")
    op.punctuate(5, key="b")
    assert [(row["k"], row["n"]) for row in op.advance(9).to_pylist()] == [("b", 1)]


def test_triggers_see_the_watermark_of_the_key() -> None:
    emit = wk.emit(wk.every(10) | wk.at(0.5), "retracting")
    query = wk.query(by="k", time="t", windows=wk.tumbling(100), aggs=wk.count().alias("n"), emit=emit)
    schema = pa.schema({"k": pa.string(), "t": pa.int64()})
    op = query.operator(order="out-of-order", schema=schema)

    def said(table: pa.Table) -> list[tuple[Any, ...]]:
        return [(row["k"], row["n"], row["emission"]) for row in table.to_pylist()]

    op.push(rows(("a", 1), ("b", 1)))
    op.advance(5)
    assert said(op.advance(15, key="a")) == [("a", 1, "early")]
    op.push(rows(("a", 40)))
    # a passed this boundary before, and b passes it now.
    assert said(op.advance(12)) == [("b", 1, "early")]
    assert said(op.advance(60, key="a")) == [("a", 1, "retraction"), ("a", 2, "early")]
    assert said(op.advance(100, key="a")) == [("a", 2, "retraction"), ("a", 2, "final")]


def test_a_call_that_is_refused_changes_nothing() -> None:
    op = counting(wk.tumbling(10))
    op.push(rows(("a", 1)))
    op.advance(5)
    op.advance(20, key="a")
    for (time, key), match in [
        ((19, "a"), "watermark: 19 is before the last one, 20"),
        ((4, "b"), "watermark: 4 is before the last one, 5"),
    ]:
        with pytest.raises(InvalidValue, match=match):
            op.advance(time, key=key)
    with pytest.raises(InvalidType, match="key: 7 is not a value of column 'k'"):
        op.advance(30, key=7)
    with pytest.raises(InvalidValue, match="watermark: none is given for the key 'a'"):
        op.advance(key="a")
    assert op.keys_ahead().to_pylist() == [{"k": "a", "watermark": 20}]
    op.close()
    with pytest.raises(InvalidValue, match="closed"):
        op.advance(40, key="a")


def test_without_keys_or_without_times_no_key_can_be_ahead() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count())
    op = query.operator(order="out-of-order", schema=pa.schema({"t": pa.int64()}))
    with pytest.raises(InvalidValue, match=r"by=\[\]\); advance\(watermark\) without a key"):
        op.advance(5, key="a")
    clocked = wk.query(by="k", time=wk.PROCESSING_TIME, windows=wk.tumbling("1 second"), aggs=wk.count())
    timed = clocked.operator(schema=pa.schema({"k": pa.string()}))
    with pytest.raises(InvalidValue, match="key: 'a' is given over PROCESSING_TIME"):
        timed.advance(5, key="a")


@pytest.mark.slow
def test_marks_and_keys_are_dropped() -> None:
    """However many keys are ahead for a while, nothing remains of them."""
    op, held = counting(wk.tumbling(10)), []
    for begin in (0, 100, 200):
        for number in range(5000):
            op.advance(begin + number // 100 + 1, key=f"key {begin} {number}")
        assert op.stats().keys_ahead == 5000
        op.advance(begin + 20)
        assert op.stats().keys_ahead == op.keys_ahead().num_rows == 3000
        op.advance(begin + 100)
        assert op.stats().keys_ahead == op.keys_ahead().num_rows == 0
        held.append(op.stats().bytes)
    assert held[-1] <= 2 * held[0]


def test_a_query_that_is_added_knows_which_keys_are_ahead() -> None:
    op = counting(wk.tumbling(10))
    op.push(rows(("a", 1), ("b", 1)))
    op.advance(40, key="a")
    op.add(wk.query(by="k", time="t", windows=wk.tumbling(rows=1), aggs=wk.count().alias("n")), name="each")
    op.push(rows(("a", 30), ("b", 30)))
    assert [(row["query_name"], row["k"]) for row in op.take_late().to_pylist()] == [
        ("q1", "a"),
        ("each", "a"),
    ]
    assert shown(op.remove("q1") or op.advance(50)) == [("b", 30, 1, False)]


def test_peek_shows_what_is_open_of_a_key() -> None:
    op = counting(wk.tumbling(10))
    op.push(rows(("a", 1), ("a", 11), ("b", 1)))
    op.advance(10, key="a")
    assert shown(op.peek()) == [("a", 10, 1, False), ("b", 0, 1, False)]
    assert op.keys_ahead().num_rows == 1


CUT_OFF = [
    (pa.int64(), 1.5),
    (pa.int64(), Decimal("2.5")),
    (pa.timestamp("s"), datetime.datetime(2026, 1, 1, 0, 0, 0, 900_000)),
    (pa.timestamp("us"), datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)),
    (pa.timestamp("us", "UTC"), datetime.datetime(2026, 1, 1)),
    (pa.date32(), datetime.datetime(2026, 1, 1, 3)),
    (pa.duration("s"), datetime.timedelta(seconds=1.5)),
    (pa.time32("s"), datetime.time(1, 2, 3, 4)),
    (pa.struct({"x": pa.int64()}), {"z": 1}),
    (pa.struct({"x": pa.int64()}), {"x": 1.5}),
    (pa.list_(pa.int64()), [1, 2.5]),
]


@pytest.mark.parametrize(("kind", "given"), CUT_OFF, ids=str)
def test_a_key_is_not_cut_off_to_become_another(kind: pa.DataType, given: Any) -> None:
    schema = pa.schema({"k": kind, "t": pa.int64(), "s": kind})
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count())
    op = query.operator(order="out-of-order", schema=schema)
    with pytest.raises(InvalidType, match=r"is not a value of column 'k', whose type is .*would become"):
        op.advance(10, key={"k": given})
    assert op.stats().keys_ahead == 0
    by_source = query.operator(order="out-of-order", progress=wk.delay(0, source="s"), schema=schema)
    for call in (by_source.add_source, by_source.end_source):
        with pytest.raises(InvalidType, match="would become"):
            call(given)


KEPT = [
    (pa.int64(), 1.0, 1),
    (pa.float32(), 0.1, pa.scalar(0.1, pa.float32()).as_py()),
    (pa.timestamp("us", "Europe/Paris"), datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), None),
    (pa.timestamp("s"), 5, datetime.datetime(1970, 1, 1, 0, 0, 5)),
    (pa.dictionary(pa.int8(), pa.string()), "a", "a"),
    (pa.struct({"x": pa.int64(), "y": pa.string()}), {"x": 1}, {"x": 1, "y": None}),
    (pa.list_(pa.int64()), [1, None], [1, None]),
]


@pytest.mark.parametrize(("kind", "given", "kept"), KEPT, ids=str)
def test_a_key_may_be_written_in_other_ways(kind: pa.DataType, given: Any, kept: Any) -> None:
    schema = pa.schema({"k": kind, "t": pa.int64()})
    op = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n")).operator(
        order="out-of-order", schema=schema
    )
    op.push(pa.table({"k": pa.array([given if kept is None else kept], kind), "t": [1]}, schema=schema))
    assert op.advance(10, key={"k": given})["n"].to_pylist() == [1]


@pytest.mark.hypothesis
@settings(max_examples=30)
@given(st.data())
def test_a_key_that_ends_has_the_windows_of_its_rows_and_no_row_twice(data: st.DataObject) -> None:
    """Whatever comes of it later, and of other keys: each result is right, and each row in one at most."""
    length, lateness = data.draw(st.integers(1, 20)), data.draw(st.sampled_from([0, 0, 7]))
    by_session = data.draw(st.booleans())
    window = wk.session(length) if by_session else wk.tumbling(length)
    query = wk.query(by="k", time="t", windows=window, aggs=wk.collect_list("id").alias("ids"))
    op = query.operator(order="out-of-order", allowed_lateness=lateness)
    steps = data.draw(st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab")), min_size=1, max_size=25))
    ends = data.draw(st.sets(st.integers(0, 24), max_size=3))
    times: dict[int, int] = {}
    results: list[dict[str, Any]] = []
    ended: list[int] = []
    for row, (time, k) in enumerate(steps):
        times[row] = time
        results += op.push(pa.table({"k": [k], "t": [time], "id": [row]})).to_pylist()
        if row in ends:
            own = [each for each, (_, other) in enumerate(steps[: row + 1]) if other == "a"]
            last = op.end_key("a").to_pylist()
            # All rows of the key so far, but for those that ended with it before.
            assert sorted(each for row in last for each in row["ids"]) == sorted(
                set(own) - set(ended) - set(op.take_late()["id"].to_pylist())
            )
            ended += own
            results += last
            assert "a" not in [row["k"] for row in op.peek().to_pylist()]
    results += op.close().to_pylist()
    held: dict[Any, Any] = {}
    for row in results:
        assert all(row["window_start"] <= times[each] < row["window_end"] for each in row["ids"])
        held[row["k"], row["window_start"], row["window_end"]] = row["ids"]
    for k in "ab":
        rows_of_key = [each for (other, *_), ids in held.items() if other == k for each in ids]
        assert len(rows_of_key) == len(set(rows_of_key))
    others = [row for row, (_, k) in enumerate(steps) if k == "b"]
    table = pa.table({"k": ["b"] * len(others), "t": [times[row] for row in others], "id": others})
    assert {at: sorted(ids) for at, ids in held.items() if at[0] == "b"} == {
        (row["k"], row["window_start"], row["window_end"]): sorted(row["ids"])
        for row in query.run(table).to_pylist()
    }


def test_a_key_that_ends_leaves_nothing_but_its_mark() -> None:
    """Keys that come and end take no more than those that are there at a time."""
    op = counting(wk.tumbling(10))
    for begin in range(0, 9_000, 1000):
        op.push(pa.table({"k": [f"key {each}" for each in range(begin, begin + 1000)], "t": [begin] * 1000}))
        for each in range(begin, begin + 1000):
            assert op.end_key(f"key {each}").num_rows == 1
        op.advance(begin + 10)
    assert (op.stats().keys, op.stats().keys_ahead, op.close().num_rows) == (0, 0, 0)
    assert op.stats().bytes < 500_000


def test_early_results_of_a_key_that_ends_are_replaced_once() -> None:
    query = wk.query(
        by="k",
        time="t",
        windows=wk.tumbling(10),
        aggs=wk.sum("v").alias("s"),
        emit=wk.emit(wk.rows(1), "retracting"),
    )
    op, weights = query.operator(order="out-of-order"), Counter[Any]()
    for table in (
        op.push(pa.table({"k": ["a", "b"], "t": [1, 2], "v": [1, 2]})),
        op.push(pa.table({"k": ["a"], "t": [3], "v": [5]})),
        op.end_key("a"),
        op.push(pa.table({"k": ["a"], "t": [12], "v": [9]})),
        op.close(),
    ):
        for row in table.to_pylist():
            weights[row["k"], row["window_start"], row["s"]] += row["weight"]
            assert weights[row["k"], row["window_start"], row["s"]] in (0, 1)
    assert +weights == {("a", 0, 6): 1, ("a", 10, 9): 1, ("b", 0, 2): 1}


def test_a_key_cannot_end_where_there_are_none() -> None:
    by_nothing = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count()).operator()
    by_nothing.push(pa.table({"t": [1]}))
    with pytest.raises(InvalidValue, match="key: 'a' is given, but the queries group by nothing"):
        by_nothing.end_key("a")
    clocked = wk.query(by="k", time=wk.PROCESSING_TIME, windows=wk.tumbling("1 second"), aggs=wk.count())
    timed = clocked.operator(clock=lambda: 0)
    timed.push(pa.table({"k": ["a"]}))
    with pytest.raises(InvalidValue, match="key: 'a' is given over PROCESSING_TIME"):
        timed.end_key("a")
    op = counting(wk.tumbling(10))
    op.push(rows(("a", 1), (None, 2)))
    with pytest.raises(InvalidValue, match="key: None is given"):
        op.end_key(None)
    assert op.end_key("b").num_rows == 0
    assert shown(op.end_key({"k": None})) == [(None, 0, 1, False)]
    assert op.stats().keys == 1
    op.close()
    with pytest.raises(InvalidValue, match="end_key"):
        op.end_key("a")


def test_a_query_that_is_added_does_not_share_slices_in_which_late_rows_count_later() -> None:
    """Late rows of landmark windows count at the horizon of their key: after the query was added."""
    query = wk.query(by="k", time="t", windows=wk.landmark(15, period=15), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", allowed_lateness=3)
    op.push(rows(("a", 51), ("a", 67)))
    op.advance(75, key="a")
    op.push(rows(("a", 69)))
    op.add(wk.query(by="k", time="t", windows=wk.session(23), aggs=wk.count().alias("n")), name="sessions")
    op.push(rows(("a", 70)))
    sessions = [row for row in op.close().to_pylist() if row["query_name"] == "sessions"]
    assert [(row["window_start"], row["window_end"], row["n"]) for row in sessions] == [(70, 93, 1)]
