"""Approximate distinct counts of windows, against the union that Apache's library makes of their values."""

from __future__ import annotations

import math
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest

import windowkit as wk

ROWS = 30_000
CHANCE = np.random.default_rng(5)
TIMES = np.sort(CHANCE.integers(0, 3_000, ROWS)) - CHANCE.integers(0, 30, ROWS)
MANY = CHANCE.integers(-(2**63), 2**63 - 1, ROWS)
COLUMNS: dict[str, pa.Array] = {
    "many": pa.array(MANY),
    "few": pa.array(CHANCE.integers(0, 90, ROWS), pa.int8()),
    "unsigned": pa.array(MANY.view(np.uint64), mask=CHANCE.random(ROWS) < 0.1),
    "doubles": pa.array(
        np.where(
            CHANCE.random(ROWS) < 0.2, CHANCE.choice([math.nan, 0.0, -0.0], ROWS), CHANCE.normal(size=ROWS)
        ),
        from_pandas=False,
    ),
    "texts": pa.array([None if number % 7 == 0 else "ä" * (number % 3) + str(number)[:4] for number in MANY]),
    "codes": pa.array([str(number % 700) if number % 5 else "" for number in MANY]).dictionary_encode(),
}
TABLE = pa.table({"k": pa.array(CHANCE.integers(0, 3, ROWS)), "t": TIMES, **COLUMNS})
WINDOWS = [wk.sliding(300, 40), wk.tumbling(50), wk.session(1)]
PRECISIONS = [4, 8, 12, 14]


def apaches(values: list[Any], precision: int) -> datasketches.hll_union:
    """A union of two sketches of the values, so that the order of these is forgotten."""
    sketch = datasketches.hll_sketch(precision, datasketches.tgt_hll_type.HLL_8)
    for value in values:
        if value is not None and value != "":
            sketch.update(value)
    union = datasketches.hll_union(precision)
    union.update(sketch)
    union.update(sketch)
    return union


def reading(size: int, table: pa.Table = TABLE) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=size)))


def values_of(name: str) -> np.ndarray[Any, Any]:
    """The values of a column as Apache's library takes them."""
    plain = [value.as_py() for value in TABLE[name]]
    if name == "unsigned":
        plain = [None if value is None else value - 2**64 * (value >= 2**63) for value in plain]
    return np.array(plain, dtype=object)


def inside(start: int, end: int, key: int) -> np.ndarray[Any, Any]:
    return (TABLE["k"].to_numpy() == key) & (start <= TIMES) & (end > TIMES)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("threads", [1, 2])
def test_windows_are_estimated_as_apache_estimates_their_union(
    name: str, window: wk.Window, threads: int
) -> None:
    aggs = [make(name, log2_k) for log2_k in PRECISIONS for make in (wk.approx_count_distinct, wk.hll_sketch)]
    query = wk.query(by="k", time="t", windows=window, aggs=aggs)
    result = query.run(reading(7_000), threads=threads)
    assert result.schema.field(f"approx_count_distinct({name}, 12)").type == pa.int64()
    assert result.schema.field(f"hll_sketch_agg({name}, 12)").type == pa.binary()
    rows = result.to_pylist()
    values = values_of(name)
    for row in rows[:: max(1, len(rows) // 60)]:
        own = values[inside(row["window_start"], row["window_end"], row["k"])].tolist()
        for log2_k in PRECISIONS:
            union = apaches(own, log2_k)
            image = row[f"hll_sketch_agg({name}, {log2_k})"]
            assert row[f"approx_count_distinct({name}, {log2_k})"] == round(union.get_estimate()), log2_k
            assert datasketches.hll_sketch.deserialize(image).get_estimate() == union.get_estimate()
            assert wk.HyperLogLog.from_bytes(image).estimate() == union.get_estimate()


def test_neither_order_nor_parts_matter() -> None:
    aggs = [wk.approx_count_distinct("many", 8), wk.hll_sketch("many", 8), wk.hll_sketch("texts")]
    query = wk.query(by="k", time="t", windows=WINDOWS[0], aggs=aggs)
    wanted = sorted(map(repr, query.run(TABLE).to_pylist()))
    shuffled = TABLE.take(pa.array(CHANCE.permutation(ROWS)))
    assert sorted(map(repr, query.run(reading(1_111, shuffled), threads=2).to_pylist())) == wanted


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_a_stream_estimates_what_a_batch_does(order: str) -> None:
    aggs = [wk.approx_count_distinct("many", 6), wk.hll_sketch("codes"), wk.approx_count_distinct("codes", 4)]
    query = wk.query(by="k", time="t", windows=WINDOWS[0], aggs=aggs)
    table = TABLE.sort_by("t") if order == "in-order" else TABLE
    op = query.operator(order=order, schema=table.schema)
    emitted: list[Any] = []
    for at, batch in enumerate(table.to_batches(max_chunksize=4_000)):
        emitted += op.push(batch).to_pylist()
        if at == 3:
            op = wk.Operator.restore(op.snapshot(), query)
    emitted += op.close().to_pylist()
    assert not any(row.pop("update") for row in emitted)
    assert sorted(map(repr, emitted)) == sorted(map(repr, query.run(table).to_pylist()))


def test_filters_nulls_and_nothing() -> None:
    table = pa.table(
        {
            "t": [0, 1, 12, 13, 25],
            "v": pa.array(["a", "b", None, "", "c"]),
            "ok": [True, False, True, True, None],
            "n": pa.nulls(5, pa.float64()),
        }
    )
    aggs = [
        wk.approx_count_distinct("v"),
        wk.approx_count_distinct("v").where("ok"),
        wk.approx_count_distinct("n"),
        wk.hll_sketch("n", 10),
    ]
    result = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggs).run(table)
    assert result["approx_count_distinct(v, 12)"].to_pylist() == [2, 0, 1]
    assert result["approx_count_distinct(v, 12) FILTER (WHERE ok)"].to_pylist() == [1, 0, 0]
    assert result["approx_count_distinct(n, 12)"].to_pylist() == [0, 0, 0]
    empty = [
        datasketches.hll_sketch.deserialize(image) for image in result["hll_sketch_agg(n, 10)"].to_pylist()
    ]
    assert all(each.is_empty() and each.lg_config_k == 10 for each in empty)
    assert not any(field.nullable for field in list(result.schema)[1:])


def test_types_without_a_hash_are_refused() -> None:
    for kind in (pa.decimal128(9, 2), pa.list_(pa.int64())):
        table = pa.table({"t": pa.array([1]), "v": pa.nulls(1, kind)})
        for make in (wk.approx_count_distinct, wk.hll_sketch):
            query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=make("v"))
            with pytest.raises(wk.InvalidType, match=r"'?v'?.*allowed are integers, floats, booleans, dates"):
                query.run(table)


def test_sketches_of_windows_are_merged_elsewhere() -> None:
    """What is made by the minute is put together by the hour, as in Spark by ``hll_union_agg``."""
    made = wk.query(by="k", time="t", windows=wk.tumbling(50), aggs=wk.hll_sketch("many")).run(TABLE)
    merged = wk.HyperLogLog()
    for row in made.to_pylist():
        merged.merge(wk.HyperLogLog.from_bytes(row["hll_sketch_agg(many, 12)"]))
    merged.merge(merged)  # Sketches of few values may have an order; nobody knows which.
    assert merged.estimate() == apaches(values_of("many").tolist(), 12).get_estimate()


@pytest.mark.slow
def test_more_than_a_column_holds_comes_in_several_batches() -> None:
    """Sketches of 2^18 registers: as many as a batch has rows would be more than a column of bytes holds."""
    table = pa.table({"t": np.arange(300_000) // 300, "v": np.arange(300_000)})
    query = wk.query(by=[], time="t", windows=wk.sliding(1_000, 1), aggs=wk.hll_sketch("v", 18))
    sizes = [(batch.num_rows, batch.nbytes) for batch in query.batches(table, threads=1)]
    assert sum(rows for rows, _ in sizes) == 1_999
    assert max(nbytes for _, nbytes in sizes) <= 256 << 20
