"""Many rows of a key in disorder: only the slices around them are cut anew."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk

WINDOWS = [
    wk.punctuation("mark"),
    wk.punctuation("mark", at="start"),
    wk.between("mark", "other"),
    wk.between("mark", "other", exclusive=True),
    wk.session(3, at_most=20),
    wk.tumbling(10),
    wk.session(2),
    wk.sliding("5 rows", "2 rows"),
]
ROWS = 400


def lift(values: pa.Array) -> pa.Array:
    """Fail for a value that rows of failing calls have."""
    if pc.any(pc.equal(values, -1)).as_py():
        raise ValueError("no such value")
    return values


ADDED = wk.aggregate("added", lift=lift, combine=pc.add, lower=lambda each: each, commutative=True)
JOINED = wk.aggregate("joined", lift=lift, combine=lambda a, b: b, lower=lambda each: each)


@pytest.mark.hypothesis
@settings(max_examples=60)
@given(st.data())
def test_rows_in_disorder_lead_to_the_windows_of_rows_in_order(data: st.DataObject) -> None:
    """Also rows of one time, and where calls fail when their rows are among the others."""
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    windows = data.draw(st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=3, unique=True))
    spread, ahead = data.draw(st.sampled_from([40, 400])), data.draw(st.sampled_from([0, 3, 50, 500]))
    aggs: list[Any] = [wk.sum("v"), wk.count().alias("n"), ADDED("v").alias("added")]
    if data.draw(st.booleans()):
        aggs += [wk.collect_list("id").alias("ids"), wk.last("id").alias("last"), JOINED("v").alias("joined")]
    query = wk.query(by=[], time="t", windows=windows, aggs=aggs)
    # Nearly in order, or in none.
    times = sorted((chance.randrange(spread) for _ in range(ROWS)), key=lambda t: t + chance.random() * ahead)
    columns = {
        "t": times,
        "id": list(range(ROWS)),
        "v": [chance.randrange(100) for _ in times],
        "mark": [chance.random() < 0.15 for _ in times],
        "other": [chance.random() < 0.15 for _ in times],
    }
    table, op, at = pa.table(columns), query.operator(order="out-of-order"), 0
    while at < ROWS:
        count = chance.choice([1, 2, 10, 50])
        if at and chance.random() < 0.2:
            failing = table.slice(chance.randrange(ROWS - 20), 20).set_column(2, "v", pa.array([-1] * 20))
            with pytest.raises(ValueError, match="no such value"):
                op.push(failing)
        op.push(table.slice(at, count))
        at += count
    results = op.close().select(query.columns).to_pylist()
    assert sorted(map(repr, results)) == sorted(map(repr, query.run(table).select(query.columns).to_pylist()))
