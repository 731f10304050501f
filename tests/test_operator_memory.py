"""What an operator says that it holds, and that it drops values that no partial aggregate points to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk
from support.dense import FUNCTIONS

ROWS = 300_000
WIDE = pa.table(
    {
        "t": range(ROWS),
        "v": pa.array(range(ROWS), pa.float64()),
        "s": pa.array([f"a text that is long enough to lie beside its view {n:07}" for n in range(ROWS)]),
    }
)
POINTING = {
    "first": wk.first("v"),
    "first of texts": wk.first("s"),
    "max of texts": wk.max("s"),
    "max_count of texts": wk.max_count("s"),
    "arg_min": wk.arg_min("s", by="v"),
    "arg_max by texts": wk.arg_max("v", by="s"),
}


@pytest.mark.parametrize("name", POINTING)
def test_bytes_are_no_more_than_what_came(name: str) -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=POINTING[name])
    op = query.operator(order="out-of-order")
    op.push(WIDE)
    # A slice, its state and what that points to; of texts their views, too.
    assert op.stats().bytes < 4 * WIDE.nbytes


KEYED = pa.table(
    {
        "k": [n % 2 for n in range(2_000)],
        "t": [3 * (n // 2) for n in range(2_000)],
        "v": pa.array(range(2_000), pa.int64()),
        "f": pa.array(range(2_000), pa.float64()),
        "s": [f"{n:06}" for n in range(2_000)],
    }
)


def of_snapshot(op: wk.Operator) -> float:
    """The bytes that an operator with many slices says it holds, as a multiple of those of its snapshot."""
    op.push(KEYED)
    return op.stats().bytes / len(op.snapshot())


@pytest.mark.parametrize("windows", [wk.sliding(300, 3), wk.tumbling(rows=5)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bytes_are_about_those_of_a_snapshot(name: str, windows: wk.Window) -> None:
    query = wk.query(by="k", time="t", windows=windows, aggs=FUNCTIONS[name][0])
    op = query.operator(order="out-of-order", allowed_lateness=10**9)
    # Snapshots hold no spare capacity, and numbers in fewer bytes.
    assert 0.5 < of_snapshot(op) < 8


@pytest.mark.parametrize("windows", [wk.sliding(300, 30), wk.session(2), wk.tumbling(rows=5)], ids=str)
@pytest.mark.parametrize("refinement", ["accumulating", "retracting"])
def test_bytes_of_what_has_been_emitted_are_about_those_of_a_snapshot(
    refinement: Any, windows: wk.Window
) -> None:
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.sum("v"))
    policy = wk.emit(wk.rows(1), refinement)
    op = query.operator(order="out-of-order", allowed_lateness=10**9, emit=policy)
    assert 0.5 < of_snapshot(op) < 3


@pytest.mark.parametrize("name", POINTING)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_values_that_nothing_points_to_are_dropped(name: str, order: str) -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10**9), aggs=POINTING[name])
    op = query.operator(order=order)
    most = 0
    for at in range(0, 200_000, 1_000):
        op.push(WIDE.slice(at, 1_000))
        most = max(most, op.stats().bytes)
    assert op.stats().slices == 1
    # One value is alive: some thousand of about 60 bytes may be held beside it, not 200,000. A slice of a
    # table holds the table's buffers, and those are counted whole, but not once per push.
    assert most < 2 * WIDE.nbytes + 2_000_000
    alone = [
        pa.table(WIDE.slice(at, 1_000).to_pydict(), schema=WIDE.schema) for at in range(0, 60_000, 1_000)
    ]
    op, most = query.operator(order=order), 0
    for batch in alone:
        op.push(batch)
        most = max(most, op.stats().bytes)
    assert most < 2_000_000
    run = query.run(pa.concat_tables(alone)).to_pylist()
    assert [{**row, "update": False} for row in run] == op.close().to_pylist()


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize(
    "windows", [[wk.session(10)], [wk.tumbling(rows=3)], [wk.session(10), wk.tumbling(rows=3)]]
)
def test_nothing_is_held_after_the_end(windows: list[wk.Window], order: str) -> None:
    keys = pa.array(range(2_500)).take(pa.array([n % 2_500 for n in range(20_000)]))
    table = WIDE.slice(0, 20_000).append_column("k", keys)
    first, *others = [wk.query(by="k", time="t", windows=each, aggs=wk.max("s")) for each in windows]
    op = first.operator(order=order, schema=table.schema)
    for other in others:
        op.add(other)
    op.push(table)
    assert op.stats().bytes > 100_000
    op.close()
    stats = op.stats()
    assert (stats.bytes, stats.keys, stats.slices, stats.rows_kept) == (0, 0, 0, 0)
    assert op.slices().num_rows == 0
    again = wk.Operator.restore(op.snapshot(), dict(op.queries))
    assert (again.stats().bytes, again.stats().windows) == (0, stats.windows)
