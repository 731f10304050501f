"""Keys that hold dictionaries within structs and lists are the keys of their values, in every engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import windowkit as wk

ROWS = 9_000
"""Of a batch: more than one thread takes at once."""
NESTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "struct": lambda values: pa.StructArray.from_arrays([values, pa.nulls(len(values))], ["name", "none"]),
    "list": lambda values: pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values),
    "large list": lambda values: pa.LargeListArray.from_arrays(range(len(values) + 1), values),
    "fixed-size list": lambda values: pa.FixedSizeListArray.from_arrays(values, 1),
}


def table_of(nest: Callable[[pa.Array], pa.Array], encoded: bool) -> pa.Table:
    """Return batches whose keys have dictionaries of their own, or the same without dictionaries."""
    batches = []
    for seed in range(4):
        codes = np.random.default_rng(seed).integers(0, 50, ROWS)
        texts = pa.array([None if at == 7 else f"key {at * (1 + seed)}" for at in range(50)])
        keys = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), texts)
        own = nest(keys if encoded else keys.cast(pa.string()))
        batches.append(pa.record_batch({"k": own, "t": np.arange(ROWS) + seed, "v": codes}))
    return pa.Table.from_batches(batches)


def answers(table: pa.Table, threads: int) -> dict[str, pa.Table]:
    """Return what all that has keys makes of a table."""
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(100).alias("recent"))
    query = wk.query(by="k", time="t", windows=wk.tumbling(1_000), aggs=wk.sum("v"))
    join = wk.join(by="k", left_time="t", right_time="t", within=0, how="full")
    return {
        "query": query.run(table, threads),
        "windows by rows": wk.query(by="k", time="t", windows=wk.tumbling("9 rows"), aggs=wk.sum("v")).run(
            table, threads
        ),
        "rolling": rolling.run(table, threads),
        "at": rolling.at(table.select(["k", "t"]), table.slice(ROWS), threads=threads),
        "join": join.run(table, table.slice(ROWS), threads),
        "distinct": wk.distinct("k", time="t", within=10).run(table, threads),
    }


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_dictionaries_within_keys_are_their_values(
    nest: Callable[[pa.Array], pa.Array], threads: int
) -> None:
    got, wanted = (answers(table_of(nest, encoded), threads) for encoded in (True, False))
    for name, table in got.items():
        assert table.to_pylist() == wanted[name].to_pylist(), name
        assert table.schema.field("k").type == table_of(nest, True).schema.field("k").type
