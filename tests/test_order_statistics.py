"""Quantiles, modes and distinct counts over many rows, against NumPy and DuckDB; how far sketches are off."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

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
    return {(row["k"], row["window"]["start"]): [row[each.name] for each in aggs] for row in result}


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


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_the_rank_of_a_sketchs_answer_is_near_the_one_asked_for(share: float) -> None:
    values = np.random.default_rng(5).permutation(200_000)
    table = pa.table({"t": np.arange(200_000), "v": values})
    windows = [wk.sliding(100_000, 10_000).alias("sliding"), wk.tumbling(200_000).alias("one")]
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.approx_quantile("v", share))
    for row in query.run(table).to_pylist():
        start, end = row["window"]["start"], row["window"]["end"]
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
