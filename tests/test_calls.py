"""Interrupted at any moment, a call has taken effect as a whole or not at all; the number of calls tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support.moments import at_each_moment
from support.signals import needs_whole_steps
from windowkit import kernels, partition

pytestmark = needs_whole_steps

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()})
SUMS = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.count().alias("n")])
BESIDE = wk.query(by="k", time="t", windows=wk.tumbling(5), aggs=wk.max("v"))
EARLY = replace(SUMS, emit=wk.emit())


def rows(*times: int) -> pa.Table:
    return pa.table(
        {"k": ["a", "b"] * len(times), "t": [t for t in times for _ in "ab"], "v": range(2 * len(times))},
        schema=SCHEMA,
    )


def stream(query: wk.Query = SUMS, **options: Any) -> wk.Operator:
    op = query.operator(order="out-of-order", schema=SCHEMA, **options)
    op.advance(5)
    op.push(rows(4, 12, 7))
    return op


def two_queries() -> wk.Operator:
    op = stream()
    op.add(BESIDE, name="beside")
    return op


def joined() -> wk.JoinOperator:
    op = wk.join(by="k", left_time="t", right_time="t", within=3, how="full").operator(SCHEMA, SCHEMA)
    op.push_left(rows(1, 2))
    op.advance_left(2)
    op.push_left(rows(1, 5))
    return op


def distinct() -> wk.DistinctOperator:
    op = wk.distinct("k", time="t", within=3).operator(SCHEMA)
    op.advance(2)
    op.push(rows(1, 5, 9))
    return op


def followed() -> wk.DistinctOperator:
    follow = wk.delay(1, source="k", sources=["a", "b"])
    op = wk.distinct("k", time="t", within=3).operator(SCHEMA, progress=follow)
    op.push(rows(1, 5, 9))
    return op


def state_of(op: Any) -> Any:
    """Return what can be seen of an operator."""
    stats = op.stats()
    # Memory that was made room for, and keys that came with rows that were not taken in, may stay.
    stats = replace(stats, **{name: 0 for name in ("bytes", "keys") if hasattr(stats, name)})
    return stats, getattr(op, "watermark", None), dict(getattr(op, "queries", {})), repr(op)


def rest_of(op: Any) -> list[Any]:
    """Return all that an operator still returns."""
    if isinstance(op, wk.JoinOperator):
        if "closed" in repr(op):
            return [op.take_late_left().to_pylist()]
        return [
            op.push_right(rows(2, 5)).to_pylist(),
            op.close().to_pylist(),
            op.take_late_left().to_pylist(),
        ]
    if "closed" in repr(op):
        return [op.take_late().to_pylist()]
    return [op.push(rows(14, 15)).to_pylist(), op.close().to_pylist(), op.take_late().to_pylist()]


CALLS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "first push": (lambda: SUMS.operator(), lambda op: op.push(rows(1, 2))),
    "first push of a closed window": (lambda: SUMS.operator(), lambda op: op.push(rows(1, 12))),
    "push": (stream, lambda op: op.push(rows(11, 9))),
    "push in order": (lambda: SUMS.operator(schema=SCHEMA), lambda op: op.push(rows(1, 12))),
    "push of another order": (stream, lambda op: op.push(rows(11, 9).select(["v", "t", "k"]))),
    "advance": (stream, lambda op: op.advance(10)),
    "advance a key": (stream, lambda op: op.advance(10, key="b")),
    "push slices": (stream, lambda op: op.push_slices(SUMS.slices(rows(11, 9)))),
    "fire": (lambda: stream(EARLY), lambda op: op.fire("a")),
    "close": (stream, lambda op: op.close()),
    "close without rows": (lambda: SUMS.operator(), lambda op: op.close()),
    "take late rows": (stream, lambda op: op.take_late()),
    "add": (stream, lambda op: op.add(BESIDE, name="beside")),
    "add without rows": (lambda: SUMS.operator(), lambda op: op.add(BESIDE)),
    "remove": (two_queries, lambda op: op.remove("q1")),
    "push left": (joined, lambda op: op.push_left(rows(4, 1))),
    "push right": (joined, lambda op: op.push_right(rows(4, 1))),
    "advance right": (joined, lambda op: op.advance_right(9)),
    "take late rows of the left side": (joined, lambda op: op.take_late_left()),
    "close a join": (joined, lambda op: op.close()),
    "push distinct": (distinct, lambda op: op.push(rows(4, 1))),
    "advance distinct": (distinct, lambda op: op.advance(7)),
    "advance a key of distinct": (distinct, lambda op: op.advance(7, key="a")),
    "push distinct, of sources": (followed, lambda op: op.push(rows(4, 9))),
    "follow the sources of distinct": (followed, lambda op: op.advance()),
    "add a source of distinct": (followed, lambda op: op.add_source("c")),
    "end a source of distinct": (followed, lambda op: op.end_source("b")),
    "take late rows of distinct": (distinct, lambda op: op.take_late()),
    "close distinct": (distinct, lambda op: op.close()),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_that_is_interrupted_has_taken_effect_or_not_and_says_so(kind: str) -> None:
    subject, call = CALLS[kind]
    sound = subject()
    before, calls = state_of(sound), sound.calls
    expected = call(sound)
    after, rest = state_of(sound), rest_of(sound)
    outcomes = set()
    for op, known, result in at_each_moment(subject, call):
        assert known == calls
        has_effect = op.calls > known
        outcomes.add((has_effect, result is None))
        if has_effect:
            assert op.calls == known + 1
            assert op.last() == expected
        else:
            assert result is None
            assert state_of(op) == before
            assert call(op) == expected
        assert result is None or result[0] == expected
        assert state_of(op) == after
        assert rest_of(op) == rest
    # Before it, between it and the assignment of its result, and not at all.
    assert outcomes == {(False, True), (True, True), (True, False)}


BLOCKS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    name: CALLS[name]
    for name in ("first push", "push", "close", "close without rows", "take late rows", "add", "remove")
} | {"push left": CALLS["push left"], "close distinct": CALLS["close distinct"]}


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_result_that_an_interrupt_took_is_there_after_the_block(kind: str) -> None:
    subject, call = BLOCKS[kind]

    def block(op: Any) -> Any:
        with op:
            return call(op)

    expected = call(subject())
    outcomes = set()
    for op, known, result in at_each_moment(subject, block):
        has_effect = op.calls > known
        outcomes.add((has_effect, result is None))
        if has_effect:
            assert op.last() == expected
    assert outcomes == {(False, True), (True, True), (True, False)}


STEPS: dict[str, Callable[[wk.Operator, int], Any]] = {
    "push": lambda op, turn: op.push(rows(10 * turn, 10 * turn + 4)),
    "push a late row": lambda op, turn: op.push(rows(10 * turn, 0)),
    "advance": lambda op, turn: op.advance(10 * turn),
    "take_late": lambda op, turn: op.take_late(),
    "add": lambda op, turn: op.add(BESIDE),
    "remove": lambda op, turn: op.remove([*op.queries][-1]),
    "close": lambda op, turn: op.close(),
}
FAILING: dict[str, Callable[[wk.Operator, int], Any]] = {
    "push": lambda op, turn: op.push(pa.table({"k": ["a"], "t": ["x"], "v": [1]})),
    "advance": lambda op, turn: op.advance("never"),
    "add": lambda op, turn: op.add(wk.query(by="v", time="t", windows=wk.tumbling(5), aggs=wk.count())),
    "remove": lambda op, turn: op.remove("nothing of that name"),
}
ASKING: dict[str, Callable[[wk.Operator, int], Any]] = {
    "peek": lambda op, turn: op.peek(),
    "stats": lambda op, turn: op.stats(),
    "queries": lambda op, turn: op.queries,
    "last": lambda op, turn: op.last(),
}


@given(
    is_bound=st.booleans(),
    steps=st.lists(
        st.tuples(st.just(STEPS), st.sampled_from([*STEPS]))
        | st.tuples(st.just(FAILING), st.sampled_from([*FAILING]))
        | st.tuples(st.just(ASKING), st.sampled_from([*ASKING])),
        max_size=25,
    ),
)
def test_the_last_result_is_that_of_the_last_call_that_counts(
    is_bound: bool, steps: list[tuple[dict[str, Callable[[wk.Operator, int], Any]], str]]
) -> None:
    op = SUMS.operator(order="out-of-order", **({"schema": SCHEMA} if is_bound else {}))
    # Its last results: what came of each call that the count has noticed.
    results: list[Any] = []
    with op:
        for turn, (kind, name) in enumerate(steps):
            before = op.calls
            try:
                result = kind[name](op, turn)
            except wk.WindowKitError:
                assert op.calls == before
            else:
                assert kind is not FAILING
                if op.calls > before:
                    assert kind is STEPS
                    assert op.calls == before + 1
                    results.append(result)
            assert op.calls == len(results)
            if results:
                assert op.last() == results[-1]
    if results:
        assert op.last() == results[-1]
    else:
        with pytest.raises(wk.InvalidValue, match="last: no call"):
            op.last()


def window() -> kernels.Window:
    made = kernels.Window("sum", pa.int64())
    made.slide(pa.array([1, 2, None, 4]), 3)
    return made


CHANGES: dict[str, Callable[[kernels.Window], Any]] = {
    "insert": lambda window: window.insert(pa.array([5, None])),
    "insert a number": lambda window: window.insert(7),
    "slide": lambda window: window.slide(pa.array([5, 6, 7]), 2),
    "evict": lambda window: window.evict(2),
    "clear": lambda window: window.clear(),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_a_window_that_is_interrupted(kind: str) -> None:
    change = CHANGES[kind]

    def seen(window: kernels.Window) -> Any:
        return len(window), window.null_count, window.query()

    sound = window()
    before, expected = seen(sound), change(sound)
    after = seen(sound)
    outcomes = set()
    for changed, known, result in at_each_moment(window, change):
        has_effect = changed.calls > known
        outcomes.add((has_effect, result is None))
        if has_effect:
            assert changed.calls == known + 1
            assert expected is None or changed.last() == expected
        else:
            assert seen(changed) == before
            assert change(changed) == expected
        assert seen(changed) == after
    assert outcomes == {(False, True), (True, True), (True, False)}


def test_an_assignment_to_workers_that_is_interrupted() -> None:
    def partitioner() -> partition.Partitioner:
        made = partition.Partitioner(3, "cam")
        made.assign(pa.array(range(50)))
        return made

    keys = pa.array(range(25, 90))
    sound = partitioner()
    before, expected, after = sound.snapshot(), sound.assign(keys), sound.snapshot()
    outcomes = set()
    for changed, known, result in at_each_moment(partitioner, lambda each: each.assign(keys)):
        has_effect = changed.calls > known
        outcomes.add((has_effect, result is None))
        if has_effect:
            assert changed.calls == known + 1
            assert changed.last() == expected
        else:
            assert changed.snapshot() == before
            assert changed.assign(keys) == expected
        assert changed.snapshot() == after
    assert outcomes == {(False, True), (True, True), (True, False)}


def test_what_was_never_returned_is_not_returned_again() -> None:
    op = SUMS.operator()
    with pytest.raises(wk.InvalidValue, match="last: no call of this operator has returned rows yet"):
        op.last()
    assert op.calls == 0
    with pytest.raises(wk.InvalidType):
        op.push(pa.table({"k": ["a"], "t": ["x"], "v": [1]}))
    assert op.calls == 0
    assert op.push(rows(1, 12)) == op.last()
    windows = op.last()
    # Questions, and calls that fail, leave it as it was.
    assert op.peek().num_rows == 2
    with pytest.raises(wk.InvalidValue, match="which is before"):
        op.push(rows(3))
    assert (op.last(), op.calls) == (windows, 1)
    op.add(BESIDE)
    again = wk.Operator.restore(op.snapshot(), dict(op.queries))
    assert again.calls == 0
    with pytest.raises(wk.InvalidValue, match="last: no call"):
        again.last()
    with again, pytest.raises(wk.InvalidValue, match="last: no call"):
        again.last()
    with pytest.raises(wk.InvalidValue, match="last: no call"):
        again.last()
    with pytest.raises(wk.InvalidValue, match="last: this window has not answered a slide yet"):
        kernels.Window("sum", pa.int64()).last()
    with pytest.raises(wk.InvalidValue, match="last: this partitioner has not assigned any rows yet"):
        partition.Partitioner(2).last()


def test_the_last_result_takes_no_memory_of_its_own() -> None:
    op = SUMS.operator(schema=SCHEMA)
    windows = op.push(rows(1, 12))
    given = {
        buffer.address
        for column in windows.columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if buffer
    }
    again = {
        buffer.address
        for column in op.last().columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if buffer
    }
    assert given & again
