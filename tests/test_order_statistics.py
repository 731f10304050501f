"""Quantiles, modes and distinct counts over many rows, against NumPy and DuckDB; how far sketches are off."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import windowkit as wk

ROWS = 60_000
CHANCE = np.random.default_rng(11)
TIMES = np.sort(CHANCE.integers(0, 6_000, ROWS)) - CHANCE.integers(0, 40, ROWS)
COLUMNS: dict[str, pa.Array] = {
    "doubles": pa.array(CHANCE.normal(size=ROWS), mask=CHANCE.random(ROWS) < 0.05),
    "few": pa.array(CHANCE.integers(0, 37, ROWS)),
    "texts": pa.array([f"text {number}" for number in CHANCE.geometric(0.02, ROWS)]),
    "codes": pa.array([f"{number}" for number in CHANCE.geometric(0.2, ROWS)]).dictionary_encode(),
    "decimals": pa.array(CHANCE.integers(-(10**6), 10**6, ROWS)).cast(pa.decimal128(38, 0)),
    "instants": pa.array(CHANCE.integers(-(10**15), 10**15, ROWS)).cast(pa.timestamp("us", "UTC")),
}
TABLE = pa.table({"k": pa.array(CHANCE.integers(0, 5, ROWS)), "t": TIMES, **COLUMNS})
WINDOW = wk.sliding(300, 40)


def answers(aggs: list[wk.Aggregate], threads: int = 2) -> dict[tuple[int, int], list[Any]]:
    query = wk.query(by="k", time="t", windows=WINDOW, aggs=aggs)
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, iter(TABLE.to_batches(max_chunksize=7_000)))
    result = query.run(reader, threads=threads).to_pylist()
    return {(row["k"], row["window_start"]): [row[each.name] for each in aggs] for row in result}


def by_duckdb(expressions: list[str]) -> dict[tuple[int, int], list[Any]]:
    connection = duckdb.connect()
    connection.register("data", TABLE)
    rows = connection.sql(
        f"""
        WITH slid AS (
            SELECT *, t - ((t % 40) + 40) % 40 - 40 * back AS start FROM data, range(8) AS windows(back)
        )
        SELECT k, start, {", ".join(expressions)} FROM slid WHERE t < start + 300 GROUP BY k, start
        """
    ).fetchall()
    return {row[:2]: list(row[2:]) for row in rows}


@pytest.mark.parametrize("threads", [1, 2])
def test_distinct_counts_and_discrete_quantiles_equal_duckdbs(threads: int) -> None:
    aggs, expressions = [], []
    for name in COLUMNS:
        aggs += [wk.count_distinct(name), wk.quantile(name, 0.35, discrete=True)]
        expressions += [f"count(DISTINCT {name})", f"quantile_disc({name}, 0.35)"]
    assert answers(aggs, threads) == by_duckdb(expressions)


def test_quantiles_equal_numpys() -> None:
    shares = [0, 0.001, 0.25, 0.5, 0.9, 1]
    aggs = [wk.quantile(name, share) for name in ("doubles", "few", "decimals") for share in shares]
    got = answers([*aggs, wk.median("instants")])
    keys, times = TABLE["k"].to_numpy(), TABLE["t"].to_numpy()
    for (key, start), values in list(got.items())[::7]:
        inside = (keys == key) & (times >= start) & (times < start + 300)
        wanted = []
        for name in ("doubles", "few", "decimals"):
            column = TABLE[name].cast(pa.float64()).to_numpy()[inside]
            wanted += list(np.quantile(column[~np.isnan(column)], shares))
        assert np.allclose(values[:-1], wanted, rtol=1e-12, atol=1e-12)
        instants = TABLE["instants"].cast(pa.int64()).to_numpy()[inside]
        micros = pa.scalar(values[-1], pa.timestamp("us", "UTC")).cast(pa.int64()).as_py()
        assert abs(micros - np.median(instants)) <= 1


def test_modes_are_the_least_of_the_most_frequent() -> None:
    names = ["few", "texts", "codes", "doubles"]
    got = answers([wk.mode(name) for name in names])
    keys, times = TABLE["k"].to_numpy(), TABLE["t"].to_numpy()
    for (key, start), values in list(got.items())[::11]:
        inside = pa.array((keys == key) & (times >= start) & (times < start + 300))
        for name, value in zip(names, values, strict=True):
            column = TABLE[name].filter(inside).drop_null().to_pylist()
            distinct, counts = np.unique(np.array(column), return_counts=True)
            assert value == distinct[np.argmax(counts)]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_most_frequent_values_equal_duckdbs(threads: int) -> None:
    aggs, expressions = [], []
    for name in ("few", "texts", "codes"):
        pairs = (
            f"list_transform(map_entries(histogram({name})), lambda e: {{'n': -e.value::BIGINT, 'v': e.key}})"
        )
        ranked = f"list_transform(list_sort({pairs}), lambda e: {{'value': e.v, 'count': -e.n}})"
        for k in (1, 7, 1000):
            aggs.append(wk.top_k(name, k))
            expressions.append(f"{ranked}[:{k}]")
        for share in (1e-9, 0.03, 0.05, 1):
            aggs.append(wk.frequent(name, share))
            met = f"e.count / count({name}) >= {share}::DOUBLE"
            expressions.append(f"list_filter({ranked}, lambda e: {met})")
    assert answers(aggs, threads) == by_duckdb(expressions)


def test_a_share_that_no_float_is_has_the_values_that_meet_it() -> None:
    for rows, count, share in [(30, 3, 0.1), (10, 3, 0.3), (70, 49, 0.7), (21, 3, 1 / 7)]:
        values = ["much"] * count + [str(number) for number in range(rows - count)]
        table = pa.table({"t": [0] * (rows + 2), "v": [*values, None, None]})
        more = np.nextafter(share, 1)
        aggs = [wk.frequent("v", share).alias("met"), wk.frequent("v", more).alias("missed")]
        (got,) = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=aggs).run(table).to_pylist()
        assert got["met"] == [{"value": "much", "count": count}]
        assert got["missed"] == []


def test_the_most_frequent_of_values_that_are_tied_missing_or_no_numbers() -> None:
    nan = float("nan")
    values = [0.0, nan, None, -0.0, float("-nan"), 5.0, 5.0, None, 1.0]
    table = pa.table({"t": [0] * 9 + [10, 10], "v": [*values, None, None]})
    aggs = [wk.top_k("v", 3).alias("top"), wk.frequent("v", 2 / 7).alias("often")]
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggs)
    full, empty = query.run(table).to_pylist()
    expected = [{"value": 0.0, "count": 2}, {"value": 5.0, "count": 2}, {"value": nan, "count": 2}]
    assert repr(full["top"]) == repr(full["often"]) == repr(expected)
    assert empty["top"] == empty["often"] == []
    field = query.schema(table.schema).field("top")
    assert not field.nullable
    assert field.type == pa.list_(pa.struct([("value", pa.float64()), ("count", pa.int64())]))
    assert query.run(table.slice(0, 0)).num_rows == 0


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, float("nan"), float("inf")]),
            st.booleans(),
        ),
        max_size=60,
    ),
    st.integers(1, 5),
    st.sampled_from([0.01, 0.2, 0.25, 1 / 3, 0.5, 1.0]),
    st.sampled_from(["lazy", "eager", "auto"]),
    st.integers(1, 9),
)
@example([(0, float("nan"), False), (0, float("inf"), False)], 1, 1.0, "lazy", 1)
def test_a_stream_that_is_restored_has_the_most_frequent(
    rows: list[tuple[int, float | None, bool]], k: int, share: float, store: Any, batch: int
) -> None:
    aggs = [wk.top_k("v", k).alias("top"), wk.frequent("s", share).where("b").alias("often")]
    query = wk.query(by=[], time="t", windows=[wk.sliding(12, 5), wk.session(2)], aggs=aggs)
    schema = pa.schema({"t": pa.int64(), "v": pa.float64(), "s": pa.string(), "b": pa.bool_()})
    op = query.operator(order="out-of-order", allowed_lateness=100, schema=schema, store=store)
    held: dict[Any, Any] = {}

    def keep(result: pa.Table) -> None:
        for row in result.to_pylist():
            at = row["window_name"], row["window_start"], row["window_end"]
            held[at] = row["top"], row["often"]

    for first in range(0, len(rows), batch):
        some = rows[first : first + batch]
        columns = {
            "t": [t for t, _, _ in some],
            "v": [v for _, v, _ in some],
            "s": [None if v is None else f"as a text {v + 0.0}" for _, v, _ in some],
            "b": [b for _, _, b in some],
        }
        keep(op.push(pa.table(columns, schema=schema)))
        keep(op.advance(max(t for t, _, _ in rows[: first + batch]) - 7))
        op = wk.Operator.restore(op.snapshot(), {"q1": query})
    keep(op.advance(1000))
    for (name, start, end), (top, often) in held.items():
        if not name.startswith("sliding"):
            continue
        inside = [row for row in rows if start <= row[0] < end]
        values = ["nan" if v != v else v + 0.0 for _, v, _ in inside if v is not None]
        texts = [f"as a text {v + 0.0}" for _, v, b in inside if v is not None and b]
        assert repr(top) == repr(ranked(values)[:k]).replace("'nan'", "nan")
        assert often == [each for each in ranked(texts) if each["count"] / len(texts) >= share]
    starts = {start for _, start, _ in held}
    assert {t // 5 * 5 for t, _, _ in rows} <= starts


def ranked(values: list[Any]) -> list[dict[str, Any]]:
    """Return values by how often they occur; "nan" stands for NaN, which comes after all numbers."""
    counted = Counter(values)
    of_nan = {"nan": (1, 0.0)}
    order = sorted(counted, key=lambda value: (-counted[value], of_nan.get(value, (0, value))))
    return [{"value": value, "count": counted[value]} for value in order]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_the_rank_of_a_sketchs_answer_is_near_the_one_asked_for(share: float) -> None:
    values = np.random.default_rng(5).permutation(200_000)
    table = pa.table({"t": np.arange(200_000), "v": values})
    windows = [wk.sliding(100_000, 10_000).alias("sliding"), wk.tumbling(200_000).alias("one")]
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.approx_quantile("v", share))
    for row in query.run(table).to_pylist():
        start, end = row["window_start"], row["window_end"]
        inside = np.sort(values[max(start, 0) : end])
        rank = np.searchsorted(inside, row[f"approx_quantile(v, {share})"])
        # 1.33 % with 99 % confidence: twice that is many standard deviations away.
        assert abs(rank - share * len(inside)) <= 0.0266 * len(inside) + 1


def test_quantiles_of_timestamps_are_rounded_down_wherever_they_lie() -> None:
    cases = {(1, 2): 1, (0, 3): 1, (-2, -1): -2, (-3, 0): -2, (1, 4, 4): 4, (-(2**62), 2**62 + 1): 0}
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.median("v"))
    for values, median in cases.items():
        instants = pa.array(values, pa.int64()).cast(pa.timestamp("s"))
        table = pa.table({"k": [0] * len(values), "t": [0] * len(values), "v": instants})
        assert query.run(table)["median(v)"].cast(pa.int64()).to_pylist() == [median]
