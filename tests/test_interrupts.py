"""A signal ends a long call early, and the state is as it was before the call.

Whether that is soon enough is judged by how long the whole call takes on the machine at hand.
"""

from __future__ import annotations

import sys
from types import FrameType

import pyarrow as pa
import pytest

import windowkit as wk
from support.programs import program
from support.signals import needs_whole_steps

HEAD = """
    import signal, sys, threading, time
    from dataclasses import replace
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import windowkit as wk
    from windowkit import kernels
    from windowkit.local.query import plan

    rng = np.random.default_rng(int(sys.argv[1]))

    def rows(count, keys, span, disorder):
        times = np.arange(count) * span // count + rng.integers(0, disorder + 1, count)
        columns = {"k": rng.integers(0, keys, count), "t": times, "v": rng.integers(0, 1000, count)}
        return pa.table(columns)

    def query(windows, *aggs):
        return wk.query(by="k", time="t", windows=windows, aggs=list(aggs) or [wk.sum("v"), wk.max("v")])

    class Stop(BaseException):
        \"\"\"Not an Exception, which a user-defined function would be said to have raised.\"\"\"

    def stop(number, frame):
        raise Stop

    def timed(call):
        began = time.perf_counter()
        result = call()
        return result, time.perf_counter() - began

    def stopped(call, whole, once=False):
        \"\"\"Interrupt a call that takes so long as a whole: it must notice that in its first half.

        One that can be made only once, and ends before the signal, as the first such call was slower,
        is not made again: its result is returned.
        \"\"\"
        for attempt in range(5):
            # A machine may be busy with something else for a while, but not always just then.
            after = whole * rng.uniform(0.05, 0.3)
            began = time.perf_counter()
            result = None
            signal.setitimer(signal.ITIMER_REAL, after)
            try:
                result = call()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stop:
                # It may also come after the call, before the end of the timer.
                pass
            taken = time.perf_counter() - began
            if result is None:
                if taken < whole / 2:
                    return
            elif once:
                return result
            else:
                # Either it never notices, or the first call was slower than others are.
                whole = min(whole, taken)
        raise AssertionError(
            f"interrupted after {after} s, but only noticed after {taken} s of {whole} s, if at all")

    signal.signal(signal.SIGALRM, stop)
"""

WHOLE = """
    kind = sys.argv[2]
    shuffled = lambda count, keys: rows(count, keys, count // 10, count)
    ordered = lambda count, keys: rows(count, keys, count, 0)
    by_rows = wk.sliding("20 rows", "2 rows")
    total = wk.aggregate("total", lift=lambda v: v, combine=pc.add, lower=lambda s: s, commutative=True)

    def batches(asked, data):
        return lambda: pa.Table.from_batches(asked.batches(data, threads=1))

    def join(asked, left, right, threads=1):
        return lambda: asked.run(left, right, threads=threads)

    def engine(asked, data):
        planned, batch = plan(asked, data.schema), data.combine_chunks().to_batches()[0]

        def call():
            engine = planned.engine()
            engine.push(batch)
            return pa.Table.from_batches(map(pa.record_batch, engine.finish()))

        return call

    def kernel(**options):
        values = pa.array(rng.random(1_000_000))
        return lambda: kernels.sliding(values, agg="std", **options)

    CALLS = {
        "run": lambda: (lambda asked, data: lambda: asked.run(data, threads=1))(
            query(wk.sliding(600, 60)), shuffled(2_000_000, 30_000)),
        "run, two threads": lambda: (lambda asked, data: lambda: asked.run(data, threads=2))(
            query(wk.sliding(600, 60)), shuffled(3_000_000, 30_000)),
        "run, one key": lambda: (lambda asked, data: lambda: asked.run(data, threads=1))(
            query(wk.tumbling(1)), shuffled(3_000_000, 1)),
        "run, rows": lambda: (lambda asked, data: lambda: asked.run(data, threads=2))(
            query(by_rows), shuffled(8_000_000, 3)),
        "run, median": lambda: (lambda asked, data: lambda: asked.run(data, threads=1))(
            query(wk.sliding(600, 60), wk.median("v")), shuffled(2_000_000, 3)),
        "run, user": lambda: (lambda asked, data: lambda: asked.run(data, threads=1))(
            query(wk.sliding(600, 60), total("v")), shuffled(3_000_000, 100)),
        "run, rolling": lambda: (lambda asked, data: lambda: asked.run(data, threads=2))(
            wk.rolling(by="k", time="t", aggs=[wk.max("v").over(600), wk.median("v").over("600 rows")]),
            shuffled(2_000_000, 3)),
        "run, join": lambda: join(
            wk.join(by="k", left_time="t", right_time="t", within=2, how="full"),
            *(shuffled(1_500_000, 30_000) for _ in range(2))),
        "run, join of one key": lambda: join(
            wk.join(by=[], left_time="t", right_time="t", windows=wk.tumbling(2), left_columns="v"),
            *(shuffled(500_000, 3) for _ in range(2)), threads=2),
        "batches": lambda: batches(query(wk.sliding(50, 1)), ordered(2_000_000, 2)),
        "engine": lambda: engine(query(wk.session(3)), shuffled(2_000_000, 1000)),
        "kernel": lambda: kernel(size=3000, algorithm="recalculate"),
    }
    call = CALLS[kind]()
    expected, whole = timed(call)
    stopped(call, whole)
    # What was interrupted leaves nothing behind.
    again, _ = timed(call)
    assert again.equals(expected)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "run",
        "run, two threads",
        "run, one key",
        "run, rows",
        "run, median",
        "run, user",
        "run, rolling",
        "run, join",
        "run, join of one key",
        "batches",
        "engine",
        "kernel",
    ],
)
def test_a_long_call_notices_a_signal(kind: str) -> None:
    program(HEAD + WHOLE, 1, kind)


STREAM = """
    kind, order = sys.argv[2], sys.argv[3]
    disorder = 0 if order == "in-order" else 1 << 30
    windows = {
        "slices": wk.sliding(600, 60),
        "sessions": wk.session(2),
        "rows": wk.sliding("20 rows", "2 rows"),
    }[kind]
    count, keys = {
        "slices": (1_000_000, 10_000),
        "sessions": (3_000_000, 1000),
        "rows": (4_000_000, 3),
    }[kind]
    aggs = [wk.sum("v"), wk.count("v")]
    first, second = (rows(count, keys, count // 10, min(disorder, count // 20)) for _ in range(2))
    second = second.set_column(1, "t", pc.add(second["t"], count // 10))
    options = {} if order == "in-order" else {"progress": wk.delay(count // 20)}
    asked = query(windows, *aggs)

    def operator():
        return asked.operator(order=order, schema=first.schema, **options)

    # Each call of an operator that nobody interrupts.
    op, results, times = operator(), [], []
    snapshot = None
    for call in [lambda: op.push(first), lambda: op.push(second), lambda: op.snapshot(), lambda: op.close()]:
        result, whole = timed(call)
        results.append(result)
        times.append(whole)

    # How long they take depends on the machine; the longest is interrupted on any.
    LONG = min(0.3, max(times))
    op, interrupted = operator(), 0
    for number, call in enumerate(
        [lambda: op.push(first), lambda: op.push(second), lambda: op.snapshot(), lambda: op.close()]
    ):
        if times[number] >= LONG:
            before = replace(op.stats(), bytes=0)
            done = stopped(call, times[number], once=True)
            if done is not None:
                assert done == results[number], number
                continue
            # Room that was made may stay.
            assert replace(op.stats(), bytes=0) == before
            interrupted += 1
        assert call() == results[number], number
    assert interrupted > 0
    _, whole = timed(lambda: wk.Operator.restore(results[2], asked))
    if whole > LONG:
        stopped(lambda: wk.Operator.restore(results[2], asked), whole)
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize("kind", ["slices", "sessions", "rows"])
def test_a_long_call_of_an_operator_is_undone(kind: str, order: str) -> None:
    program(HEAD + STREAM, 2, kind, order)


JOINED = """
    first, second = (rows(1_500_000, 10_000, 150_000, 100_000) for _ in range(2))
    join = wk.join(by="k", left_time="t", right_time="t", within=20, how="full")

    def calls(op):
        pushes = [lambda: op.push_left(first), lambda: op.push_right(second)]
        return [*pushes, lambda: op.snapshot(), lambda: op.close()]

    op, results, times = join.operator(first.schema, first.schema), [], []
    for call in calls(op):
        result, whole = timed(call)
        results.append(result)
        times.append(whole)
    op, interrupted = join.operator(first.schema, first.schema), 0
    for number, call in enumerate(calls(op)):
        if times[number] >= min(0.3, max(times)):
            before = replace(op.stats(), bytes=0)
            done = stopped(call, times[number], once=True)
            if done is not None:
                assert done == results[number], number
                continue
            # Room that was made may stay, and so may keys.
            assert replace(op.stats(), bytes=0, keys=before.keys) == before
            interrupted += 1
        assert call() == results[number], number
    assert interrupted > 0
"""


@pytest.mark.slow
def test_a_long_call_of_a_join_of_streams_is_undone() -> None:
    program(HEAD + JOINED, 4)


SLIDE = """
    window, same = kernels.Window("std", pa.float64()), kernels.Window("std", pa.float64())
    values = pa.array(rng.random(8_000_000))
    for each in (window, same):
        each.slide(values[:3000], 2000)
    expected, whole = timed(lambda: same.slide(values, 1000))
    before = (len(window), window.query())
    stopped(lambda: window.slide(values, 1000), whole)
    assert (len(window), window.query()) == before
    assert window.slide(values, 1000).equals(expected)
"""


@pytest.mark.slow
def test_a_long_slide_of_a_window_is_undone() -> None:
    program(HEAD + SLIDE, 3)


ANY_MOMENT = """
    by_rows, seed = sys.argv[2] == "rows", int(sys.argv[1])
    asked = query(wk.tumbling(rows=7) if by_rows else wk.tumbling(50), wk.sum("v"), wk.count("v"))
    schema = rows(1, 1, 1, 0).schema
    op = asked.operator(order="out-of-order", progress=wk.delay(5000), schema=schema)
    count, taken, parts, interrupts, armed = 200_000, [], [], 0, False

    def interrupt(number, frame):
        if armed:
            raise Stop

    # Within a call, and between its return and the unsetting of `armed`.
    signal.signal(signal.SIGALRM, interrupt)

    def surely(call):
        \"\"\"Call until it has taken effect; its result may be asked for once more.\"\"\"
        global armed, interrupts
        for attempt in range(100):
            before = op.calls
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.05 * 1.3**attempt))
            try:
                armed = True
                result = call()
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                return result
            except Stop:
                armed = False
                interrupts += 1
                if op.calls > before:
                    return op.last()

    for turn in range(8):
        batch = rows(count, 40, 100_000, 4000)
        batch = batch.set_column(1, "t", pc.add(batch["t"], 100_000 * turn))
        taken.append(batch)
        parts.append(surely(lambda: op.push(batch)))
        if turn == 5:
            op = wk.Operator.restore(surely(lambda: op.snapshot()), asked)
    parts.append(surely(lambda: op.close()))
    late = op.take_late()
    assert late.num_rows == 0, late
    assert interrupts > 0
    # The definition, by sorting.
    keys, times, values = (np.concatenate([batch[name].to_numpy() for batch in taken]) for name in "ktv")
    sort = np.lexsort((np.arange(len(times)), times, keys))
    keys, times, values = keys[sort], times[sort], values[sort]
    if by_rows:
        starts = np.searchsorted(keys, keys)
        group = (np.arange(len(keys)) - starts) // 7
        groups = keys.astype(np.int64) * len(keys) + group
    else:
        groups = keys.astype(np.int64) * 10**9 + times // 50
    _, first, counts = np.unique(groups, return_index=True, return_counts=True)
    sums = np.add.reduceat(values, first)
    if by_rows:
        sums, counts = sums[counts == 7], counts[counts == 7]
    got = pa.concat_tables(parts)
    assert not pc.any(got["update"]).as_py()
    key = lambda sums, counts: np.sort(sums.astype(np.int64) * 1000 + counts)
    assert (key(got["sum(v)"].to_numpy(), got["count(v)"].to_numpy()) == key(sums, counts)).all()
"""


@needs_whole_steps
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slices", "rows"])
@pytest.mark.parametrize("seed", range(2))
def test_calls_that_are_interrupted_anywhere_and_made_again_count_each_row_once(kind: str, seed: int) -> None:
    program(HEAD + ANY_MOMENT, seed, kind)


READERS = """
    data = rows(2_000_000, 2, 2_000_000, 0)
    asked = query(wk.sliding(50, 1))
    planned = plan(asked, data.schema)
    everything = asked.run(data, threads=1)
    batches = planned.batches(data, 1)
    _, whole = timed(lambda: [pa.record_batch(batch) for batch in batches])

    # Interrupts a call in its first quarter, and returns what it raises; each time, another one is made.
    def interrupted(made, *kinds):
        global whole
        for attempt in range(5):
            call = made()
            began = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, whole / 4)
            try:
                call()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except kinds as error:
                return error
            # A busy machine may have been slow before, and be done now before the signal comes.
            whole = min(whole, time.perf_counter() - began)
        raise AssertionError("not interrupted")

    def reading():
        global batches
        batches = planned.batches(data, 1)
        return lambda: sum(pa.record_batch(batch).num_rows for batch in batches)

    # Batches that were interrupted do not end as if there were no more.
    interrupted(reading, Stop)
    try:
        left = sum(pa.record_batch(batch).num_rows for batch in batches)
    except wk.InvalidValue as error:
        assert "interrupted" in str(error), error
    else:
        # The signal came between two of them.
        assert 0 < left < everything.num_rows, left

    # A C stream reports an error, which is not the signal handler's own exception.
    def reading_all():
        return pa.RecordBatchReader.from_stream(planned.batches(data, 1)).read_all

    error = interrupted(reading_all, Stop, OSError, pa.ArrowException)
    assert isinstance(error, Stop) or "interrupted by Stop" in str(error), error

    # A signal handler may call anything, even what it interrupts.
    errors, taken = [], [0]

    def handler(number, frame):
        try:
            # Between two batches it takes the next one, but at their end, where there is none.
            batch = next(batches, None)
            taken.append(0 if batch is None else pa.record_batch(batch).num_rows)
        except wk.InvalidValue as error:
            errors.append(str(error))
        assert query(wk.tumbling(5)).run(rows(100, 2, 100, 0)).num_rows > 0
        if len(errors) == 5:
            signal.setitimer(signal.ITIMER_REAL, 0)

    batches = planned.batches(data, 2)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, whole / 50, whole / 50)
    seen = sum(pa.record_batch(batch).num_rows for batch in batches)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert all("signal handler" in error for error in errors), errors
    assert seen + sum(taken) == everything.num_rows

    # What a handler raises is what the call raises, even if it is an ordinary exception.
    def late(number, frame):
        raise TimeoutError("late")

    signal.signal(signal.SIGALRM, late)
    error = interrupted(lambda: lambda: asked.run(data, threads=2), TimeoutError)
    assert str(error) == "late"

    # Other threads than Python's main thread handle no signals, and are not held up by them.
    signal.signal(signal.SIGALRM, stop)
    results = []
    threading.Thread(target=lambda: results.append(asked.run(data, threads=1))).start()
    signal.setitimer(signal.ITIMER_REAL, whole / 8)
    try:
        while not results:
            time.sleep(0.01)
    except Stop:
        pass
    while not results:
        time.sleep(0.01)
    assert results[0] == everything
"""


@pytest.mark.slow
def test_readers_handlers_and_other_threads() -> None:
    program(HEAD + READERS, 3)


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt, SystemExit, StopIteration, StopAsyncIteration, GeneratorExit]
)
def test_a_signal_while_a_stream_is_read_is_not_made_an_error_of_the_data(
    raised: type[BaseException],
) -> None:
    # The type of column v makes Python cast each batch. Where Python handles a signal, it traces a call.
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=[wk.sum("v")])
    schema = pa.schema([("t", pa.int64()), ("v", pa.float64())])
    table = pa.table({"t": [1, 2, 30], "v": pa.array([1, 2, 3], pa.int32())})
    batches = pa.Table.from_batches([table.slice(0, 2).to_batches()[0], table.slice(2).to_batches()[0]])
    for steps in range(1000):
        left = steps

        def interrupt(frame: FrameType, event: str, argument: object) -> None:
            nonlocal left
            if "windowkit" in frame.f_code.co_filename:
                left -= 1
                if left < 0:
                    sys.settrace(None)
                    raise raised

        operator = query.operator(schema=schema)
        sys.settrace(interrupt)
        try:
            operator.push(batches)
        except raised:
            continue
        except RuntimeError as error:
            # What Python itself makes of it in the frame of a generator.
            if raised is not StopIteration or not isinstance(error.__cause__, raised):
                raise
            continue
        finally:
            sys.settrace(None)
        break
    assert steps > 5
    assert left >= 0
    assert operator.close()["sum(v)"].to_pylist() == [3.0]
