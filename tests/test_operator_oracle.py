"""Streams of every kind against the definition: order, lateness, batches and watermarks at any place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.oracle import evaluate, rows_of
from support.plain import column, plain
from support.stream_oracle import assert_same, results
from support.streams import AGGREGATES, POOLS, VALUES, Case, cases, check_late, scalar, start, step, windows


@settings(max_examples=400)
@given(cases())
def test_every_call_returns_what_the_definition_says(case: Case) -> None:
    op, oracle = start(case)
    time = case.schema.field("t").type
    for call in case.calls:
        step(op, oracle, call, time)
    assert_same(oracle.close(), results(op, op.close()))
    check_late(op, oracle)
    stats = op.stats()
    assert (stats.rows, stats.late, stats.slices) == (oracle.rows, len(oracle.late), 0)


@settings(max_examples=150)
@given(cases("out-of-order"), st.data())
def test_with_updates_applied_results_are_those_of_all_rows(case: Case, data: st.DataObject) -> None:
    """With no row too late, the last word on each window is what a batch query says of all rows."""
    op, _ = start(
        case._replace(
            lateness=2**40 if pa.types.is_integer(case.schema.field("t").type) else 10**5, updates=True
        )
    )
    last: dict[Any, list[Any]] = {}
    tables = []
    for call in case.calls:
        if call.batch is not None:
            tables.append(call.batch)
            apply(last, results(op, op.push(call.batch)), case.query)
        elif op.watermark is None or data.draw(st.booleans()):
            rest = [t for table in tables for t in plain(table["t"]) if t is not None]
            now = max(rest, default=0) - 5
            if op.watermark is None or now >= plain(pa.array([op.watermark.as_py()], op.watermark.type))[0]:
                apply(last, results(op, op.advance(scalar(now, case.schema.field("t").type))), case.query)
    apply(last, results(op, op.close()), case.query)
    everything = pa.concat_tables([case.schema.empty_table(), *tables])
    expected = evaluate(case.query, everything)
    assert rows_of(case.query, case.query.run(everything)).keys() == expected.keys()
    named = {
        (result[1:-1] if len(case.query.windows) > 1 else (*result[1:-4], *result[-3:-1])): values
        for result, values in last.items()
    }
    assert_same(expected, named)


def apply(last: dict[Any, list[Any]], changes: dict[Any, list[Any]], query: wk.Query) -> None:
    """Replace what results say of windows: an update of a session stands for all that it covers."""
    sessions = {window.name for window in query.windows if isinstance(window, wk.Session)}
    for result, values in changes.items():
        *group, name, begin, end, update = result
        if update:
            for other in [
                other
                for other in last
                if list(other[:-4]) == group
                and other[-4] == name
                and (
                    begin <= other[-3] and other[-2] <= end
                    if name in sessions
                    else (other[-3], other[-2]) == (begin, end)
                )
            ]:
                del last[other]
        assert (*group, name, begin, end, False) not in last
        last[(*group, name, begin, end, False)] = values


@settings(max_examples=60)
@given(st.data())
def test_many_rows_of_one_key_however_many_are_late(data: st.DataObject) -> None:
    """Batches as long as streams have them: mostly in order, or hardly, with nulls and without."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    query = wk.query(
        by=[],
        time="t",
        windows=data.draw(windows(pa.int64())),
        aggs=data.draw(
            st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=5, unique_by=lambda each: each.name)
        ),
    )
    rows, share = data.draw(st.integers(100, 400)), data.draw(st.sampled_from([0.0, 0.02, 0.2, 0.6, 1.0]))
    delays = np.where(random.random(rows) < share, random.integers(0, 40, rows), 0)
    times = np.arange(rows) // data.draw(st.sampled_from([1, 3, 20])) - 50 - delays
    nulls = data.draw(st.booleans())
    columns = {"t": pa.array(times)}
    for name, pool in POOLS.items():
        given_values = [*pool, *([None] if nulls else [])]
        drawn = [given_values[at] for at in random.integers(0, len(given_values), rows)]
        columns[name] = column(drawn, VALUES[name][0])
    table = pa.table(columns)
    op = query.operator(
        order="out-of-order", allowed_lateness=1000, store=data.draw(st.sampled_from(["lazy", "eager"]))
    )
    last: dict[Any, list[Any]] = {}
    size = data.draw(st.integers(70, 400))
    for begin in range(0, rows, size):
        apply(last, results(op, op.push(table.slice(begin, size))), query)
        apply(last, results(op, op.advance(int(times[: begin + size].max()) - 20)), query)
    apply(last, results(op, op.close()), query)
    several = len(query.windows) > 1
    named = {
        (result[1:-1] if several else (*result[1:-4], *result[-3:-1])): values
        for result, values in last.items()
    }
    assert_same(evaluate(query, table), named)


@settings(max_examples=100)
@given(cases(), st.integers(1, 5))
def test_how_rows_are_cut_into_batches_does_not_matter_in_order(case: Case, rows: int) -> None:
    """In order, windows are the same whatever the batches, and each comes once."""
    if case.order == "out-of-order":
        return
    emitted: list[dict[Any, list[Any]]] = []
    for size in (rows, 10**6):
        op = case.query.operator(schema=case.schema)
        seen: dict[Any, list[Any]] = {}
        for call in case.calls:
            if call.batch is None:
                continue
            for from_row in range(0, call.batch.num_rows, size):
                new = results(op, op.push(call.batch.slice(from_row, size)))
                assert not set(new) & set(seen)
                seen |= new
        seen |= results(op, op.close())
        emitted.append(seen)
    assert emitted[0].keys() == emitted[1].keys()


@settings(max_examples=15)
@given(
    st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 60)), min_size=3, max_size=4),
    st.booleans(),
    st.integers(1, 9),
)
def test_a_long_batch_goes_back_and_forth_in_time(
    stretches: list[tuple[int, int]], is_sorted: bool, size: int
) -> None:
    """A key's rows are cut piece by piece; a piece may begin before the slices of the last, or after them."""
    piece = 16_384
    random = np.random.default_rng(size)
    parts = [random.integers(begin, begin + length, piece) for begin, length in stretches]
    times = np.concatenate([np.sort(part) for part in parts] if is_sorted else parts)
    query = wk.query(by=[], time="t", windows=wk.tumbling(size), aggs=[wk.count().alias("n"), wk.sum("t")])
    op = query.operator(order="out-of-order")
    op.push(pa.table({"t": times}))
    starts, counts = np.unique(times // size * size, return_counts=True)
    assert op.stats().slices == len(starts)
    closed = op.close()
    got = zip(*(closed[name].to_pylist() for name in ("window_start", "n", "sum(t)")), strict=True)
    sums = [times[times // size * size == start].sum() for start in starts]
    assert sorted(got) == list(zip(starts, counts, sums, strict=True))
