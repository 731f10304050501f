"""Rows without duplicates: in tables and streams, by the definition and by DuckDB."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from typing import Any, NoReturn

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support.distincts import Model, firsts
from support.join_streams import ORDERS, arriving
from support.joins import Row, length, plain
from support.tables import KEYS, TIMES, columns_of

SIDE = pa.schema({"id": pa.string(), "t": pa.int64(), "v": pa.int64()})


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Table, wk.Distinct, list[Row], int]:
    time = draw(st.sampled_from(TIMES))
    kinds = [draw(st.sampled_from(KEYS)) for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    moments = st.integers(0, 12)
    if time in (pa.int64(), pa.timestamp("ns"), pa.duration("us")) and draw(st.booleans()):
        moments = st.integers(0, 2).flatmap(lambda d: st.sampled_from([d - 2**63, 2**63 - 1 - d, d]))
    count = draw(st.sampled_from([0, 1, 5, 25]))
    columns = {f"k{at}": columns_of(draw, kind, values, count) for at, (kind, values) in enumerate(kinds)}
    table = pa.table(columns | {"t": columns_of(draw, time, moments, count), "left": range(count)})
    within = draw(st.sampled_from([0, 1, 3, 100]))
    by = [f"k{at}" for at in range(len(kinds))]
    distinct = wk.distinct(by, time="t", within=length(within, time))
    return table, distinct, plain(table, "k", "t", len(kinds)), within


@given(case=cases(), threads=st.integers(1, 2))
def test_rows_of_a_table_are_those_of_the_definition(case: tuple, threads: int) -> None:
    table, distinct, rows, within = case
    result = distinct.run(table, threads=threads)
    assert result["left"].to_pylist() == firsts(list(enumerate(rows)), within)
    assert result.schema == table.schema


CALLS = st.lists(
    st.tuples(st.sampled_from(["push", "push", "push", "advance", "restore", "fail"]), st.integers(0, 9)),
    max_size=12,
)


@given(case=cases(), made=CALLS)
def test_rows_of_a_stream_are_those_of_the_definition(case: tuple, made: list[tuple[str, int]]) -> None:
    table, distinct, rows, within = case
    op, model, out = distinct.operator(table.schema), Model(within), Counter[int]()
    times = sorted({time for _, time in rows if time is not None}) or [0]
    done = 0
    for name, argument in [*made, ("push", 10**6), ("close", 0)]:
        before = model.reached
        if name == "push":
            result = op.push(table.slice(done, argument))
            model.push(list(enumerate(rows))[done : done + argument])
            done += argument
        elif name == "advance":
            time = times[argument * (len(times) - 1) // 9]
            if before is not None and time < before:
                continue
            result, model.reached = op.advance(time), time
        elif name == "restore":
            op = wk.DistinctOperator.restore(op.snapshot(), distinct)
            continue
        elif name == "fail":
            stats = op.stats()
            with pytest.raises(wk.UnknownColumn):
                op.push(table.drop_columns("left"))
            assert op.stats() == stats
            continue
        else:
            result, model.is_closed = op.close(), True
        out.update(result["left"].to_pylist())
        assert out == Counter(model.results())
        of_time = [rows[number][1] for number in result["left"].to_pylist()]
        assert all(before is None or time is None or time >= before for time in of_time)
        assert op.stats().rows_kept == model.kept()
    assert op.take_late()["left"].to_pylist() == model.late


def rows_of(times: list[int], ids: list[str] | None = None) -> pa.Table:
    return pa.table({"id": ids or ["a"] * len(times), "t": times, "v": range(len(times))}, SIDE)


def test_a_table_is_that_of_duckdb() -> None:
    rng = np.random.default_rng(11)
    count = 20_000
    ids = pa.array(rng.integers(0, 300, count).astype(float), mask=rng.random(count) < 0.01)
    times = pa.array(rng.integers(0, 10**6, count), pa.timestamp("ms"))
    table = pa.table({"id": ids, "t": times, "n": range(count)})
    result = wk.distinct("id", time="t", within="2 seconds").run(table)
    with duckdb.connect() as connection:
        connection.register("rows", table)
        expected = connection.execute(
            "SELECT n FROM (SELECT *, lag(t) OVER (PARTITION BY id ORDER BY t, n) AS before FROM rows) "
            "WHERE before IS NULL OR t - before > INTERVAL 2 SECONDS ORDER BY n"
        ).fetchall()
    assert result["n"].to_pylist() == [n for (n,) in expected]
    assert 1000 < len(expected) < 19_000


@pytest.mark.parametrize("order", ORDERS)
def test_many_held_rows_of_a_key_are_those_of_duckdb(order: str) -> None:
    """So many that they are in several blocks, which are split and joined as rows come and go."""
    rng = np.random.default_rng(ORDERS.index(order))
    count = 3000
    ids = rng.choice(list("aaab"), count).tolist()
    # No two times are equal, so that the order of arrival does not matter.
    table = arriving(rng, rows_of(rng.permutation(2 * count)[:count].tolist(), ids), order)
    distinct = wk.distinct("id", time="t", within=2)
    op, parts, reached = distinct.operator(SIDE), [], -1
    for at in range(0, count, 50):
        parts.append(op.push(table.slice(at, 50)))
        if rng.random() < 0.2:
            reached = max(reached, pc.min(table["t"].slice(at + 50)).as_py() or 0)
            parts.append(op.advance(reached))
        if rng.random() < 0.05:
            op = wk.DistinctOperator.restore(op.snapshot(), distinct)
    found = pa.concat_tables([*parts, op.close()])
    with duckdb.connect() as connection:
        connection.register("rows", table)
        expected = connection.execute(
            "SELECT v FROM (SELECT *, lag(t) OVER (PARTITION BY id ORDER BY t) AS before FROM rows) "
            "WHERE before IS NULL OR t - before > 2"
        ).fetchall()
    assert Counter(found["v"].to_pylist()) == Counter(v for (v,) in expected)
    assert count // 4 < len(expected) < count


def test_rows_that_follow_each_other_are_duplicates_of_duplicates() -> None:
    table = rows_of([16, 8, 0, 27, 27])
    distinct = wk.distinct("id", time="t", within=10)
    assert distinct.run(table)["t"].to_pylist() == [0, 27]
    assert distinct.run(table)["v"].to_pylist() == [2, 3]


def test_times_at_the_limits_of_64_bits_are_times() -> None:
    least, most, within = -(2**63), 2**63 - 1, 2**61 - 1
    times = [most, least, most - within - 1, 0, most - 2 * within, None, least + 2 * within, least + within]
    table = pa.table({"t": pa.array(times, pa.int64()), "left": range(8)})
    for by in ([], ["t"]):
        distinct = wk.distinct(by, time="t", within=within)
        rows = plain(table.append_column("k0", table["t"]), "k", "t", len(by))
        wanted = firsts(list(enumerate(rows)), within)
        assert distinct.run(table)["left"].to_pylist() == wanted
        assert sum(batch.num_rows for batch in distinct.batches(table)) == len(wanted)
    # Where one batch has such a time, and another one beyond the limits.
    times = pa.chunked_array([[2**63 - 1], [2**63]], pa.uint64())
    with pytest.raises(wk.InvalidValue, match="column 't'"):
        wk.distinct([], time="t", within=3).run(pa.table({"t": times}))


def test_a_distinct_is_a_value() -> None:
    distinct = wk.distinct("id", time="t", within="10 minutes")
    assert distinct == wk.distinct(["id"], time="t", within="600 seconds")
    assert hash(distinct) == hash(wk.distinct(["id"], time="t", within="600 seconds"))
    assert pickle.loads(pickle.dumps(distinct)) == distinct
    assert distinct != wk.distinct("id", time="t", within="5 minutes")
    assert repr(distinct) == "Distinct(by=('id',), time='t', within=Duration('10 minutes'))"


def test_frames_stay_what_they_are() -> None:
    table = rows_of([8, 9, 3, 30], ["a", "b", "a", "a"])
    distinct = wk.distinct("id", time="t", within=10)
    frame = table.to_pandas().astype({"id": "category"}).set_index(pd.Index([5, 6, 7, 8]))
    result = distinct.run(frame)
    assert result.equals(frame.loc[[6, 7, 8]])
    assert result.dtypes.equals(frame.dtypes)
    polars = pl.from_arrow(table)
    assert isinstance(polars, pl.DataFrame)
    assert distinct.run(polars).equals(polars[1:])
    assert distinct.run(table, result="polars").equals(polars[1:])
    assert distinct.run(polars, result="pyarrow")["v"].to_pylist() == [1, 2, 3]
    assert distinct.run(table, result="pandas")["v"].tolist() == [1, 2, 3]
    reader = table.to_reader(max_chunksize=2)
    assert distinct.run(reader) == table[1:]


def test_a_long_stream_holds_little() -> None:
    rng = np.random.default_rng(4)
    distinct = wk.distinct("id", time="t", within=20)
    op, parts, kept = distinct.operator(SIDE), [], 0
    pushed = []
    for turn in range(300):
        times = turn * 10 + rng.integers(0, 40, 10)
        batch = rows_of(times.tolist(), [f"{turn // 3} {each}" for each in rng.integers(0, 4, 10)])
        batch = batch.set_column(2, "v", pa.array(range(turn * 10, turn * 10 + 10)))
        pushed.append(batch)
        parts += [op.push(batch), op.advance(turn * 10)]
        kept = max(kept, op.stats().rows_kept)
    parts.append(op.close())
    found, expected = pa.concat_tables(parts), distinct.run(pa.concat_tables(pushed))
    assert sorted(found["v"].to_pylist()) == expected["v"].to_pylist()
    stats = op.stats()
    assert (stats.rows, stats.results, stats.late, stats.rows_kept) == (3000, len(found), 0, 0)
    assert kept < 100
    assert stats.keys < 1100


def test_keys_without_rows_are_forgotten_by_operators_that_are_restored_often() -> None:
    distinct = wk.distinct("k", time="t", within=5)
    op = distinct.operator(pa.schema({"k": pa.int64(), "t": pa.int64()}))
    for turn in range(60):
        op.push(pa.table({"k": range(turn * 100, turn * 100 + 100), "t": [turn * 10] * 100}))
        op.advance(turn * 10)
        op = wk.DistinctOperator.restore(op.snapshot(), distinct)
    assert op.stats().keys < 1200


def test_a_result_that_is_lost_can_be_had_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(stream: Any) -> NoReturn:
        raise KeyboardInterrupt

    op = wk.distinct("id", time="t", within=5).operator(SIDE)
    op.push(rows_of([1, 9, 9]))
    calls = [
        lambda: op.push(rows_of([8, 30])),
        lambda: op.advance(10),
        lambda: op.advance(30),
        lambda: op.close(),
    ]
    for call, count in zip(calls, [0, 2, 1, 0], strict=True):
        before = op.calls
        with monkeypatch.context() as context:
            # The core has committed the call by then.
            context.setattr("windowkit.streams.held.table", lost)
            with pytest.raises(KeyboardInterrupt):
                call()
        assert op.calls == before + 1
        assert op.last().num_rows == count


def test_snapshots_are_of_what_they_were_made_of_and_whole() -> None:
    distinct = wk.distinct("id", time="t", within=5)
    op = distinct.operator(SIDE, late_limit=1)
    op.push(rows_of([1, 9]))
    op.advance(2)
    op.push(rows_of([1, 0]))
    snapshot = op.snapshot()
    again = wk.DistinctOperator.restore(snapshot, distinct)
    assert replace(again.stats(), bytes=0) == replace(op.stats(), bytes=0)
    assert again.watermark == op.watermark == pa.scalar(2)
    assert again.take_late().to_pylist() == [{"id": "a", "t": 1, "v": 0, "late_reason": "too late"}]
    assert (again.stats().late, again.stats().late_dropped) == (2, 1)
    with pytest.raises(wk.InvalidValue, match=r'snapshot: it is of distinct rows {"by": .* and not {"by": '):
        wk.DistinctOperator.restore(snapshot, wk.distinct("id", time="t", within=6))
    for size in (*range(40), *range(40, len(snapshot), 497)):
        with pytest.raises(wk.InvalidValue, match="snapshot"):
            wk.DistinctOperator.restore(snapshot[:size], distinct)
    for at in range(0, len(snapshot), 251):
        damaged = bytearray(snapshot)
        damaged[at] ^= 1
        with pytest.raises(wk.InvalidValue, match="snapshot"):
            wk.DistinctOperator.restore(bytes(damaged), distinct)
    with pytest.raises(wk.InvalidType, match="distinct: it is a str"):
        wk.DistinctOperator.restore(snapshot, "id")  # type: ignore[arg-type]


def test_what_is_refused_says_so() -> None:
    with pytest.raises(wk.InvalidValue, match="within: -1 is negative"):
        wk.distinct("id", time="t", within=-1)
    with pytest.raises(wk.InvalidType, match="within: 3 rows is a number of rows"):
        wk.distinct("id", time="t", within="3 rows")
    with pytest.raises(wk.InvalidValue, match="by: 'id' is given twice"):
        wk.distinct(["id", "id"], time="t", within=3)
    table = rows_of([1])
    for distinct, error, says in [
        (wk.distinct("x", time="t", within=3), wk.UnknownColumn, "by: no column 'x'; there are id, t, v"),
        (wk.distinct("id", time="x", within=3), wk.UnknownColumn, "time: no column 'x'"),
        (wk.distinct("id", time="id", within=3), wk.InvalidType, "time: column 'id' is string"),
        (wk.distinct("id", time="t", within="1 hour"), wk.InvalidType, "within: it is a duration"),
    ]:
        with pytest.raises(error, match=says):
            distinct.run(table)
        with pytest.raises(error, match=says):
            distinct.operator(SIDE)
    with pytest.raises(wk.InvalidType, match="data: an int has no Arrow interface"):
        wk.distinct("id", time="t", within=3).run(3)
    op = wk.distinct("id", time="t", within=3).operator(SIDE)
    op.advance(5)
    with pytest.raises(wk.InvalidValue, match="watermark: 4 is before the last one, 5"):
        op.advance(4)
    assert op.watermark == pa.scalar(5)
    with pytest.raises(wk.InvalidType, match="restore makes another operator of it"):
        pickle.dumps(op)
    with op:
        assert repr(op).startswith("<windowkit.DistinctOperator of by id over t: within 3")
    with pytest.raises(wk.InvalidValue, match="push: the operator was released"):
        op.push(table)


def test_big_unsigned_times_are_refused() -> None:
    table = pa.table({"t": pa.array([2**64 - 1, 1], pa.uint64())})
    with pytest.raises(wk.InvalidValue, match="column 't' holds 18446744073709551615"):
        wk.distinct([], time="t", within=3).run(table)
