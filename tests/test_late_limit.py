"""Late rows that nobody takes: how many are held, and that those beyond are counted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.refusals import Fragile, unchanged
from windowkit import _native
from windowkit.local import query as local
from windowkit.streams.known import Entry

QUERY = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
SCHEMA = pa.schema({"t": pa.int64(), "v": pa.int64()})


def rows(*given_: tuple[int | None, int]) -> pa.Table:
    return pa.table(list(zip(*given_, strict=True)) or [[], []], schema=SCHEMA)


def values(late: pa.Table) -> list[int]:
    column: list[int] = late["v"].to_pylist()
    return column


def test_rows_beyond_the_limit_are_counted() -> None:
    op = QUERY.operator(order="out-of-order", late_limit=3, schema=SCHEMA)
    op.advance(100)
    op.push(rows((1, 1), (2, 2)))
    op.push(rows((3, 3), (100, 0), (4, 4), (None, 5)))
    # Those without a time come first in a push.
    stats = op.stats()
    assert (stats.late, stats.late_dropped, stats.rows, op.late) == (5, 2, 1, 5)
    assert values(op.take_late()) == [1, 2, 5]
    op.push(rows(*[(9, value) for value in range(6, 12)]))
    assert (op.stats().late, op.stats().late_dropped) == (11, 5)
    assert values(op.take_late()) == [6, 7, 8]
    assert values(op.take_late()) == []
    assert op.close()["sum(v)"].to_pylist() == [0]
    assert (op.stats().late, op.stats().late_dropped, op.stats().late_bytes) == (11, 5, 0)


@pytest.mark.parametrize(("limit", "held"), [(0, 0), (1, 1), (None, 5), (2**70, 5)])
def test_limits_of_any_size(limit: int | None, held: int) -> None:
    op = QUERY.operator(late_limit=limit)
    op.push(rows(*[(None, value) for value in range(5)]))
    assert (op.stats().late, op.stats().late_dropped) == (5, 5 - held)
    assert wk.Operator.restore(op.snapshot(), QUERY).take_late() == op.take_late()


@pytest.mark.parametrize("limit", [-1, 1.5, "many", True])
def test_limits_are_ints(limit: Any) -> None:
    with pytest.raises(
        (wk.InvalidValue, wk.InvalidType), match=r"late_limit: .* it is an int of at least 0, or None"
    ):
        QUERY.operator(late_limit=limit)


def test_memory_of_late_rows_is_limited_by_default() -> None:
    op = QUERY.operator(schema=SCHEMA)
    nothing = pa.nulls(300_000, pa.int64())
    for turn in range(5):
        batch = pa.table([nothing, pa.repeat(turn, 300_000)], schema=SCHEMA)
        op.push(batch)
    assert (op.stats().late, op.stats().late_dropped) == (1_500_000, 500_000)
    # Time, value, and a reason of nine letters.
    assert op.stats().late_bytes < 40 * 1_000_000
    assert op.take_late().num_rows == 1_000_000


def test_a_part_of_a_large_batch_does_not_hold_all_of_it() -> None:
    op = QUERY.operator(late_limit=10, schema=SCHEMA)
    op.push(pa.table([pa.nulls(100_000, pa.int64()), range(100_000)], schema=SCHEMA))
    assert op.stats().late_bytes < 10_000
    assert values(op.take_late()) == list(range(10))


def test_a_call_that_fails_neither_holds_nor_counts() -> None:
    fragile = Fragile("combine")
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=fragile.total("v"))
    op = query.operator(order="out-of-order", late_limit=2, schema=SCHEMA)
    op.advance(50)
    op.push(rows((1, 1), (60, 0)))
    fragile.broken = True
    more = rows((2, 2), (3, 3), (60, 4), (60, 5))
    unchanged(op, lambda: op.push(more), wk.InvalidValue, "total: combine failed")
    fragile.broken = False
    assert (op.stats().late, op.stats().late_dropped) == (1, 0)
    op.push(more)
    assert (op.stats().late, op.stats().late_dropped) == (3, 1)
    assert values(op.take_late()) == [1, 2]


@given(
    limit=st.none() | st.integers(0, 12),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["push", "push", "push", "take", "snapshot"]), st.integers(0, 9), st.booleans()
        ),
        max_size=25,
    ),
)
@settings(max_examples=150, deadline=None)
def test_late_rows_of_calls_that_fail_or_are_lost_are_neither_lost_nor_duplicated(
    limit: int | None, steps: list[tuple[str, int, bool]]
) -> None:
    plans = [("q1", local.plan(QUERY, SCHEMA))]
    core = _native.Operator([Entry(*plans[0])], "out-of-order", 0, None, "auto", limit, None, True)
    core.advance(100)
    held: list[int] = []
    count = dropped = number = 0
    for step, size, is_sound in steps:
        if step == "push":
            late = [number + at for at in range(size)]
            number += size
            given = [(5, value) for value in late]
            if not is_sound:
                with pytest.raises(wk.Overflow):
                    core.push(rows(*given, (2**63 - 1, 0)))
            else:
                core.push(rows(*given, (100, 0)))
                room = size if limit is None else min(max(limit - len(held), 0), size)
                held, count, dropped = held + late[:room], count + size, dropped + size - room
        elif step == "take":
            taken = core.take_late()
            if not is_sound:
                # As if an interrupt had come before it was assigned.
                taken, are_late = core.last()
                assert are_late
            assert values(pa.RecordBatchReader.from_stream(taken).read_all()) == held
            held = []
        else:
            core = _native.Operator.restore(core.snapshot(), plans)
        stats = core.stats()
        assert (stats.late, stats.late_dropped) == (count, dropped)
    assert values(pa.RecordBatchReader.from_stream(core.take_late()).read_all()) == held
