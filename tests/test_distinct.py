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
from support.distincts import LEFT, Model, Sources, firsts, max_of
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
    per = draw(st.sampled_from(["first", "interval"]))
    distinct = wk.distinct(by, time="t", within=length(within, time), per=per)
    return table, distinct, plain(table, "k", "t", len(kinds)), within


@given(case=cases(), threads=st.integers(1, 2))
def test_rows_of_a_table_are_those_of_the_definition(case: tuple, threads: int) -> None:
    table, distinct, rows, within = case
    result = distinct.run(table, threads=threads)
    assert result["left"].to_pylist() == LEFT[distinct.per](list(enumerate(rows)), within)
    assert result.schema == table.schema
    parts = distinct.batches(table, threads=threads)
    assert [row for batch in parts for row in batch["left"].to_pylist()] == result["left"].to_pylist()


CALLS = st.lists(
    st.tuples(st.sampled_from(["push", "push", "push", "advance", "restore", "fail"]), st.integers(0, 9)),
    max_size=12,
)


@given(case=cases(), made=CALLS)
def test_rows_of_a_stream_are_those_of_the_definition(case: tuple, made: list[tuple[str, int]]) -> None:
    table, distinct, rows, within = case
    op, model, out = distinct.operator(table.schema), Model(within, distinct.per), Counter[int]()
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


IDS, SHARDS = ["a", "b", None], ["x", "y", None]
FOLLOWED = pa.schema({"id": pa.string(), "t": pa.int64(), "shard": pa.string(), "v": pa.int64()})
ROWS = st.lists(
    st.tuples(st.sampled_from(IDS), st.none() | st.integers(-9, 9), st.sampled_from(SHARDS)), min_size=25
)
"""Keys, how far times are from those of the rows around them, and sources."""
STEPS = st.one_of(
    *[st.tuples(st.just("push"), st.integers(1, 6))] * 4,
    st.tuples(st.sampled_from(["advance", "fail"]), st.integers(-2, 5)),
    *[st.tuples(st.just("key"), st.integers(-2, 15), st.sampled_from(IDS))] * 2,
    st.tuples(st.sampled_from(["add", "end"]), st.sampled_from(SHARDS)),
    st.tuples(st.sampled_from(["follow", "restore"])),
)


@given(
    within=st.sampled_from([0, 1, 4, 50]),
    per=st.sampled_from(["first", "interval"]),
    delay=st.sampled_from([None, 0, 3, 9]),
    by_source=st.booleans(),
    drawn=ROWS,
    steps=st.lists(STEPS, min_size=8, max_size=25),
)
def test_streams_that_follow_their_rows_and_keys_are_those_of_the_definition(
    within: int, per: Any, delay: int | None, by_source: bool, drawn: list[tuple], steps: list[tuple]
) -> None:
    """Rows in disorder, of sources that come and go, of keys that end before others, with calls that fail."""
    rows = [(name, None if off is None else at + off, shard) for at, (name, off, shard) in enumerate(drawn)]
    table = pa.Table.from_pylist(
        [{"id": name, "t": time, "shard": shard, "v": at} for at, (name, time, shard) in enumerate(rows)],
        FOLLOWED,
    )
    distinct = wk.distinct("id", time="t", within=within, per=per)
    by_source = by_source and delay is not None
    progress = None if delay is None else wk.delay(delay, source="shard" if by_source else None)
    op = distinct.operator(FOLLOWED, progress=progress)
    model, sources, out, done = Model(within, per), Sources(delay or 0), Counter[int](), 0
    for step in [*steps, ("push", len(rows)), ("close",)]:
        result = FOLLOWED.empty_table()
        if step[0] in ("advance", "key"):
            # Around the watermark.
            step = (step[0], step[1] + (model.reached or 0), *step[2:])
        match step:
            case "push", int(count):
                pushed = list(enumerate(rows))[done : done + count]
                result = op.push(table.slice(done, count))
                model.push([(number, ((name,), time)) for number, (name, time, _) in pushed])
                for _, (_, time, shard) in pushed:
                    if delay is not None and time is not None:
                        sources.see(shard if by_source else None, time)
                model.advance(sources.watermark)
                done += count
            case "advance", int(time) if model.reached is None or time >= model.reached:
                result = op.advance(time)
                model.advance(time)
            case "key", int(time), name if max_of(model.reached_of((name,)), time) == time:
                result = op.advance(time, key={"id": name})
                model.advance_key(time, (name,))
            case "add", shard if by_source:
                result = op.add_source(shard)
                sources.latest.setdefault(shard, None)
            case "end", shard if by_source and shard in sources.latest:
                result = op.end_source(shard)
                sources.end(shard)
                model.advance(sources.watermark)
            case ("follow",) if delay is not None:
                result = op.advance()
            case ("restore",):
                op = wk.DistinctOperator.restore(op.snapshot(), distinct)
            case ("close",):
                result, model.is_closed = op.close(), True
            case _:
                stats, watermark = op.stats(), op.watermark
                with pytest.raises(wk.WindowKitError):
                    refused(op, step)
                assert (op.stats(), op.watermark) == (stats, watermark)
        out.update(result["v"].to_pylist())
        assert out == Counter(model.results()), step
        stats = op.stats()
        assert (stats.rows_kept, stats.late) == (model.kept(), len(model.late))
        assert stats.keys_ahead == model.ahead() == op.keys_ahead().num_rows
        assert stats.rows == len(model.rows) + len(model.late)
        if not model.is_closed:
            assert op.watermark == (None if model.reached is None else pa.scalar(model.reached))
            if by_source:
                known = {row["source"]: row["latest"] for row in op.progress().to_pylist()}
                assert known == sources.latest
    assert op.take_late()["v"].to_pylist() == model.late


def refused(op: wk.DistinctOperator, step: tuple) -> None:
    """Make a call that is refused."""
    match step:
        case "advance", time:
            op.advance(time)
        case "key", time, name:
            op.advance(time, key={"id": name})
        case "add", shard:
            op.add_source(shard)
        case "end", shard:
            op.end_source(shard)
        case ("follow",):
            op.advance()
        case _:
            op.push(pa.table({"id": ["a"], "t": ["soon"], "shard": ["x"], "v": [1]}))


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


def test_one_row_per_interval_is_that_of_duckdb() -> None:
    rng = np.random.default_rng(7)
    count, within = 5000, 40
    times = rng.permutation(4 * count)[:count]
    table = rows_of(times.tolist(), rng.choice(list("aaabcd"), count).tolist())
    distinct = wk.distinct("id", time="t", within=within, per="interval")
    with duckdb.connect() as connection:
        connection.register("rows", table)
        expected = connection.execute(
            "WITH RECURSIVE passed AS (SELECT id, min(t) AS t FROM rows GROUP BY id UNION ALL "
            "SELECT passed.id, min(rows.t) FROM passed JOIN rows ON rows.id = passed.id "
            f"AND rows.t > passed.t + {within} GROUP BY passed.id) SELECT id, t FROM passed"
        ).fetchall()
    result = distinct.run(table)
    assert Counter(zip(result["id"].to_pylist(), result["t"].to_pylist(), strict=True)) == Counter(expected)
    assert 1000 < len(expected) < 3000
    op = distinct.operator(SIDE, progress=wk.delay(4 * count))
    parts = [op.push(table.slice(at, 100)) for at in range(0, count, 100)]
    found = pa.concat_tables([*parts, op.close()])
    assert sorted(found["v"].to_pylist()) == result["v"].to_pylist()


def test_a_watermark_follows_the_sources_that_are_not_idle_and_the_clock() -> None:
    now = [0]
    schema = pa.schema({"id": pa.string(), "ts": pa.timestamp("s"), "shard": pa.string()})

    def rows(*each: tuple[str, int, str]) -> pa.Table:
        return pa.Table.from_pylist(
            [{"id": name, "ts": time, "shard": shard} for name, time, shard in each],
            pa.schema({"id": pa.string(), "ts": pa.int64(), "shard": pa.string()}),
        ).cast(schema)

    distinct = wk.distinct("id", time="ts", within="5 seconds")
    follow = wk.delay("2 seconds", source="shard", sources=["x", "y"], idle="10 seconds")
    op = distinct.operator(schema, progress=follow, clock=lambda: now[0])
    assert op.push(rows(("a", 10, "x"), ("b", 8, "x"))).num_rows == 0
    assert op.watermark is None
    now[0] = 11_000_000
    assert op.push(rows(("a", 13, "x"))).num_rows == 0
    # y has said nothing in a time in which it could.
    assert [row["id"] for row in op.advance().to_pylist()] == []
    now[0] = 22_000_000
    assert op.advance()["id"].to_pylist() == ["b", "a"]
    assert op.progress()["idle"].to_pylist() == [True, True]
    again = wk.DistinctOperator.restore(op.snapshot(), distinct, clock=lambda: now[0])
    assert again.watermark == op.watermark == pa.scalar(11, pa.int64()).cast(pa.timestamp("s"))
    assert again.push(rows(("c", 30, "x"), ("d", 12, "y"))).num_rows == 0
    assert again.push(rows(("e", 10, "x"))).num_rows == 0
    assert again.take_late()["id"].to_pylist() == ["e"]
    beats = distinct.operator(
        schema, progress=wk.delay("60 seconds", heartbeat="3 seconds"), clock=lambda: now[0]
    )
    now[0] = 100_000_000
    assert beats.push(rows(("a", 95, "x"))).num_rows == 0
    now[0] = 104_000_000
    assert beats.advance()["id"].to_pylist() == ["a"]


def test_rows_from_the_future_are_set_aside_and_move_no_watermark() -> None:
    op = wk.distinct("id", time="t", within=3).operator(SIDE, progress=wk.delay(1, future=100))
    table = rows_of([1, 2, 3, 5000, 4]).append_column("n", pa.array([None] * 5))
    table = table.set_column(1, "t", pa.array([1, None, 3, 5000, 4], pa.int64()))
    assert op.push(table)["v"].to_pylist() == [1, 0]
    assert op.push(rows_of([6]))["v"].to_pylist() == []
    assert op.watermark == pa.scalar(5)
    late = op.take_late()
    assert (late["t"].to_pylist(), late["late_reason"].to_pylist()) == ([5000], ["from the future"])
    assert (op.stats().rows, op.stats().late) == (6, 1)


def test_keys_that_are_ahead_hold_nothing_but_their_mark() -> None:
    """Streams whose keys alone are said to be complete: what is forgotten is not kept until the stream is."""
    distinct = wk.distinct("k", time="t", within=5)
    op = distinct.operator(pa.schema({"k": pa.int64(), "t": pa.int64()}))
    left = 0
    for turn in range(200):
        op.push(pa.table({"k": [7] * 50, "t": range(turn * 50, turn * 50 + 50)}))
        left += op.advance(turn * 50 + 49, key=7).num_rows
    assert (left, op.stats().rows_kept, op.stats().keys_ahead) == (1, 0, 1)
    assert op.stats().bytes < 200_000
    op.advance(20_000)
    op.push(pa.table({"k": range(3000), "t": [20_001] * 3000}))
    assert op.stats().keys_ahead == 0


@pytest.mark.parametrize("per", ["first", "interval"])
def test_memory_is_limited_by_dropping_keys_and_the_others_are_exact(per: Any) -> None:
    rng = np.random.default_rng(3)
    count, keys, limit = 40_000, 4000, 90_000
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64()})
    # More and more keys, so that several halvings are needed.
    own = (rng.random(count) * np.linspace(10, keys, count)).astype(int)
    columns = {"k": own, "t": np.arange(count) + rng.integers(0, 50, count), "v": range(count)}
    table = pa.table(columns, schema)
    distinct = wk.distinct("k", time="t", within=10_000, per=per)
    op, shares, parts = distinct.operator(schema, progress=wk.delay(60), shed=wk.shed(limit, seed=5)), [], []
    for at in range(0, count, 500):
        parts.append(op.push(table.slice(at, 500)))
        stats = op.stats()
        shares.append(stats.shed_share)
        assert stats.bytes <= limit
        assert set(parts[-1]["shed_share"].to_pylist()) <= set(shares[-2:])
        if at % 7000 == 0:
            op = wk.DistinctOperator.restore(op.snapshot(), distinct)
            assert op.stats().shed_share == stats.shed_share
    parts.append(op.close())
    found = pa.concat_tables(parts)
    assert found.schema == op.schema == schema.append(pa.field("shed_share", pa.float64(), nullable=False))
    assert len(set(shares)) > 2
    assert shares == sorted(shares, reverse=True)
    exact = distinct.run(table)
    # Until a key is dropped, what is returned of it is exact, too.
    assert set(found["v"].to_pylist()) <= set(exact["v"].to_pylist())
    # A key that has results at the end was in each sample.
    last = pc.unique(pa.concat_tables(parts[-8:])["k"])
    kept = found.filter(pc.is_in(found["k"], last)).sort_by("v")
    assert kept["v"].to_pylist() == exact.filter(pc.is_in(exact["k"], last))["v"].to_pylist()
    stats = op.stats()
    assert stats.rows + stats.rows_shed == count
    assert stats.late == 0 < stats.keys_shed
    assert 50 < len(last) < keys


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
    assert repr(distinct) == "Distinct(by=('id',), time='t', within=Duration('10 minutes'), per='first')"
    assert distinct != wk.distinct("id", time="t", within="10 minutes", per="interval")


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
    with pytest.raises(wk.InvalidValue, match="per: 'each' is unknown; allowed are 'first', 'interval'"):
        wk.distinct("id", time="t", within=3, per="each")  # type: ignore[arg-type]
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
    for call, says in [
        (lambda: op.advance(), "watermark: none is given; it may be left out"),
        (lambda: op.advance(4, key="a"), "watermark: 4 is before the last one, 5"),
        (lambda: op.advance(key="a"), "watermark: none is given for the key 'a'"),
        (lambda: op.advance(7, key={"k": "a"}), "key: it has .'k'.; the columns of a key are .'id'."),
        (lambda: op.progress(), "progress: no watermark follows the rows of this operator"),
        (lambda: op.add_source("x"), "source: 'x' is given, but the rows of this operator have no column"),
        (lambda: op.end_source("x"), "source: 'x' is given, but the rows of this operator have no column"),
    ]:
        with pytest.raises(wk.InvalidValue, match=says):
            call()
    one = wk.distinct([], time="t", within=3)
    with pytest.raises(wk.InvalidValue, match="key: 'a' is given, but duplicates are equal in nothing"):
        one.operator(SIDE).advance(7, key="a")
    for options, error, says in [
        ({"progress": 5}, wk.InvalidType, "progress: 5 is an int; it is what windowkit.delay"),
        ({"progress": wk.delay("1 second")}, wk.InvalidType, "delay: it is a duration"),
        ({"progress": wk.delay(1, source="x")}, wk.UnknownColumn, "source: no column 'x'"),
        (
            {"progress": wk.delay(1, heartbeat="1 second")},
            wk.InvalidType,
            "heartbeat: it is given where column 't'",
        ),
        ({"shed": "1 MB"}, wk.InvalidType, "shed: '1 MB' is given; it is what windowkit.shed"),
        (
            {"shed": wk.shed("1 MB")},
            wk.InvalidValue,
            "shed: it is given where duplicates are equal in nothing",
        ),
        ({"shed": wk.shed("1 MB", keep="rows")}, wk.InvalidValue, "shed: keep='rows' is given; without some"),
        ({"clock": lambda: 5}, wk.InvalidValue, "clock: it is given for an operator whose watermark"),
    ]:
        with pytest.raises(error, match=says):
            one.operator(SIDE, **options)  # type: ignore[arg-type]
    taken = pa.schema({"id": pa.string(), "t": pa.int64(), "shed_share": pa.int64()})
    with pytest.raises(wk.InvalidValue, match="shed: results would have two columns 'shed_share'"):
        wk.distinct("id", time="t", within=3).operator(taken, shed=wk.shed("1 MB"))
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
