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


def table_of(nest: Callable[[pa.Array], pa.Array], codes_of: pa.DataType | None) -> pa.Table:
    """Return batches whose keys and values have dictionaries of their own, or the same without dictionaries.

    All batches together have more distinct texts than codes of 8 bits can number.
    """
    batches = []
    for seed in range(4):
        codes = np.random.default_rng(seed).integers(0, 120, ROWS)
        texts = pa.array([None if at == 7 else f"key {at * (1 + seed)}" for at in range(120)])
        keys = pa.DictionaryArray.from_arrays(pa.array(codes, codes_of or pa.int32()), texts)
        own = nest(keys if codes_of else keys.cast(pa.string()))
        batches.append(pa.record_batch({"k": own, "t": np.arange(ROWS) + seed, "v": codes, "w": own}))
    return pa.Table.from_batches(batches)


def answers(table: pa.Table, threads: int) -> dict[str, pa.Table]:
    """Return what all that has keys makes of a table."""
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(100).alias("recent"))
    query = wk.query(by="k", time="t", windows=wk.tumbling(1_000), aggs=wk.sum("v"))
    held = [wk.first("w"), wk.arg_max("w", "v"), wk.collect_list("w"), wk.collect_rows("w", "v")]
    values = wk.query(by=[], time="t", windows=wk.tumbling(1_000), aggs=held)
    join = wk.join(by="k", left_time="t", right_time="t", within=0, how="full")
    return {
        "query": query.run(table, threads),
        "values": values.run(table, threads),
        "windows by rows": wk.query(by="k", time="t", windows=wk.tumbling("9 rows"), aggs=wk.sum("v")).run(
            table, threads
        ),
        "rolling": rolling.run(table, threads),
        "at": rolling.at(table.select(["k", "t"]), table.slice(ROWS), threads=threads),
        "join": join.run(table, table.slice(ROWS), threads),
        "distinct": wk.distinct("k", time="t", within=10).run(table, threads),
    }


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("codes", [pa.int8(), pa.int32()], ids=str)
@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_dictionaries_within_keys_are_their_values(
    nest: Callable[[pa.Array], pa.Array], codes: pa.DataType, threads: int
) -> None:
    got, wanted = (answers(table_of(nest, codes_of), threads) for codes_of in (codes, None))
    wide = table_of(nest, pa.int32()).schema.field("k").type
    for name, table in got.items():
        table.validate(full=True)
        assert table.to_pylist() == wanted[name].to_pylist(), name
        if name not in ("values", "rolling", "at", "distinct"):
            assert table.schema.field("k").type == wide, name


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_two_sides_have_codes_of_their_own(nest: Callable[[pa.Array], pa.Array]) -> None:
    narrow, wide, plain = (table_of(nest, codes)[:200] for codes in (pa.int8(), pa.int32(), None))
    join = wk.join(by="k", left_time="t", right_time="t", within=3)
    assert join.run(narrow, wide).to_pylist() == join.run(plain, plain).to_pylist()
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(100).alias("recent"))
    labels = ["k", "t"]
    assert (
        rolling.at(narrow.select(labels), wide).to_pylist()
        == rolling.at(plain.select(labels), plain).to_pylist()
    )
