"""Calls of so many slices, of so many keys, that these are put in order first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windowkit as wk

WINDOWS = [
    [wk.sliding(60, 6)],
    [wk.session(9), wk.landmark(12, period=60), wk.tumbling(7)],
    [wk.tumbling(size) for size in range(2, 20)],
]


@pytest.mark.parametrize("windows", WINDOWS, ids=len)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize("store", ["auto", "lazy", "eager"])
def test_calls_of_many_slices_and_keys_are_a_batch(store: str, order: Any, windows: list[wk.Window]) -> None:
    """Their slices are put in the order of keys, whatever that of rows is, also when a call is made again."""
    draw = np.random.default_rng(1)
    rows = 60_000
    times = np.arange(rows) // 50 + (0 if order == "in-order" else draw.integers(0, 5, rows))
    values = pa.array(draw.integers(-100, 100, rows), mask=draw.random(rows) < 0.1)
    columns = {"k": draw.integers(0, 500, rows), "t": times, "v": values, "f": draw.random(rows)}
    table = pa.table({**columns, "b": draw.random(rows) < 0.5})
    aggs = [wk.sum("v"), wk.count(), wk.count("v").alias("some"), wk.mean("v"), wk.max("v"), wk.sum("f")]
    aggs += [wk.sum("v").where("b"), wk.stddev("v"), wk.median("v")]
    query = wk.query(by="k", time="t", windows=windows, aggs=aggs)
    options = {} if order == "in-order" else {"progress": wk.delay(5)}
    op = query.operator(order=order, store=store, schema=table.schema, **options)
    found = []
    for at in range(0, rows, 20_000):
        batch = table.slice(at, 20_000)
        if at == 20_000:
            # Rolled back after slices were added: totals of their keys are computed anew.
            huge = pa.array(np.full(len(batch), 2**62))
            with pytest.raises(wk.Overflow):
                op.push(batch.set_column(2, "v", huge))
        found.append(op.push(batch))
    got = pa.concat_tables([*found, op.close()]).drop_columns("update")
    wanted = query.run(table)
    assert got.schema.names == wanted.schema.names

    def ordered(answers: pa.Table) -> pa.Table:
        flat = answers.flatten()
        by = [
            name for name in flat.column_names if name in {"k", "window_name"} or name.startswith("window.")
        ]
        return flat.sort_by([(name, "ascending") for name in by])

    for name, own, other in zip(ordered(wanted).column_names, ordered(got), ordered(wanted), strict=True):
        if pa.types.is_floating(own.type):
            assert own.is_null().equals(other.is_null()), name
            assert np.allclose(own.fill_null(0), other.fill_null(0), rtol=1e-9, atol=1e-9), name
        else:
            assert own.equals(other), name
