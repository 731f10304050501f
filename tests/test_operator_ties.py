"""Rows of one time stay in the order they came, however slices were cut, joined and computed anew."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk

PAIRS = {
    "marks and sessions": [wk.punctuation("m"), wk.session(1)],
    "rows and lengths": [wk.tumbling(rows=3), wk.sliding(6, "2 rows")],
    "rows and times": [wk.sliding("4 rows", "3 rows"), wk.sliding(3, 2)],
    "predicates and long sessions": [wk.between("m", "m", exclusive=True), wk.session(1, at_most=2)],
    "lengths and marks": [wk.sliding("2 rows", 3), wk.punctuation("m")],
}
SCHEMA = pa.schema({"t": pa.int64(), "v": pa.int64(), "m": pa.bool_()})


@pytest.mark.parametrize("windows", PAIRS.values(), ids=PAIRS)
@settings(max_examples=250)
@given(st.data())
def test_rows_of_one_time_stay_in_their_order(windows: list[wk.Window], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=3, max_size=16))
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    query = wk.query(
        by=[],
        time="t",
        windows=[window.alias(f"w{number}") for number, window in enumerate(windows)],
        aggs=[
            wk.collect_list("v").alias("l"),
            wk.first("v").alias("f"),
            wk.last("v").alias("e"),
            wk.arg_max("v", "t").alias("a"),
        ],
    )
    op = query.operator(order="out-of-order", schema=SCHEMA)
    bounds = sorted({0, *cuts, len(rows)})
    emitted = []
    for lo, hi in pairwise(bounds):
        columns = {
            "t": [rows[at][0] for at in range(lo, hi)],
            "v": list(range(lo, hi)),
            "m": [rows[at][1] for at in range(lo, hi)],
        }
        emitted += op.push(pa.table(columns, schema=SCHEMA)).to_pylist()
    emitted += op.close().to_pylist()
    for window in emitted:
        by_time = sorted(window["l"], key=lambda v: (rows[v][0], v))
        assert (window["l"], window["f"], window["e"]) == (by_time, by_time[0], by_time[-1])
        latest = rows[by_time[-1]][0]
        assert window["a"] == next(v for v in by_time if rows[v][0] == latest)
