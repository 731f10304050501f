"""Interrupted at any moment, calls of operators have taken effect, and their results are there, or not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk
from support.programs import program
from support.signals import needs_whole_steps

PROGRAM = """
    import random, signal, sys
    from collections import Counter
    import pyarrow as pa
    import windowkit as wk

    order, clock, seed, rounds = sys.argv[1], sys.argv[2] == "clock", int(sys.argv[3]), int(sys.argv[4])
    armed = False
    interrupts = lost = 0

    def interrupt(number, frame):
        if armed:
            raise KeyboardInterrupt

    # Within a call, and between its return and the unsetting of `armed`.
    signal.signal(signal.SIGALRM, interrupt)
    rng = random.Random(seed)

    def surely(call):
        \"\"\"Call until it has taken effect; its result may be asked for once more.\"\"\"
        global armed, interrupts, lost
        while True:
            before = op.calls
            after = rng.choice([0, rng.uniform(1e-6, 4e-4), rng.uniform(1e-6, 3e-3)])
            signal.setitimer(signal.ITIMER_REAL, after)
            try:
                armed = True
                result = call()
                # The call has returned, and what follows may be interrupted, too.
                result = [result][0]
                armed = False
                return result
            except KeyboardInterrupt:
                armed = False
                interrupts += 1
                if op.calls > before:
                    lost += 1
                    return op.last()

    query = wk.query(
        by="k",
        time=wk.PROCESSING_TIME if clock else "t",
        windows=wk.tumbling("10 microseconds" if clock else 10),
        aggs=[wk.sum("v"), wk.collect_list("v")],
    )
    beside = wk.query(
        by="k", time=query.time, windows=wk.tumbling(rows=3), aggs=wk.collect_list("v")
    )
    ticks = iter(range(1 << 40))
    options = {"clock": lambda: next(ticks)} if clock else {}
    if order == "out-of-order":
        options |= {"progress": wk.delay(5)}
    op = query.operator(order=order, **options)
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64()})
    given, got, by_rows = Counter(), Counter(), Counter()
    now = pushed = 0
    reached = -5

    def collect(result):
        for row in result.to_pylist():
            assert not row["update"], row
            (got if row.get("query_name", "q1") == "q1" else by_rows).update(row["collect_list(v)"])

    def collect_late(taken):
        # A row at the time of the latest one before a query was added is late for that query alone.
        late = taken.to_pylist()
        got.update(row["v"] for row in late if row.get("query_name", "q1") == "q1")

    for turn in range(rounds):
        times = []
        for _ in range(rng.randrange(6)):
            now += rng.randrange(4)
            times.append(now if order == "in-order" else max(0, now - rng.randrange(12)))
        values = list(range(pushed, pushed + len(times)))
        pushed += len(times)
        given.update(values)
        batch = pa.table([[rng.randrange(3) for _ in times], times, values], schema=schema)
        collect(surely(lambda: op.push(batch)))
        if turn == rounds // 2 and order == "in-order":
            assert surely(lambda: op.add(beside, name="rows")) == "rows"
        if rng.random() < 0.3 and not clock:
            at = now - 5 if order == "out-of-order" else now
            collect(surely(lambda: op.advance(max(at, reached))))
            reached = max(at, reached)
        if rng.random() < 0.1:
            collect_late(surely(lambda: op.take_late()))
        if rng.random() < 0.05:
            queries, snapshot = dict(op.queries), surely(lambda: op.snapshot())
            op = wk.Operator.restore(snapshot, queries, clock=options.get("clock"))
    collect(surely(lambda: op.close()))
    collect_late(surely(lambda: op.take_late()))
    assert got == given, (got - given, given - got)
    # The query by rows has those that came after it, but for the last window of each key.
    assert set(by_rows.values()) <= {1} and len(by_rows) <= len(given)
    assert order != "in-order" or len(by_rows) > len(given) // 3, len(by_rows)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(interrupts, lost)
"""


@needs_whole_steps
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", ["in-order", "out-of-order", "clock"])
def test_rows_in_are_rows_in_windows_and_late_rows(order: str, seed: int) -> None:
    clock = "clock" if order == "clock" else "event"
    rounds = 400
    output = program(PROGRAM, "in-order" if order == "clock" else order, clock, seed, rounds)
    assert int(output.split()[0]) > 0


FORK = """
    import os, signal, sys, threading
    import pyarrow as pa
    import pyarrow.compute as pc
    import windowkit as wk

    within, go_on = threading.Event(), threading.Event()

    def lift(v):
        # Without rows when the query is planned.
        if len(v):
            within.set()
            assert go_on.wait(60)
        return v

    total = wk.aggregate("total", lift=lift, combine=pc.add, lower=lambda s: s, commutative=True)
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=total("v"))
    batch = pa.table({"k": [1], "t": [1], "v": [2]})
    if sys.argv[1] == "query":
        op = query.operator(schema=batch.schema)
        push, rows = op.push, batch
    else:
        # The core asks for rows, and waits for them.
        rows = pa.RecordBatchReader.from_batches(batch.schema, map(lift, batch.to_batches()))
    if sys.argv[1] == "join":
        join = wk.join(by="k", left_time="t", right_time="t", within=1, how="anti")
        op = join.operator(batch.schema, batch.schema)
        push = op.push_left
    if sys.argv[1] == "distinct":
        op = wk.distinct("k", time="t", within=1).operator(batch.schema)
        push = op.push

    def child():
        # Without a thread to end it, a call that waits ends here.
        signal.alarm(30)
        try:
            op.stats()
        except wk.InvalidValue as error:
            assert "stats: another thread was calling the operator when this process was forked" in str(error)
            os._exit(3)
        os._exit(0)

    def fork():
        process = os.fork()
        if process == 0:
            child()
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    assert fork() == 0
    pushing = threading.Thread(target=push, args=[rows])
    pushing.start()
    assert within.wait(60)
    assert fork() == 3
    go_on.set()
    pushing.join()
    assert fork() == 0
    assert op.close()["total(v)" if sys.argv[1] == "query" else "v"].to_pylist() == [2]
"""


@pytest.mark.parametrize("kind", ["query", "join", "distinct"])
def test_a_fork_while_another_thread_pushes_is_an_error_in_the_child_and_not_a_hang(kind: str) -> None:
    program(FORK, kind)


SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64()})
OPERATORS = [
    wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count()).operator(),
    wk.join(by="k", left_time="t", right_time="t", within=1).operator(SCHEMA, SCHEMA),
    wk.distinct("k", time="t", within=1).operator(SCHEMA),
]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: type(op).__name__)
def test_an_operator_is_neither_copied_nor_pickled(copied: Callable[[object], object], op: object) -> None:
    with pytest.raises(wk.InvalidType, match=rf"its snapshot\(\) can, and {type(op).__name__}\.restore"):
        copied(op)


ANTI = wk.join(by="k", left_time="t", right_time="t", within=1, how="anti")


class Interrupted:
    """Batches of a stream, before the third of which a signal handler raises."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches, self.fetched = iter(batches), 0

    def __iter__(self) -> Interrupted:
        return self

    def __next__(self) -> pa.RecordBatch:
        self.fetched += 1
        if self.fetched == 3:
            raise KeyboardInterrupt
        return next(self.batches)


@pytest.mark.parametrize(
    ("make", "call"),
    [
        (wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n")).operator, "push"),
        (lambda schema: ANTI.operator(schema, schema), "push_left"),
        (wk.distinct("k", time="t", within=0).operator, "push"),
    ],
    ids=["query", "join", "distinct"],
)
def test_a_reader_is_pushed_as_a_whole_and_moves_on(make: Callable[..., Any], call: str) -> None:
    """What docs/reference/operator.md says of Ctrl-C in a push of many batches, and how to go on."""
    table = pa.table({"k": [1] * 6, "t": range(6)}, SCHEMA)
    batches = table.to_batches(max_chunksize=2)

    def pushed(*given: Any) -> Any:
        op = make(schema=SCHEMA)
        for each in given:
            getattr(op, call)(each)
        return op

    op, reader = pushed(), pa.RecordBatchReader.from_batches(SCHEMA, Interrupted(batches))
    before = op.snapshot()
    with pytest.raises(KeyboardInterrupt):
        getattr(op, call)(reader)
    assert op.snapshot() == before
    getattr(op, call)(reader)
    assert op.close() == pushed(batches[2]).close() != pushed(table).close()
    # A new reader, or batch by batch.
    for given in ([table.to_reader(max_chunksize=2)], batches):
        assert pushed(*given).close() == pushed(table).close()


@pytest.mark.parametrize("shed", [None, "60 kB"])
@pytest.mark.parametrize("commutative", [True, False])
def test_an_interrupt_of_a_users_function_comes_out_of_the_call(shed: str | None, commutative: bool) -> None:
    """Also where the function runs in what a call does after its results are known."""
    ran, due = 0, 0

    def combine(a: pa.Array, b: pa.Array) -> pa.Array:
        nonlocal ran
        ran += 1
        if ran == due:
            raise KeyboardInterrupt
        return pc.add(a, b)

    own = wk.aggregate("own", lift=lambda v: v, combine=combine, lower=lambda s: s, commutative=commutative)
    wide, narrow = (
        wk.query(by="k", time="t", windows=wk.tumbling(size), aggs=[own("v"), wk.count()])
        for size in (100, 37)
    )

    def interrupts() -> int:
        """Make the calls of a stream, those that are interrupted without effect again."""
        nonlocal ran
        ran, interrupted, random = 0, 0, np.random.default_rng(5)
        limit = None if shed is None else wk.shed(shed)
        op = wide.operator(order="out-of-order", allowed_lateness=30, shed=limit)

        def pushed(start: int) -> Callable[[], object]:
            times = random.integers(max(0, start - 300), start + 400, 1500)
            keys, values = random.integers(0, 40, 1500), random.integers(0, 100, 1500)
            table = pa.table({"k": keys, "t": times, "v": values})
            return lambda: op.push(table)

        steps: list[Callable[[], object]] = [pushed(400 * at) for at in range(8)]
        steps.insert(3, lambda: op.add(narrow, name="narrow"))
        steps.insert(5, lambda: op.advance(1000))
        steps.insert(6, op.stats)
        steps.insert(8, lambda: op.remove("narrow"))
        for step in [*steps, op.close]:
            before = op.calls
            try:
                step()
            except KeyboardInterrupt:
                interrupted += 1
                if op.calls == before:
                    step()
        return interrupted

    assert interrupts() == 0
    all_runs = ran
    for at in range(1, all_runs, max(1, all_runs // 25)):
        due = at
        assert interrupts() == 1
