"""Joins of two streams: results, watermarks and stored rows by the definition, after each call."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime, timezone
from functools import partial
from typing import Any, NoReturn

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.join_streams import ORDERS, Call, arriving, by_windows, calls, of_band, run
from support.joins import Case, Extents, cases, of_windows, plain, windowed

SIDE = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()})


@given(case=cases(), made=calls())
def test_results_of_a_band_are_those_of_the_rows_so_far(case: Case, made: list[Call]) -> None:
    run(case.join, (case.left, case.right), case.rows, of_band(case), made)


@given(case=windowed(), made=calls())
def test_results_by_windows_are_those_of_the_rows_so_far(
    case: tuple[pa.Table, pa.Table, wk.Window, Extents, str], made: list[Call]
) -> None:
    left, right, windows, extents, how = case
    rows = plain(left, "k", "t", 1), plain(right, "q", "u", 1)
    run(of_windows(windows, how), (left, right), rows, by_windows(how, extents), made)


DELAYS = st.tuples(*2 * [st.none() | st.integers(0, 9)])


@given(case=cases(), made=calls(), delays=DELAYS)
def test_the_watermark_of_a_side_follows_its_rows(
    case: Case, made: list[Call], delays: tuple[int | None, int | None]
) -> None:
    run(case.join, (case.left, case.right), case.rows, of_band(case), made, delays, case.time)


@given(case=windowed(), made=calls(), delays=DELAYS)
def test_the_watermark_of_a_side_follows_its_rows_by_windows(
    case: tuple[pa.Table, pa.Table, wk.Window, Extents, str],
    made: list[Call],
    delays: tuple[int | None, int | None],
) -> None:
    left, right, windows, extents, how = case
    rows = plain(left, "k", "t", 1), plain(right, "q", "u", 1)
    run(of_windows(windows, how), (left, right), rows, by_windows(how, extents), made, delays)


def band(**options: Any) -> wk.Join:
    given: dict[str, Any] = {"by": "k", "left_time": "t", "right_time": "t", "within": 5}
    return wk.join(**given | options)


def rows(times: Iterable[int], keys: Iterable[str] | None = None) -> pa.Table:
    times = list(times)
    given = ["a"] * len(times) if keys is None else list(keys)
    return pa.table({"k": given, "t": times, "v": range(len(times))}, SIDE)


@pytest.mark.parametrize("how", ["inner", "full", "semi", "anti"])
def test_a_long_stream_in_small_pushes_is_the_batch_join_and_holds_little(how: str) -> None:
    rng = np.random.default_rng(3)
    count, keys = 6000, 3
    # Out of order by up to 40, and the sides apart by as much.
    sides = []
    for _ in range(2):
        times = np.arange(count) + rng.integers(0, 40, count)
        sides.append(rows(times.tolist(), rng.choice(list("abc")[:keys], count).tolist()))
    op, join = band(how=how).operator(SIDE, SIDE), band(how=how)
    parts, kept, held = [], 0, 0
    for at in range(0, count, 3):
        parts += [op.push_left(sides[0].slice(at, 3)), op.push_right(sides[1].slice(at, 3))]
        if at % 30 == 0:
            parts += [op.advance_right(at), op.advance_left(at)]
            stats = op.stats()
            kept, held = max(kept, stats.left_kept + stats.right_kept), max(held, stats.bytes)
    parts.append(op.close())
    found, expected = pa.concat_tables(parts), join.run(*sides)
    by = [(name, "ascending") for name in expected.column_names]
    assert found.sort_by(by) == expected.sort_by(by)
    stats = op.stats()
    assert (stats.left_rows, stats.right_rows, stats.results) == (count, count, len(expected))
    assert (stats.left_kept, stats.right_kept, stats.left_late) == (0, 0, 0)
    assert kept < 250
    assert held < 400_000


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_many_held_rows_of_a_key_are_joined_as_by_duckdb(how: str, order: str) -> None:
    """So many that they are in several blocks, which are split and joined as rows come and go."""
    rng = np.random.default_rng(ORDERS.index(order))
    count = 3000
    times = rng.integers(0, 3 * count, (2, count)).tolist()
    sides = [arriving(rng, rows(own, rng.choice(list("aaab"), count).tolist()), order) for own in times]
    op, parts, reached = band(how=how).operator(SIDE, SIDE), [], [-1, -1]
    for at in range(0, count, 50):
        parts += [op.push_left(sides[0].slice(at, 50)), op.push_right(sides[1].slice(at, 50))]
        if rng.random() < 0.2:
            ends = [pc.min(side["t"].slice(at + 50)).as_py() or 0 for side in sides]
            reached = [max(mark) for mark in zip(reached, ends, strict=True)]
            parts += [op.advance_left(reached[0]), op.advance_right(reached[1])]
        if rng.random() < 0.05:
            op = wk.JoinOperator.restore(op.snapshot(), band(how=how))
    found = pa.concat_tables([*parts, op.close()])
    names = [name for name in found.column_names if name in ("v", "v_right")]
    left, right = sides
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        kind, chosen = ("" if how == "inner" else how), "l.v, r.v" if len(names) == 2 else "l.v"
        text = f"SELECT {chosen} FROM l {kind} JOIN r ON l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t + 5"
        expected = connection.execute(text).fetchall()
    assert Counter(zip(*(found[name].to_pylist() for name in names), strict=True)) == Counter(expected)


@pytest.mark.parametrize("how", ["semi", "anti"])
@pytest.mark.parametrize("condition", [{"within": "1 hour"}, {"windows": wk.tumbling("1 hour")}], ids=str)
@pytest.mark.parametrize("pushes", [1, 1000])
def test_rows_of_semi_and_anti_joins_are_passed_once(how: Any, condition: Any, pushes: int) -> None:
    """Each row has all others as partners: pairs would take minutes, and gigabytes."""
    n = 100_000
    table = pa.table({"k": pa.array(np.zeros(n, int)), "t": pa.array(np.arange(n), pa.timestamp("us"))})
    join: wk.Join = wk.join(by="k", left_time="t", right_time="t", how=how, **condition)
    op = join.operator(table, table)
    op.push_left(table)
    found = sum(op.push_right(table[at : at + 1]).num_rows for at in range(pushes - 1))
    found += op.push_right(table).num_rows
    assert found == (n if how == "semi" else 0)
    assert op.stats().left_kept == 0
    restored = wk.JoinOperator.restore(op.snapshot(), join)
    assert [restored.close().num_rows, op.close().num_rows] == [0, 0]


def test_one_key_out_of_order_is_kept_in_order() -> None:
    rng = np.random.default_rng(7)
    times = [rng.permutation(4000).tolist() for _ in range(2)]
    join = band(by=[], within=1, left_columns="t", right_columns="t")
    op = join.operator(SIDE, SIDE)
    parts = []
    for at in range(0, 4000, 500):
        parts.append(op.push_right(rows(times[1][at : at + 500])))
        parts.append(op.push_left(rows(times[0][at : at + 500])))
        parts += [op.push_left(rows([5000 + each])) for each in range(3)]
    found = Counter(map(tuple, (row.values() for row in pa.concat_tables(parts).to_pylist())))
    assert found == Counter((t, t + d) for t in range(4000) for d in (-1, 0, 1) if 0 <= t + d < 4000)


def test_pairs_of_a_call_come_in_the_order_of_its_rows_and_then_of_time() -> None:
    op = band(right_columns="t").operator(SIDE, SIDE)
    op.push_right(rows([7, 3, 5, 3]))
    found = op.push_left(rows([6, 4, 1]))
    pairs = list(zip(found["t"].to_pylist(), found["t_right"].to_pylist(), strict=True))
    assert pairs == [(6, 3), (6, 3), (6, 5), (6, 7), (4, 3), (4, 3), (4, 5), (4, 7), (1, 3), (1, 3), (1, 5)]


@pytest.mark.parametrize("is_restored", [False, True])
def test_keys_without_rows_are_forgotten(is_restored: bool) -> None:
    join = band(how="full")
    op = join.operator(SIDE, SIDE)
    for turn in range(60):
        if is_restored:
            op = wk.JoinOperator.restore(op.snapshot(), join)
        keys = [f"{turn} {each}" for each in range(100)]
        assert op.push_left(rows([turn * 100] * 100, keys)).num_rows == 0
        assert op.push_right(rows([turn * 100 + 1] * 50, keys[:50])).num_rows == 50
        op.advance_left(turn * 100)
        op.advance_right(turn * 100)
    assert op.stats().keys <= 2048 + 100
    # Those that remain have their rows.
    last = op.close()
    assert last.num_rows == 50
    assert last["k"].to_pylist() == [f"59 {each}" for each in range(50, 100)]


def test_values_of_any_type_are_held() -> None:
    schema = pa.schema(
        {
            "k": pa.dictionary(pa.int8(), pa.string()),
            "t": pa.timestamp("ms", "UTC"),
            "s": pa.string_view(),
            "l": pa.list_(pa.int8()),
            "d": pa.dictionary(pa.int8(), pa.string()),
        }
    )

    def table(at: int) -> pa.Table:
        columns = {"k": ["a", "b"], "t": [at, at], "s": [f"a longer text {at}", None], "l": [[at], []]}
        return pa.table(columns | {"d": [f"value {at}", None]}, schema)

    join = band(within="1 second", how="full")
    op = join.operator(schema, schema)
    parts = []
    for at in range(0, 120, 2):
        parts.append(op.push_left(table(at)))
        op = wk.JoinOperator.restore(op.snapshot(), join)
        parts.append(op.push_right(table(at + 1)))
    parts.append(op.close())
    left, right = (pa.concat_tables(table(at) for at in range(side, 120, 2)) for side in (0, 1))
    found, expected = pa.concat_tables(parts), join.run(left, right)
    assert found.schema == expected.schema

    def plain(result: pa.Table) -> list[str]:
        return sorted(map(repr, result.to_pylist()))

    assert plain(found) == plain(expected)


def test_late_rows_are_set_aside_up_to_a_limit() -> None:
    op = band().operator(SIDE, SIDE, late_limit=2)
    op.advance_left(10)
    assert op.push_left(rows([9, 10, 3, 2])).num_rows == 0
    stats = op.stats()
    assert (stats.left_late, stats.left_dropped, stats.left_rows, stats.left_kept) == (3, 1, 4, 1)
    assert op.take_late_left().to_pylist() == [
        {"k": "a", "t": time, "v": at, "late_reason": "too late"} for at, time in ((0, 9), (2, 3))
    ]
    assert op.take_late_left().num_rows == 0
    assert op.take_late_right().num_rows == 0
    # The other side is not late.
    assert op.push_right(rows([9])).num_rows == 1


def test_watermarks_are_those_of_the_figures() -> None:
    # Q7-1 of the thesis: a band of 2 on both sides; complete up to 2 on the left, then up to 1 on the right.
    op = band(by=[], within=2).operator(SIDE, SIDE)
    assert op.watermarks == (none := type(op.watermarks)(None, None, None))
    op.advance_left(2)
    assert op.watermarks == none
    op.advance_right(1)
    left, right, joint = op.watermarks.left, op.watermarks.right, op.watermarks.joint
    assert (left.as_py(), right.as_py(), [time.as_py() for time in joint]) == (-1, 0, [2, 1])
    # Far from each other, no pair is right before both: the joint one would say nothing more.
    op.advance_left(9)
    assert (op.watermarks.left.as_py(), op.watermarks.right.as_py(), op.watermarks.joint) == (-1, 1, None)
    hours = band(by=[], within=None, windows=wk.tumbling(10)).operator(SIDE, SIDE)
    hours.advance_left(27)
    hours.advance_right(25)
    marks = hours.watermarks
    assert (marks.left.as_py(), marks.right.as_py(), [time.as_py() for time in marks.joint]) == (
        20,
        20,
        [27, 25],
    )
    hours.advance_left(30)
    marks = hours.watermarks
    assert (marks.left.as_py(), marks.right.as_py(), marks.joint) == (20, 25, None)
    hours.close()
    assert hours.watermarks == none


def test_rows_that_can_have_no_partner_are_not_stored() -> None:
    op = band(how="left").operator(SIDE, SIDE)
    op.advance_right(100)
    assert op.push_left(rows([1, 94, 95])).to_pylist() == [
        {"k": "a", "t": 1, "v": 0, "t_right": None, "v_right": None},
        {"k": "a", "t": 94, "v": 1, "t_right": None, "v_right": None},
    ]
    assert op.stats().left_kept == 1


def test_a_result_that_is_lost_can_be_had_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(stream: Any) -> NoReturn:
        raise KeyboardInterrupt

    op = band(how="full").operator(SIDE, SIDE)
    op.push_left(rows([1, 2]))
    calls = [
        lambda: op.push_right(rows([3])),
        lambda: op.push_left(rows([4])),
        lambda: op.advance_right(8),
        lambda: op.advance_left(30),
        lambda: op.close(),
    ]
    expected = [2, 1, 0, 0, 0]
    for call, count in zip(calls, expected, strict=True):
        before = op.calls
        with monkeypatch.context() as context:
            # The core has committed the call by then.
            context.setattr("windowkit.streams.held.table", lost)
            with pytest.raises(KeyboardInterrupt):
                call()
        assert op.calls == before + 1
        assert op.last().num_rows == count


def test_snapshots_are_of_their_join_and_whole() -> None:
    join = band(within=None, windows=wk.tumbling(10), how="full")
    op = join.operator(SIDE, SIDE)
    op.push_left(rows([1, 2]))
    op.advance_right(1)
    snapshot = op.snapshot()
    restored = wk.JoinOperator.restore(
        snapshot, band(within=None, windows=wk.tumbling(10).alias("x"), how="full")
    )
    assert replace(restored.stats(), bytes=0) == replace(op.stats(), bytes=0)
    assert restored.close() == op.close()
    with pytest.raises(wk.InvalidValue, match="the operator is closed"):
        wk.JoinOperator.restore(op.snapshot(), join).push_left(rows([1]))
    with pytest.raises(wk.InvalidValue, match=r'it is of the join {"by": .*"how": "full".* and not of'):
        wk.JoinOperator.restore(snapshot, band(within=None, windows=wk.tumbling(10)))
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    other = query.operator(schema=SIDE).snapshot()
    with pytest.raises(wk.InvalidValue, match="these bytes are not a snapshot of a join"):
        wk.JoinOperator.restore(other, join)
    with pytest.raises(wk.InvalidValue, match="these bytes are not a snapshot of an operator"):
        wk.Operator.restore(snapshot, query)
    for length in (*range(40), *range(40, len(snapshot), 997)):
        with pytest.raises(wk.InvalidValue, match="snapshot"):
            wk.JoinOperator.restore(snapshot[:length], join)
    for at in range(8, len(snapshot), 499):
        damaged = bytearray(snapshot)
        damaged[at] ^= 1
        with pytest.raises(wk.InvalidValue, match="snapshot"):
            wk.JoinOperator.restore(bytes(damaged), join)
    with pytest.raises(wk.InvalidType, match="snapshot: it is a str"):
        wk.JoinOperator.restore("text", join)  # type: ignore[arg-type]
    with pytest.raises(wk.InvalidType, match="join: it is an int"):
        wk.JoinOperator.restore(snapshot, 3)  # type: ignore[arg-type]


def test_a_key_may_be_complete_before_its_side() -> None:
    op = band(how="full").operator(SIDE, SIDE)
    op.push_left(rows([1, 7, 1], "aab"))
    assert op.push_right(rows([2], "b")).num_rows == 1
    assert op.advance_right(10, key="a").to_pylist() == [
        {"k": "a", "t": 1, "v": 0, "t_right": None, "v_right": None}
    ]
    assert op.keys_ahead_right().to_pylist() == [{"k": "a", "watermark": 10}]
    assert op.keys_ahead_left().num_rows == 0
    # The other key, and the other side, are where they were.
    assert op.push_right(rows([3, 9, 10], "baa")).num_rows == 2
    assert op.take_late_right()["t"].to_pylist() == [9]
    assert op.push_left(rows([4, 6], "aa"))["t_right"].to_pylist() == [None, 10]
    assert (op.stats().left_kept, op.stats().right_kept, op.stats().right_keys_ahead) == (3, 3, 1)
    op.advance_right(10)
    assert op.keys_ahead_right().num_rows == 0
    for advance in (op.advance_right, partial(op.advance_right, key="a")):
        with pytest.raises(wk.InvalidValue, match="9 is before the last one of the right side, 10"):
            advance(9)


def test_rows_that_a_key_has_passed_take_no_memory() -> None:
    op = band(how="inner").operator(SIDE, SIDE)
    for turn in range(300):
        op.push_left(rows(range(turn * 100, turn * 100 + 100)))
        op.advance_right(turn * 100 + 100, key="a")
        if turn == 20:
            before = op.stats().bytes
    assert op.stats().left_kept <= 6
    assert op.stats().bytes <= before


def test_keys_that_are_ahead_are_not_forgotten() -> None:
    op = band(how="left").operator(SIDE, SIDE)
    op.advance_right(50, key="ahead")
    for turn in range(40):
        op.push_left(rows([100] * 100, [f"{turn} {each}" for each in range(100)]))
        op.advance_right(106 + turn)
        op.push_left(rows([106 + turn], ["other"]))
    assert op.stats().keys < 3000
    op = band(how="left").operator(SIDE, SIDE)
    op.advance_right(500, key="ahead")
    for turn in range(40):
        op.push_left(rows([turn] * 100, [f"{turn} {each}" for each in range(100)]))
        op.advance_right(turn + 6)
    assert op.stats().keys < 3000
    assert op.keys_ahead_right().to_pylist() == [{"k": "ahead", "watermark": 500}]
    assert op.push_left(rows([400, 496], ["ahead"] * 2))["t"].to_pylist() == [400]


def test_keys_are_given_by_the_columns_of_their_side() -> None:
    other = pa.schema({"d": pa.large_string(), "n": pa.int64(), "u": pa.int64()})
    own = pa.schema({"s": pa.dictionary(pa.int8(), pa.string()), "n": pa.int64(), "t": pa.int64()})
    join = wk.join(by={"s": "d", "n": "n"}, left_time="t", right_time="u", within=1, how="left")
    op = join.operator(own, other)
    op.push_left(pa.table({"s": ["a", "a"], "n": [1, 2], "t": [0, 0]}, own))
    for key, message in [
        ("a", r"the join is by \['d', 'n'\]"),
        ({"s": "a", "n": 1}, r"the columns of a key are \['d', 'n'\]"),
        ({"d": "a", "n": "b"}, "'b' is not a value of column 'n'"),
        ({"d": None, "n": 1}, "key: column 'd' of it is null; a null key equals nothing in a join"),
    ]:
        with pytest.raises(wk.WindowKitError, match=message):
            op.advance_right(9, key=key)
    assert op.advance_right(9, key={"d": "a", "n": 1})["n"].to_pylist() == [1]
    assert op.advance_right(9, key=("a", 2))["n"].to_pylist() == [2]
    assert op.keys_ahead_right().column_names == ["d", "n", "watermark"]
    with pytest.raises(wk.InvalidValue, match=r"key: 'a' is given, but the join has no keys \(by=\[\]\)"):
        band(by=[]).operator(SIDE, SIDE).advance_left(1, key="a")


def test_what_is_refused_says_so() -> None:
    op = band().operator(SIDE, SIDE)
    with pytest.raises(wk.UnknownColumn, match="batch: no column 'v', which the stream has; there are k, t"):
        op.push_left(rows([1]).drop_columns("v"))
    with pytest.raises(wk.InvalidType, match="batch: an int has no Arrow interface"):
        op.push_right(3)
    op.advance_left(5)
    with pytest.raises(wk.InvalidValue, match="watermark: 4 is before the last one of the left side, 5"):
        op.advance_left(4)
    with pytest.raises(wk.InvalidType, match="watermark: '4' is a str"):
        op.advance_left("4")
    with pytest.raises(wk.InvalidValue, match="late_limit: -1"):
        band().operator(SIDE, SIDE, late_limit=-1)
    with pytest.raises(wk.UnknownColumn, match="by, of the left side"):
        band(by="x").operator(SIDE, SIDE)
    with pytest.raises(wk.InvalidType, match="can be neither copied nor pickled"):
        pickle.dumps(op)
    with op:
        assert "JoinOperator of by k over t and t: within" in repr(op)
    with pytest.raises(wk.InvalidValue, match="push_left: the operator was released"):
        op.push_left(rows([1]))
    closed = band().operator(SIDE, SIDE)
    closed.close()
    for call in (lambda: closed.push_left(rows([1])), lambda: closed.advance_right(3), closed.close):
        with pytest.raises(wk.InvalidValue, match="the operator is closed; no call may follow close"):
            call()


def test_times_come_back_in_the_type_of_the_columns() -> None:
    side = pa.schema({"t": pa.timestamp("s", "Europe/Berlin")})
    op = wk.join(by=[], left_time="t", right_time="t", within="1 hour").operator(side, side)
    op.advance_left("2024-05-01T12:00:00+00:00")
    op.advance_right(datetime(2024, 5, 1, 11, 30, tzinfo=timezone.utc))
    assert str(op.watermarks.left) == "2024-05-01 12:30:00+02:00"
    assert op.watermarks.right.type == side.field("t").type
    days = pa.schema({"t": pa.date32()})
    op = wk.join(by=[], left_time="t", right_time="t", within="1 day").operator(days, days)
    op.advance_left(5)
    op.advance_right(-(2**31))
    # The one of the left side would be before all days that there are.
    assert op.watermarks.left is None
    op.advance_right(date(1970, 1, 3))
    assert op.watermarks.left.as_py() == date(1970, 1, 2)


def test_a_snapshot_of_many_rows_is_written_in_parts() -> None:
    """They came in one batch, of which a snapshot makes parts of 2^19 rows; nothing else tells them apart."""
    rows, rng = 600_000, np.random.default_rng(3)
    table = pa.table(
        {"k": rng.integers(0, 1000, rows), "t": rng.integers(0, 10**6, rows), "v": np.arange(rows)}
    )
    join = wk.join(by="k", left_time="t", right_time="t", within=3, right_columns=["t", "v"], how="full")
    op = join.operator(table.schema, table.schema)
    op.push_left(table)
    restored = wk.JoinOperator.restore(op.snapshot(), join)
    assert restored.snapshot() == op.snapshot()
    found = restored.push_right(table.slice(rows - 20_000))
    assert found.num_rows > 20_000
    assert found.equals(op.push_right(table.slice(rows - 20_000)))
    assert restored.close().num_rows + found.num_rows == join.run(table, table.slice(rows - 20_000)).num_rows


def test_nulls_where_the_stream_may_have_none_are_refused_at_once() -> None:
    schema = pa.schema(
        [pa.field(name, kind, False) for name, kind in [("k", pa.string()), ("t", pa.int64())]]
    )
    op = wk.join(by="k", left_time="t", right_time="t", within=1, how="left").operator(schema, schema)
    once = wk.distinct("k", time="t", within=1).operator(schema)
    nulls = pa.table({"k": pa.array([None, "a"], pa.string()), "t": [1, 2]})
    for push in (op.push_left, op.push_right, once.push):
        with pytest.raises(
            wk.InvalidValue, match="column 'k' has 1 nulls, but that of the stream may have none"
        ):
            push(nulls)
    assert op.push_left(nulls[1:]).num_rows == 0
    assert op.push_right(nulls[1:]).num_rows == 1
    assert once.push(nulls[1:]).num_rows + once.close().num_rows == 1


def test_sources_of_a_side_hold_its_watermark() -> None:
    schema = SIDE.append(pa.field("shard", pa.string()))

    def of(shard: str, *times: int) -> pa.Table:
        return rows(times).append_column("shard", [[shard] * len(times)]).cast(schema)

    join = band(how="left", right_columns="t")
    follow = wk.delay(0, source="shard", sources=["x", "y"])
    op = join.operator(SIDE, schema, right_progress=follow)
    op.push_left(rows([1, 20]))
    assert op.push_right(of("x", 9)).num_rows == 0
    op = wk.JoinOperator.restore(op.snapshot(), join)
    assert op.push_right(of("y", 3)).num_rows == 1
    assert op.watermarks.left is None
    assert op.progress_right().select(["source", "watermark"]).to_pylist() == [
        {"source": "x", "watermark": 9},
        {"source": "y", "watermark": 3},
    ]
    # A third one that is announced holds it from now on, until it has ended, as does the second.
    op.add_source_right("z")
    op.push_right(of("y", 30))
    assert op.end_source_right("z").num_rows == 0
    op.push_right(of("x", 31))
    assert op.stats().left_kept == 0
    assert op.push_right(of("x", 29)).num_rows == 0
    assert op.take_late_right()["t"].to_pylist() == [29]
    with pytest.raises(wk.InvalidValue, match="source: no row of 'z' has come"):
        op.end_source_right("z")
    with pytest.raises(wk.InvalidValue, match="source: 'x' is given, but the rows of this operator have no"):
        op.add_source_left("x")
    with pytest.raises(wk.InvalidValue, match="progress: no watermark follows the rows of this operator"):
        op.progress_left()
    with pytest.raises(wk.InvalidValue, match=r"watermark: none is given; .* left_progress=windowkit.delay"):
        op.advance_left()


def test_a_row_that_ends_the_wait_for_partners_is_one_itself() -> None:
    for how, expected in (("left", [(1, 2)]), ("full", [(1, 2)]), ("anti", []), ("semi", [(1, None)])):
        op = band(how=how, within=1).operator(SIDE, SIDE, right_progress=wk.delay(0))
        op.push_left(rows([1]))
        found = op.push_right(rows([2, 9]))
        assert op.stats().left_kept == 0
        others = found["t_right"].to_pylist() if "t_right" in found.column_names else [None] * len(found)
        assert list(zip(found["t"].to_pylist(), others, strict=True)) == expected


def test_silent_sources_are_left_out_by_the_clock() -> None:
    now = [0]
    follow = wk.delay(0, source="v", sources=[1, 2], idle="10 seconds")
    join = band(how="left")
    op = join.operator(SIDE, SIDE, right_progress=follow, clock=lambda: now[0])
    op.push_left(rows([1]))
    for source, time in ((1, 20), (2, 3)):
        right = rows([time], "b").set_column(2, "v", [[source]])
        assert op.push_right(right).num_rows == 0
    # A pause in which nobody calls is none, unless the caller has waited for rows of this side.
    now[0] = 20_000_000
    assert op.push_left(rows([2])).num_rows == 0
    now[0] = 40_000_000
    assert op.advance_right()["t"].to_pylist() == [1, 2]
    with pytest.raises(wk.InvalidValue, match="clock: it is given for an operator whose watermark does not"):
        join.operator(SIDE, SIDE, right_progress=wk.delay(0), clock=lambda: 0)


@pytest.mark.parametrize("first", ["left", "right"])
def test_each_side_is_waited_for_by_itself(first: str) -> None:
    now, second = [0], "right" if first == "left" else "left"
    side = pa.schema({"t": pa.timestamp("us")})
    join = wk.join(by=[], left_time="t", right_time="t", within="1 second")
    follow = wk.delay("1 second", heartbeat="10 seconds")
    op = join.operator(side, side, left_progress=follow, right_progress=follow, clock=lambda: now[0])
    for each in ("left", "right"):
        getattr(op, f"push_{each}")(pa.table({"t": pa.array([0], pa.timestamp("us"))}))
    for _ in range(5):
        now[0] += 3_000_000
        for each in (first, second):
            getattr(op, f"advance_{each}")()
    for progress in (op.progress_left(), op.progress_right()):
        assert progress["watermark"][0].value == 5_000_000


def test_rows_from_the_future_are_set_aside() -> None:
    op = band().operator(SIDE, SIDE, left_progress=wk.delay(5, future=100))
    op.push_left(rows([1, 2, 3]))
    op.push_left(rows([5000]))
    assert op.take_late_left().select(["t", "late_reason"]).to_pylist() == [
        {"t": 5000, "late_reason": "from the future"}
    ]
    assert op.push_right(rows([2])).num_rows == 3


def test_a_share_of_the_keys_is_kept_where_memory_runs_short() -> None:
    rng = np.random.default_rng(5)
    keys, join = 4000, band(how="full")
    op, parts, given_rows = join.operator(SIDE, SIDE, shed=wk.shed("300 kB")), [], ([], [])
    for at in range(8):
        for side, push in enumerate((op.push_left, op.push_right)):
            own = [f"key {each}" for each in rng.permutation(keys)[: keys // 2]]
            table = rows(rng.integers(at * 10, at * 10 + 10, keys // 2).tolist(), own)
            given_rows[side].append(table)
            parts.append((push)(table))
        parts += [op.advance_left(at * 10), op.advance_right(at * 10)]
        stats = op.stats()
        assert stats.bytes <= 300_000
        if at == 5:
            op = wk.JoinOperator.restore(op.snapshot(), join)
            assert replace(op.stats(), bytes=0) == replace(stats, bytes=0)
    assert stats.shed_share < 1
    assert stats.keys_shed > 0
    assert stats.rows_shed > 0
    assert stats.left_rows + stats.right_rows + stats.rows_shed == 8 * keys
    parts.append(op.close())
    assert [part.schema.names[-1] for part in parts] == ["shed_share"] * len(parts)
    assert set(parts[-1]["shed_share"].to_pylist()) == {stats.shed_share}
    kept = set(parts[-1]["k"].to_pylist())
    assert 0.5 * keys * stats.shed_share < len(kept) < 2 * keys * stats.shed_share
    # Those that are kept have all of their results, and with the same seed others keep the same ones.
    expected = join.run(*(pa.concat_tables(each) for each in given_rows))
    found = pa.concat_tables(parts).drop_columns("shed_share")

    def of_kept(table: pa.Table) -> Counter[tuple[Any, ...]]:
        listed = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return Counter(row for row in listed if row[0] in kept)

    assert of_kept(found) == of_kept(expected)
    again = band(how="left").operator(SIDE, SIDE, shed=wk.shed("2 MB"))
    again.push_left(pa.concat_tables(given_rows[0] + given_rows[1]))
    assert again.stats().shed_share > stats.shed_share
    assert kept <= set(again.close()["k"].to_pylist())


def test_what_cannot_be_shed_is_refused() -> None:
    for options, given_shed, message in [
        ({"by": []}, wk.shed("1 MB"), r"shed: keep='keys' is given for a join without keys \(by=\[\]\)"),
        ({}, wk.shed("1 MB", keep="rows"), "shed: keep='rows' is given for a join, of which some rows would"),
        ({"left_weight": "v"}, wk.shed("1 MB"), "shed: it is given for a join whose results have weights"),
        ({}, "1 MB", "shed: '1 MB' is a str; it is what windowkit.shed"),
    ]:
        with pytest.raises(wk.WindowKitError, match=message):
            band(**options).operator(SIDE, SIDE, shed=given_shed)
    share = SIDE.append(pa.field("shed_share", pa.int8()))
    with pytest.raises(
        wk.InvalidValue, match="shed_share: the result has a column 'shed_share', and so would"
    ):
        band().operator(share, SIDE, shed=wk.shed("1 MB"))


@pytest.mark.hypothesis
@settings(max_examples=40)
@given(st.data())
def test_results_that_are_held_back_are_those_of_a_join_that_holds_none_back(data: st.DataObject) -> None:
    """In their order, so many a call at most or as long as they wait, and not before what watermarks say."""
    how = data.draw(st.sampled_from(["inner", "left", "full", "anti"]))
    join = wk.join(by="k", left_time="t", right_time="t", within=(1, 4), how=how)
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "id": pa.int64()})
    waits = data.draw(
        st.fixed_dictionaries({}, optional={"at_most": st.integers(1, 5), "later": st.integers(0, 20)})
    )
    early = data.draw(st.booleans()) and how != "inner"
    policy = wk.emit(wk.rows(1), "retracting", **waits) if early else wk.emit(**waits)
    plain = wk.emit(wk.rows(1), "retracting") if early else None
    op = join.operator(schema, schema, emit=policy if waits or early else None)
    other = join.operator(schema, schema, emit=plain)
    got, all_of_them = [], []
    reached, now = {"left": 0, "right": 0}, 0
    for number in range(data.draw(st.integers(1, 25))):
        side = data.draw(st.sampled_from(["left", "right"]))
        said = op.watermarks
        if data.draw(st.booleans()):
            now += data.draw(st.integers(0, 5))
            times = data.draw(st.lists(st.integers(max(0, now - 8), now + 3), max_size=6))
            rows = {"k": [data.draw(st.sampled_from("ab")) for _ in times], "t": times}
            batch = pa.table({**rows, "id": [number] * len(times)}, schema=schema)
            found, known = (getattr(each, f"push_{side}")(batch) for each in (op, other))
        else:
            reached[side] = max(reached[side], now - data.draw(st.integers(0, 6)))
            found, known = (getattr(each, f"advance_{side}")(reached[side]) for each in (op, other))
        if "at_most" in waits and "later" not in waits:
            assert found.num_rows <= waits["at_most"]
        if said.left is not None and "t" in found.column_names and how != "anti":
            assert all(time is None or time >= said.left.as_py() for time in found["t"].to_pylist())
        got += found.to_pylist()
        all_of_them += known.to_pylist()
        assert got == all_of_them[: len(got)]
        if data.draw(st.integers(0, 4)) == 0:
            op = wk.JoinOperator.restore(op.snapshot(), join)
    got += op.close().to_pylist()
    assert got == all_of_them + other.close().to_pylist()


def test_a_result_that_waits_is_returned_once_it_has_waited_long_enough() -> None:
    side = pa.schema({"t": pa.int64()})
    join = wk.join(by=[], left_time="t", right_time="t", within=0)
    op = join.operator(side, side, emit=wk.emit(later=10))
    op.push_left(pa.table({"t": [5]}))
    assert op.advance_left(3).num_rows == op.advance_right(5).num_rows == 0
    assert op.push_right(pa.table({"t": [5]})).num_rows == 0
    assert [str(time) for time in (op.watermarks.left, op.watermarks.right)] == ["3", "3"]
    # The left side is less far.
    assert op.advance_right(40).num_rows == op.advance_left(12).num_rows == 0
    assert op.advance_left(13).to_pylist() == [{"t": 5, "t_right": 5}]
    assert [str(time) for time in (op.watermarks.left, op.watermarks.right)] == ["13", "13"]
    with pytest.raises(wk.WindowKitError, match="later"):
        join.operator(side, side, emit=wk.emit(later="10 seconds"))
