"""What a query answers in an operator does not depend on others, and no row gets lost unnoticed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.extents import EXTENTS
from support.plain import plain
from support.streams import AGGREGATES, row_windows, time_window

SCHEMA = pa.schema(
    {name: pa.int64() for name in ("k", "t", "i")}
    | {"f": pa.float64(), "s": pa.string(), "d": pa.dictionary(pa.int8(), pa.string()), "b": pa.bool_()}
    | {"m": pa.bool_(), "n": pa.bool_()}
)
Results = list[tuple[Any, ...]]


def rows(*given: tuple[int | None, int]) -> pa.Table:
    times, values = zip(*given, strict=True)
    return pa.table({"t": pa.array(times, pa.int64()), "v": values})


def query(window: wk.Window) -> wk.Query:
    return wk.query(by=[], time="t", windows=window, aggs=[wk.sum("v"), wk.count().alias("n")])


def windows(result: pa.Table, name: str = "q1") -> list[tuple[int, int, int]]:
    """Return start, end and sum of a query's windows."""
    return [
        (each["window_start"], each["window_end"], each["sum(v)"])
        for each in result.to_pylist()
        if each.get("query_name", name) == name
    ]


def late(op: wk.Operator) -> list[tuple[str, int | None, str]]:
    return [(each["query_name"], each["t"], each["late_reason"]) for each in op.take_late().to_pylist()]


def test_a_landmark_window_that_is_open_takes_rows_of_any_age() -> None:
    op = query(wk.landmark(6, start=0)).operator(order="out-of-order")
    op.push(rows((3, 1)))
    assert windows(op.advance(7)) == [(0, 6, 1)]
    op.push(rows((1, 99), (8, 2)))
    assert windows(op.close()) == [(0, 12, 102)]
    assert op.late == 0


def test_a_late_row_alone_makes_the_next_landmark_window() -> None:
    op = query(wk.landmark(6, start=0)).operator(order="out-of-order", allowed_lateness=10)
    op.push(rows((3, 1)))
    assert windows(op.advance(50)) == [(0, 6, 1)]
    # Windows that ended by 40 have expired.
    assert windows(op.push(rows((1, 99)))) == [(0, 42, 100)]
    assert windows(op.push(rows((2, 5)))) == [(0, 42, 105)]
    assert windows(op.advance(60)) == windows(op.close()) == []


def test_each_period_of_landmarks_has_rows_of_its_own() -> None:
    op = query(wk.landmark(5, period=20)).operator(order="out-of-order")
    op.push(rows((3, 1), (22, 2)))
    assert windows(op.advance(27)) == [(0, 5, 1), (20, 25, 2)]
    op.push(rows((19, 7), (21, 3)))
    assert windows(op.close()) == [(20, 30, 5)]
    assert op.take_late()["t"].to_pylist() == [19]


@pytest.mark.parametrize("has_neighbour", [False, True])
def test_ranks_do_not_depend_on_rows_that_another_query_accepts(has_neighbour: bool) -> None:
    op = query(wk.tumbling(wk.rows(2))).operator(order="out-of-order")
    if has_neighbour:
        op.add(query(wk.sliding(wk.rows(3), 50)))
    op.push(rows((10, 1), (11, 2), (12, 4)))
    first = windows(op.advance(11))
    op.push(rows((5, 8), (13, 16)))
    assert first + windows(op.close()) == [(10, 11, 3), (12, 13, 20)]
    names = op.take_late().to_pylist()
    assert [(each.get("query_name", "q1"), each["t"]) for each in names] == [("q1", 5)]


def test_a_row_that_only_one_query_accepts_is_late_for_the_other() -> None:
    op = query(wk.session(2)).operator(order="out-of-order")
    op.add(query(wk.tumbling(100)))
    op.push(rows((10, 1), (11, 2)))
    assert windows(op.advance(14)) == [(10, 13, 3)]
    op.push(rows((5, 4), (6, 8), (20, 16), (None, 32)))
    assert (op.late, op.stats().rows) == (4, 5)
    rest = op.close()
    assert (windows(rest), windows(rest, "q2")) == ([(20, 22, 16)], [(0, 100, 31)])
    null = [(name, None, "null time") for name in ("q1", "q2")]
    assert sorted(late(op), key=str) == sorted([("q1", 5, "too late"), ("q1", 6, "too late"), *null], key=str)


@pytest.mark.parametrize("restart", ["never", "before", "after"])
def test_windows_share_slices_until_a_row_comes_that_one_accepts_alone(restart: str) -> None:
    both = {"q1": query(wk.tumbling(100)), "runs": query(wk.session(2))}
    op = both["q1"].operator(order="out-of-order", schema=rows((0, 0)).schema)
    op.add(both["runs"], name="runs")

    def restarted(when: str) -> wk.Operator:
        return wk.Operator.restore(op.snapshot(), both) if when == restart else op

    op.push(rows((10, 1), (11, 2), (20, 4)))
    assert op.stats().slices == 2
    assert windows(op.advance(14), "runs") == [(10, 13, 3)]
    op = restarted("before")
    op.push(rows((21, 8)))
    assert op.stats().slices == 2
    # In no session any more, but in the wide window, which has it and the rows from before in one slice.
    op.push(rows((5, 16)))
    assert op.stats().slices == 3
    op = restarted("after")
    result = op.close()
    assert windows(result, "runs") == [(20, 23, 12)]
    assert windows(result) == [(0, 100, 31)]
    assert late(op) == [("runs", 5, "too late")]


def test_a_query_that_is_added_lacks_earlier_rows() -> None:
    op = query(wk.tumbling(10)).operator(order="out-of-order")
    op.push(rows((12, 1), (None, 64)))
    op.add(query(wk.tumbling(5)))
    op.push(rows((12, 2), (11, 4), (16, 8)))
    assert late(op) == [("q1", None, "null time"), *[("q2", t, "before the query") for t in (12, 11)]]
    rest = op.close()
    assert (windows(rest), windows(rest, "q2")) == ([(10, 20, 15)], [(15, 20, 8)])


def test_each_query_may_have_its_own_lateness() -> None:
    op = query(wk.tumbling(10)).operator(order="out-of-order", allowed_lateness=5)
    op.add(query(wk.tumbling(10)), allowed_lateness=50)
    op.add(query(wk.tumbling(10)))
    op.push(rows((3, 1)))
    op.advance(20)
    again = wk.Operator.restore(op.snapshot(), op.queries)
    for each in (op, again):
        changed = each.push(rows((4, 2)))
        assert changed["update"].to_pylist() == [True]
        assert [windows(changed, name) for name in ("q1", "q2", "q3")] == [[], [(0, 10, 3)], []]
        assert late(each) == [("q1", 4, "too late"), ("q3", 4, "too late")]
        # The operator's is the default, also once it is restored.
        assert each.add(query(wk.tumbling(100))) == "q4"
        each.push(rows((150, 1)))
        assert windows(each.advance(204), "q4") == [(100, 200, 1)]
        assert windows(each.push(rows((151, 2))), "q4") == [(100, 200, 3)]


def test_a_lateness_must_fit_the_stream() -> None:
    op = query(wk.tumbling(10)).operator()
    with pytest.raises(wk.InvalidValue, match="allowed_lateness: 5 is given for order='in-order'"):
        op.add(query(wk.tumbling(5)), allowed_lateness=5)
    op = query(wk.tumbling(10)).operator(order="out-of-order", schema=rows((1, 1)).schema)
    with pytest.raises(wk.InvalidValue, match="allowed_lateness: -1 is below zero"):
        op.add(query(wk.tumbling(5)), allowed_lateness=-1)
    with pytest.raises(wk.InvalidType, match="allowed_lateness: it is a duration, but column 't' is an"):
        op.add(query(wk.tumbling(5)), allowed_lateness="1 minute")
    assert list(op.queries) == ["q1"]


class Tens(wk.ContextFree):
    longest = 10

    def next_edge(self, t: int) -> int:  # type: ignore[override]
        return t // 10 * 10 + 10

    def windows(self, since: int, until: int) -> list[tuple[int, int]]:  # type: ignore[override]
        return [(end - 10, end) for end in range(since // 10 * 10, until + 1, 10) if since < end]


def test_rows_of_a_calendar_are_late_once_its_windows_have_expired() -> None:
    op = query(wk.custom(Tens())).operator(order="out-of-order")
    op.push(rows((1, 1), (50, 2)))
    op.advance(60)
    op.push(rows((52, 4), (51, 8), (30, 16), (61, 32)))
    assert windows(op.close()) == [(60, 70, 32)]
    assert op.take_late()["t"].to_pylist() == [52, 51, 30]


def test_late_rows_that_are_held_get_the_name_of_their_query_once_there_are_several() -> None:
    op = query(wk.tumbling(10)).operator(order="out-of-order", name="first")
    op.push(rows((None, 1)))
    op.add(query(wk.session(5)), name="second")
    op.push(rows((None, 2)))
    assert late(op) == [(name, None, "null time") for name in ("first", "first", "second")]


@st.composite
def queries(draw: st.DrawFn) -> wk.Query:
    kinds = [time_window, time_window, row_windows]
    count = draw(st.sampled_from([1, 1, 2]))
    drawn = [draw(st.sampled_from(kinds))(draw, pa.int64()).alias(f"w{at}") for at in range(count)]
    aggs = draw(
        st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique_by=lambda each: each.name)
    )
    return wk.query(by="k", time="t", windows=drawn, aggs=aggs)


Call = pa.Table | int | None


@st.composite
def streams(draw: st.DrawFn) -> list[Call]:
    """Batches, where to move the watermark, and None to restart from a snapshot."""
    calls: list[Call] = []
    watermark, now = -100, 0
    for _ in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["push", "push", "push", "advance", "restart"]))
        if kind == "restart":
            calls.append(None)
        elif kind == "advance":
            watermark = max(watermark, now - draw(st.integers(0, 20)))
            calls.append(watermark)
        else:
            now += draw(st.integers(0, 15))
            size = draw(st.integers(0, 6))
            column = st.lists(st.integers(-5, 5) | st.none(), min_size=size, max_size=size)
            times = [now - draw(st.sampled_from([0, 1, 3, 10, 30, 60])) for _ in range(size)]
            marks = [[draw(st.sampled_from([False, False, True, None])) for _ in times] for _ in "mn"]
            columns = {
                "k": [draw(st.sampled_from([1, 1, 2])) for _ in times],
                "t": [None if draw(st.integers(0, 15)) == 0 else t for t in times],
                "i": draw(column),
                "f": draw(column),
                "s": [str(value) for value in draw(column)],
                "d": [str(value) for value in draw(column)],
                "b": marks[0],
                "m": marks[0],
                "n": marks[1],
            }
            calls.append(pa.table(columns, schema=SCHEMA))
    return calls


def rounded(value: object) -> str:
    """Where slices are cut decides how variances are rounded."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def answers(queries: list[tuple[wk.Query, int]], calls: list[Call]) -> tuple[dict[str, Results], Results]:
    """Return the windows of each query, call by call, and the late rows of all."""
    (first, lateness), *others = queries
    op = first.operator(order="out-of-order", allowed_lateness=lateness, schema=SCHEMA)
    for other, its_own in others:
        op.add(other, allowed_lateness=its_own)
    found: dict[str, Results] = {name: [] for name in op.queries}
    for number, call in enumerate([*calls, "close"]):
        if call is None:
            op = wk.Operator.restore(op.snapshot(), op.queries)
            continue
        if isinstance(call, str):
            table = op.close()
        else:
            table = op.advance(call) if isinstance(call, int) else op.push(call)
        columns = {name: plain(table[name]) for name in table.column_names}
        names = columns.get("query_name", ["q1"] * table.num_rows)
        for row, name in enumerate(names):
            query = op.queries[name]
            own = ["window_name", "k", *EXTENTS, "window_number", "update"]
            # Columns that only other queries have are null.
            values = {
                each: columns[each][row] for each in own if each in columns and columns[each][row] is not None
            }
            values.setdefault("window_name", query.windows[0].name)
            aggs = [rounded(columns[each.name][row]) for each in query.aggs]
            found[name].append((number, repr(sorted(values.items(), key=str)), aggs))
    taken = op.take_late()
    names = taken["query_name"].to_pylist() if others else ["q1"] * taken.num_rows
    times, reasons = taken["t"].to_pylist(), taken["late_reason"].to_pylist()
    return found, list(zip(names, times, reasons, strict=True))


@settings(max_examples=300)
@given(st.lists(st.tuples(queries(), st.sampled_from([0, 0, 4, 25])), min_size=2, max_size=4), streams())
def test_together_queries_answer_as_each_does_alone(
    queries: list[tuple[wk.Query, int]], calls: list[Call]
) -> None:
    together, all_late = answers(queries, calls)
    for at, each in enumerate(queries, 1):
        alone, own_late = answers([each], calls)
        assert sorted(together[f"q{at}"]) == sorted(alone["q1"])
        assert sorted(map(str, own_late)) == sorted(
            str(("q1", *row[1:])) for row in all_late if row[0] == f"q{at}"
        )


def test_a_session_that_is_open_again_when_queries_part_is_an_update() -> None:
    """The second row is late for one of the windows only; from then on each has slices of its own."""
    windows = [wk.session(1).alias("short"), wk.session(8).alias("long")]
    emitted = {}
    for own in (windows, windows[1:]):
        query = wk.query(by=[], time="t", windows=own, aggs=wk.count().alias("c"))
        op = query.operator(order="out-of-order", allowed_lateness=20)
        op.push(pa.table({"t": [13]}))
        op.advance(22)
        op.push(pa.table({"t": [14]}))
        op.push(pa.table({"t": [0]}))
        rows = op.close().to_pylist()
        emitted[len(own)] = [
            (row["window_start"], row["window_end"], row["c"], row["update"])
            for row in rows
            if row.get("window_name", "long") == "long"
        ]
    assert emitted[2] == emitted[1]
    assert (13, 22, 2, True) in emitted[1]
