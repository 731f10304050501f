"""Answers of many bytes come in batches of few rows: no column is more than 32-bit offsets can tell."""

from __future__ import annotations

import pyarrow as pa
import pytest

import windowkit as wk

SIZE = 50_000
WINDOWS = 50_000
SLIDING = wk.sliding(10 * WINDOWS, 10)
MOST = 256 << 20
"""Bytes that a batch may have: answers of 2.5 GB are many batches."""


@pytest.mark.parametrize(
    "aggregate",
    [wk.max("v"), wk.first("v"), wk.collect_list("v"), wk.collect_rows("v"), wk.mode("v"), wk.count()],
    ids=str,
)
def test_large_answers_and_keys_come_in_small_batches(aggregate):
    large = "x" * SIZE
    counted = aggregate.function == "count_all"
    table = pa.table({"k": [large if counted else "a"], "t": [5], "v": [large]})
    query = wk.query(by="k", time="t", windows=SLIDING, aggs=aggregate)
    windows = 0
    for batch in query.batches(table, threads=1):
        assert batch.nbytes <= MOST
        windows += batch.num_rows
        text = batch.column(0 if counted else -1)[-1].as_py()
        lists = {"collect_list": [large], "collect_rows": [{"v": large}]}
        assert text == lists.get(aggregate.function, large)
    assert windows == WINDOWS


@pytest.mark.slow
def test_answers_that_grow_at_once_come_too():
    # Ten thousand windows of a letter, and then ten thousand of many, in the order of time.
    table = pa.table({"t": [5, 300_005], "v": ["a", "b" * 500_000]})
    query = wk.query(by=[], time="t", windows=wk.sliding(100_000, 10), aggs=wk.last("v"))
    starts: list[int] = []
    for batch in query.batches(table, threads=1):
        assert batch.nbytes <= 1 << 30
        starts += batch["window_start"].to_pylist()
        assert batch["last(v)"][-1].as_py() in ("a", "b" * 500_000)
    assert starts == [*range(-99_990, 10, 10), *range(200_010, 300_010, 10)]
