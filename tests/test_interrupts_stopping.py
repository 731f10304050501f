"""What a handler of signals raises comes out of the call as it is, also if Python ends iterations by it."""

from __future__ import annotations

import pytest

from support.programs import program
from windowkit import _native

PROGRAM = """
    import random, signal, sys, time
    import numpy as np
    import pyarrow as pa
    import windowkit as wk

    kind = {each.__name__: each for each in (StopIteration, StopAsyncIteration, GeneratorExit)}[sys.argv[1]]
    rng, chosen = np.random.default_rng(1), random.Random(1)

    def rows(count):
        times = np.arange(count) // 10 + rng.integers(0, 1000, count)
        return pa.table({"k": rng.integers(0, 500, count), "t": times, "v": rng.integers(0, 1000, count)})

    def stop(number, frame):
        raise kind("stop")

    signal.signal(signal.SIGALRM, stop)
    table, query = rows(400_000), wk.query(by="k", time="t", windows=wk.sliding(60, 6), aggs=wk.median("v"))
    join = wk.join(by="k", left_time="t", right_time="t", within=10)
    op = join.operator(table.schema, table.schema)
    op.push_left(table)
    op.push_right(table.slice(0, 100_000))
    narrow = table.cast(pa.schema([("k", pa.int32()), ("t", pa.int64()), ("v", pa.int32())]))

    def push():
        # The batches are cast in Python.
        operator = query.operator(order="out-of-order", schema=table.schema)
        try:
            return operator.push(narrow.to_reader(1000))
        except BaseException:
            # All of it has taken effect, or nothing.
            assert operator.stats().rows == (narrow.num_rows if operator.calls else 0)
            raise

    def batches():
        try:
            return query.batches(table).read_all()
        except RuntimeError as error:
            # An iterator that raises StopIteration has ended: rows would be missing, and nobody would know.
            assert kind is StopIteration
            raise error.__cause__

    calls = {
        "snapshot of a join": lambda: op.snapshot(),
        "join": lambda: join.run(table, table),
        "batches": batches,
        "push": push,
        "rolling": lambda: wk.rolling(by="k", time="t", aggs=wk.median("v").over(50)).run(table),
    }
    for name, call in calls.items():
        began = time.perf_counter()
        whole = call()
        taken = time.perf_counter() - began
        interrupted = 0
        for attempt in range(30):
            signal.setitimer(signal.ITIMER_REAL, taken * chosen.uniform(0.05, 0.6))
            try:
                result = call()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except kind as raised:
                assert raised.args == ("stop",)
                interrupted += 1
                if interrupted == 5:
                    break
                continue
            # Either it ended before the signal, or the signal was lost.
            assert result == whole, name
        assert interrupted, f"{name} was never interrupted"
        assert call() == whole, name
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["StopIteration", "StopAsyncIteration", "GeneratorExit"])
def test_exceptions_that_end_iterations_come_out_of_calls(kind: str) -> None:
    program(PROGRAM, kind)


def test_a_reader_does_not_end_where_a_function_of_its_own_raises_stop_iteration() -> None:
    raises = iter([False, True, False, False])

    def make(item: int) -> int:
        if next(raises):
            raise StopIteration("stop")
        return item

    read = _native.Synchronized(iter([1, 2, 3]), lambda work: work(), make)
    assert next(read) == 1
    with pytest.raises(RuntimeError) as failure:
        next(read)
    assert repr(failure.value.__cause__) == "StopIteration('stop')"
    # Nothing is lost: what could not be made comes next.
    assert list(read) == [2, 3]
